/*
 * The keywords of JSON Schema 2020-12 that mean something to the compiler, and where each of them
 * holds subschemas.
 */
#ifndef SCHEMA_KEYWORD_H
#define SCHEMA_KEYWORD_H

#include "base/slice.h"

/* In the order of their names, which keyword_find relies on. */
enum keyword {
    KW_ANCHOR,
    KW_DEFS,
    KW_DYNAMIC_ANCHOR,
    KW_DYNAMIC_REF,
    KW_ID,
    KW_REF,
    KW_SCHEMA,
    KW_ADDITIONAL_PROPERTIES,
    KW_ALL_OF,
    KW_ANY_OF,
    KW_CONST,
    KW_CONTAINS,
    KW_CONTENT_SCHEMA,
    KW_DEFINITIONS,
    KW_DEPENDENCIES,
    KW_DEPENDENT_REQUIRED,
    KW_DEPENDENT_SCHEMAS,
    KW_ELSE,
    KW_ENUM,
    KW_EXCLUSIVE_MAXIMUM,
    KW_EXCLUSIVE_MINIMUM,
    KW_FORMAT,
    KW_IF,
    KW_ITEMS,
    KW_MAX_CONTAINS,
    KW_MAX_ITEMS,
    KW_MAX_LENGTH,
    KW_MAX_PROPERTIES,
    KW_MAXIMUM,
    KW_MIN_CONTAINS,
    KW_MIN_ITEMS,
    KW_MIN_LENGTH,
    KW_MIN_PROPERTIES,
    KW_MINIMUM,
    KW_MULTIPLE_OF,
    KW_NOT,
    KW_ONE_OF,
    KW_PATTERN,
    KW_PATTERN_PROPERTIES,
    KW_PREFIX_ITEMS,
    KW_PROPERTIES,
    KW_PROPERTY_NAMES,
    KW_REQUIRED,
    KW_THEN,
    KW_TYPE,
    KW_UNEVALUATED_ITEMS,
    KW_UNEVALUATED_PROPERTIES,
    KW_UNIQUE_ITEMS,
    KW_COUNT, /* also: none of them */
};

enum keyword_holds { HOLDS_NOTHING, HOLDS_SCHEMA, HOLDS_LIST, HOLDS_MAP };

enum keyword keyword_find(slice name);
slice keyword_name(enum keyword keyword);
enum keyword_holds keyword_holds(enum keyword keyword);

#endif
