/*
 * Starting a flow: the templates with their apps and writes, and the form for one template, with
 * fields made from the schema of its input. Each fault is shown at its field.
 */
#include <stdio.h>

#include "base/ascii.h"
#include "schema/schema.h"
#include "serve/foresee.h"
#include "store/connection.h"
#include "web/app.h"
#include "web/once.h"

enum {
    LONG_TEXT_CHARS = 4000,
    ONCE_FLOW = 'f',
    CHOICES_MAX = 4,      /* inputs of a template that choose a connection; further ones are text
                           * fields */
    CONNECTIONS_MAX = 50, /* connections offered by a field; if the app has more, the id is typed */
};

/* An input that names a connection of an app. */
struct choice {
    slice name, integration_id;
    struct pg_query query, lent; /* lent: on a user's page, those that the account shares */
};

struct start {
    struct flow_template *tmpl; /* a reference; NULL: the list of all templates */
    slice problem;
    unsigned status;
    struct schema_report report;
    struct connect_apps apps;
    struct choice choices[CHOICES_MAX];
    size_t choice_count;
};

static struct policy_verdict foresee_start(const struct web_request *request,
                                           const struct flow_template *tmpl)
{
    struct policy_verdict verdict;
    flow_template_foresee(tmpl, *request->web->config.catalog, serve_policy(&request->serve),
                          &verdict);
    return verdict;
}

static bool may_start(const struct web_request *request, const struct flow_template *tmpl)
{
    const struct policy_verdict verdict = foresee_start(request, tmpl);
    return serve_may(&request->serve, flow_start_scope(tmpl)) &&
           !flow_template_is_refused(&verdict);
}

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

/* The name of an input's field is "input.<name>". Property names are at most as long as a schema's
 * keys; a longer name is cut, and its field stays empty. */
enum { FIELD_MAX = 160 };
static slice input_field(const struct web_request *request, slice name)
{
    char field[FIELD_MAX];
    (void)snprintf(field, sizeof(field), "input.%.*s", SLICE_ARG(name));
    return web_field(request, field);
}

/* ---- fields from a schema ---- */

/* How the field of an input is displayed, for flow_field.html. */
enum kind { KIND_TEXT, KIND_LONG, KIND_LINES, KIND_NUMBER, KIND_DATE, KIND_YES, KIND_CHOICE };

static bool has_type(const struct json *property, const char *type)
{
    return slice_eq_cstr(json_get_str(property, SLICE("type")), type);
}

/* The field has several lines if the schema requires it, or if it allows a long text and does
 * not forbid line breaks. */
static bool is_long_text(const struct json *property)
{
    return slice_starts_with(json_get_str(property, SLICE("contentMediaType")), SLICE("text/")) ||
           (has_type(property, "string") &&
            json_get_i64(property, SLICE("maxLength"), 0) >= LONG_TEXT_CHARS &&
            !JSON_GET(property, "pattern"));
}

/* Values to choose from are texts, like an option's value. */
static bool is_choice(const struct json *property)
{
    const struct json *values = JSON_GET(property, "enum");
    for (uint32_t i = 0; json_is(values, JSON_ARRAY) && i < values->count; i++)
        if (!json_is(&values->as.items[i], JSON_STRING))
            return false;
    return json_is(values, JSON_ARRAY) && values->count > 0;
}

static enum kind kind_of(const struct json *property)
{
    if (has_type(property, "boolean") || json_get_bool(property, SLICE("const"), false))
        return KIND_YES;
    if (is_choice(property))
        return KIND_CHOICE;
    if (has_type(property, "integer") || has_type(property, "number"))
        return KIND_NUMBER;
    if (has_type(property, "array") && has_type(JSON_GET(property, "items"), "string"))
        return KIND_LINES;
    if (has_type(property, "string") &&
        slice_eq_cstr(json_get_str(property, SLICE("format")), "date"))
        return KIND_DATE;
    return is_long_text(property) ? KIND_LONG : KIND_TEXT;
}

