/*
 * The pool of a test: it accepts queries as pg/pool.c does, and keeps each until the test decides
 * how it ends. The real pool's rules (what is sent again after a lost answer, what a status then
 * means, one change of a row at a time) also apply here.
 */
#include <string.h>

#include "base/mem.h"
#include "loop/internal.h"
#include "pg/value.h"
#include "seam/seam.h"

enum { QUERY_IDLE, QUERY_WAITING, QUERY_SENT };
enum { ATTEMPTS_MAX = 8, QUEUE_TIMEOUT_MS = 5000 };

struct pg_pool {
    struct loop *loop;
    struct list queries; /* waiting and sent queries, in the order of their submission */
    struct loop_hook hook;
    struct timer expiry; /* runs while the database is unreachable */
    size_t pending;
    bool is_away, is_refusing;
};

/* ---- the room's functions ---- */

static void on_turn_end(struct loop_hook *hook);
static void on_expiry(struct timer *timer);

struct pg_pool *pg_pool_new(struct loop *loop, const struct pg_pool_config *config, struct err *err)
{
    struct pg_pool *pool = mem_zalloc(sizeof(*pool));
    (void)config, (void)err;
    pool->loop = loop;
    list_init(&pool->queries);
    timer_init(&pool->expiry, loop, on_expiry);
    pool->hook.run = on_turn_end;
    loop_hook_add(loop, &pool->hook, LOOP_PHASE_DATABASE);
    return pool;
}

static void end_query(struct pg_query *query, int status)
{
    bool is_same_for_all = status == OK || status == ERR_INVALID || status == ERR_LIMIT;
    ASSERT(query->state != QUERY_IDLE && query->pool->pending > 0);
    query->status = query->is_unknown && !is_same_for_all ? ERR_CLOSED : status;
    query->state = QUERY_IDLE;
    list_unlink(&query->link);
    query->pool->pending--;
    op_wait_end(&query->wait);
}

void pg_pool_free(struct pg_pool *pool)
{
    if (!pool)
        return;
    ASSERT(pool->pending == 0);
    timer_stop(&pool->expiry);
    loop_hook_remove(&pool->hook);
    mem_free(pool);
}

bool pg_pool_is_ready(const struct pg_pool *pool)
{
    return !pool->is_away;
}

size_t pg_pool_pending(const struct pg_pool *pool)
{
    return pool->pending;
}

static void arm_expiry(struct pg_pool *pool)
{
    uint64_t first_ns = UINT64_MAX;
    LIST_EACH(&pool->queries, const struct pg_query, query, link) {
        if (query->state == QUERY_WAITING && query->expires_ns < first_ns)
            first_ns = query->expires_ns;
    }
    if (pool->is_away && first_ns != UINT64_MAX)
        timer_start(&pool->expiry, first_ns);
    else
        timer_stop(&pool->expiry);
}

static void on_expiry(struct timer *timer)
{
    struct pg_pool *pool = CONTAINER_OF(timer, struct pg_pool, expiry);
    LIST_EACH(&pool->queries, struct pg_query, query, link) {
        if (query->state == QUERY_WAITING && query->expires_ns <= loop_now_ns(pool->loop))
            end_query(query, ERR_BUSY);
    }
    arm_expiry(pool);
}

static void query_cut(struct op_wait *wait)
{
    struct pg_query *query = CONTAINER_OF(wait, struct pg_query, wait);
    if (query->state == QUERY_WAITING)
        end_query(query, ERR_BUSY);
    else if (query->state == QUERY_SENT)
        query->is_abandoned = true;
}

