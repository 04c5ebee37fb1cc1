/*
 * The HTTP client of a test: it accepts calls as http/client.c does, and keeps each until the test
 * decides how it ends, or until it times out.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "seam/seam.h"

enum { CALL_IDLE, CALL_UNSENT, CALL_SENT, CALL_ENDED };
enum { TIMEOUT_MS = 40000 };

struct http_client {
    struct loop *loop;
    struct list calls;
};

/* ---- the room's functions ---- */

struct http_client *http_client_new(struct loop *loop, const struct http_client_config *config,
                                    struct err *err)
{
    struct http_client *client = mem_zalloc(sizeof(*client));
    (void)config, (void)err;
    client->loop = loop;
    list_init(&client->calls);
    return client;
}

static void end_call(struct http_call *call, enum http_call_result result)
{
    ASSERT(call->state == CALL_UNSENT || call->state == CALL_SENT);
    call->state = CALL_ENDED;
    call->result = result;
    call->total_ns = loop_now_ns(call->client->loop) - call->started_ns;
    if (result != HTTP_CALL_OK)
        (void)err_set(&call->err, ERR_IO, "%s", http_call_result_name(result));
    timer_stop(&call->timer);
    list_unlink(&call->all_link);
    loop_task_queue(call->client->loop, &call->ended);
}

void http_client_free(struct http_client *client)
{
    LIST_EACH(&client->calls, struct http_call, call, all_link)
        end_call(call, HTTP_CALL_CANCELLED);
    mem_free(client);
}

void http_client_tls_set(struct http_client *client, struct tls_context *tls)
{
    (void)client, (void)tls;
}

int http_client_override(struct http_client *client, slice origin, slice target, struct err *err)
{
    (void)client, (void)origin, (void)target, (void)err;
    return OK;
}

struct http_client_stats http_client_stats(const struct http_client *client)
{
    return (struct http_client_stats){.calls_active =
                                          seam_call_count((struct http_client *)client)};
}

const char *http_call_result_name(enum http_call_result result)
{
    static const char *const names[HTTP_CALL_RESULTS] = {
        "ok",     "dns",       "address_refused", "connect",
        "proxy",  "tls",       "timeout_connect", "timeout",
        "reset",  "protocol",  "too_large",       "overloaded",
        "unsent", "cancelled",
    };
    return names[result];
}

static void on_ended(struct loop_task *task)
{
    struct http_call *call = CONTAINER_OF(task, struct http_call, ended);
    call->state = CALL_IDLE;
    op_release(call->owner);
}

static void on_timeout(struct timer *timer)
{
    struct http_call *call = CONTAINER_OF(timer, struct http_call, timer);
    end_call(call, call->state == CALL_SENT ? HTTP_CALL_TIMEOUT : HTTP_CALL_TIMEOUT_CONNECT);
}

int http_call_start(struct http_client *client, struct http_call *call, struct op *owner)
{
    ASSERT(call->state == CALL_IDLE);
    call->client = client;
    call->owner = owner;
    call->state = CALL_UNSENT;
    call->status = 0;
    call->err = (struct err){.code = OK};
    call->response_headers = NULL;
    call->response_header_count = 0;
    call->body = SLICE_NONE;
    call->is_any_byte_sent = call->is_reused = call->is_resumed = call->is_resent = false;
    call->started_ns = loop_now_ns(client->loop);
    loop_task_init(&call->ended, on_ended);
    timer_init(&call->timer, client->loop, on_timeout);
    uint64_t due_ns = call->started_ns + TIMEOUT_MS * UINT64_C(1000000);
    if (call->deadline_ns && call->deadline_ns < due_ns)
        due_ns = call->deadline_ns;
    timer_start(&call->timer, due_ns);
    list_init(&call->all_link);
    list_push_back(&client->calls, &call->all_link);
    op_hold(owner, "http call");
    return OK;
}

void http_call_cancel(struct http_call *call)
{
    if (call->state == CALL_UNSENT || call->state == CALL_SENT)
        end_call(call, HTTP_CALL_CANCELLED);
}

bool http_call_is_active(const struct http_call *call)
{
    return call->state != CALL_IDLE;
}

slice http_call_header(const struct http_call *call, slice name)
{
    return http_header_get(call->response_headers, call->response_header_count, name);
}

