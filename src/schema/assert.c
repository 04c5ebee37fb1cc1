/*
 * schema_assert: compiling assertions (JSON Schema Validation 6): keywords that check the instance
 * itself. Wrong values of keywords are refused here, when a manifest loads, and not ignored as some
 * validators do: a typing error in a schema would let everything through.
 */
#include "schema/compile.h"

struct assert_rule {
    uint8_t keyword; /* enum keyword */
    uint8_t op;      /* enum schema_op_kind */
    uint8_t types;
    int (*compile)(struct schema_compiler *, const struct assert_rule *, const struct json *);
};

/* ---- type ---- */

static unsigned type_bit(slice name)
{
    static const struct {
        slice name;
        unsigned bits;
    } types[] = {
        {SLICE_INIT("null"), TYPE_NULL},       {SLICE_INIT("boolean"), TYPE_BOOLEAN},
        {SLICE_INIT("number"), TYPE_NUMBER},   {SLICE_INIT("string"), TYPE_STRING},
        {SLICE_INIT("array"), TYPE_ARRAY},     {SLICE_INIT("object"), TYPE_OBJECT},
        {SLICE_INIT("integer"), TYPE_INTEGER},
    };
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (slice_eq(types[i].name, name))
            return types[i].bits;
    }
    return 0;
}

static int compile_type(struct schema_compiler *compiler, struct schema_node *node)
{
    const struct json *type = compiler->keywords[KW_TYPE];
    if (!type || !(node->resource->vocabularies & VOCABULARY_VALIDATION))
        return OK;
    bool is_list = type->type == JSON_ARRAY;
    uint32_t count = is_list ? type->count : 1;
    unsigned types = 0;
    for (uint32_t i = 0; i < count; i++) {
        slice name = json_str(is_list ? &type->as.items[i] : type);
        unsigned bit = name.ptr ? type_bit(name) : 0;
        /* No bit of a known type: an unknown name, or no string at all. */
        if (bit == 0)
            return schema_fail(compiler, ERR_INVALID, KW_TYPE,
                               "must be null, boolean, integer, number, string, array or object, "
                               "or a list of them");
        types |= bit;
    }
    node->types = (uint8_t)types;
    return OK;
}

/* ---- the rules ---- */

static int compile_const(struct schema_compiler *compiler, const struct assert_rule *rule,
                         const struct json *value)
{
    struct schema_op *op = schema_op_add(compiler, rule->op, rule->types);
    op->as.value = value;
    /* What a comparison with the value may cost, computed once. */
    op->count = schema_weight(value);
    return OK;
}

static int compile_enum(struct schema_compiler *compiler, const struct assert_rule *rule,
                        const struct json *value)
{
    if (value->type != JSON_ARRAY)
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be an array");
    return compile_const(compiler, rule, value);
}

static int compile_bound(struct schema_compiler *compiler, const struct assert_rule *rule,
                         const struct json *value)
{
    if (!json_is_number(value))
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be a number");
    return compile_const(compiler, rule, value);
}

static int compile_multiple_of(struct schema_compiler *compiler, const struct assert_rule *rule,
                               const struct json *value)
{
    if (!json_is_number(value))
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be a number");
    struct json_decimal *divisor = ARENA_NEW(compiler->arena, struct json_decimal);
    if (!divisor)
        return schema_fail_memory(compiler);
    json_decimal_of(divisor, value);
    /* Validation 6.2.1: strictly greater than 0. */
    if (divisor->count == 0 || divisor->is_negative)
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be greater than 0");
    /* A divisor of at most 19 digits fits 64 bits, in which json_number_is_multiple calculates. */
    if (divisor->count > JSON_DIVISOR_DIGITS_MAX)
        return schema_fail(compiler, ERR_LIMIT, rule->keyword,
                           "more than %d digits are not supported", JSON_DIVISOR_DIGITS_MAX);
    struct schema_op *op = schema_op_add(compiler, rule->op, rule->types);
    op->as.divisor = divisor;
    return OK;
}

