/*
 * OAuth clients that operators or accounts registered, and authorizations that people have begun.
 * All statements go by primary keys, but for two walks over all accounts in the order of one.
 * Clients under the nil account serve every account without one of its own; the caller asks for
 * both.
 */
#include "store/oauth.h"

#include "base/clock.h"
#include "store/internal.h"

/* ---- clients ---- */

#define CLIENT_SELECT \
    "t.account_id, t.integration_id, t.client_id, t.sealed, t.key_id, t.created_at, t.updated_at"

static const struct pg_column client_columns[] = {
    {"account_id", PG_UUID}, {"integration_id", PG_TEXT}, {"client_id", PG_TEXT},
    {"sealed", PG_BYTES},    {"key_id", PG_TEXT},         {"created_at", PG_TIME},
    {"updated_at", PG_TIME}};

static const struct pg_column client_key_params[] = {{"account_id", PG_UUID},
                                                     {"integration_id", PG_TEXT}};
static const struct pg_stmt oauth_client_get = {
    .name = "oauth_client_get",
    .sql = "select :ord, " CLIENT_SELECT " @read(sluice.oauth_client)",
    PG_PARAMS(client_key_params),
    PG_COLUMNS(client_columns),
    .key_count = 2,
};

static const struct pg_column client_set_params[] = {
    {"account_id", PG_UUID}, {"integration_id", PG_TEXT}, {"client_id", PG_TEXT},
    {"sealed", PG_BYTES},    {"key_id", PG_TEXT},         {"now", PG_TIME}};
