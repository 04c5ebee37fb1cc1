/*
 * Claims: rows of sluice.idempotency_key. The table has only runs under way and keys that may still
 * be replayed, so it is small and stays in memory. Statements go by the primary key (account_id,
 * key), except two scans, which go by idempotency_key_owner.
 */
#include "store/idempotency.h"

#include "store/internal.h"
#include "store/node.h"

static const struct pg_column claim_columns[] = {STORE_CLAIM_COLUMNS};
enum { IS_BOUND_COLUMN = 4, IS_SUCCEEDED_COLUMN = 6 };

#define BOUND_SUMMARY STORE_SUMMARY_INLINE("x")
/* Keys expire by the database's clock alone: by a node's clock, a node whose clock is fast would
 * free a key that others still use. An expired key counts as free and is not found; housekeeping
 * removes it later. The execution of a bound key is read with it, so that a repeated request costs
 * one query. The condition on the state is inside the lateral subquery: for a claim in flight no
 * partition is searched. */
#define FOUND_CLAIM                                      \
    "(select * from sluice.idempotency_key k "           \
    "where k.account_id = :account_id and k.key = :key " \
    "and (k.state <> 'bound' or k.expires_at > now()) offset 0) t "
#define FOUND_RESULT                                                                     \
    "left join lateral (select x.status, x.error_code, " BOUND_SUMMARY " as summary, "   \
    "octet_length(x.summary)::bigint as bytes, x.started_at, x.finished_at from "        \
    "sluice.execution x "                                                                \
    "where t.state = 'bound' and x.account_id = t.account_id and x.id = t.execution_id " \
    "offset 0) e on true"
#define RESULT_ROW \
    "e.status = 'succeeded', e.error_code, e.summary, e.bytes, e.started_at, e.finished_at"
static const struct pg_stmt claim_find = {
    .name = "claim_find",
    .sql = "select :ord, " STORE_CLAIM_ROW RESULT_ROW
           " from @input lateral " FOUND_CLAIM FOUND_RESULT,
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("key", PG_TEXT)),
    PG_COLUMNS(claim_columns),
    .key_count = 2,
};

/* A row also if the key is free, but has a hold. */
#define OR_ZEROS(fingerprint) "coalesce(" fingerprint ", decode(repeat('00', 32), 'hex'))"
static const struct pg_column held_columns[] = {STORE_CLAIM_COLUMNS,
                                                STORE_CLAIM_OUT(has_hold, PG_BOOL),
                                                STORE_CLAIM_OUT(hold_fingerprint, PG_BYTES)};
static const struct pg_stmt claim_find_held = {
    .name = "claim_find_held",
    .sql = "select :ord, coalesce(t.account_id, h.account_id), coalesce(t.key, h.key), "
           "t.execution_id, " OR_ZEROS(
               "t.fingerprint") ", t.state = 'bound' as is_bound, t.owner, " RESULT_ROW
                                ", h.key is not null, " OR_ZEROS(
                                    "h.fingerprint") " from @input lateral (select 1) one "
                                                     "left join lateral " FOUND_CLAIM
                                                     "on true left join lateral (select "
                                                     "o.account_id, o.key, "
                                                     "o.fingerprint from sluice.hold o where "
                                                     "o.account_id = :account_id and o.key = :key "
                                                     "and " STORE_HOLD_IS_KEPT(
                                                         "o") " offset 0) h on true " FOUND_RESULT
                                                              " where t.key is not null or h.key "
                                                              "is not null",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("key", PG_TEXT)),
    PG_COLUMNS(held_columns),
    .key_count = 2,
};

#define OF(name, type, ...) PG_OF(#name, type, struct claim, name, __VA_ARGS__)
#define CLAIM_MEMBERS                                                         \
    OF(execution_id, PG_UUID), OF(fingerprint, PG_BYTES), OF(owner, PG_UUID), \
        OF(integration_id, PG_TEXT), OF(action_id, PG_TEXT),                  \
        OF(connection_id, PG_I64, .has_null = true), OF(is_write, PG_BOOL),   \
        OF(parent_id, PG_UUID, .has_null = true)
static const struct pg_column insert_params[] = {OF(account_id, PG_UUID), PG_ARG("key", PG_TEXT),
                                                 CLAIM_MEMBERS, STORE_CLAIM_LIFE_PARAMS};
static const struct pg_column row_columns[] = {OF(account_id, PG_UUID), OF(key, PG_TEXT),
                                               CLAIM_MEMBERS, OF(started_at, PG_TIME),
                                               OF(approval_flow_id, PG_UUID)};

