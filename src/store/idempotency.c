/*
 * Claims: rows of sluice.idempotency_key. The table is small, since only runs under way and keys
 * that may still be replayed are in it, and it stays in memory. Statements go by the primary key
 * (account_id, key); the two scans go by idempotency_key_owner.
 */
#include "store/idempotency.h"

#include "base/clock.h"
#include "store/internal.h"

/* Whether the owner lives: a scalar subquery, which the planner can only run by node's key, and
 * which is allowed in RETURNING. NULL where that node's row is gone: dead, too. */
#define CLAIM_ROW                                                                      \
    "t.account_id, t.key, t.execution_id, t.fingerprint, t.state = 'bound', t.owner, " \
    "(select n.lease_until > now() from sluice.node n where n.node_id = t.owner), "

static const struct pg_column claim_columns[] = {
    {"account_id", PG_UUID},   {"key", PG_TEXT},          {"execution_id", PG_UUID},
    {"fingerprint", PG_BYTES}, {"is_bound", PG_BOOL},     {"owner", PG_UUID},
    {"is_live", PG_BOOL},      {"is_succeeded", PG_BOOL}, {"error_code", PG_TEXT},
    {"summary", PG_TEXT},      {"summary_bytes", PG_I64},
};

static const struct pg_column find_params[] = {
    {"account_id", PG_UUID}, {"key", PG_TEXT}, {"now", PG_TIME}};
#define BOUND_SUMMARY STORE_SUMMARY_INLINE("x")
/* An expired key counts as free, so it is no hit; housekeeping removes it later. The execution
 * comes along where the key is bound, so that a repeated request costs one query. The condition on
 * the state stands inside the lateral subquery: for a claim in flight no partition is searched. */
static const struct pg_stmt claim_find = {
    .name = "claim_find",
    .sql = "select :ord, " CLAIM_ROW "e.status = 'succeeded', e.error_code, e.summary, e.bytes "
           "from @input lateral (select * from sluice.idempotency_key k "
           "where k.account_id = :account_id and k.key = :key "
           "and (k.state <> 'bound' or k.expires_at > :now) offset 0) t "
           "left join lateral (select x.status, x.error_code, " BOUND_SUMMARY " as summary, "
           "octet_length(x.summary)::bigint as bytes from sluice.execution x "
           "where t.state = 'bound' and x.account_id = t.account_id and x.id = t.execution_id "
           "offset 0) e on true",
    PG_PARAMS(find_params),
    PG_COLUMNS(claim_columns),
    .key_count = 2,
};

static const struct pg_column insert_params[] = {
    {"account_id", PG_UUID},   {"key", PG_TEXT},          {"execution_id", PG_UUID},
    {"fingerprint", PG_BYTES}, {"owner", PG_UUID},        {"integration_id", PG_TEXT},
    {"action_id", PG_TEXT},    {"connection_id", PG_I64}, {"is_write", PG_BOOL},
    {"started_at", PG_TIME},   {"expires_at", PG_TIME},
};

/* DO UPDATE even where the key is taken, since only an updated row is returned: so one statement
 * finds out which run holds the key, also when that was committed after its snapshot. The row is
 * rewritten as it is, but for a bound one past its expiry, which changes hands. Racers queue on the
 * row; one wins. execution_id is the operation token: a run that finds its own id there has won, in
 * a replay too. What a bound key is bound to is not read here: that is rare (claim_find came
 * before), and merely opening a plan over all partitions would cost each claim more than its
 * insert. */
/* clang-format off */
#define TAKE(column)                                                                               \
    column " = case when t.state = 'bound' and t.expires_at <= excluded.started_at "               \
    "then excluded." column " else t." column " end"
#define TAKE_ALL                                                                                   \
    TAKE("execution_id") ", "                                                                      \
    TAKE("fingerprint") ", "                                                                       \
    TAKE("state") ", "                                                                             \
    TAKE("owner") ", "                                                                             \
    TAKE("integration_id") ", "                                                                    \
    TAKE("action_id") ", "                                                                         \
    TAKE("connection_id") ", "                                                                     \
    TAKE("is_write") ", "                                                                          \
    TAKE("started_at") ", "                                                                        \
    TAKE("expires_at")
/* clang-format on */

#define CLAIM_INSERT                                                                        \
    "insert into sluice.idempotency_key as t (account_id, key, execution_id, fingerprint, " \
    "state, owner, integration_id, action_id, connection_id, is_write, started_at, "        \
    "expires_at) "                                                                          \
    "@row :account_id, :key, :execution_id, :fingerprint, 'in_flight', :owner, "            \
    ":integration_id, :action_id, :connection_id, :is_write, :started_at, :expires_at @end"
