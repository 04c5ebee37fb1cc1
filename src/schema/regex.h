/*
 * ECMA-262 regular expressions in Unicode mode: checked in full, and rewritten for PCRE2. What
 * PCRE2 would read differently is spelled out (\s, '.', \u escapes, classes), what only PCRE2 knows
 * ((?R), (*VERB), possessive quantifiers, \Q...) is refused, so that a pattern means here what it
 * means in every other validator.
 *
 * More lenient than the specification, as patterns in the wild need it: '{', '}' and ']' that
 * start nothing stand for themselves, and so does any escaped ASCII punctuation.
 */
#ifndef SCHEMA_REGEX_H
#define SCHEMA_REGEX_H

#include "base/buf.h"
#include "base/err.h"

struct schema_regex_info {
    unsigned repeat_min_max; /* the largest n of a {n} or {n,...}: what one item may cost unseen */
    bool has_backreference;
};

/* out may be NULL: then the syntax is only checked, without any allocation. ERR_SYNTAX names the
 * byte offset; ERR_LIMIT: groups nested too deep, or a repeat over 65535. */
int schema_regex_translate(slice pattern, struct buf *out, struct schema_regex_info *info,
                           struct err *err) MUST_CHECK;

#endif
