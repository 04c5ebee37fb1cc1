/*
 * The state of one evaluation, shared by every part of the evaluator. Work and memory are charged
 * before they are used, so a budget is never exceeded by more than one step.
 */
#ifndef EXPR_RUN_H
#define EXPR_RUN_H

#include "expr/ast.h"

struct expr_run {
    slice source; /* shown in errors */
    const struct json *root;
    struct expr_budget *budget;
    struct arena *arena;
    struct err *err;
};

enum { EXPR_SCAN_UNIT = 32 }; /* bytes of text that cost one visit */

/* Sets the budget's fault and words. For a value that is not acceptable, `what` is "NAME():
 * SENTENCE" if the sentence is meant for all users. */
void expr_budget_fail(struct expr_budget *budget, enum expr_fault fault, const char *what);
/* Sets the budget's fault and words, and the error; returns the error's code. `at` is a node's
 * offset. */
int expr_run_fail(struct expr_run *run, enum expr_fault fault, uint32_t at, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* Each sets the error and returns its code: the budget of visits is used up, or that of bytes; a
 * value is too deep; the arena is full. */
int expr_run_spent(struct expr_run *run);
int expr_run_over_bytes(struct expr_run *run);
int expr_run_over_depth(struct expr_run *run);
int expr_run_nomem(struct expr_run *run);

static inline int expr_run_visit(struct expr_run *run, uint64_t count)
{
    run->budget->visits += count;
    if (__builtin_expect(run->budget->visits > run->budget->visits_max, 0))
        return expr_run_spent(run);
    return OK;
}

static inline int expr_run_scan(struct expr_run *run, size_t bytes)
{
    return expr_run_visit(run, 1 + bytes / EXPR_SCAN_UNIT);
}

/* Allocates space for text that a function builds, charged to bytes_built. */
int expr_run_text(struct expr_run *run, size_t len, char **out) MUST_CHECK;
/* Allocates the items of an array or the members of an object, not cleared. count may be 0. */
int expr_run_items(struct expr_run *run, size_t count, struct json **out) MUST_CHECK;
int expr_run_members(struct expr_run *run, size_t count, struct json_member **out) MUST_CHECK;

int expr_run_node(struct expr_run *run, const struct expr_node *node, const struct json *current,
                  struct json *out) MUST_CHECK;

/* ---- values ---- */

/* Returns JMESPath's name of the type: "null", "boolean", "number", "string", "array" or
 * "object". */
const char *expr_value_type(const struct json *value);
/* Compares as JMESPath's == does. Its cost is limited, unlike the cost of json_equal for values
 * that share parts many times. */
int expr_value_equal(struct expr_run *run, const struct json *a, const struct json *b,
                     bool *equal) MUST_CHECK;
/* Orders two strings (by code points) or two numbers. */
int expr_value_order(struct expr_run *run, const struct json *a, const struct json *b,
                     int *order) MUST_CHECK;
/* Adds the value's size as JSON text to *bytes. With escapes this is at least the length that
 * json_write writes; without escapes strings count unescaped. Fails as soon as *bytes exceeds
 * bytes_max, or if the value is more than JSON_DEPTH_MAX deep. */
int expr_value_measure(struct expr_run *run, const struct json *value, bool with_escapes,
                       size_t bytes_max, size_t *bytes) MUST_CHECK;
/* Sets *out to the value as JSON text in the arena, and charges it. */
int expr_value_text(struct expr_run *run, const struct json *value, slice *out) MUST_CHECK;
static inline struct json expr_array(struct json *items, size_t count)
{
    ASSERT(count <= UINT32_MAX);
    return (struct json){.type = JSON_ARRAY, .count = (uint32_t)count, .as.items = items};
}

static inline struct json expr_object(struct json_member *members, size_t count)
{
    ASSERT(count <= UINT32_MAX);
    return (struct json){.type = JSON_OBJECT, .count = (uint32_t)count, .as.members = members};
}

static inline struct json expr_string(const char *ptr, size_t len)
{
    ASSERT(len <= UINT32_MAX);
    return (struct json){.type = JSON_STRING, .count = (uint32_t)len, .as.text = ptr};
}

/* ---- text that grows in the arena ---- */

void expr_text_init(struct arena_text *text, struct expr_run *run);
/* Charges the built text, or reports the failure. */
int expr_text_done(struct expr_run *run, const struct arena_text *text,
                   struct json *out) MUST_CHECK;

#endif
