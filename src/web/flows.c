/*
 * Flows: the list, and the form that starts one.
 */
#include <stdio.h>

#include "base/clock.h"
#include "web/flow_decision.h"
#include "web/once.h"

enum { FLOWS_A_PAGE = 25, LONG_TEXT_CHARS = 4000, ONCE_FLOW = 'f' };

static const char *const statuses[] = {"running", "waiting", "completed", "failed", "cancelled"};
/* One more choice of the filter: the waiting flows that wait for an approval. */
static const char approval[] = "approval";

/* ---- the list ---- */

static int status_of(slice text)
{
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        if (slice_eq_cstr(text, statuses[i]))
            return (int)i; /* in the order of enum flow_status */
    return slice_eq_cstr(text, approval) ? FLOW_WAITING : -1;
}

void view_flow(struct json_writer *w, const struct flow_row *flow)
{
    json_open(w, '{');
    view_id(w, "id", flow->id);
    json_member_str(w, "title", flow->title);
    json_member_str(w, "name", flow->name);
    json_member_str(w, "status", slice_cstr(flow_status_name(flow->status)));
    json_member_str(w, "step", flow->step_title);
    view_time(w, "updatedAt", flow->updated_at);
    json_close(w, '}');
}

struct flows {
    struct flow_filter filter;
    struct flow_page *page; /* NULL: out of memory when it was started */
};

/* Fewer rows than a page holds: there are no older ones, but for those that were not looked at. */
static void write_older(struct json_writer *w, const struct flows *flows)
{
    const struct flow_page *page = flows->page;
    if (page->count == FLOWS_A_PAGE)
        view_id(w, "older", page->rows[page->count - 1].id);
    else if (!uuid_is_nil(flows->filter.since))
        view_id(w, "older", flows->filter.since);
    else
        json_member_str(w, "older", SLICE_NONE);
}

static enum op_result finish_flows_page(struct web_request *request)
{
    const struct flows *flows = request->state;
    const struct flow_page *page = flows->page;
    slice status = web_query(request, "status");
    if (page->status != OK)
        return web_reply_database(request, page->status);
    ASSERT(page->count <= FLOWS_A_PAGE);
    struct json_writer *w = view_begin(request);
    json_member_open(w, "flows", '[');
    for (size_t i = 0; i < page->count; i++)
        view_flow(w, &page->rows[i]);
    json_close(w, ']');
    json_member_open(w, "statuses", '[');
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        json_put_str(w, slice_cstr(statuses[i]));
    json_close(w, ']');
    json_member_str(w, "status", status_of(status) < 0 ? SLICE("") : status);
    view_templates(request, w);
    json_member_str(w, "template", web_query(request, "template"));
    write_older(w, flows);
    return web_reply_view(request, 200, "flows");
}

static enum op_result load_flows(struct web_request *request)
{
    struct flows *flows = request->state;
    flows->page = flow_page_start_rows(request->web->config.flow, &flows->filter, &request->op);
    return flows->page ? web_wait(request, finish_flows_page)
                       : web_reply_database(request, ERR_NOMEM);
}

static enum op_result on_horizon(struct web_request *request)
{
    struct flows *flows = request->state;
    int status = store_flow_horizon_result(&request->query, &flows->filter.since);
    return status == OK ? load_flows(request) : web_reply_database(request, status);
}

enum op_result web_flows(struct web_request *request)
{
    struct flows *flows = ARENA_NEW(&request->op.arena, struct flows);
    if (!flows)
        return web_reply_database(request, ERR_NOMEM);
    /* An unknown status filters nothing. */
    flows->filter = (struct flow_filter){
        .account_id = request->session.account_id,
        .status = status_of(web_query(request, "status")),
        .is_for_approval = slice_eq_cstr(web_query(request, "status"), approval),
        .template_key = web_query(request, "template"),
        .limit = FLOWS_A_PAGE,
    };
    slice before = web_query(request, "before");
    if (before.ptr && !uuid_parse(before, &flows->filter.before))
        return web_reply_missing(request, "There is no page at this address.");
    request->state = flows;
    if (!flows->filter.template_key.ptr)
        return load_flows(request);
    /* Of a template that few flows have, a page looks at some, and "Older" goes on. */
    store_flow_horizon(request->web->config.pool, &request->query, &request->op, &flows->filter);
    return web_wait(request, on_horizon);
}

