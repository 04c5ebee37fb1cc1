/*
 * Handles everything below /__control: faults, counters, the ledger, the state, incoming mail, and
 * tokens. Requires the header `X-Control: 1`, which no provider's client sends by accident. The
 * listener is on loopback.
 */
#include "provider/fault.h"
#include "provider/gmail.h"
#include "provider/ledger.h"
#include "provider/token.h"

static bool get_faults(struct call *call)
{
    struct json_writer w = reply_json(call->reply, 200);
    faults_write(&w, call->provider->faults);
    return true;
}

static bool put_faults(struct call *call)
{
    struct err err = {0};
    return faults_set(call->provider->faults, call->body, &err) == OK
               ? get_faults(call)
               : call_fail(call, 400, "", slice_cstr(err.text));
}

static bool delete_faults(struct call *call)
{
    faults_clear(call->provider->faults);
    return get_faults(call);
}

static bool get_counters(struct call *call)
{
    struct json_writer w = reply_json(call->reply, 200);
    json_open(&w, '{');
    json_member_i64(&w, "requests", (int64_t)call->provider->requests);
    ledger_write_counters(&w, call->provider->ledger);
    json_close(&w, '}');
    return true;
}

static bool get_ledger(struct call *call)
{
    struct json_writer w = reply_json(call->reply, 200);
    ledger_write(&w, call->provider->ledger);
    return true;
}

static bool done(struct call *call, const char *what)
{
    struct json out = OBJECT(call->arena, what, json_bool(true));
    return call_reply(call, 200, &out);
}

static bool reset(struct call *call)
{
    provider_reset(call->provider, call->now_us);
    return done(call, "reset");
}

/* Replies with all mails, newest first, in a short form that Gmail does not have. */
static bool get_mails(struct call *call)
{
    static const char *const fields[] = {"From", "To", "Cc", "Subject", "Message-ID"};
    struct json list = json_array();
    RECORD_EACH(&call->provider->gmail->app.store.order, record, order_link) {
        const struct mime_part *payload = &gmail_mail(record)->payload;
        const struct mime_part *text = mime_find(payload, "text/plain");
        struct json mail = OBJECT(
            call->arena, "id threadId labels text", json_string(slice_cstr(record->id)),
            json_string(slice_cstr(record->parent->id + 1)), *JSON_GET(&record->json, "labelIds"),
            text ? json_string(text->body) : json_null);
        for (size_t i = 0; i < ARRAY_LEN(fields); i++)
            json_object_set(call->arena, &mail, slice_cstr(fields[i]),
                            json_string(mime_header(payload, fields[i])));
        json_array_push(call->arena, &list, mail);
    }
    struct json out = OBJECT(call->arena, "messages", list);
    return call_reply(call, 200, &out);
}

static bool post_mail(struct call *call)
{
    struct err err = {0};
    const struct record *mail =
        gmail_receive(call->provider->gmail, call->body, call->now_us, call->arena, &err);
    if (!mail)
        return call_fail(call, 400, "", slice_cstr(err.text));
    struct json out = gmail_brief(call->arena, mail);
    return call_reply(call, 200, &out);
}

/* The body has the form of --token. The token is accepted from now on, like a token that an
 * authorization server has just issued. */
static bool post_token(struct call *call)
{
    struct err err = {0};
    slice spec = json_str(call_get(call, "token"));
    return tokens_add(call->provider->tokens, spec, &err) == OK
               ? done(call, "added")
               : call_fail(call, 400, "", slice_cstr(err.text));
}

static const struct route routes[] = {
    {PUT, "faults", put_faults, NULL, 0, NULL},
    {GET, "faults", get_faults, NULL, 0, NULL},
    {DELETE, "faults", delete_faults, NULL, 0, NULL},
    {GET, "counters", get_counters, NULL, 0, NULL},
    {GET, "ledger", get_ledger, NULL, 0, NULL},
    {POST, "reset", reset, NULL, 0, NULL},
    {GET, "state/messages", get_mails, NULL, 0, NULL},
    {POST, "mail", post_mail, NULL, 0, NULL},
    {POST, "token", post_token, NULL, 0, NULL},
};

void control_handle(struct call *call)
{
    if (!slice_eq(http_request_header(call->http, SLICE("x-control")), SLICE("1")))
        reply_error(call->reply, 403,
                    SLICE("the control endpoint requires the header X-Control: 1"));
    else if (!call_route(call, routes, ARRAY_LEN(routes), call->http->segments + 1,
                         call->http->segment_count - 1))
        reply_error(call->reply, 404, SLICE("no such control path"));
    else if (call_body(call))
        call->route->run(call);
}
