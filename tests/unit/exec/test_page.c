/*
 * The pages of a read: where they end, how they are joined, and what is returned if there is no
 * memory for them.
 */
#include "exec/steps.h"
#include "seam/table.h"

/* Otherwise the same page would be read until max_pages. */
static void a_page_that_names_itself_is_the_last(void **state)
{
    struct bench *b = *state;
    want(b, &b->run, "plain", "get", "{\"q\":\"b\"}");
    b->run.exec.pages_max = 5;
    seam_run_start(&b->run);
    reply(b, 200, "{\"items\":[1],\"next\":\"b\"}");
    assert_null(seam_call(b->node.http, 0));
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_int_equal(b->run.out.pages_read, 1);
    assert_true(b->run.out.pages_stopped.len > 0);
}

/* Each allocation in turn fails while the pages are joined. What is returned as all pages has the
 * items of all. */
static void pages_without_memory(void **state)
{
    struct bench *b = *state;
    const struct execution *stored;
    for (uint64_t n = 1, hits = 1; hits > 0; n++) {
        want_plain(b, "get", NULL);
        b->run.exec.pages_max = 2;
        seam_run_start(&b->run);
        reply(b, 200, "{\"items\":[1],\"next\":\"b\"}");
        assert_non_null(call(b));
        mem_fail_at(n, 1);
        reply(b, 200, "{\"items\":[2]}");
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        if (end(b) != EXEC_SUCCEEDED)
            continue;
        /* empty: there was no memory to write it */
        stored = &b->store.executions.items[b->store.executions.count - 1];
        bool is_whole = slice_find(stored->summary, SLICE("[1,2]")) > 0;
        bool is_stopped = slice_find(stored->summary, SLICE("\"stopped\"")) > 0;
        assert_true(stored->summary.len == 0 || is_whole ||
                    (is_stopped && slice_find(stored->summary, SLICE("[1]")) > 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STEPS_TEST(a_page_that_names_itself_is_the_last),
        STEPS_TEST(pages_without_memory),
    };
    return cmocka_run_group_tests_name("exec/page", tests, NULL, NULL);
}
