/*
 * schema_keyword: the table of keywords in the order of their names, for binary search. The order
 * is that of the enum. holds says where subschemas are, so that an "$id"
 * in an enum or const is not taken for an identifier.
 */
#include "schema/keyword.h"

#include <stdlib.h>

static const struct row {
    slice name;
    enum keyword_holds holds;
} keywords[KW_COUNT] = {
    [KW_ANCHOR] = {SLICE_INIT("$anchor"), HOLDS_NOTHING},
    [KW_DEFS] = {SLICE_INIT("$defs"), HOLDS_MAP},
    [KW_DYNAMIC_ANCHOR] = {SLICE_INIT("$dynamicAnchor"), HOLDS_NOTHING},
    [KW_DYNAMIC_REF] = {SLICE_INIT("$dynamicRef"), HOLDS_NOTHING},
    [KW_ID] = {SLICE_INIT("$id"), HOLDS_NOTHING},
    [KW_REF] = {SLICE_INIT("$ref"), HOLDS_NOTHING},
    [KW_SCHEMA] = {SLICE_INIT("$schema"), HOLDS_NOTHING},
    [KW_ADDITIONAL_PROPERTIES] = {SLICE_INIT("additionalProperties"), HOLDS_SCHEMA},
    [KW_ALL_OF] = {SLICE_INIT("allOf"), HOLDS_LIST},
    [KW_ANY_OF] = {SLICE_INIT("anyOf"), HOLDS_LIST},
    [KW_CONST] = {SLICE_INIT("const"), HOLDS_NOTHING},
    [KW_CONTAINS] = {SLICE_INIT("contains"), HOLDS_SCHEMA},
    [KW_CONTENT_SCHEMA] = {SLICE_INIT("contentSchema"), HOLDS_SCHEMA},
    [KW_DEFINITIONS] = {SLICE_INIT("definitions"), HOLDS_MAP},
    [KW_DEPENDENCIES] = {SLICE_INIT("dependencies"), HOLDS_MAP},
    [KW_DEPENDENT_REQUIRED] = {SLICE_INIT("dependentRequired"), HOLDS_NOTHING},
    [KW_DEPENDENT_SCHEMAS] = {SLICE_INIT("dependentSchemas"), HOLDS_MAP},
    [KW_ELSE] = {SLICE_INIT("else"), HOLDS_SCHEMA},
    [KW_ENUM] = {SLICE_INIT("enum"), HOLDS_NOTHING},
    [KW_EXCLUSIVE_MAXIMUM] = {SLICE_INIT("exclusiveMaximum"), HOLDS_NOTHING},
    [KW_EXCLUSIVE_MINIMUM] = {SLICE_INIT("exclusiveMinimum"), HOLDS_NOTHING},
    [KW_FORMAT] = {SLICE_INIT("format"), HOLDS_NOTHING},
    [KW_IF] = {SLICE_INIT("if"), HOLDS_SCHEMA},
    [KW_ITEMS] = {SLICE_INIT("items"), HOLDS_SCHEMA},
    [KW_MAX_CONTAINS] = {SLICE_INIT("maxContains"), HOLDS_NOTHING},
    [KW_MAX_ITEMS] = {SLICE_INIT("maxItems"), HOLDS_NOTHING},
    [KW_MAX_LENGTH] = {SLICE_INIT("maxLength"), HOLDS_NOTHING},
    [KW_MAX_PROPERTIES] = {SLICE_INIT("maxProperties"), HOLDS_NOTHING},
    [KW_MAXIMUM] = {SLICE_INIT("maximum"), HOLDS_NOTHING},
    [KW_MIN_CONTAINS] = {SLICE_INIT("minContains"), HOLDS_NOTHING},
    [KW_MIN_ITEMS] = {SLICE_INIT("minItems"), HOLDS_NOTHING},
    [KW_MIN_LENGTH] = {SLICE_INIT("minLength"), HOLDS_NOTHING},
    [KW_MIN_PROPERTIES] = {SLICE_INIT("minProperties"), HOLDS_NOTHING},
    [KW_MINIMUM] = {SLICE_INIT("minimum"), HOLDS_NOTHING},
    [KW_MULTIPLE_OF] = {SLICE_INIT("multipleOf"), HOLDS_NOTHING},
    [KW_NOT] = {SLICE_INIT("not"), HOLDS_SCHEMA},
    [KW_ONE_OF] = {SLICE_INIT("oneOf"), HOLDS_LIST},
    [KW_PATTERN] = {SLICE_INIT("pattern"), HOLDS_NOTHING},
    [KW_PATTERN_PROPERTIES] = {SLICE_INIT("patternProperties"), HOLDS_MAP},
    [KW_PREFIX_ITEMS] = {SLICE_INIT("prefixItems"), HOLDS_LIST},
    [KW_PROPERTIES] = {SLICE_INIT("properties"), HOLDS_MAP},
    [KW_PROPERTY_NAMES] = {SLICE_INIT("propertyNames"), HOLDS_SCHEMA},
    [KW_REQUIRED] = {SLICE_INIT("required"), HOLDS_NOTHING},
    [KW_THEN] = {SLICE_INIT("then"), HOLDS_SCHEMA},
    [KW_TYPE] = {SLICE_INIT("type"), HOLDS_NOTHING},
    [KW_UNEVALUATED_ITEMS] = {SLICE_INIT("unevaluatedItems"), HOLDS_SCHEMA},
    [KW_UNEVALUATED_PROPERTIES] = {SLICE_INIT("unevaluatedProperties"), HOLDS_SCHEMA},
    [KW_UNIQUE_ITEMS] = {SLICE_INIT("uniqueItems"), HOLDS_NOTHING},
};

static int by_name(const void *name, const void *keyword)
{
    return slice_cmp(*(const slice *)name, *(const slice *)keyword);
}

enum keyword keyword_find(slice name)
{
    /* A row begins with its name. */
    const void *found = bsearch(&name, keywords, KW_COUNT, sizeof(*keywords), by_name);
    return found ? (enum keyword)((const struct row *)found - keywords) : KW_COUNT;
}

slice keyword_name(enum keyword keyword)
{
    return keyword < KW_COUNT ? keywords[keyword].name : SLICE("");
}

enum keyword_holds keyword_holds(enum keyword keyword)
{
    return keyword < KW_COUNT ? keywords[keyword].holds : HOLDS_NOTHING;
}
