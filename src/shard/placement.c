/*
 * The statements below read Citus' catalogs (pg_dist_*), whose columns its documentation describes
 * under "Citus Tables and Views". hash_bytes() is PostgreSQL's (common/hashfn.c), Bob Jenkins'
 * lookup3; hash partitions on disk depend on it, so it does not change.
 */
#include "shard/placement.h"

#include <stdlib.h>

#include "base/ascii.h"
#include "base/mem.h"

#define ANCHOR "connection"

const struct pg_stmt placement_nodes = {
    .name = "placement_nodes",
    .sql = "select :ord, n.groupid::bigint, n.nodename, n.nodeport::bigint from pg_dist_node n "
           "where n.noderole = 'primary' and n.isactive order by n.groupid",
    PG_GIVES(PG_ARG("groupid", PG_I64), PG_ARG("nodename", PG_TEXT), PG_ARG("nodeport", PG_I64)),
    .no_account = "where accounts are stored",
};

/* One row for each shard of each table; a reference table has no bounds, and a placement on every
 * node. */
const struct pg_stmt placement_shards = {
    .name = "placement_shards",
    .sql = "select :ord, c.relname::text, s.shardid, s.shardminvalue::bigint, "
           "s.shardmaxvalue::bigint, min(p.groupid)::bigint from pg_dist_shard s "
           "join pg_class c on c.oid = s.logicalrelid "
           "join pg_dist_placement p on p.shardid = s.shardid "
           "where c.relnamespace = 'sluice'::regnamespace and not c.relispartition "
           "group by c.relname, s.shardid, s.shardminvalue, s.shardmaxvalue "
           "order by c.relname, s.shardminvalue::bigint",
    PG_GIVES(PG_ARG("name", PG_TEXT), PG_ARG("id", PG_I64), PG_ARG("hash_min", PG_I64),
             PG_ARG("hash_max", PG_I64), PG_ARG("group", PG_I64)),
    .no_account = "where accounts are stored",
};

struct shard_table {
    slice name;
    int64_t *ids; /* by index of the shard; a reference table has one */
    size_t count;
};

/* ---- the hash ---- */

static uint32_t rotate(uint32_t x, unsigned by)
{
    return x << by | x >> (32 - by);
}

/* Implements hash_bytes() only for 16 bytes: one round and a tail of one word. */
int32_t placement_hash(struct uuid id)
{
    uint32_t word[4];
    memcpy(word, id.bytes, sizeof(word));
    uint32_t a = 0x9e3779b9 + sizeof(id.bytes) + 3923095, b = a, c = a;
    a += word[0];
    b += word[1];
    c += word[2];
    a = (a - c) ^ rotate(c, 4), c += b;
    b = (b - a) ^ rotate(a, 6), a += c;
    c = (c - b) ^ rotate(b, 8), b += a;
    a = (a - c) ^ rotate(c, 16), c += b;
    b = (b - a) ^ rotate(a, 19), a += c;
    c = (c - b) ^ rotate(b, 4), b += a;
    a += word[3];
    c = (c ^ b) - rotate(b, 14);
    a = (a ^ c) - rotate(c, 11);
    b = (b ^ a) - rotate(a, 25);
    c = (c ^ b) - rotate(b, 16);
    a = (a ^ c) - rotate(c, 4);
    b = (b ^ a) - rotate(a, 14);
    c = (c ^ b) - rotate(b, 24);
    return (int32_t)c;
}

/* ---- creation ---- */

static int no_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "out of memory");
}

static int take_nodes(struct placement *placement, const struct pg_rows *rows, struct err *err)
{
    if (rows->count > PLACEMENT_NODES_MAX)
        return err_set(err, ERR_LIMIT, "the cluster has %zu nodes, and at most %d are supported",
                       rows->count, PLACEMENT_NODES_MAX);
    placement->nodes = ARENA_ARRAY(&placement->arena, struct placement_node, rows->count + 1);
    if (!placement->nodes)
        return no_memory(err);
    for (size_t i = 0; i < rows->count; i++) {
        struct placement_node *node = &placement->nodes[placement->node_count++];
        node->group = pg_get_i64(rows, i, 0);
        node->host = arena_dup(&placement->arena, pg_get_bytes(rows, i, 1));
        node->port = pg_get_i64(rows, i, 2);
    }
    return OK;
}

/* Reads the table whose rows begin at `row`; *end is the first row after them. */
static int take_table(struct placement *placement, const struct pg_rows *rows, size_t row,
                      size_t *end, struct err *err)
{
    slice name = pg_get_bytes(rows, row, 0);
    struct shard_table *table = arena_zalloc(&placement->arena, sizeof(*table));
    for (*end = row; *end < rows->count && slice_eq(pg_get_bytes(rows, *end, 0), name);)
        ++*end;
    if (!table)
        return no_memory(err);
    table->name = arena_dup(&placement->arena, name);
    table->count = *end - row;
    table->ids = ARENA_ARRAY(&placement->arena, int64_t, table->count);
    if (!table->ids || !table->name.ptr)
        return no_memory(err);
    for (size_t i = 0; i < table->count; i++)
        table->ids[i] = pg_get_i64(rows, row + i, 1);
    return map_put(&placement->tables, table->name, table, NULL) == OK ? OK : no_memory(err);
}

