/*
 * The next step and its input. Expressions are evaluated before the transition to the step is
 * written, so that one statement contains the result of one step and the intent of the next
 * (src/README.md "A flow").
 *
 * A plan depends only on the input, the outputs of completed steps and the time. So another owner
 * that loads the flow makes the same plan, and losing an unrecorded plan does no harm.
 */
#include "base/clock.h"
#include "flow/internal.h"

enum { RECORDED_ITEMS_BYTES_MAX = 256 * 1024, INPUT_BYTES_MAX = 4 * 1024 * 1024 };

void flow_plan_fault(struct flow_run *run, const char *what, const char *why)
{
    run->plan.kind = FLOW_PLAN_FAULT;
    run->plan.error = flow_error_make(
        "validation_error",
        arena_printf(flow_run_scratch(run), "%s of step \"%.*s\": %s", what,
                     SLICE_ARG(flow_run_step(run)->key), why),
        SLICE("Nothing was done in this step. Its input cannot be made from the output "
              "of earlier steps."));
}

/* The fault is logged for the operator, who wrote the expression. The step's error is for readers
 * who know only the flow's data. */
void flow_plan_log(const struct flow_run *run, const char *what, const struct err *err)
{
    log_event(LOG_INFO, "an expression of a template failed", LOG_CSTR("of", what),
              LOG_STR("flow_id", run->op.request_id), LOG_STR("template", run->tmpl->key),
              LOG_STR("step_key", flow_run_step(run)->key), LOG_CSTR("cause", err->text));
}

/* ---- the root of expressions ---- */

static struct json time_value(struct arena *arena, int64_t wall_us)
{
    char text[TIME_TEXT_LEN + 1];
    time_format(wall_us, text);
    return json_string_dup(arena, slice_of(text, TIME_TEXT_LEN));
}

/* Parses the output when an expression first refers to it, and stores the value. Returns NULL if
 * out of memory. */
static const struct json *output_value(struct flow_run *run, struct flow_output *output)
{
    struct err err;
    if (!output->value)
        output->value = output->text.ptr
                            ? json_parse(&run->op.arena, output->text, &json_limits_provider, &err)
                            : &json_null;
    return output->value;
}

/* Adds the outputs that the step's expressions name (a bit each in `reads`), so that no others are
 * parsed. A skipped step has no member, which JMESPath reads as null. */
static bool put_steps(struct flow_run *run, uint64_t reads, struct arena *arena, struct json *root)
{
    struct json steps = json_object();
    for (size_t i = 0; i < run->tmpl->step_count; i++) {
        if (!(reads >> i & 1) || !run->outputs[i].is_there)
            continue;
        const struct json *value = output_value(run, &run->outputs[i]);
        if (!value)
            return false;
        json_object_set(arena, &steps, run->tmpl->steps[i].key, *value);
    }
    json_object_set(arena, root, SLICE("steps"), steps);
    return true;
}

static struct json flow_value(const struct flow_run *run, struct arena *arena)
{
    struct json flow = json_object();
    json_object_set(arena, &flow, SLICE("id"), json_string(run->op.request_id));
    json_object_set(arena, &flow, SLICE("templateKey"), json_string(run->flow.template_key));
    json_object_set(arena, &flow, SLICE("createdAt"), time_value(arena, run->flow.created_at));
    json_object_set(arena, &flow, SLICE("triggerType"), json_string(run->flow.trigger_type));
    json_object_set(arena, &flow, SLICE("currentTime"), time_value(arena, run->plan.started_us));
    return flow;
}

struct json *flow_plan_root(struct flow_run *run, const struct flow_step_def *step,
                            struct arena *arena, const struct json *item, size_t index)
{
    ASSERT(!item || step->for_each);
    /* json_object_set does not report a lack of memory; the arena remembers it until the end. */
    struct json *root = ARENA_NEW(arena, struct json);
    if (!root)
        return NULL;
    *root = json_object();
    json_object_set(arena, root, SLICE("input"), *run->input);
    if (!put_steps(run, step->reads, arena, root))
        return NULL;
    json_object_set(arena, root, SLICE("flow"), flow_value(run, arena));
    if (item) {
        json_object_set(arena, root, SLICE("item"), *item);
        json_object_set(arena, root, SLICE("index"), json_i64((int64_t)index));
    }
    return arena->is_exhausted ? NULL : root;
}

/* The budget limits the time of one evaluation. */
bool flow_plan_evaluate(struct flow_run *run, const struct expr *expr,
                        const struct expr_template *tmpl, const char *what, struct json *value)
{
    struct arena *arena = flow_run_scratch(run);
    struct expr_budget budget;
    struct err err = {.text = "out of memory"};
    const struct json *root = flow_plan_root(run, flow_run_step(run), arena, NULL, 0);
    expr_budget_init(&budget);
    if (root && (expr ? expr_eval(expr, root, root, &budget, arena, value, &err)
                      : expr_template_eval(tmpl, root, 0, &budget, arena, value, &err)) == OK)
        return true;
    flow_plan_log(run, what, &err);
    flow_plan_fault(run, what, root ? budget.words : err.text);
    return false;
}

/* ---- inputs of calls ---- */

int64_t flow_connection_id(const struct json *value)
{
    int64_t id = 0;
    if (json_is(value, JSON_NULL))
        return 0;
    bool is_number = json_is(value, JSON_STRING) ? slice_to_i64(json_str(value), &id)
                                                 : json_to_i64(value, &id);
    return is_number && id > 0 ? id : EXEC_CONNECTION_NONE;
}

static int refuse_words(const struct flow_run *run, const char *member,
                        const struct expr_budget *budget, struct err *err)
{
    flow_plan_log(run, member, err);
    return err_set(err, err->code, "%s: %s", member, budget->words);
}

