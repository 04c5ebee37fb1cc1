/*
 * The W3C trace context (Trace Context, level 1): the trace and the parent span of an activity. It
 * arrives as `traceparent` and `tracestate`, is stored with a flow, and may be sent to providers.
 * Plain values: nothing here depends on whether spans are exported.
 */
#ifndef TRACE_CONTEXT_H
#define TRACE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/slice.h"

enum {
    TRACE_PARENT_LEN = 55,       /* "00-<32 hex>-<16 hex>-<2 hex>" */
    TRACE_STATE_BYTES_MAX = 512, /* a longer one is dropped */
    TRACE_SAMPLED = 1,           /* a bit of flags */
    TRACE_RANDOM = 2,            /* level 2: the trace's id is random */
};

struct trace_id {
    uint8_t bytes[16];
};
struct trace_span_id {
    uint8_t bytes[8]; /* all zeros: none */
};

struct trace_context {
    struct trace_id trace;
    struct trace_span_id span; /* the parent of new spans in this context */
    uint8_t flags;
    bool is_recorded; /* this process exports the spans under it */
    bool is_remote;   /* the span belongs to another program */
    bool is_root;     /* there is no span yet; the next span will be the root of the trace */
    slice state;      /* the tracestate, borrowed; SLICE_NONE if there is none */
};

/* Reads a traceparent (3.2.2); a later version may have more text after it. state and is_recorded
 * are left empty. Returns false if the traceparent is malformed; it is then ignored, according to
 * 3.3. */
bool trace_parent_read(slice text, struct trace_context *context) MUST_CHECK;
/* NUL-terminated; returns room. */
slice trace_parent_write(const struct trace_context *context, char room[TRACE_PARENT_LEN + 1]);
/* Returns whether text may be passed on as tracestate (3.3.1); if not, only the tracestate is
 * dropped. */
bool trace_state_fits(slice text);
/* Makes a new span below the parent: in the same trace, with its own id. */
struct trace_context trace_child(const struct trace_context *parent);
/* As trace_child, but with an id that any process can derive: the first bytes of a hash of name
 * in space. */
struct trace_context trace_child_named(const struct trace_context *parent, struct uuid space,
                                       slice name);

#endif
