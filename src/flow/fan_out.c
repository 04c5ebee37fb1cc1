/*
 * A tool_call with for_each makes a call for each item. A few lanes share the items. Each lane is
 * an op that takes one item after another and records its intent (for a write), makes the call, and
 * records its end. These records are facts, rows of flow_item; the facts of one turn share a
 * commit. Once an item has failed finally no further item is begun; those in flight finish.
 *
 * The flow's row does not change while lanes run: each fact is fenced by the row's rev and owner,
 * which are those of the transition that began the attempt. A fan (struct flow_fan) belongs to one
 * attempt of the step; the next attempt gets a new fan with the completed items.
 */
#include "base/clock.h"
#include "flow/hint.h"
#include "flow/internal.h"
#include "flow/state.h"

enum {
    LANE_ARENA_MAX = 256 * 1024 * 1024,
    ITEM_ARENA_MAX = 16 * 1024 * 1024,
    AGAIN_MS = 200,
    SLEEP_MS_MAX = 5000,
    NAMED_MAX = 5, /* number of failed items that the step's error names */
};

enum item_state { ITEM_TO_DO, ITEM_IN_FLIGHT, ITEM_COMPLETED, ITEM_FAILED };

struct fan_item {
    enum item_state state;
    bool is_in_doubt; /* an earlier attempt at the item may have had an effect */
    int64_t tries;    /* attempts since a person resumed the flow, counted from facts */
    slice output;     /* JSON text, in the run's arena */
    struct flow_error error;
};

struct flow_lane {
    struct op op;
    struct flow_run *run;
    struct flow_fan *fan;
    struct arena scratch; /* for the current item */
    struct pg_query query;
    struct op_timer timer;
    struct exec *exec;
    struct json input;
    struct flow_policy_asking asking;
    struct flow_call call; /* the current call to exec */
    struct flow_error error;
    struct flow_item fact;
    size_t item;
    uint64_t sent_boot_ns; /* when the fact's statement was sent */
};

struct flow_fan {
    struct fan_item *items;
    size_t count;
    size_t next;         /* all items before it are taken */
    size_t output_bytes; /* total size of the completed items, each with a comma */
    struct flow_lane *lanes[FLOW_CONCURRENCY_MAX];
    size_t lane_count;
    bool is_read;    /* the calls only read and need no intents */
    bool is_stopped; /* an item has failed finally */
    bool is_left;    /* this node no longer owns the flow, or is shutting down */
    bool is_too_large;
};

enum lane_step {
    LANE_TAKE,
    LANE_BEGIN,
    LANE_BEGUN,
    LANE_CALL,
    LANE_CALLED,
    LANE_POLICY,
    LANE_POLICED,
    LANE_RECORD,
    LANE_RECORDED,
};

OP_OF(lane_of, flow_lane)

static struct fan_item *item_of(struct flow_lane *lane)
{
    ASSERT(lane->item < lane->fan->count);
    return &lane->fan->items[lane->item];
}

/* ---- one item ---- */

/* The only function that changes an item's state after it was loaded. A lane takes an item and ends
 * it, or returns it if the lane stops before the call. A completed item fails if the database
 * refuses its output. */
static void move_item(struct fan_item *item, enum item_state to)
{
    bool is_refused = item->state == ITEM_COMPLETED && to == ITEM_FAILED;
    ASSERT(is_refused || item->state == (to == ITEM_IN_FLIGHT ? ITEM_TO_DO : ITEM_IN_FLIGHT));
    ASSERT(to != ITEM_COMPLETED || item->output.ptr);
    ASSERT(to != ITEM_FAILED || item->error.code.len > 0);
    item->state = to;
}

/* Makes the row that `insert` writes; it is the same at each attempt until it is durable. Its key
 * is item, attempt and fact, so a repeated statement inserts nothing. */
