/*
 * The pool: routes queries to lanes, limits how many wait, and ends those that waited too long. At
 * the end of each turn every lane that can send sends (loop hook, phase DATABASE).
 *
 * The queries of a queue (writes, reads, large reads) are sent in order of submission as far as
 * pg/collect.c allows; there is no order between queues. An op that needs its queries in order
 * waits for the first before it submits the second.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "pg/lane.h"
#include "pg/value.h"

enum { SWEEP_MS = 100, SLOTS_MAX = 1024 * 1024 };

static struct metric waiting_metric = METRIC_INIT(
    "sluice_pg_queries_waiting", "Queries waiting for a database connection.", METRIC_GAUGE);
static struct metric query_metric = METRIC_INIT("sluice_pg_query_seconds",
                                                "From submitting a query to its commit or result.",
                                                METRIC_HISTOGRAM);
static struct metric refused_metric = METRIC_INIT(
    "sluice_pg_queries_refused_total", "Queries that ended without being sent.", METRIC_COUNTER);

static struct metric replay_metric =
    METRIC_INIT("sluice_pg_replays_total",
                "Queries sent again after a rollback or a lost connection.", METRIC_COUNTER);

/* ---- queues ---- */

void pg_queue_push(struct pg_queue *queue, struct pg_query *query)
{
    list_push_back(&queue->queries, &query->link);
    query->queue = queue;
    queue->count++;
    query->state = QUERY_WAITING;
    query->pool->waiting++;
    query->pool->is_dirty = true;
}

void pg_queue_push_front(struct pg_queue *queue, struct pg_query *query)
{
    pg_queue_push(queue, query);
    list_unlink(&query->link);
    list_push_front(&queue->queries, &query->link);
}

void pg_queue_unlink(struct pg_query *query)
{
    struct pg_queue *queue = query->queue;
    ASSERT(queue->count > 0 && query->state == QUERY_WAITING);
    list_unlink(&query->link);
    pg_tenant_leave(queue, query);
    queue->count--;
    query->pool->waiting--;
}

/* The sweep runs only while queries are pending: an idle process is not woken. */
void pg_pool_arm_sweep(struct pg_pool *pool)
{
    if (!timer_is_armed(&pool->sweep))
        timer_start_in_ms(&pool->sweep, SWEEP_MS);
}

/* ---- queries ---- */

/* A write whose answer was lost is sent again, and `status` is the result of the last attempt.
 * It settles the first attempt only if both must have ended alike: OK found the result, and a
 * refused value is refused each time. With any other status the outcome of the first stays
 * unknown. */
static int status_of_all(const struct pg_query *query, int status)
{
    bool is_same_for_all = status == OK || status == ERR_INVALID || status == ERR_LIMIT;
    return query->is_unknown && !is_same_for_all ? ERR_CLOSED : status;
}

void pg_query_end(struct pg_query *query, int status)
{
    struct pg_pool *pool = query->pool;
    ASSERT(query->state != QUERY_IDLE && pool->pending > 0);
    ASSERT(list_is_empty(&query->link));
    query->status = status_of_all(query, status);
    query->state = QUERY_IDLE;
    pool->pending--;
    if (status == ERR_BUSY)
        metric_inc(&refused_metric);
    else
        metric_time(&query_metric, loop_now_ns(pool->loop) - query->queued_ns);
    op_wait_end(&query->wait);
}

void pg_query_again(struct pg_query *query)
{
    query->attempts++;
    metric_inc(&replay_metric);
    /* The query joins no tenant and counts in no share: it was admitted once, and must not be
     * refused now. */
    pg_queue_push_front(query->queue, query);
}

/* Makes the query end at the end of this turn, since nothing may complete before pg_submit has
 * returned. */
static void pool_reject(struct pg_pool *pool, struct pg_query *query, int status)
{
    query->status = status;
    query->state = QUERY_REJECTED;
    list_push_back(&pool->rejected, &query->link);
    pool->is_dirty = true;
}

static void query_check(const struct pg_query *query)
{
    const struct pg_stmt *stmt = query->stmt;
    ASSERT(stmt && query->state == QUERY_IDLE);
    for (size_t i = 0; i < stmt->param_count; i++)
        ASSERT(query->params[i].type == stmt->params[i].type);
}

