/*
 * Tasks; see task.h. tasks/get, tasks/update and tasks/cancel are the endpoints that read, decide
 * about and cancel a flow, with their scopes.
 *
 * The key of a form, "approval-<rev>-<step>", contains the displayed revision of the flow, and the
 * answer is a decision about that revision: another question of the same step has another key.
 */
#include "mcp/task.h"

#include "flow/approver.h"
#include "json/scan.h"
#include "mcp/flow_view.h"
#include "mcp/stream.h"

enum {
    WORKING_POLL_MS = 1000,
    WAITING_POLL_MS = 5000,
    NAME_BYTES_MAX = 4096,
    APPROVAL_BYTES_MAX = 32 * 1024, /* limit of a form: a longer text cannot be displayed in full */
    KEY_BYTES_MAX = 512,
};

#define APPROVAL_KEY "approval-"

/* ---- the form of an approval ---- */

/* The step's document, one member per line, after the name of the key that asked for a held call
 * (SLICE_NONE: none). Values are JSON, in which no line break can start a new line. Returns
 * SLICE_NONE if it does not fit into a form. */
static slice write_approval(const struct mcp_flow_facts *facts, slice asked_by, struct arena *arena)
{
    struct json_scan input;
    struct buf form;
    slice key, value;
    buf_init(&form, APPROVAL_BYTES_MAX);
    buf_printf(&form, "The flow %.*s waits for an approval: step %zu of %zu, %.*s",
               SLICE_ARG(json_scan_get(facts->flow, SLICE("name"), arena)), facts->step_number,
               facts->step_count, SLICE_ARG(facts->step_key));
    if (asked_by.len > 0) {
        const struct json name = json_string(asked_by);
        mcp_form_put_name(&form, SLICE("asked_by"));
        buf_append(&form, json_text_of(&name, arena, NAME_BYTES_MAX));
    }
    json_scan_open(&input, json_scan_get(facts->step, SLICE("input"), arena));
    while (json_scan_next(&input, &key, &value)) {
        mcp_form_put_name(&form, json_scan_str(key, arena));
        buf_append(&form, value);
    }
    return arena_take(arena, &form);
}

static void put_approval_form(struct json_writer *w, const struct mcp_flow_facts *facts, slice text)
{
    char key[KEY_BYTES_MAX];
    slice name = SLICE_JOIN(key, SLICE(APPROVAL_KEY), facts->rev, SLICE("-"), facts->step_key);
    mcp_form_open(w, name, text);
    json_member_raw(w, "requestedSchema",
                    SLICE("{\"type\":\"object\",\"properties\":{"
                          "\"approve\":{\"type\":\"boolean\",\"title\":\"Approve\"},"
                          "\"note\":{\"type\":\"string\",\"title\":\"Note\",\"maxLength\":2000}},"
                          "\"required\":[\"approve\"]}"));
    mcp_form_close(w);
}

/* ---- the task ---- */

/* Uses only words of the template and of sluice: texts from apps stay inside a result's
 * boundary. */
static slice say_status(const struct mcp_flow_facts *facts, bool is_failed, struct arena *arena)
{
    const char *what = is_failed ? "failed"
                       : facts->is_approval
                           ? "waits for the approval of a person"
                           : (slice_eq_cstr(facts->status, "waiting") ? "waits" : "runs");
    return arena_printf(arena, "Step %zu of %zu, %.*s, %s", facts->step_number, facts->step_count,
                        SLICE_ARG(facts->step_key), what);
}

static const char *task_status(slice status, bool has_form)
{
    if (has_form)
        return "input_required";
    if (slice_eq_cstr(status, "completed") || slice_eq_cstr(status, "failed"))
        return "completed";
    return slice_eq_cstr(status, "cancelled") ? "cancelled" : "working";
}

/* Whether a form could be shown, by what the client can do and the scopes of its key. */
static bool may_show_form(const struct api_request *request, const struct mcp_flow_facts *facts)
{
    const struct mcp_message *message = request->outer;
    return facts->is_approval && message->has_forms && api_may(request, SCOPE_APPROVE, NULL);
}

