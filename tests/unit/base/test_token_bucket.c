/*
 * Token buckets with a clock that the test sets.
 */
#include "base/token_bucket.h"
#include "unit.h"

enum { MS = 1000000 };
static const uint64_t SECOND = 1000000000;

static void it_starts_full_and_fills_at_its_rate(void **state)
{
    struct token_bucket bucket;
    (void)state;
    token_bucket_init(&bucket, 3, 7 * SECOND);
    assert_true(bucket.tokens == 3);
    bucket.tokens -= 3;
    token_bucket_fill(&bucket, 2, 3, 7 * SECOND + 500 * MS);
    assert_true(bucket.tokens == 1);
    token_bucket_fill(&bucket, 2, 3, 100 * SECOND);
    assert_true(bucket.tokens == 3); /* never above its burst */
    token_bucket_fill(&bucket, 2, 1, 100 * SECOND);
    assert_true(bucket.tokens == 1); /* a smaller burst applies immediately */
}

static void waits_are_what_is_missing(void **state)
{
    struct token_bucket bucket;
    (void)state;
    token_bucket_init(&bucket, 1, 0);
    assert_int_equal(token_bucket_wait_ns(&bucket, 4, 1), 0);
    assert_in_range(token_bucket_wait_ns(&bucket, 4, 2), 250 * MS, 250 * MS + 1);
    bucket.tokens = -1; /* in debt */
    uint64_t wait = token_bucket_wait_ns(&bucket, 4, 1);
    assert_in_range(wait, 500 * MS, 500 * MS + 1);
    token_bucket_fill(&bucket, 4, 1, wait);
    assert_int_equal(token_bucket_wait_ns(&bucket, 4, 1), 0); /* rounded up, so the token is
                                                               * available then */
    bucket.tokens = 0;
    assert_in_range(token_bucket_wait_ns(&bucket, 0.5, 1), 2 * SECOND, 2 * SECOND + 1);
}

static void a_clock_that_goes_back_adds_nothing(void **state)
{
    struct token_bucket bucket;
    (void)state;
    token_bucket_init(&bucket, 5, 10 * SECOND);
    bucket.tokens = 0;
    token_bucket_fill(&bucket, 1, 5, 9 * SECOND);
    token_bucket_fill(&bucket, 1, 5, 10 * SECOND);
    assert_true(bucket.tokens == 0);
    token_bucket_fill(&bucket, 1, 5, 11 * SECOND);
    assert_true(bucket.tokens == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_starts_full_and_fills_at_its_rate),
        cmocka_unit_test(waits_are_what_is_missing),
        cmocka_unit_test(a_clock_that_goes_back_adds_nothing),
    };
    return cmocka_run_group_tests_name("base/token_bucket", tests, NULL, NULL);
}
