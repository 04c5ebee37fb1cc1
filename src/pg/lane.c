/*
 * A lane sends batches and handles their results. Results count only once the answer to the batch's
 * Sync (the commit) has arrived. A failed batch was rolled back as a whole: its queries are sent
 * again one by one, each with its own Sync, and only the faulty query gets its error. Queries in
 * flight on a lost connection have an unknown outcome: they are sent again if that is harmless,
 * else they end as ERR_CLOSED.
 *
 * This file relies on libpq's behaviour in pipeline mode: results come in the order of the
 * commands, a NULL ends each command's results, PGRES_PIPELINE_SYNC represents each Sync and is not
 * followed by a NULL, and after an error every command up to the Sync yields
 * PGRES_PIPELINE_ABORTED. A PGresult belongs to its caller until PQclear.
 */
#include "pg/lane.h"

#include "base/log.h"

static struct metric loss_metric = METRIC_INIT(
    "sluice_pg_connection_losses_total", "Database connections that were lost.", METRIC_COUNTER);
static struct metric connect_metric =
    METRIC_INIT("sluice_pg_connects_total", "Database connections that were made.", METRIC_COUNTER);
static struct metric error_metric =
    METRIC_INIT("sluice_pg_errors_total", "Queries that ended with an SQL error.", METRIC_COUNTER);

static struct pg_lane *lane_of(struct pg_link *link)
{
    return link->owner;
}

/* ---- sending ---- */

static bool lane_may_send(const struct pg_lane *lane, const struct pg_queue *queue)
{
    if (!lane->link.is_up || queue->count == 0)
        return false;
    struct list *first = queue->queries.next;
    size_t limit = lane->is_writer ? PG_FLIGHT_WRITES : PG_FLIGHT_READS;
    if (LIST_ITEM(first, struct pg_query, link)->is_single)
        /* For queries of a batch that was rolled back: each has its own Sync, so many may be in
         * flight without waiting for a round trip each. */
        limit = PG_FLIGHT_SINGLES;
    return lane->flight_count < limit;
}

bool pg_lane_send(struct pg_lane *lane, struct pg_queue *queue)
{
    if (!lane_may_send(lane, queue))
        return false;
    struct pg_batch *batch = pg_batch_collect(lane, queue);
    if (!batch)
        return false;
    /* The batch is in flight before it is sent: a failed send loses the connection, and on_down
     * handles its queries with those of the other batches. */
    batch->sent_ns = loop_now_ns(lane->pool->loop);
    batch->is_large = queue == &lane->pool->large;
    list_push_back(&lane->flight, &batch->link);
    lane->flight_count++;
    lane->large_count += batch->is_large;
    lane->needs_flush = true;
    if (pg_batch_send(batch, lane))
        return true;
    pg_link_lost(&lane->link, ERR_CLOSED, PQerrorMessage(lane->link.conn));
    return false;
}

void pg_lane_flush(struct pg_lane *lane)
{
    lane->needs_flush = false;
    if (lane->link.is_up)
        pg_link_flush(&lane->link);
}

/* ---- queries go back into the queue, or end ---- */

static void query_fail(struct pg_query *query, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    /* libpq's own errors have no SQLSTATE; XX000 is internal_error. */
    slice code = slice_first(slice_cstr(state ? state : "XX000"), PG_SQLSTATE_LEN);
    memcpy(query->sqlstate, code.ptr, code.len);
    query->sqlstate[code.len] = '\0';
    /* The message is copied into the op's arena, which must not be used once the op has ended. */
    if (op_is_active(query->wait.op))
        query->message = arena_dup(&query->wait.op->arena, slice_cstr(text));
    int status = ERR_IO;
    /* query_canceled (statement_timeout) and lock_not_available (lock_timeout). */
    if (slice_eq(code, SLICE("57014")) || slice_eq(code, SLICE("55P03")))
        status = ERR_TIMEOUT;
    /* Classes data_exception and integrity_constraint_violation: the caller's values are at
     * fault. */
    else if (slice_starts_with(code, SLICE("22")) || slice_starts_with(code, SLICE("23")))
        status = ERR_INVALID;
    metric_inc(&error_metric);
    log_event(status == ERR_IO ? LOG_ERROR : LOG_DEBUG, "database refused a statement",
              LOG_CSTR("statement", query->stmt->name), LOG_STR("sqlstate", code),
              LOG_CSTR("reason", text ? text : ""));
    pg_query_end(query, status);
}