static bool is_held_call(const struct mcp_flow_facts *facts, struct arena *arena)
{
    return slice_eq_cstr(mcp_flow_text(facts->flow, "templateKey", arena), FLOW_HELD_KEY);
}

/* The flow's input has the line of the key that asked, which counts as that key: the id of its
 * first key. */
bool mcp_asker_ask(struct api_request *request, struct arena *arena, slice view,
                   struct mcp_asker *asker)
{
    struct mcp_flow_facts facts = mcp_flow_read(view, arena);
    struct pg_pool *pool = request->api->config.pool;
    const struct vault_grant *grant = &request->serve.grant;
    struct uuid payer_id = serve_payer(&request->serve);
    /* A user's own key reads no names of the account's keys. */
    struct uuid named_id = grant->is_of_user ? grant->account_id : payer_id;
    if (!may_show_form(request, &facts) || !is_held_call(&facts, arena))
        return false;
    slice input = json_scan_get(facts.flow, SLICE("input"), arena);
    slice actor = arena_printf(arena, "key:%.*s", SLICE_ARG(mcp_flow_text(input, "asker", arena)));
    flow_approver_ask(pool, &asker->decider, &request->serve.op, payer_id, actor,
                      serve_actor(&request->serve));
    store_api_key_name(pool, &asker->label, &request->serve.op, named_id, audit_actor_key(actor));
    return true;
}

int mcp_asker_result(struct mcp_asker *asker)
{
    int status = store_text_result(&asker->label, &asker->name);
    if (status == ERR_NOTFOUND)
        asker->name = SLICE_NONE;
    return status == OK || status == ERR_NOTFOUND
               ? flow_approver_result(&asker->decider, &asker->may_decide)
               : status;
}

void mcp_task_put(struct json_writer *w, struct api_request *request, struct arena *arena,
                  slice view, const struct mcp_asker *asker)
{
    struct mcp_flow_facts facts = mcp_flow_read(view, arena);
    bool is_held = is_held_call(&facts, arena);
    bool may_ask = may_show_form(request, &facts) && (!is_held || asker->may_decide);
    slice asked_by = is_held ? asker->name : SLICE_NONE;
    slice text = may_ask ? write_approval(&facts, asked_by, arena) : SLICE_NONE;
    const char *status = task_status(facts.status, text.ptr != NULL);
    bool has_ended = strcmp(status, "completed") == 0,
         is_cancelled = strcmp(status, "cancelled") == 0;
    bool is_failed = slice_eq_cstr(facts.status, "failed");
    bool is_running = slice_eq_cstr(facts.status, "running");
    json_member_raw(w, "taskId", json_scan_get(facts.flow, SLICE("id"), arena));
    json_member_str(w, "status", slice_cstr(status));
    if (!is_cancelled && (!has_ended || is_failed))
        json_member_str(w, "statusMessage", say_status(&facts, is_failed, arena));
    json_member_raw(w, "createdAt", json_scan_get(facts.flow, SLICE("createdAt"), arena));
    json_member_raw(w, "lastUpdatedAt", json_scan_get(facts.flow, SLICE("updatedAt"), arena));
    json_member_raw(w, "ttlMs", SLICE("null")); /* a person may take any time to approve */
    json_member_i64(w, "pollIntervalMs", is_running ? WORKING_POLL_MS : WAITING_POLL_MS);
    if (text.ptr)
        put_approval_form(w, &facts, text);
    if (!has_ended)
        return;
    json_member_open(w, "result", '{');
    json_member_str(w, "resultType", SLICE("complete"));
    mcp_tool_result_put(w, request, arena, mcp_flow_lean(request, arena, view), is_failed);
    json_close(w, '}');
}

void mcp_flow_progress(struct api_request *request, slice view)
{
    struct arena *arena = &request->serve.op.arena;
    struct mcp_flow_facts facts = mcp_flow_read(view, arena);
    size_t done = facts.step_number > 0 ? facts.step_number - 1 : 0;
    mcp_stream_progress(request, (int64_t)done, (int64_t)facts.step_count,
                        say_status(&facts, false, arena));
}

/* ---- start_flow ---- */

/* Reads {flowId, flow: its view}. The created task contains its initial state; the client then
 * requests a form, or a finished result. */
