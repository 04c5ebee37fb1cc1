/*
 * The entry of Notion requests: token, version, route, body; and its error shape.
 */
#include "provider/notion.h"
#include "provider/route.h"
#include "provider/token.h"

static const struct notion_route {
    enum http_method method;
    const char *pattern;
    notion_handler run;
    unsigned scopes; /* capability needed; 0: none */
} routes[] = {
    {HTTP_METHOD_POST, "v1/pages", notion_pages_create, SCOPE_INSERT_CONTENT},
    {HTTP_METHOD_GET, "v1/pages/*", notion_pages_get, SCOPE_READ_CONTENT},
    {HTTP_METHOD_PATCH, "v1/pages/*", notion_pages_update, SCOPE_UPDATE_CONTENT},
    {HTTP_METHOD_GET, "v1/pages/*/properties/*", notion_pages_property, SCOPE_READ_CONTENT},
    {HTTP_METHOD_POST, "v1/pages/*/move", notion_pages_move, SCOPE_UPDATE_CONTENT},
    {HTTP_METHOD_GET, "v1/pages/*/markdown", notion_pages_markdown, SCOPE_READ_CONTENT},
    {HTTP_METHOD_PATCH, "v1/pages/*/markdown", notion_pages_markdown_update, SCOPE_UPDATE_CONTENT},
    {HTTP_METHOD_POST, "v1/databases", notion_databases_create, SCOPE_INSERT_CONTENT},
    {HTTP_METHOD_GET, "v1/databases/*", notion_databases_get, SCOPE_READ_CONTENT},
    {HTTP_METHOD_PATCH, "v1/databases/*", notion_databases_update, SCOPE_UPDATE_CONTENT},
    {HTTP_METHOD_POST, "v1/data_sources", notion_sources_create, SCOPE_INSERT_CONTENT},
    {HTTP_METHOD_GET, "v1/data_sources/*", notion_sources_get, SCOPE_READ_CONTENT},
    {HTTP_METHOD_PATCH, "v1/data_sources/*", notion_sources_update, SCOPE_UPDATE_CONTENT},
    {HTTP_METHOD_POST, "v1/data_sources/*/query", notion_sources_query, SCOPE_READ_CONTENT},
    {HTTP_METHOD_GET, "v1/data_sources/*/templates", notion_sources_templates, SCOPE_READ_CONTENT},
    {HTTP_METHOD_POST, "v1/search", notion_search, SCOPE_READ_CONTENT},
    {HTTP_METHOD_GET, "v1/blocks/*", notion_blocks_get, SCOPE_READ_CONTENT},
    {HTTP_METHOD_PATCH, "v1/blocks/*", notion_blocks_update, SCOPE_UPDATE_CONTENT},
    {HTTP_METHOD_DELETE, "v1/blocks/*", notion_blocks_delete, SCOPE_UPDATE_CONTENT},
    {HTTP_METHOD_GET, "v1/blocks/*/children", notion_children_list, SCOPE_READ_CONTENT},
    {HTTP_METHOD_PATCH, "v1/blocks/*/children", notion_children_append, SCOPE_INSERT_CONTENT},
    {HTTP_METHOD_GET, "v1/users", notion_users_list, SCOPE_USERS},
    {HTTP_METHOD_GET, "v1/users/me", notion_users_me, 0},
    {HTTP_METHOD_GET, "v1/users/*", notion_users_get, SCOPE_USERS},
    {HTTP_METHOD_GET, "v1/comments", notion_comments_list, SCOPE_COMMENTS},
    {HTTP_METHOD_POST, "v1/comments", notion_comments_create, SCOPE_COMMENTS},
    {HTTP_METHOD_GET, "v1/comments/*", notion_comments_get, SCOPE_COMMENTS},
    {HTTP_METHOD_PATCH, "v1/comments/*", notion_comments_update, SCOPE_COMMENTS},
    {HTTP_METHOD_DELETE, "v1/comments/*", notion_comments_delete, SCOPE_COMMENTS},
};

static void vfail(struct provider_reply *reply, struct rng *rng, unsigned status, const char *code,
                  const char *fmt, va_list args) PRINTF_LIKE(5, 0);

static void vfail(struct provider_reply *reply, struct rng *rng, unsigned status, const char *code,
                  const char *fmt, va_list args)
{
    struct buf message;
    char request_id[UUID_TEXT_LEN + 1];
    struct uuid id;
    for (int i = 0; i < 2; i++) {
        uint64_t bits = rng_next(rng);
        memcpy(id.bytes + 8 * i, &bits, 8);
    }
    uuid_format(id, request_id);
    buf_init(&message, 8192);
    buf_vprintf(&message, fmt, args);
    struct json_writer w = reply_json(reply, status);
    json_open(&w, '{');
    json_key(&w, "object");
    json_put_str(&w, SLICE("error"));
    json_key(&w, "status");
    json_put_i64(&w, status);
    json_key(&w, "code");
    json_put_str(&w, slice_cstr(code));
    json_key(&w, "message");
    json_put_str(&w, buf_slice(&message));
    json_key(&w, "request_id");
    json_put_str(&w, slice_of(request_id, UUID_TEXT_LEN));
    json_close(&w, '}');
    buf_deinit(&message);
}

