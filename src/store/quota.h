/*
 * quota: how many executions, audit events, and inputs of blocked runs an account keeps. The server
 * removes the oldest rows beyond that, in small batches (server/trimmer.h). Of events to deliver,
 * it ends the oldest pending ones as failed.
 */
#ifndef STORE_QUOTA_H
#define STORE_QUOTA_H

#include "store/store.h"

enum { QUOTA_ACCOUNTS_MAX = 16, QUOTA_ROWS_MAX = 2000 };

/* QUOTA_DELIVERIES: pending ones of all endpoints of the account, its users' events included. On a
 * cluster, only those in the account's shard: the rows of most users are in others, each shard
 * finds and ends its own rows alone, and the cut of a sum would need all ids of all shards. */
enum quota_kind {
    QUOTA_EXECUTIONS,
    QUOTA_AUDIT,
    QUOTA_BLOCKED_INPUTS,
    QUOTA_DELIVERIES,
    QUOTA_KINDS
};

/* For the next accounts after `after` (nil: from the first), at most `count` (up to
 * QUOTA_ACCOUNTS_MAX), finds the newest row beyond the count_max newest. The query reads as many
 * entries of an index as an account keeps, or none if the whole table is too small. Of deliveries
 * only accounts with endpoints are found. */
struct quota_cut {
    struct uuid account_id;
    struct uuid last; /* this row and older rows are beyond the quota; nil if no row is */
};
void store_quota_find(STORE_ARGS, enum quota_kind kind, struct uuid after, size_t count,
                      size_t count_max);
/* Returns a list in op's arena, by account; if it is shorter than count, there are no more
 * accounts. */
int store_quota_find_result(const struct pg_query *query, struct quota_cut **list,
                            size_t *count) MUST_CHECK;

/* Removes the oldest rows up to `last`, at most QUOTA_ROWS_MAX, and their inputs; of executions,
 * only those that ended at least age_ms ago. The result is the number of removed rows. */
void store_quota_trim(STORE_ARGS, enum quota_kind kind, const struct quota_cut *cut,
                      int64_t age_ms);
int store_quota_trim_result(const struct pg_query *query, size_t *count) MUST_CHECK;

#endif
