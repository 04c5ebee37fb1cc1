/*
 * The timers of rows; see due.h.
 *
 * A heap's `horizon` is the time up to which it is complete. A row that this process writes with an
 * earlier due time is armed at once; one with a later due time is found by the next refill. If the
 * next minute has more rows than the heap may contain, its refill is truncated, and continues once
 * half of it has fired. Every node also scans for rows that are overdue by two seconds,
 * which finds rows that were not fired for any reason.
 *
 * Each kind has a heap of its own: rows of a kind without room wait in theirs, and those of other
 * kinds fire meanwhile.
 */
#include "due/due.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"

enum {
    HELD_MAX = 50000, /* of each kind */
    HORIZON_US = 60 * 1000000,
    REFILL_US = 30 * 1000000,
    OVERDUE_US = 2 * 1000000,
    SCAN_EVERY_MS = 2000,
    SCAN_JITTER_MS = 500,
    SOON_MS = 100, /* delay while this node has no lease, and while more than one page is overdue */
    FIRED_A_TURN = 256,
    SCAN_ARENA_MAX = 2 * 1024 * 1024,
    /* Maximum delay of rows found by a scan: the node that wrote a row fires it first, and the
     * others at different times. */
    FOREIGN_DELAY_US = 50 * 1000,
};

static struct metric held =
    METRIC_INIT("sluice_flow_timers", "Due times of the next minute held in memory.", METRIC_GAUGE);
static struct metric overdue = METRIC_INIT(
    "sluice_due_overdue_seconds",
    "How long the row that is due the longest has waited to be taken, by kind.", METRIC_GAUGE);

/* A binary heap by time; a row that is both armed and scanned is in it twice. */
struct due_heap {
    const struct due_class *class; /* NULL: the kind has no owner */
    void *owner;
    struct due_ref *refs;
    size_t count, cap;
    /* The heap is complete up to this time. A refill that did not fit is continued after
     * resume_at and resume_id. */
    int64_t horizon, resume_at;
    struct uuid resume_id;
    int64_t late_us;   /* of the latest row that scans found; 0: none was late */
    bool is_truncated; /* the next minute has more rows than the heap may contain */
    bool is_skipped;   /* the scan under way leaves this kind out */
};

struct due_timers {
    struct op op; /* runs scans until it is stopped */
    struct due_config config;
    struct pg_query query;
    struct op_timer sleep;
    struct timer timer;
    struct due_heap heaps[DUE_KIND_COUNT];
    int64_t refill_at;
    int64_t overdue_at; /* where the next scan of overdue rows continues; 0: from the start */
    struct uuid overdue_id;
    int64_t page_at; /* position of the scan under way */
    struct uuid page_id;
    int64_t until;
    bool is_refill, is_stopped;
    bool is_regular; /* the refill under way is that of all heaps that are complete */
    bool has_more;   /* more rows are overdue than were found */
};

/* ---- the heap ---- */

static void swap(struct due_ref *a, struct due_ref *b)
{
    struct due_ref held_ref = *a;
    *a = *b;
    *b = held_ref;
}

/* Returns false if the heap is full, or if out of memory. The row is then found once it is
 * overdue. */
static bool push(struct due_heap *heap, const struct due_ref *ref)
{
    if (heap->count == heap->cap) {
        size_t cap = heap->cap ? heap->cap * 2 : 64;
        struct due_ref *refs = heap->count < HELD_MAX ? mem_realloc(heap->refs, cap * sizeof(*refs))
                                                      : NULL;
        if (!refs)
            return false;
        heap->refs = refs;
        heap->cap = cap;
    }
    size_t at = heap->count++;
    heap->refs[at] = *ref;
    while (at > 0 && heap->refs[(at - 1) / 2].at > heap->refs[at].at) {
        swap(&heap->refs[(at - 1) / 2], &heap->refs[at]);
        at = (at - 1) / 2;
    }
    return true;
}

static void pop(struct due_heap *heap, struct due_ref *ref)
{
    ASSERT(heap->count > 0);
    *ref = heap->refs[0];
    heap->refs[0] = heap->refs[--heap->count];
    for (size_t at = 0, least;; at = least) {
        least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap->count; child++)
            if (heap->refs[child].at < heap->refs[least].at)
                least = child;
        if (least == at)
            return;
        swap(&heap->refs[at], &heap->refs[least]);
    }
}

/* ---- firing ---- */

static bool is_due(const struct due_heap *heap, int64_t now)
{
    return heap->count > 0 && heap->refs[0].at <= now;
}

