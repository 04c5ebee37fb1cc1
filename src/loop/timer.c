/*
 * Timers: a 4-ary heap of (armed_ns, timer) driven by one uv_timer. A timer that is moved to a
 * later time keeps its position until the old time is reached. So the common case, a time-out that
 * is extended with every byte, costs one store.
 */
#include "base/mem.h"
#include "loop/internal.h"

enum { HEAP_FANOUT = 4, HEAP_CAP_MIN = 64 };
static const size_t NOT_ARMED = SIZE_MAX;
static const size_t SPILLED = SIZE_MAX - 1;

static void on_uv_timer(uv_timer_t *handle);

void timer_init(struct timer *timer, struct loop *loop, void (*on_due)(struct timer *timer))
{
    ASSERT(loop && on_due);
    *timer = (struct timer){.loop = loop, .heap_index = NOT_ARMED, .on_due = on_due};
}

/* ---- heap ---- */

static void heap_put(struct loop *loop, size_t index, struct timer_slot slot)
{
    loop->slots[index] = slot;
    slot.timer->heap_index = index;
}

static void heap_sift_up(struct loop *loop, size_t index)
{
    struct timer_slot slot = loop->slots[index];
    while (index > 0) {
        size_t parent = (index - 1) / HEAP_FANOUT;
        if (loop->slots[parent].armed_ns <= slot.armed_ns)
            break;
        heap_put(loop, index, loop->slots[parent]);
        index = parent;
    }
    heap_put(loop, index, slot);
}

static void heap_sift_down(struct loop *loop, size_t index)
{
    struct timer_slot slot = loop->slots[index];
    for (;;) {
        size_t child = index * HEAP_FANOUT + 1;
        if (child >= loop->slot_count)
            break;
        size_t last = child + HEAP_FANOUT < loop->slot_count ? child + HEAP_FANOUT
                                                             : loop->slot_count;
        size_t least = child;
        for (size_t i = child + 1; i < last; i++)
            if (loop->slots[i].armed_ns < loop->slots[least].armed_ns)
                least = i;
        if (slot.armed_ns <= loop->slots[least].armed_ns)
            break;
        heap_put(loop, index, loop->slots[least]);
        index = least;
    }
    heap_put(loop, index, slot);
}

static void heap_remove(struct loop *loop, size_t index)
{
    ASSERT(index < loop->slot_count);
    loop->slots[index].timer->heap_index = NOT_ARMED;
    struct timer_slot last = loop->slots[--loop->slot_count];
    if (index == loop->slot_count)
        return;
    /* The slot moved here comes from another branch of the heap, so it may have to move up or
     * down. */
    heap_put(loop, index, last);
    heap_sift_up(loop, index);
    heap_sift_down(loop, last.timer->heap_index);
}

static bool heap_grow(struct loop *loop)
{
    if (loop->slot_count < loop->slot_cap)
        return true;
    size_t cap = loop->slot_cap ? loop->slot_cap * 2 : HEAP_CAP_MIN;
    /* Doubling keeps the cost of an insertion constant on average. The heap never shrinks. */
    struct timer_slot *slots = mem_realloc(loop->slots, cap * sizeof(*slots));
    if (!slots)
        return false;
    loop->slots = slots;
    loop->slot_cap = cap;
    return true;
}

/* ---- the one uv_timer ---- */

static void loop_arm(struct loop *loop)
{
    uint64_t wanted_ns = loop->slot_count ? loop->slots[0].armed_ns : UINT64_MAX;
    /* Timers for which there was no memory are not ordered; all of them run in the next turn. */
    if (loop->spilled)
        wanted_ns = 0;
    if (loop->firing_ns || wanted_ns == loop->timer_armed_ns)
        return; /* on_uv_timer calls this function at its end */
    loop->timer_armed_ns = wanted_ns;
    if (wanted_ns == UINT64_MAX) {
        uv_timer_stop(&loop->uv_timer);
        return;
    }
    /* The time is rounded up, because libuv counts in milliseconds and a timer must not run
     * early. */
    uint64_t due_ms = wanted_ns / 1000000 + (wanted_ns % 1000000 ? 1 : 0);
    uint64_t now_ms = uv_now(&loop->uv);
    /* At least 1 ms: if a callback starts a timer with 0, libuv 1.44 runs it in the same pass. */
    uv_timer_start(&loop->uv_timer, on_uv_timer, due_ms > now_ms ? due_ms - now_ms : 1, 0);
}

