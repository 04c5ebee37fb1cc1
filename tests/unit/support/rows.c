/*
 * Initial rows of tests; see rows.h.
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

#define OF_CLIENT(name, type, ...) PG_OF(#name, type, struct oauth_client, name, __VA_ARGS__)
static const struct pg_stmt client_row = {
    .name = "client_row",
    .sql = "insert into sluice.oauth_client (account_id, integration_id, client_id, sealed, "
           "key_id, created_at, updated_at) "
           "@row :account_id, :integration_id, :client_id, :sealed, :key_id, :now, :now @end "
           "on conflict (account_id, integration_id) do update set client_id = excluded.client_id, "
           "sealed = excluded.sealed, key_id = excluded.key_id",
    PG_TAKES(OF_CLIENT(account_id, PG_UUID), OF_CLIENT(integration_id, PG_TEXT),
             OF_CLIENT(client_id, PG_TEXT), OF_CLIENT(sealed, PG_BYTES, .has_no_null = true),
             OF_CLIENT(key_id, PG_TEXT), PG_NOW("now")),
    .match = PG_MATCH_NONE,
};

static const char *const status_words[] = {"live", "reauth_required", "revoked"};
static const struct pg_words statuses = {status_words, ARRAY_LEN(status_words), 0};
#define OF_CONNECTION(name, type, ...) PG_OF(#name, type, struct connection, name, __VA_ARGS__)
static const struct pg_stmt connection_row = {
    .name = "connection_row",
    .sql = "insert into sluice.connection (account_id, id, integration_id, label, is_default, "
           "auth_kind, sealed, key_id, scopes, params, status, error, expires_at, rev, op_token, "
           "created_at, updated_at) select :account_id, :id, :integration_id, :label, :is_default "
           "or not exists (select 1 from sluice.connection c where c.account_id = :account_id and "
           "c.integration_id = :integration_id and c.is_default), :auth_kind, :sealed, :key_id, "
           ":scopes, coalesce(:params, '{}'), :status, :error, :expires_at, 1, :op_token, :now, "
           ":now",
    PG_TAKES(OF_CONNECTION(account_id, PG_UUID), OF_CONNECTION(id, PG_I64),
             OF_CONNECTION(integration_id, PG_TEXT), OF_CONNECTION(label, PG_TEXT),
             OF_CONNECTION(is_default, PG_BOOL), OF_CONNECTION(auth_kind, PG_TEXT),
             OF_CONNECTION(sealed, PG_BYTES, .has_no_null = true),
             OF_CONNECTION(key_id, PG_TEXT, .has_no_null = true), OF_CONNECTION(scopes, PG_TEXT),
             OF_CONNECTION(params, PG_JSON),
             PG_WORD("status", struct connection, status, &statuses), OF_CONNECTION(error, PG_TEXT),
             OF_CONNECTION(expires_at, PG_TIME), PG_NEW_ID("op_token"), PG_NOW("now")),
    .match = PG_MATCH_NONE,
};

int rows_account(struct pg_sync *sync, const struct account *row)
{
    return put(sync, &account_row, row, PG_NO_VALUES);
}

int rows_key(struct pg_sync *sync, const struct api_key *row)
{
    char text[48];
    return put(sync, &key_row, row, PG_VALUES(pg_text(scopes_format(row->scopes, text))));
}

int rows_client(struct pg_sync *sync, const struct oauth_client *row)
{
    return put(sync, &client_row, row, PG_NO_VALUES);
}

int rows_connection(struct pg_sync *sync, const struct connection *row)
{
    return put(sync, &connection_row, row, PG_NO_VALUES);
}
