/*
 * What the flow of a hold (store/hold.h) needs around its call: what has become of earlier
 * attempts, and the id of the execution that follows, which is stored before the execution begins.
 */
#ifndef STORE_HOLD_CALL_H
#define STORE_HOLD_CALL_H

#include "store/idempotency.h"
#include "store/store.h"

/* A larger summary is not read: it has no output that fits in a step. */
#define STORE_HOLD_SUMMARY_BYTES 2097152

/* The hold of a flow, in one snapshot with all that its call may have left. */
struct hold_state {
    slice key;
    uint8_t fingerprint[IDEMPOTENCY_FINGERPRINT_LEN];
    struct uuid asker;
    struct uuid execution_id; /* of the last attempt; nil: there was none */
    bool is_ours;             /* the flow still has this revision and owner */
    int64_t lifetime_ms;      /* of a claim of its key, at least */
    /* the record of execution_id */
    bool has_record, is_succeeded;
    slice summary; /* SLICE_NONE if it is larger than STORE_HOLD_SUMMARY_BYTES */
    /* The execution that has the key now; nil: the key is free. is_same: its request is the held
     * one; is_bound: it has ended. */
    struct uuid holder_id;
    bool is_bound, is_same;
};

/* The result is ERR_NOTFOUND if the flow has no hold any more. */
void store_hold_check(STORE_ARGS, struct uuid account_id, struct uuid flow_id, int64_t rev,
                      struct uuid owner);
STORE_ROW_RESULT(store_hold_check_result, hold_state)

struct hold_intent {
    struct uuid account_id;
    slice key;
    struct uuid flow_id;
    struct uuid execution_id; /* from now on */
    /* The fences: the execution until now (nil: none), and the flow's revision and owner. */
    struct uuid was;
    int64_t rev;
    struct uuid owner;
};

/* Replayable. Read the result with store_hit_result: ERR_NOTFOUND if a fence does not hold. */
void store_hold_intend(STORE_ARGS, const struct hold_intent *intent);

#endif
