/*
 * API keys. The table has the SHA-256 of a key, never the key. A key is looked up by its hash,
 * before its account is known; everything else names the account. Scopes are stored as words, so
 * that a newer version can add one.
 */
#include "store/api_key.h"

#include <stdio.h>

#include "base/clock.h"
#include "store/internal.h"
#include "store/policy.h"

/* ---- scopes ---- */

/* A name that means several scopes comes before the names of the single scopes. */
static const struct {
    enum api_key_scope scope;
    slice name;
} scopes[] = {
    {SCOPE_READ, SLICE_INIT("read")},
    {SCOPE_EXECUTE, SLICE_INIT("execute")},
    {SCOPE_EXECUTE_READ, SLICE_INIT("execute:read")},
    {SCOPE_EXECUTE_WRITE, SLICE_INIT("execute:write")},
    {SCOPE_APPROVE, SLICE_INIT("approve")},
    {SCOPE_ADMIN, SLICE_INIT("admin")},
    {SCOPE_OPERATOR, SLICE_INIT("operator")},
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
        if ((scope_of(word) & SCOPE_ALL) == 0)
            return err_set(err, ERR_INVALID,
                           "\"%.*s\" is not a scope; scopes are read, execute (or only "
                           "execute:read or execute:write), approve and admin",
                           SLICE_ARG(slice_first_utf8(word, 40)));
        *set |= scope_of(word);
    }
    return *set ? OK : err_set(err, ERR_INVALID, "a key needs at least one scope");
}

uint32_t scopes_next(uint32_t *set)
{
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
        uint32_t word = (uint32_t)scopes[i].scope;
        if ((*set & word) != word)
            continue;
        *set &= ~word;
        return word;
    }
    return 0;
}

slice scopes_format(uint32_t set, char out[48])
{
    size_t len = 0;
    for (uint32_t word; (word = scopes_next(&set)) != 0 && len < 48;)
        len += (size_t)snprintf(out + len, 48 - len, "%s%s", len ? " " : "",
                                scope_name((enum api_key_scope)word));
    ASSERT(len <= 47);
    out[len] = '\0';
    return slice_of(out, len);
}

/* ---- statements ---- */

#define KEY_COLUMNS                                                                        \
    "t.account_id, t.id, t.hash, t.prefix, t.name, t.scopes, t.created_at, t.expires_at, " \
    "t.revoked_at, t.last_used_at, t.addresses, t.forms, t.unattended_writes, t.user_id, " \
    "t.external_id, t.made_by, coalesce(t.line, t.id) as line, t.ends_at, t.policy"

#define OF(name, type, ...) PG_OF(#name, type, struct api_key, name, __VA_ARGS__)

static const struct pg_column key_columns[] = {
    OF(account_id, PG_UUID),
    OF(id, PG_UUID),
    OF(hash, PG_BYTES),
    OF(prefix, PG_TEXT),
    OF(name, PG_TEXT),
    PG_OF("scopes", PG_TEXT, struct api_key, scopes_words),
    OF(created_at, PG_TIME),
    OF(expires_at, PG_TIME),
    OF(revoked_at, PG_TIME),
    OF(last_used_at, PG_TIME),
    OF(addresses, PG_TEXT),
    OF(forms, PG_TEXT),
    OF(unattended_writes, PG_TEXT),
    OF(user_id, PG_UUID),
    OF(external_id, PG_TEXT),
    OF(made_by, PG_UUID),
    OF(line, PG_UUID),
    OF(ends_at, PG_TIME),
    OF(policy, PG_TEXT),
    PG_OF("is_disabled", PG_BOOL, struct api_key, is_account_disabled),
    OF(is_session_ended, PG_BOOL),
    OF(sessions_ended_at, PG_TIME),
    OF(policy_rev, PG_I64)};
