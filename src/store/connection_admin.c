/*
 * Connections: the pages of a key rotation, and credentials resealed by a command.
 */
#include "store/connection_internal.h"
#include "store/internal.h"

/* Walks the primary key from the last row of the previous page. key_id is a filter without an
 * index: a rotation reads all rows once, whatever key sealed them. An empty `sealed` has no key. */
static const struct pg_stmt connection_stale = {
    .name = "connection_stale",
    .sql = "select :ord, c.* from @input lateral (select " CONNECTION_SELECT
           " from sluice.connection t where (t.account_id, t.id) > (:after_account, :after_id) "
           "and t.key_id <> :key_id and octet_length(t.sealed) > 0 "
           "order by t.account_id, t.id limit 100) c",
    PG_TAKES(PG_ARG("key_id", PG_TEXT), PG_ARG("after_account", PG_UUID),
             PG_ARG("after_id", PG_I64)),
    PG_COLUMNS(connection_columns),
    .no_account = "key rotation walks over all accounts",
};

/* The statement is fenced by rev: a token that a server renewed in between must not be overwritten
 * with the older token. */
static const struct pg_stmt connection_reseal = {
    .name = "connection_reseal",
    .sql = "update sluice.connection t set sealed = :sealed, key_id = :key_id, rev = t.rev + 1, "
           "op_token = :op_token, updated_at = :now @update(sluice.connection) "
           "and t.rev = :rev returning :ord",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64), PG_ARG("rev", PG_I64),
             PG_NEW_ID("op_token"), PG_ARG("sealed", PG_BYTES), PG_ARG("key_id", PG_TEXT),
             PG_NOW("now")),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
};

const struct pg_stmt *const connection_admin_stmts[] = {&connection_stale, &connection_reseal,
                                                        NULL};

void *store_connection_stale_sync(struct pg_sync *sync, struct arena *arena, slice key_id,
                                  const void *after, size_t *count, struct err *err)
{
    const struct connection *last = after;
    return store_list_sync(sync, arena, &connection_stale,
                           PG_VALUES(pg_text(key_id), pg_uuid(last->account_id), pg_i64(last->id)),
                           sizeof(*last), count, err);
}

int store_connection_reseal_sync(struct pg_sync *sync, struct uuid account_id, int64_t id,
                                 int64_t rev, slice sealed, slice key_id, struct err *err)
{
    return store_exec_one_sync(
        sync, &connection_reseal, NULL,
        PG_VALUES(pg_uuid(account_id), pg_i64(id), pg_i64(rev), pg_bytes(sealed), pg_text(key_id)),
        "the connection was changed in the meantime", err);
}
