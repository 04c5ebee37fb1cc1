/*
 * Connections: changes by a person or a program while servers run. Each statement also makes the
 * audit event: neither is stored without the other.
 *
 * These statements have no fence: the last change wins, as a person expects. They raise rev all the
 * same, so that a renewal under way reads the row again. They are not replayed (rev + 1 is not
 * idempotent): a lost answer is ERR_CLOSED.
 */
#include "store/connection_internal.h"
#include "store/internal.h"

#define CHANGED                                                                             \
    " returning :ord as ord, t.integration_id), " STORE_AUDITED(                            \
        "'connection_id', :id::text, 'integration_id', c.integration_id", "") "select c.* " \
                                                                              "from changed c"
#define OF(name, type, ...) PG_OF(#name, type, struct connection_change, name, __VA_ARGS__)
#define CHANGE_PARAMS       OF(account_id, PG_UUID), OF(id, PG_I64), STORE_EVENT_PARAMS(connection_change)

static const struct pg_column changed_columns[] = {PG_ARG("integration_id", PG_TEXT)};

/* Updates the row as `changed`; the `returning` clause follows. The other default of the same
 * integration is cleared first. `(select count(*) from cleared) >= 0` is always true: it makes the
 * first update finish before the second touches a row, so that the unique index finds no two
 * defaults. Such a statement goes alone, since two of one integration in a set would each see the
 * table as it was before both. */
#define CONNECTION_MAKE_DEFAULT                                                                   \
    "cleared as (update sluice.connection t set is_default = false, rev = t.rev + 1, "            \
    "op_token = :op_token, updated_at = :now @from where t.account_id = :account_id "             \
    "and t.is_default and t.id <> :id and t.integration_id = (select c.integration_id "           \
    "from sluice.connection c where c.account_id = :account_id and c.id = :id) returning t.id), " \
    "changed as (update sluice.connection t set is_default = true, rev = t.rev + 1, "             \
    "op_token = :op_token, updated_at = :now @update(sluice.connection) "                         \
    "and (select count(*) from cleared) >= 0"
static const struct pg_stmt connection_default_set = {
    .name = "connection_default_set",
    .sql = "with " CONNECTION_MAKE_DEFAULT CHANGED,
    PG_TAKES(CHANGE_PARAMS, PG_NOW("now"), PG_NEW_ID("op_token")),
    PG_COLUMNS(changed_columns),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
    .goes_alone = true,
};

/* A CHECK of the table limits the length (classes 22 and 23 are ERR_INVALID). */
static const struct pg_stmt connection_label_set = {
    .name = "connection_label_set",
    .sql = "with changed as (update sluice.connection t set label = :label, rev = t.rev + 1, "
           "op_token = :op_token, updated_at = :now @update(sluice.connection)" CHANGED,
    PG_TAKES(CHANGE_PARAMS, PG_NOW("now"), PG_NEW_ID("op_token"), PG_ARG("label", PG_TEXT)),
    PG_COLUMNS(changed_columns),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
};

/* A user's own connection serves that user alone. */
static const struct pg_stmt connection_share_set = {
    .name = "connection_share_set",
    .sql = "with changed as (update sluice.connection t set is_shared = :is_shared, "
           "rev = t.rev + 1, op_token = :op_token, updated_at = :now "
           "@update(sluice.connection) and t.parent_id is null" CHANGED,
    PG_TAKES(CHANGE_PARAMS, PG_NOW("now"), PG_NEW_ID("op_token"), PG_ARG("is_shared", PG_BOOL)),
    PG_COLUMNS(changed_columns),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
};

/* A connection that is deleted has one more revision: that of the event, whose id is the audit
 * event's. */
#define DELETED                                                                                  \
    "returning :ord as ord, " CONNECTION_EVENT_ROW ", t.rev + 1 as rev, :event_id as event_id, " \
    "null::text as status"
#define DELETED_AUDITED                                                                 \
    STORE_AUDITED("'connection_id', :id::text, 'integration_id', c.integration_id", "") \
    ", " CONNECTION_OUTBOX("'connection.deleted'", "changed c", "")
static const struct pg_stmt connection_delete = {
    .name = "connection_delete",
    .sql = "with changed as (delete from sluice.connection t @delete(sluice.connection) " DELETED
           "), " DELETED_AUDITED "select c.ord, c.integration_id, " CONNECTION_HAS_EVENT
           " from changed c",
    PG_TAKES(CHANGE_PARAMS),
    PG_GIVES(PG_ARG("integration_id", PG_TEXT), STORE_HAS_EVENT_COLUMN),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
};

/* Each of the connections was committed before it yields, so at least one of two statements sees
 * both. The rows are locked in one order: the second statement waits for the first, and no longer
 * finds a row that the first has deleted. */
#define IS_TWIN CONNECTION_IS_TWIN("o")
static const struct pg_stmt connection_yield = {
    .name = "connection_yield",
    .sql = "with twins as (select o.id from @input sluice.connection o "
           "where o.account_id = :account_id and o.integration_id = :integration_id "
           "and " IS_TWIN " order by o.id for update of o), "
           "changed as (delete from sluice.connection t @delete(sluice.connection) "
           "and exists (select 1 from twins w where w.id <> :id) " DELETED
           ", (select min(w.id) from twins w where w.id <> :id) as kept_id), " DELETED_AUDITED
           "select c.ord, c.kept_id, " CONNECTION_HAS_EVENT " from changed c",
    PG_TAKES(CHANGE_PARAMS, PG_ARG("integration_id", PG_TEXT), PG_ARG("subject", PG_TEXT),
             PG_ARG("email", PG_TEXT), PG_ARG("params", PG_TEXT)),
    PG_GIVES(PG_ARG("kept_id", PG_I64), STORE_HAS_EVENT_COLUMN),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
    .goes_alone = true,
};

const struct pg_stmt *const connection_manage_stmts[] = {
    &connection_default_set, &connection_label_set, &connection_share_set,
    &connection_delete,      &connection_yield,     NULL};

STORE_CALL_CHANGE(store_connection_default_set, connection_default_set, connection_change,
                  AUDIT_CONNECTION_DEFAULT_SET)

void store_connection_label_set(STORE_ARGS, const struct connection_change *change, slice label)
{
    store_ask_of(pool, query, op, &connection_label_set, change,
                 PG_VALUES(store_kind(AUDIT_CONNECTION_RENAMED), pg_text_or_empty(label)));
}

void store_connection_share_set(STORE_ARGS, const struct connection_change *change, bool is_shared)
{
    enum audit_kind kind = is_shared ? AUDIT_CONNECTION_SHARED : AUDIT_CONNECTION_UNSHARED;
    store_ask_of(pool, query, op, &connection_share_set, change,
                 PG_VALUES(store_kind(kind), pg_bool(is_shared)));
}

STORE_CALL_CHANGE(store_connection_delete, connection_delete, connection_change,
                  AUDIT_CONNECTION_REMOVED)

void store_connection_yield(STORE_ARGS, const struct connection_change *change,
                            const struct connection_twin *twin)
{
    store_ask_of(pool, query, op, &connection_yield, change,
                 PG_VALUES(store_kind(AUDIT_CONNECTION_REMOVED), pg_text(twin->integration_id),
                           pg_text(twin->subject), pg_text(twin->email), pg_text(twin->params)));
}

int store_connection_yield_result(const struct pg_query *query, int64_t *kept_id)
{
    return store_rev_result(query, kept_id);
}
