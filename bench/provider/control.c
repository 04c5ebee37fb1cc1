/*
 * Everything below /__control: faults, counters, the ledger, the state, incoming mail, tokens. Only
 * with the header `X-Control: 1`, which no provider's client sends by accident; the listener is on
 * the loopback.
 */
#include "base/clock.h"
#include "provider/fault.h"
#include "provider/gmail.h"
#include "provider/ledger.h"
#include "provider/route.h"
#include "provider/token.h"

static const struct json *read_body(const struct provider_request *request,
                                    struct provider_reply *reply)
{
    struct err err = {0};
    const struct json *body = json_parse(request->arena, request->body, &json_limits_request, &err);
    if (!body)
        reply_error(reply, 400, err.text);
    return body;
}

static void put_faults(struct provider *provider, const struct provider_request *request,
                       struct provider_reply *reply)
{
    struct err err = {0};
    const struct json *body = read_body(request, reply);
    if (!body)
        return;
    if (faults_set(provider->faults, body, &err) != OK) {
        reply_error(reply, 400, err.text);
        return;
    }
    struct json_writer w = reply_json(reply, 200);
    faults_write(&w, provider->faults);
}

static void get_faults(struct provider *provider, const struct provider_request *request,
                       struct provider_reply *reply)
{
    (void)request;
    struct json_writer w = reply_json(reply, 200);
    faults_write(&w, provider->faults);
}

static void delete_faults(struct provider *provider, const struct provider_request *request,
                          struct provider_reply *reply)
{
    faults_clear(provider->faults);
    get_faults(provider, request, reply);
}

static void get_counters(struct provider *provider, const struct provider_request *request,
                         struct provider_reply *reply)
{
    (void)request;
    struct json_writer w = reply_json(reply, 200);
    json_open(&w, '{');
    json_member_i64(&w, "requests", (int64_t)provider->requests);
    ledger_write_counters(&w, provider->ledger);
    json_close(&w, '}');
}

static void get_ledger(struct provider *provider, const struct provider_request *request,
                       struct provider_reply *reply)
{
    (void)request;
    struct json_writer w = reply_json(reply, 200);
    ledger_write(&w, provider->ledger);
}

static void reset(struct provider *provider, const struct provider_request *request,
                  struct provider_reply *reply)
{
    if (!provider_reset(provider, request->now_us))
        reply_error(reply, 503, "out of memory");
    else
        reply_text(reply, 200, SLICE("application/json"), SLICE("{\"reset\":true}"));
}

/* All messages, newest first, in a short form of our own. */
static void get_messages(struct provider *provider, const struct provider_request *request,
                         struct provider_reply *reply)
{
    (void)request;
    const struct gmail_order *all = &provider->gmail->all;
    struct json_writer w = reply_json(reply, 200);
    json_open(&w, '{');
    json_member_open(&w, "messages", '[');
    for (size_t i = all->count; i-- > 0;) {
        const struct gmail_message *message = all->items[i];
        static const char *const fields[] = {"From", "To", "Cc", "Subject", "Message-ID"};
        const struct mime_part *text = mime_find(&message->payload, "text/plain");
        json_open(&w, '{');
        json_member_str(&w, "id", slice_cstr(message->id_text));
        json_member_str(&w, "threadId", slice_cstr(message->thread->id_text));
        json_member_open(&w, "labels", '[');
        for (unsigned k = 0; k < message->label_count; k++)
            json_put_str(&w, message->labels[k]->id);
        json_close(&w, ']');
        for (size_t k = 0; k < ARRAY_LEN(fields); k++) {
            json_member_str(&w, fields[k], mime_header(&message->payload, fields[k]));
        }
        json_member_str(&w, "text", text ? text->body : SLICE_NONE);
        json_close(&w, '}');
    }
    json_close(&w, ']');
    json_close(&w, '}');
}

/* {"from","to"?,"subject","text"?,"labels"?: ["INBOX","UNREAD"],"date"?} or {"raw": text}: a mail
 * comes in now. */
