/*
 * How endpoints answer and read their query strings.
 */
#include <stdio.h>

#include "api/envelope.h"
#include "api/request.h"
#include "base/map.h"

enum { RETRY_AFTER_MS = 1000 };

void api_reply_header(struct api_request *request, const char *name, slice value)
{
    ASSERT(request->header_count < API_REPLY_HEADERS_MAX);
    request->headers[request->header_count++] = (struct http_header){slice_cstr(name), value};
}

void api_reply_retry_after(struct api_request *request, int64_t ms)
{
    int64_t seconds = ms <= 1000 ? 1 : (ms + 999) / 1000;
    slice text = arena_printf(&request->op.arena, "%lld", (long long)seconds);
    if (text.ptr)
        api_reply_header(request, "Retry-After", text);
}

slice api_etag_of(struct api_request *request, slice body)
{
    uint64_t hash = hash_stable(body.ptr, body.len);
    return arena_printf(&request->op.arena, "\"%016llx\"", (unsigned long long)hash);
}

/* Weak comparison, RFC 9110 13.1.2. */
static bool is_known(slice known, slice etag)
{
    while (known.len > 0) {
        slice one = slice_trim(slice_split(&known, ','));
        if (slice_starts_with(one, SLICE("W/")))
            one = slice_from(one, 2);
        if (slice_eq(one, etag) || slice_eq_cstr(one, "*"))
            return true;
    }
    return false;
}

bool api_has_etag(struct api_request *request, slice etag)
{
    return is_known(http_request_header(request->exchange, SLICE("If-None-Match")), etag);
}

bool api_reply_not_modified(struct api_request *request, slice etag)
{
    if (!etag.ptr) /* out of memory: a reply without one */
        return false;
    api_reply_header(request, "ETag", etag);
    api_reply_header(request, "Cache-Control", SLICE("private, no-cache"));
    if (!api_has_etag(request, etag))
        return false;
    request->frame.is_answered = true;
    http_reply(request->exchange, 304, request->headers, request->header_count, SLICE_NONE);
    return true;
}

enum op_result api_reply(struct api_request *request, unsigned status, slice json_text)
{
    ASSERT(!request->frame.is_answered);
    api_reply_header(request, "Content-Type", SLICE("application/json; charset=utf-8"));
    request->frame.is_answered = true;
    http_reply(request->exchange, status, request->headers, request->header_count, json_text);
    return OP_DONE;
}

enum op_result api_reply_error(struct api_request *request, unsigned status, const char *fmt, ...)
{
    struct arena *arena = &request->op.arena;
    struct buf text;
    va_list args;
    va_start(args, fmt);
    slice sentence = arena_vprintf(arena, fmt, args);
    va_end(args);
    buf_init(&text, 64 * 1024);
    buf_append_cstr(&text, "{\"error\":");
    json_write_str(&text, sentence);
    buf_append_char(&text, '}');
    slice body = buf_is_ok(&text) ? arena_dup(arena, buf_slice(&text)) : SLICE_NONE;
    buf_deinit(&text);
    return api_reply(request, status, body.ptr ? body : SLICE("{\"error\":\"Internal error\"}"));
}

enum op_result api_reply_database(struct api_request *request, int status)
{
    if (status == ERR_BUSY || status == ERR_CLOSED || status == ERR_TIMEOUT) {
        api_reply_retry_after(request, RETRY_AFTER_MS);
        return api_reply_error(request, 503, "The database cannot be reached, try again");
    }
    op_log(&request->op, LOG_ERROR, "a query failed", LOG_INT("status", status),
           LOG_CSTR("sqlstate", request->query.sqlstate), LOG_STR("cause", request->query.message));
    return api_reply_error(request, 500, "Internal error");
}

/* 1 to 255 bytes of UTF-8 without control characters (DECISIONS.md "idempotency_key"). */
bool api_key_is_acceptable(slice key)
{
    if (key.len == 0 || key.len > IDEMPOTENCY_KEY_MAX || !slice_is_utf8(key, NULL))
        return false;
    for (size_t i = 0; i < key.len; i++)
        if ((unsigned char)key.ptr[i] < 0x20 || key.ptr[i] == 0x7f)
            return false;
    return true;
}

bool api_check_key(struct api_request *request, slice key)
{
    if (!key.ptr || api_key_is_acceptable(key))
        return true;
    (void)api_reply_error(request, 400, API_KEY_TEXT, IDEMPOTENCY_KEY_MAX);
    return false;
}

int64_t api_retry_after_s(const struct exec_outcome *outcome)
{
    const struct api_verdict *verdict = api_verdict_of(outcome->reason);
    bool is_told = outcome->reason == EXEC_CIRCUIT_OPEN ||
                   outcome->reason == EXEC_PROVIDER_ERROR || /* a 503 that says until when */
                   slice_eq_cstr(api_error_code(outcome), "rate_limited");
    if (verdict->status ? !is_told || outcome->retry_after_ms < 0 : verdict->http_status != 503)
        return 0;
    return outcome->retry_after_ms <= 1000 ? 1 : (outcome->retry_after_ms + 999) / 1000;
}

bool api_reply_guard(struct api_request *request, const struct exec_outcome *outcome)
{
    const struct api_verdict *verdict = api_verdict_of(outcome->reason);
    if (outcome->is_replayed)
        api_reply_header(request, "Idempotent-Replayed", SLICE("true"));
    int64_t retry_after_s = api_retry_after_s(outcome);
    if (retry_after_s > 0)
        api_reply_retry_after(request, retry_after_s * 1000);
    if (verdict->status)
        return false;
    slice message = outcome->message.len > 0 ? outcome->message : SLICE("Internal error");
    (void)api_reply_error(request, verdict->http_status, "%.*s", SLICE_ARG(message));
    return true;
}

enum op_result api_reply_outcome(struct api_request *request, const struct exec_outcome *outcome)
{
    slice text = api_render_summary(outcome, &request->op.arena);
    if (!text.ptr)
        return api_reply_error(request, 500, "Internal error");
    return api_reply(request, api_verdict_of(outcome->reason)->http_status, text);
}

slice api_query_text(struct api_request *request, const char *name)
{
    slice value = http_query_get(request->exchange, slice_cstr(name));
    return value.len > 0 ? value : SLICE_NONE;
}

bool api_query_count(struct api_request *request, const char *name, uint64_t otherwise,
                     uint64_t *value)
{
    slice text = http_query_get(request->exchange, slice_cstr(name));
    *value = otherwise;
    if (!text.ptr || slice_to_u64(text, UINT32_MAX, value))
        return true;
    (void)api_reply_error(request, 400, "%s must be a whole number, got \"%.*s\"", name,
                          SLICE_ARG(text));
    return false;
}

bool api_query_limit(struct api_request *request, const char *name, uint64_t *limit)
{
    slice text = http_query_get(request->exchange, slice_cstr(name));
    *limit = 0;
    if (!text.ptr || (slice_to_u64(text, INT64_MAX, limit) && *limit > 0))
        return true;
    (void)api_reply_error(request, 400, "%s must be a positive integer", name);
    return false;
}

bool api_query_bool(struct api_request *request, const char *name, bool *value)
{
    slice text = http_query_get(request->exchange, slice_cstr(name));
    *value = false;
    if (!text.ptr || slice_to_bool(text, value))
        return true;
    (void)api_reply_error(request, 400, "%s must be true or false, got \"%.*s\"", name,
                          SLICE_ARG(text));
    return false;
}
