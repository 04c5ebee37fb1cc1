/*
 * schema_rules: compiles each keyword: assertions (JSON Schema Validation 6), which check the
 * instance itself, and applicators (Core 10, 11), which apply subschemas to it or to its parts.
 * Wrong values of keywords are refused here, when a manifest loads, and not ignored as in some
 * validators: with a typing error in it, a schema would accept everything.
 */
#include "schema/compile.h"

/* How a keyword of the current node is compiled. KW_COUNT: several keywords are read together,
 * and `compile` gets NULL. */
struct schema_rule {
    uint8_t keyword, kind; /* enum keyword; kind is the op's */
    uint8_t types;         /* the types of instances that the op checks */
    int (*compile)(struct schema_compiler *, const struct schema_rule *, const struct json *);
};

/* Adds a cleared op with its kind and types set. */
static struct schema_op *op_add(struct schema_compiler *compiler, const struct schema_rule *rule)
{
    /* Each rule adds at most one op, and there are fewer rules than SCHEMA_OPS_MAX. */
    ASSERT(compiler->op_count < SCHEMA_OPS_MAX);
    struct schema_op *op = &compiler->ops[compiler->op_count++];
    *op = (struct schema_op){.kind = rule->kind, .types = rule->types};
    return op;
}

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
    if (!type)
        return OK;
    bool is_list = type->type == JSON_ARRAY;
    uint32_t count = is_list ? type->count : 1;
    unsigned types = 0;
    for (uint32_t i = 0; i < count; i++) {
        slice name = json_str(is_list ? &type->as.items[i] : type);
        unsigned bit = name.ptr ? type_bit(name) : 0;
        /* No bit: the name is not a known type, or the value is not a string. */
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
    struct schema_op *op = op_add(compiler, rule);
    op->as.value = value;
    /* The maximum cost of a comparison with the value, computed once. */
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
    struct schema_op *op = op_add(compiler, rule);
    op->as.divisor = divisor;
    return OK;
}

/* Reads a keyword's count, clamped to 64 bits. */
static int read_limit(struct schema_compiler *compiler, enum keyword keyword,
                      const struct json *value, uint64_t *count)
{
    int64_t number = 0;
    if (!json_is_number(value) || !json_number_is_integer(value) || json_to_double(value) < 0)
        return schema_fail(compiler, ERR_INVALID, keyword, "must be a non-negative integer");
    /* No length exceeds int64, so any larger limit becomes UINT64_MAX. */
    *count = json_to_i64(value, &number) ? (uint64_t)number : UINT64_MAX;
    return OK;
}

static int compile_limit(struct schema_compiler *compiler, const struct schema_rule *rule,
                         const struct json *value)
{
    uint64_t limit = 0;
    int code = read_limit(compiler, rule->keyword, value, &limit);
    if (code == OK)
        op_add(compiler, rule)->as.limit = limit;
    return code;
}

static int compile_unique(struct schema_compiler *compiler, const struct schema_rule *rule,
                          const struct json *value)
{
    if (value->type != JSON_BOOL)
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be true or false");
    if (value->as.boolean)
        (void)op_add(compiler, rule);
    return OK;
}

static int compile_pattern(struct schema_compiler *compiler, const struct schema_rule *rule,
                           const struct json *value)
{
    if (value->type != JSON_STRING)
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be a string");
    const struct schema_pattern *pattern =
        schema_pattern_of(compiler, rule->keyword, json_str(value));
    if (!pattern)
        return compiler->err->code;
    op_add(compiler, rule)->as.pattern = pattern;
    return OK;
}

static int compile_format(struct schema_compiler *compiler, const struct schema_rule *rule,
                          const struct json *value)
{
    if (value->type != JSON_STRING)
        return schema_fail(compiler, ERR_INVALID, rule->keyword, "must be a string");
    /* An unknown format passes (schema.h). */
    const struct schema_format *format = schema_format_find(json_str(value));
    if (!compiler->assert_formats || !format)
        return OK;
    if (format->source) {
        struct schema_format *own = ARENA_NEW(compiler->arena, struct schema_format);
        if (!own)
            return schema_fail_memory(compiler);
        *own = *format;
        own->pattern = schema_pattern_of(compiler, rule->keyword, slice_cstr(own->source));
        if (!own->pattern)
            return compiler->err->code;
        format = own;
    }
    op_add(compiler, rule)->as.format = format;
    return OK;
}

