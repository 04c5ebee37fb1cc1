/*
 * The pack of the built-in manifests: it matches their sources, all of it can be opened, each part
 * opens in a short time, and a part that failed for lack of memory can be opened later.
 */
#include "base/clock.h"
#include "base/embed.h"
#include "catalog/pack.h"
#include "support/slowness.h"
#include "support/catalog_test.h"

/* A turn of the loop may open several parts. */
enum { OPEN_US_MAX = 2000 * BUILD_SLOWNESS, ALLOCATIONS_MAX = 1000 };

static void the_pack_is_that_of_the_sources(void **state)
{
    struct bench *b = *state;
    struct catalog_source sources[CATALOG_INTEGRATIONS_MAX];
    for (size_t i = 0; i < embed_integrations_count; i++)
        sources[i] = (struct catalog_source){
            slice_cstr(embed_integrations[i].name),
            slice_of(embed_integrations[i].data, embed_integrations[i].len)};
    struct buf pack;
    buf_init(&pack, PACK_BYTES_MAX);
    assert_int_equal(catalog_pack(sources, embed_integrations_count, &pack, &b->report), OK);
    assert_int_equal(embed_catalog_count, 1);
    assert_slice(buf_slice(&pack), slice_of(embed_catalog[0].data, embed_catalog[0].len));
    assert_int_equal((uintptr_t)embed_catalog[0].data % 8, 0);
    buf_deinit(&pack);
}

/* Opens the tool in a catalog in which nothing is open yet. */
static uint64_t open_again_ns(struct catalog_report *report, slice tool)
{
    struct catalog *fresh = catalog_load_all(NULL, report);
    assert_non_null(fresh);
    assert_int_equal(catalog_open_heads(fresh), OK);
    uint64_t start = clock_thread_cpu_ns();
    const struct catalog_action *action = catalog_find_tool(fresh, tool);
    uint64_t spent = clock_thread_cpu_ns() - start;
    assert_true(action && action->is_open);
    catalog_unref(fresh);
    return spent;
}

static void everything_opens_each_in_a_short_time(void **state)
{
    struct bench *b = *state;
    const struct catalog *catalog = b->catalog;
    uint64_t longest = 0;
    assert_int_equal(catalog_open_heads(catalog), OK);
    for (size_t i = 0; i < catalog->integration_count; i++) {
        const struct catalog_integration *integration = catalog->integrations[i];
        assert_false(integration->is_open);
        for (size_t j = 0; j < integration->action_count; j++) {
            const struct catalog_action *head = &integration->actions[j];
            slice tool = head->tool_name, title = head->title;
            bool asks = head->requires_confirmation;
            enum catalog_level level = head->level;
            assert_false(head->is_open);
            uint64_t start = clock_thread_cpu_ns();
            const struct catalog_action *action = catalog_find_tool(catalog, tool);
            uint64_t spent = clock_thread_cpu_ns() - start;
            for (unsigned k = 1; k < MEASURED_TIMES_MAX && spent >= UINT64_C(1000) * OPEN_US_MAX;
                 k++)
                spent = open_again_ns(&b->report, tool);
            longest = spent > longest ? spent : longest;
            assert_ptr_equal(action, head);
            assert_true(action->is_open && integration->is_open);
            assert_slice(action->title, title);
            assert_slice(action->tool_name, tool);
            assert_true(action->level == level && action->requires_confirmation == asks);
            assert_true(action->schema && action->request.path && action->display_summary);
        }
    }
    if (BUILD_SLOWNESS == 1)
        print_message("figure: opening an action, the slowest: %.0f us of CPU (bar 2000)\n",
                      (double)longest / 1e3);
    assert_true(longest < UINT64_C(1000) * OPEN_US_MAX);
}

static void nothing_is_compiled_to_see_whether_it_is_there(void **state)
{
    const struct catalog *catalog = ((struct bench *)*state)->catalog;
    const struct catalog_integration *gmail = NULL;
    for (size_t i = 0; i < catalog->integration_count; i++)
        if (slice_eq_cstr(catalog->integrations[i]->integration_id, "gmail"))
            gmail = catalog->integrations[i];
    assert_non_null(gmail);
    assert_int_equal(gmail->auth.kind, AUTH_OAUTH2);
    const struct catalog_action *head = catalog_find_head(gmail, SLICE("send_message"));
    assert_true(head && !head->is_open);
    assert_ptr_equal(catalog_find_head(gmail, SLICE("gmail_send_message")), head);
    assert_null(catalog_find_head(gmail, SLICE("send_messag")));
    assert_false(gmail->is_open);
    int status = OK;
    assert_null(catalog_find_integration(catalog, SLICE("gmai"), &status));
    assert_int_equal(status, ERR_NOTFOUND);
    assert_ptr_equal(catalog_find_integration(catalog, SLICE("gmail"), &status), gmail);
    assert_true(gmail->is_open && status == OK);
    assert_null(catalog_find_action(gmail, SLICE("send_messag"), &status));
    assert_int_equal(status, ERR_NOTFOUND);
    assert_ptr_equal(catalog_find_action(gmail, SLICE("send_message"), &status), head);
    assert_true(head->is_open && status == OK);
}

static void what_memory_was_short_for_is_opened_later(void **state)
{
    struct bench *b = *state;
    uint64_t hits = 1;
    for (uint64_t n = 1; hits > 0; n++) {
        assert_true(n < ALLOCATIONS_MAX);
        catalog_unref(b->catalog);
        b->catalog = catalog_load_all(NULL, &b->report);
        assert_non_null(b->catalog);
        mem_fail_at(n, 1);
        int status = OK;
        const struct catalog_action *found = NULL;
        const struct catalog_integration *github =
            catalog_find_integration(b->catalog, SLICE("github"), &status);
        if (github)
            found = catalog_find_action(github, SLICE("create_issue"), &status);
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        assert_int_equal(status, found ? OK : ERR_NOMEM);
        found = catalog_find_tool(b->catalog, SLICE("github_create_issue"));
        assert_non_null(found);
        assert_true(found->is_open && found->integration->limits.rate_rule_count > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CATALOG_TEST(the_pack_is_that_of_the_sources),
        CATALOG_TEST(everything_opens_each_in_a_short_time),
        CATALOG_TEST(nothing_is_compiled_to_see_whether_it_is_there),
        CATALOG_TEST(what_memory_was_short_for_is_opened_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