static void query_init(struct pg_pool *pool, struct pg_query *query)
{
    const struct pg_stmt *stmt = query->stmt;
    /* A caller may submit the same query again after ERR_CLOSED; only then does the flag still
     * count. */
    query->is_unknown = query->is_unknown && query->status != OK;
    query->status = OK;
    query->sqlstate[0] = '\0';
    query->message = SLICE_NONE;
    query->rows = (struct pg_rows){.column_count = stmt->column_count};
    query->pool = pool;
    query->queue = NULL;
    query->tenant = NULL;
    list_init(&query->link);
    list_init(&query->tenant_link);
    query->queued_ns = loop_now_ns(pool->loop);
    /* The deadline is checked only while the query waits: statement_timeout limits a query that
     * was sent. */
    query->expires_ns = query->deadline_ns ? query->deadline_ns
                                           : query->queued_ns + pool->queue_timeout_ns;
    query->attempts = 0;
    query->shard_id = 0;
    query->is_partial = false;
    query->is_single = query->is_abandoned = query->has_rerun = false;
    query->param_bytes = 0;
    for (size_t i = 0; i < stmt->param_count; i++)
        query->param_bytes += pg_value_size(&query->params[i]);
    /* Reads do not exclude each other, and inserts without a key never change the same row. */
    bool has_row = stmt->access != PG_READ && stmt->key_count > 0;
    query->key_hash = has_row ? pg_values_hash(query->params, stmt->key_count) : 0;
}

bool pg_query_choose(struct pg_query *query)
{
    const struct pg_stmt *stmt = query->stmt;
    query->slot = pg_slot_get(query->pool, query->is_unknown && stmt->again ? stmt->again : stmt,
                              query->shard_id);
    return query->slot != NULL;
}

struct pg_queue *pg_queue_of(struct pg_pool *pool, const struct pg_stmt *stmt)
{
    if (stmt->access != PG_READ)
        return &pool->writes;
    return stmt->is_large ? &pool->large : &pool->reads;
}

/* Called when the op was cancelled. */
static void query_cut(struct op_wait *wait)
{
    struct pg_query *query = CONTAINER_OF(wait, struct pg_query, wait);
    switch ((enum pg_query_state)query->state) {
    case QUERY_WAITING:
        pg_queue_unlink(query);
        pg_query_end(query, ERR_BUSY);
        break;
    case QUERY_REJECTED:
        list_unlink(&query->link);
        pg_query_end(query, query->status);
        break;
    case QUERY_SENT:
        /* The query cannot be taken out of a batch; the op stays held until the result has
         * arrived. */
        query->is_abandoned = true;
        break;
    case QUERY_SPREAD:
        op_cancel(query->spread);
        break;
    case QUERY_IDLE:
        break;
    }
}

static bool has_lane(const struct pg_pool *pool)
{
    for (size_t i = 0; i < pool->lane_count; i++)
        if (pool->lanes[i]->link.is_up)
            return true;
    return false;
}

/* While the database is unreachable, the first requests wait for it, as it may be back in a
 * moment; later requests are refused without that wait. */
static bool is_refused(const struct pg_pool *pool, const struct pg_query *query)
{
    const struct op *op = query->wait.op;
    return pool->is_unreachable && op && op->is_attended && !query->stmt->is_result &&
           !has_lane(pool);
}

/* Puts the query into the queue; if that fails, the query ends at the end of this turn. */
static void query_enqueue(struct pg_query *query, struct pg_queue *queue)
{
    struct pg_pool *pool = query->pool;
    /* The slot is set first: pg_tenant_join reads from it which parameter is the account. */
    int code = pg_query_choose(query) ? OK : ERR_NOMEM;
    if (code == OK && query->param_bytes > PG_PARAM_BYTES_MAX)
        code = ERR_LIMIT;
    if (code == OK)
        code = pool->is_closing || is_refused(pool, query) ? ERR_BUSY
                                                           : pg_tenant_join(queue, query);
    if (code == OK)
        pg_queue_push(queue, query);
    else
        pool_reject(pool, query, code);
}

static void query_begin(struct pg_pool *pool, struct pg_query *query, struct op *op)
{
    query_check(query);
    query_init(pool, query);
    op_wait_begin(op, &query->wait, query->stmt->name, query_cut);
    pool->pending++;
    pg_pool_arm_sweep(pool);
}

void pg_submit(struct pg_pool *pool, struct pg_query *query, struct op *op)
{
    query_begin(pool, query, op);
    struct pg_router *router = pool->router;
    if (!router)
        query_enqueue(query, pg_queue_of(pool, query->stmt));
    else if (!query->stmt->is_spread)
        query_enqueue(query, router->route(query));
    else if (!router->spread(router, query, op))
        pool_reject(pool, query, ERR_NOMEM);
}

void pg_submit_to(struct pg_pool *node, struct pg_query *query, struct op *op, int64_t shard_id)
{
    query_begin(node, query, op);
    query->shard_id = shard_id;
    query_enqueue(query, pg_queue_of(node, query->stmt));
}

