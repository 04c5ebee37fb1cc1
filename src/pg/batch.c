/*
 * A batch on the wire: for each statement one message in set mode (or one per query in pipe mode),
 * then one Sync; and the assignment of results to the queries.
 *
 * All messages of a batch run in one implicit transaction that ends at the Sync (PostgreSQL,
 * "Message Flow: Pipelining"), so a batch costs one commit. libpq copies the arguments of PQsend*,
 * so no part of a query is borrowed after pg_batch_send. Results belong to the batch until
 * pg_batch_free clears them; rows are copied into the arena of each query's op.
 */
#include "base/mem.h"
#include "pg/rows.h"
#include "pg/lane.h"
#include "pg/value.h"

enum { SCRATCH_KEEP_BYTES = 1024 * 1024 };

static struct metric batch_metric = METRIC_INIT(
    "sluice_pg_batches_total", "Batches sent, by the number of their queries.", METRIC_COUNTER);
static struct metric row_metric =
    METRIC_INIT("sluice_pg_batched_queries_total", "Queries sent in batches.", METRIC_COUNTER);
static struct metric commit_metric =
    METRIC_INIT("sluice_pg_commits_total", "Batches of writes committed.", METRIC_COUNTER);
static struct metric batch_time_metric =
    METRIC_INIT("sluice_pg_batch_seconds", "From sending a batch to its commit.", METRIC_HISTOGRAM);

void pg_batch_free(struct pg_batch *batch)
{
    if (!batch)
        return;
    ASSERT(list_is_empty(&batch->link) || !batch->queries);
    /* Includes the entry after the last command: if the commit fails, the Sync has the error.
     * PQclear accepts NULL. */
    for (size_t i = 0; batch->commands && i <= batch->command_count; i++)
        PQclear(batch->commands[i].result);
    arena_deinit(&batch->arena);
    mem_free(batch);
}

static void batch_count(const struct pg_batch *batch)
{
    static const struct {
        size_t max;
        slice label;
    } sizes[] = {
        {1, SLICE_INIT("queries=\"1\"")},        {4, SLICE_INIT("queries=\"2-4\"")},
        {16, SLICE_INIT("queries=\"5-16\"")},    {64, SLICE_INIT("queries=\"17-64\"")},
        {256, SLICE_INIT("queries=\"65-256\"")}, {SIZE_MAX, SLICE_INIT("queries=\"257-\"")},
    };
    size_t i = 0;
    while (batch->query_count > sizes[i].max)
        i++;
    metric_add(metric_series(&batch_metric, sizes[i].label), 1);
    metric_add(metric_series(&row_metric, SLICE_NONE), (double)batch->query_count);
}

/* ---- sending ---- */

static bool send_prepare(struct pg_lane *lane, const struct pg_command *command)
{
    const struct pg_slot *slot = command->slot;
    Oid oids[PG_PARAMS_MAX];
    for (size_t i = 0; i < slot->stmt->param_count; i++)
        oids[i] = pg_stmt_param_oid(slot->stmt, command->mode, i);
    return PQsendPrepare(lane->link.conn, slot->name[command->mode], slot->sql[command->mode],
                         slot->stmt->param_count, oids);
}

static bool send_pipe(struct pg_lane *lane, const struct pg_command *command)
{
    const struct pg_stmt *stmt = command->slot->stmt;
    const struct pg_query *query = command->queries[0];
    /* Buffer for converted numbers; text and bytes are sent in place. */
    char scratch[PG_PARAMS_MAX][8];
    const char *values[PG_PARAMS_MAX];
    int lengths[PG_PARAMS_MAX], formats[PG_PARAMS_MAX];
    for (size_t i = 0; i < stmt->param_count; i++) {
        const struct pg_value *value = &query->params[i];
        slice bytes = value->is_null ? SLICE_NONE : pg_value_encode(value, scratch[i]);
        values[i] = bytes.ptr;
        /* The length fits an int: pg_submit refuses more than PG_PARAM_BYTES_MAX. */
        lengths[i] = (int)bytes.len;
        formats[i] = 1; /* binary */
    }
    return PQsendQueryPrepared(lane->link.conn, command->slot->name[PG_MODE_PIPE],
                               stmt->param_count, values, lengths, formats, 1);
}

