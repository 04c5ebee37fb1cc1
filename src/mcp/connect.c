/*
 * Connect links as part of a call; see connect.h. If no input was filled in, the question has no
 * state: the repeated call runs like any other, with or without the connection.
 */
#include "mcp/connect.h"

#include "catalog/catalog.h"
#include "exec/exec.h"
#include "json/scan.h"
#include "mcp/confirm.h"
#include "mcp/input_form.h"

bool mcp_connect_is_wanted(const struct api_request *request, const struct mcp_message *message)
{
    const struct exec_outcome *out = exec_outcome_of(request->state);
    return message->has_urls && !JSON_GET(message->answers, "connection") &&
           exec_reason_is_blocked(out->reason) && exec_outcome_next(out) != EXEC_NEXT_NONE;
}

bool mcp_connect_keep(struct api_request *request, struct mcp_message *message,
                      const struct exec_request *wanted)
{
    const struct catalog_action *action = mcp_wanted_action(request, wanted);
    struct mcp_state state = {.filled = mcp_input_form_answers(request, message)};
    if (!message->filled || message->is_agreed || !message->has_urls || !action)
        return true;
    if (mcp_state_digest(wanted, action, state.call))
        message->kept = mcp_state_seal(request, &state);
    return message->kept.ptr != NULL;
}

static void put_link(struct json_writer *w, slice sentence, slice url_json)
{
    json_member_open(w, "inputRequests", '{');
    json_member_open(w, "connection", '{');
    json_member_str(w, "method", SLICE("elicitation/create"));
    json_member_open(w, "params", '{');
    json_member_str(w, "mode", SLICE("url"));
    mcp_put_visible(w, "message", sentence, SLICE_NONE);
    json_member_raw(w, "url", url_json);
    json_close(w, '}');
    json_close(w, '}');
    json_close(w, '}');
}

/* Takes the reply of POST /api/connect/sessions. If no link was made (several connections, too many
 * links), the model gets the execution's own result. */
static enum op_result reply_link(struct api_request *request, unsigned status, slice json_text,
                                 struct op *owner)
{
    const struct mcp_message *message = request->outer;
    struct mcp_result result;
    if (status != 201)
        return mcp_tool_result.reply(request, 409, message->blocked, owner);
    slice app = json_get_str(request->body, SLICE("integration_id"));
    slice sentence = arena_printf(&request->serve.op.arena,
                                  "Connect %.*s to this account, for a call that needs it. The "
                                  "link works once and expires after 15 minutes.",
                                  SLICE_ARG(app));
    mcp_result_begin_as(&result, message, "input_required", 1024);
    put_link(&result.w, sentence, json_scan_get(json_text, SLICE("url"), &request->serve.op.arena));
    if (message->kept.ptr)
        json_member_str(&result.w, "requestState", message->kept);
    return mcp_result_send(request, message, &result);
}

enum op_result mcp_connect_ask(struct api_request *request, struct mcp_message *message)
{
    static const struct api_envelope link = {.reply = reply_link};
    const struct exec_outcome *out = exec_outcome_of(request->state);
    struct arena *arena = &request->serve.op.arena;
    struct json *body = ARENA_NEW(arena, struct json);
    if (!body)
        return api_reply_no_memory(request);
    /* The execution and its memory end during the queries for the link. */
    message->blocked = arena_dup(arena, exec_summary_of(request->state));
    slice app = arena_dup(arena, out->integration_id);
    if (!message->blocked.ptr || !app.ptr)
        return api_reply_no_memory(request);
    *body = json_object();
    json_object_set(arena, body, SLICE("integration_id"), json_string(app));
    if (exec_outcome_next(out) == EXEC_NEXT_RECONNECT)
        json_object_set(arena, body, SLICE("force_reconnect"), json_bool(true));
    if (out->reconnect_id != 0)
        json_object_set(arena, body, SLICE("connection_id"), json_i64(out->reconnect_id));
    return api_delegate(request, &api_connect_session, body, &link);
}
