/*
 * Connect links. A link goes through insert, take, use, and stays for a day after its end. Each of
 * these steps is one UPDATE by the primary key whose conditions are the fence: of any number of
 * browsers one takes the link, and it makes one connection. Each is replayable because its
 * condition also holds for the state that its own first sending left.
 */
#include "store/connect_session.h"

#include "base/clock.h"
#include "store/internal.h"

static const struct pg_column insert_params[] = {
    {"account_id", PG_UUID}, {"token_hash", PG_BYTES},  {"integration_id", PG_TEXT},
    {"key_hash", PG_BYTES},  {"is_reconnect", PG_BOOL}, {"return_url", PG_TEXT},
    {"created_at", PG_TIME}, {"expires_at", PG_TIME},   {"link_id", PG_UUID},
    {"key_id", PG_UUID},     {"connection_id", PG_I64}, {"email", PG_TEXT},
    {"subject", PG_TEXT}};
/* token_hash is of 256 random bits: a conflict can only be this statement's own first sending. */
static const struct pg_stmt connect_session_insert = {
    .name = "connect_session_insert",
    .sql = "insert into sluice.connect_session (account_id, token_hash, integration_id, key_hash, "
           "is_reconnect, return_url, created_at, expires_at, link_id, key_id, connection_id, "
           "email, subject) "
           "@row :account_id, :token_hash, :integration_id, :key_hash, :is_reconnect, :return_url, "
           ":created_at, :expires_at, :link_id, :key_id, :connection_id, :email, :subject @end "
           "on conflict (account_id, token_hash) do nothing",
    PG_PARAMS(insert_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};

#define SESSION_SELECT                                                                             \
    "t.integration_id, t.key_hash, t.is_reconnect, t.return_url, t.created_at, t.expires_at, "     \
    "t.link_id, t.key_id, t.connection_id, t.email, t.subject, t.taken_at, t.used_at, t.made_id, " \
    "(select a.name from sluice.account a where a.account_id = t.account_id)"
static const struct pg_column key_params[] = {{"account_id", PG_UUID}, {"token_hash", PG_BYTES}};
static const struct pg_column session_columns[] = {
    {"integration_id", PG_TEXT}, {"key_hash", PG_BYTES},  {"is_reconnect", PG_BOOL},
    {"return_url", PG_TEXT},     {"created_at", PG_TIME}, {"expires_at", PG_TIME},
    {"link_id", PG_UUID},        {"key_id", PG_UUID},     {"connection_id", PG_I64},
    {"email", PG_TEXT},          {"subject", PG_TEXT},    {"taken_at", PG_TIME},
    {"used_at", PG_TIME},        {"made_id", PG_I64},     {"account_name", PG_TEXT}};
/* The account's name comes along for the page, by its primary key. */
static const struct pg_stmt connect_session_get = {
    .name = "connect_session_get",
    .sql = "select :ord, " SESSION_SELECT " @read(sluice.connect_session)",
    PG_PARAMS(key_params),
    PG_COLUMNS(session_columns),
    .key_count = 2,
};

static const struct pg_column take_params[] = {{"account_id", PG_UUID},
                                               {"token_hash", PG_BYTES},
                                               {"taken_by", PG_BYTES},
                                               {"now", PG_TIME},
                                               {"until", PG_TIME}};
/* The first browser wins by taken_by; the row lock makes a second one wait and then fail the
 * condition. Taken again by the same browser, times stay as they were: neither a reload nor a
 * replay prolongs the link. */
static const struct pg_stmt connect_session_take = {
    .name = "connect_session_take",
    .sql = "update sluice.connect_session t set taken_at = coalesce(t.taken_at, :now), "
           "taken_by = :taken_by, "
           "expires_at = case when t.taken_at is null then :until else t.expires_at end "
           "@update(sluice.connect_session) and t.expires_at > :now "
           "and (t.taken_by is null or t.taken_by = :taken_by) returning :ord, " SESSION_SELECT,
    PG_PARAMS(take_params),
    PG_COLUMNS(session_columns),
    .key_count = 2,
    .is_write = true,
    .is_replayable = true,
};

static const struct pg_column use_params[] = {
    {"account_id", PG_UUID}, {"token_hash", PG_BYTES}, {"connection_id", PG_I64}, {"now", PG_TIME}};
/* Before the connection is inserted: the row binds the link to one connection id, so that a form
 * that is sent twice, or a process that dies in between, cannot make a second connection. */
static const struct pg_stmt connect_session_use = {
    .name = "connect_session_use",
    .sql = "update sluice.connect_session t set used_at = coalesce(t.used_at, :now), "
           "made_id = :connection_id @update(sluice.connect_session) "
           "and t.taken_at is not null and t.expires_at > :now "
           "and (t.made_id is null or t.made_id = :connection_id) returning :ord",
    PG_PARAMS(use_params),
    .key_count = 2,
    .is_write = true,
    .is_replayable = true,
};

static const struct pg_column unuse_params[] = {
    {"account_id", PG_UUID}, {"token_hash", PG_BYTES}, {"connection_id", PG_I64}};
/* Only of the connection that the caller had bound, so it cannot undo another's use. */
static const struct pg_stmt connect_session_unuse = {
    .name = "connect_session_unuse",
    .sql = "update sluice.connect_session t set used_at = null, made_id = null "
           "@update(sluice.connect_session) and t.made_id = :connection_id",
    PG_PARAMS(unuse_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};

static const struct pg_column count_params[] = {{"account_id", PG_UUID}, {"key_hash", PG_BYTES}};
static const struct pg_column count_columns[] = {{"count", PG_I64}};
/* A range of the primary key, filtered: no index on key_hash, because an account has few links at a
 * time (they go a day after their end) and the count bounds how many a key may have. */
static const struct pg_stmt connect_session_count = {
    .name = "connect_session_count",
    .sql = "select :ord, t.n from @input lateral (select count(*) filter (where c.expires_at > "
           "now() and c.used_at is null) as n from sluice.connect_session c where c.account_id = "
           ":account_id "
           "and c.key_hash = :key_hash) t",
    PG_PARAMS(count_params),
    PG_COLUMNS(count_columns),
    .key_count = 2,
};

/* By connect_session_expiry, at most 1000 rows a call. */
static const struct pg_stmt connect_session_sweep = {
    .name = "connect_session_sweep",
    .sql = "delete from sluice.connect_session t where (t.account_id, t.token_hash) in "
           "(select b.account_id, b.token_hash from sluice.connect_session b "
           "where b.expires_at < now() - interval '1 day' order by b.expires_at limit 1000)",
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
    .no_account = "what is due, over all accounts",
};

const struct pg_stmt *const connect_session_stmts[] = {
    &connect_session_insert, &connect_session_get,   &connect_session_take,  &connect_session_use,
    &connect_session_unuse,  &connect_session_count, &connect_session_sweep, NULL};

void store_connect_session_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                  const struct connect_session *session)
{
    query->params[0] = pg_uuid(session->account_id);
    query->params[1] = pg_bytes(slice_of(session->token_hash, CONNECT_SESSION_HASH_LEN));
    query->params[2] = pg_text(session->integration_id);
    query->params[3] = pg_bytes(slice_of(session->key_hash, API_KEY_HASH_LEN));
    query->params[4] = pg_bool(session->is_reconnect);
    query->params[5] = pg_text(session->return_url);
    query->params[6] = pg_time(session->created_at);
    query->params[7] = pg_time(session->expires_at);
    query->params[8] = pg_uuid(session->id);
    query->params[9] = pg_uuid(session->key_id);
    query->params[10] = pg_i64_or_null(session->connection_id);
    query->params[11] = pg_text(session->email);
    query->params[12] = pg_text(session->subject);
    store_submit(pool, query, op, &connect_session_insert);
}

static void put_token_key(struct pg_query *query, struct uuid account_id, const uint8_t *token_hash)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_bytes(slice_of(token_hash, CONNECT_SESSION_HASH_LEN));
}

