/*
 * Router: a static table of method and path pattern, compiled once, matched segment by segment on
 * the percent-decoded path. There are no regular expressions. A literal segment takes precedence
 * over a {param}, whatever the method: with POST /flows/start and GET /flows/{id}, GET /flows/start
 * is a wrong method.
 */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H

#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"
#include "http/message.h"

enum {
    /* maximum number of segments of a pattern, and of a path that can match one */
    HTTP_SEGMENTS_MAX = 16,
    HTTP_ROUTE_PARAMS_MAX = 4,
    HTTP_ALLOW_TEXT_MAX = 64,
};

struct http_route {
    enum http_method method;
    const char *pattern; /* "/api/actions/{integration_id}/{action_id}"; constant text */
    const void *data;    /* the table's own */
};

struct http_router;

/* routes are borrowed for the router's life. Returns NULL on failure; err names the malformed or
 * duplicate pattern. */
struct http_router *http_router_new(const struct http_route *routes, size_t count,
                                    struct err *err) MUST_CHECK;
void http_router_free(struct http_router *router);

enum http_match { HTTP_MATCH_FOUND, HTTP_MATCH_NO_PATH, HTTP_MATCH_NO_METHOD };

struct http_route_match {
    const struct http_route *route;
    size_t param_count;
    slice params[HTTP_ROUTE_PARAMS_MAX]; /* in the pattern's order; borrowed from segments */
    char allow[HTTP_ALLOW_TEXT_MAX];     /* with NO_METHOD: "GET, HEAD, POST" */
};

/* A GET route answers HEAD if there is no HEAD route. An empty segment matches nothing, so "/a//b"
 * and "/a/" are not "/a/b" and "/a". A parameter is UTF-8: no endpoint has an id with other bytes,
 * and a statement with them would fail, together with all others of its batch. */
enum http_match http_router_match(const struct http_router *router, enum http_method method,
                                  const slice *segments, size_t segment_count,
                                  struct http_route_match *match);

#endif
