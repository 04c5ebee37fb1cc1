/* base/id and base/sha1: form, order and uniqueness of identifiers, also across fork; SHA-1
 * compared with RFC 3174, and with values of Python's hashlib for lengths around the block size. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/sha1.h"

enum { MANY = 200000 };

static void v7_is_ordered_and_well_formed(void **state)
{
    (void)state;
    struct uuid last = uuid_v7();
    int64_t before = clock_wall_us() / 1000;
    for (int i = 0; i < MANY; i++) {
        struct uuid id = uuid_v7();
        assert_true(uuid_cmp(last, id) < 0);
        assert_int_equal(id.bytes[6] >> 4, 7);
        assert_int_equal(id.bytes[8] >> 6, 2);
        last = id;
    }
    int64_t after = clock_wall_us() / 1000;
    assert_in_range(uuid_v7_wall_ms(last), before, after + 1);
}

/* Successive ids within a millisecond differ by a step that cannot be guessed. */
static void v7_steps_are_wide(void **state)
{
    (void)state;
    size_t wide = 0;
    struct uuid last = uuid_v7();
    for (int i = 0; i < 1000; i++) {
        struct uuid id = uuid_v7();
        wide += memcmp(last.bytes, id.bytes, 12) != 0; /* they differ above the lowest 32 bits */
        last = id;
    }
    assert_true(wide > 950);
}

static void v7_floor_is_lowest(void **state)
{
    (void)state;
    struct uuid id = uuid_v7();
    int64_t ms = uuid_v7_wall_ms(id);
    assert_true(uuid_cmp(uuid_v7_floor(ms), id) <= 0);
    assert_true(uuid_cmp(uuid_v7_floor(ms + 1), id) > 0);
    char text[UUID_TEXT_LEN + 1];
    uuid_format(uuid_v7_floor(0x017F22E279B0), text); /* RFC 9562 A.6 */
    assert_string_equal(text, "017f22e2-79b0-7000-8000-000000000000");
    uuid_format(uuid_v7_floor(-5), text);
    assert_string_equal(text, "00000000-0000-7000-8000-000000000000");
    uuid_format(uuid_v7_floor(INT64_MAX), text);
    assert_string_equal(text, "ffffffff-ffff-7000-8000-000000000000");
}

