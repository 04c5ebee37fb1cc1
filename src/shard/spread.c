/*
 * Sends a query to each shard of a sharded database: an op below the caller's, whose parts are
 * queries of the nodes' pools. It succeeds if one part does: an unreachable node must not stop work
 * for accounts on the others. The parts' rows are in the op's own arena; the returned rows are
 * copied into the caller's.
 */
#include "base/mem.h"
#include "shard/shards.h"
#include "pg/value.h"

enum { SPREAD_BYTES_MAX = 64 * 1024 * 1024, SPREAD_ORDER_MAX = 4 };

struct spread_part {
    struct pg_query query;
    size_t taken; /* rows that the caller has received */
};

struct spread {
    struct op op;
    struct list link; /* struct shards.spreads */
    const struct shards *shards;
    struct pg_query *query; /* the caller's query; NULL: it has ended */
    size_t part_count;
    struct spread_part parts[];
};

enum { SPREAD_ASK, SPREAD_MERGE };

OP_OF(spread_of, spread)

/* A statement on tables that each node has a copy of selects the accounts of a shard by parameters
 * of these names. */
static void part_fill(struct pg_query *part, const struct pg_query *query,
                      const struct shard *shard)
{
    part->stmt = query->stmt;
    part->deadline_ns = query->expires_ns;
    memcpy(part->params, query->params, sizeof(part->params));
    for (size_t i = 0; i < part->stmt->param_count; i++) {
        if (strcmp(part->stmt->params[i].name, PG_HASH_MIN) == 0)
            part->params[i] = pg_i64(shard->hash_min);
        if (strcmp(part->stmt->params[i].name, PG_HASH_MAX) == 0)
            part->params[i] = pg_i64(shard->hash_max);
    }
}

static enum op_result spread_ask(struct op *op)
{
    struct spread *spread = spread_of(op);
    const struct shards *shards = spread->shards;
    const struct placement *placement = shards->placement;
    if (!placement || placement->shard_count != spread->part_count)
        return OP_FAIL; /* shards were split since the placement was read */
    for (size_t i = 0; i < spread->part_count; i++) {
        struct pg_query *part = &spread->parts[i].query;
        struct pg_pool *node = shards_pool(shards, &placement->shards[i]);
        part->status = ERR_BUSY;
        if (!node || !pg_pool_is_ready(node))
            continue;
        part_fill(part, spread->query, &placement->shards[i]);
        pg_submit_to(node, part, op, placement->shards[i].id);
    }
    return op->holds > 0 ? OP_WAIT : OP_NEXT;
}

/* Sets the result: OK if at least one part succeeded. Otherwise a database error takes precedence
 * over ERR_BUSY, since it is more informative. */
static void merge_status(struct spread *spread)
{
    struct pg_query *query = spread->query;
    query->status = ERR_BUSY;
    for (size_t i = 0; i < spread->part_count; i++) {
        const struct pg_query *part = &spread->parts[i].query;
        query->is_partial |= part->status != OK;
        if (query->status == OK || (part->status != OK && query->status != ERR_BUSY))
            continue;
        query->status = part->status;
        query->message = arena_dup(&query->wait.op->arena, part->message);
        memcpy(query->sqlstate, part->sqlstate, sizeof(query->sqlstate));
    }
}

/* A column of the order. */
struct key {
    size_t at;
    bool is_descending;
};

/* Finds the columns that the statement orders by. Returns their number. */
static size_t order_columns(const struct pg_stmt *stmt, struct key keys[SPREAD_ORDER_MAX])
{
    slice names = slice_cstr(stmt->spread_order ? stmt->spread_order : "");
    size_t count = 0;
    while (names.len) {
        slice name = slice_split(&names, ' ');
        bool is_descending = name.ptr[0] == '-';
        size_t at = 0;
        name = slice_from(name, is_descending);
        while (!slice_eq_cstr(name, stmt->columns[at].name)) {
            at++;
            ASSERT(at < stmt->column_count);
        }
        ASSERT(count < SPREAD_ORDER_MAX);
        keys[count++] = (struct key){at, is_descending};
    }
    return count;
}

static const struct pg_cell *next_cells(const struct spread_part *part)
{
    return &part->query.rows.cells[part->taken * part->query.rows.column_count];
}

/* Returns whether a's next row comes before b's. Without an order the parts take turns, so that a
 * part whose rows cannot be processed does not delay the others. */
