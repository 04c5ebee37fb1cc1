/*
 * The tool run_action, and the parts that it shares with the catalog's own tools: an execution as
 * in POST /api/executions, truncated for a model.
 */
#include "exec/exec.h"
#include "json/scan.h"
#include "mcp/confirm.h"
#include "mcp/connect.h"
#include "mcp/input_form.h"
#include "mcp/slips.h"
#include "mcp/stream.h"
#include "store/connection.h"

enum { CHOICES_MAX = 20, CHOICES_BYTES_MAX = 64 * 1024 };

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
    wanted->wants_view = true;
    wanted->on_page = on_page;
    if (wanted->output_bytes_max == 0)
        wanted->output_bytes_max = MCP_OUTPUT_BYTES;
    if (wanted->output_bytes_max > MCP_OUTPUT_BYTES_MAX)
        wanted->output_bytes_max = MCP_OUTPUT_BYTES_MAX;
    if (!wanted->idempotency_key.ptr)
        wanted->idempotency_key = mcp_meta_key(message);
}

/* The members that a result begins with: whether it is the result of an earlier call, and the
 * connection that is used if the app has several. SLICE_NONE: there are none. */
static slice result_members(const struct exec_outcome *outcome, struct arena *arena)
{
    struct json_writer w;
    struct buf text;
    if (outcome->is_replayed)
        return SLICE("\"idempotent_replayed\":true,");
    if (!outcome->connection_id)
        return SLICE_NONE;
    buf_init(&text, 4096);
    buf_printf(&text,
               "\"connection\":{\"id\":\"%lld\",\"label\":", (long long)outcome->connection_id);
    json_begin(&w, &text);
    json_put_str(&w, outcome->connection_label);
    buf_append(&text, SLICE("},"));
    return arena_take(arena, &text);
}

/* What the ids of a blocked write mean. */
static slice shows_member(const struct mcp_message *message, const struct exec_outcome *outcome,
                          struct arena *arena)
{
    bool is_asked = message->shows.len > 0 && outcome->reason == EXEC_CONFIRMATION_MISSING;
    return is_asked ? arena_printf(arena, "\"shows\":%.*s,", SLICE_ARG(message->shows))
                    : SLICE_NONE;
}

/* Answers like POST /api/executions; the request's envelope converts it to the result. */
enum op_result mcp_run_reply(struct api_request *request)
{
    struct mcp_message *message = request->outer;
    if (mcp_connect_is_wanted(request, message))
        return mcp_connect_ask(request, message);
    struct arena *arena = &request->serve.op.arena;
    const struct exec_outcome *outcome = exec_outcome_of(request->state);
    slice members[] = {mcp_slips_member(request, message), result_members(outcome, arena),
                       shows_member(message, outcome, arena)};
    message->result_members = arena_printf(arena, "%.*s%.*s%.*s", SLICE_ARG(members[0]),
                                           SLICE_ARG(members[1]), SLICE_ARG(members[2]));
    return api_execution_reply(request);
}

static enum op_result start_run(struct api_request *request, const struct exec_request *wanted)
{
    request->state = exec_start(request->api->config.exec, wanted, &request->serve.op);
    return request->state ? api_execution_wait(request, mcp_run_reply)
                          : api_reply_no_memory(request);
}

/* ---- what the ids of a write mean, for a client without forms ---- */

static enum op_result finish_shows(struct api_request *request)
{
    struct mcp_message *message = request->outer;
    struct arena *arena = &request->serve.op.arena;
    slice dry_run = exec_summary_of(request->state);
    if (dry_run.ptr) /* a call that cannot run has none, and is refused as it is */
        message->shows = arena_dup(arena, json_scan_get(dry_run, SLICE("shows"), arena));
    return start_run(request, message->unconfirmed);
}

/* The reply to an unconfirmed write is what a person is asked about. A dry run first reads what its
 * ids mean; nothing of it is recorded. */
static enum op_result ask_shows(struct api_request *request, const struct exec_request *wanted)
{
    struct mcp_message *message = request->outer;
    struct exec_request dry = *wanted;
    message->unconfirmed = ARENA_NEW(&request->serve.op.arena, struct exec_request);
    if (!message->unconfirmed)
        return api_reply_no_memory(request);
    *message->unconfirmed = *wanted;
    dry.is_dry_run = dry.wants_shows = dry.is_recorded_by_caller = true;
    dry.idempotency_key = SLICE_NONE;
    request->state = exec_start(request->api->config.exec, &dry, &request->serve.op);
    return request->state ? api_execution_wait(request, finish_shows)
                          : api_reply_no_memory(request);
}

/* A client cancels by closing the response. A run that a provider may have seen continues until
 * it is recorded. */
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
    /* the scope is checked before a person is asked */
    if (action && !wanted->is_dry_run && !api_may(request, SCOPE_EXECUTE, action))
        return api_refuse_scope(request, exec_scope_of(action));
    if (action) { /* as the execution does, so that the form and the digest cover the input that is
                     sent */
        wanted->input = schema_drop_nulls(action->schema, wanted->input, &request->serve.op.arena);
        wanted->input = mcp_mend_input(request, message, action->schema, wanted->input);
    }
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
    bool will_be_asked = action && action->show_count > 0 && action->requires_confirmation &&
                         !wanted->is_confirmed && !wanted->is_dry_run && !wanted->refusal_hint.ptr;
    return will_be_asked ? ask_shows(request, wanted) : start_run(request, wanted);
}

