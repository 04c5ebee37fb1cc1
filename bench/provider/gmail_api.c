/*
 * The entry of Gmail requests: token, scopes, user, route, body; and Google's error shape. The
 * order of the checks is Google's: an unknown path is a 404 page, then the token, the scope, the
 * user.
 */
#include "provider/gmail.h"
#include "provider/route.h"
#include "provider/token.h"

enum {
    READ_SCOPES = SCOPE_FULL | SCOPE_MODIFY | SCOPE_READONLY,
    READ_OR_METADATA = READ_SCOPES | SCOPE_METADATA,
    MODIFY_SCOPES = SCOPE_FULL | SCOPE_MODIFY,
    COMPOSE_SCOPES = SCOPE_FULL | SCOPE_MODIFY | SCOPE_COMPOSE,
    SEND_SCOPES = COMPOSE_SCOPES | SCOPE_SEND,
    SETTINGS_READ_SCOPES = READ_SCOPES | SCOPE_SETTINGS,
    LABEL_SCOPES = SCOPE_FULL | SCOPE_MODIFY | SCOPE_LABELS,
};

static const struct gmail_route {
    enum http_method method;
    const char *pattern; /* behind users/{userId}/ */
    gmail_handler run;
    unsigned scopes; /* any of them */
} routes[] = {
    {HTTP_METHOD_GET, "messages", gmail_messages_list, READ_OR_METADATA},
    {HTTP_METHOD_POST, "messages/send", gmail_messages_send, SEND_SCOPES},
    {HTTP_METHOD_POST, "messages/batchModify", gmail_messages_batch_modify, MODIFY_SCOPES},
    {HTTP_METHOD_POST, "messages/batchDelete", gmail_messages_batch_delete, SCOPE_FULL},
    {HTTP_METHOD_GET, "messages/*", gmail_messages_get, READ_OR_METADATA},
    {HTTP_METHOD_DELETE, "messages/*", gmail_messages_delete, SCOPE_FULL},
    {HTTP_METHOD_POST, "messages/*/modify", gmail_messages_modify, MODIFY_SCOPES},
    {HTTP_METHOD_POST, "messages/*/trash", gmail_messages_trash, MODIFY_SCOPES},
    {HTTP_METHOD_POST, "messages/*/untrash", gmail_messages_untrash, MODIFY_SCOPES},
    {HTTP_METHOD_GET, "messages/*/attachments/*", gmail_attachments_get, READ_SCOPES},
    {HTTP_METHOD_GET, "threads", gmail_threads_list, READ_OR_METADATA},
    {HTTP_METHOD_GET, "threads/*", gmail_threads_get, READ_OR_METADATA},
    {HTTP_METHOD_DELETE, "threads/*", gmail_threads_delete, SCOPE_FULL},
    {HTTP_METHOD_POST, "threads/*/modify", gmail_threads_modify, MODIFY_SCOPES},
    {HTTP_METHOD_POST, "threads/*/trash", gmail_threads_trash, MODIFY_SCOPES},
    {HTTP_METHOD_POST, "threads/*/untrash", gmail_threads_untrash, MODIFY_SCOPES},
    {HTTP_METHOD_GET, "labels", gmail_labels_list, READ_OR_METADATA | SCOPE_LABELS},
    {HTTP_METHOD_POST, "labels", gmail_labels_create, LABEL_SCOPES},
    {HTTP_METHOD_GET, "labels/*", gmail_labels_get, READ_OR_METADATA | SCOPE_LABELS},
    {HTTP_METHOD_PATCH, "labels/*", gmail_labels_update, LABEL_SCOPES},
    {HTTP_METHOD_PUT, "labels/*", gmail_labels_update, LABEL_SCOPES},
    {HTTP_METHOD_DELETE, "labels/*", gmail_labels_delete, LABEL_SCOPES},
    {HTTP_METHOD_GET, "profile", gmail_profile, READ_OR_METADATA | SCOPE_COMPOSE},
    {HTTP_METHOD_GET, "drafts", gmail_drafts_list, READ_SCOPES | SCOPE_COMPOSE},
    {HTTP_METHOD_POST, "drafts", gmail_drafts_create, COMPOSE_SCOPES},
    {HTTP_METHOD_POST, "drafts/send", gmail_drafts_send, COMPOSE_SCOPES},
    {HTTP_METHOD_GET, "drafts/*", gmail_drafts_get, READ_SCOPES | SCOPE_COMPOSE},
    {HTTP_METHOD_PUT, "drafts/*", gmail_drafts_update, COMPOSE_SCOPES},
    {HTTP_METHOD_DELETE, "drafts/*", gmail_drafts_delete, COMPOSE_SCOPES},
    {HTTP_METHOD_GET, "history", gmail_history_list, READ_OR_METADATA},
    {HTTP_METHOD_GET, "settings/filters", gmail_filters_list, SETTINGS_READ_SCOPES},
    {HTTP_METHOD_POST, "settings/filters", gmail_filters_create, SCOPE_SETTINGS},
    {HTTP_METHOD_GET, "settings/filters/*", gmail_filters_get, SETTINGS_READ_SCOPES},
    {HTTP_METHOD_DELETE, "settings/filters/*", gmail_filters_delete, SCOPE_SETTINGS},
    {HTTP_METHOD_GET, "settings/vacation", gmail_vacation_get, SETTINGS_READ_SCOPES},
    {HTTP_METHOD_PUT, "settings/vacation", gmail_vacation_set, SCOPE_SETTINGS},
    {HTTP_METHOD_GET, "settings/sendAs", gmail_send_as_list, SETTINGS_READ_SCOPES},
    {HTTP_METHOD_GET, "settings/sendAs/*", gmail_send_as_get, SETTINGS_READ_SCOPES},
    {HTTP_METHOD_PATCH, "settings/sendAs/*", gmail_send_as_update, SCOPE_SETTINGS},
};

