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
#include "serve/foresee.h"
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
    wanted->policy = request->serve.policy;
    wanted->user = request->serve.user;
    wanted->asker = request->serve.grant.line;
    wanted->lost_by = request->serve.grant.key_id;
    wanted->is_resource = true;
    wanted->wants_view = true;
    wanted->on_page = on_page;
    if (wanted->output_bytes_max == 0)
        wanted->output_bytes_max = MCP_OUTPUT_BYTES;
    if (wanted->output_bytes_max > MCP_OUTPUT_BYTES_MAX)
        wanted->output_bytes_max = MCP_OUTPUT_BYTES_MAX;
    if (wanted->idempotency_key.ptr)
        return;
    wanted->idempotency_key = mcp_meta_key(message);
    if (wanted->idempotency_key.ptr)
        wanted->key_name = MCP_META_KEY_NAME;
}

slice mcp_run_members(const struct exec_outcome *outcome, slice shows, struct arena *arena)
{
    struct buf text;
    buf_init(&text, 4096 + shows.len);
    if (outcome->is_replayed) {
        buf_append_cstr(&text, "\"idempotent_replayed\":true,");
    } else if (outcome->connection_id) {
        buf_printf(&text,
                   "\"connection\":{\"id\":\"%lld\",\"label\":", (long long)outcome->connection_id);
        json_write_str(&text, outcome->connection_label);
        buf_append_cstr(&text, "},");
    }
    if (outcome->reason == EXEC_CONFIRMATION_MISSING)
        buf_append(&text, shows);
    return arena_take(arena, &text);
}

/* Answers like POST /api/executions; the request's envelope converts it to the result. */
enum op_result mcp_run_reply(struct api_request *request)
{
    struct mcp_message *message = request->outer;
    if (mcp_connect_is_wanted(request, message))
        return mcp_connect_ask(request, message);
    struct arena *arena = &request->serve.op.arena;
    slice slips = mcp_slips_member(request, message);
    slice members = mcp_run_members(exec_outcome_of(request->state), message->shows, arena);
    message->result_members = arena_printf(arena, "%.*s%.*s", SLICE_ARG(slips), SLICE_ARG(members));
    return api_execution_reply(request);
}

enum op_result mcp_run_start(struct api_request *request, const struct exec_request *wanted)
{
    request->state = exec_start(request->api->config.exec, wanted, &request->serve.op);
    return request->state ? api_execution_wait(request, mcp_run_reply)
                          : api_reply_no_memory(request);
}

/* ---- what the ids of a write mean, for a client without forms ---- */

slice mcp_run_shows(struct exec *exec, struct arena *arena)
{
    static const slice names[] = {SLICE_INIT("shows"), SLICE_INIT("unread")};
    slice summary = exec_summary_of(exec), all = SLICE("");
    /* a call that cannot run has none, and is refused as it is */
    for (size_t i = 0; summary.ptr && i < ARRAY_LEN(names); i++) {
        slice value = json_scan_get(summary, names[i], arena);
        if (value.ptr)
            all = arena_printf(arena, "%.*s\"%.*s\":%.*s,", SLICE_ARG(all), SLICE_ARG(names[i]),
                               SLICE_ARG(value));
    }
    return all;
}

static enum op_result finish_shows(struct api_request *request)
{
    struct mcp_message *message = request->outer;
    message->shows = mcp_run_shows(request->state, &request->serve.op.arena);
    return mcp_run_start(request, message->unconfirmed);
}

struct exec_request mcp_run_dry(const struct exec_request *wanted)
{
    struct exec_request dry = *wanted;
    dry.is_dry_run = dry.wants_shows = dry.is_recorded_by_caller = true;
    dry.idempotency_key = SLICE_NONE;
    return dry;
}

