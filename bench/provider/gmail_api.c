/*
 * The entry of Gmail requests: token, scopes, user, route, body; and Google's error shape. The
 * order of the checks is Google's: an unknown path is a 404 page, then the token, the scope, the
 * user.
 */
#include "base/ascii.h"
#include "provider/gmail.h"
#include "provider/ledger.h"
#include "provider/route.h"
#include "provider/token.h"

/* Any of the scopes will do. */
#define READ_SCOPES    "full modify readonly"
#define VIEW_SCOPES    READ_SCOPES " metadata"
#define MODIFY_SCOPES  "full modify"
#define COMPOSE_SCOPES MODIFY_SCOPES " compose"
#define SEND_SCOPES    COMPOSE_SCOPES " send"
#define SETTINGS_VIEW  READ_SCOPES " settings"
#define DRAFT_SCOPES   READ_SCOPES " compose"
#define LABEL_VIEW     VIEW_SCOPES " labels"
#define LABEL_SCOPES   MODIFY_SCOPES " labels"

static const struct gmail_route {
    int method;          /* enum http_method */
    const char *pattern; /* behind users/{userId}/ */
    gmail_handler run;
    const char *scopes;
    enum gmail_target target;
    const char *kind; /* of a write, for the ledger */
} routes[] = {
    {GET, "messages", gmail_list, VIEW_SCOPES, GMAIL_MESSAGE, NULL},
    {POST, "messages/send", gmail_messages_send, SEND_SCOPES, GMAIL_NONE, "messages.send"},
    {POST, "messages/batchModify", gmail_modify, MODIFY_SCOPES, GMAIL_MESSAGES,
     "messages.batchModify"},
    {POST, "messages/batchDelete", gmail_remove, "full", GMAIL_MESSAGES, "messages.batchDelete"},
    {GET, "messages/*", gmail_get, VIEW_SCOPES, GMAIL_MESSAGE, NULL},
    {DELETE, "messages/*", gmail_remove, "full", GMAIL_MESSAGE, "messages.delete"},
    {POST, "messages/*/modify", gmail_modify, MODIFY_SCOPES, GMAIL_MESSAGE, "messages.modify"},
    {POST, "messages/*/trash", gmail_trash, MODIFY_SCOPES, GMAIL_MESSAGE, "messages.trash"},
    {POST, "messages/*/untrash", gmail_untrash, MODIFY_SCOPES, GMAIL_MESSAGE, "messages.untrash"},
    {GET, "messages/*/attachments/*", gmail_attachments_get, READ_SCOPES, GMAIL_MESSAGE, NULL},
    {GET, "threads", gmail_list, VIEW_SCOPES, GMAIL_THREAD, NULL},
    {GET, "threads/*", gmail_get, VIEW_SCOPES, GMAIL_THREAD, NULL},
    {DELETE, "threads/*", gmail_remove, "full", GMAIL_THREAD, "threads.delete"},
    {POST, "threads/*/modify", gmail_modify, MODIFY_SCOPES, GMAIL_THREAD, "threads.modify"},
    {POST, "threads/*/trash", gmail_trash, MODIFY_SCOPES, GMAIL_THREAD, "threads.trash"},
    {POST, "threads/*/untrash", gmail_untrash, MODIFY_SCOPES, GMAIL_THREAD, "threads.untrash"},
    {GET, "labels", gmail_labels_list, LABEL_VIEW, GMAIL_NONE, NULL},
    {POST, "labels", gmail_labels_write, LABEL_SCOPES, GMAIL_NONE, "labels.create"},
    {GET, "labels/*", gmail_labels_get, LABEL_VIEW, GMAIL_LABEL, NULL},
    {PATCH, "labels/*", gmail_labels_write, LABEL_SCOPES, GMAIL_LABEL, "labels.update"},
    {PUT, "labels/*", gmail_labels_write, LABEL_SCOPES, GMAIL_LABEL, "labels.update"},
    {DELETE, "labels/*", gmail_labels_delete, LABEL_SCOPES, GMAIL_LABEL, "labels.delete"},
    {GET, "profile", gmail_profile, VIEW_SCOPES " compose", GMAIL_NONE, NULL},
    {GET, "drafts", gmail_list, DRAFT_SCOPES, GMAIL_A_DRAFT, NULL},
    {POST, "drafts", gmail_drafts_write, COMPOSE_SCOPES, GMAIL_NONE, "drafts.create"},
    {POST, "drafts/send", gmail_drafts_send, COMPOSE_SCOPES, GMAIL_A_DRAFT, "drafts.send"},
    {GET, "drafts/*", gmail_get, DRAFT_SCOPES, GMAIL_A_DRAFT, NULL},
    {PUT, "drafts/*", gmail_drafts_write, COMPOSE_SCOPES, GMAIL_A_DRAFT, "drafts.update"},
    {DELETE, "drafts/*", gmail_remove, COMPOSE_SCOPES, GMAIL_A_DRAFT, "drafts.delete"},
    {GET, "history", gmail_history_list, VIEW_SCOPES, GMAIL_NONE, NULL},
    {GET, "settings/*", gmail_settings_get, SETTINGS_VIEW, GMAIL_NONE, NULL},
    {GET, "settings/*/*", gmail_settings_get, SETTINGS_VIEW, GMAIL_NONE, NULL},
    {POST, "settings/filters", gmail_filters_create, "settings", GMAIL_NONE, "filters.create"},
    {DELETE, "settings/filters/*", gmail_filters_delete, "settings", GMAIL_NONE, "filters.delete"},
    {PUT, "settings/vacation", gmail_vacation_set, "settings", GMAIL_NONE, "vacation.set"},
    {PATCH, "settings/sendAs/*", gmail_senders_update, "settings", GMAIL_NONE, "send_as.update"},
};