static enum op_result reply_started(struct api_request *request, unsigned status, slice json_text,
                                    struct op *owner)
{
    struct arena *arena = &request->serve.op.arena;
    struct mcp_result result;
    if (status != 200)
        return mcp_tool_result.reply(request, status, json_text, owner);
    struct mcp_flow_facts facts =
        mcp_flow_read(json_scan_get(json_text, SLICE("flow"), arena), arena);
    mcp_result_begin_as(&result, request->outer, "task", 1024);
    json_member_raw(&result.w, "taskId", json_scan_get(facts.flow, SLICE("id"), arena));
    json_member_str(&result.w, "status", SLICE("working"));
    json_member_raw(&result.w, "createdAt", json_scan_get(facts.flow, SLICE("createdAt"), arena));
    json_member_raw(&result.w, "lastUpdatedAt",
                    json_scan_get(facts.flow, SLICE("updatedAt"), arena));
    json_member_raw(&result.w, "ttlMs", SLICE("null"));
    json_member_i64(&result.w, "pollIntervalMs", WORKING_POLL_MS);
    return mcp_result_send(request, request->outer, &result);
}

const struct api_envelope *mcp_flow_envelope(const struct mcp_message *message)
{
    static const struct api_envelope started = {.reply = reply_started};
    return message->has_tasks ? &started : &mcp_start_result;
}

/* ---- tasks/get ---- */

static const struct json no_arguments = {.type = JSON_OBJECT};

/* Answers for a status other than 200. */
static enum op_result refuse_task(struct api_request *request, unsigned status, slice json_text,
                                  struct op *owner)
{
    struct arena *arena = &request->serve.op.arena;
    if (status != 400 && status != 404)
        return mcp_refusal.reply(request, status, json_text, owner);
    slice sentence = status == 404 ? SLICE("Task not found")
                                   : mcp_flow_text(json_text, "error", arena);
    return mcp_reply_error(request, request->outer, 200, MCP_INVALID_PARAMS, SLICE_NONE, "%.*s",
                           SLICE_ARG(sentence));
}

static enum op_result send_task(struct api_request *request, slice view,
                                const struct mcp_asker *asker)
{
    struct mcp_result result;
    mcp_result_begin(&result, request->outer, 2048);
    mcp_task_put(&result.w, request, &request->serve.op.arena, view, asker);
    return mcp_result_send(request, request->outer, &result);
}

static enum op_result send_held_task(struct api_request *request)
{
    const struct mcp_message *message = request->outer;
    int status = mcp_asker_result(message->asker);
    if (status == OK)
        return send_task(request, message->view, message->asker);
    request->envelope = &mcp_refusal;
    return api_reply_database(request, status);
}

/* A form is shown only to a key whose answer counts. */
static enum op_result reply_task(struct api_request *request, unsigned status, slice json_text,
                                 struct op *owner)
{
    struct arena *arena = &request->serve.op.arena;
    struct mcp_message *message = request->outer;
    if (status != 200)
        return refuse_task(request, status, json_text, owner);
    message->asker = ARENA_NEW(arena, struct mcp_asker);
    if (!message->asker)
        return api_reply_no_memory(request);
    if (!mcp_asker_ask(request, arena, json_text, message->asker))
        return send_task(request, json_text, message->asker);
    message->view = arena_dup(arena, json_text); /* it may be owner's, which does not wait */
    return api_wait(request, message->view.ptr ? send_held_task : api_reply_no_memory);
}

/* Passes the request to an endpoint of the flow. */
static enum op_result delegate(struct api_request *request, const struct mcp_message *message,
                               const struct api_endpoint *endpoint, const struct json *arguments,
                               const struct api_envelope *envelope)
{
    if (!message->has_tasks)
        return mcp_refuse_without_tasks(request, message);
    if (!message->name.ptr)
        return mcp_reply_error(request, message, 200, MCP_INVALID_PARAMS, SLICE_NONE,
                               "params.taskId must be the id of a task");
    request->serve.match.params[0] = message->name;
    return api_delegate(request, endpoint, arguments, envelope);
}

