/*
 * Slots: the state of each statement that a pool has run. A slot is found by the statement's
 * address and the shard whose tables it names.
 *
 * The address is the key because statements are static and constant. Slots live as long as the
 * pool: there are as many as statements in the source, and the index of a slot is that of its byte
 * in each lane's `prepared`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pg/lane.h"

static char *slot_take_text(struct buf *text)
{
    char *sql = buf_take(text, NULL);
    buf_deinit(text);
    return sql;
}

/* Returns NULL if out of memory, or if the shard no longer exists. */
static char *slot_expand(const struct pg_pool *pool, const struct pg_slot_key *key,
                         enum pg_mode mode)
{
    const struct pg_stmt *stmt = key->stmt;
    struct buf text, renamed;
    struct err err = {.code = OK};
    buf_init(&text, PG_SQL_MAX);
    int rc = pg_stmt_expand(stmt, mode, &text, &err);
    /* ERR_LIMIT can only mean memory here: a text over PG_SQL_MAX fails the unit test that
     * expands all statements. Any other error is a mistake in the source, which aborts the
     * program. */
    if (rc != OK && rc != ERR_LIMIT) {
        fprintf(stderr, "pg: %s\n", err.text);
        UNREACHABLE("a statement's template does not expand");
    }
    if (!key->shard_id)
        return slot_take_text(&text);
    const struct pg_router *router = pool->coordinator->router;
    buf_init(&renamed, PG_SQL_MAX);
    bool is_there = router->rename(router, key->shard_id, buf_slice(&text), &renamed);
    buf_deinit(&text);
    if (is_there)
        return slot_take_text(&renamed);
    buf_deinit(&renamed);
    return NULL;
}

static void slot_free(struct pg_slot *slot)
{
    mem_free(slot->sql[PG_MODE_SET]);
    mem_free(slot->sql[PG_MODE_PIPE]);
    mem_free(slot);
}

static void slot_name(struct pg_slot *slot, enum pg_mode mode, char letter)
{
    char *name = slot->name[mode];
    if (slot->key.shard_id)
        (void)snprintf(name, sizeof(slot->name[0]), "%c_%s_%lld", letter, slot->stmt->name,
                       (long long)slot->key.shard_id);
    else
        (void)snprintf(name, sizeof(slot->name[0]), "%c_%s", letter, slot->stmt->name);
}

static struct pg_slot *slot_new(const struct pg_pool *pool, struct pg_slot_key key)
{
    const struct pg_stmt *stmt = key.stmt;
    struct pg_slot *slot = mem_zalloc(sizeof(*slot));
    if (!slot)
        return NULL;
    slot->key = key;
    slot->stmt = stmt;
    slot->tenant_at = pg_stmt_account_at(stmt);
    /* Names on the server: the two forms have different parameter types, so both may be
     * prepared. */
    slot_name(slot, PG_MODE_SET, 's');
    slot_name(slot, PG_MODE_PIPE, 'p');
    slot->sql[PG_MODE_PIPE] = slot_expand(pool, &key, PG_MODE_PIPE);
    if (stmt->param_count)
        slot->sql[PG_MODE_SET] = slot_expand(pool, &key, PG_MODE_SET);
    if (slot->sql[PG_MODE_PIPE] && (!stmt->param_count || slot->sql[PG_MODE_SET]))
        return slot;
    slot_free(slot);
    return NULL;
}

bool pg_slots_make_room(struct pg_pool *pool, size_t room)
{
    struct pg_slot **list = mem_realloc(pool->slot_list, room * sizeof(pool->slot_list[0]));
    if (!list)
        return false;
    pool->slot_list = list;
    for (size_t i = 0; i < pool->lane_count; i++) {
        struct pg_lane *lane = pool->lanes[i];
        uint8_t *prepared = mem_realloc(lane->prepared, room);
        if (!prepared)
            return false;
        memset(prepared + pool->slots_room, 0, room - pool->slots_room);
        lane->prepared = prepared;
    }
    /* Set last: after a failure, arrays that were already enlarged are only larger than
     * necessary. */
    pool->slots_room = room;
    return true;
}

struct pg_slot *pg_slot_get(struct pg_pool *pool, const struct pg_stmt *stmt, int64_t shard_id)
{
    struct pg_slot_key key = {stmt, shard_id};
    struct pg_slot *slot = map_get(&pool->slots, slice_of(&key, sizeof(key)));
    if (slot)
        return slot;
    if (pool->slot_count == pool->slots_room && !pg_slots_make_room(pool, pool->slots_room * 2))
        return NULL;
    slot = slot_new(pool, key);
    if (!slot)
        return NULL;
    /* The map borrows its key, so the key is the member, not the variable of this function. */
    if (map_put(&pool->slots, slice_of(&slot->key, sizeof(slot->key)), slot, NULL) != OK) {
        slot_free(slot);
        return NULL;
    }
    slot->index = (unsigned)pool->slot_count;
    pool->slot_list[pool->slot_count++] = slot;
    return slot;
}

void pg_slot_free_all(struct pg_pool *pool)
{
    for (size_t i = 0; i < pool->slot_count; i++)
        slot_free(pool->slot_list[i]);
    mem_free(pool->slot_list);
    pool->slot_count = 0;
    map_deinit(&pool->slots);
}