/* Returns whether the values, or one of the alternatives, are ids of 32 hexadecimal digits. */
static bool takes_id(const struct json *property)
{
    static const char *const nested[] = {"anyOf", "items"};
    const slice pattern = json_get_str(property, SLICE("pattern"));
    bool takes = slice_starts_with(pattern, SLICE("^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?"));
    for (size_t n = 0; n < ARRAY_LEN(nested); n++) {
        const struct json *inner = json_get(property, slice_cstr(nested[n]));
        takes = takes || (json_is(inner, JSON_OBJECT) && takes_id(inner));
        for (uint32_t i = 0; json_is(inner, JSON_ARRAY) && i < inner->count; i++)
            takes = takes || takes_id(&inner->as.items[i]);
    }
    return takes;
}

/* ---- writing the form ---- */

static void write_options(struct json_writer *w, const struct json *values, slice picked)
{
    for (uint32_t i = 0; json_is(values, JSON_ARRAY) && i < values->count; i++) {
        slice value = json_str(&values->as.items[i]);
        json_open(w, '{');
        json_member_str(w, "id", value);
        json_member_str(w, "name", value);
        json_member_bool(w, "is_picked", slice_eq(value, picked));
        json_close(w, '}');
    }
}

static void write_options_of(struct web_request *request, struct json_writer *w,
                             const struct connection *rows, size_t count, slice picked)
{
    struct arena *arena = &request->serve.op.arena;
    for (size_t i = 0; i < count; i++) {
        slice id = arena_printf(arena, "%lld", (long long)rows[i].id);
        json_open(w, '{');
        json_member_str(w, "id", id);
        json_member_str(
            w, "name",
            web_connection_is_lent(request, &rows[i])
                ? arena_printf(arena, "%.*s, shared by the account", SLICE_ARG(rows[i].label))
                : rows[i].label);
        json_member_bool(w, "is_picked", slice_eq(id, picked));
        json_close(w, '}');
    }
}

/* Returns false if there are too many for a choice, or if they could not be read. */
static bool write_connections_of(struct web_request *request, struct json_writer *w,
                                 const struct choice *choice, slice picked)
{
    struct connection *rows, *lent = NULL;
    size_t count, lent_count = 0;
    int status = store_connection_list_result(&choice->query, &rows, &count);
    if (status == OK && !uuid_is_nil(request->session.parent_id))
        status = store_connection_list_result(&choice->lent, &lent, &lent_count);
    if (status != OK || count + lent_count > CONNECTIONS_MAX)
        return false;
    write_options_of(request, w, rows, count, picked);
    write_options_of(request, w, lent, lent_count, picked);
    return true;
}

static const struct choice *choice_of(const struct start *start, slice name)
{
    for (size_t i = 0; i < start->choice_count; i++)
        if (slice_eq(start->choices[i].name, name))
            return &start->choices[i];
    return NULL;
}

/* Writes a numeric limit as an attribute; null if there is none. */
static void write_limit(struct json_writer *w, const char *key, const struct json *limit)
{
    if (limit)
        json_member(w, key, limit);
    else
        json_member_str(w, key, SLICE_NONE);
}

/* Returns the fault of an input, in words, or "" if there is none. */
static slice fault_of(struct web_request *request, const struct start *start, slice name,
                      bool is_missing)
{
    if (is_missing && start->report.count > 0)
        return SLICE("this field is required");
    slice words = web_fault_reported(request, &start->report, name);
    return words.ptr ? words : SLICE("");
}