/* Evaluates the call of the step, or of one of its items. */
static int evaluate_call(struct flow_run *run, const struct flow_step_def *step,
                         const struct json *item, size_t index, struct arena *arena,
                         struct json *input, int64_t *connection_id, struct err *err)
{
    struct expr_budget budget;
    struct json connection;
    const struct json *root = flow_plan_root(run, step, arena, item, index);
    if (!root)
        return err_set(err, ERR_NOMEM, "out of memory");
    *input = json_object();
    *connection_id = 0;
    expr_budget_init(&budget);
    if (step->input && expr_template_eval(step->input, root, EXPR_DROP_NULL_MEMBERS, &budget, arena,
                                          input, err) != OK)
        return refuse_words(run, "input", &budget, err);
    if (input->type != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "it is %s, not an object", json_type_name(input));
    if (!step->connection)
        return OK;
    if (expr_template_eval(step->connection, root, 0, &budget, arena, &connection, err) != OK)
        return refuse_words(run, "connection", &budget, err);
    *connection_id = flow_connection_id(&connection);
    return OK;
}

bool flow_plan_item(struct flow_run *run, size_t index, struct arena *arena, struct json *input,
                    int64_t *connection_id, struct flow_error *error)
{
    const struct flow_step_def *step = flow_run_step(run);
    struct err err;
    ASSERT(run->plan.kind == FLOW_PLAN_FAN_OUT && index < run->plan.value.count);
    if (evaluate_call(run, step, &run->plan.value.as.items[index], index, arena, input,
                      connection_id, &err) == OK)
        return true;
    *error = flow_error_make("validation_error",
                             arena_printf(arena, "The input of this item: %s", err.text),
                             SLICE_NONE);
    return false;
}

static void plan_call(struct flow_run *run, const struct flow_step_def *step)
{
    struct arena *arena = flow_run_scratch(run);
    struct err err;
    run->plan.kind = FLOW_PLAN_CALL;
    if (evaluate_call(run, step, NULL, 0, arena, &run->plan.value, &run->plan.connection_id,
                      &err) != OK) {
        flow_plan_fault(run, "input", err.text);
        return;
    }
    run->plan.input_json = json_text_of(&run->plan.value, arena, INPUT_BYTES_MAX);
    if (!run->plan.input_json.ptr)
        flow_plan_fault(run, "input", "it is too large");
}

/* The inputs of the items are not evaluated here: a thousand inputs would make a long turn. Each
 * lane evaluates the input of an item before it makes the call. The row records the items, or their
 * number if they are large. */
static void plan_fan_out(struct flow_run *run, const struct flow_step_def *step)
{
    struct arena *arena = flow_run_scratch(run);
    run->plan.kind = FLOW_PLAN_FAN_OUT;
    if (!flow_plan_evaluate(run, step->for_each, NULL, "for_each", &run->plan.value))
        return;
    if (run->plan.value.type != JSON_ARRAY) {
        flow_plan_fault(run, "for_each", "its value is not an array");
        return;
    }
    if (run->plan.value.count > FLOW_ITEMS_MAX) {
        flow_plan_fault(run, "for_each", "it has more than 1,000 items");
        return;
    }
    struct json recorded = json_object();
    json_object_set(arena, &recorded, SLICE("items"), run->plan.value);
    run->plan.input_json = json_text_of(&recorded, arena, RECORDED_ITEMS_BYTES_MAX);
    if (!run->plan.input_json.ptr)
        run->plan.input_json = arena_printf(arena, "{\"count\":%u}", run->plan.value.count);
}

bool flow_plan_transform(struct flow_run *run, struct json *value)
{
    return flow_plan_evaluate(run, flow_run_step(run)->expr, NULL, "expr", value);
}

/* ---- the next step ---- */

static void plan_step(struct flow_run *run, const struct flow_step_def *step)
{
    switch (step->type) {
    case FLOW_TOOL_CALL:
        if (step->for_each)
            plan_fan_out(run, step);
        else
            plan_call(run, step);
        return;
    case FLOW_TRANSFORM:
        run->plan.kind = FLOW_PLAN_TRANSFORM;
        return;
    case FLOW_WAIT:
        flow_plan_wait(run, step);
        return;
    case FLOW_APPROVAL:
        flow_plan_approval(run, step);
        return;
    }
    UNREACHABLE("all types are above");
}

void flow_plan_none(struct flow_run *run, size_t step, int64_t attempt)
{
    run->plan.step = step;
    run->plan.attempt = attempt;
    run->plan.started_us = run->flow.updated_at;
    run->plan.input_json = SLICE_NONE;
}

/* A step whose `when` is false is skipped without a separate transition. There are at most
 * FLOW_STEPS_MAX steps. */
void flow_plan_make(struct flow_run *run, size_t at, int64_t attempt, bool is_decided)
{
    ASSERT(attempt > 0 && run->tmpl);
    run->plan.started_us = clock_shared_us();
    run->plan.attempt = attempt;
    run->plan.input_json = SLICE_NONE;
    run->plan.wake_at = run->plan.connection_id = 0;
    run->plan.shows = (struct flow_shows){0};
    run->transition.retry_ms = 0;
    for (size_t i = at; i < run->tmpl->step_count; i++) {
        const struct flow_step_def *step = &run->tmpl->steps[i];
        struct json when;
        run->plan.step = i;
        if (step->when && !(is_decided && i == at)) {
            if (!flow_plan_evaluate(run, step->when, NULL, "when", &when))
                return;
            if (!expr_is_true(&when)) {
                run->plan.attempt = 1; /* the next step begins with attempt 1 */
                continue;
            }
        }
        plan_step(run, step);
        return;
    }
    run->plan.kind = FLOW_PLAN_END;
}
