/*
 * Checks a tool_call step against the catalog: the tool exists, a write is confirmed, and the
 * constant parts of the input fit its schema. A mistake is reported when the template is loaded,
 * not when a flow reaches the step.
 */
#include "flow/template_read.h"

/* Whether the schema has this member; a schema that is not closed has every member. */
static bool is_known_member(const struct json *schema, slice name)
{
    const struct json *closed = JSON_GET(schema, "additionalProperties");
    return !json_is(closed, JSON_BOOL) || closed->as.boolean ||
           json_get(JSON_GET(schema, "properties"), name);
}

static void check_names(struct reader *r, const struct catalog_action *action,
                        const struct json *input)
{
    const struct json *schema = action->input_schema, *required = JSON_GET(schema, "required");
    for (uint32_t i = 0; i < input->count; i++)
        if (!is_known_member(schema, json_str(&input->as.members[i].key)))
            reader_error(r, "input", "%.*s has no input \"%.*s\"", SLICE_ARG(action->tool_name),
                         SLICE_ARG(json_str(&input->as.members[i].key)));
    for (uint32_t i = 0; json_is(required, JSON_ARRAY) && i < required->count; i++)
        if (!json_get(input, json_str(&required->as.items[i])))
            reader_error(r, "input", "%.*s needs the input \"%.*s\"", SLICE_ARG(action->tool_name),
                         SLICE_ARG(json_str(&required->as.items[i])));
}

/* Returns the members of input that have no placeholders, as they will be sent. */
static struct json constant_members(struct reader *r, const struct json *input)
{
    struct json constants = json_object();
    for (uint32_t i = 0; i < input->count; i++) {
        const struct json_member *member = &input->as.members[i];
        struct err err;
        struct json value;
        const struct expr_template *tmpl = expr_template_compile(r->arena, &member->value, &err);
        if (template_constant(r, "input", tmpl, &value))
            json_object_set(r->arena, &constants, json_str(&member->key), value);
    }
    return constants;
}

/* In a partial input only faults inside existing members are reported. */
static void check_constants(struct reader *r, const struct catalog_action *action,
                            const struct json *input)
{
    struct json constants = constant_members(r, input);
    struct schema_report report;
    schema_report_init(&report, r->arena, SLICE_NONE);
    if (constants.count == 0 || schema_validate(action->schema, &constants, &report))
        return;
    bool is_whole = constants.count == input->count;
    for (size_t i = 0; i < report.count; i++) {
        const struct schema_violation *found = &report.violations[i];
        slice name = slice_from(found->pointer, 1), rest = name;
        if (!is_whole && !json_get(&constants, slice_split(&rest, '/')))
            continue;
        reader_error(r, "input", "%s%.*s %.*s", found->pointer.len ? "" : "the input",
                     SLICE_ARG(found->pointer), SLICE_ARG(found->message));
    }
}

/* Checks that `before` names a read: the result of a write does not show the state before it. */
static void check_before_reads(struct reader *r, const struct flow_template *tmpl,
                               const struct flow_step_def *step, const struct catalog *catalog)
{
    const struct flow_step_def *read = &tmpl->steps[step->before.step];
    const struct catalog_action *action = step->before.now ? catalog_find_tool(catalog, read->tool)
                                                           : NULL;
    if (action && action->level != LEVEL_READ)
        reader_error(r, "before/step", "\"%.*s\" is not a read: %.*s is %s", SLICE_ARG(read->key),
                     SLICE_ARG(read->tool), catalog_level_name(action->level));
}

void template_check_tool(struct reader *r, struct flow_template *tmpl,
                         const struct flow_step_def *step, const struct catalog *catalog,
                         const struct json *input)
{
    static const struct json none = {.type = JSON_OBJECT};
    const struct catalog_action *action = catalog_find_tool(catalog, step->tool);
    if (!action) {
        reader_error(r, "tool", "%.*s",
                     SLICE_ARG(catalog_say_no_tool(catalog, step->tool, NULL, r->arena)));
        return;
    }
    tmpl->writes = tmpl->writes || action->level != LEVEL_READ;
    if (action->requires_confirmation && step->confirm == FLOW_CONFIRM_NONE)
        reader_error(r, NULL,
                     "%.*s writes: \"confirmed_by\" must name the approval step that shows it "
                     "(\"approval:STEP\"), or \"start\"",
                     SLICE_ARG(step->tool));
    if (!action->requires_confirmation && step->confirm != FLOW_CONFIRM_NONE)
        reader_warning(r, "confirmed_by", "%.*s only reads and needs no confirmation",
                       SLICE_ARG(step->tool));
    check_before_reads(r, tmpl, step, catalog);
    if (!input)
        input = &none;
    /* The input is a single ${...}, so its members are known only when the step runs. */
    if (input->type != JSON_OBJECT)
        return;
    check_names(r, action, input);
    check_constants(r, action, input);
}