/* The key is looked up by the unique index on hash (api_key_hash): at most one row. Account,
 * session and policy are read with the key, each by its primary key, so that a request is
 * authorized from one snapshot and one query. session_hash is NULL if the key itself is used:
 * `exists` is then false. The caller checks expiry and revocation, with the right error for each.
 */
static const struct pg_stmt api_key_find = {
    .name = "api_key_find",
    .sql = "select :ord, " KEY_COLUMNS ", not exists (select 1 from sluice.account a "
           "where a.account_id = t.account_id and a.disabled_at is null), exists (select 1 from "
           "sluice.session_end e "
           "where e.account_id = t.account_id and e.session_hash = :session_hash), "
           "t.sessions_ended_at, " STORE_KEY_POLICY_REV("t") " @read(sluice.api_key)",
    PG_TAKES(PG_ARG("hash", PG_BYTES), PG_ARG("session_hash", PG_BYTES)),
    PG_COLUMNS(key_columns),
    .key_count = 1,
    .no_account = "look-up by hash: the account is what it finds out",
};

static const struct pg_column touch_params[] = {PG_ARG("account_id", PG_UUID),
                                                PG_ARG("id", PG_UUID), PG_ARG("now", PG_TIME)};
/* This is a HOT update: last_used_at is not indexed, and each page has room for second versions of
 * rows (fillfactor 80). Batches of several processes may arrive out of order; an error of a minute
 * does not matter. */
static const struct pg_stmt api_key_touch = {
    .name = "api_key_touch",
    .sql = "update sluice.api_key t set last_used_at = :now @update(sluice.api_key)",
    PG_PARAMS(touch_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
    .is_copied = true,
};

#define OF_CHANGE(name, type, ...) PG_OF(#name, type, struct api_key_change, key.name, __VA_ARGS__)

static const char *const made_texts[] = {"made", "maker", "gone", "rolled", "policy", "full"};
static const struct pg_words made_words = {made_texts, ARRAY_LEN(made_texts),
                                           API_KEY_REPLACED_OVER};
struct made {
    enum api_key_made made;
};

/* This is not replayed: the id is new, and if the answer is lost the caller must not return the
 * key. */
static const struct pg_stmt api_key_create = {
    .name = "api_key_create",
    .sql = "select :ord, c.* from @input lateral sluice.key_create(account_id => :account_id, "
           "id => :id, hash => :hash, prefix => :prefix, name => :name, scopes => :scopes, "
           "created_at => :created_at, expires_at => :expires_at, addresses => :addresses, "
           "forms => :forms, unattended_writes => :unattended_writes, policy => :policy, "
           "user_id => :user_id, external_id => :external_id, made_by => :made_by, line => :line, "
           "maker_account => "
           ":maker_account, maker_id => :maker_id, keys_max => :keys_max, replaces => :replaces, "
           "replaced_until => :replaced_until, " STORE_BY_ARGS ") c",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), OF_CHANGE(id, PG_UUID), OF_CHANGE(hash, PG_BYTES),
             OF_CHANGE(prefix, PG_TEXT, .has_no_null = true),
             OF_CHANGE(name, PG_TEXT, .has_no_null = true), PG_ARG("scopes", PG_TEXT),
             OF_CHANGE(created_at, PG_TIME), OF_CHANGE(expires_at, PG_TIME),
             OF_CHANGE(addresses, PG_TEXT), OF_CHANGE(forms, PG_TEXT),
             OF_CHANGE(unattended_writes, PG_TEXT), OF_CHANGE(policy, PG_TEXT),
             OF_CHANGE(user_id, PG_UUID, .has_null = true), OF_CHANGE(external_id, PG_TEXT),
             OF_CHANGE(made_by, PG_UUID, .has_null = true),
             OF_CHANGE(line, PG_UUID, .has_null = true),
             PG_OF("maker_account", PG_UUID, struct api_key_change, maker_account),
             PG_OF("maker_id", PG_UUID, struct api_key_change, maker_id, .has_null = true),
             PG_ARG("keys_max", PG_I64),
             PG_OF("replaces", PG_UUID, struct api_key_change, replaces, .has_null = true),
             PG_OF("replaced_until", PG_TIME, struct api_key_change, replaced_until),
             STORE_BY_PARAMS(api_key_change)),
    PG_GIVES(PG_WORD("made", struct made, made, &made_words)),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
    .is_copied = true,
};