static void make_fact(struct flow_lane *lane, enum flow_item_fact fact)
{
    struct flow_run *run = lane->run;
    lane->fact = (struct flow_item){
        .account_id = run->flow.account_id,
        .flow_id = run->flow.id,
        .step_index = (int64_t)run->plan.step,
        .item = (int64_t)lane->item,
        .attempt = run->plan.attempt,
        .fact = fact,
        .at = clock_shared_us(),
    };
    if (fact == FLOW_ITEM_COMPLETED)
        lane->fact.output = item_of(lane)->output;
    if (fact == FLOW_ITEM_FAILED)
        lane->fact.error = flow_error_text(&lane->error, &lane->scratch);
    flow_state_check_item(&lane->fact);
}

/* Ends the item with an error. The error's texts are copied from the lane's scratch to the run's
 * arena, since sum_up needs them once all lanes are done. */
static enum op_result fail_item(struct flow_lane *lane)
{
    struct fan_item *item = item_of(lane);
    struct arena *arena = &lane->run->op.arena;
    item->error = lane->error;
    item->error.code = arena_dup(arena, lane->error.code);
    item->error.message = arena_dup(arena, lane->error.message);
    item->error.hint = lane->error.hint.len > 0 ? arena_dup(arena, lane->error.hint) : SLICE_NONE;
    if (lane->error.next_json.ptr)
        item->error.next_json = arena_dup(arena, lane->error.next_json);
    item->error.tries = lane->error.tries = item->tries;
    item->is_in_doubt |= item->error.effect != EXEC_EFFECT_NONE;
    move_item(item, ITEM_FAILED);
    lane->fan->is_stopped = true;
    make_fact(lane, FLOW_ITEM_FAILED);
    return OP_STOP;
}

/* The flow is lost to another node or was changed, or this process shuts down: the other lanes
 * stop at their next item, too. */
static enum op_result leave_fan(struct flow_lane *lane)
{
    lane->fan->is_left = true;
    return OP_DONE;
}

/* All lanes share `next`; no lock is needed, as steps of ops never run at the same time. A failed
 * item stops all lanes here, so calls in flight still end and are recorded. */
static enum op_result step_take(struct op *op)
{
    struct flow_lane *lane = lane_of(op);
    struct flow_fan *fan = lane->fan;
    if (flow_run_is_leaving(lane->run))
        return leave_fan(lane);
    while (fan->next < fan->count && fan->items[fan->next].state != ITEM_TO_DO)
        fan->next++;
    if (fan->is_stopped || fan->is_left || fan->next == fan->count)
        return OP_DONE;
    lane->item = fan->next++;
    move_item(item_of(lane), ITEM_IN_FLIGHT);
    arena_reset(&lane->scratch);
    lane->input = json_object();
    if (fan->is_read)
        return op_jump(op, LANE_CALL);
    make_fact(lane, FLOW_ITEM_BEGUN);
    return OP_NEXT;
}

/* Stores one fact. The statement also proves that this node still owns the flow; check_insert notes
 * the time of this proof. */
static enum op_result insert(struct flow_lane *lane)
{
    struct flow_run *run = lane->run;
    lane->sent_boot_ns = clock_boot_ns();
    store_flow_item_insert(run->service->config.pool, &lane->query, &lane->op, &lane->fact,
                           run->flow.owner, run->flow.rev);
    return OP_WAIT;
}

/* Stores the intent before anything is sent. During a shutdown no intent is stored: without an end
 * it would make the outcome unknown. */
static enum op_result step_begin(struct op *op)
{
    struct flow_lane *lane = lane_of(op);
    if (flow_run_is_leaving(lane->run)) {
        move_item(item_of(lane), ITEM_TO_DO);
        return leave_fan(lane);
    }
    return insert(lane);
}

/* Returns OP_NEXT if the fact is durable. A completed item whose output the database refuses
 * becomes a failed item, whose fact has no output; after any other failure the statement is retried
 * without a limit. */