static int compile_limit(struct schema_compiler *compiler, const struct assert_rule *rule,
                         const struct json *value)
{
    int64_t limit = 0;
    struct json zero = json_i64(0);
    bool is_fine = json_is_number(value) && json_number_is_integer(value) &&
                   json_number_cmp(value, &zero) >= 0;
    if (!is_fine)
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be a non-negative integer");
    struct schema_op *op = schema_op_add(compiler, rule->op, rule->types);
    /* A larger limit than int64 is one that no instance reaches. */
    op->as.limit = json_to_i64(value, &limit) ? (uint64_t)limit : UINT64_MAX;
    return OK;
}

static int compile_unique(struct schema_compiler *compiler, const struct assert_rule *rule,
                          const struct json *value)
{
    if (value->type != JSON_BOOL)
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be true or false");
    if (value->as.boolean)
        (void)schema_op_add(compiler, rule->op, rule->types);
    return OK;
}

static int compile_pattern(struct schema_compiler *compiler, const struct assert_rule *rule,
                           const struct json *value)
{
    if (value->type != JSON_STRING)
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be a string");
    struct err fault = {0};
    const struct schema_pattern *pattern =
        schema_pattern_compile(compiler->arena, json_str(value), &fault);
    if (!pattern)
        return schema_fail(compiler, fault.code, rule->keyword, "%s", fault.text);
    schema_op_add(compiler, rule->op, rule->types)->as.pattern = pattern;
    return OK;
}

static int compile_format(struct schema_compiler *compiler, const struct assert_rule *rule,
                          const struct json *value)
{
    if (value->type != JSON_STRING)
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be a string");
    /* By default `format` is an annotation (Validation 7.2.1); the option or the vocabulary makes
     * it assert. */
    bool is_asserted = compiler->options->assert_formats ||
                       compiler->node->resource->vocabularies & VOCABULARY_FORMAT_ASSERTION;
    /* A format that is not known passes (schema.h). */
    const struct schema_format *format = schema_format_find(json_str(value));
    if (is_asserted && format)
        schema_op_add(compiler, rule->op, rule->types)->as.format = format;
    return OK;
}

static const struct assert_rule rules[] = {
    {KW_CONST, OP_CONST, TYPE_ANY, compile_const},
    {KW_ENUM, OP_ENUM, TYPE_ANY, compile_enum},
    {KW_MULTIPLE_OF, OP_MULTIPLE_OF, TYPE_NUMBER, compile_multiple_of},
    {KW_MINIMUM, OP_MINIMUM, TYPE_NUMBER, compile_bound},
    {KW_MAXIMUM, OP_MAXIMUM, TYPE_NUMBER, compile_bound},
    {KW_EXCLUSIVE_MINIMUM, OP_EXCLUSIVE_MINIMUM, TYPE_NUMBER, compile_bound},
    {KW_EXCLUSIVE_MAXIMUM, OP_EXCLUSIVE_MAXIMUM, TYPE_NUMBER, compile_bound},
    {KW_MIN_LENGTH, OP_MIN_LENGTH, TYPE_STRING, compile_limit},
    {KW_MAX_LENGTH, OP_MAX_LENGTH, TYPE_STRING, compile_limit},
    {KW_PATTERN, OP_PATTERN, TYPE_STRING, compile_pattern},
    {KW_FORMAT, OP_FORMAT, TYPE_STRING, compile_format},
    {KW_MIN_ITEMS, OP_MIN_ITEMS, TYPE_ARRAY, compile_limit},
    {KW_MAX_ITEMS, OP_MAX_ITEMS, TYPE_ARRAY, compile_limit},
    {KW_UNIQUE_ITEMS, OP_UNIQUE_ITEMS, TYPE_ARRAY, compile_unique},
    {KW_MIN_PROPERTIES, OP_MIN_PROPERTIES, TYPE_OBJECT, compile_limit},
    {KW_MAX_PROPERTIES, OP_MAX_PROPERTIES, TYPE_OBJECT, compile_limit},
};

int schema_compile_asserts(struct schema_compiler *compiler, struct schema_node *node)
{
    int code = compile_type(compiler, node);
    for (size_t i = 0; i < ARRAY_LEN(rules) && code == OK; i++) {
        const struct json *value = compiler->keywords[rules[i].keyword];
        /* format belongs to vocabularies of its own. */
        bool is_used = rules[i].keyword == KW_FORMAT ||
                       node->resource->vocabularies & VOCABULARY_VALIDATION;
        if (value && is_used)
            code = rules[i].compile(compiler, &rules[i], value);
    }
    return code;
}