/* The columns of a session are constants where keys are not looked up by their hashes. */
#define NO_SESSION "false, false, null::timestamptz, null::bigint"
static const struct pg_stmt api_key_get = {
    .name = "api_key_get",
    .sql = "select :ord, " KEY_COLUMNS ", " NO_SESSION " @read(sluice.api_key)",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID)),
    PG_COLUMNS(key_columns),
    .key_count = 2,
    .is_copied = true,
};

/* Walks the primary key backward. */
static const struct pg_stmt api_key_page = {
    .name = "api_key_page",
    .sql = "select :ord, t.*, " NO_SESSION " from @input lateral (select " KEY_COLUMNS
           " from sluice.api_key t where t.account_id = :account_id and t.id < :before "
           "order by t.id desc limit :count_max) t",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("before", PG_UUID), PG_ARG("count_max", PG_I64)),
    PG_COLUMNS(key_columns),
    .is_copied = true,
};

static const struct pg_stmt api_key_admins = {
    .name = "api_key_admins",
    .sql = "select :ord, c.n from @input lateral (select count(*) as n from (select 1 from "
           "sluice.api_key t where t.account_id = :account_id and t.user_id is null "
           "and t.revoked_at is null and (t.expires_at is null or t.expires_at > now()) "
           "and t.scopes ~ '(^| )admin( |$)' limit 2) few) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID)),
    PG_GIVES(PG_ARG("count", PG_I64)),
    .is_copied = true,
};

/* Returns the same columns as api_key_find, so that one function reads both. Walks the primary key,
 * whose ids are ordered by time. */
static const struct pg_stmt api_key_list = {
    .name = "api_key_list",
    .sql = "select :ord, t.*, " NO_SESSION
           " from @input lateral (select n.* from (select " KEY_COLUMNS
           " from sluice.api_key t where t.account_id = :account_id order by t.id desc limit 1000) "
           "n order by n.id) t",
    PG_TAKES(PG_ARG("account_id", PG_UUID)),
    PG_COLUMNS(key_columns),
    .key_count = 1,
    .is_copied = true,
};

static const struct pg_stmt api_key_revoke = {
    .name = "api_key_revoke",
    .sql = "select :ord, c.* from @input lateral sluice.key_revoke(account_id => :account_id, "
           "id => :id, revoked_at => :now, " STORE_BY_ARGS ") c",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), OF_CHANGE(id, PG_UUID), PG_NOW("now"),
             STORE_BY_PARAMS(api_key_change)),
    PG_GIVES(PG_ARG("is_there", PG_BOOL)),
    .key_count = 2,
    .access = PG_WRITE,
    .is_copied = true,
};

/* One at a time: the join of a set with the table could not be pinned to the index of a column that
 * does not belong to the key (pg/stmt.c). */
static const struct pg_stmt api_keys_remove = {
    .name = "api_keys_remove",
    .sql = "delete from sluice.api_key t @delete(sluice.api_key)",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("user_id", PG_UUID)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
    .goes_alone = true,
    .is_copied = true,
};

/* A session is a sealed cookie that the server cannot revoke; this row overrides it (api_key_find).
 * A replay finds the row and does nothing. */
static const struct pg_stmt session_end = {
    .name = "session_end",
    .sql = "insert into sluice.session_end (account_id, session_hash, expires_at) "
           "@row :account_id, :session_hash, :expires_at @end "
           "on conflict (account_id, session_hash) do nothing",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("session_hash", PG_BYTES),
             PG_ARG("expires_at", PG_TIME)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
    .is_copied = true,
};

/* greatest() ignores NULL and the value never decreases, so a replay or a race of two sign-outs
 * has the same result. */
