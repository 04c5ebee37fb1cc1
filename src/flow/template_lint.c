/*
 * Checks which names a template's expressions may use, which steps' outputs they use, and that
 * people see what they confirm: all values of a step confirmed by an approval must be known when
 * the approval is shown. The check is static, on the paths that expressions read from the root, so
 * a running flow never misses an input or a step.
 */
#include <stdio.h>

#include "flow/template_read.h"

struct lint {
    struct reader *reader; /* the step's */
    struct flow_template *tmpl;
    struct flow_step_def *step;
    size_t index;
    const char *member;      /* the step's member that is being checked */
    slice where;             /* JSON Pointer to the place in that member */
    bool sees_item;          /* the expression may use `item` and `index` */
    bool reads_before;       /* the `before.now` expression under check reads `before` */
    const struct json *sent; /* the step's input, as written in the file */
};

PRINTF_LIKE(2, 3) static void complain(const struct lint *lint, const char *fmt, ...)
{
    char name[512], text[512];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    (void)snprintf(name, sizeof(name), "%s%.*s", lint->member, SLICE_ARG(lint->where));
    reader_error(lint->reader, name, "%s", text);
}

static bool is_when(const struct lint *lint)
{
    return strcmp(lint->member, "when") == 0;
}

static void check_input(const struct lint *lint, const slice *names, size_t count)
{
    const struct json *schema = lint->tmpl->input_schema;
    if (count > 1 && !json_get(JSON_GET(schema, "properties"), names[1]))
        complain(lint, "the template's input has no property \"%.*s\"", SLICE_ARG(names[1]));
}

/* Also collects `reads`. In a step that an approval confirms only `when` may read outputs after
 * the approval, since it can only withdraw the call. */
static void check_steps(struct lint *lint, const slice *names, size_t count)
{
    ptrdiff_t at = count > 1 ? template_find_step(lint->tmpl, names[1]) : -1;
    if (at >= 0)
        lint->step->reads |= UINT64_C(1) << at;
    if (count == 1)
        complain(lint, "name the step: steps.KEY");
    else if (at < 0)
        complain(lint, "there is no step \"%.*s\"", SLICE_ARG(names[1]));
    else if ((size_t)at >= lint->index)
        complain(lint, "step \"%.*s\" has not run yet here", SLICE_ARG(names[1]));
    else if (lint->step->confirm != FLOW_CONFIRM_APPROVAL || (size_t)at < lint->step->confirm_step)
        return;
    else if (is_when(lint))
        lint->step->is_when_late = true;
    else
        complain(lint,
                 "steps.%.*s is not known yet when \"%.*s\" shows people what they confirm; use "
                 "only inputs and steps before it",
                 SLICE_ARG(names[1]), SLICE_ARG(lint->tmpl->steps[lint->step->confirm_step].key));
}

/* A confirmed call is evaluated twice, for the approval and for the call, and currentTime would
 * differ. */
static void check_flow(const struct lint *lint, const slice *names, size_t count)
{
    slice known = SLICE("id templateKey createdAt triggerType currentTime");
    if (count < 2 || !slice_has_word(known, names[1]))
        complain(lint, "flow has id, templateKey, createdAt, triggerType and currentTime; name one "
                       "of them");
    else if (slice_eq_cstr(names[1], "currentTime") && lint->step->confirm != FLOW_CONFIRM_NONE)
        complain(lint, "a confirmed call may not depend on flow.currentTime, which differs when "
                       "the call is tried again; use flow.createdAt");
}

/* Called once for each path that an expression reads, with its plain names. Always returns true:
 * one expression may have several problems. */
