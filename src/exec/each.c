/*
 * The items of a list, for vendors whose lists have only ids (the manifest's `each`): after the
 * list, up to `max` items are read by another read of the app, and what they have is added to the
 * items. An item that cannot be read keeps what the list says, and `not_read` says why.
 *
 * Each read is an execution of its own, with the limits, retries and renewals of any other, and
 * with the deadline of the run. It leaves no record: the output of the run is the only result. A
 * few are read at a time, so that one list neither takes the whole of its connection's limits nor
 * keeps the memory of all replies.
 */
#include "catalog/target.h"
#include "exec/internal.h"

enum { AT_ONCE = 10, MERGE_ON_LOOP_BYTES_MAX = 64 * 1024 };

#define NOT_READ SLICE("not_read")

struct exec_each {
    struct json *output;     /* NULL: not parsed yet */
    const struct json *list; /* the list in output */
    uint32_t count, next;    /* the items to read; the first that was not begun */
    bool is_merged;          /* everything that was read is in output */
    bool is_changed;         /* output is newer than the outcome's text */
    struct exec *parts[AT_ONCE];
    struct json *items[AT_ONCE];
    unsigned part_count;
};

/* A read that the caller's policy hides is neither made nor named. */
bool exec_has_each(struct exec *exec)
{
    const struct catalog_each *each = exec->action->each;
    return each && !exec_hides(exec, each->action_id) &&
           target_input_is(each->when, exec->in.input, &exec->op.arena);
}

static bool reads_items(struct exec *exec)
{
    return exec->out.reason == EXEC_SUCCEEDED && exec_has_each(exec);
}

static void say_not_read(struct exec *exec, struct json *item, slice why)
{
    json_object_put(&exec->op.arena, item, NOT_READ, json_string(why));
    exec->each->is_changed = true;
}

/* A list that lacks what was read must not look whole. */
static void end_too_large(struct exec *exec)
{
    exec_end_with(exec, EXEC_REPLY_TOO_LARGE,
                  SLICE("The items that were read do not fit into memory together."),
                  SLICE("Read fewer items in one call, or the list alone."));
}

/* Of an output without such a list, nothing is read. */
static void take_list(struct exec *exec)
{
    struct exec_each *each = exec->each;
    struct arena *arena = &exec->op.arena;
    const struct catalog_each *wanted = exec->action->each;
    slice beyond = SLICE_NONE;
    each->output = json_parse(arena, exec->out.output_json, &json_limits_provider, NULL);
    each->list = json_get(each->output, wanted->items);
    for (uint32_t i = 0; json_is(each->list, JSON_ARRAY) && i < each->list->count; i++) {
        struct json *item = &each->list->as.items[i];
        if (item->type != JSON_OBJECT) {
            each->count = 0;
            return;
        }
        if (i < wanted->max) {
            each->count++;
            continue;
        }
        if (!beyond.ptr)
            beyond = arena_printf(arena, "Only the first %u are read.", wanted->max);
        say_not_read(exec, item, beyond);
    }
}

/* ---- one read ---- */

/* Returns NULL if it cannot be made from this item. It is a copy, as the name of the action is: the
 * catalog may be replaced before a cancelled read has ended. */
static const struct json *make_input(struct exec *exec, const struct json *item)
{
    const struct catalog_pairs *pairs = &exec->action->each->input;
    struct arena *arena = &exec->op.arena;
    struct json root = json_object(), input = json_object();
    struct expr_budget budget;
    expr_budget_init(&budget);
    json_object_set(arena, &root, SLICE("input"), *exec->in.input);
    json_object_set(arena, &root, SLICE("item"), *item);
    for (size_t i = 0; i < pairs->count; i++) {
        struct json value;
        if (expr_template_eval(pairs->items[i].value, &root, EXPR_DROP_NULL_MEMBERS, &budget, arena,
                               &value, NULL) != OK)
            return NULL;
        if (value.type != JSON_NULL)
            json_object_set(arena, &input, pairs->items[i].name, value);
    }
    return json_dup(arena, &input);
}

/* It can only be a read, even if the catalog was replaced since (exec_is_unconfirmed). */
static void start_part(struct exec *exec, struct json *item)
{
    struct exec_each *each = exec->each;
    const struct json *input = make_input(exec, item);
    struct exec_request request = {
        .account_id = exec->in.account_id,
        .by = exec->in.by,
        .scopes = exec->in.scopes,
        .policy = exec->in.policy,
        .user = exec->in.user,
        .is_confirmed = exec->in.is_confirmed,
        .refusal_hint = exec->in.refusal_hint,
        .integration_id = exec->in.integration_id,
        .action_id = arena_dup(&exec->op.arena, exec->action->each->action_id),
        .input = input,
        .connection_id = exec->connection.item ? exec->connection.item->id : 0,
        .is_recorded_by_caller = true,
        .is_part = true,
        .proof = exec->in.proof,
        .deadline_ns = exec->deadline_ns,
        .trace = exec->in.trace,
    };
    struct exec *part =
        input && request.action_id.ptr ? exec_start(exec->service, &request, &exec->op) : NULL;
    if (!part) {
        say_not_read(exec, item, SLICE("Its read cannot be made from the list."));
        return;
    }
    each->items[each->part_count] = item;
    each->parts[each->part_count++] = part;
}

