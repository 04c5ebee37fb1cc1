/*
 * Paths of no app, for request mapping and for clients under test: /echo says what came in,
 * /bytes/{n}, /status/{code}, /sleep/{ms}. No token is needed.
 */
#include "base/encode.h"
#include "provider/provider.h"

enum { BYTES_MAX = 32 * 1024 * 1024, SLEEP_MS_MAX = 600000 };

static bool is_secret(slice name)
{
    return slice_eq_nocase(name, SLICE("authorization")) || slice_eq_nocase(name, SLICE("cookie"));
}

static void write_pairs(struct json_writer *w, const char *key, const struct http_header *pairs,
                        size_t count)
{
    json_member_open(w, key, '[');
    for (size_t i = 0; i < count; i++) {
        if (is_secret(pairs[i].name))
            continue;
        json_open(w, '[');
        json_put_str(w, pairs[i].name);
        json_put_str(w, pairs[i].value);
        json_close(w, ']');
    }
    json_close(w, ']');
}

/* {"method","path","query":[[k,v]],"headers":[[k,v]],"body":text|null,"json":...,"body_base64"} */
static void echo(const struct provider_request *request, struct provider_reply *reply)
{
    slice body = request->body;
    struct err err;
    struct buf encoded;
    bool is_text = slice_is_utf8(body, NULL);
    buf_init(&encoded, 2 * body.len + 4);
    if (!is_text)
        encode_base64(&encoded, body);
    struct json_writer w = reply_json(reply, 200);
    json_open(&w, '{');
    json_member_str(&w, "method", request->method_text);
    json_member_str(&w, "path", request->path);
    write_pairs(&w, "query", request->query, request->query_count);
    write_pairs(&w, "headers", request->headers, request->header_count);
    json_member_str(&w, "body", body.len && is_text ? body : SLICE_NONE);
    json_member(&w, "json", json_parse(request->arena, body, &json_limits_provider, &err));
    json_member_str(&w, "body_base64", is_text ? SLICE_NONE : arena_take(request->arena, &encoded));
    json_close(&w, '}');
}

/* n bytes, each the low byte of its offset, so that a gap or a wrong order can be detected. */
static void bytes(uint64_t count, struct provider_reply *reply)
{
    reply_text(reply, 200, SLICE("application/octet-stream"), SLICE_NONE);
    char *out = buf_reserve(reply->body, (size_t)count);
    if (!out) {
        reply_empty(reply, 503);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        out[i] = (char)(i & 0xff);
    buf_added(reply->body, (size_t)count);
}

bool generic_handle(struct provider *provider, const struct provider_request *request,
                    struct provider_reply *reply)
{
    (void)provider;
    if (!request->segment_count)
        return false;
    slice name = request->segments[0];
    slice argument = request->segment_count == 2 ? request->segments[1] : SLICE_NONE;
    uint64_t number;
    if (slice_eq(name, SLICE("echo"))) {
        echo(request, reply);
    } else if (slice_eq(name, SLICE("bytes")) && slice_to_u64(argument, BYTES_MAX, &number)) {
        bytes(number, reply);
    } else if (slice_eq(name, SLICE("sleep")) && slice_to_u64(argument, SLEEP_MS_MAX, &number)) {
        reply_text(reply, 200, SLICE("application/json"), SLICE("{\"slept\":true}"));
        reply->delay_ms = number;
    } else if (slice_eq(name, SLICE("status")) && slice_to_u64(argument, 599, &number) &&
               number >= 200) {
        struct json_writer w = reply_json(reply, (unsigned)number);
        json_open(&w, '{');
        json_member_i64(&w, "status", (int64_t)number);
        json_close(&w, '}');
    } else {
        return false;
    }
    return true;
}
