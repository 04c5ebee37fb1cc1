/*
 * The same look at the path decides each time, so nothing needs to be kept.
 */
#include "cmd/front.h"

static enum http_body_wanted on_head(struct http_exchange *exchange, void *ctx)
{
    const struct front *front = ctx;
    return web_has_path(front->web, exchange) ? web_handler.on_head(exchange, front->web)
                                              : api_handler.on_head(exchange, front->api);
}

static void on_request(struct http_exchange *exchange, void *ctx)
{
    const struct front *front = ctx;
    if (web_has_path(front->web, exchange))
        web_handler.on_request(exchange, front->web);
    else
        api_handler.on_request(exchange, front->api);
}

static void on_finished(struct http_exchange *exchange, void *ctx)
{
    const struct front *front = ctx;
    if (exchange->user && web_has_path(front->web, exchange))
        web_handler.on_finished(exchange, front->web);
    else
        api_handler.on_finished(exchange, front->api);
}

const struct http_handler front_handler = {on_head, on_request, on_finished};
