/*
 * due: fires rows when they become due: flows that wait, and events to deliver. A row's due time is
 * in the database; rows of the next minute are also in a heap here, with one timer for all. Every
 * node has all of them, so several nodes fire the same row, and the fenced statement that follows
 * decides which node gets it.
 *
 * Each kind of row has an owner, which says whether there is room for another, and takes it.
 */
#ifndef DUE_DUE_H
#define DUE_DUE_H

#include "loop/op.h"
#include "store/due.h"

struct due_config {
    struct loop *loop;
    struct pg_pool *pool;
    /* Whether this process may take rows now; else nothing is scanned for. */
    bool (*may_take)(void *owner);
    void *owner;
};

struct due_class {
    /* Whether one more row may be fired. When that becomes true again, call due_fire. */
    bool (*has_room)(void *owner);
    /* Whether this process has the row already; a scan then leaves it out. */
    bool (*is_moving)(void *owner, const struct due_ref *ref);
    /* Takes the row, or does nothing: then a scan finds it again. ref is borrowed. */
    void (*fire)(void *owner, const struct due_ref *ref);
};

struct due_timers;

/* Copies config. Returns NULL if out of memory. Scanning begins in the next turn. */
struct due_timers *due_new(const struct due_config *config) MUST_CHECK;
/* Sets the owner of a kind of row; class NULL: it has none any more, and no such row is fired. */
void due_own(struct due_timers *timers, enum due_kind kind, const struct due_class *class,
             void *owner);
/* Arms the timer of a row that this process has written. Its time is not 0. */
void due_arm(struct due_timers *timers, const struct due_ref *ref);
/* Fires due rows, as many as there is room for. */
void due_fire(struct due_timers *timers);
/* Ends the scans and the timer. Accepts NULL. */
void due_stop(struct due_timers *timers);
/* Call it once the op has ended. Accepts NULL. */
void due_free(struct due_timers *timers);

#endif
