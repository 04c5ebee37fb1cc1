/*
 * Connections: the statements of the running server. Operator commands are in connection_admin.c.
 *
 * rev fences every change of credentials or status: a statement carries the rev that its caller
 * read, and finds no row when another writer was first. op_token is of the last change, so that a
 * statement that is sent again after a lost answer recognizes its own work. Columns that change
 * often (times, refreshing_*, identity) are in no index, which keeps their updates HOT.
 */
#include "store/connection.h"

#include "base/clock.h"
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

slice connection_identity_text(const struct connection_identity *identity)
{
    if (identity->email.ptr)
        return identity->email;
    return identity->label.ptr ? identity->label : identity->subject;
}

/* ---- statements ---- */

/* In the order of CONNECTION_SELECT and of connection_read. */
const struct pg_column connection_columns[CONNECTION_COLUMNS] = {
    {"account_id", PG_UUID},       {"id", PG_I64},
    {"integration_id", PG_TEXT},   {"label", PG_TEXT},
    {"is_default", PG_BOOL},       {"auth_kind", PG_TEXT},
    {"sealed", PG_BYTES},          {"key_id", PG_TEXT},
    {"scopes", PG_TEXT},           {"params", PG_JSON},
    {"status", PG_TEXT},           {"error", PG_TEXT},
    {"expires_at", PG_TIME},       {"rev", PG_I64},
    {"created_at", PG_TIME},       {"updated_at", PG_TIME},
    {"last_used_at", PG_TIME},     {"failed_at", PG_TIME},
    {"failure", PG_TEXT},          {"identity_email", PG_TEXT},
    {"identity_subject", PG_TEXT}, {"identity_label", PG_TEXT},
};

static const struct pg_column get_params[] = {{"account_id", PG_UUID}, {"id", PG_I64}};
static const struct pg_stmt connection_get = {
    .name = "connection_get",
    .sql = "select :ord, " CONNECTION_SELECT " @read(sluice.connection)",
    PG_PARAMS(get_params),
    PG_COLUMNS(connection_columns),
    .key_count = 2,
};

static const struct pg_column insert_params[] = {
    {"account_id", PG_UUID},
    {"id", PG_I64},
    {"integration_id", PG_TEXT},
    {"label", PG_TEXT},
    {"is_default", PG_BOOL},
    {"auth_kind", PG_TEXT},
    {"sealed", PG_BYTES},
    {"key_id", PG_TEXT},
    {"scopes", PG_TEXT},
    {"params", PG_JSON},
    {"status", PG_TEXT},
    {"error", PG_TEXT},
    {"expires_at", PG_TIME},
    {"op_token", PG_UUID},
    {"now", PG_TIME},
    {"identity_email", PG_TEXT},
    {"identity_subject", PG_TEXT},
    {"identity_label", PG_TEXT},
    {"count_max", PG_I64},
};
static const struct pg_column made_columns[] = {
    {"account_id", PG_UUID}, {"id", PG_I64}, {"op_token", PG_UUID}};
/* Goes alone, since the inserts of a set would not count one another. The count stops at count_max
 * rows of the primary key's index, and leaves out a row of this id: a replay at the limit must find
 * its own row. "do update" changes nothing; it is there because only an updated row is returned,
 * and with it the token that says whose row it is. */
const struct pg_stmt connection_insert = {
    .name = "connection_insert",
    .sql = "insert into sluice.connection as t (account_id, id, integration_id, label, is_default, "
           "auth_kind, sealed, key_id, scopes, params, status, error, expires_at, rev, op_token, "
           "created_at, updated_at, identity_email, identity_subject, identity_label) "
           "select :account_id, :id, :integration_id, :label, :is_default, :auth_kind, :sealed, "
           ":key_id, :scopes, :params, :status, :error, :expires_at, 1, :op_token, :now, :now, "
           ":identity_email, :identity_subject, :identity_label @from "
           "where :count_max = 0 or (select count(*) from (select from sluice.connection o "
           "where o.account_id = :account_id and o.id <> :id limit :count_max) few) < :count_max "
           "on conflict (account_id, id) do update set label = t.label "
           "returning t.account_id, t.id, t.op_token",
    PG_PARAMS(insert_params),
    PG_COLUMNS(made_columns),
    .key_count = 2,
    .match = PG_MATCH_KEY,
    .is_write = true,
    .is_replayable = true,
    .goes_alone = true,
};