static enum op_result check_insert(struct flow_lane *lane, enum lane_step again)
{
    int status = store_hit_result(&lane->query);
    if (status == OK) {
        /* The fence matched the row. Lanes share the proof, and the newest one counts. */
        struct exec_proof *proof = &lane->run->proof;
        if (proof->sent_boot_ns < lane->sent_boot_ns)
            proof->sent_boot_ns = lane->sent_boot_ns;
        return OP_NEXT;
    }
    if (status == ERR_NOTFOUND)
        return leave_fan(lane);
    if ((status == ERR_INVALID || status == ERR_LIMIT) && lane->fact.fact == FLOW_ITEM_COMPLETED) {
        lane->error = flow_error_make("execution_failed",
                                      SLICE("The call succeeded, but its output cannot be stored."),
                                      SLICE_NONE);
        lane->error.effect = lane->fan->is_read ? EXEC_EFFECT_NONE : EXEC_EFFECT_DONE;
        return fail_item(lane);
    }
    op_sleep(&lane->op, &lane->timer, AGAIN_MS, "the database, to record an item");
    return op_wait_then(&lane->op, again);
}

static enum op_result step_begun(struct op *op)
{
    return check_insert(lane_of(op), LANE_BEGIN);
}

/* Fails the item because of an error before anything was sent in this attempt. */
static enum op_result fail_unsent(struct flow_lane *lane, struct flow_error error)
{
    lane->error = error;
    if (lane->call.is_in_doubt && !lane->fan->is_read)
        lane->error.effect = EXEC_EFFECT_UNKNOWN;
    return fail_item(lane);
}

/* This step runs again when an item is retried, so a deadline that has passed by then ends the
 * item. */
static enum op_result step_call(struct op *op)
{
    struct flow_lane *lane = lane_of(op);
    struct flow_error error;
    lane->call = (struct flow_call){.run = lane->run,
                                    .input = &lane->input,
                                    .item = lane->item,
                                    .is_in_doubt = item_of(lane)->is_in_doubt};
    if (flow_run_is_overdue(lane->run))
        return fail_unsent(lane, flow_error_deadline());
    if (!flow_policy_is_known(lane->run))
        return op_jump(op, LANE_POLICY);
    if (!flow_plan_item(lane->run, lane->item, &lane->scratch, &lane->input,
                        &lane->call.connection_id, &error))
        return fail_unsent(lane, error);
    lane->exec = flow_call_start(&lane->call, op);
    return lane->exec ? OP_WAIT : fail_unsent(lane, flow_error_memory());
}

/* The call has succeeded, and this is recorded whatever happens to its output. If the output is
 * beyond the limit, or memory runs out, the step fails, and no later attempt may call for this
 * item again. */
static enum op_result complete_item(struct flow_lane *lane, slice output)
{
    struct fan_item *item = item_of(lane);
    struct flow_fan *fan = lane->fan;
    item->output = arena_dup(&lane->run->op.arena, output);
    fan->output_bytes += output.len + 1;
    if (fan->output_bytes + 2 > FLOW_OUTPUT_BYTES_MAX /* with the brackets */ || !item->output.ptr)
        fan->is_too_large = fan->is_stopped = true;
    if (!item->output.ptr)
        item->output = SLICE("null");
    move_item(item, ITEM_COMPLETED);
    make_fact(lane, FLOW_ITEM_COMPLETED);
    return OP_STOP;
}

static enum op_result call_again(struct flow_lane *lane, uint64_t wait_ms, const char *what)
{
    op_sleep(&lane->op, &lane->timer, wait_ms, what);
    return op_wait_then(&lane->op, LANE_CALL);
}