static const slice json_type = SLICE_INIT("application/json; charset=UTF-8");

bool gmail_error(struct provider_reply *reply, unsigned code, slice reason, slice status_text,
                 slice message)
{
    bool is_auth = code == 401;
    bool is_usage = code == 429 || slice_ends_with(reason, SLICE("LimitExceeded"));
    struct json_writer w = reply_json(reply, code);
    reply->content_type = json_type;
    json_open(&w, '{');
    json_member_open(&w, "error", '{');
    json_member_i64(&w, "code", code);
    json_member_str(&w, "message", message);
    json_member_open(&w, "errors", '[');
    json_open(&w, '{');
    json_member_str(&w, "message", is_auth ? SLICE("Invalid Credentials") : message);
    json_member_str(&w, "domain", is_usage ? SLICE("usageLimits") : SLICE("global"));
    json_member_str(&w, "reason", reason);
    if (is_auth) {
        json_member_str(&w, "location", SLICE("Authorization"));
        json_member_str(&w, "locationType", SLICE("header"));
    }
    json_close(&w, '}');
    json_close(&w, ']');
    json_member_str(&w, "status", status_text);
    json_close(&w, '}');
    json_close(&w, '}');
    return false;
}

bool gmail_bad(struct gmail_request *request, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    slice message = arena_vprintf(request->arena, fmt, args);
    va_end(args);
    return gmail_error(request->reply, 400, SLICE("invalidArgument"), SLICE("INVALID_ARGUMENT"),
                       message);
}

static void challenge(struct provider_reply *reply, slice value)
{
    reply_header(reply, SLICE("WWW-Authenticate"), value);
}

bool gmail_error_plain(struct gmail *gmail, struct provider_reply *reply, unsigned code)
{
    char number[SLICE_U64_MAX];
    const struct json *errors = JSON_GET(gmail->data, "errors");
    const struct json *own = json_get(errors, slice_of_u64(code, number));
    const struct json *known = own          ? own
                               : code < 500 ? JSON_GET(errors, "4xx")
                                            : JSON_GET(errors, "5xx");
    gmail_error(reply, code, json_str(json_at(known, 0)), json_str(json_at(known, 1)),
                own ? json_str(json_at(own, 2)) : slice_cstr(http_status_text(code)));
    if (code == 401)
        challenge(reply, SLICE("Bearer realm=\"https://accounts.google.com/\", "
                               "error=\"invalid_token\""));
    return false;
}