void store_connect_session_get(struct pg_pool *pool, struct pg_query *query, struct op *op,
                               struct uuid account_id,
                               const uint8_t token_hash[CONNECT_SESSION_HASH_LEN])
{
    put_token_key(query, account_id, token_hash);
    store_submit(pool, query, op, &connect_session_get);
}

void store_connect_session_take(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                struct uuid account_id,
                                const uint8_t token_hash[CONNECT_SESSION_HASH_LEN],
                                const uint8_t taken_by[CONNECT_SESSION_HASH_LEN], int64_t until)
{
    put_token_key(query, account_id, token_hash);
    query->params[2] = pg_bytes(slice_of(taken_by, CONNECT_SESSION_HASH_LEN));
    query->params[3] = pg_time(clock_wall_us());
    query->params[4] = pg_time(until);
    store_submit(pool, query, op, &connect_session_take);
}

int store_connect_session_result(const struct pg_query *query, struct connect_session *session)
{
    const struct pg_rows *rows = &query->rows;
    if (query->status != OK)
        return query->status;
    if (rows->count == 0)
        return ERR_NOTFOUND;
    *session = (struct connect_session){
        .integration_id = pg_get_bytes(rows, 0, 0),
        .is_reconnect = pg_get_bool(rows, 0, 2),
        .return_url = pg_get_bytes(rows, 0, 3),
        .created_at = pg_get_time(rows, 0, 4),
        .expires_at = pg_get_time(rows, 0, 5),
        .id = pg_get_uuid(rows, 0, 6),
        .key_id = pg_get_uuid(rows, 0, 7),
        .connection_id = pg_get_i64(rows, 0, 8),
        .email = pg_get_bytes(rows, 0, 9),
        .subject = pg_get_bytes(rows, 0, 10),
        .taken_at = pg_get_time(rows, 0, 11),
        .used_at = pg_get_time(rows, 0, 12),
        .made_id = pg_get_i64(rows, 0, 13),
        .account_name = pg_get_bytes(rows, 0, 14),
    };
    slice hash = pg_get_bytes(rows, 0, 1);
    ASSERT(hash.len == API_KEY_HASH_LEN); /* a CHECK of the table */
    memcpy(session->key_hash, hash.ptr, hash.len);
    return OK;
}

