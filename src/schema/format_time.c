/*
 * schema_format_time: RFC 3339: date-time, full-date, full-time (5.6) and durations (appendix A).
 * Checked without making an instant of them: a date alone or a duration has none.
 */
#include "schema/format.h"

#include "base/ascii.h"

/* Two digits at `at`, -1 when they are none. */
static int two_digits(slice text, size_t at)
{
    if (at + 2 > text.len)
        return -1;
    unsigned tens = (unsigned char)text.ptr[at] - (unsigned)'0';
    unsigned ones = (unsigned char)text.ptr[at + 1] - (unsigned)'0';
    return tens > 9 || ones > 9 ? -1 : (int)(tens * 10 + ones);
}

static bool char_at(slice text, size_t at, char c)
{
    return at < text.len && text.ptr[at] == c;
}

static bool is_leap_year(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

bool format_date(slice text)
{
    /* February has 29 here; the year decides below. */
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int century = two_digits(text, 0);
    int year = two_digits(text, 2);
    int month = two_digits(text, 5);
    int day = two_digits(text, 8);
    if (text.len != 10 || !char_at(text, 4, '-') || !char_at(text, 7, '-'))
        return false;
    if (century < 0 || year < 0 || month < 1 || month > 12 || day < 1 || day > days[month - 1])
        return false;
    return month != 2 || day != 29 || is_leap_year(century * 100 + year);
}

/* "Z" or "+hh:mm", all of text; *minutes east of Greenwich. */
static bool read_offset(slice text, int *minutes)
{
    *minutes = 0;
    if (text.len == 1)
        return char_at(text, 0, 'Z') || char_at(text, 0, 'z');
    int hour = two_digits(text, 1);
    int minute = two_digits(text, 4);
    bool is_east = char_at(text, 0, '+');
    if (text.len != 6 || (!is_east && !char_at(text, 0, '-')) || !char_at(text, 3, ':'))
        return false;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59)
        return false;
    *minutes = (hour * 60 + minute) * (is_east ? 1 : -1);
    return true;
}

/* A leap second is the last of a UTC day, whatever the offset says. */
static bool is_leap_moment(int hour, int minute, int offset)
{
    const int day = 24 * 60;
    return ((hour * 60 + minute - offset) % day + day) % day == day - 1;
}

bool format_time(slice text)
{
    int hour = two_digits(text, 0);
    int minute = two_digits(text, 3);
    int second = two_digits(text, 6);
    if (!char_at(text, 2, ':') || !char_at(text, 5, ':'))
        return false;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60)
        return false;
    /* At position 8 the fraction or the offset begins. */
    size_t at = 8;
    if (char_at(text, at, '.')) {
        size_t first = ++at;
        while (at < text.len && ascii_is_digit(text.ptr[at]))
            at++;
        if (at == first)
            return false;
    }
    int offset = 0;
    if (!read_offset(slice_from(text, at), &offset))
        return false;
    /* 60 is allowed only where a leap second can be (RFC 3339 5.7). */
    return second < 60 || is_leap_moment(hour, minute, offset);
}

bool format_date_time(slice text)
{
    return (char_at(text, 10, 'T') || char_at(text, 10, 't')) &&
           format_date(slice_first(text, 10)) && format_time(slice_from(text, 11));
}

/* Components in the order of units, without gaps between those that are there (P1Y2D is none).
 * Moves *text behind them; returns their number, -1 on a fault. */
static int read_components(slice *text, const char *units)
{
    int count = 0;
    size_t next = 0;
    while (text->len > 0 && text->ptr[0] != 'T') {
        size_t digits = 0;
        while (digits < text->len && ascii_is_digit(text->ptr[digits]))
            digits++;
        if (digits == 0 || digits == text->len)
            return -1;
        /* strchr finds the NUL at the end of units, too, which is no unit. */
        const char *unit = strchr(units, text->ptr[digits]);
        if (!unit || !*unit || (count > 0 && (size_t)(unit - units) != next))
            return -1;
        next = (size_t)(unit - units) + 1;
        count++;
        *text = slice_from(*text, digits + 1);
    }
    return count;
}

bool format_duration(slice text)
{
    if (!char_at(text, 0, 'P') || memchr(text.ptr, '\0', text.len))
        return false;
    text = slice_from(text, 1);
    /* Weeks stand alone (appendix A): tried on a copy first. */
    slice weeks = text;
    if (read_components(&weeks, "W") == 1 && weeks.len == 0)
        return true;
    int dates = read_components(&text, "YMD");
    if (dates < 0)
        return false;
    if (text.len == 0)
        return dates > 0;
    text = slice_from(text, 1); /* the T */
    return read_components(&text, "HMS") > 0 && text.len == 0;
}
