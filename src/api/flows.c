/*
 * Flows: the templates, the start, and the changes of a flow (src/api/README.md "Flows"). Requests
 * that only read flows are in flows_get.c and flow_events.c. A change is a flow_command: the flow
 * room decides what is allowed in which state; this file converts its answer to a status.
 */
#include "api/flow_path.h"
#include "serve/foresee.h"

struct command {
    struct flow_command command;
    struct flow_request in;
};

/* ---- the path ---- */

enum op_result api_reply_no_flow(struct api_request *request)
{
    return api_reply_error(request, 404, "Flow not found");
}

bool api_flow_id(struct api_request *request, struct uuid *id)
{
    if (uuid_parse(request->serve.match.params[0], id))
        return true;
    (void)api_reply_no_flow(request);
    return false;
}

slice api_flow_etag(struct api_request *request, int64_t rev)
{
    return arena_printf(&request->serve.op.arena, "\"%lld\"", (long long)rev);
}

/* ---- templates ---- */

/* Writes all templates that the key's policy does not deny; a model gets only those that it may
 * start. */
static void put_templates(struct api_request *request, struct json_writer *w)
{
    const struct flow_template_set *set = *request->api->config.templates;
    json_key(w, "templates");
    bool is_of_scopes = request->outer && !serve_may(&request->serve, SCOPE_EXECUTE_WRITE);
    if (!is_of_scopes && !serve_policy(&request->serve)) {
        json_put_raw(w, set->list_json);
        return;
    }
    json_open(w, '[');
    for (size_t i = 0; i < set->count; i++)
        if (is_of_scopes ? api_may_start(request, set->items[i])
                         : api_template_is_listed(request, set->items[i]))
            json_put_raw(w, set->items[i]->item_json);
    json_close(w, ']');
}

static enum op_result reply_no_template(struct api_request *request, slice key)
{
    slice excerpt = json_excerpt(key, &request->serve.op.arena);
    slice nearest = flow_template_set_nearest(*request->api->config.templates, key,
                                              *request->api->config.catalog,
                                              serve_policy(&request->serve));
    if (nearest.len == 0)
        return api_reply_error(request, 404, "Unknown flow template: %.*s", SLICE_ARG(excerpt));
    return api_reply_error(request, 404, "Unknown flow template: %.*s; did you mean \"%.*s\"?",
                           SLICE_ARG(excerpt), SLICE_ARG(nearest));
}

static enum op_result begin_templates(struct api_request *request)
{
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    put_templates(request, w);
    return api_reply_close_tagged(request);
}

const struct api_endpoint api_flows_templates = {.scope = SCOPE_READ, .begin = begin_templates};

static enum op_result begin_template(struct api_request *request)
{
    slice key = request->serve.match.params[0], text = SLICE_NONE;
    const struct flow_template *tmpl = api_template_find(request, key);
    struct buf out;
    if (!tmpl)
        return reply_no_template(request, key);
    buf_init(&out, 4 * FLOW_TEMPLATE_BYTES_MAX);
    flow_template_write_detail(&out, tmpl, *request->api->config.catalog);
    if (buf_is_ok(&out))
        text = arena_dup(&request->serve.op.arena, buf_slice(&out));
    buf_deinit(&out);
    if (!text.ptr)
        return api_reply_no_memory(request);
    if (api_reply_not_modified(request, api_etag_of(request, text)))
        return OP_DONE;
    return api_reply(request, 200, text);
}

const struct api_endpoint api_flows_template = {.scope = SCOPE_READ, .begin = begin_template};

/* ---- common to all commands ---- */

/* A command continues without its client: an approval that was sent is valid. */
static enum op_result begin_command(struct api_request *request, const struct flow_request *in,
                                    api_step *then)
{
    struct command *state = ARENA_NEW(&request->serve.op.arena, struct command);
    if (!state)
        return api_reply_no_memory(request);
    state->in = *in;
    state->in.account_id = request->serve.grant.account_id;
    state->in.by = serve_by(&request->serve);
    state->in.scopes = request->serve.grant.scopes;
    state->in.policy = request->serve.policy;
    state->in.user = request->serve.user;
    request->state = state;
    request->on_gone = api_continue;
    flow_command_start(request->api->config.flow, &state->command, &state->in, &request->serve.op);
    if (in->kind == FLOW_COMMAND_START)
        request->started = &state->command;
    if (request->started && request->serve.exchange->is_gone) /* during an earlier step */
        flow_command_client_gone(request->started);
    return api_wait(request, then);
}

/* The command's answer has no view, so only the flow itself shows what was done. A repeated start
 * would make a second flow; a repeated decision does no harm and finds the result of the first. */
