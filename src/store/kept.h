/*
 * kept: how many executions and audit events an account keeps. The server removes the oldest beyond
 * that by itself, in small batches (server/keeper.h).
 */
#ifndef STORE_KEPT_H
#define STORE_KEPT_H

#include "store/store.h"

enum { KEPT_ACCOUNTS_MAX = 16, KEPT_ROWS_MAX = 2000 };

enum kept_kind { KEPT_EXECUTIONS, KEPT_AUDIT, KEPT_KINDS };

/* For the next accounts after `after` (nil: from the first), at most count (KEPT_ACCOUNTS_MAX), the
 * newest row beyond the count_max newest. Reads as many entries of an index as an account keeps;
 * none if the whole table is too small. */
struct kept_cut {
    struct uuid account_id;
    struct uuid last; /* it and older rows are beyond; nil: none */
};
void store_kept_find(struct pg_pool *pool, struct pg_query *query, struct op *op,
                     enum kept_kind kind, struct uuid after, size_t count, size_t count_max);
/* A list in op's arena, by account; shorter than count: there are no more accounts. */
int store_kept_find_result(const struct pg_query *query, struct kept_cut **list,
                           size_t *count) MUST_CHECK;

/* Removes the oldest rows up to `last`, at most KEPT_ROWS_MAX; only executions that ended age_ms
 * ago. Result: their number. */
void store_kept_trim(struct pg_pool *pool, struct pg_query *query, struct op *op,
                     enum kept_kind kind, const struct kept_cut *cut, int64_t age_ms);
int store_kept_trim_result(const struct pg_query *query, size_t *count) MUST_CHECK;

#endif
