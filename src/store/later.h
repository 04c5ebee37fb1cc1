/*
 * later: runs a statement in the background, on a separate op, so that statements that begin in one
 * turn share a commit. Only the op's parent, if there is one, waits for it.
 *
 *   struct note { struct store_later later; int64_t id; };
 *   static const struct store_later_class note_class = {
 *       STORE_LATER(store_later_once, "note", struct note), .send = send_note, ...};
 *   ...
 *   struct note *note = store_later(&owner->notes, &note_class, NULL, 0);
 *
 * The owner of such statements has a struct store_laters, which limits their number: at the limit
 * the caller counts a loss or tries again. At shutdown its count shows whether all are done.
 */
#ifndef STORE_LATER_H
#define STORE_LATER_H

#include "pg/pg.h"

struct store_laters {
    struct loop *loop;
    struct pg_pool
        /* outlives the ops: they are cancelled before the pool is freed, or end with it */
        *pool;
    struct list all; /* struct store_later.link */
    size_t count, count_max;
    bool is_failing; /* the last statement failed, so further failures are not logged */
};

/* The first member of the caller's struct, named `later`. */
struct store_later {
    struct op op;
    struct pg_query query;
    struct store_laters *laters; /* NULL once the owner is freed: no callback follows then */
    struct op_timer timer;
    struct list link;
};

struct store_later_class {
    struct op_class op; /* STORE_LATER */
    size_t size;
    /* Binds later->query and submits it for later->op, or cancels that op. */
    void (*send)(struct store_later *later);
    /* Called when the result has arrived; may be NULL. If it returns true, store_later_again sends
     * the statement again. */
    bool (*on_sent)(struct store_later *later);
    void (*on_end)(struct store_later *later, enum op_end end); /* NULL: not called */
    /* wait before the statement is sent again */
    unsigned retry_ms;
    /* the log message when a statement fails after a success; NULL: not logged */
    const char *failure;
};

/* The op's table: it sends the statement once, or until on_sent returns false. */
extern const struct op_step store_later_once[2], store_later_again[2];
void store_later_end(struct op *op, enum op_end end);
#define STORE_LATER(steps_, name_, type_) \
    .op = {.name = (name_),               \
           .steps = (steps_),             \
           .step_count = 2,               \
           .is_background = true,         \
           .on_end = store_later_end,     \
           .free = op_free_struct},       \
    .size = sizeof(type_)

void store_laters_init(struct store_laters *laters, struct loop *loop, struct pg_pool *pool,
                       size_t count_max);
/* Cancels the statements under way; on_end follows. No further one starts: the pool is freed next.
 */
void store_laters_cancel(struct store_laters *laters);
/* For when the owner is freed: cancels the statements under way without any callback. */
void store_laters_deinit(struct store_laters *laters);
/* Returns a struct of the class, zeroed except for its first member. The caller fills in the struct
 * before the turn ends: the statement is sent when the op runs. Data it points to may be in the
 * op's arena, which has text_bytes more for that. parent: as for op_start. Returns NULL if the
 * limit is reached, or if out of memory. */
void *store_later(struct store_laters *laters, const struct store_later_class *class,
                  struct op *parent, size_t text_bytes);

#endif
