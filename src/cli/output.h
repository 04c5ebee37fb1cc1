/*
 * Output of operator commands: tables for people, JSON for scripts. Names that come from tenants
 * may contain anything; control characters that a terminal would obey are replaced.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdio.h>

#include "base/arena.h"
#include "base/id.h"
#include "json/json.h"

enum { OUTPUT_COLUMNS_MAX = 12, OUTPUT_JSON_BYTES_MAX = 256 * 1024 * 1024 };

/* Each column is as wide as its widest cell, and two spaces separate columns. On a narrower
 * terminal the last column is cut or printed on its own line. Cells are copied into the arena. */
struct output_table {
    struct arena *arena;
    size_t columns;
    slice *cells; /* in the order of rows, the headings first */
    size_t count, cap;
};

/* headings: separated by '|': "ID|NAME|CREATED". */
void output_table_begin(struct output_table *table, struct arena *arena, const char *headings);
void output_table_cell(struct output_table *table, slice text);
/* "2026-01-31 23:59" in UTC; "-" for 0. */
void output_table_time(struct output_table *table, int64_t wall_us);
void output_table_uuid(struct output_table *table, struct uuid id);
/* Prints the rows with their headings, or only `none` if there are no rows. Returns OK or
 * ERR_NOMEM. */
int output_table_print(const struct output_table *table, FILE *out, const char *none,
                       struct err *err) MUST_CHECK;

/* Prints text with control characters and invalid UTF-8 replaced by '?'; newlines and tabs stay. */
void output_text(FILE *out, slice text);

/* A JSON document that is printed whole at the end. */
struct output_json {
    struct buf text;
    struct json_writer w;
};
void output_json_begin(struct output_json *json);
/* Writes null for 0. */
void output_json_time(struct output_json *json, const char *key, int64_t wall_us);
void output_json_str(struct output_json *json, const char *key, slice text);
void output_json_uuid(struct output_json *json, const char *key, struct uuid id);
/* Prints the document as a line and frees it. Returns ERR_LIMIT if it was too large. */
int output_json_end(struct output_json *json, FILE *out, struct err *err) MUST_CHECK;

/* How rows of one kind are printed: as a table, or as a JSON array. */
struct output_list {
    size_t row_size;
    const char *headings, *none; /* as for output_table_begin and output_table_print */
    void (*put_cells)(struct output_table *table, const void *row);
    void (*put_json)(struct output_json *json, const void *row);
};
int output_list(const struct output_list *list, const void *rows, size_t count, bool as_json,
                struct arena *arena, struct err *err) MUST_CHECK;

/* Checks a name that a person enters: UTF-8 without control characters, 1 to characters_max
 * characters, not only spaces. Returns ERR_INVALID if it is not; err says what is wrong. noun is "a
 * name" or "a label". */
int output_name_check(slice text, const char *noun, size_t characters_max,
                      struct err *err) MUST_CHECK;

#endif
