/*
 * idempotency: claims. A claim is the intent of a run (every write, and reads with a key), written
 * before the provider is called: which node runs which action, under which key. With a client's
 * idempotency key the row stays, bound to the finished execution, until it expires; without such a
 * key the run claims a key of its own, made of its id (which never equals a client's key, since
 * those have no control characters), and the row is deleted when the run ends.
 */
#ifndef STORE_IDEMPOTENCY_H
#define STORE_IDEMPOTENCY_H

#include "store/store.h"

enum {
    IDEMPOTENCY_KEY_MAX = 255,
    IDEMPOTENCY_FINGERPRINT_LEN = 32,
    CLAIM_RECOVER_MAX = 200, /* maximum for store_claim_recover and store_claim_owned */
    CLAIM_GUARDS_MS_MAX =
        15 * 60 * 1000, /* maximum of guards_until beyond the end of the key's lifetime */
};

struct claim {
    struct uuid account_id;
    slice key; /* the client's, SLICE_NONE for none */
    struct uuid execution_id;
    uint8_t fingerprint[IDEMPOTENCY_FINGERPRINT_LEN]; /* zeros: not made */
    struct uuid owner;                                /* this node */
    slice integration_id, action_id;
    int64_t connection_id; /* 0: none */
    bool is_write;
    int64_t started_at; /* only read; by the database's clock */
    /* For a client's key, only written. lifetime_ms is measured by the database's clock from the
     * statement on. guards_until: the end of the validity of what the key guards
     * (clock_shared_us; 0: none); the key is kept beyond it. */
    int64_t lifetime_ms, guards_until;
};

enum claim_state {
    CLAIM_WON,       /* the claim is made, the intent is durable: call the provider */
    CLAIM_IN_FLIGHT, /* a node runs it, or recovery will end it: wait, load again */
    CLAIM_BOUND,     /* finished: compare the fingerprint, answer with the summary */
};

struct claim_outcome {
    enum claim_state state;
    struct uuid execution_id; /* the run that holds the key */
    uint8_t fingerprint[IDEMPOTENCY_FINGERPRINT_LEN];
    struct uuid owner; /* IN_FLIGHT */
    /* BOUND, from store_claim_find: the execution. has_execution is false after
     * store_claim_insert (a key that was bound between lookup and claim), in a rare race with
     * the commit that bound it, and if the execution's partition was dropped. In these cases use
     * store_execution_get. */
    bool has_execution;
    bool is_succeeded;
    slice error_code;
    int64_t started_at, finished_at;
    slice summary; /* SLICE_NONE: large, use store_execution_get_summary */
    size_t summary_bytes;
};

/* Looks up the key before the work begins. Result: ERR_NOTFOUND if it is free. Never CLAIM_WON.
 * A bound key past its expiry, by the database's clock, counts as free. */
void store_claim_find(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      struct uuid account_id, slice key);
/* Claims the key and records the intent in one statement (src/README.md "An execution"). Exactly
 * one of any number of concurrent requests gets CLAIM_WON; the others learn which run has it.
 * Replayable: the execution id is the operation token. */
void store_claim_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                        const struct claim *claim);
/* Binds the key to no execution for its lifetime: a run that uses it finds a fingerprint of
 * zeros (store_claim_is_spent). If the key is taken, nothing changes. Replayable, as
 * store_claim_insert. */
void store_claim_spend(struct pg_pool *pool, struct pg_query *query, struct op *op,
                       const struct claim *claim);
/* Stores a fingerprint and the id of a run under way in the same way: a run that finds the key
 * waits for that run's execution. Forget: deletes that row, if it has that id.
 * store_done_result. */
void store_claim_forget(struct pg_pool *pool, struct pg_query *query, struct op *op,
                        const struct claim *claim);
/* The result of the three calls above. For a spent key CLAIM_WON means that this query spent it. */
int store_claim_result(const struct pg_query *query, struct claim_outcome *outcome) MUST_CHECK;
/* Whether the key was spent, so that it belongs to no request. */
bool store_claim_is_spent(const struct claim_outcome *outcome);
/* Ends a claim without a result (blocked by a 401; a read whose owner died): the row is deleted,
 * the key is free. Only if execution id and owner still match. Replayable. store_done_result. */
void store_claim_release(struct pg_pool *pool, struct pg_query *query, struct op *op,
                         const struct claim *claim);

struct node_dead; /* store/node.h */
/* Claims of these owners, whose leases have run out (a read-only scan over all accounts,
 * bounded). A write is then ended by store_execution_finish as failed, with CLAIM_KEEP if it has
 * a key (owner: the DEAD owner's id is the fence), and a read by store_claim_release. Result: a
 * list; call again until it is empty. */
void store_claim_recover(struct pg_pool *pool, struct pg_query *query, struct op *op,
                         const struct node_dead *dead);
/* The claims in flight of one owner that have at least the given age (read-only), the oldest
 * first. Result: store_claim_recover_result. */
void store_claim_owned(struct pg_pool *pool, struct pg_query *query, struct op *op,
                       struct uuid owner, int64_t age_ms);
/* The fingerprint is filled in, too; key is SLICE_NONE if the client gave none. */
int store_claim_recover_result(const struct pg_query *query, struct claim **list,
                               size_t *count) MUST_CHECK;

#endif