static bool send_set(struct pg_lane *lane, const struct pg_command *command)
{
    const struct pg_stmt *stmt = command->slot->stmt;
    struct buf *scratch = &lane->pool->scratch;
    /* Offsets are stored first, and become pointers once all arrays are in the buffer, which
     * moves while it grows. */
    size_t ends[PG_PARAMS_MAX];
    const char *values[PG_PARAMS_MAX];
    int lengths[PG_PARAMS_MAX], formats[PG_PARAMS_MAX];
    buf_clear(scratch);
    for (size_t i = 0; i < stmt->param_count; i++) {
        pg_array_encode(scratch, stmt, command->queries, command->count, i);
        ends[i] = scratch->len;
    }
    if (!buf_is_ok(scratch))
        return false;
    for (size_t i = 0; i < stmt->param_count; i++) {
        size_t start = i ? ends[i - 1] : 0;
        values[i] = scratch->ptr + start;
        lengths[i] = (int)(ends[i] - start);
        formats[i] = 1; /* binary */
    }
    bool is_sent = PQsendQueryPrepared(lane->link.conn, command->slot->name[PG_MODE_SET],
                                       stmt->param_count, values, lengths, formats, 1);
    /* PQsendQueryPrepared has copied the arrays. The memory of a large batch, which is rare, is
     * freed. */
    buf_shrink(scratch, SCRATCH_KEEP_BYTES);
    return is_sent;
}

/* A group of one query is sent as a plain statement in either mode: unnesting arrays of one
 * element is pure overhead. Without parameters there is no array to carry the number of queries. */
static enum pg_mode group_mode(const struct pg_pool *pool, const struct pg_stmt *stmt, size_t count)
{
    return pool->mode == PG_MODE_SET && count > 1 && stmt->param_count ? PG_MODE_SET : PG_MODE_PIPE;
}

/* Returns the end of the group of queries with the same statement that begins at `start`. */
static size_t group_end(const struct pg_batch *batch, size_t start)
{
    size_t end = start + 1;
    while (end < batch->query_count && batch->queries[end]->slot == batch->queries[start]->slot)
        end++;
    return end;
}

/* Returns the end of the run of queries with the same parameters as the query at `start`.
 * cmp_queries of pg/collect.c has put such queries next to each other. */
static size_t same_end(const struct pg_batch *batch, size_t start, size_t end)
{
    const struct pg_query *first = batch->queries[start];
    size_t at = start + 1;
    for (; first->stmt->is_shared && at < end; at++)
        for (size_t i = 0; i < first->stmt->param_count; i++)
            if (pg_value_cmp(&first->params[i], &batch->queries[at]->params[i]) != 0)
                return at;
    return at;
}

/* Returns the queries of a group that are sent: only the first of those that share an answer.
 * Returns NULL if out of memory. */
static struct pg_query **group_heads(struct pg_batch *batch, size_t start, size_t end,
                                     size_t *count)
{
    *count = end - start;
    if (!batch->queries[start]->stmt->is_shared)
        return &batch->queries[start];
    struct pg_query **heads = ARENA_ARRAY(&batch->arena, struct pg_query *, end - start);
    *count = 0;
    for (size_t at = start; heads && at < end; at = same_end(batch, at, end))
        heads[(*count)++] = batch->queries[at];
    return heads;
}

/* Returns the shards of the batch's queries, each as a query with the guards' parameters; NULL if
 * out of memory. The search is linear, since a node has tens of shards. */
static struct pg_query **guard_queries(struct pg_batch *batch, int64_t group, size_t *count)
{
    struct pg_query **guards = ARENA_ARRAY(&batch->arena, struct pg_query *, batch->query_count);
    *count = 0;
    for (size_t i = 0; guards && i < batch->query_count; i++) {
        int64_t shard_id = batch->queries[i]->shard_id;
        size_t at = 0;
        while (at < *count && guards[at]->params[0].as.i64 != shard_id)
            at++;
        if (at < *count)
            continue;
        guards[at] = arena_zalloc(&batch->arena, sizeof(struct pg_query));
        if (!guards[at])
            return NULL;
        guards[at]->params[0] = pg_i64(shard_id);
        guards[at]->params[1] = pg_i64(group);
        ++*count;
    }
    return guards;
}

