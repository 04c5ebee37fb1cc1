/* What processes report to one another about circuits, as text. */
#include "limit/circuit_news.h"
#include "unit.h"

static struct circuit_news news_of(slice origin)
{
    return (struct circuit_news){
        .sender = {{1}},
        .key = {.account_id = {{2}}, .origin = origin},
        .news = {BREAKER_OPENS, 5000},
    };
}

static void check_same(const struct circuit_news *news)
{
    char text[CIRCUIT_NEWS_BYTES_MAX];
    struct circuit_news read;
    assert_true(circuit_news_parse(circuit_news_format(news, text), &read));
    assert_true(uuid_eq(read.sender, news->sender));
    assert_int_equal(read.is_of_all, news->is_of_all);
    assert_int_equal(read.news.turn, news->news.turn);
    assert_int_equal(read.news.for_ms, news->news.for_ms);
    assert_int_equal(read.key.is_host_given, news->key.is_host_given);
    assert_true(slice_eq(read.key.origin, news->key.origin));
    if (!news->is_of_all)
        assert_true(uuid_eq(read.key.account_id, news->key.account_id));
    if (news->key.is_host_given)
        assert_true(slice_eq(read.key.integration_id, news->key.integration_id));
}

static void reports_arrive(void **state)
{
    struct circuit_news news = news_of(SLICE("https://api.example.com:8443"));
    (void)state;
    check_same(&news);
    news.is_of_all = true;
    check_same(&news);
    news.is_of_all = false;
    news.news.turn = BREAKER_CLOSES;
    news.key.is_host_given = true;
    news.key.integration_id = SLICE("http");
    check_same(&news);
}

static void an_origin_has_a_bound(void **state)
{
    char text[CIRCUIT_NEWS_BYTES_MAX], origin[BREAKER_ORIGIN_MAX + 1];
    (void)state;
    memset(origin, 'a', sizeof(origin));
    struct circuit_news news = news_of(slice_of(origin, BREAKER_ORIGIN_MAX));
    check_same(&news);
    news = news_of(slice_of(origin, BREAKER_ORIGIN_MAX + 1));
    assert_int_equal(circuit_news_format(&news, text).len, 0);
}

static void malformed_news_are_refused(void **state)
{
#define SENDER "01020304-0506-0708-090a-0b0c0d0e0f10"
    static const char *const none[] = {
        "",
        SENDER,
        "circuit",
        "circuit x open 5 all - https://a",
        "circuit " SENDER " open x all - https://a",
        "circuit " SENDER " open 5 all - ",
        "circuit " SENDER " open 5 all http https://a", /* a host that no connection has */
        "circuit " SENDER " open 5 nobody - https://a",
        "circuit " SENDER " open 99999999999 all - https://a",
    };
    struct circuit_news news;
    (void)state;
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
        assert_false(circuit_news_parse(slice_cstr(none[i]), &news));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_arrive),
        cmocka_unit_test(an_origin_has_a_bound),
        cmocka_unit_test(malformed_news_are_refused),
    };
    return cmocka_run_group_tests_name("limit/circuit_news", tests, NULL, NULL);
}
