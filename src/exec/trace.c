/*
 * The spans of an execution: one for the whole run, and one for each attempt. The provider is sent
 * the attempt's span as the parent. Names come from the catalog: spans contain no text from a
 * caller.
 */
#include "trace/trace.h"

#include "base/clock.h"
#include "exec/internal.h"
#include "http/url.h"

struct exec_trace {
    struct trace_context parent, run, attempt;
    int64_t attempt_us; /* when it began; 0: none is under way */
    struct http_header headers[HTTP_CALL_HEADERS_MAX];
    char traceparent[TRACE_PARENT_LEN + 1];
};

/* If memory is short, the run continues untraced. */
void exec_trace_begin(struct exec *exec)
{
    const struct trace_context *parent = exec->in.trace;
    if (!parent)
        return;
    struct exec_trace *trace = ARENA_NEW(&exec->op.arena, struct exec_trace);
    if (!trace)
        return;
    /* The tracestate is not copied: it is in the caller's request, which outlives the run. */
    trace->parent = *parent;
    trace->run = trace_is_recorded(parent) ? trace_child(parent) : *parent;
    exec->trace = trace;
}

/* A request with little room left is sent without trace headers: tracing must never prevent it. */
static bool has_room(const struct http_call *call)
{
    enum { SPARE_BYTES = 1024 }; /* room for the client's additions, and an override's path */
    size_t bytes = SPARE_BYTES + TRACE_PARENT_LEN + TRACE_STATE_BYTES_MAX + call->url.len;
    for (size_t i = 0; i < call->header_count; i++)
        bytes += call->headers[i].name.len + call->headers[i].value.len + 4;
    return call->header_count + 2 <= HTTP_CALL_HEADERS_MAX && bytes <= HTTP_CALL_REQUEST_HEAD_MAX;
}

/* Adds the trace headers after the request's own. A request with a traceparent keeps it. */
static void pass_on(struct exec *exec, struct exec_trace *trace)
{
    struct http_call *call = &exec->attempt.call;
    size_t count = call->header_count;
    if (!has_room(call) || http_header_get(call->headers, count, SLICE("traceparent")).ptr)
        return;
    for (size_t i = 0; i < count; i++)
        trace->headers[i] = call->headers[i];
    trace->headers[count++] = (struct http_header){
        SLICE("traceparent"), trace_parent_write(&trace->attempt, trace->traceparent)};
    if (trace->attempt.state.len > 0)
        trace->headers[count++] = (struct http_header){SLICE("tracestate"), trace->attempt.state};
    call->headers = trace->headers;
    call->header_count = count;
}

void exec_trace_call(struct exec *exec)
{
    struct exec_trace *trace = exec->trace;
    if (!trace)
        return;
    bool is_recorded = trace_is_recorded(&trace->run);
    trace->attempt = is_recorded ? trace_child(&trace->run) : trace->run;
    trace->attempt_us = is_recorded ? clock_wall_us() : 0;
    if (trace_is_propagated(exec->service->config.tracer))
        pass_on(exec, trace);
}

/* Writes the provider's host if the manifest names it. A host from a tenant is input, and is
 * omitted. */
static void put_host(struct tracer *tracer, const struct exec *exec)
{
    struct url url;
    const struct call_built *request = &exec->attempt.request;
    if (request->is_host_given || exec->integration->is_host_given ||
        url_parse(request->url, &url, NULL) != OK)
        return;
    trace_put_str(tracer, "server.address", url.host);
    trace_put_i64(tracer, "server.port", url.port);
}

static void put_waits(struct tracer *tracer, const struct http_call *call)
{
    const struct {
        const char *key;
        uint64_t ns;
    } times[] = {{"sluice.waiting_us", call->waiting_ns},
                 {"sluice.dns_us", call->dns_ns},
                 {"sluice.connect_us", call->connect_ns},
                 {"sluice.tls_us", call->tls_ns},
                 {"sluice.first_byte_us", call->first_byte_ns}};
    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        if (times[i].ns > 0)
            trace_put_i64(tracer, times[i].key, (int64_t)(times[i].ns / 1000));
}

