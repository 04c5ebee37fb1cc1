/*
 * Deliveries: claims, ends, and what an endpoint's failures do to it; see delivery.h.
 *
 * Conditions never name the status alone: due_at is set if and only if it is 'pending' (a CHECK),
 * and the planner would consider the partial indexes for a walk (pg/stmt.c).
 */
#include "store/delivery.h"

#include "store/internal.h"

#define REF_OF(name, type) PG_OF(#name, type, struct due_ref, name)
#define REF_COLUMNS                                                                \
    REF_OF(account_id, PG_UUID), REF_OF(id, PG_UUID), REF_OF(webhook_id, PG_UUID), \
        REF_OF(rev, PG_I64), REF_OF(at, PG_TIME), REF_OF(parent_id, PG_UUID)

static const struct pg_stmt delivery_of_event = {
    .name = "delivery_of_event",
    .sql = "select :ord, 'delivery', d.account_id, d.event_id, d.webhook_id, d.attempt, d.due_at, "
           "d.parent_id from @input lateral (select * from sluice.delivery k "
           "where k.account_id = :account_id and k.event_id >= :event_id and "
           "k.event_id <= :event_id and k.due_at is not null "
           "offset 0) d",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("event_id", PG_UUID)),
    PG_GIVES(PG_WORD("kind", struct due_ref, kind, &store_due_kinds), REF_COLUMNS),
};

/* ---- claims ---- */

#define ROW_IS(row)                                                                              \
    row ".account_id = t.account_id and " row ".event_id = t.event_id and " row ".webhook_id = " \
        "t.webhook_id"
#define ENDPOINT_IS(row, t)                                                             \
    row ".account_id = coalesce(" t ".parent_id, " t ".account_id) and " row ".id = " t \
        ".webhook_id"
#define PAUSED_UNTIL "(select h.paused_until from sluice.webhook h where " ENDPOINT_IS("h", "t") ")"
/* An event of the same object with a lower rev is pending. Events that are sent again on request
 * are exempt: they have ended once before. */
#define IS_EARLY                                                                            \
    "exists (select 1 from sluice.delivery e where e.account_id = t.account_id and "        \
    "e.webhook_id = t.webhook_id and e.object = t.object and e.rev < t.rev and e.status = " \
    "'pending' and e.replayed_after is null and t.replayed_after is null)"
/* A row is put off by a part of its age, an hour at most, so its turns come often enough to use all
 * that the endpoint can take, and rarely enough to cost little. The part is random: rows that were
 * put off together, as by a pause, come back one after another. */
#define PUT_OFF                                                                             \
    "greatest(p.until, now()) + least(interval '1 hour', interval '10 seconds' + (now() - " \
    "t.at)) * (0.5 + 0.5 * random())"

/* A later version of the program sends to an endpoint without a URL. */
#define IS_OURS \
    "(select h.url is null from sluice.webhook h where " ENDPOINT_IS("h", "t") ") is not true"

