/*
 * trimmer: one sweep over accounts that keep more executions or audit events than allowed; it
 * removes the oldest. It is a child op of the janitor and does a limited amount of work: a sweep
 * that has used up its share of a round continues in the next one.
 */
#ifndef SERVER_TRIMMER_H
#define SERVER_TRIMMER_H

#include "store/quota.h"

struct trimmer_config {
    size_t count_max[QUOTA_KINDS]; /* per account; 0: any number */
    /* Executions are kept at least this long, since a repeated key may have to be answered from
     * one. */
    uint64_t idempotency_ttl_ms;
};

struct trimmer {
    struct op op;
    /* out: the counts of this round; status as in pg_query */
    int status;
    size_t removed[QUOTA_KINDS];
    /* private */
    struct pg_pool *pool;
    struct trimmer_config config;
    struct pg_query query;
    enum quota_kind kind;
    struct uuid after; /* position of the sweep; kept between rounds */
    struct quota_cut *cuts;
    size_t count, at;
    size_t asked;          /* accounts per page */
    unsigned pages, bites; /* pages of accounts and deletes of rows, in this round */
};
/* Called once, before the first round. */
void trimmer_init(struct trimmer *trimmer, struct pg_pool *pool,
                  const struct trimmer_config *config);
void trimmer_start(struct trimmer *trimmer, struct op *parent);

#endif
