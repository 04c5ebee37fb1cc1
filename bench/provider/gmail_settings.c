/*
 * users.settings: filters, the vacation responder, the one sender address. They are kept as JSON
 * in the mailbox's arena, which bounds how often they can be changed. Filters are not applied.
 */
#include "provider/gmail.h"

static void reply_value(struct gmail_request *request, const struct json *value)
{
    struct json_writer w = reply_json(request->reply, 200);
    json_put(&w, value);
}

/* {key: [...]}; {} where there is none, as Gmail does. */
static void reply_list(struct gmail_request *request, const char *key, const struct json *list)
{
    struct json_writer w = reply_json(request->reply, 200);
    json_open(&w, '{');
    if (list->count)
        json_member(&w, key, list);
    json_close(&w, '}');
}

/* Copies a setting; false: answered. */
static bool keep(struct gmail_request *request, const struct json *value, struct json *out)
{
    const struct json *copy = json_dup(&request->gmail->arena, value);
    if (!copy)
        return gmail_error_plain(request->gmail, request->reply, 503);
    *out = *copy;
    return true;
}

/* Its index; false: answered with 404. */
static bool find_filter(struct gmail_request *request, uint32_t *at)
{
    const struct json *filters = &request->gmail->filters;
    for (*at = 0; *at < filters->count; (*at)++)
        if (slice_eq(json_get_str(json_at(filters, *at), SLICE("id")), request->id))
            return true;
    return gmail_error_plain(request->gmail, request->reply, 404);
}

void gmail_filters_list(struct gmail_request *request)
{
    reply_list(request, "filter", &request->gmail->filters);
}

void gmail_filters_get(struct gmail_request *request)
{
    uint32_t at;
    if (find_filter(request, &at))
        reply_value(request, json_at(&request->gmail->filters, at));
}

void gmail_filters_create(struct gmail_request *request)
{
    struct gmail *gmail = request->gmail;
    struct arena *arena = request->http->arena;
    const struct json *criteria = JSON_GET(request->json, "criteria");
    const struct json *action = JSON_GET(request->json, "action");
    struct json filter = json_object(), kept;
    if (!json_is(criteria, JSON_OBJECT) || !criteria->count || !json_is(action, JSON_OBJECT) ||
        !action->count) {
        gmail_bad(request, "Filter doesn't have any criteria or any actions");
        return;
    }
    slice id = arena_printf(arena, "ANe1BmhDemoFilter%022u", ++gmail->next_filter);
    json_object_set(arena, &filter, SLICE("id"), json_string(id));
    json_object_set(arena, &filter, SLICE("criteria"), *criteria);
    json_object_set(arena, &filter, SLICE("action"), *action);
    if (!keep(request, &filter, &kept))
        return;
    json_array_push(&gmail->arena, &gmail->filters, kept);
    gmail_record(request, id, SLICE_NONE);
    reply_value(request, &filter);
}

void gmail_filters_delete(struct gmail_request *request)
{
    struct json *filters = &request->gmail->filters;
    uint32_t at;
    if (!find_filter(request, &at))
        return;
    filters->count--;
    memmove(&filters->as.items[at], &filters->as.items[at + 1],
            (filters->count - at) * sizeof(*filters));
    gmail_record(request, request->id, SLICE_NONE);
    reply_empty(request->reply, 204);
}

/* Gmail leaves out what is off: {} is a responder that was never used. */
void gmail_vacation_get(struct gmail_request *request)
{
    reply_value(request, &request->gmail->vacation);
}

void gmail_vacation_set(struct gmail_request *request)
{
    const struct json *json = request->json;
    bool has_text = JSON_GET(json, "responseSubject") || JSON_GET(json, "responseBodyPlainText") ||
                    JSON_GET(json, "responseBodyHtml");
    if (json_get_bool(json, SLICE("enableAutoReply"), false) && !has_text) {
        gmail_bad(request, "Either response subject or response body must be set");
        return;
    }
    if (!keep(request, json ? json : &json_null, &request->gmail->vacation))
        return;
    gmail_record(request, SLICE("vacation"), SLICE_NONE);
    gmail_vacation_get(request);
}

void gmail_send_as_list(struct gmail_request *request)
{
    struct json list = json_array();
    json_array_push(request->http->arena, &list, request->gmail->send_as);
    reply_list(request, "sendAs", &list);
}

void gmail_send_as_get(struct gmail_request *request)
{
    if (slice_eq_nocase(request->id, SLICE(GMAIL_ADDRESS)))
        reply_value(request, &request->gmail->send_as);
    else
        gmail_error_plain(request->gmail, request->reply, 404);
}

/* Of what may be changed only the signature is kept. */
void gmail_send_as_update(struct gmail_request *request)
{
    struct gmail *gmail = request->gmail;
    const struct json *signature = JSON_GET(request->json, "signature");
    struct json kept;
    if (slice_eq_nocase(request->id, SLICE(GMAIL_ADDRESS))) {
        if (json_is(signature, JSON_STRING)) {
            if (!keep(request, signature, &kept))
                return;
            json_object_put(&gmail->arena, &gmail->send_as, SLICE("signature"), kept);
        }
        gmail_record(request, request->id, SLICE_NONE);
    }
    gmail_send_as_get(request);
}
