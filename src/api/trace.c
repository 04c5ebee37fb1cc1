/*
 * The trace that a request is part of (src/trace/README.md), and the span of a batch.
 */
#include "trace/trace.h"

#include "api/request.h"
#include "base/clock.h"

enum { STATES_MAX = 8 }; /* number of tracestate headers that are read in one request */

/* Several tracestates are one list, several traceparents are invalid (W3C Trace Context 3.2,
 * 3.3). */
static void read_headers(struct api_request *request, slice *parent, slice *state)
{
    const struct http_exchange *exchange = request->serve.exchange;
    size_t count = exchange->head.header_count, states = 0;
    slice name = SLICE("tracestate"), parts[2 * STATES_MAX];
    char room[TRACE_STATE_BYTES_MAX + 1];
    if (http_header_count(exchange->head.headers, count, SLICE("traceparent")) == 1)
        *parent = http_request_header(exchange, SLICE("traceparent"));
    *state = http_request_header(exchange, name);
    if (http_header_count(exchange->head.headers, count, name) < 2)
        return;
    for (size_t i = 0; i < count && states < ARRAY_LEN(parts); i++)
        if (slice_eq_nocase(exchange->head.headers[i].name, name)) {
            parts[states++] = SLICE(",");
            parts[states++] = exchange->head.headers[i].value;
        }
    /* The text may be one byte longer than allowed, so that a truncated text is detected and
     * dropped. */
    *state =
        arena_dup(&request->serve.op.arena, slice_join(room, sizeof(room), parts + 1, states - 1));
}

const struct trace_context *api_trace(struct api_request *request)
{
    const struct tracer *tracer = request->api->config.tracer;
    struct trace_context context;
    slice parent = request->trace_parent, state = request->trace_state;
    if (!tracer)
        return NULL;
    if (!parent.ptr)
        read_headers(request, &parent, &state);
    if (!trace_begin(tracer, parent, state, &context))
        return NULL;
    struct trace_context *kept = ARENA_NEW(&request->serve.op.arena, struct trace_context);
    if (kept)
        *kept = context;
    return kept;
}

struct batch_trace {
    struct trace_context batch;
    const struct trace_context *parent;
    int64_t began_us;
};

const struct trace_context *api_trace_batch(struct api_request *request)
{
    const struct trace_context *parent = api_trace(request);
    if (!trace_is_recorded(parent))
        return parent;
    struct batch_trace *trace = ARENA_NEW(&request->serve.op.arena, struct batch_trace);
    if (!trace)
        return NULL; /* not parent: api_trace_batch_end needs a batch_trace */
    *trace = (struct batch_trace){
        .batch = trace_child(parent), .parent = parent, .began_us = clock_wall_us()};
    return &trace->batch;
}

void api_trace_batch_end(const struct api_request *request, const struct trace_context *context,
                         size_t count)
{
    if (!trace_is_recorded(context))
        return;
    const struct batch_trace *trace = CONTAINER_OF(context, struct batch_trace, batch);
    struct tracer *tracer = request->api->config.tracer;
    int64_t took_us = clock_wall_us() - trace->began_us;
    struct trace_span span = {
        .context = context,
        .parent = trace->parent,
        .kind = TRACE_SERVER,
        .name = SLICE("batch"),
        .started_us = trace->began_us,
        .took_ns = took_us > 0 ? (uint64_t)took_us * 1000 : 0,
    };
    trace_span_open(tracer, &span);
    trace_put_uuid(tracer, "sluice.account_id", serve_payer(&request->serve));
    trace_put_i64(tracer, "sluice.executions", (int64_t)count);
    trace_span_close(tracer);
}
