/*
 * Buckets per connection; see limits.h. A bucket has one timer for its whole queue, armed for the
 * earlier of two times: when the first call may be made, or when a wait times out.
 *
 * A bucket is in the idle list if and only if it has neither calls nor waiters, so that making room
 * for another is O(1) and never frees a bucket that a slot points to.
 */
#include "limit/limits.h"

#include <stdio.h>

#include "base/keyed.h"
#include "base/mem.h"
#include "base/metric.h"

enum {
    IN_FLIGHT_RETRY_MS = 1000,
    ANSWER_MS = 50, /* time to wait for the database's answer, which wakes the queue */
};

struct limits_bucket {
    struct keyed keyed; /* in limits->idle while it is empty; least recently used first */
    struct limits *limits;
    struct list waiting; /* struct limits_slot.link, oldest first */
    size_t waiting_count, in_flight;
    struct timer timer; /* due when the first in the queue may call */
    /* The manifest's limits. A lease is this process's part of one. */
    bool has_rate, has_cap;
    bool is_asking; /* more of the rate was requested, and an answer follows */
    struct lease rate, cap;
    /* the present state */
    uint64_t closed_until_ns;
    int64_t quota_left; /* valid until quota_until_ns */
    uint64_t quota_until_ns;
};

struct limits {
    struct limits_config config;
    struct keyed_table buckets;
    struct list idle;
    size_t waiting;
};

static struct metric refused_total = METRIC_INIT(
    "sluice_limits_refused_total",
    "Executions that would have waited too long for their connection's limits.", METRIC_COUNTER);
static struct metric waited_seconds =
    METRIC_INIT("sluice_limits_wait_seconds",
                "Time that executions waited for their connection's limits.", METRIC_HISTOGRAM);
static struct metric waiting_gauge = METRIC_INIT(
    "sluice_limits_waiting", "Executions that wait for their connection's limits.", METRIC_GAUGE);

static void on_due(struct timer *timer);
static const struct lease_owner rate_owner, cap_owner;

/* ---- buckets ---- */

/* Makes the key from account, connection, and the scope of the limit: an app or one of its
 * actions. */
static slice make_bucket_key(const struct limits_key *key, char out[LIMITS_KEY_MAX])
{
    const struct catalog_integration *integration = key->action->integration;
    bool is_per_action = integration->limits.is_per_action;
    slice scope = is_per_action ? key->action->tool_name : integration->integration_id;
    ASSERT(scope.len <= CATALOG_TOOL_NAME_MAX);
    memcpy(out, key->account_id.bytes, 16);
    memcpy(out + 16, &key->connection_id, 8);
    out[24] = is_per_action ? 'a' : 'i'; /* an action may have the name of another integration */
    memcpy(out + 25, scope.ptr, scope.len);
    return slice_of(out, 25 + scope.len);
}

/* Frees only an idle bucket, since slots point to their bucket. */
static void bucket_free(struct limits_bucket *bucket)
{
    ASSERT(bucket->in_flight == 0 && bucket->waiting_count == 0);
    timer_stop(&bucket->timer);
    lease_deinit(&bucket->rate);
    lease_deinit(&bucket->cap);
    keyed_drop(&bucket->limits->buckets, &bucket->keyed);
}

static bool has_all_buckets(const struct limits *limits)
{
    return limits->buckets.map.count >= limits->config.buckets_max;
}

/* The shared names of the bucket's two limits: "rate" or "calls", the connection, the scope. */
static void bucket_init_leases(struct limits_bucket *bucket, slice key)
{
    struct leases *leases = bucket->limits->config.leases;
    struct uuid account_id;
    int64_t connection_id;
    char name[RATE_LEASE_NAME_MAX];
    memcpy(account_id.bytes, key.ptr, 16);
    memcpy(&connection_id, key.ptr + 16, 8);
    slice scope = slice_from(key, 25);
    int len = snprintf(name, sizeof(name), "rate %lld %c %.*s", (long long)connection_id,
                       key.ptr[24], SLICE_ARG(scope));
    lease_init(&bucket->rate, leases, &rate_owner, account_id, slice_of(name, (size_t)len));
    len = snprintf(name, sizeof(name), "calls %lld %c %.*s", (long long)connection_id, key.ptr[24],
                   SLICE_ARG(scope));
    lease_init(&bucket->cap, leases, &cap_owner, account_id, slice_of(name, (size_t)len));
}