/* Marks a statement as prepared: later batches of the pipeline execute it without a Prepare of
 * their own, before the server has answered. pg_batch_unprepare reverts it if this batch fails. */
static struct pg_command *plan_prepare(struct pg_lane *lane, struct pg_slot *slot,
                                       enum pg_mode mode, struct pg_command *next)
{
    if (!(lane->prepared[slot->index] & (1u << mode)))
        *next++ = (struct pg_command){.slot = slot, .mode = mode, .is_prepare = true};
    lane->prepared[slot->index] |= (uint8_t)(1u << mode);
    return next;
}

/* Returns NULL if out of memory. */
static struct pg_command *plan_guards(struct pg_batch *batch, struct pg_lane *lane,
                                      struct pg_command *next)
{
    const struct pg_stmt *const *stmts = lane->pool->coordinator->router->guards;
    size_t count = 0;
    struct pg_query **guards = guard_queries(batch, lane->pool->group, &count);
    for (size_t i = 0; guards && i < PG_GUARD_COUNT; i++) {
        struct pg_slot *slot = pg_slot_get(lane->pool, stmts[i], 0);
        if (!slot)
            return NULL;
        enum pg_mode mode = count > 1 ? PG_MODE_SET : PG_MODE_PIPE;
        next = plan_prepare(lane, slot, mode, next);
        *next++ = (struct pg_command){
            .slot = slot,
            .mode = mode,
            .queries = guards,
            .count = count,
        };
    }
    batch->guard_count = (size_t)(next - batch->commands);
    return guards ? next : NULL;
}

/* Turns the queries into commands, which precede the Sync. Returns false if out of memory. */
static bool batch_plan(struct pg_batch *batch, struct pg_lane *lane)
{
    bool is_guarded = lane->pool->coordinator != NULL;
    size_t max = 1 + (is_guarded ? 2 * PG_GUARD_COUNT : 0); /* the Sync, the guards */
    for (size_t at = 0, end; at < batch->query_count; at = end) {
        end = group_end(batch, at);
        bool is_set = group_mode(lane->pool, batch->queries[at]->stmt, end - at) == PG_MODE_SET;
        size_t set_count = 1 + (end - at - 1) / pg_stmt_set_max(batch->queries[at]->stmt);
        /* One command is for the Prepare. group_heads may leave fewer queries, and so select
         * another mode: in pipe mode there is one message for each head, never more than counted
         * here. */
        max += 1 + (is_set ? set_count : end - at);
    }
    batch->commands = ARENA_ARRAY(&batch->arena, struct pg_command, max);
    if (!batch->commands)
        return false;
    struct pg_command *next = batch->commands;
    if (is_guarded && !(next = plan_guards(batch, lane, next)))
        return false;
    for (size_t at = 0, end; at < batch->query_count; at = end) {
        end = group_end(batch, at);
        struct pg_slot *slot = batch->queries[at]->slot;
        size_t count = 0;
        struct pg_query **heads = group_heads(batch, at, end, &count);
        if (!heads)
            return false;
        enum pg_mode mode = group_mode(lane->pool, slot->stmt, count);
        next = plan_prepare(lane, slot, mode, next);
        size_t step = mode == PG_MODE_SET ? pg_stmt_set_max(slot->stmt) : 1;
        for (size_t head = 0, q = at, last = at; head < count; head += step, q = last) {
            step = step < count - head ? step : count - head;
            for (size_t i = 0; i < step; i++)
                last = same_end(batch, last, end);
            *next++ = (struct pg_command){.slot = slot,
                                          .mode = mode,
                                          .queries = &heads[head],
                                          .count = step,
                                          .sharers = &batch->queries[q],
                                          .sharer_count = last - q};
        }
    }
    batch->command_count = (size_t)(next - batch->commands);
    return true;
}

