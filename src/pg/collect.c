/*
 * Selects the waiting queries of the next batch: tenants take turns, and each tenant's queries stay
 * in order. A batch takes as many as the limits allow, but over all batches in flight there is at
 * most one operation on a row. A query whose row is being changed stays in the queue; so do later
 * queries on that row, which keeps their order. So no two connections of this process ever wait for
 * each other's rows. Connections of different processes may: sets lock their rows in one order, and
 * if a deadlock occurs anyway the server rolls it back and the queries are sent again.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "pg/lane.h"
#include "pg/value.h"

enum { BATCH_ARENA_MAX = 64 * 1024 * 1024 };

struct collection {
    struct pg_pool *pool;
    struct pg_batch *batch;
    size_t rows_max, bytes, result_bytes, kinds, skips;
    bool is_full; /* contains a query that must be sent alone */
};

/* key_hash 0: the query does not change a row that another query could change. */
static bool row_is_busy(const struct pg_pool *pool, uint64_t key_hash)
{
    size_t bit = key_hash & (PG_ROWS_BUSY - 1);
    return key_hash && (pool->rows_busy[bit / 64] >> bit % 64 & 1);
}

static void row_flip(struct pg_pool *pool, uint64_t key_hash)
{
    size_t bit = key_hash & (PG_ROWS_BUSY - 1);
    if (key_hash)
        pool->rows_busy[bit / 64] ^= UINT64_C(1) << bit % 64;
}

static bool goes_alone(const struct pg_query *query)
{
    /* Citus commits each statement of a pipeline by itself, so none may share another's outcome. */
    bool commits_each = query->pool->is_coordinator && query->stmt->access != PG_READ;
    return commits_each || query->is_single || query->stmt->goes_alone || query->stmt->is_large ||
           query->param_bytes > PG_ALONE_BYTES;
}

enum verdict { TAKE, TAKE_LAST, SKIP, STOP };

static enum verdict collection_check(struct collection *c, const struct pg_query *query)
{
    /* Checked first: a row that is in flight, or already in this batch, excludes the query
     * whatever its size. */
    if (row_is_busy(c->pool, query->key_hash))
        return ++c->skips < PG_SKIPS_MAX ? SKIP : STOP;
    if (goes_alone(query))
        return c->batch->query_count ? STOP : TAKE_LAST;
    if (c->batch->query_count == c->rows_max)
        return STOP;
    /* The first query is taken whatever its size; otherwise a query above the limit would wait
     * forever. */
    if (c->batch->query_count && c->bytes + query->param_bytes > PG_BATCH_BYTES_MAX)
        return STOP;
    if (c->batch->query_count &&
        c->result_bytes + query->slot->result_bytes > PG_BATCH_RESULT_BYTES_MAX)
        return STOP;
    bool is_new_kind = query->slot->batch_mark != c->pool->batch_mark;
    if (is_new_kind && c->kinds == PG_KINDS_MAX)
        return STOP;
    return TAKE;
}

static void collection_take(struct collection *c, struct pg_query *query)
{
    struct pg_slot *slot = query->slot;
    /* collection_check found the bit clear, so the flip sets it; pg_batch_leave_rows clears it. */
    row_flip(c->pool, query->key_hash);
    pg_queue_unlink(query);
    query->state = QUERY_SENT;
    c->batch->queries[c->batch->query_count++] = query;
    c->bytes += query->param_bytes;
    c->result_bytes += slot->result_bytes;
    if (slot->batch_mark != c->pool->batch_mark) {
        slot->batch_mark = c->pool->batch_mark;
        slot->kind = c->kinds++;
    }
}

/* Takes queries in the order of the queue. Without has_tenants it ends at the first query of a
 * tenant: queries that are sent again belong to no tenant, and come first. */
static void collection_run(struct collection *c, struct pg_queue *queue, bool has_tenants)
{
    LIST_EACH(&queue->queries, struct pg_query, query, link) {
        if (query->tenant && !has_tenants)
            return;
        enum verdict verdict = collection_check(c, query);
        if (verdict == STOP)
            return;
        if (verdict == SKIP)
            continue;
        collection_take(c, query);
        c->is_full = verdict == TAKE_LAST;
        if (c->is_full)
            return;
    }
}

/* Takes the tenant's next query. Returns false if this batch takes no more queries of this tenant.
 * The tenant may have been freed on return: pg_tenant_leave does so with its last query. */
static bool collection_take_next(struct collection *c, struct pg_tenant *tenant)
{
    unsigned skips = 0;
    while (tenant->cursor != &tenant->keyed.waiting) {
        struct pg_query *query = LIST_ITEM(tenant->cursor, struct pg_query, tenant_link);
        enum verdict verdict = collection_check(c, query);
        if (verdict == STOP || (verdict == SKIP && ++skips == PG_TENANT_SKIPS_MAX))
            return false;
        /* Advanced before the query is taken, which unlinks it. */
        tenant->cursor = tenant->cursor->next;
        if (verdict == SKIP)
            continue;
        collection_take(c, query);
        c->is_full = verdict == TAKE_LAST;
        return true;
    }
    return false;
}

