/*
 * Numbers of the json room by their decimal value: the value of the JSON text, without rounding.
 * The value of a double is that of its shortest decimal form, because a text has that form. Used by
 * comparison, by hashing, by the canonical writer and by JSON Schema's multipleOf.
 */
#ifndef JSON_NUMBER_H
#define JSON_NUMBER_H

#include "json/json.h"

enum { JSON_REAL_TEXT_MAX = 40 };

/* The value 0.d1d2d3... * 10^point. The digits have no zero at either end; a number without digits
 * is zero. */
struct json_decimal {
    bool is_negative;
    const char *digits; /* may contain one '.', which is ignored */
    size_t text_len;    /* digits, with the '.' */
    size_t count;       /* digits, without the '.' */
    int64_t point;
    char text[JSON_REAL_TEXT_MAX]; /* holds the digits of a double or an integer */
};

/* Writes the shortest text that reads as the same double; returns its length. value is finite. */
size_t json_real_text(double value, char out[JSON_REAL_TEXT_MAX]);
/* Reads a checked RFC 8259 number; text[len] is readable and not part of the number. If the
 * number becomes a BIGNUM, the text is borrowed. */
struct json json_number_parse(slice text);

/* value is a number; decimal may point into it. Do not copy *decimal. */
void json_decimal_of(struct json_decimal *decimal, const struct json *value);
int json_decimal_cmp(const struct json_decimal *a, const struct json_decimal *b);
/* Returns the digit at *pos and advances *pos; -1 at the end. */
int json_decimal_next(const struct json_decimal *decimal, size_t *pos);

/* Whether value is an integer in the sense of JSON Schema: 1.0 and 1e3 are. */
bool json_number_is_integer(const struct json *value);
/* Whether value is an exact multiple of divisor, whose decimal has at most
 * JSON_DIVISOR_DIGITS_MAX digits and is not zero. */
enum { JSON_DIVISOR_DIGITS_MAX = 19 };
bool json_number_is_multiple(const struct json *value, const struct json_decimal *divisor);
/* Writes one text per value, regardless of its type: plain digits up to 20, else d.ddde99. */
void json_number_write_canonical(struct buf *out, const struct json *value);

#endif
