/*
 * The handler before dashboard and API; see front.h. Each callback decides by the path alone, so
 * nothing is stored with the exchange.
 */
#include "server/front.h"

/* A browser gets a page for an unknown address, too. */
static bool is_for_web(const struct front *front, const struct http_exchange *exchange)
{
    if (exchange->segment_count > 0 && (slice_eq_cstr(exchange->segments[0], "api") ||
                                        slice_eq_cstr(exchange->segments[0], "mcp")))
        return false; /* most requests are for the API and need no further checks */
    if (web_has_path(front->web, exchange))
        return true;
    return exchange->head.method == HTTP_METHOD_GET && !api_has_path(front->api, exchange) &&
           slice_find(http_request_header(exchange, SLICE("Accept")), SLICE("text/html")) >= 0;
}

static enum http_body_wanted on_head(struct http_exchange *exchange, void *ctx)
{
    const struct front *front = ctx;
    return is_for_web(front, exchange) ? web_handler.on_head(exchange, front->web)
                                       : api_handler.on_head(exchange, front->api);
}

static void on_request(struct http_exchange *exchange, void *ctx)
{
    const struct front *front = ctx;
    if (is_for_web(front, exchange))
        web_handler.on_request(exchange, front->web);
    else
        api_handler.on_request(exchange, front->api);
}

static void on_finished(struct http_exchange *exchange, void *ctx)
{
    const struct front *front = ctx;
    if (exchange->is_delivered && is_for_web(front, exchange))
        web_handler.on_finished(exchange, front->web);
    else
        api_handler.on_finished(exchange, front->api);
}

/* Only the API pauses bodies; no page does. */
static void on_body_paused(struct http_exchange *exchange, void *ctx)
{
    const struct front *front = ctx;
    api_handler.on_body_paused(exchange, front->api);
}

const struct http_handler front_handler = {.on_head = on_head,
                                           .on_body_paused = on_body_paused,
                                           .on_request = on_request,
                                           .on_finished = on_finished};
