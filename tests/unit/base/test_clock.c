/* base/clock: each calendar day compared with a count of days, both text forms in both
 * directions, and texts that RFC 3339 and RFC 9110 do not allow. */
#include "testing.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define US INT64_C(1000000)

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static unsigned month_days(int64_t year, unsigned month)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && is_leap(year) ? 29 : days[month - 1];
}

static void counts_every_day(void **state)
{
    (void)state;
    int64_t days = -719528; /* 0000-01-01 */
    for (int64_t year = 0; year <= 9999; year++) {
        for (unsigned month = 1; month <= 12; month++) {
            for (unsigned day = 1; day <= month_days(year, month); day++, days++) {
                int64_t y;
                unsigned m, d;
                if (time_days_from_civil(year, month, day) != days)
                    fail_msg("%lld-%u-%u", (long long)year, month, day);
                time_civil_from_days(days, &y, &m, &d);
                if (y != year || m != month || d != day)
                    fail_msg("day %lld", (long long)days);
            }
        }
    }
    assert_int_equal(time_days_from_civil(1970, 1, 1), 0);
    assert_int_equal(days, 2932897);
    /* the functions also accept years before 0 */
    assert_int_equal(time_days_from_civil(-1, 12, 31), -719529);
    int64_t y;
    unsigned m, d;
    time_civil_from_days(-719529, &y, &m, &d);
    assert_true(y == -1 && m == 12 && d == 31);
}

static void formats_as_libc_does(void **state)
{
    (void)state;
    struct chance chance = {8};
    for (int i = 0; i < 30000; i++) {
        /* years 0 to 9999 */
        int64_t us = (int64_t)(chance_u64(&chance) % 315569520000000000u) - 62167219200 * US;
        int64_t seconds = (us - (us % US + US) % US) / US;
        char want[40], got[TIME_TEXT_LEN + 1], http[30];
        time_t t = (time_t)seconds;
        struct tm tm;
        assert_non_null(gmtime_r(&t, &tm));
        snprintf(want, sizeof(want), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                 (tm.tm_year + 1900) % 10000, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
                 tm.tm_sec, (int)((us - seconds * US) / 1000));
        time_format(us, got);
        assert_string_equal(got, want);
        int64_t back;
        assert_true(time_parse(slice_cstr(got), &back));
        assert_true(back == seconds * US + (us - seconds * US) / 1000 * 1000);
        size_t len = strftime(want, sizeof(want), "%a, %d %b ", &tm);
        snprintf(want + len, sizeof(want) - len, "%04d %02d:%02d:%02d GMT",
                 (tm.tm_year + 1900) % 10000, tm.tm_hour, tm.tm_min, tm.tm_sec);
        time_format_http(us, http);
        assert_string_equal(http, want);
        assert_true(time_parse_http(slice_cstr(http), &back));
        assert_true(back == seconds * US);
    }
}

