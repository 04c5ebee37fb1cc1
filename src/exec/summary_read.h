/*
 * A stored summary that is too large to be read with its row (STORE_SUMMARY_INLINE_BYTES). It is
 * read separately on the lane of large reads, truncated on a pool thread if its reader wants a
 * part, and shared by all readers that want the same part at a time. Memory holds one text, however
 * many readers there are.
 */
#ifndef EXEC_SUMMARY_READ_H
#define EXEC_SUMMARY_READ_H

#include "base/map.h"
#include "call/fit.h"
#include "loop/budget_wait.h"
#include "loop/op.h"
#include "store/execution.h"

struct exec_shared_summary;

/* The texts that the service is reading or that are still in use, by account, execution and
 * part. */
struct exec_summaries {
    struct loop *loop;
    struct pg_pool *pool;
    struct budget_queue *work;
    struct map map;
};

void exec_summaries_init(struct exec_summaries *table, struct loop *loop, struct pg_pool *pool,
                         struct budget_queue *work, size_t count_max);
/* Asserts that no text is in use. */
void exec_summaries_deinit(struct exec_summaries *table);

/* One reader, in the memory of its op. Zero it before use. */
struct exec_summary_read {
    /* out: OK; ERR_NOTFOUND: no such execution, or (with `is_found`) nothing at the pointer;
     * ERR_BUSY: no memory for the text in time; ERR_NOMEM; or the status of the query. */
    int status;
    bool is_found;
    slice summary; /* valid as long as the op's memory */
    slice output;  /* the output within the summary; SLICE_NONE: none */
    /* private */
    struct exec_shared_summary *shared;
    struct op *op;         /* while it waits */
    struct list link;      /* in exec_shared_summary.waiting */
    struct loop_task task; /* used if the text is available already, or cannot be read */
};

/* Holds op until the out fields are set; they are never set before this function returns. wanted is
 * copied except its texts, which live as long as op's memory. bytes: the size of the summary.
 * payer_id: the account whose memory is used, for a user's execution. */
void exec_summary_read_begin(struct exec_summaries *table, struct exec_summary_read *read,
                             struct op *op, struct uuid account_id, struct uuid payer_id,
                             const struct call_fit *wanted, size_t bytes);
/* For an op's on_cancel. Does nothing if the reader does not wait. */
void exec_summary_read_cancel(struct exec_summary_read *read);

#endif