/* ---- the end of a turn ---- */

static void pool_end_rejected(struct pg_pool *pool)
{
    LIST_DRAIN(&pool->rejected, struct pg_query, query, link) {
        pg_query_end(query, query->status);
    }
}

/* Returns the reader with the fewest batches in flight, preferably without a large read; NULL if
 * none is connected. The search is linear, since there are at most PG_LANES_MAX lanes. */
static struct pg_lane *pool_best_reader(struct pg_pool *pool)
{
    struct pg_lane *best = NULL;
    for (size_t i = pool->writer_count; i < pool->lane_count; i++) {
        struct pg_lane *lane = pool->lanes[i];
        if (!lane->link.is_up)
            continue;
        if (!best || lane->large_count < best->large_count ||
            (lane->large_count == best->large_count && lane->flight_count < best->flight_count))
            best = lane;
    }
    return best;
}

/* Returns the last connected reader if no large read is in flight; otherwise NULL. It is the last
 * because pool_best_reader prefers the first of equals, so small and large reads rarely share a
 * reader. */
static struct pg_lane *pool_large_reader(struct pg_pool *pool)
{
    struct pg_lane *last = NULL;
    for (size_t i = pool->writer_count; i < pool->lane_count; i++) {
        if (pool->lanes[i]->large_count > 0)
            return NULL;
        if (pool->lanes[i]->link.is_up)
            last = pool->lanes[i];
    }
    return last;
}

/* Counts the queries in the writers' batches in flight. Batches older than PG_HOLD_MS do not
 * count, so a slow batch that waits for a lock delays no other. */
static size_t pool_writing(const struct pg_pool *pool)
{
    uint64_t since_ns = loop_now_ns(pool->loop) - (uint64_t)PG_HOLD_MS * 1000 * 1000;
    size_t count = 0;
    for (size_t i = 0; i < pool->writer_count; i++) {
        LIST_EACH(&pool->lanes[i]->flight, const struct pg_batch, batch, link) {
            count += batch->sent_ns > since_ns ? batch->query_count : 0;
        }
    }
    return count;
}

/* A batch costs the database about as much as ten of its rows, so under load a few large batches
 * are fastest: while others are in flight, a batch is sent only once it has as many queries as
 * they have together. A lone query does not wait, and no query is delayed for more than
 * PG_HOLD_MS. */
static bool pool_holds_back(struct pg_pool *pool)
{
    if (pool->writes.count >= pool_writing(pool))
        return false;
    if (pool->writes.count && !timer_is_armed(&pool->hold))
        timer_start_in_ms(&pool->hold, PG_HOLD_MS);
    return true;
}

static void on_hold_end(struct timer *timer)
{
    CONTAINER_OF(timer, struct pg_pool, hold)->is_dirty = true;
}

static void pool_flush(struct pg_pool *pool)
{
    for (size_t i = 0; i < pool->writer_count; i++)
        /* Checked before each batch: the batch just sent counts as in flight. */
        while (!pool_holds_back(pool) && pg_lane_send(pool->lanes[i], &pool->writes))
            continue;
    struct pg_lane *reader;
    while ((reader = pool_best_reader(pool)) && pg_lane_send(reader, &pool->reads))
        continue;
    while ((reader = pool_large_reader(pool)) && pg_lane_send(reader, &pool->large))
        continue;
    for (size_t i = 0; i < pool->lane_count; i++)
        if (pool->lanes[i]->needs_flush)
            pg_lane_flush(pool->lanes[i]);
}

/* Returns the number of waiting queries, including those of the nodes' pools. */
static size_t pool_waiting(const struct pg_pool *pool)
{
    const struct pg_pool *whole = pool->coordinator ? pool->coordinator : pool;
    return whole->waiting + (whole->router ? whole->router->waiting(whole->router) : 0);
}

static void on_turn_end(struct loop_hook *hook)
{
    struct pg_pool *pool = CONTAINER_OF(hook, struct pg_pool, hook);
    if (!pool->is_dirty)
        return;
    /* Cleared first: a lost connection or a failed allocation below sets it for the next turn. */
    pool->is_dirty = false;
    pool_end_rejected(pool);
    pool_flush(pool);
    metric_set(metric_series(&waiting_metric, SLICE_NONE), (double)pool_waiting(pool));
}

/* ---- deadlines ---- */

static void queue_expire(struct pg_pool *pool, struct pg_queue *queue, uint64_t now_ns)
{
    LIST_EACH(&queue->queries, struct pg_query, query, link) {
        if (query->expires_ns > now_ns)
            continue;
        pool->is_unreachable = !has_lane(pool);
        pg_queue_unlink(query);
        pg_query_end(query, ERR_BUSY);
    }
}