static bool has_room(const struct due_heap *heap)
{
    return heap->class && heap->class->has_room(heap->owner);
}

/* Kinds without room have no timer: due_fire is called when they have room again. The delay is
 * rounded up, since the database refuses a row that is taken before its time. The clocks of the
 * node and the database may differ: rows fired too early are found once they are overdue. */
static void set_timer(struct due_timers *timers)
{
    size_t count = 0;
    int64_t first = INT64_MAX, now = clock_shared_us();
    for (size_t i = 0; i < DUE_KIND_COUNT; i++) {
        const struct due_heap *heap = &timers->heaps[i];
        count += heap->count;
        if (heap->count > 0 && heap->refs[0].at < first && (!is_due(heap, now) || has_room(heap)))
            first = heap->refs[0].at;
    }
    metric_set(metric_series(&held, SLICE_NONE), (double)count);
    if (first == INT64_MAX || timers->is_stopped)
        timer_stop(&timers->timer);
    else
        timer_start_in_ms(&timers->timer, first > now ? (uint64_t)(first - now) / 1000 + 1 : 0);
}

/* Whether the truncated refill of the heap can continue. */
static bool can_continue(const struct due_heap *heap)
{
    return heap->class && heap->is_truncated && heap->count < HELD_MAX / 2;
}

static bool wants_refill(const struct due_timers *timers)
{
    for (size_t i = 0; i < DUE_KIND_COUNT; i++)
        if (can_continue(&timers->heaps[i]))
            return true;
    return false;
}

/* Called by the timer and whenever there is room again. FIRED_A_TURN limits the time of a turn: if
 * more rows are left to fire, the timer is set to now. */
void due_fire(struct due_timers *timers)
{
    struct due_ref ref;
    int64_t now = clock_shared_us();
    if (timers->is_stopped)
        return;
    for (size_t i = 0; i < DUE_KIND_COUNT; i++) {
        struct due_heap *heap = &timers->heaps[i];
        for (size_t n = 0; n < FIRED_A_TURN && is_due(heap, now) && has_room(heap); n++) {
            pop(heap, &ref);
            heap->class->fire(heap->owner, &ref);
        }
    }
    set_timer(timers);
    if (wants_refill(timers))
        op_sleep_stop(timers->op.sleep); /* the next scan begins at once */
}

static void on_due(struct timer *timer)
{
    due_fire(CONTAINER_OF(timer, struct due_timers, timer));
}

void due_arm(struct due_timers *timers, const struct due_ref *ref)
{
    struct due_heap *heap = &timers->heaps[ref->kind];
    ASSERT(ref->at != 0 && ref->kind < DUE_KIND_COUNT); /* 0: only a person ends the wait */
    if (timers->is_stopped || ref->at > heap->horizon || !push(heap, ref))
        return;
    if (heap->refs[0].at == ref->at)
        set_timer(timers); /* the row is now the first of its kind */
}

/* ---- scanning ---- */

enum scan_step { SCAN_SLEEP, SCAN_CHOOSE, SCAN_SEND, SCAN_READ };

OP_OF(timers_of, due_timers)

static bool may_take(const struct due_timers *timers)
{
    return timers->config.may_take(timers->config.owner);
}

/* Two seconds between scans limit the delay of a row that no timer fired. */
static enum op_result step_sleep(struct op *op)
{
    struct due_timers *timers = timers_of(op);
    arena_reset(&op->arena);
    bool is_soon = timers->has_more || !may_take(timers);
    timers->has_more = false;
    op_sleep(op, &timers->sleep, is_soon ? SOON_MS : SCAN_EVERY_MS + random_below(SCAN_JITTER_MS),
             "time for the next scan");
    return OP_WAIT;
}

/* Begins the refill of the heaps whose turn it is: all whose last one is complete, if it is time,
 * and those whose last one can continue. The page begins where the first of them continues. Their
 * horizons are set before the scan is sent: rows that are written while it runs are armed, and may
 * be found by the scan, too. Returns false if there is none. */
static bool begin_refill(struct due_timers *timers, int64_t now)
{
    bool is_any = false;
    timers->until = now + HORIZON_US;
    timers->is_regular = now >= timers->refill_at;
    for (size_t i = 0; i < DUE_KIND_COUNT; i++) {
        struct due_heap *heap = &timers->heaps[i];
        bool is_due_again = !heap->is_truncated && timers->is_regular;
        heap->is_skipped = !heap->class || !(is_due_again || can_continue(heap));
        if (heap->is_skipped)
            continue;
        if (!is_any || heap->resume_at < timers->page_at) {
            timers->page_at = heap->resume_at;
            timers->page_id = heap->resume_id;
        }
        is_any = true;
        heap->horizon = timers->until;
        heap->is_truncated = false;
    }
    return is_any;
}

