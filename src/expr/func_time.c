/*
 * func_time: format_time, a time as text, always in UTC, independent of the machine's clock, zone
 * and locale: the same expression gives the same text on every node, and again when a flow's step
 * is repeated. strftime would follow the locale.
 */
#include "base/clock.h"
#include "expr/func.h"
#include "expr/time_text.h"

#include <math.h>

static const char *const weekdays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

/* 0000-01-01 and 10000-01-01 in seconds since 1970: what has a year of four digits. */
static const int64_t seconds_min = -62167219200, seconds_end = 253402300800;

enum { SECONDS_A_DAY = 86400, US = 1000000 };

struct civil {
    int64_t seconds; /* since 1970 */
    int year;
    unsigned month, day, hour, minute, second, ms, weekday, day_of_year;
};

static struct civil civil_of(int64_t wall_us)
{
    struct civil c = {0};
    /* Rounded down, not towards 0, for times before 1970; days likewise. */
    c.seconds = wall_us / US - (wall_us % US < 0);
    int64_t days = c.seconds / SECONDS_A_DAY - (c.seconds % SECONDS_A_DAY < 0), year = 0;
    time_civil_from_days(days, &year, &c.month, &c.day);
    unsigned rest = (unsigned)(c.seconds - days * SECONDS_A_DAY);
    c.year = (int)year;
    c.hour = rest / 3600;
    c.minute = rest / 60 % 60;
    c.second = rest % 60;
    c.ms = (unsigned)(wall_us - c.seconds * US) / 1000;
    /* The remainder is made positive before it is an index. */
    c.weekday = (unsigned)(((days + 4) % 7 + 7) % 7); /* 1970-01-01 was a Thursday */
    c.day_of_year = (unsigned)(days - time_days_from_civil(year, 1, 1)) + 1;
    ASSERT(c.month >= 1 && c.month <= 12 && c.hour < 24);
    return c;
}

/* Conversions of the date; false when there is none of that letter. */
static bool put_date(struct expr_text *text, const struct civil *c, char letter)
{
    const char *month = months[c->month - 1], *weekday = weekdays[c->weekday];
    switch (letter) {
    case 'Y':
        expr_text_printf(text, "%04d", c->year);
        break;
    case 'y':
        expr_text_printf(text, "%02d", c->year % 100);
        break;
    case 'm':
        expr_text_printf(text, "%02u", c->month);
        break;
    case 'd':
        expr_text_printf(text, "%02u", c->day);
        break;
    case 'e':
        expr_text_printf(text, "%u", c->day);
        break;
    case 'j':
        expr_text_printf(text, "%03u", c->day_of_year);
        break;
    case 'a':
        expr_text_printf(text, "%.3s", weekday);
        break;
    case 'A':
        expr_text_printf(text, "%s", weekday);
        break;
    case 'b':
        expr_text_printf(text, "%.3s", month);
        break;
    case 'B':
        expr_text_printf(text, "%s", month);
        break;
    case 'F':
        expr_text_printf(text, "%04d-%02u-%02u", c->year, c->month, c->day);
        break;
    default:
        return false;
    }
    return true;
}

/* Conversions of the time of day, and the rest; false when there is none of that letter. */
static bool put_clock_part(struct expr_text *text, const struct civil *c, char letter)
{
    switch (letter) {
    case 'H':
        expr_text_printf(text, "%02u", c->hour);
        break;
    case 'I':
        expr_text_printf(text, "%02u", c->hour % 12 ? c->hour % 12 : 12);
        break;
    case 'M':
        expr_text_printf(text, "%02u", c->minute);
        break;
    case 'S':
        expr_text_printf(text, "%02u", c->second);
        break;
    case 'L':
        expr_text_printf(text, "%03u", c->ms);
        break;
    case 'p':
        expr_text_printf(text, "%s", c->hour < 12 ? "AM" : "PM");
        break;
    case 's':
        expr_text_printf(text, "%lld", (long long)c->seconds);
        break;
    case 'T':
        expr_text_printf(text, "%02u:%02u:%02u", c->hour, c->minute, c->second);
        break;
    case 'z':
        EXPR_TEXT_LIT(text, "+0000");
        break;
    case 'Z':
        EXPR_TEXT_LIT(text, "UTC");
        break;
    case '%':
        EXPR_TEXT_LIT(text, "%");
        break;
    default:
        return false;
    }
    return true;
}