bool mcp_run_will_be_asked(const struct api_request *request, const struct catalog_action *action,
                           const struct exec_request *wanted)
{
    return action && action->show_count > 0 && mcp_confirm_may_be_asked(request, action) &&
           !wanted->is_confirmed && !wanted->is_dry_run && !wanted->refusal_hint.ptr &&
           !wanted->holds_writes;
}

/* The reply to an unconfirmed write is what a person is asked about. A dry run first reads what its
 * ids mean; nothing of it is recorded. */
static enum op_result ask_shows(struct api_request *request, const struct exec_request *wanted)
{
    struct mcp_message *message = request->outer;
    struct exec_request dry = mcp_run_dry(wanted);
    message->unconfirmed = ARENA_NEW(&request->serve.op.arena, struct exec_request);
    if (!message->unconfirmed)
        return api_reply_no_memory(request);
    *message->unconfirmed = *wanted;
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
    /* The argument `confirm` is not enough for a client with forms. The action is looked up again
     * when it runs, and a reload may have added it, or made it a write, since. */
    if (message->has_forms || !action)
        wanted->is_confirmed = false;
    if (wanted->idempotency_key.ptr)
        fault = api_key_fault(wanted->idempotency_key);
    if (wanted->idempotency_key.ptr && !fault.ptr)
        fault = mcp_meta_key_fault(message, wanted->idempotency_key);
    if (fault.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(fault));
    /* the scope is checked before a person is asked */
    if (action && !wanted->is_dry_run && !serve_may(&request->serve, exec_scope_of(action)))
        return api_refuse_scope(request, exec_scope_of(action));
    if (action && !serve_lists(&request->serve, action)) /* a person is not asked about it */
        return mcp_run_start(request, wanted);
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
        mcp_confirm_limit(request, message, action, wanted);
    return mcp_run_will_be_asked(request, action, wanted) ? ask_shows(request, wanted)
                                                          : mcp_run_start(request, wanted);
}

/* ---- a connection by its label ---- */

struct naming {
    struct exec_request wanted;
    slice label;
    struct mcp_label_search search;
};

static bool has_label(const struct connection *row, slice label)
{
    return slice_eq(row->label, label);
}

/* The labels are data from outside, so they are members: an error's sentence quotes none. A key
 * that may not list connections gets ids alone. */
static slice refuse_label(struct api_request *request, slice app, const struct connection *rows,
                          size_t count, size_t equal)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, CHOICES_BYTES_MAX);
    size_t listed = equal > 0 ? equal : count;
    const char *more = listed > CHOICES_MAX ? " There are more; list_connections lists all." : "";
    json_open(w, '{');
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
    json_close(w, '}');
    return json_text_take(&text, &request->serve.op.arena);
}

/* Adds the connections that have the label, or those that do not, to `all`. Of the account only
 * what it shares with its users. */
static size_t add_rows(struct connection *all, size_t count, const struct connection *rows,
                       size_t row_count, slice label, bool has, bool is_shared)
{
    for (size_t i = 0; i < row_count; i++)
        if (has_label(&rows[i], label) == has && (!is_shared || rows[i].is_shared))
            all[count++] = rows[i];
    return count;
}

/* The execution itself reports an app without connections. */
int mcp_label_take(struct api_request *request, const struct mcp_label_search *search,
                   struct exec_request *wanted, slice label, slice *refusal)
{
    struct connection *own, *shared = NULL;
    size_t own_count, shared_count = 0, count = 0, equal = 0;
    int status = store_connection_list_result(&search->own, &own, &own_count);
    *refusal = SLICE_NONE;
    if (status == OK && search->shared.stmt)
        status = store_connection_list_result(&search->shared, &shared, &shared_count);
    if (status != OK)
        return status;
    struct connection *all =
        ARENA_ARRAY(&request->serve.op.arena, struct connection, own_count + shared_count + 1);
    if (!all)
        return ERR_NOMEM;
    for (int has = 1; has >= 0; has--) {
        count = add_rows(all, count, own, own_count, label, has, false);
        count = add_rows(all, count, shared, shared_count, label, has, true);
        equal = has ? count : equal;
    }
    wanted->connection_id = count > 0 ? all[0].id : 0;
    if (equal == 1 || count == 0)
        return OK;
    *refusal = refuse_label(request, wanted->integration_id, all, count, equal);
    return refusal->ptr ? OK : ERR_NOMEM;
}

