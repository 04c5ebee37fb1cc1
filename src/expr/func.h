/*
 * The table of functions and the arguments that each accepts. Argument counts and expression
 * references are checked when an expression is compiled, types of values when it runs.
 */
#ifndef EXPR_FUNC_H
#define EXPR_FUNC_H

#include "expr/run.h"

enum {
    EXPR_ARG_NULL = 1,
    EXPR_ARG_BOOL = 2,
    EXPR_ARG_NUMBER = 4,
    EXPR_ARG_STRING = 8,
    EXPR_ARG_ARRAY = 16,
    EXPR_ARG_OBJECT = 32,
    EXPR_ARG_ANY = 63,
    EXPR_ARG_NUMBERS = 64,  /* an array of numbers */
    EXPR_ARG_STRINGS = 128, /* an array of strings */
    EXPR_ARG_REF = 256,     /* &expression */

    EXPR_ARG_TYPES = 3, /* an argument past the third has the type of the third */
};

/* args holds call->count values, already of the right types; a reference is null. */
typedef int (*expr_function_fn)(struct expr_run *run, const struct expr_node *call,
                                const struct json *args, struct json *out);

struct expr_function {
    const char *name;
    uint8_t args_min, args_max;
    uint16_t types[EXPR_ARG_TYPES];
    expr_function_fn fn;
};

/* Returns NULL if there is no function with that name. */
const struct expr_function *expr_function_find(slice name);
/* Returns the mask of the types that argument i may have. */
unsigned expr_function_arg(const struct expr_function *function, uint32_t i);
/* Evaluates the arguments, checks them and calls the function. */
int expr_function_call(struct expr_run *run, const struct expr_node *call,
                       const struct json *current, struct json *out) MUST_CHECK;
/* Returns the node after the & of argument i. */
const struct expr_node *expr_function_ref(const struct expr_node *call, uint32_t i);

/* Some functions do not use `call`. */
#define EXPR_FUNCTION(name)                                                  \
    int expr_fn_##name(__attribute__((unused)) struct expr_run *run,         \
                       __attribute__((unused)) const struct expr_node *call, \
                       const struct json *args, struct json *out)

/* The functions of the specification (jmespath.org/specification.html, "Built-in Functions") and
 * of expr/expr.h, sorted by name: name, minimum and maximum number of arguments, and the type of
 * each, with the abbreviations of func.c. */
#define EXPR_FUNCTIONS(F)                       \
    F(abs, 1, 1, NUM)                           \
    F(ascii_json, 1, 1, ARR | OBJ)              \
    F(avg, 1, 1, NUMS)                          \
    F(base64, 1, 1, STR)                        \
    F(base64url, 1, 1, STR)                     \
    F(base64url_decode, 1, 1, STR)              \
    F(ceil, 1, 1, NUM)                          \
    F(contains, 2, 2, ARR | STR, ANY)           \
    F(counted, 2, 3, ARR | NUM | NIL, STR, STR) \
    F(ends_with, 2, 2, STR, STR)                \
    F(floor, 1, 1, NUM)                         \
    F(format_time, 2, 3, NUM | STR, STR, STR)   \
    F(from_items, 1, 1, ARR)                    \
    F(header, 2, 2, NIL | ARR, STR)             \
    F(html_text, 1, 1, STR)                     \
    F(items, 1, 1, OBJ)                         \
    F(join, 2, 2, STR, STRS)                    \
    F(keys, 1, 1, OBJ)                          \
    F(length, 1, 1, STR | ARR | OBJ)            \
    F(link_url, 2, 2, NIL | STR, STR)           \
    F(mail_addresses, 1, 1, NIL | STR | ARR)    \
    F(mail_parts, 1, 1, NIL | OBJ)              \
    F(mail_text, 1, 1, NIL | OBJ)               \
    F(map, 2, 2, REF, ARR)                      \
    F(max, 1, 1, NUMS | STRS)                   \
    F(max_by, 2, 2, ARR, REF)                   \
    F(merge, 1, MANY, OBJ, OBJ, OBJ)            \
    F(message_ids, 1, 1, NIL | STR)             \
    F(mime_message, 1, 1, OBJ)                  \
    F(min, 1, 1, NUMS | STRS)                   \
    F(min_by, 2, 2, ARR, REF)                   \
    F(money, 2, 2, NIL | NUM, STR)              \
    F(not_null, 1, MANY, ANY, ANY, ANY)         \
    F(one_line, 1, 1, NIL | STR)                \
    F(quote, 1, 1, STR)                         \
    F(quote_odata, 1, 1, STR)                   \
    F(reverse, 1, 1, STR | ARR)                 \
    F(sort, 1, 1, NUMS | STRS)                  \
    F(sort_by, 2, 2, ARR, REF)                  \
    F(starts_with, 2, 2, STR, STR)              \
    F(sum, 1, 1, NUMS)                          \
    F(to_array, 1, 1, ANY)                      \
    F(to_number, 1, 1, ANY)                     \
    F(to_string, 1, 1, ANY)                     \
    F(truncate, 2, 3, STR, NUM, STR)            \
    F(type, 1, 1, ANY)                          \
    F(unescape_html, 1, 1, STR)                 \
    F(url_query, 2, 2, NIL | STR, STR)          \
    F(url_segment, 2, 2, NIL | STR, STR)        \
    F(uuid5, 2, 2, STR, STR)                    \
    F(values, 1, 1, OBJ)                        \
    F(word_after, 2, 2, NIL | STR, STR)

#define DECLARE(name, ...) EXPR_FUNCTION(name);
EXPR_FUNCTIONS(DECLARE)
#undef DECLARE

#endif