static bool comes_first(const struct spread_part *a, const struct spread_part *b,
                        const struct key keys[SPREAD_ORDER_MAX], size_t count)
{
    const struct pg_column *types = a->query.stmt->columns;
    for (size_t i = 0; i < count; i++) {
        size_t at = keys[i].at;
        int order = pg_cell_cmp(types[at].type, &next_cells(a)[at], &next_cells(b)[at]);
        if (order)
            return (order > 0) == keys[i].is_descending;
    }
    return count == 0 && a->taken < b->taken;
}

/* Finds the part with the next row, by a linear search, since there are only tens of shards.
 * Returns NULL if no part has a row left. */
static struct spread_part *first_part(struct spread *spread,
                                      const struct key keys[SPREAD_ORDER_MAX], size_t count)
{
    struct spread_part *first = NULL;
    for (size_t i = 0; i < spread->part_count; i++) {
        struct spread_part *part = &spread->parts[i];
        if (part->taken < part->query.rows.count &&
            (!first || comes_first(part, first, keys, count)))
            first = part;
    }
    return first;
}

/* Returns false if out of memory. */
static bool copy_row(const struct pg_cell *from, struct pg_cell *to, size_t count,
                     struct arena *arena)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = from[i];
        if (from[i].len < 0)
            continue;
        to[i].ptr = arena_dup(arena, slice_of(from[i].ptr, (size_t)from[i].len)).ptr;
        if (!to[i].ptr)
            return false;
    }
    return true;
}

/* Merges the parts' rows in the statement's order, up to its limit. Each part has returned its own
 * first rows, so none is missing. */
static int merge_rows(struct spread *spread)
{
    struct pg_query *query = spread->query;
    const struct pg_stmt *stmt = query->stmt;
    struct arena *arena = &query->wait.op->arena;
    struct key keys[SPREAD_ORDER_MAX];
    size_t count = 0, order_count = order_columns(stmt, keys);
    for (size_t i = 0; i < spread->part_count; i++)
        count += spread->parts[i].query.rows.count;
    if (stmt->spread_max && count > stmt->spread_max)
        count = stmt->spread_max;
    struct pg_cell *cells = ARENA_ARRAY(arena, struct pg_cell, count * stmt->column_count + 1);
    if (!cells)
        return ERR_NOMEM;
    for (size_t row = 0; row < count; row++) {
        struct spread_part *part = first_part(spread, keys, order_count);
        struct pg_cell *to = &cells[row * stmt->column_count];
        if (!copy_row(next_cells(part), to, stmt->column_count, arena))
            return ERR_NOMEM;
        part->taken++;
    }
    query->rows = (struct pg_rows){count, stmt->column_count, cells};
    return OK;
}

static enum op_result spread_merge(struct op *op)
{
    struct spread *spread = spread_of(op);
    merge_status(spread);
    if (spread->query->status == OK)
        spread->query->status = merge_rows(spread);
    return OP_DONE;
}

/* Ends the caller's query, unless it has ended already. */
static void spread_leave(struct spread *spread, int status)
{
    struct pg_query *query = spread->query;
    if (!query)
        return;
    spread->query = NULL;
    query->spread = NULL;
    list_unlink(&spread->link);
    pg_query_end(query, status);
}

static void spread_on_end(struct op *op, enum op_end end)
{
    struct spread *spread = spread_of(op);
    bool is_merged = end == OP_ENDED_DONE && spread->query;
    spread_leave(spread, is_merged ? spread->query->status : ERR_BUSY);
}

bool spread_start(struct pg_router *router, struct pg_query *query, struct op *op)
{
    struct shards *shards = shards_of(router);
    static const struct op_step steps[] = {
        [SPREAD_ASK] = {"ask", spread_ask, 0},
        [SPREAD_MERGE] = {"merge", spread_merge, 0},
    };
    static const struct op_class class = {
        .name = "spread",
        OP_STEPS(steps),
        .on_end = spread_on_end,
        .free = op_free_struct,
    };
    const struct placement *placement = shards->placement;
    size_t count = placement ? placement->shard_count : 0;
    struct spread *spread = mem_zalloc(sizeof(*spread) + count * sizeof(spread->parts[0]));
    if (!spread)
        return false;
    spread->shards = shards;
    spread->query = query;
    spread->part_count = count;
    query->state = QUERY_SPREAD;
    query->spread = &spread->op;
    list_init(&spread->link);
    list_push_back(&shards->spreads, &spread->link);
    op_start(&spread->op, &class, shards->coordinator->loop, op, SPREAD_BYTES_MAX);
    return true;
}

/* The parts end with the nodes' pools; the op waits for them and no longer uses the pool. */
void spread_end_all(struct shards *shards)
{
    LIST_EACH(&shards->spreads, struct spread, spread, link) {
        spread_leave(spread, ERR_BUSY);
        op_cancel(&spread->op);
    }
}