static void start_some(struct exec *exec)
{
    struct exec_each *each = exec->each;
    ASSERT(each->part_count == 0);
    while (each->next < each->count && each->part_count < AT_ONCE)
        start_part(exec, &each->list->as.items[each->next++]);
    each->is_merged = each->part_count == 0;
}

/* ---- what was read ---- */

static bool add_members(struct exec *exec, struct json *item, slice output)
{
    struct arena *arena = &exec->op.arena;
    const struct expr *wanted = exec->action->each->output;
    const struct json *read = json_parse(arena, output, &json_limits_provider, NULL);
    struct json value = json_null;
    struct expr_budget budget;
    struct err ignored;
    expr_budget_init(&budget);
    budget.bytes_max += 2 * output.len;
    if (read && !wanted)
        value = *read;
    else if (read && expr_eval(wanted, read, read, &budget, arena, &value, &ignored) != OK)
        return false;
    for (uint32_t i = 0; value.type == JSON_OBJECT && i < value.count; i++)
        if (value.as.members[i].value.type != JSON_NULL)
            json_object_put(arena, item, json_str(&value.as.members[i].key),
                            value.as.members[i].value);
    return value.type == JSON_OBJECT;
}

static void write_list(struct exec *exec)
{
    slice output = json_text_of(exec->each->output, &exec->op.arena, exec->op.arena.bytes_max);
    if (output.ptr)
        exec->out.output_json = output;
    else
        end_too_large(exec);
}

/* May run on a pool thread: it reads ended parts, and writes into the run's arena. */
static void merge(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct exec_each *each = exec->each;
    if (!each->output)
        take_list(exec);
    for (unsigned i = 0; i < each->part_count; i++) {
        const struct exec_outcome *out = exec_outcome_of(each->parts[i]);
        each->is_changed = true;
        if (out->reason != EXEC_SUCCEEDED)
            say_not_read(exec, each->items[i], arena_dup(&op->arena, out->message));
        else if (!add_members(exec, each->items[i], out->output_json))
            say_not_read(exec, each->items[i], SLICE("Its reply could not be read."));
    }
    each->is_merged = true;
    if (!each->output || op->arena.is_exhausted)
        end_too_large(exec);
    else if (each->next >= each->count && each->is_changed) {
        each->is_changed = false;
        write_list(exec);
    }
}

static enum op_result run_merge(struct exec *exec)
{
    struct exec_each *each = exec->each;
    size_t bytes = exec->out.output_json.len;
    for (unsigned i = 0; i < each->part_count; i++)
        bytes += exec_outcome_of(each->parts[i])->output_json.len;
    bool is_large = bytes > MERGE_ON_LOOP_BYTES_MAX;
    if (is_large)
        op_keep_children(&exec->op);
    return op_run_job(&exec->op, &exec->job, is_large, merge, "the items of its list to be added");
}

/* Called by NEXT until it returns OP_NEXT: starts some reads and waits, adds what they have read,
 * and so on. */
enum op_result exec_read_each(struct exec *exec)
{
    struct exec_each *each = exec->each;
    if (!each && !reads_items(exec))
        return OP_NEXT;
    if (!each && (each = exec->each = ARENA_NEW(&exec->op.arena, struct exec_each)) == NULL) {
        end_too_large(exec);
        return OP_NEXT;
    }
    if (!each->is_merged && run_merge(exec) == OP_WAIT)
        return op_wait_then(&exec->op, EXEC_STEP_NEXT);
    each->part_count = 0; /* not in the job: a cancel reads it */
    if (exec->out.reason == EXEC_SUCCEEDED)
        start_some(exec);
    if (each->part_count > 0)
        return op_wait_then(&exec->op, EXEC_STEP_NEXT);
    if (each->is_changed && exec->out.reason == EXEC_SUCCEEDED)
        write_list(exec);
    return OP_NEXT;
}

void exec_cancel_each(struct exec *exec)
{
    for (unsigned i = 0; exec->each && i < exec->each->part_count; i++)
        exec_cancel(exec->each->parts[i]);
}
