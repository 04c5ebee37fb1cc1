/*
 * func_time: format_time formats a time as text, always in UTC, independently of the machine's
 * clock, zone and locale: the same expression gives the same text on every node, and again when a
 * flow's step is repeated. strftime would depend on the locale.
 */
#include "base/clock.h"
#include "expr/func.h"

#include <math.h>

static const char *const weekdays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

/* 0000-01-01 and 10000-01-01 in seconds since 1970: the range of years with four digits. */
static const int64_t seconds_min = -62167219200, seconds_end = 253402300800;

enum { SECONDS_A_DAY = 86400, US = 1000000 };

/* The parts of a time that the letters of a format stand for. */
struct civil {
    int64_t seconds; /* since 1970 */
    unsigned month, weekday, hour;
    int numbers[128]; /* indexed by letter */
};

/* The minimum number of digits of each letter that formats a number. */
static const uint8_t digits[128] = {
    ['Y'] = 4, ['y'] = 2, ['m'] = 2, ['d'] = 2, ['e'] = 1, ['j'] = 3,
    ['H'] = 2, ['I'] = 2, ['M'] = 2, ['S'] = 2, ['L'] = 3,
};

static struct civil civil_of(int64_t wall_us)
{
    struct civil c = {.seconds = wall_us / US - (wall_us % US < 0)};
    int64_t days = c.seconds / SECONDS_A_DAY - (c.seconds % SECONDS_A_DAY < 0), year = 0;
    unsigned day = 0, rest = (unsigned)(c.seconds - days * SECONDS_A_DAY);
    time_civil_from_days(days, &year, &c.month, &day);
    c.weekday = (unsigned)(((days + 4) % 7 + 7) % 7); /* 1970-01-01 was a Thursday */
    c.hour = rest / 3600;
    ASSERT(c.month >= 1 && c.month <= 12 && c.hour < 24);
    c.numbers['Y'] = (int)year;
    c.numbers['y'] = (int)year % 100;
    c.numbers['m'] = (int)c.month;
    c.numbers['d'] = c.numbers['e'] = (int)day;
    c.numbers['j'] = (int)(days - time_days_from_civil(year, 1, 1)) + 1;
    c.numbers['H'] = (int)c.hour;
    c.numbers['I'] = (int)(c.hour % 12 ? c.hour % 12 : 12);
    c.numbers['M'] = (int)(rest / 60 % 60);
    c.numbers['S'] = (int)(rest % 60);
    c.numbers['L'] = (int)(wall_us - c.seconds * US) / 1000;
    return c;
}

/* Letters for texts. */
static slice word_of_letter(const struct civil *c, char letter)
{
    slice month = slice_cstr(months[c->month - 1]), weekday = slice_cstr(weekdays[c->weekday]);
    switch (letter) {
    case 'a':
        return slice_first(weekday, 3);
    case 'A':
        return weekday;
    case 'b':
        return slice_first(month, 3);
    case 'B':
        return month;
    case 'p':
        return c->hour < 12 ? SLICE("AM") : SLICE("PM");
    case 'z':
        return SLICE("+0000");
    case 'Z':
        return SLICE("UTC");
    case '%':
        return SLICE("%");
    default:
        return SLICE_NONE;
    }
}

/* Writes at least digit_count digits, with leading zeros. A page has hundreds of such numbers, and
 * printf would take longer than everything else in formatting a time. */
static void put_padded(struct arena_text *text, int number, size_t digit_count)
{
    char room[16];
    size_t at = sizeof(room);
    ASSERT(number >= 0 && digit_count < sizeof(room));
    for (; number > 0 || sizeof(room) - at < digit_count; number /= 10)
        room[--at] = (char)('0' + number % 10);
    arena_text_add(text, slice_of(room + at, sizeof(room) - at));
}

/* Writes three numbers of a civil time with `between` between them. */
static void put_three(struct arena_text *text, const struct civil *c, const char letters[3],
                      slice between)
{
    for (size_t i = 0; i < 3; i++) {
        size_t at = (unsigned char)letters[i];
        if (i > 0)
            arena_text_add(text, between);
        put_padded(text, c->numbers[at], digits[at]);
    }
}

static bool put_letter(struct arena_text *text, const struct civil *c, char letter)
{
    slice word = word_of_letter(c, letter);
    size_t at = (unsigned char)letter % ARRAY_LEN(digits);
    if (word.len > 0)
        arena_text_add(text, word);
    else if (letter == 'F')
        put_three(text, c, "Ymd", SLICE("-"));
    else if (letter == 'T')
        put_three(text, c, "HMS", SLICE(":"));
    else if (letter == 's')
        arena_text_printf(text, "%lld", (long long)c->seconds);
    else if (letter > 0 && digits[at] > 0)
        put_padded(text, c->numbers[at], digits[at]);
    else
        return false;
    return true;
}

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

/* Returns ERR_INVALID if the format has an unknown conversion; *bad is then its letter (NUL at the
 * end of the format). */
static int put_time(struct arena_text *text, int64_t wall_us, slice format, char *bad)
{
    struct civil civil = civil_of(wall_us);
    format = known_format(format);
    while (format.len > 0) {
        ptrdiff_t at = slice_find_char(format, '%');
        arena_text_add(text, slice_first(format, at < 0 ? format.len : (size_t)at));
        if (at < 0)
            break;
        /* After a '%' at the end of the format, NUL is reported. */
        *bad = (size_t)at + 1 < format.len ? format.ptr[at + 1] : '\0';
        if (!put_letter(text, &civil, *bad))
            return ERR_INVALID;
        format = slice_from(format, (size_t)at + 2);
    }
    return OK;
}

/* Returns false if the value is not a time, or if its year is not in 0000 to 9999. */
static bool read_time(const struct json *value, int64_t per_second, int64_t *wall_us)
{
    int64_t whole = 0;
    if (value->type == JSON_STRING)
        return time_parse(json_str(value), wall_us);
    if (json_to_i64(value, &whole)) {
        /* The comparison is in the number's own unit, so that the product below cannot overflow. */
        if (whole < seconds_min * per_second || whole >= seconds_end * per_second)
            return false;
        *wall_us = whole * (US / per_second);
        return true;
    }
    double seconds = json_to_double(value) / (double)per_second;
    /* This also excludes NaN, for which every comparison is false and the cast below would be
     * undefined. */
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
                             "format_time() takes an RFC 3339 time, or the seconds or ms since "
                             "1970, in the years 0000 to 9999");
    struct arena_text text;
    char bad = '\0';
    expr_text_init(&text, run);
    /* Formatting a conversion costs more than reading it, so each byte of the format is charged
     * eight times. */
    int rc = expr_run_scan(run, args[1].count * (size_t)8);
    if (rc != OK)
        return rc;
    bool is_bad = put_time(&text, wall_us, json_str(&args[1]), &bad) != OK;
    if (is_bad && bad > ' ' && bad <= '~')
        return expr_run_fail(run, EXPR_FAULT_VALUE, call->at, "format_time() knows no %%%c", bad);
    if (is_bad)
        return expr_run_fail(run, EXPR_FAULT_VALUE, call->at,
                             "format_time() wants a letter after every %%");
    return expr_text_done(run, &text, out);
}
