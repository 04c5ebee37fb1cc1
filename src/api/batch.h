/*
 * Several executions in one request: POST /api/executions/batch, and the tool run_actions of mcp.
 * Each runs as it would alone, with its own gate, key, deadline and record, and counts as a request
 * of its own account. For the rooms with endpoints.
 */
#ifndef API_BATCH_H
#define API_BATCH_H

#include "api/request.h"

enum {
    API_BATCH_ITEMS_MAX = 50,
    API_BATCH_SUMMARIES_BYTES_MAX = 4 * 1024 * 1024,
};

/* A fault of one item does not affect the others: it becomes that item's answer. */
struct api_batch_item {
    struct exec *exec;     /* NULL: it was not started */
    slice problem;         /* why not; SLICE_NONE: it may start */
    unsigned status;       /* HTTP status of the problem */
    int64_t retry_after_s; /* 0: not in the answer */
};

struct api_batch {
    struct api_batch_item *items;
    size_t count;
    size_t replay_room; /* for large stored summaries: a summary that does not fit is not read */
    const struct trace_context *trace; /* the parent span of its executions; or NULL */
};

/* Returns the items in this member of the body. Returns NULL if the member is not an array of 1 to
 * API_BATCH_ITEMS_MAX items; the request was then answered. */
const struct json *api_batch_list(struct api_request *request, const char *member) MUST_CHECK;
/* Returns whether the op now waits for the database's part of the account's rate. If so, call
 * api_wait, and then this function again. */
bool api_batch_awaits_rate(struct api_request *request, size_t count) MUST_CHECK;
/* Sets request->state to the batch, and counts its items as requests: an item over the account's
 * rate gets a problem. Returns false if out of memory. */
bool api_batch_init(struct api_request *request, struct api_batch *batch, size_t count,
                    size_t reply_bytes_max) MUST_CHECK;
/* Starts an item that has no problem. */
void api_batch_start(struct api_request *request, struct api_batch_item *item,
                     struct exec_request *wanted);
/* Runs `then` when the started items have ended, or at once if none was started. */
enum op_result api_batch_wait(struct api_request *request, api_step *then);

#endif
