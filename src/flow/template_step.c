/*
 * Reads one step of a template (contrib/templates/README.md "Steps"), whose members depend on its
 * type. A member that the step's type does not have is an error (reader_finish); otherwise a
 * misspelled member would be ignored.
 */
#include "base/clock.h"
#include "flow/template_read.h"

enum {
    CONCURRENCY_DEFAULT = 4,
    BACKOFF_MS_DEFAULT = 1000,
    BACKOFF_MS_MAX_DEFAULT = 60000,
};

static const char *const step_types[] = {
    [FLOW_TOOL_CALL] = "tool_call",
    [FLOW_TRANSFORM] = "transform",
    [FLOW_WAIT] = "wait",
    [FLOW_APPROVAL] = "approval",
    NULL,
};

const char *flow_step_type_name(enum flow_step_type type)
{
    return step_types[type];
}

static const struct expr_template *read_required(struct reader *r, const char *name)
{
    if (!json_get(r->object, slice_cstr(name)))
        reader_error(r, NULL, "member \"%s\" is missing", name);
    return reader_template(r, name);
}

/* Reads a duration in seconds: a number, or a template that yields one. */
static const struct expr_template *read_duration(struct reader *r, const char *name)
{
    const struct expr_template *tmpl = reader_template(r, name);
    struct json value;
    if (!template_constant(r, name, tmpl, &value))
        return tmpl;
    double seconds = json_to_double(&value);
    if (!json_is_number(&value) || seconds < 0 || seconds > FLOW_SECONDS_MAX)
        reader_error(r, name,
                     "must be a number of seconds from 0 to %d, or a ${...} that gives one",
                     FLOW_SECONDS_MAX);
    return tmpl;
}

/* ---- tool_call ---- */

/* A template without "retry" leaves attempts_max at 0: its default depends on the call (call.c). */
static void read_retry(struct reader *parent, struct flow_retry *retry)
{
    struct reader r;
    *retry = (struct flow_retry){0, BACKOFF_MS_DEFAULT, BACKOFF_MS_MAX_DEFAULT};
    if (!reader_enter(&r, parent, "retry"))
        return;
    retry->attempts_max = (unsigned)reader_count(&r, "attempts", FLOW_ATTEMPTS_MAX);
    double backoff = reader_number(&r, "backoff", FLOW_TIMEOUT_S_MAX);
    double backoff_max = reader_number(&r, "backoff_max", FLOW_SECONDS_MAX);
    if (backoff > 0)
        retry->backoff_ms = (unsigned)(backoff * 1000);
    if (backoff_max > 0)
        retry->backoff_ms_max = (unsigned)(backoff_max * 1000);
    if (retry->backoff_ms_max < retry->backoff_ms)
        retry->backoff_ms_max = retry->backoff_ms;
    if (retry->attempts_max == 0)
        reader_error(&r, "attempts", "must be a whole number from 1 to %d", FLOW_ATTEMPTS_MAX);
    reader_finish(&r);
}

/* Only an earlier step can be named: later steps are not in tmpl yet. */
static void read_confirm_approval(struct reader *r, const struct flow_template *tmpl, slice key,
                                  struct flow_step_def *step)
{
    ptrdiff_t index = template_find_step(tmpl, key);
    step->confirm = FLOW_CONFIRM_APPROVAL;
    if (index < 0)
        reader_error(r, "confirmed_by", "there is no earlier step \"%.*s\"", SLICE_ARG(key));
    else if (tmpl->steps[index].type != FLOW_APPROVAL)
        reader_error(r, "confirmed_by", "\"%.*s\" is not an approval step", SLICE_ARG(key));
    else
        step->confirm_step = (size_t)index;
}

static void read_confirm(struct reader *r, const struct flow_template *tmpl,
                         struct flow_step_def *step)
{
    static const slice approval = SLICE_INIT("approval:");
    slice text = reader_text(r, "confirmed_by");
    if (slice_starts_with(text, approval))
        read_confirm_approval(r, tmpl, slice_from(text, approval.len), step);
    else if (slice_eq_cstr(text, "start"))
        step->confirm = FLOW_CONFIRM_START;
    else if (text.ptr)
        reader_error(r, "confirmed_by", "must be \"approval:STEP\" or \"start\"");
}

/* Reads `now` or `then`: an object, or one `${...}` that yields an object. */
static const struct expr_template *read_properties(struct reader *r, const char *name)
{
    const struct json *value = json_get(r->object, slice_cstr(name));
    const struct expr_template *tmpl = read_required(r, name);
    if (tmpl && (expr_template_is_constant(tmpl) || !value ||
                 (value->type != JSON_OBJECT && value->type != JSON_STRING)))
        reader_error(r, name, "must be an object of ${...}, or a ${...} that gives one");
    return tmpl;
}

/* As with confirmed_by, only an earlier step can be named. Whether that step is a read is checked
 * in template_tool.c. */
static void read_before(struct reader *parent, const struct flow_template *tmpl,
                        struct flow_step_def *step)
{
    struct reader r;
    if (!reader_enter(&r, parent, "before"))
        return;
    slice key = reader_text_required(&r, "step");
    ptrdiff_t at = template_find_step(tmpl, key);
    const struct expr_template *now = read_properties(&r, "now");
    step->before.then = read_properties(&r, "then");
    step->before.title = reader_template(&r, "title");
    reader_finish(&r);
    if (at < 0 || tmpl->steps[at].type != FLOW_TOOL_CALL)
        reader_error(&r, "step", "there is no earlier step \"%.*s\" that calls a tool",
                     SLICE_ARG(key));
    else if (step->confirm != FLOW_CONFIRM_APPROVAL)
        reader_error(parent, "before", "is shown by an approval: name it in \"confirmed_by\"");
    else if ((size_t)at >= step->confirm_step)
        reader_error(&r, "step", "\"%.*s\" has not run yet when the approval shows what changes",
                     SLICE_ARG(key));
    else if (now && step->before.then) {
        const struct expr *own = step->for_each, *other = tmpl->steps[at].for_each;
        step->before.step = (size_t)at;
        step->before.now = now;
        step->before.is_by_item = own && other && slice_eq(expr_source(own), expr_source(other));
        step->reads |= UINT64_C(1) << at;
    }
}

