/*
 * Turns of runs that ask a policy. A decision takes less than a millisecond, but many may be due at
 * once, as those of a batch, and would hold up all other clients. So after TURN_VISITS_MAX of work
 * in a turn of the loop, the runs that come next wait. The accounts with waiting runs are served
 * round robin: one with costly conditions holds up its own runs.
 */
#include "exec/internal.h"

/* About half a millisecond. */
enum { TURN_VISITS_MAX = 10000 };

/* Whether the turn of the loop has had its share of this work. */
static bool is_spent(const struct exec_turns *turns)
{
    return turns->at == loop_stats(turns->loop)->turns && turns->visits >= TURN_VISITS_MAX;
}

static void leave_queue(struct exec *exec)
{
    keyed_leave(&exec->counted->keyed, &exec->turn.link);
    op_wait_end(&exec->turn.wait);
}

static void on_cut(struct op_wait *wait)
{
    leave_queue(CONTAINER_OF(wait, struct exec, turn.wait));
}

/* The oldest run of the account that is next decides. */
static void give_turn(struct exec_turns *turns)
{
    struct keyed *account = LIST_ITEM(turns->ring.next, struct keyed, ring);
    struct exec *exec = LIST_ITEM(account->waiting.next, struct exec, turn.link);
    list_move_back(&turns->ring, &account->ring);
    exec->turn.is_given = true;
    leave_queue(exec);
}

/* Begins a turn of the loop. Each run that has decided then lets the next one decide. */
static void on_turn(struct loop_task *task)
{
    struct exec_turns *turns = CONTAINER_OF(task, struct exec_turns, task);
    if (!list_is_empty(&turns->ring))
        give_turn(turns);
    if (!list_is_empty(&turns->ring))
        loop_task_queue_next_turn(turns->loop, task);
}

/* A run without a slot is refused before it would decide. */
bool exec_awaits_turn(struct exec *exec)
{
    struct exec_turns *turns = &exec->service->turns;
    if (exec->turn.is_given || !exec->counted || (list_is_empty(&turns->ring) && !is_spent(turns)))
        return false;
    list_init(&exec->turn.link);
    keyed_join(&exec->counted->keyed, &turns->ring, &exec->turn.link);
    op_wait_begin(&exec->op, &exec->turn.wait, "its turn to ask a policy", on_cut);
    loop_task_queue_next_turn(turns->loop, &turns->task);
    return true;
}

void exec_turn_used(struct exec *exec)
{
    struct exec_turns *turns = &exec->service->turns;
    uint64_t now = loop_stats(turns->loop)->turns;
    if (turns->at != now)
        turns->visits = 0;
    turns->at = now;
    turns->visits += exec->verdict.visits;
    if (!list_is_empty(&turns->ring) && !is_spent(turns))
        give_turn(turns);
}

void exec_turns_init(struct exec_turns *turns, struct loop *loop)
{
    turns->loop = loop;
    list_init(&turns->ring);
    loop_task_init(&turns->task, on_turn);
}

void exec_turns_deinit(struct exec_turns *turns)
{
    ASSERT(list_is_empty(&turns->ring));
    loop_task_cancel(&turns->task);
}
