/*
 * hold: a call that waits for a person's approval. Its row binds a key, that of the request or one
 * made of it, to the flow that asks and then calls, so a request that is sent again finds that
 * flow. The row is made together with the flow (store_flow_start), and is kept for its lifetime
 * after the flow's end. After that, or if the flow no longer exists, its key counts as free.
 */
#ifndef STORE_HOLD_H
#define STORE_HOLD_H

#include "store/idempotency.h"

enum {
    HOLDS_OPEN_MAX = 10000, /* of an account, or of a user: those that wait for a decision */
    HOLDS_ENDED_MAX = 500,  /* of store_holds_ended */
};

struct hold {
    struct uuid account_id;
    slice key; /* printable */
    struct uuid flow_id;
    uint8_t fingerprint[IDEMPOTENCY_FINGERPRINT_LEN];
    struct uuid asker;        /* the line of the key that asked (struct api_key) */
    struct uuid execution_id; /* of the call that was intended last; nil: none was */
    int64_t lifetime_ms;
};

/* The result of a start with a hold: the hold of the key, which is another's if its flow_id is not
 * that of the start. ERR_NOTFOUND: the account has HOLDS_OPEN_MAX others, and nothing was made. */
STORE_ROW_RESULT(store_hold_start_result, hold)

/* Looks up a key before a hold is made. The result is ERR_NOTFOUND if the key is free. */
struct hold_found {
    struct hold hold;
    bool is_open;    /* its flow has not ended */
    bool has_record; /* the execution with execution_id is stored */
    slice failure;   /* its summary, if it has failed and the summary is small; else SLICE_NONE */
};
void store_hold_find(STORE_ARGS, struct uuid account_id, slice key);
STORE_ROW_RESULT(store_hold_find_result, hold_found)

/* Looks up the hold of a flow, for its page. The result is ERR_NOTFOUND if it is not kept any
 * more. */
struct hold_of_flow {
    struct uuid execution_id; /* as in struct hold */
    bool has_record;          /* the execution with that id is stored */
};
void store_hold_of_flow(STORE_ARGS, struct uuid account_id, struct uuid flow_id);
STORE_ROW_RESULT(store_hold_of_flow_result, hold_of_flow)

/* ---- retention ---- */

/* Finds holds whose keys are free, among the 10,000 that were made first from `after` on. */
struct hold_ended {
    struct uuid account_id;
    slice key;
    struct uuid flow_id;
    /* 0, or in a last row, of a hold that may be open: there may be more; call again with this as
     * `after`. A sharded database returns such a row for each shard. */
    int64_t passed_until;
};
void store_holds_ended(STORE_ARGS, int64_t after);
STORE_LIST_RESULT(store_holds_ended_result, hold_ended)
/* Removes one of these rows if its key is still free (fenced); many go into one batch.
 * Replayable. */
void store_hold_remove(STORE_ARGS, const struct hold_ended *hold);

#endif
