/*
 * number: handles numbers by their decimal value: order, wholeness, divisibility and the canonical
 * text. It does not allocate, and the work is linear in the digits of the text.
 *
 * Doubles cannot decide these: 9007199254740993 and ...992 are the same double, and 0.3 is not a
 * multiple of 0.1 in binary. RFC 8259 6 does not fix the precision, and ids from providers need all
 * digits.
 */
#include "json/number.h"

#include <stdio.h>

#include "base/ascii.h"

enum { CANONICAL_PLAIN_DIGITS = 20 };

static void decimal_zero(struct json_decimal *decimal)
{
    decimal->is_negative = false;
    decimal->digits = decimal->text;
    decimal->text_len = decimal->count = 0;
    decimal->point = 0;
}

/* Larger exponents are clamped to this one, because 1e999999999999999999999 must not overflow
 * int64. Two such numbers then differ only by their digits. */
#define POINT_MAX (INT64_C(1) << 58)

/* Reads the exponent after 'e'. For an exponent beyond POINT_MAX, returns some value beyond
 * POINT_MAX. */
static int64_t exponent_of(const char *text, size_t len)
{
    bool is_negative = len > 0 && text[0] == '-';
    int64_t value = 0;
    /* Only a sign can be there: the text is a checked number. */
    for (size_t i = (len > 0 && !ascii_is_digit(text[0])) ? 1 : 0; i < len; i++) {
        if (value <= POINT_MAX)
            value = value * 10 + (text[i] - '0');
    }
    return is_negative ? -value : value;
}

/* Splits the text of a JSON number into its parts. The text must outlive the decimal. */
static void decimal_of_text(struct json_decimal *decimal, const char *text, size_t len)
{
    ASSERT(len > 0);
    decimal_zero(decimal);
    const char *end = text + len;
    decimal->is_negative = *text == '-';
    text += decimal->is_negative;
    const char *mantissa_end = text;
    const char *dot = NULL;
    for (; mantissa_end < end && (ascii_is_digit(*mantissa_end) || *mantissa_end == '.');
         mantissa_end++) {
        if (*mantissa_end == '.')
            dot = mantissa_end;
    }
    int64_t exponent =
        mantissa_end < end ? exponent_of(mantissa_end + 1, (size_t)(end - mantissa_end) - 1) : 0;
    const char *point = dot ? dot : mantissa_end;
    /* Leading and trailing zeros carry no value once the point is known, so 1.50 and 15e-1 become
     * one form. */
    const char *first = text;
    while (first < mantissa_end && (*first == '0' || *first == '.'))
        first++;
    const char *last = mantissa_end;
    while (last > first && (last[-1] == '0' || last[-1] == '.'))
        last--;
    if (first == last) {
        /* -0 is 0: with a sign there would be two zeros. */
        decimal->is_negative = false;
        return;
    }
    decimal->digits = first;
    decimal->text_len = (size_t)(last - first);
    decimal->count = decimal->text_len - (dot && dot > first && dot < last);
    /* Digits between the point and the first digit that is not 0: 0.001 has point -2, 1 has 1. */
    int64_t at = exponent + (first < point ? point - first : point - first + 1);
    decimal->point = at > POINT_MAX ? POINT_MAX : at < -POINT_MAX ? -POINT_MAX : at;
}

void json_decimal_of(struct json_decimal *decimal, const struct json *value)
{
    ASSERT(json_is_number(value));
    int len = 0;
    switch (value->type) {
    case JSON_BIGNUM:
        decimal_of_text(decimal, value->as.text, value->count);
        return;
    case JSON_REAL:
        len = (int)json_real_text(value->as.real, decimal->text);
        break;
    case JSON_INT:
        len = snprintf(decimal->text, sizeof(decimal->text), "%lld", (long long)value->as.i64);
        break;
    default:
        len = snprintf(decimal->text, sizeof(decimal->text), "%llu",
                       (unsigned long long)value->as.u64);
        break;
    }
    ASSERT(len > 0 && len < JSON_REAL_TEXT_MAX);
    decimal_of_text(decimal, decimal->text, (size_t)len);
}

int json_decimal_next(const struct json_decimal *decimal, size_t *pos)
{
    if (*pos < decimal->text_len && decimal->digits[*pos] == '.')
        ++*pos;
    return *pos < decimal->text_len ? decimal->digits[(*pos)++] - '0' : -1;
}

static int magnitude_cmp(const struct json_decimal *a, const struct json_decimal *b)
{
    if (a->count == 0 || b->count == 0)
        return (a->count > 0) - (b->count > 0);
    /* The first digit is not 0, so a larger point is a larger number; digits are compared only
     * if the points are equal. */
    if (a->point != b->point)
        return a->point < b->point ? -1 : 1;
    size_t at_a = 0;
    size_t at_b = 0;
    for (;;) {
        int digit_a = json_decimal_next(a, &at_a);
        int digit_b = json_decimal_next(b, &at_b);
        if (digit_a != digit_b)
            return digit_a < digit_b ? -1 : 1;
        if (digit_a < 0)
            return 0;
    }
}