static enum op_result reply_read_flow(struct api_request *request,
                                      const struct flow_command *command)
{
    bool is_done = command->answer == FLOW_ANSWER_DONE;
    char id[UUID_TEXT_LEN + 1];
    uuid_format(command->flow_id, id);
    if (command->in.kind == FLOW_COMMAND_START)
        return api_reply_error(request, 500,
                               "The flow %s started. Read the flow %s before you start another.",
                               is_done ? "has" : "may have", id);
    return api_reply_later(request, api_sentence(request,
                                                 "The database's answer was lost. The change %s "
                                                 "made. Read the flow %s before you try again.",
                                                 is_done ? "was" : "may have been", id));
}

static enum op_result refuse_command(struct api_request *request,
                                     const struct flow_command *command)
{
    switch (command->answer) {
    case FLOW_ANSWER_NOT_FOUND:
        return api_reply_no_flow(request);
    case FLOW_ANSWER_NO_TEMPLATE:
        return reply_no_template(request, command->in.template_key);
    case FLOW_ANSWER_NOT_IN_SCOPE:
        return api_refuse_scope(request, SCOPE_EXECUTE_WRITE);
    case FLOW_ANSWER_NOT_APPROVER:
        return api_reply_error(request, 403, "%.*s", SLICE_ARG(command->message));
    case FLOW_ANSWER_INVALID:
    case FLOW_ANSWER_KEY_MISMATCH:
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(command->message));
    case FLOW_ANSWER_CONFLICT:
    case FLOW_ANSWER_KEY_GONE:
        return api_reply_error(request, 409, "%.*s", SLICE_ARG(command->message));
    /* only with an id from the caller, which only a form of the dashboard sends */
    case FLOW_ANSWER_REPEATED:
    case FLOW_ANSWER_UNAVAILABLE:
        return command->message.ptr ? api_reply_later(request, command->message)
                                    : api_reply_database(request, ERR_BUSY);
    case FLOW_ANSWER_UNKNOWN:
    case FLOW_ANSWER_DONE: /* the answer has no view if there was no memory for it */
        return reply_read_flow(request, command);
    }
    UNREACHABLE("every answer is above");
    return OP_DONE;
}

static enum op_result finish_command(struct api_request *request)
{
    const struct command *state = request->state;
    ASSERT(state);
    if (state->command.answer != FLOW_ANSWER_DONE || !state->command.view_json.ptr)
        return refuse_command(request, &state->command);
    serve_header(&request->serve, "ETag", api_flow_etag(request, state->command.rev));
    return api_reply(request, 200, state->command.view_json);
}

/* Reads a member that is a string or absent (SLICE_NONE). Returns false if it has another type; the
 * request was then answered. */
static bool read_body_text(struct api_request *request, const char *name, slice *text)
{
    const struct json *value = json_get(request->body, slice_cstr(name));
    *text = json_str(value);
    if (!value || value->type == JSON_NULL || value->type == JSON_STRING)
        return true;
    (void)api_reply_error(request, 400, "%s must be a string, got %s", name, json_type_name(value));
    return false;
}

/* ---- start ---- */

/* The answer includes the template, so that a client that shows the flow needs no second request. A
 * model does not need it, since it has the templates in its list of tools. */
static enum op_result finish_start(struct api_request *request)
{
    const struct command *state = request->state;
    ASSERT(state);
    if (state->command.answer != FLOW_ANSWER_DONE || !state->command.view_json.ptr)
        return refuse_command(request, &state->command);
    struct json_writer *w = api_reply_open(request, FLOW_VIEW_BYTES_MAX);
    json_member_uuid(w, "flowId", state->command.flow_id);
    if (request->outer && state->command.is_replayed) /* a model sees no headers */
        json_member_bool(w, "idempotent_replayed", true);
    json_member_raw(w, "flow", state->command.view_json);
    if (!request->outer)
        put_templates(request, w);
    serve_header(&request->serve, "ETag", api_flow_etag(request, state->command.rev));
    if (state->command.is_replayed)
        serve_header(&request->serve, "Idempotent-Replayed", SLICE("true"));
    return api_reply_close(request, 200);
}

/* Reads the key from the body or the header. Returns false if it is invalid; the request was then
 * answered. */
static bool read_key(struct api_request *request, slice *key)
{
    if (!read_body_text(request, "idempotency_key", key))
        return false;
    slice fault = key->ptr ? api_key_fault(*key) : SLICE_NONE;
    if (!fault.ptr)
        fault = api_key_join(request, key);
    if (fault.ptr)
        (void)api_reply_error(request, 400, "%.*s", SLICE_ARG(fault));
    return !fault.ptr;
}

static bool refuse_start(struct api_request *request, slice fault)
{
    (void)api_reply_error(request, 400, "%.*s", SLICE_ARG(fault));
    return false;
}

