/* catalog/unknown: what an unknown id most likely means, by spelling or by meaning. */
#include <stdlib.h>

#include "catalog/search.h"
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
                     catalog_nearest_action(app, slice_cstr(cases[i].asked), NULL),
                     cases[i].wanted);
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
                     catalog_nearest_tool(b->catalog, slice_cstr(tools[i].asked), NULL),
                     tools[i].wanted);
    for (size_t i = 0; i < ARRAY_LEN(apps); i++)
        bad += check("", apps[i].asked,
                     catalog_nearest_integration(b->catalog, slice_cstr(apps[i].asked)),
                     apps[i].wanted);
    assert_int_equal(bad, 0);
}

static void mark(const struct bench *b, const char *tool, bool *unlisted)
{
    const struct catalog_action *action = catalog_find_tool(b->catalog, slice_cstr(tool));
    assert_non_null(action);
    unlisted[catalog_doc(action)] = true;
}

/* Neither by its spelling nor by its meaning; what is next best is named instead. */
static void what_is_not_listed_is_not_named(void **state)
{
    struct bench *b = *state;
    size_t bad = 0, count = catalog_doc_count(b->catalog);
    bool *unlisted = calloc(count, sizeof(*unlisted));
    assert_non_null(unlisted);
    assert_int_equal(catalog_open_heads(b->catalog), OK);
    mark(b, "gmail_send_message", unlisted);
    mark(b, "slack_post_message", unlisted);
    const struct catalog_integration *gmail =
        catalog_find_integration(b->catalog, SLICE("gmail"), NULL);
    const char *const asked[] = {"send_mesage", "SendMessage", "gmail_send_message", "send_email",
                                 "send_message"};
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        slice got = catalog_nearest_action(gmail, slice_cstr(asked[i]), unlisted);
        bad += slice_eq_cstr(got, "send_message");
    }
    const char *const tools[] = {"gmail_send_mesage", "slack_send_message", "slack_post_message"};
    for (size_t i = 0; i < ARRAY_LEN(tools); i++) {
        slice got = catalog_nearest_tool(b->catalog, slice_cstr(tools[i]), unlisted);
        bad += slice_eq_cstr(got, "gmail_send_message") || slice_eq_cstr(got, "slack_post_message");
    }
    bad += check("gmail", "list_label",
                 catalog_nearest_action(gmail, SLICE("list_label"), unlisted), "list_labels");
    bad += check("", "google_calendar_add_event",
                 catalog_nearest_tool(b->catalog, SLICE("google_calendar_add_event"), unlisted),
                 "google_calendar_create_event");
    assert_int_equal(bad, 0);
    free(unlisted);
}

/* The numbers of actions in the search index are those of its documents. */
static void each_action_has_its_document(void **state)
{
    struct bench *b = *state;
    struct arena arena;
    struct catalog_hit *hits;
    size_t count, next = 0;
    arena_init(&arena, 64 * 1024 * 1024);
    assert_int_equal(catalog_open_heads(b->catalog), OK);
    for (size_t i = 0; i < b->catalog->integration_count; i++) {
        const struct catalog_integration *app = b->catalog->integrations[i];
        next++;
        for (size_t k = 0; k < app->action_count; k++)
            assert_int_equal(catalog_doc(&app->actions[k]), next++);
    }
    assert_int_equal(next, catalog_doc_count(b->catalog));
    bool *unlisted = ARENA_ARRAY(&arena, bool, next);
    assert_non_null(unlisted);
    struct search_request request = {.query = SLICE("send a mail"),
                                     .with_actions = true,
                                     .limit = 5,
                                     .keeps_all = true,
                                     .unlisted = unlisted};
    assert_int_equal(catalog_search(b->catalog, &arena, &request, &hits, &count), OK);
    const struct catalog_action *best = hits[0].action;
    unlisted[catalog_doc(best)] = true;
    request.limit = next;
    assert_int_equal(catalog_search(b->catalog, &arena, &request, &hits, &count), OK);
    assert_int_equal(count, b->catalog->action_count - 1);
    for (size_t i = 0; i < count; i++)
        assert_ptr_not_equal(hits[i].action, best);
    arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CATALOG_TEST(an_action_is_known_by_what_it_does),
        CATALOG_TEST(a_tool_and_an_app_too),
        CATALOG_TEST(what_is_not_listed_is_not_named),
        CATALOG_TEST(each_action_has_its_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