int json_decimal_cmp(const struct json_decimal *a, const struct json_decimal *b)
{
    if (a->is_negative != b->is_negative)
        return a->is_negative ? -1 : 1;
    int order = magnitude_cmp(a, b);
    return a->is_negative ? -order : order;
}

/* Both values are in the range where doubles and integers convert to each other exactly. */
static bool as_exact_double(const struct json *value, double *out)
{
    const int64_t exact = INT64_C(1) << 53;
    /* A double converts exactly; only an integer beyond 2^53 is rounded when it becomes a
     * double. */
    if (value->type == JSON_REAL) {
        *out = value->as.real;
        return true;
    }
    if (value->type != JSON_INT || value->as.i64 > exact || value->as.i64 < -exact)
        return false;
    *out = (double)value->as.i64;
    return true;
}

int json_number_cmp(const struct json *a, const struct json *b)
{
    ASSERT(json_is_number(a) && json_is_number(b));
    if (a->type == JSON_INT && b->type == JSON_INT)
        return (a->as.i64 > b->as.i64) - (a->as.i64 < b->as.i64);
    if (a->type == JSON_UINT && b->type == JSON_UINT)
        return (a->as.u64 > b->as.u64) - (a->as.u64 < b->as.u64);
    double real_a = 0;
    double real_b = 0;
    /* The common mixed case, without decimals. */
    if (as_exact_double(a, &real_a) && as_exact_double(b, &real_b))
        return (real_a > real_b) - (real_a < real_b);
    struct json_decimal decimal_a;
    struct json_decimal decimal_b;
    json_decimal_of(&decimal_a, a);
    json_decimal_of(&decimal_b, b);
    return json_decimal_cmp(&decimal_a, &decimal_b);
}

static bool decimal_is_integer(const struct json_decimal *decimal)
{
    return decimal->count == 0 ||
           (decimal->point > 0 && (uint64_t)decimal->point >= decimal->count);
}

bool json_number_is_integer(const struct json *value)
{
    if (value->type == JSON_INT || value->type == JSON_UINT)
        return true;
    struct json_decimal decimal;
    json_decimal_of(&decimal, value);
    return decimal_is_integer(&decimal);
}

static uint64_t mul_mod(uint64_t a, uint64_t b, uint64_t mod)
{
    /* 128 bits for the product of two 64-bit numbers; the remainder fits 64 again. */
    __extension__ typedef unsigned __int128 wide;
    ASSERT(mod > 0);
    return (uint64_t)((wide)a * b % mod);
}

static uint64_t pow10_mod(uint64_t exponent, uint64_t mod)
{
    ASSERT(mod > 0);
    uint64_t result = 1 % mod;
    /* Square and multiply: exponents are as large as POINT_MAX, so a simple loop would take too
     * long. */
    for (uint64_t base = 10 % mod; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            result = mul_mod(result, base, mod);
        base = mul_mod(base, base, mod);
    }
    return result;
}

/* With a = A * 10^x and b = B * 10^y, A and B without trailing zeros: a is a multiple of b exactly
 * when x >= y and B divides A * 10^(x-y). For x < y, A would need a factor 10, which it does not
 * have. */
bool json_number_is_multiple(const struct json *value, const struct json_decimal *divisor)
{
    ASSERT(divisor->count > 0 && divisor->count <= JSON_DIVISOR_DIGITS_MAX);
    struct json_decimal decimal;
    json_decimal_of(&decimal, value);
    if (decimal.count == 0)
        return true;
    int64_t shift =
        (decimal.point - (int64_t)decimal.count) - (divisor->point - (int64_t)divisor->count);
    if (shift < 0)
        return false;
    uint64_t mod = 0;
    size_t pos = 0;
    for (int digit = 0; (digit = json_decimal_next(divisor, &pos)) >= 0;)
        mod = mod * 10 + (uint64_t)digit;
    ASSERT(mod > 0);
    /* The number modulo the divisor, digit by digit: it may have millions of digits. */
    uint64_t rest = 0;
    pos = 0;
    for (int digit = 0; (digit = json_decimal_next(&decimal, &pos)) >= 0;)
        rest = (mul_mod(rest, 10, mod) + (uint64_t)digit % mod) % mod;
    return mul_mod(rest, pow10_mod((uint64_t)shift, mod), mod) == 0;
}

void json_number_write_canonical(struct buf *out, const struct json *value)
{
    if (value->type == JSON_INT) {
        buf_append_i64(out, value->as.i64);
        return;
    }
    struct json_decimal decimal;
    json_decimal_of(&decimal, value);
    if (decimal.is_negative)
        buf_append_char(out, '-');
    bool is_plain = decimal_is_integer(&decimal) && decimal.point <= CANONICAL_PLAIN_DIGITS;
    size_t pos = 0;
    int64_t written = 0;
    for (int digit = 0; (digit = json_decimal_next(&decimal, &pos)) >= 0; written++) {
        if (!is_plain && written == 1)
            buf_append_char(out, '.');
        buf_append_char(out, (char)('0' + digit));
    }
    for (; is_plain && written < decimal.point; written++)
        buf_append_char(out, '0');
    if (decimal.count == 0)
        buf_append_char(out, '0');
    if (!is_plain) {
        buf_append_char(out, 'e');
        buf_append_i64(out, decimal.point - 1);
    }
}
