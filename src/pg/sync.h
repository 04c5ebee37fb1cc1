/*
 * A plain blocking connection for operator commands (`sluice accounts`, `keys`, `connections`) and
 * migrations, which run without a loop. `serve` never uses it once its loop runs.
 */
#ifndef PG_SYNC_H
#define PG_SYNC_H

#include "pg/pg.h"

struct pg_sync;

/* Returns NULL on failure: err is a sentence with libpq's reason and what to check. */
struct pg_sync *pg_sync_open(const char *conninfo, struct err *err) MUST_CHECK;
void pg_sync_close(struct pg_sync *sync);
/* Runs a statement in its pipe form. params: stmt->param_count values. Rows go to the arena; rows
 * may be NULL. ERR_INVALID for constraint violations (err names the constraint), else ERR_IO. */
int pg_sync_exec(struct pg_sync *sync, const struct pg_stmt *stmt, const struct pg_value *params,
                 struct arena *arena, struct pg_rows *rows, struct err *err) MUST_CHECK;
/* Runs constant text that may contain several statements ("begin", DDL); no results. */
int pg_sync_run(struct pg_sync *sync, const char *sql, struct err *err) MUST_CHECK;
/* Runs one statement without parameters; the result has its cells as text. For tests and small
 * reports. */
int pg_sync_text(struct pg_sync *sync, const char *sql, struct arena *arena, struct pg_rows *rows,
                 struct err *err) MUST_CHECK;

#endif