enum op_result mcp_tasks_get(struct api_request *request, const struct mcp_message *message)
{
    static const struct api_envelope task = {.reply = reply_task};
    return delegate(request, message, &api_flows_get, &no_arguments, &task);
}

/* ---- tasks/update, tasks/cancel ---- */

/* 409: the request is no longer possible, because no approval or another approval waits. Here
 * that is not an error. */
static enum op_result acknowledge(struct api_request *request, unsigned status, slice json_text,
                                  struct op *owner)
{
    struct mcp_result result;
    if (status != 200 && status != 409)
        return refuse_task(request, status, json_text, owner);
    mcp_result_begin(&result, request->outer, 256);
    return mcp_result_send(request, request->outer, &result);
}

static const struct api_envelope acknowledged = {.reply = acknowledge};

/* Reads the decision from an answer to a form, as the body of the endpoint. Returns false if the
 * answer is malformed or does not decide (a form that was closed stays open). */
static bool read_answer(struct arena *arena, slice key, const struct json *answer,
                        struct json *body, bool *is_approved)
{
    uint64_t rev;
    const struct json *content = JSON_GET(answer, "content"), *note = JSON_GET(content, "note");
    const struct json *box = JSON_GET(content, "approve");
    slice action = json_get_str(answer, SLICE("action"));
    if (!slice_starts_with(key, SLICE(APPROVAL_KEY)))
        return false;
    key = slice_from(key, sizeof(APPROVAL_KEY) - 1);
    if (!slice_to_u64(slice_split(&key, '-'), INT64_MAX, &rev) || rev == 0)
        return false;
    *is_approved = slice_eq_cstr(action, "accept") && json_is(box, JSON_BOOL) && box->as.boolean;
    if (!*is_approved && !slice_eq_cstr(action, "decline") &&
        !(slice_eq_cstr(action, "accept") && json_is(box, JSON_BOOL)))
        return false;
    *body = json_object();
    json_object_set(arena, body, SLICE("stepKey"), json_string(key));
    json_object_set(arena, body, SLICE("rev"), json_i64((int64_t)rev));
    if (json_is(note, JSON_STRING) && json_str(note).len > 0)
        json_object_set(arena, body, SLICE("note"), *note);
    return true;
}

/* A flow waits for one approval at a time, so one answer is accepted. Without an answer the task is
 * only read, so that a client learns whether it exists. */
enum op_result mcp_tasks_update(struct api_request *request, const struct mcp_message *message)
{
    struct json *body = ARENA_NEW(&request->serve.op.arena, struct json);
    bool is_approved = false;
    if (!body)
        return api_reply_no_memory(request);
    if (!message->has_tasks)
        return mcp_refuse_without_tasks(request, message);
    if (!json_is(message->answers, JSON_OBJECT))
        return mcp_reply_error(request, message, 200, MCP_INVALID_PARAMS, SLICE_NONE,
                               "params.inputResponses must be an object");
    /* a client without forms was shown no question, so this answers none */
    for (uint32_t i = 0; message->has_forms && i < message->answers->count; i++) {
        const struct json_member *member = &message->answers->as.members[i];
        if (read_answer(&request->serve.op.arena, json_str(&member->key), &member->value, body,
                        &is_approved))
            return delegate(request, message, is_approved ? &api_flows_approve : &api_flows_reject,
                            body, &acknowledged);
    }
    return delegate(request, message, &api_flows_get, &no_arguments, &acknowledged);
}

/* POST /api/flows/{id}/cancel also marks an ended flow, but an ended task must not change, so the
 * flow is read first. */
static enum op_result cancel_task(struct api_request *request, unsigned status, slice json_text,
                                  struct op *owner)
{
    struct mcp_flow_facts facts = mcp_flow_read(json_text, &request->serve.op.arena);
    const char *task = task_status(facts.status, false);
    if (status != 200 || strcmp(task, "working") != 0)
        return acknowledge(request, status, json_text, owner);
    return api_delegate(request, &api_flows_cancel, &no_arguments, &acknowledged);
}

enum op_result mcp_tasks_cancel(struct api_request *request, const struct mcp_message *message)
{
    static const struct api_envelope cancelling = {.reply = cancel_task};
    return delegate(request, message, &api_flows_get, &no_arguments, &cancelling);
}