slice mcp_label_find(struct api_request *request, struct mcp_label_search *search,
                     const struct exec_request *wanted, slice label)
{
    struct pg_pool *pool = request->api->config.pool;
    const struct vault_grant *grant = &request->serve.grant;
    const struct catalog_integration *app =
        catalog_find_integration(*request->api->config.catalog, wanted->integration_id, NULL);
    if (app && app->auth.kind == AUTH_NONE)
        return api_sentence(request,
                            "%.*s needs no connection. Nothing was done. Leave connection_id out.",
                            SLICE_ARG(app->name));
    store_connection_labelled(pool, &search->own, &request->serve.op, grant->account_id,
                              wanted->integration_id, label, CHOICES_MAX + 1);
    if (!uuid_is_nil(grant->parent_id))
        store_connection_labelled(pool, &search->shared, &request->serve.op, grant->parent_id,
                                  wanted->integration_id, label, CHOICES_MAX + 1);
    return SLICE_NONE;
}

static enum op_result finish_label(struct api_request *request)
{
    struct naming *naming = request->state;
    slice refusal;
    int status = mcp_label_take(request, &naming->search, &naming->wanted, naming->label, &refusal);
    if (status != OK)
        return status == ERR_NOMEM ? api_reply_no_memory(request)
                                   : api_reply_database(request, status);
    return refusal.ptr ? api_reply(request, 400, refusal) : mcp_run(request, &naming->wanted);
}

/* Finds the id before a form is shown and before the call gets its fingerprint. */
static enum op_result find_label(struct api_request *request, const struct exec_request *wanted,
                                 slice label)
{
    struct naming *naming = ARENA_NEW(&request->serve.op.arena, struct naming);
    if (!naming)
        return api_reply_no_memory(request);
    *naming = (struct naming){.wanted = *wanted, .label = label};
    slice fault = mcp_label_find(request, &naming->search, wanted, label);
    if (fault.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(fault));
    request->state = naming;
    return api_wait(request, finish_label);
}

/* ---- run_action ---- */

slice mcp_view_read(const struct json *arguments, bool *wants_view)
{
    const struct json *view = json_given(arguments, SLICE("view"));
    *wants_view = !view;
    return !view || slice_eq_cstr(json_str(view), "full")
               ? SLICE_NONE
               : SLICE("view must be \"full\", or left out");
}

slice mcp_run_read(struct api_request *request, const struct json *arguments,
                   struct exec_request *wanted, slice *label)
{
    bool wants_view;
    uint64_t number;
    slice fault = api_execution_read(request, mcp_run_action.members, arguments, wanted);
    *label = json_get_str(arguments, SLICE("connection_id"));
    if (label->len == 0 || slice_to_u64(*label, UINT64_MAX, &number))
        *label = SLICE_NONE;
    if (!fault.ptr)
        fault = api_connection_read(request, arguments, "connection_id", &wanted->connection_id);
    if (!fault.ptr)
        fault = mcp_view_read(arguments, &wants_view);
    if (fault.ptr)
        return fault;
    mcp_run_prepare(request, request->outer, wanted);
    wanted->wants_view = wants_view;
    return SLICE_NONE;
}

static enum op_result begin_run_action(struct api_request *request)
{
    struct exec_request wanted;
    slice label, problem = mcp_run_read(request, request->body, &wanted, &label);
    if (problem.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(problem));
    return label.ptr ? find_label(request, &wanted, label) : mcp_run(request, &wanted);
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