/* SKIP LOCKED as in flow.c: all nodes with a timer send this at the same time. */
#define OF_CLAIM(name, type)       PG_OF(#name, type, struct delivery_claim, name)
#define OF_REF(name, type, member) PG_OF(name, type, struct delivery_claim, ref.member)
#define OF_ROW(name, type)         PG_OF(#name, type, struct delivery, name)
#define OF_WEBHOOK(name, type)     PG_OF(#name, type, struct webhook, name)
enum { WEBHOOK_AT = 12 }; /* the first column of the endpoint */
static const struct pg_stmt delivery_claim = {
    .name = "delivery_claim",
    .sql =
        "with claimed as (update sluice.delivery t set (attempt, due_at) = (select "
        "t.attempt + (not p.is_held)::integer, case when p.is_held then " PUT_OFF " else "
        "now() + :timeout_ms * interval '2 milliseconds' end from (select u.until, :is_full or "
        "coalesce(u.until > now(), false) or " IS_EARLY " as is_held from (select " PAUSED_UNTIL
        " as until offset 0) u offset 0) p) "
        "@update(sluice.delivery) and t.attempt = :attempt and t.due_at is not null and "
        "(t.due_at <= now() or :is_next) and " IS_OURS
        " and t.ctid = (select k.ctid from sluice.delivery k "
        "where " ROW_IS(
            "k") " for update skip locked) "
                 "returning :ord as ord, :attempt as before, t.account_id, t.event_id, "
                 "t.webhook_id, "
                 "t.parent_id, t.kind, t.object, t.rev, t.at, t.data, t.attempt, t.replayed_after) "
                 "select c.ord, c.account_id, c.event_id, c.webhook_id, c.parent_id, c.kind, "
                 "c.object, "
                 "c.rev, c.at, c.data, c.attempt, c.replayed_after, c.attempt > c.before, "
                 "w.account_id, w.id, w.url, "
                 "w.sealed, w.old_sealed, w.key_id, w.old_until, w.off_at, w.failures, w.rev from "
                 "claimed "
                 "c left "
                 "join lateral (select * from sluice.webhook h where " ENDPOINT_IS(
                     "h", "c") " offset 0) "
                               "w on true",
    PG_TAKES(OF_REF("account_id", PG_UUID, account_id), OF_REF("event_id", PG_UUID, id),
             OF_REF("webhook_id", PG_UUID, webhook_id), OF_REF("attempt", PG_I64, rev),
             OF_CLAIM(is_full, PG_BOOL), OF_CLAIM(is_next, PG_BOOL), OF_CLAIM(timeout_ms, PG_I64)),
    PG_GIVES(OF_ROW(account_id, PG_UUID), OF_ROW(event_id, PG_UUID), OF_ROW(webhook_id, PG_UUID),
             OF_ROW(parent_id, PG_UUID), OF_ROW(kind, PG_TEXT), OF_ROW(object, PG_UUID),
             OF_ROW(rev, PG_I64), OF_ROW(at, PG_TIME), OF_ROW(data, PG_JSON),
             OF_ROW(attempt, PG_I64), OF_ROW(replayed_after, PG_I64), PG_ARG("is_claimed", PG_BOOL),
             PG_ARG("payer_id", PG_UUID), PG_ARG("id", PG_UUID), PG_ARG("url", PG_TEXT),
             PG_ARG("sealed", PG_BYTES), PG_ARG("old_sealed", PG_BYTES), PG_ARG("key_id", PG_TEXT),
             PG_ARG("old_until", PG_TIME), PG_ARG("off_at", PG_TIME), PG_ARG("failures", PG_I64),
             PG_ARG("webhook_rev", PG_I64)),
    .key_count = 3,
    .access = PG_WRITE_ONCE,
};

/* ---- ends ---- */

/* The next event of the object is at its first attempt: it was put off while this one was pending,
 * and is due now, for this process or for any other. An event that was sent again on request kept
 * none waiting: one after it may be under way, or have attempts of its own to come. */
#define OF_END(name, type) PG_OF(#name, type, struct delivery_end, name)
static const char *const status_names[] = {
    [DELIVERY_PENDING] = "pending",
    [DELIVERY_DELIVERED] = "delivered",
    [DELIVERY_FAILED] = "failed",
};
static const struct pg_words statuses = {status_names, ARRAY_LEN(status_names), DELIVERY_FAILED};
static const struct pg_stmt delivery_end = {
    .name = "delivery_end",
    .sql = "with ended as (update sluice.delivery t set status = :status, code = :code, "
           "attempt = t.attempt - (:is_uncounted)::integer, "
           "problem = :problem, due_at = case when :status = 'pending' then now() + :delay_ms * "
           "interval '1 millisecond' end, ended_at = case when :status <> 'pending' then now() end "
           "@update(sluice.delivery) and t.attempt = :attempt and t.due_at is not null "
           "returning :ord as ord, t.account_id, t.webhook_id, t.object, t.rev, t.ended_at, "
           "t.replayed_after), "
           "found as (select e.ord, n.* from ended e cross join lateral (select k.* from "
           "sluice.delivery k where e.ended_at is not null and e.replayed_after is null and "
           "k.account_id = e.account_id and k.webhook_id = e.webhook_id and k.object = e.object "
           "and k.rev > e.rev and "
           "k.status = 'pending' and k.replayed_after is null order by k.rev limit 1) n), "
           "hastened as (update sluice.delivery t set due_at = now() from found f where "
           "t.account_id = any(array[f.account_id]) and t.event_id >= f.event_id and "
           "t.event_id <= f.event_id and t.webhook_id >= f.webhook_id and "
           "t.webhook_id <= f.webhook_id and t.attempt = f.attempt and t.due_at is not null and "
           "t.ctid = (select k.ctid from sluice.delivery k where " ROW_IS(
               "k") " for update skip locked)) "
                    "select e.ord, 'delivery', n.account_id, n.event_id, n.webhook_id, n.attempt, "
                    "n.due_at, "
                    "n.parent_id from ended e left join found n on n.ord = e.ord",
    PG_TAKES(OF_END(account_id, PG_UUID), OF_END(event_id, PG_UUID), OF_END(webhook_id, PG_UUID),
             OF_END(attempt, PG_I64), PG_WORD("status", struct delivery_end, status, &statuses),
             OF_END(delay_ms, PG_I64),
             PG_OF("code", PG_I64, struct delivery_end, code, .has_null = true),
             OF_END(problem, PG_TEXT), OF_END(is_uncounted, PG_BOOL)),
    PG_GIVES(PG_WORD("kind", struct due_ref, kind, &store_due_kinds), REF_COLUMNS),
    .key_count = 3,
    .access = PG_WRITE,
};

