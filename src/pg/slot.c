/*
 * Slots: what a pool knows of each statement it has run. Found by the statement's address.
 *
 * The address is the key because statements are static and constant. Slots live as long as the
 * pool: their number is that of the statements in the source, and their index is that of their byte
 * in each lane's `prepared`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "pg/lane.h"

static char *slot_expand(const struct pg_stmt *stmt, enum pg_mode mode)
{
    struct buf text;
    struct err err = {.code = OK};
    buf_init(&text, PG_SQL_MAX);
    int rc = pg_stmt_expand(stmt, mode, &text, &err);
    /* ERR_LIMIT is memory here: a text over PG_SQL_MAX fails the unit test that expands all
     * statements. Anything else is a mistake in the source, which no run of it can survive. */
    if (rc != OK && rc != ERR_LIMIT) {
        fprintf(stderr, "pg: %s\n", err.text);
        UNREACHABLE("a statement's template does not expand");
    }
    char *sql = buf_take(&text, NULL);
    buf_deinit(&text);
    return sql;
}

static void slot_free(struct pg_slot *slot)
{
    mem_free(slot->sql[PG_MODE_SET]);
    mem_free(slot->sql[PG_MODE_PIPE]);
    mem_free(slot);
}

static struct pg_slot *slot_new(const struct pg_stmt *stmt)
{
    struct pg_slot *slot = mem_zalloc(sizeof(*slot));
    if (!slot)
        return NULL;
    slot->stmt = stmt;
    slot->tenant_at = PG_PARAMS_MAX;
    for (unsigned i = stmt->param_count; i-- > 0;)
        if (stmt->params[i].type == PG_UUID && strcmp(stmt->params[i].name, "account_id") == 0)
            slot->tenant_at = i;
    /* Names on the server: the two forms have different parameter types, so both may be
     * prepared. */
    snprintf(slot->name[PG_MODE_SET], sizeof(slot->name[0]), "s_%s", stmt->name);
    snprintf(slot->name[PG_MODE_PIPE], sizeof(slot->name[0]), "p_%s", stmt->name);
    slot->sql[PG_MODE_PIPE] = slot_expand(stmt, PG_MODE_PIPE);
    if (stmt->param_count)
        slot->sql[PG_MODE_SET] = slot_expand(stmt, PG_MODE_SET);
    if (slot->sql[PG_MODE_PIPE] && (!stmt->param_count || slot->sql[PG_MODE_SET]))
        return slot;
    slot_free(slot);
    return NULL;
}

struct pg_slot *pg_slot_get(struct pg_pool *pool, const struct pg_stmt *stmt)
{
    struct pg_slot *slot = map_get(&pool->slots, slice_of(&stmt, sizeof(stmt)));
    if (slot)
        return slot;
    ASSERT(pool->slot_count < PG_SLOTS_MAX);
    slot = slot_new(stmt);
    if (!slot)
        return NULL;
    /* The map borrows its key, so the key is the member, not the parameter of this function. */
    if (map_put(&pool->slots, slice_of(&slot->stmt, sizeof(slot->stmt)), slot, NULL) != OK) {
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
    pool->slot_count = 0;
    map_deinit(&pool->slots);
}
