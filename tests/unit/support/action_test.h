/*
 * A small catalog of one integration for the tests of calls.
 */
#ifndef ACTION_TEST_H
#define ACTION_TEST_H

#include "support/catalog_test.h"

/* The integration gets `auth` and `more` (further members, each preceded by a comma). Its only
 * action, demo_act, gets `request` and `rest`, and accepts any input. */
static inline const struct catalog_action *bench_action(struct bench *b, const char *auth,
                                                        const char *more, const char *level,
                                                        const char *request, const char *rest)
{
    char text[8192];
    bench_forget(b);
    catalog_unref(b->catalog);
    (void)snprintf(text, sizeof(text),
                   "{\"integration_id\":\"demo\",\"name\":\"Demo\",\"description\":\"d\","
                   "\"category\":\"c\",\"base_url\":\"https://${connection.params.host}\","
                   "\"connection_params\":{\"type\":\"object\",\"properties\":{\"host\":{\"type\":"
                   "\"string\"}}},\"auth\":%s%s,\"actions\":[{\"action_id\":\"act\",\"title\":"
                   "\"Act\",\"description\":\"d\",\"side_effect_level\":\"%s\",\"input_schema\":{"
                   "\"type\":\"object\"},\"request\":%s,\"display\":{\"title\":\"Done\","
                   "\"summary\":\"status ${status}\"}%s}]}",
                   auth, more, level, request, rest);
    struct catalog_source source = {SLICE("demo"), slice_cstr(text)};
    b->catalog = catalog_load(&source, 1, &b->report);
    for (size_t i = 0; i < b->report.count; i++)
        if (!b->report.problems[i].is_warning)
            print_error("%.*s: %.*s\n", SLICE_ARG(b->report.problems[i].pointer),
                        SLICE_ARG(b->report.problems[i].text));
    assert_non_null(b->catalog);
    return catalog_find_tool(b->catalog, SLICE("demo_act"));
}

static inline const struct json *bench_json(struct bench *b, const char *text)
{
    const struct json *value =
        json_parse(&b->arena, slice_cstr(text), &json_limits_provider, &b->err);
    assert_non_null(value);
    return value;
}

#endif
