/*
 * clock: the kernel's clocks, and times as text. Calendar arithmetic uses day numbers (Howard
 * Hinnant, "chrono-compatible low-level date algorithms"); no time zone data, no locale.
 */
#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

#define US_PER_SECOND   INT64_C(1000000)
#define SECONDS_PER_DAY 86400
#define SECONDS_MIN     INT64_C(-62167219200) /* 0000-01-01T00:00:00Z */
#define SECONDS_MAX     INT64_C(253402300799) /* 9999-12-31T23:59:59Z */

static uint64_t clock_ns(clockid_t id)
{
    struct timespec now;
    /* Fails only for a clock that the kernel does not have; all three have existed since Linux
     * 2.6.39. */
    int failed = clock_gettime(id, &now);
    ASSERT(!failed);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t clock_mono_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t clock_boot_ns(void)
{
    return clock_ns(CLOCK_BOOTTIME);
}

uint64_t clock_thread_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t clock_wall_us(void)
{
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    ASSERT(!failed);
    return (int64_t)now.tv_sec * US_PER_SECOND + now.tv_nsec / 1000;
}

/* Offset of the shared clock from clock_boot_ns. All threads read it; only the loop's thread
 * writes it. */
#define OFFSET_UNKNOWN INT64_MIN
static _Atomic int64_t shared_offset_us = OFFSET_UNKNOWN;

int64_t clock_shared_us(void)
{
    int64_t offset_us = atomic_load_explicit(&shared_offset_us, memory_order_relaxed);
    return offset_us == OFFSET_UNKNOWN ? clock_wall_us()
                                       : (int64_t)(clock_boot_ns() / 1000) + offset_us;
}

void clock_share(int64_t shared_us, uint64_t sent_boot_ns, uint64_t received_boot_ns)
{
    ASSERT(sent_boot_ns <= received_boot_ns);
    int64_t least = shared_us - (int64_t)(received_boot_ns / 1000);
    int64_t most = shared_us - (int64_t)(sent_boot_ns / 1000);
    int64_t offset_us = atomic_load_explicit(&shared_offset_us, memory_order_relaxed);
    if (offset_us == OFFSET_UNKNOWN)
        offset_us = least + (most - least) / 2;
    else if (offset_us < least)
        offset_us = least;
    else if (offset_us > most)
        offset_us = most;
    atomic_store_explicit(&shared_offset_us, offset_us, memory_order_relaxed);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    /* C truncates towards 0; times before 1970 have to be rounded down. */
    return a / b - (a % b < 0);
}

int64_t time_days_from_civil(int64_t year, unsigned month, unsigned day)
{
    ASSERT(month >= 1 && month <= 12 && day >= 1 && day <= 31);
    /* Years begin in March here, so that the leap day is the last day of its year and a linear
     * formula gives the lengths of months (153 days in five months). 400 years have 146097 days,
     * and 719468 days are between 0000-03-01 and 1970-01-01. */
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = floor_div(y, 400);
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (int64_t)(month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

void time_civil_from_days(int64_t days, int64_t *year, unsigned *month, unsigned *day)
{
    days += 719468;
    int64_t era = floor_div(days, 146097);
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * day_of_year + 2) / 153; /* months since March */
    *day = (unsigned)(day_of_year - (153 * shifted + 2) / 5 + 1);
    *month = (unsigned)(shifted < 10 ? shifted + 3 : shifted - 9);
    *year = year_of_era + era * 400 + (*month <= 2);
}

struct civil {
    int64_t year;
    unsigned month, day, hour, minute, second, us;
    int64_t days; /* since 1970-01-01 */
};

static struct civil civil_of(int64_t wall_us)
{
    int64_t seconds = floor_div(wall_us, US_PER_SECOND);
    /* The fraction of a negative time counts forward from the second below, as in struct
     * timespec. */
    unsigned us = (unsigned)((wall_us % US_PER_SECOND + US_PER_SECOND) % US_PER_SECOND);
    /* Four digits can hold no other year (RFC 3339 5.6). A time out of range is clamped, not
     * refused: it may come from a provider and must be written in some form. */
    if (seconds < SECONDS_MIN) {
        seconds = SECONDS_MIN;
        us = 0;
    } else if (seconds > SECONDS_MAX) {
        seconds = SECONDS_MAX;
        us = 999999;
    }
    struct civil civil = {.us = us, .days = floor_div(seconds, SECONDS_PER_DAY)};
    unsigned of_day = (unsigned)(seconds - civil.days * SECONDS_PER_DAY);
    civil.hour = of_day / 3600;
    civil.minute = of_day / 60 % 60;
    civil.second = of_day % 60;
    time_civil_from_days(civil.days, &civil.year, &civil.month, &civil.day);
    ASSERT(civil.year >= 0 && civil.year <= 9999);
    return civil;
}

/* Writes `count` decimal digits, then the separator. */
static char *put_digits(char *to, unsigned value, unsigned count, char separator)
{
    for (unsigned i = count; i-- > 0; value /= 10)
        to[i] = (char)('0' + value % 10);
    to[count] = separator;
    return to + count + 1;
}

void time_format(int64_t wall_us, char out[TIME_TEXT_LEN + 1])
{
    struct civil civil = civil_of(wall_us);
    char *to = put_digits(out, (unsigned)civil.year, 4, '-');
    to = put_digits(to, civil.month, 2, '-');
    to = put_digits(to, civil.day, 2, 'T');
    to = put_digits(to, civil.hour, 2, ':');
    to = put_digits(to, civil.minute, 2, ':');
    to = put_digits(to, civil.second, 2, '.');
    to = put_digits(to, civil.us / 1000, 3, 'Z');
    ASSERT(to - out == TIME_TEXT_LEN);
    *to = '\0';
}

/* Consumes exactly `count` digits from the front of *text. */
static bool take_digits(slice *text, size_t count, unsigned *value)
{
    uint64_t number;
    /* slice_to_u64 accepts only digits: no sign and no space, which strtoul would allow. */
    if (text->len < count || !slice_to_u64(slice_first(*text, count), UINT32_MAX, &number))
        return false;
    *value = (unsigned)number;
    *text = slice_from(*text, count);
    return true;
}

/* Consumes one of the characters in `any` from the front of *text. */
static bool take_one_of(slice *text, const char *any, char *which)
{
    /* strchr finds the NUL at the end of `any`, too. */
    if (text->len == 0 || text->ptr[0] == '\0' || !strchr(any, text->ptr[0]))
        return false;
    *which = text->ptr[0];
    *text = slice_from(*text, 1);
    return true;
}

static bool take_char(slice *text, char c)
{
    char any[2] = {c, '\0'};
    return take_one_of(text, any, &any[0]);
}

static unsigned days_in_month(int64_t year, unsigned month)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && is_leap ? 1u : 0u);
}

