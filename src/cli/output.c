/*
 * Tables and JSON on stdout; see output.h. A table stays in memory until it is printed, since a
 * column is as wide as its longest cell.
 */
#include "cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

enum { CELLS_FIRST = 64, LAST_COLUMNS_MIN = 24 };

/* ---- text ---- */

/* Returns the number of bytes of the first character of text. *is_allowed gets whether the
 * character may be written to a terminal. The terminal would obey control characters, and direction
 * marks would make it show another text. */
static size_t next_character(slice text, bool keeps_lines, bool *is_allowed)
{
    size_t len = slice_utf8_first(text);
    uint32_t c = 0;
    if (len > 0)
        len = slice_code_point(text, &c);
    bool is_kept = keeps_lines && (c == '\n' || c == '\t');
    *is_allowed = len > 0 && (is_kept || !code_point_is_unsafe(c));
    return len > 0 ? len : 1;
}

void output_text(FILE *out, slice text)
{
    while (text.len > 0) {
        bool is_allowed;
        size_t len = next_character(text, true, &is_allowed);
        if (is_allowed)
            (void)fwrite(text.ptr, 1, len, out);
        else
            (void)fputc('?', out);
        text = slice_from(text, len);
    }
}

/* ---- tables ---- */

static slice *new_cell(struct output_table *table)
{
    if (table->count == table->cap) {
        size_t cap = table->cap ? 2 * table->cap : CELLS_FIRST;
        slice *cells = arena_realloc(table->arena, table->cells, table->cap * sizeof(slice),
                                     cap * sizeof(slice));
        if (!cells)
            return NULL;
        table->cells = cells;
        table->cap = cap;
    }
    return &table->cells[table->count++];
}

void output_table_begin(struct output_table *table, struct arena *arena, const char *headings)
{
    slice rest = slice_cstr(headings);
    *table = (struct output_table){.arena = arena};
    while (rest.ptr) {
        output_table_cell(table, slice_split(&rest, '|'));
        table->columns++;
    }
    ASSERT(table->columns > 0 && table->columns <= OUTPUT_COLUMNS_MAX);
}

void output_table_cell(struct output_table *table, slice text)
{
    slice *cell = new_cell(table);
    char *copy = arena_alloc_text(table->arena, text.len + 1);
    size_t len = 0;
    if (!cell || !copy)
        return;
    while (text.len > 0) {
        bool is_allowed;
        size_t size = next_character(text, false, &is_allowed);
        if (is_allowed)
            memcpy(copy + len, text.ptr, size);
        else
            copy[len] = '?';
        len += is_allowed ? size : 1;
        text = slice_from(text, size);
    }
    *cell = slice_of(copy, len);
}

void output_table_time(struct output_table *table, int64_t wall_us)
{
    char text[TIME_TEXT_LEN + 1];
    if (wall_us == 0) {
        output_table_cell(table, SLICE("-"));
        return;
    }
    time_format(wall_us, text);
    text[10] = ' ';
    output_table_cell(table, slice_of(text, 16));
}

void output_table_uuid(struct output_table *table, struct uuid id)
{
    char text[UUID_TEXT_LEN + 1];
    uuid_format(id, text);
    output_table_cell(table, slice_cstr(text));
}

/* Returns the width in characters: each is assumed to take one column. */
static size_t width_of(slice text)
{
    size_t width = 0;
    for (size_t i = 0; i < text.len; i++)
        width += ((unsigned char)text.ptr[i] & 0xc0) != 0x80;
    return width;
}

/* Returns the number of columns of the terminal, or SIZE_MAX if out is not a terminal, since a
 * program reads whole cells. */
static size_t terminal_columns(FILE *out)
{
    struct winsize size;
    bool is_known = isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0;
    return is_known && size.ws_col > 0 ? size.ws_col : SIZE_MAX;
}

/* Prints the last cell in the rest of the line, or on its own line if the rest is too short. */
static void print_last(slice cell, size_t left, FILE *out)
{
    if (left < LAST_COLUMNS_MIN)
        (void)fprintf(out, "\n    ");
    else if (width_of(cell) > left) {
        size_t len = 0;
        for (size_t width = 0; width < left - 1; width++)
            len += slice_utf8_first(slice_from(cell, len));
        (void)fprintf(out, "%.*s\xe2\x80\xa6\n", SLICE_ARG(slice_trim(slice_first(cell, len))));
        return;
    }
    (void)fprintf(out, "%.*s\n", SLICE_ARG(cell));
}

