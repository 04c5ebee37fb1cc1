/*
 * func: the function table, and the check of arguments. See expr/func.h. The table is sorted by
 * name, because expr_function_find searches it with bsearch.
 */
#include "expr/func.h"

#include <stdio.h>
#include <stdlib.h>

#define NIL  EXPR_ARG_NULL
#define NUM  EXPR_ARG_NUMBER
#define STR  EXPR_ARG_STRING
#define ARR  EXPR_ARG_ARRAY
#define OBJ  EXPR_ARG_OBJECT
#define ANY  EXPR_ARG_ANY
#define NUMS EXPR_ARG_NUMBERS
#define STRS EXPR_ARG_STRINGS
#define REF  EXPR_ARG_REF
#define MANY EXPR_ARGS_MAX

#define ROW(name, least, most, ...) {#name, least, most, {__VA_ARGS__}, expr_fn_##name},
static const struct expr_function functions[] = {EXPR_FUNCTIONS(ROW)};

static int by_name(const void *key, const void *item)
{
    const struct expr_function *function = item;
    return slice_cmp(*(const slice *)key, slice_cstr(function->name));
}

const struct expr_function *expr_function_find(slice name)
{
    return bsearch(&name, functions, ARRAY_LEN(functions), sizeof functions[0], by_name);
}

unsigned expr_function_arg(const struct expr_function *function, uint32_t i)
{
    ASSERT(i < function->args_max);
    /* The last type also applies to all further arguments: merge and not_null take up to
     * EXPR_ARGS_MAX. */
    return function->types[i < EXPR_ARG_TYPES ? i : EXPR_ARG_TYPES - 1];
}

const struct expr_node *expr_function_ref(const struct expr_node *call, uint32_t i)
{
    const struct expr_node *arg = call->first;
    while (i-- > 0)
        arg = arg->next;
    /* check_call in parse.c has ensured this. */
    ASSERT(arg->kind == EXPR_NODE_REF);
    return arg->first;
}

static unsigned type_mask(const struct json *value)
{
    static const uint8_t masks[] = {
        [JSON_NULL] = EXPR_ARG_NULL,     [JSON_BOOL] = EXPR_ARG_BOOL,
        [JSON_STRING] = EXPR_ARG_STRING, [JSON_ARRAY] = EXPR_ARG_ARRAY,
        [JSON_OBJECT] = EXPR_ARG_OBJECT,
    };
    return json_is_number(value) ? EXPR_ARG_NUMBER : masks[value->type];
}

/* The names are in the order of the bits. */
static const char *const type_names[] = {
    "null",  "boolean", "number",           "string",
    "array", "object",  "array of numbers", "array of strings"};

static int wrong_type(struct expr_run *run, const struct expr_node *call, uint32_t i,
                      const char *got)
{
    const struct expr_function *function = call->as.function;
    unsigned mask = expr_function_arg(function, i);
    /* Large enough for the longest list of type_names; the assertion below proves it for the
     * present table. */
    char wanted[96] = "";
    size_t len = 0;
    for (size_t bit = 0; bit < ARRAY_LEN(type_names); bit++) {
        if (!(mask & 1u << bit))
            continue;
        slice or = len ? SLICE(" or ") : SLICE_NONE, name = slice_cstr(type_names[bit]);
        ASSERT(len + or.len + name.len < sizeof wanted);
        memcpy(wanted + len, or.ptr ? or.ptr : "", or.len);
        memcpy(wanted + len + or.len, name.ptr, name.len + 1);
        len += or.len + name.len;
    }
    return expr_run_fail(run, EXPR_FAULT_TYPE, call->at, "%s() wants %s as argument %u, got %s",
                         function->name, wanted, i + 1, got);
}

/* Checks that all items have the type of the first item, and that mask allows this type. */
static int check_items(struct expr_run *run, const struct expr_node *call, uint32_t i,
                       const struct json *array, unsigned mask)
{
    int rc = expr_run_visit(run, array->count / 8);
    if (rc != OK || array->count == 0)
        return rc;
    /* The first item sets the type of all items, so that max([1, 'a']) is an error instead of an
     * order between numbers and strings. */
    unsigned first = type_mask(&array->as.items[0]);
    unsigned wanted = 0;
    if (mask & EXPR_ARG_NUMBERS)
        wanted |= first & EXPR_ARG_NUMBER;
    if (mask & EXPR_ARG_STRINGS)
        wanted |= first & EXPR_ARG_STRING;
    for (uint32_t k = 0; k < array->count; k++) {
        if (type_mask(&array->as.items[k]) == wanted)
            continue;
        char got[64];
        int len = snprintf(got, sizeof got, "an array with %s as item %u",
                           expr_value_type(&array->as.items[k]), k + 1);
        ASSERT(len > 0 && (size_t)len < sizeof got);
        return wrong_type(run, call, i, got);
    }
    return OK;
}

static int check_arg(struct expr_run *run, const struct expr_node *call, uint32_t i,
                     const struct json *value)
{
    unsigned mask = expr_function_arg(call->as.function, i);
    if (mask & type_mask(value))
        return OK;
    if (value->type == JSON_ARRAY && (mask & (EXPR_ARG_NUMBERS | EXPR_ARG_STRINGS)))
        return check_items(run, call, i, value, mask);
    return wrong_type(run, call, i, expr_value_type(value));
}

/* A separate function, never inlined: otherwise its array of arguments (512 bytes) would be part
 * of each frame of the recursion in expr_run_node. */
__attribute__((noinline)) int expr_function_call(struct expr_run *run, const struct expr_node *call,
                                                 const struct json *current, struct json *out)
{
    ASSERT(call->count <= EXPR_ARGS_MAX);
    struct json args[EXPR_ARGS_MAX];
    uint32_t i = 0;
    *out = json_null;
    for (const struct expr_node *arg = call->first; arg; arg = arg->next, i++) {
        /* This is a placeholder for an expression reference, which the called function evaluates
         * once for each item. */
        args[i] = json_null;
        if (arg->kind == EXPR_NODE_REF)
            continue;
        int rc = expr_run_node(run, arg, current, &args[i]);
        if (rc == OK)
            rc = check_arg(run, call, i, &args[i]);
        if (rc != OK)
            return rc;
    }
    ASSERT(i == call->count);
    return call->as.function->fn(run, call, args, out);
}
