/*
 * The entrance: fairness between accounts before a request begins. While several accounts send
 * requests, an account that sends more than the others waits here, in its account's queue, not in
 * the queues of later stages, where it would delay the others. In a turn of the loop an account
 * begins at most ENTRIES_A_TURN requests, a greedy account ENTRIES_A_TURN_GREEDY, so that turns
 * stay short. An account may have at most as many young requests as the other accounts have young
 * and waiting requests on average. A long reply counts as several requests in the turns after it. A
 * request is young until it ends, or for YOUNG_NS: a request that takes longer waits for something
 * other than this process or its database. If only one account sends requests, they pass without a
 * check. Requests without an account share one queue, as if they were an account. The probes of
 * load balancers have another queue, which is never greedy: they are cheap, and other clients that
 * send such requests must not delay the probes that decide about this node.
 */
#include <string.h>

#include "loop/internal.h"
#include "loop/op.h"

enum {
    ENTRIES_A_TURN = 16,
    /* for an account with at least GREEDY times as many requests as the others have on average */
    ENTRIES_A_TURN_GREEDY = 2,
    GREEDY = 2,
    GREEDY_MIN = 32, /* such an account also has more than this many requests */
    YOUNG_MAX = 16,  /* an account may always have this many young requests */
    YOUNG_NS = 5 * 1000 * 1000,
    /* an account counts as alone after this time without requests of others */
    ALONE_AFTER_NS = 20 * 1000 * 1000,
    REPLY_BYTES = 8 * 1024, /* a reply of this size costs the process and its database as much as
                             * one more request */
    CARRIED_MAX = 1024,
};

static struct metric entered_metric =
    METRIC_INIT("sluice_loop_requests_total",
                "Requests that entered: alone (no other account sent any), shared (at once), or "
                "held until their "
                "account's turn.",
                METRIC_COUNTER);

static const char *const entered_labels[ENTERED] = {"entered=\"alone\"", "entered=\"shared\"",
                                                    "entered=\"held\""};

/* Exists while requests of the account wait or are young, and in the turn in which one of them
 * began. */
struct entry_queue {
    struct keyed keyed; /* in `ring` while requests wait (struct op_entry.link), else in `quiet` */
    uint64_t turn_ns;   /* the turn in which `begun` requests began */
    size_t begun;       /* requests that began in that turn */
    size_t carried;     /* its long replies, converted to requests that count in later turns */
    size_t waiting_count, young_count;
};

/* ---- queues ---- */

/* An empty queue is kept until the turn is over, because it counts the requests that began in the
 * turn. */
static void queue_rest(struct loop_entrance *entrance, struct entry_queue *queue)
{
    if (queue->waiting_count == 0 && queue->young_count == 0)
        list_push_back(&entrance->quiet, &queue->keyed.ring);
}

/* Frees quiet queues, oldest first, up to the first queue of this turn. Stopping there keeps the
 * walk linear in a turn with many accounts. */
static void drop_quiet(struct loop_entrance *entrance)
{
    LIST_EACH(&entrance->quiet, struct entry_queue, queue, keyed.ring) {
        if (queue->turn_ns == entrance->loop->turn_began_ns)
            return;
        keyed_drop(&entrance->queues, &queue->keyed);
    }
}

/* Returns the average number of waiting and young requests of the other queues. */
static size_t others_mean(const struct loop_entrance *entrance, const struct entry_queue *queue)
{
    size_t others = entrance->queues.map.count - 1;
    size_t theirs = entrance->entries - queue->waiting_count - queue->young_count;
    return others ? theirs / others : 0;
}

/* The maximum number of young requests: as many as the other queues have on average. */
static size_t young_max(const struct loop_entrance *entrance, const struct entry_queue *queue)
{
    if (loop_now_ns(entrance->loop) >= entrance->shared_until_ns)
        return SIZE_MAX;
    size_t mean = others_mean(entrance, queue);
    return mean > YOUNG_MAX ? mean : YOUNG_MAX;
}

/* The maximum number of requests that begin in a turn: few for a greedy account, since a long turn
 * delays all accounts. */
