/*
 * API keys. The table has the SHA-256 of a key, never the key. A key is looked up by its hash,
 * before its account is known; everything else names the account. Scopes are stored as words, so
 * that a newer version can add one.
 */
#include "store/api_key.h"

#include "base/clock.h"
#include "store/internal.h"

/* ---- scopes ---- */

static const struct {
    enum api_key_scope scope;
    slice name;
} scopes[] = {
    {SCOPE_READ, SLICE_INIT("read")},
    {SCOPE_EXECUTE, SLICE_INIT("execute")},
    {SCOPE_APPROVE, SLICE_INIT("approve")},
    {SCOPE_ADMIN, SLICE_INIT("admin")},
};

const char *scope_name(enum api_key_scope scope)
{
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
        if (scopes[i].scope == scope)
            return scopes[i].name.ptr;
    UNREACHABLE("no such scope");
    return "";
}

static uint32_t scope_of(slice word)
{
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++)
        if (slice_eq(scopes[i].name, word))
            return scopes[i].scope;
    return 0;
}

int scopes_parse(slice text, uint32_t *set, struct err *err)
{
    *set = 0;
    while (text.len) {
        size_t len = 0;
        while (len < text.len && text.ptr[len] != ' ' && text.ptr[len] != ',')
            len++;
        slice word = slice_first(text, len);
        text = slice_from(text, len + 1);
        if (word.len == 0)
            continue;
        if (!scope_of(word))
            return err_set(err, ERR_INVALID,
                           "\"%.*s\" is no scope; scopes are read, execute, approve and admin",
                           SLICE_ARG(slice_first_utf8(word, 40)));
        *set |= scope_of(word);
    }
    return *set ? OK : err_set(err, ERR_INVALID, "a key needs at least one scope");
}

slice scopes_format(uint32_t set, char out[33])
{
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
        if (!(set & (uint32_t)scopes[i].scope))
            continue;
        if (len)
            out[len++] = ' ';
        memcpy(out + len, scopes[i].name.ptr, scopes[i].name.len);
        len += scopes[i].name.len;
    }
    ASSERT(len <= 32);
    out[len] = '\0';
    return slice_of(out, len);
}

/* ---- statements ---- */

#define KEY_COLUMNS                                                                        \
    "t.account_id, t.id, t.hash, t.prefix, t.name, t.scopes, t.created_at, t.expires_at, " \
    "t.revoked_at, t.last_used_at"

static const struct pg_column find_params[] = {{"hash", PG_BYTES}, {"session_hash", PG_BYTES}};
static const struct pg_column key_columns[] = {
    {"account_id", PG_UUID},       {"id", PG_UUID},          {"hash", PG_BYTES},
    {"prefix", PG_TEXT},           {"name", PG_TEXT},        {"scopes", PG_TEXT},
    {"created_at", PG_TIME},       {"expires_at", PG_TIME},  {"revoked_at", PG_TIME},
    {"last_used_at", PG_TIME},     {"is_disabled", PG_BOOL}, {"is_session_ended", PG_BOOL},
    {"sessions_ended_at", PG_TIME}};
/* By the unique index on hash (api_key_hash), one row at most. Account and session are read with
 * it, each by its primary key, so that a request is authorized from one snapshot and one query.
 * session_hash is NULL where the key itself is used: then `exists` is false. Expiry and revocation
 * are the caller's to check, with the error that belongs to each. */
static const struct pg_stmt api_key_find = {
    .name = "api_key_find",
    .sql = "select :ord, " KEY_COLUMNS ", (select a.disabled_at is not null from sluice.account a "
           "where a.account_id = t.account_id), exists (select from sluice.session_end e "
           "where e.account_id = t.account_id and e.session_hash = :session_hash), "
           "t.sessions_ended_at @read(sluice.api_key)",
    PG_PARAMS(find_params),
    PG_COLUMNS(key_columns),
    .key_count = 1,
    .no_account = "look-up by hash: the account is what it finds out",
};

static const struct pg_column touch_params[] = {
    {"account_id", PG_UUID}, {"id", PG_UUID}, {"now", PG_TIME}};
/* last_used_at is in no index and the table has room for a second version in each page (fillfactor
 * 80): a HOT update. Batches of several processes may arrive out of order; a minute's error is
 * fine. */
