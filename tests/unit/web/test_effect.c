/* The names of calls, and the domains that an operator may name as the organisation's own. */
#include "unit.h"
#include "web/effect.h"

static void test_verbs(void **state)
{
    static const struct {
        const char *tool, *verb, *icon;
        bool is_final;
    } cases[] = {
        {"notion_create_page", "create", "plus", false},
        {"notion_update_page", "change", "edit", false},
        {"gmail_send_message", "send", "send", true},
        {"gmail_reply_to_message", "send", "send", true},
        {"google_drive_share_file", "admin", "send", false},
        {"gmail_delete_message", "delete", "x", true},
        {"gmail_trash_message", "change", "edit", false},
        {"gmail_get_message", "read", "edit", false},
        {"github_merge_pull_request", "write", "edit", true},
    };
    (void)state;
    struct catalog_report *report = catalog_report_new(NULL);
    struct catalog *catalog = catalog_load_all(NULL, report);
    assert_non_null(catalog);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct catalog_action *action = catalog_find_tool(catalog, slice_cstr(cases[i].tool));
        assert_non_null(action);
        if (!slice_eq_cstr(effect_verb(action), cases[i].verb) ||
            !slice_eq_cstr(effect_icon(action), cases[i].icon) ||
            effect_is_final(action) != cases[i].is_final)
            fail_msg("%s is %.*s with %.*s, %s", cases[i].tool, SLICE_ARG(effect_verb(action)),
                     SLICE_ARG(effect_icon(action)), effect_is_final(action) ? "for good" : "not");
    }
    /* An app that has been removed from the catalog. */
    assert_null(effect_verb(NULL).ptr);
    assert_false(effect_is_final(NULL));
    catalog_unref(catalog);
    catalog_report_free(report);
}

static void test_home_domains(void **state)
{
    const slice good[] = {SLICE("Example.COM"), SLICE("bücher.example."), SLICE("a.b.c")};
    const slice bad[] = {SLICE("@example.com"), SLICE("com"), SLICE("exa mple.com"),
                         SLICE("*.example.com"), SLICE("")};
    slice out[ARRAY_LEN(good)];
    struct arena arena;
    struct err err;
    (void)state;
    arena_init(&arena, 64 * 1024);
    assert_int_equal(effect_read_homes(good, ARRAY_LEN(good), out, &arena, &err), OK);
    assert_true(slice_eq_cstr(out[0], "example.com"));
    assert_true(slice_eq_cstr(out[1], "xn--bcher-kva.example"));
    assert_true(slice_eq_cstr(out[2], "a.b.c"));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(effect_read_homes(&bad[i], 1, out, &arena, &err), ERR_INVALID);
        assert_non_null(strstr(err.text, "is not a domain name"));
    }
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(test_verbs),
        UNIT_TEST(test_home_domains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
