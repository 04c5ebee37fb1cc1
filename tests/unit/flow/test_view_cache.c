/* Cached views: each belongs to one account, each flow has one, their number is limited, and a
 * view in use stays until its reply is sent. */
#include <stdlib.h>

#include "flow/internal.h"
#include "unit.h"

static struct loop *loop;
static struct cache set;
static struct flow_template *tmpl;
static struct uuid account;

static struct flow_view *make_view(struct uuid id, int64_t rev, slice input)
{
    struct flow_whole whole = {
        .flow = {.account_id = account, .id = id, .rev = rev, .template_key = SLICE("t")},
        .input = input,
        .actor = SLICE("me"),
    };
    struct flow_view *view = flow_view_new(loop, &whole, tmpl);
    assert_non_null(view);
    return view;
}

static void keep(struct uuid id, int64_t rev, slice input)
{
    struct flow_view *view = make_view(id, rev, input);
    flow_view_cache_put(&set, view);
    flow_view_unref(view);
}

static void drop_before(struct uuid id, int64_t rev)
{
    const struct flow flow = {.account_id = account, .id = id, .rev = rev};
    flow_view_cache_drop(&set, &flow);
}

static void test_one_a_flow_and_of_its_account_alone(void **state)
{
    struct uuid id = uuid_v7();
    (void)state;
    assert_null(flow_view_cache_find(&set, account, id));
    keep(id, 3, SLICE("{}"));
    assert_int_equal(flow_view_cache_find(&set, account, id)->rev, 3);
    assert_null(flow_view_cache_find(&set, uuid_v7(), id));
    keep(id, 4, SLICE("{\"a\":1}"));
    assert_int_equal(flow_view_cache_find(&set, account, id)->rev, 4);
    drop_before(id, 4); /* the cached view has that revision */
    assert_non_null(flow_view_cache_find(&set, account, id));
    drop_before(id, 5);
    assert_null(flow_view_cache_find(&set, account, id));
}

static void test_a_text_lives_to_the_bottom_of_the_turn(void **state)
{
    struct uuid id = uuid_v7();
    (void)state;
    keep(id, 1, SLICE("{\"b\":2}"));
    slice text = flow_view_cache_find(&set, account, id)->text;
    drop_before(id, INT64_MAX);
    assert_true(slice_starts_with(text, SLICE("{\"flow\":{\"id\":")));
    assert_true(slice_find(text, SLICE("{\"b\":2}")) > 0);
    (void)loop_turn(loop, false);
}

static void test_the_last_ones_are_kept(void **state)
{
    enum { VIEWS = 200, BYTES = 60 * 1024 };
    struct uuid ids[VIEWS];
    char *input = malloc(BYTES + 64 * 1024);
    size_t kept = 0;
    (void)state;
    memset(input, ' ', BYTES + 64 * 1024);
    input[0] = '{', input[BYTES - 1] = '}';
    for (size_t i = 0; i < VIEWS; i++) {
        ids[i] = uuid_v7();
        keep(ids[i], 1, slice_of(input, BYTES));
        (void)flow_view_cache_find(&set, account, ids[0]); /* requested again and again */
    }
    for (size_t i = 0; i < VIEWS; i++)
        kept += flow_view_cache_find(&set, account, ids[i]) != NULL;
    assert_true(kept > 50 && kept <= 4 * 1024 * 1024 / BYTES);
    assert_non_null(flow_view_cache_find(&set, account, ids[0]));
    assert_null(flow_view_cache_find(&set, account, ids[1]));
    assert_non_null(flow_view_cache_find(&set, account, ids[VIEWS - 1]));
    keep(ids[1], 1, slice_of(input, BYTES + 64 * 1024)); /* too large to be cached */
    assert_null(flow_view_cache_find(&set, account, ids[1]));
    keep(ids[0], 2, slice_of(input, BYTES + 64 * 1024)); /* nor is the older one kept */
    assert_null(flow_view_cache_find(&set, account, ids[0]));
    free(input);
    (void)loop_turn(loop, false);
}

static int set_up(void **state)
{
    static const char text[] = "{\"key\":\"t\",\"name\":\"T\",\"description\":\"T.\",\"steps\":[{"
                               "\"key\":\"a\",\"type\":\"transform\",\"expr\":\"`1`\"}]}";
    struct catalog_report report;
    (void)state;
    catalog_report_init(&report);
    tmpl = flow_template_compile(SLICE("t"), slice_cstr(text), NULL, &report);
    catalog_report_deinit(&report);
    account = uuid_v7();
    struct err err;
    loop = loop_new(&err);
    if (loop)
        flow_view_cache_init(&set, loop);
    return tmpl && loop ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    keep(uuid_v7(), 1, SLICE("{}"));
    (void)loop_turn(loop, false);
    cache_deinit(&set);
    flow_template_unref(tmpl);
    loop_free(loop);
    return unit_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_a_flow_and_of_its_account_alone),
        cmocka_unit_test(test_a_text_lives_to_the_bottom_of_the_turn),
        cmocka_unit_test(test_the_last_ones_are_kept),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
