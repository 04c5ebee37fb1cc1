/*
 * Connections: what a person changes while servers run.
 *
 * These statements have no fence: the last change wins, as a person expects. They raise rev all the
 * same, so that a renewal under way reads the row again. They are not replayed (rev + 1 is not
 * idempotent): a lost answer is ERR_CLOSED.
 */
#include "store/connection_internal.h"
#include "store/internal.h"

static const struct pg_column rev_columns[] = {PG_ARG("rev", PG_I64)};

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
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64), PG_NOW("now"),
             PG_NEW_ID("op_token")),
    PG_COLUMNS(rev_columns),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
    .goes_alone = true,
};

/* The length is a CHECK of the table (22 and 23 are ERR_INVALID). */
static const struct pg_stmt connection_label_set = {
    .name = "connection_label_set",
    .sql = "update sluice.connection t set label = :label, rev = t.rev + 1, "
           "op_token = :op_token, updated_at = :now @update(sluice.connection) "
           "returning :ord, t.rev",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64), PG_ARG("label", PG_TEXT),
             PG_NOW("now"), PG_NEW_ID("op_token")),
    PG_COLUMNS(rev_columns),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
};

const struct pg_stmt *const connection_manage_stmts[] = {&connection_make_default,
                                                         &connection_label_set, NULL};

STORE_CALL_ID(store_connection_default_set, connection_make_default, int64_t, pg_i64)

void store_connection_label_set(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                struct uuid account_id, int64_t id, slice label)
{
    store_ask(pool, query, op, &connection_label_set,
              PG_VALUES(pg_uuid(account_id), pg_i64(id), pg_text_or_empty(label)));
}

STORE_CALL_ID(store_connection_delete, connection_delete, int64_t, pg_i64)