void store_connect_session_count(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                 struct uuid account_id, const uint8_t key_hash[API_KEY_HASH_LEN])
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_bytes(slice_of(key_hash, API_KEY_HASH_LEN));
    store_submit(pool, query, op, &connect_session_count);
}

int store_connect_session_count_result(const struct pg_query *query, size_t *count)
{
    if (query->status != OK)
        return query->status;
    *count = query->rows.count > 0 ? (size_t)pg_get_i64(&query->rows, 0, 0) : 0;
    return OK;
}

void store_connect_session_use(struct pg_pool *pool, struct pg_query *query, struct op *op,
                               struct uuid account_id,
                               const uint8_t token_hash[CONNECT_SESSION_HASH_LEN],
                               int64_t connection_id)
{
    put_token_key(query, account_id, token_hash);
    query->params[2] = pg_i64(connection_id);
    query->params[3] = pg_time(clock_wall_us());
    store_submit(pool, query, op, &connect_session_use);
}

int store_connect_session_use_result(const struct pg_query *query)
{
    if (query->status != OK)
        return query->status;
    return query->rows.count > 0 ? OK : ERR_NOTFOUND;
}

void store_connect_session_unuse(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                 struct uuid account_id,
                                 const uint8_t token_hash[CONNECT_SESSION_HASH_LEN],
                                 int64_t connection_id)
{
    put_token_key(query, account_id, token_hash);
    query->params[2] = pg_i64(connection_id);
    store_submit(pool, query, op, &connect_session_unuse);
}

void store_connect_session_sweep(struct pg_pool *pool, struct pg_query *query, struct op *op)
{
    store_submit(pool, query, op, &connect_session_sweep);
}
