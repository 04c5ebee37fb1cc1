/*
 * One delivery: the row is claimed, the message is sent, and the row ends or is put off until the
 * next attempt. Whatever happens to this process, the row is due again after twice the time that a
 * message may take; so a message arrives at least once.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "event/internal.h"
#include "event/outbox.h"
#include "event/send.h"
#include "json/json.h"
#include "store/account_user.h"

enum {
    DELIVERY_ARENA_BYTES_MAX = 256 * 1024,
    END_TRIES_MAX = 5, /* of the statement; then the row is due again by itself */
    END_RETRY_MS = 500,
    MARGIN_US = 20 * 1000,    /* a timer that is early finds nothing */
    OUR_DELAY_MS = 30 * 1000, /* after a fault of this process: another may have the row then */
    UNTRIED_HOURS = 24,       /* from then on such faults are attempts, so that each row ends */
    GONE = 410,
};

/* Seconds before each further attempt: three days in all. */
static const uint32_t delays_s[] = {5,        60,        5 * 60,    30 * 60,  2 * 3600,
                                    6 * 3600, 12 * 3600, 24 * 3600, 24 * 3600};

static struct metric deliveries_total = METRIC_INIT(
    "sluice_deliveries_total", "Attempts to deliver an event, by result.", METRIC_COUNTER);

enum delivery_step {
    DELIVERY_CLAIM,
    DELIVERY_CLAIMED,
    DELIVERY_NAMED,
    DELIVERY_SEND,
    DELIVERY_SENT,
    DELIVERY_END,
    DELIVERY_ENDED,
    DELIVERY_MARK,
    DELIVERY_MARKED,
};

struct event_delivery {
    struct op op;
    struct event_service *service;
    struct event_row *row;
    struct pg_query query;
    struct op_timer timer;
    struct delivery_claim claim;
    struct delivery delivery;
    struct webhook webhook;
    slice user; /* the end user's external id; SLICE_NONE: the event is the account's own */
    struct event_send send;
    struct delivery_end end;
    struct webhook_failure failure;
    unsigned tries;
    char user_id[UUID_TEXT_LEN + 1];
};

OP_OF(delivery_of, event_delivery)

/* ---- claiming ---- */

static enum op_result step_claim(struct op *op)
{
    struct event_delivery *d = delivery_of(op);
    d->claim = (struct delivery_claim){.ref = d->row->ref,
                                       .is_full = d->row->is_full,
                                       .is_next = d->row->is_next,
                                       .timeout_ms = d->service->config.timeout_ms};
    store_delivery_claim(d->service->config.pool, &d->query, op, &d->claim);
    return OP_WAIT;
}

static void end_with(struct event_delivery *d, enum delivery_status status, slice problem)
{
    d->end = (struct delivery_end){.account_id = d->delivery.account_id,
                                   .event_id = d->delivery.event_id,
                                   .webhook_id = d->delivery.webhook_id,
                                   .attempt = d->delivery.attempt,
                                   .status = status,
                                   .problem = problem};
}

/* An endpoint that went off, or was deleted, gets none of its pending events. */
static enum op_result step_claimed(struct op *op)
{
    struct event_delivery *d = delivery_of(op);
    bool is_claimed;
    int status = store_delivery_claim_result(&d->query, &d->delivery, &d->webhook, &is_claimed);
    if (status == OK && !is_claimed && !d->row->is_full)
        d->row->is_held = d->webhook.failures >= WEBHOOK_PAUSED_FROM;
    if (status != OK || !is_claimed)
        return OP_DONE; /* another process has it, or it was put off; else it is found again */
    bool is_there = !uuid_is_nil(d->webhook.id);
    if (!is_there || d->webhook.off_at != 0 || !d->webhook.url.ptr) {
        end_with(d, DELIVERY_FAILED,
                 is_there ? SLICE("the webhook is switched off")
                          : SLICE("the webhook was deleted"));
        return op_jump(op, DELIVERY_END);
    }
    if (uuid_is_nil(d->delivery.parent_id))
        return op_jump(op, DELIVERY_SEND);
    uuid_format(d->delivery.account_id, d->user_id);
    store_account_user_names(d->service->config.pool, &d->query, op, d->delivery.parent_id,
                             slice_cstr(d->user_id));
    return OP_WAIT;
}