/* ---- starting a flow ---- */

static const struct flow_template_set *templates_of(const struct web_request *request)
{
    return *request->web->config.templates;
}

static const struct json *properties_of(const struct flow_template *tmpl)
{
    /* A schema without properties is legal; the form then has only its button. */
    const struct json *properties = JSON_GET(tmpl->input_schema, "properties");
    return json_is(properties, JSON_OBJECT) ? properties : NULL;
}

static bool is_required_input(const struct flow_template *tmpl, slice name)
{
    return json_has_text(JSON_GET(tmpl->input_schema, "required"), name);
}

/* Several lines: the schema says so, or it allows a long text and forbids no line break. */
static bool is_long_text(const struct json *property)
{
    return slice_starts_with(json_get_str(property, SLICE("contentMediaType")), SLICE("text/")) ||
           (slice_eq_cstr(json_get_str(property, SLICE("type")), "string") &&
            json_get_i64(property, SLICE("maxLength"), 0) >= LONG_TEXT_CHARS &&
            !JSON_GET(property, "pattern"));
}

/* How the field of an input is displayed, as flow_start.html knows it. */
static slice kind_of(const struct json *property)
{
    if (slice_eq_cstr(json_get_str(property, SLICE("type")), "boolean"))
        return SLICE("boolean");
    return is_long_text(property) ? SLICE("long") : SLICE("text");
}

static void write_input(struct web_request *request, const struct flow_template *tmpl,
                        const struct json_member *member, struct json_writer *w)
{
    char field[160];
    slice name = json_str(&member->key);
    /* Property names are at most as long as a schema's keys; a longer one is cut, and left empty
     * then. */
    (void)snprintf(field, sizeof(field), "input.%.*s", SLICE_ARG(name));
    json_open(w, '{');
    json_member_str(w, "name", name);
    value_view_name(w, "label", name);
    json_member_str(w, "value", web_field(request, field));
    json_member_str(w, "kind", kind_of(&member->value));
    json_member_bool(w, "required", is_required_input(tmpl, name));
    json_member_str(w, "hint", json_get_str(&member->value, SLICE("description")));
    json_close(w, '}');
}

/* The id of the flow that the form will start: a second press starts no second flow. */
static void write_once(struct web_request *request, struct json_writer *w)
{
    struct uuid id = uuid_v7();
    char plain[1 + sizeof(id.bytes)] = {ONCE_FLOW};
    memcpy(plain + 1, id.bytes, sizeof(id.bytes));
    once_view_field(request, slice_of(plain, sizeof(plain)), w);
}

static enum op_result reply_form(struct web_request *request, unsigned status,
                                 const struct flow_template *tmpl, slice problem)
{
    const struct json *properties = properties_of(tmpl);
    struct json_writer *w = view_begin(request);
    /* After an error the form comes back with what was typed (web_field), and a fresh id. */
    json_member_str(w, "problem", problem);
    json_member_str(w, "key", tmpl->key);
    json_member_str(w, "name", tmpl->name);
    json_member_str(w, "description", tmpl->description);
    write_once(request, w);
    json_member_open(w, "inputs", '[');
    for (size_t i = 0; properties && i < properties->count; i++)
        write_input(request, tmpl, &properties->as.members[i], w);
    json_close(w, ']');
    return web_reply_view(request, status, "flow_start");
}

enum op_result web_flow_new(struct web_request *request)
{
    slice asked = web_query(request, "template");
    /* A form that comes back after signing in has the template in a field. */
    slice wanted = asked.ptr ? asked : web_field(request, "template");
    const struct flow_template *tmpl =
        wanted.ptr ? flow_template_set_find(templates_of(request), wanted) : NULL;
    if (tmpl)
        return reply_form(request, 200, tmpl, SLICE_NONE);
    view_templates(request, view_begin(request));
    return web_reply_view(request, 200, "flow_new");
}

