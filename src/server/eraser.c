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
    ROWS_FEW = 50,
    REPEATS_MAX = 1000, /* of a statement, whose result is in the op's arena each time */
    ARENA_BYTES_MAX = 1024 * 1024,
    IDS_BYTES_MAX = 8 * 1024,
};

struct eraser {
    struct op op;
    struct pg_pool *pool;
    struct pg_query query;
    struct op_timer timer;
    uint64_t wait_ms;             /* how long a call for such a user may be under way */
    struct store_laters removals; /* changes of users whose rows are deleted */
    struct account_user_erasing *users;
    size_t count;
    size_t asked;      /* users a page */
    struct uuid after; /* position of the round */
    size_t rows_max;   /* rows a statement */
    unsigned repeats;  /* of the statement */
    slice ids;         /* of those users of the page that the pass is over */
    bool is_ending;    /* the first part of the round, over users whose flows may not have ended */
    enum account_user_depth depth;
    bool is_hurried; /* the next round begins soon */
    bool is_resting; /* the next round may begin at once */
};

enum eraser_step {
    STEP_SLEEP,
    STEP_FIND,
    STEP_FOUND,
    STEP_BEGIN,
    STEP_ERASE,
    STEP_ERASED,
    STEP_REMOVED
};

OP_OF(eraser_of, eraser)

static enum op_result step_sleep(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    arena_reset(&op->arena);
    eraser->after = (struct uuid){{0}};
    eraser->asked = USERS_MAX;
    eraser->rows_max = ACCOUNT_USER_ERASE_MAX;
    eraser->is_ending = true;
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
    store_account_user_erasing(eraser->pool, &eraser->query, op, eraser->is_ending, eraser->after,
                               eraser->asked);
    return OP_WAIT;
}

/* Goes on to the next page, or to the other part of the round. */
static enum op_result next_page(struct eraser *eraser)
{
    struct op *op = &eraser->op;
    static const struct uuid first = {{0}};
    bool is_end = eraser->count < eraser->asked;
    eraser->after = is_end ? first : eraser->users[eraser->count - 1].user_id;
    eraser->rows_max = ACCOUNT_USER_ERASE_MAX;
    if (is_end && !eraser->is_ending)
        return op_jump(op, STEP_SLEEP);
    eraser->is_ending = eraser->is_ending && !is_end;
    return op_jump(op, STEP_FIND);
}

static enum op_result step_found(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    int status = store_account_user_erasing_result(&eraser->query, &eraser->users, &eraser->count);
    if (status != OK) {
        (void)housekeeping_note(op, &eraser->query, status, "user", 0);
        return op_jump(op, STEP_SLEEP);
    }
    eraser->depth = eraser->is_ending ? ACCOUNT_USER_RUNNING : ACCOUNT_USER_ROWS;
    return eraser->count > 0 ? OP_NEXT : next_page(eraser);
}

struct removal {
    struct store_later later;
    struct account_user_erasing user;
    int64_t wait_ms; /* 0: the user is deleted */
};

/* The user's flows have ended, or its rows are deleted. */
static void send_user_removal(struct store_later *later)
{
    const struct removal *removal = CONTAINER_OF(later, struct removal, later);
    if (removal->wait_ms > 0)
        store_account_user_ended(later->laters->pool, &later->query, &later->op, &removal->user,
                                 removal->wait_ms);
    else
        store_account_user_remove(later->laters->pool, &later->query, &later->op, &removal->user);
}

static bool note_user_removal(struct store_later *later)
{
    const struct removal *removal = CONTAINER_OF(later, struct removal, later);
    (void)housekeeping_note(&later->op, &later->query, store_done_result(&later->query), "user",
                            removal->wait_ms > 0 ? 0 : 1);
    return false;
}

static const struct store_later_class removal_class = {
    STORE_LATER(store_later_once, "user_removal", struct removal),
    .send = send_user_removal,
    .on_sent = note_user_removal,
};

/* A user that cannot be changed for lack of memory is found again in the next round. */
static void change_users(struct eraser *eraser)
{
    for (size_t i = 0; i < eraser->count; i++) {
        const struct account_user_erasing *user = &eraser->users[i];
        if (!eraser->is_ending && !user->is_due)
            continue;
        struct removal *removal =
            store_later(&eraser->removals, &removal_class, &eraser->op, ACCOUNT_USER_ID_MAX);
        if (!removal)
            return;
        removal->user = *user;
        removal->user.external_id = arena_dup(&removal->later.op.arena, user->external_id);
        removal->wait_ms = eraser->is_ending ? (int64_t)eraser->wait_ms : 0;
    }
}

