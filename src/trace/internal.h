/*
 * Private to the room: the tracer, and what its files give one another.
 */
#ifndef TRACE_INTERNAL_H
#define TRACE_INTERNAL_H

#include "base/metric.h"
#include "base/secret.h"
#include "trace/trace.h"

struct trace_export;

struct tracer {
    struct loop *loop;
    uint64_t sample_below; /* of 2^56: a trace whose id's last 56 bits are below begins recorded */
    bool is_propagated;
    /* the span that is open */
    struct buf span;
    struct json_writer w;
    slice error;
    /* those that have ended: JSON, with a comma between two */
    struct buf queue;
    size_t queued;
    struct metric_series *exported, *dropped, *failed;
    /* export.c */
    slice url; /* empty: there is no endpoint */
    struct buf url_text, resource;
    struct secret *header_text; /* what headers point into; NULL: none are given */
    struct http_header headers[TRACE_HEADERS_MAX + 1];
    size_t header_count;
    struct address_policy *policy;
    struct http_client *client; /* NULL: no endpoint, or stopped */
    struct timer timer;
    struct trace_export *exporting; /* NULL: none is on its way */
    bool is_draining;
    bool is_failing; /* the last export failed: the log has said so */
};

/* export.c: the endpoint and what goes with it. The tracer may be freed after a failure. */
int trace_export_init(struct tracer *tracer, const struct trace_config *config,
                      struct err *err) MUST_CHECK;
void trace_export_deinit(struct tracer *tracer);
/* A span was queued: it is sent in a while, or now where there are many. */
void trace_export_wake(struct tracer *tracer);

#endif
