/*
 * Connections: the claim on refreshing a token, and the end of a connection whose grant is gone.
 * Two processes that send the same refresh token lose the grant where the provider rotates tokens
 * (RFC 6749 section 10.4), so one at a time holds the claim. It is a lease in the row and no lock:
 * no transaction is open during a call to a provider.
 */
#include "base/clock.h"
#include "store/connection_internal.h"
#include "store/internal.h"

/* rev stays: it fences the credentials, which a claim does not change. So a token that arrives
 * after the lease has ended is still stored, as long as no other writer has stored one. The lease
 * counts by the database's clock, which all processes share. A replay by the same holder begins it
 * again. */
static const struct pg_column claim_params[] = {{"account_id", PG_UUID},
                                                {"id", PG_I64},
                                                {"rev", PG_I64},
                                                {"holder", PG_UUID},
                                                {"lease_ms", PG_I64}};
const struct pg_stmt connection_claim = {
    .name = "connection_claim",
    .sql = "update sluice.connection t set refreshing_by = :holder, "
           "refreshing_until = now() + :lease_ms * interval '1 millisecond' "
           "@update(sluice.connection) and t.rev = :rev and t.status = 'live' "
           "and (t.refreshing_by is null or t.refreshing_by = :holder "
           "or t.refreshing_until < now()) returning :ord",
    PG_PARAMS(claim_params),
    .key_count = 2,
    .is_write = true,
    .is_replayable = true,
};

static const struct pg_column release_params[] = {
    {"account_id", PG_UUID}, {"id", PG_I64}, {"holder", PG_UUID}};
/* Only the holder's own claim: after its lease another process may have taken it. */
const struct pg_stmt connection_release = {
    .name = "connection_release",
    .sql = "update sluice.connection t set refreshing_by = null, refreshing_until = null "
           "@update(sluice.connection) and t.refreshing_by = :holder",
    PG_PARAMS(release_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};

static const struct pg_column lost_params[] = {
    {"account_id", PG_UUID}, {"id", PG_I64},          {"rev", PG_I64},       {"op_token", PG_UUID},
    {"error", PG_TEXT},      {"now", PG_TIME},        {"event_id", PG_UUID}, {"reason", PG_TEXT},
    {"actor", PG_TEXT},      {"request_id", PG_TEXT}, {"details", PG_JSON},  {"address", PG_TEXT}};
static const struct pg_column rev_columns[] = {{"rev", PG_I64}};
/* Status and audit event are one statement, so there is one event for a loss: the second process to
 * find it fails the fence, and its `gone` is empty. At a replay `gone` has the row again and the
 * event, whose id is the same, conflicts with itself. `gone` carries the event's columns, so that
 * the INSERT is of exactly the rows that were changed. */
const struct pg_stmt connection_lost = {
    .name = "connection_lost",
    .sql = "with gone as (update sluice.connection t set status = 'reauth_required', "
           "error = :error, rev = :rev + 1, op_token = :op_token, refreshing_by = null, "
           "refreshing_until = null, updated_at = :now @update(sluice.connection) "
           "and (t.rev = :rev or (t.rev = :rev + 1 and t.op_token = :op_token)) "
           "returning :ord as ord, t.rev as rev, :account_id as account_id, "
           ":event_id as event_id, :reason as reason, :actor as actor, "
           ":request_id as request_id, :details as details, :address as address), "
           "told as (insert into sluice.audit_event "
           "(account_id, id, kind, reason, actor, request_id, details, address) "
           "select g.account_id, g.event_id, 'connection.reauth_required', g.reason, g.actor, "
           "g.request_id, g.details, g.address from gone g on conflict do nothing) "
           "select g.ord, g.rev from gone g",
    PG_PARAMS(lost_params),
    PG_COLUMNS(rev_columns),
    .key_count = 2,
    .is_write = true,
    .is_replayable = true,
};

void store_connection_claim(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            struct uuid account_id, int64_t id, int64_t rev, struct uuid holder,
                            unsigned lease_ms)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_i64(id);
    query->params[2] = pg_i64(rev);
    query->params[3] = pg_uuid(holder);
    query->params[4] = pg_i64(lease_ms);
    store_submit(pool, query, op, &connection_claim);
}

int store_connection_claim_result(const struct pg_query *query)
{
    if (query->status != OK)
        return query->status;
    return query->rows.count > 0 ? OK : ERR_NOTFOUND;
}

void store_connection_release(struct pg_pool *pool, struct pg_query *query, struct op *op,
                              struct uuid account_id, int64_t id, struct uuid holder)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_i64(id);
    query->params[2] = pg_uuid(holder);
    store_submit(pool, query, op, &connection_release);
}

void store_connection_lost(struct pg_pool *pool, struct pg_query *query, struct op *op,
                           const struct connection_loss *loss)
{
    ASSERT(loss->error.ptr);
    query->params[0] = pg_uuid(loss->account_id);
    query->params[1] = pg_i64(loss->id);
    query->params[2] = pg_i64(loss->rev);
    query->params[3] = pg_uuid(uuid_v7());
    query->params[4] = pg_text(slice_first_utf8(loss->error, CONNECTION_ERROR_MAX));
    query->params[5] = pg_time(clock_wall_us());
    query->params[6] = pg_uuid(uuid_v7());
    query->params[7] = pg_text(loss->reason);
    query->params[8] = pg_text_or_empty(loss->actor);
    query->params[9] = pg_text(loss->request_id);
    query->params[10] = pg_json(loss->details);
    query->params[11] = pg_text(loss->address);
    store_submit(pool, query, op, &connection_lost);
}