/* The fence. A replay finds its own token one revision on, and returns the same again. All
 * statements with it set rev to :rev + 1, not to t.rev + 1, so that a replay does not count
 * twice. */
#define CAS \
    "and (t.rev = :rev or (t.rev = :rev + 1 and t.op_token = :op_token)) returning :ord, t.rev"

static const struct pg_column rev_columns[] = {{"rev", PG_I64}};
static const struct pg_column status_params[] = {
    {"account_id", PG_UUID}, {"id", PG_I64},     {"rev", PG_I64}, {"op_token", PG_UUID},
    {"status", PG_TEXT},     {"error", PG_TEXT}, {"now", PG_TIME}};
/* Any change of status ends a claim on the token: its holder works on a revision that is gone. */
static const struct pg_stmt connection_status_set = {
    .name = "connection_status_set",
    .sql = "update sluice.connection t set status = :status, error = :error, rev = :rev + 1, "
           "op_token = :op_token, refreshing_by = null, refreshing_until = null, "
           "updated_at = :now @update(sluice.connection) " CAS,
    PG_PARAMS(status_params),
    PG_COLUMNS(rev_columns),
    .key_count = 2,
    .is_write = true,
    .is_replayable = true,
};

static const struct pg_column credentials_params[] = {{"account_id", PG_UUID},
                                                      {"id", PG_I64},
                                                      {"rev", PG_I64},
                                                      {"op_token", PG_UUID},
                                                      {"sealed", PG_BYTES},
                                                      {"key_id", PG_TEXT},
                                                      {"scopes", PG_TEXT},
                                                      {"expires_at", PG_TIME},
                                                      {"now", PG_TIME},
                                                      {"is_grant_new", PG_BOOL},
                                                      {"identity_email", PG_TEXT},
                                                      {"identity_subject", PG_TEXT},
                                                      {"identity_label", PG_TEXT},
                                                      {"auth_kind", PG_TEXT}};
/* A renewal leaves the identity as it is; a new grant sets it, also to unknown, because it may be
 * of another user. */
#define NEW_OR_KEPT(column) \
    column " = case when :is_grant_new then :" column " else t." column " end, "
/* scopes: another kind of credential brings its own, even none; of the same kind a NULL means that
 * the provider did not repeat them (RFC 6749 section 5.1). Where auth_kind is NULL the comparison
 * is, too, and `case` takes its other branch. */
static const struct pg_stmt connection_credentials_set = {
    .name = "connection_credentials_set",
    .sql = "update sluice.connection t set sealed = :sealed, key_id = :key_id, "
           "scopes = case when :auth_kind <> t.auth_kind then :scopes else "
           "coalesce(:scopes, t.scopes) end, "
           "auth_kind = coalesce(:auth_kind, t.auth_kind), expires_at = :expires_at, status = "
           "'live', " NEW_OR_KEPT("identity_email") NEW_OR_KEPT("identity_subject")
               NEW_OR_KEPT("identity_label") "error = null, rev = :rev + 1, op_token = :op_token, "
                                             "refreshing_by = null, "
                                             "refreshing_until = null, updated_at = :now "
                                             "@update(sluice.connection) " CAS,
    PG_PARAMS(credentials_params),
    PG_COLUMNS(rev_columns),
    .key_count = 2,
    .is_write = true,
    .is_replayable = true,
};

