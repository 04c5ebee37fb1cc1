/* catalog/unknown: what an unknown id most likely means, by spelling or by meaning. */
#include "support/catalog_test.h"

static size_t check(const char *app, const char *asked, slice got, const char *wanted)
{
    if (slice_eq(got, slice_cstr(wanted)))
        return 0;
    print_error("%s/%s is understood as %.*s, not %s\n", app, asked, SLICE_ARG(got), wanted);
    return 1;
}

static void an_action_is_known_by_what_it_does(void **state)
{
    static const struct {
        const char *app, *asked, *wanted;
    } cases[] = {
        {"slack", "send_message", "post_message"},
        {"slack", "slack_send_message", "post_message"},
        {"slack", "sendMessage", "post_message"},
        {"jira", "create_ticket", "create_issue"},
        {"github", "new_pr", "create_pull_request"},
        {"trello", "add_task", "create_card"},
        {"google_calendar", "add_event", "create_event"},
        {"gmail", "search_emails", "search_messages"},
        {"gmail", "send_email", "send_message"},
        {"twilio", "send_sms", "send_message"},
        {"notion", "add_page", "create_page"},
        {"stripe", "refund_payment", "create_refund"},
        /* mistyped */
        {"gmail", "send_mesage", "send_message"},
        {"gmail", "SendMessage", "send_message"},
        {"gmail", "list_label", "list_labels"},
        {"gmail", "gmail_get_treads", "get_thread"},
        /* neither */
        {"gmail", "qqqqqqqq", ""},
        {"gmail", "", ""},
    };
    struct bench *b = *state;
    size_t bad = 0;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct catalog_integration *app =
            catalog_find_integration(b->catalog, slice_cstr(cases[i].app), NULL);
        assert_non_null(app);
        bad += check(cases[i].app, cases[i].asked,
                     catalog_nearest_action(app, slice_cstr(cases[i].asked)), cases[i].wanted);
    }
    assert_int_equal(bad, 0);
}

static void a_tool_and_an_app_too(void **state)
{
    static const struct {
        const char *asked, *wanted;
    } tools[] = {{"slack_send_message", "slack_post_message"},
                 {"google_calendar_add_event", "google_calendar_create_event"},
                 {"gmail_send_mesage", "gmail_send_message"},
                 {"send_sms", "twilio_send_message"},
                 {"qqqq_qqqq", ""}},
      apps[] = {{"gmial", "gmail"},
                {"Google Calendar", "google_calendar"},
                {"google_spreadsheet", "google_sheets"},
                {"outlook", "outlook_calendar"},
                {"qqqqqqqq", ""}};
    struct bench *b = *state;
    size_t bad = 0;
    for (size_t i = 0; i < ARRAY_LEN(tools); i++)
        bad += check("", tools[i].asked,
                     catalog_nearest_tool(b->catalog, slice_cstr(tools[i].asked)), tools[i].wanted);
    for (size_t i = 0; i < ARRAY_LEN(apps); i++)
        bad += check("", apps[i].asked,
                     catalog_nearest_integration(b->catalog, slice_cstr(apps[i].asked)),
                     apps[i].wanted);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CATALOG_TEST(an_action_is_known_by_what_it_does),
        CATALOG_TEST(a_tool_and_an_app_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
