/*
 * Trace contexts as text; see context.h.
 */
#include "trace/context.h"

#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/encode.h"

static const char form[] = "hh-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh";
enum { TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53 }; /* offsets in a traceparent */

_Static_assert(sizeof(form) - 1 == TRACE_PARENT_LEN, "3.2.2");

/* Only lower case is allowed (3.2.2). */
static bool is_digit(char c)
{
    return ascii_is_hex(c) && !ascii_is_upper(c);
}

static bool is_well_formed(slice text)
{
    if (text.len < TRACE_PARENT_LEN || slice_starts_with(text, SLICE("ff")))
        return false;
    if (text.len > TRACE_PARENT_LEN &&
        (slice_starts_with(text, SLICE("00")) || text.ptr[TRACE_PARENT_LEN] != '-'))
        return false;
    for (size_t i = 0; i < TRACE_PARENT_LEN; i++)
        if (form[i] == 'h' ? !is_digit(text.ptr[i]) : text.ptr[i] != '-')
            return false;
    return true;
}

/* Returns false if all bytes are zero, which means that there is no id. */
static bool read_bytes(const char *hex, uint8_t *bytes, size_t count)
{
    unsigned any = 0;
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(ascii_hex_value(hex[2 * i]) << 4 | ascii_hex_value(hex[2 * i + 1]));
        any |= bytes[i];
    }
    return any != 0;
}

bool trace_parent_read(slice text, struct trace_context *context)
{
    *context = (struct trace_context){.is_remote = true};
    if (!is_well_formed(text) || !read_bytes(text.ptr + TRACE_AT, context->trace.bytes, 16) ||
        !read_bytes(text.ptr + SPAN_AT, context->span.bytes, 8))
        return false;
    (void)read_bytes(text.ptr + FLAGS_AT, &context->flags, 1);
    context->flags &= TRACE_SAMPLED | TRACE_RANDOM; /* unknown flags are not passed on (3.2.2.5) */
    return true;
}

slice trace_parent_write(const struct trace_context *context, char room[TRACE_PARENT_LEN + 1])
{
    char trace[33], span[17];
    encode_hex_in(trace, sizeof(trace), slice_of(context->trace.bytes, 16));
    encode_hex_in(span, sizeof(span), slice_of(context->span.bytes, 8));
    int len = snprintf(room, TRACE_PARENT_LEN + 1, "00-%s-%s-%02x", trace, span, context->flags);
    ASSERT(len == TRACE_PARENT_LEN);
    return slice_of(room, TRACE_PARENT_LEN);
}

/* A member is a key, '=' and a value (3.3.1.3). The vendor decides which characters a key may
 * have. */
static bool is_member(slice member)
{
    ptrdiff_t at = slice_find_char(member, '=');
    if (at <= 0)
        return false;
    slice key = slice_first(member, (size_t)at), value = slice_from(member, (size_t)at + 1);
    return slice_printable(key, '!') == key.len && value.len > 0 &&
           slice_printable(value, ' ') == value.len && slice_find_char(value, '=') < 0;
}

/* Surrounding blanks are not part of a header's value, so the call would be refused because of
 * them. */
bool trace_state_fits(slice text)
{
    slice rest = text;
    /* 3.3.1.1 limits the number of members; this limits their size, and so their number. */
    if (text.len > TRACE_STATE_BYTES_MAX || slice_trim(text).len != text.len)
        return false;
    while (rest.len > 0) {
        slice member = slice_trim(slice_split(&rest, ','));
        /* Empty members are allowed (3.3.1.1). */
        if (member.len > 0 && !is_member(member))
            return false;
    }
    return slice_find_char(text, '=') > 0;
}

struct trace_context trace_child(const struct trace_context *parent)
{
    struct trace_context child = *parent;
    child.is_remote = child.is_root = false;
    do
        random_bytes(child.span.bytes, sizeof(child.span.bytes));
    while (child.span.bytes[0] == 0); /* never all zeros */
    return child;
}

struct trace_context trace_child_named(const struct trace_context *parent, struct uuid space,
                                       slice name)
{
    struct trace_context child = *parent;
    struct uuid hash = uuid_v5(space, name);
    child.is_remote = child.is_root = false;
    /* the hash has the UUID's version bits set */
    memcpy(child.span.bytes, hash.bytes, sizeof(child.span.bytes));
    return child;
}
