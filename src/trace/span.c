/*
 * Decides which traces are recorded, and writes spans as OTLP's JSON (opentelemetry-proto,
 * trace.proto): ids in lower-case hex, times as strings.
 */
#include <stdlib.h>
#include <string.h>

#include "base/encode.h"
#include "base/mem.h"
#include "trace/internal.h"

static struct metric spans_total = METRIC_INIT(
    "sluice_trace_spans_total",
    "Spans by result: exported, dropped (the queue was full), failed (the receiver refused them).",
    METRIC_COUNTER);

enum {
    SAMPLE_BITS = 56, /* the last bits of a trace's id */
    FLAG_HAS_REMOTE = 0x100,
    FLAG_IS_REMOTE = 0x200, /* a bit in a span's flags that describes its parent */
    STATUS_ERROR = 2,
};

/* Reads a number from 0 to 1 in digits; strtod would also accept "inf", "0x1p-3" and a comma. */
static int read_sample(slice text, uint64_t *below, struct err *err)
{
    char digits[32] = "";
    size_t plain = 0;
    while (plain < text.len && (slice_find_char(SLICE("0123456789."), text.ptr[plain]) >= 0))
        plain++;
    char *end = digits;
    if (plain == text.len && text.len > 0 && text.len < sizeof(digits))
        memcpy(digits, text.ptr, text.len);
    double ratio = strtod(digits, &end);
    if (end == digits || *end || ratio > 1)
        return err_set(err, ERR_INVALID, "trace-sample must be a number from 0 to 1, such as 0.05");
    *below = (uint64_t)(ratio * (double)(UINT64_C(1) << SAMPLE_BITS));
    return OK;
}

struct tracer *trace_new(const struct trace_config *config, struct err *err)
{
    struct tracer *tracer = mem_zalloc(sizeof(*tracer));
    if (!tracer)
        return err_null(err, ERR_NOMEM, "out of memory for traces");
    tracer->loop = config->loop;
    tracer->is_propagated = config->is_propagated;
    buf_init(&tracer->span, TRACE_SPAN_BYTES_MAX);
    buf_init(&tracer->queue, TRACE_QUEUE_BYTES_MAX);
    tracer->exported = metric_series(&spans_total, SLICE("as=\"exported\""));
    tracer->dropped = metric_series(&spans_total, SLICE("as=\"dropped\""));
    tracer->failed = metric_series(&spans_total, SLICE("as=\"failed\""));
    if (read_sample(config->sample, &tracer->sample_below, err) == OK &&
        trace_export_init(tracer, config, err) == OK)
        return tracer;
    trace_stop(tracer);
    trace_free(tracer);
    return NULL;
}

void trace_free(struct tracer *tracer)
{
    if (!tracer)
        return;
    ASSERT(!tracer->exporting && !tracer->client);
    trace_export_deinit(tracer);
    buf_deinit(&tracer->span);
    buf_deinit(&tracer->queue);
    mem_free(tracer);
}

bool trace_is_propagated(const struct tracer *tracer)
{
    return tracer && tracer->is_propagated;
}

/* ---- contexts ---- */

/* Returns whether the sampling ratio includes the trace. It uses the bits that level 2 requires to
 * be random, so that each node, and another program with the same ratio, decides the same way. */
static bool is_sampled(const struct tracer *tracer, const struct trace_context *context)
{
    uint64_t bits = 0;
    for (size_t i = 16 - SAMPLE_BITS / 8; i < 16; i++)
        bits = bits << 8 | context->trace.bytes[i];
    return bits < tracer->sample_below;
}

/* A trace is recorded as a whole or not at all. The parent's flag can only forbid recording: the
 * operator decides how much is recorded, not the caller. */
static bool settle(const struct tracer *tracer, struct trace_context *context)
{
    context->is_recorded = tracer->url.len > 0 && context->flags & TRACE_SAMPLED &&
                           is_sampled(tracer, context);
    return context->is_recorded || tracer->is_propagated;
}

static bool begin_here(const struct tracer *tracer, struct trace_context *context)
{
    if (tracer->url.len == 0 || tracer->sample_below == 0)
        return false; /* no random id is needed if no trace can begin */
    *context = (struct trace_context){.flags = TRACE_SAMPLED | TRACE_RANDOM, .is_root = true};
    random_bytes(context->trace.bytes, sizeof(context->trace.bytes));
    context->trace.bytes[0] |= 0x80; /* never all zeros */
    return is_sampled(tracer, context) && settle(tracer, context);
}

bool trace_begin(const struct tracer *tracer, slice parent, slice state,
                 struct trace_context *context)
{
    if (!parent.ptr || !trace_parent_read(parent, context))
        return begin_here(tracer, context);
    if (trace_state_fits(state))
        context->state = state;
    return settle(tracer, context);
}