/* After a rollback the outcome is known: the query did not take effect, and a write may be sent
 * again even if it is not replayable. `result` is the batch's error, which may be that of another
 * query; so one that is now sent alone gets its own, however often it has been sent. */
static void query_rolled_back(struct pg_query *query, const PGresult *result)
{
    if (query->is_abandoned)
        pg_query_end(query, ERR_CLOSED);
    else if (!query->is_single && query->attempts >= PG_ATTEMPTS_MAX)
        query_fail(query, result);
    else
        pg_query_again(query);
}

/* The connection was lost between sending and the commit's answer, so the server may or may not
 * have committed. pg_query_choose selects `again` for such a write. It runs before pg_query_again,
 * since it needs memory and its failure must end the query. */
static void query_lost(struct pg_query *query)
{
    const struct pg_stmt *stmt = query->stmt;
    query->is_unknown |= stmt->access != PG_READ;
    bool is_harmless = stmt->access != PG_WRITE_ONCE;
    if (query->is_abandoned || !is_harmless || query->attempts >= PG_ATTEMPTS_MAX)
        pg_query_end(query, ERR_CLOSED);
    else if (pg_query_choose(query))
        pg_query_again(query);
    else if (query->pool->coordinator)
        /* The query's shard was split after the query was sent. */
        query->pool->coordinator->router->moved(query);
    else
        pg_query_end(query, ERR_CLOSED);
}

/* ---- a batch ends ---- */

/* Class 40 (deadlock_detected, serialization_failure): the query may succeed if it is repeated. */
static bool is_retryable(const PGresult *result)
{
    return slice_starts_with(slice_cstr(PQresultErrorField(result, PG_DIAG_SQLSTATE)), SLICE("40"));
}

/* Citus also reports 0A000 for a statement that it cannot plan, which a new session does not fix.
 * The name of the server's function is never translated in a message. */
static bool is_stale_plan(const struct pg_lane *lane, const PGresult *result)
{
    slice state = slice_cstr(PQresultErrorField(result, PG_DIAG_SQLSTATE));
    slice from = slice_cstr(PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION));
    return slice_eq(state, SLICE("0A000")) &&
           (!lane->pool->is_coordinator || slice_eq(from, SLICE("RevalidateCachedQuery")));
}

/* The coordinator lost a node (class 08, connection_exception; 57P, its shutdown) while a write was
 * under way on several: it may have been committed on all. */
static bool is_unknown(const struct pg_lane *lane, const PGresult *result)
{
    slice state = slice_cstr(PQresultErrorField(result, PG_DIAG_SQLSTATE));
    return lane->pool->is_coordinator &&
           (slice_starts_with(state, SLICE("08")) || slice_starts_with(state, SLICE("57P")));
}

/* 26000 invalid_sql_statement_name */
static bool is_not_prepared(const PGresult *result)
{
    return slice_eq_cstr(slice_cstr(PQresultErrorField(result, PG_DIAG_SQLSTATE)), "26000");
}

/* The session is unusable, not the statement: 25006 read_only_sql_transaction after a failover,
 * 0A000 "cached plan must not change result type" and 26000 after a migration or with a pooler in
 * between. A new connection prepares everything again. */
static bool is_session_stale(const struct pg_lane *lane, const PGresult *result)
{
    slice state = slice_cstr(PQresultErrorField(result, PG_DIAG_SQLSTATE));
    return slice_eq(state, SLICE("25006")) || is_stale_plan(lane, result) ||
           is_not_prepared(result);
}

/* The batch was refused before anything was done: a shard has moved, is about to move, or its lock
 * could not be taken in time. */