/* If the user cannot be read, nothing was sent, so the claim does not count as an attempt. */
static enum op_result step_named(struct op *op)
{
    struct event_delivery *d = delivery_of(op);
    struct account_user *users;
    size_t count;
    int status = store_account_user_list_result(&d->query, &users, &count);
    if (status == OK && count == 0) {
        end_with(d, DELIVERY_FAILED, SLICE("the user of the event was erased"));
        return op_jump(op, DELIVERY_END);
    }
    if (status != OK) {
        end_with(d, DELIVERY_PENDING, SLICE("the user of the event could not be read"));
        d->end.is_uncounted = true;
        d->end.delay_ms = OUR_DELAY_MS;
        return op_jump(op, DELIVERY_END);
    }
    d->user = users[0].external_id;
    return OP_NEXT;
}

/* ---- sending ---- */

/* The row's data with two more members. All attempts send the same bytes: none of them changes. */
static slice make_data(const struct event_delivery *d, struct arena *arena)
{
    struct buf text;
    slice data = event_row_data(d->delivery.data, d->user, arena);
    ASSERT(d->delivery.data.len > 2 && d->delivery.data.ptr[0] == '{');
    if (!data.ptr)
        return SLICE_NONE;
    buf_init(&text, EVENT_MESSAGE_DATA_MAX);
    buf_printf(&text, "{\"rev\":%lld,", (long long)d->delivery.rev);
    if (d->user.ptr) {
        buf_append(&text, SLICE("\"user\":"));
        json_write_str(&text, d->user);
        buf_append_char(&text, ',');
    }
    buf_append(&text, slice_from(data, 1));
    return arena_take(arena, &text);
}

static enum op_result step_send(struct op *op)
{
    struct event_delivery *d = delivery_of(op);
    struct event_message message = {.id = d->delivery.event_id,
                                    .kind = d->delivery.kind,
                                    .at = d->delivery.at,
                                    .data = make_data(d, &op->arena)};
    if (!message.data.ptr)
        return OP_DONE; /* out of memory: it is due again */
    op_keep_children(op);
    event_send_start(d->service, &d->send, &d->webhook, &message, op);
    return OP_WAIT;
}

/* Attempts since the event was written, or was last sent again on request. */
static int64_t tries_of(const struct event_delivery *d)
{
    return d->delivery.attempt - d->delivery.replayed_after;
}

/* 10 % of the delay is random, so that events of one moment are not sent again in one moment. A
 * longer Retry-After is respected. */
static int64_t delay_ms_of(const struct event_delivery *d)
{
    int64_t delay_ms = (int64_t)delays_s[tries_of(d) - 1] * 1000;
    int64_t pause_ms = (int64_t)d->send.pause_s * 1000;
    return (pause_ms > delay_ms ? pause_ms : delay_ms) +
           (int64_t)random_below((uint64_t)delay_ms / 10);
}

/* The proxy's failures are attempts: they may well be the endpoint's (a proxy answers 502 for a
 * host that is down), and a row that never ends would fill the places of its account. */
static bool is_uncounted(const struct event_delivery *d)
{
    int64_t age_us = clock_shared_us() - d->delivery.at;
    return d->send.is_untried && age_us < UNTRIED_HOURS * INT64_C(3600000000);
}

/* A 410 ends no row: the next attempt finds that the endpoint is off, or that it has another URL by
 * now. What was not sent because of this process is tried again soon. */
static enum op_result step_sent(struct op *op)
{
    struct event_delivery *d = delivery_of(op);
    const struct event_send *send = &d->send;
    bool is_again = is_uncounted(d);
    d->row->is_sent = true;
    d->row->is_accepted = send->is_delivered;
    d->row->has_healed = send->is_delivered && d->webhook.failures > 0;
    bool is_last = tries_of(d) > (int64_t)ARRAY_LEN(delays_s) && !is_again;
    enum delivery_status status = send->is_delivered ? DELIVERY_DELIVERED
                                  : is_last          ? DELIVERY_FAILED
                                                     : DELIVERY_PENDING;
    end_with(d, status,
             send->is_delivered ? SLICE_NONE : arena_dup(&op->arena, slice_cstr(send->problem)));
    d->end.code = send->status;
    d->end.is_uncounted = is_again;
    if (status == DELIVERY_PENDING)
        d->end.delay_ms = is_again ? OUR_DELAY_MS : delay_ms_of(d);
    return OP_NEXT;
}

/* ---- ending ---- */

static enum op_result step_end(struct op *op)
{
    struct event_delivery *d = delivery_of(op);
    store_delivery_end(d->service->config.pool, &d->query, op, &d->end);
    return OP_WAIT;
}