static int node_into(struct schema_compiler *compiler, const struct json *source,
                     const struct schema_node **node)
{
    *node = NULL;
    if (!source)
        return OK;
    /* The node may be compiled later: it is queued, so nesting in the schema does not recurse
     * here. */
    *node = schema_node_for(compiler, source, compiler->node->resource);
    return *node ? OK : (int)compiler->err->code;
}

/* Reads the nodes of a list of subschemas; *nodes stays NULL for an empty list. */
static int nodes_into(struct schema_compiler *compiler, enum keyword keyword,
                      const struct json *list, const struct schema_node *const **nodes)
{
    if (list->type != JSON_ARRAY || list->count == 0)
        return schema_fail(compiler, ERR_INVALID, keyword, "must be a non-empty array of schemas");
    const struct schema_node **made =
        ARENA_ARRAY(compiler->arena, const struct schema_node *, list->count);
    if (!made)
        return schema_fail_memory(compiler);
    for (uint32_t i = 0; i < list->count; i++) {
        int code = node_into(compiler, &list->as.items[i], &made[i]);
        if (code != OK)
            return code;
    }
    *nodes = made;
    return OK;
}

/* ---- objects ---- */

struct property_table {
    struct schema_property *properties;
    uint32_t *slots;
    uint32_t mask;
    uint32_t count;
};

static int table_new(struct schema_compiler *compiler, struct property_table *table, uint32_t max)
{
    uint32_t slot_count = 4;
    /* At most half full, so that the lookup of an unknown name ends early. */
    while (slot_count < max * 2)
        slot_count *= 2;
    table->properties = ARENA_ARRAY(compiler->arena, struct schema_property, max);
    table->slots = ARENA_ARRAY(compiler->arena, uint32_t, slot_count);
    table->mask = slot_count - 1;
    table->count = 0;
    return table->properties && table->slots ? OK : schema_fail_memory(compiler);
}

/* Returns the property of that name, created if it does not exist. */
static struct schema_property *table_enter(struct property_table *table, slice name)
{
    /* Hashed with the process's SipHash key: clients choose the property names of instances. */
    uint32_t at = (uint32_t)hash_bytes(name.ptr, name.len) & table->mask;
    for (; table->slots[at]; at = (at + 1) & table->mask) {
        struct schema_property *known = &table->properties[table->slots[at] - 1];
        if (slice_eq(known->name, name))
            return known;
    }
    struct schema_property *made = &table->properties[table->count++];
    made->name = name;
    table->slots[at] = table->count;
    return made;
}

static int enter_properties(struct schema_compiler *compiler, struct property_table *table,
                            const struct json *properties)
{
    for (uint32_t i = 0; properties && i < properties->count; i++) {
        const struct json_member *member = &properties->as.members[i];
        /* A property may have been added by `required` alone; its node is still NULL then. */
        struct schema_property *property = table_enter(table, json_str(&member->key));
        int code = node_into(compiler, &member->value, &property->node);
        if (code != OK)
            return code;
    }
    return OK;
}

static int enter_required(struct schema_compiler *compiler, struct property_table *table,
                          const struct json *required, uint32_t *count)
{
    for (uint32_t i = 0; required && i < required->count; i++) {
        const struct json *name = &required->as.items[i];
        if (name->type != JSON_STRING)
            return schema_fail(compiler, ERR_INVALID, KW_REQUIRED, "must be an array of names");
        struct schema_property *property = table_enter(table, json_str(name));
        /* A name that is listed twice counts once, because the validation only counts the
         * required members found. */
        *count += !property->is_required;
        property->is_required = true;
    }
    return OK;
}

static int compile_patterns(struct schema_compiler *compiler, const struct json *source,
                            struct schema_object *object)
{
    if (!source || source->count == 0)
        return OK;
    struct schema_pattern_property *patterns =
        ARENA_ARRAY(compiler->arena, struct schema_pattern_property, source->count);
    if (!patterns)
        return schema_fail_memory(compiler);
    for (uint32_t i = 0; i < source->count; i++) {
        const struct json_member *member = &source->as.members[i];
        patterns[i].pattern =
            schema_pattern_of(compiler, KW_PATTERN_PROPERTIES, json_str(&member->key));
        if (!patterns[i].pattern)
            return compiler->err->code;
        int code = node_into(compiler, &member->value, &patterns[i].node);
        if (code != OK)
            return code;
    }
    object->patterns = patterns;
    object->pattern_count = source->count;
    return OK;
}

static int check_map(struct schema_compiler *compiler, enum keyword keyword,
                     const struct json *value)
{
    if (value && value->type != JSON_OBJECT)
        return schema_fail(compiler, ERR_INVALID, keyword, "must be an object");
    return OK;
}

