/*
 * The table of functions and what each accepts. Argument counts and expression references are
 * checked when an expression is compiled, types of values when it runs.
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

/* args holds call->count values, already of the right types; the place of a reference is null. */
typedef int (*expr_function_fn)(struct expr_run *run, const struct expr_node *call,
                                const struct json *args, struct json *out);

struct expr_function {
    const char *name;
    uint8_t args_min, args_max;
    uint16_t types[EXPR_ARG_TYPES];
    expr_function_fn fn;
};

/* NULL when there is none. */
const struct expr_function *expr_function_find(slice name);
/* The mask of argument i. */
unsigned expr_function_arg(const struct expr_function *function, uint32_t i);
/* Evaluates the arguments, checks them, calls. */
int expr_function_call(struct expr_run *run, const struct expr_node *call,
                       const struct json *current, struct json *out) MUST_CHECK;
/* The node behind the & of argument i. */
const struct expr_node *expr_function_ref(const struct expr_node *call, uint32_t i);

#define EXPR_FUNCTION(name)                                                \
    int expr_fn_##name(struct expr_run *run, const struct expr_node *call, \
                       const struct json *args, struct json *out)

EXPR_FUNCTION(abs);
EXPR_FUNCTION(avg);
EXPR_FUNCTION(ascii_json);
EXPR_FUNCTION(base64);
EXPR_FUNCTION(base64url);
EXPR_FUNCTION(base64url_decode);
EXPR_FUNCTION(ceil);
EXPR_FUNCTION(contains);
EXPR_FUNCTION(counted);
EXPR_FUNCTION(ends_with);
EXPR_FUNCTION(floor);
EXPR_FUNCTION(format_time);
EXPR_FUNCTION(header);
EXPR_FUNCTION(html_text);
EXPR_FUNCTION(join);
EXPR_FUNCTION(keys);
EXPR_FUNCTION(length);
EXPR_FUNCTION(link_url);
EXPR_FUNCTION(map);
EXPR_FUNCTION(max);
EXPR_FUNCTION(max_by);
EXPR_FUNCTION(merge);
EXPR_FUNCTION(mime_message);
EXPR_FUNCTION(min);
EXPR_FUNCTION(min_by);
EXPR_FUNCTION(money);
EXPR_FUNCTION(not_null);
EXPR_FUNCTION(reverse);
EXPR_FUNCTION(sort);
EXPR_FUNCTION(sort_by);
EXPR_FUNCTION(starts_with);
EXPR_FUNCTION(sum);
EXPR_FUNCTION(to_array);
EXPR_FUNCTION(to_number);
EXPR_FUNCTION(to_string);
EXPR_FUNCTION(truncate);
EXPR_FUNCTION(type);
EXPR_FUNCTION(unescape_html);
EXPR_FUNCTION(url_query);
EXPR_FUNCTION(url_segment);
EXPR_FUNCTION(uuid5);
EXPR_FUNCTION(values);
EXPR_FUNCTION(word_after);

#endif