static size_t entries_a_turn(const struct loop_entrance *entrance, const struct entry_queue *queue)
{
    size_t own = queue->waiting_count + queue->young_count;
    bool is_probes = slice_eq(slice_of(queue->keyed.key, queue->keyed.key_len), OP_PROBES);
    bool is_greedy = !is_probes && own > GREEDY_MIN && own >= GREEDY * others_mean(entrance, queue);
    return is_greedy ? ENTRIES_A_TURN_GREEDY : ENTRIES_A_TURN;
}

static bool queue_is_full(const struct loop_entrance *entrance, const struct entry_queue *queue)
{
    return queue->young_count >= young_max(entrance, queue);
}

static bool queue_had_its_turn(struct loop_entrance *entrance, struct entry_queue *queue)
{
    size_t most = entries_a_turn(entrance, queue);
    if (queue->turn_ns != entrance->loop->turn_began_ns) {
        queue->turn_ns = entrance->loop->turn_began_ns;
        queue->begun = queue->carried < most ? queue->carried : most;
        queue->carried -= queue->begun;
    }
    return queue->begun >= most;
}

/* ---- entries ---- */

static void entry_wait(struct loop_entrance *entrance, struct op_entry *entry)
{
    struct entry_queue *queue = entry->queue;
    keyed_join(&queue->keyed, &entrance->ring, &entry->link);
    entrance->entries++;
    entrance->waiting++;
    queue->waiting_count++;
}

static void entry_begin(struct loop_entrance *entrance, struct op_entry *entry)
{
    struct entry_queue *queue = entry->queue;
    entry->began_ns = loop_now_ns(entrance->loop);
    list_push_back(&entrance->young, &entry->link);
    queue->young_count++;
    queue->begun++;
    if (queue->waiting_count == 0)
        list_unlink(&queue->keyed.ring);
    entrance->entries++;
}

/* Removes the entry from its queue, whether it waits or is young. */
static void entry_leave(struct loop_entrance *entrance, struct op_entry *entry)
{
    struct entry_queue *queue = entry->queue;
    list_unlink(&entry->link);
    entry->op->entry = NULL;
    entrance->entries--;
    if (entry->began_ns) {
        queue->young_count--;
        return;
    }
    entrance->waiting--;
    if (--queue->waiting_count == 0)
        list_unlink(&queue->keyed.ring);
    if (entrance->waiting == 0)
        timer_stop(&entrance->timer);
}

static void grow_old(struct loop_entrance *entrance, uint64_t now_ns)
{
    while (!list_is_empty(&entrance->young)) {
        struct op_entry *entry = LIST_ITEM(entrance->young.next, struct op_entry, link);
        if (now_ns - entry->began_ns < YOUNG_NS)
            return;
        entry_leave(entrance, entry);
        queue_rest(entrance, entry->queue);
    }
}

/* ---- starting requests ---- */

static void queue_let_in(struct loop_entrance *entrance, struct entry_queue *queue)
{
    while (queue->waiting_count && !queue_had_its_turn(entrance, queue) &&
           !queue_is_full(entrance, queue)) {
        struct op_entry *entry = LIST_ITEM(queue->keyed.waiting.next, struct op_entry, link);
        struct op *op = entry->op;
        entry_leave(entrance, entry);
        entry_begin(entrance, entry);
        op->entry = entry;
        op_release(op);
    }
}

/* Called if every queue with waiting requests is full: sleeps until the oldest young request is no
 * longer young. */
static void entrance_sleep(struct loop_entrance *entrance)
{
    if (entrance->waiting == 0)
        return;
    ASSERT(!list_is_empty(&entrance->young)); /* a queue without young requests is never full */
    struct op_entry *first = LIST_ITEM(entrance->young.next, struct op_entry, link);
    timer_start(&entrance->timer, first->began_ns + YOUNG_NS);
}

/* Runs when a waiting request may begin; serves the queues round robin. */
static void on_turn(struct loop_task *task)
{
    struct loop_entrance *entrance = CONTAINER_OF(task, struct loop_entrance, task);
    struct list passed = LIST_INIT(passed);
    bool is_next_turn = false;
    grow_old(entrance, loop_now_ns(entrance->loop));
    LIST_DRAIN(&entrance->ring, struct entry_queue, queue, keyed.ring) {
        list_push_back(&passed, &queue->keyed.ring);
        queue_let_in(entrance, queue);
        is_next_turn = is_next_turn || (queue->waiting_count && !queue_is_full(entrance, queue));
    }
    list_append_all(&entrance->ring, &passed);
    if (is_next_turn)
        loop_task_queue_next_turn(entrance->loop, task);
    else
        entrance_sleep(entrance);
}