#define INSERT_STMT(stmt_name, state_and_owner, rest, ...)                                       \
    {                                                                                            \
        .name = stmt_name,                                                                       \
        .sql = "insert into sluice.idempotency_key as t (account_id, key, execution_id, "        \
               "fingerprint, state, owner, integration_id, action_id, connection_id, is_write, " \
               "parent_id, started_at, expires_at) "                                             \
               "@row :account_id, :key, :execution_id, :fingerprint, " state_and_owner ", "      \
               ":integration_id, :action_id, :connection_id, :is_write, "                        \
               ":parent_id, " STORE_CLAIM_LIFE " @end" rest,                                     \
        PG_PARAMS(insert_params), .key_count = 2, .access = PG_WRITE, __VA_ARGS__                \
    }
static const struct pg_stmt claim_insert =
    INSERT_STMT("claim_insert", "'in_flight', :owner", STORE_CLAIM_OR_HOLDER,
                PG_COLUMNS(claim_columns), .match = PG_MATCH_KEY);

/* This row has no run: it is bound, so it has no owner. */
static const struct pg_stmt claim_spend =
    INSERT_STMT("claim_spend", "'bound', nullif(:owner, :owner)", STORE_CLAIM_OR_HOLDER,
                PG_COLUMNS(claim_columns), .match = PG_MATCH_KEY);

/* The row may be in flight for the same run: then it is bound. */
static const struct pg_stmt claim_bind =
    INSERT_STMT("claim_bind", "'bound', nullif(:owner, :owner)",
                " on conflict (account_id, key) do update set state = 'bound', owner = null, "
                "expires_at = excluded.expires_at where t.execution_id = excluded.execution_id",
                .match = PG_MATCH_NONE);

/* A run without a client's key claims a key made of its own id. No other run can have taken this
 * key, so the first attempt does not check. */
static const struct pg_stmt claim_own_again = INSERT_STMT(
    "claim_own_again", "'in_flight', :owner", " on conflict do nothing", .match = PG_MATCH_NONE);
static const struct pg_stmt claim_own = INSERT_STMT(
    "claim_own", "'in_flight', :owner", "", .match = PG_MATCH_NONE, .again = &claim_own_again);

/* The statement is fenced by run and owner: a claim with another owner stays. A replay deletes
 * nothing. */
