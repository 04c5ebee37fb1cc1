/*
 * Work on the thread pool, and signals: a thin layer over libuv, each in a separate block that is
 * freed once libuv has released it.
 */
#include <sys/resource.h>

#include "base/mem.h"
#include "loop/internal.h"

enum { POOL_NICE = 5 }; /* the nice value at which a thread gets a third of the loop's weight */

/* ---- work ---- */

struct work_request {
    uv_work_t uv;
    struct work *work;
};

/* Pool threads run at a lower priority than the loop: among busy threads of equal priority the
 * loop, and every request with it, would wait tens of milliseconds for a core. */
static void pool_thread_yield(void)
{
    static _Thread_local bool is_done;
    if (is_done)
        return;
    is_done = true;
    (void)setpriority(PRIO_PROCESS, 0, POOL_NICE); /* on Linux, affects this thread only */
}

static void on_work_run(uv_work_t *uv)
{
    struct work *work = CONTAINER_OF(uv, struct work_request, uv)->work;
    /* Priority is per thread, and libuv has no hook for the start of a thread, so the first work
     * that a thread runs sets it. */
    pool_thread_yield();
    work->run(work);
}

static void run_done(struct loop_task *task)
{
    struct work *work = CONTAINER_OF(task, struct work, task);
    struct work_request *request = work->handle;
    /* The count is decremented before done(), which may start the next work with the same
     * struct. */
    loop_of(request->uv.loop)->work_count--;
    work->handle = NULL;
    mem_free(request);
    work->done(work);
}

/* libuv reports all work finished since the last poll at once. Each work gets its own task, so that
 * the time limit of the drain applies. */
static void on_work_done(uv_work_t *uv, int status)
{
    struct loop *loop = loop_of(uv->loop);
    ASSERT(status == 0); /* nothing cancels work */
    loop_enter(loop);
    loop_task_queue(loop, &CONTAINER_OF(uv, struct work_request, uv)->work->task);
}

int work_start(struct loop *loop, struct work *work)
{
    ASSERT(work->run && work->done && !work->handle);
    struct work_request *request = mem_zalloc(sizeof(*request));
    if (!request)
        return ERR_NOMEM;
    request->work = work;
    work->handle = request;
    /* The task is set up before the work is queued: a pool thread may finish at once. */
    loop_task_init(&work->task, run_done);
    int rc = uv_queue_work(&loop->uv, &request->uv, on_work_run, on_work_done);
    if (rc != 0) {
        work->handle = NULL;
        mem_free(request);
        return loop_err_from_uv(rc);
    }
    loop->work_count++;
    return OK;
}

/* ---- the pool's threads ---- */

static void on_first_run(uv_work_t *uv)
{
    (void)uv; /* nothing to do: libuv creates its threads for the first work */
}

static void on_first_done(uv_work_t *uv, int status)
{
    (void)uv, (void)status;
}

/* Uses a separate loop, since libuv creates its threads for the first work of any loop. */
static void run_pool_starter(void *unused)
{
    (void)unused;
    uv_loop_t uv;
    uv_work_t first;
    if (uv_loop_init(&uv) != 0)
        return; /* without the starter, the threads are created when they are needed */
    if (uv_queue_work(&uv, &first, on_first_run, on_first_done) == 0)
        uv_run(&uv, UV_RUN_DEFAULT);
    int rc = uv_loop_close(&uv);
    ASSERT(rc == 0);
}

void loop_pool_start(struct loop *loop)
{
    if (!loop->has_pool_starter)
        loop->has_pool_starter = uv_thread_create(&loop->pool_starter, run_pool_starter, NULL) == 0;
}

void loop_pool_started(struct loop *loop)
{
    if (loop->has_pool_starter)
        uv_thread_join(&loop->pool_starter);
    loop->has_pool_starter = false;
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
    /* A watched signal alone does not keep the loop running. */
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
