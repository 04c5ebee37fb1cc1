/*
 * Compressed pages: they decompress to the same bytes, and only clients that accept gzip get them.
 */
#include <zlib.h>

#include "unit.h"
#include "web/gzip.h"

static void only_whom_it_is_good_for_gets_it(void **state)
{
    static const struct {
        const char *header;
        bool is_taken;
    } cases[] = {
        {"gzip", true},
        {"gzip, deflate, br, zstd", true},
        {"br;q=1.0, GZIP;q=0.5", true},
        {"deflate , x-gzip", true},
        {"*", true},
        {"br, *;q=0.1", true},
        {"gzip ; Q=0.001", true},
        {"", false},
        {"identity", false},
        {"deflate, br", false},
        {"gzip;q=0", false},
        {"gzip; q=0.000, br", false},
        {"gzip;q=0, *", false},
        {"*, gzip;q=0.0", false},
        {"*;q=0", false},
        {"gzipped", false},
        {"gzip;q=", false},
        {"gzip;q=high", false},
        {"gzip;level=1", false},
        {",,;,gzip;q=1", true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if (gzip_is_taken(slice_cstr(cases[i].header)) != cases[i].is_taken)
            fail_msg("%s", cases[i].header);
    assert_false(gzip_is_taken(SLICE_NONE));
}

static void assert_unpacks_to(slice packed, slice text)
{
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)packed.ptr,
                       .avail_in = (unsigned)packed.len};
    char *out = mem_alloc(text.len + 1);
    assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
    stream.next_out = (unsigned char *)out;
    stream.avail_out = (unsigned)text.len + 1;
    assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
    assert_int_equal(stream.total_out, text.len);
    assert_int_equal(stream.avail_in, 0);
    assert_memory_equal(out, text.ptr, text.len);
    inflateEnd(&stream);
    mem_free(out);
}

static void pages_come_back_whole(void **state)
{
    static const size_t sizes[] = {1, 100, 5000, 40000, 300000};
    struct gzip *gzip = gzip_new();
    struct arena arena;
    (void)state;
    assert_non_null(gzip);
    arena_init(&arena, 16 * 1024 * 1024);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        char *text = arena_alloc(&arena, sizes[i]);
        for (size_t at = 0; at < sizes[i]; at++)
            text[at] = (char)(at % 7 ? 'a' + at * at % 23 : at >> 3);
        slice packed = gzip_compress(gzip, slice_of(text, sizes[i]), &arena);
        assert_non_null(packed.ptr);
        assert_unpacks_to(packed, slice_of(text, sizes[i]));
        if (sizes[i] > 1000)
            assert_true(packed.len < sizes[i]);
    }
    arena_deinit(&arena);
    gzip_free(gzip);
    gzip_free(NULL);
}

static void without_memory_there_is_none(void **state)
{
    struct gzip *gzip = gzip_new();
    struct arena arena;
    (void)state;
    mem_fail_at(1, 1000);
    assert_null(gzip_new());
    mem_fail_at(0, 0);
    arena_init(&arena, 16);
    assert_null(gzip_compress(gzip, SLICE("a page"), &arena).ptr);
    arena_deinit(&arena);
    gzip_free(gzip);
    assert_int_equal(mem_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_whom_it_is_good_for_gets_it),
        cmocka_unit_test(pages_come_back_whole),
        cmocka_unit_test(without_memory_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
