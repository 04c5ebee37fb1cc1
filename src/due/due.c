/*
 * Fires waiting flows when they become due. Due times are in the rows; flows of the next minute are
 * also in a heap here, with one timer. Every node has all of these flows, so several nodes fire the
 * same flow, and its first transition decides which node gets it.
 *
 * `horizon` is the time up to which the heap is complete. A flow that this process parks with an
 * earlier due time is armed at once; one with a later due time is found by the next refill. If the
 * next minute has more flows than the heap may contain, the refill is truncated, and continues once
 * half of the heap has fired. Every node also scans for flows that are overdue by two seconds,
 * which finds flows that were not fired for any reason.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "flow/internal.h"

enum {
    HELD_MAX = 50000,
    HORIZON_US = 60 * 1000000,
    REFILL_US = 30 * 1000000,
    OVERDUE_US = 2 * 1000000,
    SCAN_EVERY_MS = 2000,
    SCAN_JITTER_MS = 500,
    SOON_MS = 100, /* delay while this node has no lease, and while more than one page is overdue */
    WAKES_A_TURN = 256,
    SCAN_ARENA_MAX = 1024 * 1024,
    /* Maximum delay of flows found by a scan: the node that parked a flow fires it first, and the
     * others at different times. */
    FOREIGN_DELAY_US = 50 * 1000,
};

static struct metric held =
    METRIC_INIT("sluice_flow_timers", "Due times of the next minute held in memory.", METRIC_GAUGE);

struct flow_timers {
    struct op op; /* runs scans until it is stopped */
    struct flow_service *service;
    struct pg_query query;
    struct op_timer sleep;
    struct timer timer;
    /* a binary heap by wake_at; a flow that is both armed and scanned is in it twice */
    struct flow_ref *heap;
    size_t count, cap;
    int64_t horizon, refill_at;
    int64_t resume_at; /* time and id after which the next scan of the next minute continues */
    struct uuid resume_id;
    int64_t page_at; /* position of the scan under way */
    struct uuid page_id;
    int64_t until;
    bool is_refill, is_stopped;
    bool has_more;     /* more flows are overdue than were found */
    bool is_truncated; /* the next minute has more flows than the heap may contain */
};

/* ---- the heap ---- */

static void swap(struct flow_ref *a, struct flow_ref *b)
{
    struct flow_ref held_ref = *a;
    *a = *b;
    *b = held_ref;
}

/* Returns false if the heap is full, or if out of memory. The flow is then found once it is
 * overdue. */
static bool push(struct flow_timers *timers, const struct flow_ref *ref)
{
    if (timers->count == timers->cap) {
        size_t cap = timers->cap ? timers->cap * 2 : 64;
        struct flow_ref *heap =
            timers->count < HELD_MAX ? mem_realloc(timers->heap, cap * sizeof(*heap)) : NULL;
        if (!heap)
            return false;
        timers->heap = heap;
        timers->cap = cap;
    }
    size_t at = timers->count++;
    timers->heap[at] = *ref;
    while (at > 0 && timers->heap[(at - 1) / 2].wake_at > timers->heap[at].wake_at) {
        swap(&timers->heap[(at - 1) / 2], &timers->heap[at]);
        at = (at - 1) / 2;
    }
    return true;
}

static void pop(struct flow_timers *timers, struct flow_ref *ref)
{
    ASSERT(timers->count > 0);
    *ref = timers->heap[0];
    timers->heap[0] = timers->heap[--timers->count];
    for (size_t at = 0, least;; at = least) {
        least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < timers->count; child++)
            if (timers->heap[child].wake_at < timers->heap[least].wake_at)
                least = child;
        if (least == at)
            return;
        swap(&timers->heap[at], &timers->heap[least]);
    }
}

/* ---- firing ---- */

