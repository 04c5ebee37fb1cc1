/*
 * Running a flow again: a page with identity, calls and effect, and then a new flow with the same
 * template and inputs. If the start confirms the flow's writes, it needs a second decision, a box
 * to tick; otherwise the writes wait for an approval.
 */
#include "web/flow_decision.h"
#include "web/once.h"

enum { ONCE_AGAIN = 'r', INPUT_BYTES_MAX = 3 * 1024 };

struct again {
    struct flow_load *load;     /* until its next step */
    struct flow_template *tmpl; /* the version for new flows; NULL: the template no longer exists */
    slice key, title, input;
    bool is_changed; /* the earlier flow has a different version */
    struct flow_names *names;
};

static void on_again_end(struct web_request *request)
{
    const struct again *again = request->state;
    if (again && again->tmpl)
        flow_template_unref(again->tmpl);
}

/* Copies the needed parts of the earlier flow. Returns false if a reply was sent. */
static bool take_loaded(struct web_request *request, enum op_result *replied)
{
    struct again *again = request->state;
    const struct flow_load *load = again->load;
    struct arena *arena = &request->serve.op.arena;
    if (load->status != OK) {
        *replied = load->status == ERR_NOTFOUND
                       ? web_reply_missing(request, "There is no such flow.")
                       : web_reply_database(request, load->status);
        return false;
    }
    bool is_held = load->tmpl->is_held;
    again->key = arena_dup(arena, load->tmpl->key);
    again->title = arena_dup(arena, flow_whole_title(&load->whole, load->tmpl));
    again->input = arena_dup(arena, load->whole.input);
    again->tmpl = flow_template_set_find(*request->web->config.templates, again->key);
    if (again->tmpl) {
        again->is_changed = !uuid_eq(again->tmpl->version, load->whole.flow.template_version);
        (void)flow_template_ref(again->tmpl);
        return true;
    }
    *replied = web_reply_problem(request, 409, "This flow cannot be started again",
                                 is_held ? "A held call is not started again. To ask again, send "
                                           "its request with a new idempotency_key."
                                         : "The template of this flow no longer exists.");
    return false;
}

/* A call needs an explicit confirmation by a person. */
static bool is_confirmed_by_start(const struct flow_template *tmpl)
{
    for (size_t i = 0; i < tmpl->step_count; i++)
        if (tmpl->steps[i].confirm == FLOW_CONFIRM_START)
            return true;
    return false;
}

/* ---- the question ---- */

/* Returns the calls whose connection is known in advance, in the form of an approval's items. */
static const struct json *calls_of(struct web_request *request, const struct flow_template *tmpl)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, WEB_PAGE_BYTES_MAX);
    json_open(w, '[');
    for (size_t i = 0; i < tmpl->step_count; i++) {
        const struct flow_step_def *step = &tmpl->steps[i];
        if (step->type != FLOW_TOOL_CALL || step->connection)
            continue;
        json_open(w, '{');
        json_member_str(w, "tool", step->tool);
        json_close(w, '}');
    }
    json_close(w, ']');
    return json_parse(&request->serve.op.arena, json_text_take(&text, &request->serve.op.arena),
                      &json_limits_provider, NULL);
}

static void write_call(struct web_request *request, const struct again *again,
                       const struct flow_step_def *step, const struct json *item,
                       struct json_writer *w)
{
    const struct catalog_action *action =
        catalog_find_tool(*request->web->config.catalog, step->tool);
    json_open(w, '{');
    json_member_str(w, "title", action ? action->title : step->tool);
    json_member_str(w, "app", action ? action->integration->name : SLICE_NONE);
    json_member_str(w, "effect",
                    action ? slice_cstr(catalog_level_name(action->level)) : SLICE_NONE);
    json_member_str(w, "as", item ? flow_names_label(request, again->names, item) : SLICE_NONE);
    json_member_bool(w, "for_each", step->for_each != NULL);
    json_member_bool(w, "when", step->when != NULL);
    json_member_bool(w, "is_asked_for", step->confirm == FLOW_CONFIRM_APPROVAL);
    json_close(w, '}');
}

