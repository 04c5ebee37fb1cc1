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
#include "store/store.h"

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

/* Writes the members of a row's object. */
typedef void output_members(struct json_writer *w, const void *row);
/* Begins a JSON document, an object ('{') or an array ('['), that is printed whole at the end. */
struct json_writer *output_json_begin(struct json_text *json, char bracket);
/* Closes the document, prints it as a line on stdout, and frees it. Returns ERR_LIMIT if it was too
 * large. */
int output_json_end(struct json_text *json, char bracket, struct err *err) MUST_CHECK;
/* Prints one row as an object. */
int output_object(output_members *put, const void *row, struct err *err) MUST_CHECK;

/* How rows of one kind are printed: as a table, or as a JSON array; and how those of an account are
 * loaded (session_print_list). */
struct output_list {
    size_t row_size;
    const char *headings, *none; /* as for output_table_begin and output_table_print */
    void (*put_cells)(struct output_table *table, const void *row);
    output_members *put_json;
    store_list_sync_of *load;
};
int output_list(const struct output_list *list, const void *rows, size_t count, bool as_json,
                struct arena *arena, struct err *err) MUST_CHECK;

/* Checks a name that a person enters: UTF-8 without control characters, 1 to characters_max
 * characters, not only spaces. Returns ERR_INVALID if it is not; err says what is wrong. noun is "a
 * name" or "a label". */
int output_name_check(slice text, const char *noun, size_t characters_max,
                      struct err *err) MUST_CHECK;

#endif