static bool on_path(void *user, const slice *names, size_t count)
{
    struct lint *lint = user;
    if (count == 0)
        complain(lint, "the whole context is too much: name input, steps.KEY, flow.NAME or item");
    else if (slice_eq_cstr(names[0], "input"))
        check_input(lint, names, count);
    else if (slice_eq_cstr(names[0], "steps"))
        check_steps(lint, names, count);
    else if (slice_eq_cstr(names[0], "flow"))
        check_flow(lint, names, count);
    else if (!slice_eq_cstr(names[0], "item") && !slice_eq_cstr(names[0], "index"))
        complain(
            lint,
            "\"%.*s\" is not known; known are input, steps, flow, and in a fan-out item and index",
            SLICE_ARG(names[0]));
    else if (!lint->sees_item)
        complain(lint, "\"%.*s\" is known only in input and connection of a step with for_each",
                 SLICE_ARG(names[0]));
    return true;
}

static bool on_expr(void *user, const struct expr *expr, slice where)
{
    struct lint *lint = user;
    lint->where = where;
    expr_root_names(expr, on_path, lint);
    return true;
}

static void check_template(struct lint *lint, const char *member, const struct expr_template *tmpl,
                           bool sees_item)
{
    lint->member = member;
    lint->sees_item = sees_item;
    if (tmpl)
        expr_template_each_expr(tmpl, on_expr, lint);
}

static void check_expr(struct lint *lint, const char *member, const struct expr *expr)
{
    lint->member = member;
    lint->where = SLICE_NONE;
    lint->sees_item = false;
    if (expr)
        expr_root_names(expr, on_path, lint);
}

/* ---- before ---- */

/* Checks a path of `now`: the present values come from the named step, and `item` only selects. */
static bool on_now_path(void *user, const slice *names, size_t count)
{
    struct lint *lint = user;
    bool is_item = count > 0 && slice_has_word(SLICE("item index"), names[0]);
    if (count > 0 && slice_eq_cstr(names[0], "before"))
        lint->reads_before = true;
    else if (!is_item)
        complain(lint, "may name only before (the step's output), item and index");
    else if (!lint->step->for_each)
        complain(lint, "\"%.*s\" is known only in a step with for_each", SLICE_ARG(names[0]));
    return true;
}

static bool on_now(void *user, const struct expr *expr, slice where)
{
    struct lint *lint = user;
    lint->where = where;
    lint->reads_before = false;
    expr_root_names(expr, on_now_path, lint);
    if (!lint->reads_before)
        complain(lint, "must use the output of the step: refer to \"before\"");
    return true;
}

/* Checks a path of `then`: the new values come from the call's input. */
static bool on_then_path(void *user, const slice *names, size_t count)
{
    struct lint *lint = user;
    const struct json *sent = lint->sent;
    if (count > 0 && json_is(sent, JSON_OBJECT) && !json_get(sent, names[0]))
        complain(lint, "the step's input has no \"%.*s\", and nothing else is sent",
                 SLICE_ARG(names[0]));
    return true;
}

static bool on_then(void *user, const struct expr *expr, slice where)
{
    struct lint *lint = user;
    lint->where = where;
    expr_root_names(expr, on_then_path, lint);
    return true;
}

/* Checks that each property is read, since a property that was not read would be shown as empty. */
static void check_properties(const struct lint *lint)
{
    const struct json *before = JSON_GET(lint->reader->object, "before");
    const struct json *now = JSON_GET(before, "now"), *then = JSON_GET(before, "then");
    for (uint32_t i = 0; json_is(now, JSON_OBJECT) && json_is(then, JSON_OBJECT) && i < then->count;
         i++)
        if (!json_get(now, json_str(&then->as.members[i].key)))
            reader_error(lint->reader, "before/now",
                         "does not say what \"%.*s\" is now, although \"then\" changes it",
                         SLICE_ARG(slice_first_utf8(json_str(&then->as.members[i].key), 80)));
}

static void check_before(struct lint *lint)
{
    const struct flow_before *before = &lint->step->before;
    lint->sent = JSON_GET(lint->reader->object, "input");
    lint->member = "before/now";
    expr_template_each_expr(before->now, on_now, lint);
    lint->member = "before/title";
    if (before->title)
        expr_template_each_expr(before->title, on_now, lint);
    lint->member = "before/then";
    expr_template_each_expr(before->then, on_then, lint);
    check_properties(lint);
}