static bool is_civil(const struct civil *civil)
{
    return civil->month >= 1 && civil->month <= 12 && civil->day >= 1 &&
           civil->day <= days_in_month(civil->year, civil->month) && civil->hour <= 23 &&
           civil->minute <= 59 && civil->second <= 60;
}

/* Converts civil (checked by is_civil), which is `offset_minutes` east of UTC, to an instant. */
static bool civil_to_us(struct civil civil, int64_t offset_minutes, int64_t *wall_us)
{
    /* POSIX time has no 61st second; one microsecond before the end of the minute keeps the
     * order of times. The offset must be subtracted first to see whether this is midnight UTC at
     * the end of a month, where leap seconds are (RFC 3339 5.7). */
    bool is_leap_second = civil.second == 60;
    if (is_leap_second) {
        civil.second = 59;
        civil.us = 999999;
    }
    int64_t days = time_days_from_civil(civil.year, civil.month, civil.day);
    int64_t seconds = days * SECONDS_PER_DAY + civil.hour * 3600 + civil.minute * 60 + civil.second;
    seconds -= offset_minutes * 60;
    if (seconds < SECONDS_MIN || seconds > SECONDS_MAX)
        return false;
    if (is_leap_second) {
        int64_t year;
        unsigned month, day;
        time_civil_from_days(floor_div(seconds + 1, SECONDS_PER_DAY), &year, &month, &day);
        if ((seconds + 1) % SECONDS_PER_DAY || day != 1)
            return false;
    }
    *wall_us = seconds * US_PER_SECOND + civil.us;
    return true;
}