static const slice json_type = SLICE_INIT("application/json; charset=UTF-8");

void gmail_error(struct provider_reply *reply, unsigned code, const char *reason,
                 const char *status_text, const char *fmt, ...)
{
    struct buf message;
    buf_init(&message, 4096);
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&message, fmt, args);
    va_end(args);
    bool is_auth = code == 401;
    struct json_writer w = reply_json(reply, code);
    reply->content_type = json_type;
    json_open(&w, '{');
    json_key(&w, "error");
    json_open(&w, '{');
    json_key(&w, "code");
    json_put_i64(&w, code);
    json_key(&w, "message");
    json_put_str(&w, buf_slice(&message));
    json_key(&w, "errors");
    json_open(&w, '[');
    json_open(&w, '{');
    json_key(&w, "message");
    json_put_str(&w, is_auth ? SLICE("Invalid Credentials") : buf_slice(&message));
    json_key(&w, "domain");
    json_put_str(&w, code == 429 || slice_ends_with(slice_cstr(reason), SLICE("LimitExceeded"))
                         ? SLICE("usageLimits")
                         : SLICE("global"));
    json_key(&w, "reason");
    json_put_str(&w, slice_cstr(reason));
    if (is_auth) {
        json_key(&w, "location");
        json_put_str(&w, SLICE("Authorization"));
        json_key(&w, "locationType");
        json_put_str(&w, SLICE("header"));
    }
    json_close(&w, '}');
    json_close(&w, ']');
    json_key(&w, "status");
    json_put_str(&w, slice_cstr(status_text));
    json_close(&w, '}');
    json_close(&w, '}');
    buf_deinit(&message);
}

void gmail_error_plain(struct provider_reply *reply, unsigned code)
{
    switch (code) {
    case 401:
        gmail_error(reply, 401, "authError", "UNAUTHENTICATED",
                    "Request had invalid authentication credentials. Expected OAuth 2 access "
                    "token, login cookie or other valid authentication credential. See "
                    "https://developers.google.com/identity/sign-in/web/devconsole-project.");
        reply_header(reply, SLICE("WWW-Authenticate"),
                     SLICE("Bearer realm=\"https://accounts.google.com/\", "
                           "error=\"invalid_token\""));
        return;
    case 403:
        gmail_error(reply, 403, "rateLimitExceeded", "PERMISSION_DENIED", "Rate Limit Exceeded");
        return;
    case 404:
        gmail_error(reply, 404, "notFound", "NOT_FOUND", "Requested entity was not found.");
        return;
    case 429:
        gmail_error(reply, 429, "rateLimitExceeded", "RESOURCE_EXHAUSTED",
                    "Too many concurrent requests for user.");
        return;
    case 500:
        gmail_error(reply, 500, "backendError", "INTERNAL", "Internal error encountered.");
        return;
    case 503:
        gmail_error(reply, 503, "backendError", "UNAVAILABLE",
                    "The service is currently unavailable.");
        return;
    default:
        gmail_error(reply, code, code < 500 ? "badRequest" : "backendError",
                    code < 500 ? "INVALID_ARGUMENT" : "INTERNAL", "%s", http_status_text(code));
    }
}

void gmail_error_scope(struct provider_reply *reply)
{
    gmail_error(reply, 403, "insufficientPermissions", "PERMISSION_DENIED",
                "Request had insufficient authentication scopes.");
    reply_header(reply, SLICE("WWW-Authenticate"),
                 SLICE("Bearer realm=\"https://accounts.google.com/\", "
                       "error=\"insufficient_scope\""));
}

