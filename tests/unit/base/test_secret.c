/* base/secret: bytes belong to one owner through random use. Pages are excluded from core files,
 * shared by many secrets, wiped, and returned. */
#include "testing.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/secret.h"

struct held {
    struct secret *secret;
    uint64_t seed;
    size_t len;
};

static void fill(const struct held *held, char *out)
{
    struct chance chance = {held->seed};
    chance_bytes(&chance, out, held->len);
}

static void check(const struct held *held)
{
    static char want[20000];
    slice got = secret_reveal(held->secret);
    fill(held, want);
    assert_slice(got, slice_of(want, held->len));
    assert_int_equal(got.ptr[got.len], '\0');
}

static size_t random_len(struct chance *chance)
{
    switch (chance_below(chance, 20)) {
    case 0:
        return chance_below(chance, 20000);
    case 1:
        return ((size_t)64 << chance_below(chance, 8)) - 40 + chance_below(chance, 48);
    default:
        return chance_below(chance, 300);
    }
}

static void secrets_keep_their_bytes(void **state)
{
    (void)state;
    static struct held all[600];
    static char bytes[20000];
    struct chance chance = {14};
    memset(all, 0, sizeof(all));
    for (int i = 0; i < 20000; i++) {
        struct held *held = &all[chance_below(&chance, ARRAY_LEN(all))];
        if (held->secret) {
            check(held);
            struct secret *second = secret_ref(held->secret);
            secret_unref(held->secret);
            check(held);
            secret_unref(second);
            held->secret = NULL;
            continue;
        }
        held->seed = chance_u64(&chance);
        held->len = random_len(&chance);
        fill(held, bytes);
        held->secret = secret_new(slice_of(bytes, held->len));
        assert_non_null(held->secret);
    }
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (all[i].secret)
            check(&all[i]);
        secret_unref(all[i].secret);
    }
    assert_int_equal(mem_live_blocks(), 0);
}

static void nothing_and_too_much(void **state)
{
    (void)state;
    char *room;
    secret_unref(NULL);
    assert_null(secret_reveal(NULL).ptr);
    struct secret *empty = secret_new(SLICE_NONE);
    assert_int_equal(secret_reveal(empty).len, 0);
    assert_int_equal(mem_live_blocks(), 1);
    secret_unref(empty);
    assert_null(secret_new_room(SECRET_BYTES_MAX + 1, &room));
    assert_null(secret_new_room(SIZE_MAX, &room));
    struct secret *largest = secret_new_room(SECRET_BYTES_MAX, &room);
    assert_non_null(largest);
    memset(room, 'x', SECRET_BYTES_MAX);
    assert_int_equal(secret_reveal(largest).len, SECRET_BYTES_MAX);
    secret_unref(largest);
}

static void fails_as_memory_does(void **state)
{
    (void)state;
    mem_fail_at(1, 2);
    assert_null(secret_new(SLICE("a")));
    assert_null(secret_new(SLICE("b")));
    struct secret *third = secret_new(SLICE("c"));
    assert_slice(secret_reveal(third), SLICE("c"));
    assert_int_equal(mem_live_blocks(), 1);
    secret_unref(third);
}

/* The bytes of all mappings with the kernel's flag "dd" (do not dump). *is_inside: ptr is in one
 * of them. */
static size_t undumpable_bytes(const void *ptr, bool *is_inside)
{
    char line[512];
    unsigned long from = 0, to = 0;
    size_t bytes = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    *is_inside = false;
    while (fgets(line, sizeof(line), maps)) {
        unsigned long first, last;
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2) {
            from = first;
            to = last;
        } else if (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dd")) {
            bytes += to - from;
            *is_inside |= (uintptr_t)ptr >= from && (uintptr_t)ptr < to;
        }
    }
    fclose(maps);
    return bytes;
}

static bool is_undumpable(const void *ptr)
{
    bool is_inside;
    undumpable_bytes(ptr, &is_inside);
    return is_inside;
}