static void write_input(struct web_request *request, const struct start *start,
                        const struct json_member *member, struct json_writer *w)
{
    static const slice kinds[] = {
        [KIND_TEXT] = SLICE_INIT("text"),    [KIND_LONG] = SLICE_INIT("long"),
        [KIND_LINES] = SLICE_INIT("lines"),  [KIND_NUMBER] = SLICE_INIT("number"),
        [KIND_DATE] = SLICE_INIT("date"),    [KIND_YES] = SLICE_INIT("boolean"),
        [KIND_CHOICE] = SLICE_INIT("choice")};
    const struct json *property = &member->value;
    slice name = json_str(&member->key), value = input_field(request, name);
    const struct choice *choice = choice_of(start, name);
    enum kind kind = kind_of(property);
    bool is_asked = json_has_text(JSON_GET(start->tmpl->input_schema, "required"), name);
    /* A box may stay unticked, which means "false", unless only "true" is allowed. */
    bool is_required = is_asked && (kind != KIND_YES || JSON_GET(property, "const"));
    json_open(w, '{');
    json_member_str(w, "name", name);
    /* In a choice of connections the id is not displayed. */
    bool is_id = choice && name.len > 2 && slice_eq_cstr(slice_from(name, name.len - 2), "Id");
    value_view_name(w, "label", is_id ? slice_first(name, name.len - 2) : name);
    json_member_str(w, "value", value);
    json_member_bool(w, "required", is_required);
    json_member_str(w, "hint", json_get_str(property, SLICE("description")));
    json_member_bool(w, "takes_link", takes_id(property));
    json_member_str(w, "fault", fault_of(request, start, name, is_required && value.len == 0));
    json_member_str(w, "any", choice ? SLICE("the default one") : SLICE("-"));
    json_member_open(w, "options", '[');
    if (choice && write_connections_of(request, w, choice, value))
        kind = KIND_CHOICE;
    else if (kind == KIND_CHOICE)
        write_options(w, JSON_GET(property, "enum"), value);
    json_close(w, ']');
    json_member_str(w, "kind", kinds[kind]);
    json_member_str(w, "step", has_type(property, "integer") ? SLICE("1") : SLICE("any"));
    write_limit(w, "min", kind == KIND_NUMBER ? JSON_GET(property, "minimum") : NULL);
    write_limit(w, "max", kind == KIND_NUMBER ? JSON_GET(property, "maximum") : NULL);
    json_close(w, '}');
}

/* Writes the id of the flow that the form will start, so that a second press does not start a
 * second flow. */
static void write_once(struct web_request *request, struct json_writer *w)
{
    struct uuid id = uuid_v7();
    char plain[1 + sizeof(id.bytes)] = {ONCE_FLOW};
    memcpy(plain + 1, id.bytes, sizeof(id.bytes));
    once_view_field(request, slice_of(plain, sizeof(plain)), w);
}

/* ---- a template's needs and effects ---- */

/* Returns whether an earlier step calls the same app. */
static bool is_known_app(const struct web_request *request, const struct flow_template *tmpl,
                         size_t before, const struct catalog_integration *app)
{
    const struct catalog *catalog = *request->web->config.catalog;
    for (size_t i = 0; i < before; i++) {
        const struct catalog_action *action = tmpl->steps[i].type == FLOW_TOOL_CALL
                                                  ? catalog_find_tool(catalog, tmpl->steps[i].tool)
                                                  : NULL;
        if (action && action->integration == app)
            return true;
    }
    return false;
}

/* Returns the state of the app's connection, for badge.html, or SLICE_NONE if the app needs no
 * connection. */
static slice state_of(const struct catalog_integration *app, const struct connection_app *own,
                      size_t count)
{
    const struct connection_app *known = connect_app_of(own, count, app->integration_id);
    if (app->auth.kind == AUTH_NONE)
        return SLICE_NONE;
    return known ? slice_cstr(connect_state_name(connect_state_of(known))) : SLICE("not connected");
}