/* ---- what a test reads ---- */

struct http_call *seam_call(struct http_client *client, size_t index)
{
    LIST_EACH(&client->calls, struct http_call, call, all_link) {
        if (index-- == 0)
            return call;
    }
    return NULL;
}

size_t seam_call_count(struct http_client *client)
{
    size_t count = 0;
    while (seam_call(client, count))
        count++;
    return count;
}

slice seam_call_body(const struct http_call *call)
{
    return call->body_part_count > 0 ? call->body_parts[0] : SLICE_NONE;
}

char *seam_call_text(const struct http_call *call)
{
    struct buf text;
    buf_init(&text, 1024 * 1024);
    buf_printf(&text, "%.*s %.*s\n", SLICE_ARG(call->method), SLICE_ARG(call->url));
    for (size_t i = 0; i < call->header_count; i++)
        buf_printf(&text, "%.*s: %.*s\n", SLICE_ARG(call->headers[i].name),
                   SLICE_ARG(call->headers[i].value));
    buf_append_cstr(&text, "\n");
    for (size_t i = 0; i < call->body_part_count; i++)
        buf_append(&text, call->body_parts[i]);
    char *copy = mem_alloc(text.len + 1);
    memcpy(copy, buf_slice(&text).ptr, text.len);
    copy[text.len] = '\0';
    buf_deinit(&text);
    return copy;
}

/* ---- what a test answers ---- */

bool seam_call_send(struct http_call *call)
{
    if (call->state != CALL_UNSENT)
        return call->state == CALL_SENT;
    if (call->may_send && !call->may_send(call)) {
        end_call(call, HTTP_CALL_UNSENT);
        return false;
    }
    call->state = CALL_SENT;
    call->is_any_byte_sent = true;
    return true;
}

static slice keep(struct http_call *call, slice text)
{
    return arena_dup(&call->owner->arena, text);
}

void seam_call_reply_with(struct http_call *call, unsigned status, const char *const *headers,
                          slice body)
{
    size_t count = 0;
    if (!seam_call_send(call))
        return;
    while (headers && headers[2 * count])
        count++;
    struct http_header *list = ARENA_ARRAY(&call->owner->arena, struct http_header, count + 1);
    for (size_t i = 0; i < count; i++) {
        list[i].name = keep(call, slice_cstr(headers[2 * i]));
        list[i].value = keep(call, slice_cstr(headers[2 * i + 1]));
    }
    call->response_headers = list;
    call->response_header_count = count;
    call->status = status;
    call->body = keep(call, body);
    end_call(call, HTTP_CALL_OK);
}

void seam_call_reply(struct http_call *call, unsigned status, const char *body)
{
    static const char *const headers[] = {"content-type", "application/json", NULL};
    seam_call_reply_with(call, status, headers, slice_cstr(body));
}

static const struct {
    const char *name;
    enum http_call_result result;
    bool is_sent;
    unsigned status;
} phases[SEAM_PHASES] = {
    [SEAM_RESOLVE] = {"resolve", HTTP_CALL_DNS, false, 0},
    [SEAM_DIAL] = {"dial", HTTP_CALL_CONNECT, false, 0},
    [SEAM_HANDSHAKE] = {"handshake", HTTP_CALL_TLS, false, 0},
    [SEAM_UNSENT] = {"unsent", HTTP_CALL_TIMEOUT_CONNECT, false, 0},
    [SEAM_SENT] = {"sent", HTTP_CALL_RESET, true, 0},
    [SEAM_SILENCE] = {"silence", HTTP_CALL_TIMEOUT, true, 0},
    [SEAM_MID_REPLY] = {"mid_reply", HTTP_CALL_RESET, true, 200},
    [SEAM_GARBAGE] = {"garbage", HTTP_CALL_PROTOCOL, true, 0},
};

const char *seam_phase_name(enum seam_phase phase)
{
    return phases[phase].name;
}

void seam_call_fail(struct http_call *call, enum seam_phase phase)
{
    ASSERT(phase < SEAM_PHASES);
    if (phases[phase].is_sent && !seam_call_send(call))
        return;
    call->status = phases[phase].status;
    end_call(call, phases[phase].result);
}
