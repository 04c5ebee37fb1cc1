/*
 * Any text as traceparent and tracestate: an accepted context is well formed and is written as it
 * was read, and an accepted tracestate is a valid header value. The input is a traceparent, a line
 * break, and a tracestate.
 */
#include <stdlib.h>

#include "base/ascii.h"
#include "base/mem.h"
#include "http/message.h"
#include "trace/context.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

static bool has_any(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != 0)
            return true;
    return false;
}

/* A known version uses the whole text. A later version may have more text after a hyphen. */
static void check_parent(slice text)
{
    char room[TRACE_PARENT_LEN + 1], other[TRACE_PARENT_LEN + 1];
    struct trace_context context, again;
    if (!trace_parent_read(text, &context))
        return;
    check(has_any(context.trace.bytes, sizeof(context.trace.bytes)));
    check(has_any(context.span.bytes, sizeof(context.span.bytes)));
    check(context.is_remote && !context.is_root && !context.is_recorded && !context.state.ptr);
    check((context.flags & ~(TRACE_SAMPLED | TRACE_RANDOM)) == 0);
    slice written = trace_parent_write(&context, room);
    /* Everything but the version and the flags. */
    check(slice_eq(slice_of(written.ptr + 3, 49), slice_of(text.ptr + 3, 49)));
    check(text.len == TRACE_PARENT_LEN || text.ptr[TRACE_PARENT_LEN] == '-');
    check(trace_parent_read(written, &again));
    check(slice_eq(trace_parent_write(&again, other), written));
    struct trace_context child = trace_child(&context);
    check(memcmp(child.trace.bytes, context.trace.bytes, sizeof(child.trace.bytes)) == 0);
    check(has_any(child.span.bytes, sizeof(child.span.bytes)) && !child.is_remote);
}

static void check_state(slice text)
{
    if (!trace_state_fits(text))
        return;
    check(text.len > 0 && text.len <= TRACE_STATE_BYTES_MAX);
    check(http_is_field_value(text) && slice_trim(text).len == text.len);
    for (size_t i = 0; i < text.len; i++)
        check((text.ptr[i] >= ' ' && text.ptr[i] <= '~') || text.ptr[i] == '\t');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    slice state = slice_of(data, size), parent = slice_split(&state, '\n');
    check_parent(parent);
    check_state(state);
    check(mem_live_blocks() == 0);
    return 0;
}
