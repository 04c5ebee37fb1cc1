/*
 * value: reads values under a budget. Values may share sub-values many times over (`[@,@]|[@,@]|..`
 * doubles at each step: forty steps are 2^40 items in a few hundred bytes), so every walk over one
 * charges visits and stops when none are left.
 */
#include "expr/run.h"

#include <inttypes.h>

bool expr_is_true(const struct json *value)
{
    if (!value)
        return false;
    switch ((enum json_type)value->type) {
    case JSON_NULL:
        return false;
    case JSON_BOOL:
        return value->as.boolean;
    case JSON_STRING:
    case JSON_ARRAY:
    case JSON_OBJECT:
        return value->count > 0;
    default:
        return true;
    }
}

const char *expr_value_type(const struct json *value)
{
    return json_is_number(value) ? "number" : json_type_name(value);
}

/* Returns the cost of a comparison, in bytes to read: a number kept as text may be long, and
 * comparing an integer with a double may need their decimal digits. */
static size_t order_cost(const struct json *a, const struct json *b)
{
    size_t cost = a->type == b->type ? 0 : 8 * EXPR_SCAN_UNIT;
    cost += a->type == JSON_BIGNUM ? a->count : 0;
    return cost + (b->type == JSON_BIGNUM ? b->count : 0);
}

/* ---- equality ---- */

static int equal(struct expr_run *run, const struct json *a, const struct json *b, unsigned depth,
                 bool *is_equal);

static int equal_strings(struct expr_run *run, const struct json *a, const struct json *b,
                         bool *is_equal)
{
    *is_equal = false;
    if (a->count != b->count)
        return OK;
    int rc = expr_run_scan(run, a->count);
    *is_equal = rc == OK && slice_eq(json_str(a), json_str(b));
    return rc;
}

static int equal_arrays(struct expr_run *run, const struct json *a, const struct json *b,
                        unsigned depth, bool *is_equal)
{
    *is_equal = a->count == b->count;
    /* A shared block is equal to itself, so it is not walked, however large it is. */
    if (a->as.items == b->as.items)
        return OK;
    int rc = OK;
    for (uint32_t i = 0; rc == OK && *is_equal && i < a->count; i++)
        rc = equal(run, &a->as.items[i], &b->as.items[i], depth + 1, is_equal);
    return rc;
}

static int equal_objects(struct expr_run *run, const struct json *a, const struct json *b,
                         unsigned depth, bool *is_equal)
{
    *is_equal = a->count == b->count;
    if (a->as.members == b->as.members)
        return OK;
    int rc = OK;
    for (uint32_t i = 0; rc == OK && *is_equal && i < a->count; i++) {
        const struct json_member *mine = &a->as.members[i], *theirs = &b->as.members[i];
        const struct json *other = &theirs->value;
        /* Members mostly have the same order, so the same position is tried first. Otherwise a
         * linear search follows, which is charged. */
        if (!slice_eq(json_str(&mine->key), json_str(&theirs->key))) {
            rc = expr_run_scan(run, b->count);
            other = json_get(b, json_str(&mine->key));
        }
        *is_equal = other != NULL;
        if (rc == OK && other)
            rc = equal(run, &mine->value, other, depth + 1, is_equal);
    }
    return rc;
}

static int equal(struct expr_run *run, const struct json *a, const struct json *b, unsigned depth,
                 bool *is_equal)
{
    int rc = expr_run_visit(run, 1);
    if (rc != OK)
        return rc;
    /* The value is deeper than any parsed value, so an expression has nested its own result. */
    if (depth > JSON_DEPTH_MAX)
        return expr_run_over_depth(run);
    if (json_is_number(a) && json_is_number(b)) {
        int order = 0;
        rc = expr_value_order(run, a, b, &order);
        *is_equal = order == 0;
        return rc;
    }
    *is_equal = a->type == b->type;
    if (!*is_equal)
        return OK;
    switch ((enum json_type)a->type) {
    case JSON_BOOL:
        *is_equal = a->as.boolean == b->as.boolean;
        return OK;
    case JSON_STRING:
        return equal_strings(run, a, b, is_equal);
    case JSON_ARRAY:
        return equal_arrays(run, a, b, depth, is_equal);
    case JSON_OBJECT:
        return equal_objects(run, a, b, depth, is_equal);
    default:
        return OK;
    }
}

int expr_value_equal(struct expr_run *run, const struct json *a, const struct json *b,
                     bool *is_equal)
{
    return equal(run, a, b, 0, is_equal);
}

int expr_value_order(struct expr_run *run, const struct json *a, const struct json *b, int *order)
{
    int rc;
    if (a->type == JSON_STRING) {
        ASSERT(b->type == JSON_STRING);
        rc = expr_run_scan(run, a->count < b->count ? a->count : b->count);
        *order = rc == OK ? slice_cmp(json_str(a), json_str(b)) : 0;
        return rc;
    }
    ASSERT(json_is_number(a) && json_is_number(b));
    /* This is the common case, without the cost of mixed numbers. */
    if (a->type == JSON_INT && b->type == JSON_INT) {
        *order = (a->as.i64 > b->as.i64) - (a->as.i64 < b->as.i64);
        return expr_run_visit(run, 1);
    }
    rc = expr_run_scan(run, order_cost(a, b));
    *order = rc == OK ? json_number_cmp(a, b) : 0;
    return rc;
}

