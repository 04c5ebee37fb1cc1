/*
 * Paths that belong to no app, for request mapping and for clients under test: /echo returns the
 * request, /bytes/{n}, /status/{code}, /sleep/{ms}. No token is needed.
 */
#include "base/encode.h"
#include "provider/call.h"

enum { BYTES_MAX = 32 * 1024 * 1024, SLEEP_MS_MAX = 600000 };

static struct json pairs_of(struct arena *arena, const struct http_header *pairs, size_t count)
{
    struct json list = json_array();
    for (size_t i = 0; i < count; i++) {
        struct json pair = json_array();
        if (slice_eq_nocase(pairs[i].name, SLICE("authorization")) ||
            slice_eq_nocase(pairs[i].name, SLICE("cookie")))
            continue;
        json_array_push(arena, &pair, json_string(pairs[i].name));
        json_array_push(arena, &pair, json_string(pairs[i].value));
        json_array_push(arena, &list, pair);
    }
    return list;
}

/* Replies with {"method","path","query":[[k,v]],"headers":[[k,v]],"body":text|null,"json":...,
 * "body_base64"} */
static void echo(struct call *call)
{
    const struct http_exchange *http = call->http;
    struct err err;
    struct buf encoded;
    bool is_text = slice_is_utf8(http->body, NULL);
    const struct json *json = json_parse(call->arena, http->body, &json_limits_provider, &err);
    buf_init(&encoded, 2 * http->body.len + 4);
    encode_base64(&encoded, is_text ? SLICE_NONE : http->body);
    struct json out = OBJECT(call->arena, "method path query headers body json body_base64",
                             json_string(http->head.method_text), json_string(http->head.path),
                             pairs_of(call->arena, call->query, call->query_count),
                             pairs_of(call->arena, http->head.headers, http->head.header_count),
                             http->body.len && is_text ? json_string(http->body) : json_null,
                             json ? *json : json_null,
                             is_text ? json_null : json_string(arena_take(call->arena, &encoded)));
    call_reply(call, 200, &out);
    buf_deinit(&encoded);
}

/* Replies with that many bytes, each the low byte of its offset, so that a gap or a wrong order can
 * be detected. */
static void bytes(struct call *call, uint64_t count)
{
    reply_text(call->reply, 200, SLICE("application/octet-stream"), SLICE_NONE);
    char *out = buf_reserve(call->reply->body, (size_t)count);
    ASSERT(out);
    for (uint64_t i = 0; i < count; i++)
        out[i] = (char)(i & 0xff);
    buf_added(call->reply->body, (size_t)count);
}

void generic_handle(struct call *call)
{
    const struct http_exchange *http = call->http;
    slice argument = http->segment_count == 2 ? http->segments[1] : SLICE_NONE;
    uint64_t number;
    if (call_is_below(call, "echo")) {
        echo(call);
    } else if (call_is_below(call, "bytes") && slice_to_u64(argument, BYTES_MAX, &number)) {
        bytes(call, number);
    } else if (call_is_below(call, "sleep") && slice_to_u64(argument, SLEEP_MS_MAX, &number)) {
        reply_text(call->reply, 200, SLICE("application/json"), SLICE("{\"slept\":true}"));
        call->reply->delay_ms = number;
    } else if (call_is_below(call, "status") && slice_to_u64(argument, 599, &number) &&
               number >= 200) {
        struct json out = OBJECT(call->arena, "status", json_u64(number));
        call_reply(call, (unsigned)number, &out);
    } else {
        reply_error(call->reply, 404, SLICE("nothing here"));
    }
}
