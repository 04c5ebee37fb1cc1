/*
 * JSON-RPC 2.0 as MCP uses it, in both eras; see message.h. The headers of 2026-07-28 repeat parts
 * of the body, so that a proxy can route by them. A request in which they differ is refused:
 * otherwise a proxy could let a call pass that is not the call that runs.
 */
#include "mcp/message.h"

#include "base/ascii.h"
#include "base/encode.h"
#include "base/version.h"
#include "json/scan.h"
#include "mcp/stream.h"
#include "mcp/words.h"
#include "trace/context.h"

enum {
    RESULT_BYTES_MAX = 128 * 1024 * 1024,
    NAME_BYTES_MAX = 8 * 1024,
    EXCERPT_BYTES_MAX = 16 * JSON_EXCERPT_BYTES_MAX,
};

#define META_VERSION "io.modelcontextprotocol/protocolVersion"
#define META_CLIENT  "io.modelcontextprotocol/clientCapabilities"
#define META_SERVER  "io.modelcontextprotocol/serverInfo"

static const char *const versions[] = {MCP_MODERN, MCP_LEGACY, "2025-06-18", "2025-03-26"};

bool mcp_version_is_legacy(slice version)
{
    for (size_t i = 1; i < ARRAY_LEN(versions); i++)
        if (slice_eq_cstr(version, versions[i]))
            return true;
    return false;
}

void mcp_put_versions(struct json_writer *w)
{
    json_open(w, '[');
    for (size_t i = 0; i < ARRAY_LEN(versions); i++)
        json_put_str(w, slice_cstr(versions[i]));
    json_close(w, ']');
}

/* ---- errors ---- */

/* Sends a finished JSON-RPC response. */
static enum op_result send_response(struct api_request *request, const struct mcp_message *message,
                                    unsigned status, slice text)
{
    request->envelope = NULL;
    return message && message->is_streaming ? mcp_stream_end(request, text)
                                            : api_reply(request, status, text);
}

/* sentence: a JSON string. */
static enum op_result reply_error(struct api_request *request, const struct mcp_message *message,
                                  unsigned status, enum mcp_code code, slice sentence, slice data)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, RESULT_BYTES_MAX);
    json_open(w, '{');
    json_member_str(w, "jsonrpc", SLICE("2.0"));
    if (message && message->id)
        json_member(w, "id", message->id);
    json_member_open(w, "error", '{');
    json_member_i64(w, "code", code);
    json_member_raw(w, "message", sentence);
    if (data.ptr)
        json_member_raw(w, "data", data);
    json_close(w, '}');
    json_close(w, '}');
    slice reply = json_text_take(&text, &request->serve.op.arena);
    if (reply.ptr)
        return send_response(request, message, status, reply);
    request->envelope = NULL;
    return api_reply_error(request, 500, "Internal error");
}

enum op_result mcp_reply_error(struct api_request *request, const struct mcp_message *message,
                               unsigned status, enum mcp_code code, slice data, const char *fmt,
                               ...)
{
    struct buf text;
    va_list args;
    va_start(args, fmt);
    slice sentence = arena_vprintf(&request->serve.op.arena, fmt, args);
    va_end(args);
    buf_init(&text, RESULT_BYTES_MAX);
    json_write_str(&text, sentence.ptr ? sentence : SLICE("Out of memory"));
    slice quoted = arena_take(&request->serve.op.arena, &text);
    return reply_error(request, message, status, code, quoted.ptr ? quoted : SLICE("\"\""), data);
}

enum op_result mcp_refuse_without_tasks(struct api_request *request,
                                        const struct mcp_message *message)
{
    return mcp_reply_error(
        request, message, 400, MCP_MISSING_CAPABILITY,
        SLICE("{\"requiredCapabilities\":{\"extensions\":{\"" MCP_TASKS "\":{}}}}"),
        "Missing required client capability: extensions[\"" MCP_TASKS "\"]");
}

/* json_text is {"error": "..."}: a refusal by a step that precedes every endpoint. */
static enum op_result refuse(struct api_request *request, unsigned status, slice json_text,
                             struct op *owner)
{
    slice sentence =
        mcp_words_say(json_scan_get(json_text, SLICE("error"), &request->serve.op.arena),
                      mcp_reader_of(request), &request->serve.op.arena);
    enum mcp_code code = status >= 500                     ? MCP_INTERNAL_ERROR
                         : status == 400 && !request->body ? MCP_PARSE_ERROR
                                                           : MCP_INVALID_REQUEST;
    (void)owner;
    return reply_error(request, request->outer, status, code,
                       sentence.ptr ? sentence : SLICE("\"Internal error\""), SLICE_NONE);
}

const struct api_envelope mcp_refusal = {.reply = refuse};

/* ---- results ---- */

