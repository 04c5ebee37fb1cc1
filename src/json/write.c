/*
 * write: writes a tree as text: compact, indented, or sorted and canonical. Recursion is as deep as
 * the tree, which JSON_DEPTH_MAX limits for parsed trees. Errors are sticky in the buffer, so loops
 * stop early only to save work.
 *
 * The sorted form is for fingerprints: two texts with equal values give the same bytes. It is not
 * RFC 8785: numbers keep all digits, and keys are sorted by bytes.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "json/number.h"

enum style { STYLE_COMPACT, STYLE_PRETTY, STYLE_SORTED };

enum {
    INDENT = 2,
    SORT_STACK_MAX = 32,
};

static void write_value(struct buf *out, const struct json *value, enum style style, size_t depth);

static void write_break(struct buf *out, enum style style, size_t depth)
{
    if (style != STYLE_PRETTY)
        return;
    char *end = buf_reserve(out, 1 + depth * INDENT);
    if (!end)
        return;
    end[0] = '\n';
    memset(end + 1, ' ', depth * INDENT);
    buf_added(out, 1 + depth * INDENT);
}

static void write_array(struct buf *out, const struct json *array, enum style style, size_t depth)
{
    buf_append_char(out, '[');
    for (uint32_t i = 0; i < array->count && buf_is_ok(out); i++) {
        if (i > 0)
            buf_append_char(out, ',');
        write_break(out, style, depth + 1);
        write_value(out, &array->as.items[i], style, depth + 1);
    }
    if (array->count > 0)
        write_break(out, style, depth);
    buf_append_char(out, ']');
}

static void write_member(struct buf *out, const struct json_member *member, enum style style,
                         size_t depth)
{
    json_write_str(out, json_str(&member->key));
    buf_append_char(out, ':');
    if (style == STYLE_PRETTY)
        buf_append_char(out, ' ');
    write_value(out, &member->value, style, depth);
}

static void write_object(struct buf *out, const struct json *object, enum style style, size_t depth)
{
    buf_append_char(out, '{');
    for (uint32_t i = 0; i < object->count && buf_is_ok(out); i++) {
        if (i > 0)
            buf_append_char(out, ',');
        write_break(out, style, depth + 1);
        write_member(out, &object->as.members[i], style, depth + 1);
    }
    if (object->count > 0)
        write_break(out, style, depth);
    buf_append_char(out, '}');
}

/* ---- sorted ---- */

static int member_order(const void *a, const void *b)
{
    const struct json_member *const *left = a;
    const struct json_member *const *right = b;
    return slice_cmp(json_str(&(*left)->key), json_str(&(*right)->key));
}

static void write_in_order(struct buf *out, const struct json *object,
                           const struct json_member **order, size_t depth)
{
    if (object->count == 0)
        return;
    for (uint32_t i = 0; i < object->count; i++)
        order[i] = &object->as.members[i];
    /* Parsed objects have distinct keys, so it does not matter that qsort is not stable. */
    qsort(order, object->count, sizeof(*order), member_order);
    for (uint32_t i = 0; i < object->count && buf_is_ok(out); i++) {
        if (i > 0)
            buf_append_char(out, ',');
        write_member(out, order[i], STYLE_SORTED, depth + 1);
    }
}

static void write_sorted_object(struct buf *out, const struct json *object, size_t depth)
{
    buf_append_char(out, '{');
    if (object->count <= SORT_STACK_MAX) {
        const struct json_member *order[SORT_STACK_MAX];
        write_in_order(out, object, order, depth);
    } else {
        const struct json_member **order = mem_calloc(object->count, sizeof(*order));
        if (order)
            write_in_order(out, object, order, depth);
        else
            /* If out of memory, the text would be incomplete, as when its maximum is exceeded:
             * the caller gets one kind of failure. */
            out->is_failed = true;
        mem_free(order);
    }
    buf_append_char(out, '}');
}

/* ---- values ---- */

static void write_number(struct buf *out, const struct json *value, enum style style)
{
    if (style == STYLE_SORTED) {
        json_number_write_canonical(out, value);
    } else if (value->type == JSON_REAL) {
        char text[JSON_REAL_TEXT_MAX];
        size_t len = json_real_text(value->as.real, text);
        buf_append(out, (slice){text, len});
    } else if (value->type == JSON_BIGNUM) {
        buf_append(out, (slice){value->as.text, value->count});
    } else if (value->type == JSON_INT) {
        buf_append_i64(out, value->as.i64);
    } else {
        buf_append_u64(out, value->as.u64);
    }
}

static void write_value(struct buf *out, const struct json *value, enum style style, size_t depth)
{
    switch (value->type) {
    case JSON_NULL:
        buf_append(out, SLICE("null"));
        break;
    case JSON_BOOL:
        buf_append(out, value->as.boolean ? SLICE("true") : SLICE("false"));
        break;
    case JSON_STRING:
        json_write_str(out, json_str(value));
        break;
    case JSON_ARRAY:
        write_array(out, value, style, depth);
        break;
    case JSON_OBJECT:
        if (style == STYLE_SORTED)
            write_sorted_object(out, value, depth);
        else
            write_object(out, value, style, depth);
        break;
    default:
        write_number(out, value, style);
        break;
    }
}

void json_write(struct buf *out, const struct json *value)
{
    ASSERT(value);
    write_value(out, value, STYLE_COMPACT, 0);
}

void json_write_pretty(struct buf *out, const struct json *value)
{
    ASSERT(value);
    write_value(out, value, STYLE_PRETTY, 0);
}

void json_write_sorted(struct buf *out, const struct json *value)
{
    ASSERT(value);
    write_value(out, value, STYLE_SORTED, 0);
}