static enum op_result step_called(struct op *op)
{
    struct flow_lane *lane = lane_of(op);
    struct flow_run *run = lane->run;
    struct exec *exec = lane->exec;
    ASSERT(exec);
    lane->exec = NULL;
    switch (flow_call_result(&lane->call, exec, &lane->scratch, &lane->error)) {
    case FLOW_CALL_SUCCEEDED:
        run->progress.unsent = 0;
        return complete_item(lane, exec_outcome_of(exec)->output_json);
    case FLOW_CALL_UNSENT:
        run->progress.unsent++;
        /* If the intent is durable the call is made, as in step_execute of run.c. */
        if (flow_run_is_leaving(run) && lane->fan->is_read)
            return leave_fan(lane);
        return call_again(lane, AGAIN_MS + random_below(AGAIN_MS), "a call that could not be made");
    case FLOW_CALL_CANCELLED:
        return leave_fan(lane);
    case FLOW_CALL_FAILED:
        break;
    }
    item_of(lane)->is_in_doubt |= lane->error.effect != EXEC_EFFECT_NONE;
    uint64_t wait_ms = flow_call_retry_ms(run, &lane->error, ++item_of(lane)->tries);
    if (wait_ms > 0 && wait_ms <= SLEEP_MS_MAX && !lane->fan->is_stopped)
        return call_again(lane, wait_ms, "back-off before an item's next attempt");
    lane->error.is_final = wait_ms == 0; /* otherwise the whole step waits that long */
    return fail_item(lane);
}

static enum op_result step_policy(struct op *op)
{
    struct flow_lane *lane = lane_of(op);
    return flow_policy_ask(lane->run, &lane->asking, op) ? OP_NEXT : OP_WAIT;
}

static enum op_result step_policed(struct op *op)
{
    struct flow_lane *lane = lane_of(op);
    if (flow_policy_take(lane->run, &lane->asking))
        return op_jump(op, LANE_CALL);
    return call_again(lane, AGAIN_MS, "the database, to read a policy");
}

static enum op_result step_record(struct op *op)
{
    return insert(lane_of(op));
}

static enum op_result step_recorded(struct op *op)
{
    enum op_result result = check_insert(lane_of(op), LANE_RECORD);
    return result == OP_NEXT ? op_jump(op, LANE_TAKE) : result;
}

/* Takes one item after another, until none is left. OP_STOP leads to the item's last fact. */
static const struct op_step lane_steps[] = {
    [LANE_TAKE] = {"take", step_take, OP_TO(LANE_CALL)},
    [LANE_BEGIN] = {"begin", step_begin, 0},
    [LANE_BEGUN] = {"begun", step_begun, OP_TO(LANE_BEGIN)},
    [LANE_CALL] = {"call", step_call, OP_TO(LANE_POLICY) | OP_TO(LANE_RECORD)},
    [LANE_CALLED] = {"called", step_called, OP_TO(LANE_CALL) | OP_TO(LANE_RECORD)},
    /* the policy may change while the lanes run */
    [LANE_POLICY] = {"policy", step_policy, 0},
    [LANE_POLICED] = {"policed", step_policed, OP_TO(LANE_CALL)},
    [LANE_RECORD] = {"record", step_record, 0},
    [LANE_RECORDED] = {"recorded", step_recorded, OP_TO(LANE_TAKE) | OP_TO(LANE_RECORD)},
};

static void cancel_lane(struct op *op)
{
    struct flow_lane *lane = lane_of(op);
    if (lane->exec)
        exec_cancel(lane->exec);
}

/* Lanes are in the run's arena, which outlives its child ops. */
static void free_lane(struct op *op)
{
    flow_policy_asking_free(&lane_of(op)->asking);
    arena_deinit(&lane_of(op)->scratch);
}

static const struct op_class lane_class = {
    .name = "flow_lane",
    OP_STEPS(lane_steps),
    .stop = LANE_RECORD,
    .on_cancel = cancel_lane,
    .free = free_lane,
};

/* ---- facts of the items ---- */

/* The fact is an intent, and the end of its call is unknown. If the write must not be repeated and
 * belongs to the current attempt, the item fails. Any other item is in doubt from then on. */
