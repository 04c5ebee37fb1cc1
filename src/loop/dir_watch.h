/*
 * Notifies when the files of a folder have changed: libuv's inotify watch with a delay, so that a
 * burst of writes and renames by an editor or a deployment is reported once. The folder may be
 * missing, may be removed and return, and may be a symbolic link that changes its target.
 */
#ifndef LOOP_DIR_WATCH_H
#define LOOP_DIR_WATCH_H

#include <sys/types.h>
#include <time.h>

#include "loop/loop.h"

enum {
    DIR_WATCH_SETTLE_MS = 200,      /* the time without an event before on_change is called */
    DIR_WATCH_SETTLE_MS_MAX = 2000, /* maximum delay after the first change, even if others
                                     * follow */
    DIR_WATCH_POLL_MS = 5000,
};

struct dir_poll;

/* Embedded in its owner. */
struct dir_watch {
    /* Called from the loop when files may have changed; sometimes called without a change. */
    void (*on_change)(struct dir_watch *watch);
    uint32_t poll_ms; /* 0: DIR_WATCH_POLL_MS */
    /* ---- private ---- */
    struct loop *loop;
    const char *path;
    void *handle;             /* NULL: not watched now */
    struct dir_poll *polling; /* set while a pool thread polls */
    struct timer settle, poll;
    uint64_t changed_ns; /* time of the first change that was not reported; 0: none */
    dev_t device;
    ino_t inode;
    struct timespec changed_at; /* the folder's own mtime */
    bool is_there, is_warned;
};

/* path is borrowed until dir_watch_stop. Changes that inotify does not report (a folder that is
 * created again, a link with a new target) are found by a poll every poll_ms, on a pool thread.
 * If the kernel refuses to watch, a warning is logged. The poll then finds new, renamed and
 * removed files, but not a file that was written in place. A network file system reports only
 * this machine's changes. A watch alone does not keep loop_run running; a poll on a thread does. */
void dir_watch_start(struct loop *loop, struct dir_watch *watch, const char *path);
/* No callback follows. Does nothing if it was not started. */
void dir_watch_stop(struct dir_watch *watch);

#endif
