/*
 * retention: partitions made ahead and dropped, expired keys removed, all in bounded bites that
 * the server runs by itself (contrib/deploy/README.md "Operations"). Each call does one bite and
 * says whether more is left.
 */
#ifndef STORE_RETENTION_H
#define STORE_RETENTION_H

#include "store/store.h"

enum { RETENTION_DAYS_AHEAD = 7, RETENTION_KEYS_MAX = 500 };

/* Makes the day partitions of today and RETENTION_DAYS_AHEAD days of every partitioned table where
 * they are missing. store_count_result: how many were made. */
void store_partitions_make(struct pg_pool *pool, struct pg_query *query, struct op *op);
/* Drops at most one partition whose rows are all older than keep_days, of audit events older than
 * audit_days (both at least 1). store_count_result: how many (0 or 1): call again until 0.
 * ERR_TIMEOUT when its lock could not be had: try later. */
void store_partitions_drop(struct pg_pool *pool, struct pg_query *query, struct op *op,
                           unsigned keep_days, unsigned audit_days);

/* A scan for bound keys past their expiry, at most RETENTION_KEYS_MAX. */
struct expired_key {
    struct uuid account_id;
    slice key;
    int64_t expires_at;
};
void store_keys_expired(struct pg_pool *pool, struct pg_query *query, struct op *op);
int store_keys_expired_result(const struct pg_query *query, struct expired_key **list,
                              size_t *count) MUST_CHECK;
/* Removes one of them where it is still expired (fenced); many go into one batch. Replayable. */
void store_key_expire(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      const struct expired_key *key);

/* The highest recorded migration, for /readyz with pg_schema_is_served. */
void store_schema_version(struct pg_pool *pool, struct pg_query *query, struct op *op);
int store_schema_version_result(const struct pg_query *query, unsigned *version) MUST_CHECK;

#endif
