/*
 * The erasure of users; see eraser.h.
 */
#include "server/eraser.h"

#include "base/buf.h"
#include "base/mem.h"
#include "store/account_user.h"
#include "store/later.h"

enum {
    ROUND_MS = 60 * 1000,
    SOON_MS = 1000, /* also the pause between rounds while users are marked one after another */
    USERS_MAX = 100,
    ARENA_BYTES_MAX = 1024 * 1024,
    IDS_BYTES_MAX = 8 * 1024,
};

struct eraser {
    struct op op;
    struct pg_pool *pool;
    struct pg_query query;
    struct op_timer timer;
    struct store_laters removals; /* of users whose rows are deleted */
    struct account_user_erasing *users;
    size_t count;
    size_t asked;      /* users a page */
    struct uuid after; /* position of the round */
    bool is_last;      /* the pass is over the users of the page whose erase_at has passed */
    bool is_hurried;   /* the next round begins soon */
    bool is_resting;   /* the next round may begin at once */
};

enum eraser_step { STEP_SLEEP, STEP_FIND, STEP_FOUND, STEP_ERASE, STEP_ERASED, STEP_REMOVED };

OP_OF(eraser_of, eraser)

static enum op_result step_sleep(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    arena_reset(&op->arena);
    eraser->after = (struct uuid){{0}};
    eraser->asked = USERS_MAX;
    eraser->is_resting = !eraser->is_hurried;
    eraser->is_hurried = false;
    op_sleep(op, &eraser->timer, eraser->is_resting ? ROUND_MS : SOON_MS,
             "time for the next round");
    return OP_WAIT;
}

static enum op_result step_find(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    eraser->is_resting = false;
    arena_reset(&op->arena);
    store_account_user_erasing(eraser->pool, &eraser->query, op, eraser->after, eraser->asked);
    return OP_WAIT;
}

static enum op_result step_found(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    int status = store_account_user_erasing_result(&eraser->query, &eraser->users, &eraser->count);
    if (status != OK)
        (void)housekeeping_note(op, &eraser->query, status, "user", 0);
    eraser->is_last = false;
    return status == OK && eraser->count > 0 ? OP_NEXT : op_jump(op, STEP_SLEEP);
}

struct removal {
    struct store_later later;
    struct account_user_erasing user;
};

static void send_user_removal(struct store_later *later)
{
    const struct removal *removal = CONTAINER_OF(later, struct removal, later);
    store_account_user_remove(later->laters->pool, &later->query, &later->op, &removal->user);
}

static bool note_user_removal(struct store_later *later)
{
    (void)housekeeping_note(&later->op, &later->query, store_done_result(&later->query), "user", 1);
    return false;
}

static const struct store_later_class removal_class = {
    STORE_LATER(store_later_once, "user_removal", struct removal),
    .send = send_user_removal,
    .on_sent = note_user_removal,
};

/* A user that cannot be deleted for lack of memory is found again in the next round. */
static void remove_users(struct eraser *eraser)
{
    for (size_t i = 0; i < eraser->count; i++) {
        const struct account_user_erasing *user = &eraser->users[i];
        if (!user->is_due)
            continue;
        struct removal *removal =
            store_later(&eraser->removals, &removal_class, &eraser->op, ACCOUNT_USER_ID_MAX);
        if (!removal)
            return;
        removal->user = *user;
        removal->user.external_id = arena_dup(&removal->later.op.arena, user->external_id);
    }
}

/* The users of the page whose erase_at has passed follow the others, and are then deleted
 * themselves. */
static enum op_result end_pass(struct eraser *eraser)
{
    struct op *op = &eraser->op;
    if (!eraser->is_last) {
        eraser->is_last = true;
        return op_jump(op, STEP_ERASE);
    }
    remove_users(eraser);
    return op->holds > 0 ? op_wait_then(op, STEP_REMOVED) : op_jump(op, STEP_REMOVED);
}

