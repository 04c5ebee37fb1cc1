/*
 * front: the handler of the listeners. It routes pages to the dashboard and everything else to the
 * API. A browser gets a page for an unknown address, other clients get JSON.
 */
#ifndef SERVER_FRONT_H
#define SERVER_FRONT_H

#include "api/api.h"
#include "web/web.h"

/* The ctx of front_handler; must live as long as the servers. */
struct front {
    struct api *api;
    struct web *web;
};

extern const struct http_handler front_handler;

#endif
