/*
 * The keywords of JSON Schema 2020-12 that the compiler knows, and where each of them contains
 * subschemas.
 */
#ifndef SCHEMA_KEYWORD_H
#define SCHEMA_KEYWORD_H

#include "base/slice.h"

enum keyword_holds { HOLDS_NOTHING, HOLDS_SCHEMA, HOLDS_LIST, HOLDS_MAP };

/* Each keyword's name, and what its value contains, so that an "$id" in an enum or const is not
 * mistaken for an identifier. Sorted by name, which keyword_find relies on. */
#define SCHEMA_KEYWORDS(X)                                              \
    X(KW_ANCHOR, "$anchor", HOLDS_NOTHING)                              \
    X(KW_DEFS, "$defs", HOLDS_MAP)                                      \
    X(KW_DYNAMIC_ANCHOR, "$dynamicAnchor", HOLDS_NOTHING)               \
    X(KW_DYNAMIC_REF, "$dynamicRef", HOLDS_NOTHING)                     \
    X(KW_ID, "$id", HOLDS_NOTHING)                                      \
    X(KW_REF, "$ref", HOLDS_NOTHING)                                    \
    X(KW_SCHEMA, "$schema", HOLDS_NOTHING)                              \
    X(KW_ADDITIONAL_PROPERTIES, "additionalProperties", HOLDS_SCHEMA)   \
    X(KW_ALL_OF, "allOf", HOLDS_LIST)                                   \
    X(KW_ANY_OF, "anyOf", HOLDS_LIST)                                   \
    X(KW_CONST, "const", HOLDS_NOTHING)                                 \
    X(KW_CONTAINS, "contains", HOLDS_SCHEMA)                            \
    X(KW_CONTENT_SCHEMA, "contentSchema", HOLDS_SCHEMA)                 \
    X(KW_DEFINITIONS, "definitions", HOLDS_MAP)                         \
    X(KW_DEPENDENCIES, "dependencies", HOLDS_MAP)                       \
    X(KW_DEPENDENT_REQUIRED, "dependentRequired", HOLDS_NOTHING)        \
    X(KW_DEPENDENT_SCHEMAS, "dependentSchemas", HOLDS_MAP)              \
    X(KW_ELSE, "else", HOLDS_SCHEMA)                                    \
    X(KW_ENUM, "enum", HOLDS_NOTHING)                                   \
    X(KW_EXCLUSIVE_MAXIMUM, "exclusiveMaximum", HOLDS_NOTHING)          \
    X(KW_EXCLUSIVE_MINIMUM, "exclusiveMinimum", HOLDS_NOTHING)          \
    X(KW_FORMAT, "format", HOLDS_NOTHING)                               \
    X(KW_IF, "if", HOLDS_SCHEMA)                                        \
    X(KW_ITEMS, "items", HOLDS_SCHEMA)                                  \
    X(KW_MAX_CONTAINS, "maxContains", HOLDS_NOTHING)                    \
    X(KW_MAX_ITEMS, "maxItems", HOLDS_NOTHING)                          \
    X(KW_MAX_LENGTH, "maxLength", HOLDS_NOTHING)                        \
    X(KW_MAX_PROPERTIES, "maxProperties", HOLDS_NOTHING)                \
    X(KW_MAXIMUM, "maximum", HOLDS_NOTHING)                             \
    X(KW_MIN_CONTAINS, "minContains", HOLDS_NOTHING)                    \
    X(KW_MIN_ITEMS, "minItems", HOLDS_NOTHING)                          \
    X(KW_MIN_LENGTH, "minLength", HOLDS_NOTHING)                        \
    X(KW_MIN_PROPERTIES, "minProperties", HOLDS_NOTHING)                \
    X(KW_MINIMUM, "minimum", HOLDS_NOTHING)                             \
    X(KW_MULTIPLE_OF, "multipleOf", HOLDS_NOTHING)                      \
    X(KW_NOT, "not", HOLDS_SCHEMA)                                      \
    X(KW_ONE_OF, "oneOf", HOLDS_LIST)                                   \
    X(KW_PATTERN, "pattern", HOLDS_NOTHING)                             \
    X(KW_PATTERN_PROPERTIES, "patternProperties", HOLDS_MAP)            \
    X(KW_PREFIX_ITEMS, "prefixItems", HOLDS_LIST)                       \
    X(KW_PROPERTIES, "properties", HOLDS_MAP)                           \
    X(KW_PROPERTY_NAMES, "propertyNames", HOLDS_SCHEMA)                 \
    X(KW_REQUIRED, "required", HOLDS_NOTHING)                           \
    X(KW_THEN, "then", HOLDS_SCHEMA)                                    \
    X(KW_TYPE, "type", HOLDS_NOTHING)                                   \
    X(KW_UNEVALUATED_ITEMS, "unevaluatedItems", HOLDS_SCHEMA)           \
    X(KW_UNEVALUATED_PROPERTIES, "unevaluatedProperties", HOLDS_SCHEMA) \
    X(KW_UNIQUE_ITEMS, "uniqueItems", HOLDS_NOTHING)

#define KEYWORD_ENUM(keyword, ...) keyword,
enum keyword {
    SCHEMA_KEYWORDS(KEYWORD_ENUM) KW_COUNT /* KW_COUNT also means: no keyword */
};
#undef KEYWORD_ENUM

enum keyword keyword_find(slice name);
slice keyword_name(enum keyword keyword);
enum keyword_holds keyword_holds(enum keyword keyword);

#endif
