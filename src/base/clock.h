/*
 * Clocks, and the single text form of a time. The name of each duration gives its unit.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum { TIME_TEXT_LEN = 24 }; /* 2026-01-31T23:59:59.123Z */

uint64_t clock_mono_ns(void);       /* CLOCK_MONOTONIC; for durations and timers */
uint64_t clock_boot_ns(void);       /* CLOCK_BOOTTIME; counts suspend, for leases */
uint64_t clock_thread_cpu_ns(void); /* CLOCK_THREAD_CPUTIME_ID */
int64_t clock_wall_us(void);        /* microseconds since 1970-01-01 UTC */

/*
 * The clock that all processes share: the database's, in microseconds since 1970-01-01 UTC. Every
 * time that one process writes and another may compare is a time of this clock. A wall clock is
 * valid only on its own machine, so its times are for logs and traces only (tests/lint/banned.sh).
 * The shared clock advances with clock_boot_ns from the last comparison, so setting the wall clock
 * does not change it. Before the first comparison it is the wall clock.
 */
int64_t clock_shared_us(void);
/* Records that the database reported shared_us at some time between these two values of
 * clock_boot_ns. The known offset changes only as far as the report proves it wrong, so slow
 * answers do no harm. */
void clock_share(int64_t shared_us, uint64_t sent_boot_ns, uint64_t received_boot_ns);

/* Writes TIME_TEXT_LEN bytes and a NUL, truncated to the millisecond; a time outside the years
 * 0000 to 9999 becomes the nearest time inside. (src/api/README.md "HTTP") */
void time_format(int64_t wall_us, char out[TIME_TEXT_LEN + 1]);
/* Parses an RFC 3339 date-time with any offset, and a fraction to microseconds (further digits are
 * truncated). A leap second is accepted where one is possible (23:59:60 UTC on the last day of a
 * month) and read as :59.999999. Returns false if the text is not a date-time, or is outside the
 * years 0000 to 9999 in UTC. */
bool time_parse(slice text, int64_t *wall_us) MUST_CHECK;
/* Parses "midnight UTC" or "midnight America/Los_Angeles", the time when a daily quota is reset.
 * *wall_us gets the next such midnight after now_us. The zone's summer time follows the rules valid
 * since 2007. */
bool time_parse_midnight(slice text, int64_t now_us, int64_t *wall_us) MUST_CHECK;
/* Parses an HTTP-date in any of the three forms of RFC 9110 5.6.7. A two-digit year is interpreted
 * as at most 50 years ahead of now. The name of the day must be valid, but is not compared with the
 * date. */
bool time_parse_http(slice text, int64_t *wall_us) MUST_CHECK;
/* Writes an IMF-fixdate, 29 bytes and a NUL. */
void time_format_http(int64_t wall_us, char out[30]);
/* Converts a civil date (proleptic Gregorian) to days since 1970-01-01, and back. */
int64_t time_days_from_civil(int64_t year, unsigned month, unsigned day);
void time_civil_from_days(int64_t days, int64_t *year, unsigned *month, unsigned *day);

#endif