/* Prepared statements are not transactional: statements that the server prepared before the
 * failed command remain, in spite of the rollback. From that command on the server skipped
 * everything up to the Sync, but batches that were sent in between rely on those statements. */
void pg_batch_unprepare(const struct pg_batch *batch, struct pg_lane *lane)
{
    bool is_skipped = false;
    for (size_t i = batch->failed_at; i < batch->command_count; i++) {
        const struct pg_command *command = &batch->commands[i];
        if (!command->is_prepare)
            continue;
        lane->prepared[command->slot->index] &= (uint8_t)(~(1u << command->mode));
        is_skipped = true;
    }
    for (struct list *at = lane->flight.next; is_skipped && at != &lane->flight; at = at->next)
        LIST_ITEM(at, struct pg_batch, link)->is_unprepared = true;
}

static bool gather(struct pg_batch *batch, const struct pg_command *command)
{
    const struct pg_stmt *stmt = command->slot->stmt;
    return command->is_prepare || !stmt->gather ||
           stmt->gather(command->queries, command->count, &batch->arena);
}

bool pg_batch_send(struct pg_batch *batch, struct pg_lane *lane)
{
    if (!batch_plan(batch, lane))
        return false;
    for (size_t i = 0; i < batch->command_count; i++) {
        const struct pg_command *command = &batch->commands[i];
        if (!gather(batch, command))
            return false;
        bool is_sent = command->is_prepare            ? send_prepare(lane, command)
                       : command->mode == PG_MODE_SET ? send_set(lane, command)
                                                      : send_pipe(lane, command);
        /* libpq cannot withdraw queued messages, so the caller drops the connection. Without a
         * Sync nothing of the batch is committed. */
        if (!is_sent)
            return false;
    }
    batch_count(batch);
    return PQpipelineSync(lane->link.conn);
}

/* ---- delivering ---- */

/* Returns the number of columns before the statement's own: 1 if there is an ordinal. */
static size_t lead_columns(const struct pg_stmt *stmt)
{
    return stmt->match == PG_MATCH_ORD ? 1 : 0;
}

/* Copies the rows of one query; `rows` has their numbers in the result. Returns ERR_NOMEM above the
 * limit of the query's arena. */
static int fill_query(struct pg_query *query, const PGresult *result, const size_t *rows,
                      size_t count)
{
    const struct pg_stmt *stmt = query->stmt;
    /* The op may have ended while the commit was under way; nothing may be allocated in its arena
     * now. */
    if (query->is_abandoned || !op_is_active(query->wait.op))
        return OK;
    return pg_rows_copy(&query->wait.op->arena, result, lead_columns(stmt), stmt->column_count,
                        rows, count, &query->rows);
}

/* Finds the query of a set to which a row belongs; every row has one. Binary search: the queries
 * are sorted by the same key (cmp_queries), and pg_value_cmp_cell orders as pg_value_cmp does. */
static size_t find_by_key(const struct pg_command *command, size_t row)
{
    const struct pg_stmt *stmt = command->slot->stmt;
    size_t low = 0, high = command->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = 0;
        for (int i = 0; i < stmt->key_count && !order; i++) {
            struct pg_cell cell = {PQgetvalue(command->result, (int)row, i),
                                   PQgetlength(command->result, (int)row, i)};
            order = pg_value_cmp_cell(&command->queries[middle]->params[i], &cell);
        }
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    UNREACHABLE("a result row has the key of no query");
    return 0;
}

static size_t find_query(const struct pg_command *command, size_t row)
{
    if (command->count == 1)
        return 0;
    if (command->slot->stmt->match == PG_MATCH_KEY)
        return find_by_key(command, row);
    ASSERT(PQgetlength(command->result, (int)row, 0) == 8);
    /* `with ordinality` counts from 1, in the order of the arrays, which is that of
     * command->queries. */
    uint64_t ord = pg_load_be64(PQgetvalue(command->result, (int)row, 0));
    ASSERT(ord >= 1 && ord <= command->count);
    return (size_t)ord - 1;
}

/* Counting sort of row numbers by their query, stable, so the rows of one query keep the server's
 * order. Linear in rows and queries. starts has one entry more than there are queries. Returns
 * false if out of memory. */