static const struct pg_stmt claim_release = {
    .name = "claim_release",
    .sql = "delete from sluice.idempotency_key t @delete(sluice.idempotency_key) "
           "and t.execution_id = :execution_id and t.owner = :owner",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("key", PG_TEXT), PG_ARG("execution_id", PG_UUID),
             PG_ARG("owner", PG_UUID)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

#define CLAIM                                                                                 \
    "select k.account_id, k.key, k.execution_id, k.fingerprint, k.owner, "                    \
    "k.integration_id, k.action_id, k.connection_id, k.is_write, k.parent_id, k.started_at, " \
    "(select h.flow_id from sluice.hold h where h.account_id = k.account_id "                 \
    "and h.key = k.key and h.execution_id = k.execution_id limit 1) as approval_flow_id "     \
    "from sluice.idempotency_key k "
/* Uses the index idempotency_key_owner, which has only claims in flight. This is a scan: a
 * statement fenced by the dead owner then ends each claim. */
static const struct pg_stmt claim_recover = {
    .name = "claim_recover",
    .sql = "select :ord, c.* from @input lateral (select o.* from unnest((:nodes)::uuid[]) "
           "n (node_id) cross join lateral (" CLAIM
           "where k.state = 'in_flight' and k.owner = n.node_id limit 200) o limit 200) c",
    PG_TAKES(PG_ARG("nodes", PG_TEXT)),
    PG_COLUMNS(row_columns),
    .no_account = "a read-only scan for what dead nodes left, over all accounts",
    .is_spread = true,
    .spread_max = CLAIM_RECOVER_MAX,
};

/* The oldest come first: runs end, so claims that remain at the front for a long time are
 * orphans, and the limit cannot hide one among younger claims. */
static const struct pg_stmt claim_owned = {
    .name = "claim_owned",
    .sql = "select :ord, c.* from @input lateral (" CLAIM
           "where k.state = 'in_flight' and k.owner = :owner "
           "and k.started_at < now() - :age_ms * interval '1 millisecond' "
           "order by k.started_at limit 200) c",
    PG_TAKES(PG_ARG("owner", PG_UUID), PG_ARG("age_ms", PG_I64)),
    PG_COLUMNS(row_columns),
    .no_account = "a read-only scan of a node's own claims, over all accounts",
    .is_spread = true,
    .spread_max = CLAIM_RECOVER_MAX,
    .spread_order = "started_at",
};

const struct pg_stmt *const idempotency_stmts[] = {
    &claim_find,      &claim_find_held, &claim_insert,  &claim_spend, &claim_bind, &claim_own,
    &claim_own_again, &claim_release,   &claim_recover, &claim_owned, NULL,
};

enum { OWN_KEY_MARK = '\x01' };

struct pg_value store_claim_key(struct pg_query *query, slice key, struct uuid execution_id)
{
    if (key.ptr) {
        ASSERT(key.len > 0 && key.ptr[0] != OWN_KEY_MARK);
        return pg_text(key);
    }
    /* The text is stored in the query, since a parameter's bytes are borrowed until the query
     * ends. */
    query->text[0] = OWN_KEY_MARK;
    uuid_format(execution_id, query->text + 1);
    return pg_text(slice_of(query->text, UUID_TEXT_LEN + 1));
}

void store_claim_find(STORE_ARGS, struct uuid account_id, slice key)
{
    ASSERT(key.ptr);
    store_ask(pool, query, op, &claim_find, PG_VALUES(pg_uuid(account_id), pg_text(key)));
}

void store_claim_find_held(STORE_ARGS, struct uuid account_id, slice key)
{
    ASSERT(key.ptr);
    store_ask(pool, query, op, &claim_find_held, PG_VALUES(pg_uuid(account_id), pg_text(key)));
}

void store_claim_insert(STORE_ARGS, const struct claim *claim)
{
    store_ask_of(pool, query, op, claim->key.ptr ? &claim_insert : &claim_own, claim,
                 PG_VALUES(store_claim_key(query, claim->key, claim->execution_id)));
}

void store_claim_spend(STORE_ARGS, const struct claim *claim)
{
    ASSERT(claim->key.ptr && (claim->lifetime_ms > 0 || claim->guards_until > 0));
    store_ask_of(pool, query, op, &claim_spend, claim, PG_VALUES(pg_text(claim->key)));
}

void store_claim_bind(STORE_ARGS, const struct claim *claim)
{
    ASSERT(claim->key.ptr && claim->lifetime_ms > 0);
    store_ask_of(pool, query, op, &claim_bind, claim, PG_VALUES(pg_text(claim->key)));
}

static void win_own(const struct pg_query *query, struct claim_outcome *outcome)
{
    *outcome = (struct claim_outcome){
        .state = CLAIM_WON,
        .execution_id = query->params[2].as.uuid,
        .owner = query->params[4].as.uuid,
    };
    memcpy(outcome->fingerprint, query->params[3].as.bytes.ptr, sizeof(outcome->fingerprint));
}

int store_claim_result(const struct pg_query *query, struct claim_outcome *outcome)
{
    const struct pg_rows *rows = &query->rows;
    /* The statement returns no row; its commit alone means that the claim was made. */
    if (query->status == OK && query->stmt == &claim_own) {
        win_own(query, outcome);
        return OK;
    }
    int status = store_row_result(query, outcome, sizeof(*outcome));
    if (status != OK)
        return status;
    if (uuid_is_nil(outcome->execution_id)) /* there is only a hold */
        return ERR_NOTFOUND;
    bool is_found = query->stmt == &claim_find || query->stmt == &claim_find_held;
    outcome->has_execution = !pg_is_null(rows, 0, IS_SUCCEEDED_COLUMN);
    if (!is_found && uuid_eq(outcome->execution_id, query->params[2].as.uuid))
        outcome->state = CLAIM_WON;
    else if (pg_get_bool(rows, 0, IS_BOUND_COLUMN))
        outcome->state = CLAIM_BOUND;
    else
        outcome->state = CLAIM_IN_FLIGHT;
    return OK;
}

bool store_claim_is_spent(const struct claim_outcome *outcome)
{
    static const uint8_t none[IDEMPOTENCY_FINGERPRINT_LEN];
    return outcome->state != CLAIM_IN_FLIGHT &&
           memcmp(outcome->fingerprint, none, sizeof(none)) == 0;
}

void store_claim_release(STORE_ARGS, const struct claim *claim)
{
    store_ask(pool, query, op, &claim_release,
              PG_VALUES(pg_uuid(claim->account_id),
                        store_claim_key(query, claim->key, claim->execution_id),
                        pg_uuid(claim->execution_id), pg_uuid(claim->owner)));
}

void store_claim_recover(STORE_ARGS, const struct node_dead *dead)
{
    store_ask(pool, query, op, &claim_recover, PG_VALUES(pg_text(dead->ids)));
}

STORE_CALL_ID(store_claim_owned, claim_owned, int64_t, pg_i64)

int store_claim_recover_result(const struct pg_query *query, struct claim **list, size_t *count)
{
    int status;
    *list = store_list_result(query, sizeof(**list), count, &status);
    for (size_t i = 0; status == OK && i < *count; i++)
        if ((*list)[i].key.ptr[0] == OWN_KEY_MARK)
            (*list)[i].key = SLICE_NONE;
    return status;
}
