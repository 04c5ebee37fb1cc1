/*
 * Flows: the list, and the form that starts one.
 */
#include <stdio.h>

#include "base/clock.h"
#include "web/once.h"
#include "web/pages.h"

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

static void write_flow_filter(struct web_request *request, struct buf *out)
{
    slice wanted = web_query(request, "status");
    buf_append(out, SLICE("<form class=\"inline card\" method=\"get\" action=\"/flows\"><div>"
                          "<label for=\"status\">Status</label><select id=\"status\" "
                          "name=\"status\"><option value=\"\">any</option>"));
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        slice status = slice_cstr(statuses[i]);
        HTML(out, slice_eq(wanted, status) ? "<option selected>{}</option>" : "<option>{}</option>",
             status);
    }
    HTML(out,
         slice_eq_cstr(wanted, approval)
             ? "<option value=\"{}\" selected>waiting for approval</option>"
             : "<option value=\"{}\">waiting for approval</option>",
         slice_cstr(approval));
    buf_append(out, SLICE("</select></div><button>Show</button></form>"));
}

void web_write_flow_row(struct buf *out, const struct flow_row *flow)
{
    char id[UUID_TEXT_LEN + 1];
    uuid_format(flow->id, id);
    HTML(out,
         "<li class=\"row\"><div><h3><a href=\"/flows/{}\">{}</a></h3><p class=\"soft\">step {}, "
         "changed ",
         slice_of(id, UUID_TEXT_LEN), flow->name, flow->current_step);
    html_time(out, flow->updated_at);
    buf_append(out, SLICE("</p></div>"));
    web_badge(out, slice_cstr(flow_status_name(flow->status)));
    buf_append(out, SLICE("</li>"));
}

static enum op_result begin_flows_page(struct web_request *request)
{
    /* An unknown status filters nothing. */
    struct flow_filter filter = {
        .account_id = request->session.account_id,
        .status = status_of(web_query(request, "status")),
        .is_for_approval = slice_eq_cstr(web_query(request, "status"), approval),
        .limit = FLOWS_A_PAGE,
    };
    slice before = web_query(request, "before");
    if (before.ptr && !uuid_parse(before, &filter.before))
        return web_reply_problem(request, 404, SLICE("Not found"),
                                 SLICE("There is no page at this address."));
    request->state = flow_page_start_rows(request->web->config.flow, &filter, &request->op);
    return request->state ? OP_WAIT : web_reply_database(request, ERR_BUSY);
}

static void write_older(struct web_request *request, const struct flow_page *page, struct buf *out)
{
    char last[UUID_TEXT_LEN + 1];
    ASSERT(page->count <= FLOWS_A_PAGE);
    /* Fewer rows than a page holds: there are no older ones. */
    if (page->count < FLOWS_A_PAGE)
        return;
    uuid_format(page->rows[page->count - 1].id, last);
    slice status = web_query(request, "status");
    HTML(out,
         "<p class=\"actions\"><a class=\"button\" href=\"/flows?before={}&amp;status={}\">"
         "Older</a></p>",
         slice_of(last, UUID_TEXT_LEN), status_of(status) < 0 ? SLICE("") : status);
}

static enum op_result finish_flows_page(struct web_request *request)
{
    struct flow_page *page = request->state;
    struct buf body;
    if (page->status != OK)
        return web_reply_database(request, page->status);
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    buf_append(&body, SLICE("<p class=\"actions\"><a class=\"button primary\" "
                            "href=\"/flows/new\">Start a flow</a></p>"));
    write_flow_filter(request, &body);
    if (page->count == 0)
        buf_append(&body, SLICE("<p>No flows.</p>"));
    buf_append(&body, SLICE("<ul class=\"list\">"));
    for (size_t i = 0; i < page->count; i++)
        web_write_flow_row(&body, &page->rows[i]);
    buf_append(&body, SLICE("</ul>"));
    write_older(request, page, &body);
    return web_reply_page(request, 200, SLICE("Flows"), &body);
}

const struct web_page web_flows = {.route = "/flows",
                                   .access = WEB_SESSION,
                                   .scope = SCOPE_READ,
                                   .begin = begin_flows_page,
                                   .finish = finish_flows_page};

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

static bool is_boolean(const struct json *property)
{
    return slice_eq_cstr(json_get_str(property, SLICE("type")), "boolean");
}

/* Several lines: the schema says so, or it allows a long text and forbids no line break. */
static bool is_long_text(const struct json *property)
{
    return slice_starts_with(json_get_str(property, SLICE("contentMediaType")), SLICE("text/")) ||
           (slice_eq_cstr(json_get_str(property, SLICE("type")), "string") &&
            json_get_i64(property, SLICE("maxLength"), 0) >= LONG_TEXT_CHARS &&
            !JSON_GET(property, "pattern"));
}

