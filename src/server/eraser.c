/*
 * The erasure of users and accounts; see eraser.h.
 */
#include "server/eraser.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "store/account.h"
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

/* The parts of a round, in this order. An account's users are marked in the first part, so the
 * second one finds them. The account's own rows do not wait for those of users, of which there may
 * be very many; the account itself is deleted when its users are, so it is visited again. */
enum { FIRST_PARTS = 3 }; /* are made again for what is marked during the others */
static const struct part {
    bool is_of_accounts;
    bool is_ending; /* over those whose links and flows may not have ended */
    size_t page;    /* users or accounts at a time; accounts whose users are marked go one by one */
} parts[] = {{.is_of_accounts = true, .is_ending = true, .page = 1},
             {.is_ending = true, .page = USERS_MAX},
             {.is_of_accounts = true, .page = USERS_MAX},
             {.page = USERS_MAX},
             {.is_of_accounts = true, .page = USERS_MAX}};

struct position {
    const struct part *part; /* NULL: none */
    struct uuid after;       /* of the page before */
    size_t asked;            /* users or accounts a page */
    size_t rows_max;         /* rows a statement */
};

struct eraser {
    struct op op;
    struct pg_pool *pool;
    struct pg_query query;
    struct op_timer timer;
    uint64_t wait_ms;                   /* how long a call for such a user may be under way */
    struct store_laters removals;       /* changes of users whose rows are deleted */
    struct account_user_erasing *users; /* or accounts */
    size_t count;
    struct position at;
    struct position back; /* where the round goes on after its first parts */
    unsigned repeats;     /* of the statement */
    slice ids;            /* of those users of the page that the pass is over */
    enum account_user_depth depth;
    uint64_t first_ns; /* when the first parts were last begun, or ended */
    bool is_hurried;   /* the first parts, or the next round, begin soon */
    bool is_left;      /* the parts that end flows were left, and are not left again */
    bool is_again;     /* the next round begins soon: this one has missed some of the rows */
    bool is_waiting;   /* for another process that deletes rows */
    bool is_resting;   /* the next round may begin at once */
    struct account_user_erasing account; /* whose users are marked */
    char marked[ACCOUNT_USER_ID_MAX];    /* the last one */
    size_t marked_len;
};

enum eraser_step {
    STEP_SLEEP,
    STEP_FIND,
    STEP_FOUND,
    STEP_MARK,
    STEP_MARKED,
    STEP_BEGIN,
    STEP_ERASE,
    STEP_ERASED,
    STEP_REMOVED
};

OP_OF(eraser_of, eraser)

static struct position begin_of(const struct part *part)
{
    return (struct position){.part = part, .asked = part->page, .rows_max = ACCOUNT_USER_ERASE_MAX};
}

/* Begins the round, or waits at its position. */
static enum op_result step_sleep(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    arena_reset(&op->arena);
    if (eraser->is_waiting) {
        eraser->is_waiting = false;
        op_sleep(op, &eraser->timer, SOON_MS, "another process to delete rows");
        return OP_WAIT;
    }
    eraser->at = begin_of(parts);
    eraser->back.part = NULL;
    eraser->is_resting = !eraser->is_hurried && !eraser->is_again;
    eraser->is_hurried = eraser->is_again = eraser->is_left = false;
    op_sleep(op, &eraser->timer, eraser->is_resting ? ROUND_MS : SOON_MS,
             "time for the next round");
    return OP_WAIT;
}

static enum op_result step_find(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    eraser->is_resting = false;
    arena_reset(&op->arena);
    if (eraser->at.part->is_of_accounts)
        store_account_erasing(eraser->pool, &eraser->query, op, eraser->at.part->is_ending,
                              eraser->at.after, eraser->at.asked);
    else
        store_account_user_erasing(eraser->pool, &eraser->query, op, eraser->at.part->is_ending,
                                   eraser->at.after, eraser->at.asked);
    return OP_WAIT;
}