static void on_sweep(struct timer *timer)
{
    struct pg_pool *pool = CONTAINER_OF(timer, struct pg_pool, sweep);
    uint64_t now_ns = loop_now_ns(pool->loop);
    for (size_t i = 0; i < pool->lane_count; i++)
        pg_lane_check_stall(pool->lanes[i], now_ns);
    queue_expire(pool, &pool->writes, now_ns);
    queue_expire(pool, &pool->reads, now_ns);
    queue_expire(pool, &pool->large, now_ns);
    queue_expire(pool, &pool->homeless, now_ns);
    if (pool->homeless.count)
        pool->router->refresh(pool->router);
    pool->is_dirty = true;
    if (pool->pending)
        pg_pool_arm_sweep(pool);
}

/* ---- creation and removal ---- */

static void pool_free_memory(struct loop_garbage *garbage)
{
    struct pg_pool *pool = CONTAINER_OF(garbage, struct pg_pool, garbage);
    for (size_t i = 0; i < pool->lane_count; i++) {
        mem_free(pool->lanes[i]->prepared);
        mem_free(pool->lanes[i]);
    }
    pg_slot_free_all(pool);
    pg_queue_deinit(&pool->homeless);
    pg_queue_deinit(&pool->writes);
    pg_queue_deinit(&pool->reads);
    pg_queue_deinit(&pool->large);
    buf_deinit(&pool->scratch);
    pg_target_free(pool->target);
    mem_free(pool->lanes);
    mem_free(pool);
}

void pg_pool_lane_freed(struct pg_pool *pool)
{
    ASSERT(pool->lanes_alive > 0 && pool->is_closing);
    if (--pool->lanes_alive)
        return;
    pool->garbage.free = pool_free_memory;
    loop_garbage_add(pool->loop, &pool->garbage);
}

static int pool_start_lanes(struct pg_pool *pool, const struct pg_pool_config *config)
{
    for (size_t i = 0; i < pool->lane_count; i++) {
        pool->lanes[i] = mem_zalloc(sizeof(struct pg_lane));
        if (!pool->lanes[i])
            return ERR_NOMEM;
    }
    if (!pg_slots_make_room(pool, PG_SLOTS_MIN))
        return ERR_NOMEM;
    unsigned timeout_ms = config->connect_timeout_ms ? config->connect_timeout_ms : 5000;
    for (size_t i = 0; i < pool->lane_count; i++) {
        struct pg_lane *lane = pool->lanes[i];
        lane->pool = pool;
        lane->is_writer = i < pool->writer_count;
        list_init(&lane->flight);
        pg_link_start(&lane->link, pool->loop, pool->target, config->dns, timeout_ms, true,
                      &pg_lane_events, lane);
        /* One writer and one reader connect at once, which pg_pool_is_ready requires. */
        bool is_first = i == 0 || i == pool->writer_count;
        lane->link.first_rest_ms = is_first ? 0 : PG_LINK_SPARE_MS;
        pool->lanes_alive++;
    }
    return OK;
}

static bool is_coordinator(const struct pg_pool_config *config)
{
    return config->is_command || (config->is_sharded && !config->host);
}

/* 1024 bytes are enough for the settings and two numbers of at most ten digits. */
static struct pg_target *pool_target(const struct pg_pool_config *config, struct err *err)
{
    char settings[1024];
    unsigned statement_ms = config->statement_timeout_ms ? config->statement_timeout_ms : 10000;
    unsigned lock_ms = config->lock_timeout_ms ? config->lock_timeout_ms : 1000;
    /* The coordinator's plans depend on the values, which select the shard. */
    const char *plans = is_coordinator(config) ? "auto" : "force_generic_plan";
    /* By its own settings a node refuses to change a shard's tables by their names: Citus does
     * not know that shard/shards.c follows its rules. */
    const char *more = config->host ? ",('citus.enable_manual_changes_to_shards','on')" : "";
    snprintf(settings, sizeof(settings),
             PG_SETTINGS_PLAN
             ",('statement_timeout','%u'),('lock_timeout','%u'),('plan_cache_mode','%s')%s",
             statement_ms, lock_ms, plans, more);
    struct pg_target *target =
        pg_target_new(config->conninfo, config->application_name, settings, err);
    if (!target || !config->host || pg_target_point_to(target, config->host, config->port))
        return target;
    pg_target_free(target);
    return err_null(err, ERR_NOMEM, "out of memory");
}

