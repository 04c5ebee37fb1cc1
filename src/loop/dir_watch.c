/*
 * Watches a folder for changes; see dir_watch.h.
 */
#include "loop/dir_watch.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "loop/internal.h"

/* A separate block, since the watch may be stopped while a pool thread still writes here. */
struct dir_poll {
    struct work work;
    struct dir_watch *watch; /* NULL: stopped */
    struct stat st;
    int error;
    char path[];
};

/* ---- events of the kernel ---- */

static void note_change(struct dir_watch *watch)
{
    uint64_t now_ns = loop_now_ns(watch->loop);
    if (!watch->changed_ns)
        watch->changed_ns = now_ns;
    uint64_t due_ns = now_ns + DIR_WATCH_SETTLE_MS * 1000000ULL;
    uint64_t last_ns = watch->changed_ns + DIR_WATCH_SETTLE_MS_MAX * 1000000ULL;
    timer_start(&watch->settle, due_ns < last_ns ? due_ns : last_ns);
}

static void on_event(uv_fs_event_t *uv, const char *name, int events, int status)
{
    struct dir_watch *watch = uv->data;
    (void)name; /* not used: after a removal of the folder it is the folder's own name */
    (void)events;
    (void)status;
    loop_enter(loop_of(uv->loop));
    if (watch)
        note_change(watch);
}

static void close_handle(struct dir_watch *watch)
{
    uv_fs_event_t *uv = watch->handle;
    if (!uv)
        return;
    uv->data = NULL;
    watch->handle = NULL;
    loop_handle_close((uv_handle_t *)uv);
}

static void warn(struct dir_watch *watch, const char *cause)
{
    if (!watch->is_warned)
        log_event(LOG_WARN, "a folder cannot be watched, so files written in place are not noticed",
                  LOG_CSTR("folder", watch->path), LOG_CSTR("cause", cause));
    watch->is_warned = true;
}

static void open_handle(struct dir_watch *watch)
{
    uv_fs_event_t *uv = mem_zalloc(sizeof(*uv));
    if (!uv) {
        warn(watch, "out of memory");
        return;
    }
    /* uv_fs_event_init only fills in the struct, and cannot fail. */
    (void)uv_fs_event_init(&watch->loop->uv, uv);
    uv->data = watch;
    int rc = uv_fs_event_start(uv, on_event, watch->path, 0);
    if (rc != 0) {
        if (rc != UV_ENOENT)
            warn(watch, uv_strerror(rc));
        uv->data = NULL;
        loop_handle_close((uv_handle_t *)uv);
        return;
    }
    uv_unref((uv_handle_t *)uv);
    watch->handle = uv;
    watch->is_warned = false;
}

/* A new watch is made each time: the path may lead to another folder by now, for which the old
 * watch gets no events. */
static void on_settled(struct timer *timer)
{
    struct dir_watch *watch = CONTAINER_OF(timer, struct dir_watch, settle);
    watch->changed_ns = 0;
    close_handle(watch);
    open_handle(watch);
    watch->on_change(watch);
}

/* ---- changes found by polling ---- */

/* Returns whether the path leads to another folder, or files were added, renamed or removed. */
static bool take_stat(struct dir_watch *watch, const struct stat *st, int error)
{
    bool was_there = watch->is_there;
    watch->is_there = error == 0;
    if (error)
        return was_there;
    bool is_same = was_there && watch->device == st->st_dev && watch->inode == st->st_ino;
    bool is_quiet = watch->changed_at.tv_sec == st->st_mtim.tv_sec &&
                    watch->changed_at.tv_nsec == st->st_mtim.tv_nsec;
    watch->device = st->st_dev;
    watch->inode = st->st_ino;
    watch->changed_at = st->st_mtim;
    return !is_same || (!watch->handle && !is_quiet);
}

static void run_poll(struct work *work)
{
    struct dir_poll *poll = CONTAINER_OF(work, struct dir_poll, work);
    poll->error = stat(poll->path, &poll->st) == 0 ? 0 : errno;
}

static void on_polled(struct work *work)
{
    struct dir_poll *poll = CONTAINER_OF(work, struct dir_poll, work);
    struct dir_watch *watch = poll->watch;
    if (watch) {
        watch->polling = NULL;
        if (take_stat(watch, &poll->st, poll->error)) {
            note_change(watch);
        } else if (watch->is_there && !watch->handle) {
            open_handle(watch);
            if (watch->handle) /* files may have been rewritten while there was no watch */
                note_change(watch);
        }
        timer_start_in_ms(&watch->poll, watch->poll_ms);
    }
    mem_free(poll);
}

static void on_poll_due(struct timer *timer)
{
    struct dir_watch *watch = CONTAINER_OF(timer, struct dir_watch, poll);
    size_t len = strlen(watch->path) + 1;
    struct dir_poll *poll = mem_zalloc(sizeof(*poll) + len);
    if (poll) {
        poll->work = (struct work){.run = run_poll, .done = on_polled};
        poll->watch = watch;
        memcpy(poll->path, watch->path, len);
        if (work_start(watch->loop, &poll->work) == OK) {
            watch->polling = poll;
            return;
        }
        mem_free(poll);
    }
    timer_start_in_ms(timer, watch->poll_ms);
}

/* ---- start, stop ---- */

void dir_watch_start(struct loop *loop, struct dir_watch *watch, const char *path)
{
    struct stat st;
    ASSERT(watch->on_change && !watch->loop && path);
    watch->loop = loop;
    watch->path = path;
    watch->poll_ms = watch->poll_ms ? watch->poll_ms : DIR_WATCH_POLL_MS;
    timer_init(&watch->settle, loop, on_settled);
    timer_init(&watch->poll, loop, on_poll_due);
    int error = stat(path, &st) == 0 ? 0 : errno;
    (void)take_stat(watch, &st, error);
    open_handle(watch);
    timer_start_in_ms(&watch->poll, watch->poll_ms);
}

void dir_watch_stop(struct dir_watch *watch)
{
    if (!watch->loop)
        return;
    if (watch->polling)
        watch->polling->watch = NULL;
    watch->polling = NULL;
    timer_stop(&watch->settle);
    timer_stop(&watch->poll);
    close_handle(watch);
    watch->loop = NULL;
}
