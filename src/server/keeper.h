/*
 * keeper: one sweep over accounts that keep more executions or audit events than allowed; the
 * oldest are removed. A child op of the janitor, in bounded parts: a sweep that has used up its
 * share of a round continues in the next one.
 */
#ifndef SERVER_KEEPER_H
#define SERVER_KEEPER_H

#include "store/kept.h"

struct keeper_config {
    size_t count_max[KEPT_KINDS]; /* of an account; 0: any number */
    /* Executions are kept at least this long, since a key may have to answer with one. */
    uint64_t idempotency_ttl_ms;
};

struct keeper {
    struct op op;
    /* out: of this round; status as pg_query */
    int status;
    size_t removed[KEPT_KINDS];
    /* private */
    struct pg_pool *pool;
    struct keeper_config config;
    struct pg_query query;
    enum kept_kind kind;
    struct uuid after; /* position of the sweep; kept between rounds */
    struct kept_cut *cuts;
    size_t count, at;
    size_t asked;          /* accounts a page */
    unsigned pages, bites; /* pages of accounts and deletes of rows, in this round */
};
/* Once, before the first round. */
void keeper_init(struct keeper *keeper, struct pg_pool *pool, const struct keeper_config *config);
void keeper_start(struct keeper *keeper, struct op *parent);

#endif