static void lane_reroute(struct pg_batch *batch)
{
    for (size_t i = batch->query_count; i-- > 0;) {
        struct pg_query *query = batch->queries[i];
        query->pool->coordinator->router->moved(query);
    }
}

static void lane_replay(struct pg_lane *lane, struct pg_batch *batch)
{
    const PGresult *result = batch->commands[batch->failed_at].result;
    /* In a batch of one query the faulty one is known. In a larger batch it is not: in set mode
     * one message carries many queries. So all are sent again, alone, and only the faulty query
     * fails again. */
    struct pg_query *first = batch->queries[0];
    if (first->stmt->access != PG_READ && is_unknown(lane, result)) {
        /* A write on the coordinator has a batch of its own (goes_alone of pg/collect.c). */
        query_lost(first);
        return;
    }
    bool is_skipped = batch->is_unprepared && is_not_prepared(result);
    bool is_stale = !is_skipped && first->attempts < PG_STALE_ATTEMPTS_MAX &&
                    is_session_stale(lane, result);
    if (batch->query_count == 1 && !is_stale && !is_skipped &&
        (!is_retryable(result) || first->is_abandoned || first->attempts >= PG_ATTEMPTS_MAX)) {
        query_fail(first, result);
        return;
    }
    /* Each query goes to the front of the queue, so going from last to first keeps the batch's
     * order. */
    for (size_t i = batch->query_count; i-- > 0;) {
        batch->queries[i]->is_single = !is_stale && !is_skipped;
        query_rolled_back(batch->queries[i], result);
    }
    if (is_stale)
        /* Done last, because on_down also puts the later batches of this connection into the
         * queue. */
        pg_link_lost(&lane->link, ERR_IO, PQresultErrorMessage(result));
}

static void lane_fail_batch(struct pg_lane *lane, struct pg_batch *batch)
{
    /* Called before lane_replay, which may lose the connection and all its prepared statements. */
    pg_batch_unprepare(batch, lane);
    if (batch->failed_at < batch->guard_count &&
        !is_session_stale(lane, batch->commands[batch->failed_at].result))
        lane_reroute(batch);
    else
        lane_replay(lane, batch);
}

/* The batch has left the pipeline (committed, rolled back or lost): its slot and its rows are
 * free. The caller delivers, fails or replays its queries, and frees it. */
static void lane_land_batch(struct pg_lane *lane, struct pg_batch *batch)
{
    list_unlink(&batch->link);
    lane->flight_count--;
    lane->large_count -= batch->is_large;
    pg_batch_leave_rows(lane->pool, batch);
    lane->pool->is_dirty = true;
}

static void lane_finish_batch(struct pg_lane *lane, struct pg_batch *batch)
{
    lane_land_batch(lane, batch);
    if (batch->failed_at == SIZE_MAX)
        pg_batch_deliver(batch);
    else
        lane_fail_batch(lane, batch);
    pg_batch_free(batch);
}

/* ---- receiving ---- */

static void lane_take_failure(struct pg_lane *lane, struct pg_batch *batch, PGresult *result)
{
    /* libpq reports a lost connection as an error result of the oldest command; that does not
     * mean a rollback. */
    if (PQstatus(lane->link.conn) == CONNECTION_BAD) {
        PQclear(result);
        pg_link_lost(&lane->link, ERR_CLOSED, PQerrorMessage(lane->link.conn));
        return;
    }
    /* Only the first error is the cause. A second error can come only with the Sync. */
    if (batch->failed_at != SIZE_MAX || batch->command_at > batch->command_count) {
        PQclear(result);
        return;
    }
    batch->failed_at = batch->command_at;
    batch->commands[batch->command_at++].result = result;
}

static void lane_take_success(struct pg_batch *batch, PGresult *result)
{
    /* More results than commands would mean that libpq and this file count differently. */
    ASSERT(batch->command_at < batch->command_count);
    batch->commands[batch->command_at++].result = result;
}