static void stays_within_the_years(void **state)
{
    (void)state;
    char text[TIME_TEXT_LEN + 1];
    time_format(INT64_MIN, text);
    assert_string_equal(text, "0000-01-01T00:00:00.000Z");
    time_format(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
    time_format(-1, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999Z");
    time_format(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
}

struct time_case {
    const char *text;
    int64_t wall_us;
};

static const struct time_case right[] = {
    {"1970-01-01T00:00:00Z", 0},
    {"1970-01-01t00:00:00z", 0},
    {"1970-01-01T00:00:00+00:00", 0},
    {"1970-01-01T00:00:00-00:00", 0},
    {"1970-01-01T01:30:00+01:30", 0},
    {"1969-12-31T00:01:00-23:59", 0},
    {"1970-01-01T23:59:00+23:59", 0},
    {"1970-01-01T00:00:01.5Z", 1500000},
    {"1970-01-01T00:00:00.000001Z", 1},
    {"1970-01-01T00:00:00.0000019Z", 1},
    {"1970-01-01T00:00:00.99999999999999999999999999Z", 999999},
    {"1969-12-31T23:59:59.999999Z", -1},
    {"2026-01-31T23:59:59.123Z", 1769903999123000},
    {"2000-02-29T12:00:00Z", 951825600 * US},
    {"2024-02-29T12:00:00Z", 1709208000 * US},
    {"1985-04-12T23:20:50.52Z", 482196050520000}, /* RFC 3339 5.8 */
    {"1996-12-19T16:39:57-08:00", 851042397 * US},
    {"1990-12-31T23:59:60Z", 662687999999999},
    {"1990-12-31T15:59:60-08:00", 662687999999999},
    {"1990-12-31T23:59:60.75Z", 662687999999999},
    {"1937-01-01T12:00:27.87+00:20", -1041337172130000},
    {"2012-07-01T05:44:60+05:45", 1341100799999999},
    {"0000-01-01T00:00:00Z", -62167219200 * US},
    {"9999-12-31T23:59:59.999999Z", 253402300799999999},
};

static const char *const wrong[] = {
    "",
    "1970",
    "1970-01-01",
    "1970-01-01T00:00:00",
    "1970-01-01 00:00:00Z",
    "1970-01-01T00:00Z",
    "1970-1-01T00:00:00Z",
    "1970-01-01T0:00:00Z",
    "70-01-01T00:00:00Z",
    "01970-01-01T00:00:00Z",
    "+1970-01-01T00:00:00Z",
    "1970-00-01T00:00:00Z",
    "1970-13-01T00:00:00Z",
    "1970-01-00T00:00:00Z",
    "1970-01-32T00:00:00Z",
    "1970-04-31T00:00:00Z",
    "1970-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z",
    "2100-02-29T00:00:00Z",
    "2023-02-29T00:00:00Z",
    "2000-02-30T00:00:00Z",
    "1970-01-01T24:00:00Z",
    "1970-01-01T00:60:00Z",
    "1970-01-01T00:00:61Z",
    "1970-01-01T00:00:00.Z",
    "1970-01-01T00:00:00,5Z",
    "1970-01-01T00:00:00.5",
    "1970-01-01T00:00:00.-5Z",
    "1970-01-01T00:00:00+24:00",
    "1970-01-01T00:00:00+00:60",
    "1970-01-01T00:00:00+0000",
    "1970-01-01T00:00:00+00",
    "1970-01-01T00:00:00+1:00",
    "1970-01-01T00:00:00Zz",
    "1970-01-01T00:00:00Z ",
    " 1970-01-01T00:00:00Z",
    "1970-01-01T00:00:00+01:00Z",
    "1970/01/01T00:00:00Z",
    "1970-01-01T00-00-00Z",
    "1990-12-31T23:58:60Z",
    "1990-12-31T22:59:60Z",
    "1990-12-30T23:59:60Z",
    "1990-12-31T23:59:60-08:00",
    "0000-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59-00:01",
    "1970-01-01T00:00:0\xD9\xA1Z",
    "-970-01-01T00:00:00Z",
    "197 -01-01T00:00:00Z",
};

static void parses_rfc3339(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(right); i++) {
        int64_t got = 12345;
        if (!time_parse(slice_cstr(right[i].text), &got) || got != right[i].wall_us)
            fail_msg("%s: %lld", right[i].text, (long long)got);
    }
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        int64_t got = 12345;
        if (time_parse(slice_cstr(wrong[i]), &got) || got != 12345)
            fail_msg("taken: %s", wrong[i]);
    }
    int64_t got;
    assert_false(time_parse(SLICE("1970-01-01T00:00:00Z\0"), &got));
    assert_false(time_parse(SLICE("1970-01-01\00000:00:00Z"), &got));
}

/* Every offset with each sign, near the end of a day, a month and a year. */
static void parses_every_offset(void **state)
{
    (void)state;
    int64_t base, got;
    assert_true(time_parse(SLICE("2024-02-29T23:30:15.25Z"), &base));
    for (int offset = -1439; offset <= 1439; offset++) {
        char text[40];
        int size = offset < 0 ? -offset : offset;
        snprintf(text, sizeof(text), "2024-02-29T23:30:15.25%c%02d:%02d", offset < 0 ? '-' : '+',
                 size / 60, size % 60);
        assert_true(time_parse(slice_cstr(text), &got));
        assert_true(got == base - offset * 60 * US);
    }
}

/* A changed byte never causes a crash, and a text that is still accepted can be printed as a
 * time again. */
static void survives_mutations(void **state)
{
    (void)state;
    struct chance chance = {9};
    for (int i = 0; i < 100000; i++) {
        char text[] = "2024-02-29T23:59:60.123456+01:30";
        char again[TIME_TEXT_LEN + 1];
        size_t len = sizeof(text) - 1 - chance_below(&chance, 8) * chance_below(&chance, 2);
        text[chance_below(&chance, len)] = "0123456789-+:.TtZz \xff"[chance_below(&chance, 20)];
        int64_t got, back;
        if (!time_parse(slice_of(text, len), &got))
            continue;
        time_format(got, again);
        assert_true(time_parse(slice_cstr(again), &back));
        assert_true(back == got - (got % 1000 + 1000) % 1000);
    }
}

static void parses_http_dates(void **state)
{
    (void)state;
    static const char *const same[] = {"Sun, 06 Nov 1994 08:49:37 GMT",
                                       "Sunday, 06-Nov-94 08:49:37 GMT",
                                       "Sun Nov  6 08:49:37 1994"};
    static const char *const bad[] = {"",
                                      "Sun",
                                      "Sun, 06 Nov 1994 08:49:37",
                                      "Sun, 06 Nov 1994 08:49:37 UTC",
                                      "Sun, 6 Nov 1994 08:49:37 GMT",
                                      "Sun,  6 Nov 1994 08:49:37 GMT",
                                      "sun, 06 Nov 1994 08:49:37 GMT",
                                      "Xxx, 06 Nov 1994 08:49:37 GMT",
                                      "Sun, 06 nov 1994 08:49:37 GMT",
                                      "Sun, 06 Nov 94 08:49:37 GMT",
                                      "Sun, 31 Nov 1994 08:49:37 GMT",
                                      "Sun, 00 Nov 1994 08:49:37 GMT",
                                      "Sun, 06 Nov 1994 24:00:00 GMT",
                                      "Sun, 06 Nov 1994 08:49:37 GMT ",
                                      "Sunday, 06-Nov-1994 08:49:37 GMT",
                                      "Sun, 06-Nov-94 08:49:37 GMT",
                                      "Sunday, 06 Nov 1994 08:49:37 GMT",
                                      "Sun Nov 6 08:49:37 1994",
                                      "Sun Nov  6 08:49:37 94",
                                      "Sun Nov  6 08:49:37 1994 GMT",
                                      "Sun Nov 06 08:49:3 1994",
                                      "0",
                                      "Sun, 06 Nov 1994 08:49:.7 GMT",
                                      "Sunday,  6-Nov-94 08:49:37 GMT",
                                      "Sun, 06 Nov 1994 08:49:37+GMT"};
    int64_t got;
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        assert_true(time_parse_http(slice_cstr(same[i]), &got));
        assert_true(got == 784111777 * US);
    }
    assert_true(time_parse_http(SLICE("Wed Nov 16 08:49:37 1994"), &got));
    assert_true(got == (784111777 + 10 * 86400) * US);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (time_parse_http(slice_cstr(bad[i]), &got))
            fail_msg("taken: %s", bad[i]);
}

