/*
 * users.settings: filters, the vacation responder, the one sender address. Filters are kept, not
 * applied. users.history.list: which messages changed since a historyId, without how.
 */
#include <stdio.h>

#include "base/mem.h"
#include "provider/gmail.h"
#include "provider/ledger.h"

struct gmail_filter {
    char id[GMAIL_FILTER_ID_MAX + 1];
    struct buf text; /* {"criteria": ..., "action": ...}, as it was sent, but for the first { */
};

static void record(struct gmail_request *request, const char *kind, slice id)
{
    ledger_add(request->gmail->provider->ledger, request->http, kind, id, SLICE_NONE);
}

static void bad_argument(struct provider_reply *reply, const char *text)
{
    gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT", "%s", text);
}

/* ---- filters ---- */

static bool add_filter(struct gmail *gmail, const struct json *criteria, const struct json *action)
{
    struct gmail_filter *filter = mem_zalloc(sizeof(*filter));
    if (!filter)
        return false;
    buf_init(&filter->text, GMAIL_SETTING_BYTES_MAX);
    (void)snprintf(filter->id, sizeof(filter->id), "ANe1BmhDemoFilter%022u", ++gmail->next_filter);
    buf_append(&filter->text, SLICE("\"criteria\":"));
    json_write(&filter->text, criteria);
    buf_append(&filter->text, SLICE(",\"action\":"));
    json_write(&filter->text, action);
    if (!buf_is_ok(&filter->text)) {
        buf_deinit(&filter->text);
        mem_free(filter);
        return false;
    }
    gmail->filters[gmail->filter_count++] = filter;
    return true;
}

static void drop_filter(struct gmail *gmail, unsigned i)
{
    buf_deinit(&gmail->filters[i]->text);
    mem_free(gmail->filters[i]);
    gmail->filter_count--;
    memmove((void *)(gmail->filters + i), (void *)(gmail->filters + i + 1),
            (gmail->filter_count - i) * sizeof(gmail->filters[0]));
}

bool gmail_settings_init(struct gmail *gmail)
{
    struct arena arena;
    arena_init(&arena, GMAIL_SETTING_BYTES_MAX);
    const struct json *seed =
        json_parse(&arena,
                   SLICE("{\"criteria\":{\"from\":\"billing@northwind.example\"},"
                         "\"action\":{\"addLabelIds\":[\"Label_1\"]}}"),
                   &json_limits_provider, &(struct err){0});
    bool is_ok = seed && add_filter(gmail, JSON_GET(seed, "criteria"), JSON_GET(seed, "action"));
    arena_deinit(&arena);
    buf_init(&gmail->vacation, GMAIL_SETTING_BYTES_MAX);
    buf_init(&gmail->send_as, GMAIL_SETTING_BYTES_MAX);
    return is_ok;
}

void gmail_settings_deinit(struct gmail *gmail)
{
    while (gmail->filter_count > 0)
        drop_filter(gmail, gmail->filter_count - 1);
    buf_deinit(&gmail->vacation);
    buf_deinit(&gmail->send_as);
}

static void write_filter(struct json_writer *w, const struct gmail_filter *filter)
{
    json_open(w, '{');
    json_key(w, "id");
    json_put_str(w, slice_cstr(filter->id));
    buf_append(w->out, SLICE(","));
    buf_append(w->out, buf_slice(&filter->text));
    json_close(w, '}');
}

/* Its index; false: answered with 404. */
static bool find_filter(struct gmail_request *request, unsigned *at, struct provider_reply *reply)
{
    const struct gmail *gmail = request->gmail;
    for (*at = 0; *at < gmail->filter_count; (*at)++)
        if (slice_eq_cstr(request->id, gmail->filters[*at]->id))
            return true;
    gmail_error_plain(reply, 404);
    return false;
}

void gmail_filters_list(struct gmail_request *request, struct provider_reply *reply)
{
    struct json_writer w = reply_json(reply, 200);
    json_open(&w, '{');
    if (request->gmail->filter_count > 0) {
        json_key(&w, "filter");
        json_open(&w, '[');
        for (unsigned i = 0; i < request->gmail->filter_count; i++)
            write_filter(&w, request->gmail->filters[i]);
        json_close(&w, ']');
    }
    json_close(&w, '}');
}

void gmail_filters_get(struct gmail_request *request, struct provider_reply *reply)
{
    unsigned at;
    if (!find_filter(request, &at, reply))
        return;
    struct json_writer w = reply_json(reply, 200);
    write_filter(&w, request->gmail->filters[at]);
}

void gmail_filters_create(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail *gmail = request->gmail;
    const struct json *criteria = JSON_GET(request->json, "criteria");
    const struct json *action = JSON_GET(request->json, "action");
    if (!json_is(criteria, JSON_OBJECT) || criteria->count == 0)
        bad_argument(reply, "Filter doesn't have any criteria");
    else if (!json_is(action, JSON_OBJECT) || action->count == 0)
        bad_argument(reply, "Filter doesn't have any actions");
    else if (gmail->filter_count == GMAIL_FILTERS_MAX || !add_filter(gmail, criteria, action))
        bad_argument(reply, "Too many filters");
    else {
        const struct gmail_filter *filter = gmail->filters[gmail->filter_count - 1];
        record(request, "gmail.filters.create", slice_cstr(filter->id));
        struct json_writer w = reply_json(reply, 200);
        write_filter(&w, filter);
    }
}

