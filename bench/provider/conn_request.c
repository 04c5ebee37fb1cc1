/*
 * One request of a connection: decoded, given to a fault or to its handler, delivered.
 */
#include "base/ascii.h"
#include "base/clock.h"
#include "provider/conn_internal.h"

enum { SEGMENTS_MAX = 32 };

/* "/a/b%20c" to its decoded segments; false on a broken escape or too many. */
static bool read_segments(struct arena *arena, slice path, struct provider_request *request)
{
    slice *segments = ARENA_ARRAY(arena, slice, SEGMENTS_MAX);
    size_t count = 0;
    slice rest = slice_from(path, 1);
    while (segments && rest.len && count < SEGMENTS_MAX) {
        slice raw = slice_split(&rest, '/');
        if (!request_decode(arena, raw, false, &segments[count++]))
            return false;
    }
    request->segments = segments;
    request->segment_count = count;
    return segments && !rest.len;
}

/* The data of a chunked body whose framing was checked. */
static slice without_framing(struct arena *arena, slice framed)
{
    char *out = arena_alloc_text(arena, framed.len + 1);
    size_t len = 0;
    while (out && framed.len) {
        uint64_t size = 0;
        slice line = slice_split(&framed, '\n');
        for (size_t i = 0; i < line.len && ascii_is_hex(line.ptr[i]); i++)
            size = size * 16 + (uint64_t)ascii_hex_value(line.ptr[i]);
        if (!size)
            break;
        ASSERT(size <= framed.len);
        memcpy(out + len, framed.ptr, (size_t)size);
        len += (size_t)size;
        framed = slice_from(framed, (size_t)size + 2);
    }
    return slice_of(out, len);
}

static bool read_request(struct conn *conn, const struct conn_request *in,
                         struct provider_request *request)
{
    struct arena *arena = &conn->host->arena;
    *request = (struct provider_request){.method = in->head.method,
                                         .method_text = in->head.method_text,
                                         .path = in->head.path,
                                         .headers = in->head.headers,
                                         .header_count = in->head.header_count,
                                         .body = in->body,
                                         .now_us = clock_wall_us(),
                                         .arena = arena};
    if (request->method == HTTP_METHOD_HEAD)
        request->method = HTTP_METHOD_GET;
    if (in->head.framing == HTTP_FRAMING_CHUNKED)
        request->body = without_framing(arena, in->body);
    if (!request->path.len || request->path.ptr[0] != '/' ||
        !read_segments(arena, request->path, request))
        return false;
    request->query = request_query_parse(arena, in->head.query, &request->query_count);
    return request->query || !in->head.query.len;
}

void conn_run(struct conn *conn, struct conn_request *in)
{
    struct host *host = conn->host;
    struct provider_request request;
    struct provider_reply reply = {.body = &host->body};
    bool has_body = in->head.method != HTTP_METHOD_HEAD;
    conn->is_last = !in->head.is_keep_alive;
    if (!read_request(conn, in, &request)) {
        conn_refuse(conn, 400, "the path or query can not be decoded");
        return;
    }
    bool is_control = request.segment_count && slice_eq(request.segments[0], SLICE("__control"));
    const struct fault *fault = is_control ? NULL : faults_take(host->provider->faults, &request);
    if (fault && fault->kind == FAULT_RESET_BEFORE) {
        host->provider->requests++;
        conn_reset(conn);
        return;
    }
    if (fault && fault->kind == FAULT_HANG_BEFORE) {
        host->provider->requests++;
        conn->state = CONN_HUNG;
        return;
    }
    uint64_t changes = faults_changes(host->provider->faults);
    if (!fault || fault->kind != FAULT_STATUS || fault->is_executed)
        provider_handle(host->provider, &request, &reply);
    if (faults_changes(host->provider->faults) != changes)
        conn_let_go(host);
    if (fault && fault->kind == FAULT_STATUS)
        provider_fail(host->provider, &request, fault, &reply);
    conn_deliver(conn, &reply, has_body, fault);
}