/* ---- a connection by its label ---- */

struct naming {
    struct exec_request wanted;
    slice label;
};

static bool has_label(const struct connection *row, slice label)
{
    return slice_eq(row->label, label);
}

/* The labels are data from outside, so they are members: an error's sentence quotes none. A key
 * that may not list connections gets ids alone. */
static enum op_result refuse_label(struct api_request *request, slice app,
                                   const struct connection *rows, size_t count, size_t equal)
{
    struct json_writer *w = api_reply_open(request, CHOICES_BYTES_MAX);
    size_t listed = equal > 0 ? equal : count;
    const char *more = listed > CHOICES_MAX ? " There are more; list_connections lists all." : "";
    json_member_str(
        w, "error",
        equal > 0
            ? api_sentence(request,
                           "Several connections of %.*s have this label. Nothing was done. Choose "
                           "one of `connections` by its id.%s",
                           SLICE_ARG(app), more)
            : api_sentence(request,
                           "No connection of %.*s has this label. Nothing was done. Choose one of "
                           "`connections`.%s",
                           SLICE_ARG(app), more));
    json_member_open(w, "connections", '[');
    for (size_t i = 0; i < listed && i < CHOICES_MAX; i++) {
        char id[SLICE_U64_MAX];
        json_open(w, '{');
        json_member_str(w, "id", slice_of_u64((uint64_t)rows[i].id, id));
        if (api_may(request, SCOPE_READ, NULL))
            json_member_str(w, "label", rows[i].label);
        json_close(w, '}');
    }
    json_close(w, ']');
    return api_reply_close(request, 400);
}

/* The rows with the label are the first ones. The execution itself reports an app without
 * connections. */
static enum op_result finish_label(struct api_request *request)
{
    struct naming *naming = request->state;
    struct connection *rows;
    size_t count, equal = 0;
    int status = store_connection_list_result(&request->query, &rows, &count);
    if (status != OK)
        return api_reply_database(request, status);
    while (equal < count && has_label(&rows[equal], naming->label))
        equal++;
    if (equal != 1 && count > 0)
        return refuse_label(request, naming->wanted.integration_id, rows, count, equal);
    naming->wanted.connection_id = count > 0 ? rows[0].id : 0;
    return mcp_run(request, &naming->wanted);
}

/* Finds the id before a form is shown and before the call gets its fingerprint. */
static enum op_result find_label(struct api_request *request, const struct exec_request *wanted,
                                 slice label)
{
    struct naming *naming = ARENA_NEW(&request->serve.op.arena, struct naming);
    const struct catalog_integration *app =
        catalog_find_integration(*request->api->config.catalog, wanted->integration_id, NULL);
    if (!naming)
        return api_reply_no_memory(request);
    if (app && app->auth.kind == AUTH_NONE)
        return api_reply_error(request, 400,
                               "%.*s needs no connection. Nothing was done. Leave connection_id "
                               "out.",
                               SLICE_ARG(app->name));
    *naming = (struct naming){.wanted = *wanted, .label = label};
    request->state = naming;
    store_connection_labelled(request->api->config.pool, &request->query, &request->serve.op,
                              request->serve.grant.account_id, wanted->integration_id, label,
                              CHOICES_MAX + 1);
    return api_wait(request, finish_label);
}

/* ---- run_action ---- */

bool mcp_view_read(struct api_request *request, const struct json *arguments, bool *wants_view)
{
    const struct json *view = json_given(arguments, SLICE("view"));
    *wants_view = !view;
    if (!view || slice_eq_cstr(json_str(view), "full"))
        return true;
    (void)api_reply_error(request, 400, "view must be \"full\", or left out");
    return false;
}

static enum op_result begin_run_action(struct api_request *request)
{
    struct exec_request wanted;
    slice problem = api_execution_read(request, request->endpoint->members, request->body, &wanted);
    slice label = json_get_str(request->body, SLICE("connection_id"));
    uint64_t number;
    if (problem.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(problem));
    if (!api_connection_read(request, "connection_id", &wanted.connection_id))
        return OP_DONE;
    mcp_run_prepare(request, request->outer, &wanted);
    if (!mcp_view_read(request, request->body, &wanted.wants_view))
        return OP_DONE;
    if (label.len > 0 && !slice_to_u64(label, UINT64_MAX, &number))
        return find_label(request, &wanted, label);
    return mcp_run(request, &wanted);
}

const struct api_endpoint mcp_run_action = {
    .scope = SCOPE_EXECUTE,
    .members =
        &(const struct api_names){
            .own = {"integration_id", "action_id", "input", "confirm", "idempotency_key",
                    "connection_id", "dry_run", "shows", "max_output_bytes", "max_pages", "view",
                    "select"},
            .other = {{"confirmed", "confirm"},
                      {"arguments", "input"},
                      {"files", "the HTTP interface, which takes files"}},
        },
    .begin = begin_run_action,
};
