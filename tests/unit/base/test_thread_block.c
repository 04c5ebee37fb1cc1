/* base/thread_block: memory of a thread, zeroed, and freed when the thread ends. */
#include "testing.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "base/thread_block.h"

enum { BLOCK_BYTES = 1 << 20 };

static char *blocks[2];

static void *use_two(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < 2; i++) {
        blocks[i] = thread_block_new(BLOCK_BYTES);
        if (!blocks[i])
            return NULL;
        for (size_t at = 0; at < BLOCK_BYTES; at++)
            if (blocks[i][at] != 0)
                return NULL;
        memset(blocks[i], 'x', BLOCK_BYTES);
    }
    return blocks;
}

static bool is_mapped(const char *ptr)
{
    unsigned char resident;
    char *page = (char *)((uintptr_t)ptr & ~(uintptr_t)4095);
    return mincore(page, 1, &resident) == 0 || errno != ENOMEM;
}

static void blocks_are_zeroed_and_go_with_their_thread(void **state)
{
    (void)state;
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, use_two, NULL), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, blocks);
    assert_true((uintptr_t)blocks[0] % 64 == 0 && (uintptr_t)blocks[1] % 64 == 0);
    assert_false(is_mapped(blocks[0]));
    assert_false(is_mapped(blocks[1]));
}

static void too_much_is_refused(void **state)
{
    (void)state;
    assert_null(thread_block_new((size_t)1 << 60));
    char *block = thread_block_new(BLOCK_BYTES);
    assert_non_null(block);
    assert_true(is_mapped(block)); /* the block belongs to this thread until the thread ends */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zeroed_and_go_with_their_thread),
        cmocka_unit_test(too_much_is_refused),
    };
    return cmocka_run_group_tests_name("base/thread_block", tests, NULL, NULL);
}