/* The last write wins, and a replay writes the same. created_at stays that of the first. */
static const struct pg_stmt oauth_client_set = {
    .name = "oauth_client_set",
    .sql = "insert into sluice.oauth_client (account_id, integration_id, client_id, sealed, "
           "key_id, created_at, updated_at) "
           "@row :account_id, :integration_id, :client_id, :sealed, :key_id, :now, :now @end "
           "on conflict (account_id, integration_id) do update set client_id = excluded.client_id, "
           "sealed = excluded.sealed, key_id = excluded.key_id, updated_at = excluded.updated_at",
    PG_PARAMS(client_set_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};

/* Not replayable: a second sending would find nothing and answer that there was no client. */
static const struct pg_stmt oauth_client_delete = {
    .name = "oauth_client_delete",
    .sql = "delete from sluice.oauth_client t @delete(sluice.oauth_client) returning :ord",
    PG_PARAMS(client_key_params),
    .key_count = 2,
    .is_write = true,
};

static const struct pg_column client_list_params[] = {{"account_id", PG_UUID}};
static const struct pg_stmt oauth_client_list = {
    .name = "oauth_client_list",
    .sql = "select :ord, c.* from @input lateral (select " CLIENT_SELECT
           " from sluice.oauth_client t where t.account_id = :account_id "
           "order by t.integration_id limit 1000) c",
    PG_PARAMS(client_list_params),
    PG_COLUMNS(client_columns),
};

static const struct pg_column client_stale_params[] = {
    {"key_id", PG_TEXT}, {"after_account", PG_UUID}, {"after_integration", PG_TEXT}};
static const struct pg_stmt oauth_client_stale = {
    .name = "oauth_client_stale",
    .sql = "select :ord, c.* from @input lateral (select " CLIENT_SELECT
           " from sluice.oauth_client t "
           "where (t.account_id, t.integration_id) > (:after_account, :after_integration) "
           "and t.key_id <> :key_id and octet_length(t.sealed) > 0 "
           "order by t.account_id, t.integration_id limit 100) c",
    PG_PARAMS(client_stale_params),
    PG_COLUMNS(client_columns),
    .no_account = "key rotation walks over all accounts",
};

static const struct pg_column client_reseal_params[] = {
    {"account_id", PG_UUID}, {"integration_id", PG_TEXT}, {"former", PG_BYTES},
    {"sealed", PG_BYTES},    {"key_id", PG_TEXT},         {"now", PG_TIME}};
/* The table has no rev; the sealed bytes themselves are the fence. Sealing draws a new nonce each
 * time, so equal bytes mean that no other writer came between. */
static const struct pg_stmt oauth_client_reseal = {
    .name = "oauth_client_reseal",
    .sql = "update sluice.oauth_client t set sealed = :sealed, key_id = :key_id, "
           "updated_at = :now @update(sluice.oauth_client) and t.sealed = :former returning :ord",
    PG_PARAMS(client_reseal_params),
    .key_count = 2,
    .is_write = true,
};

/* ---- begun ---- */

static const struct pg_column begun_insert_params[] = {
    {"account_id", PG_UUID},     {"state_hash", PG_BYTES}, {"session_hash", PG_BYTES},
    {"integration_id", PG_TEXT}, {"sealed", PG_BYTES},     {"key_id", PG_TEXT},
    {"created_at", PG_TIME},     {"expires_at", PG_TIME}};
/* state_hash is of a random state: a conflict is this statement's own first sending. */
static const struct pg_stmt oauth_begun_insert = {
    .name = "oauth_begun_insert",
    .sql = "insert into sluice.oauth_begun (account_id, state_hash, session_hash, integration_id, "
           "sealed, key_id, created_at, expires_at) "
           "@row :account_id, :state_hash, :session_hash, :integration_id, :sealed, :key_id, "
           ":created_at, :expires_at @end on conflict (account_id, state_hash) do nothing",
    PG_PARAMS(begun_insert_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};

static const struct pg_column begun_take_params[] = {
    {"account_id", PG_UUID}, {"state_hash", PG_BYTES}, {"session_hash", PG_BYTES}};
static const struct pg_column begun_columns[] = {{"integration_id", PG_TEXT},
                                                 {"sealed", PG_BYTES},
                                                 {"key_id", PG_TEXT},
                                                 {"expires_at", PG_TIME}};
/* DELETE ... RETURNING: of any number of requests with the same state one gets the row (RFC 6749
 * section 10.12). It must be of the session that began it; else the row stays for that one. The
 * expiry is for the caller to check: as a condition here it would bring the index
 * oauth_begun_expiry into the plan (pg/stmt.c). Not replayable: after a lost answer the row may be
 * gone without having been read. */
static const struct pg_stmt oauth_begun_take = {
    .name = "oauth_begun_take",
    .sql = "delete from sluice.oauth_begun t @delete(sluice.oauth_begun) "
           "and t.session_hash = :session_hash "
           "returning :ord, t.integration_id, t.sealed, t.key_id, t.expires_at",
    PG_PARAMS(begun_take_params),
    PG_COLUMNS(begun_columns),
    .key_count = 2,
    .is_write = true,
};

/* By oauth_begun_expiry, at most OAUTH_BEGUN_SWEEP_MAX rows a call. */
static const struct pg_stmt oauth_begun_sweep = {
    .name = "oauth_begun_sweep",
    .sql = "delete from sluice.oauth_begun t where (t.account_id, t.state_hash) in "
           "(select b.account_id, b.state_hash from sluice.oauth_begun b "
           "where b.expires_at < now() order by b.expires_at limit 1000)",
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
    .no_account = "what is due, over all accounts",
};

const struct pg_stmt *const oauth_stmts[] = {&oauth_client_get,    &oauth_client_set,
                                             &oauth_client_delete, &oauth_client_list,
                                             &oauth_client_stale,  &oauth_client_reseal,
                                             &oauth_begun_insert,  &oauth_begun_take,
                                             &oauth_begun_sweep,   NULL};

/* ---- clients: rows and calls ---- */

static void read_client(const struct pg_rows *rows, size_t row, struct oauth_client *client)
{
    *client = (struct oauth_client){
        .account_id = pg_get_uuid(rows, row, 0),
        .integration_id = pg_get_bytes(rows, row, 1),
        .client_id = pg_get_bytes(rows, row, 2),
        .sealed = pg_get_bytes(rows, row, 3),
        .key_id = pg_get_bytes(rows, row, 4),
        .created_at = pg_get_time(rows, row, 5),
        .updated_at = pg_get_time(rows, row, 6),
    };
}

static int read_clients(const struct pg_rows *rows, struct arena *arena, struct oauth_client **list,
                        size_t *count, struct err *err)
{
    *list = ARENA_ARRAY(arena, struct oauth_client, rows->count + 1);
    if (!*list)
        return err_set(err, ERR_NOMEM, "the list of OAuth clients is too large");
    for (size_t i = 0; i < rows->count; i++)
        read_client(rows, i, &(*list)[i]);
    *count = rows->count;
    return OK;
}

void store_oauth_client_get(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            struct uuid account_id, slice integration_id)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_text(integration_id);
    store_submit(pool, query, op, &oauth_client_get);
}

int store_oauth_client_get_result(const struct pg_query *query, struct oauth_client *client)
{
    if (query->status != OK)
        return query->status;
    if (query->rows.count == 0)
        return ERR_NOTFOUND;
    read_client(&query->rows, 0, client);
    return OK;
}

static void set_params(const struct oauth_client *client, struct pg_value *params)
{
    params[0] = pg_uuid(client->account_id);
    params[1] = pg_text(client->integration_id);
    params[2] = pg_text(client->client_id);
    params[3] = pg_bytes(client->sealed.ptr ? client->sealed : SLICE(""));
    params[4] = pg_text_or_empty(client->key_id);
    params[5] = pg_time(clock_wall_us());
}

void store_oauth_client_set(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            const struct oauth_client *client)
{
    set_params(client, query->params);
    store_submit(pool, query, op, &oauth_client_set);
}

void store_oauth_client_delete(struct pg_pool *pool, struct pg_query *query, struct op *op,
                               struct uuid account_id, slice integration_id)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_text(integration_id);
    store_submit(pool, query, op, &oauth_client_delete);
}