/* What Google's front end says about a path that no API has: not JSON. */
static void not_found_page(struct provider_reply *reply)
{
    reply_text(reply, 404, SLICE("text/html; charset=UTF-8"),
               SLICE("<!DOCTYPE html>\n<html lang=en>\n<title>Error 404 (Not Found)!!1</title>\n"
                     "<p><b>404.</b> <ins>That\xe2\x80\x99s an error.</ins>\n"
                     "<p>The requested URL was not found on this server.\n</html>\n"));
}

/* Takes "gmail/v1/users/{id}" off, or "upload/gmail/..." for mails sent as they are. */
static bool take_prefix(const struct provider_request *http, const slice **rest, size_t *count,
                        slice *user, bool *is_upload)
{
    const slice *s = http->segments;
    size_t n = http->segment_count;
    *is_upload = n && slice_eq(s[0], SLICE("upload"));
    if (*is_upload)
        s++, n--;
    if (n < 5 || !slice_eq(s[0], SLICE("gmail")) || !slice_eq(s[1], SLICE("v1")) ||
        !slice_eq(s[2], SLICE("users")))
        return false;
    *user = s[3];
    *rest = s + 4;
    *count = n - 4;
    return true;
}

static bool check_access(const struct provider *provider, const struct provider_request *http,
                         unsigned scopes, slice user, struct provider_reply *reply)
{
    const struct token *token = tokens_find(provider->tokens, TOKEN_GMAIL, request_bearer(http));
    if (!token || token->is_expired) {
        gmail_error_plain(reply, 401);
        return false;
    }
    if (!(token->scopes & scopes)) {
        gmail_error_scope(reply);
        return false;
    }
    if (!slice_eq(user, SLICE("me")) && !slice_eq_nocase(user, SLICE(GMAIL_ADDRESS))) {
        gmail_error(reply, 403, "forbidden", "PERMISSION_DENIED", "Delegation denied for %s",
                    GMAIL_ADDRESS);
        return false;
    }
    /* Metadata never shows bodies and cannot search (Gmail API reference, users.messages.get). */
    bool is_metadata_only = !(token->scopes & READ_SCOPES) && scopes & SCOPE_METADATA;
    slice format = request_query(http, SLICE("format"));
    if (is_metadata_only && request_query(http, SLICE("q")).len) {
        gmail_error(reply, 403, "forbidden", "PERMISSION_DENIED",
                    "Metadata scope does not support 'q' parameter");
        return false;
    }
    if (is_metadata_only &&
        (slice_eq_nocase(format, SLICE("full")) || slice_eq_nocase(format, SLICE("raw")))) {
        gmail_error(reply, 403, "forbidden", "PERMISSION_DENIED",
                    "Metadata scope doesn't allow format %.*s", SLICE_ARG(format));
        return false;
    }
    return true;
}

/* Reads a JSON body where there is one. */
static bool read_body(struct gmail_request *request, struct provider_reply *reply)
{
    const struct provider_request *http = request->http;
    slice type = http_media_type(request_header(http, SLICE("content-type")));
    if (!http->body.len || slice_eq_nocase(type, SLICE("message/rfc822")))
        return true;
    struct err err = {0};
    request->json = json_parse(http->arena, http->body, &json_limits_provider, &err);
    if (json_is(request->json, JSON_OBJECT))
        return true;
    if (request->json)
        gmail_error(reply, 400, "parseError", "INVALID_ARGUMENT",
                    "Invalid JSON payload received. Unknown name \"\": Root element must be a "
                    "message.");
    else
        gmail_error(reply, 400, "parseError", "INVALID_ARGUMENT",
                    "Invalid JSON payload received. %s", err.text);
    return false;
}

static const struct gmail_route *find_route(enum http_method method, const slice *segments,
                                            size_t count, slice params[ROUTE_PARAMS_MAX])
{
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (routes[i].method == method && route_match(routes[i].pattern, segments, count, params))
            return &routes[i];
    return NULL;
}

void gmail_handle(struct provider *provider, const struct provider_request *http,
                  struct provider_reply *reply)
{
    const slice *rest;
    size_t count;
    slice user, params[ROUTE_PARAMS_MAX] = {{0}};
    bool is_upload;
    if (!take_prefix(http, &rest, &count, &user, &is_upload)) {
        not_found_page(reply);
        return;
    }
    const struct gmail_route *route = find_route(http->method, rest, count, params);
    if (!route ||
        (is_upload && route->run != gmail_messages_send && route->run != gmail_drafts_create)) {
        not_found_page(reply);
        return;
    }
    if (!check_access(provider, http, route->scopes, user, reply))
        return;
    struct gmail_request request = {
        .gmail = provider->gmail, .http = http, .id = params[0], .id2 = params[1]};
    if (read_body(&request, reply))
        route->run(&request, reply);
    if (reply->status == 200)
        reply->content_type = json_type;
}