void mcp_result_begin_as(struct mcp_result *result, const struct mcp_message *message,
                         const char *type, size_t reserve)
{
    struct json_writer *w = &result->w;
    buf_init(&result->text, RESULT_BYTES_MAX);
    (void)buf_reserve(&result->text, reserve);
    json_begin(w, &result->text);
    json_open(w, '{');
    json_member_str(w, "jsonrpc", SLICE("2.0"));
    json_member(w, "id", message->id);
    json_member_open(w, "result", '{');
    if (message->is_modern)
        json_member_str(w, "resultType", slice_cstr(type));
}

void mcp_result_begin(struct mcp_result *result, const struct mcp_message *message, size_t reserve)
{
    mcp_result_begin_as(result, message, "complete", reserve);
}

void mcp_result_put_caching(struct mcp_result *result, const struct mcp_message *message,
                            int64_t ttl_ms)
{
    if (!message->is_modern)
        return;
    json_member_i64(&result->w, "ttlMs", ttl_ms);
    json_member_str(&result->w, "cacheScope", SLICE("private"));
}

void mcp_put_visible(struct json_writer *w, const char *name, slice text, slice kept)
{
    struct buf visible;
    buf_init(&visible, 8 * text.len + 16);
    encode_visible(&visible, text, kept);
    json_member_str(w, name, buf_slice(&visible));
    w->out->is_failed = w->out->is_failed || !buf_is_ok(&visible);
    buf_deinit(&visible);
}

slice mcp_excerpt(slice text, struct arena *arena)
{
    struct buf visible;
    buf_init(&visible, EXCERPT_BYTES_MAX);
    encode_visible(&visible, json_excerpt(text, arena), SLICE_NONE);
    return arena_take(arena, &visible);
}

void mcp_form_open(struct json_writer *w, slice key, slice message)
{
    json_member_open(w, "inputRequests", '{');
    json_key_slice(w, key);
    json_open(w, '{');
    json_member_str(w, "method", SLICE("elicitation/create"));
    json_member_open(w, "params", '{');
    json_member_str(w, "mode", SLICE("form"));
    mcp_put_visible(w, "message", message, SLICE("\n")); /* keeps its line breaks */
}

/* A name that is not a plain word is written as JSON. Otherwise it could look like a name with a
 * value. */
void mcp_form_put_name(struct buf *form, slice name)
{
    bool is_word = name.len > 0;
    for (size_t i = 0; i < name.len; i++)
        is_word = is_word &&
                  (ascii_is_alnum(name.ptr[i]) || slice_find_char(SLICE("_-.$"), name.ptr[i]) >= 0);
    buf_append_char(form, '\n');
    if (is_word)
        buf_append(form, name);
    else
        json_write_str(form, name);
    buf_append_cstr(form, ": ");
}

void mcp_form_close(struct json_writer *w)
{
    json_close(w, '}');
    json_close(w, '}');
    json_close(w, '}');
}

enum op_result mcp_result_send(struct api_request *request, const struct mcp_message *message,
                               struct mcp_result *result)
{
    struct json_writer *w = &result->w;
    if (message->is_modern) {
        json_member_open(w, "_meta", '{');
        json_member_open(w, META_SERVER, '{');
        json_member_str(w, "name", SLICE("sluice"));
        json_member_str(w, "version", SLICE(SLUICE_VERSION));
        json_close(w, '}');
        if (message->is_subscription)
            json_member(w, MCP_SUBSCRIPTION, message->id);
        json_close(w, '}');
    }
    json_close(w, '}');
    json_close(w, '}');
    ASSERT(!request->serve.is_answered);
    slice text = arena_take(&request->serve.op.arena, &result->text);
    if (!text.ptr)
        return mcp_reply_error(request, message, 500, MCP_INTERNAL_ERROR, SLICE_NONE,
                               "Internal error");
    return send_response(request, message, 200, text);
}

/* ---- reading ---- */

struct reading {
    struct arena *arena;
    const struct http_head *head;
    struct mcp_message *message;
    struct mcp_fault *fault;
};

static slice header_of(const struct reading *r, const char *name)
{
    return http_header_get(r->head->headers, r->head->header_count, slice_cstr(name));
}