static void count_delivery(const struct event_delivery *d)
{
    static const slice labels[] = {[DELIVERY_PENDING] = SLICE_INIT("as=\"retried\""),
                                   [DELIVERY_DELIVERED] = SLICE_INIT("as=\"delivered\""),
                                   [DELIVERY_FAILED] = SLICE_INIT("as=\"failed\"")};
    metric_add(metric_series(&deliveries_total, labels[d->end.status]), 1);
}

/* The object's next event is sent at once; another attempt when its time comes. */
static void follow(struct event_delivery *d, const struct due_ref *next)
{
    struct due_ref again = d->row->ref;
    again.rev = d->end.attempt - d->end.is_uncounted;
    again.at = clock_shared_us() + d->end.delay_ms * 1000 + MARGIN_US;
    if (d->end.status == DELIVERY_PENDING)
        due_arm(d->service->config.due, &again);
    else if (!uuid_is_nil(next->id))
        event_outbox_take(d->service, next, true);
}

static enum op_result step_ended(struct op *op)
{
    struct event_delivery *d = delivery_of(op);
    struct due_ref next;
    int status = store_delivery_end_result(&d->query, &next);
    if (status != OK && status != ERR_NOTFOUND && ++d->tries < END_TRIES_MAX) {
        op_sleep(op, &d->timer, END_RETRY_MS, "the database, to end a delivery");
        return op_wait_then(op, DELIVERY_END);
    }
    if (status != OK)
        return OP_DONE; /* another process has it since, or it is due again */
    count_delivery(d);
    follow(d, &next);
    return d->send.service && !d->send.is_ours ? OP_NEXT : OP_DONE;
}

/* The endpoint's row changes only while it fails, and when it no longer does. */
static enum op_result step_mark(struct op *op)
{
    struct event_delivery *d = delivery_of(op);
    struct pg_pool *pool = d->service->config.pool;
    if (d->send.is_delivered && d->webhook.failures == 0)
        return OP_DONE;
    if (d->send.is_delivered) {
        store_webhook_healed(pool, &d->query, op, &d->webhook);
        return OP_WAIT;
    }
    d->failure = (struct webhook_failure){.account_id = d->webhook.account_id,
                                          .id = d->webhook.id,
                                          .url = d->webhook.url,
                                          .rev = d->webhook.rev,
                                          .is_gone = d->send.status == GONE,
                                          .event_id = uuid_v7(),
                                          .audit_id = uuid_v7()};
    store_webhook_failed(pool, &d->query, op, &d->failure);
    return OP_WAIT;
}

/* A lost count does no harm: the next failure counts. */
static enum op_result step_marked(struct op *op)
{
    struct event_delivery *d = delivery_of(op);
    bool is_off = false;
    if (!d->send.is_delivered && store_webhook_failed_result(&d->query, &is_off) == OK && is_off) {
        op_log(op, LOG_WARN, "a webhook was switched off",
               LOG_CSTR("because", d->failure.is_gone ? "it answered 410" : "it fails"));
        event_written(d->service, d->webhook.account_id, d->failure.event_id);
    }
    return OP_DONE;
}

static const struct op_step steps[] = {
    [DELIVERY_CLAIM] = {"claim", step_claim, 0},
    [DELIVERY_CLAIMED] = {"claimed", step_claimed, OP_TO(DELIVERY_END) | OP_TO(DELIVERY_SEND)},
    [DELIVERY_NAMED] = {"named", step_named, OP_TO(DELIVERY_END)},
    [DELIVERY_SEND] = {"send", step_send, 0},
    [DELIVERY_SENT] = {"sent", step_sent, 0},
    [DELIVERY_END] = {"end", step_end, 0},
    [DELIVERY_ENDED] = {"ended", step_ended, OP_TO(DELIVERY_END)},
    [DELIVERY_MARK] = {"mark", step_mark, 0},
    [DELIVERY_MARKED] = {"marked", step_marked, 0},
};

static void on_cancel(struct op *op)
{
    op_cancel(&delivery_of(op)->send.op);
}

static void on_end(struct op *op, enum op_end end)
{
    struct event_delivery *d = delivery_of(op);
    (void)end;
    event_outbox_ended(d->service, d->row);
}

static const struct op_class delivery_class = {
    .name = "delivery",
    .is_background = true,
    OP_STEPS(steps),
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = op_free_struct,
};

bool event_deliver_start(struct event_service *service, struct event_row *row)
{
    struct event_delivery *d = mem_zalloc(sizeof(*d));
    if (!d)
        return false;
    d->service = service;
    d->row = row;
    op_start(&d->op, &delivery_class, service->config.loop, NULL, DELIVERY_ARENA_BYTES_MAX);
    op_account_set(&d->op, row->lane->payer_id);
    row->op = &d->op;
    return true;
}