/* Takes one query of each tenant in turn, from where the last batch ended. A tenant without a
 * suitable query leaves the ring for the rest of this batch, which limits the loop. At the end
 * these tenants are put first: they had no turn, or fewer, and are first next time. */
static void collection_run_turns(struct collection *c, struct pg_queue *queue)
{
    struct list passed = LIST_INIT(passed);
    LIST_EACH(&queue->ring, struct pg_tenant, tenant, keyed.ring) {
        tenant->cursor = tenant->keyed.waiting.next;
    }
    while (!c->is_full && c->batch->query_count < c->rows_max && !list_is_empty(&queue->ring)) {
        struct pg_tenant *tenant = LIST_ITEM(queue->ring.next, struct pg_tenant, keyed.ring);
        list_move_back(&queue->ring, &tenant->keyed.ring);
        if (collection_take_next(c, tenant))
            continue;
        list_move_back(&passed, &tenant->keyed.ring);
    }
    list_append_all(&passed, &queue->ring);
    list_append_all(&queue->ring, &passed);
}

/* Orders by kind in order of first appearance, then by row: sets of all processes lock their
 * rows in one order, and queries that share an answer are adjacent. qsort is not stable, so the
 * time of submission decides last: for the same key the older query is first. */
static int cmp_queries(const void *left, const void *right)
{
    const struct pg_query *a = *(struct pg_query *const *)left;
    const struct pg_query *b = *(struct pg_query *const *)right;
    if (a->slot != b->slot)
        return a->slot->kind < b->slot->kind ? -1 : 1;
    size_t keys = a->stmt->access != PG_READ ? a->stmt->key_count : 0;
    if (a->stmt->is_shared)
        keys = a->stmt->param_count;
    for (size_t i = 0; i < keys; i++) {
        int order = pg_value_cmp(&a->params[i], &b->params[i]);
        if (order)
            return order;
    }
    return (a->queued_ns > b->queued_ns) - (a->queued_ns < b->queued_ns);
}

/* Several reads of a turn that are all different statements, as a page sends them, are divided
 * among the idle readers, so that the database works on them in parallel. Reads of one statement
 * are not divided, since they cost less together. */
static size_t part_of_reads(const struct pg_pool *pool, const struct pg_queue *queue)
{
    const struct pg_slot *slots[PG_SHARED_OUT_MAX];
    size_t readers = 0, count = 0;
    if (queue != &pool->reads || queue->count < PG_SHARED_OUT_MIN ||
        queue->count > PG_SHARED_OUT_MAX)
        return queue->count;
    LIST_EACH(&queue->queries, const struct pg_query, query, link) {
        for (size_t i = 0; i < count; i++)
            if (slots[i] == query->slot)
                return queue->count;
        slots[count++] = query->slot;
    }
    for (size_t i = pool->writer_count; i < pool->lane_count; i++)
        readers += pool->lanes[i]->link.is_up && pool->lanes[i]->flight_count == 0;
    return readers > 0 ? (count + readers - 1) / readers : count;
}

struct pg_batch *pg_batch_collect(struct pg_lane *lane, struct pg_queue *queue)
{
    ASSERT(queue->count > 0);
    struct collection c = {.pool = lane->pool, .batch = mem_zalloc(sizeof(struct pg_batch))};
    if (c.batch) {
        size_t count = part_of_reads(lane->pool, queue);
        c.rows_max = count < lane->pool->batch_rows_max ? count : lane->pool->batch_rows_max;
        arena_init(&c.batch->arena, BATCH_ARENA_MAX);
        list_init(&c.batch->link);
        c.batch->failed_at = SIZE_MAX;
        c.batch->queries = ARENA_ARRAY(&c.batch->arena, struct pg_query *, c.rows_max);
    }
    if (!c.batch || !c.batch->queries) {
        struct pg_query *first = LIST_ITEM(queue->queries.next, struct pg_query, link);
        pg_batch_free(c.batch);
        pg_queue_unlink(first);
        /* makes the hook run for the other queries, which may need less */
        lane->pool->is_dirty = true;
        pg_query_end(first, ERR_NOMEM);
        return NULL;
    }
    /* A new mark invalidates every slot's `kind` at once, so no slot has to be reset. 64 bits do
     * not wrap. */
    lane->pool->batch_mark++;
    /* With one tenant, or none, there are no turns to take: the queue has the order already. */
    bool is_one_tenant = queue->ring.next == queue->ring.prev;
    collection_run(&c, queue, is_one_tenant);
    if (!is_one_tenant && !c.is_full)
        collection_run_turns(&c, queue);
    if (c.batch->query_count == 0) {
        pg_batch_free(c.batch);
        return NULL;
    }
    qsort(c.batch->queries, c.batch->query_count, sizeof(c.batch->queries[0]), cmp_queries);
    return c.batch;
}

void pg_batch_leave_rows(struct pg_pool *pool, const struct pg_batch *batch)
{
    for (size_t i = 0; i < batch->query_count; i++) {
        uint64_t key_hash = batch->queries[i]->key_hash;
        ASSERT(!key_hash || row_is_busy(pool, key_hash));
        row_flip(pool, key_hash);
    }
}
