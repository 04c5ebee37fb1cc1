/*
 * ECMA-262 regular expressions in Unicode mode: checked in full, and rewritten for PCRE2. Syntax
 * that PCRE2 would read differently is spelled out (\s, '.', \u escapes, classes). Syntax that only
 * PCRE2 knows ((?R), (*VERB), possessive quantifiers, \Q...) is refused, so that a pattern has the
 * same meaning here as in every other validator.
 *
 * It accepts more than the specification, because existing patterns need it: '{', '}' and ']' that
 * begin nothing are literal, and so is any escaped ASCII punctuation.
 */
#ifndef SCHEMA_REGEX_H
#define SCHEMA_REGEX_H

#include "base/buf.h"
#include "base/err.h"

struct schema_regex_info {
    unsigned repeat_min_max; /* the largest n of a {n} or {n,...}: the maximum cost of one item
                              * between callouts */
    bool has_backreference;
};

/* Translates the pattern. If out is NULL, the syntax is only checked, without any allocation.
 * Returns ERR_SYNTAX (err names the byte offset), or ERR_LIMIT if groups are nested too deep or a
 * repeat is over 65535. */
int schema_regex_translate(slice pattern, struct buf *out, struct schema_regex_info *info,
                           struct err *err) MUST_CHECK;

#endif
