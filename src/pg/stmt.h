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
/* Which parameter is the account; PG_PARAMS_MAX: none is. */
unsigned pg_stmt_account_at(const struct pg_stmt *stmt);

/* GUCs for each connection, in the form of pg_target_new: plans pinned (pg/stmt.c), and no
 * surprises from role settings. */
#define PG_SETTINGS_PLAN                                                              \
    "('enable_seqscan','off'),('enable_hashjoin','off'),('enable_bitmapscan','off')," \
    "('enable_mergejoin','off'),('jit','off'),('max_parallel_workers_per_gather','0')"

#endif
