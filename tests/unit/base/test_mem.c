/* base/mem: counting, injected failures, overflow, and two concurrent threads. */
#include "testing.h"

#include <pthread.h>
#include <string.h>

static void counts_blocks(void **state)
{
    (void)state;
    char *a = mem_alloc(10), *b = mem_zalloc(100), *c = mem_calloc(3, 7), *d = mem_strdup("text");
    assert_int_equal(mem_live_blocks(), 4);
    assert_string_equal(d, "text");
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(b[i], 0);
    for (size_t i = 0; i < 21; i++)
        assert_int_equal(c[i], 0);
    d = mem_realloc(d, 1000);
    assert_string_equal(d, "text");
    assert_int_equal(mem_live_blocks(), 4);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(d);
    mem_free(NULL);
    assert_int_equal(mem_live_blocks(), 0);
}

static void nothing_is_still_a_block(void **state)
{
    (void)state;
    void *blocks[] = {mem_alloc(0), mem_zalloc(0), mem_calloc(0, 9), mem_realloc(NULL, 0)};
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
        assert_non_null(blocks[i]);
    blocks[0] = mem_realloc(blocks[0], 0);
    assert_non_null(blocks[0]);
    assert_int_equal(mem_live_blocks(), ARRAY_LEN(blocks));
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
        mem_free(blocks[i]);
}

static void copies_text(void **state)
{
    (void)state;
    char *part = mem_strndup("abcdef", 3), *none = mem_strndup(NULL, 0);
    assert_string_equal(part, "abc");
    assert_string_equal(none, "");
    mem_free(part);
    mem_free(none);
}

static void refuses_what_overflows(void **state)
{
    (void)state;
    assert_null(mem_calloc(SIZE_MAX / 2 + 1, 2));
    assert_null(mem_calloc(SIZE_MAX, SIZE_MAX));
    assert_null(mem_alloc(MEM_BLOCK_BYTES_MAX + 1));
    assert_null(mem_zalloc(SIZE_MAX));
    assert_null(mem_strndup("", SIZE_MAX));
    char *block = mem_strdup("stays");
    assert_null(mem_realloc(block, SIZE_MAX));
    assert_string_equal(block, "stays");
    mem_free(block);
}

static void fails_the_nth(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 6; n++) {
        for (uint64_t count = 1; count < 4; count++) {
            mem_fail_at(n, count);
            for (uint64_t i = 1; i < 10; i++) {
                void *block = mem_alloc(8);
                assert_int_equal(block == NULL, i >= n && i < n + count);
                mem_free(block);
            }
            assert_int_equal(mem_fail_hits(), count);
        }
    }
    mem_fail_at(0, 5);
    void *block = mem_alloc(1);
    assert_non_null(block);
    mem_fail_at(1, UINT64_MAX);
    assert_null(mem_realloc(block, 100));
    assert_null(mem_zalloc(1));
    assert_null(mem_calloc(1, 1));
    assert_null(mem_strdup("x"));
    assert_false(mem_block_begin());
    assert_int_equal(mem_fail_hits(), 5);
    mem_fail_at(0, 0);
    mem_free(block);
}

static void counts_foreign_blocks(void **state)
{
    (void)state;
    assert_true(mem_block_begin());
    assert_int_equal(mem_live_blocks(), 1);
    mem_block_end();
}

static void wipes(void **state)
{
    (void)state;
    char text[] = "secret";
    mem_wipe(text, sizeof(text));
    for (size_t i = 0; i < sizeof(text); i++)
        assert_int_equal(text[i], 0);
    mem_wipe(NULL, 0);
}

static void *churn(void *arg)
{
    struct chance chance = {(uint64_t)(uintptr_t)arg};
    void *held[16] = {NULL};
    for (int i = 0; i < 20000; i++) {
        size_t at = chance_below(&chance, ARRAY_LEN(held));
        mem_free(held[at]);
        held[at] = mem_alloc(chance_below(&chance, 64));
    }
    for (size_t i = 0; i < ARRAY_LEN(held); i++)
        mem_free(held[i]);
    return NULL;
}

static void counts_across_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(mem_live_blocks(), 0);
}

/* A freed block is reused for every size for which it is the smallest suitable block, and is
 * cleared if requested. */
static void keeps_middling_blocks(void **state)
{
    (void)state;
    mem_reuse(32 * 1024);
    for (size_t size = 513; size <= 16 * 1024; size += 1 + size / 9) {
        char *block = mem_alloc(size);
        memset(block, 'x', size);
        mem_free(block);
        char *again = mem_zalloc(size);
        assert_ptr_equal(again, block);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(again[i], 0);
        again = mem_realloc(again, size + 100);
        memset(again, 'y', size + 100);
        mem_free(again);
        mem_reuse(32 * 1024);
    }
    assert_int_equal(mem_live_blocks(), 0);
    mem_reuse(0);
}

/* Blocks never overlap, whatever the order of allocations and frees. */
static void kept_blocks_are_apart(void **state)
{
    (void)state;
    struct chance chance = {5};
    struct {
        unsigned char *ptr;
        size_t size;
    } held[32] = {{NULL, 0}};
    mem_reuse(64 * 1024);
    for (int i = 0; i < 20000; i++) {
        size_t at = chance_below(&chance, ARRAY_LEN(held));
        for (size_t j = 0; j < held[at].size; j += 97)
            assert_int_equal(held[at].ptr[j], at);
        mem_free(held[at].ptr);
        held[at].size = chance_below(&chance, 20 * 1024);
        held[at].ptr = mem_alloc(held[at].size);
        memset(held[at].ptr, (int)at, held[at].size);
    }
    for (size_t i = 0; i < ARRAY_LEN(held); i++)
        mem_free(held[i].ptr);
    assert_int_equal(mem_live_blocks(), 0);
    mem_reuse(0);
}

static void keeps_no_more_than_allowed(void **state)
{
    (void)state;
    char *blocks[8];
    mem_reuse(3 * 2048);
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
        blocks[i] = mem_alloc(2048);
    for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
        mem_free(blocks[i]);
    for (size_t i = 0; i < 3; i++) { /* the newest first */
        char *again = mem_alloc(2000);
        assert_ptr_equal(again, blocks[2 - i]);
        blocks[2 - i] = again;
    }
    for (size_t i = 0; i < 3; i++)
        mem_free(blocks[i]);
    mem_fail_at(1, 1);
    assert_null(mem_alloc(2048));
    mem_fail_at(0, 0);
    mem_reuse(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(counts_blocks),
        UNIT_TEST(nothing_is_still_a_block),
        UNIT_TEST(copies_text),
        UNIT_TEST(refuses_what_overflows),
        UNIT_TEST(fails_the_nth),
        UNIT_TEST(counts_foreign_blocks),
        UNIT_TEST(wipes),
        UNIT_TEST(counts_across_threads),
        UNIT_TEST(keeps_middling_blocks),
        UNIT_TEST(kept_blocks_are_apart),
        UNIT_TEST(keeps_no_more_than_allowed),
    };
    return cmocka_run_group_tests_name("base/mem", tests, NULL, NULL);
}