static void leave_open(struct flow_run *run, struct fan_item *item, int64_t attempt)
{
    item->is_in_doubt = true;
    if (attempt != run->plan.attempt || flow_call_is_safe(run, run->plan.step))
        return;
    item->state = ITEM_FAILED;
    item->error = flow_error_unknown();
}

static void read_failed(struct flow_run *run, struct fan_item *item, const struct flow_item *fact)
{
    struct flow_error error = flow_error_read(fact->error, &run->op.arena);
    item->is_in_doubt |= error.effect != EXEC_EFFECT_NONE;
    if (fact->attempt > run->progress.attempt_base && item->tries < error.tries)
        item->tries = error.tries;
    if (fact->attempt != run->plan.attempt)
        return;
    item->state = ITEM_FAILED;
    item->error = error;
    item->error.is_final = true;
}

/* Facts of an item are in order of attempts, and within an attempt in the order begun, completed,
 * failed. An item completed in any attempt is completed. Facts of the current attempt are from an
 * earlier owner, since this process writes facts only after it has loaded them. next is the
 * following fact, or NULL. */
static void read_fact(struct flow_run *run, struct flow_fan *fan, const struct flow_item *fact,
                      const struct flow_item *next)
{
    struct fan_item *item = &fan->items[fact->item];
    bool has_end = next && next->item == fact->item && next->attempt == fact->attempt;
    ASSERT(fact->item >= 0 && fact->step_index == (int64_t)run->plan.step);
    if (item->state == ITEM_COMPLETED)
        return;
    if (fact->fact == FLOW_ITEM_COMPLETED) {
        item->state = ITEM_COMPLETED;
        item->output = fact->output;
        fan->output_bytes += fact->output.len + 1;
    } else if (fact->fact == FLOW_ITEM_FAILED) {
        read_failed(run, item, fact);
    } else if (!has_end) {
        leave_open(run, item, fact->attempt);
    }
}

/* Makes the fan from the loaded facts and, if this process made the previous attempt, from its fan.
 * Both are needed, because the facts were loaded before the attempts made here. Returns NULL if out
 * of memory. */
static struct flow_fan *make_fan(struct flow_run *run)
{
    struct flow_fan *old = run->progress.fan;
    struct flow_fan *fan = ARENA_NEW(&run->op.arena, struct flow_fan);
    if (!fan)
        return NULL;
    fan->count = run->plan.value.count;
    fan->items = ARENA_ARRAY(&run->op.arena, struct fan_item, fan->count + 1);
    if (!fan->items)
        return NULL;
    fan->is_read = flow_call_is_read(run, run->plan.step);
    for (size_t i = 0; i < fan->count; i++)
        fan->items[i].tries = run->plan.attempt - 1 - run->progress.attempt_base;
    for (size_t i = 0; i < run->whole.item_count; i++)
        if (run->whole.items[i].step_index == (int64_t)run->plan.step &&
            run->whole.items[i].item < (int64_t)fan->count)
            read_fact(run, fan, &run->whole.items[i],
                      i + 1 < run->whole.item_count ? &run->whole.items[i + 1] : NULL);
    for (size_t i = 0; old && i < old->count && i < fan->count; i++) {
        fan->items[i].is_in_doubt |= old->items[i].is_in_doubt;
        fan->items[i].tries = old->items[i].tries;
        if (old->items[i].state == ITEM_COMPLETED && fan->items[i].state != ITEM_COMPLETED) {
            fan->items[i] = old->items[i];
            fan->output_bytes += old->items[i].output.len + 1;
        }
    }
    for (size_t i = 0; i < fan->count; i++)
        fan->is_stopped = fan->is_stopped || fan->items[i].state == ITEM_FAILED;
    return fan;
}

