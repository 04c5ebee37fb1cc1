/* base/arena: random blocks keep their bytes; the limit, alignment, growing in place, failures. */
#include "testing.h"

#include "base/arena.h"
#include "base/poison.h"

struct block {
    char *ptr;
    size_t size;
    char fill;
};

static void check_blocks(const struct block *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < blocks[i].size; k++)
            assert_int_equal(blocks[i].ptr[k], blocks[i].fill);
}

static char *any_block(struct arena *arena, struct chance *chance, size_t size)
{
    char *ptr;
    switch (chance_below(chance, 3)) {
    case 0:
        return arena_alloc_text(arena, size);
    case 1:
        ptr = arena_zalloc(arena, size);
        for (size_t i = 0; ptr && i < size; i++)
            assert_int_equal(ptr[i], 0);
        break;
    default:
        ptr = arena_alloc(arena, size);
    }
    assert_int_equal((uintptr_t)ptr % 16, 0);
    return ptr;
}

static void blocks_never_overlap(void **state)
{
    (void)state;
    struct chance chance = {4};
    struct block blocks[400];
    for (int round = 0; round < 60; round++) {
        struct arena arena;
        size_t used = 0, size_max = (size_t)1 << (2 + round % 15);
        arena_init(&arena, (size_t)1 << 30);
        for (size_t i = 0; i < ARRAY_LEN(blocks); i++) {
            struct block *last = &blocks[i ? i - 1 : 0];
            if (i && chance_below(&chance, 4) == 0) { /* grow or shrink the newest */
                size_t size = chance_below(&chance, size_max);
                char *moved = arena_realloc(&arena, last->ptr, last->size, size);
                check_blocks(
                    &(struct block){moved, size < last->size ? size : last->size, last->fill}, 1);
                *last = (struct block){moved, size, last->fill};
                memset(moved, last->fill, size);
            }
            blocks[i].size = chance_below(&chance, size_max);
            blocks[i].fill = (char)i;
            blocks[i].ptr = any_block(&arena, &chance, blocks[i].size);
            assert_non_null(blocks[i].ptr);
            memset(blocks[i].ptr, blocks[i].fill, blocks[i].size);
            used += blocks[i].size;
        }
        check_blocks(blocks, ARRAY_LEN(blocks));
        assert_true(arena.bytes_used > 0 && !arena.is_exhausted && used > 0);
        arena_reset(&arena);
        assert_int_equal(arena.bytes_used, 0);
        assert_int_equal(mem_live_blocks(), 0);
    }
}

static void keeps_its_limit(void **state)
{
    (void)state;
    struct arena arena;
    for (size_t max = 0; max < 5000; max += 37) {
        arena_init(&arena, max);
        size_t got = 0;
        while (arena_alloc_text(&arena, 16))
            got += 16;
        assert_int_equal(got, max / 16 * 16);
        assert_true(arena.is_exhausted);
        assert_int_equal(arena.bytes_used, got);
        assert_null(arena_alloc_text(&arena, 17));
        if (max % 16) /* a block that still fits is returned, and the flag stays set */
            assert_non_null(arena_alloc_text(&arena, max % 16));
        assert_true(arena.is_exhausted);
        arena_deinit(&arena);
        assert_false(arena.is_exhausted);
    }
    arena_init(&arena, SIZE_MAX);
    assert_null(arena_calloc(&arena, SIZE_MAX / 4, 8));
    assert_true(arena.is_exhausted);
    arena_reset(&arena);
    assert_null(arena_alloc(&arena, SIZE_MAX));
    assert_null(arena_alloc(&arena, SIZE_MAX - 64));
    assert_true(arena.is_exhausted);
    arena_deinit(&arena);
}

static void grows_in_place(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 10000);
    char *text = arena_realloc(&arena, NULL, 0, 10);
    memset(text, 't', 10);
    assert_ptr_equal(arena_realloc(&arena, text, 10, 300), text);
    assert_int_equal(arena.bytes_used, 300);
    assert_ptr_equal(arena_realloc(&arena, text, 300, 20), text);
    assert_int_equal(arena.bytes_used, 20);
    char *other = arena_alloc_text(&arena, 5);
    assert_non_null(other);
    assert_ptr_equal(arena_realloc(&arena, text, 20, 15), text);
    char *moved = arena_realloc(&arena, text, 20, 40);
    assert_true(moved && moved != text);
    assert_memory_equal(moved, "tttttttttt", 10);
    assert_null(arena_realloc(&arena, moved, 40, 20000));
    assert_true(arena.is_exhausted);
    assert_memory_equal(moved, "tttttttttt", 10);
    arena_deinit(&arena);
}

static void a_large_block_leaves_the_newest_chunk(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1 << 20);
    char *a = arena_alloc_text(&arena, 8), *large = arena_alloc(&arena, 200000);
    char *b = arena_alloc_text(&arena, 8);
    assert_ptr_equal(b, a + 8);
    memset(large, 1, 200000);
    assert_int_equal(mem_live_blocks(), 2);
    arena_reset(&arena);
    /* the large block is first: it must not become the chunk for small blocks */
    large = arena_alloc(&arena, 200000);
    a = arena_alloc(&arena, 8);
    assert_true(a + 8 <= large || a >= large + 200000);
    arena_deinit(&arena);
}

