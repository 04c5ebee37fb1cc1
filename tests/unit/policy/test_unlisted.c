/*
 * What a policy leaves out of lists: exactly the actions that it denies for every input, by
 * documents of the search index; also after the catalog was replaced.
 */
#include "policy/unlisted.h"
#include "support/catalog_test.h"

static struct policy *compile(struct bench *b, const char *quoted)
{
    struct policy *policy = policy_compile_text(
        SLICE_NONE, slice_cstr(unit_quoted(&b->arena, quoted)), SLICE("p@1"), &b->report);
    assert_non_null(policy);
    return policy;
}

/* Returns the number of actions that are left out, all of which the policy denies. */
static size_t count_unlisted(struct bench *b, struct policy *policy)
{
    const bool *unlisted;
    size_t count = 0;
    assert_int_equal(policy_unlisted(policy, b->catalog, &b->arena, &unlisted), OK);
    for (size_t i = 0; i < b->catalog->integration_count; i++) {
        const struct catalog_integration *app = b->catalog->integrations[i];
        for (size_t k = 0; unlisted && k < app->action_count; k++) {
            bool is_out = unlisted[catalog_doc(&app->actions[k])];
            assert_int_equal(is_out, policy_denies(policy, &app->actions[k]));
            count += is_out;
        }
        /* an app stays, whatever is left of its actions */
        assert_false(unlisted && unlisted[app->search_first]);
    }
    return count;
}

static void denied_actions_are_left_out(void **state)
{
    static const struct {
        const char *policy;
        size_t count; /* SIZE_MAX: all */
    } cases[] = {
        {"{'default':'allow','rules':[{'tools':['gmail_send_message'],'decision':'deny'}]}", 1},
        {"{'default':'allow','rules':[{'tools':['gmail_send_message','gmail_create_draft'],"
         "'decision':'deny','hidden':true}]}",
         2},
        /* these depend on the input, or deny nothing */
        {"{'default':'allow','rules':[{'tools':['gmail_send_message'],'when':'`true`',"
         "'decision':'deny'}]}",
         0},
        {"{'default':'confirm','rules':[]}", 0},
        {"{'default':'deny','rules':[]}", SIZE_MAX},
        {"{'default':'deny','rules':[{'when':'`true`','decision':'confirm'}]}", 0},
    };
    struct bench *b = *state;
    assert_int_equal(count_unlisted(b, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct policy *policy = compile(b, cases[i].policy);
        size_t wanted = cases[i].count == SIZE_MAX ? b->catalog->action_count : cases[i].count;
        assert_int_equal(count_unlisted(b, policy), wanted);
        assert_int_equal(count_unlisted(b, policy), wanted); /* as it was kept */
        policy_unref(policy);
    }
    assert_int_equal(count_unlisted(b, policy_denies_all()), b->catalog->action_count);
}

/* It is made once for a snapshot of the catalog, also if nothing is left out. */
static void it_is_made_once_a_catalog(void **state)
{
    static const char *const documents[] = {
        "{'default':'allow','rules':[{'tools':['gmail_*'],'decision':'deny'}]}",
        "{'default':'allow','rules':[{'tools':['gmail_*'],'decision':'confirm'}]}"};
    struct bench *b = *state;
    struct catalog *first = b->catalog, *other = catalog_load_all(NULL, &b->report);
    assert_non_null(other);
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        struct policy *policy = compile(b, documents[i]);
        const bool *made, *again;
        for (int round = 0; round < 3; round++) { /* two snapshots in turn */
            b->catalog = round % 2 ? other : first;
            size_t count = count_unlisted(b, policy);
            assert_true(i == 0 ? count > 0 : count == 0);
            assert_int_equal(policy_unlisted(policy, b->catalog, &b->arena, &made), OK);
            mem_fail_at(1, UINT64_MAX);
            assert_int_equal(policy_unlisted(policy, b->catalog, &b->arena, &again), OK);
            assert_int_equal(mem_fail_hits(), 0);
            mem_fail_at(0, 0);
            assert_ptr_equal(again, made);
        }
        policy_unref(policy);
    }
    b->catalog = first;
    catalog_unref(other);
}

static void without_memory_nothing_is_shown(void **state)
{
    struct bench *b = *state;
    struct policy *policy = compile(b, "{'default':'deny','rules':[]}");
    struct arena small;
    const bool *unlisted;
    arena_init(&small, 64);
    assert_int_equal(catalog_open_heads(b->catalog), OK);
    assert_int_equal(policy_unlisted(policy_denies_all(), b->catalog, &small, &unlisted),
                     ERR_NOMEM);
    mem_fail_at(1, 1);
    assert_int_equal(policy_unlisted(policy, b->catalog, &small, &unlisted), ERR_NOMEM);
    mem_fail_at(0, 0);
    assert_int_equal(count_unlisted(b, policy), b->catalog->action_count);
    assert_int_equal(policy_unlisted(NULL, b->catalog, &small, &unlisted), OK);
    assert_null(unlisted);
    arena_deinit(&small);
    policy_unref(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CATALOG_TEST(denied_actions_are_left_out),
        CATALOG_TEST(it_is_made_once_a_catalog),
        CATALOG_TEST(without_memory_nothing_is_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
