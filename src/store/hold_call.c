/*
 * The statements around the call of a hold: see hold_call.h.
 */
#include "store/hold_call.h"

#include "store/internal.h"

/* One snapshot: of a run that ends between two statements, neither the claim nor the record would
 * be found. As in claim_find, a bound key past its expiry counts as free. OFFSET 0 pins the plan, a
 * look-up of each table by its key (pg/stmt.c). */
#define OF(name, type) PG_OF(#name, type, struct hold_state, name)
#define CHECK_SUMMARY                                      \
    "case when octet_length(x.summary) <= " STORE_TEXT_OF( \
        STORE_HOLD_SUMMARY_BYTES) " then "                 \
                                  "x.summary end"
static const struct pg_stmt hold_check = {
    .name = "hold_check",
    .sql = "select :ord, h.key, h.fingerprint, h.asker, h.execution_id, "
           "coalesce(f.is_ours, false), "
           "h.lifetime_ms, e.status is not null, "
           "coalesce(e.status = 'succeeded', false), e.summary, k.execution_id, "
           "coalesce(k.is_bound, false), coalesce(k.is_same, false) "
           "from @input lateral (select * from sluice.hold x "
           "where x.account_id = :account_id and x.flow_id = :flow_id and x.key <> '' offset 0) h "
           "left join lateral (select x.rev = :rev and x.owner is not distinct from :owner "
           "as is_ours from sluice.flow x "
           "where x.account_id = h.account_id and x.id = h.flow_id offset 0) f on true "
           "left join lateral (select x.status, " CHECK_SUMMARY " as summary "
           "from sluice.execution x "
           "where x.account_id = h.account_id and x.id = h.execution_id offset 0) e on true "
           "left join lateral (select x.execution_id, x.state = 'bound' as is_bound, "
           "x.fingerprint = h.fingerprint as is_same from sluice.idempotency_key x "
           "where x.account_id = h.account_id and x.key = h.key "
           "and (x.state <> 'bound' or x.expires_at > now()) offset 0) k on true",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("flow_id", PG_UUID), PG_ARG("rev", PG_I64),
             PG_ARG("owner", PG_UUID)),
    PG_GIVES(OF(key, PG_TEXT), OF(fingerprint, PG_BYTES), OF(asker, PG_UUID),
             OF(execution_id, PG_UUID), OF(is_ours, PG_BOOL), OF(lifetime_ms, PG_I64),
             OF(has_record, PG_BOOL), OF(is_succeeded, PG_BOOL), OF(summary, PG_TEXT),
             OF(holder_id, PG_UUID), OF(is_bound, PG_BOOL), OF(is_same, PG_BOOL)),
    .key_count = 2,
    .is_large = true,
};

/* A scalar subquery is not joined, so the flow is found by its key. Its row is read, not locked: a
 * node that takes the flow meanwhile has waited for this node's lease to run out, after which this
 * node calls no provider. A replay finds its own id. */
#define INTENT_OF(name, type, ...) PG_OF(#name, type, struct hold_intent, name, __VA_ARGS__)
static const struct pg_stmt hold_intend = {
    .name = "hold_intend",
    .sql = "update sluice.hold t set execution_id = :execution_id @update(sluice.hold) "
           "and t.flow_id = :flow_id and (t.execution_id is not distinct from :was "
           "or t.execution_id = :execution_id) and (select f.rev = :rev and "
           "f.owner is not distinct from :owner from sluice.flow f "
           "where f.account_id = t.account_id and f.id = t.flow_id) returning :ord",
    PG_TAKES(INTENT_OF(account_id, PG_UUID), INTENT_OF(key, PG_TEXT), INTENT_OF(flow_id, PG_UUID),
             INTENT_OF(execution_id, PG_UUID), INTENT_OF(was, PG_UUID, .has_null = true),
             INTENT_OF(rev, PG_I64), INTENT_OF(owner, PG_UUID)),
    .key_count = 2,
    .access = PG_WRITE,
};

const struct pg_stmt *const hold_call_stmts[] = {&hold_check, &hold_intend, NULL};

void store_hold_check(STORE_ARGS, struct uuid account_id, struct uuid flow_id, int64_t rev,
                      struct uuid owner)
{
    store_ask(pool, query, op, &hold_check,
              PG_VALUES(pg_uuid(account_id), pg_uuid(flow_id), pg_i64(rev), pg_uuid(owner)));
}

STORE_CALL_OF(store_hold_intend, hold_intend, hold_intent)
