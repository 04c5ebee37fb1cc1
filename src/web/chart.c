/*
 * Columns of a chart; see chart.h.
 */
#include "web/chart.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"

enum {
    COLUMN_WIDTH = 20,
    TICKS_MAX = 7,
    PART_MIN = 10, /* minimum height, so that a bar above 0 is visible */
    DAY_S = 24 * 60 * 60,
    PATH_BYTES_MAX = 4096,
};

slice chart_number(int64_t number, char room[CHART_NUMBER_MAX])
{
    char digits[SLICE_U64_MAX];
    ASSERT(number >= 0);
    slice text = slice_of_u64((uint64_t)number, digits);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (i > 0 && (text.len - i) % 3 == 0)
            room[len++] = ',';
        room[len++] = text.ptr[i];
    }
    ASSERT(len <= CHART_NUMBER_MAX);
    return slice_of(room, len);
}

void chart_member_number(struct json_writer *w, const char *key, int64_t number)
{
    char room[CHART_NUMBER_MAX];
    json_member_str(w, key, chart_number(number, room));
}

static int64_t add(int64_t one, int64_t other)
{
    return one > INT64_MAX - other ? INT64_MAX : one + other;
}

static int64_t height_of(const struct chart_column *column)
{
    return add(add(column->ok, column->bad), column->warn);
}

/* Returns the upper edge: 2, 4, 6, 8 or 10 times a power of ten, so that its half is a whole
 * number, too. */
static uint64_t round_up(uint64_t most)
{
    uint64_t unit = 1;
    while (most > unit * 10)
        unit *= 10;
    uint64_t twos = (most + 2 * unit - 1) / (2 * unit);
    return 2 * unit * (twos > 0 ? twos : 1);
}

/* The segments of one outcome. Each begins relative to the corner of the one before, which repeats
 * and so compresses well. */
struct bars {
    struct buf path;
    int64_t x, y;
};

/* Draws one segment of a column's bar on top of *top, and moves *top up. The segment has a
 * minimum height and is clipped at the upper edge of the chart. */
static void draw_bar(struct bars *bars, size_t column, int64_t number, uint64_t edge, int64_t *top)
{
    char text[64];
    if (number == 0)
        return;
    int64_t height = (int64_t)((double)number / (double)edge * CHART_HEIGHT);
    height = height < PART_MIN ? PART_MIN : height;
    height = height > *top ? *top : height;
    *top -= height;
    int64_t x = (int64_t)column * COLUMN_WIDTH + 2;
    int len = snprintf(text, sizeof(text), "m%" PRId64 " %" PRId64 "h16v%" PRId64 "h-16z",
                       x - bars->x, *top - bars->y, height);
    buf_append(&bars->path, slice_of(text, (size_t)len));
    bars->x = x;
    bars->y = *top;
}

/* The bars of each outcome are one path. */
static void write_bars(struct json_writer *w, const struct chart_column *columns, size_t count,
                       uint64_t edge)
{
    static const char *const kinds[] = {"ok", "bad", "warn"};
    struct bars bars[ARRAY_LEN(kinds)] = {0};
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
        buf_init(&bars[k].path, PATH_BYTES_MAX);
    for (size_t i = 0; i < count; i++) {
        int64_t top = CHART_HEIGHT;
        draw_bar(&bars[0], i, columns[i].ok, edge, &top);
        draw_bar(&bars[1], i, columns[i].bad, edge, &top);
        draw_bar(&bars[2], i, columns[i].warn, edge, &top);
    }
    json_member_open(w, "bars", '[');
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        json_open(w, '{');
        json_member_str(w, "kind", slice_cstr(kinds[k]));
        json_member_str(w, "path", buf_slice(&bars[k].path));
        json_close(w, '}');
        buf_deinit(&bars[k].path);
    }
    json_close(w, ']');
}

static void write_time(struct json_writer *w, int64_t at)
{
    char text[TIME_TEXT_LEN + 1];
    time_format(at, text);
    json_member_str(w, "at", slice_of(text, TIME_TEXT_LEN));
}

static void write_numbers(struct json_writer *w, const struct chart_column *column)
{
    chart_member_number(w, "ok", column->ok);
    chart_member_number(w, "bad", column->bad);
    chart_member_number(w, "warn", column->warn);
}

static void write_column(struct json_writer *w, const struct chart_column *column, size_t i)
{
    json_open(w, '{');
    write_time(w, column->at);
    json_member_i64(w, "x", (int64_t)i * COLUMN_WIDTH);
    write_numbers(w, column);
    json_close(w, '}');
}