static const struct pg_stmt claim_insert = {
    .name = "claim_insert",
    .sql = CLAIM_INSERT " on conflict (account_id, key) do update set " TAKE_ALL
                        " returning " CLAIM_ROW
                        "null::boolean, null::text, null::text, null::bigint",
    PG_PARAMS(insert_params),
    PG_COLUMNS(claim_columns),
    .key_count = 2,
    .match = PG_MATCH_KEY,
    .is_write = true,
    .is_replayable = true,
};

/* A run without a client's key claims one made of its own id: no other run can have taken it, so
 * the first sending does not check. */
static const struct pg_stmt claim_own_again = {
    .name = "claim_own_again",
    .sql = CLAIM_INSERT " on conflict do nothing",
    PG_PARAMS(insert_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};
static const struct pg_stmt claim_own = {
    .name = "claim_own",
    .sql = CLAIM_INSERT,
    PG_PARAMS(insert_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
    .again = &claim_own_again,
};

static const struct pg_column release_params[] = {
    {"account_id", PG_UUID}, {"key", PG_TEXT}, {"execution_id", PG_UUID}, {"owner", PG_UUID}};
/* Fenced by run and owner: a claim that has changed hands stays. A replay deletes nothing. */
static const struct pg_stmt claim_release = {
    .name = "claim_release",
    .sql = "delete from sluice.idempotency_key t @delete(sluice.idempotency_key) "
           "and t.execution_id = :execution_id and t.owner = :owner",
    PG_PARAMS(release_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};

#define CLAIM                                                                    \
    "select k.account_id, k.key, k.execution_id, k.fingerprint, k.owner, "       \
    "k.integration_id, k.action_id, k.connection_id, k.is_write, k.started_at, " \
    "k.expires_at from sluice.idempotency_key k "
/* By the node's lease and idempotency_key_owner, which has only claims in flight. A scan: each
 * claim is then ended by a statement that is fenced by this dead owner. */
static const struct pg_stmt claim_recover = {
    .name = "claim_recover",
    .sql = "select :ord, c.* from sluice.node n cross join lateral (" CLAIM
           "where k.state = 'in_flight' and k.owner = n.node_id "
           "limit 200) c where n.lease_until <= now() limit 200",
    PG_COLUMNS(insert_params),
    .no_account = "a read-only scan for what dead nodes left, over all accounts",
};

/* Oldest first: runs end, so claims that stay in front for long are orphans, and the limit cannot
 * hide one behind younger claims. */
static const struct pg_column owned_params[] = {{"owner", PG_UUID}, {"before", PG_TIME}};
static const struct pg_stmt claim_owned = {
    .name = "claim_owned",
    .sql = "select :ord, c.* from @input lateral (" CLAIM
           "where k.state = 'in_flight' and k.owner = :owner and k.started_at < :before "
           "order by k.started_at limit 200) c",
    PG_PARAMS(owned_params),
    PG_COLUMNS(insert_params),
    .no_account = "a read-only scan of a node's own claims, over all accounts",
};

const struct pg_stmt *const idempotency_stmts[] = {
    &claim_find,    &claim_insert,  &claim_own,   &claim_own_again,
    &claim_release, &claim_recover, &claim_owned, NULL,
};

enum { OWN_KEY_MARK = '\x01' };

struct pg_value store_claim_key(struct pg_query *query, slice key, struct uuid execution_id)
{
    if (key.ptr) {
        ASSERT(key.len > 0 && key.ptr[0] != OWN_KEY_MARK);
        return pg_text(key);
    }
    /* In the query, since a parameter's bytes are borrowed until it ends. */
    query->text[0] = OWN_KEY_MARK;
    uuid_format(execution_id, query->text + 1);
    return pg_text(slice_of(query->text, UUID_TEXT_LEN + 1));
}

void store_claim_find(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      struct uuid account_id, slice key)
{
    ASSERT(key.ptr);
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_text(key);
    query->params[2] = pg_time(clock_wall_us());
    store_submit(pool, query, op, &claim_find);
}

void store_claim_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                        const struct claim *claim)
{
    struct pg_value *params = query->params;
    params[0] = pg_uuid(claim->account_id);
    params[1] = store_claim_key(query, claim->key, claim->execution_id);
    params[2] = pg_uuid(claim->execution_id);
    params[3] = pg_bytes(slice_of(claim->fingerprint, IDEMPOTENCY_FINGERPRINT_LEN));
    params[4] = pg_uuid(claim->owner);
    params[5] = pg_text(claim->integration_id);
    params[6] = pg_text(claim->action_id);
    params[7] = pg_i64_or_null(claim->connection_id);
    params[8] = pg_bool(claim->is_write);
    params[9] = pg_time(claim->started_at);
    /* NOT NULL; without a client's key the row goes when the run ends, whatever it says. */
    params[10] = pg_time(claim->expires_at ? claim->expires_at : claim->started_at);
    store_submit(pool, query, op, claim->key.ptr ? &claim_insert : &claim_own);
}

static void read_fingerprint(slice from, uint8_t out[IDEMPOTENCY_FINGERPRINT_LEN])
{
    ASSERT(from.len == IDEMPOTENCY_FINGERPRINT_LEN); /* a CHECK of the table */
    memcpy(out, from.ptr, from.len);
}

static void win_own(const struct pg_query *query, struct claim_outcome *outcome)
{
    *outcome = (struct claim_outcome){
        .state = CLAIM_WON,
        .execution_id = query->params[2].as.uuid,
        .owner = query->params[4].as.uuid,
    };
    read_fingerprint(query->params[3].as.bytes, outcome->fingerprint);
}

int store_claim_result(const struct pg_query *query, struct claim_outcome *outcome)
{
    const struct pg_rows *rows = &query->rows;
    bool is_claim = query->stmt == &claim_insert;
    if (query->status != OK)
        return query->status;
    /* It returns no row; its commit alone means that the key is ours. */
    if (query->stmt == &claim_own) {
        win_own(query, outcome);
        return OK;
    }
    if (rows->count == 0)
        return ERR_NOTFOUND;
    *outcome = (struct claim_outcome){
        .execution_id = pg_get_uuid(rows, 0, 2),
        .owner = pg_get_uuid(rows, 0, 5),
        .has_execution = !pg_is_null(rows, 0, 7),
        .is_succeeded = pg_get_bool(rows, 0, 7),
        .error_code = pg_get_bytes(rows, 0, 8),
        .summary = pg_get_bytes(rows, 0, 9),
        .summary_bytes = (size_t)pg_get_i64(rows, 0, 10),
    };
    read_fingerprint(pg_get_bytes(rows, 0, 3), outcome->fingerprint);
    if (is_claim && uuid_eq(outcome->execution_id, query->params[2].as.uuid))
        outcome->state = CLAIM_WON;
    else if (pg_get_bool(rows, 0, 4))
        outcome->state = CLAIM_BOUND;
    else
        outcome->state = pg_get_bool(rows, 0, 6) ? CLAIM_IN_FLIGHT : CLAIM_DEAD;
    return OK;
}

void store_claim_release(struct pg_pool *pool, struct pg_query *query, struct op *op,
                         const struct claim *claim)
{
    query->params[0] = pg_uuid(claim->account_id);
    query->params[1] = store_claim_key(query, claim->key, claim->execution_id);
    query->params[2] = pg_uuid(claim->execution_id);
    query->params[3] = pg_uuid(claim->owner);
    store_submit(pool, query, op, &claim_release);
}

void store_claim_recover(struct pg_pool *pool, struct pg_query *query, struct op *op)
{
    store_submit(pool, query, op, &claim_recover);
}

void store_claim_owned(struct pg_pool *pool, struct pg_query *query, struct op *op,
                       struct uuid owner, int64_t before)
{
    query->params[0] = pg_uuid(owner);
    query->params[1] = pg_time(before);
    store_submit(pool, query, op, &claim_owned);
}

static void read_claim(const struct pg_rows *rows, size_t row, struct claim *claim)
{
    *claim = (struct claim){
        .account_id = pg_get_uuid(rows, row, 0),
        .key = pg_get_bytes(rows, row, 1),
        .execution_id = pg_get_uuid(rows, row, 2),
        .owner = pg_get_uuid(rows, row, 4),
        .integration_id = pg_get_bytes(rows, row, 5),
        .action_id = pg_get_bytes(rows, row, 6),
        .connection_id = pg_get_i64(rows, row, 7),
        .is_write = pg_get_bool(rows, row, 8),
        .started_at = pg_get_time(rows, row, 9),
        .expires_at = pg_get_time(rows, row, 10),
    };
    read_fingerprint(pg_get_bytes(rows, row, 3), claim->fingerprint);
    if (claim->key.ptr[0] == OWN_KEY_MARK)
        claim->key = SLICE_NONE;
}

int store_claim_recover_result(const struct pg_query *query, struct claim **list, size_t *count)
{
    if (query->status != OK)
        return query->status;
    *list = ARENA_ARRAY(&query->op->arena, struct claim, query->rows.count + 1);
    if (!*list)
        return ERR_NOMEM;
    for (size_t i = 0; i < query->rows.count; i++)
        read_claim(&query->rows, i, &(*list)[i]);
    *count = query->rows.count;
    return OK;
}