/* Writes an object, as flow_does.html declares it. */
static void write_does(struct web_request *request, struct json_writer *w,
                       const struct flow_template *tmpl, const struct connection_app *own,
                       size_t count)
{
    const struct catalog *catalog = *request->web->config.catalog;
    json_open(w, '{');
    json_member_str(w, "key", tmpl->key);
    json_member_str(w, "name", tmpl->name);
    json_member_str(w, "description", tmpl->description);
    json_member_open(w, "apps", '[');
    for (size_t i = 0; i < tmpl->step_count; i++) {
        const struct catalog_action *action = tmpl->steps[i].type == FLOW_TOOL_CALL
                                                  ? catalog_find_tool(catalog, tmpl->steps[i].tool)
                                                  : NULL;
        if (!action || is_known_app(request, tmpl, i, action->integration))
            continue;
        json_open(w, '{');
        json_member_str(w, "id", action->integration->integration_id);
        json_member_str(w, "name", action->integration->name);
        view_app_mark(w, action->integration->integration_id, action->integration->name);
        json_member_str(w, "status", state_of(action->integration, own, count));
        json_close(w, '}');
    }
    json_close(w, ']');
    json_member_open(w, "writes", '[');
    for (size_t i = 0; i < tmpl->step_count; i++) {
        const struct flow_step_def *step = &tmpl->steps[i];
        const struct catalog_action *action =
            step->type == FLOW_TOOL_CALL ? catalog_find_tool(catalog, step->tool) : NULL;
        if (!action || action->level == LEVEL_READ)
            continue;
        json_open(w, '{');
        json_member_str(w, "title", action->title);
        json_member_str(w, "app", action->integration->name);
        json_member_str(w, "effect", slice_cstr(catalog_level_name(action->level)));
        json_member_bool(w, "for_each", step->for_each != NULL);
        json_member_bool(w, "is_asked_for", step->confirm == FLOW_CONFIRM_APPROVAL);
        json_close(w, '}');
    }
    json_close(w, ']');
    json_close(w, '}');
}

/* ---- the pages ---- */

static enum op_result finish_page(struct web_request *request)
{
    const struct start *start = request->state;
    const struct flow_template_set *set = templates_of(request);
    const struct flow_template *tmpl = start->tmpl;
    struct connection_app *own;
    size_t count;
    int status = connect_apps_result(&start->apps, &request->serve.op.arena, &own, &count);
    if (status != OK)
        return web_reply_database(request, status);
    struct json_writer *w = view_begin(request);
    if (!tmpl) {
        json_member_open(w, "templates", '[');
        for (size_t i = 0; i < set->count; i++)
            if (may_start(request, set->items[i]))
                write_does(request, w, set->items[i], own, count);
        json_close(w, ']');
        return web_reply_view(request, 200, "flow_new");
    }
    const struct json *properties = properties_of(tmpl);
    /* After an error the form is rendered again with the typed values (web_field), and a new id. */
    json_member_str(w, "problem", start->problem);
    json_key(w, "does");
    write_does(request, w, tmpl, own, count);
    write_once(request, w);
    json_member_open(w, "inputs", '[');
    for (size_t i = 0; properties && i < properties->count; i++)
        write_input(request, start, &properties->as.members[i], w);
    json_close(w, ']');
    return web_reply_view(request, start->status, "flow_start");
}

/* Requests the connections for inputs, by the app of each input. */
static void ask_choices(struct web_request *request, struct start *start)
{
    const struct json *properties = properties_of(start->tmpl);
    for (size_t i = 0; properties && i < properties->count; i++) {
        slice name = json_str(&properties->as.members[i].key);
        slice app = flow_input_connects(start->tmpl, *request->web->config.catalog, name,
                                        &request->serve.op.arena);
        if (!app.ptr || start->choice_count == CHOICES_MAX)
            continue;
        struct choice *choice = &start->choices[start->choice_count++];
        choice->name = name;
        choice->integration_id = arena_dup(&request->serve.op.arena, app);
        struct connection_page page = {.integration_id = choice->integration_id,
                                       .count_max = CONNECTIONS_MAX + 1};
        store_connection_page(request->web->config.pool, &choice->query, &request->serve.op,
                              request->session.account_id, &page);
        page.is_shared = true;
        if (!uuid_is_nil(request->session.parent_id))
            store_connection_page(request->web->config.pool, &choice->lent, &request->serve.op,
                                  request->session.parent_id, &page);
    }
}