static bool sort_rows(struct pg_batch *batch, const struct pg_command *command, size_t row_count,
                      size_t **rows, size_t **starts)
{
    size_t *owner = ARENA_ARRAY(&batch->arena, size_t, row_count);
    size_t *fill = ARENA_ARRAY(&batch->arena, size_t, command->count);
    *rows = ARENA_ARRAY(&batch->arena, size_t, row_count);
    *starts = ARENA_ARRAY(&batch->arena, size_t, command->count + 1);
    if (!owner || !fill || !*rows || !*starts)
        return false;
    for (size_t row = 0; row < row_count; row++) {
        owner[row] = find_query(command, row);
        (*starts)[owner[row] + 1]++;
    }
    for (size_t q = 0; q < command->count; q++) {
        (*starts)[q + 1] += (*starts)[q];
        fill[q] = (*starts)[q];
    }
    for (size_t row = 0; row < row_count; row++)
        (*rows)[fill[owner[row]]++] = row;
    return true;
}

/* Under READ COMMITTED a statement sees what was committed when it began. A write that is sent
 * again may begin while the first attempt, whose answer was lost, still locks the row. It waits,
 * finds the row changed by that commit, and returns no row, since `again` searched the older
 * snapshot. Run once more, it finds the result of the first attempt. */
static bool must_rerun(const struct pg_query *query)
{
    return query->is_unknown && query->stmt->match != PG_MATCH_NONE && query->rows.count == 0 &&
           !query->has_rerun && !query->is_abandoned && op_is_active(query->wait.op);
}

static void deliver(struct pg_query *query, int status)
{
    if (status != OK || !must_rerun(query)) {
        pg_query_end(query, status);
        return;
    }
    query->has_rerun = true;
    pg_query_again(query);
}

/* Updates the size to expect for later batches of this statement; a large size decays slowly. */
static void note_result_bytes(struct pg_slot *slot, const struct pg_command *command)
{
    /* PQresultMemorySize counts memory that libpq allocated (PostgreSQL 12), not bytes received. */
    size_t mean = PQresultMemorySize(command->result) / command->count;
    size_t faded = slot->result_bytes - slot->result_bytes / 8;
    slot->result_bytes = mean > faded ? mean : faded;
}

static void deliver_command(struct pg_batch *batch, struct pg_command *command)
{
    const struct pg_stmt *stmt = command->slot->stmt;
    note_result_bytes(command->slot, command);
    size_t row_count = (size_t)PQntuples(command->result);
    if (stmt->match == PG_MATCH_NONE)
        /* INSERT without RETURNING has no columns to check; a select for its side effect may have
         * some. */
        row_count = 0;
    else
        ASSERT((size_t)PQnfields(command->result) == stmt->column_count + lead_columns(stmt));
    size_t *rows = NULL, *starts = NULL;
    bool has_memory = row_count == 0 || sort_rows(batch, command, row_count, &rows, &starts);
    for (size_t i = 0, q = 0; i < command->sharer_count; i++) {
        struct pg_query *query = command->sharers[i];
        int status = has_memory ? OK : ERR_NOMEM;
        /* sharers has all queries, queries only the heads, both in the same order: q advances
         * when the next head is reached. Without sharing the two are equal and q is i. */
        q += q + 1 < command->count && query == command->queries[q + 1];
        if (row_count && has_memory)
            status =
                fill_query(query, command->result, rows + starts[q], starts[q + 1] - starts[q]);
        deliver(query, status);
    }
}

void pg_batch_deliver(struct pg_batch *batch)
{
    /* The commit is durable here (synchronous_commit is the operator's choice), so ops may report
     * it. */
    ASSERT(batch->command_at == batch->command_count && batch->failed_at == SIZE_MAX);
    struct pg_query *first = batch->queries[0];
    if (first->stmt->access != PG_READ)
        metric_inc(&commit_metric);
    metric_time(&batch_time_metric, loop_now_ns(first->pool->loop) - batch->sent_ns);
    for (size_t i = 0; i < batch->command_count; i++)
        if (!batch->commands[i].is_prepare)
            deliver_command(batch, &batch->commands[i]);
}