bool flow_fan_has_done(struct flow_run *run, size_t item)
{
    const struct flow_fan *fan = run->progress.fan;
    bool is_safe = flow_call_is_safe(run, run->plan.step), is_open = false;
    if (fan) /* it has the loaded facts, too */
        return item < fan->count && (fan->items[item].state == ITEM_COMPLETED ||
                                     (is_safe && fan->items[item].is_in_doubt));
    for (size_t i = 0; i < run->whole.item_count; i++) {
        const struct flow_item *fact = &run->whole.items[i];
        if (fact->step_index != (int64_t)run->plan.step || fact->item != (int64_t)item)
            continue;
        if (fact->fact == FLOW_ITEM_COMPLETED)
            return true;
        is_open = fact->fact == FLOW_ITEM_BEGUN ||
                  flow_error_read(fact->error, flow_run_scratch(run)).effect != EXEC_EFFECT_NONE;
    }
    return is_open && is_safe;
}

bool flow_fan_is_stopped(struct flow_run *run)
{
    const struct flow_fan *fan = make_fan(run);
    return fan && fan->is_stopped;
}

bool flow_fan_start(struct flow_run *run)
{
    const struct flow_step_def *step = flow_run_step(run);
    struct flow_fan *fan = make_fan(run);
    size_t to_do = 0;
    ASSERT(run->plan.kind == FLOW_PLAN_FAN_OUT && run->flow.is_begun);
    if (!fan)
        return false;
    run->progress.fan = fan;
    for (size_t i = 0; i < fan->count; i++)
        to_do += fan->items[i].state == ITEM_TO_DO;
    size_t lanes = step->concurrency > 0 ? step->concurrency : 1;
    if (lanes > FLOW_CONCURRENCY_MAX)
        lanes = FLOW_CONCURRENCY_MAX;
    for (size_t i = 0; i < lanes && i < to_do && !fan->is_stopped; i++) {
        struct flow_lane *lane = ARENA_NEW(&run->op.arena, struct flow_lane);
        if (!lane)
            break; /* fewer lanes can do the same work */
        lane->run = run;
        lane->fan = fan;
        arena_init(&lane->scratch, ITEM_ARENA_MAX);
        lane->scratch.use = run->op.arena.use; /* charged to the account's share */
        op_start(&lane->op, &lane_class, run->op.loop, &run->op, LANE_ARENA_MAX);
        fan->lanes[fan->lane_count++] = lane;
    }
    return fan->lane_count > 0 || to_do == 0 || fan->is_stopped;
}

void flow_fan_cancel(struct flow_run *run)
{
    for (size_t i = 0; run->progress.fan && i < run->progress.fan->lane_count; i++)
        op_cancel(&run->progress.fan->lanes[i]->op);
}

/* ---- the end ---- */

static slice put_outputs(struct flow_run *run, const struct flow_fan *fan)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, FLOW_OUTPUT_BYTES_MAX);
    json_open(w, '[');
    for (size_t i = 0; i < fan->count; i++)
        json_put_raw(w, fan->items[i].output);
    json_close(w, ']');
    return json_text_take(&text, flow_run_scratch(run));
}

/* Returns the combined effect of all items. */
static enum exec_effect effect_of(const struct flow_fan *fan)
{
    bool has_acted = false, has_not_acted = false;
    for (size_t i = 0; i < fan->count; i++) {
        const struct fan_item *item = &fan->items[i];
        enum exec_effect effect = item->state == ITEM_COMPLETED ? EXEC_EFFECT_DONE
                                  : item->is_in_doubt           ? EXEC_EFFECT_UNKNOWN
                                                                : EXEC_EFFECT_NONE;
        if (item->state == ITEM_FAILED && item->error.effect != EXEC_EFFECT_NONE)
            effect = item->error.effect;
        if (effect == EXEC_EFFECT_UNKNOWN)
            return EXEC_EFFECT_UNKNOWN;
        has_acted |= effect != EXEC_EFFECT_NONE;
        has_not_acted |= effect != EXEC_EFFECT_DONE;
    }
    if (!has_acted || fan->is_read)
        return EXEC_EFFECT_NONE;
    return has_not_acted ? EXEC_EFFECT_PARTLY : EXEC_EFFECT_DONE;
}