/* Always returns false, for the caller to return. */
static bool put_fault(struct reading *r, enum mcp_code code, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
static bool put_fault(struct reading *r, enum mcp_code code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    *r->fault = (struct mcp_fault){
        .code = code, .text = arena_vprintf(r->arena, fmt, args), .id = r->message->id};
    va_end(args);
    return false;
}

/* ---- the headers ---- */

/* Returns the single field of that name, decoded if it is =?base64?...?=, or SLICE_NONE if it is
 * absent, repeated or malformed. */
static slice header_value(struct reading *r, const char *name)
{
    slice value = header_of(r, name);
    struct buf text;
    if (http_header_count(r->head->headers, r->head->header_count, slice_cstr(name)) != 1)
        return SLICE_NONE;
    if (!slice_starts_with(value, SLICE("=?base64?")) || !slice_ends_with(value, SLICE("?=")))
        return value;
    value = slice_from(value, 9);
    buf_init(&text, NAME_BYTES_MAX);
    int status = decode_base64(&text, slice_first(value, value.len - 2));
    slice decoded = arena_take(r->arena, &text);
    return status == OK ? decoded : SLICE_NONE;
}

/* Whether the header has the same value as the body. */
static bool is_as_header(struct reading *r, const char *name, slice wanted)
{
    slice value = header_value(r, name);
    if (value.ptr && slice_eq(value, wanted))
        return true;
    if (value.ptr)
        return put_fault(
            r, MCP_HEADER_MISMATCH, "Header mismatch: %s is \"%.*s\", the body has \"%.*s\"", name,
            SLICE_ARG(json_excerpt(value, r->arena)), SLICE_ARG(json_excerpt(wanted, r->arena)));
    return put_fault(r, MCP_HEADER_MISMATCH,
                     "Header mismatch: %s must be present once and say \"%.*s\", as the body does",
                     name, SLICE_ARG(json_excerpt(wanted, r->arena)));
}

/* ---- the message ---- */

/* The error has the supported versions, so that the client can choose one. */
static bool refuse_version(struct reading *r, slice version)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, NAME_BYTES_MAX);
    json_open(w, '{');
    json_key(w, "supported");
    mcp_put_versions(w);
    json_member_str(w, "requested", json_excerpt(version, r->arena));
    json_close(w, '}');
    slice data = json_text_take(&text, r->arena);
    (void)put_fault(r, MCP_UNSUPPORTED_VERSION, "Unsupported protocol version");
    r->fault->data = data;
    return false;
}

static bool refuse_meta(struct reading *r, const char *name, const char *kind)
{
    return put_fault(r, MCP_INVALID_PARAMS, "params._meta must have \"%s\", %s", name, kind);
}

/* Checks the requirements for a request of 2026-07-28. */
static bool read_modern(struct reading *r)
{
    struct mcp_message *message = r->message;
    message->is_modern = true;
    message->capabilities = json_get(message->meta, SLICE(META_CLIENT));
    if (!json_is(message->capabilities, JSON_OBJECT))
        return refuse_meta(r, META_CLIENT, "an object");
    const struct json *elicitation = JSON_GET(message->capabilities, "elicitation");
    const struct json *url = JSON_GET(elicitation, "url"), *form = JSON_GET(elicitation, "form");
    message->has_forms = json_is(elicitation, JSON_OBJECT) && (form || !url);
    message->has_urls = url != NULL;
    message->has_tasks = json_is(
        json_get(JSON_GET(message->capabilities, "extensions"), SLICE(MCP_TASKS)), JSON_OBJECT);
    message->state = json_get_str(message->params, SLICE("requestState"));
    message->answers = JSON_GET(message->params, "inputResponses");
    if (!is_as_header(r, "Mcp-Method", message->method))
        return false;
    return !message->name.ptr || is_as_header(r, "Mcp-Name", message->name);
}

/* Decides by the version in the body, else by the header. Only 2026-07-28 has it in the body;
 * revisions before 2025-06-18 have neither. */
static bool read_version(struct reading *r)
{
    slice header = header_of(r, "MCP-Protocol-Version");
    const struct json *named = json_get(r->message->meta, SLICE(META_VERSION));
    if (!named) {
        if (!header.ptr || mcp_version_is_legacy(header))
            return true;
        if (slice_eq_cstr(header, MCP_MODERN))
            return refuse_meta(r, META_VERSION, "a string");
        return refuse_version(r, header);
    }
    slice version = json_str(named);
    if (!version.ptr)
        return refuse_meta(r, META_VERSION, "a string");
    if (!is_as_header(r, "MCP-Protocol-Version", version))
        return false;
    if (mcp_version_is_legacy(version))
        return true;
    return slice_eq_cstr(version, MCP_MODERN) ? read_modern(r) : refuse_version(r, version);
}

