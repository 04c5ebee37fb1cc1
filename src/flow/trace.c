/*
 * The spans of a flow (src/trace/README.md): one of its start, which is short and the parent of all
 * others, and one of each attempt of a step once its row is durable. The start's context is stored
 * with the flow, so that steps after a restart, or on another node, are in the same trace.
 */
#include "trace/trace.h"

#include "flow/internal.h"

static struct tracer *tracer_of(const struct flow_run *run)
{
    return run->service->config.tracer;
}

void flow_trace_begin(struct flow_run *run, const struct trace_context *parent)
{
    if (!parent)
        return;
    struct trace_context *trace = ARENA_NEW(&run->op.arena, struct trace_context);
    slice text = SLICE_NONE;
    if (trace) {
        *trace = trace_is_recorded(parent) ? trace_child(parent) : *parent;
        text = trace_text(trace, &run->op.arena);
    }
    if (!text.ptr)
        return; /* out of memory: the flow continues untraced */
    trace->state = trace->state.len > 0 ? slice_from(text, TRACE_PARENT_LEN + 1) : SLICE_NONE;
    run->trace = trace;
    run->whole.trace = text;
}

void flow_trace_load(struct flow_run *run)
{
    struct trace_context context;
    if (!trace_read(tracer_of(run), run->whole.trace, &context))
        return;
    struct trace_context *trace = ARENA_NEW(&run->op.arena, struct trace_context);
    if (trace)
        *trace = context;
    run->trace = trace;
}

void flow_trace_started(const struct flow_run *run, const struct trace_context *parent,
                        uint64_t began_ns)
{
    char room[160];
    const struct flow *flow = &run->flow;
    struct tracer *tracer = tracer_of(run);
    if (!trace_is_recorded(run->trace))
        return;
    struct trace_span span = {
        .context = run->trace,
        .parent = parent,
        .kind = TRACE_SERVER,
        .name = SLICE_JOIN(room, SLICE("start "), flow->template_key),
        .started_us = flow->created_at,
        .took_ns = loop_now_ns(run->op.loop) - began_ns,
    };
    trace_span_open(tracer, &span);
    trace_put_uuid(tracer, "sluice.flow_id", flow->id);
    trace_put_uuid(tracer, "sluice.account_id", uuid_or(flow->parent_id, flow->account_id));
    trace_put_str(tracer, "sluice.template", flow->template_key);
    trace_span_close(tracer);
}

/* Every node derives the same context. So the calls of an interrupted attempt belong to that
 * attempt's span, even if another node ends the attempt and exports the span. */
static struct trace_context attempt_context(const struct trace_context *flow, struct uuid flow_id,
                                            int64_t step, int64_t attempt)
{
    char room[64], step_digits[SLICE_U64_MAX], attempt_digits[SLICE_U64_MAX];
    slice name = SLICE_JOIN(room, SLICE("span/"), slice_of_u64((uint64_t)step, step_digits),
                            SLICE("/"), slice_of_u64((uint64_t)attempt, attempt_digits));
    return trace_is_recorded(flow) ? trace_child_named(flow, flow_id, name) : *flow;
}

const struct trace_context *flow_trace_of_call(const struct flow_run *run, struct arena *arena)
{
    if (!run->trace)
        return NULL;
    struct trace_context *context = ARENA_NEW(arena, struct trace_context);
    if (context)
        *context =
            attempt_context(run->trace, run->flow.id, (int64_t)run->plan.step, run->plan.attempt);
    return context;
}

/* Reads the code, which flow_error_text has written as the first member, as a word without
 * escapes. */
static slice error_code(slice error)
{
    slice before = SLICE("{\"code\":\"");
    if (!slice_starts_with(error, before))
        return SLICE("failed");
    error = slice_from(error, before.len);
    return slice_split(&error, '"');
}

void flow_trace_ended(struct tracer *tracer, const struct trace_context *trace,
                      const struct flow *flow, const struct flow_template *tmpl,
                      const struct flow_step *step)
{
    char room[256];
    if (!trace_is_recorded(trace))
        return;
    const struct flow_step_def *def = tmpl && step->step_index < (int64_t)tmpl->step_count
                                          ? &tmpl->steps[step->step_index]
                                          : NULL;
    struct trace_context context =
        attempt_context(trace, flow->id, step->step_index, step->attempt);
    int64_t took_us = step->finished_at - step->started_at;
    struct trace_span span = {
        .context = &context,
        .parent = trace,
        .kind = TRACE_INTERNAL,
        .name = SLICE_JOIN(room, flow->template_key, SLICE("/"), def ? def->key : SLICE("")),
        .started_us = step->started_at,
        .took_ns = took_us > 0 ? (uint64_t)took_us * 1000
                               : 0, /* the wall clock may have been set back */
        .error = step->is_completed ? SLICE_NONE : error_code(step->error),
    };
    trace_span_open(tracer, &span);
    trace_put_uuid(tracer, "sluice.flow_id", flow->id);
    trace_put_uuid(tracer, "sluice.account_id", uuid_or(flow->parent_id, flow->account_id));
    trace_put_str(tracer, "sluice.template", flow->template_key);
    if (def) {
        trace_put_str(tracer, "sluice.step", def->key);
        trace_put_str(tracer, "sluice.step_type", slice_cstr(flow_step_type_name(def->type)));
    }
    trace_put_i64(tracer, "sluice.step_index", step->step_index);
    trace_put_i64(tracer, "sluice.attempt", step->attempt);
    trace_span_close(tracer);
}

void flow_trace_decided(struct flow_command *command)
{
    struct trace_context trace;
    struct tracer *tracer = command->service->config.tracer;
    if (trace_read(tracer, command->whole.trace, &trace))
        flow_trace_ended(tracer, &trace, &command->whole.flow, command->find.tmpl,
                         &command->decided);
}