bool notion_fail(struct provider_reply *reply, struct rng *rng, unsigned status, const char *code,
                 const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfail(reply, rng, status, code, fmt, args);
    va_end(args);
    return false;
}

bool notion_invalid(struct notion_request *request, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfail(request->reply, &request->notion->provider->rng, 400, "validation_error", fmt, args);
    va_end(args);
    return false;
}

bool notion_not_found(struct notion_request *request, const char *what, slice id)
{
    char text[UUID_TEXT_LEN + 1];
    if (!notion_id_read(id, text) && strcmp(what, "property") != 0)
        return notion_invalid(request,
                              "path failed validation: path.%s_id should be a valid uuid, instead "
                              "was `\"%.*s\"`.",
                              what, SLICE_ARG(slice_first(id, 80)));
    if (!strcmp(what, "property"))
        return notion_fail(request->reply, &request->notion->provider->rng, 404, "object_not_found",
                           "Could not find property with ID: %.*s.",
                           SLICE_ARG(slice_first(id, 80)));
    return notion_fail(request->reply, &request->notion->provider->rng, 404, "object_not_found",
                       "Could not find %s with ID: %s. Make sure the relevant pages and databases "
                       "are shared with your integration.",
                       what, text);
}

void notion_error_plain(struct provider *provider, struct provider_reply *reply, unsigned status)
{
    static const struct {
        unsigned status;
        const char *code, *message;
    } known[] = {
        {400, "validation_error", "body failed validation."},
        {401, "unauthorized", "API token is invalid."},
        {403, "restricted_resource", "Insufficient permissions for this endpoint."},
        {404, "object_not_found", "Could not find the object."},
        {409, "conflict_error", "Conflict occurred while saving. Please try again."},
        {429, "rate_limited", "You have been rate limited. Please try again in a few minutes."},
        {500, "internal_server_error", "Unexpected error occurred."},
        {502, "bad_gateway", "Bad gateway."},
        {503, "service_unavailable", "Notion is unavailable, please try again later."},
        {504, "gateway_timeout", "The request timed out."},
        {529, "service_overload", "Notion is overloaded, please try again later."},
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (known[i].status == status) {
            notion_fail(reply, &provider->rng, status, known[i].code, "%s", known[i].message);
            return;
        }
    }
    notion_fail(reply, &provider->rng, status, "internal_server_error", "%s",
                http_status_text(status));
}

static bool check_access(struct provider *provider, const struct provider_request *http,
                         unsigned scopes, struct provider_reply *reply)
{
    const struct token *token = tokens_find(provider->tokens, TOKEN_NOTION, request_bearer(http));
    slice version = request_header(http, SLICE("notion-version"));
    if (!token || token->is_expired) {
        notion_error_plain(provider, reply, 401);
        return false;
    }
    if (!version.len)
        return notion_fail(reply, &provider->rng, 400, "missing_version",
                           "Notion-Version header failed validation: Notion-Version header should "
                           "be defined, instead was `undefined`.");
    if (!slice_eq(version, SLICE(NOTION_VERSION)))
        return notion_fail(reply, &provider->rng, 400, "validation_error",
                           "Notion-Version header failed validation: this emulator speaks "
                           "`\"" NOTION_VERSION "\"` only, instead was `\"%.*s\"`.",
                           SLICE_ARG(slice_first(version, 40)));
    if (scopes && !(token->scopes & scopes)) {
        notion_error_plain(provider, reply, 403);
        return false;
    }
    return true;
}

/* request->body is an object afterwards, or it was answered. */
static bool read_body(struct notion_request *request)
{
    static const struct json empty = {.type = JSON_OBJECT};
    const struct provider_request *http = request->http;
    struct err err = {0};
    request->body = &empty;
    if (!http->body.len)
        return true;
    const struct json *body = json_parse(http->arena, http->body, &json_limits_provider, &err);
    if (!body)
        return notion_fail(request->reply, &request->notion->provider->rng, 400, "invalid_json",
                           "Error parsing JSON body.");
    if (!json_is(body, JSON_OBJECT))
        return notion_invalid(request,
                              "body failed validation: body should be an object, instead "
                              "was `%s`.",
                              json_type_name(body));
    request->body = body;
    return true;
}

void notion_handle(struct provider *provider, const struct provider_request *http,
                   struct provider_reply *reply)
{
    slice params[ROUTE_PARAMS_MAX] = {{0}};
    const struct notion_route *route = NULL;
    notion_evict(provider->notion);
    for (size_t i = 0; i < ARRAY_LEN(routes) && !route; i++)
        if (routes[i].method == http->method &&
            route_match(routes[i].pattern, http->segments, http->segment_count, params))
            route = &routes[i];
    if (!route) {
        notion_fail(reply, &provider->rng, 400, "invalid_request_url", "Invalid request URL.");
        return;
    }
    if (!check_access(provider, http, route->scopes, reply))
        return;
    struct notion_request request = {.notion = provider->notion,
                                     .http = http,
                                     .reply = reply,
                                     .id = params[0],
                                     .id2 = params[1]};
    if (read_body(&request))
        route->run(&request);
}
