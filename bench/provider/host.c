/*
 * See host.h. A request is carried out when it arrives; a fault changes its reply. Replies that
 * http_reply would never send are sent raw.
 */
#include "provider/host.h"

#include "base/clock.h"
#include "loop/tcp.h"
#include "provider/call.h"
#include "provider/fault.h"

enum {
    NEVER_MS = INT32_MAX, /* a client may be idle or slow for as long as it likes */
    BODY_KEPT_BYTES = 1024 * 1024,
    ENDLESS_PIECE_BYTES = 64 * 1024,
    ENDLESS_PIECES_MAX = 64, /* maximum per turn, so that other connections are also served */
    /* a client must read half a reply before the RST may overtake it */
    RESET_DELAY_MS = 50,
};

/* A reply that is delayed or sent in pieces, in the arena of its exchange. */
struct late {
    struct host *host;
    struct http_exchange *exchange;
    struct list link; /* host->late */
    struct timer timer;
    struct provider_reply reply;
    slice body; /* the part that has not been sent */
    struct fault fault;
};

/* ---- correct replies ---- */

static const struct http_header *headers_of(const struct provider_reply *reply, size_t *count)
{
    bool has_type = reply->headers[0].value.len > 0;
    *count = reply->header_count + has_type;
    return reply->headers + !has_type;
}

static void give(struct http_exchange *exchange, const struct provider_reply *reply, slice body)
{
    size_t count;
    const struct http_header *headers = headers_of(reply, &count);
    http_reply(exchange, reply->status, headers, count, body);
}

/* ---- faulty replies ---- */

static bool has_body(const struct provider_reply *reply)
{
    return reply->status != 204 && reply->status != 304;
}

/* Sends the bytes of a reply, some of which may be missing. Returns false if the client has
 * disconnected. */
static bool send_raw(struct http_exchange *exchange, slice bytes, bool closes)
{
    http_reply_begin_raw(exchange, closes);
    return http_reply_chunk(exchange, bytes) == OK;
}

