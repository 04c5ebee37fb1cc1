/*
 * Compiled patterns. PCRE2 interprets them (no JIT: its memory could not be in an arena) with a
 * callout before every item, which charges the caller's fuel for the characters passed. Only this
 * also catches patterns that are expensive because of long runs: PCRE2's own match limit does not
 * count them.
 */
#ifndef SCHEMA_PATTERN_H
#define SCHEMA_PATTERN_H

#include "base/arena.h"
#include "base/err.h"

struct schema_pattern;

enum schema_match {
    SCHEMA_MATCH_NO,
    SCHEMA_MATCH_YES,
    SCHEMA_MATCH_FUEL, /* out of fuel, or of memory for backtracking */
};

/* Compiles into the arena; nothing to free. Errors: ERR_SYNTAX, ERR_LIMIT, ERR_NOMEM. source is
 * borrowed. */
struct schema_pattern *schema_pattern_compile(struct arena *arena, slice source,
                                              struct err *err) MUST_CHECK;
slice schema_pattern_source(const struct schema_pattern *pattern);
/* Whether the pattern matches anywhere in the text. */
enum schema_match schema_pattern_match(const struct schema_pattern *pattern, slice text,
                                       uint64_t *fuel);

#endif
