/*
 * Connections: operator commands and the pages of a key rotation.
 *
 * A command's statements are not replayed: it holds a transaction, and a lost connection ends it.
 * There is one default for each integration of an account, guarded by the unique index
 * connection_default; two commands at the same moment meet there.
 */
#include "store/connection_internal.h"
#include "store/internal.h"

enum { MADE_ARENA_BYTES_MAX = 64 * 1024, DEFAULT_TRIES_MAX = 10 };

/* For a new connection: the first of its integration becomes the default by itself. Two commands
 * may both see none; the index refuses the second (23505), which is_overtaken repeats. */
static const struct pg_stmt connection_default_if_none = {
    .name = "connection_default_if_none",
    .sql =
        "update sluice.connection t set is_default = true, rev = t.rev + 1, "
        "op_token = :op_token, updated_at = :now @update(sluice.connection) and (select count(*) "
        "from sluice.connection d where d.account_id = :account_id and d.is_default "
        "and d.integration_id = t.integration_id) = 0",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64), PG_NOW("now"),
             PG_NEW_ID("op_token")),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE_ONCE,
};

/* For one that is inserted as the default: its event is the insertion's. */
static const struct pg_stmt connection_make_default = {
    .name = "connection_make_default",
    .sql = "with " CONNECTION_MAKE_DEFAULT " returning :ord as ord) select c.ord from changed c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64), PG_NOW("now"),
             PG_NEW_ID("op_token")),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
    .goes_alone = true,
};

/* Walks the primary key from the last row of the page before. key_id is a filter without an index:
 * a rotation reads all rows once, whatever they are sealed with. An empty `sealed` has no key. */
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

/* Fenced by rev: a token that a server renewed meanwhile must not be overwritten with the older
 * one. */
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

const struct pg_stmt *const connection_admin_stmts[] = {&connection_default_if_none,
                                                        &connection_make_default, &connection_stale,
                                                        &connection_reseal, NULL};

/* Ends a transaction as rc says. */
static int end_transaction(struct pg_sync *sync, int rc, struct err *err)
{
    struct err ignored;
    if (rc == OK)
        return pg_sync_run(sync, "commit", err);
    (void)!pg_sync_run(sync, "rollback", &ignored);
    return rc;
}

/* unique_violation: another transaction has made another connection the default since this one read
 * the row. It has committed, since the check waits for it; so the next try sees it. */
static bool is_overtaken(struct pg_sync *sync, int rc)
{
    return rc == ERR_INVALID && slice_eq(slice_cstr(pg_sync_sqlstate(sync)), SLICE("23505"));
}

/* ---- insert ---- */

static int insert_connection(struct pg_sync *sync, const struct connection *connection,
                             size_t count_max, struct err *err)
{
    struct pg_rows rows;
    struct arena arena;
    struct connection row = *connection;
    /* Inserted as no default first: an existing default would refuse the row. */
    row.is_default = false;
    arena_init(&arena, MADE_ARENA_BYTES_MAX);
    int rc = store_exec_sync(sync, &connection_insert, &row,
                             PG_VALUES(connection_params_value(&row), pg_i64((int64_t)count_max)),
                             &arena, &rows, err);
    bool is_full = rc == OK && rows.count == 0;
    arena_deinit(&arena);
    if (is_full)
        return err_set(err, ERR_LIMIT,
                       "the account has as many connections as account-kept-connections allows "
                       "(%zu); remove one that is not used any more",
                       count_max);
    if (rc == ERR_INVALID && slice_eq(slice_cstr(pg_sync_sqlstate(sync)), SLICE("23503")))
        return err_set(err, ERR_NOTFOUND,
                       "there is no account of that id; `sluice accounts list` shows them");
    if (rc != OK)
        return rc;
    return store_exec_sync(
        sync, connection->is_default ? &connection_make_default : &connection_default_if_none, NULL,
        PG_VALUES(pg_uuid(connection->account_id), pg_i64(connection->id)), NULL, NULL, err);
}

int store_connection_insert_sync(struct pg_sync *sync, const struct connection *connection,
                                 size_t count_max, struct err *err)
{
    for (unsigned tries = 1;; tries++) {
        int rc = pg_sync_run(sync, "begin", err);
        if (rc != OK)
            return rc;
        rc = insert_connection(sync, connection, count_max, err);
        bool is_last = !is_overtaken(sync, rc) || tries == DEFAULT_TRIES_MAX;
        rc = end_transaction(sync, rc, err);
        if (is_last)
            return rc;
    }
}

/* ---- rotation ---- */

int store_connection_stale_sync(struct pg_sync *sync, struct arena *arena, slice key_id,
                                struct uuid after_account, int64_t after_id,
                                struct connection **list, size_t *count, struct err *err)
{
    *list = store_list_sync(sync, arena, &connection_stale,
                            PG_VALUES(pg_text(key_id), pg_uuid(after_account), pg_i64(after_id)),
                            sizeof(**list), count, err);
    return *list ? OK : (int)err->code;
}

int store_connection_reseal_sync(struct pg_sync *sync, struct uuid account_id, int64_t id,
                                 int64_t rev, slice sealed, slice key_id, struct err *err)
{
    return store_exec_one_sync(
        sync, &connection_reseal, NULL,
        PG_VALUES(pg_uuid(account_id), pg_i64(id), pg_i64(rev), pg_bytes(sealed), pg_text(key_id)),
        "the connection was changed meanwhile", err);
}
