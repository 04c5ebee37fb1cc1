/*
 * front: the handler of the listeners: pages are routed to the dashboard, everything else to the
 * API. An unknown address is answered with a page for a browser, with JSON for other clients.
 */
#ifndef SERVER_FRONT_H
#define SERVER_FRONT_H

#include "api/api.h"
#include "web/web.h"

/* The ctx of front_handler; lives as long as the servers. */
struct front {
    struct api *api;
    struct web *web;
};

extern const struct http_handler front_handler;

#endif
