/*
 * Connections: what a person changes while servers run.
 *
 * These statements have no fence: the last change wins, as a person expects. They raise rev all the
 * same, so that a renewal under way reads the row again. They are not replayed (rev + 1 is not
 * idempotent): a lost answer is ERR_CLOSED.
 */
#include "base/clock.h"
#include "store/connection_internal.h"
#include "store/internal.h"

static const struct pg_column rev_columns[] = {{"rev", PG_I64}};
static const struct pg_column default_params[] = {
    {"account_id", PG_UUID}, {"id", PG_I64}, {"now", PG_TIME}, {"op_token", PG_UUID}};

/* The other default of the same integration gives way first. `(select count(*) from cleared) >= 0`
 * is always true: it makes the first update run to its end before a row of the second is touched,
 * so that the unique index finds no two defaults. Alone, since two of one integration in a set
 * would each see the table as it was before both. */
const struct pg_stmt connection_make_default = {
    .name = "connection_make_default",
    .sql = "with cleared as (update sluice.connection t set is_default = false, rev = t.rev + 1, "
           "op_token = :op_token, updated_at = :now @from where t.account_id = :account_id "
           "and t.is_default and t.id <> :id and t.integration_id = (select c.integration_id "
           "from sluice.connection c where c.account_id = :account_id and c.id = :id) "
           "returning t.id) "
           "update sluice.connection t set is_default = true, rev = t.rev + 1, "
           "op_token = :op_token, updated_at = :now @update(sluice.connection) "
           "and (select count(*) from cleared) >= 0 returning :ord, t.rev",
    PG_PARAMS(default_params),
    PG_COLUMNS(rev_columns),
    .key_count = 2,
    .is_write = true,
    .goes_alone = true,
};

static const struct pg_column label_params[] = {{"account_id", PG_UUID},
                                                {"id", PG_I64},
                                                {"label", PG_TEXT},
                                                {"now", PG_TIME},
                                                {"op_token", PG_UUID}};
/* The length is a CHECK of the table (22 and 23 are ERR_INVALID). */
const struct pg_stmt connection_label_set = {
    .name = "connection_label_set",
    .sql = "update sluice.connection t set label = :label, rev = t.rev + 1, "
           "op_token = :op_token, updated_at = :now @update(sluice.connection) "
           "returning :ord, t.rev",
    PG_PARAMS(label_params),
    PG_COLUMNS(rev_columns),
    .key_count = 2,
    .is_write = true,
};

void store_connection_default_set(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                  struct uuid account_id, int64_t id)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_i64(id);
    query->params[2] = pg_time(clock_wall_us());
    query->params[3] = pg_uuid(uuid_v7());
    store_submit(pool, query, op, &connection_make_default);
}

void store_connection_label_set(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                struct uuid account_id, int64_t id, slice label)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_i64(id);
    query->params[2] = pg_text_or_empty(label);
    query->params[3] = pg_time(clock_wall_us());
    query->params[4] = pg_uuid(uuid_v7());
    store_submit(pool, query, op, &connection_label_set);
}

void store_connection_delete(struct pg_pool *pool, struct pg_query *query, struct op *op,
                             struct uuid account_id, int64_t id)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_i64(id);
    store_submit(pool, query, op, &connection_delete);
}

int store_connection_delete_result(const struct pg_query *query)
{
    if (query->status != OK)
        return query->status;
    return query->rows.count > 0 ? OK : ERR_NOTFOUND;
}