/* Thousands of small blocks use few chunks: 1, 2, 4 ... 64, 64 KB. */
static void chunks_double(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1 << 20);
    for (int i = 0; i < 8000; i++)
        assert_non_null(arena_alloc_text(&arena, 64));
    assert_in_range(mem_live_blocks(), 8, 12);
    arena_deinit(&arena);
}

static int cleanups[4];
static int cleanup_count;

static void note_cleanup(void *ctx)
{
    assert_in_range(cleanup_count, 0, 3);
    cleanups[cleanup_count++] = *(int *)ctx; /* the arena's memory still exists */
}

static void cleanups_run_newest_first_and_once(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1000);
    for (int i = 1; i <= 2; i++) {
        int *number = arena_alloc(&arena, sizeof(*number));
        *number = i;
        assert_true(arena_on_free(&arena, note_cleanup, number));
    }
    assert_int_equal(cleanup_count, 0);
    arena_reset(&arena);
    assert_int_equal(cleanup_count, 2);
    assert_int_equal(cleanups[0], 2);
    assert_int_equal(cleanups[1], 1);
    arena_deinit(&arena);
    assert_int_equal(cleanup_count, 2);
    arena_init(&arena, 8);
    assert_false(arena_on_free(&arena, note_cleanup, &cleanups));
    arena_deinit(&arena);
    assert_int_equal(cleanup_count, 2);
}

static void copies_and_prints(void **state)
{
    (void)state;
    static const char room[100];
    struct arena arena;
    arena_init(&arena, 100);
    slice copy = arena_dup(&arena, SLICE("a\0b"));
    assert_slice(copy, SLICE("a\0b"));
    assert_int_equal(copy.ptr[3], '\0');
    assert_string_equal(arena_cstr(&arena, SLICE_NONE), "");
    assert_slice(arena_printf(&arena, "%d-%s", 42, "x"), SLICE("42-x"));
    assert_slice(arena_printf(&arena, "%s", ""), SLICE(""));
    slice joined = ARENA_JOIN(&arena, SLICE("a"), SLICE_NONE, SLICE("b\0c"));
    assert_slice(joined, SLICE("ab\0c"));
    assert_int_equal(joined.ptr[4], '\0');
    assert_null(arena_printf(&arena, "%100s", "").ptr);
    assert_true(arena.is_exhausted);
    assert_null(ARENA_JOIN(&arena, SLICE("a"), slice_of(room, sizeof(room))).ptr);
    assert_null(arena_dup(&arena, slice_of("", SIZE_MAX)).ptr);
    arena_deinit(&arena);
}

/* Shorter and longer than the room in which a text is formatted first. */
static void prints_any_length(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1 << 20);
    for (int len = 0; len < 600; len++) {
        slice text = arena_printf(&arena, "%*s", len, len > 0 ? "x" : "");
        assert_int_equal(text.len, len);
        assert_int_equal(strlen(text.ptr), len);
        assert_true(len == 0 || text.ptr[len - 1] == 'x');
    }
    arena_deinit(&arena);
}

static void survives_failing_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct arena arena;
        arena_init(&arena, 1 << 22);
        mem_fail_at(n, 1);
        size_t missing = 0;
        for (size_t i = 0; i < 300; i++) {
            uint32_t *numbers = ARENA_ARRAY(&arena, uint32_t, i * 7);
            missing += !numbers;
            missing += !arena_printf(&arena, "%zu", i).ptr;
        }
        uint64_t hits = mem_fail_hits();
        mem_fail_at(0, 0);
        assert_int_equal(missing, hits);
        assert_int_equal(arena.is_exhausted, hits > 0);
        arena_deinit(&arena);
        assert_int_equal(mem_live_blocks(), 0);
        if (hits == 0)
            break;
        assert_true(n < 100);
    }
}

static void asan_sees_overruns(void **state)
{
    (void)state;
#ifdef BASE_HAS_ASAN
    struct arena arena;
    arena_init(&arena, 1000);
    char *a = arena_alloc(&arena, 24), *b = arena_alloc(&arena, 3);
    assert_false(__asan_address_is_poisoned(a + 23));
    assert_true(__asan_address_is_poisoned(a + 24));
    assert_true(__asan_address_is_poisoned(b + 3));
    assert_ptr_equal(arena_realloc(&arena, b, 3, 2), b);
    assert_true(__asan_address_is_poisoned(b + 2));
    arena_deinit(&arena);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(blocks_never_overlap), UNIT_TEST(keeps_its_limit),
        UNIT_TEST(grows_in_place),       UNIT_TEST(a_large_block_leaves_the_newest_chunk),
        UNIT_TEST(chunks_double),        UNIT_TEST(copies_and_prints),
        UNIT_TEST(prints_any_length),    UNIT_TEST(survives_failing_memory),
        UNIT_TEST(asan_sees_overruns),   UNIT_TEST(cleanups_run_newest_first_and_once),
    };
    return cmocka_run_group_tests_name("base/arena", tests, NULL, NULL);
}