/* Writes times below the columns, at equal distances. */
static void write_ticks(struct json_writer *w, const struct chart_column *columns, size_t count,
                        int64_t step_s)
{
    json_member_open(w, "ticks", '[');
    for (size_t i = 0; i < count; i += (count + TICKS_MAX - 1) / TICKS_MAX) {
        json_open(w, '{');
        write_time(w, columns[i].at);
        json_member_bool(w, "is_daily", step_s >= DAY_S / 4);
        json_close(w, '}');
    }
    json_close(w, ']');
}

void chart_write(struct json_writer *w, const char *key, const struct chart_column *columns,
                 size_t count, int64_t step_s)
{
    struct chart_column sum = {0};
    size_t most = 0;
    ASSERT(count <= CHART_COLUMNS_MAX);
    for (size_t i = 0; i < count; i++) {
        ASSERT(columns[i].ok >= 0 && columns[i].bad >= 0 && columns[i].warn >= 0);
        sum.ok = add(sum.ok, columns[i].ok);
        sum.bad = add(sum.bad, columns[i].bad);
        sum.warn = add(sum.warn, columns[i].warn);
        most = height_of(&columns[i]) > height_of(&columns[most]) ? i : most;
    }
    json_key(w, key);
    if (height_of(&sum) == 0) {
        json_put_null(w);
        return;
    }
    uint64_t edge = round_up((uint64_t)height_of(&columns[most]));
    json_open(w, '{');
    write_time(w, columns[most].at); /* when it was highest */
    chart_member_number(w, "sum", height_of(&sum));
    write_numbers(w, &sum);
    json_member_i64(w, "width", (int64_t)count * COLUMN_WIDTH);
    chart_member_number(w, "edge", edge > INT64_MAX ? INT64_MAX : (int64_t)edge);
    chart_member_number(w, "half", (int64_t)(edge / 2));
    json_member_open(w, "columns", '[');
    for (size_t i = 0; i < count; i++)
        write_column(w, &columns[i], i);
    json_close(w, ']');
    write_bars(w, columns, count, edge);
    write_ticks(w, columns, count, step_s);
    json_close(w, '}');
}

/* ---- lines ---- */

/* Draws a line through the middles of the columns; a number between two gaps is a point. */
static void draw_line(struct buf *path, const struct chart_line *line, size_t count, double edge)
{
    bool is_drawn = false;
    for (size_t i = 0; i < count; i++) {
        char text[64];
        if (line->values[i] == CHART_GAP) {
            is_drawn = false;
            continue;
        }
        int y = CHART_HEIGHT - (int)((double)line->values[i] / edge * CHART_HEIGHT);
        int len = snprintf(text, sizeof(text), is_drawn ? "L%zu %d" : "M%zu %dh0",
                           i * COLUMN_WIDTH + COLUMN_WIDTH / 2, y);
        buf_append(path, slice_of(text, (size_t)len));
        is_drawn = true;
    }
}

/* "2,000 ms" */
static void write_edge(struct json_writer *w, const char *key, uint64_t number, const char *unit)
{
    char room[CHART_NUMBER_MAX], text[CHART_NUMBER_MAX + 16];
    slice digits = chart_number((int64_t)number, room);
    int len = snprintf(text, sizeof(text), "%.*s %.10s", SLICE_ARG(digits), unit);
    json_member_str(w, key, slice_of(text, (size_t)len));
}

void chart_write_lines(struct json_writer *w, const char *key, const struct chart_scale *scale,
                       const struct chart_line *lines, size_t line_count, size_t count)
{
    int64_t most = CHART_GAP;
    ASSERT(line_count <= CHART_LINES_MAX && count <= CHART_COLUMNS_MAX && scale->parts > 0);
    for (size_t i = 0; i < line_count; i++)
        for (size_t j = 0; j < count; j++)
            most = lines[i].values[j] > most ? lines[i].values[j] : most;
    json_key(w, key);
    if (most == CHART_GAP) {
        json_put_null(w);
        return;
    }
    uint64_t edge = round_up((uint64_t)(most / scale->parts + (most % scale->parts > 0)));
    edge = edge > INT64_MAX ? INT64_MAX : edge;
    json_open(w, '{');
    json_member_i64(w, "width", (int64_t)count * COLUMN_WIDTH);
    write_edge(w, "edge", edge, scale->unit);
    write_edge(w, "half", edge / 2, scale->unit);
    json_member_open(w, "lines", '[');
    for (size_t i = 0; i < line_count; i++) {
        struct buf path;
        buf_init(&path, PATH_BYTES_MAX);
        draw_line(&path, &lines[i], count, (double)edge * (double)scale->parts);
        json_open(w, '{');
        json_member_str(w, "kind", slice_cstr(lines[i].kind));
        json_member_str(w, "path", buf_slice(&path));
        json_close(w, '}');
        buf_deinit(&path);
    }
    json_close(w, ']');
    json_close(w, '}');
}