static const struct pg_stmt sessions_end = {
    .name = "sessions_end",
    .sql = "update sluice.api_key t set sessions_ended_at = greatest(t.sessions_ended_at, :now) "
           "@update(sluice.api_key)",
    PG_PARAMS(touch_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
    .is_copied = true,
};

static const struct pg_stmt session_end_sweep =
    STORE_SWEEP("session_end_sweep", "session_end", "session_hash", "now()", );

static const struct pg_stmt api_key_name = {
    .name = "api_key_name",
    .sql = "select :ord, (select " STORE_KEY_LABEL " from (select t.name, t.prefix) k) "
           "@read(sluice.api_key)",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID)),
    PG_GIVES(PG_ARG("label", PG_TEXT)),
    .key_count = 2,
    .is_copied = true,
};

/* Goes from the key to those that it was rolled from or made by, each found by its primary key. All
 * of them are older, so this ends; after so many the key counts as the other one's. */
#define KIN_LIMIT 1000
static const struct pg_stmt api_key_is_kin = {
    .name = "api_key_is_kin",
    .sql = "select :ord, c.is_kin from @input lateral (with recursive up (id) as (select :id union "
           "select n.id from up, lateral (select k.line, k.made_by from sluice.api_key k where "
           "k.account_id = :account_id and k.id = up.id offset 0) k, lateral (values (k.line), "
           "(k.made_by)) n(id) where n.id is not null) select count(*) = " STORE_TEXT_OF(
               KIN_LIMIT) " or bool_or(u.id = coalesce((select k.line from sluice.api_key k where "
                          "k.account_id = "
                          ":account_id and k.id = :other_id), :other_id)) or not exists (select 1 "
                          "from "
                          "sluice.api_key k where k.account_id = :account_id and k.id = :id) as "
                          "is_kin from "
                          "(select up.id from up limit " STORE_TEXT_OF(KIN_LIMIT) ") u) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID), PG_ARG("other_id", PG_UUID)),
    PG_GIVES(PG_ARG("is_kin", PG_BOOL)),
    .is_copied = true,
};

const struct pg_stmt *const api_key_stmts[] = {
    &api_key_is_kin,  &api_key_name, &api_key_find, &api_key_touch,     &api_key_create,
    &api_key_get,     &api_key_page, &api_key_list, &api_key_admins,    &api_key_revoke,
    &api_keys_remove, &session_end,  &sessions_end, &session_end_sweep, NULL};

/* ---- rows ---- */

static void read_keys(struct api_key *keys, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        slice words = keys[i].scopes_words;
        /* The other column has a time at which the version before refuses the key. */
        if (!uuid_is_nil(keys[i].user_id) || uuid_is_nil(keys[i].account_id))
            keys[i].expires_at = keys[i].ends_at;
        if (uuid_is_nil(keys[i].account_id)) /* there is no such row of an account */
            keys[i].is_account_disabled = false;
        /* A scope that only a newer version knows grants nothing here. */
        while (words.len)
            keys[i].scopes |= scope_of(slice_split(&words, ' '));
    }
}

/* ---- asynchronous ---- */

STORE_CALL_ID(store_api_keys_remove, api_keys_remove, struct uuid, pg_uuid)

void store_api_key_find(STORE_ARGS, const uint8_t hash[API_KEY_HASH_LEN],
                        const uint8_t session_hash[SESSION_HASH_LEN])
{
    store_ask(
        pool, query, op, &api_key_find,
        PG_VALUES(pg_bytes(slice_of(hash, API_KEY_HASH_LEN)),
                  pg_bytes(session_hash ? slice_of(session_hash, SESSION_HASH_LEN) : SLICE_NONE)));
}

int store_api_key_find_result(const struct pg_query *query, struct api_key *key)
{
    int status = store_row_result(query, key, sizeof(*key));
    if (status == OK)
        read_keys(key, 1);
    return status;
}

