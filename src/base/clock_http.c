/*
 * clock_http: the three forms of an HTTP-date (RFC 9110 5.6.7). Each is converted to RFC 3339 text
 * and parsed from it, so that calendar rules are only in clock.c. Names are case-sensitive.
 */
#include "base/clock.h"

#include <stdio.h>

enum { HTTP_TIME_LEN = 29 };

static const char day_names[7][10] = {
    "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
};
static const char month_names[12][4] = {
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
};

static unsigned two_digits(const char *text)
{
    return (unsigned)(text[0] - '0') * 10 + (unsigned)(text[1] - '0');
}

void time_format_http(int64_t wall_us, char out[30])
{
    char iso[TIME_TEXT_LEN + 1];
    time_format(wall_us, iso);
    unsigned month = two_digits(iso + 5);
    int64_t year = (int64_t)two_digits(iso) * 100 + two_digits(iso + 2);
    int64_t days = time_days_from_civil(year, month, two_digits(iso + 8));
    /* The sum is made positive before the last remainder, for days before 1970. */
    size_t weekday = (size_t)((days % 7 + 7 + 4) % 7); /* 1970-01-01 was a Thursday */
    ASSERT(month >= 1 && month <= 12);
    int len = snprintf(out, HTTP_TIME_LEN + 1, "%.3s, %.2s %s %.4s %.8s GMT", day_names[weekday],
                       iso + 8, month_names[month - 1], iso, iso + 11);
    ASSERT(len == HTTP_TIME_LEN);
}

/* The parts of an HTTP-date as they appear in it. */
struct http_date {
    slice year, month, day, time;
};

/* Consumes `count` bytes from the front of *text; if fewer are left, returns an empty slice,
 * which nothing below accepts. */
static slice take_chars(slice *text, size_t count)
{
    if (text->len < count)
        return SLICE_NONE;
    slice part = slice_first(*text, count);
    *text = slice_from(*text, count);
    return part;
}

/* Consumes the name of a day: the whole name, or its first three letters. */
static bool take_day_name(slice *text, bool is_whole)
{
    for (size_t i = 0; i < ARRAY_LEN(day_names); i++) {
        slice name = slice_cstr(day_names[i]);
        if (!is_whole)
            name = slice_first(name, 3);
        if (slice_starts_with(*text, name))
            return take_chars(text, name.len).len == name.len;
    }
    return false;
}

/* IMF-fixdate, RFC 850, asctime. a: abbreviated name of the day, A: full name; d, m, y or Y, t:
 * the other parts; every other character stands for itself. */
static const char *const forms[] = {"a, d m Y t GMT", "A, d-m-y t GMT", "a m d t Y"};

/* The parts are split here and checked later (date_to_us): a missing part is an empty slice,
 * which is not a valid day, month or year. */
static bool parse_form(const char *form, slice text, struct http_date *date)
{
    bool is_right = true;
    for (; *form && is_right; form++) {
        if (*form == 'a' || *form == 'A')
            is_right = take_day_name(&text, *form == 'A');
        else if (*form == 'd')
            date->day = take_chars(&text, 2);
        else if (*form == 'm')
            date->month = take_chars(&text, 3);
        else if (*form == 'y' || *form == 'Y')
            date->year = take_chars(&text, *form == 'y' ? 2 : 4);
        else if (*form == 't')
            date->time = take_chars(&text, 8);
        else
            is_right = slice_eq(take_chars(&text, 1), slice_of(form, 1));
    }
    return is_right && text.len == 0;
}

/* Returns 1 to 12, or 0 if the text is not the name of a month. */
static unsigned month_number(slice name)
{
    for (unsigned i = 0; i < ARRAY_LEN(month_names); i++)
        if (slice_eq_cstr(name, month_names[i]))
            return i + 1;
    return 0;
}

static uint64_t year_now(void)
{
    char iso[TIME_TEXT_LEN + 1];
    time_format(clock_wall_us(), iso);
    return (uint64_t)two_digits(iso) * 100 + two_digits(iso + 2);
}

/* RFC 9110 5.6.7: more than 50 years ahead means the most recent past year with these digits.
 * Near the end of a century the same digits may mean a year of the next century. */
static uint64_t whole_year(uint64_t two_digit_year)
{
    uint64_t now = year_now();
    uint64_t year = now / 100 * 100 + two_digit_year;
    if (year > now + 50)
        year -= 100;
    else if (year + 50 <= now)
        year += 100;
    return year;
}

static bool date_to_us(const struct http_date *date, int64_t *wall_us)
{
    uint64_t year, day;
    unsigned month = month_number(date->month);
    slice day_text = date->day;
    if (day_text.len && day_text.ptr[0] == ' ') /* asctime pads with a space */
        day_text = slice_from(day_text, 1);
    if (!month || !slice_to_u64(date->year, 9999, &year) || !slice_to_u64(day_text, 31, &day))
        return false;
    if (date->year.len == 2)
        year = whole_year(year);
    char iso[TIME_TEXT_LEN + 1];
    int len = snprintf(iso, sizeof(iso), "%04u-%02u-%02uT%.*sZ", (unsigned)year, month,
                       (unsigned)day, SLICE_ARG(date->time));
    /* 20 bytes are "1994-11-06T08:49:37Z": a time of another length did not fill its eight
     * bytes. */
    return len == 20 && time_parse(slice_cstr(iso), wall_us);
}

bool time_parse_http(slice text, int64_t *wall_us)
{
    struct http_date date = {SLICE_NONE, SLICE_NONE, SLICE_NONE, SLICE_NONE};
    size_t form = 0;
    while (form < ARRAY_LEN(forms) && !parse_form(forms[form], text, &date))
        form++;
    if (form == ARRAY_LEN(forms))
        return false;
    /* Only asctime pads the day with a space; the other forms write "06", so " 6" is refused
     * there. */
    bool is_padded = date.day.len && date.day.ptr[0] == ' ';
    bool is_asctime = text.len >= 4 && text.ptr[3] == ' ';
    return (is_asctime || !is_padded) && date_to_us(&date, wall_us);
}
