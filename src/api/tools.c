/*
 * POST /api/tools/{tool_name}/execute (src/api/README.md "Tool endpoint"): the same engine as POST
 * /api/executions, with a choice of the connection, with files, and with its own envelope.
 */
#include "api/envelope.h"
#include "api/request.h"
#include "json/scan.h"
#include "serve/foresee.h"
#include "base/clock.h"
#include "call/view.h"

/* The output, which may be large, appears twice in a reply. It is not copied: the text around it
 * has two gaps. */
enum { TOOL_FRAME_BYTES_MAX = 4 * 1024 * 1024, TOOL_REPLY_PARTS = 5 };

#define CONNECTION_ID_MAX \
    (((int64_t)1 << 53) - 1) /* the largest integer in a client's JSON number */

struct tool {
    struct exec *exec; /* NULL until the execution starts */
    slice name, integration_id;
    struct json arguments;
    slice pointer; /* JSON Pointer to the arguments in the body */
    /* one more than allowed, so that call_files_check refuses the excess */
    struct call_file files[CALL_FILES_MAX + 1];
    size_t file_count;
    slice reply[TOOL_REPLY_PARTS];
};

/* ---- the request ---- */

/* Returns the tool's own integration; else the longest integration id with which the name begins,
 * since both parts may contain underscores; else the part before the first underscore, which is
 * then reported as unknown. The result is a slice of the name, because the catalog may be replaced
 * before the answer is written. */
static slice find_integration(const struct api_request *request, slice name)
{
    const struct catalog *catalog = *request->api->config.catalog;
    const struct catalog_action *action =
        serve_known(&request->serve, catalog_find_tool(catalog, name));
    if (action)
        return slice_first(name, action->integration->integration_id.len);
    for (size_t len = name.len; len > 0; len--)
        if ((len == name.len || name.ptr[len] == '_') &&
            catalog_find_integration(catalog, slice_first(name, len), NULL))
            return slice_first(name, len);
    return slice_split(&name, '_');
}

static const struct api_names members = {
    .own = {"arguments", "connectionId", "confirmed", "files"},
    .other = {{"confirm", "confirmed"},
              {"input", "arguments"},
              {"dry_run", "the query parameter dry_run"},
              {"shows", "the query parameter shows"},
              {"max_output_bytes", "the query parameter max_output_bytes"},
              {"max_pages", "the query parameter max_pages"},
              {"select", "the query parameter select"},
              {"idempotency_key", "the header Idempotency-Key"}},
    .wrapper = "arguments",
};

/* Reads the member `arguments` or, if it is absent, all members without another meaning. Returns
 * false if it is invalid; the request was then answered. */
static bool read_arguments(struct api_request *request, struct tool *tool)
{
    const struct json *body = request->body, *given = json_given(body, SLICE("arguments"));
    if (given && given->type != JSON_OBJECT) {
        (void)api_reply_error(request, 400, "arguments must be an object, got %s",
                              json_type_name(given));
        return false;
    }
    tool->arguments = given ? *given : json_object();
    tool->pointer = given ? SLICE("/arguments") : SLICE("");
    for (uint32_t i = 0; !given && i < body->count; i++) {
        slice key = json_str(&body->as.members[i].key);
        if (!api_names_has(&members, key))
            json_object_set(&request->serve.op.arena, &tool->arguments, key,
                            body->as.members[i].value);
    }
    return true;
}

slice api_connection_read(struct api_request *request, const struct json *body, const char *name,
                          int64_t *id)
{
    const struct json *given = json_given(body, slice_cstr(name));
    uint64_t number;
    *id = 0;
    if (!given)
        return SLICE_NONE;
    if (given->type != JSON_STRING && !json_is_number(given))
        return api_sentence(request, "%s must be a number or a string, got %s", name,
                            json_type_name(given));
    if (given->type == JSON_STRING)
        *id = slice_to_u64(json_str(given), CONNECTION_ID_MAX, &number) ? (int64_t)number : 0;
    else if (!json_to_i64(given, id) || *id > CONNECTION_ID_MAX)
        *id = 0;
    if (*id <= 0)
        *id = EXEC_CONNECTION_NONE;
    return SLICE_NONE;
}

static bool read_file_text(struct api_request *request, const struct json *item, size_t index,
                           const char *name, slice *text)
{
    const struct json *value = json_given(item, slice_cstr(name));
    *text = json_str(value);
    if (!value || value->type == JSON_STRING)
        return true;
    (void)api_reply_error(request, 400, "/files/%zu/%s must be a string, got %s", index, name,
                          json_type_name(value));
    return false;
}

static const struct api_names file_members = {
    .own = {"field", "name", "contentType", "data"},
    .other = {{"mimeType", "contentType"},
              {"type", "contentType"},
              {"filename", "name"},
              {"content", "data"},
              {"base64", "data"}},
};

/* Checks only types; call_files_check compares the files with the action's limits. Returns false if
 * a file is invalid; the request was then answered. */