/* A long pass is left for what was marked since the first parts began: links and flows end now, not
 * after the pass, and so do rows of accounts. It is left once a second at most, and goes on at its
 * position. Parts that end flows are left once, and then made to their end; so what fails in them
 * keeps nothing from its turn. */
static enum op_result leave_pass(struct eraser *eraser, enum eraser_step next)
{
    uint64_t now = clock_mono_ns();
    const struct part *part = eraser->at.part;
    bool is_second = part->is_ending ? eraser->is_left
                                     : part < parts + FIRST_PARTS && eraser->back.part;
    if (!eraser->is_hurried || is_second || now - eraser->first_ns < SOON_MS * 1000000ULL)
        return op_jump(&eraser->op, next);
    eraser->is_hurried = false;
    if (!part->is_ending) {
        eraser->back = eraser->at;
        eraser->is_again = true;
    }
    eraser->is_left = true;
    eraser->first_ns = now;
    eraser->at = begin_of(parts);
    return op_jump(&eraser->op, STEP_FIND);
}

static enum op_result next_part(struct eraser *eraser)
{
    const struct part *part = eraser->at.part + 1;
    if (part == parts + ARRAY_LEN(parts))
        return op_jump(&eraser->op, STEP_SLEEP);
    eraser->at = begin_of(part);
    if (!part->is_ending && (part[-1].is_ending || part == parts + FIRST_PARTS)) {
        eraser->is_left = false;
        eraser->first_ns = clock_mono_ns();
    }
    if (eraser->back.part && (part == eraser->back.part || part == parts + FIRST_PARTS)) {
        eraser->at = eraser->back;
        eraser->back.part = NULL;
    }
    return op_jump(&eraser->op, STEP_FIND);
}

/* Goes on to the next page, or to the next part of the round. */
static enum op_result next_page(struct eraser *eraser)
{
    if (eraser->count < eraser->at.asked)
        return next_part(eraser);
    eraser->at.after = eraser->users[eraser->count - 1].user_id;
    eraser->at.rows_max = ACCOUNT_USER_ERASE_MAX;
    return leave_pass(eraser, STEP_FIND);
}

static const char *what_of(const struct eraser *eraser)
{
    return eraser->at.part->is_of_accounts ? "account" : "user";
}

static enum op_result step_found(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    int status = store_account_user_erasing_result(&eraser->query, &eraser->users, &eraser->count);
    if (status != OK) {
        (void)housekeeping_note(op, &eraser->query, status, what_of(eraser), 0);
        return op_jump(op, STEP_SLEEP);
    }
    eraser->depth = eraser->at.part->is_ending ? ACCOUNT_USER_RUNNING : ACCOUNT_USER_ROWS;
    if (eraser->count == 0)
        return next_page(eraser);
    if (!eraser->at.part->is_of_accounts || !eraser->at.part->is_ending)
        return op_jump(op, STEP_BEGIN);
    eraser->account = eraser->users[0];
    eraser->users = &eraser->account;
    eraser->marked_len = 0;
    return OP_NEXT;
}

/* Is repeated until all users of the account are marked. */
static enum op_result step_mark(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    arena_reset(&op->arena);
    store_account_users_erase(eraser->pool, &eraser->query, op, eraser->account.account_id,
                              slice_of(eraser->marked, eraser->marked_len));
    return OP_WAIT;
}

static enum op_result step_marked(struct op *op)
{
    struct eraser *eraser = eraser_of(op);
    slice last;
    int status = store_account_users_erase_result(&eraser->query, &last);
    if (status != OK) {
        (void)housekeeping_note(op, &eraser->query, status, what_of(eraser), 0);
        return next_page(eraser);
    }
    if (!last.ptr)
        return OP_NEXT;
    ASSERT(last.len <= sizeof(eraser->marked));
    memcpy(eraser->marked, last.ptr, last.len);
    eraser->marked_len = last.len;
    return op_jump(op, STEP_MARK);
}

