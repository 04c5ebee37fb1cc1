/*
 * JSON values in an arena. A value is 16 bytes and immutable once shared. Containers hold their
 * items in one block, so a walk is a scan, and a pointer can refer to a part of a value without a
 * copy. Numbers keep their value: 64-bit integers as such, wider or unusual numbers as their text
 * (src/api/README.md "HTTP"). The order of members is kept. Strings are UTF-8 and may hold U+0000.
 */
#ifndef JSON_JSON_H
#define JSON_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/slice.h"

enum json_type {
    JSON_NULL,
    JSON_BOOL,
    JSON_INT,    /* fits int64 */
    JSON_UINT,   /* above INT64_MAX, fits uint64 */
    JSON_REAL,   /* finite double */
    JSON_BIGNUM, /* a number as its source text: an integer past uint64, or past double's range */
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

struct json_member;

struct json {
    uint8_t type;     /* enum json_type */
    uint8_t cap_log2; /* container under construction: capacity 2^cap_log2; 0: the capacity is
                       * count */
    uint32_t count;   /* bytes of a string or BIGNUM; items of an array; members of an object */
    union {
        bool boolean;
        int64_t i64;
        uint64_t u64;
        double real;
        const char *text;
        struct json *items;
        struct json_member *members;
    } as;
};

struct json_member {
    struct json key; /* JSON_STRING */
    struct json value;
};

extern const struct json json_null;

/* ---- parse ---- */

struct json_limits {
    size_t depth_max;     /* nested containers; 0 or more than JSON_DEPTH_MAX means JSON_DEPTH_MAX,
                           * so that a walk over a value may recurse */
    bool refuse_dup_keys; /* for request bodies, manifests, templates (src/api/README.md "HTTP") */
    /* For providers' bodies, as browsers read them: a BOM is skipped, bytes that are not UTF-8
     * and unpaired escaped surrogates become U+FFFD. Offsets in errors then refer to the mended
     * text. */
    bool mend_text;
};

enum {
    JSON_DEPTH_MAX = 512,
    JSON_REQUEST_DEPTH_MAX = 64, /* src/api/README.md "HTTP" */
};

extern const struct json_limits json_limits_request; /* 64 deep, no duplicate keys */
/* 512 deep, the last of duplicate keys wins, text is mended */
extern const struct json_limits json_limits_provider;

/* RFC 8259, UTF-8 (a BOM is refused without mend_text). Everything is copied into the arena.
 * Returns NULL on ERR_SYNTAX (err names the byte offset), ERR_LIMIT (depth), ERR_INVALID (err names
 * a duplicate key), ERR_NOMEM. Iterative: hostile nesting cannot overflow the stack. */
struct json *json_parse(struct arena *arena, slice text, const struct json_limits *limits,
                        struct err *err) MUST_CHECK;

/* Returns the maximum number of bytes that parsing the text takes, including the copy of the text
 * and scratch memory. One pass over the text. */
size_t json_parse_bytes(slice text);

/* ---- read ---- */

static inline bool json_is(const struct json *value, enum json_type type)
{
    return value && value->type == type;
}

static inline bool json_is_number(const struct json *value)
{
    return value && value->type >= JSON_INT && value->type <= JSON_BIGNUM;
}

/* Returns SLICE_NONE unless value is a string. */
static inline slice json_str(const struct json *value)
{
    return json_is(value, JSON_STRING) ? (slice){value->as.text, value->count} : SLICE_NONE;
}

/* Returns the last member of that name (after a strict parse there is at most one); NULL if it is
 * absent, or if object is NULL or not an object, so chains need no checks. Linear: objects are
 * small. */
const struct json *json_get(const struct json *object, slice key);
#define JSON_GET(object, literal) json_get((object), SLICE(literal))
/* As json_get, but also NULL if the member is null: for optional members. */
const struct json *json_given(const struct json *object, slice key);
/* Whether array is an array with this text among its items. */
bool json_has_text(const struct json *array, slice text);
slice json_get_str(const struct json *object, slice key); /* SLICE_NONE when not a string */
bool json_get_bool(const struct json *object, slice key, bool fallback);
/* Returns fallback if the member is absent or not an integer in int64. 3.0 counts as an integer. */
int64_t json_get_i64(const struct json *object, slice key, int64_t fallback);
/* Returns the item at index, NULL if there is none. */
const struct json *json_at(const struct json *array, size_t index);
/* Follows a JSON Pointer (RFC 6901). Returns NULL if it does not lead to a value. */
const struct json *json_pointer(const struct json *root, slice pointer);
/* Splits the first reference token off a pointer. Returns false if the pointer is "" or does not
 * begin with '/'. */
bool json_pointer_next(slice *pointer, slice *token) MUST_CHECK;
/* The first: whether an escaped token equals this key. The second: whether it is an array index. */
bool json_pointer_token_is(slice token, slice key);
bool json_pointer_token_index(slice token, uint64_t *index) MUST_CHECK;
/* Append "/key", escaped, or "/index" to a pointer's text. */
void json_pointer_append_key(struct buf *out, slice key);
void json_pointer_append_index(struct buf *out, uint64_t index);
/* Returns the number as a double; a BIGNUM by strtod. 0 for other types. */
double json_to_double(const struct json *value);
/* Returns true and sets *out if value is a number with an integer value in int64 (1.0 and 1e3 are
 * such numbers). */
bool json_to_i64(const struct json *value, int64_t *out);
/* The same number with its shortest text: 1 for 1.0, 1000 for 1e3, if an int64 holds it; any other
 * value is returned as it is. For text-only positions (a query), where many servers do not accept
 * 1.0. */
struct json json_plain_number(const struct json *value);
/* "null", "boolean", "integer", "number", "string", "array", "object" */
const char *json_type_name(const struct json *value);
/* Returns the number of bytes of all strings in the value, including names of members; 0 for
 * NULL. */
size_t json_text_bytes(const struct json *value);
/* Equality as JSON Schema and JMESPath define it: 1 == 1.0, member order is irrelevant, true !=
 * 1. Exact across int64, uint64, double and BIGNUM. */
bool json_equal(const struct json *a, const struct json *b);
/* Compares in numeric order, exact across the number types: returns <0, 0 or >0. */
int json_number_cmp(const struct json *a, const struct json *b);
/* Equal values have equal hashes, across number types and member order. The key differs in every
 * process: for tables, never for storage. */
uint64_t json_hash(const struct json *value);

/* ---- make ---- strings are borrowed unless the name says dup; they must live with the arena */

struct json json_bool(bool value);
struct json json_i64(int64_t value);
struct json json_u64(uint64_t value);
/* NaN and infinities become null: JSON does not have them. */
struct json json_real(double value);
struct json json_string(slice text);
struct json json_string_dup(struct arena *arena, slice text);

/* Containers that grow in an arena; for building output. json_object_set does not search for an
 * existing key, json_object_put does. If the arena is exhausted, its flag is set and the call
 * does nothing. */
struct json json_array(void);
struct json json_object(void);
void json_array_push(struct arena *arena, struct json *array, struct json item);
void json_object_set(struct arena *arena, struct json *object, slice key, struct json value);
void json_object_put(struct arena *arena, struct json *object, slice key, struct json value);
/* Returns a copy of the whole tree, strings included; NULL if the arena's limit is exceeded. */
struct json *json_dup(struct arena *arena, const struct json *value) MUST_CHECK;

/* ---- write ---- */

/* Writes compact RFC 8259 text, with doubles in their shortest round-trip form. Parsing the text of
 * a parsed value gives an equal value. */
void json_write(struct buf *out, const struct json *value);
/* Writes the text with two spaces of indent, for people. */
void json_write_pretty(struct buf *out, const struct json *value);
/* Writes members sorted by key bytes at every level, and numbers in canonical form (1.0 as 1): for
 * fingerprints. */
void json_write_sorted(struct buf *out, const struct json *value);
/* Writes a quoted, escaped string. Invalid UTF-8 is replaced by U+FFFD. */
void json_write_str(struct buf *out, slice text);
/* Returns external text for use in a sentence: escaped as inside a JSON string, so that it neither
 * ends at a NUL nor controls a terminal, and truncated with "..." after JSON_EXCERPT_BYTES_MAX. It
 * is in the arena; SLICE_NONE if out of memory. */
enum { JSON_EXCERPT_BYTES_MAX = 200 };
slice json_excerpt(slice text, struct arena *arena);

/* A streaming writer, which adds commas and colons itself, so that replies need no tree.
 *   json_begin(&w, out); json_open(&w, '{'); json_member_str(&w, "id", id); json_close(&w, '}'); */
struct json_writer {
    struct buf *out;
    bool needs_comma;
};
void json_begin(struct json_writer *w, struct buf *out);
/* A writer with its own buffer, which json_text_take frees. */
struct json_text {
    struct json_writer w;
    struct buf buf;
};
struct json_writer *json_text_begin(struct json_text *text, size_t bytes_max);
/* Returns the finished text, in the arena; SLICE_NONE if out of memory, or if it is longer than
 * bytes_max. */
slice json_text_take(struct json_text *text, struct arena *arena);
/* Returns the text of a single value, in the arena. */
slice json_text_of(const struct json *value, struct arena *arena, size_t bytes_max);
void json_open(struct json_writer *w, char bracket);  /* '{' or '[' */
void json_close(struct json_writer *w, char bracket); /* '}' or ']' */
void json_key(struct json_writer *w, const char *key);
void json_key_slice(struct json_writer *w, slice key);
void json_put(struct json_writer *w, const struct json *value); /* NULL writes null */
/* Omits null members at any depth. Items of an array stay, because their positions matter. */
void json_put_without_nulls(struct json_writer *w, const struct json *value);
void json_put_str(struct json_writer *w, slice text); /* SLICE_NONE writes null */
void json_put_i64(struct json_writer *w, int64_t value);
void json_put_bool(struct json_writer *w, bool value);
void json_put_null(struct json_writer *w);
/* Writes text that is JSON already; an empty text writes null. */
void json_put_raw(struct json_writer *w, slice json_text);
/* Write a key and its value, as the functions above write them. */
void json_member(struct json_writer *w, const char *key, const struct json *value);
void json_member_str(struct json_writer *w, const char *key, slice text);
/* An array of the words of a text, which single spaces separate; null for SLICE_NONE. */
void json_member_words(struct json_writer *w, const char *key, slice words);
void json_member_i64(struct json_writer *w, const char *key, int64_t value);
void json_member_bool(struct json_writer *w, const char *key, bool value);
/* RFC 3339; 0 writes null. */
void json_member_time(struct json_writer *w, const char *key, int64_t wall_us);
void json_member_uuid(struct json_writer *w, const char *key, struct uuid id);
void json_member_raw(struct json_writer *w, const char *key, slice json_text);
/* Writes a key and the opening bracket after it, closed by json_close. */
void json_member_open(struct json_writer *w, const char *key, char bracket);

#endif