/* ---- sending again ---- */

/* Failed rows have an index of their own; a single event may have any status. */
#define REPLAYS_OF(only, where)                                                             \
    "(select x.* from sluice.delivery x where " only " and x.webhook_id = :webhook_id and " \
    "x.event_id >= :since and x.event_id <= :until and x.event_id > :after and " where      \
    " order by x.event_id limit 500)"
#define REPLAYS_FAILED   REPLAYS_OF(":since <> :until", "x.status = 'failed'")
#define REPLAYS_ONE      REPLAYS_OF(":since = :until", "x.kind <> ''")
#define OF_REPLAYS(name) PG_OF(#name, PG_UUID, struct delivery_replays, name)
static const struct pg_stmt delivery_replays = {
    .name = "delivery_replays",
    .sql = "select :ord, 'delivery', d.account_id, d.event_id, d.webhook_id, d.attempt, d.at, "
           "d.parent_id from @input lateral (" REPLAYS_FAILED " union all " REPLAYS_ONE ") d",
    PG_TAKES(OF_REPLAYS(webhook_id), OF_REPLAYS(since), OF_REPLAYS(until), OF_REPLAYS(after)),
    PG_GIVES(PG_WORD("kind", struct due_ref, kind, &store_due_kinds), REF_COLUMNS),
    .no_account = "an endpoint hears an account and all its users, which other nodes may have",
    .is_spread = true,
    .spread_max = DELIVERY_REPLAYS_MAX,
    .spread_order = "id",
};

#define OF_MORE(name) PG_OF(#name, PG_UUID, struct delivery_more, name)
static const struct pg_stmt delivery_more = {
    .name = "delivery_more",
    .sql = "select :ord, 'delivery', d.account_id, d.event_id, d.webhook_id, d.attempt, d.due_at, "
           "d.parent_id from @input lateral (select x.* from sluice.delivery x where "
           "x.webhook_id = :webhook_id and x.event_id >= :since and x.status = 'pending' and "
           "x.attempt >= 0 and x.attempt = coalesce(x.replayed_after, 0) order by x.event_id "
           "limit 50) d",
    PG_TAKES(OF_MORE(webhook_id), OF_MORE(since)),
    PG_GIVES(PG_WORD("kind", struct due_ref, kind, &store_due_kinds), REF_COLUMNS),
    .no_account = "an endpoint hears an account and all its users, which other nodes may have",
    .is_spread = true,
    .spread_max = DELIVERY_MORE_MAX,
    .spread_order = "id",
};

static const struct pg_stmt delivery_replay = {
    .name = "delivery_replay",
    .sql = "update sluice.delivery t set status = 'pending', due_at = now(), ended_at = null, "
           "replayed_after = t.attempt @update(sluice.delivery) and t.due_at is null "
           "and t.attempt = :attempt returning :ord",
    PG_TAKES(PG_OF("account_id", PG_UUID, struct due_ref, account_id),
             PG_OF("event_id", PG_UUID, struct due_ref, id),
             PG_OF("webhook_id", PG_UUID, struct due_ref, webhook_id),
             PG_OF("attempt", PG_I64, struct due_ref, rev)),
    .key_count = 3,
    .access = PG_WRITE_ONCE,
};

/* ---- endpoints ---- */

#define OF_FAILURE(name, type) PG_OF(#name, type, struct webhook_failure, name)
static const struct pg_stmt webhook_failed = {
    .name = "webhook_failed",
    .sql = "select :ord, c.* from @input lateral sluice.webhook_failed(account_id => :account_id, "
           "id => :id, url => :url, is_gone => :is_gone and exists (select 1 from sluice.webhook w "
           "where "
           "w.account_id = :account_id and w.id = :id and w.rev = :rev), off_after_ms => "
           ":off_after_ms, event_id => :event_id, "
           "audit_id => :audit_id) c",
    PG_TAKES(OF_FAILURE(account_id, PG_UUID), OF_FAILURE(id, PG_UUID), OF_FAILURE(url, PG_TEXT),
             OF_FAILURE(rev, PG_I64), OF_FAILURE(is_gone, PG_BOOL), PG_ARG("off_after_ms", PG_I64),
             OF_FAILURE(event_id, PG_UUID), OF_FAILURE(audit_id, PG_UUID)),
    PG_GIVES(PG_ARG("is_off", PG_BOOL)),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
    .is_copied = true,
};