static void write_input(struct web_request *request, const struct flow_template *tmpl, slice name,
                        const struct json *property, struct buf *out)
{
    char field[160];
    /* Property names are at most as long as a schema's keys; a longer one is cut, and left empty
     * then. */
    (void)snprintf(field, sizeof(field), "input.%.*s", SLICE_ARG(name));
    slice given = web_field(request, field);
    if (is_boolean(property)) {
        /* A checkbox that is not ticked sends nothing, so an optional boolean is absent then. */
        HTML(out, "<p><label><input type=\"checkbox\" name=\"input.{}\" value=\"true\"", name);
        buf_append(out, given.ptr ? SLICE(" checked> ") : SLICE("> "));
        value_write_name(out, name);
        buf_append(out, SLICE("</label></p>"));
    } else {
        HTML(out, "<label for=\"in-{}\">", name);
        value_write_name(out, name);
        buf_append(out, is_required_input(tmpl, name)
                            ? SLICE("</label>")
                            : SLICE(" <span class=\"soft\">(optional)</span></label>"));
        bool is_long = is_long_text(property);
        HTML(out,
             is_long ? "<textarea rows=\"8\" id=\"in-{}\" name=\"input.{}\" "
                       "aria-describedby=\"hint-{}\""
                     : "<input id=\"in-{}\" name=\"input.{}\" aria-describedby=\"hint-{}\"",
             name, name, name);
        if (is_required_input(tmpl, name))
            buf_append(out, SLICE(" required"));
        /* HTML drops one line break after the tag, so it is not part of the text */
        HTML(out, is_long ? ">\n{}</textarea>" : " value=\"{}\">", given);
    }
    HTML(out, "<p class=\"hint\" id=\"hint-{}\">{}</p>", name,
         json_get_str(property, SLICE("description")));
}

/* The id of the flow that the form will start: a second press starts no second flow. */
static void write_once(struct web_request *request, struct buf *out)
{
    struct uuid id = uuid_v7();
    char plain[1 + sizeof(id.bytes)] = {ONCE_FLOW};
    memcpy(plain + 1, id.bytes, sizeof(id.bytes));
    once_write_field(request, slice_of(plain, sizeof(plain)), out);
}

static enum op_result reply_form(struct web_request *request, unsigned status,
                                 const struct flow_template *tmpl, slice problem)
{
    struct buf body;
    const struct json *properties = properties_of(tmpl);
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    /* After an error the form comes back with what was typed (web_field), and a fresh id. */
    if (problem.len > 0)
        HTML(&body, "<p class=\"problem\" role=\"alert\">{}</p>", problem);
    HTML(&body,
         "<p>{}</p><form class=\"card\" method=\"post\" action=\"/flows/new\">"
         "<input type=\"hidden\" name=\"template\" value=\"{}\">",
         tmpl->description, tmpl->key);
    web_csrf_field(request, &body);
    write_once(request, &body);
    for (size_t i = 0; properties && i < properties->count; i++)
        write_input(request, tmpl, json_str(&properties->as.members[i].key),
                    &properties->as.members[i].value, &body);
    buf_append(&body,
               SLICE("<p class=\"actions\"><button class=\"primary\">Start</button> "
                     "<a class=\"button\" href=\"/flows/new\">Another template</a></p></form>"));
    return web_reply_page(request, status, tmpl->name, &body);
}

static enum op_result begin_new(struct web_request *request)
{
    const struct flow_template_set *set = templates_of(request);
    slice asked = web_query(request, "template");
    /* A form that comes back after signing in has the template in a field. */
    slice wanted = asked.ptr ? asked : web_field(request, "template");
    const struct flow_template *tmpl = wanted.ptr ? flow_template_set_find(set, wanted) : NULL;
    struct buf body;
    if (tmpl)
        return reply_form(request, 200, tmpl, SLICE_NONE);
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    buf_append(&body, SLICE("<ul class=\"list\">"));
    for (size_t i = 0; i < set->count; i++)
        HTML(&body, "<li><h3><a href=\"/flows/new?template={}\">{}</a></h3><p>{}</p></li>",
             set->items[i]->key, set->items[i]->name, set->items[i]->description);
    buf_append(&body, SLICE("</ul>"));
    return web_reply_page(request, 200, SLICE("Start a flow"), &body);
}

const struct web_page web_flow_new = {
    .route = "/flows/new", .access = WEB_SESSION, .scope = SCOPE_EXECUTE, .begin = begin_new};

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

static enum op_result begin_start(struct web_request *request)
{
    slice key = web_field(request, "template");
    const struct flow_template *tmpl = flow_template_set_find(templates_of(request), key);
    struct flow_request in = {
        .kind = FLOW_COMMAND_START, .template_key = key, .trigger_type = SLICE("manual")};
    if (!tmpl)
        return web_reply_problem(request, 404, SLICE("No such template"),
                                 SLICE("It may have been removed; reload the list."));
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
    return web_begin_command(request, &in);
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

const struct web_page web_flow_start = {.route = "/flows/new",
                                        .access = WEB_SESSION,
                                        .scope = SCOPE_EXECUTE,
                                        .begin = begin_start,
                                        .finish = finish_start};