int store_oauth_client_delete_result(const struct pg_query *query)
{
    if (query->status != OK)
        return query->status;
    return query->rows.count > 0 ? OK : ERR_NOTFOUND;
}

int store_oauth_client_set_sync(struct pg_sync *sync, const struct oauth_client *client,
                                struct err *err)
{
    struct pg_value params[ARRAY_LEN(client_set_params)];
    set_params(client, params);
    return pg_sync_exec(sync, &oauth_client_set, params, NULL, NULL, err);
}

int store_oauth_client_delete_sync(struct pg_sync *sync, struct uuid account_id,
                                   slice integration_id, struct err *err)
{
    struct pg_value params[] = {pg_uuid(account_id), pg_text(integration_id)};
    return store_exec_one_sync(sync, &oauth_client_delete, params,
                               "there is no such OAuth client; `sluice oauth-clients list` shows "
                               "them",
                               err);
}

int store_oauth_client_list_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                                 struct oauth_client **list, size_t *count, struct err *err)
{
    struct pg_rows rows;
    struct pg_value params[] = {pg_uuid(account_id)};
    int rc = pg_sync_exec(sync, &oauth_client_list, params, arena, &rows, err);
    return rc == OK ? read_clients(&rows, arena, list, count, err) : rc;
}

int store_oauth_client_stale_sync(struct pg_sync *sync, struct arena *arena, slice key_id,
                                  struct uuid after_account, slice after_integration,
                                  struct oauth_client **list, size_t *count, struct err *err)
{
    struct pg_rows rows;
    struct pg_value params[] = {pg_text(key_id), pg_uuid(after_account),
                                pg_text_or_empty(after_integration)};
    int rc = pg_sync_exec(sync, &oauth_client_stale, params, arena, &rows, err);
    return rc == OK ? read_clients(&rows, arena, list, count, err) : rc;
}

int store_oauth_client_reseal_sync(struct pg_sync *sync, const struct oauth_client *client,
                                   slice sealed, slice key_id, struct err *err)
{
    struct pg_value params[] = {pg_uuid(client->account_id),
                                pg_text(client->integration_id),
                                pg_bytes(client->sealed),
                                pg_bytes(sealed),
                                pg_text(key_id),
                                pg_time(clock_wall_us())};
    return store_exec_one_sync(sync, &oauth_client_reseal, params,
                               "the OAuth client was changed meanwhile", err);
}

/* ---- begun: calls ---- */

void store_oauth_begun_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                              const struct oauth_begun *begun)
{
    query->params[0] = pg_uuid(begun->account_id);
    query->params[1] = pg_bytes(slice_of(begun->state_hash, OAUTH_HASH_LEN));
    query->params[2] = pg_bytes(slice_of(begun->session_hash, OAUTH_HASH_LEN));
    query->params[3] = pg_text(begun->integration_id);
    query->params[4] = pg_bytes(begun->sealed);
    query->params[5] = pg_text(begun->key_id);
    query->params[6] = pg_time(begun->created_at);
    query->params[7] = pg_time(begun->expires_at);
    store_submit(pool, query, op, &oauth_begun_insert);
}

void store_oauth_begun_take(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            struct uuid account_id, const uint8_t state_hash[OAUTH_HASH_LEN],
                            const uint8_t session_hash[OAUTH_HASH_LEN])
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_bytes(slice_of(state_hash, OAUTH_HASH_LEN));
    query->params[2] = pg_bytes(slice_of(session_hash, OAUTH_HASH_LEN));
    store_submit(pool, query, op, &oauth_begun_take);
}

int store_oauth_begun_take_result(const struct pg_query *query, struct oauth_begun *begun)
{
    if (query->status != OK)
        return query->status;
    if (query->rows.count == 0)
        return ERR_NOTFOUND;
    *begun = (struct oauth_begun){
        .integration_id = pg_get_bytes(&query->rows, 0, 0),
        .sealed = pg_get_bytes(&query->rows, 0, 1),
        .key_id = pg_get_bytes(&query->rows, 0, 2),
        .expires_at = pg_get_time(&query->rows, 0, 3),
    };
    return OK;
}

void store_oauth_begun_sweep(struct pg_pool *pool, struct pg_query *query, struct op *op)
{
    store_submit(pool, query, op, &oauth_begun_sweep);
}
