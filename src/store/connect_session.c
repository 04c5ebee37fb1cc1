/*
 * Connect links. A link is inserted, taken and used, and is kept for a day after its end. Each of
 * these steps is one UPDATE by the primary key whose conditions are the fence: of any number of
 * browsers only one takes the link, and it makes one connection. Each is replayable because its
 * condition also holds for the state after its own first attempt.
 */
#include "store/connect_session.h"

#include "store/internal.h"

#define OF(name, type, ...) PG_OF(#name, type, struct connect_session, name, __VA_ARGS__)
#define OF_CHANGE(name, type, ...) \
    PG_OF(#name, type, struct connect_session_change, session.name, __VA_ARGS__)

/* token_hash is the hash of 256 random bits, so a conflict can only be with this statement's own
 * first attempt. */
static const struct pg_stmt connect_session_insert = {
    .name = "connect_session_insert",
    .sql = "with made as " STORE_EVENT_SQL(
        "'integration_id', :integration_id, 'connection_id', :connection_id::text, "
        "'email', :email, 'subject', :subject, 'link_id', :link_id, 'key_id', "
        ":key_id") "@from on conflict do nothing) "
                   "insert into sluice.connect_session (account_id, token_hash, "
                   "integration_id, key_hash, "
                   "is_reconnect, return_url, created_at, expires_at, link_id, "
                   "key_id, connection_id, "
                   "email, subject, parent_id) "
                   "@row :account_id, :token_hash, :integration_id, :key_hash, "
                   ":is_reconnect, :return_url, "
                   ":created_at, :expires_at, :link_id, :key_id, :connection_id, "
                   ":email, :subject, :parent_id @end "
                   "on conflict (account_id, token_hash) do nothing",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), OF_CHANGE(token_hash, PG_BYTES),
             OF_CHANGE(integration_id, PG_TEXT), OF_CHANGE(key_hash, PG_BYTES),
             OF_CHANGE(is_reconnect, PG_BOOL), OF_CHANGE(return_url, PG_TEXT),
             OF_CHANGE(created_at, PG_TIME), OF_CHANGE(expires_at, PG_TIME),
             PG_OF("link_id", PG_UUID, struct connect_session_change, session.id),
             OF_CHANGE(key_id, PG_UUID), OF_CHANGE(connection_id, PG_I64, .has_null = true),
             OF_CHANGE(email, PG_TEXT), OF_CHANGE(subject, PG_TEXT),
             OF_CHANGE(parent_id, PG_UUID, .has_null = true),
             STORE_EVENT_PARAMS(connect_session_change)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

#define OF_ITS_ACCOUNT(column)                    \
    "(select a." column " from sluice.account a " \
    "where a.account_id = coalesce(t.parent_id, t.account_id))"
#define SESSION_SELECT                                                                         \
    "t.integration_id, t.key_hash, t.is_reconnect, t.return_url, t.created_at, t.expires_at, " \
    "t.link_id, t.key_id, t.connection_id, t.email, t.subject, t.taken_at, t.used_at, "        \
    "t.made_id, " OF_ITS_ACCOUNT("name") ", " OF_ITS_ACCOUNT("mark") ", " OF_ITS_ACCOUNT(      \
        "colour") ", t.parent_id"
static const struct pg_column session_columns[] = {
    OF(integration_id, PG_TEXT),
    OF(key_hash, PG_BYTES),
    OF(is_reconnect, PG_BOOL),
    OF(return_url, PG_TEXT),
    OF(created_at, PG_TIME),
    OF(expires_at, PG_TIME),
    PG_OF("link_id", PG_UUID, struct connect_session, id),
    OF(key_id, PG_UUID),
    OF(connection_id, PG_I64),
    OF(email, PG_TEXT),
    OF(subject, PG_TEXT),
    OF(taken_at, PG_TIME),
    OF(used_at, PG_TIME),
    OF(made_id, PG_I64),
    OF(account_name, PG_TEXT),
    OF(account_mark, PG_TEXT),
    OF(account_colour, PG_TEXT),
    OF(parent_id, PG_UUID)};
/* Also returns the account's data for the page, looked up by its primary key. */
static const struct pg_stmt connect_session_get = {
    .name = "connect_session_get",
    .sql = "select :ord, " SESSION_SELECT " @read(sluice.connect_session)",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("token_hash", PG_BYTES)),
    PG_COLUMNS(session_columns),
    .key_count = 2,
};

/* The first browser wins by taken_by; the row lock makes a second browser wait, and its
 * condition then fails. If the same browser takes the link again, the times stay as they were:
 * neither a reload nor a replay prolongs the link. */
static const struct pg_stmt connect_session_take = {
    .name = "connect_session_take",
    .sql = "with changed as (update sluice.connect_session t "
           "set taken_at = coalesce(t.taken_at, :now), taken_by = :taken_by, "
           "expires_at = case when t.taken_at is null then :until else t.expires_at end "
           "@update(sluice.connect_session) and t.expires_at > :now "
           "and (t.taken_by is null or t.taken_by = :taken_by) "
           "returning :ord as ord, " SESSION_SELECT
           "), " STORE_AUDITED("'integration_id', c.integration_id, 'link_id', c.link_id, "
                               "'key_id', c.key_id",
                               " and c.taken_at = :now") "select c.* from changed c",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), OF_CHANGE(token_hash, PG_BYTES),
             PG_OF("taken_by", PG_BYTES, struct connect_session_change, taken_by), PG_NOW("now"),
             PG_OF("until", PG_TIME, struct connect_session_change, until),
             STORE_EVENT_PARAMS(connect_session_change)),
    PG_COLUMNS(session_columns),
    .key_count = 2,
    .access = PG_WRITE,
};

