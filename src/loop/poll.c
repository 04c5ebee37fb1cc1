/*
 * Readiness of a foreign descriptor (libpq's socket). libuv reports a broken descriptor as a status
 * without events and stops watching. This is passed on as readable and writable, so that the owner
 * finds the error by using the descriptor, and the next poll_watch_set watches again.
 */
#include "base/mem.h"
#include "loop/internal.h"

struct poll_watch {
    uv_poll_t uv;
    void (*on_ready)(void *owner, int events);
    void *owner;
    int events; /* what libuv watches now */
    bool is_freed;
    struct loop_garbage garbage;
};

static void on_poll(uv_poll_t *uv, int status, int uv_events)
{
    struct poll_watch *watch = CONTAINER_OF(uv, struct poll_watch, uv);
    loop_enter(loop_of(uv->loop));
    if (watch->is_freed)
        return;
    int events = 0;
    if (status < 0) {
        watch->events = 0;
        events = POLL_READ | POLL_WRITE;
    } else {
        events |= uv_events & UV_READABLE ? POLL_READ : 0;
        events |= uv_events & UV_WRITABLE ? POLL_WRITE : 0;
    }
    if (!events)
        events = POLL_READ | POLL_WRITE;
    watch->on_ready(watch->owner, events);
}

struct poll_watch *poll_watch_new(struct loop *loop, int fd,
                                  void (*on_ready)(void *owner, int events), void *owner)
{
    ASSERT(on_ready);
    struct poll_watch *watch = mem_zalloc(sizeof(*watch));
    if (!watch)
        return NULL;
    watch->on_ready = on_ready;
    watch->owner = owner;
    if (uv_poll_init(&loop->uv, &watch->uv, fd) != 0) {
        mem_free(watch);
        return NULL;
    }
    return watch;
}

void poll_watch_set(struct poll_watch *watch, int events)
{
    ASSERT(!watch->is_freed && (events & ~(POLL_READ | POLL_WRITE)) == 0);
    if (events == watch->events)
        return;
    int uv_events = (events & POLL_READ ? UV_READABLE : 0) |
                    (events & POLL_WRITE ? UV_WRITABLE : 0);
    int rc = uv_events ? uv_poll_start(&watch->uv, uv_events, on_poll) : uv_poll_stop(&watch->uv);
    ASSERT(rc == 0); /* fails only on a closing handle */
    watch->events = events;
}

static void free_watch(struct loop_garbage *garbage)
{
    mem_free(CONTAINER_OF(garbage, struct poll_watch, garbage));
}

static void on_watch_closed(uv_handle_t *handle)
{
    struct poll_watch *watch = CONTAINER_OF((uv_poll_t *)handle, struct poll_watch, uv);
    struct loop *loop = loop_of(handle->loop);
    loop_enter(loop);
    watch->garbage.free = free_watch;
    loop_garbage_add(loop, &watch->garbage);
}

void poll_watch_free(struct poll_watch *watch)
{
    if (!watch || watch->is_freed)
        return;
    watch->is_freed = true;
    uv_close((uv_handle_t *)&watch->uv, on_watch_closed);
}
