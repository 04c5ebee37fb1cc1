/*
 * users.settings: filters, the vacation responder, the one sender address. They are kept as JSON
 * in the mailbox's arena, which bounds how often they can be changed. Filters are not applied.
 */
#include "provider/gmail.h"

/* The entry with that id, or address; NULL when there is none. */
static const struct json *find(const struct json *list, slice id)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (slice_eq(json_get_str(json_at(list, i), SLICE("id")), id) ||
            slice_eq_nocase(json_get_str(json_at(list, i), SLICE("sendAsEmail")), id))
            return json_at(list, i);
    return NULL;
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

/* A list comes as {key: [...]}, {} where it is empty, as Gmail does. Of the responder it leaves out
 * what is off: {} was never used. */
bool gmail_settings_get(struct gmail_request *request)
{
    const struct gmail *gmail = request->gmail;
    bool are_filters = slice_eq(request->id, SLICE("filters"));
    const struct json *list = are_filters                              ? &gmail->filters
                              : slice_eq(request->id, SLICE("sendAs")) ? &gmail->senders
                                                                       : NULL;
    struct json object = json_object();
    if (!list)
        return slice_eq(request->id, SLICE("vacation")) ? gmail_reply(request, &gmail->vacation)
                                                        : gmail_not_found(request);
    if (request->id2.len)
        return gmail_reply(request, find(list, request->id2));
    if (list->count)
        json_object_set(request->arena, &object, are_filters ? SLICE("filter") : request->id,
                        *list);
    return gmail_reply(request, &object);
}

bool gmail_filters_create(struct gmail_request *request)
{
    static const char *const keys[] = {"criteria", "action"};
    struct gmail *gmail = request->gmail;
    struct json filter = json_object(), kept;
    slice id = arena_printf(request->arena, "ANe1BmhDemoFilter%022u", gmail->next_filter + 1);
    json_object_set(request->arena, &filter, SLICE("id"), json_string(id));
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct json *value = json_get(request->json, slice_cstr(keys[i]));
        if (!json_is(value, JSON_OBJECT) || !value->count)
            return gmail_bad(request, "Filter doesn't have any criteria or any actions");
        json_object_set(request->arena, &filter, slice_cstr(keys[i]), *value);
    }
    if (!keep(request, &filter, &kept))
        return false;
    gmail->next_filter++;
    json_array_push(&gmail->arena, &gmail->filters, kept);
    gmail_record(request, id, SLICE_NONE);
    return gmail_reply(request, &filter);
}

bool gmail_filters_delete(struct gmail_request *request)
{
    struct json *filters = &request->gmail->filters;
    const struct json *filter = find(filters, request->id);
    if (!filter)
        return gmail_not_found(request);
    size_t at = (size_t)(filter - filters->as.items);
    filters->count--;
    memmove(&filters->as.items[at], filter + 1, (filters->count - at) * sizeof(*filter));
    return gmail_removed(request, request->id, SLICE_NONE);
}

bool gmail_vacation_set(struct gmail_request *request)
{
    const struct json *json = request->json;
    struct json *vacation = &request->gmail->vacation;
    bool has_text = JSON_GET(json, "responseSubject") || JSON_GET(json, "responseBodyPlainText") ||
                    JSON_GET(json, "responseBodyHtml");
    if (json_get_bool(json, SLICE("enableAutoReply"), false) && !has_text)
        return gmail_bad(request, "Either response subject or response body must be set");
    if (!keep(request, json ? json : &json_null, vacation))
        return false;
    gmail_record(request, SLICE("vacation"), SLICE_NONE);
    return gmail_reply(request, vacation);
}

/* Of what may be changed only the signature is kept. */
bool gmail_senders_update(struct gmail_request *request)
{
    struct gmail *gmail = request->gmail;
    struct json *sender = (struct json *)(uintptr_t)find(&gmail->senders, request->id), kept;
    const struct json *signature = JSON_GET(request->json, "signature");
    if (!sender)
        return gmail_not_found(request);
    if (json_is(signature, JSON_STRING)) {
        if (!keep(request, signature, &kept))
            return false;
        json_object_put(&gmail->arena, sender, SLICE("signature"), kept);
    }
    gmail_record(request, request->id, SLICE_NONE);
    return gmail_reply(request, sender);
}