/* ---- size ---- */

static size_t digits(uint64_t value)
{
    size_t count = 1;
    while (value >= 10) {
        value /= 10;
        count++;
    }
    return count;
}

static size_t real_size(const struct json *value)
{
    char room[64];
    struct buf buf = {.ptr = room, .cap = sizeof room, .bytes_max = sizeof room};
    json_write(&buf, value);
    ASSERT(buf_is_ok(&buf) && buf.ptr == room);
    return buf.len;
}

/* Returns an upper bound of the escaped size; a byte without an escape counts as one. */
static size_t escaped_size(const struct json *string)
{
    size_t size = 2 + (size_t)string->count;
    for (uint32_t i = 0; i < string->count; i++) {
        unsigned char c = (unsigned char)string->as.text[i];
        /* The escape is at most "\u00XX", which has five more bytes. */
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
            size += 5;
        else if (c >= 0x80)
            size += 2; /* an invalid byte becomes U+FFFD */
    }
    return size;
}

struct measure {
    struct expr_run *run;
    bool with_escapes;
    size_t bytes_max;
    size_t *bytes;
};

static int measure(struct measure *m, const struct json *value, unsigned depth);

static size_t scalar_size(struct measure *m, const struct json *value)
{
    switch ((enum json_type)value->type) {
    case JSON_NULL:
        return 4;
    case JSON_BOOL:
        return value->as.boolean ? 4 : 5;
    case JSON_INT:
        return value->as.i64 < 0 ? 1 + digits(0 - (uint64_t)value->as.i64)
                                 : digits((uint64_t)value->as.i64);
    case JSON_UINT:
        return digits(value->as.u64);
    case JSON_REAL:
        /* Without escapes an estimate is enough: the budget of results bounds memory and need not
         * be exact. */
        return m->with_escapes ? real_size(value) : 8;
    case JSON_STRING:
        return m->with_escapes ? escaped_size(value) : 2 + (size_t)value->count;
    default:
        return value->count;
    }
}

/* Measures a value inside a container. Most are strings, which are measured without reading their
 * bytes. */
static inline int measure_inner(struct measure *m, const struct json *value, unsigned depth)
{
    if (value->type != JSON_STRING || m->with_escapes)
        return measure(m, value, depth);
    *m->bytes += 2 + (size_t)value->count;
    return expr_run_visit(m->run, 1);
}

static int measure_object(struct measure *m, const struct json *object, unsigned depth)
{
    int rc = OK;
    for (uint32_t i = 0; rc == OK && i < object->count; i++) {
        const struct json_member *member = &object->as.members[i];
        *m->bytes += 2; /* , and : */
        *m->bytes += m->with_escapes ? escaped_size(&member->key) : 2 + (size_t)member->key.count;
        rc = measure_inner(m, &member->value, depth);
    }
    return rc;
}

static int measure(struct measure *m, const struct json *value, unsigned depth)
{
    bool is_container = value->type == JSON_ARRAY || value->type == JSON_OBJECT;
    int rc = expr_run_visit(m->run, 1);
    if (rc == OK && is_container && depth >= JSON_DEPTH_MAX)
        rc = expr_run_over_depth(m->run);
    if (rc != OK)
        return rc;
    *m->bytes += is_container ? 2 : scalar_size(m, value);
    if (value->type == JSON_OBJECT)
        rc = measure_object(m, value, depth + 1);
    for (uint32_t i = 0; rc == OK && value->type == JSON_ARRAY && i < value->count; i++) {
        *m->bytes += i > 0;
        rc = measure_inner(m, &value->as.items[i], depth + 1);
    }
    /* The limit is checked at each value, so the walk ends soon after it is reached, and *bytes
     * cannot overflow. */
    if (rc == OK && *m->bytes > m->bytes_max)
        rc = expr_run_over_bytes(m->run);
    return rc;
}

int expr_value_measure(struct expr_run *run, const struct json *value, bool with_escapes,
                       size_t bytes_max, size_t *bytes)
{
    struct measure m = {run, with_escapes, bytes_max, bytes};
    return measure(&m, value, 0);
}

int expr_value_text(struct expr_run *run, const struct json *value, slice *out)
{
    size_t size = 0, max = run->budget->bytes_max, built = run->budget->bytes_built;
    /* The upper bound with escapes may exceed the limit although the text itself does not. */
    int rc = expr_value_measure(run, value, true, (max - (built < max ? built : max)) * 6, &size);
    if (rc == OK)
        rc = expr_run_scan(run, size);
    if (rc != OK)
        return rc;
    char *room = arena_alloc_text(run->arena, size + 1);
    if (!room)
        return expr_run_nomem(run);
    struct buf buf = {.ptr = room, .cap = size + 1, .bytes_max = size + 1};
    json_write(&buf, value);
    ASSERT(buf_is_ok(&buf) && buf.ptr == room); /* allocated for the worst case, so it never grew */
    if (buf.len > max - (built < max ? built : max))
        return expr_run_over_bytes(run);
    run->budget->bytes_built += buf.len;
    *out = buf_slice(&buf);
    return OK;
}
