/*
 * The queue of a budget; see budget_wait.h. It is run at most once a turn, after memory was
 * returned. In each round one wait of each account is served.
 */
#include "loop/budget_wait.h"

#include "base/metric.h"

static struct metric bytes_metric =
    METRIC_INIT("sluice_work_bytes",
                "Memory that running requests and flows have taken or may take.", METRIC_GAUGE);
static struct metric waiting_metric = METRIC_INIT(
    "sluice_work_waiting", "Requests, replies and flows that wait for memory.", METRIC_GAUGE);
static struct metric refused_metric = METRIC_INIT(
    "sluice_work_refused_total", "Waits for memory that ended without it.", METRIC_COUNTER);

static struct budget_queue *queue_of(struct budget *budget)
{
    return CONTAINER_OF(budget, struct budget_queue, budget);
}

/* ---- the queue ---- */

static void leave_queue(struct budget_wait *wait)
{
    struct budget_queue *queue = wait->queue;
    keyed_leave(&wait->use->account->keyed, &wait->link);
    timer_stop(&wait->timer);
    wait->queue = NULL;
    queue->waiting--;
    queue->budget.is_awaited = queue->waiting > 0;
}

static void end(struct budget_wait *wait, bool is_taken)
{
    leave_queue(wait);
    wait->is_taken = is_taken;
    wait->on_end(wait);
}

static bool try_take(struct budget_wait *wait)
{
    return budget_use_take(wait->use, wait->bytes) ||
           (wait->kind == BUDGET_IN_HAND && budget_use_overdraw(wait->use, wait->bytes));
}

/* Serves one wait of each account in turn, until a round serves none. */
static void run_queue(struct loop_task *task)
{
    struct budget_queue *queue = CONTAINER_OF(task, struct budget_queue, task);
    size_t refusals = 0, count = 0;
    LIST_EACH(&queue->turns, struct budget_account, account, keyed.ring)
        count++;
    while (refusals < count && !list_is_empty(&queue->turns)) {
        struct list *node = list_pop_front(&queue->turns);
        struct budget_account *account = LIST_ITEM(node, struct budget_account, keyed.ring);
        struct budget_wait *wait = LIST_ITEM(account->keyed.waiting.next, struct budget_wait, link);
        list_push_back(&queue->turns, node);
        if (try_take(wait)) {
            refusals = 0;
            end(wait, true);
        } else {
            refusals++;
        }
    }
}

static void on_returned(struct budget *budget)
{
    loop_task_queue(queue_of(budget)->loop, &queue_of(budget)->task);
}

static void on_due(struct timer *timer)
{
    metric_inc(&refused_metric);
    end(CONTAINER_OF(timer, struct budget_wait, timer), false);
}

bool budget_wait_begin(struct budget_wait *wait, struct budget_use *use, size_t bytes,
                       enum budget_kind kind, uint64_t wait_ms,
                       void (*on_end)(struct budget_wait *wait))
{
    ASSERT(!wait->queue);
    *wait = (struct budget_wait){
        .use = use, .bytes = bytes, .kind = kind, .on_end = on_end, .is_taken = true};
    struct budget_account *account = use->account;
    bool is_first = account &&
                    (list_is_empty(&account->keyed.waiting) || account->overdrawn == use);
    if (!account || (is_first && try_take(wait)))
        return true;
    struct budget_queue *queue = queue_of(use->budget);
    wait->queue = queue;
    wait->is_taken = false;
    list_init(&wait->link);
    timer_init(&wait->timer, queue->loop, on_due);
    timer_start_in_ms(&wait->timer, wait_ms);
    if (is_first && !list_is_empty(&account->keyed.waiting)) /* others wait until this use has
                                                              * ended */
        list_push_front(&account->keyed.waiting, &wait->link);
    else
        keyed_join(&account->keyed, &queue->turns, &wait->link);
    queue->waiting++;
    queue->budget.is_awaited = true;
    return false;
}

static void on_op_end(struct budget_wait *wait)
{
    op_release(wait->op);
}

bool budget_wait_op(struct budget_wait *wait, struct op *op, struct budget_use *use, size_t bytes,
                    enum budget_kind kind, uint64_t wait_ms)
{
    if (budget_wait_begin(wait, use, bytes, kind, wait_ms, on_op_end))
        return true;
    wait->op = op;
    op_hold(op, "memory for its work");
    return false;
}

void budget_wait_stop(struct budget_wait *wait)
{
    if (!wait->queue)
        return;
    leave_queue(wait);
    if (wait->op)
        op_release(wait->op);
}

/* ---- the whole ---- */

void budget_queue_init(struct budget_queue *queue, struct loop *loop, size_t size, size_t share)
{
    *queue = (struct budget_queue){.loop = loop};
    budget_init(&queue->budget, size, share);
    queue->budget.on_returned = on_returned;
    list_init(&queue->turns);
    loop_task_init(&queue->task, run_queue);
}

void budget_queue_deinit(struct budget_queue *queue)
{
    ASSERT(queue->waiting == 0);
    if (!queue->loop)
        return;
    loop_task_cancel(&queue->task);
    budget_deinit(&queue->budget);
}

void budget_queue_show(const struct budget_queue *queue)
{
    metric_set(metric_series(&bytes_metric, SLICE_NONE), (double)atomic_load(&queue->budget.used));
    metric_set(metric_series(&waiting_metric, SLICE_NONE), (double)queue->waiting);
    (void)metric_series(&refused_metric, SLICE_NONE);
}