static const struct pg_column identity_params[] = {{"account_id", PG_UUID},
                                                   {"id", PG_I64},
                                                   {"rev", PG_I64},
                                                   {"identity_email", PG_TEXT},
                                                   {"identity_subject", PG_TEXT},
                                                   {"identity_label", PG_TEXT}};
/* Fenced by rev, which it leaves alone: an identity is found out later than its credential, and
 * must not be written next to another one. A replay writes the same. */
const struct pg_stmt connection_identity_set = {
    .name = "connection_identity_set",
    .sql = "update sluice.connection t set identity_email = :identity_email, "
           "identity_subject = :identity_subject, identity_label = :identity_label "
           "@update(sluice.connection) and t.rev = :rev",
    PG_PARAMS(identity_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};

const struct pg_stmt *const connection_stmts[] = {&connection_choice,
                                                  &connection_page,
                                                  &connection_page_of_app,
                                                  &connection_apps,
                                                  &connection_count,
                                                  &connection_get,
                                                  &connection_insert,
                                                  &connection_status_set,
                                                  &connection_credentials_set,
                                                  &connection_lost,
                                                  &connection_claim,
                                                  &connection_release,
                                                  &connection_clear_default,
                                                  &connection_set_default,
                                                  &connection_default_if_none,
                                                  &connection_delete,
                                                  &connection_make_default,
                                                  &connection_label_set,
                                                  &connection_stale,
                                                  &connection_reseal,
                                                  &connection_use,
                                                  &connection_identity_set,
                                                  NULL};

/* ---- rows ---- */

static enum connection_status status_of(slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(status_names); i++)
        if (slice_eq_cstr(name, status_names[i]))
            return (enum connection_status)i;
    return CONNECTION_REVOKED; /* one that a newer version knows: not usable here */
}

void connection_read(const struct pg_rows *rows, size_t row, struct connection *connection)
{
    *connection = (struct connection){
        .account_id = pg_get_uuid(rows, row, 0),
        .id = pg_get_i64(rows, row, 1),
        .integration_id = pg_get_bytes(rows, row, 2),
        .label = pg_get_bytes(rows, row, 3),
        .is_default = pg_get_bool(rows, row, 4),
        .auth_kind = pg_get_bytes(rows, row, 5),
        .sealed = pg_get_bytes(rows, row, 6),
        .key_id = pg_get_bytes(rows, row, 7),
        .scopes = pg_get_bytes(rows, row, 8),
        .params = pg_get_bytes(rows, row, 9),
        .status = status_of(pg_get_bytes(rows, row, 10)),
        .error = pg_get_bytes(rows, row, 11),
        .expires_at = pg_get_time(rows, row, 12),
        .rev = pg_get_i64(rows, row, 13),
        .created_at = pg_get_time(rows, row, 14),
        .updated_at = pg_get_time(rows, row, 15),
        .last_used_at = pg_get_time(rows, row, 16),
        .failed_at = pg_get_time(rows, row, 17),
        .failure = pg_get_bytes(rows, row, 18),
        .identity = {.email = pg_get_bytes(rows, row, 19),
                     .subject = pg_get_bytes(rows, row, 20),
                     .label = pg_get_bytes(rows, row, 21)},
    };
}

int connection_read_list(const struct pg_rows *rows, struct arena *arena, struct connection **list,
                         size_t *count)
{
    *list = ARENA_ARRAY(arena, struct connection, rows->count + 1);
    if (!*list)
        return ERR_NOMEM;
    for (size_t i = 0; i < rows->count; i++)
        connection_read(rows, i, &(*list)[i]);
    *count = rows->count;
    return OK;
}

/* ---- reading ---- */

void store_connection_get(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          struct uuid account_id, int64_t id)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_i64(id);
    store_submit(pool, query, op, &connection_get);
}