/* Returns NULL if no bucket is idle, or if out of memory. The call then has no limit here, but the
 * provider still counts it. */
static struct limits_bucket *bucket_new(struct limits *limits, slice key)
{
    /* limits_new's caller has made buckets_max larger than the possible number of executions, so
     * a bucket is idle; the limit is enforced anyway. */
    if (has_all_buckets(limits) && !list_is_empty(&limits->idle))
        bucket_free(LIST_ITEM(limits->idle.next, struct limits_bucket, keyed.ring));
    struct limits_bucket *bucket = has_all_buckets(limits) ? NULL
                                                           : keyed_get(&limits->buckets, key);
    if (!bucket)
        return NULL;
    bucket->limits = limits;
    bucket_init_leases(bucket, key);
    list_init(&bucket->waiting);
    timer_init(&bucket->timer, limits->config.loop, on_due);
    list_push_back(&limits->idle, &bucket->keyed.ring);
    return bucket;
}

/* Applies the manifest's current limits, since it may have been reloaded. The tokens keep their
 * state, so a reload adds no burst. */
static void bucket_configure(struct limits_bucket *bucket, const struct catalog_limits *wanted,
                             uint64_t now)
{
    double rate = wanted->rate_per_s;
    double burst = wanted->burst > 0 ? wanted->burst : rate < 1 ? 1 : rate;
    int64_t millionths = (int64_t)(rate * LEASE_MILLION);
    bucket->has_rate = rate > 0;
    bucket->has_cap = wanted->in_flight_max > 0;
    if (bucket->has_rate)
        lease_set(&bucket->rate, millionths > 0 ? millionths : 1, (int64_t)(burst * LEASE_MILLION),
                  now);
    if (bucket->has_cap)
        lease_set(&bucket->cap, (int64_t)wanted->in_flight_max, 0, now);
}

static void bucket_settle(struct limits_bucket *bucket)
{
    list_unlink(&bucket->keyed.ring);
    if (bucket->in_flight == 0 && bucket->waiting_count == 0) {
        timer_stop(&bucket->timer);
        list_push_back(&bucket->limits->idle, &bucket->keyed.ring);
    }
}

/* ---- when a call may go ---- */

static void bucket_fill(struct limits_bucket *bucket, uint64_t now)
{
    if (bucket->has_rate)
        lease_fill(&bucket->rate, now);
    if (bucket->has_cap)
        lease_fill(&bucket->cap, now);
}

/* Returns the earliest time for the call at `position` in the queue (1: the first), if concurrent
 * calls do not delay it. The bucket's tokens must be up to date. */
static uint64_t bucket_open_ns(const struct limits_bucket *bucket, size_t position, uint64_t now)
{
    uint64_t at = now;
    if (bucket->closed_until_ns > at)
        at = bucket->closed_until_ns;
    if (bucket->quota_until_ns > at && bucket->quota_left < (int64_t)position)
        at = bucket->quota_until_ns;
    if (!bucket->has_rate)
        return at;
    uint64_t wait_ns = lease_wait_ns(&bucket->rate, (double)position);
    if (bucket->is_asking && wait_ns > ANSWER_MS * 1000000ULL)
        wait_ns = ANSWER_MS * 1000000ULL;
    return now + wait_ns > at ? now + wait_ns : at;
}

static bool bucket_has_slot(const struct limits_bucket *bucket)
{
    return !bucket->has_cap || bucket->in_flight < (size_t)bucket->cap.part;
}

/* Requests more if this process's parts are too small for the next call in the queue, or for a
 * hypothetical call. */
static void bucket_ask(struct limits_bucket *bucket, uint64_t now)
{
    double wanted = (double)bucket->waiting_count;
    bucket->is_asking = false;
    if (bucket->has_rate && lease_wait_ns(&bucket->rate, wanted > 1 ? wanted : 1) > 0)
        bucket->is_asking = lease_wants_more(&bucket->rate, now);
    if (!bucket_has_slot(bucket))
        (void)lease_wants_more(&bucket->cap, now);
}