/* The users of the page whose erase_at has passed follow the others, and are then deleted
 * themselves. */
static enum op_result end_pass(struct eraser *eraser)
{
    struct op *op = &eraser->op;
    if (eraser->depth == ACCOUNT_USER_ROWS) {
        eraser->depth = ACCOUNT_USER_ALL;
        return op_jump(op, STEP_BEGIN);
    }
    change_users(eraser);
    return op->holds > 0 ? op_wait_then(op, STEP_REMOVED) : op_jump(op, STEP_REMOVED);
}

static enum op_result step_begin(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    struct buf text;
    char id[UUID_TEXT_LEN + 1];
    buf_init(&text, IDS_BYTES_MAX);
    for (size_t i = 0; i < eraser->count; i++) {
        bool is_all = eraser->depth == ACCOUNT_USER_ALL;
        if (!eraser->is_ending && eraser->users[i].is_due != is_all)
            continue;
        uuid_format(eraser->users[i].user_id, id);
        buf_printf(&text, "%c%s", text.len ? ',' : '{', id);
    }
    if (text.len == 0)
        return end_pass(eraser);
    buf_append_char(&text, '}');
    eraser->ids = arena_take(&op->arena, &text);
    return eraser->ids.ptr ? OP_NEXT : op_jump(op, STEP_SLEEP);
}

/* Is repeated until no rows are left. */
static enum op_result step_erase(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    store_account_user_rows_erase(eraser->pool, &eraser->query, op, eraser->ids, eraser->rows_max,
                                  eraser->depth);
    return OP_WAIT;
}

/* The page that failed is read again user by user, then with fewer rows a statement, since very
 * large rows may not be deleted in time together. What fails alone is left for the next round. */
static enum op_result retry_alone(struct eraser *eraser, int status)
{
    if (eraser->asked > 1) {
        eraser->asked = 1;
    } else if (eraser->rows_max > 1) {
        eraser->rows_max = eraser->rows_max > ROWS_FEW ? ROWS_FEW : 1;
    } else {
        (void)housekeeping_note(&eraser->op, &eraser->query, status, "user", 0);
        return next_page(eraser);
    }
    return op_jump(&eraser->op, STEP_FIND);
}

static enum op_result step_erased(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    size_t count;
    int status = store_account_user_rows_erase_result(&eraser->query, &count);
    if (status == ERR_BUSY && eraser->query.status == OK) { /* another process deletes rows */
        eraser->is_hurried = true;
        return op_jump(op, STEP_SLEEP);
    }
    if (status != OK)
        return retry_alone(eraser, status);
    if (count == 0)
        return end_pass(eraser);
    if (eraser->rows_max < ACCOUNT_USER_ERASE_MAX / 2)
        eraser->rows_max *= 2;
    else
        eraser->rows_max = ACCOUNT_USER_ERASE_MAX;
    /* the page is read again, which frees the memory of the results */
    return op_jump(op, ++eraser->repeats % REPEATS_MAX == 0 ? STEP_FIND : STEP_ERASE);
}

static enum op_result step_removed(struct op *op)
{
    return next_page(eraser_of(op));
}

#define TO_PAGE OP_TO(STEP_SLEEP) | OP_TO(STEP_FIND)
#define TO_PASS OP_TO(STEP_BEGIN) | OP_TO(STEP_REMOVED)
static const struct op_step steps[] = {
    [STEP_SLEEP] = {"sleep", step_sleep, 0},
    [STEP_FIND] = {"find", step_find, 0},
    [STEP_FOUND] = {"found", step_found, TO_PAGE},
    [STEP_BEGIN] = {"begin", step_begin, OP_TO(STEP_SLEEP) | TO_PASS},
    [STEP_ERASE] = {"erase", step_erase, 0},
    [STEP_ERASED] = {"erased", step_erased, TO_PAGE | TO_PASS | OP_TO(STEP_ERASE)},
    [STEP_REMOVED] = {"removed", step_removed, TO_PAGE},
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

struct eraser *eraser_new(struct loop *loop, struct pg_pool *pool, uint64_t wait_ms)
{
    struct eraser *eraser = mem_zalloc(sizeof(*eraser));
    if (!eraser)
        return NULL;
    eraser->pool = pool;
    eraser->wait_ms = wait_ms;
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