static void on_start_end(struct web_request *request)
{
    const struct start *start = request->state;
    if (start->tmpl)
        flow_template_unref(start->tmpl);
}

/* report has the faults of typed values; it may be NULL. */
static enum op_result begin_page(struct web_request *request, unsigned status,
                                 struct flow_template *tmpl, slice problem,
                                 const struct schema_report *report)
{
    struct start *start = ARENA_NEW(&request->serve.op.arena, struct start);
    if (!start)
        return web_reply_database(request, ERR_NOMEM);
    /* The template is held until the page is ready: a reload may replace the set before that. */
    start->tmpl = tmpl ? flow_template_ref(tmpl) : NULL;
    start->status = status;
    start->problem = problem;
    if (report)
        start->report = *report;
    request->state = start;
    request->on_end = on_start_end;
    connect_apps_load(request->web->config.pool, &start->apps, &request->serve.op,
                      request->session.account_id, request->session.parent_id);
    if (tmpl)
        ask_choices(request, start);
    return web_wait(request, finish_page);
}

enum op_result web_flow_new(struct web_request *request)
{
    slice asked = web_query(request, "template");
    /* A form that is rendered again after signing in has the template in a field. */
    slice wanted = asked.ptr ? asked : web_field(request, "template");
    struct flow_template *tmpl = wanted.ptr ? flow_template_set_find(templates_of(request), wanted)
                                            : NULL;
    return begin_page(request, 200, tmpl && may_start(request, tmpl) ? tmpl : NULL, SLICE_NONE,
                      NULL);
}

/* ---- typed values ---- */

/* Converts line ends to those of programs; browsers send CR LF. */
static slice plain_lines(struct arena *arena, slice text)
{
    char *to = arena_alloc_text(arena, text.len + 1);
    size_t len = 0;
    for (size_t i = 0; to && i < text.len; i++)
        if (text.ptr[i] != '\r' || i + 1 == text.len || text.ptr[i + 1] != '\n')
            to[len++] = text.ptr[i];
    return to ? slice_of(to, len) : text;
}

/* Returns the id at the end of a link's path, as in "https://notion.so/Tasks-<id>?v=1", since
 * people have links, not ids. Other texts stay as they are. */
static slice id_of(const struct json *property, slice text)
{
    enum { DIGITS = 32, DASHED = 36 };
    slice path = slice_trim(text);
    struct uuid id;
    if (!slice_starts_with(path, SLICE("https://")) || !takes_id(property))
        return text;
    path = slice_split(&path, '#');
    path = slice_split(&path, '?');
    slice end = path.len > DASHED ? slice_from(path, path.len - DASHED) : SLICE("");
    if (uuid_parse(end, &id))
        return end;
    end = path.len > DIGITS ? slice_from(path, path.len - DIGITS) : SLICE("");
    for (size_t i = 0; i < end.len; i++)
        if (ascii_hex_value(end.ptr[i]) < 0)
            return text;
    return end.len > 0 ? end : text;
}

/* Returns an array with one text for each line; empty lines are skipped. items: the schema of a
 * line. */
static struct json lines_of(struct arena *arena, const struct json *items, slice text)
{
    struct json list = json_array();
    while (text.len > 0) {
        slice line = slice_trim(slice_split(&text, '\n'));
        if (line.len > 0)
            json_array_push(arena, &list, json_string(id_of(items, line)));
    }
    return list;
}

/* Converts a field by its schema: to text if a string is allowed, else to JSON if the text parses
 * as such. Empty fields are left out. */