static void on_grown_old(struct timer *timer)
{
    struct loop_entrance *entrance = CONTAINER_OF(timer, struct loop_entrance, timer);
    loop_task_queue(entrance->loop, &entrance->task);
}

void loop_entrance_init(struct loop *loop)
{
    struct loop_entrance *entrance = &loop->entrance;
    *entrance = (struct loop_entrance){.loop = loop};
    keyed_init(&entrance->queues, sizeof(struct entry_queue));
    list_init(&entrance->ring);
    list_init(&entrance->young);
    list_init(&entrance->quiet);
    loop_task_init(&entrance->task, on_turn);
    timer_init(&entrance->timer, loop, on_grown_old);
    for (size_t i = 0; i < ENTERED; i++)
        entrance->series[i] = metric_series(&entered_metric, slice_cstr(entered_labels[i]));
}

void loop_entrance_deinit(struct loop *loop)
{
    struct loop_entrance *entrance = &loop->entrance;
    ASSERT(entrance->entries == 0);
    LIST_EACH(&entrance->quiet, struct entry_queue, queue, keyed.ring)
        keyed_drop(&entrance->queues, &queue->keyed);
    loop_task_cancel(&entrance->task);
    keyed_deinit(&entrance->queues);
}

/* Whether other accounts have recently sent requests, or requests wait. */
static bool is_shared(struct loop_entrance *entrance, slice account, uint64_t now_ns)
{
    if (!slice_eq(account, slice_of(entrance->last, entrance->last_len))) {
        bool is_first = entrance->last_len == 0;
        memcpy(entrance->last, account.ptr, account.len);
        entrance->last_len = account.len;
        if (!is_first)
            entrance->shared_until_ns = now_ns + ALONE_AFTER_NS;
    }
    return now_ns < entrance->shared_until_ns || entrance->waiting > 0;
}

/* ---- the interface ---- */

enum op_result op_enter(struct op *op, struct op_entry *entry, slice queue_name)
{
    struct loop_entrance *entrance = &op->loop->entrance;
    slice account = op->account_id.len > 0 ? op->account_id : queue_name;
    uint64_t now_ns = loop_now_ns(op->loop);
    ASSERT(account.len > 0 && account.len <= UUID_TEXT_LEN && !op->entry);
    if (!is_shared(entrance, account, now_ns)) {
        metric_add(entrance->series[ENTERED_ALONE], 1);
        return OP_NEXT;
    }
    grow_old(entrance, now_ns);
    drop_quiet(entrance);
    struct entry_queue *queue = keyed_get(&entrance->queues, account);
    if (!queue)
        return OP_NEXT;
    *entry = (struct op_entry){.op = op, .queue = queue};
    list_init(&entry->link);
    op->entry = entry;
    if (!queue->waiting_count && !queue_had_its_turn(entrance, queue) &&
        !queue_is_full(entrance, queue)) {
        entry_begin(entrance, entry);
        metric_add(entrance->series[ENTERED_SHARED], 1);
        return OP_NEXT;
    }
    entry_wait(entrance, entry);
    metric_add(entrance->series[ENTERED_HELD], 1);
    loop_task_queue_next_turn(op->loop, &entrance->task);
    op_hold(op, "its account's turn");
    return OP_WAIT;
}

void op_weigh(const struct op *op, size_t reply_bytes)
{
    size_t more = reply_bytes / REPLY_BYTES;
    slice account = op->account_id.len > 0 ? op->account_id : OP_STRANGERS;
    struct entry_queue *queue = more > 0 ? keyed_find(&op->loop->entrance.queues, account) : NULL;
    if (queue)
        queue->carried = queue->carried + more < CARRIED_MAX ? queue->carried + more : CARRIED_MAX;
}

void op_leave_entrance(struct op *op)
{
    struct op_entry *entry = op->entry;
    if (!entry)
        return;
    struct loop_entrance *entrance = &op->loop->entrance;
    bool is_waiting = entry->began_ns == 0;
    entry_leave(entrance, entry);
    queue_rest(entrance, entry->queue);
    if (entrance->waiting)
        loop_task_queue(op->loop, &entrance->task);
    if (is_waiting)
        op_release(op);
}