static enum op_result finish_ask(struct web_request *request)
{
    const struct again *again = request->state;
    const struct flow_template *tmpl = again->tmpl;
    const struct json *calls = calls_of(request, tmpl),
                      *input = json_parse(&request->serve.op.arena, again->input,
                                          &json_limits_provider, NULL);
    struct uuid id = uuid_v7();
    char plain[1 + sizeof(id.bytes)] = {ONCE_AGAIN};
    memcpy(plain + 1, id.bytes, sizeof(id.bytes));
    if (!calls || !input)
        return web_reply_database(request, ERR_NOMEM);
    struct json_writer *w = view_begin(request);
    json_member_str(w, "id", request->serve.match.params[0]);
    json_member_str(w, "title", again->title);
    json_member_bool(w, "is_changed", again->is_changed);
    json_member_bool(w, "confirms", is_confirmed_by_start(tmpl));
    once_view_field(request, slice_of(plain, sizeof(plain)), w);
    json_member_open(w, "calls", '[');
    for (size_t i = 0, at = 0; i < tmpl->step_count; i++) {
        const struct flow_step_def *step = &tmpl->steps[i];
        if (step->type == FLOW_TOOL_CALL)
            write_call(request, again, step, step->connection ? NULL : json_at(calls, at++), w);
    }
    json_close(w, ']');
    value_view_text(w, "input", input, INPUT_BYTES_MAX);
    return web_reply_view(request, 200, "flow_again");
}

static enum op_result name_calls(struct web_request *request)
{
    struct again *again = request->state;
    enum op_result replied;
    if (!take_loaded(request, &replied))
        return replied;
    return flow_names_begin(request, NULL, 0, calls_of(request, again->tmpl), &again->names,
                            finish_ask);
}

static enum op_result load_again(struct web_request *request, web_step *then)
{
    struct again *again = web_state_new(request, sizeof(*again));
    struct uuid id;
    if (!again)
        return OP_DONE;
    if (!web_path_uuid(request, 0, &id))
        return OP_DONE;
    request->on_end = on_again_end;
    again->load = flow_load_start(request->web->config.flow, request->session.account_id, id,
                                  request->serve.policy, &request->serve.op);
    return again->load ? web_wait(request, then) : web_reply_database(request, ERR_NOMEM);
}

enum op_result web_flow_again_ask(struct web_request *request)
{
    return load_again(request, name_calls);
}

/* ---- the start ---- */

static enum op_result finish_again(struct web_request *request)
{
    const struct flow_command *command = web_command_of(request);
    char id[UUID_TEXT_LEN + 1];
    if (command->answer == FLOW_ANSWER_INVALID)
        return web_reply_problem(request, 409, "Not started",
                                 "The template now takes other inputs. %.*s",
                                 SLICE_ARG(command->message));
    /* REPEATED means that the form was sent twice, and has started one flow. */
    if (command->answer != FLOW_ANSWER_DONE && command->answer != FLOW_ANSWER_REPEATED)
        return web_refuse_command(request, command);
    uuid_format(command->in.flow_id, id);
    return web_reply_redirect(request, arena_printf(&request->serve.op.arena, "/flows/%s", id),
                              "started");
}

static enum op_result start_again(struct web_request *request)
{
    struct again *again = request->state;
    struct flow_request in = {.kind = FLOW_COMMAND_START, .trigger_type = SLICE("manual")};
    slice once = once_read_field(request, ONCE_AGAIN);
    enum op_result replied;
    if (!take_loaded(request, &replied))
        return replied;
    if (once.len != 1 + sizeof(in.flow_id.bytes))
        return web_reply_problem(request, 400, "Not started",
                                 "This form is too old, or from another session. Load it again.");
    if (is_confirmed_by_start(again->tmpl) && !slice_eq_cstr(web_field(request, "confirm"), "yes"))
        return web_reply_problem(request, 400, "Not started",
                                 "The flow writes without asking again, and you did not confirm "
                                 "that. Nothing was started.");
    /* The first byte is the kind, the rest the flow's id. */
    memcpy(in.flow_id.bytes, once.ptr + 1, sizeof(in.flow_id.bytes));
    in.template_key = again->key;
    in.input = json_parse(&request->serve.op.arena, again->input, &json_limits_provider, NULL);
    if (!in.input)
        return web_reply_database(request, ERR_NOMEM);
    on_again_end(request);
    request->on_end = NULL;
    request->state = NULL; /* belongs to the command from here on */
    return web_begin_command(request, &in, finish_again);
}

enum op_result web_flow_again(struct web_request *request)
{
    return load_again(request, start_again);
}