static void spill(struct loop *loop, struct timer *timer)
{
    timer->heap_index = SPILLED;
    timer->spilled_next = NULL;
    struct timer **link = &loop->spilled;
    while (*link)
        link = &(*link)->spilled_next;
    *link = timer;
}

static void unspill(struct loop *loop, struct timer *timer)
{
    struct timer **link = &loop->spilled;
    while (*link != timer)
        link = &(*link)->spilled_next;
    *link = timer->spilled_next;
    timer->heap_index = NOT_ARMED;
}

static void timer_insert(struct timer *timer)
{
    struct loop *loop = timer->loop;
    if (!heap_grow(loop)) {
        spill(loop, timer);
        return;
    }
    if (loop->firing_ns && timer->due_ns <= loop->firing_ns)
        timer->due_ns = loop->firing_ns + 1; /* a new timer must not fire in this pass */
    timer->armed_ns = timer->due_ns;
    loop->slots[loop->slot_count] = (struct timer_slot){timer->armed_ns, timer};
    heap_sift_up(loop, loop->slot_count++);
}

void timer_start(struct timer *timer, uint64_t due_ns)
{
    struct loop *loop = timer->loop;
    ASSERT(loop && timer->on_due);
    timer->due_ns = due_ns;
    if (timer->heap_index == SPILLED)
        return;
    if (timer->heap_index != NOT_ARMED) {
        /* A later time leaves the slot where it is. on_uv_timer moves it when the old time is
         * reached. */
        if (due_ns >= timer->armed_ns)
            return;
        heap_remove(loop, timer->heap_index);
    }
    timer_insert(timer);
    loop_arm(loop);
}

void timer_start_in_ms(struct timer *timer, uint64_t delay_ms)
{
    timer_start(timer, loop_now_ns(timer->loop) + delay_ms * 1000000);
}

void timer_stop(struct timer *timer)
{
    if (timer->heap_index == NOT_ARMED)
        return;
    struct loop *loop = timer->loop;
    if (timer->heap_index == SPILLED)
        unspill(loop, timer);
    else
        heap_remove(loop, timer->heap_index);
    loop_arm(loop); /* an armed uv_timer would keep the loop alive */
}

static void fire_spilled(struct loop *loop)
{
    size_t count = 0; /* timers that are spilled meanwhile are appended after these */
    for (struct timer *timer = loop->spilled; timer; timer = timer->spilled_next)
        count++;
    for (; count && loop->spilled; count--) {
        struct timer *timer = loop->spilled;
        unspill(loop, timer);
        timer->on_due(timer);
    }
}

static void on_uv_timer(uv_timer_t *handle)
{
    struct loop *loop = loop_of(handle->loop);
    loop_enter(loop);
    /* The clock is read once for the whole pass, so that the pass ends. */
    uint64_t now_ns = clock_mono_ns();
    loop->now_ns = now_ns;
    loop->firing_ns = now_ns;
    fire_spilled(loop);
    while (loop->slot_count && loop->slots[0].armed_ns <= now_ns) {
        struct timer *timer = loop->slots[0].timer;
        /* the timer was moved to a later time after it was armed */
        if (timer->due_ns > timer->armed_ns) {
            timer->armed_ns = loop->slots[0].armed_ns = timer->due_ns;
            heap_sift_down(loop, 0);
            continue;
        }
        /* The timer is removed before the call, because on_due may start it again or free it. */
        heap_remove(loop, 0);
        timer->on_due(timer);
    }
    loop->firing_ns = 0;
    loop->timer_armed_ns = UINT64_MAX; /* libuv has stopped uv_timer */
    loop_arm(loop);
}

void loop_timers_init(struct loop *loop)
{
    loop->timer_armed_ns = UINT64_MAX;
    uv_timer_init(&loop->uv, &loop->uv_timer);
}

void loop_timers_deinit(struct loop *loop)
{
    ASSERT(loop->slot_count == 0 && !loop->spilled);
    uv_close((uv_handle_t *)&loop->uv_timer, NULL);
    mem_free(loop->slots);
    loop->slots = NULL;
}
