/*
 * Allows browser pages to call /mcp (WHATWG Fetch, "CORS protocol"): pages of public-url's origin,
 * and of the origins that an operator allows. A browser first sends a preflight without the key, so
 * the preflight is answered before the key is checked. A browser withholds every reply, even a
 * refusal, that does not contain the page's origin.
 */
#include "api/request.h"
#include "http/url.h"

enum { FIELDS = 3 };

/* Origins are compared as scheme, host and port, since the text may omit a default port. */
static bool is_origin(slice origin, slice allowed)
{
    struct url url;
    char text[URL_ORIGIN_MAX + 1], wanted[URL_ORIGIN_MAX + 1];
    if (url_parse(origin, &url, NULL) != OK)
        return false;
    slice of_request = url_origin(&url, text);
    return url_parse(allowed, &url, NULL) == OK && slice_eq(of_request, url_origin(&url, wanted));
}

static bool is_allowed(const struct api *api, slice origin)
{
    const struct api_config *config = &api->config;
    if (is_origin(origin, slice_cstr(api->public_url)))
        return true;
    for (size_t i = 0; i < config->mcp_origin_count; i++)
        if (is_origin(origin, config->mcp_origins[i]))
            return true;
    return false;
}

bool api_origin_is_foreign(const struct api_request *request)
{
    slice origin = http_request_header(request->serve.exchange, SLICE("Origin"));
    return origin.ptr && !is_allowed(request->api, origin);
}

void api_origin_begin(struct api_request *request)
{
    struct http_exchange *exchange = request->serve.exchange;
    slice origin = http_request_header(exchange, SLICE("Origin"));
    if (!origin.ptr || !is_allowed(request->api, origin))
        return;
    struct http_header *fields = ARENA_ARRAY(&exchange->arena, struct http_header, FIELDS);
    if (!fields)
        return; /* the browser refuses the reply without these fields */
    fields[0] = (struct http_header){SLICE("Access-Control-Allow-Origin"), origin};
    fields[1] = (struct http_header){SLICE("Vary"), SLICE("Origin")};
    fields[2] = (struct http_header){
        SLICE("Access-Control-Expose-Headers"),
        SLICE("WWW-Authenticate, Retry-After, X-Request-Id, Idempotent-Replayed")};
    exchange->common = fields;
    exchange->common_count = FIELDS;
}

bool api_origin_reply_preflight(struct api_request *request)
{
    const struct http_exchange *exchange = request->serve.exchange;
    slice names = http_request_header(exchange, SLICE("Access-Control-Request-Headers"));
    if (exchange->common_count == 0 || exchange->head.method != HTTP_METHOD_OPTIONS ||
        !http_request_header(exchange, SLICE("Access-Control-Request-Method")).ptr)
        return false;
    /* An allowed page may send any header: no header grants more than the key does. */
    serve_header(&request->serve, "Access-Control-Allow-Methods", SLICE("POST"));
    if (names.len > 0)
        serve_header(&request->serve, "Access-Control-Allow-Headers", names);
    serve_header(&request->serve, "Access-Control-Max-Age", SLICE("7200")); /* Chromium's maximum */
    request->serve.is_answered = true;
    http_reply(request->serve.exchange, 204, request->serve.headers, request->serve.header_count,
               SLICE_NONE);
    return true;
}
