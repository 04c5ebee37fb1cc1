/*
 * openapi.json and the table of routes: each contains everything that is in the other, and both
 * agree on keys and bodies. A new route must be in src/api/openapi.json, with a request to it in
 * tests/e2e/openapi.test.mjs.
 */
#include "api/request.h"
#include "base/embed.h"
#include "mcp/mcp.h"
#include "unit.h"

static struct arena arena;
static const struct json *document;

static int setup(void **state)
{
    struct err err;
    (void)state;
    arena_init(&arena, 16 * 1024 * 1024);
    assert_int_equal(embed_openapi_count, 1);
    document = json_parse(&arena,
                          slice_of((const char *)embed_openapi[0].data, embed_openapi[0].len),
                          &json_limits_request, &err);
    assert_non_null(document);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_deinit(&arena);
    return unit_end();
}

/* The routes of api, and those of mcp, which registers them there. */
static const struct http_route *all_routes(size_t *count)
{
    static struct http_route all[100];
    size_t own, more;
    const struct http_route *first = api_routes(&own), *then = mcp_routes(&more);
    assert_true(own + more <= ARRAY_LEN(all));
    memcpy(all, first, own * sizeof(*all));
    memcpy(all + own, then, more * sizeof(*all));
    *count = own + more;
    return all;
}

/* "get": methods as OpenAPI spells them. */
static const char *method_key(enum http_method method)
{
    switch (method) {
    case HTTP_METHOD_GET:
        return "get";
    case HTTP_METHOD_POST:
        return "post";
    case HTTP_METHOD_PUT:
        return "put";
    case HTTP_METHOD_PATCH:
        return "patch";
    case HTTP_METHOD_DELETE:
        return "delete";
    default:
        fail_msg("a route with a method that openapi.json cannot describe");
        return "";
    }
}

static const struct json *operation_of(const struct http_route *route)
{
    const struct json *path = json_get(JSON_GET(document, "paths"), slice_cstr(route->pattern));
    return json_get(path, slice_cstr(method_key(route->method)));
}

static void every_route_is_in_the_document(void **state)
{
    size_t count;
    const struct http_route *routes = all_routes(&count);
    (void)state;
    for (size_t i = 0; i < count; i++)
        if (!operation_of(&routes[i]))
            fail_msg("src/api/openapi.json lacks %s %s: add it, and a request to "
                     "tests/e2e/openapi.test.mjs",
                     method_key(routes[i].method), routes[i].pattern);
}

static bool is_routed(slice path, slice method)
{
    size_t count;
    const struct http_route *routes = all_routes(&count);
    for (size_t i = 0; i < count; i++)
        if (slice_eq_cstr(path, routes[i].pattern) &&
            slice_eq_cstr(method, method_key(routes[i].method)))
            return true;
    return false;
}

static void every_operation_has_its_route(void **state)
{
    const struct json *paths = JSON_GET(document, "paths");
    (void)state;
    for (uint32_t i = 0; i < paths->count; i++) {
        slice path = json_str(&paths->as.members[i].key);
        const struct json *item = &paths->as.members[i].value;
        for (uint32_t k = 0; k < item->count; k++) {
            slice method = json_str(&item->as.members[k].key);
            if (!is_routed(path, method))
                fail_msg("no route for openapi.json's %.*s %.*s", SLICE_ARG(method),
                         SLICE_ARG(path));
        }
    }
}

/* Returns the scope that an operation needs, or SLICE_NONE if it is public, or if the scope depends
 * on the request. */
static slice scope_of(const struct json *operation)
{
    const struct json *security = JSON_GET(operation, "security");
    const struct json *scope = JSON_GET(operation, "x-scope");
    assert_true(json_is(security, JSON_ARRAY));
    if (security->count == 0) {
        assert_null(scope);
        return SLICE_NONE;
    }
    assert_true(json_is(JSON_GET(&security->as.items[0], "apiKey"), JSON_ARRAY));
    return json_str(scope);
}

static void keys_and_bodies_are_said_as_they_are(void **state)
{
    size_t count;
    const struct http_route *routes = all_routes(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        const struct api_endpoint *endpoint = routes[i].data;
        const struct json *operation = operation_of(&routes[i]);
        assert_non_null(operation);
        slice scope = scope_of(operation);
        if (endpoint->scope == 0)
            assert_null(scope.ptr);
        else if (!slice_eq_cstr(scope, scope_name((enum api_key_scope)endpoint->scope)))
            fail_msg("%s: the scope in openapi.json differs", routes[i].pattern);
        const struct json *body = JSON_GET(operation, "requestBody");
        if ((endpoint->body == API_BODY_NONE) != !body)
            fail_msg("%s: openapi.json and the route disagree on a body", routes[i].pattern);
        if (json_get_bool(body, SLICE("required"), false) != (endpoint->body >= API_BODY_REQUIRED))
            fail_msg("%s: openapi.json and the route disagree on a body being required",
                     routes[i].pattern);
    }
}

/* The target of a $ref, or the value itself. */
static const struct json *deref(const struct json *value)
{
    slice ref = json_get_str(value, SLICE("$ref"));
    return ref.len > 0 ? json_pointer(document, slice_from(ref, 1)) : value;
}

/* Checks that a name in the document is also in the endpoint's table. */
static void expect_name(const struct http_route *route, const struct api_names *names, slice name)
{
    if (!api_names_has(names, name))
        fail_msg("%s: openapi.json knows \"%.*s\", the endpoint's table does not", route->pattern,
                 SLICE_ARG(name));
}

static size_t count_names(const struct api_names *names)
{
    size_t count = 0;
    while (names && count < API_NAMES_MAX && names->own[count])
        count++;
    return count;
}

static void expect_count(const struct http_route *route, const struct api_names *names,
                         size_t count)
{
    if (count_names(names) != count)
        fail_msg("%s: the endpoint's table has %zu names, openapi.json %zu", route->pattern,
                 count_names(names), count);
}

static void query_parameters_are_those_of_the_tables(void **state)
{
    size_t count;
    const struct http_route *routes = all_routes(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        const struct api_endpoint *endpoint = routes[i].data;
        const struct json *list = JSON_GET(operation_of(&routes[i]), "parameters"), *one;
        size_t found = 0;
        for (uint32_t k = 0; list && k < list->count; k++) {
            one = deref(&list->as.items[k]);
            if (!slice_eq_cstr(json_get_str(one, SLICE("in")), "query"))
                continue;
            expect_name(&routes[i], endpoint->query, json_get_str(one, SLICE("name")));
            found++;
        }
        expect_count(&routes[i], endpoint->query, found);
    }
}

static void members_of_bodies_are_those_of_the_tables(void **state)
{
    size_t count;
    const struct http_route *routes = all_routes(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        const struct api_endpoint *endpoint = routes[i].data;
        const struct json *body = deref(JSON_GET(operation_of(&routes[i]), "requestBody"));
        const struct json *media = json_get(JSON_GET(body, "content"), SLICE("application/json"));
        const struct json *members = JSON_GET(deref(JSON_GET(media, "schema")), "properties");
        for (uint32_t k = 0; members && k < members->count; k++)
            expect_name(&routes[i], endpoint->members, json_str(&members->as.members[k].key));
        expect_count(&routes[i], endpoint->members, members ? members->count : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_is_in_the_document),
        cmocka_unit_test(every_operation_has_its_route),
        cmocka_unit_test(keys_and_bodies_are_said_as_they_are),
        cmocka_unit_test(query_parameters_are_those_of_the_tables),
        cmocka_unit_test(members_of_bodies_are_those_of_the_tables),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
