/*
 * Routes of the emulated apps: a pattern of segments, "*" for a parameter, matched one by one.
 */
#ifndef PROVIDER_ROUTE_H
#define PROVIDER_ROUTE_H

#include <stdbool.h>

#include "http/message.h"

enum { ROUTE_PARAMS_MAX = 4 };

/* For tables of routes. */
enum {
    GET = HTTP_METHOD_GET,
    POST = HTTP_METHOD_POST,
    PUT = HTTP_METHOD_PUT,
    PATCH = HTTP_METHOD_PATCH,
    DELETE = HTTP_METHOD_DELETE,
};

/* Whether segments match a pattern such as messages, star, modify with a slash between; params gets
 * what the stars stand for. A parameter is never empty. */
bool route_match(const char *pattern, const slice *segments, size_t count,
                 slice params[ROUTE_PARAMS_MAX]);

#endif
