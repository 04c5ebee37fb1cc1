/*
 * How endpoints answer. Each function sets is_answered and hands the reply to the exchange. A
 * second answer fails an assertion, and a missing answer is found when the op ends
 * (serve/request.c). A reply must not fail for lack of memory: it then gets a constant body, or one
 * header less.
 */
#include <stdio.h>

#include "api/envelope.h"
#include "api/request.h"
#include "base/map.h"
#include "call/summary.h"

enum { RETRY_AFTER_MS = 1000 };

slice api_etag_of(struct api_request *request, slice body)
{
    /* The hash is the same in all processes and versions, because a client may reach another
     * process next time. */
    uint64_t hash = hash_stable(body.ptr, body.len);
    return arena_printf(&request->serve.op.arena, "\"%016llx\"", (unsigned long long)hash);
}

/* Checks the list of If-None-Match by weak comparison (RFC 9110 13.1.2). */
static bool lists_etag(slice known, slice etag)
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

/* A condition refers to the plain reply, so it is ignored if the reply is put into an envelope. */
bool api_has_etag(struct api_request *request, slice etag)
{
    return !request->envelope &&
           lists_etag(http_request_header(request->serve.exchange, SLICE("If-None-Match")), etag);
}

bool api_reply_not_modified(struct api_request *request, slice etag)
{
    ASSERT(!request->serve.is_answered);
    if (!etag.ptr || request->envelope) /* out of memory: the reply is sent without an ETag */
        return false;
    serve_header(&request->serve, "ETag", etag);
    serve_header(&request->serve, "Cache-Control", SLICE("private, no-cache"));
    if (!api_has_etag(request, etag))
        return false;
    request->serve.is_answered = true;
    http_reply(request->serve.exchange, 304, request->serve.headers, request->serve.header_count,
               SLICE_NONE);
    return true;
}

static void release_owner(void *owner)
{
    op_release(owner);
}

/* No intermediate cache may store an account's data; a reply with an ETag has its own cache
 * time. */
static void put_no_store(struct api_request *request)
{
    if (uuid_is_nil(request->serve.grant.key_id) ||
        request->serve.header_count == SERVE_HEADERS_MAX ||
        http_header_get(request->serve.headers, request->serve.header_count, SLICE("ETag")).ptr)
        return;
    serve_header(&request->serve, "Cache-Control", SLICE("no-store"));
}

/* A large reply is not copied: a hold keeps its memory until the client has read it. A small reply
 * is copied, so that a slow client does not keep a whole request in memory. */
enum op_result api_reply_parts(struct api_request *request, unsigned status, const slice *parts,
                               size_t count, struct op *owner)
{
    size_t len = 0;
    ASSERT(!request->serve.is_answered && !request->envelope && count > 0);
    for (size_t i = 0; i < count; i++)
        len += parts[i].len;
    char *room = NULL;
    if (count > 1 && len <= API_REPLY_LARGE_BYTES &&
        !(room = arena_alloc_text(&request->serve.op.arena, len)))
        return api_reply_error(request, 500, "Internal error");
    serve_header(&request->serve, "Content-Type", SLICE("application/json; charset=utf-8"));
    put_no_store(request);
    request->serve.is_answered = true;
    op_weigh(&request->serve.op, len);
    if (len <= API_REPLY_LARGE_BYTES) {
        http_reply(request->serve.exchange, status, request->serve.headers,
                   request->serve.header_count,
                   room ? slice_join(room, len, parts, count) : parts[0]);
        return OP_DONE;
    }
    op_hold(owner, "a client that reads its reply");
    http_reply_large(request->serve.exchange, status, request->serve.headers,
                     request->serve.header_count, parts, count, release_owner, owner);
    return OP_DONE;
}

enum op_result api_reply_from(struct api_request *request, unsigned status, slice json_text,
                              struct op *owner)
{
    const struct api_envelope *envelope = request->envelope;
    ASSERT(!request->serve.is_answered);
    if (envelope) {
        request->envelope = NULL;
        return envelope->reply(request, status, json_text, owner);
    }
    request->reply_text = json_text;
    return api_reply_parts(request, status, &request->reply_text, 1, owner);
}

enum op_result api_reply(struct api_request *request, unsigned status, slice json_text)
{
    return api_reply_from(request, status, json_text, &request->serve.op);
}

struct json_writer *api_reply_open(struct api_request *request, size_t bytes_max)
{
    struct json_writer *w = json_text_begin(&request->text, bytes_max);
    json_open(w, '{');
    return w;
}

enum op_result api_reply_close(struct api_request *request, unsigned status)
{
    json_close(&request->text.w, '}');
    slice body = json_text_take(&request->text, &request->serve.op.arena);
    return body.ptr ? api_reply(request, status, body)
                    : api_reply_error(request, 500, "Internal error");
}

enum op_result api_reply_close_tagged(struct api_request *request)
{
    json_close(&request->text.w, '}');
    slice body = json_text_take(&request->text, &request->serve.op.arena);
    if (!body.ptr)
        return api_reply_error(request, 500, "Internal error");
    return api_reply_not_modified(request, api_etag_of(request, body))
               ? OP_DONE
               : api_reply(request, 200, body);
}