static bool take_hms(slice *text, struct civil *civil)
{
    return take_digits(text, 2, &civil->hour) && take_char(text, ':') &&
           take_digits(text, 2, &civil->minute) && take_char(text, ':') &&
           take_digits(text, 2, &civil->second);
}

/* Consumes time-secfrac, which may be absent; digits past the sixth are ignored. */
static bool take_fraction(slice *text, unsigned *us)
{
    unsigned scale = 100000, digit;
    *us = 0;
    if (!take_char(text, '.'))
        return true;
    if (!take_digits(text, 1, &digit))
        return false;
    /* scale becomes 0 after the sixth digit, so any further digits add nothing. */
    do {
        *us += digit * scale;
        scale /= 10;
    } while (take_digits(text, 1, &digit));
    return true;
}

static bool take_offset(slice *text, int64_t *offset_minutes)
{
    char sign;
    unsigned hours, minutes;
    *offset_minutes = 0;
    /* Lower-case letters are allowed (RFC 3339 5.6). */
    if (take_one_of(text, "Zz", &sign))
        return true;
    if (!take_one_of(text, "+-", &sign) || !take_digits(text, 2, &hours) || !take_char(text, ':') ||
        !take_digits(text, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *offset_minutes = (int64_t)hours * 60 + minutes;
    if (sign == '-')
        *offset_minutes = -*offset_minutes;
    return true;
}

bool time_parse(slice text, int64_t *wall_us)
{
    struct civil civil = {0};
    unsigned year;
    char letter;
    int64_t offset;
    if (!take_digits(&text, 4, &year) || !take_char(&text, '-') ||
        !take_digits(&text, 2, &civil.month) || !take_char(&text, '-') ||
        !take_digits(&text, 2, &civil.day) || !take_one_of(&text, "Tt", &letter))
        return false;
    if (!take_hms(&text, &civil) || !take_fraction(&text, &civil.us) ||
        !take_offset(&text, &offset) || text.len)
        return false;
    civil.year = year;
    return is_civil(&civil) && civil_to_us(civil, offset, wall_us);
}

/* ---- midnights ---- */

static int64_t first_sunday(int64_t year, unsigned month)
{
    int64_t first = time_days_from_civil(year, month, 1);
    int64_t weekday = (first % 7 + 7 + 4) % 7; /* 1970-01-01 was a Thursday, 0 is a Sunday */
    return first + (7 - weekday) % 7;
}

/* Returns the hours to add to Pacific time to get UTC, at the midnight that begins the day. Summer
 * time begins on the second Sunday in March and ends on the first Sunday in November, both at two
 * o'clock (15 U.S.C. 260a). */
static int64_t pacific_hours(int64_t day)
{
    int64_t year;
    unsigned month, of_month;
    time_civil_from_days(day, &year, &month, &of_month);
    return day > first_sunday(year, 3) + 7 && day <= first_sunday(year, 11) ? 7 : 8;
}

bool time_parse_midnight(slice text, int64_t now_us, int64_t *wall_us)
{
    bool is_pacific = slice_eq_cstr(text, "midnight America/Los_Angeles");
    if (!is_pacific && !slice_eq_cstr(text, "midnight UTC"))
        return false;
    int64_t day = floor_div(floor_div(now_us, US_PER_SECOND), SECONDS_PER_DAY) - 1;
    do {
        day++;
        *wall_us =
            (day * SECONDS_PER_DAY + (is_pacific ? pacific_hours(day) * 3600 : 0)) * US_PER_SECOND;
    } while (*wall_us <= now_us);
    return true;
}
