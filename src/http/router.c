/*
 * router: compiled routes, sorted so that the first match is the right one: literals before
 * parameters, from the left. A table of some dozen routes is scanned in well under a microsecond.
 *
 * Patterns belong to the program, so compiling refuses a malformed pattern when the server starts;
 * paths come from clients and are only compared.
 */
#include "http/router.h"

#include <stdlib.h>

#include "base/mem.h"

struct compiled {
    const struct http_route *route;
    size_t segment_count, param_count;
    slice segments[HTTP_SEGMENTS_MAX]; /* ptr NULL: a parameter */
};

struct http_router {
    size_t count;
    struct compiled routes[];
};

/* ---- compiling ---- */

static bool is_param(slice segment)
{
    /* At least "{x}". */
    return segment.len >= 3 && segment.ptr[0] == '{' && segment.ptr[segment.len - 1] == '}';
}

static int compile_route(const struct http_route *route, struct compiled *out, struct err *err)
{
    slice rest = slice_cstr(route->pattern);
    out->route = route;
    if (rest.len == 0 || rest.ptr[0] != '/' || route->method == HTTP_METHOD_OTHER ||
        route->method >= HTTP_METHODS)
        return err_set(err, ERR_INVALID, "route \"%s\" needs a method and a path from /",
                       route->pattern);
    rest = slice_from(rest, 1);
    while (rest.len) {
        slice segment = slice_split(&rest, '/');
        /* If rest.ptr is set there was a slash; if nothing follows it, the pattern ends with a
         * slash. */
        if (segment.len == 0 || (rest.ptr && rest.len == 0))
            return err_set(err, ERR_INVALID, "route \"%s\" has an empty segment", route->pattern);
        if (out->segment_count == HTTP_SEGMENTS_MAX)
            return err_set(err, ERR_LIMIT, "route \"%s\" has too many segments", route->pattern);
        if (is_param(segment)) {
            if (out->param_count++ == HTTP_ROUTE_PARAMS_MAX)
                return err_set(err, ERR_LIMIT, "route \"%s\" has too many parameters",
                               route->pattern);
            segment = SLICE_NONE;
        } else if (slice_find_char(segment, '{') >= 0 || slice_find_char(segment, '}') >= 0) {
            return err_set(err, ERR_SYNTAX, "route \"%s\": a parameter is a whole segment",
                           route->pattern);
        }
        out->segments[out->segment_count++] = segment;
    }
    return OK;
}

/* Sorts by number of segments, then literal before parameter from the left, then by text and
 * method. */
static int compare(const void *left, const void *right)
{
    const struct compiled *a = left, *b = right;
    if (a->segment_count != b->segment_count)
        return a->segment_count < b->segment_count ? -1 : 1;
    for (size_t i = 0; i < a->segment_count; i++) {
        /* Two parameters are equal whatever their names, so /a/{x} and /a/{y} are found to be one
         * route. */
        if (!a->segments[i].ptr != !b->segments[i].ptr)
            return a->segments[i].ptr ? -1 : 1;
        int order = a->segments[i].ptr ? slice_cmp(a->segments[i], b->segments[i]) : 0;
        if (order)
            return order;
    }
    return (int)a->route->method - (int)b->route->method;
}

static int compile_all(struct http_router *router, const struct http_route *routes, size_t count,
                       struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        int rc = compile_route(&routes[i], &router->routes[i], err);
        if (rc != OK)
            return rc;
    }
    router->count = count;
    qsort(router->routes, count, sizeof(router->routes[0]), compare);
    /* Equal patterns are adjacent after sorting. */
    for (size_t i = 1; i < count; i++)
        if (compare(&router->routes[i - 1], &router->routes[i]) == 0)
            return err_set(err, ERR_INVALID, "route \"%s\" is in the table twice",
                           router->routes[i].route->pattern);
    return OK;
}

struct http_router *http_router_new(const struct http_route *routes, size_t count, struct err *err)
{
    ASSERT(count > 0 && count < 1000);
    struct http_router *router = mem_zalloc(sizeof(*router) + count * sizeof(router->routes[0]));
    if (!router)
        return err_null(err, ERR_NOMEM, "no memory for the routes");
    if (compile_all(router, routes, count, err) != OK) {
        mem_free(router);
        return NULL;
    }
    return router;
}

void http_router_free(struct http_router *router)
{
    mem_free(router);
}

/* ---- matching ---- */

static bool matches(const struct compiled *compiled, const slice *segments, size_t count)
{
    if (compiled->segment_count != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        /* An empty segment, from "//" or a trailing slash, is not a value for a parameter
         * either. */
        if (segments[i].len == 0)
            return false;
        slice literal = compiled->segments[i];
        if (literal.ptr ? !slice_eq(literal, segments[i]) : !slice_is_utf8(segments[i], NULL))
            return false;
    }
    return true;
}

static void take_params(const struct compiled *compiled, const slice *segments,
                        struct http_route_match *match)
{
    match->route = compiled->route;
    match->param_count = 0;
    for (size_t i = 0; i < compiled->segment_count; i++)
        if (!compiled->segments[i].ptr)
            match->params[match->param_count++] = segments[i];
}

static void write_allow(unsigned methods, char out[HTTP_ALLOW_TEXT_MAX])
{
    size_t len = 0;
    for (enum http_method method = HTTP_METHOD_GET; method < HTTP_METHODS; method++) {
        if (!(methods & (1u << method)))
            continue;
        slice text = http_method_text(method);
        /* HTTP_ALLOW_TEXT_MAX fits all methods at once. */
        ASSERT(len + text.len + 3 < HTTP_ALLOW_TEXT_MAX);
        if (len) {
            memcpy(out + len, ", ", 2);
            len += 2;
        }
        memcpy(out + len, text.ptr, text.len);
        len += text.len;
    }
    out[len] = 0;
}

/* Both routes match the same path. Returns whether they have the same pattern; otherwise one has
 * a literal where the other has a parameter. */
static bool is_same_pattern(const struct compiled *a, const struct compiled *b)
{
    for (size_t i = 0; i < a->segment_count; i++)
        if (!a->segments[i].ptr != !b->segments[i].ptr)
            return false;
    return true;
}

enum http_match http_router_match(const struct http_router *router, enum http_method method,
                                  const slice *segments, size_t segment_count,
                                  struct http_route_match *match)
{
    const struct compiled *found = NULL, *get = NULL, *first = NULL;
    unsigned methods = 0;
    match->route = NULL;
    match->param_count = 0;
    match->allow[0] = 0;
    for (size_t i = 0; i < router->count && !found; i++) {
        const struct compiled *compiled = &router->routes[i];
        if (!matches(compiled, segments, segment_count))
            continue;
        if (first && !is_same_pattern(first, compiled))
            break; /* the literal path lacks the method, and {id} does not match it */
        first = compiled;
        methods |= 1u << compiled->route->method;
        if (compiled->route->method == method)
            found = compiled;
        if (compiled->route->method == HTTP_METHOD_GET && !get)
            get = compiled;
    }
    if (!found && method == HTTP_METHOD_HEAD)
        found = get;
    if (found) {
        take_params(found, segments, match);
        return HTTP_MATCH_FOUND;
    }
    if (!methods)
        return HTTP_MATCH_NO_PATH;
    /* GET routes answer HEAD, so Allow names it (RFC 9110 10.2.1). */
    if (methods & (1u << HTTP_METHOD_GET))
        methods |= 1u << HTTP_METHOD_HEAD;
    write_allow(methods, match->allow);
    return HTTP_MATCH_NO_METHOD;
}
