/* base/process: the reported use of resources grows with the work of the process. */
#include "testing.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/process.h"

static void processor_time_grows(void **state)
{
    (void)state;
    double before = process_usage().cpu_s;
    uint64_t spent = clock_thread_cpu_ns();
    while (clock_thread_cpu_ns() - spent < 20000000)
        continue;
    assert_true(process_usage().cpu_s - before >= 0.015);
}

static void memory_that_is_touched_counts(void **state)
{
    enum { BYTES = 64 * 1024 * 1024 };
    (void)state;
    uint64_t before = process_usage().rss_bytes;
    assert_true(before > 0);
    char *block = mem_alloc(BYTES);
    assert_non_null(block);
    memset(block, 1, BYTES);
    assert_true(process_usage().rss_bytes >= before + BYTES / 2);
    mem_free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(processor_time_grows),
        UNIT_TEST(memory_that_is_touched_counts),
    };
    return cmocka_run_group_tests_name("base/process", tests, NULL, NULL);
}
