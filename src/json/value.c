/*
 * value: reads a tree: members, items, RFC 6901 pointers, numbers as C types. Every function
 * accepts NULL or a value of the wrong type and returns NULL or a default, so that chains of
 * lookups need no checks in between.
 */
#include <math.h>
#include <stdlib.h>

#include "json/number.h"

const struct json json_null = {.type = JSON_NULL};

const struct json *json_get(const struct json *object, slice key)
{
    if (!json_is(object, JSON_OBJECT))
        return NULL;
    for (uint32_t i = object->count; i > 0; i--) {
        const struct json_member *member = &object->as.members[i - 1];
        /* The length is compared first, since it differs for most keys. */
        if (member->key.count == key.len && slice_eq(json_str(&member->key), key))
            return &member->value;
    }
    return NULL;
}

const struct json *json_given(const struct json *object, slice key)
{
    const struct json *value = json_get(object, key);
    return json_is(value, JSON_NULL) ? NULL : value;
}

size_t json_text_bytes(const struct json *value)
{
    if (!value)
        return 0;
    size_t bytes = value->type == JSON_STRING ? value->count : 0;
    for (uint32_t i = 0; value->type == JSON_ARRAY && i < value->count; i++)
        bytes += json_text_bytes(&value->as.items[i]);
    for (uint32_t i = 0; value->type == JSON_OBJECT && i < value->count; i++)
        bytes += value->as.members[i].key.count + json_text_bytes(&value->as.members[i].value);
    return bytes;
}

bool json_has_text(const struct json *array, slice text)
{
    for (uint32_t i = 0; json_is(array, JSON_ARRAY) && i < array->count; i++)
        if (json_is(&array->as.items[i], JSON_STRING) &&
            slice_eq(json_str(&array->as.items[i]), text))
            return true;
    return false;
}

slice json_get_str(const struct json *object, slice key)
{
    return json_str(json_get(object, key));
}

bool json_get_bool(const struct json *object, slice key, bool fallback)
{
    const struct json *value = json_get(object, key);
    return json_is(value, JSON_BOOL) ? value->as.boolean : fallback;
}

int64_t json_get_i64(const struct json *object, slice key, int64_t fallback)
{
    int64_t number = 0;
    return json_to_i64(json_get(object, key), &number) ? number : fallback;
}

const struct json *json_at(const struct json *array, size_t index)
{
    return json_is(array, JSON_ARRAY) && index < array->count ? &array->as.items[index] : NULL;
}

/* ---- pointers ---- */

/* RFC 6901 3: "~1" is '/', "~0" is '~'; any other '~' is an error. */
bool json_pointer_token_is(slice token, slice key)
{
    size_t at = 0;
    for (size_t i = 0; i < token.len; i++, at++) {
        char c = token.ptr[i];
        if (c == '~') {
            if (++i == token.len || (token.ptr[i] != '0' && token.ptr[i] != '1'))
                return false;
            c = token.ptr[i] == '0' ? '~' : '/';
        }
        if (at >= key.len || key.ptr[at] != c)
            return false;
    }
    return at == key.len;
}

static const struct json *member_by_token(const struct json *object, slice token)
{
    /* Most tokens have no escape. */
    if (slice_find_char(token, '~') < 0)
        return json_get(object, token);
    for (uint32_t i = object->count; i > 0; i--) {
        if (json_pointer_token_is(token, json_str(&object->as.members[i - 1].key)))
            return &object->as.members[i - 1].value;
    }
    return NULL;
}

/* RFC 6901 4: digits without leading zero. "-" means the item after the last, which never
 * exists. */
bool json_pointer_token_index(slice token, uint64_t *index)
{
    if (token.len > 1 && token.ptr[0] == '0')
        return false;
    return slice_to_u64(token, UINT32_MAX, index);
}

static const struct json *item_by_token(const struct json *array, slice token)
{
    uint64_t index = 0;
    return json_pointer_token_index(token, &index) ? json_at(array, (size_t)index) : NULL;
}

bool json_pointer_next(slice *pointer, slice *token)
{
    if (pointer->len == 0 || pointer->ptr[0] != '/')
        return false;
    slice rest = slice_from(*pointer, 1);
    ptrdiff_t end = slice_find_char(rest, '/');
    *token = end < 0 ? rest : slice_first(rest, (size_t)end);
    /* The slash of the next token stays before it; an empty rest ends the pointer. */
    *pointer = slice_from(rest, token->len);
    return true;
}

const struct json *json_pointer(const struct json *root, slice pointer)
{
    const struct json *value = root;
    while (value && pointer.len > 0) {
        slice token;
        if (!json_pointer_next(&pointer, &token))
            return NULL;
        if (value->type == JSON_OBJECT)
            value = member_by_token(value, token);
        else
            value = value->type == JSON_ARRAY ? item_by_token(value, token) : NULL;
    }
    return value;
}