void gmail_filters_delete(struct gmail_request *request, struct provider_reply *reply)
{
    unsigned at;
    if (!find_filter(request, &at, reply))
        return;
    record(request, "gmail.filters.delete", request->id);
    drop_filter(request->gmail, at);
    reply_empty(reply, 204);
}

/* ---- vacation responder, sender address ---- */

/* Gmail leaves out what is off: {} is a responder that was never used. */
void gmail_vacation_get(struct gmail_request *request, struct provider_reply *reply)
{
    slice text = buf_slice(&request->gmail->vacation);
    struct json_writer w = reply_json(reply, 200);
    json_put_raw(&w, text.len > 0 ? text : SLICE("{}"));
}

void gmail_vacation_set(struct gmail_request *request, struct provider_reply *reply)
{
    const struct json *json = request->json;
    if (json_get_bool(json, SLICE("enableAutoReply"), false) &&
        !JSON_GET(json, "responseSubject") && !JSON_GET(json, "responseBodyPlainText") &&
        !JSON_GET(json, "responseBodyHtml")) {
        bad_argument(reply, "Either response subject or response body must be set");
        return;
    }
    buf_clear(&request->gmail->vacation);
    json_write(&request->gmail->vacation, json);
    record(request, "gmail.vacation.set", SLICE("vacation"));
    gmail_vacation_get(request, reply);
}

static void write_send_as(struct json_writer *w, const struct gmail *gmail)
{
    slice signature = buf_slice(&gmail->send_as);
    json_open(w, '{');
    json_key(w, "sendAsEmail");
    json_put_str(w, SLICE(GMAIL_ADDRESS));
    json_key(w, "displayName");
    json_put_str(w, SLICE("Sam Rivera"));
    json_key(w, "replyToAddress");
    json_put_str(w, SLICE(""));
    json_key(w, "signature");
    json_put_str(w, signature.len > 0 ? signature : SLICE(""));
    json_key(w, "isPrimary");
    json_put_bool(w, true);
    json_key(w, "isDefault");
    json_put_bool(w, true);
    json_close(w, '}');
}

void gmail_send_as_list(struct gmail_request *request, struct provider_reply *reply)
{
    struct json_writer w = reply_json(reply, 200);
    json_open(&w, '{');
    json_key(&w, "sendAs");
    json_open(&w, '[');
    write_send_as(&w, request->gmail);
    json_close(&w, ']');
    json_close(&w, '}');
}

void gmail_send_as_get(struct gmail_request *request, struct provider_reply *reply)
{
    if (!slice_eq_nocase(request->id, SLICE(GMAIL_ADDRESS))) {
        gmail_error_plain(reply, 404);
        return;
    }
    struct json_writer w = reply_json(reply, 200);
    write_send_as(&w, request->gmail);
}

/* Of what may be changed only the signature is kept. */
void gmail_send_as_update(struct gmail_request *request, struct provider_reply *reply)
{
    slice signature = json_get_str(request->json, SLICE("signature"));
    if (slice_eq_nocase(request->id, SLICE(GMAIL_ADDRESS))) {
        if (signature.ptr) {
            buf_clear(&request->gmail->send_as);
            buf_append(&request->gmail->send_as, signature);
        }
        record(request, "gmail.send_as.update", request->id);
    }
    gmail_send_as_get(request, reply);
}

/* ---- history ---- */

void gmail_history_list(struct gmail_request *request, struct provider_reply *reply)
{
    const struct gmail *gmail = request->gmail;
    uint64_t since = 0;
    if (!slice_to_u64(request_query(request->http, SLICE("startHistoryId")), UINT64_MAX, &since)) {
        bad_argument(reply, "Invalid startHistoryId");
        return;
    }
    struct json_writer w = reply_json(reply, 200);
    json_open(&w, '{');
    json_key(&w, "history");
    json_open(&w, '[');
    for (size_t i = 0; i < gmail->all.count; i++) {
        const struct gmail_message *message = gmail->all.items[i];
        if (message->history_id <= since)
            continue;
        json_open(&w, '{');
        json_key(&w, "id");
        json_put_str(&w, arena_printf(request->http->arena, "%llu",
                                      (unsigned long long)message->history_id));
        json_key(&w, "messages");
        json_open(&w, '[');
        gmail_write_brief(&w, message);
        json_close(&w, ']');
        json_close(&w, '}');
    }
    json_close(&w, ']');
    json_key(&w, "historyId");
    json_put_str(&w,
                 arena_printf(request->http->arena, "%llu", (unsigned long long)gmail->history_id));
    json_close(&w, '}');
}
