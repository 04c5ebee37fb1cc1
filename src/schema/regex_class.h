/*
 * The parts of the regex translator that deal with single characters: escapes and classes. Used by
 * regex.c only.
 */
#ifndef SCHEMA_REGEX_CLASS_H
#define SCHEMA_REGEX_CLASS_H

#include "base/buf.h"
#include "base/err.h"

struct regex_in {
    slice text; /* UTF-8 */
    size_t at;
    struct buf *out; /* NULL: only check */
    struct err *err;
};

enum regex_escape_kind {
    REGEX_CODE_POINT,
    REGEX_LONE_SURROGATE, /* matches nothing: strings are UTF-8 */
    REGEX_SHORTHAND,      /* d D w W */
    REGEX_SPACE,          /* s S: wider than PCRE2's */
    REGEX_PROPERTY,       /* \p{...} */
};

struct regex_escape {
    enum regex_escape_kind kind;
    uint32_t code_point;
    char letter;    /* of a shorthand or space; p or P */
    slice property; /* as PCRE2 names it */
};

/* ERR_SYNTAX, with the offset and why. */
int regex_refuse(const struct regex_in *in, size_t at, const char *why);
void regex_emit(const struct regex_in *in, slice text);
/* prefix, the number in that base, "}": "\\x{2d}" or "\\g{1}". */
void regex_emit_number(const struct regex_in *in, const char *prefix, unsigned number, bool is_hex);
bool regex_is_word(char c);
/* The code point at in->at, which moves behind it. */
uint32_t regex_next_code_point(struct regex_in *in);
/* The escape at in->at (a backslash), which moves behind it; not \b \B \k or a back reference. */
int regex_read_escape(struct regex_in *in, struct regex_escape *escape) MUST_CHECK;
/* As a term outside classes. */
void regex_emit_escape(const struct regex_in *in, const struct regex_escape *escape);
/* The class at in->at (a '['). */
int regex_translate_class(struct regex_in *in) MUST_CHECK;

#endif