static int fill_object(struct schema_compiler *compiler, struct schema_object *object)
{
    const struct json *properties = compiler->keywords[KW_PROPERTIES];
    const struct json *required = compiler->keywords[KW_REQUIRED];
    struct property_table table;
    int code = check_map(compiler, KW_PROPERTIES, properties);
    if (code == OK && required && required->type != JSON_ARRAY)
        code = schema_fail(compiler, ERR_INVALID, KW_REQUIRED, "must be an array of names");
    if (code != OK)
        return code;
    /* properties and required share a table, so that each member needs one lookup. Both counts
     * have 32 bits, and their sum is limited before it is used as a size. */
    uint64_t max =
        (properties ? properties->count : 0) + (uint64_t)(required ? required->count : 0);
    if (max > SCHEMA_NODES_MAX)
        return schema_fail(compiler, ERR_LIMIT, KW_PROPERTIES, "more than %d properties",
                           SCHEMA_NODES_MAX);
    code = table_new(compiler, &table, (uint32_t)max + 1); /* never an empty block */
    if (code == OK)
        code = enter_properties(compiler, &table, properties);
    if (code == OK)
        code = enter_required(compiler, &table, required, &object->required_count);
    object->properties = table.properties;
    object->property_count = table.count;
    object->slots = table.slots;
    object->slot_mask = table.mask;
    return code;
}

static int compile_object(struct schema_compiler *compiler, const struct schema_rule *rule,
                          const struct json *patterns)
{
    const struct json *additional = compiler->keywords[KW_ADDITIONAL_PROPERTIES];
    patterns = compiler->keywords[KW_PATTERN_PROPERTIES];
    if (!compiler->keywords[KW_PROPERTIES] && !compiler->keywords[KW_REQUIRED] && !patterns &&
        !additional)
        return OK;
    struct schema_object *object = ARENA_NEW(compiler->arena, struct schema_object);
    if (!object)
        return schema_fail_memory(compiler);
    int code = fill_object(compiler, object);
    if (code == OK)
        code = check_map(compiler, KW_PATTERN_PROPERTIES, patterns);
    if (code == OK)
        code = compile_patterns(compiler, patterns, object);
    if (code == OK)
        code = node_into(compiler, additional, &object->additional);
    if (code == OK)
        op_add(compiler, rule)->as.object = object;
    return code;
}

/* ---- dependencies ---- */

static bool is_name_list(const struct json *value)
{
    if (value->type != JSON_ARRAY)
        return false;
    for (uint32_t i = 0; i < value->count; i++) {
        if (value->as.items[i].type != JSON_STRING)
            return false;
    }
    return true;
}

/* A keyword becomes one op for all its lists of names, and one for all its subschemas.
 * `dependencies` is the keyword of older drafts that 2020-12 split: it has one rule for each of
 * its meanings. */
static int compile_dependencies(struct schema_compiler *compiler, const struct schema_rule *rule,
                                const struct json *source)
{
    int code = check_map(compiler, rule->keyword, source);
    if (code != OK || source->count == 0)
        return code;
    bool wants_names = rule->kind == KW_DEPENDENT_REQUIRED;
    struct schema_dependency *made =
        ARENA_ARRAY(compiler->arena, struct schema_dependency, source->count);
    if (!made)
        return schema_fail_memory(compiler);
    uint32_t count = 0;
    for (uint32_t i = 0; i < source->count && code == OK; i++) {
        const struct json *value = &source->as.members[i].value;
        /* For `dependencies`, one rule handles the lists and the other handles the schemas. */
        if (rule->keyword == KW_DEPENDENCIES && (value->type == JSON_ARRAY) != wants_names)
            continue;
        if (wants_names && !is_name_list(value))
            return schema_fail(compiler, ERR_INVALID, rule->keyword,
                               "must be an object of arrays of names");
        made[count].name = json_str(&source->as.members[i].key);
        made[count].keyword = rule->keyword;
        if (wants_names)
            made[count].required = value;
        else
            code = node_into(compiler, value, &made[count].node);
        count++;
    }
    if (code != OK || count == 0)
        return code;
    struct schema_op *op = op_add(compiler, rule);
    op->as.dependencies = made;
    op->count = count;
    return OK;
}

/* ---- arrays ---- */