static const struct pg_stmt webhook_healed = {
    .name = "webhook_healed",
    .sql = "update sluice.webhook t set failures = 0, failing_since = null, paused_until = null "
           "@update(sluice.webhook) and t.failures > 0 and t.url = :url",
    PG_TAKES(OF_WEBHOOK(account_id, PG_UUID), OF_WEBHOOK(id, PG_UUID), OF_WEBHOOK(url, PG_TEXT)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
    .is_copied = true,
};

/* ---- retention ---- */

#define OF_ENDED(name, type) PG_OF(#name, type, struct delivery_ended, name)
static const struct pg_column ended_columns[] = {
    OF_ENDED(account_id, PG_UUID), OF_ENDED(event_id, PG_UUID), OF_ENDED(webhook_id, PG_UUID),
    OF_ENDED(ended_at, PG_TIME)};
static const struct pg_stmt deliveries_ended = {
    .name = "deliveries_ended",
    .sql = "select :ord, d.* from @input lateral (select b.account_id, b.event_id, b.webhook_id, "
           "b.ended_at from sluice.delivery b where b.ended_at < :before order by b.ended_at "
           "limit 1000) d",
    PG_TAKES(PG_ARG("before", PG_TIME)),
    PG_COLUMNS(ended_columns),
    .no_account = "a read-only scan for what is due, over all accounts",
    .is_spread = true,
    .spread_max = DELIVERY_ENDED_MAX,
    .spread_order = "ended_at",
};

/* The time is the fence: a row that is sent again on request has none, or a later one. coalesce
 * keeps the planner from a walk over the index of these times. */
static const struct pg_stmt delivery_remove = {
    .name = "delivery_remove",
    .sql = "delete from sluice.delivery t @delete(sluice.delivery) and coalesce(t.ended_at, "
           "'infinity') "
           "<= :ended_at",
    PG_PARAMS(ended_columns),
    .key_count = 3,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

const struct pg_stmt *const delivery_stmts[] = {&delivery_of_event,
                                                &delivery_more,
                                                &delivery_replays,
                                                &delivery_replay,
                                                &delivery_claim,
                                                &delivery_end,
                                                &webhook_failed,
                                                &webhook_healed,
                                                &deliveries_ended,
                                                &delivery_remove,
                                                NULL};

/* ---- calls ---- */

STORE_CALL_ID(store_delivery_of_event, delivery_of_event, struct uuid, pg_uuid)
STORE_CALL_OF(store_delivery_claim, delivery_claim, delivery_claim)
STORE_CALL_OF(store_delivery_more, delivery_more, delivery_more)
STORE_CALL_OF(store_delivery_replays, delivery_replays, delivery_replays)
STORE_CALL_OF(store_delivery_replay, delivery_replay, due_ref)
STORE_CALL_OF(store_delivery_end, delivery_end, delivery_end)
STORE_CALL_OF(store_webhook_healed, webhook_healed, webhook)
STORE_CALL_ONE(store_deliveries_ended, deliveries_ended, int64_t, pg_time)
STORE_CALL_OF(store_delivery_remove, delivery_remove, delivery_ended)

int store_delivery_claim_result(const struct pg_query *query, struct delivery *delivery,
                                struct webhook *webhook, bool *is_claimed)
{
    const struct pg_rows *rows = &query->rows;
    int status = store_row_result(query, delivery, sizeof(*delivery));
    *webhook = (struct webhook){0};
    *is_claimed = false;
    if (status != OK)
        return status;
    *is_claimed = pg_get_bool(rows, 0, WEBHOOK_AT - 1);
    size_t at = WEBHOOK_AT;
    webhook->account_id = pg_get_uuid(rows, 0, at++);
    webhook->id = pg_get_uuid(rows, 0, at++);
    webhook->url = pg_get_bytes(rows, 0, at++);
    webhook->sealed = pg_get_bytes(rows, 0, at++);
    webhook->old_sealed = pg_get_bytes(rows, 0, at++);
    webhook->key_id = pg_get_bytes(rows, 0, at++);
    webhook->old_until = pg_get_time(rows, 0, at++);
    webhook->off_at = pg_get_time(rows, 0, at++);
    webhook->failures = pg_get_i64(rows, 0, at++);
    webhook->rev = pg_get_i64(rows, 0, at++);
    ASSERT(at == query->stmt->column_count);
    return OK;
}

int store_delivery_end_result(const struct pg_query *query, struct due_ref *next)
{
    return store_row_result(query, next, sizeof(*next));
}

void store_webhook_failed(STORE_ARGS, const struct webhook_failure *failure)
{
    store_ask_of(pool, query, op, &webhook_failed, failure,
                 PG_VALUES(pg_i64(WEBHOOK_FAILING_DAYS * INT64_C(86400000))));
}

int store_webhook_failed_result(const struct pg_query *query, bool *is_off)
{
    *is_off = query->status == OK && query->rows.count > 0 && pg_get_bool(&query->rows, 0, 0);
    return query->status;
}