int store_connection_get_result(const struct pg_query *query, struct connection *connection)
{
    if (query->status != OK)
        return query->status;
    if (query->rows.count == 0)
        return ERR_NOTFOUND;
    connection_read(&query->rows, 0, connection);
    return OK;
}

/* ---- writing ---- */

static void put_identity(const struct connection_identity *identity, struct pg_value *params)
{
    params[0] = pg_text(identity->email);
    params[1] = pg_text(identity->subject);
    params[2] = pg_text(identity->label);
}

void connection_insert_params(const struct connection *connection, size_t count_max,
                              struct pg_value *params)
{
    slice none = SLICE("");
    params[0] = pg_uuid(connection->account_id);
    params[1] = pg_i64(connection->id);
    params[2] = pg_text(connection->integration_id);
    params[3] = pg_text_or_empty(connection->label);
    params[4] = pg_bool(connection->is_default);
    params[5] = pg_text(connection->auth_kind);
    params[6] = pg_bytes(connection->sealed.ptr ? connection->sealed : none);
    params[7] = pg_text_or_empty(connection->key_id);
    params[8] = pg_text(connection->scopes);
    params[9] = pg_json(connection->params.ptr ? connection->params : SLICE("{}"));
    params[10] = pg_text(slice_cstr(connection_status_name(connection->status)));
    params[11] = pg_text(connection->error);
    params[12] = pg_time(connection->expires_at);
    /* The token of this insert; store_connection_insert_result compares with it. */
    params[13] = pg_uuid(uuid_v7());
    params[14] = pg_time(clock_wall_us());
    put_identity(&connection->identity, &params[15]);
    params[18] = pg_i64((int64_t)count_max);
}

void store_connection_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                             const struct connection *connection, size_t count_max)
{
    connection_insert_params(connection, count_max, query->params);
    store_submit(pool, query, op, &connection_insert);
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

void store_connection_status_set(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                 struct uuid account_id, int64_t id, int64_t rev,
                                 enum connection_status status, slice error)
{
    /* A CHECK of the table; the live ones are found by "error is null" (index connection_live). */
    ASSERT((status == CONNECTION_LIVE) == !error.ptr);
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_i64(id);
    query->params[2] = pg_i64(rev);
    query->params[3] = pg_uuid(uuid_v7());
    query->params[4] = pg_text(slice_cstr(connection_status_name(status)));
    query->params[5] = pg_text(error.ptr ? slice_first_utf8(error, CONNECTION_ERROR_MAX) : error);
    query->params[6] = pg_time(clock_wall_us());
    store_submit(pool, query, op, &connection_status_set);
}

void store_connection_credentials_set(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                      struct uuid account_id, int64_t id, int64_t rev,
                                      const struct connection_credentials *credentials)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_i64(id);
    query->params[2] = pg_i64(rev);
    query->params[3] = pg_uuid(uuid_v7());
    query->params[4] = pg_bytes(credentials->sealed);
    query->params[5] = pg_text(credentials->key_id);
    query->params[6] = pg_text(credentials->scopes);
    query->params[7] = pg_time(credentials->expires_at);
    query->params[8] = pg_time(clock_wall_us());
    query->params[9] = pg_bool(credentials->is_grant_new);
    put_identity(&credentials->identity, &query->params[10]);
    query->params[13] = pg_text(credentials->auth_kind);
    store_submit(pool, query, op, &connection_credentials_set);
}

void store_connection_identity_set(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                   struct uuid account_id, int64_t id, int64_t rev,
                                   const struct connection_identity *identity)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_i64(id);
    query->params[2] = pg_i64(rev);
    put_identity(identity, &query->params[3]);
    store_submit(pool, query, op, &connection_identity_set);
}

int store_connection_set_result(const struct pg_query *query, int64_t *rev)
{
    if (query->status != OK)
        return query->status;
    if (query->rows.count == 0)
        return ERR_NOTFOUND;
    *rev = pg_get_i64(&query->rows, 0, 0);
    return OK;
}
