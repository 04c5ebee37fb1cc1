/*
 * The output budget: the answer for an output that is larger than its reader wants
 * (max_output_bytes). The record keeps the whole; the answer contains instead
 *
 *   {"truncated": true, "bytes": 1234567, "max_output_bytes": 1048576,
 *    "cuts": [{"pointer": "/messages", "kept": 12, "of": 300,
 *              "more": "/api/executions/ID?pointer=%2Fmessages&offset=12"}],
 *    "preview": <the output with its longest parts cut>}
 *
 * so that a program cannot mistake a part for the whole, and a model sees what exists and how to
 * read the rest. `kept` and `of` count an array's items, an object's members or a string's bytes; a
 * number that does not fit becomes null, with kept 0 and of 1. Sizes are those of the JSON text. If
 * there was no memory for any part of the output, the only cut is the whole output, with kept 0 and
 * of 1, and max_output_bytes is 0.
 *
 * What is cut is the value of the reader's `select` or the action's `view` (call/view.h), if there
 * is one, and `more` addresses that value. A view is followed by the member `left_out`, the names
 * of what it lacks. If a select fails, the output is the object of an omitted one, followed by
 * `select_error`: the action has run, and its output is stored. If a view fails, all is shown.
 */
#ifndef CALL_FIT_H
#define CALL_FIT_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/id.h"
#include "base/slice.h"

enum { CALL_FIT_CUTS_MAX = 20 };

struct call_fit {
    struct uuid execution_id;
    slice select;     /* the reader's expression over the output; SLICE_NONE: none */
    slice view;       /* the action's, if there is no select; SLICE_NONE: none */
    bool is_full;     /* the reader has asked for the whole output instead of the view, so `more`
                       * does, too */
    size_t bytes_max; /* 0: no limit */
    slice pointer;    /* RFC 6901: the part to show; "" for all */
    bool is_resource; /* `more` begins with sluice://executions/ (mcp) instead of
                       * /api/executions/ */
    uint64_t offset;  /* items, members or bytes of that part that are skipped */
};

/* summary: the text of an execution summary (call/summary.h), valid JSON. It is truncated as text,
 * without a tree, so the memory needed is about the size of the wanted part. Sets *fitted to the
 * summary itself if nothing has to be changed, else to a new one in the arena, and *output (may be
 * NULL) to the new output within it, or SLICE_NONE if the output is unchanged. Returns OK,
 * ERR_NOMEM, or ERR_NOTFOUND if the pointer leads to no value. Accesses nothing but the arena, so
 * that it may run on a pool thread. */
int call_fit_summary(slice summary, const struct call_fit *wanted, struct arena *arena,
                     slice *fitted, slice *output) MUST_CHECK;
/* Returns the replacement for an output that could not be read, in the arena: a cut of the whole,
 * with kept 0 and of 1. bytes is the size of the output. */
slice call_fit_left_out(const struct call_fit *wanted, size_t bytes, struct arena *arena);

#endif
