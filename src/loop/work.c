/*
 * Work on the thread pool, and signals: thin over libuv, each in a block of its own that is freed
 * when libuv has let go.
 */
#include "base/mem.h"
#include "loop/internal.h"

/* ---- work ---- */

struct work_request {
    uv_work_t uv;
    struct work *work;
};

static void on_work_run(uv_work_t *uv)
{
    struct work *work = CONTAINER_OF(uv, struct work_request, uv)->work;
    work->run(work);
}

static void on_work_done(uv_work_t *uv, int status)
{
    struct work_request *request = CONTAINER_OF(uv, struct work_request, uv);
    struct loop *loop = loop_of(uv->loop);
    struct work *work = request->work;
    ASSERT(status == 0); /* nothing cancels work */
    loop_enter(loop);
    loop->work_count--;
    work->handle = NULL;
    mem_free(request);
    work->done(work);
}

int work_start(struct loop *loop, struct work *work)
{
    ASSERT(work->run && work->done && !work->handle);
    struct work_request *request = mem_zalloc(sizeof(*request));
    if (!request)
        return ERR_NOMEM;
    request->work = work;
    work->handle = request;
    int rc = uv_queue_work(&loop->uv, &request->uv, on_work_run, on_work_done);
    if (rc != 0) {
        work->handle = NULL;
        mem_free(request);
        return loop_err_from_uv(rc);
    }
    loop->work_count++;
    return OK;
}

/* ---- signals ---- */

static void on_signal(uv_signal_t *uv, int signum)
{
    struct signal_watch *watch = uv->data;
    loop_enter(loop_of(uv->loop));
    watch->on_signal(watch, signum);
}

int signal_watch_start(struct loop *loop, struct signal_watch *watch, int signum)
{
    ASSERT(watch->on_signal && !watch->handle);
    uv_signal_t *uv = mem_zalloc(sizeof(*uv));
    if (!uv)
        return ERR_NOMEM;
    int rc = uv_signal_init(&loop->uv, uv);
    if (rc != 0) {
        mem_free(uv);
        return loop_err_from_uv(rc);
    }
    uv->data = watch;
    rc = uv_signal_start(uv, on_signal, signum);
    if (rc != 0) {
        loop_handle_close((uv_handle_t *)uv);
        return loop_err_from_uv(rc);
    }
    uv_unref((uv_handle_t *)uv);
    watch->handle = uv;
    return OK;
}

void signal_watch_stop(struct signal_watch *watch)
{
    if (!watch->handle)
        return;
    loop_handle_close(watch->handle);
    watch->handle = NULL;
}