static int compile_items(struct schema_compiler *compiler, const struct schema_rule *rule,
                         const struct json *rest)
{
    const struct json *prefix = compiler->keywords[KW_PREFIX_ITEMS];
    rest = compiler->keywords[KW_ITEMS];
    if (!prefix && !rest)
        return OK;
    struct schema_items *items = ARENA_NEW(compiler->arena, struct schema_items);
    if (!items)
        return schema_fail_memory(compiler);
    int code = OK;
    if (prefix) {
        code = nodes_into(compiler, KW_PREFIX_ITEMS, prefix, &items->prefix);
        items->prefix_count = prefix->count;
    }
    /* Older drafts allowed a list here; read as one schema it would silently check nothing. */
    if (code == OK && rest && rest->type == JSON_ARRAY)
        code = schema_fail(compiler, ERR_INVALID, KW_ITEMS,
                           "must be one schema; a list of them is prefixItems since 2020-12");
    if (code == OK)
        code = node_into(compiler, rest, &items->rest);
    if (code == OK)
        op_add(compiler, rule)->as.items = items;
    return code;
}

static int compile_contains(struct schema_compiler *compiler, const struct schema_rule *rule,
                            const struct json *source)
{
    struct schema_contains *contains = ARENA_NEW(compiler->arena, struct schema_contains);
    if (!contains)
        return schema_fail_memory(compiler);
    /* Without minContains at least one item must match (Validation 6.4.5). */
    contains->min = 1;
    contains->max = UINT64_MAX;
    const struct json *min = compiler->keywords[KW_MIN_CONTAINS];
    const struct json *max = compiler->keywords[KW_MAX_CONTAINS];
    contains->has_min = min != NULL;
    int code = node_into(compiler, source, &contains->node);
    if (code == OK && min)
        code = read_limit(compiler, KW_MIN_CONTAINS, min, &contains->min);
    if (code == OK && max)
        code = read_limit(compiler, KW_MAX_CONTAINS, max, &contains->max);
    if (code == OK)
        op_add(compiler, rule)->as.contains = contains;
    return code;
}

/* ---- in place ---- */

/* Returns the target of a $ref or $dynamicRef. */
static const struct schema_node *referred(struct schema_compiler *compiler, enum keyword keyword,
                                          const struct json *reference, slice *anchor)
{
    const struct json *source = NULL;
    const struct schema_resource *resource = NULL;
    if (reference->type != JSON_STRING)
        schema_fail(compiler, ERR_INVALID, keyword, "must be a URI reference");
    else if (schema_ref_resolve(compiler, keyword, json_str(reference), &source, &resource,
                                anchor) == OK)
        return schema_node_for(compiler, source, resource);
    return NULL;
}

static int compile_ref(struct schema_compiler *compiler, const struct schema_rule *rule,
                       const struct json *reference)
{
    slice anchor;
    const struct schema_node *node = referred(compiler, KW_REF, reference, &anchor);
    if (!node)
        return compiler->err->code;
    op_add(compiler, rule)->as.node = node;
    return OK;
}

static int compile_dynamic_ref(struct schema_compiler *compiler, const struct schema_rule *rule,
                               const struct json *reference)
{
    struct schema_dynamic_ref *made = ARENA_NEW(compiler->arena, struct schema_dynamic_ref);
    if (!made)
        return schema_fail_memory(compiler);
    made->target = referred(compiler, KW_DYNAMIC_REF, reference, &made->anchor);
    if (!made->target)
        return compiler->err->code;
    /* Dynamic anchors are collected only if a reference may need them. */
    compiler->has_dynamic_ref |= made->anchor.len > 0;
    op_add(compiler, rule)->as.dynamic_ref = made;
    return OK;
}

static int compile_list(struct schema_compiler *compiler, const struct schema_rule *rule,
                        const struct json *list)
{
    const struct schema_node *const *nodes = NULL;
    int code = nodes_into(compiler, rule->keyword, list, &nodes);
    if (code != OK)
        return code;
    struct schema_op *op = op_add(compiler, rule);
    op->as.nodes = nodes;
    op->count = list->count;
    return OK;
}

static int compile_one(struct schema_compiler *compiler, const struct schema_rule *rule,
                       const struct json *source)
{
    const struct schema_node *node = NULL;
    int code = node_into(compiler, source, &node);
    if (code == OK)
        op_add(compiler, rule)->as.node = node;
    return code;
}

/* Without `if` the keywords then and else have no effect (Core 10.2.2). */
static int compile_if(struct schema_compiler *compiler, const struct schema_rule *rule,
                      const struct json *condition)
{
    struct schema_if *branches = ARENA_NEW(compiler->arena, struct schema_if);
    if (!branches)
        return schema_fail_memory(compiler);
    int code = node_into(compiler, condition, &branches->condition);
    if (code == OK)
        code = node_into(compiler, compiler->keywords[KW_THEN], &branches->consequence);
    if (code == OK)
        code = node_into(compiler, compiler->keywords[KW_ELSE], &branches->alternative);
    if (code == OK)
        op_add(compiler, rule)->as.branches = branches;
    return code;
}