static void v5_is_that_of_the_rfc(void **state)
{
    (void)state;
    static const struct {
        const char *name_space, *name, *want;
    } cases[] = {
        /* RFC 9562 A.4 */
        {"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "www.example.com",
         "2ed6657d-e927-568b-95e1-2665a8aea6a2"},
        {"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "python.org",
         "886313e1-3b8a-5372-9b90-0c9aee199e5d"},
        {"6ba7b811-9dad-11d1-80b4-00c04fd430c8",
         "http://example.com/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
         "c52469c5-4916-594c-8329-9759b6051386"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct uuid name_space;
        char text[UUID_TEXT_LEN + 1];
        assert_true(uuid_parse(slice_cstr(cases[i].name_space), &name_space));
        uuid_format(uuid_v5(name_space, slice_cstr(cases[i].name)), text);
        assert_string_equal(text, cases[i].want);
    }
    struct uuid empty = uuid_v5((struct uuid){{0}}, SLICE_NONE);
    assert_int_equal(empty.bytes[6] >> 4, 5);
}

static void text_goes_there_and_back(void **state)
{
    (void)state;
    for (int i = 0; i < 10000; i++) {
        struct uuid id, back;
        char text[UUID_TEXT_LEN + 1];
        random_bytes(id.bytes, sizeof(id.bytes));
        uuid_format(id, text);
        assert_int_equal(strlen(text), UUID_TEXT_LEN);
        assert_true(uuid_parse(slice_cstr(text), &back) && uuid_eq(id, back));
        for (char *c = text; *c; c++)
            *c = (char)(*c >= 'a' && *c <= 'f' ? *c - 32 : *c);
        assert_true(uuid_parse(slice_cstr(text), &back) && uuid_eq(id, back));
    }
}

static void refuses_other_text(void **state)
{
    (void)state;
    const char good[] = "01a1fc87-2042-7314-b3ca-dfcab03d6227";
    struct uuid id;
    assert_true(uuid_parse(slice_cstr(good), &id));
    for (size_t len = 0; len < UUID_TEXT_LEN; len++)
        assert_false(uuid_parse(slice_of(good, len), &id));
    for (size_t at = 0; at < UUID_TEXT_LEN; at++) {
        for (int c = 0; c < 256; c++) {
            char text[sizeof(good)];
            memcpy(text, good, sizeof(good));
            text[at] = (char)c;
            bool is_hex = c && strchr("0123456789abcdefABCDEF", c);
            bool is_right = good[at] == '-' ? c == '-' : is_hex;
            assert_int_equal(uuid_parse(slice_of(text, UUID_TEXT_LEN), &id), is_right);
        }
    }
    assert_false(uuid_parse(SLICE("{01a1fc87-2042-7314-b3ca-dfcab03d622"), &id));
    assert_false(uuid_parse(SLICE("01a1fc87-2042-7314-b3ca-dfcab03d62270"), &id));
    assert_false(uuid_parse(SLICE_NONE, &id));
    assert_true(uuid_is_nil((struct uuid){{0}}));
    assert_false(uuid_is_nil(id));
    assert_ptr_equal(uuid_slice(&id).ptr, id.bytes);
    assert_int_equal(uuid_slice(&id).len, 16);
}

static void short_ids_grow_below_2_53(void **state)
{
    (void)state;
    int64_t before = clock_wall_us() / 1000 - 1767225600000, last = short_id_new();
    assert_true(last > 0);
    for (int i = 0; i < MANY; i++) {
        int64_t id = short_id_new();
        assert_true(id > last);
        last = id;
    }
    assert_true(last < INT64_C(1) << 53);
    int64_t after = clock_wall_us() / 1000 - 1767225600000;
    /* their time is that of the clock, except for milliseconds borrowed at full speed */
    assert_true(last >> 12 >= before && last >> 12 <= after + MANY / 4096 + 2);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void random_numbers_do_not_repeat(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    uint64_t *numbers = mem_calloc(COUNT, sizeof(*numbers));
    uint64_t ones = 0;
    for (size_t i = 0; i < COUNT; i++) {
        if (i % 3) /* other sizes in between, across the end of the page, and the direct path */
            numbers[i] = random_u64();
        else
            random_bytes(&numbers[i], sizeof(numbers[i]));
        char other[300];
        random_bytes(other, i % sizeof(other));
        ones += (uint64_t)__builtin_popcountll(numbers[i]);
    }
    qsort(numbers, COUNT, sizeof(*numbers), compare_u64);
    for (size_t i = 1; i < COUNT; i++)
        assert_true(numbers[i - 1] != numbers[i]);
    assert_in_range(ones, COUNT * 32 - 6000, COUNT * 32 + 6000); /* over 10 sigma */
    mem_free(numbers);
}

static void below_is_uniform(void **state)
{
    (void)state;
    size_t counts[7] = {0};
    for (int i = 0; i < 70000; i++) {
        uint64_t value = random_below(ARRAY_LEN(counts));
        assert_true(value < ARRAY_LEN(counts));
        counts[value]++;
    }
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        assert_in_range(counts[i], 9000, 11000); /* over 10 sigma */
    assert_int_equal(random_below(1), 0);
    /* just above half of the range, so half of all draws are rejected */
    for (int i = 0; i < 1000; i++)
        assert_true(random_below((UINT64_C(1) << 63) + 1) <= UINT64_C(1) << 63);
}

struct drawn {
    uint64_t number;
    struct uuid id;
    unsigned char key[32];
};

static struct drawn draw(void)
{
    struct drawn drawn = {.number = random_u64(), .id = uuid_v7()};
    random_kernel(drawn.key, sizeof(drawn.key));
    return drawn;
}

static void forked_workers_differ(void **state)
{
    (void)state;
    int ends[2], status;
    (void)random_u64(); /* a part of the page has been used */
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct drawn drawn = draw();
            _exit(write(ends[1], &drawn, sizeof(drawn)) == sizeof(drawn) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    struct drawn all[3] = {draw()};
    for (int i = 1; i < 3; i++)
        assert_int_equal(read(ends[0], &all[i], sizeof(all[i])), sizeof(all[i]));
    for (int i = 0; i < 3; i++) {
        const struct drawn *a = &all[i], *b = &all[(i + 1) % 3];
        assert_true(a->number != b->number);
        assert_true(memcmp(a->id.bytes + 8, b->id.bytes + 8, 8) != 0);
        assert_memory_not_equal(a->key, b->key, sizeof(a->key));
    }
    close(ends[0]);
    close(ends[1]);
}

static void check_sha1(const char *want, slice bytes, size_t step)
{
    unsigned char digest[SHA1_LEN];
    char text[2 * SHA1_LEN + 1];
    struct sha1 sha;
    sha1_init(&sha);
    for (size_t at = 0; at < bytes.len; at += step) {
        slice part = slice_first(slice_from(bytes, at), step);
        sha1_update(&sha, part.ptr, part.len);
    }
    sha1_final(&sha, digest);
    for (size_t i = 0; i < SHA1_LEN; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, want);
}

static void sha1_is_sha1(void **state)
{
    (void)state;
    static const struct {
        size_t len; /* for the input 00 01 02 ... */
        const char *want;
    } edges[] = {
        {55, "8ae2d46729cfe68ff927af5eec9c7d1b66d65ac2"},
        {56, "636e2ec698dac903498e648bd2f3af641d3c88cb"},
        {57, "7cb1330f35244b57437539253304ea78a6b7c443"},
        {63, "6d942da0c4392b123528f2905c713a3ce28364bd"},
        {64, "c6138d514ffa2135bfce0ed0b8fac65669917ec7"},
        {65, "69bd728ad6e13cd76ff19751fde427b00e395746"},
        {119, "41c89d06001bab4ab78736b44efe7ce18ce6ae08"},
        {120, "d3dbd653bd8597b7475321b60a36891278e6a04a"},
        {128, "e6434bc401f98603d7eda504790c98c67385d535"},
    };
    char counting[128];
    for (size_t i = 0; i < sizeof(counting); i++)
        counting[i] = (char)i;
    for (size_t i = 0; i < ARRAY_LEN(edges); i++)
        for (size_t step = 1; step <= 128; step++)
            check_sha1(edges[i].want, slice_of(counting, edges[i].len), step);
    check_sha1("da39a3ee5e6b4b0d3255bfef95601890afd80709", SLICE_NONE, 1);
    check_sha1("a9993e364706816aba3e25717850c26c9cd0d89d", SLICE("abc"), 2);
    check_sha1("84983e441c3bd26ebaae4aa1f95129e5e54670f1",
               SLICE("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), 56);
    char *million = mem_alloc(1000000);
    memset(million, 'a', 1000000);
    check_sha1("34aa973cd4c4daa4f61eeb2bdbad27316534016f", slice_of(million, 1000000), 4095);
    mem_free(million);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(v7_is_ordered_and_well_formed),
        UNIT_TEST(v7_steps_are_wide),
        UNIT_TEST(v7_floor_is_lowest),
        UNIT_TEST(v5_is_that_of_the_rfc),
        UNIT_TEST(text_goes_there_and_back),
        UNIT_TEST(refuses_other_text),
        UNIT_TEST(short_ids_grow_below_2_53),
        UNIT_TEST(random_numbers_do_not_repeat),
        UNIT_TEST(below_is_uniform),
        UNIT_TEST(forked_workers_differ),
        UNIT_TEST(sha1_is_sha1),
    };
    return cmocka_run_group_tests_name("base/id", tests, NULL, NULL);
}