bool gmail_not_found(struct gmail_request *request)
{
    return gmail_error_plain(request->gmail, request->reply, 404);
}

bool gmail_reply(struct gmail_request *request, const struct json *value)
{
    if (!value)
        return gmail_not_found(request);
    struct json_writer w = reply_json(request->reply, 200);
    json_put(&w, value);
    return true;
}

/* What Google's front end says about a path that no API has: not JSON. */
static void not_found_page(struct provider_reply *reply)
{
    reply_text(reply, 404, SLICE("text/html; charset=UTF-8"),
               SLICE("<!DOCTYPE html>\n<html lang=en>\n<title>Error 404 (Not Found)!!1</title>\n"
                     "<p><b>404.</b> <ins>That\xe2\x80\x99s an error.</ins>\n"
                     "<p>The requested URL was not found on this server.\n</html>\n"));
}

static bool forbidden(struct gmail_request *request, slice text)
{
    return gmail_error(request->reply, 403, SLICE("forbidden"), SLICE("PERMISSION_DENIED"), text);
}

static bool check_access(struct gmail_request *request, const char *scopes, slice user)
{
    const struct provider_request *http = request->http;
    struct tokens *tokens = request->gmail->provider->tokens;
    const struct token *token = tokens_find(tokens, TOKEN_GMAIL, request_bearer(http));
    if (!token)
        return gmail_error_plain(request->gmail, request->reply, 401);
    if (!token_may(token, scopes)) {
        gmail_error(request->reply, 403, SLICE("insufficientPermissions"),
                    SLICE("PERMISSION_DENIED"),
                    SLICE("Request had insufficient authentication scopes."));
        challenge(request->reply, SLICE("Bearer realm=\"https://accounts.google.com/\", "
                                        "error=\"insufficient_scope\""));
        return false;
    }
    if (!slice_eq(user, SLICE("me")) && !slice_eq_nocase(user, SLICE(GMAIL_ADDRESS)))
        return forbidden(request, SLICE("Delegation denied for " GMAIL_ADDRESS));
    /* Metadata never shows bodies and cannot search (Gmail API reference, users.messages.get). */
    bool is_metadata_only = http->query_count && !token_may(token, READ_SCOPES) &&
                            strstr(scopes, "metadata");
    slice format = request_query(http, SLICE("format"));
    if (is_metadata_only && request_query(http, SLICE("q")).len)
        return forbidden(request, SLICE("Metadata scope does not support 'q' parameter"));
    if (is_metadata_only &&
        (slice_eq_nocase(format, SLICE("full")) || slice_eq_nocase(format, SLICE("raw"))))
        return forbidden(request, SLICE("Metadata scope doesn't allow format FULL or RAW"));
    return true;
}

/* Reads a JSON body where there is one. */
static bool read_body(struct gmail_request *request)
{
    struct err err = {.text = "Unknown name \"\": Root element must be a message."};
    if (!request->http->body.len)
        return true;
    request->json = json_parse(request->arena, request->http->body, &json_limits_provider, &err);
    return json_is(request->json, JSON_OBJECT) ||
           gmail_error(request->reply, 400, SLICE("parseError"), SLICE("INVALID_ARGUMENT"),
                       arena_printf(request->arena, "Invalid JSON payload received. %s", err.text));
}

static bool find_message(struct gmail_request *request, slice id, struct gmail_message **out)
{
    bool is_hex = id.len > 0 && id.len <= GMAIL_ID_TEXT_LEN;
    for (size_t i = 0; i < id.len; i++)
        is_hex &= ascii_is_hex(id.ptr[i]);
    *out = gmail_find(request->gmail, id);
    if (!is_hex)
        return gmail_bad(request, "Invalid id value");
    return *out || gmail_not_found(request);
}