static void post_mail(struct provider *provider, const struct provider_request *request,
                      struct provider_reply *reply)
{
    struct gmail *gmail = provider->gmail;
    const struct json *body = read_body(request, reply);
    if (!body)
        return;
    struct gmail_label *labels[GMAIL_MESSAGE_LABELS_MAX] = {
        gmail->labels[GMAIL_UNREAD], gmail->labels[GMAIL_INBOX], gmail->labels[GMAIL_PERSONAL]};
    const struct json *names = JSON_GET(body, "labels");
    struct gmail_new_message new = {
        .time_ms = request->now_us / 1000, .labels = labels, .label_count = 3, .is_from_api = true};
    if (json_is(names, JSON_ARRAY))
        new.label_count = 0;
    for (uint32_t i = 0; json_is(names, JSON_ARRAY) && i < names->count; i++) {
        struct gmail_label *label = gmail_label_find(gmail, json_str(json_at(names, i)));
        if (!label || new.label_count == GMAIL_MESSAGE_LABELS_MAX) {
            reply_error(reply, 400, "an unknown label");
            return;
        }
        labels[new.label_count++] = label;
    }
    int64_t time_us;
    slice date = json_get_str(body, SLICE("date"));
    if (date.len && time_parse(date, &time_us))
        new.time_ms = time_us / 1000;
    slice to = json_get_str(body, SLICE("to"));
    new.raw = json_get_str(body, SLICE("raw"));
    if (!new.raw.len)
        new.raw = arena_printf(
            request->arena,
            "From: %.*s\r\nTo: %.*s\r\nSubject: %.*s\r\nMessage-ID: <%016llx@control.example>\r\n"
            "Content-Type: text/plain; charset=UTF-8\r\n\r\n%.*s",
            SLICE_ARG(json_get_str(body, SLICE("from"))),
            SLICE_ARG(to.len ? to : SLICE(GMAIL_ADDRESS)),
            SLICE_ARG(json_get_str(body, SLICE("subject"))),
            (unsigned long long)rng_next(&provider->rng),
            SLICE_ARG(json_get_str(body, SLICE("text"))));
    struct err err = {0};
    const struct gmail_message *message = gmail_insert(gmail, &new, &err);
    if (!message) {
        reply_error(reply, 400, err.text);
        return;
    }
    struct json_writer w = reply_json(reply, 200);
    gmail_write_brief(&w, message, true);
}

/* {"token": "gmail=TOKEN,scope..."}, as --token has it: accepted from now on, like a token that an
 * authorization server has just issued. */
static void post_token(struct provider *provider, const struct provider_request *request,
                       struct provider_reply *reply)
{
    struct err err = {0};
    const struct json *body = read_body(request, reply);
    if (!body)
        return;
    if (tokens_add(provider->tokens, json_get_str(body, SLICE("token")), &err) != OK)
        reply_error(reply, 400, err.text);
    else
        reply_text(reply, 200, SLICE("application/json"), SLICE("{\"added\":true}"));
}

static const struct {
    enum http_method method;
    const char *pattern;
    provider_handler run;
} routes[] = {
    {HTTP_METHOD_PUT, "__control/faults", put_faults},
    {HTTP_METHOD_GET, "__control/faults", get_faults},
    {HTTP_METHOD_DELETE, "__control/faults", delete_faults},
    {HTTP_METHOD_GET, "__control/counters", get_counters},
    {HTTP_METHOD_GET, "__control/ledger", get_ledger},
    {HTTP_METHOD_POST, "__control/reset", reset},
    {HTTP_METHOD_GET, "__control/state/messages", get_messages},
    {HTTP_METHOD_POST, "__control/mail", post_mail},
    {HTTP_METHOD_POST, "__control/token", post_token},
};

void control_handle(struct provider *provider, const struct provider_request *request,
                    struct provider_reply *reply)
{
    slice params[ROUTE_PARAMS_MAX];
    if (!slice_eq(request_header(request, SLICE("x-control")), SLICE("1"))) {
        reply_error(reply, 403, "the control endpoint requires the header X-Control: 1");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (routes[i].method == request->method &&
            route_match(routes[i].pattern, request->segments, request->segment_count, params)) {
            routes[i].run(provider, request, reply);
            return;
        }
    }
    reply_error(reply, 404, "no such control path");
}