/* error.type: the status if there is one, as OpenTelemetry's conventions for HTTP define. */
static void end_attempt(struct exec *exec, uint64_t took_ns, bool is_cut)
{
    char room[160], digits[SLICE_U64_MAX];
    struct exec_trace *trace = exec->trace;
    struct tracer *tracer = exec->service->config.tracer;
    const struct http_call *call = &exec->attempt.call;
    slice integration = exec->integration->integration_id;
    slice error = is_cut                         ? SLICE("cancelled")
                  : call->result != HTTP_CALL_OK ? slice_cstr(http_call_result_name(call->result))
                  : call->status >= 400          ? slice_of_u64(call->status, digits)
                                                 : SLICE_NONE;
    struct trace_span span = {
        .context = &trace->attempt,
        .parent = &trace->run,
        .kind = TRACE_CLIENT,
        .name = SLICE_JOIN(room, call->method, SLICE(" "), integration),
        .started_us = trace->attempt_us,
        .took_ns = took_ns,
        .error = error,
    };
    trace->attempt_us = 0;
    trace_span_open(tracer, &span);
    trace_put_str(tracer, "sluice.integration_id", integration);
    trace_put_str(tracer, "http.request.method", call->method);
    if (call->status > 0)
        trace_put_i64(tracer, "http.response.status_code", call->status);
    if (call->attempt > 1)
        trace_put_i64(tracer, "http.request.resend_count", call->attempt - 1);
    put_host(tracer, exec);
    put_waits(tracer, call);
    trace_put_bool(tracer, "sluice.connection_reused", call->is_reused);
    trace_span_close(tracer);
}

void exec_trace_called(struct exec *exec, uint64_t took_ns)
{
    if (exec->trace && exec->trace->attempt_us != 0)
        end_attempt(exec, took_ns, false);
}

void exec_trace_end(struct exec *exec, uint64_t took_ns)
{
    struct exec_trace *trace = exec->trace;
    struct tracer *tracer = exec->service->config.tracer;
    const struct exec_outcome *out = &exec->out;
    if (!trace || !trace_is_recorded(&trace->run))
        return;
    if (trace->attempt_us != 0)
        end_attempt(exec, clock_mono_ns() - exec->attempt.started_ns, true);
    bool is_ok = out->reason == EXEC_SUCCEEDED;
    struct trace_span span = {
        .context = &trace->run,
        .parent = &trace->parent,
        .kind = trace->parent.is_root || trace->parent.is_remote ? TRACE_SERVER : TRACE_INTERNAL,
        .name = exec->action ? exec->action->tool_name : SLICE("(unknown)"),
        .started_us = out->started_us,
        .took_ns = took_ns,
        .error = is_ok ? SLICE_NONE : slice_cstr(exec_reason_name(out->reason)),
    };
    trace_span_open(tracer, &span);
    if (exec->integration)
        trace_put_str(tracer, "sluice.integration_id", exec->integration->integration_id);
    if (exec->action)
        trace_put_str(tracer, "sluice.action_id", exec->action->action_id);
    trace_put_uuid(tracer, "sluice.account_id", exec_payer(exec));
    if (!uuid_is_nil(out->execution_id))
        trace_put_uuid(tracer, "sluice.execution_id", out->execution_id);
    trace_put_str(tracer, "sluice.outcome", slice_cstr(exec_reason_name(out->reason)));
    trace_put_i64(tracer, "sluice.attempts", out->attempts);
    if (out->is_replayed)
        trace_put_bool(tracer, "sluice.replayed", true);
    if (out->is_dry_run)
        trace_put_bool(tracer, "sluice.dry_run", true);
    trace_span_close(tracer);
}
