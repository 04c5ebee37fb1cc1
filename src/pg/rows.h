/*
 * Copies libpq's results into rows in an arena.
 */
#ifndef PG_ROWS_H
#define PG_ROWS_H

#include <libpq-fe.h>

#include "pg/pg.h"

/* Copies `count` rows of `columns` columns, beginning with column `lead`. numbers: the rows to
 * copy, NULL for the first `count`. ERR_NOMEM above the limit of the arena; *out then has no
 * rows. */
int pg_rows_copy(struct arena *arena, const PGresult *result, size_t lead, size_t columns,
                 const size_t *numbers, size_t count, struct pg_rows *out) MUST_CHECK;

#endif
