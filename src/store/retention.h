/*
 * retention: makes partitions in advance, drops old ones and removes expired keys, in small batches
 * that the server runs by itself (contrib/deploy/README.md "Operations"). Each call runs one batch
 * and reports whether there is more to do.
 */
#ifndef STORE_RETENTION_H
#define STORE_RETENTION_H

#include "store/store.h"

enum { RETENTION_DAYS_AHEAD = 7, RETENTION_KEYS_MAX = 500 };

/* Makes one missing day partition of a partitioned table, from yesterday to RETENTION_DAYS_AHEAD
 * days from now. store_count_result returns the number of partitions made, 0 or 1; call again until
 * it is 0. */
void store_partition_make(STORE_ARGS);
/* Makes all missing partitions, each in a separate transaction; for commands. */
int store_partitions_make_sync(struct pg_sync *sync, struct arena *arena,
                               struct err *err) MUST_CHECK;
/* Drops at most one partition whose rows are all older than keep_days, or audit_days for audit
 * events (both at least 1), or input_days for inputs, which go at the latest with their executions
 * and events. store_count_result returns the number of partitions dropped, 0 or 1;
 * call again until it is 0. The result is ERR_TIMEOUT if the lock was not free; try again later
 * then. */
void store_partitions_drop(STORE_ARGS, unsigned keep_days, unsigned audit_days,
                           unsigned input_days);

/* Finds bound keys past their expiry, at most RETENTION_KEYS_MAX. */
struct expired_key {
    struct uuid account_id;
    slice key;
    int64_t expires_at;
};
void store_keys_expired(STORE_ARGS);
STORE_LIST_RESULT(store_keys_expired_result, expired_key)
/* Removes one of these keys if it is still expired (fenced); many go into one batch. Replayable. */
void store_key_expire(STORE_ARGS, const struct expired_key *key);

/* Reads the highest recorded migration, for /readyz with pg_schema_is_served. */
void store_schema_version(STORE_ARGS);
int store_schema_version_result(const struct pg_query *query, unsigned *version) MUST_CHECK;

#endif
