/*
 * schema_run_value: assertions about numbers, strings and whole values (JSON Schema Validation 6.1
 * to 6.3).
 */
#include "schema/run.h"

/* ---- const, enum ---- */

/* Whether a comparison must go inside; the rest differs by type and count. */
static bool may_be_equal(const struct json *a, const struct json *b)
{
    if (json_is_number(a))
        return json_is_number(b);
    return a->type == b->type && (a->type < JSON_STRING || a->count == b->count);
}

static bool is_equal(struct schema_run *run, const struct json *value, const struct json *wanted,
                     uint32_t *weight)
{
    if (!may_be_equal(value, wanted))
        return false;
    /* Computed once for an enum of many values, and only when one of them may be equal. */
    if (*weight == 0)
        *weight = schema_weight(value);
    bool has_parts = wanted->type == JSON_BIGNUM || wanted->type >= JSON_ARRAY;
    uint64_t fuel = *weight + (uint64_t)(has_parts ? schema_weight(wanted) : 0);
    return schema_spend(run, fuel) && json_equal(value, wanted);
}

static bool is_in_enum(struct schema_run *run, const struct json *value, const struct json *list)
{
    uint32_t weight = 0;
    if (!schema_spend(run, list->count))
        return false;
    for (uint32_t i = 0; i < list->count; i++) {
        if (is_equal(run, value, &list->as.items[i], &weight))
            return true;
    }
    return false;
}

/* ---- numbers ---- */

static bool is_in_bound(struct schema_run *run, const struct schema_op *op,
                        const struct json *value)
{
    /* Numbers that are kept as text may have megabytes of digits; others compare in a fixed
     * time. */
    uint64_t digits = value->type == JSON_BIGNUM ? value->count : 0;
    if (op->as.value->type == JSON_BIGNUM)
        digits += op->as.value->count;
    if (!schema_spend(run, digits))
        return false;
    int order = json_number_cmp(value, op->as.value);
    switch (op->kind) {
    case KW_MINIMUM:
        return order >= 0;
    case KW_MAXIMUM:
        return order <= 0;
    case KW_EXCLUSIVE_MINIMUM:
        return order > 0;
    default:
        ASSERT(op->kind == KW_EXCLUSIVE_MAXIMUM);
        return order < 0;
    }
}

static bool is_multiple(struct schema_run *run, const struct schema_op *op,
                        const struct json *value)
{
    uint64_t digits = value->type == JSON_BIGNUM ? (uint64_t)value->count * 16 : 200;
    return schema_spend(run, digits) && json_number_is_multiple(value, op->as.divisor);
}

/* ---- strings ---- */

enum { LANE_ROUNDS_MAX = 255 }; /* what a byte can count to */

/* Code points, as RFC 8259's characters are counted: all bytes but those of the form 10xxxxxx. Of
 * those each of 8 lanes counts its own, since a text may have megabytes. */
static uint64_t character_count(slice text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), even = UINT64_C(0x00ff00ff00ff00ff);
    uint64_t count = text.len, bytes;
    size_t at = 0;
    while (text.len - at >= sizeof(bytes)) {
        uint64_t lanes = 0;
        for (int i = 0; i < LANE_ROUNDS_MAX && text.len - at >= sizeof(bytes); i++) {
            memcpy(&bytes, text.ptr + at, sizeof(bytes));
            /* One in each lane whose byte has the top bit set and the next one clear. */
            lanes += (bytes >> 7) & (~bytes >> 6) & ones;
            at += sizeof(bytes);
        }
        /* Sums of neighbours in 16-bit lanes, then all four of those by one multiplication. */
        lanes = (lanes & even) + ((lanes >> 8) & even);
        count -= (lanes * UINT64_C(0x0001000100010001)) >> 48;
    }
    for (; at < text.len; at++)
        count -= ((unsigned char)text.ptr[at] & 0xC0) == 0x80;
    return count;
}

/* A character has 1 to 4 bytes, which mostly decides it without counting. */
static bool has_length(struct schema_run *run, const struct schema_op *op,
                       const struct schema_at *at)
{
    slice text = json_str(at->value);
    uint64_t limit = op->as.limit;
    bool is_min = op->kind == KW_MIN_LENGTH;
    if (is_min ? text.len / 4 >= limit && limit > 0 : text.len <= limit)
        return true;
    if (is_min && limit == 0)
        return true;
    /* A word at a time, so a quarter of the bytes is ample. */
    if (!schema_spend(run, text.len / 4))
        return false;
    uint64_t count = character_count(text);
    bool is_fine = is_min ? count >= limit : count <= limit;
    return is_fine || schema_report_count(run, op, at, count);
}

bool schema_run_matches(struct schema_run *run, const struct schema_pattern *pattern, slice text)
{
    enum schema_match match = schema_pattern_match(pattern, text, &run->fuel);
    if (match == SCHEMA_MATCH_FUEL)
        /* A pattern that ran out of fuel has not answered; the run stops, since both "yes" and "no"
         * may be wrong. */
        schema_stop(run, "a pattern takes too many steps on this text");
    return match == SCHEMA_MATCH_YES;
}

static bool has_format(struct schema_run *run, const struct schema_format *format,
                       const struct json *value)
{
    return schema_spend(run, (uint64_t)value->count * format->fuel_per_byte) &&
           format->check(json_str(value));
}

bool schema_run_value(struct schema_run *run, const struct schema_op *op,
                      const struct schema_at *at)
{
    uint32_t weight = 0;
    bool is_valid = false;
    switch (op->kind) {
    case KW_CONST:
        is_valid = is_equal(run, at->value, op->as.value, &weight);
        break;
    case KW_ENUM:
        is_valid = is_in_enum(run, at->value, op->as.value);
        break;
    case KW_MULTIPLE_OF:
        is_valid = is_multiple(run, op, at->value);
        break;
    case KW_MIN_LENGTH:
    case KW_MAX_LENGTH:
        return has_length(run, op, at);
    case KW_PATTERN:
        is_valid = schema_run_matches(run, op->as.pattern, json_str(at->value));
        break;
    case KW_FORMAT:
        is_valid = has_format(run, op->as.format, at->value);
        break;
    default:
        is_valid = is_in_bound(run, op, at->value);
        break;
    }
    return is_valid || schema_report_value(run, op, at);
}
