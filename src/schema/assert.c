/*
 * schema_assert: compiling assertions (JSON Schema Validation 6): keywords that check the instance
 * itself. Wrong values of keywords are refused here, when a manifest loads, and not ignored as some
 * validators do: a typing error in a schema would let everything through.
 */
#include "schema/compile.h"

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

static int compile_const(struct schema_compiler *compiler, const struct schema_rule *rule,
                         const struct json *value)
{
    struct schema_op *op = schema_op_add(compiler, rule);
    op->as.value = value;
    /* What a comparison with the value may cost, computed once. */
    op->count = schema_weight(value);
    return OK;
}

static int compile_enum(struct schema_compiler *compiler, const struct schema_rule *rule,
                        const struct json *value)
{
    if (value->type != JSON_ARRAY)
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be an array");
    return compile_const(compiler, rule, value);
}

static int compile_bound(struct schema_compiler *compiler, const struct schema_rule *rule,
                         const struct json *value)
{
    if (!json_is_number(value))
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be a number");
    return compile_const(compiler, rule, value);
}

static int compile_multiple_of(struct schema_compiler *compiler, const struct schema_rule *rule,
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
    struct schema_op *op = schema_op_add(compiler, rule);
    op->as.divisor = divisor;
    return OK;
}

int schema_count_read(struct schema_compiler *compiler, enum keyword keyword,
                      const struct json *value, uint64_t *count)
{
    int64_t number = 0;
    if (!json_is_number(value) || !json_number_is_integer(value) || json_to_double(value) < 0)
        return schema_fail(compiler, ERR_INVALID, keyword, "must be a non-negative integer");
    /* Beyond int64 nothing is that long: the largest count stands for it. */
    *count = json_to_i64(value, &number) ? (uint64_t)number : UINT64_MAX;
    return OK;
}

static int compile_limit(struct schema_compiler *compiler, const struct schema_rule *rule,
                         const struct json *value)
{
    uint64_t limit = 0;
    int code = schema_count_read(compiler, rule->keyword, value, &limit);
    if (code == OK)
        schema_op_add(compiler, rule)->as.limit = limit;
    return code;
}

static int compile_unique(struct schema_compiler *compiler, const struct schema_rule *rule,
                          const struct json *value)
{
    if (value->type != JSON_BOOL)
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be true or false");
    if (value->as.boolean)
        (void)schema_op_add(compiler, rule);
    return OK;
}

static int compile_pattern(struct schema_compiler *compiler, const struct schema_rule *rule,
                           const struct json *value)
{
    if (value->type != JSON_STRING)
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be a string");
    struct err fault = {0};
    const struct schema_pattern *pattern =
        schema_pattern_compile(compiler->arena, json_str(value), &fault);
    if (!pattern)
        return schema_fail(compiler, fault.code, rule->keyword, "%s", fault.text);
    schema_op_add(compiler, rule)->as.pattern = pattern;
    return OK;
}

static int compile_format(struct schema_compiler *compiler, const struct schema_rule *rule,
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
        schema_op_add(compiler, rule)->as.format = format;
    return OK;
}

/* format belongs to vocabularies of its own. */
static const struct schema_rule rules[] = {
    {KW_CONST, KW_CONST, TYPE_ANY, VOCABULARY_VALIDATION, compile_const},
    {KW_ENUM, KW_ENUM, TYPE_ANY, VOCABULARY_VALIDATION, compile_enum},
    {KW_MULTIPLE_OF, KW_MULTIPLE_OF, TYPE_NUMBER, VOCABULARY_VALIDATION, compile_multiple_of},
    {KW_MINIMUM, KW_MINIMUM, TYPE_NUMBER, VOCABULARY_VALIDATION, compile_bound},
    {KW_MAXIMUM, KW_MAXIMUM, TYPE_NUMBER, VOCABULARY_VALIDATION, compile_bound},
    {KW_EXCLUSIVE_MINIMUM, KW_EXCLUSIVE_MINIMUM, TYPE_NUMBER, VOCABULARY_VALIDATION, compile_bound},
    {KW_EXCLUSIVE_MAXIMUM, KW_EXCLUSIVE_MAXIMUM, TYPE_NUMBER, VOCABULARY_VALIDATION, compile_bound},
    {KW_MIN_LENGTH, KW_MIN_LENGTH, TYPE_STRING, VOCABULARY_VALIDATION, compile_limit},
    {KW_MAX_LENGTH, KW_MAX_LENGTH, TYPE_STRING, VOCABULARY_VALIDATION, compile_limit},
    {KW_PATTERN, KW_PATTERN, TYPE_STRING, VOCABULARY_VALIDATION, compile_pattern},
    {KW_FORMAT, KW_FORMAT, TYPE_STRING, VOCABULARY_CORE, compile_format},
    {KW_MIN_ITEMS, KW_MIN_ITEMS, TYPE_ARRAY, VOCABULARY_VALIDATION, compile_limit},
    {KW_MAX_ITEMS, KW_MAX_ITEMS, TYPE_ARRAY, VOCABULARY_VALIDATION, compile_limit},
    {KW_UNIQUE_ITEMS, KW_UNIQUE_ITEMS, TYPE_ARRAY, VOCABULARY_VALIDATION, compile_unique},
    {KW_MIN_PROPERTIES, KW_MIN_PROPERTIES, TYPE_OBJECT, VOCABULARY_VALIDATION, compile_limit},
    {KW_MAX_PROPERTIES, KW_MAX_PROPERTIES, TYPE_OBJECT, VOCABULARY_VALIDATION, compile_limit},
};

int schema_compile_asserts(struct schema_compiler *compiler, struct schema_node *node)
{
    int code = compile_type(compiler, node);
    return code == OK ? schema_rules_compile(compiler, rules, ARRAY_LEN(rules)) : code;
}
