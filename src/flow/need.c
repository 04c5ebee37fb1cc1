/*
 * Whether a flow has remaining steps that use a certain connection: for a warning before the
 * connection is deleted. If this cannot be known yet, the answer is yes. Also finds the inputs that
 * name a connection.
 */
#include "flow/internal.h"
#include "flow/load.h"

static bool on_names(void *user, const slice *names, size_t count)
{
    bool *is_open = user;
    *is_open |= count == 0 || !slice_eq_cstr(names[0], "input");
    return true;
}

static bool on_expr(void *user, const struct expr *expr, slice where)
{
    (void)where;
    expr_root_names(expr, on_names, user);
    return true;
}

/* Returns the connection that the step names; 0 for the default connection, or if the expression
 * fails. Sets *is_open to whether the connection depends on outputs or items, which are not known
 * yet. */
static int64_t named_connection(const struct flow_step_def *step, const struct json *input,
                                struct arena *arena, bool *is_open)
{
    struct expr_budget budget;
    struct json root = json_object(), value;
    *is_open = false;
    if (!step->connection)
        return 0;
    json_object_set(arena, &root, SLICE("input"), input ? *input : json_object());
    expr_budget_init(&budget);
    expr_template_each_expr(step->connection, on_expr, is_open);
    if (expr_template_eval(step->connection, &root, 0, &budget, arena, &value, NULL) != OK)
        return 0;
    return flow_connection_id(&value);
}

bool flow_has_need(const struct flow_need *need, const struct flow_listed *listed,
                   const struct flow_template *tmpl, struct arena *arena)
{
    const struct json *input = json_parse(arena, listed->input, &json_limits_provider, NULL);
    for (size_t i = (size_t)listed->flow.step_index; i < tmpl->step_count; i++) {
        const struct flow_step_def *step = &tmpl->steps[i];
        const struct catalog_action *action =
            step->type == FLOW_TOOL_CALL ? catalog_find_tool(need->catalog, step->tool) : NULL;
        bool is_open;
        if (!action || !slice_eq(action->integration->integration_id, need->integration_id))
            continue;
        int64_t id = named_connection(step, input, arena, &is_open);
        if (is_open || id == need->connection_id || (id == 0 && need->is_default))
            return true;
    }
    return false;
}

slice flow_input_connects(const struct flow_template *tmpl, const struct catalog *catalog,
                          slice name, struct arena *arena)
{
    enum { TRIED = 7 }; /* an arbitrary id, to test whether the step's expression returns it */
    struct json input = json_object();
    json_object_set(arena, &input, name, json_i64(TRIED));
    for (size_t i = 0; i < tmpl->step_count; i++) {
        const struct flow_step_def *step = &tmpl->steps[i];
        const struct catalog_action *action =
            step->type == FLOW_TOOL_CALL ? catalog_find_tool(catalog, step->tool) : NULL;
        bool is_open;
        if (action && named_connection(step, &input, arena, &is_open) == TRIED)
            return action->integration->integration_id;
    }
    return SLICE_NONE;
}
