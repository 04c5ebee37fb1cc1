/*
 * Private to the room: the tracer, and functions that its files share.
 */
#ifndef TRACE_INTERNAL_H
#define TRACE_INTERNAL_H

#include "base/metric.h"
#include "base/secret.h"
#include "trace/trace.h"

struct trace_export;

struct tracer {
    struct loop *loop;
    uint64_t sample_below; /* out of 2^56: a trace is recorded if the last 56 bits of its id are
                            * below this */
    bool is_propagated;
    /* the open span */
    struct buf span;
    struct json_writer w;
    slice error;
    /* ended spans: JSON, separated by commas */
    struct buf queue;
    size_t queued;
    struct metric_series *exported, *dropped, *failed;
    /* export.c */
    slice url; /* empty: no endpoint */
    struct buf url_text, resource;
    struct secret *header_text; /* memory for the texts of headers; NULL: none */
    struct http_header headers[TRACE_HEADERS_MAX + 1];
    size_t header_count;
    struct address_policy *policy;
    struct http_client *client; /* NULL: no endpoint, or stopped */
    struct timer timer;
    struct trace_export *exporting; /* NULL if no export is under way */
    bool is_draining;
    bool is_failing; /* the last export failed, which was logged */
};

/* Sets up the endpoint from its settings (export.c). The tracer may be freed after a failure. */
int trace_export_init(struct tracer *tracer, const struct trace_config *config,
                      struct err *err) MUST_CHECK;
void trace_export_deinit(struct tracer *tracer);
/* To be called when a span was queued: the queue is sent after a short time, or now if it has many
 * spans. */
void trace_export_wake(struct tracer *tracer);

#endif
