/*
 * OAuth clients that operators or accounts registered, and authorizations that people have begun.
 * All statements use primary keys; two of them walk the key over all accounts. Clients under the
 * nil account serve every account that does not have its own; the caller queries both.
 */
#include "store/oauth.h"

#include "store/internal.h"

/* ---- clients ---- */

#define CLIENT_SELECT \
    "t.account_id, t.integration_id, t.client_id, t.sealed, t.key_id, t.created_at, t.updated_at"

#define OF(name, type, ...)  PG_OF(#name, type, struct oauth_client, name, __VA_ARGS__)
#define OF_BEGUN(name, type) PG_OF(#name, type, struct oauth_begun, name)

static const struct pg_column client_columns[] = {
    OF(account_id, PG_UUID), OF(integration_id, PG_TEXT), OF(client_id, PG_TEXT),
    OF(sealed, PG_BYTES),    OF(key_id, PG_TEXT),         OF(created_at, PG_TIME),
    OF(updated_at, PG_TIME)};

static const struct pg_stmt oauth_client_get = {
    .name = "oauth_client_get",
    .sql = "select :ord, " CLIENT_SELECT " @read(sluice.oauth_client)",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("integration_id", PG_TEXT)),
    PG_COLUMNS(client_columns),
    .key_count = 2,
};

#define OF_CHANGE(name, type, ...) \
    PG_OF(#name, type, struct oauth_client_change, client.name, __VA_ARGS__)
#define CLIENT_DETAILS "'integration_id', :integration_id"
/* An event belongs to an account. */
#define IS_OPERATORS  ":account_id = '00000000-0000-0000-0000-000000000000'"
#define IS_OF_ACCOUNT "not " IS_OPERATORS

/* The last write wins, and a replay writes the same values. created_at is the time of the first
 * write. */
static const struct pg_stmt oauth_client_set = {
    .name = "oauth_client_set",
    .sql = "with made as " STORE_EVENT_SQL(CLIENT_DETAILS) "@from where " STORE_ACCOUNT_EXISTS(
        ":account_id") " on conflict do nothing) "
                       "insert into sluice.oauth_client (account_id, integration_id, client_id, "
                       "sealed, "
                       "key_id, created_at, updated_at) "
                       "select :account_id, :integration_id, :client_id, :sealed, :key_id, :now, "
                       ":now @from where " IS_OPERATORS " or " STORE_ACCOUNT_EXISTS(
                           ":account_id") " "
                                          "on conflict (account_id, integration_id) do update set "
                                          "client_id = "
                                          "excluded.client_id, "
                                          "sealed = excluded.sealed, key_id = excluded.key_id, "
                                          "updated_at = "
                                          "excluded.updated_at",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), OF_CHANGE(integration_id, PG_TEXT),
             OF_CHANGE(client_id, PG_TEXT), OF_CHANGE(sealed, PG_BYTES, .has_no_null = true),
             OF_CHANGE(key_id, PG_TEXT, .has_no_null = true), PG_NOW("now"),
             STORE_EVENT_PARAMS(oauth_client_change)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

/* This is not replayable: a resend would find nothing and report that there was no client. */
static const struct pg_stmt oauth_client_delete = {
    .name = "oauth_client_delete",
    .sql = "with changed as (delete from sluice.oauth_client t @delete(sluice.oauth_client) "
           "returning :ord as ord), " STORE_AUDITED(
               CLIENT_DETAILS, " and " IS_OF_ACCOUNT) "select c.ord from changed c",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), OF_CHANGE(integration_id, PG_TEXT),
             STORE_EVENT_PARAMS(oauth_client_change)),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
};

static const struct pg_stmt oauth_client_list = {
    .name = "oauth_client_list",
    .sql = "select :ord, c.* from @input lateral (select " CLIENT_SELECT
           " from sluice.oauth_client t where t.account_id = :account_id "
           "order by t.integration_id limit 1000) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID)),
    PG_COLUMNS(client_columns),
};

static const struct pg_stmt oauth_client_stale = {
    .name = "oauth_client_stale",
    .sql = "select :ord, c.* from @input lateral (select " CLIENT_SELECT
           " from sluice.oauth_client t "
           "where (t.account_id, t.integration_id) > (:after_account, :after_integration) "
           "and t.key_id <> :key_id and octet_length(t.sealed) > 0 "
           "order by t.account_id, t.integration_id limit 100) c",
    PG_TAKES(PG_ARG("key_id", PG_TEXT), PG_ARG("after_account", PG_UUID),
             PG_ARG("after_integration", PG_TEXT)),
    PG_COLUMNS(client_columns),
    .no_account = "key rotation walks over all accounts",
};

/* The table has no rev; the sealed bytes themselves are the fence. Each sealing uses a new nonce,
 * so equal bytes mean that no other writer came in between. */
static const struct pg_stmt oauth_client_reseal = {
    .name = "oauth_client_reseal",
    .sql = "update sluice.oauth_client t set sealed = :sealed, key_id = :key_id, "
           "updated_at = :now @update(sluice.oauth_client) and t.sealed = :former returning :ord",
    PG_TAKES(OF(account_id, PG_UUID), OF(integration_id, PG_TEXT),
             PG_OF("former", PG_BYTES, struct oauth_client, sealed), PG_ARG("sealed", PG_BYTES),
             PG_ARG("key_id", PG_TEXT), PG_NOW("now")),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
};