/* left: number of columns for the last cell. */
static void print_row(const struct output_table *table, const slice *row, const size_t *widths,
                      size_t left, FILE *out)
{
    size_t last = table->columns - 1;
    for (size_t i = 0; i < last; i++) {
        bool is_end = i + 1 == last && left < LAST_COLUMNS_MIN;
        (void)fprintf(out, "%.*s", SLICE_ARG(row[i]));
        if (!is_end)
            (void)fprintf(out, "%*s", (int)(widths[i] - width_of(row[i]) + 2), "");
    }
    print_last(row[last], left, out);
}

/* Returns the number of columns left for the last cell of a line, or SIZE_MAX if the whole table
 * fits. */
static size_t columns_left(const size_t *widths, size_t columns, FILE *out)
{
    size_t whole = terminal_columns(out), taken = 0;
    for (size_t i = 0; i + 1 < columns; i++)
        taken += widths[i] + 2;
    if (taken + widths[columns - 1] <= whole)
        return SIZE_MAX;
    return taken < whole ? whole - taken : 0;
}

int output_table_print(const struct output_table *table, FILE *out, const char *none,
                       struct err *err)
{
    size_t widths[OUTPUT_COLUMNS_MAX] = {0};
    size_t columns = table->columns, rows = table->count / columns;
    if (table->arena->is_exhausted)
        return err_set(err, ERR_NOMEM, "the list is too large to print");
    ASSERT(table->count == rows * columns);
    for (size_t i = 0; i < table->count; i++) {
        size_t width = width_of(table->cells[i]);
        if (width > widths[i % columns])
            widths[i % columns] = width;
    }
    size_t left = columns_left(widths, columns, out);
    for (size_t i = 0; rows > 1 && i < rows; i++)
        print_row(table, table->cells + i * columns, widths, left, out);
    if (rows <= 1)
        (void)fprintf(out, "%s\n", none);
    return OK;
}

/* ---- JSON ---- */

struct json_writer *output_json_begin(struct json_text *json, char bracket)
{
    struct json_writer *w = json_text_begin(json, OUTPUT_JSON_BYTES_MAX);
    json_open(w, bracket);
    return w;
}

int output_json_end(struct json_text *json, char bracket, struct err *err)
{
    json_close(&json->w, bracket == '{' ? '}' : ']');
    buf_append_char(&json->buf, '\n');
    bool is_ok = buf_is_ok(&json->buf);
    if (is_ok)
        (void)fwrite(json->buf.ptr, 1, json->buf.len, stdout);
    buf_deinit(&json->buf);
    return is_ok ? OK : err_set(err, ERR_LIMIT, "the list is too large to print");
}

int output_object(output_members *put, const void *row, struct err *err)
{
    struct json_text json;
    put(output_json_begin(&json, '{'), row);
    return output_json_end(&json, '{', err);
}

/* ---- lists ---- */

int output_list(const struct output_list *list, const void *rows, size_t count, bool as_json,
                struct arena *arena, struct err *err)
{
    struct output_table table;
    struct json_text json;
    const char *row = rows;
    if (!as_json) {
        output_table_begin(&table, arena, list->headings);
        for (size_t i = 0; i < count; i++)
            list->put_cells(&table, row + i * list->row_size);
        return output_table_print(&table, stdout, list->none, err);
    }
    struct json_writer *w = output_json_begin(&json, '[');
    for (size_t i = 0; i < count; i++) {
        json_open(w, '{');
        list->put_json(w, row + i * list->row_size);
        json_close(w, '}');
    }
    return output_json_end(&json, '[', err);
}

/* ---- names ---- */

int output_name_check(slice text, const char *noun, size_t characters_max, struct err *err)
{
    if (slice_is_name(text, characters_max))
        return OK;
    if (!slice_is_utf8(text, NULL))
        return err_set(err, ERR_INVALID, "%s must be UTF-8", noun);
    for (slice rest = text; rest.len > 0;) {
        uint32_t c;
        rest = slice_from(rest, slice_code_point(rest, &c));
        if (c < 0x20 || (c >= 0x7f && c < 0xa0))
            return err_set(err, ERR_INVALID, "%s must not contain control characters", noun);
    }
    return err_set(err, ERR_INVALID, "%s must have 1 to %zu characters, not only spaces", noun,
                   characters_max);
}