static void bucket_take(struct limits_bucket *bucket)
{
    bucket->in_flight++;
    if (bucket->has_rate)
        lease_spend(&bucket->rate, 1);
    if (bucket->has_cap)
        lease_spend(&bucket->cap, 1);
    if (bucket->quota_left > 0)
        bucket->quota_left--;
}

/* ---- the queue ---- */

static void queue_counted(struct limits *limits, size_t waiting)
{
    limits->waiting = waiting;
    metric_set(metric_series(&waiting_gauge, SLICE_NONE), (double)waiting);
}

/* Removes a waiter from the queue; its op continues with the verdict. */
static void slot_dequeue(struct limits_slot *slot, enum limits_verdict verdict)
{
    struct limits_bucket *bucket = slot->bucket;
    struct op *op = slot->op;
    list_unlink(&slot->link);
    bucket->waiting_count--;
    queue_counted(bucket->limits, bucket->limits->waiting - 1);
    slot->op = NULL;
    slot->verdict = verdict;
    if (verdict != LIMITS_FREE)
        slot->bucket = NULL;
    metric_time(&waited_seconds, loop_now_ns(bucket->limits->config.loop) - slot->entered_ns);
    op_release(op);
}

static uint64_t ms_until(uint64_t at, uint64_t now)
{
    return at > now ? (at - now + 999999) / 1000000 : 0;
}

static void slot_refuse(struct limits_slot *slot, uint64_t open_ns, uint64_t now)
{
    uint64_t wait_ms = ms_until(open_ns, now);
    slot->retry_after_ms = wait_ms > 0 ? wait_ms : IN_FLIGHT_RETRY_MS;
    metric_inc(&refused_total);
}

/* Starts the calls whose turn it is, refuses those that have timed out or would be too late, and
 * sets the timer. */
static void bucket_serve(struct limits_bucket *bucket)
{
    uint64_t now = loop_now_ns(bucket->limits->config.loop), next = UINT64_MAX;
    bucket_fill(bucket, now);
    while (!list_is_empty(&bucket->waiting) && bucket_has_slot(bucket) &&
           bucket_open_ns(bucket, 1, now) <= now) {
        bucket_take(bucket);
        slot_dequeue(LIST_ITEM(bucket->waiting.next, struct limits_slot, link), LIMITS_FREE);
    }
    if (!list_is_empty(&bucket->waiting))
        bucket_ask(bucket, now);
    /* The whole queue is checked, at most LIMITS_WAITING_MAX calls: a reply may just have closed
     * the connection for longer than some of them can wait, and these are refused now instead of
     * when they time out. */
    uint64_t open = bucket_open_ns(bucket, 1, now);
    LIST_EACH(&bucket->waiting, struct limits_slot, slot, link) {
        if (slot->due_ns <= now || open > slot->due_ns) {
            slot_refuse(slot, open, now);
            slot_dequeue(slot, LIMITS_REFUSED);
        } else if (slot->due_ns < next) {
            next = slot->due_ns;
        }
    }
    if (open > now && open < next)
        next = open;
    if (!list_is_empty(&bucket->waiting))
        timer_start(&bucket->timer, next);
    bucket_settle(bucket);
}

static void on_due(struct timer *timer)
{
    bucket_serve(CONTAINER_OF(timer, struct limits_bucket, timer));
}

/* A call whose turn cannot come in time is refused without waiting: the caller gets the time
 * after which to retry. */