/* Runs before the connection is inserted: the row binds the link to one connection id, so that
 * neither a form sent twice nor a process that dies in between can make a second connection. */
static const struct pg_stmt connect_session_use = {
    .name = "connect_session_use",
    .sql = "update sluice.connect_session t set used_at = coalesce(t.used_at, :now), "
           "made_id = :connection_id @update(sluice.connect_session) "
           "and t.taken_at is not null and t.expires_at > :now "
           "and (t.made_id is null or t.made_id = :connection_id) returning :ord",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("token_hash", PG_BYTES),
             PG_ARG("connection_id", PG_I64), PG_NOW("now")),
    .key_count = 2,
    .access = PG_WRITE,
};

/* Applies only to the connection that the caller has bound, so it cannot undo the use by another
 * caller. */
static const struct pg_stmt connect_session_unuse = {
    .name = "connect_session_unuse",
    .sql = "update sluice.connect_session t set used_at = null, made_id = null "
           "@update(sluice.connect_session) and t.made_id = :connection_id",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("token_hash", PG_BYTES),
             PG_ARG("connection_id", PG_I64)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

/* Reads a range of the primary key with a filter: key_hash needs no index, because an account has
 * few links at a time (they are removed a day after their end) and this count limits the links of a
 * key. */
static const struct pg_stmt connect_session_count = {
    .name = "connect_session_count",
    .sql = "select :ord, t.n from @input lateral (select count(*) filter (where c.expires_at > "
           "now() and c.used_at is null) as n from sluice.connect_session c where c.account_id = "
           ":account_id "
           "and c.key_hash = :key_hash) t",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("key_hash", PG_BYTES)),
    PG_GIVES(PG_ARG("count", PG_I64)),
    .key_count = 2,
};

/* Reads a range of the primary key, as above. A link is marked as used before its connection is
 * stored: until then a new connection does not exist, and a connection to reconnect has its old
 * grant. updated_at and used_at are written by the same process, whose clock may be set back a
 * little in between. LIMIT keeps the range from being merged into a join with all links. */
static const struct pg_stmt connect_session_state = {
    .name = "connect_session_state",
    .sql = "select :ord, c.* from @input lateral (select t.integration_id, t.expires_at, "
           "t.taken_at, (select n.id from sluice.connection n where n.account_id = :account_id "
           "and n.id = t.made_id and n.updated_at >= t.used_at - interval '1 second') "
           "from sluice.connect_session t where t.account_id = :account_id and t.link_id = "
           ":link_id limit 1) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("link_id", PG_UUID)),
    PG_GIVES(OF(integration_id, PG_TEXT), OF(expires_at, PG_TIME), OF(taken_at, PG_TIME),
             OF(made_id, PG_I64)),
    .key_count = 2,
};

static const struct pg_stmt connect_session_sweep =
    STORE_SWEEP("connect_session_sweep", "connect_session", "token_hash",
                "now() - interval '1 day'", .is_spread = true);

const struct pg_stmt *const connect_session_stmts[] = {
    &connect_session_insert, &connect_session_get,   &connect_session_take,
    &connect_session_use,    &connect_session_unuse, &connect_session_count,
    &connect_session_state,  &connect_session_sweep, NULL};

STORE_CALL_CHANGE(store_connect_session_insert, connect_session_insert, connect_session_change,
                  AUDIT_LINK_CREATED)

static struct pg_value pg_hash(const uint8_t hash[CONNECT_SESSION_HASH_LEN])
{
    return pg_bytes(slice_of(hash, CONNECT_SESSION_HASH_LEN));
}

void store_connect_session_get(STORE_ARGS, struct uuid account_id,
                               const uint8_t token_hash[CONNECT_SESSION_HASH_LEN])
{
    store_ask(pool, query, op, &connect_session_get,
              PG_VALUES(pg_uuid(account_id), pg_hash(token_hash)));
}

STORE_CALL_CHANGE(store_connect_session_take, connect_session_take, connect_session_change,
                  AUDIT_LINK_USED)

void store_connect_session_count(STORE_ARGS, struct uuid account_id,
                                 const uint8_t key_hash[API_KEY_HASH_LEN])
{
    store_ask(pool, query, op, &connect_session_count,
              PG_VALUES(pg_uuid(account_id), pg_bytes(slice_of(key_hash, API_KEY_HASH_LEN))));
}

STORE_CALL_ID(store_connect_session_state, connect_session_state, struct uuid, pg_uuid)

void store_connect_session_use(STORE_ARGS, struct uuid account_id,
                               const uint8_t token_hash[CONNECT_SESSION_HASH_LEN],
                               int64_t connection_id)
{
    store_ask(pool, query, op, &connect_session_use,
              PG_VALUES(pg_uuid(account_id), pg_hash(token_hash), pg_i64(connection_id)));
}

void store_connect_session_unuse(STORE_ARGS, struct uuid account_id,
                                 const uint8_t token_hash[CONNECT_SESSION_HASH_LEN],
                                 int64_t connection_id)
{
    store_ask(pool, query, op, &connect_session_unuse,
              PG_VALUES(pg_uuid(account_id), pg_hash(token_hash), pg_i64(connection_id)));
}

STORE_CALL(store_connect_session_sweep, connect_session_sweep)