static struct json typed_input(struct web_request *request, const struct json *property, slice text)
{
    struct arena *arena = &request->serve.op.arena;
    slice type = json_get_str(property, SLICE("type"));
    enum kind kind = kind_of(property);
    const struct json *parsed = json_parse(arena, text, &json_limits_request, NULL);
    bool is_text = slice_eq_cstr(type, "string") || !parsed;
    if (kind == KIND_YES) /* a ticked box */
        return json_bool(true);
    if (kind == KIND_LINES && !json_is(parsed, JSON_ARRAY))
        return lines_of(arena, JSON_GET(property, "items"), text);
    /* if types are a choice, only an object is read as JSON; anything else stays text */
    if (!type.ptr && parsed && parsed->type != JSON_OBJECT)
        is_text = true;
    return is_text ? json_string(id_of(property, text)) : *parsed;
}

static const struct json *read_input(struct web_request *request, const struct flow_template *tmpl)
{
    struct arena *arena = &request->serve.op.arena;
    struct json *input = ARENA_NEW(arena, struct json);
    const struct json *properties = properties_of(tmpl);
    if (!input)
        return NULL;
    *input = json_object();
    for (size_t i = 0; properties && i < properties->count; i++) {
        slice name = json_str(&properties->as.members[i].key);
        /* An empty field is left out, so that the schema's default applies. */
        const struct json *property = &properties->as.members[i].value;
        slice text = input_field(request, name);
        if (text.len > 0)
            json_object_set(arena, input, name,
                            typed_input(request, property, plain_lines(arena, text)));
        else if (has_type(property, "boolean") &&
                 json_has_text(JSON_GET(tmpl->input_schema, "required"), name))
            json_object_set(arena, input, name, json_bool(false));
    }
    /* json_object_set fails only when out of memory, which the arena records. */
    return arena->is_exhausted ? NULL : input;
}

static enum op_result finish_start(struct web_request *request)
{
    const struct flow_command *command = web_command_of(request);
    struct flow_template *tmpl =
        flow_template_set_find(templates_of(request), command->in.template_key);
    char id[UUID_TEXT_LEN + 1];
    /* The template may have been removed while the command ran. In that case the generic page is
     * the answer. */
    if (command->answer == FLOW_ANSWER_INVALID && tmpl)
        return begin_page(request, 400, tmpl, command->message, NULL);
    /* REPEATED means that this form's flow already exists, as the reader wanted. */
    if (command->answer != FLOW_ANSWER_DONE && command->answer != FLOW_ANSWER_REPEATED)
        return web_refuse_command(request, command);
    uuid_format(command->in.flow_id, id);
    return web_reply_redirect(request, arena_printf(&request->serve.op.arena, "/flows/%s", id),
                              "started");
}

enum op_result web_flow_start(struct web_request *request)
{
    slice key = web_field(request, "template");
    struct flow_template *tmpl = flow_template_set_find(templates_of(request), key);
    struct schema_report report;
    struct flow_request in = {
        .kind = FLOW_COMMAND_START, .template_key = key, .trigger_type = SLICE("manual")};
    if (!tmpl || foresee_start(request, tmpl).is_hidden)
        return web_reply_problem(request, 404, "No such template",
                                 "It may have been removed. Reload the list.");
    slice once = once_read_field(request, ONCE_FLOW);
    if (once.len != 1 + sizeof(in.flow_id.bytes))
        return begin_page(request, 400, tmpl,
                          SLICE("This form is too old, or from another session. Nothing was "
                                "started. Check it and press Start again."),
                          NULL);
    /* The first byte is the kind, the rest the flow's id. */
    memcpy(in.flow_id.bytes, once.ptr + 1, sizeof(in.flow_id.bytes));
    in.input = read_input(request, tmpl);
    if (!in.input)
        return web_reply_database(request, ERR_NOMEM);
    /* Faults are reported here at each field; the command checks the input again. */
    schema_report_init(&report, &request->serve.op.arena, SLICE(""));
    if (!schema_validate(tmpl->schema, in.input, &report))
        return begin_page(request, 400, tmpl,
                          SLICE("Nothing was started. The fields below say what is wrong."),
                          &report);
    return web_begin_command(request, &in, finish_start);
}
