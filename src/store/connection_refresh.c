/*
 * Connections: the claim on refreshing a token, and the end of a connection whose grant has ended.
 * Two processes that send the same refresh token lose the grant if the provider rotates tokens (RFC
 * 6749 section 10.4), so one at a time holds the claim. It is a lease in the row, not a lock: no
 * transaction is open during a call to a provider.
 */
#include "store/connection_internal.h"
#include "store/internal.h"

#define OF(name, type, ...) PG_OF(#name, type, struct connection_loss, name, __VA_ARGS__)

/* rev stays: it fences the credentials, which a claim does not change. So a token that arrives
 * after the lease has ended is still stored, as long as no other writer has stored one. The
 * lease is measured by the database's clock, which all processes share. A replay by the same
 * holder starts it again. */
static const struct pg_stmt connection_claim = {
    .name = "connection_claim",
    .sql = "update sluice.connection t set refreshing_by = :holder, "
           "refreshing_until = now() + :lease_ms * interval '1 millisecond' "
           "@update(sluice.connection) and t.rev = :rev and t.status = 'live' "
           "and (t.refreshing_by is null or t.refreshing_by = :holder "
           "or t.refreshing_until < now()) returning :ord",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64), PG_ARG("rev", PG_I64),
             PG_ARG("holder", PG_UUID), PG_ARG("lease_ms", PG_I64)),
    .key_count = 2,
    .access = PG_WRITE,
};

/* Ends only the holder's own claim: after the lease another process may have taken over the
 * claim. */
static const struct pg_stmt connection_release = {
    .name = "connection_release",
    .sql = "update sluice.connection t set refreshing_by = null, refreshing_until = null "
           "@update(sluice.connection) and t.refreshing_by = :holder",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64), PG_ARG("holder", PG_UUID)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

/* Status, audit event and outbox are one statement, so there is one event for each loss: the second
 * process to find it fails the fence, and its `gone` is empty. At a replay `gone` has the row
 * again, and the event conflicts with its first copy, which has the same id. `gone` carries the
 * event's columns, so that the INSERT is for exactly the rows that were changed. Both events have
 * one id, and are those of the row's owner. */
#define LOST_OUTBOX \
    CONNECTION_OUTBOX("'connection.reauth_required'", "gone c", " on conflict do nothing")
static const struct pg_stmt connection_lost = {
    .name = "connection_lost",
    .sql = "with gone as (update sluice.connection t set status = 'reauth_required', "
           "error = :error, rev = :rev + 1, op_token = :op_token, refreshing_by = null, "
           "refreshing_until = null, updated_at = :now @update(sluice.connection) "
           "and (t.rev = :rev or (t.rev = :rev + 1 and t.op_token = :op_token)) "
           "returning :ord as ord, " CONNECTION_EVENT_ROW ", t.status, t.rev, "
           ":event_id as event_id, :reason as reason, :actor as actor, "
           ":request_id as request_id, :details as details, :address as address), "
           "audited as (insert into sluice.audit_event "
           "(account_id, id, kind, reason, actor, request_id, details, address, parent_id) "
           "select g.account_id, g.event_id, 'connection.reauth_required', g.reason, g.actor, "
           "g.request_id, g.details, g.address, g.parent_id from gone g on conflict do "
           "nothing), " LOST_OUTBOX "select c.ord, c.rev, " CONNECTION_HAS_EVENT " from gone c",
    PG_TAKES(OF(account_id, PG_UUID), OF(id, PG_I64), OF(rev, PG_I64), PG_NEW_ID("op_token"),
             PG_ARG("error", PG_TEXT), PG_NOW("now"), PG_NEW_ID("event_id"), OF(reason, PG_TEXT),
             STORE_BY(connection_loss), OF(details, PG_JSON)),
    PG_GIVES(PG_ARG("rev", PG_I64), STORE_HAS_EVENT_COLUMN),
    .key_count = 2,
    .access = PG_WRITE,
};

const struct pg_stmt *const connection_refresh_stmts[] = {&connection_claim, &connection_release,
                                                          &connection_lost, NULL};

void store_connection_claim(STORE_ARGS, struct uuid account_id, int64_t id, int64_t rev,
                            struct uuid holder, unsigned lease_ms)
{
    store_ask(
        pool, query, op, &connection_claim,
        PG_VALUES(pg_uuid(account_id), pg_i64(id), pg_i64(rev), pg_uuid(holder), pg_i64(lease_ms)));
}

void store_connection_release(STORE_ARGS, struct uuid account_id, int64_t id, struct uuid holder)
{
    store_ask(pool, query, op, &connection_release,
              PG_VALUES(pg_uuid(account_id), pg_i64(id), pg_uuid(holder)));
}

void store_connection_lost(STORE_ARGS, const struct connection_loss *loss)
{
    ASSERT(loss->error.ptr);
    store_ask_of(pool, query, op, &connection_lost, loss,
                 PG_VALUES(pg_text(slice_first_utf8(loss->error, CONNECTION_ERROR_MAX))));
}