/* ---- begun ---- */

/* state_hash is the hash of a random state, so a conflict can only be with this statement's own
 * first attempt. */
static const struct pg_stmt oauth_begun_insert = {
    .name = "oauth_begun_insert",
    .sql = "insert into sluice.oauth_begun (account_id, state_hash, session_hash, integration_id, "
           "sealed, key_id, created_at, expires_at) "
           "@row :account_id, :state_hash, :session_hash, :integration_id, :sealed, :key_id, "
           ":created_at, :expires_at @end on conflict (account_id, state_hash) do nothing",
    PG_TAKES(OF_BEGUN(account_id, PG_UUID), OF_BEGUN(state_hash, PG_BYTES),
             OF_BEGUN(session_hash, PG_BYTES), OF_BEGUN(integration_id, PG_TEXT),
             OF_BEGUN(sealed, PG_BYTES), OF_BEGUN(key_id, PG_TEXT), OF_BEGUN(created_at, PG_TIME),
             OF_BEGUN(expires_at, PG_TIME)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

/* DELETE ... RETURNING: of any number of requests with the same state only one gets the row (RFC
 * 6749 section 10.12). The row must belong to the session that began it; otherwise it stays. The
 * caller checks the expiry: as a condition here it would bring the index oauth_begun_expiry into
 * the plan (pg/stmt.c). This is not replayable: after a lost answer the row may be deleted without
 * having been read. */
static const struct pg_stmt oauth_begun_take = {
    .name = "oauth_begun_take",
    .sql = "delete from sluice.oauth_begun t @delete(sluice.oauth_begun) "
           "and t.session_hash = :session_hash "
           "returning :ord, t.integration_id, t.sealed, t.key_id, t.expires_at",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("state_hash", PG_BYTES),
             PG_ARG("session_hash", PG_BYTES)),
    PG_GIVES(OF_BEGUN(integration_id, PG_TEXT), OF_BEGUN(sealed, PG_BYTES),
             OF_BEGUN(key_id, PG_TEXT), OF_BEGUN(expires_at, PG_TIME)),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
};

static const struct pg_stmt oauth_begun_sweep =
    STORE_SWEEP("oauth_begun_sweep", "oauth_begun", "state_hash", "now()", .is_spread = true);

const struct pg_stmt *const oauth_stmts[] = {&oauth_client_get,    &oauth_client_set,
                                             &oauth_client_delete, &oauth_client_list,
                                             &oauth_client_stale,  &oauth_client_reseal,
                                             &oauth_begun_insert,  &oauth_begun_take,
                                             &oauth_begun_sweep,   NULL};

/* ---- clients: rows and calls ---- */

STORE_CALL_ID(store_oauth_client_get, oauth_client_get, slice, pg_text)
STORE_CALL_CHANGE(store_oauth_client_set, oauth_client_set, oauth_client_change, AUDIT_CLIENT_SET)

STORE_CALL_CHANGE(store_oauth_client_delete, oauth_client_delete, oauth_client_change,
                  AUDIT_CLIENT_REMOVED)

int store_oauth_client_list_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                                 struct oauth_client **list, size_t *count, struct err *err)
{
    *list = store_list_sync(sync, arena, &oauth_client_list, PG_VALUES(pg_uuid(account_id)),
                            sizeof(**list), count, err);
    return *list ? OK : (int)err->code;
}

int store_oauth_client_stale_sync(struct pg_sync *sync, struct arena *arena, slice key_id,
                                  struct uuid after_account, slice after_integration,
                                  struct oauth_client **list, size_t *count, struct err *err)
{
    *list = store_list_sync(
        sync, arena, &oauth_client_stale,
        PG_VALUES(pg_text(key_id), pg_uuid(after_account), pg_text_or_empty(after_integration)),
        sizeof(**list), count, err);
    return *list ? OK : (int)err->code;
}

int store_oauth_client_reseal_sync(struct pg_sync *sync, const struct oauth_client *client,
                                   slice sealed, slice key_id, struct err *err)
{
    return store_exec_one_sync(sync, &oauth_client_reseal, client,
                               PG_VALUES(pg_bytes(sealed), pg_text(key_id)),
                               "the OAuth client was changed in the meantime", err);
}

/* ---- begun: calls ---- */

STORE_CALL_OF(store_oauth_begun_insert, oauth_begun_insert, oauth_begun)

void store_oauth_begun_take(STORE_ARGS, struct uuid account_id,
                            const uint8_t state_hash[OAUTH_HASH_LEN],
                            const uint8_t session_hash[OAUTH_HASH_LEN])
{
    store_ask(pool, query, op, &oauth_begun_take,
              PG_VALUES(pg_uuid(account_id), pg_bytes(slice_of(state_hash, OAUTH_HASH_LEN)),
                        pg_bytes(slice_of(session_hash, OAUTH_HASH_LEN))));
}

STORE_CALL(store_oauth_begun_sweep, oauth_begun_sweep)