static const struct pg_stmt api_key_touch = {
    .name = "api_key_touch",
    .sql = "update sluice.api_key t set last_used_at = :now @update(sluice.api_key)",
    PG_PARAMS(touch_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};

static const struct pg_column create_params[] = {
    {"account_id", PG_UUID}, {"id", PG_UUID},     {"hash", PG_BYTES},      {"prefix", PG_TEXT},
    {"name", PG_TEXT},       {"scopes", PG_TEXT}, {"created_at", PG_TIME}, {"expires_at", PG_TIME}};
/* Without "on conflict": the id is new, and of a lost answer the caller must not hand out the key.
 * 23503 means that there is no such account. */
static const struct pg_stmt api_key_create = {
    .name = "api_key_create",
    .sql = "insert into sluice.api_key "
           "(account_id, id, hash, prefix, name, scopes, created_at, expires_at) "
           "@row :account_id, :id, :hash, :prefix, :name, :scopes, :created_at, :expires_at @end",
    PG_PARAMS(create_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
};

static const struct pg_column list_params[] = {{"account_id", PG_UUID}};
/* The columns of api_key_find, so that read_row serves both; what belongs to one session is
 * constant. By the primary key, whose ids are ordered by time. */
static const struct pg_stmt api_key_list = {
    .name = "api_key_list",
    .sql =
        "select :ord, t.*, false, false, null::timestamptz from @input lateral (select " KEY_COLUMNS
        " from sluice.api_key t where t.account_id = :account_id order by t.id limit 1000) t",
    PG_PARAMS(list_params),
    PG_COLUMNS(key_columns),
    .key_count = 1,
};

/* coalesce keeps the first time: a replay, or a second revocation, changes nothing and finds the
 * row. */
static const struct pg_stmt api_key_revoke = {
    .name = "api_key_revoke",
    .sql = "update sluice.api_key t set revoked_at = coalesce(t.revoked_at, :now) "
           "@update(sluice.api_key) returning :ord",
    PG_PARAMS(touch_params),
    .key_count = 2,
    .is_write = true,
    .is_replayable = true,
};

static const struct pg_column end_params[] = {
    {"account_id", PG_UUID}, {"session_hash", PG_BYTES}, {"expires_at", PG_TIME}};
/* A session is a sealed cookie that the server cannot take back; this row outweighs it
 * (api_key_find). A replay finds the row and does nothing. */
static const struct pg_stmt session_end = {
    .name = "session_end",
    .sql = "insert into sluice.session_end (account_id, session_hash, expires_at) "
           "@row :account_id, :session_hash, :expires_at @end "
           "on conflict (account_id, session_hash) do nothing",
    PG_PARAMS(end_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};

/* greatest() ignores NULL and never goes back, so replays and races of two sign-outs end alike. */
static const struct pg_stmt sessions_end = {
    .name = "sessions_end",
    .sql = "update sluice.api_key t set sessions_ended_at = greatest(t.sessions_ended_at, :now) "
           "@update(sluice.api_key)",
    PG_PARAMS(touch_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};

/* By session_end_expiry, at most 1000 rows a call: the transaction stays short whatever has piled
 * up. The caller repeats it. */
static const struct pg_stmt session_end_sweep = {
    .name = "session_end_sweep",
    .sql = "delete from sluice.session_end t where (t.account_id, t.session_hash) in "
           "(select b.account_id, b.session_hash from sluice.session_end b "
           "where b.expires_at < now() order by b.expires_at limit 1000)",
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
    .no_account = "what is due, over all accounts",
};

const struct pg_stmt *const api_key_stmts[] = {&api_key_find, &api_key_touch,     &api_key_create,
                                               &api_key_list, &api_key_revoke,    &session_end,
                                               &sessions_end, &session_end_sweep, NULL};

/* ---- rows ---- */

/* Column numbers are those of key_columns. */
static void read_row(const struct pg_rows *rows, size_t row, struct api_key *key)
{
    *key = (struct api_key){
        .account_id = pg_get_uuid(rows, row, 0),
        .id = pg_get_uuid(rows, row, 1),
        .prefix = pg_get_bytes(rows, row, 3),
        .name = pg_get_bytes(rows, row, 4),
        .created_at = pg_get_time(rows, row, 6),
        .expires_at = pg_get_time(rows, row, 7),
        .revoked_at = pg_get_time(rows, row, 8),
        .last_used_at = pg_get_time(rows, row, 9),
        .is_account_disabled = pg_get_bool(rows, row, 10),
        .is_session_ended = pg_get_bool(rows, row, 11),
        .sessions_ended_at = pg_get_time(rows, row, 12),
    };
    slice hash = pg_get_bytes(rows, row, 2);
    ASSERT(hash.len == API_KEY_HASH_LEN); /* a CHECK of the table */
    memcpy(key->hash, hash.ptr, hash.len);
    /* A scope that only a newer version knows grants nothing here. */
    slice text = pg_get_bytes(rows, row, 5);
    while (text.len)
        key->scopes |= scope_of(slice_split(&text, ' '));
}

/* ---- asynchronous ---- */

void store_api_key_find(struct pg_pool *pool, struct pg_query *query, struct op *op,
                        const uint8_t hash[API_KEY_HASH_LEN],
                        const uint8_t session_hash[SESSION_HASH_LEN])
{
    query->params[0] = pg_bytes(slice_of(hash, API_KEY_HASH_LEN));
    query->params[1] =
        pg_bytes(session_hash ? slice_of(session_hash, SESSION_HASH_LEN) : SLICE_NONE);
    store_submit(pool, query, op, &api_key_find);
}

int store_api_key_find_result(const struct pg_query *query, struct api_key *key)
{
    if (query->status != OK)
        return query->status;
    if (query->rows.count == 0)
        return ERR_NOTFOUND;
    read_row(&query->rows, 0, key);
    return OK;
}

void store_api_key_touch(struct pg_pool *pool, struct pg_query *query, struct op *op,
                         struct uuid account_id, struct uuid id, int64_t now)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_uuid(id);
    query->params[2] = pg_time(now);
    store_submit(pool, query, op, &api_key_touch);
}

void store_session_end(struct pg_pool *pool, struct pg_query *query, struct op *op,
                       struct uuid account_id, const uint8_t session_hash[SESSION_HASH_LEN],
                       int64_t expires_at)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_bytes(slice_of(session_hash, SESSION_HASH_LEN));
    query->params[2] = pg_time(expires_at);
    store_submit(pool, query, op, &session_end);
}

void store_sessions_end(struct pg_pool *pool, struct pg_query *query, struct op *op,
                        struct uuid account_id, struct uuid key_id, int64_t before)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_uuid(key_id);
    query->params[2] = pg_time(before);
    store_submit(pool, query, op, &sessions_end);
}

void store_session_end_sweep(struct pg_pool *pool, struct pg_query *query, struct op *op)
{
    store_submit(pool, query, op, &session_end_sweep);
}

static int read_rows(const struct pg_rows *rows, struct arena *arena, struct api_key **keys,
                     size_t *count)
{
    *keys = ARENA_ARRAY(arena, struct api_key, rows->count + 1);
    if (!*keys)
        return ERR_NOMEM;
    for (size_t i = 0; i < rows->count; i++)
        read_row(rows, i, &(*keys)[i]);
    *count = rows->count;
    return OK;
}

void store_api_key_create(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          const struct api_key *key)
{
    char text[33];
    query->params[0] = pg_uuid(key->account_id);
    query->params[1] = pg_uuid(key->id);
    query->params[2] = pg_bytes(slice_of(key->hash, API_KEY_HASH_LEN));
    query->params[3] = pg_text_or_empty(key->prefix);
    query->params[4] = pg_text_or_empty(key->name);
    query->params[5] = pg_text(arena_dup(&op->arena, scopes_format(key->scopes, text)));
    query->params[6] = pg_time(key->created_at);
    query->params[7] = pg_time(key->expires_at);
    store_submit(pool, query, op, &api_key_create);
}

void store_api_key_list(struct pg_pool *pool, struct pg_query *query, struct op *op,
                        struct uuid account_id)
{
    query->params[0] = pg_uuid(account_id);
    store_submit(pool, query, op, &api_key_list);
}

int store_api_key_list_result(const struct pg_query *query, struct api_key **keys, size_t *count)
{
    return query->status == OK ? read_rows(&query->rows, &query->op->arena, keys, count)
                               : query->status;
}

void store_api_key_revoke(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          struct uuid account_id, struct uuid id)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_uuid(id);
    query->params[2] = pg_time(clock_wall_us());
    store_submit(pool, query, op, &api_key_revoke);
}

