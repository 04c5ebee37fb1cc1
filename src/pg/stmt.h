/*
 * Expands a statement's template (pg/pg.h) to the SQL of the two modes.
 */
#ifndef PG_STMT_H
#define PG_STMT_H

#include "base/buf.h"
#include "pg/pg.h"

enum { PG_STMT_NAME_MAX = 48, PG_SQL_MAX = 16 * 1024 };

/* Appends the SQL. ERR_SYNTAX for an unknown parameter or marker (err names it), ERR_LIMIT above
 * the maximum of out. A statement without parameters has no set form: ERR_INVALID. */
int pg_stmt_expand(const struct pg_stmt *stmt, enum pg_mode mode, struct buf *out,
                   struct err *err) MUST_CHECK;
/* Returns how many queries a message has in set mode at most. */
size_t pg_stmt_set_max(const struct pg_stmt *stmt);
/* Returns the Oid of parameter i's type: the value's type in pipe mode, the array's in set mode. */
unsigned pg_stmt_param_oid(const struct pg_stmt *stmt, enum pg_mode mode, size_t i);
/* For tests. */
const char *pg_type_name(enum pg_type type);
/* Returns the index of the parameter that is the account; PG_PARAMS_MAX if there is none. */
unsigned pg_stmt_account_at(const struct pg_stmt *stmt);

/* GUCs for each connection, in the form of pg_target_new: they pin plans (pg/stmt.c) and
 * override settings of the role. */
#define PG_SETTINGS_PLAN                                                              \
    "('enable_seqscan','off'),('enable_hashjoin','off'),('enable_bitmapscan','off')," \
    "('enable_mergejoin','off'),('jit','off'),('max_parallel_workers_per_gather','0')"

#endif