static void set_timer(struct flow_timers *timers)
{
    metric_set(metric_series(&held, SLICE_NONE), (double)timers->count);
    if (timers->count == 0 || timers->is_stopped) {
        timer_stop(&timers->timer);
        return;
    }
    /* The delay is rounded up, since the database refuses a flow that wakes before its time. The
     * clocks of the node and the database may differ: flows fired too early are found once they are
     * overdue. */
    int64_t left_us = timers->heap[0].wake_at - clock_shared_us();
    timer_start_in_ms(&timers->timer, left_us > 0 ? (uint64_t)left_us / 1000 + 1 : 0);
}

static bool is_due(const struct flow_timers *timers, int64_t now)
{
    return timers->count > 0 && timers->heap[0].wake_at <= now;
}

/* Whether a truncated refill can continue. */
static bool wants_refill(const struct flow_timers *timers)
{
    return timers->is_truncated && timers->count < HELD_MAX / 2;
}

/* Called by the timer and whenever a slot becomes free. WAKES_A_TURN limits the time of a turn:
 * if more flows are left to fire, the timer is set to now. */
void flow_timers_fire(struct flow_timers *timers)
{
    struct flow_ref ref;
    int64_t now = clock_shared_us();
    for (size_t i = 0; i < WAKES_A_TURN && !timers->is_stopped && is_due(timers, now); i++) {
        if (!flow_service_has_room(timers->service)) {
            /* without a slot: flow_service_fire_timers calls this function when a run has ended */
            timer_stop(&timers->timer);
            return;
        }
        pop(timers, &ref);
        flow_run_wake(timers->service, &ref);
    }
    set_timer(timers);
    if (wants_refill(timers))
        op_sleep_stop(timers->op.sleep); /* the next scan begins at once */
}

static void on_due(struct timer *timer)
{
    flow_timers_fire(CONTAINER_OF(timer, struct flow_timers, timer));
}

void flow_timers_arm(struct flow_timers *timers, const struct flow *flow)
{
    struct flow_ref ref = {.account_id = flow->account_id,
                           .id = flow->id,
                           .parent_id = flow->parent_id,
                           .rev = flow->rev,
                           .wake_at = flow_due_at(flow)};
    ASSERT(ref.wake_at != 0); /* a flow that only waits for a person has no timer */
    if (timers->is_stopped || ref.wake_at > timers->horizon || !push(timers, &ref))
        return;
    if (timers->heap[0].wake_at == ref.wake_at)
        set_timer(timers); /* the flow is now the first in the heap */
}

/* ---- scanning ---- */

enum scan_step { SCAN_SLEEP, SCAN_CHOOSE, SCAN_SEND, SCAN_READ };

OP_OF(timers_of, flow_timers)

/* Two seconds between scans limit the delay of a flow that no timer fired. */
static enum op_result step_sleep(struct op *op)
{
    struct flow_timers *timers = timers_of(op);
    arena_reset(&op->arena);
    bool is_soon = timers->has_more || !node_may_write(timers->service->config.node);
    timers->has_more = false;
    op_sleep(op, &timers->sleep, is_soon ? SOON_MS : SCAN_EVERY_MS + random_below(SCAN_JITTER_MS),
             "time for the next scan");
    return OP_WAIT;
}

/* Scans the next minute every REFILL_US (the first time with all overdue flows), else overdue
 * flows. No scan runs while due flows of the heap wait for a slot. A refill covers twice its
 * interval, so that a late refill leaves no gap. */
static enum op_result step_choose(struct op *op)
{
    struct flow_timers *timers = timers_of(op);
    int64_t now = clock_shared_us();
    timers->is_refill = timers->is_truncated ? wants_refill(timers) : now >= timers->refill_at;
    if (!node_may_write(timers->service->config.node) ||
        (!timers->is_refill && is_due(timers, now))) {
        return op_jump(op, SCAN_SLEEP);
    }
    if (timers->is_refill) {
        timers->page_at = timers->resume_at;
        timers->page_id = timers->resume_id;
        /* These are set before the scan is sent: flows that are parked while it runs are armed, and
         * may be found by the scan, too. */
        timers->until = timers->horizon = now + HORIZON_US;
        timers->is_truncated = false;
    } else {
        timers->page_at = 0;
        timers->page_id = (struct uuid){{0}};
        timers->until = now - OVERDUE_US;
    }
    return OP_NEXT;
}