/* ---- the table ---- */

/* Cheap ops first, and unevaluated* last, since they need the members evaluated by all others
 * (Core 11). */
static const struct schema_rule rules[] = {
    {KW_CONST, KW_CONST, TYPE_ANY, compile_const},
    {KW_ENUM, KW_ENUM, TYPE_ANY, compile_enum},
    {KW_MULTIPLE_OF, KW_MULTIPLE_OF, TYPE_NUMBER, compile_multiple_of},
    {KW_MINIMUM, KW_MINIMUM, TYPE_NUMBER, compile_bound},
    {KW_MAXIMUM, KW_MAXIMUM, TYPE_NUMBER, compile_bound},
    {KW_EXCLUSIVE_MINIMUM, KW_EXCLUSIVE_MINIMUM, TYPE_NUMBER, compile_bound},
    {KW_EXCLUSIVE_MAXIMUM, KW_EXCLUSIVE_MAXIMUM, TYPE_NUMBER, compile_bound},
    {KW_MIN_LENGTH, KW_MIN_LENGTH, TYPE_STRING, compile_limit},
    {KW_MAX_LENGTH, KW_MAX_LENGTH, TYPE_STRING, compile_limit},
    {KW_PATTERN, KW_PATTERN, TYPE_STRING, compile_pattern},
    {KW_FORMAT, KW_FORMAT, TYPE_STRING, compile_format},
    {KW_MIN_ITEMS, KW_MIN_ITEMS, TYPE_ARRAY, compile_limit},
    {KW_MAX_ITEMS, KW_MAX_ITEMS, TYPE_ARRAY, compile_limit},
    {KW_UNIQUE_ITEMS, KW_UNIQUE_ITEMS, TYPE_ARRAY, compile_unique},
    {KW_MIN_PROPERTIES, KW_MIN_PROPERTIES, TYPE_OBJECT, compile_limit},
    {KW_MAX_PROPERTIES, KW_MAX_PROPERTIES, TYPE_OBJECT, compile_limit},
    {KW_DEPENDENT_REQUIRED, KW_DEPENDENT_REQUIRED, TYPE_OBJECT, compile_dependencies},
    {KW_DEPENDENCIES, KW_DEPENDENT_REQUIRED, TYPE_OBJECT, compile_dependencies},
    {KW_COUNT, KW_PROPERTIES, TYPE_OBJECT, compile_object},
    {KW_PROPERTY_NAMES, KW_PROPERTY_NAMES, TYPE_OBJECT, compile_one},
    {KW_COUNT, KW_ITEMS, TYPE_ARRAY, compile_items},
    {KW_CONTAINS, KW_CONTAINS, TYPE_ARRAY, compile_contains},
    {KW_DEPENDENT_SCHEMAS, KW_DEPENDENT_SCHEMAS, TYPE_OBJECT, compile_dependencies},
    {KW_DEPENDENCIES, KW_DEPENDENT_SCHEMAS, TYPE_OBJECT, compile_dependencies},
    {KW_REF, KW_REF, TYPE_ANY, compile_ref},
    {KW_DYNAMIC_REF, KW_DYNAMIC_REF, TYPE_ANY, compile_dynamic_ref},
    {KW_ALL_OF, KW_ALL_OF, TYPE_ANY, compile_list},
    {KW_ANY_OF, KW_ANY_OF, TYPE_ANY, compile_list},
    {KW_ONE_OF, KW_ONE_OF, TYPE_ANY, compile_list},
    {KW_NOT, KW_NOT, TYPE_ANY, compile_one},
    {KW_IF, KW_IF, TYPE_ANY, compile_if},
    {KW_UNEVALUATED_ITEMS, KW_UNEVALUATED_ITEMS, TYPE_ARRAY, compile_one},
    {KW_UNEVALUATED_PROPERTIES, KW_UNEVALUATED_PROPERTIES, TYPE_OBJECT, compile_one},
};

int schema_rules_compile(struct schema_compiler *compiler, struct schema_node *node)
{
    int code = compile_type(compiler, node);
    for (size_t i = 0; i < ARRAY_LEN(rules) && code == OK; i++) {
        bool is_compound = rules[i].keyword == KW_COUNT;
        const struct json *value = is_compound ? NULL : compiler->keywords[rules[i].keyword];
        if (value || is_compound)
            code = rules[i].compile(compiler, &rules[i], value);
    }
    return code;
}
