/*
 * delivery: an event for one endpoint (sql/0036_webhooks.sql). Rows are inserted by the statements
 * of changes (STORE_OUTBOX in internal.h). A row that is due is claimed, sent, and ended or put
 * off, each by a statement that is fenced by the number of its attempts. A claim moves the due
 * time, so that the row is due again if its process ends: there are no owners.
 */
#ifndef STORE_DELIVERY_H
#define STORE_DELIVERY_H

#include "store/due.h"
#include "store/webhook.h"

enum delivery_status { DELIVERY_PENDING, DELIVERY_DELIVERED, DELIVERY_FAILED };

struct delivery {
    struct uuid account_id, event_id, webhook_id;
    struct uuid parent_id; /* of a user's row: the account, which has the endpoint; else nil */
    slice kind;
    struct uuid object; /* the changed row */
    int64_t rev;        /* its revision */
    int64_t at;
    slice data; /* JSON */
    int64_t attempt;
    int64_t replayed_after; /* attempts before it was last sent again on request; 0: it was not */
};

/* Lists the pending rows of an event as references. Read the result with store_due_scan_result. */
void store_delivery_of_event(STORE_ARGS, struct uuid account_id, struct uuid event_id);

/* Claims a row that is due and has had ref->rev attempts, for twice timeout_ms. It is put off
 * instead, with no attempt counted, if `is_full`, if an event of its object with a lower rev is
 * pending, or if its endpoint is paused: for longer the older it is, at most an hour, so that the
 * rows of a dead endpoint do not fill the scans. is_next: it need not be due, since the event
 * before it has just ended (delivery_ended). */
struct delivery_claim {
    struct due_ref ref;
    bool is_full, is_next;
    int64_t timeout_ms;
};
void store_delivery_claim(STORE_ARGS, const struct delivery_claim *claim);
/* Returns ERR_NOTFOUND if another process has the row, or if it has ended. *is_claimed: it is to be
 * sent; else it was put off. webhook->id is nil if the account no longer has the endpoint. */
int store_delivery_claim_result(const struct pg_query *query, struct delivery *delivery,
                                struct webhook *webhook, bool *is_claimed) MUST_CHECK;

/* Ends an attempt. */
struct delivery_end {
    struct uuid account_id, event_id, webhook_id;
    int64_t attempt;
    enum delivery_status status; /* PENDING: it is due again after delay_ms */
    int64_t delay_ms;
    int64_t code;  /* the reply's status; 0: none */
    slice problem; /* SLICE_NONE: none */
    bool
        is_uncounted; /* the endpoint was not called: the row keeps its former number of attempts */
};
void store_delivery_end(STORE_ARGS, const struct delivery_end *end);
/* Returns ERR_NOTFOUND if another process has claimed the row since. *next: the pending row with
 * the object's next event for this endpoint, if this one has ended; its id is nil if there is none.
 */
int store_delivery_end_result(const struct pg_query *query, struct due_ref *next) MUST_CHECK;

/* Lists pending rows of the endpoint without an attempt since they were written or last sent again
 * on request, whether they are due or were put off: those with event ids from `since`, by id, at
 * most DELIVERY_MORE_MAX. Read the result with store_due_scan_result. */
enum { DELIVERY_MORE_MAX = 50 };
struct delivery_more {
    struct uuid webhook_id, since;
};
void store_delivery_more(STORE_ARGS, const struct delivery_more *more);

/* For sending again on request. Lists rows of the endpoint with event ids from `since` to `until`,
 * those after `after`, by id, at most DELIVERY_REPLAYS_MAX: failed ones; if since is until, any.
 * Read the result with store_due_scan_result. */
enum { DELIVERY_REPLAYS_MAX = 500 };
struct delivery_replays {
    struct uuid webhook_id, since, until, after;
};
void store_delivery_replays(STORE_ARGS, const struct delivery_replays *replays);
/* Makes a row that has ended due now, outside of the order of its object's events: read the result
 * with store_hit_result. The number of its attempts goes on, since it fences late ends. */
void store_delivery_replay(STORE_ARGS, const struct due_ref *ref);

/* An endpoint has failed: its failures are counted, from the third in a row on it is paused, and it
 * goes off if is_gone, or if it has failed for WEBHOOK_FAILING_DAYS. That has an audit event, and
 * the other endpoints of the account hear of it. Not replayed: a count too high or too low by one
 * does no harm. */
enum { WEBHOOK_FAILING_DAYS = 5, WEBHOOK_PAUSED_FROM = 3 };
struct webhook_failure {
    struct uuid account_id, id;
    slice url;   /* that was called; an endpoint that has another one by now is left unchanged */
    int64_t rev; /* of the endpoint at the claim: is_gone says nothing about a later one, which may
                  * have been switched on again */
    bool is_gone;
    struct uuid event_id, audit_id;
};
void store_webhook_failed(STORE_ARGS, const struct webhook_failure *failure);
/* Whether the endpoint went off. */
int store_webhook_failed_result(const struct pg_query *query, bool *is_off) MUST_CHECK;
/* A message has arrived at webhook->url: earlier failures are forgotten. */
void store_webhook_healed(STORE_ARGS, const struct webhook *webhook);

/* Lists up to DELIVERY_ENDED_MAX rows that ended before `before`, and removes one. */
enum { DELIVERY_ENDED_MAX = 1000 };
struct delivery_ended {
    struct uuid account_id, event_id, webhook_id;
    int64_t ended_at;
};
void store_deliveries_ended(STORE_ARGS, int64_t before);
STORE_LIST_RESULT(store_deliveries_ended_result, delivery_ended)
/* Read the result with store_done_result. */
void store_delivery_remove(STORE_ARGS, const struct delivery_ended *delivery);

#endif
