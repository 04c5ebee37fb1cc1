/*
 * idempotency: claims. A claim is the intent of a run (every write, and reads with a key), written
 * before the provider is called: which node runs which action, under which key. With a client's
 * idempotency key the row stays, bound to the finished execution, until it expires; without such a
 * key the run claims a key of its own, made of its id (which never equals a client's key, since
 * those have no control characters), and the row is deleted when the run ends. A write whose client
 * may repeat it has a key that the server makes (exec/lost.c); the record binds it or deletes it.
 */
#ifndef STORE_IDEMPOTENCY_H
#define STORE_IDEMPOTENCY_H

#include "store/store.h"

enum {
    IDEMPOTENCY_KEY_MAX = 255,
    IDEMPOTENCY_FINGERPRINT_LEN = 32,
    /* maximum number of claims of store_claim_recover and store_claim_owned */
    CLAIM_RECOVER_MAX = 200,
    CLAIM_GUARDS_MS_MAX =
        /* the longest time that guards_until may be beyond the end of the key's lifetime */
    15 * 60 * 1000,
};

struct claim {
    struct uuid account_id;
    slice key; /* the client's key; SLICE_NONE if there is none */
    struct uuid execution_id;
    uint8_t fingerprint[IDEMPOTENCY_FINGERPRINT_LEN]; /* zeros: not made */
    struct uuid owner;                                /* this node */
    slice integration_id, action_id;
    int64_t connection_id; /* 0: none */
    bool is_write;
    struct uuid parent_id; /* of a user's run: the account; else nil */
    int64_t started_at;    /* only read; measured by the database's clock */
    /* only read, by the scans: the flow whose held call the run is; nil: it is none */
    struct uuid approval_flow_id;
    /* For a client's key; these are only written. lifetime_ms is measured by the database's clock
     * from the statement on. guards_until is the time until which the key must be kept at least
     * (clock_shared_us), since what it guards is valid until then; 0: no such time. */
    int64_t lifetime_ms, guards_until;
};

enum claim_state {
    CLAIM_WON,       /* the claim is made and the intent is durable: call the provider */
    CLAIM_IN_FLIGHT, /* a node runs it, or recovery will end it: wait, then load it again */
    CLAIM_BOUND,     /* the run has finished: compare the fingerprint, answer with the summary */
};

struct claim_outcome {
    enum claim_state state;
    struct uuid execution_id; /* the run that holds the key */
    uint8_t fingerprint[IDEMPOTENCY_FINGERPRINT_LEN];
    struct uuid owner; /* IN_FLIGHT */
    /* With CLAIM_BOUND, from store_claim_find: the execution. has_execution is false after
     * store_claim_insert (a key that was bound between lookup and claim), in a rare race with the
     * commit that bound it, and if the execution's partition was dropped. In these cases use
     * store_execution_get. */
    bool has_execution;
    bool is_succeeded;
    slice error_code;
    int64_t started_at, finished_at;
    slice summary; /* SLICE_NONE if it is large; use store_execution_get_summary */
    size_t summary_bytes;
    /* From store_claim_find_held, also if the key is free: the fingerprint of the request whose
     * hold has the key (store/hold.h). */
    bool has_hold;
    uint8_t hold_fingerprint[IDEMPOTENCY_FINGERPRINT_LEN];
};

/* Looks up the key before the work begins. The result is ERR_NOTFOUND if the key is free, and never
 * CLAIM_WON. A bound key past its expiry, by the database's clock, counts as free. */
void store_claim_find(STORE_ARGS, struct uuid account_id, slice key);
/* The same for a caller whose calls may be held, and for a start of a flow. */
void store_claim_find_held(STORE_ARGS, struct uuid account_id, slice key);
/* Claims the key and records the intent in one statement (src/README.md "An execution"). Exactly
 * one of any number of concurrent requests gets CLAIM_WON; the others learn which run has it.
 * Replayable: the execution id is the operation token. */
void store_claim_insert(STORE_ARGS, const struct claim *claim);
/* Binds the key for its lifetime, without a run: to an execution or a flow that exists, or to none,
 * and a run that uses it finds a fingerprint of zeros (store_claim_is_spent). If the key is taken,
 * nothing changes. Replayable, as store_claim_insert. */
void store_claim_spend(STORE_ARGS, const struct claim *claim);
/* Binds the key to claim's run for its lifetime, from now on, if the key is free or in flight for
 * that run; else nothing changes. Replayable. Read its result with store_done_result. */
void store_claim_bind(STORE_ARGS, const struct claim *claim);
/* Reads the result of the calls above, except the last. For a spent key CLAIM_WON means that this
 * query spent it. */
int store_claim_result(const struct pg_query *query, struct claim_outcome *outcome) MUST_CHECK;
/* Returns whether the key was spent, so that it belongs to no request. */
bool store_claim_is_spent(const struct claim_outcome *outcome);
/* Ends a claim without a result (blocked by a 401; a read whose owner died): the row is deleted,
 * and the key is free, if execution id and owner still match. Replayable. Read the result with
 * store_done_result. */
void store_claim_release(STORE_ARGS, const struct claim *claim);

struct node_dead; /* store/node.h */
/* Lists claims of these owners, whose leases have run out (a read-only scan over all accounts,
 * bounded). A write is then ended by store_execution_finish as failed, with CLAIM_KEEP if it has a
 * key (owner: the DEAD owner's id is the fence), and a read by store_claim_release. The result is a
 * list; call again until it is empty. */
void store_claim_recover(STORE_ARGS, const struct node_dead *dead);
/* Lists the claims in flight of one owner that have at least the given age (read-only), the oldest
 * first. Read the result with store_claim_recover_result. */
void store_claim_owned(STORE_ARGS, struct uuid owner, int64_t age_ms);
/* Reads the list. The fingerprint is filled in, too; key is SLICE_NONE if the client gave none. */
int store_claim_recover_result(const struct pg_query *query, struct claim **list,
                               size_t *count) MUST_CHECK;

#endif
