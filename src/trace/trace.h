/*
 * trace: spans of what sluice does, exported by OTLP/HTTP in JSON (README.md). A tracer decides
 * which traces are recorded, keeps the spans that have ended in a queue, and sends them in the
 * background. No work waits for it: if the queue is full, a span is dropped and counted.
 *
 * If tracing is off, there is no tracer, and callers have NULL instead of a context. A trace that
 * is not recorded has no context, or a context for which trace_is_recorded is false.
 *
 * A span never contains a secret or an input: its attributes are names of the catalog and of
 * templates, ids, numbers, and sluice's own words.
 */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include "base/err.h"
#include "http/client.h"
#include "json/json.h"
#include "trace/context.h"

struct tracer;

enum {
    TRACE_QUEUE_SPANS_MAX = 2048,
    TRACE_QUEUE_BYTES_MAX = 2 * 1024 * 1024,
    TRACE_SPAN_BYTES_MAX = 16 * 1024,
    TRACE_HEADERS_MAX = 16, /* header lines in the file */
};

/* Only borrowed by trace_new, but its pointers must outlive the tracer. */
struct trace_config {
    struct loop *loop;
    struct dns_resolver *resolver;
    struct tls_context *tls;
    slice endpoint;     /* an http or https URL; if it has no path, /v1/traces. SLICE_NONE: no
                         * spans */
    slice headers_file; /* a path, NUL-terminated; "": none */
    slice sample;       /* share of all traces: "0.05" */
    bool is_propagated; /* contexts are sent to providers */
};

/* Returns NULL on failure; err names the setting. */
struct tracer *trace_new(const struct trace_config *config, struct err *err) MUST_CHECK;
/* Sends the queue now. After this, nothing is retried. */
void trace_drain(struct tracer *tracer);
/* Returns whether nothing is queued or under way. */
bool trace_is_drained(const struct tracer *tracer);
/* Cancels the export under way, and closes the client. Spans that end later are dropped. */
void trace_stop(struct tracer *tracer);
/* To be called after the loop has run again, so that the tracer's op has ended (asserted). Accepts
 * NULL. */
void trace_free(struct tracer *tracer);
/* For a reload. */
void trace_tls_set(struct tracer *tracer, struct tls_context *tls);
bool trace_is_propagated(const struct tracer *tracer);

/* ---- contexts ---- */

/* Begins the context of a request, which has a traceparent and a tracestate or not (SLICE_NONE). If
 * the parent is not sampled, nothing is recorded; otherwise the sampling ratio decides. Returns
 * false if there is nothing to record or to pass on. context->state borrows from state. */
bool trace_begin(const struct tracer *tracer, slice parent, slice state,
                 struct trace_context *context) MUST_CHECK;
/* Reads the stored form: a traceparent, then a space and the tracestate. Returns false if it is
 * malformed. */
bool trace_read(const struct tracer *tracer, slice text, struct trace_context *context) MUST_CHECK;
/* Returns the text to store, or SLICE_NONE if out of memory. */
slice trace_text(const struct trace_context *context, struct arena *arena);
static inline bool trace_is_recorded(const struct trace_context *context)
{
    return context && context->is_recorded;
}

/* ---- spans ---- */

/* OTLP's numbers. */
enum trace_kind { TRACE_INTERNAL = 1, TRACE_SERVER = 2, TRACE_CLIENT = 3 };

/* A span that has ended. */
struct trace_span {
    const struct trace_context *context; /* context of the span, with its own id */
    const struct trace_context *parent;  /* the context that it was made from */
    enum trace_kind kind;
    slice name;
    int64_t started_us; /* by the wall clock */
    uint64_t took_ns;
    slice error; /* one of sluice's own words; SLICE_NONE: success */
};

/* Begins to write the span. Its attributes follow, until trace_span_close. Only one span may be
 * open. */
void trace_span_open(struct tracer *tracer, const struct trace_span *span);
void trace_put_str(struct tracer *tracer, const char *key, slice value);
void trace_put_i64(struct tracer *tracer, const char *key, int64_t value);
void trace_put_bool(struct tracer *tracer, const char *key, bool value);
void trace_put_uuid(struct tracer *tracer, const char *key, struct uuid value);
/* Queues the open span, or drops it if the queue is full. */
void trace_span_close(struct tracer *tracer);

#endif
