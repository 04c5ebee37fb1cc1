/*
 * One execution: its outcome, its output as a tree, the request, and the same call with curl. If
 * the input is not kept, the call is an example, and the page says so. An id that is not an
 * execution's may be that of a blocked run (blocked.c).
 */
#include "call/kept_input.h"
#include "call/summary.h"
#include "serve/stored.h"
#include "store/connection.h"
#include "store/execution.h"
#include "web/pages.h"

/* Reads the row, then its summary if it is stored separately because of its size (cut to the
 * page's limit), then the connection's label. */
struct one {
    struct execution execution;
    struct exec_summary_read summary_read;
    struct connection connection;
    struct web_connection connection_read;
    bool has_connection; /* the connection still exists */
    struct pg_query input_query;
    struct kept_input kept;
};

static void cancel_one(struct web_request *request)
{
    struct one *one = request->state;
    exec_summary_read_cancel(&one->summary_read);
}

/* ---- writing ---- */

/* The output as a tree and as JSON; if it was cut, only the remaining text. */
static void write_output(const struct execution *execution, const struct json *summary,
                         struct json_writer *w)
{
    const struct json *output = JSON_GET(summary, "output");
    bool is_none = !output || output->type == JSON_NULL;
    /* The reader that cuts large summaries replaces the output by a preview and its full size. */
    bool is_cut = execution->summary_bytes > STORE_SUMMARY_INLINE_BYTES &&
                  JSON_GET(output, "preview");
    json_member_i64(w, "output_bytes", is_cut ? json_get_i64(output, SLICE("bytes"), 0) : 0);
    if (is_none || is_cut)
        json_member_str(w, "tree", SLICE_NONE);
    else
        value_view(w, "tree", output);
    if (is_none && !execution->is_succeeded)
        json_member_str(w, "output", SLICE_NONE);
    else
        value_view_text(w, "output", is_cut ? JSON_GET(output, "preview") : output,
                        VALUE_TEXT_BYTES_MAX);
}

static void write_request(struct web_request *request, struct json_writer *w)
{
    const struct one *one = request->state;
    const struct execution *execution = &one->execution;
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, execution->integration_id, NULL);
    const struct catalog_action *action = app ? catalog_find_action(app, execution->action_id, NULL)
                                              : NULL;
    struct arena *arena = &request->serve.op.arena;
    json_member_str(w, "app", app ? app->name : execution->integration_id);
    json_member_str(w, "integration_id", execution->integration_id);
    json_member_str(w, "action", action ? action->title : execution->action_id);
    json_member_str(w, "action_id", execution->action_id);
    json_member_str(w, "connection_id",
                    execution->connection_id
                        ? arena_printf(arena, "%lld", (long long)execution->connection_id)
                        : SLICE_NONE);
    json_member_str(w, "connection", one->has_connection ? one->connection.label : SLICE_NONE);
    json_member_bool(w, "has_connection", one->has_connection);
    json_member_bool(w, "is_lent",
                     one->has_connection && web_connection_is_lent(request, &one->connection));
    view_key(w, execution->api_key_id, execution->api_key_name);
    json_member_i64(w, "attempts", execution->attempts);
    view_time(w, "started_at", execution->started_at);
    view_took(request, w, "took", execution->finished_at - execution->started_at);
    view_id(w, "execution_id", execution->id);
    view_kept_input(request, w, execution->integration_id, execution->action_id, &one->kept);
}

static enum op_result reply_one(struct web_request *request)
{
    const struct one *one = request->state;
    const struct execution *execution = &one->execution;
    const struct json *summary =
        json_parse(&request->serve.op.arena, execution->summary, &json_limits_provider, NULL);
    const struct json *display = JSON_GET(summary, "display");
    struct json_writer *w = view_begin(request);
    json_member_str(w, "title", json_get_str(display, SLICE("title")));
    json_member_str(w, "summary", json_get_str(display, SLICE("summary")));
    json_member_str(w, "status", execution->is_succeeded ? SLICE("succeeded") : SLICE("failed"));
    json_member_str(w, "error_code", json_get_str(summary, SLICE("error_code")));
    json_member_str(w, "message", json_get_str(summary, SLICE("message")));
    json_member_str(w, "hint", exec_hint_of_people(json_get_str(summary, SLICE("hint"))));
    json_member_str(w, "approval_flow_id", json_get_str(summary, SLICE("approval_flow_id")));
    write_request(request, w);
    write_output(execution, summary, w);
    return web_reply_view(request, 200, "execution");
}

/* ---- reading ---- */

/* If the connection was deleted, only its number is known. */
static enum op_result on_connection(struct web_request *request)
{
    struct one *one = request->state;
    int status = web_connection_result(request, &one->connection_read, &one->connection);
    if (status != OK && status != ERR_NOTFOUND)
        return web_reply_database(request, status);
    one->has_connection = status == OK;
    return reply_one(request);
}

static enum op_result load_connection(struct web_request *request)
{
    struct one *one = request->state;
    if (!one->execution.connection_id)
        return reply_one(request);
    web_connection_load(request, &one->connection_read, one->execution.connection_id);
    return web_wait(request, on_connection);
}

static enum op_result on_summary(struct web_request *request)
{
    struct one *one = request->state;
    if (one->summary_read.status == ERR_NOTFOUND)
        return web_blocked(request);
    if (one->summary_read.status != OK)
        return web_reply_database(request, one->summary_read.status);
    one->execution.summary = one->summary_read.summary;
    return load_connection(request);
}

static enum op_result finish_one(struct web_request *request)
{
    struct one *one = request->state;
    int status = store_execution_get_result(&request->query, &one->execution);
    if (status == ERR_NOTFOUND)
        return web_blocked(request);
    if (status == OK && !serve_gives(&request->serve, *request->web->config.catalog,
                                     one->execution.integration_id, one->execution.action_id))
        return web_reply_missing(request, "There is no such execution.");
    if (status == OK)
        status = kept_input_result(&one->input_query, request->web->config.ring,
                                   request->session.account_id, one->execution.id,
                                   &request->serve.op.arena, &one->kept);
    if (status != OK)
        return web_reply_database(request, status);
    if (one->execution.summary.ptr)
        return load_connection(request);
    /* The summary is not in the row, so it is read from its own chunks, up to the page's limit. */
    struct call_fit wanted = {.execution_id = one->execution.id, .bytes_max = VALUE_TEXT_BYTES_MAX};
    exec_summary_read_begin(exec_service_summaries(request->web->config.exec), &one->summary_read,
                            &request->serve.op, request->session.account_id,
                            serve_payer(&request->serve), &wanted, one->execution.summary_bytes);
    return web_wait(request, on_summary);
}

enum op_result web_execution(struct web_request *request)
{
    struct pg_pool *pool = request->web->config.pool;
    struct uuid id;
    /* web_path_uuid has sent a 404. */
    if (!web_path_uuid(request, 0, &id))
        return OP_DONE;
    struct one *one = web_state_new(request, sizeof(*one));
    if (!one)
        return OP_DONE;
    request->on_cancel = cancel_one;
    store_execution_get(pool, &request->query, &request->serve.op, request->session.account_id, id,
                        serve_payer(&request->serve));
    store_execution_input_get(pool, &one->input_query, &request->serve.op,
                              request->session.account_id, id);
    return web_wait(request, finish_one);
}
