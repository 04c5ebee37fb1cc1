/*
 * Rows that tests begin with; see rows.h.
 */
#include "support/rows.h"

#include "pg/bind.h"

static int put(struct pg_sync *sync, const struct pg_stmt *stmt, const void *from,
               const struct pg_value *values, size_t count)
{
    struct pg_value params[PG_PARAMS_MAX];
    struct err err;
    pg_bind(stmt, from, values, count, params);
    return pg_sync_exec(sync, stmt, params, NULL, NULL, &err);
}

#define OF_ACCOUNT(name, type) PG_OF(#name, type, struct account, name)
static const struct pg_stmt account_row = {
    .name = "account_row",
    .sql = "insert into sluice.account (account_id, name, created_at) "
           "@row :account_id, :name, :now @end",
    PG_TAKES(OF_ACCOUNT(account_id, PG_UUID), OF_ACCOUNT(name, PG_TEXT), PG_NOW("now")),
    .match = PG_MATCH_NONE,
};

#define OF_KEY(name, type) PG_OF(#name, type, struct api_key, name)
static const struct pg_stmt key_row = {
    .name = "key_row",
    .sql = "insert into sluice.api_key (account_id, id, hash, prefix, name, scopes, created_at, "
           "expires_at, addresses) @row :account_id, :id, :hash, :prefix, :name, :scopes, :now, "
           ":expires_at, :addresses @end",
    PG_TAKES(OF_KEY(account_id, PG_UUID), OF_KEY(id, PG_UUID), OF_KEY(hash, PG_BYTES),
             OF_KEY(prefix, PG_TEXT), OF_KEY(name, PG_TEXT), PG_ARG("scopes", PG_TEXT),
             PG_NOW("now"), OF_KEY(expires_at, PG_TIME), OF_KEY(addresses, PG_TEXT)),
    .match = PG_MATCH_NONE,
};

int rows_account(struct pg_sync *sync, const struct account *row)
{
    return put(sync, &account_row, row, PG_NO_VALUES);
}

int rows_key(struct pg_sync *sync, const struct api_key *row)
{
    char text[33];
    return put(sync, &key_row, row, PG_VALUES(pg_text(scopes_format(row->scopes, text))));
}