static enum limits_verdict slot_enqueue(struct limits_bucket *bucket, struct limits_slot *slot,
                                        uint64_t until_ns, struct op *op)
{
    uint64_t now = loop_now_ns(bucket->limits->config.loop);
    bucket_ask(bucket, now);
    uint64_t open = bucket_open_ns(bucket, bucket->waiting_count + 1, now);
    if (open > until_ns || until_ns <= now || bucket->waiting_count >= LIMITS_WAITING_MAX) {
        slot_refuse(slot, open, now);
        bucket_settle(bucket);
        return slot->verdict = LIMITS_REFUSED;
    }
    slot->bucket = bucket;
    slot->op = op;
    slot->entered_ns = now;
    slot->due_ns = until_ns;
    list_push_back(&bucket->waiting, &slot->link);
    bucket->waiting_count++;
    queue_counted(bucket->limits, bucket->limits->waiting + 1);
    op_hold(op, "its connection's limits");
    if (open > now && open < until_ns)
        until_ns = open;
    if (!timer_is_armed(&bucket->timer) || until_ns < bucket->timer.due_ns)
        timer_start(&bucket->timer, until_ns);
    bucket_settle(bucket);
    return LIMITS_QUEUED;
}

static void ask_of(struct lease *lease, const struct limits_bucket *bucket)
{
    lease->backlog = bucket->waiting_count;
    lease->floor = bucket->in_flight;
}

static void on_rate_ask(struct lease *lease)
{
    ask_of(lease, CONTAINER_OF(lease, struct limits_bucket, rate));
    lease->floor = 0;
}

static void on_rate_answer(struct lease *lease)
{
    bucket_serve(CONTAINER_OF(lease, struct limits_bucket, rate));
}

static void on_cap_ask(struct lease *lease)
{
    ask_of(lease, CONTAINER_OF(lease, struct limits_bucket, cap));
}

static void on_cap_answer(struct lease *lease)
{
    bucket_serve(CONTAINER_OF(lease, struct limits_bucket, cap));
}

static const struct lease_owner rate_owner = {on_rate_ask, on_rate_answer};
static const struct lease_owner cap_owner = {on_cap_ask, on_cap_answer};

/* ---- enter and leave ---- */

enum limits_verdict limits_enter(struct limits *limits, struct limits_slot *slot,
                                 const struct limits_key *key, uint64_t until_ns, struct op *op)
{
    const struct catalog_limits *wanted = &key->action->integration->limits;
    char text[LIMITS_KEY_MAX];
    *slot = (struct limits_slot){.verdict = LIMITS_FREE};
    list_init(&slot->link);
    bool is_wanted = wanted->rate_per_s > 0 || wanted->in_flight_max > 0;
    if (limits->config.is_off || (!is_wanted && limits->buckets.map.count == 0))
        return LIMITS_FREE;
    slice name = make_bucket_key(key, text);
    struct limits_bucket *bucket = keyed_find(&limits->buckets, name);
    if (!bucket && is_wanted)
        bucket = bucket_new(limits, name);
    if (!bucket) /* there is no limit, or no memory to count; the provider counts, too */
        return LIMITS_FREE;
    uint64_t now = loop_now_ns(limits->config.loop);
    bucket_configure(bucket, wanted, now);
    bucket_fill(bucket, now);
    lease_arrive(&bucket->rate, now);
    if (bucket->waiting_count > 0 || !bucket_has_slot(bucket) ||
        bucket_open_ns(bucket, 1, now) > now)
        return slot_enqueue(bucket, slot, until_ns, op);
    bucket_take(bucket);
    bucket_settle(bucket);
    slot->bucket = bucket;
    return LIMITS_FREE;
}

/* The number of calls in flight does not change. bucket_take may make the tokens negative; later
 * calls then wait longer. */
uint64_t limits_repeat(struct limits_slot *slot)
{
    struct limits_bucket *bucket = slot->bucket;
    if (!bucket)
        return 0;
    ASSERT(!slot->op);
    uint64_t now = loop_now_ns(bucket->limits->config.loop);
    bucket_fill(bucket, now);
    bucket->is_asking = false; /* the turn is computed at this process's own rate */
    uint64_t open = bucket_open_ns(bucket, 1, now);
    bucket->in_flight--;
    bucket_take(bucket);
    return ms_until(open, now);
}