/* A name of a well-known form stands for its format. */
static slice known_format(slice format)
{
    static const struct {
        slice name, format;
    } known[] = {{SLICE_INIT("rfc3339"), SLICE_INIT("%FT%T.%LZ")},
                 {SLICE_INIT("date"), SLICE_INIT("%F")},
                 {SLICE_INIT("http"), SLICE_INIT("%a, %d %b %Y %T GMT")},
                 {SLICE_INIT("mail"), SLICE_INIT("%a, %e %b %Y %T %z")}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (slice_eq(format, known[i].name))
            return known[i].format;
    return format;
}

int expr_time_put(struct expr_text *text, int64_t wall_us, slice format, char *bad)
{
    struct civil civil = civil_of(wall_us);
    format = known_format(format);
    while (format.len > 0) {
        ptrdiff_t at = slice_find_char(format, '%');
        expr_text_add(text, slice_first(format, at < 0 ? format.len : (size_t)at));
        if (at < 0)
            break;
        /* The byte behind '%' at the end of the format is reported as NUL. */
        *bad = (size_t)at + 1 < format.len ? format.ptr[at + 1] : '\0';
        if (!put_date(text, &civil, *bad) && !put_clock_part(text, &civil, *bad))
            return ERR_INVALID;
        format = slice_from(format, (size_t)at + 2);
    }
    return OK;
}

/* false when it is no time, or not in the years 0000 to 9999. */
static bool read_time(const struct json *value, int64_t per_second, int64_t *wall_us)
{
    int64_t whole = 0;
    if (value->type == JSON_STRING)
        return time_parse(json_str(value), wall_us);
    if (json_to_i64(value, &whole)) {
        /* Compared in the number's own unit, so that the product below cannot overflow. */
        if (whole < seconds_min * per_second || whole >= seconds_end * per_second)
            return false;
        *wall_us = whole * (US / per_second);
        return true;
    }
    double seconds = json_to_double(value) / (double)per_second;
    /* Also false for NaN, which compares with nothing; the cast below would be undefined for it. */
    if (!(seconds >= (double)seconds_min && seconds < (double)seconds_end))
        return false;
    *wall_us = (int64_t)floor(seconds * US + 0.5);
    return true;
}

EXPR_FUNCTION(format_time)
{
    slice unit = call->count > 2 ? json_str(&args[2]) : SLICE("s");
    bool is_ms = slice_eq_cstr(unit, "ms");
    int64_t wall_us = 0;
    if (!is_ms && !slice_eq_cstr(unit, "s"))
        return expr_run_fail(run, EXPR_FAULT_VALUE, call->at,
                             "format_time() wants 's' or 'ms' as unit");
    if (!read_time(&args[0], is_ms ? 1000 : 1, &wall_us))
        return expr_run_fail(run, EXPR_FAULT_VALUE, call->at,
                             "format_time() wants an RFC 3339 time, or a number since 1970, in "
                             "the years 0000 to 9999");
    struct expr_text text;
    char bad = '\0';
    expr_text_init(&text, run);
    /* Formatting a conversion costs more than reading it: eight times the scan. */
    int rc = expr_run_scan(run, args[1].count * (size_t)8);
    if (rc != OK)
        return rc;
    bool is_bad = expr_time_put(&text, wall_us, json_str(&args[1]), &bad) != OK;
    if (is_bad && bad > ' ' && bad <= '~')
        return expr_run_fail(run, EXPR_FAULT_VALUE, call->at, "format_time() knows no %%%c", bad);
    if (is_bad)
        return expr_run_fail(run, EXPR_FAULT_VALUE, call->at,
                             "format_time() wants a letter behind every %%");
    return expr_text_done(&text, out);
}
