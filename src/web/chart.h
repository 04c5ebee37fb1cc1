/*
 * chart: numbers over time as columns, data for chart.html, which draws them as SVG. Heights are
 * thousandths of the picture, whose upper edge is a round number.
 */
#ifndef WEB_CHART_H
#define WEB_CHART_H

#include "json/json.h"

enum { CHART_COLUMNS_MAX = 64, CHART_HEIGHT = 1000, CHART_NUMBER_MAX = 27 };

/* The counts of the step that begins at `at` (microseconds); none is negative. */
struct chart_column {
    int64_t at;
    int64_t ok, bad, warn;
};

/* Writes a member `key`; null if all columns are empty. Sums saturate at INT64_MAX. step_s: the
 * duration of a column. */
void chart_write(struct json_writer *w, const char *key, const struct chart_column *columns,
                 size_t count, int64_t step_s);
/* Lines over the same columns: a number for each column, in parts of the scale's unit, or
 * CHART_GAP if there is no value. */
enum { CHART_GAP = -1, CHART_LINES_MAX = 4 };
struct chart_line {
    const char *kind; /* the CSS class of the line */
    int64_t values[CHART_COLUMNS_MAX];
};
struct chart_scale {
    const char *unit; /* "ms" */
    int64_t parts;    /* values per unit: 10 if the values are tenths of it */
};
/* Writes a member `key` as chart_lines.html declares it; null if all values are gaps. The upper
 * edge is a round number of units, chosen for the highest line. */
void chart_write_lines(struct json_writer *w, const char *key, const struct chart_scale *scale,
                       const struct chart_line *lines, size_t line_count, size_t count);
/* Writes the digits of a number (not negative) in groups of three, such as "11,403", into room. */
slice chart_number(int64_t number, char room[CHART_NUMBER_MAX]);
/* Writes the number in the form of chart_number as a member. */
void chart_member_number(struct json_writer *w, const char *key, int64_t number);

#endif
