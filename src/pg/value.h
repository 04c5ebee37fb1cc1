/*
 * Parameters and results in PostgreSQL's binary formats.
 */
#ifndef PG_VALUE_H
#define PG_VALUE_H

#include "base/buf.h"
#include "pg/pg.h"

/* Returns the binary form of one value. scratch: 8 bytes for types that need conversion; the slice
 * points to scratch or to the value's own bytes. Not for NULL. */
slice pg_value_encode(const struct pg_value *value, char scratch[8]);
/* Returns the length of a value's binary form, which counts towards limits. */
size_t pg_value_size(const struct pg_value *value);
/* Appends the binary form of a one-dimensional array: parameter i of each query. */
void pg_array_encode(struct buf *out, const struct pg_stmt *stmt, struct pg_query *const *queries,
                     size_t count, size_t i);
/* Compares two values in the database's sort order (text in collation "C"); NULL sorts first. */
int pg_value_cmp(const struct pg_value *a, const struct pg_value *b);
/* Compares a value with a cell of its type in the same order. */
int pg_value_cmp_cell(const struct pg_value *value, const struct pg_cell *cell);
/* Compares two cells of a type; NULL sorts last, as in ORDER BY. */
int pg_cell_cmp(enum pg_type type, const struct pg_cell *a, const struct pg_cell *b);
/* Returns the FNV-1a hash of the values, which is the same in every process and never 0. */
uint64_t pg_values_hash(const struct pg_value *values, size_t count);

static inline uint64_t pg_load_be64(const char *ptr)
{
    uint64_t value;
    memcpy(&value, ptr, sizeof(value));
    return __builtin_bswap64(value);
}

#endif