static void pages_stay_out_of_core_files(void **state)
{
    (void)state;
    static const size_t lens[] = {1, 60, 100, 1000, 4000, 5000, 100000};
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        char *room;
        struct secret *secret = secret_new_room(lens[i], &room);
        assert_true(is_undumpable(room));
        assert_true(is_undumpable(room + lens[i]));
        secret_unref(secret);
    }
    assert_false(is_undumpable(lens));
}

/* Reads memory that ASan has poisoned, as an attacker or a core file would. */
static size_t read_memory(const void *ptr, char *out, size_t len)
{
    int self = open("/proc/self/mem", O_RDONLY);
    assert_true(self >= 0);
    ssize_t got = pread(self, out, len, (off_t)(uintptr_t)ptr);
    close(self);
    return got < 0 ? 0 : (size_t)got;
}

static void the_last_reference_wipes(void **state)
{
    (void)state;
    static const size_t lens[] = {24, 200, 3000, 9000};
    static char left[9000];
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        char *room;
        struct secret *neighbour = secret_new(SLICE("keeps the slab"));
        struct secret *secret = secret_new_room(lens[i], &room);
        memset(room, 'S', lens[i]);
        secret_ref(secret);
        secret_unref(secret);
        assert_int_equal(read_memory(room, left, lens[i]), lens[i]);
        assert_int_equal(left[lens[i] - 1], 'S');
        secret_unref(secret);
        size_t len = read_memory(room, left, lens[i]); /* 0: the pages are unmapped */
        assert_null(memchr(left, 'S', len));
        secret_unref(neighbour);
    }
}

static size_t mapped_kb(void)
{
    bool is_inside;
    return undumpable_bytes(NULL, &is_inside) / 1024;
}

/* 20,000 tokens of 100 bytes take 128 bytes each instead of a page each, and are returned
 * afterwards. */
static void small_secrets_share_pages(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    struct secret **all = mem_calloc(COUNT, sizeof(struct secret *));
    char token[100] = "token";
    size_t before = mapped_kb();
    for (size_t i = 0; i < COUNT; i++) {
        all[i] = secret_new(slice_of(token, sizeof(token)));
        assert_non_null(all[i]);
    }
    assert_int_equal(mem_live_blocks(), COUNT + 1);
    /* an empty slab may have existed before */
    assert_in_range(mapped_kb() - before, COUNT * 128 / 1024 - 64, COUNT * 160 / 1024);
    for (size_t i = 0; i < COUNT; i++)
        secret_unref(all[i * 7919 % COUNT]);
    assert_true(mapped_kb() <= before + 64);
    mem_free(all);
}

static void *churn(void *arg)
{
    struct chance chance = {(uint64_t)(uintptr_t)arg};
    struct held all[20] = {{NULL, 0, 0}};
    char bytes[300];
    for (int i = 0; i < 5000; i++) {
        struct held *held = &all[chance_below(&chance, ARRAY_LEN(all))];
        if (held->secret) {
            fill(held, bytes);
            if (!slice_eq(secret_reveal(held->secret), slice_of(bytes, held->len)))
                return arg;
            secret_unref(held->secret);
        }
        held->seed = chance_u64(&chance);
        held->len = chance_below(&chance, sizeof(bytes));
        fill(held, bytes);
        held->secret = secret_new(slice_of(bytes, held->len));
    }
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        secret_unref(all[i].secret);
    return NULL;
}

static void threads_may_share_the_pool(void **state)
{
    (void)state;
    pthread_t threads[4];
    void *wrong;
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(secrets_keep_their_bytes),   UNIT_TEST(nothing_and_too_much),
        UNIT_TEST(fails_as_memory_does),       UNIT_TEST(pages_stay_out_of_core_files),
        UNIT_TEST(the_last_reference_wipes),   UNIT_TEST(small_secrets_share_pages),
        UNIT_TEST(threads_may_share_the_pool),
    };
    return cmocka_run_group_tests_name("base/secret", tests, NULL, NULL);
}