static bool read_files(struct api_request *request, struct tool *tool)
{
    const struct json *list = json_given(request->body, SLICE("files"));
    if (list && list->type != JSON_ARRAY) {
        (void)api_reply_error(request, 400, "files must be an array, got %s", json_type_name(list));
        return false;
    }
    tool->file_count = !list                                  ? 0
                       : list->count < ARRAY_LEN(tool->files) ? list->count
                                                              : ARRAY_LEN(tool->files);
    for (size_t i = 0; i < tool->file_count; i++) {
        const struct json *item = &list->as.items[i];
        struct call_file *file = &tool->files[i];
        if (item->type != JSON_OBJECT) {
            (void)api_reply_error(request, 400, "/files/%zu must be an object, got %s", i,
                                  json_type_name(item));
            return false;
        }
        slice fault = api_members_fault(request, &file_members, item);
        if (fault.ptr) {
            (void)api_reply_error(request, 400, "/files/%zu: %.*s", i, SLICE_ARG(fault));
            return false;
        }
        if (!read_file_text(request, item, i, "field", &file->field) ||
            !read_file_text(request, item, i, "name", &file->name) ||
            !read_file_text(request, item, i, "contentType", &file->content_type) ||
            !read_file_text(request, item, i, "data", &file->data))
            return false;
    }
    return true;
}

/* ---- the reply ---- */

static int64_t time_of(slice text)
{
    int64_t wall_us;
    return time_parse(text, &wall_us) ? wall_us : 0;
}

/* Fills in the message and times of a replayed run from its stored summary, the only source of
 * them. Only the text before the output is scanned: the output may be large, and comes after these
 * members. */
static void recall(struct exec_outcome *out, slice summary_json, struct arena *arena)
{
    struct json_scan scan;
    slice key, value, output = out->output_json;
    if (output.ptr)
        summary_json.len = (size_t)(output.ptr - summary_json.ptr);
    json_scan_open(&scan, summary_json);
    while (json_scan_next(&scan, &key, &value)) {
        if (slice_eq_cstr(key, "\"message\""))
            out->message = json_scan_str(value, arena);
        else if (slice_eq_cstr(key, "\"started_at\""))
            out->started_us = time_of(json_scan_str(value, arena));
        else if (slice_eq_cstr(key, "\"finished_at\""))
            out->finished_us = time_of(json_scan_str(value, arena));
    }
}

/* Attempts and the provider's status are not stored, so they are null in a replay. */
static void put_meta(struct json_writer *w, const struct exec_outcome *out)
{
    json_member_open(w, "meta", '{');
    json_member_uuid(w, "executionId", out->execution_id);
    json_member_i64(w, "durationMs", (out->finished_us - out->started_us) / 1000);
    json_key(w, "attempts");
    if (out->is_replayed)
        json_put_null(w);
    else
        json_put_i64(w, out->attempts);
    json_key(w, "provider");
    if (out->is_replayed) {
        json_put_null(w);
    } else {
        json_open(w, '{');
        json_member_i64(w, "status", out->provider_status);
        if (out->provider_request_id.len > 0)
            json_member_str(w, "requestId", out->provider_request_id);
        json_close(w, '}');
    }
    json_close(w, '}');
}

static void put_error(struct json_writer *w, const struct exec_outcome *out)
{
    const struct api_verdict *verdict = api_verdict_of(out->reason);
    ASSERT(verdict->error_type && verdict->tool_code);
    json_member_open(w, "error", '{');
    json_member_str(w, "type", slice_cstr(verdict->error_type));
    json_member_str(w, "code", slice_cstr(verdict->tool_code));
    json_member_str(w, "message", out->message.ptr ? out->message : SLICE(""));
    json_member_bool(w, "retryable", exec_outcome_is_retryable(out));
    json_close(w, '}');
}

/* Writes a member whose value is inserted later. Returns the position of the gap. */
static size_t put_gap(struct json_writer *w, const char *key)
{
    json_key(w, key);
    w->needs_comma = true;
    return w->out->len;
}

static enum op_result reply_envelope(struct api_request *request, struct tool *tool,
                                     const struct exec_outcome *out)
{
    bool is_ok = out->reason == EXEC_SUCCEEDED;
    struct json_writer *w = api_reply_open(request, TOOL_FRAME_BYTES_MAX);
    size_t data = 0;
    json_member_bool(w, "ok", is_ok);
    json_member_str(w, "toolName", tool->name);
    json_member_str(w, "integration", tool->integration_id);
    if (is_ok) {
        data = put_gap(w, "data");
        put_meta(w, out);
    } else {
        put_error(w, out);
    }
    size_t canonical = put_gap(w, "canonical");
    json_close(w, '}');
    slice frame = json_text_take(&request->text, &request->serve.op.arena);
    if (!frame.ptr)
        return api_reply_error(request, 500, "Internal error");
    slice output = out->output_json.len > 0 ? out->output_json : SLICE("null");
    tool->reply[0] = slice_first(frame, data);
    tool->reply[1] = is_ok ? output : SLICE("");
    tool->reply[2] = slice_from(slice_first(frame, canonical), data);
    tool->reply[3] = exec_summary_of(tool->exec);
    tool->reply[4] = slice_from(frame, canonical);
    return api_reply_parts(request, api_verdict_of(out->reason)->tool_status, tool->reply,
                           TOOL_REPLY_PARTS, exec_op_of(tool->exec));
}