/* Begins a scan of overdue rows, without those of a kind whose due rows in the heap wait for room.
 * Returns false if no kind is left. */
static bool begin_overdue(struct due_timers *timers, int64_t now)
{
    bool is_any = false;
    timers->page_at = timers->overdue_at;
    timers->page_id = timers->overdue_id;
    timers->until = now - OVERDUE_US;
    for (size_t i = 0; i < DUE_KIND_COUNT; i++) {
        struct due_heap *heap = &timers->heaps[i];
        heap->is_skipped = !heap->class || is_due(heap, now);
        is_any = is_any || !heap->is_skipped;
    }
    return is_any;
}

/* Rows in memory leave it at once if their room can take them, so those that are due wait for it;
 * rows that are not in memory are known from the last scans. */
static void measure_late(const struct due_timers *timers, int64_t now)
{
    static const slice labels[DUE_KIND_COUNT] = {
        [DUE_FLOW] = SLICE_INIT("of=\"flow\""), [DUE_DELIVERY] = SLICE_INIT("of=\"delivery\"")};
    for (size_t i = 0; i < DUE_KIND_COUNT; i++) {
        const struct due_heap *heap = &timers->heaps[i];
        int64_t held_us = is_due(heap, now) ? now - heap->refs[0].at : 0;
        int64_t late_us = held_us > heap->late_us ? held_us : heap->late_us;
        metric_set(metric_series(&overdue, labels[i]), (double)late_us / 1e6);
    }
}

/* A scan from the start finds the latest rows first; its further pages change nothing. Rows that
 * this process has, such as events that wait for their endpoint, are not late: it may be slow. */
static void note_late(struct due_timers *timers, const struct due_ref *refs, size_t count)
{
    int64_t now = clock_shared_us();
    for (size_t i = 0; i < DUE_KIND_COUNT && timers->page_at == 0; i++)
        if (!timers->heaps[i].is_skipped)
            timers->heaps[i].late_us = 0;
    for (size_t i = 0; i < count; i++) {
        struct due_heap *heap = &timers->heaps[refs[i].kind];
        if (now - refs[i].at > heap->late_us && !heap->class->is_moving(heap->owner, &refs[i]))
            heap->late_us = now - refs[i].at;
    }
}

/* Scans the next minute every REFILL_US (the first time with all overdue rows), else overdue rows.
 * A refill covers twice its interval, so that a late refill leaves no gap. */
static enum op_result step_choose(struct op *op)
{
    struct due_timers *timers = timers_of(op);
    int64_t now = clock_shared_us();
    measure_late(timers, now);
    timers->is_refill = now >= timers->refill_at || wants_refill(timers);
    if (!may_take(timers))
        return op_jump(op, SCAN_SLEEP);
    if (timers->is_refill)
        timers->is_refill = begin_refill(timers, now);
    if (!timers->is_refill && !begin_overdue(timers, now))
        return op_jump(op, SCAN_SLEEP);
    return OP_NEXT;
}

/* Reads one page. The position is (at, id), since many rows may have the same time. */
static enum op_result step_scan(struct op *op)
{
    struct due_timers *timers = timers_of(op);
    const struct due_page page = {.until = timers->until,
                                  .after_at = timers->page_at,
                                  .after_id = timers->page_id,
                                  .with_flows = !timers->heaps[DUE_FLOW].is_skipped,
                                  .with_deliveries = !timers->heaps[DUE_DELIVERY].is_skipped};
    store_due_scan(timers->config.pool, &timers->query, op, &page);
    return OP_WAIT;
}

/* The heap is complete up to the last row that is in it. If there is none (a nil id), it is
 * complete up to the time before resume_at. */
static void truncate_heap(struct due_heap *heap)
{
    heap->is_truncated = heap->is_skipped = true;
    heap->horizon = heap->resume_at - uuid_is_nil(heap->resume_id);
}

/* Whether the row is at or before the position from which the heap's refill continues. */
static bool is_before(const struct due_heap *heap, const struct due_ref *ref)
{
    return ref->at < heap->resume_at ||
           (ref->at == heap->resume_at && uuid_cmp(ref->id, heap->resume_id) <= 0);
}