bool trace_read(const struct tracer *tracer, slice text, struct trace_context *context)
{
    if (!tracer || !text.ptr)
        return false;
    slice state = text, parent = slice_split(&state, ' ');
    if (!trace_parent_read(parent, context))
        return false;
    context->is_remote = false; /* the stored span was made by sluice */
    if (trace_state_fits(state))
        context->state = state;
    return settle(tracer, context);
}

slice trace_text(const struct trace_context *context, struct arena *arena)
{
    char parent[TRACE_PARENT_LEN + 1], room[TRACE_PARENT_LEN + 1 + TRACE_STATE_BYTES_MAX];
    slice text = trace_parent_write(context, parent);
    if (context->state.len > 0)
        text = SLICE_JOIN(room, text, SLICE(" "), context->state);
    return arena_dup(arena, text);
}

/* ---- spans ---- */

static void put_hex(struct json_writer *w, const char *key, const uint8_t *bytes, size_t count)
{
    char hex[33];
    encode_hex_in(hex, sizeof(hex), slice_of(bytes, count));
    json_member_str(w, key, slice_of(hex, 2 * count));
}

static void put_u64(struct json_writer *w, const char *key, uint64_t value)
{
    char digits[SLICE_U64_MAX];
    json_member_str(w, key, slice_of_u64(value, digits));
}

void trace_span_open(struct tracer *tracer, const struct trace_span *span)
{
    const struct trace_context *context = span->context;
    struct json_writer *w = &tracer->w;
    ASSERT(context->is_recorded && tracer->span.len == 0);
    uint64_t started_ns = (uint64_t)span->started_us * 1000;
    json_begin(w, &tracer->span);
    json_open(w, '{');
    put_hex(w, "traceId", context->trace.bytes, 16);
    put_hex(w, "spanId", context->span.bytes, 8);
    if (!span->parent->is_root)
        put_hex(w, "parentSpanId", span->parent->span.bytes, 8);
    if (context->state.len > 0)
        json_member_str(w, "traceState", context->state);
    json_member_i64(w, "flags",
                    context->flags | FLAG_HAS_REMOTE |
                        (span->parent->is_remote ? FLAG_IS_REMOTE : 0));
    json_member_str(w, "name", span->name);
    json_member_i64(w, "kind", span->kind);
    put_u64(w, "startTimeUnixNano", started_ns);
    put_u64(w, "endTimeUnixNano", started_ns + span->took_ns);
    if (span->error.len > 0) {
        json_member_open(w, "status", '{');
        json_member_i64(w, "code", STATUS_ERROR);
        json_member_str(w, "message", span->error);
        json_close(w, '}');
    }
    json_member_open(w, "attributes", '[');
    if (span->error.len > 0)
        trace_put_str(tracer, "error.type", span->error);
}

static struct json_writer *attribute_open(struct tracer *tracer, const char *key)
{
    struct json_writer *w = &tracer->w;
    json_open(w, '{');
    json_member_str(w, "key", slice_cstr(key));
    json_member_open(w, "value", '{');
    return w;
}

static void attribute_close(struct json_writer *w)
{
    json_close(w, '}');
    json_close(w, '}');
}

void trace_put_str(struct tracer *tracer, const char *key, slice value)
{
    struct json_writer *w = attribute_open(tracer, key);
    json_member_str(w, "stringValue", value.ptr ? value : SLICE(""));
    attribute_close(w);
}

void trace_put_i64(struct tracer *tracer, const char *key, int64_t value)
{
    struct json_writer *w = attribute_open(tracer, key);
    json_member_i64(w, "intValue", value);
    attribute_close(w);
}

void trace_put_bool(struct tracer *tracer, const char *key, bool value)
{
    struct json_writer *w = attribute_open(tracer, key);
    json_member_bool(w, "boolValue", value);
    attribute_close(w);
}

void trace_put_uuid(struct tracer *tracer, const char *key, struct uuid value)
{
    struct json_writer *w = attribute_open(tracer, key);
    json_member_uuid(w, "stringValue", value);
    attribute_close(w);
}

void trace_span_close(struct tracer *tracer)
{
    struct buf *queue = &tracer->queue;
    json_close(&tracer->w, ']');
    json_close(&tracer->w, '}');
    size_t bytes = tracer->span.len + 1; /* plus one byte for a comma */
    bool fits = buf_is_ok(&tracer->span) && tracer->client &&
                tracer->queued < TRACE_QUEUE_SPANS_MAX && bytes <= queue->bytes_max - queue->len &&
                buf_reserve(queue, bytes);
    if (fits) {
        if (tracer->queued > 0)
            buf_append_char(queue, ',');
        buf_append(queue, buf_slice(&tracer->span));
        tracer->queued++;
        trace_export_wake(tracer);
    } else {
        metric_add(tracer->dropped, 1);
        /* Out of memory. The queue is still consistent, since nothing was appended. */
        queue->is_failed = queue->is_over = false;
    }
    buf_clear(&tracer->span);
}
