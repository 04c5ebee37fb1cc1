/*
 * From a statement's template (pg/pg.h) to the SQL of the two modes.
 */
#ifndef PG_STMT_H
#define PG_STMT_H

#include "base/buf.h"
#include "pg/pg.h"

enum { PG_STMT_NAME_MAX = 48, PG_SQL_MAX = 16 * 1024 };

/* Appends the SQL. ERR_SYNTAX on an unknown parameter or marker (err names it), ERR_LIMIT past
 * out's maximum. A statement without parameters has no set form: ERR_INVALID. */
int pg_stmt_expand(const struct pg_stmt *stmt, enum pg_mode mode, struct buf *out,
                   struct err *err) MUST_CHECK;
/* Type of parameter i: of the value in pipe mode, of its array in set mode. An Oid. */
unsigned pg_stmt_param_oid(const struct pg_stmt *stmt, enum pg_mode mode, size_t i);
/* For tests. */
const char *pg_type_name(enum pg_type type);

/* GUCs of each connection of ours: plans pinned (pg/stmt.c), no surprises from role settings. */
#define PG_SETTINGS_PLAN                                                                  \
    "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_hashjoin=off " \
    "-c enable_bitmapscan=off -c enable_mergejoin=off -c jit=off -c "                     \
    "max_parallel_workers_per_gather=0"

#endif
