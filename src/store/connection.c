/*
 * Connections: the statements of the running server. Operator commands are in connection_admin.c.
 *
 * rev fences every change of credentials or status: a statement carries the rev that its caller
 * read, and finds no row if another writer was first. op_token belongs to the last change, so that
 * a statement that is sent again after a lost answer recognizes its own work. Columns that change
 * often (times, refreshing_*, identity) are not indexed, which keeps their updates HOT.
 */
#include "store/connection.h"

#include "store/connection_internal.h"
#include "store/internal.h"

static const char *const status_names[] = {
    [CONNECTION_LIVE] = "live",
    [CONNECTION_REAUTH_REQUIRED] = "reauth_required",
    [CONNECTION_REVOKED] = "revoked",
};

const char *connection_status_name(enum connection_status status)
{
    ASSERT(status < ARRAY_LEN(status_names));
    return status_names[status];
}

bool connection_identity_is_known(const struct connection_identity *identity)
{
    return identity->email.ptr || identity->subject.ptr;
}

bool connection_subject_admits(slice wanted, slice came)
{
    bool is_within = slice_starts_with(came, wanted) &&
                     (came.len == wanted.len || came.ptr[wanted.len] == '/');
    return wanted.len > 0 ? is_within : came.len == 0;
}

slice connection_identity_text(const struct connection_identity *identity)
{
    if (identity->email.ptr)
        return identity->email;
    return identity->label.ptr ? identity->label : identity->subject;
}

/* ---- statements ---- */

static const struct pg_words statuses = {status_names, ARRAY_LEN(status_names), CONNECTION_REVOKED};

#define OF(name, type, ...)     PG_OF(#name, type, struct connection, name, __VA_ARGS__)
#define OF_NEW(name, type, ...) PG_OF(#name, type, struct connection_credentials, name, __VA_ARGS__)

/* The columns are in the order of CONNECTION_SELECT. */
const struct pg_column connection_columns[CONNECTION_COLUMNS] = {
    OF(account_id, PG_UUID),
    OF(id, PG_I64),
    OF(integration_id, PG_TEXT),
    OF(label, PG_TEXT),
    OF(is_default, PG_BOOL),
    OF(auth_kind, PG_TEXT),
    OF(sealed, PG_BYTES),
    OF(key_id, PG_TEXT),
    OF(scopes, PG_TEXT),
    OF(params, PG_JSON),
    PG_WORD("status", struct connection, status, &statuses),
    OF(error, PG_TEXT),
    OF(expires_at, PG_TIME),
    OF(rev, PG_I64),
    OF(created_at, PG_TIME),
    OF(updated_at, PG_TIME),
    OF(last_used_at, PG_TIME),
    OF(failed_at, PG_TIME),
    OF(failure, PG_TEXT),
    PG_OF("identity_email", PG_TEXT, struct connection, identity.email),
    PG_OF("identity_subject", PG_TEXT, struct connection, identity.subject),
    PG_OF("identity_label", PG_TEXT, struct connection, identity.label),
    OF(parent_id, PG_UUID),
    OF(is_shared, PG_BOOL)};

static const struct pg_stmt connection_get = {
    .name = "connection_get",
    .sql = "select :ord, " CONNECTION_SELECT " @read(sluice.connection)",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64)),
    PG_COLUMNS(connection_columns),
    .key_count = 2,
};

/* This statement goes alone, since the inserts of a set would not count one another. The count
 * stops at count_max rows of the primary key's index, and leaves out a row of this id: a replay at
 * the limit must find its own row. "do update" changes nothing; it makes the statement return the
 * row, whose token shows which request made it. Only that request's statement has an event. */
#define INSERT_OUTBOX                                                                           \
    CONNECTION_OUTBOX("'connection.connected'",                                                 \
                      "(select n.*, :event_id as event_id from @input made n where n.op_token " \
                      "= :op_token) c",                                                         \
                      " on conflict do nothing")
