/*
 * The tool run_action, and its common parts with the catalog's own tools: an execution as in POST
 * /api/executions, cut for a model.
 */
#include "exec/exec.h"
#include "mcp/confirm.h"
#include "mcp/connect.h"
#include "mcp/input_form.h"
#include "mcp/stream.h"

slice mcp_meta_key(const struct mcp_message *message)
{
    return json_get_str(message->meta, SLICE(MCP_META_KEY));
}

slice mcp_meta_key_fault(const struct mcp_message *message, slice key)
{
    slice other = mcp_meta_key(message);
    return other.ptr && !slice_eq(key, other)
               ? SLICE("idempotency_key and _meta's \"" MCP_META_KEY "\" differ")
               : SLICE_NONE;
}

static void on_page(struct op *parent, unsigned pages_read)
{
    struct api_request *request = CONTAINER_OF(parent, struct api_request, serve.op);
    mcp_stream_progress(request, pages_read, 0,
                        api_sentence(request, "Pages read: %u", pages_read));
}

void mcp_run_prepare(struct api_request *request, const struct mcp_message *message,
                     struct exec_request *wanted)
{
    wanted->account_id = request->serve.grant.account_id;
    wanted->by = serve_by(&request->serve);
    wanted->scopes = request->serve.grant.scopes;
    wanted->lost_by = request->serve.grant.key_id;
    wanted->is_resource = true;
    wanted->on_page = on_page;
    if (wanted->output_bytes_max == 0)
        wanted->output_bytes_max = MCP_OUTPUT_BYTES;
    if (wanted->output_bytes_max > MCP_OUTPUT_BYTES_MAX)
        wanted->output_bytes_max = MCP_OUTPUT_BYTES_MAX;
    if (!wanted->idempotency_key.ptr)
        wanted->idempotency_key = mcp_meta_key(message);
}

/* The reply is that of POST /api/executions; the request's envelope converts it to the result. */
enum op_result mcp_run_reply(struct api_request *request)
{
    struct mcp_message *message = request->outer;
    if (mcp_connect_is_wanted(request, message))
        return mcp_connect_ask(request, message);
    message->is_replayed = exec_outcome_of(request->state)->is_replayed;
    return api_execution_reply(request);
}

/* Closing the response is how a client cancels: a run that a provider may have seen continues to
 * its record. */
enum op_result mcp_run(struct api_request *request, struct exec_request *wanted)
{
    struct mcp_message *message = request->outer;
    const struct catalog_action *action = mcp_wanted_action(request, wanted);
    slice fault = SLICE_NONE;
    if (wanted->idempotency_key.ptr)
        fault = api_key_fault(wanted->idempotency_key);
    if (wanted->idempotency_key.ptr && !fault.ptr)
        fault = mcp_meta_key_fault(message, wanted->idempotency_key);
    if (fault.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(fault));
    /* before a person is asked */
    if (action && !wanted->is_dry_run && !api_may(request, SCOPE_EXECUTE, action))
        return api_refuse_scope(request, exec_scope_of(action));
    if (action) /* as in the execution: the form shows, and the digest covers, what is sent */
        wanted->input = schema_drop_nulls(action->schema, wanted->input, &request->serve.op.arena);
    enum op_result result = message->state.ptr
                                ? mcp_confirm_take(request, message, wanted)
                                : mcp_input_form_take(request, message, action, wanted);
    if (result != OP_NEXT)
        return result;
    wanted->trace = api_trace(request);
    wanted->has_connected = JSON_GET(message->answers, "connection");
    if (!mcp_connect_keep(request, message, wanted))
        return api_reply_no_memory(request);
    if (!message->is_agreed && mcp_confirm_is_wanted(request, message, wanted))
        return mcp_confirm_ask(request, wanted);
    if (action && !message->is_agreed)
        wanted->refusal_hint = mcp_confirm_refusal(request, message, action->tool_name);
    request->state = exec_start(request->api->config.exec, wanted, &request->serve.op);
    return request->state ? api_execution_wait(request, mcp_run_reply)
                          : api_reply_no_memory(request);
}

static enum op_result begin_run_action(struct api_request *request)
{
    struct exec_request wanted;
    int64_t connection_id;
    slice problem = api_execution_read(request, request->endpoint->members, request->body, &wanted);
    if (problem.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(problem));
    if (!api_connection_read(request, "connection_id", &connection_id))
        return OP_DONE;
    wanted.connection_id = connection_id;
    mcp_run_prepare(request, request->outer, &wanted);
    return mcp_run(request, &wanted);
}

const struct api_endpoint mcp_run_action = {
    .scope = SCOPE_EXECUTE,
    .members =
        &(const struct api_names){
            .own = {"integration_id", "action_id", "input", "confirm", "idempotency_key",
                    "connection_id", "dry_run", "max_output_bytes", "max_pages"},
            .other = {{"confirmed", "confirm"},
                      {"arguments", "input"},
                      {"files", "the HTTP interface, which takes files"}},
        },
    .begin = begin_run_action,
};