/* Reads the call's input: an object, or one `${...}` that yields an object. Without it the tool
 * gets {}. */
static const struct expr_template *read_call_input(struct reader *r)
{
    static const struct json none = {.type = JSON_OBJECT};
    const struct json *value = reader_member(r, "input");
    struct err err;
    const struct expr_template *tmpl = expr_template_compile(r->arena, value ? value : &none, &err);
    if (!tmpl)
        reader_error(r, "input", "%s", err.text);
    else if (value && value->type != JSON_OBJECT &&
             (value->type != JSON_STRING || expr_template_is_constant(tmpl)))
        reader_error(r, "input", "must be an object, or a ${...} that gives one");
    return tmpl;
}

/* reader_count returns 0 for a missing member and for the number 0, which is an error here. */
static void read_tool_call(struct reader *r, const struct flow_template *tmpl,
                           struct flow_step_def *step)
{
    step->tool = reader_text_required(r, "tool");
    step->input = read_call_input(r);
    step->for_each = reader_expr(r, "for_each");
    step->concurrency = (unsigned)reader_count(r, "concurrency", FLOW_CONCURRENCY_MAX);
    if (step->concurrency > 0 && !step->for_each)
        reader_error(r, "concurrency", "is for a step with for_each");
    else if (step->concurrency == 0 && json_get(r->object, SLICE("concurrency")))
        reader_error(r, "concurrency", "must be a whole number from 1 to %d", FLOW_CONCURRENCY_MAX);
    if (step->concurrency == 0)
        step->concurrency = CONCURRENCY_DEFAULT;
    read_retry(r, &step->retry);
    step->timeout_ms = (unsigned)(reader_number(r, "timeout", FLOW_TIMEOUT_S_MAX) * 1000);
    step->connection = reader_template(r, "connection");
    read_confirm(r, tmpl, step);
    read_before(r, tmpl, step);
    /* Programs that do not know how a held call is made refuse this member, and so the template. */
    if (tmpl->is_held)
        (void)reader_bool(r, "held", false);
}

/* ---- the others ---- */

static void read_transform(struct reader *r, struct flow_step_def *step)
{
    step->expr = reader_expr(r, "expr");
    if (!json_get(r->object, SLICE("expr")))
        reader_error(r, NULL, "member \"expr\" is missing");
}

static void read_wait(struct reader *r, struct flow_step_def *step)
{
    struct json value;
    int64_t when;
    step->wait_for = read_duration(r, "for");
    step->wait_until = reader_template(r, "until");
    if (template_constant(r, "until", step->wait_until, &value) &&
        !time_parse(json_str(&value), &when))
        reader_error(r, "until", "must be an RFC 3339 time, or a ${...} that gives one");
    if (!json_get(r->object, SLICE("for")) == !json_get(r->object, SLICE("until")))
        reader_error(r, NULL, "a wait has one of \"for\" (seconds) and \"until\" (a time)");
}

static void read_approval(struct reader *r, struct flow_step_def *step)
{
    step->title = read_required(r, "title");
    step->title_text = json_get_str(r->object, SLICE("title"));
    step->summary = read_required(r, "summary");
    step->expires_in = read_duration(r, "expires_in");
}

/* An approval's title is a template that describes the decision. */
static void read_label(struct reader *r, struct flow_step_def *step)
{
    step->label = reader_text(r, "title");
    if (step->label.ptr && (!slice_is_name(step->label, FLOW_LABEL_CHARS_MAX) ||
                            slice_find(step->label, SLICE("${")) >= 0))
        reader_error(r, "title",
                     "must be one line of at most %d characters, without ${...}; only an approval "
                     "may have ${...}",
                     FLOW_LABEL_CHARS_MAX);
}

void template_read_step(struct reader *parent, struct reader_path *path, const struct json *object,
                        struct flow_template *tmpl, size_t index)
{
    struct flow_step_def *step = &tmpl->steps[index];
    struct reader r;
    if (!reader_init(&r, parent, path, object))
        return;
    step->key = reader_text_required(&r, "key");
    if (step->key.len > 0 && !reader_is_id(step->key, FLOW_KEY_BYTES_MAX))
        reader_error(&r, "key", "must match [a-z][a-z0-9_]* and have at most %d characters",
                     FLOW_KEY_BYTES_MAX);
    else if (template_find_step(tmpl, step->key) >= 0)
        reader_error(&r, "key", "another step is called \"%.*s\"", SLICE_ARG(step->key));
    int type = reader_choice(&r, "type", step_types, -1);
    step->when = reader_expr(&r, "when");
    if (!json_get(object, SLICE("type")))
        reader_error(&r, NULL, "member \"type\" is missing");
    /* without a valid type the allowed members are not known, so no member is reported */
    if (type < 0)
        return;
    step->type = (enum flow_step_type)type;
    if (step->type != FLOW_APPROVAL)
        read_label(&r, step);
    switch (step->type) {
    case FLOW_TOOL_CALL:
        read_tool_call(&r, tmpl, step);
        break;
    case FLOW_TRANSFORM:
        read_transform(&r, step);
        break;
    case FLOW_WAIT:
        read_wait(&r, step);
        break;
    case FLOW_APPROVAL:
        read_approval(&r, step);
        break;
    }
    reader_finish(&r);
}
