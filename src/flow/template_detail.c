/*
 * A template as GET /api/flows/templates/{key} shows it: for a client that asks a person for the
 * input and describes the steps. Expressions are omitted; a condition is only marked as present.
 */
#include "flow/template.h"

static void put_confirm(struct json_writer *w, const struct flow_template *tmpl,
                        const struct flow_step_def *step)
{
    char room[128];
    if (step->confirm == FLOW_CONFIRM_START)
        json_member_str(w, "confirmed_by", SLICE("start"));
    else if (step->confirm == FLOW_CONFIRM_APPROVAL)
        json_member_str(w, "confirmed_by",
                        SLICE_JOIN(room, SLICE("approval:"), tmpl->steps[step->confirm_step].key));
}

static void put_call(struct json_writer *w, const struct flow_template *tmpl,
                     const struct flow_step_def *step, const struct catalog *catalog)
{
    const struct catalog_action *action = catalog_find_tool(catalog, step->tool);
    json_member_str(w, "tool", step->tool);
    if (action) {
        if (!step->label.ptr)
            json_member_str(w, "title", action->title);
        json_member_str(w, "integration_id", action->integration->integration_id);
        json_member_str(w, "side_effect_level", slice_cstr(catalog_level_name(action->level)));
    }
    put_confirm(w, tmpl, step);
    if (step->for_each)
        json_member_bool(w, "for_each", true);
}

/* Decisions in order of strictness; a hidden action is stricter than any. */
static unsigned strictness(const struct policy_verdict *verdict)
{
    static const unsigned of[] = {[POLICY_ALLOW] = 0,
                                  [POLICY_DEPENDS] = 1,
                                  [POLICY_CONFIRM] = 2,
                                  [POLICY_HOLD] = 3,
                                  [POLICY_DENY] = 4};
    return of[verdict->decision] + verdict->is_hidden;
}

const struct catalog_action *flow_template_action(const struct flow_template *tmpl,
                                                  const struct catalog *catalog, size_t step)
{
    struct flow_actions *known = tmpl->actions;
    ASSERT(step < tmpl->step_count);
    if (tmpl->steps[step].type != FLOW_TOOL_CALL)
        return NULL;
    if (known->serial != catalog->serial) {
        memset(known->of, 0, tmpl->step_count * sizeof(*known->of));
        known->serial = catalog->serial;
    }
    if (!known->of[step])
        known->of[step] = catalog_find_tool(catalog, tmpl->steps[step].tool);
    return known->of[step];
}

void flow_template_foresee(const struct flow_template *tmpl, const struct catalog *catalog,
                           struct policy *policy, struct policy_verdict *verdict)
{
    *verdict = (struct policy_verdict){.rule = POLICY_RULE_DEFAULT};
    for (size_t i = 0; policy && i < tmpl->step_count; i++) {
        const struct catalog_action *action = flow_template_action(tmpl, catalog, i);
        struct policy_verdict one;
        if (!action)
            continue;
        policy_foresee(policy, action, &one);
        bool is_satisfied = one.decision == POLICY_HOLD &&
                            tmpl->steps[i].confirm == FLOW_CONFIRM_APPROVAL;
        if (!is_satisfied && strictness(&one) > strictness(verdict))
            *verdict = one;
    }
}

static void put_step_detail(struct json_writer *w, const struct flow_template *tmpl,
                            const struct flow_step_def *step, const struct catalog *catalog)
{
    json_open(w, '{');
    json_member_str(w, "key", step->key);
    json_member_str(w, "type", slice_cstr(flow_step_type_name(step->type)));
    if (step->label.ptr)
        json_member_str(w, "title", step->label);
    if (step->type == FLOW_TOOL_CALL)
        put_call(w, tmpl, step, catalog);
    else if (step->type == FLOW_APPROVAL)
        json_member_str(w, "title", step->title_text);
    if (step->when)
        json_member_bool(w, "conditional", true);
    json_close(w, '}');
}

void flow_template_write_detail(struct buf *out, const struct flow_template *tmpl,
                                const struct catalog *catalog)
{
    struct json_writer w;
    json_begin(&w, out);
    json_open(&w, '{');
    json_member_str(&w, "key", tmpl->key);
    json_member_str(&w, "name", tmpl->name);
    json_member_str(&w, "description", tmpl->description);
    json_member(&w, "input_schema", tmpl->input_schema);
    json_member_open(&w, "steps", '[');
    for (size_t i = 0; i < tmpl->step_count; i++)
        put_step_detail(&w, tmpl, &tmpl->steps[i], catalog);
    json_close(&w, ']');
    json_close(&w, '}');
}