static void lane_take_result(struct pg_lane *lane, PGresult *result)
{
    struct pg_batch *batch = LIST_ITEM(lane->flight.next, struct pg_batch, link);
    switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
        lane_take_success(batch, result);
        break;
    /* Skipped after an error; the Sync will end the batch. */
    case PGRES_PIPELINE_ABORTED:
        PQclear(result);
        break;
    case PGRES_PIPELINE_SYNC:
        PQclear(result);
        lane_finish_batch(lane, batch);
        break;
    default:
        lane_take_failure(lane, batch, result);
    }
}

static void on_readable(struct pg_link *link)
{
    struct pg_lane *lane = lane_of(link);
    /* A NULL ends each command; two in a row with commands left violate the protocol. */
    unsigned nulls = 0;
    lane->heard_ns = loop_now_ns(link->loop);
    /* PQgetResult blocks unless PQisBusy returns 0. Delivering a batch may lose or close the
     * connection, so is_up is checked each time. */
    while (link->is_up && lane->flight_count && nulls < 2 && !PQisBusy(link->conn)) {
        PGresult *result = PQgetResult(link->conn);
        nulls = result ? 0 : nulls + 1;
        if (result)
            lane_take_result(lane, result);
    }
    if (link->is_up && nulls == 2 && lane->flight_count)
        pg_link_lost(link, ERR_CLOSED, PQerrorMessage(link->conn));
}

/* ---- the connection is up or down ---- */

static void on_up(struct pg_link *link)
{
    struct pg_lane *lane = lane_of(link);
    /* A new session has prepared nothing. */
    memset(lane->prepared, 0, lane->pool->slots_room);
    lane->heard_ns = loop_now_ns(link->loop);
    lane->needs_flush = false;
    lane->pool->is_dirty = true;
    lane->pool->is_unreachable = false;
    metric_inc(&connect_metric);
    log_event(LOG_DEBUG, "database connected", LOG_BOOL("writer", lane->is_writer),
              LOG_INT("backend", PQbackendPID(link->conn)));
}

/* The newest batch comes first, and in each batch the last query: each query goes to the front
 * of its queue, so all end up in their old order. */
static void on_down(struct pg_link *link, const struct err *why)
{
    struct pg_lane *lane = lane_of(link);
    (void)why; /* the link has logged it */
    metric_inc(&loss_metric);
    while (!list_is_empty(&lane->flight)) {
        struct pg_batch *batch = LIST_ITEM(lane->flight.prev, struct pg_batch, link);
        lane_land_batch(lane, batch);
        for (size_t i = batch->query_count; i-- > 0;)
            query_lost(batch->queries[i]);
        pg_batch_free(batch);
    }
    ASSERT(lane->flight_count == 0);
    lane->pool->is_dirty = true;
}

/* A node's address may have changed by now. */
static void on_failure(struct pg_link *link)
{
    const struct pg_pool *coordinator = lane_of(link)->pool->coordinator;
    if (coordinator)
        coordinator->router->refresh(coordinator->router);
}

static void on_freed(struct pg_link *link)
{
    pg_pool_lane_freed(lane_of(link)->pool);
}

const struct pg_link_events pg_lane_events = {
    .on_up = on_up,
    .on_readable = on_readable,
    .on_down = on_down,
    .on_failure = on_failure,
    .on_freed = on_freed,
};

void pg_lane_check_stall(struct pg_lane *lane, uint64_t now_ns)
{
    if (!lane->link.is_up || lane->flight_count == 0)
        return;
    const struct pg_batch *batch = LIST_ITEM(lane->flight.next, struct pg_batch, link);
    /* An idle lane has received nothing for a long time, so the silence is measured from the
     * last send. stall_ns is above statement_timeout: a working server answers earlier, if only
     * with an error. */
    uint64_t since_ns = batch->sent_ns > lane->heard_ns ? batch->sent_ns : lane->heard_ns;
    if (now_ns > since_ns + lane->pool->stall_ns)
        pg_link_lost(&lane->link, ERR_TIMEOUT, "the database has gone silent");
}