void pg_submit(struct pg_pool *pool, struct pg_query *query, struct op *op)
{
    const struct pg_stmt *stmt = query->stmt;
    ASSERT(stmt && query->state == QUERY_IDLE);
    for (size_t i = 0; i < stmt->param_count; i++)
        ASSERT(query->params[i].type == stmt->params[i].type);
    query->is_unknown = query->is_unknown && query->status != OK;
    query->status = OK;
    query->sqlstate[0] = '\0';
    query->message = SLICE_NONE;
    query->rows = (struct pg_rows){.column_count = stmt->column_count};
    query->pool = pool;
    query->queued_ns = loop_now_ns(pool->loop);
    query->expires_ns = query->deadline_ns
                            ? query->deadline_ns
                            : query->queued_ns + QUEUE_TIMEOUT_MS * UINT64_C(1000000);
    query->attempts = 0;
    query->is_abandoned = query->has_rerun = query->is_single = false;
    bool has_row = stmt->access != PG_READ && stmt->key_count > 0;
    query->key_hash = has_row ? pg_values_hash(query->params, stmt->key_count) : 0;
    query->state = QUERY_WAITING;
    list_init(&query->link);
    list_push_back(&pool->queries, &query->link);
    pool->pending++;
    op_wait_begin(op, &query->wait, stmt->name, query_cut);
    arm_expiry(pool);
}

static void end_all(struct pg_pool *pool)
{
    LIST_EACH(&pool->queries, struct pg_query, query, link) {
        end_query(query, query->state == QUERY_SENT ? ERR_CLOSED : ERR_BUSY);
    }
}

/* Whether an earlier change of the same row has not been answered yet. */
static bool is_queued_after(const struct pg_pool *pool, const struct pg_query *query)
{
    LIST_EACH(&pool->queries, const struct pg_query, other, link) {
        if (other == query)
            return false;
        if (query->key_hash != 0 && other->key_hash == query->key_hash)
            return true;
    }
    return false;
}

static void on_turn_end(struct loop_hook *hook)
{
    struct pg_pool *pool = CONTAINER_OF(hook, struct pg_pool, hook);
    if (pool->is_refusing) {
        end_all(pool);
        return;
    }
    LIST_EACH(&pool->queries, struct pg_query, query, link) {
        if (query->state == QUERY_WAITING && !pool->is_away && !is_queued_after(pool, query))
            query->state = QUERY_SENT;
    }
}

/* ---- what a test reads ---- */

static struct pg_query *next_sent(struct pg_pool *pool, const char *name, size_t index)
{
    LIST_EACH(&pool->queries, struct pg_query, query, link) {
        bool is_wanted = !name || strcmp(seam_query_stmt(query)->name, name) == 0;
        if (query->state == QUERY_SENT && is_wanted && index-- == 0)
            return query;
    }
    return NULL;
}

struct pg_query *seam_query(struct pg_pool *pool, size_t index)
{
    return next_sent(pool, NULL, index);
}

struct pg_query *seam_query_named(struct pg_pool *pool, const char *name)
{
    return next_sent(pool, name, 0);
}

size_t seam_query_count(struct pg_pool *pool)
{
    size_t count = 0;
    while (next_sent(pool, NULL, count))
        count++;
    return count;
}

const struct pg_stmt *seam_query_stmt(const struct pg_query *query)
{
    return query->is_unknown && query->stmt->again ? query->stmt->again : query->stmt;
}

const struct pg_value *seam_param(const struct pg_query *query, const char *name)
{
    for (size_t i = 0; i < query->stmt->param_count; i++)
        if (strcmp(query->stmt->params[i].name, name) == 0)
            return &query->params[i];
    UNREACHABLE("the statement has no such parameter");
    return NULL;
}

bool pg_value_is(const struct pg_value *value, const char *text)
{
    bool is_text = value->type == PG_TEXT || value->type == PG_JSON || value->type == PG_BYTES;
    return is_text && !value->is_null && slice_eq_cstr(value->as.bytes, text);
}

bool seam_query_is_abandoned(const struct pg_query *query)
{
    return query->is_abandoned || !op_is_active(query->wait.op);
}

/* ---- what a test answers ---- */

static void copy_cell(struct arena *arena, const struct pg_value *value, struct pg_cell *cell)
{
    char scratch[8];
    *cell = (struct pg_cell){.len = -1};
    if (value->is_null)
        return;
    slice bytes = pg_value_encode(value, scratch);
    char *copy = arena_alloc_text(arena, bytes.len + 1);
    memcpy(copy, bytes.ptr, bytes.len);
    copy[bytes.len] = '\0';
    *cell = (struct pg_cell){.ptr = copy, .len = (int32_t)bytes.len};
}