/* Reads one page. The position is (wake_at, id), since many flows may have the same time. */
static enum op_result step_scan(struct op *op)
{
    struct flow_timers *timers = timers_of(op);
    store_flow_due(timers->service->config.pool, &timers->query, op, timers->until, timers->page_at,
                   timers->page_id);
    return OP_WAIT;
}

/* The heap is complete up to the last pushed flow. If none was pushed (a nil id), it is complete
 * up to the time before page_at. */
static void mark_truncated(struct flow_timers *timers)
{
    ASSERT(timers->is_refill);
    timers->is_truncated = true;
    timers->resume_at = timers->page_at;
    timers->resume_id = timers->page_id;
    timers->horizon = timers->page_at - uuid_is_nil(timers->page_id);
}

/* Returns false if the heap is full. The position advances with each flow that is in the heap or
 * runs here. */
static bool push_page(struct flow_timers *timers, const struct flow_ref *refs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct flow_ref ref = refs[i];
        ref.wake_at += (int64_t)random_below(FOREIGN_DELAY_US);
        if (!flow_run_is_moving(timers->service, ref.id) && !push(timers, &ref))
            return false;
        timers->page_at = refs[i].wake_at;
        timers->page_id = refs[i].id;
    }
    return true;
}

/* A full page of a refill is followed by the next page. An overdue scan reads one page, and
 * repeats soon if the page was full, after step_choose has let these flows fire. */
static enum op_result step_scanned(struct op *op)
{
    struct flow_timers *timers = timers_of(op);
    struct flow_ref *refs = NULL;
    size_t count = 0;
    /* A failed scan counts as a full heap: the refill continues where it stopped. */
    bool is_found = store_flow_scan_result(&timers->query, &refs, &count) == OK;
    bool has_room = is_found && push_page(timers, refs, count);
    set_timer(timers);
    if (has_room && count == FLOW_DUE_MAX && timers->is_refill) {
        arena_reset(&op->arena);
        return op_jump(op, SCAN_SEND);
    }
    if (!timers->is_refill) {
        timers->has_more = count == FLOW_DUE_MAX;
    } else if (!has_room) {
        mark_truncated(timers);
    } else {
        /* Flows that are due until then are in the heap, or the node that parks them later fires
         * them. */
        timers->resume_at = timers->until + 1;
        timers->resume_id = (struct uuid){{0}};
        timers->refill_at = clock_shared_us() + REFILL_US;
    }
    return op_jump(op, SCAN_SLEEP);
}

static const struct op_step scan_steps[] = {
    [SCAN_SLEEP] = {"sleep", step_sleep, 0},
    [SCAN_CHOOSE] = {"choose", step_choose, OP_TO(SCAN_SLEEP)},
    [SCAN_SEND] = {"scan", step_scan, 0},
    [SCAN_READ] = {"scanned", step_scanned, OP_TO(SCAN_SEND) | OP_TO(SCAN_SLEEP)},
};

static const struct op_class scan_class = {
    .name = "flow_timers",
    .is_background = true,
    OP_STEPS(scan_steps),
};

struct flow_timers *flow_timers_new(struct flow_service *service)
{
    struct flow_timers *timers = mem_zalloc(sizeof(*timers));
    if (!timers)
        return NULL;
    timers->service = service;
    timer_init(&timers->timer, service->config.loop, on_due);
    op_start(&timers->op, &scan_class, service->config.loop, NULL, SCAN_ARENA_MAX);
    return timers;
}

void flow_timers_stop(struct flow_timers *timers)
{
    if (!timers || timers->is_stopped)
        return;
    timers->is_stopped = true;
    timer_stop(&timers->timer);
    op_cancel(&timers->op);
}

void flow_timers_free(struct flow_timers *timers)
{
    if (!timers)
        return;
    ASSERT(timers->is_stopped && timers->op.is_ended);
    mem_free(timers->heap);
    mem_free(timers);
}
