/*
 * One message; see send.h.
 */
#include "event/send.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/encode.h"
#include "event/internal.h"
#include "event/sign.h"
#include "json/json.h"
#include "json/scan.h"

enum {
    SEND_ARENA_BYTES_MAX = 512 * 1024, /* a reply's head and the beginning of its body */
    BODY_BYTES_MAX = 4 * EVENT_DATA_MAX,
    SIGNATURE_BYTES_MAX = 200,
};

OP_OF(send_of, event_send)

static void set_problem(struct event_send *send, const char *text)
{
    slice part = slice_first_utf8(slice_cstr(text), EVENT_PROBLEM_MAX);
    (void)snprintf(send->problem, sizeof(send->problem), "%.*s", SLICE_ARG(part));
}

slice event_row_data(slice data, slice user, struct arena *arena)
{
    struct buf text;
    if (!user.ptr)
        return data;
    slice url = json_scan_get(data, SLICE("approval_url"), arena);
    if (json_scan_type(url) != JSON_STRING || slice_find_char(url, '?') >= 0)
        return data;
    size_t end = (size_t)(url.ptr - data.ptr) + url.len - 1; /* before the quote */
    buf_init(&text, EVENT_MESSAGE_DATA_MAX);
    buf_append(&text, slice_first(data, end));
    buf_append(&text, SLICE("?user="));
    encode_percent(&text, user);
    buf_append(&text, slice_from(data, end));
    return arena_take(arena, &text);
}

/* ---- the request ---- */

/* The bytes depend on the message alone, so they are the same for each endpoint and attempt. */
static void write_body(struct event_send *send)
{
    const struct event_message *message = &send->message;
    struct json_writer w;
    json_begin(&w, &send->body);
    json_open(&w, '{');
    json_member_str(&w, "type", message->kind);
    json_member_time(&w, "timestamp", message->at);
    json_member_raw(&w, "data", message->data);
    json_close(&w, '}');
}

/* Makes body and headers. The time is that of this attempt: libraries refuse a message that is more
 * than five minutes old, and the last attempt is made after three days. */
static int make_request(struct event_send *send, struct err *err)
{
    int64_t now = clock_shared_us();
    write_body(send);
    uuid_format(send->message.id, send->id);
    (void)snprintf(send->sent_at, sizeof(send->sent_at), "%lld", (long long)(now / 1000000));
    send->part = buf_slice(&send->body);
    if (!buf_is_ok(&send->body))
        return err_set(err, ERR_NOMEM, "out of memory");
    int status = event_sign_webhook(&send->signature, send->service->config.ring, send->webhook,
                                    now, slice_cstr(send->id), slice_cstr(send->sent_at),
                                    send->part, err);
    if (status != OK)
        return status;
    send->headers[0] = (struct http_header){SLICE("Content-Type"), SLICE("application/json")};
    send->headers[1] = (struct http_header){SLICE("webhook-id"), slice_cstr(send->id)};
    send->headers[2] = (struct http_header){SLICE("webhook-timestamp"), slice_cstr(send->sent_at)};
    send->headers[3] =
        (struct http_header){SLICE("webhook-signature"), buf_slice(&send->signature)};
    return OK;
}