/* All hundred two-digit years are in the window of RFC 9110: from 49 years ago to 50 years from
 * now. */
static void widens_short_years(void **state)
{
    (void)state;
    char now[TIME_TEXT_LEN + 1], then[TIME_TEXT_LEN + 1];
    int this_year, year;
    time_format(clock_wall_us(), now);
    assert_int_equal(sscanf(now, "%4d", &this_year), 1);
    for (int short_year = 0; short_year < 100; short_year++) {
        char text[48];
        int64_t got;
        snprintf(text, sizeof(text), "Monday, 15-Jun-%02d 00:00:00 GMT", short_year);
        assert_true(time_parse_http(slice_cstr(text), &got));
        time_format(got, then);
        assert_int_equal(sscanf(then, "%4d", &year), 1);
        assert_int_equal(year % 100, short_year);
        assert_in_range(year, this_year - 49, this_year + 50);
    }
}

/* The expected values come from the time zone database. */
static void knows_the_next_midnight(void **state)
{
    static const struct {
        const char *now, *wanted;
    } pacific[] = {
        {"2026-01-15T12:00:00Z", "2026-01-16T08:00:00.000Z"},
        {"2026-07-15T06:59:59Z", "2026-07-15T07:00:00.000Z"},
        {"2026-07-15T07:00:00Z", "2026-07-16T07:00:00.000Z"},
        {"2026-03-08T09:00:00Z", "2026-03-09T07:00:00.000Z"},
        {"2026-03-08T07:59:00Z", "2026-03-08T08:00:00.000Z"},
        {"2026-03-09T06:30:00Z", "2026-03-09T07:00:00.000Z"},
        {"2026-11-01T06:30:00Z", "2026-11-01T07:00:00.000Z"},
        {"2026-11-01T07:30:00Z", "2026-11-02T08:00:00.000Z"},
        {"2026-11-02T07:30:00Z", "2026-11-02T08:00:00.000Z"},
        {"2027-12-31T23:00:00Z", "2028-01-01T08:00:00.000Z"},
        {"2028-03-12T08:00:01Z", "2028-03-13T07:00:00.000Z"},
    };
    char text[TIME_TEXT_LEN + 1];
    int64_t now, got;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pacific); i++) {
        assert_true(time_parse(slice_cstr(pacific[i].now), &now));
        assert_true(time_parse_midnight(SLICE("midnight America/Los_Angeles"), now, &got));
        time_format(got, text);
        assert_string_equal(text, pacific[i].wanted);
        assert_true(time_parse_midnight(SLICE("midnight UTC"), now, &got));
        assert_true(got > now && got - now <= 86400 * (int64_t)US);
        assert_int_equal(got % (86400 * (int64_t)US), 0);
    }
    assert_false(time_parse_midnight(SLICE("midnight Europe/Zurich"), now, &got));
    assert_false(time_parse_midnight(SLICE("midnight"), now, &got));
}