struct removal {
    struct store_later later;
    struct account_user_erasing user;
    bool is_account;
    int64_t wait_ms; /* 0: the user is deleted */
};

/* The user's flows have ended, or its rows are deleted. */
static void send_user_removal(struct store_later *later)
{
    const struct removal *removal = CONTAINER_OF(later, struct removal, later);
    struct pg_pool *pool = later->laters->pool;
    struct uuid account_id = removal->user.account_id;
    if (removal->is_account && removal->wait_ms > 0)
        store_account_ended(pool, &later->query, &later->op, account_id, removal->wait_ms);
    else if (removal->is_account)
        store_account_remove(pool, &later->query, &later->op, account_id);
    else if (removal->wait_ms > 0)
        store_account_user_ended(pool, &later->query, &later->op, &removal->user, removal->wait_ms);
    else
        store_account_user_remove(pool, &later->query, &later->op, &removal->user);
}

static bool note_user_removal(struct store_later *later)
{
    const struct removal *removal = CONTAINER_OF(later, struct removal, later);
    bool is_removed = removal->wait_ms == 0 && (!removal->is_account || later->query.status != OK ||
                                                pg_get_bool(&later->query.rows, 0, 0));
    (void)housekeeping_note(&later->op, &later->query, store_done_result(&later->query),
                            removal->is_account ? "account" : "user", is_removed ? 1 : 0);
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
        if (!eraser->at.part->is_ending && !user->is_due)
            continue;
        struct removal *removal =
            store_later(&eraser->removals, &removal_class, &eraser->op, ACCOUNT_USER_ID_MAX);
        if (!removal)
            return;
        removal->user = *user;
        removal->is_account = eraser->at.part->is_of_accounts;
        if (user->external_id.ptr) /* an account is known by its own id */
            removal->user.external_id = arena_dup(&removal->later.op.arena, user->external_id);
        removal->wait_ms = eraser->at.part->is_ending ? (int64_t)eraser->wait_ms : 0;
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
        if (!eraser->at.part->is_ending && eraser->users[i].is_due != is_all)
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
    store_account_user_rows_erase(eraser->pool, &eraser->query, op, eraser->ids,
                                  eraser->at.rows_max, eraser->depth);
    return OP_WAIT;
}

/* The page that failed is read again user by user, then with fewer rows a statement, since very
 * large rows may not be deleted in time together. What fails alone is left for the next round. */
static enum op_result retry_alone(struct eraser *eraser, int status)
{
    if (eraser->at.asked > 1) {
        eraser->at.asked = 1;
    } else if (eraser->at.rows_max > 1) {
        eraser->at.rows_max = eraser->at.rows_max > ROWS_FEW ? ROWS_FEW : 1;
    } else {
        (void)housekeeping_note(&eraser->op, &eraser->query, status, what_of(eraser), 0);
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
        eraser->is_waiting = true;
        return op_jump(op, STEP_SLEEP);
    }
    if (status != OK)
        return retry_alone(eraser, status);
    if (count == 0)
        return end_pass(eraser);
    if (eraser->at.rows_max < ACCOUNT_USER_ERASE_MAX / 2)
        eraser->at.rows_max *= 2;
    else
        eraser->at.rows_max = ACCOUNT_USER_ERASE_MAX;
    /* the page is read again, which frees the memory of the results */
    return leave_pass(eraser, ++eraser->repeats % REPEATS_MAX == 0 ? STEP_FIND : STEP_ERASE);
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
    [STEP_FOUND] = {"found", step_found, TO_PAGE | OP_TO(STEP_BEGIN)},
    [STEP_MARK] = {"mark", step_mark, 0},
    [STEP_MARKED] = {"marked", step_marked, TO_PAGE | OP_TO(STEP_MARK)},
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