#define INSERT_MAY                                                                           \
    "where (:count_max = 0 or (select count(*) from (select 1 from sluice.connection o "     \
    "where o.account_id = :account_id and o.id <> :id limit :count_max) few) < :count_max) " \
    "and " STORE_ACCOUNT_EXISTS("coalesce(:parent_id, :account_id)")
static const struct pg_stmt connection_insert = {
    .name = "connection_insert",
    .sql = "with made as (insert into sluice.connection as t (account_id, id, integration_id, "
           "label, is_default, auth_kind, sealed, key_id, scopes, params, status, error, "
           "expires_at, rev, op_token, created_at, updated_at, identity_email, identity_subject, "
           "identity_label, parent_id) "
           "select :account_id, :id, :integration_id, :label, :is_default, :auth_kind, :sealed, "
           ":key_id, :scopes, :params, :status, :error, :expires_at, 1, :op_token, :now, :now, "
           ":identity_email, :identity_subject, :identity_label, :parent_id @from " INSERT_MAY
           " on conflict (account_id, id) do update set label = t.label "
           "returning " CONNECTION_EVENT_ROW ", t.status, t.rev, t.op_token), " INSERT_OUTBOX
           "select c.account_id, c.id, c.op_token, exists (select 1 from outbox) as has_event "
           "from made c",
    PG_TAKES(OF(account_id, PG_UUID), OF(id, PG_I64), OF(integration_id, PG_TEXT),
             OF(label, PG_TEXT, .has_no_null = true), OF(is_default, PG_BOOL),
             OF(auth_kind, PG_TEXT), OF(sealed, PG_BYTES, .has_no_null = true),
             OF(key_id, PG_TEXT, .has_no_null = true), OF(scopes, PG_TEXT),
             PG_ARG("params", PG_JSON), PG_WORD("status", struct connection, status, &statuses),
             OF(error, PG_TEXT), OF(expires_at, PG_TIME), PG_NEW_ID("op_token"), PG_NOW("now"),
             PG_OF("identity_email", PG_TEXT, struct connection, identity.email),
             PG_OF("identity_subject", PG_TEXT, struct connection, identity.subject),
             PG_OF("identity_label", PG_TEXT, struct connection, identity.label),
             OF(parent_id, PG_UUID, .has_null = true), PG_ARG("count_max", PG_I64),
             PG_NEW_ID("event_id")),
    PG_GIVES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64), PG_ARG("op_token", PG_UUID),
             STORE_HAS_EVENT_COLUMN),
    .key_count = 2,
    .match = PG_MATCH_KEY,
    .access = PG_WRITE,
    .goes_alone = true,
};

/* This is the fence. A replay finds its own token one revision later, and returns the same result
 * again. All statements with it set rev to :rev + 1, not to t.rev + 1, so that a replay does not
 * count twice. */
#define CAS "and (t.rev = :rev or (t.rev = :rev + 1 and t.op_token = :op_token)) "

/* A renewal leaves the identity unchanged. A new grant replaces it even if the new identity is
 * unknown, because the grant may belong to another user. */
#define NEW_OR_KEPT(column) \
    column " = case when :is_grant_new then :" column " else t." column " end, "
#define NEW_IDENTITY \
    NEW_OR_KEPT("identity_email") NEW_OR_KEPT("identity_subject") NEW_OR_KEPT("identity_label")
/* The status that a new grant replaces; NULL for a renewal, which makes no event, and in a resend
 * of a statement that was executed. */
#define WAS                                                                    \
    "case when :is_grant_new then (select o.status from sluice.connection o "  \
    "where o.account_id = t.account_id and o.id = t.id and o.rev = :rev) end " \
    "as was"
#define GRANT_OUTBOX                                                               \
    CONNECTION_OUTBOX("case when c.was = 'live' then 'connection.connected' else " \
                      "'connection.recovered' end",                                \
                      "changed c where c.was is not null", " on conflict do nothing")
/* scopes: those of a new grant replace the old ones, even if they are unknown; after a renewal NULL
 * means that the provider did not repeat them (RFC 6749 section 5.1). */