static enum op_result finish_execute(struct api_request *request)
{
    struct tool *tool = request->state;
    ASSERT(tool && tool->exec);
    /* The outcome is copied, because recall fills in members that a replay does not have. */
    struct exec_outcome out = *exec_outcome_of(tool->exec);
    slice summary = exec_summary_of(tool->exec);
    if (api_reply_guard(request, &out))
        return OP_DONE;
    if (summary.len == 0)
        return api_reply_error(request, 500, "Internal error");
    if (out.is_replayed)
        recall(&out, summary, &request->serve.op.arena);
    if (out.is_dry_run)
        return api_reply(request, 200, summary);
    return reply_envelope(request, tool, &out);
}

/* The execution decides whether it is cancelled: a run that may have reached a provider is recorded
 * (exec/exec.h). */
static void gone_execute(struct api_request *request)
{
    const struct tool *tool = request->state;
    exec_client_gone(tool->exec);
}

/* Returns false if it has answered the request. */
static bool check_confirmed(struct api_request *request)
{
    const struct json *confirmed = json_given(request->body, SLICE("confirmed"));
    if (!confirmed || confirmed->type == JSON_BOOL)
        return true;
    (void)api_reply_error(request, 400, "confirmed must be true or false, got %s",
                          json_type_name(confirmed));
    return false;
}

static enum op_result begin_execute(struct api_request *request)
{
    slice key, key_fault = api_key_header(request, &key);
    int64_t connection_id;
    uint64_t output_bytes_max, pages_max;
    bool is_dry_run, wants_shows;
    struct tool *tool = request->state;
    if (!check_confirmed(request))
        return OP_DONE;
    slice select = api_query_text(request, "select");
    if (!key_fault.ptr && select.ptr)
        key_fault = call_select_fault(select, &request->serve.op.arena);
    if (key_fault.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(key_fault));
    if (!api_query_bool(request, "dry_run", &is_dry_run) ||
        !api_query_bool(request, "shows", &wants_shows) ||
        !api_query_positive(request, "max_output_bytes", 0, INT64_MAX, &output_bytes_max) ||
        !api_query_positive(request, "max_pages", 0, CATALOG_PAGES_MAX, &pages_max))
        return OP_DONE;
    if (wants_shows && !is_dry_run)
        return api_reply_error(request, 400, "shows is only for a dry run: add dry_run=true");
    const struct catalog_action *action =
        serve_known(&request->serve, catalog_find_tool(*request->api->config.catalog,
                                                       request->serve.match.params[0]));
    slice fault = action && json_given(request->body, SLICE("arguments"))
                      ? api_misplaced_fault(request, &members, request->body, action->input_schema)
                      : SLICE_NONE;
    if (!fault.ptr && !read_arguments(request, tool))
        return OP_DONE;
    if (!fault.ptr)
        fault = api_connection_read(request, request->body, "connectionId", &connection_id);
    if (fault.ptr)
        return api_reply_error(request, 400, "%.*s", SLICE_ARG(fault));
    if (!read_files(request, tool))
        return OP_DONE;
    tool->name = request->serve.match.params[0];
    tool->integration_id = find_integration(request, tool->name);
    struct exec_request wanted = {
        .account_id = request->serve.grant.account_id,
        .by = serve_by(&request->serve),
        .scopes = request->serve.grant.scopes,
        .policy = request->serve.policy,
        .user = request->serve.user,
        .asker = request->serve.grant.line,
        .integration_id = tool->integration_id,
        .action_id = tool->name,
        .input = &tool->arguments,
        .input_pointer = tool->pointer,
        .confirm_name = "confirmed",
        .is_confirmed = json_get_bool(request->body, SLICE("confirmed"), false),
        .confirms_held = true,
        .is_dry_run = is_dry_run,
        .wants_shows = wants_shows,
        .idempotency_key = key,
        .key_name = "Idempotency-Key header",
        .output_bytes_max = output_bytes_max,
        .select = select,
        .pages_max = (unsigned)pages_max,
        .connection_id = connection_id,
        .files = tool->files,
        .file_count = tool->file_count,
        .trace = api_trace(request),
    };
    tool->exec = exec_start(request->api->config.exec, &wanted, &request->serve.op);
    if (!tool->exec)
        return api_reply_no_memory(request);
    request->on_gone = gone_execute;
    return api_wait_keyed(request, finish_execute);
}

const struct api_endpoint api_tools_execute = {
    .scope = SCOPE_EXECUTE,
    .body = API_BODY_FILES,
    .query = &(const struct api_names){.own = {"max_output_bytes", "max_pages", "dry_run", "shows",
                                               "select"},
                                       .other = {{"idempotency_key", "the header Idempotency-Key"},
                                                 {"connection_id", "the member connectionId"},
                                                 {"confirmed", "the member confirmed"}}},
    .members = &members,
    .begin = begin_execute,
    .state_bytes = sizeof(struct tool),
};
