/*
 * The cache of resumable sessions.
 */
#include "tls/session.h"
#include "unit.h"

static void expect(struct tls_sessions *sessions, const char *key, const char *want)
{
    int64_t until = 0;
    slice got = tls_sessions_get(sessions, slice_cstr(key), 100, &until);
    if (!want) {
        assert_null(got.ptr);
        return;
    }
    assert_true(slice_eq_cstr(got, want));
    assert_true(until > 100);
}

static void the_newest_of_a_key_is_kept(void **state)
{
    (void)state;
    struct tls_sessions sessions;
    tls_sessions_init(&sessions, 4);
    expect(&sessions, "a", NULL);
    tls_sessions_put(&sessions, SLICE("a"), SLICE("one"), 101);
    tls_sessions_put(&sessions, SLICE("a"), SLICE("two, longer"), 102);
    assert_int_equal(sessions.by_key.count, 1);
    expect(&sessions, "a", "two, longer");
    expect(&sessions, "a\1", NULL);
    tls_sessions_drop(&sessions, SLICE("a"));
    tls_sessions_drop(&sessions, SLICE("a"));
    expect(&sessions, "a", NULL);
    tls_sessions_deinit(&sessions);
}

static void the_least_recently_used_goes(void **state)
{
    (void)state;
    struct tls_sessions sessions;
    tls_sessions_init(&sessions, 3);
    tls_sessions_put(&sessions, SLICE("a"), SLICE("A"), 200);
    tls_sessions_put(&sessions, SLICE("b"), SLICE("B"), 200);
    tls_sessions_put(&sessions, SLICE("c"), SLICE("C"), 200);
    expect(&sessions, "a", "A"); /* now b is the oldest */
    tls_sessions_put(&sessions, SLICE("d"), SLICE("D"), 200);
    expect(&sessions, "b", NULL);
    expect(&sessions, "a", "A");
    expect(&sessions, "c", "C");
    expect(&sessions, "d", "D");
    assert_int_equal(sessions.by_key.count, 3);
    tls_sessions_deinit(&sessions);
}

static void what_is_too_old_or_too_large_is_not_kept(void **state)
{
    (void)state;
    static char large[TLS_SESSION_BYTES_MAX + 1];
    static char key[TLS_SESSION_KEY_MAX + 1];
    struct tls_sessions sessions;
    tls_sessions_init(&sessions, 4);
    tls_sessions_put(&sessions, SLICE("old"), SLICE("x"), 100); /* the expiry is exclusive */
    expect(&sessions, "old", NULL);
    assert_int_equal(sessions.by_key.count, 0);
    tls_sessions_put(&sessions, SLICE("large"), slice_of(large, sizeof(large)), 200);
    tls_sessions_put(&sessions, slice_of(key, sizeof(key)), SLICE("x"), 200);
    tls_sessions_put(&sessions, SLICE("empty"), SLICE(""), 200);
    assert_int_equal(sessions.by_key.count, 0);
    tls_sessions_put(&sessions, SLICE("large"), slice_of(large, sizeof(large) - 1), 200);
    assert_int_equal(sessions.by_key.count, 1);
    tls_sessions_deinit(&sessions);
}

static void memory_may_run_out(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 6; nth++) {
        struct tls_sessions sessions;
        tls_sessions_init(&sessions, 4);
        tls_sessions_put(&sessions, SLICE("a"), SLICE("A"), 200);
        mem_fail_at(nth, 1);
        tls_sessions_put(&sessions, SLICE("a"), SLICE("AA"), 200);
        tls_sessions_put(&sessions, SLICE("b"), SLICE("B"), 200);
        mem_fail_at(0, 0);
        int64_t until;
        slice got = tls_sessions_get(&sessions, SLICE("a"), 100, &until);
        assert_true(!got.ptr || slice_eq_cstr(got, "AA")); /* never the replaced one */
        tls_sessions_deinit(&sessions);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(the_newest_of_a_key_is_kept),
        UNIT_TEST(the_least_recently_used_goes),
        UNIT_TEST(what_is_too_old_or_too_large_is_not_kept),
        UNIT_TEST(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