static const struct pg_stmt connection_credentials_set = {
    .name = "connection_credentials_set",
    .sql = "with changed as (update sluice.connection t set sealed = :sealed, key_id = :key_id, "
           "scopes = case when :is_grant_new then :scopes else "
           "coalesce(:scopes, t.scopes) end, "
           "auth_kind = coalesce(:auth_kind, t.auth_kind), expires_at = :expires_at, status = "
           "'live', " NEW_IDENTITY "error = null, rev = :rev + 1, op_token = :op_token, "
           "refreshing_by = null, refreshing_until = null, updated_at = :now "
           "@update(sluice.connection) " CAS "returning :ord as ord, " CONNECTION_EVENT_ROW
           ", t.status, t.rev, :event_id as event_id, " WAS "), " GRANT_OUTBOX
           "select c.ord, c.rev, " CONNECTION_HAS_EVENT " from changed c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64), PG_ARG("rev", PG_I64),
             PG_NEW_ID("op_token"), OF_NEW(sealed, PG_BYTES), OF_NEW(key_id, PG_TEXT),
             OF_NEW(scopes, PG_TEXT), OF_NEW(expires_at, PG_TIME), PG_NOW("now"),
             OF_NEW(is_grant_new, PG_BOOL),
             PG_OF("identity_email", PG_TEXT, struct connection_credentials, identity.email),
             PG_OF("identity_subject", PG_TEXT, struct connection_credentials, identity.subject),
             PG_OF("identity_label", PG_TEXT, struct connection_credentials, identity.label),
             OF_NEW(auth_kind, PG_TEXT), PG_NEW_ID("event_id")),
    PG_GIVES(PG_ARG("rev", PG_I64), STORE_HAS_EVENT_COLUMN),
    .key_count = 2,
    .access = PG_WRITE,
};

/* The statement is fenced by rev, which it does not change: an identity becomes known after its
 * credential, and must not be written next to another credential. A replay writes the same
 * values. */
static const struct pg_stmt connection_identity_set = {
    .name = "connection_identity_set",
    .sql = "update sluice.connection t set identity_email = :identity_email, "
           "identity_subject = :identity_subject, identity_label = :identity_label "
           "@update(sluice.connection) and t.rev = :rev",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64), PG_ARG("rev", PG_I64),
             PG_OF("identity_email", PG_TEXT, struct connection_identity, email),
             PG_OF("identity_subject", PG_TEXT, struct connection_identity, subject),
             PG_OF("identity_label", PG_TEXT, struct connection_identity, label)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

const struct pg_stmt *const connection_stmts[] = {&connection_credentials_set, &connection_get,
                                                  &connection_identity_set, &connection_insert,
                                                  NULL};

/* ---- reading ---- */

STORE_CALL_ID(store_connection_get, connection_get, int64_t, pg_i64)

/* ---- writing ---- */

void store_connection_insert(STORE_ARGS, const struct connection *connection, size_t count_max)
{
    store_ask_of(pool, query, op, &connection_insert, connection,
                 PG_VALUES(pg_json(connection->params.ptr ? connection->params : SLICE("{}")),
                           pg_i64((int64_t)count_max)));
}

int store_connection_insert_result(const struct pg_query *query, bool *is_own)
{
    if (query->status != OK)
        return query->status;
    if (query->rows.count == 0)
        return ERR_LIMIT;
    *is_own = uuid_eq(pg_get_uuid(&query->rows, 0, 2), query->params[13].as.uuid);
    return OK;
}

void store_connection_credentials_set(STORE_ARGS, struct uuid account_id, int64_t id, int64_t rev,
                                      const struct connection_credentials *credentials)
{
    store_ask_of(pool, query, op, &connection_credentials_set, credentials,
                 PG_VALUES(pg_uuid(account_id), pg_i64(id), pg_i64(rev)));
}

void store_connection_identity_set(STORE_ARGS, struct uuid account_id, int64_t id, int64_t rev,
                                   const struct connection_identity *identity)
{
    store_ask_of(pool, query, op, &connection_identity_set, identity,
                 PG_VALUES(pg_uuid(account_id), pg_i64(id), pg_i64(rev)));
}