bool api_start_read(struct api_request *request, struct flow_request *in)
{
    static const struct json none = {.type = JSON_OBJECT};
    const struct json *input = JSON_GET(request->body, "input");
    *in = (struct flow_request){.kind = FLOW_COMMAND_START};
    if (!read_body_text(request, "flowTemplate", &in->template_key) ||
        !read_body_text(request, "triggerType", &in->trigger_type) ||
        !read_key(request, &in->idempotency_key))
        return false;
    if (in->template_key.len == 0)
        return refuse_start(
            request, SLICE("flowTemplate is required. GET /api/flows/templates lists the keys."));
    const struct flow_template *tmpl = api_template_find(request, in->template_key);
    slice fault = tmpl ? api_misplaced_fault(request, request->endpoint->members, request->body,
                                             tmpl->input_schema)
                       : SLICE_NONE;
    if (fault.ptr)
        return refuse_start(request, fault);
    if (input && input->type != JSON_OBJECT && input->type != JSON_NULL)
        return refuse_start(request, api_sentence(request, "input must be an object, got %s",
                                                  json_type_name(input)));
    if (!in->trigger_type.ptr)
        in->trigger_type = SLICE("manual");
    if (!slice_has_word(SLICE("agent manual webhook schedule"), in->trigger_type))
        return refuse_start(request,
                            SLICE("triggerType must be agent, manual, webhook or schedule"));
    in->input = json_is(input, JSON_OBJECT) ? input : &none;
    in->trace = api_trace(request);
    return true;
}

enum op_result api_start(struct api_request *request, const struct flow_request *in)
{
    return begin_command(request, in, finish_start);
}

static enum op_result begin_start(struct api_request *request)
{
    struct flow_request in;
    return api_start_read(request, &in) ? api_start(request, &in) : OP_DONE;
}

#define NO_DRY_RUN "GET /api/flows/templates/{key}, which shows the steps (a start has no dry run)"

const struct api_names api_start_members = {
    .own = {"flowTemplate", "input", "triggerType", "idempotency_key"},
    .other = {{"template", "flowTemplate"},
              {"confirm", "the member confirm of input"},
              {"dry_run", NO_DRY_RUN}}};

const struct api_endpoint api_flows_start = {
    .scope = SCOPE_EXECUTE,
    .body = API_BODY_REQUIRED,
    .query = &(const struct api_names){.other = {{"dry_run", NO_DRY_RUN},
                                                 {"idempotency_key",
                                                  "the member idempotency_key of the body"}}},
    .members = &api_start_members,
    .begin = begin_start,
};

/* ---- approve, reject, resume, cancel ---- */

static enum op_result begin_decision(struct api_request *request)
{
    struct flow_request in = {.kind = (enum flow_command_kind)request->endpoint->variant};
    const struct json *rev = JSON_GET(request->body, "rev");
    if (!api_flow_id(request, &in.flow_id) || !read_body_text(request, "stepKey", &in.step_key) ||
        !read_body_text(request, "note", &in.note))
        return OP_DONE;
    if (!flow_note_fits(in.note))
        return api_reply_error(request, 400, "note must have at most %d characters",
                               FLOW_NOTE_CHARS_MAX);
    if (rev && rev->type != JSON_NULL && (!json_to_i64(rev, &in.rev) || in.rev < 1))
        return api_reply_error(request, 400, "rev must be a positive integer");
    return begin_command(request, &in, finish_command);
}

static const struct api_names decision_members = {.own = {"stepKey", "note", "rev"}};

const struct api_endpoint api_flows_approve = {
    .scope = SCOPE_APPROVE,
    .body = API_BODY_OPTIONAL,
    .members = &decision_members,
    .begin = begin_decision,
    .variant = FLOW_COMMAND_APPROVE,
};

const struct api_endpoint api_flows_reject = {
    .scope = SCOPE_APPROVE,
    .body = API_BODY_OPTIONAL,
    .members = &decision_members,
    .begin = begin_decision,
    .variant = FLOW_COMMAND_REJECT,
};

static enum op_result begin_plain(struct api_request *request)
{
    struct flow_request in = {.kind = (enum flow_command_kind)request->endpoint->variant};
    if (!api_flow_id(request, &in.flow_id))
        return OP_DONE;
    return begin_command(request, &in, finish_command);
}

const struct api_endpoint api_flows_resume = {
    .scope = SCOPE_EXECUTE_WRITE,
    .body = API_BODY_OPTIONAL,
    .begin = begin_plain,
    .variant = FLOW_COMMAND_RESUME,
};

const struct api_endpoint api_flows_cancel = {
    .scope = SCOPE_EXECUTE_WRITE,
    .body = API_BODY_OPTIONAL,
    .begin = begin_plain,
    .variant = FLOW_COMMAND_CANCEL,
};