enum op_result api_reply_error(struct api_request *request, unsigned status, const char *fmt, ...)
{
    struct arena *arena = &request->serve.op.arena;
    struct buf text;
    /* the text often contains a part of the request, so it is escaped for JSON after it is
     * formatted */
    va_list args;
    va_start(args, fmt);
    slice sentence = arena_vprintf(arena, fmt, args);
    va_end(args);
    buf_init(&text, 64 * 1024);
    buf_append_cstr(&text, "{\"error\":");
    json_write_str(&text, sentence);
    buf_append_char(&text, '}');
    slice body = arena_take(arena, &text);
    return api_reply(request, status, body.ptr ? body : SLICE("{\"error\":\"Internal error\"}"));
}

slice api_sentence(struct api_request *request, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    slice text = arena_vprintf(&request->serve.op.arena, fmt, args);
    va_end(args);
    return text.ptr ? text : SLICE("Out of memory");
}

enum op_result api_reply_key_refused(struct api_request *request)
{
    serve_header(&request->serve, "WWW-Authenticate", SLICE("Bearer"));
    return api_reply_error(request, 401, API_KEY_REFUSED_TEXT);
}

enum op_result api_reply_later(struct api_request *request, slice text)
{
    serve_retry_after(&request->serve, RETRY_AFTER_MS);
    return api_reply_error(request, 503, "%.*s", SLICE_ARG(text));
}

enum op_result api_reply_no_memory(struct api_request *request)
{
    return api_reply_later(request, SLICE("Out of memory. Try again."));
}

/* The three temporary errors are answered with 503. Any other error is a fault of a statement or
 * of the schema, and only the log has the details. */
enum op_result api_reply_database(struct api_request *request, int status)
{
    if (status == ERR_BUSY || status == ERR_CLOSED || status == ERR_TIMEOUT)
        return api_reply_later(request, SLICE("The database cannot be reached. Try again."));
    op_log(&request->serve.op, LOG_ERROR, "a query failed", LOG_INT("status", status),
           LOG_CSTR("sqlstate", request->query.sqlstate), LOG_STR("cause", request->query.message));
    return api_reply_error(request, 500, "Internal error");
}

enum op_result api_reply_no_row(struct api_request *request, int status, const char *none)
{
    return status == ERR_NOTFOUND ? api_reply_error(request, 404, "%s", none)
                                  : api_reply_database(request, status);
}

/* Formats milliseconds with one decimal. */
static slice render_ms(uint64_t ns, char room[SLICE_U64_MAX + 2])
{
    char whole[SLICE_U64_MAX], tenths[SLICE_U64_MAX];
    return slice_join(room, SLICE_U64_MAX + 2,
                      (const slice[]){slice_of_u64(ns / 1000000, whole), SLICE("."),
                                      slice_of_u64(ns / 100000 % 10, tenths)},
                      3);
}

/* Adds the durations of the parts of a run, for browsers and traces (W3C Server Timing). */
static void put_server_timing(struct api_request *request, const struct exec_times *times)
{
    char text[160], gate[SLICE_U64_MAX + 2], limits[SLICE_U64_MAX + 2], provider[SLICE_U64_MAX + 2],
        record[SLICE_U64_MAX + 2];
    slice line = SLICE_JOIN(text, SLICE("gate;dur="), render_ms(times->gate_ns, gate),
                            SLICE(", limits;dur="), render_ms(times->limits_ns, limits),
                            SLICE(", provider;dur="), render_ms(times->provider_ns, provider),
                            SLICE(", record;dur="), render_ms(times->record_ns, record));
    line = arena_dup(&request->serve.op.arena, line);
    if (line.ptr)
        serve_header(&request->serve, "Server-Timing", line);
}

bool api_reply_guard(struct api_request *request, const struct exec_outcome *outcome)
{
    ASSERT(!request->serve.is_answered);
    put_server_timing(request, &outcome->times);
    if (outcome->is_replayed)
        serve_header(&request->serve, "Idempotent-Replayed", SLICE("true"));
    int64_t retry_after_s = exec_outcome_retry_after_s(outcome);
    if (retry_after_s > 0)
        serve_retry_after(&request->serve, retry_after_s * 1000);
    if (exec_reason_status(outcome->reason))
        return false;
    slice message = outcome->message.len > 0 ? outcome->message : SLICE("Internal error");
    (void)api_reply_error(request, api_verdict_of(outcome->reason)->http_status, "%.*s",
                          SLICE_ARG(message));
    return true;
}

enum op_result api_reply_outcome(struct api_request *request, const struct exec_outcome *outcome)
{
    ASSERT(exec_reason_status(outcome->reason)); /* a guard error has no summary */
    slice text = exec_summary_render(outcome, &request->serve.op.arena);
    if (!text.ptr)
        return api_reply_error(request, 500, "Internal error");
    return api_reply(request, api_verdict_of(outcome->reason)->http_status, text);
}
