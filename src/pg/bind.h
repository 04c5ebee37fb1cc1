/*
 * Maps a struct to a statement's parameters, and the statement's rows to a struct. Each column of a
 * statement names its member (pg/pg.h), so no call counts columns.
 */
#ifndef PG_BIND_H
#define PG_BIND_H

#include "base/clock.h"
#include "pg/pg.h"

/* Fills stmt->param_count parameters: members from `from` (NULL if no column is in a struct), the
 * others from `values`, in the order of the columns. Slices stay borrowed. All `count` values must
 * be used (asserted). */
void pg_bind(const struct pg_stmt *stmt, const void *from, const struct pg_value *values,
             size_t count, struct pg_value *params);
/* Reads the columns of a row that name a member into `out`; the other members are unchanged. Slices
 * point into the cells. */
void pg_read(const struct pg_stmt *stmt, const struct pg_rows *rows, size_t row, void *out);

/* The values of a call, as the last two arguments of pg_bind and of functions that pass them on. */
#define PG_VALUES(...)                      \
    (const struct pg_value[]){__VA_ARGS__}, \
        sizeof((struct pg_value[]){__VA_ARGS__}) / sizeof(struct pg_value)
#define PG_NO_VALUES NULL, 0

#endif