/* Returns a head such as http_reply writes for a body of body_bytes. */
static slice make_head(struct http_exchange *exchange, const struct provider_reply *reply,
                       size_t body_bytes)
{
    struct buf out;
    char date[30];
    size_t count;
    const struct http_header *headers = headers_of(reply, &count);
    time_format_http(clock_wall_us(), date);
    buf_init(&out, 64 * 1024);
    buf_printf(&out, "HTTP/1.1 %u %s\r\nDate: %s\r\n", reply->status,
               http_status_text(reply->status), date);
    for (size_t i = 0; i < count; i++)
        http_header_write(&out, headers[i]);
    if (has_body(reply))
        buf_printf(&out, "Content-Length: %zu\r\n", body_bytes);
    buf_append_cstr(&out, exchange->head.is_keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
    return arena_take(&exchange->arena, &out);
}

static void reset(struct http_exchange *exchange)
{
    /* Replies to earlier pipelined requests are sent first. */
    (void)send_raw(exchange, SLICE_NONE, true);
    http_reply_drop(exchange);
}

static void send_last(struct http_exchange *exchange, slice bytes)
{
    (void)send_raw(exchange, bytes, true);
    http_reply_end(exchange);
}

/* ---- later ---- */

static struct http_exchange *end_late(struct late *late)
{
    timer_stop(&late->timer);
    list_unlink(&late->link);
    late->host->late_count--;
    return late->exchange;
}

/* Sends the next piece of a slow body. After the last piece, the connection is used again. */
static void send_piece(struct late *late)
{
    slice piece = slice_first(late->body, (size_t)late->fault.slow_bytes);
    late->body = slice_from(late->body, piece.len);
    if (http_reply_chunk(late->exchange, piece) != OK)
        http_reply_drop(end_late(late));
    else if (late->body.len)
        timer_start_in_ms(&late->timer, (uint64_t)late->fault.slow_interval_ms);
    else
        http_reply_end(end_late(late));
}

/* Writes repeatedly until the kernel accepts no more. */
static void send_endless(struct late *late)
{
    static char piece[ENDLESS_PIECE_BYTES];
    memset(piece, ' ', sizeof(piece));
    for (int i = 0; i < ENDLESS_PIECES_MAX && !http_reply_pending(late->exchange); i++) {
        if (http_reply_chunk(late->exchange, slice_of(piece, sizeof(piece))) != OK) {
            http_reply_drop(end_late(late));
            return;
        }
    }
    timer_start_in_ms(&late->timer, 1);
}

static void on_due(struct timer *timer)
{
    struct late *late = CONTAINER_OF(timer, struct late, timer);
    switch (late->fault.kind) {
    case FAULT_RESET_MID_BODY:
        http_reply_drop(end_late(late));
        break;
    case FAULT_SLOW_BODY:
        send_piece(late);
        break;
    case FAULT_ENDLESS_BODY:
        send_endless(late);
        break;
    default:
        give(end_late(late), &late->reply, late->body);
    }
}

/* Sends the replies that are held until the rules change. */
static void let_go(struct host *host)
{
    LIST_EACH(&host->late, struct late, late, link) {
        if (!timer_is_armed(&late->timer))
            timer_start_in_ms(&late->timer, 0);
    }
}

/* Sends the reply later, or begins it now and continues later. If the reply has to be cut off, only
 * half of it is sent. */
static void put_off(struct host *host, struct http_exchange *exchange,
                    const struct provider_reply *reply, slice body, const struct fault *fault)
{
    struct late *late = ARENA_NEW(&exchange->arena, struct late);
    uint64_t delay_ms = reply->delay_ms + (uint64_t)fault->latency_ms;
    if (!late || host->late_count == HOST_CONNECTIONS_MAX) {
        reset(exchange);
        return;
    }
    *late = (struct late){host, exchange, .reply = *reply, .body = body, .fault = *fault};
    list_init(&late->link);
    list_push_back(&host->late, &late->link);
    host->late_count++;
    timer_init(&late->timer, exchange->loop, on_due);
    if (fault->kind == FAULT_ENDLESS_BODY) {
        size_t count;
        const struct http_header *headers = headers_of(reply, &count);
        http_reply_begin(exchange, has_body(reply) ? reply->status : 200, headers, count);
        delay_ms = 0;
    } else if (fault->kind == FAULT_SLOW_BODY || fault->kind == FAULT_RESET_MID_BODY) {
        (void)send_raw(exchange, make_head(exchange, reply, body.len), false);
        delay_ms = (uint64_t)fault->slow_interval_ms;
    }
    if (fault->kind == FAULT_RESET_MID_BODY) {
        (void)!http_reply_chunk(exchange, slice_first(body, body.len / 2));
        delay_ms = RESET_DELAY_MS;
    }
    if (!fault->is_held)
        timer_start_in_ms(&late->timer, delay_ms);
}

/* ---- requests ---- */

static void deliver(struct host *host, struct http_exchange *exchange,
                    const struct provider_reply *reply, const struct fault *fault)
{
    slice body = arena_dup(&exchange->arena, buf_slice(reply->body));
    /* false if the body is longer than a reply may be, or if memory ran out */
    bool is_whole = buf_is_ok(reply->body) && body.ptr;
    buf_shrink(reply->body, BODY_KEPT_BYTES);
    if (!is_whole || fault->kind == FAULT_RESET_BEFORE || fault->kind == FAULT_RESET_AFTER)
        reset(exchange);
    else if (fault->kind == FAULT_HANG_BEFORE || fault->kind == FAULT_HANG_AFTER)
        exchange->on_gone = http_reply_drop;
    else if (fault->kind == FAULT_CLOSE_AFTER_HEADERS)
        send_last(exchange, make_head(exchange, reply, body.len ? body.len : 1));
    else if (fault->kind == FAULT_GARBAGE)
        /* A TLS alert, half a status line and noise: nothing that an HTTP client can take for a
         * reply. */
        send_last(exchange, SLICE("\x15\x03\x01\x00\x02 HTTQ/9.9 two hundred\n\x80\xff\xfe \r\n"));
    else if (fault->kind > FAULT_STATUS || fault->is_held || reply->delay_ms || fault->latency_ms)
        put_off(host, exchange, reply, body, fault);
    else
        give(exchange, reply, body);
}

static void on_request(struct http_exchange *exchange, void *ctx)
{
    static const struct fault none = {.kind = FAULT_NONE};
    struct host *host = ctx;
    struct provider *provider = host->provider;
    struct provider_reply reply = {.body = &host->body};
    bool is_head = exchange->head.method == HTTP_METHOD_HEAD;
    struct call call = {.provider = provider,
                        .http = exchange,
                        .method = is_head ? HTTP_METHOD_GET : exchange->head.method,
                        .now_us = clock_wall_us(),
                        .reply = &reply,
                        .arena = &exchange->arena};
    call.query = http_query_all(exchange, &call.query_count);
    if (exchange->segment_count && !exchange->segments[exchange->segment_count - 1].len)
        exchange->segment_count--; /* the path ends with a slash */
    const struct fault *fault =
        call_is_below(&call, "__control") ? NULL : faults_take(provider->faults, exchange);
    if (!fault)
        fault = &none;
    if (fault->kind == FAULT_RESET_BEFORE || fault->kind == FAULT_HANG_BEFORE) {
        provider->requests++;
        deliver(host, exchange, &reply, fault);
        return;
    }
    uint64_t changes = faults_changes(provider->faults);
    if (fault->kind != FAULT_STATUS || fault->is_executed)
        provider_handle(&call);
    if (faults_changes(provider->faults) != changes)
        let_go(host);
    if (fault->kind == FAULT_STATUS)
        provider_fail(&call, fault);
    deliver(host, exchange, &reply, fault);
}

static struct stream *wrap_tls(struct stream *under, const struct stream_events *events,
                               void *owner, void *ctx)
{
    struct host *host = ctx;
    struct err err;
    if (!host->tls)
        return under;
    tcp_write_limit_set(under, HOST_WRITE_BYTES_MAX / 8 * 9 + 1024 * 1024);
    return tls_server_start(host->tls, under, HOST_WRITE_BYTES_MAX, events, owner, &err);
}

/* ---- the server ---- */

int host_init(struct host *host, struct loop *loop, struct provider *provider,
              struct tls_server *tls, slice address, struct err *err)
{
    const struct tcp_listen_config listener = {.address = address};
    const struct http_server_config config = {
        .listeners = &listener,
        .listener_count = 1,
        .head = {64 * 1024, 16 * 1024, 100},
        .body_bytes_max = PROVIDER_BODY_BYTES_MAX,
        .connections_max = HOST_CONNECTIONS_MAX,
        .address_connections_max = HOST_CONNECTIONS_MAX,
        .arena_bytes_max = 256 * 1024 * 1024,
        .write_bytes_max = HOST_WRITE_BYTES_MAX,
        .head_timeout_ms = NEVER_MS,
        .body_timeout_ms = NEVER_MS,
        .idle_timeout_ms = NEVER_MS,
        .request_timeout_ms = NEVER_MS,
        .reply_timeout_ms = NEVER_MS,
        .rate_grace_ms = NEVER_MS,
        .is_without_ids = true, /* apps use their own names for these errors */
        .wrap = wrap_tls,
    };
    *host = (struct host){.provider = provider, .tls = tls};
    list_init(&host->late);
    buf_init(&host->body, PROVIDER_REPLY_BYTES_MAX);
    host->server =
        http_server_new(loop, &config, &(struct http_handler){.on_request = on_request}, host, err);
    return host->server ? OK : err->code;
}

void host_deinit(struct host *host)
{
    http_server_free(host->server);
    LIST_EACH(&host->late, struct late, late, link)
        http_reply_drop(end_late(late));
    buf_deinit(&host->body);
}