/* Ranks an item's error for use as the step's error. An unknown outcome ranks highest, since other
 * errors may say that nothing was done. An error that may not be retried is next, because it
 * decides whether the step is retried. */
static unsigned weight_of(const struct flow_error *error)
{
    return error->effect == EXEC_EFFECT_UNKNOWN ? 2 : error->is_final;
}

/* Makes the step's error: the error of one failed item, with the numbers of the failed items and
 * the count of completed items. */
static void sum_up(struct flow_run *run, const struct flow_fan *fan, struct flow_error *error)
{
    struct arena *arena = flow_run_scratch(run);
    const struct fan_item *said = NULL;
    size_t failed = 0, completed = 0;
    bool is_final = false;
    struct buf names;
    buf_init(&names, 256);
    for (size_t i = 0; i < fan->count; i++) {
        const struct fan_item *item = &fan->items[i];
        completed += item->state == ITEM_COMPLETED;
        if (item->state != ITEM_FAILED)
            continue;
        if (failed++ < NAMED_MAX)
            buf_printf(&names, "%s%zu", failed > 1 ? ", " : "", i + 1);
        is_final |= item->error.is_final || !item->error.is_retryable;
        if (!said || weight_of(&item->error) > weight_of(&said->error))
            said = item;
    }
    ASSERT(said); /* called only after an item has failed */
    *error = said->error;
    error->tries = 0; /* an item's own */
    error->is_final = is_final;
    error->effect = effect_of(fan);
    error->message = arena_printf(arena, "%s %.*s%s of %zu failed, %zu completed: %.*s",
                                  failed > 1 ? "Items" : "Item", SLICE_ARG(buf_slice(&names)),
                                  failed > NAMED_MAX ? " and more" : "", fan->count, completed,
                                  SLICE_ARG(said->error.message));
    buf_deinit(&names);
    slice hint = error->effect == EXEC_EFFECT_UNKNOWN ? flow_hint_unknown() : error->hint;
    error->hint = arena_printf(arena, "%.*s%sResume runs only the items that have not completed.",
                               SLICE_ARG(hint), hint.len > 0 ? " " : "");
}

enum flow_fan_end flow_fan_join(struct flow_run *run, slice *output_json, struct flow_error *error)
{
    struct flow_fan *fan = run->progress.fan;
    size_t completed = 0, failed = 0;
    ASSERT(run->op.holds == 0); /* all lanes have ended */
    fan->lane_count = 0;
    for (size_t i = 0; i < fan->count; i++) {
        completed += fan->items[i].state == ITEM_COMPLETED;
        failed += fan->items[i].state == ITEM_FAILED;
    }
    if (fan->is_left)
        return FLOW_FAN_LEFT;
    if (failed > 0) {
        sum_up(run, fan, error);
        return FLOW_FAN_FAILED;
    }
    if (!fan->is_too_large && completed < fan->count)
        return FLOW_FAN_LEFT; /* the lanes were cancelled */
    *output_json = fan->is_too_large ? SLICE_NONE : put_outputs(run, fan);
    if (output_json->ptr)
        return FLOW_FAN_COMPLETED;
    *error = flow_error_make(
        "execution_failed",
        arena_printf(flow_run_scratch(run),
                     "The outputs of %zu items are larger than the 1 MB that a step stores.",
                     completed),
        SLICE("Ask each call for less, for example for fewer fields."));
    if (!fan->is_read)
        error->effect = completed < fan->count ? EXEC_EFFECT_PARTLY : EXEC_EFFECT_DONE;
    return FLOW_FAN_FAILED;
}