/* A freed slot goes to the next call in the same turn. */
void limits_leave(struct limits_slot *slot, bool is_used)
{
    struct limits_bucket *bucket = slot->bucket;
    if (!bucket)
        return;
    if (slot->op) {
        slot_dequeue(slot, LIMITS_REFUSED);
    } else {
        ASSERT(bucket->in_flight > 0);
        bucket->in_flight--;
        if (!is_used && bucket->has_rate)
            lease_spend(&bucket->rate, -1);
        slot->bucket = NULL;
    }
    bucket_serve(bucket);
}

/* ---- what providers report ---- */

/* A provider's report applies until the next one, at most LIMITS_CLOSED_MS_MAX: a wrong clock must
 * not close a connection for a day. */
static void bucket_learn(struct limits_bucket *bucket, const struct limits_feedback *feedback)
{
    uint64_t now = loop_now_ns(bucket->limits->config.loop);
    /* The provider counts more strictly than the manifest, so saved tokens are no longer valid. */
    if (feedback->is_too_fast && bucket->rate.tokens.tokens > 0)
        bucket->rate.tokens.tokens = 0;
    if (feedback->is_too_fast && feedback->retry_after_ms > 0) {
        int64_t ms = feedback->retry_after_ms < LIMITS_CLOSED_MS_MAX ? feedback->retry_after_ms
                                                                     : LIMITS_CLOSED_MS_MAX;
        uint64_t until = now + (uint64_t)ms * 1000000;
        if (until > bucket->closed_until_ns)
            bucket->closed_until_ns = until;
    }
    if (feedback->remaining < 0 || feedback->reset_ms <= 0)
        return;
    int64_t ms = feedback->reset_ms < LIMITS_CLOSED_MS_MAX ? feedback->reset_ms
                                                           : LIMITS_CLOSED_MS_MAX;
    /* the provider may not have counted the other calls under way yet */
    int64_t others = bucket->in_flight > 0 ? (int64_t)bucket->in_flight - 1 : 0;
    bucket->quota_left = feedback->remaining > others ? feedback->remaining - others : 0;
    bucket->quota_until_ns = now + (uint64_t)ms * 1000000;
}

void limits_learn(struct limits *limits, struct limits_slot *slot, const struct limits_key *key,
                  const struct limits_feedback *feedback)
{
    struct limits_bucket *bucket = slot->bucket;
    char text[LIMITS_KEY_MAX];
    bool is_closing = feedback->is_too_fast && feedback->retry_after_ms > 0;
    bool is_quota = feedback->remaining >= 0 && feedback->reset_ms > 0;
    ASSERT(!slot->op);
    if (limits->config.is_off || (!is_closing && !is_quota && !(feedback->is_too_fast && bucket)))
        return;
    if (!bucket) {
        slice name = make_bucket_key(key, text);
        bucket = keyed_find(&limits->buckets, name);
        if (!bucket)
            bucket = bucket_new(limits, name);
    }
    if (!bucket)
        return;
    bucket_learn(bucket, feedback);
    bucket_serve(bucket);
}

/* This only reads: it never creates a bucket. */
uint64_t limits_closed_ms(const struct limits *limits, const struct limits_key *key)
{
    char text[LIMITS_KEY_MAX];
    const struct limits_bucket *bucket = keyed_find(&limits->buckets, make_bucket_key(key, text));
    uint64_t now = loop_now_ns(limits->config.loop), until = 0;
    if (!bucket || limits->config.is_off)
        return 0;
    until = bucket->closed_until_ns;
    if (bucket->quota_until_ns > until && bucket->quota_left <= 0)
        until = bucket->quota_until_ns;
    return ms_until(until, now);
}

/* ---- creation and removal ---- */

struct limits *limits_new(const struct limits_config *config)
{
    struct limits *limits = mem_zalloc(sizeof(*limits));
    if (!limits)
        return NULL;
    ASSERT(config->buckets_max > 0);
    limits->config = *config;
    keyed_init(&limits->buckets, sizeof(struct limits_bucket));
    list_init(&limits->idle);
    return limits;
}

void limits_free(struct limits *limits)
{
    if (!limits)
        return;
    while (!list_is_empty(&limits->idle))
        bucket_free(LIST_ITEM(limits->idle.next, struct limits_bucket, keyed.ring));
    keyed_deinit(&limits->buckets);
    mem_free(limits);
}