STORE_CALL_ID(store_api_key_get, api_key_get, struct uuid, pg_uuid)

void store_api_key_page(STORE_ARGS, struct uuid account_id, struct uuid before, size_t count_max)
{
    ASSERT(count_max > 0);
    if (uuid_is_nil(before))
        memset(before.bytes, 0xff, sizeof(before.bytes));
    store_ask(pool, query, op, &api_key_page,
              PG_VALUES(pg_uuid(account_id), pg_uuid(before), pg_i64((int64_t)count_max)));
}

STORE_CALL_IDS(store_api_key_touch, api_key_touch, int64_t, pg_time)

void store_session_end(STORE_ARGS, struct uuid account_id,
                       const uint8_t session_hash[SESSION_HASH_LEN], int64_t expires_at)
{
    store_ask(pool, query, op, &session_end,
              PG_VALUES(pg_uuid(account_id), pg_bytes(slice_of(session_hash, SESSION_HASH_LEN)),
                        pg_time(expires_at)));
}

STORE_CALL_IDS(store_sessions_end, sessions_end, int64_t, pg_time)
STORE_CALL(store_session_end_sweep, session_end_sweep)

void store_api_key_create(STORE_ARGS, const struct api_key_change *change)
{
    char text[48];
    slice words = arena_dup(&op->arena, scopes_format(change->key.scopes, text));
    bool is_new = uuid_is_nil(change->replaces);
    store_ask_of(pool, query, op, &api_key_create, change,
                 PG_VALUES(pg_text(words), pg_i64(API_KEY_LIVE_MAX),
                           store_kind(is_new ? AUDIT_KEY_CREATED : AUDIT_KEY_ROLLED)));
}

int store_api_key_create_result(const struct pg_query *query, enum api_key_made *made)
{
    struct made row = {API_KEY_REPLACED_OVER};
    int status = store_row_result(query, &row, sizeof(row));
    *made = row.made;
    return status;
}

STORE_CALL_ONE(store_api_key_admins, api_key_admins, struct uuid, pg_uuid)
STORE_CALL_ONE(store_api_key_list, api_key_list, struct uuid, pg_uuid)

int store_api_key_list_result(const struct pg_query *query, struct api_key **keys, size_t *count)
{
    int status;
    *keys = store_list_result(query, sizeof(**keys), count, &status);
    if (status == OK)
        read_keys(*keys, *count);
    return status;
}

STORE_CALL_ID(store_api_key_name, api_key_name, struct uuid, pg_uuid)
STORE_CALL_IDS(store_api_key_is_kin, api_key_is_kin, struct uuid, pg_uuid)

int store_api_key_is_kin_result(const struct pg_query *query, bool *is_kin)
{
    int status = store_hit_result(query);
    *is_kin = status != OK || pg_get_bool(&query->rows, 0, 0);
    return status;
}

STORE_CALL_CHANGE(store_api_key_revoke, api_key_revoke, api_key_change, AUDIT_KEY_REVOKED)

/* ---- an operator's command ---- */

int store_api_key_get_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                           struct uuid id, struct api_key *key, struct err *err)
{
    size_t count;
    struct api_key *list = store_list_sync(sync, arena, &api_key_get,
                                           PG_VALUES(pg_uuid(account_id), pg_uuid(id)),
                                           sizeof(*list), &count, err);
    if (!list)
        return (int)err->code;
    if (count == 0)
        return err_set(err, ERR_NOTFOUND,
                       "the account has no key with this id; `sluice keys list` "
                       "shows them");
    read_keys(list, 1);
    *key = list[0];
    return OK;
}

int store_api_key_list_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                            struct api_key **keys, size_t *count, struct err *err)
{
    *keys = store_list_sync(sync, arena, &api_key_list, PG_VALUES(pg_uuid(account_id)),
                            sizeof(**keys), count, err);
    if (!*keys)
        return (int)err->code;
    read_keys(*keys, *count);
    return OK;
}
