/*
 * For the files of this room: statement tables and small helpers.
 */
#ifndef STORE_INTERNAL_H
#define STORE_INTERNAL_H

#include "store/store.h"

/* Each noun's statements, ended by NULL. */
extern const struct pg_stmt *const account_stmts[];
extern const struct pg_stmt *const api_key_stmts[];
extern const struct pg_stmt *const audit_stmts[];
extern const struct pg_stmt *const connection_stmts[];
extern const struct pg_stmt *const execution_stmts[];
extern const struct pg_stmt *const idempotency_stmts[];
extern const struct pg_stmt *const node_stmts[];
extern const struct pg_stmt *const oauth_stmts[];
extern const struct pg_stmt *const retention_stmts[];

/* 0 counts as absent. */
static inline struct pg_value pg_i64_or_null(int64_t value)
{
    return value ? pg_i64(value) : pg_null(PG_I64);
}

/* An empty slice that is not NULL. */
static inline struct pg_value pg_text_or_empty(slice value)
{
    return pg_text(value.ptr ? value : SLICE(""));
}

static inline void store_submit(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                const struct pg_stmt *stmt)
{
    query->stmt = stmt;
    pg_submit(pool, query, op);
}

/* A sync statement that must hit a row: ERR_NOTFOUND with `what` else. */
int store_exec_one_sync(struct pg_sync *sync, const struct pg_stmt *stmt,
                        const struct pg_value *params, const char *what,
                        struct err *err) MUST_CHECK;

/* The key parameter of a claim: the client's, or one made of the execution's id, which begins with
 * U+0001 and so meets no client's; its text is kept in the query. */
struct pg_value store_claim_key(struct pg_query *query, slice key, struct uuid execution_id);

#endif
