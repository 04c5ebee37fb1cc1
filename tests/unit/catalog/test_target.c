/*
 * Where a call writes: which places have the app's name, and that no place gets the name of another
 * member of the input.
 */
#include "catalog/target.h"
#include "unit.h"

/* expected: each place as "label=id", with " (name)" or " unread", and a space between two. */
static void assert_target(const struct catalog *catalog, const char *tool, const char *input,
                          const char *shows, const char *expected)
{
    struct arena arena;
    char text[512] = "";
    size_t len = 0;
    const struct catalog_action *action = catalog_find_tool(catalog, slice_cstr(tool));
    arena_init(&arena, 1024 * 1024);
    assert_non_null(action);
    const struct json *value = json_parse(&arena, slice_cstr(input), &json_limits_provider, NULL);
    const struct json *names =
        shows ? json_parse(&arena, slice_cstr(shows), &json_limits_provider, NULL) : NULL;
    assert_non_null(value);
    struct json list = target_of(action, value, names, &arena);
    for (uint32_t i = 0; i < list.count; i++) {
        const struct json *one = &list.as.items[i];
        slice name = json_get_str(one, SLICE("name"));
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.*s=%.*s", i > 0 ? " " : "",
                                SLICE_ARG(json_get_str(one, SLICE("label"))),
                                SLICE_ARG(json_get_str(one, SLICE("id"))));
        if (name.len > 0)
            len += (size_t)snprintf(text + len, sizeof(text) - len, " (%.*s)", SLICE_ARG(name));
        if (json_get_bool(one, SLICE("unread"), false))
            len += (size_t)snprintf(text + len, sizeof(text) - len, " unread");
    }
    assert_string_equal(text, expected);
    arena_deinit(&arena);
}

static void test_places(void **state)
{
    (void)state;
    struct catalog_report *report = catalog_report_new(NULL);
    struct catalog *catalog = catalog_load_all(NULL, report);
    assert_non_null(catalog);
    assert_target(catalog, "notion_update_page", "{\"page_id\":\"p1\"}", "{\"page_id\":\"Plan\"}",
                  "Page=p1 (Plan)");
    assert_target(catalog, "notion_update_page", "{\"page_id\":\"p1\"}", NULL, "Page=p1 unread");
    assert_target(catalog, "notion_create_page", "{\"parent\":{\"page_id\":\"p1\"}}",
                  "{\"parent.page_id\":\"Plan\"}", "Under the page=p1 (Plan)");
    assert_target(catalog, "github_create_issue_comment",
                  "{\"owner\":\"o\",\"repo\":\"r\",\"issue_number\":1}", NULL, "Repository=o/r");
    /* The title of an issue is chosen by its author: it never becomes the name of the project. */
    assert_target(catalog, "gitlab_update_issue", "{\"id\":\"42\",\"issue_iid\":42}",
                  "{\"issue_iid\":\"Our most important project\"}", "Project=42");
    assert_target(catalog, "gitlab_update_issue", "{\"id\":\"42\",\"issue_iid\":42}", NULL,
                  "Project=42");
    assert_target(catalog, "notion_update_page", "{}", NULL, "Page=(not named in the input)");
    /* a channel that is given by its name has no other */
    assert_target(catalog, "slack_post_message", "{\"channel\":\"C1\"}", NULL, "Channel=C1 unread");
    assert_target(catalog, "slack_post_message", "{\"channel\":\"#general\"}", NULL,
                  "Channel=#general");
    assert_target(catalog, "gmail_send_message", "{\"to\":\"a@x.example\"}", NULL, "");
    catalog_unref(catalog);
    catalog_report_free(report);
}

static void assert_unread(const struct catalog *catalog, const char *input, const char *shows,
                          const char *expected)
{
    struct arena arena;
    const struct catalog_action *action =
        catalog_find_tool(catalog, SLICE("gmail_reply_to_message"));
    arena_init(&arena, 64 * 1024);
    assert_non_null(action);
    const struct json *names =
        shows ? json_parse(&arena, slice_cstr(shows), &json_limits_provider, NULL) : NULL;
    struct json list = target_unread(
        action, json_parse(&arena, slice_cstr(input), &json_limits_provider, NULL), names, &arena);
    assert_true(slice_eq_cstr(json_text_of(&list, &arena, 1024), expected));
    arena_deinit(&arena);
}

static void test_unread(void **state)
{
    (void)state;
    struct catalog_report *report = catalog_report_new(NULL);
    struct catalog *catalog = catalog_load_all(NULL, report);
    assert_non_null(catalog);
    assert_unread(catalog, "{\"id\":\"m1\"}", NULL, "[\"id\"]");
    assert_unread(catalog, "{\"id\":\"m1\"}", "{\"to\":\"Ada\"}", "[\"id\"]");
    assert_unread(catalog, "{\"id\":\"m1\"}", "{\"id\":\"Goes to Ada\"}", "[]");
    assert_unread(catalog, "{\"threadId\":\"t1\"}", NULL, "[]");
    catalog_unref(catalog);
    catalog_report_free(report);
}

/* A value that is too long to show is still there. */
static void test_long_value(void **state)
{
    static char input[64 * 1024];
    (void)state;
    struct catalog_report *report = catalog_report_new(NULL);
    struct catalog *catalog = catalog_load_all(NULL, report);
    assert_non_null(catalog);
    (void)snprintf(input, sizeof(input), "{\"page_id\":[\"%0*d\"]}", 40000, 0);
    assert_target(catalog, "notion_update_page", input, NULL, "Page=(too long to show) unread");
    catalog_unref(catalog);
    catalog_report_free(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {UNIT_TEST(test_places), UNIT_TEST(test_unread),
                                       UNIT_TEST(test_long_value)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