/* If the approval itself may be skipped, the confirmed steps must be skipped with it. Values
 * read by `when` never change once they are known, so the same text has the same result. */
static void check_same_when(struct lint *lint)
{
    const struct flow_step_def *step = lint->step;
    const struct expr *when = lint->tmpl->steps[step->confirm_step].when;
    if (when && (!step->when || !slice_eq(expr_source(when), expr_source(step->when))))
        reader_error(lint->reader, step->when ? "when" : NULL,
                     "\"%.*s\", which confirms this step, has a condition: give this step the same "
                     "\"when\"",
                     SLICE_ARG(lint->tmpl->steps[step->confirm_step].key));
}

_Static_assert(FLOW_STEPS_MAX <= 64, "flow_step_def.reads has a bit for each step");

void template_lint_step(struct reader *r, struct flow_template *tmpl, size_t index)
{
    struct flow_step_def *step = &tmpl->steps[index];
    struct lint lint = {.reader = r, .tmpl = tmpl, .step = step, .index = index};
    bool is_fan_out = step->for_each != NULL;
    check_expr(&lint, "when", step->when);
    check_template(&lint, "input", step->input, is_fan_out);
    check_expr(&lint, "for_each", step->for_each);
    check_template(&lint, "connection", step->connection, is_fan_out);
    check_expr(&lint, "expr", step->expr);
    check_template(&lint, "for", step->wait_for, false);
    check_template(&lint, "until", step->wait_until, false);
    check_template(&lint, "title", step->title, false);
    check_template(&lint, "summary", step->summary, false);
    check_template(&lint, "expires_in", step->expires_in, false);
    if (step->confirm == FLOW_CONFIRM_APPROVAL)
        check_same_when(&lint);
    if (step->before.now)
        check_before(&lint);
}

/* The title is made before any step has run, so it is checked as if for step 0. */
void template_lint_title(struct reader *r, struct flow_template *tmpl)
{
    struct flow_step_def none = {.key = SLICE_NONE};
    struct lint lint = {.reader = r, .tmpl = tmpl, .step = &none};
    check_template(&lint, "flow_title", tmpl->flow_title, false);
}

/* A confirmation at the start is the input's required `confirm: true`: without the const in the
 * schema a start could omit it, or send false. */
void template_lint_input(struct reader *r, const struct flow_template *tmpl)
{
    const struct json *schema = tmpl->input_schema;
    const struct json *properties = JSON_GET(schema, "properties");
    const struct json *closed = JSON_GET(schema, "additionalProperties");
    const struct json *confirm = JSON_GET(JSON_GET(properties, "confirm"), "const");
    if (!slice_eq_cstr(json_get_str(schema, SLICE("type")), "object"))
        reader_error(r, "input", "must have type \"object\"");
    if (!json_is(closed, JSON_BOOL) || closed->as.boolean)
        reader_error(r, "input",
                     "must have \"additionalProperties\": false, so that a misspelt "
                     "input is refused");
    for (uint32_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++)
        if (!JSON_GET(&properties->as.members[i].value, "description"))
            reader_warning(r, "input", "property \"%.*s\" has no description",
                           SLICE_ARG(json_str(&properties->as.members[i].key)));
    for (size_t i = 0; i < tmpl->step_count; i++)
        if (tmpl->steps[i].confirm == FLOW_CONFIRM_START &&
            (!json_has_text(JSON_GET(schema, "required"), SLICE("confirm")) ||
             !json_is(confirm, JSON_BOOL) || !confirm->as.boolean)) {
            reader_error(r, "input",
                         "step \"%.*s\" is confirmed by the start, so a required property "
                         "\"confirm\": {\"const\": true} is needed",
                         SLICE_ARG(tmpl->steps[i].key));
            return;
        }
}
