/* http/router: literals before parameters, 404 or 405 with Allow, HEAD, bad tables. */
#include "http/router.h"
#include "unit.h"

static const struct http_route routes[] = {
    {HTTP_METHOD_GET, "/", "root"},
    {HTTP_METHOD_GET, "/api/flows/{id}", "flow"},
    {HTTP_METHOD_GET, "/api/flows/templates", "templates"},
    {HTTP_METHOD_GET, "/api/flows", "flows"},
    {HTTP_METHOD_POST, "/api/flows/start", "start"},
    {HTTP_METHOD_GET, "/api/flows/templates/{key}", "template"},
    {HTTP_METHOD_POST, "/api/flows/{id}/approve", "approve"},
    {HTTP_METHOD_POST, "/api/executions", "execute"},
    {HTTP_METHOD_GET, "/api/executions/{id}", "execution"},
    {HTTP_METHOD_DELETE, "/api/executions/{id}", "forget"},
    {HTTP_METHOD_GET, "/api/actions/{integration}/{action}", "action"},
    {HTTP_METHOD_HEAD, "/probe", "probe"},
    {HTTP_METHOD_GET, "/probe", "get probe"},
};

/* Matches a path as text. */
static enum http_match match(const struct http_router *router, enum http_method method,
                             const char *path, struct http_route_match *found)
{
    slice segments[HTTP_SEGMENTS_MAX + 1], rest = slice_cstr(path + 1);
    size_t count = 0;
    for (bool is_last = rest.len == 0; !is_last && count <= HTTP_SEGMENTS_MAX;) {
        segments[count++] = slice_split(&rest, '/');
        is_last = rest.ptr == NULL;
    }
    return http_router_match(router, method, segments, count, found);
}

static void expect(const struct http_router *router, enum http_method method, const char *path,
                   const char *data)
{
    struct http_route_match found;
    enum http_match result = match(router, method, path, &found);
    if (result != HTTP_MATCH_FOUND || strcmp(found.route->data, data) != 0)
        fail_msg("%s: %d, not %s", path, (int)result, data);
}

static void expect_allow(const struct http_router *router, enum http_method method,
                         const char *path, const char *allow)
{
    struct http_route_match found;
    assert_int_equal(match(router, method, path, &found), HTTP_MATCH_NO_METHOD);
    assert_string_equal(found.allow, allow);
    assert_null(found.route);
}

static struct http_router *router_new(void)
{
    struct err err;
    struct http_router *router = http_router_new(routes, ARRAY_LEN(routes), &err);
    assert_non_null(router);
    return router;
}

static void paths_find_their_routes(void **state)
{
    (void)state;
    struct http_router *router = router_new();
    expect(router, HTTP_METHOD_GET, "/", "root");
    expect(router, HTTP_METHOD_GET, "/api/flows", "flows");
    expect(router, HTTP_METHOD_GET, "/api/flows/templates", "templates");
    expect(router, HTTP_METHOD_POST, "/api/flows/start", "start");
    expect(router, HTTP_METHOD_GET, "/api/flows/x", "flow");
    expect(router, HTTP_METHOD_POST, "/api/flows/x/approve", "approve");
    expect(router, HTTP_METHOD_POST, "/api/flows/start/approve", "approve");
    expect(router, HTTP_METHOD_GET, "/api/flows/templates/x", "template");
    expect(router, HTTP_METHOD_HEAD, "/api/flows", "flows");
    expect(router, HTTP_METHOD_HEAD, "/probe", "probe");
    expect(router, HTTP_METHOD_GET, "/probe", "get probe");
    struct http_route_match found;
    assert_int_equal(match(router, HTTP_METHOD_GET, "/api/actions/gmail/send", &found),
                     HTTP_MATCH_FOUND);
    assert_int_equal(found.param_count, 2);
    assert_true(slice_eq_cstr(found.params[0], "gmail"));
    assert_true(slice_eq_cstr(found.params[1], "send"));
    http_router_free(router);
}

static void unknown_paths_and_wrong_methods_differ(void **state)
{
    (void)state;
    static const char *const unknown[] = {
        "/x",
        "/api",
        "/api/",
        "/api/flows/",
        "//",
        "/api//flows",
        "/API/flows",
        "/api/flows/x/",
        "/api/flows//approve",
        "/api/flow",
        "/api/flowsx",
        "/api/actions/a",
        "/api/actions/a/\xff",
        "/api/actions/\xc3/b",
        "/api/actions/a/b/c",
        "/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a",
    };
    struct http_router *router = router_new();
    struct http_route_match found;
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++)
        if (match(router, HTTP_METHOD_GET, unknown[i], &found) != HTTP_MATCH_NO_PATH)
            fail_msg("%s is a path", unknown[i]);
    expect_allow(router, HTTP_METHOD_GET, "/api/executions", "POST");
    expect_allow(router, HTTP_METHOD_POST, "/api/executions/x", "GET, HEAD, DELETE");
    expect_allow(router, HTTP_METHOD_HEAD, "/api/executions", "POST");
    expect_allow(router, HTTP_METHOD_DELETE, "/api/flows/start", "POST");
    expect_allow(router, HTTP_METHOD_GET, "/api/flows/start", "POST"); /* no flow "start" */
    expect_allow(router, HTTP_METHOD_HEAD, "/api/flows/start", "POST");
    expect_allow(router, HTTP_METHOD_POST, "/api/flows/templates", "GET, HEAD");
    expect_allow(router, HTTP_METHOD_POST, "/api/flows/templates/approve", "GET, HEAD");
    expect_allow(router, HTTP_METHOD_OPTIONS, "/", "GET, HEAD");
    http_router_free(router);
}

static void bad_tables_are_named(void **state)
{
    (void)state;
    static const struct {
        struct http_route routes[2];
        size_t count;
        const char *text;
    } bad[] = {
        {{{HTTP_METHOD_GET, "x", NULL}}, 1, "a path from /"},
        {{{HTTP_METHOD_OTHER, "/x", NULL}}, 1, "needs a method"},
        {{{HTTP_METHOD_GET, "/x//y", NULL}}, 1, "empty segment"},
        {{{HTTP_METHOD_GET, "/x/", NULL}}, 1, "empty segment"},
        {{{HTTP_METHOD_GET, "/x{y}", NULL}}, 1, "whole segment"},
        {{{HTTP_METHOD_GET, "/{}", NULL}}, 1, "whole segment"},
        {{{HTTP_METHOD_GET, "/{a}/{b}/{c}/{d}/{e}", NULL}}, 1, "too many parameters"},
        {{{HTTP_METHOD_GET, "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q", NULL}}, 1, "segments"},
        {{{HTTP_METHOD_GET, "/x/{a}", NULL}, {HTTP_METHOD_GET, "/x/{b}", NULL}}, 2, "twice"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err err = {0};
        assert_null(http_router_new(bad[i].routes, bad[i].count, &err));
        if (!strstr(err.text, bad[i].text))
            fail_msg("\"%s\" does not say \"%s\"", err.text, bad[i].text);
    }
    struct err err = {0};
    mem_fail_at(1, 1);
    assert_null(http_router_new(routes, ARRAY_LEN(routes), &err));
    mem_fail_at(0, 0);
    assert_int_equal(err.code, ERR_NOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_find_their_routes),
        cmocka_unit_test(unknown_paths_and_wrong_methods_differ),
        cmocka_unit_test(bad_tables_are_named),
    };
    return unit_result(cmocka_run_group_tests_name("http/router", tests, NULL, NULL));
}
