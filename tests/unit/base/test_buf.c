/* base/buf: compared with a plain array under random appends and consumes; limits; sticky
 * failure. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"

enum { MODEL_MAX = 3000 };

static void append_random(struct buf *buf, char *model, size_t *model_len, struct chance *chance)
{
    char bytes[200];
    size_t len = chance_below(chance, sizeof(bytes));
    chance_bytes(chance, bytes, len);
    if (chance_below(chance, 2)) {
        for (size_t i = 0; i < len; i++) /* printable, without NUL */
            bytes[i] = (char)('!' + (bytes[i] & 63));
        buf_printf(buf, "%.*s", (int)len, bytes);
    } else {
        buf_append(buf, slice_of(bytes, len));
    }
    if (!buf_is_ok(buf))
        return;
    memcpy(model + *model_len, bytes, len);
    *model_len += len;
}

static void holds_what_was_appended(void **state)
{
    (void)state;
    struct chance chance = {3};
    char model[MODEL_MAX];
    size_t model_len = 0, failures = 0;
    struct buf buf;
    buf_init(&buf, MODEL_MAX);
    for (int i = 0; i < 30000; i++) {
        append_random(&buf, model, &model_len, &chance);
        if (!buf_is_ok(&buf)) {
            failures++;
            buf_clear(&buf);
            model_len = 0;
        }
        size_t drop = chance_below(&chance, 12) == 0 ? chance_below(&chance, model_len + 1) : 0;
        buf_consume(&buf, drop);
        model_len -= drop;
        memmove(model, model + drop, model_len);
        assert_slice(buf_slice(&buf), slice_of(model, model_len));
        assert_true(buf.cap <= MODEL_MAX);
        if (chance_below(&chance, 1000) == 0) {
            buf_shrink(&buf, chance_below(&chance, MODEL_MAX));
            model_len = 0;
        }
    }
    assert_true(failures > 10);
    buf_deinit(&buf);
    assert_null(buf.ptr);
}

static void appends_numbers_and_characters(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 1000);
    buf_append_u64(&buf, 0);
    buf_append_char(&buf, ' ');
    buf_append_u64(&buf, UINT64_MAX);
    buf_append_cstr(&buf, " ");
    buf_append_i64(&buf, INT64_MIN);
    buf_append_cstr(&buf, NULL);
    buf_append(&buf, SLICE_NONE);
    buf_append_char(&buf, '\0');
    buf_append_i64(&buf, INT64_MAX);
    assert_slice(buf_slice(&buf), SLICE("0 18446744073709551615 -9223372036854775808\0"
                                        "9223372036854775807"));
    buf_deinit(&buf);
}

static void fills_to_the_last_byte(void **state)
{
    (void)state;
    for (size_t max = 0; max < 600; max++) {
        struct buf buf;
        buf_init(&buf, max);
        for (size_t i = 0; i < max; i++)
            buf_append_char(&buf, 'x');
        assert_true(buf_is_ok(&buf));
        assert_int_equal(buf.len, max);
        buf_append_char(&buf, 'y');
        assert_false(buf_is_ok(&buf));
        buf_deinit(&buf);
        buf_printf(&buf, "%*s", (int)max, "");
        assert_true(buf_is_ok(&buf));
        assert_int_equal(buf.len, max);
        buf_printf(&buf, "z");
        assert_false(buf_is_ok(&buf));
        buf_deinit(&buf);
    }
}

static void failure_sticks(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 10);
    buf_append(&buf, SLICE("12345"));
    buf_append(&buf, SLICE("678901"));
    assert_false(buf_is_ok(&buf));
    buf_append(&buf, SLICE("x"));
    buf_append_char(&buf, 'x');
    buf_printf(&buf, "%s", "x");
    buf_append_u64(&buf, 1);
    assert_null(buf_reserve(&buf, 0));
    assert_slice(buf_slice(&buf), SLICE("12345"));
    size_t len;
    assert_null(buf_take(&buf, &len));
    buf_clear(&buf);
    assert_true(buf_is_ok(&buf));
    buf_append(&buf, SLICE("1234567890"));
    assert_slice(buf_slice(&buf), SLICE("1234567890"));
    assert_null(buf_reserve(&buf, SIZE_MAX));
    buf_deinit(&buf);
    assert_true(buf_is_ok(&buf));
}

static void hands_over(void **state)
{
    (void)state;
    struct buf buf;
    size_t len = 9;
    buf_init(&buf, 10);
    char *empty = buf_take(&buf, &len);
    assert_string_equal(empty, "");
    assert_int_equal(len, 0);
    mem_free(empty);
    buf_append(&buf, SLICE("1234567890"));
    char *full = buf_take(&buf, &len);
    assert_string_equal(full, "1234567890");
    assert_int_equal(len, 10);
    assert_int_equal(buf.len, 0);
    mem_free(full);
    buf_append(&buf, SLICE("again"));
    full = buf_take(&buf, NULL);
    assert_string_equal(full, "again");
    mem_free(full);
}

static void reserves_then_counts(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 1 << 20);
    char *room = buf_reserve(&buf, 70000);
    assert_non_null(room);
    memset(room, 'r', 70000);
    assert_int_equal(buf.len, 0);
    buf_added(&buf, 69999);
    assert_int_equal(buf_slice(&buf).len, 69999);
    assert_ptr_equal(buf_reserve(&buf, 1), buf.ptr + 69999);
    buf_shrink(&buf, 1 << 20);
    assert_true(buf.cap >= 70000 && buf.len == 0);
    buf_shrink(&buf, 100);
    assert_int_equal(buf.cap, 0);
    buf_deinit(&buf);
}

/* Each allocation in turn fails: there is never a crash or a leak, and always either the flag or
 * the correct bytes. */
static void survives_failing_memory(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct buf buf;
        buf_init(&buf, 100000);
        mem_fail_at(n, 1);
        for (int i = 0; i < 2000; i++)
            buf_printf(&buf, "%d,", i);
        uint64_t hits = mem_fail_hits();
        mem_fail_at(0, 0);
        assert_int_equal(buf_is_ok(&buf), hits == 0);
        if (buf_is_ok(&buf))
            assert_int_equal(buf.len, 10 * 2 + 90 * 3 + 900 * 4 + 1000 * 5);
        buf_deinit(&buf);
        if (hits == 0)
            break;
        assert_true(n < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(holds_what_was_appended),
        UNIT_TEST(appends_numbers_and_characters),
        UNIT_TEST(fills_to_the_last_byte),
        UNIT_TEST(failure_sticks),
        UNIT_TEST(hands_over),
        UNIT_TEST(reserves_then_counts),
        UNIT_TEST(survives_failing_memory),
    };
    return cmocka_run_group_tests_name("base/buf", tests, NULL, NULL);
}