static void clocks_advance(void **state)
{
    (void)state;
    uint64_t mono = clock_mono_ns(), boot = clock_boot_ns(), cpu = clock_thread_cpu_ns();
    while (clock_thread_cpu_ns() < cpu + 1000000) {
    }
    assert_true(clock_mono_ns() - mono >= 1000000);
    assert_true(clock_boot_ns() - boot >= 1000000);
    int64_t from_s = time(NULL), wall_s = clock_wall_us() / US, to_s = time(NULL);
    assert_true(wall_s >= from_s && wall_s <= to_s + 1); /* time(2) may be a tick late */
}

/* The offset is within the bounds of each answer, and changes only if the next answer requires
 * it. */
static void shares_a_clock(void **state)
{
    (void)state;
    const uint64_t second = 1000000000;
    int64_t wall = clock_wall_us();
    assert_in_range(clock_shared_us(), wall, wall + 60 * US); /* nothing is known yet */
    uint64_t now = clock_boot_ns();
    int64_t now_us = (int64_t)(now / 1000), before = clock_boot_ns() / 1000;
    clock_share(1000 * US, now - 2 * second, now);
    int64_t offset = clock_shared_us() - (int64_t)(clock_boot_ns() / 1000);
    assert_in_range(offset + now_us, 1001 * US - 10000, 1001 * US + 10000);
    assert_true(before >= now_us);
    const struct {
        /* sent_s is how many seconds ago the query was sent */
        int64_t shared_s, sent_s, moves_to_s;
    } answers[] = {
        {1000, 100, 1001}, /* the answer was slow, so it proves nothing */
        {1005, 0, 1005},   /* immediate */
        {1004, 2, 1005},   /* from 1004 to 1006 */
        {1000, 2, 1002},   /* from 1000 to 1002 */
        {1010, 3, 1010},   /* from 1010 to 1013 */
    };
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        clock_share(answers[i].shared_s * US, now - (uint64_t)answers[i].sent_s * second, now);
        offset = clock_shared_us() - (int64_t)(clock_boot_ns() / 1000);
        assert_in_range(offset + now_us, answers[i].moves_to_s * US - 10000,
                        answers[i].moves_to_s * US + 10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(counts_every_day),        UNIT_TEST(formats_as_libc_does),
        UNIT_TEST(stays_within_the_years),  UNIT_TEST(parses_rfc3339),
        UNIT_TEST(parses_every_offset),     UNIT_TEST(survives_mutations),
        UNIT_TEST(parses_http_dates),       UNIT_TEST(widens_short_years),
        UNIT_TEST(knows_the_next_midnight), UNIT_TEST(clocks_advance),
        UNIT_TEST(shares_a_clock),
    };
    return cmocka_run_group_tests_name("base/clock", tests, NULL, NULL);
}
