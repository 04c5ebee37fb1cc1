/*
 * slice: a pointer to bytes with another owner, and their length; not NUL-terminated. Passed by
 * value. {NULL, 0} means absent where a comment says so; any slice of length 0 is empty.
 */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"

typedef struct slice {
    const char *ptr;
    size_t len;
} slice;

#define SLICE(literal) ((slice){("" literal), sizeof(literal) - 1})
#define SLICE_INIT(literal)               \
    {                                     \
        ("" literal), sizeof(literal) - 1 \
    }
#define SLICE_NONE ((slice){NULL, 0})
/* for printf("%.*s", SLICE_ARG(s)) */
#define SLICE_ARG(s) (int)(s).len, (s).ptr ? (s).ptr : ""

static inline slice slice_of(const void *ptr, size_t len)
{
    return (slice){ptr, len};
}

static inline slice slice_cstr(const char *text)
{
    return text ? (slice){text, strlen(text)} : SLICE_NONE;
}

static inline bool slice_eq(slice a, slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool slice_eq_cstr(slice a, const char *b)
{
    return slice_eq(a, slice_cstr(b));
}

/* Returns s from byte `start` on; a start past the end gives an empty slice. */
static inline slice slice_from(slice s, size_t start)
{
    if (start >= s.len)
        return (slice){s.len ? s.ptr + s.len : s.ptr, 0};
    return (slice){s.ptr + start, s.len - start};
}

static inline slice slice_first(slice s, size_t len)
{
    return (slice){s.ptr, len < s.len ? len : s.len};
}

/* Compares without regard to ASCII case, as for HTTP header names (RFC 9110 5.1). */
bool slice_eq_nocase_bytes(const char *a, const char *b, size_t len);
static inline bool slice_eq_nocase(slice a, slice b)
{
    return a.len == b.len && slice_eq_nocase_bytes(a.ptr, b.ptr, a.len);
}
bool slice_starts_with(slice s, slice prefix);
bool slice_ends_with(slice s, slice suffix);
/* Returns <0, 0 or >0, in byte order; a prefix sorts first. */
int slice_cmp(slice a, slice b);
/* Returns the index of the first occurrence, or -1. */
ptrdiff_t slice_find(slice s, slice needle);
ptrdiff_t slice_find_char(slice s, char c);
/* Returns the number of bytes at the start of s that are printable ASCII. `first`: the lowest
 * accepted character, a space or '!'. */
size_t slice_printable(slice s, char first);
/* Returns s without spaces and tabs at both ends. */
slice slice_trim(slice s);
/* Splits s at the first `sep`: returns the part before it and moves *s past it; without a sep,
 * returns all and sets *s to SLICE_NONE. */
slice slice_split(slice *s, char sep);
/* Parses the whole slice as a decimal without sign, leading '+', or spaces. Returns false if it is
 * empty, has other characters, or is over max. */
bool slice_to_u64(slice s, uint64_t max, uint64_t *value) MUST_CHECK;
bool slice_to_i64(slice s, int64_t *value) MUST_CHECK;
/* Like slice_to_u64, but a number over max, with any number of digits, becomes max. */
bool slice_to_u64_capped(slice s, uint64_t max, uint64_t *value) MUST_CHECK;
/* Returns whether `words`, a list separated by single spaces, has this word. */
bool slice_has_word(slice words, slice word);
/* Accepts true, 1, yes and false, 0, no in any case, as programs write them into query strings. */
bool slice_to_bool(slice s, bool *value) MUST_CHECK;
/* Returns whether s is UTF-8 as in RFC 3629, without overlong forms and surrogates. *bad_at (may be
 * NULL) gets the offset of the first fault. */
bool slice_is_utf8(slice s, size_t *bad_at);
/* Returns whether s is acceptable as a name that a person gives to something: UTF-8 on one line,
 * without control characters, with at least one visible character. Some names need direction marks,
 * so code that shows a name isolates it. */
bool slice_is_name(slice s, size_t characters_max);
/* Returns the length (1 to 4) of the well-formed UTF-8 sequence at the start of s, or 0 if there is
 * none. */
size_t slice_utf8_first(slice s);
/* For a non-empty s that does not begin with a well-formed sequence: returns the number of bytes
 * that a decoder replaces with one U+FFFD. This is the length of a truncated sequence, otherwise 1
 * (the Unicode Standard 3.9, as browsers do). */
size_t slice_utf8_fault(slice s);
/* Sets *code_point to the first code point of s, which is well-formed UTF-8 and not empty;
 * returns its length in bytes. */
size_t slice_code_point(slice s, uint32_t *code_point);
/* Returns whether c is a control character (C0, DEL, C1), a mark, override or isolate of direction
 * (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069), a line or paragraph separator
 * (U+2028, U+2029) or the byte order mark. These control a terminal (escape sequences) or reorder
 * text ("Trojan Source", CVE-2021-42574). */
bool code_point_is_unsafe(uint32_t c);
/* Returns whether c has class Cc, Cf, Zl or Zp, or is ignorable by default. Such characters are
 * invisible to readers, and some of them move the text around them. */
bool code_point_is_hidden(uint32_t c);
/* Returns at most `len` bytes of s, truncated so that no UTF-8 sequence is split. */
slice slice_first_utf8(slice s, size_t len);
/* Joins the parts in room[size], truncated where it is full; no NUL. Texts made for each request
 * (labels of metrics, heads) are joined, not printed: formatting costs 500 instructions and
 * more. */
slice slice_join(char *room, size_t size, const slice *parts, size_t count);
#define SLICE_JOIN(room, ...)                                      \
    slice_join((room), sizeof(room), (const slice[]){__VA_ARGS__}, \
               sizeof((const slice[]){__VA_ARGS__}) / sizeof(slice))
enum { SLICE_U64_MAX = 20 };
/* Writes the decimal digits of value at the end of room. */
slice slice_of_u64(uint64_t value, char room[SLICE_U64_MAX]);
/* Compares in constant time for a given length; for secrets. */
bool slice_eq_secret(slice a, slice b);

#endif