void seam_row(struct pg_query *query, const struct pg_value *cells)
{
    struct pg_rows *rows = &query->rows;
    size_t columns = query->stmt->column_count;
    ASSERT(query->state == QUERY_SENT && columns > 0);
    if (seam_query_is_abandoned(query))
        return;
    struct arena *arena = &query->wait.op->arena;
    size_t count = rows->count;
    if ((count & (count - 1)) == 0) { /* 0, 1, 2, 4: doubles the capacity */
        struct pg_cell *all = ARENA_ARRAY(arena, struct pg_cell, (count ? 2 * count : 1) * columns);
        for (size_t i = 0; i < count * columns; i++)
            all[i] = rows->cells[i];
        rows->cells = all;
    }
    for (size_t i = 0; i < columns; i++) {
        ASSERT(cells[i].is_null || cells[i].type == query->stmt->columns[i].type);
        copy_cell(arena, &cells[i], &rows->cells[count * columns + i]);
    }
    rows->count++;
}

slice seam_key_policy;

void seam_rows(struct pg_query *query, size_t count)
{
    /* policy; has_event: no endpoint hears of it */
    const struct pg_value cells[] = {pg_text(seam_key_policy), pg_bool(false)};
    size_t columns = query->stmt->column_count;
    ASSERT(query->state == QUERY_SENT && columns <= ARRAY_LEN(cells));
    for (size_t i = 0; columns > 0 && i < count; i++)
        seam_row(query, &cells[ARRAY_LEN(cells) - columns]);
    if (columns == 0)
        query->rows.count = count;
}

/* Stored in is_single, which the real pool uses for another purpose and the seam does not use. */
bool seam_query_is_done(const struct pg_query *query)
{
    return query->is_single;
}

void seam_query_done_set(struct pg_query *query)
{
    query->is_single = true;
}

/* A second sending may have read before the first was committed, so it reads once more. */
void seam_query_done(struct pg_query *query)
{
    ASSERT(query->state == QUERY_SENT);
    bool is_early = query->is_unknown && query->stmt->match != PG_MATCH_NONE &&
                    query->rows.count == 0 && !query->has_rerun && !seam_query_is_abandoned(query);
    query->has_rerun = true;
    query->is_single = false;
    if (!is_early)
        end_query(query, OK);
}

void seam_query_fail(struct pg_query *query, int status)
{
    ASSERT(query->state == QUERY_SENT && status != OK && status != ERR_CLOSED);
    query->rows.count = 0;
    query->message = SLICE("the test refused it");
    if (status == ERR_INVALID) /* a row that rows.c refuses because it exists already */
        memcpy(query->sqlstate, "23505", PG_SQLSTATE_LEN + 1);
    end_query(query, status);
}

void seam_query_lose(struct pg_query *query)
{
    const struct pg_stmt *stmt = query->stmt;
    ASSERT(query->state == QUERY_SENT);
    query->rows.count = 0;
    query->is_single = false;
    query->is_unknown |= stmt->access != PG_READ;
    bool is_harmless = stmt->access != PG_WRITE_ONCE;
    if (query->is_abandoned || !is_harmless || ++query->attempts >= ATTEMPTS_MAX)
        end_query(query, ERR_CLOSED);
}

void seam_query_lose_for_good(struct pg_query *query)
{
    ASSERT(query->state == QUERY_SENT);
    query->rows.count = 0;
    query->is_unknown |= query->stmt->access != PG_READ;
    end_query(query, ERR_CLOSED);
}

void seam_pool_away_set(struct pg_pool *pool, bool is_away)
{
    pool->is_away = is_away;
    arm_expiry(pool);
    pool->loop->is_dirty = true; /* the hook sends the queries that waited */
}

void seam_pool_refuse(struct pg_pool *pool)
{
    pool->is_refusing = true;
    pool->loop->is_dirty = true; /* the hook ends them */
}