/* A message that cannot be sent ends like one that got no reply: the caller repeats it. */
static enum op_result step_send(struct op *op)
{
    struct event_send *send = send_of(op);
    struct event_service *service = send->service;
    struct err err = {.code = OK};
    send->is_ours = send->is_untried = true; /* until the call has been started */
    if (!service->client) {                  /* the server ends */
        set_problem(send, "the server was stopped");
        return OP_DONE;
    }
    if (make_request(send, &err) != OK) {
        op_log(op, LOG_ERROR, "an event could not be signed", LOG_CSTR("cause", err.text));
        set_problem(send, "the message could not be signed");
        return OP_DONE;
    }
    send->call = (struct http_call){
        .tenant = send->webhook->account_id,
        .method = SLICE("POST"),
        .url = send->webhook->url,
        .is_host_given = true,
        .headers = send->headers,
        .header_count = ARRAY_LEN(send->headers),
        .body_parts = &send->part,
        .body_part_count = 1,
        .is_idempotent = true, /* receivers recognize a duplicate by webhook-id */
        .first_byte_ms = service->config.timeout_ms,
        .deadline_ns = loop_now_ns(op->loop) + service->config.timeout_ms * UINT64_C(1000000),
    };
    if (http_call_start(service->client, &send->call, op) == OK) {
        send->is_ours = send->is_untried = false;
        return OP_WAIT;
    }
    set_problem(send, send->call.err.text);
    return OP_DONE;
}

/* ---- the reply ---- */

/* Reads seconds or a date; a malformed value counts as absent. */
static unsigned read_pause_s(const struct http_call *call)
{
    slice text = http_call_header(call, SLICE("Retry-After"));
    uint64_t seconds = 0;
    int64_t at;
    if (!text.ptr || slice_to_u64_capped(text, EVENT_PAUSE_S_MAX, &seconds))
        return (unsigned)seconds;
    if (!time_parse_http(text, &at) || at <= clock_shared_us())
        return 0;
    seconds = (uint64_t)(at - clock_shared_us()) / 1000000 + 1;
    return seconds < EVENT_PAUSE_S_MAX ? (unsigned)seconds : EVENT_PAUSE_S_MAX;
}

/* A reply that begins with 2xx is an acknowledgement, even if its body is too large, or never
 * ends. */
static enum op_result step_sent(struct op *op)
{
    struct event_send *send = send_of(op);
    const struct http_call *call = &send->call;
    send->status = call->status;
    send->is_untried = call->status == 0 && (call->result == HTTP_CALL_OVERLOADED ||
                                             call->result == HTTP_CALL_CANCELLED);
    send->is_ours = send->is_untried || (call->status == 0 && call->result == HTTP_CALL_PROXY);
    send->duration_ms = call->total_ns / 1000000;
    send->pause_s = read_pause_s(call);
    send->is_delivered = call->status >= 200 && call->status < 300;
    char text[EVENT_PROBLEM_MAX + 1];
    if (send->is_delivered)
        set_problem(send, "");
    else if (call->status == 0)
        set_problem(send, call->err.text);
    else {
        bool is_moved = call->status >= 300 && call->status < 400;
        (void)snprintf(text, sizeof(text), "the endpoint answered %u %s%s", call->status,
                       http_status_text(call->status),
                       is_moved ? ": redirects are not followed" : "");
        set_problem(send, text);
    }
    return OP_DONE;
}

static void on_cancel(struct op *op)
{
    http_call_cancel(&send_of(op)->call);
}

static void on_end(struct op *op, enum op_end end)
{
    struct event_send *send = send_of(op);
    (void)end;
    buf_deinit(&send->body);
    buf_deinit(&send->signature);
}

static const struct op_step steps[] = {{"send", step_send, 0}, {"sent", step_sent, 0}};
static const struct op_class send_class = {
    .name = "event_send",
    OP_STEPS(steps),
    .on_cancel = on_cancel,
    .on_end = on_end,
};

void event_send_start(struct event_service *service, struct event_send *send,
                      const struct webhook *webhook, const struct event_message *message,
                      struct op *parent)
{
    ASSERT(parent && webhook->url.ptr && message->data.len <= EVENT_MESSAGE_DATA_MAX);
    *send = (struct event_send){.service = service, .webhook = webhook, .message = *message};
    set_problem(send, "no reply was received");
    buf_init(&send->body, BODY_BYTES_MAX);
    buf_init(&send->signature, SIGNATURE_BYTES_MAX);
    op_start(&send->op, &send_class, parent->loop, parent, SEND_ARENA_BYTES_MAX);
}