/* Line ends as programs expect them; browsers send CR LF. */
static slice plain_lines(struct arena *arena, slice text)
{
    char *to = arena_alloc_text(arena, text.len + 1);
    size_t len = 0;
    for (size_t i = 0; to && i < text.len; i++)
        if (text.ptr[i] != '\r' || i + 1 == text.len || text.ptr[i + 1] != '\n')
            to[len++] = text.ptr[i];
    return to ? slice_of(to, len) : text;
}

/* Converted as the schema wants it: text where a string is allowed, JSON where the text parses as
 * such. Empty fields are left out. */
static struct json typed_input(struct web_request *request, const struct json *property, slice text)
{
    struct arena *arena = &request->op.arena;
    slice type = json_get_str(property, SLICE("type"));
    const struct json *parsed = json_parse(arena, text, &json_limits_request, NULL);
    bool is_text = slice_eq_cstr(type, "string") || !parsed;
    /* for a choice of types only an object is taken as JSON; anything else is text as it was typed
     */
    if (!type.ptr && parsed && parsed->type != JSON_OBJECT)
        is_text = true;
    return is_text ? json_string(text) : *parsed;
}

static const struct json *read_input(struct web_request *request, const struct flow_template *tmpl)
{
    struct arena *arena = &request->op.arena;
    struct json *input = ARENA_NEW(arena, struct json);
    const struct json *properties = properties_of(tmpl);
    if (!input)
        return NULL;
    *input = json_object();
    for (size_t i = 0; properties && i < properties->count; i++) {
        slice name = json_str(&properties->as.members[i].key);
        char field[160];
        (void)snprintf(field, sizeof(field), "input.%.*s", SLICE_ARG(name));
        /* An empty field is left out, so that the schema's default holds. */
        slice text = web_field(request, field);
        if (text.len > 0)
            json_object_set(
                arena, input, name,
                typed_input(request, &properties->as.members[i].value, plain_lines(arena, text)));
    }
    /* json_object_set fails only for want of memory, which the arena remembers. */
    return arena->is_exhausted ? NULL : input;
}

static enum op_result finish_start(struct web_request *request)
{
    const struct flow_command *command = web_command_of(request);
    const struct flow_template *tmpl =
        flow_template_set_find(templates_of(request), command->in.template_key);
    char id[UUID_TEXT_LEN + 1];
    /* The template may have been removed while the command ran; then the generic page answers. */
    if (command->answer == FLOW_ANSWER_INVALID && tmpl)
        return reply_form(request, 400, tmpl, command->message);
    /* REPEATED: this form's flow exists already, which is what the reader wanted. */
    if (command->answer != FLOW_ANSWER_DONE && command->answer != FLOW_ANSWER_REPEATED)
        return web_refuse_command(request, command);
    uuid_format(command->in.flow_id, id);
    return web_reply_redirect(request, arena_printf(&request->op.arena, "/flows/%s", id),
                              "started");
}

enum op_result web_flow_start(struct web_request *request)
{
    slice key = web_field(request, "template");
    const struct flow_template *tmpl = flow_template_set_find(templates_of(request), key);
    struct flow_request in = {
        .kind = FLOW_COMMAND_START, .template_key = key, .trigger_type = SLICE("manual")};
    if (!tmpl)
        return web_reply_problem(request, 404, "No such template",
                                 "It may have been removed; reload the list.");
    slice once = once_read_field(request, ONCE_FLOW);
    if (once.len != 1 + sizeof(in.flow_id.bytes))
        return reply_form(request, 400, tmpl,
                          SLICE("This form is too old, or from another session; nothing was "
                                "started. Check it and press Start again."));
    /* The first byte is the kind, the rest the flow's id. */
    memcpy(in.flow_id.bytes, once.ptr + 1, sizeof(in.flow_id.bytes));
    in.input = read_input(request, tmpl);
    if (!in.input)
        return web_reply_database(request, ERR_NOMEM);
    return web_begin_command(request, &in, finish_start);
}