/* The member that the header Mcp-Name repeats. */
static const struct {
    const char *method, *member;
} named[] = {
    {"tools/call", "name"},     {"resources/read", "uri"},  {"tasks/get", "taskId"},
    {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"},
};

/* Returns NULL if there is no token or the client does not accept a stream. */
static const struct json *progress_token(const struct reading *r)
{
    const struct json *token = JSON_GET(r->message->meta, "progressToken");
    if (!json_is(token, JSON_STRING) && !json_is(token, JSON_INT))
        return NULL;
    return slice_find(header_of(r, "Accept"), SLICE("text/event-stream")) >= 0 ? token : NULL;
}

/* Reads _meta. If a malformed idempotency key were ignored, the call could run twice. */
static bool read_meta(struct reading *r)
{
    const struct json *meta = json_given(r->message->params, SLICE("_meta"));
    const struct json *key = json_given(meta, SLICE(MCP_META_KEY));
    const struct json *structured = json_given(meta, SLICE(MCP_META_STRUCT));
    r->message->meta = meta;
    if (meta && meta->type != JSON_OBJECT)
        return put_fault(r, MCP_INVALID_PARAMS, "params._meta must be an object, got %s",
                         json_type_name(meta));
    if (key && key->type != JSON_STRING)
        return put_fault(r, MCP_INVALID_PARAMS, "params._meta: \"%s\" must be a string, got %s",
                         MCP_META_KEY, json_type_name(key));
    if (structured && structured->type != JSON_BOOL)
        return put_fault(r, MCP_INVALID_PARAMS,
                         "params._meta: \"%s\" must be true or false, got %s", MCP_META_STRUCT,
                         json_type_name(structured));
    r->message->is_structured = structured && structured->as.boolean;
    return true;
}

/* Reads the members of JSON-RPC. An id must be returned exactly as it was sent, so it must be a
 * value that every client can compare: no fraction, no null. */
static bool read_parts(struct reading *r, const struct json *body)
{
    struct mcp_message *message = r->message;
    const struct json *id = JSON_GET(body, "id");
    message->params = JSON_GET(body, "params");
    message->method = json_get_str(body, SLICE("method"));
    if (json_is(id, JSON_STRING) || json_is(id, JSON_INT))
        message->id = id;
    const char *wrong =
        !slice_eq_cstr(json_get_str(body, SLICE("jsonrpc")), "2.0") ? "jsonrpc must be \"2.0\""
        : id && !message->id       ? "id must be a string or an integer"
        : message->method.len == 0 ? "method must be a string. Responses are not accepted."
        : message->params && message->params->type != JSON_OBJECT ? "params must be an object"
                                                                  : NULL;
    if (wrong)
        return put_fault(r, MCP_INVALID_REQUEST, "%s", wrong);
    if (!read_meta(r))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(named); i++)
        if (slice_eq_cstr(message->method, named[i].method))
            message->name = json_get_str(message->params, slice_cstr(named[i].member));
    message->progress = progress_token(r);
    message->progress_sent = -1;
    return true;
}

struct mcp_message *mcp_message_parse(struct arena *arena, const struct json *body,
                                      const struct http_head *head, struct mcp_fault *fault)
{
    struct reading r = {arena, head, ARENA_NEW(arena, struct mcp_message), fault};
    *fault = (struct mcp_fault){.code = MCP_INTERNAL_ERROR};
    return r.message && read_parts(&r, body) && read_version(&r) ? r.message : NULL;
}

/* Reads the trace that the call is part of (W3C Trace Context 3.2): _meta takes precedence over the
 * header. The log line links it to the request's id, by which all other lines are found; a
 * malformed header is ignored, by the specification. */
static void read_trace(struct api_request *request, const struct mcp_message *message)
{
    char room[TRACE_PARENT_LEN + 1];
    struct trace_context context;
    slice parent = json_get_str(message->meta, SLICE("traceparent"));
    slice state = json_get_str(message->meta, SLICE("tracestate"));
    request->trace_parent = parent;
    request->trace_state = state;
    if (!parent.ptr)
        parent = http_request_header(request->serve.exchange, SLICE("traceparent"));
    if (!state.ptr)
        state = http_request_header(request->serve.exchange, SLICE("tracestate"));
    if (!trace_parent_read(parent, &context))
        return;
    parent = trace_parent_write(&context, room);
    op_log(&request->serve.op, LOG_DEBUG, "a call of a trace", LOG_STR("method", message->method),
           LOG_STR("name", message->name), LOG_STR("trace_id", slice_of(parent.ptr + 3, 32)),
           LOG_STR("parent_id", slice_of(parent.ptr + 36, 16)), LOG_STR("tracestate", state));
}

struct mcp_message *mcp_message_read(struct api_request *request)
{
    struct mcp_fault fault;
    struct mcp_message *message = mcp_message_parse(&request->serve.op.arena, request->body,
                                                    &request->serve.exchange->head, &fault);
    if (!message && !fault.text.ptr)
        (void)api_reply_no_memory(request);
    else if (!message)
        (void)mcp_reply_error(request, &(struct mcp_message){.id = fault.id}, 400, fault.code,
                              fault.data, "%.*s", SLICE_ARG(fault.text));
    if (!message)
        return NULL;
    read_trace(request, message);
    request->outer = message;
    return message;
}