/* Is repeated until no rows are left. */
static enum op_result step_erase(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    struct buf text;
    char id[UUID_TEXT_LEN + 1];
    buf_init(&text, IDS_BYTES_MAX);
    for (size_t i = 0; i < eraser->count; i++) {
        if (eraser->users[i].is_due != eraser->is_last)
            continue;
        uuid_format(eraser->users[i].user_id, id);
        buf_printf(&text, "%c%s", text.len ? ',' : '{', id);
    }
    if (text.len == 0)
        return end_pass(eraser);
    buf_append_char(&text, '}');
    slice ids = arena_take(&op->arena, &text);
    if (!ids.ptr)
        return op_jump(op, STEP_SLEEP);
    store_account_user_rows_erase(eraser->pool, &eraser->query, op, ids, eraser->is_last);
    return OP_WAIT;
}

/* The page that failed is read again user by user, since one with very large rows may not be done
 * in time together with others. A user that fails alone is left for the next round. */
static enum op_result retry_alone(struct eraser *eraser, int status)
{
    if (eraser->asked > 1) {
        eraser->asked = 1;
        return op_jump(&eraser->op, STEP_FIND);
    }
    (void)housekeeping_note(&eraser->op, &eraser->query, status, "user", 0);
    eraser->after = eraser->users[0].user_id;
    return op_jump(&eraser->op, STEP_FIND);
}

static enum op_result step_erased(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    size_t count;
    int status = store_account_user_rows_erase_result(&eraser->query, &count);
    if (status == ERR_BUSY && eraser->query.status == OK) /* another process makes this pass */
        return op_jump(op, STEP_SLEEP);
    if (status != OK)
        return retry_alone(eraser, status);
    return count > 0 ? op_jump(op, STEP_ERASE) : end_pass(eraser);
}

static enum op_result step_removed(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    eraser->after = eraser->users[eraser->count - 1].user_id;
    return op_jump(op, eraser->count < eraser->asked ? STEP_SLEEP : STEP_FIND);
}

static const struct op_step steps[] = {
    [STEP_SLEEP] = {"sleep", step_sleep, 0},
    [STEP_FIND] = {"find", step_find, 0},
    [STEP_FOUND] = {"found", step_found, OP_TO(STEP_SLEEP)},
    [STEP_ERASE] = {"erase", step_erase,
                    OP_TO(STEP_SLEEP) | OP_TO(STEP_ERASE) | OP_TO(STEP_REMOVED)},
    [STEP_ERASED] = {"erased", step_erased,
                     OP_TO(STEP_SLEEP) | OP_TO(STEP_FIND) | OP_TO(STEP_ERASE) |
                         OP_TO(STEP_REMOVED)},
    [STEP_REMOVED] = {"removed", step_removed, OP_TO(STEP_SLEEP) | OP_TO(STEP_FIND)},
};

static void on_end(struct op *op, enum op_end end)
{
    (void)end;
    store_laters_deinit(&eraser_of(op)->removals);
}

static const struct op_class eraser_class = {
    .name = "eraser",
    .is_background = true,
    OP_STEPS(steps),
    .on_end = on_end,
    .free = op_free_struct,
};

struct eraser *eraser_new(struct loop *loop, struct pg_pool *pool)
{
    struct eraser *eraser = mem_zalloc(sizeof(*eraser));
    if (!eraser)
        return NULL;
    eraser->pool = pool;
    eraser->is_hurried = true; /* what was left at the last stop */
    store_laters_init(&eraser->removals, loop, pool, USERS_MAX);
    op_start(&eraser->op, &eraser_class, loop, NULL, ARENA_BYTES_MAX);
    return eraser;
}

void eraser_free(struct eraser *eraser)
{
    if (eraser)
        op_cancel(&eraser->op);
}

void eraser_wake(struct eraser *eraser)
{
    if (eraser->is_resting)
        op_sleep_stop(&eraser->timer);
    else
        eraser->is_hurried = true;
}