int store_api_key_revoke_result(const struct pg_query *query)
{
    if (query->status != OK)
        return query->status;
    return query->rows.count > 0 ? OK : ERR_NOTFOUND;
}

/* ---- operator commands ---- */

int store_api_key_create_sync(struct pg_sync *sync, const struct api_key *key, struct err *err)
{
    char text[33];
    struct pg_value params[] = {
        pg_uuid(key->account_id),
        pg_uuid(key->id),
        pg_bytes(slice_of(key->hash, API_KEY_HASH_LEN)),
        pg_text_or_empty(key->prefix),
        pg_text_or_empty(key->name),
        pg_text(scopes_format(key->scopes, text)),
        pg_time(clock_wall_us()),
        pg_time(key->expires_at),
    };
    int rc = pg_sync_exec(sync, &api_key_create, params, NULL, NULL, err);
    if (rc == ERR_INVALID && slice_eq(slice_cstr(pg_sync_sqlstate(sync)), SLICE("23503")))
        return err_set(err, ERR_NOTFOUND,
                       "there is no account of that id; `sluice accounts list` shows them");
    return rc;
}

int store_api_key_list_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                            struct api_key **keys, size_t *count, struct err *err)
{
    struct pg_rows rows;
    struct pg_value params[] = {pg_uuid(account_id)};
    int rc = pg_sync_exec(sync, &api_key_list, params, arena, &rows, err);
    if (rc != OK)
        return rc;
    return read_rows(&rows, arena, keys, count) == OK
               ? OK
               : err_set(err, ERR_NOMEM, "the list of keys is too large");
}

int store_api_key_revoke_sync(struct pg_sync *sync, struct uuid account_id, struct uuid id,
                              struct err *err)
{
    struct pg_value params[] = {pg_uuid(account_id), pg_uuid(id), pg_time(clock_wall_us())};
    return store_exec_one_sync(sync, &api_key_revoke, params,
                               "the account has no key of that id; `sluice keys list` shows them",
                               err);
}