static void pool_set_limits(struct pg_pool *pool, const struct pg_pool_config *config)
{
    unsigned statement_ms = config->statement_timeout_ms ? config->statement_timeout_ms : 10000;
    unsigned queue_ms = config->queue_timeout_ms ? config->queue_timeout_ms : 5000;
    pool->is_coordinator = is_coordinator(config);
    pool->mode = pool->is_coordinator ? PG_MODE_PIPE : config->mode;
    pool->group = config->group;
    pool->queue_max = config->queue_max ? config->queue_max : 10000;
    pool->batch_rows_max = config->batch_rows_max ? config->batch_rows_max : 1024;
    pool->queue_timeout_ns = (uint64_t)queue_ms * 1000 * 1000;
    /* 5 s above the server's own limit: a working server has answered or cancelled by then. */
    pool->stall_ns = ((uint64_t)statement_ms + 5000) * 1000 * 1000;
    pool->writer_count = config->writers ? config->writers : 2;
    pool->lane_count = pool->writer_count + (config->readers ? config->readers : 2);
}

struct pg_pool *pg_pool_new(struct loop *loop, const struct pg_pool_config *config, struct err *err)
{
    struct pg_pool *pool = mem_zalloc(sizeof(*pool));
    if (!pool)
        return err_null(err, ERR_NOMEM, "out of memory");
    pool->loop = loop;
    pool_set_limits(pool, config);
    ASSERT(pool->lane_count <= PG_LANES_MAX);
    map_init(&pool->slots, SLOTS_MAX);
    /* A maximum far above the actual use: arrays are built only for batches of several queries,
     * about 1 MB. */
    buf_init(&pool->scratch, (size_t)3 * PG_PARAM_BYTES_MAX);
    pg_queue_init(&pool->writes);
    pg_queue_init(&pool->reads);
    pg_queue_init(&pool->large);
    pg_queue_init(&pool->homeless);
    list_init(&pool->rejected);
    timer_init(&pool->sweep, loop, on_sweep);
    timer_init(&pool->hold, loop, on_hold_end);
    pool->target = pool_target(config, err);
    pool->lanes = pool->target ? mem_calloc(pool->lane_count, sizeof(struct pg_lane *)) : NULL;
    if (!pool->lanes || pool_start_lanes(pool, config) != OK) {
        if (pool->target)
            err_set(err, ERR_NOMEM, "out of memory");
        if (!pool->lanes)
            pool->lane_count = 0;
        /* pool_start_lanes fails only before it starts a link, so nothing else refers to this
         * memory. */
        pool_free_memory(&pool->garbage);
        return NULL;
    }
    pool->hook.run = on_turn_end;
    loop_hook_add(loop, &pool->hook, LOOP_PHASE_DATABASE);
    return pool;
}

/* Queries of a dropped node are routed again, the last query first, because each goes to the
 * front. */
static void queue_end_all(struct pg_pool *pool, struct pg_queue *queue)
{
    while (!list_is_empty(&queue->queries)) {
        struct pg_query *query = LIST_ITEM(queue->queries.prev, struct pg_query, link);
        pg_queue_unlink(query);
        if (pool->coordinator)
            pool->coordinator->router->moved(query);
        else
            pg_query_end(query, ERR_BUSY);
    }
}

void pg_pool_free(struct pg_pool *pool)
{
    if (!pool)
        return;
    ASSERT(!pool->is_closing);
    /* Links are closed first: within pg_link_close their lost queries return to the queues,
     * which end after them. */
    pool->is_closing = true;
    if (pool->router)
        pool->router->free(pool->router);
    for (size_t i = 0; i < pool->lane_count; i++)
        pg_link_close(&pool->lanes[i]->link);
    queue_end_all(pool, &pool->writes);
    queue_end_all(pool, &pool->reads);
    queue_end_all(pool, &pool->large);
    queue_end_all(pool, &pool->homeless);
    pool_end_rejected(pool);
    ASSERT(pool->pending == 0);
    timer_stop(&pool->sweep);
    timer_stop(&pool->hold);
    loop_hook_remove(&pool->hook);
}

/* ---- state of the pool ---- */

bool pg_pool_is_ready(const struct pg_pool *pool)
{
    size_t writers = 0, readers = 0;
    for (size_t i = 0; i < pool->lane_count; i++)
        /* Writers come first in the array. */
        *(i < pool->writer_count ? &writers : &readers) += pool->lanes[i]->link.is_up;
    return writers > 0 && readers > 0 && (!pool->router || pool->router->is_ready(pool->router));
}

size_t pg_pool_pending(const struct pg_pool *pool)
{
    return pool->pending + (pool->router ? pool->router->pending(pool->router) : 0);
}