/* A full heap leaves out its kind from there on. Returns whether any kind is left. */
static bool push_page(struct due_timers *timers, const struct due_ref *refs, size_t count)
{
    bool is_refill = timers->is_refill;
    for (size_t i = 0; i < count; i++) {
        struct due_ref ref = refs[i];
        struct due_heap *heap = &timers->heaps[ref.kind];
        timers->page_at = ref.at;
        timers->page_id = ref.id;
        if (heap->is_skipped || (is_refill && is_before(heap, &ref)))
            continue;
        ref.at += (int64_t)random_below(FOREIGN_DELAY_US);
        if (heap->class->is_moving(heap->owner, &ref) || push(heap, &ref)) {
            heap->resume_at = is_refill ? refs[i].at : heap->resume_at;
            heap->resume_id = is_refill ? refs[i].id : heap->resume_id;
        } else if (is_refill) {
            truncate_heap(heap);
        } else {
            heap->is_skipped = true;
        }
    }
    for (size_t i = 0; i < DUE_KIND_COUNT; i++)
        if (!timers->heaps[i].is_skipped)
            return true;
    return false;
}

/* Rows that are due until then are in the heaps that did not get full, or the node that writes them
 * later fires them. A failed scan counts as full heaps: each continues where it stopped. */
static void end_refill(struct due_timers *timers, bool is_found)
{
    for (size_t i = 0; i < DUE_KIND_COUNT; i++) {
        struct due_heap *heap = &timers->heaps[i];
        if (heap->is_skipped)
            continue;
        if (!is_found) {
            truncate_heap(heap);
            continue;
        }
        heap->resume_at = timers->until + 1;
        heap->resume_id = (struct uuid){{0}};
    }
    if (is_found && timers->is_regular)
        timers->refill_at = clock_shared_us() + REFILL_US;
}

/* A full page of overdue rows is followed by the next one soon, after step_choose has let these
 * rows fire: rows that stay due for whatever reason do not hide those after them. */
static void end_overdue(struct due_timers *timers, bool has_more)
{
    timers->has_more = has_more;
    timers->overdue_at = has_more ? timers->page_at : 0;
    timers->overdue_id = has_more ? timers->page_id : (struct uuid){{0}};
}

/* A full page of a refill is followed by the next page at once. */
static enum op_result step_scanned(struct op *op)
{
    struct due_timers *timers = timers_of(op);
    struct due_ref *refs = NULL;
    size_t count = 0;
    bool is_found = store_due_scan_result(&timers->query, &refs, &count) == OK;
    if (is_found)
        note_late(timers, refs, count);
    bool has_more = is_found && push_page(timers, refs, count) && count == DUE_SCAN_MAX;
    set_timer(timers);
    if (has_more && timers->is_refill) {
        arena_reset(&op->arena);
        return op_jump(op, SCAN_SEND);
    }
    if (timers->is_refill)
        end_refill(timers, is_found);
    else
        end_overdue(timers, has_more);
    return op_jump(op, SCAN_SLEEP);
}

static const struct op_step scan_steps[] = {
    [SCAN_SLEEP] = {"sleep", step_sleep, 0},
    [SCAN_CHOOSE] = {"choose", step_choose, OP_TO(SCAN_SLEEP)},
    [SCAN_SEND] = {"scan", step_scan, 0},
    [SCAN_READ] = {"scanned", step_scanned, OP_TO(SCAN_SEND) | OP_TO(SCAN_SLEEP)},
};

static const struct op_class scan_class = {
    .name = "due",
    .is_background = true,
    OP_STEPS(scan_steps),
};

struct due_timers *due_new(const struct due_config *config)
{
    struct due_timers *timers = mem_zalloc(sizeof(*timers));
    if (!timers)
        return NULL;
    timers->config = *config;
    timer_init(&timers->timer, config->loop, on_due);
    op_start(&timers->op, &scan_class, config->loop, NULL, SCAN_ARENA_MAX);
    return timers;
}

void due_own(struct due_timers *timers, enum due_kind kind, const struct due_class *class,
             void *owner)
{
    ASSERT(kind < DUE_KIND_COUNT);
    timers->heaps[kind].class = class;
    timers->heaps[kind].owner = owner;
}

void due_stop(struct due_timers *timers)
{
    if (!timers || timers->is_stopped)
        return;
    timers->is_stopped = true;
    timer_stop(&timers->timer);
    op_cancel(&timers->op);
}

void due_free(struct due_timers *timers)
{
    if (!timers)
        return;
    ASSERT(timers->is_stopped && timers->op.is_ended);
    for (size_t i = 0; i < DUE_KIND_COUNT; i++)
        mem_free(timers->heaps[i].refs);
    mem_free(timers);
}