static int take_shards(struct placement *placement, const struct pg_rows *rows, size_t row,
                       size_t count, struct err *err)
{
    if (count > PLACEMENT_SHARDS_MAX)
        return err_set(err, ERR_LIMIT, "the tables have %zu shards, and at most %d are supported",
                       count, PLACEMENT_SHARDS_MAX);
    placement->shards = ARENA_ARRAY(&placement->arena, struct shard, count);
    if (!placement->shards)
        return no_memory(err);
    for (size_t i = 0; i < count; i++)
        placement->shards[i] = (struct shard){
            .id = pg_get_i64(rows, row + i, 1),
            .hash_min = (int32_t)pg_get_i64(rows, row + i, 2),
            .hash_max = (int32_t)pg_get_i64(rows, row + i, 3),
            .group = pg_get_i64(rows, row + i, 4),
            .index = i,
        };
    placement->shard_count = count;
    return OK;
}

/* Returns whether every hash value has exactly one shard, without gaps or overlaps. */
static bool covers_all(const struct placement *placement)
{
    int64_t next = INT32_MIN;
    for (size_t i = 0; i < placement->shard_count; i++) {
        const struct shard *shard = &placement->shards[i];
        if (shard->hash_min != next || shard->hash_max < shard->hash_min)
            return false;
        next = (int64_t)shard->hash_max + 1;
    }
    return next == (int64_t)INT32_MAX + 1;
}

/* Returns whether the tables are colocated: an account's rows are in shards of the same index. */
static bool are_alike(const struct placement *placement)
{
    MAP_EACH(&placement->tables, slot) {
        const struct shard_table *table = slot->value;
        if (table->count != 1 && table->count != placement->shard_count)
            return false;
    }
    return true;
}

static int placement_fill(struct placement *placement, const struct pg_rows *nodes,
                          const struct pg_rows *shards, struct err *err)
{
    int rc = take_nodes(placement, nodes, err);
    for (size_t row = 0, end; rc == OK && row < shards->count; row = end) {
        rc = take_table(placement, shards, row, &end, err);
        if (rc == OK && slice_eq_cstr(pg_get_bytes(shards, row, 0), ANCHOR))
            rc = take_shards(placement, shards, row, end - row, err);
    }
    if (rc != OK)
        return rc;
    if (!placement->shard_count || !covers_all(placement) || !are_alike(placement))
        return err_set(err, ERR_INVALID,
                       "the database is not distributed as `sluice migrate --citus` does it");
    return OK;
}

struct placement *placement_new(const struct pg_rows *nodes, const struct pg_rows *shards,
                                struct err *err)
{
    struct placement *placement = mem_zalloc(sizeof(*placement));
    if (!placement) {
        (void)no_memory(err);
        return NULL;
    }
    arena_init(&placement->arena, (size_t)16 * 1024 * 1024);
    map_init(&placement->tables, 1024);
    if (placement_fill(placement, nodes, shards, err) == OK)
        return placement;
    placement_free(placement);
    return NULL;
}

void placement_free(struct placement *placement)
{
    if (!placement)
        return;
    map_deinit(&placement->tables);
    arena_deinit(&placement->arena);
    mem_free(placement);
}

/* ---- lookups ---- */

const struct shard *placement_of(const struct placement *placement, struct uuid account)
{
    int32_t hash = placement_hash(account);
    size_t low = 0, high = placement->shard_count - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (hash > placement->shards[middle].hash_max)
            low = middle + 1;
        else
            high = middle;
    }
    return &placement->shards[low];
}

const struct shard *placement_by_id(const struct placement *placement, int64_t id)
{
    for (size_t i = 0; i < placement->shard_count; i++)
        if (placement->shards[i].id == id)
            return &placement->shards[i];
    return NULL;
}

static size_t name_len(slice text)
{
    size_t len = 0;
    while (len < text.len &&
           (ascii_is_lower(text.ptr[len]) || ascii_is_digit(text.ptr[len]) || text.ptr[len] == '_'))
        len++;
    return len;
}

/* Citus names a shard's part of a table TABLE_SHARDID, in the table's schema. */
void placement_rename(const struct placement *placement, const struct shard *shard, slice sql,
                      struct buf *out)
{
    static const slice schema = SLICE_INIT("sluice.");
    ptrdiff_t at;
    while ((at = slice_find(sql, schema)) >= 0) {
        slice rest = slice_from(sql, (size_t)at + schema.len);
        slice name = slice_first(rest, name_len(rest));
        const struct shard_table *table = map_get(&placement->tables, name);
        buf_append(out, slice_first(sql, (size_t)at + schema.len + name.len));
        if (table)
            buf_printf(out, "_%lld", (long long)table->ids[table->count == 1 ? 0 : shard->index]);
        sql = slice_from(rest, name.len);
    }
    buf_append(out, sql);
}