static bool find_batch(struct gmail_request *request)
{
    const struct json *ids = JSON_GET(request->json, "ids");
    if (!json_is(ids, JSON_ARRAY) || !ids->count || ids->count > GMAIL_BATCH_MAX)
        return gmail_bad(request, "ids must hold 1 to %d message ids", GMAIL_BATCH_MAX);
    struct gmail_message **messages =
        ARENA_ARRAY(request->arena, struct gmail_message *, ids->count);
    for (uint32_t i = 0; messages && i < ids->count; i++)
        if (!find_message(request, json_str(json_at(ids, i)), &messages[i]))
            return false;
    request->messages = messages;
    request->message_count = ids->count;
    return messages || gmail_error_plain(request->gmail, request->reply, 503);
}

static bool find_draft(struct gmail_request *request)
{
    const struct gmail_order *drafts = &request->gmail->labels[GMAIL_DRAFT]->order;
    for (size_t i = 0; i < drafts->count; i++)
        if (slice_eq_cstr(request->id, drafts->items[i]->draft_id))
            request->message = drafts->items[i];
    return request->message || gmail_not_found(request);
}

static bool find_thread(struct gmail_request *request)
{
    request->thread = gmail_find_thread(request->gmail, request->id);
    if (!request->thread)
        return gmail_not_found(request);
    request->messages = request->thread->order.items;
    request->message_count = request->thread->order.count;
    return true;
}

/* What the id of the path, or of the body, names. false: answered. */
static bool find_target(struct gmail_request *request)
{
    bool is_found = true;
    request->messages = &request->message;
    request->message_count = 1;
    if (request->target == GMAIL_MESSAGE)
        is_found = find_message(request, request->id, &request->message);
    else if (request->target == GMAIL_A_DRAFT)
        is_found = find_draft(request);
    else if (request->target == GMAIL_MESSAGES)
        is_found = find_batch(request);
    else if (request->target == GMAIL_THREAD)
        is_found = find_thread(request);
    else if (request->target == GMAIL_LABEL)
        is_found = (request->label = gmail_label_find(request->gmail, request->id)) ||
                   gmail_not_found(request);
    request->message = is_found ? request->messages[0] : NULL;
    return is_found;
}

void gmail_record(struct gmail_request *request, slice id, slice marker)
{
    ledger_add(request->gmail->provider->ledger, request->http, "gmail", request->kind, id, marker);
}

bool gmail_removed(struct gmail_request *request, slice id, slice marker)
{
    gmail_record(request, id, marker);
    reply_empty(request->reply, 204);
    return true;
}

static const struct gmail_route *find_route(enum http_method method, const slice *segments,
                                            size_t count, slice params[ROUTE_PARAMS_MAX])
{
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (routes[i].method == (int)method &&
            route_match(routes[i].pattern, segments, count, params))
            return &routes[i];
    return NULL;
}

void gmail_handle(struct provider *provider, const struct provider_request *http,
                  struct provider_reply *reply)
{
    static const char prefix[] = "gmail/v1/users/";
    slice params[ROUTE_PARAMS_MAX] = {{0}};
    const slice *segments = http->segments;
    const struct gmail_route *route = NULL;
    if (slice_starts_with(slice_from(http->path, 1), slice_cstr(prefix)) && http->segment_count > 4)
        route = find_route(http->method, segments + 4, http->segment_count - 4, params);
    if (!route) {
        not_found_page(reply);
        return;
    }
    struct gmail_request request = {.gmail = provider->gmail,
                                    .http = http,
                                    .arena = http->arena,
                                    .reply = reply,
                                    .id = params[0],
                                    .id2 = params[1],
                                    .target = route->target,
                                    .kind = route->kind};
    if (!check_access(&request, route->scopes, segments[3]) || !read_body(&request))
        return;
    if (route->run == gmail_drafts_send)
        request.id = json_get_str(request.json, SLICE("id"));
    if (route->run == gmail_list || find_target(&request))
        route->run(&request);
    if (reply->status == 200)
        reply->content_type = json_type;
}