void json_pointer_append_key(struct buf *out, slice key)
{
    buf_append_char(out, '/');
    for (size_t start = 0, i = 0; i <= key.len; i++) {
        if (i < key.len && key.ptr[i] != '~' && key.ptr[i] != '/')
            continue;
        buf_append(out, (slice){key.ptr + start, i - start});
        if (i < key.len)
            buf_append(out, key.ptr[i] == '~' ? SLICE("~0") : SLICE("~1"));
        start = i + 1;
    }
}

void json_pointer_append_index(struct buf *out, uint64_t index)
{
    buf_append_char(out, '/');
    buf_append_u64(out, index);
}

/* ---- numbers ---- */

/* In the arena the text is followed by a terminating byte, which is not always a NUL. */
static double bignum_to_double(const struct json *value)
{
    char text[64];
    struct json_decimal decimal;
    /* strtod needs a NUL, which a BIGNUM does not have, and a text of millions of digits must
     * not be copied. */
    json_decimal_of(&decimal, value);
    if (decimal.count == 0)
        return 0;
    /* 40 digits determine any double; the digits cut off matter only at an exact tie. */
    size_t len = 0;
    size_t pos = 0;
    if (decimal.is_negative)
        text[len++] = '-';
    text[len++] = '.';
    for (int digit = 0; len < 42 && (digit = json_decimal_next(&decimal, &pos)) >= 0;)
        text[len++] = (char)('0' + digit);
    int64_t exponent = decimal.point;
    /* Beyond any double, and short enough for the digits' room. */
    if (exponent > 9999 || exponent < -9999)
        exponent = exponent < 0 ? -9999 : 9999;
    struct buf digits = {.ptr = text, .len = len, .cap = sizeof(text), .bytes_max = sizeof(text)};
    buf_append_char(&digits, 'e');
    buf_append_i64(&digits, exponent);
    buf_append_char(&digits, '\0');
    ASSERT(digits.ptr == text && buf_is_ok(&digits));
    double real = strtod(text, NULL);
    /* Never infinite, because callers convert and compare, and JSON cannot represent infinity. */
    if (isinf(real))
        return real < 0 ? -1.7976931348623157e308 : 1.7976931348623157e308;
    return real;
}

double json_to_double(const struct json *value)
{
    if (!json_is_number(value))
        return 0;
    switch (value->type) {
    case JSON_INT:
        return (double)value->as.i64;
    case JSON_UINT:
        return (double)value->as.u64;
    case JSON_REAL:
        return value->as.real;
    default:
        return bignum_to_double(value);
    }
}

static bool real_to_i64(double real, int64_t *out)
{
    /* 2^63 is the first double that does not fit; -2^63 does. */
    const double end = 9223372036854775808.0; /* 2^63, exactly */
    if (real < -end || real >= end || trunc(real) != real)
        return false;
    *out = (int64_t)real;
    return true;
}

/* An integer of at most 19 digits may fit int64 although it does not fit a double. */
static bool bignum_to_i64(const struct json *value, int64_t *out)
{
    struct json_decimal decimal;
    json_decimal_of(&decimal, value);
    if (decimal.count == 0) {
        *out = 0;
        return true;
    }
    if (decimal.point > 19 || decimal.point < (int64_t)decimal.count)
        return false;
    uint64_t magnitude = 0;
    size_t pos = 0;
    /* Trailing zeros are part of the value: 1e3 has one digit and point 4. */
    for (int64_t i = 0; i < decimal.point; i++) {
        int digit = json_decimal_next(&decimal, &pos);
        magnitude = magnitude * 10 + (uint64_t)(digit < 0 ? 0 : digit);
    }
    if (magnitude > (uint64_t)INT64_MAX + decimal.is_negative)
        return false;
    *out = (int64_t)(decimal.is_negative ? 0 - magnitude : magnitude);
    return true;
}

bool json_to_i64(const struct json *value, int64_t *out)
{
    if (json_is(value, JSON_INT)) {
        *out = value->as.i64;
        return true;
    }
    if (json_is(value, JSON_REAL))
        return real_to_i64(value->as.real, out);
    return json_is(value, JSON_BIGNUM) && bignum_to_i64(value, out);
}

struct json json_plain_number(const struct json *value)
{
    int64_t whole = 0;
    return json_to_i64(value, &whole) ? json_i64(whole) : *value;
}

const char *json_type_name(const struct json *value)
{
    static const char *const names[] = {"null",   "boolean", "integer", "integer", "number",
                                        "number", "string",  "array",   "object",  "raw"};
    if (!value)
        return "null";
    ASSERT(value->type < ARRAY_LEN(names));
    if (json_is_number(value) && json_number_is_integer(value))
        return "integer";
    return names[value->type];
}
