/*
 * YAML 1.2 to JSON values, by the core schema: null, booleans, integers, floats, else text. For
 * files written by people; requests and replies are never YAML.
 *
 * Refused, with line and column: a second document, keys that are not scalars or are duplicates,
 * tags other than !!str, merge keys (<<), numbers that JSON does not have. Each alias counts as the
 * whole value that it repeats, so a few lines cannot expand to billions of values, nor nest deeper
 * than a text may.
 */
#ifndef JSON_YAML_H
#define JSON_YAML_H

#include "json/json.h"

/* The result is in the arena. Returns NULL on ERR_SYNTAX, ERR_LIMIT (depth_max, nodes_max),
 * ERR_NOMEM. */
struct json *yaml_parse(struct arena *arena, slice text, size_t depth_max, size_t nodes_max,
                        struct err *err) MUST_CHECK;

#endif
