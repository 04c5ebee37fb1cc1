/*
 * number_text: converts text to numbers and doubles to text, with yyjson's exact algorithms. A
 * number is stored in the smallest type that loses nothing. If a double would lose a digit, the
 * text itself is kept, so that a number is written with the value that was read. A client that
 * sends 1.10 gets 1.1, which is the same value.
 */
#include "json/number.h"

#include <float.h>
#include <math.h>
#include <yyjson.h>

enum {
    DOUBLE_SAFE_DIGITS = 15, /* any decimal with that many digits survives a round trip through a
                              * double (DBL_DIG) */
    YYJSON_POOL_BYTES = 512,
};

size_t json_real_text(double value, char out[JSON_REAL_TEXT_MAX])
{
    ASSERT(isfinite(value));
    /* On the stack: yyjson writes through an allocator, and formatting a number must not fail. */
    char pool[YYJSON_POOL_BYTES];
    yyjson_alc alc;
    bool is_ready = yyjson_alc_pool_init(&alc, pool, sizeof(pool));
    ASSERT(is_ready);
    yyjson_val number = {.tag = YYJSON_TYPE_NUM | YYJSON_SUBTYPE_REAL, .uni.f64 = value};
    size_t len = 0;
    const char *text = yyjson_val_write_opts(&number, YYJSON_WRITE_NOFLAG, &alc, &len, NULL);
    ASSERT(text && len > 0 && len < JSON_REAL_TEXT_MAX);
    memcpy(out, text, len);
    out[len] = '\0';
    return len;
}

/* Returns false if the text is not an integer, or is over 64 bits. */
static bool parse_integer(slice text, struct json *out)
{
    bool is_negative = text.ptr[0] == '-';
    uint64_t value = 0;
    for (size_t i = is_negative; i < text.len; i++) {
        unsigned digit = (unsigned char)text.ptr[i] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)digit, &value))
            return false;
    }
    /* One more than INT64_MAX is INT64_MIN. */
    if (is_negative && value > (uint64_t)INT64_MAX + 1)
        return false;
    *out = is_negative ? json_i64((int64_t)(0 - value)) : json_u64(value);
    return true;
}

/* Whether the double has exactly the value of the text. */
static bool is_lossless(const struct json *real, const struct json *text)
{
    struct json_decimal of_text;
    json_decimal_of(&of_text, text);
    /* DBL_DIG digits survive the conversion to a double and back, but only for normal doubles:
     * denormals have fewer. */
    if (of_text.count <= DOUBLE_SAFE_DIGITS &&
        (of_text.count == 0 || fabs(real->as.real) >= DBL_MIN))
        return true;
    struct json_decimal of_real;
    json_decimal_of(&of_real, real);
    return json_decimal_cmp(&of_text, &of_real) == 0;
}

struct json json_number_parse(slice text)
{
    ASSERT(text.len > 0 && text.len <= UINT32_MAX);
    struct json number;
    if (parse_integer(text, &number))
        return number;
    struct json bignum = {.type = JSON_BIGNUM, .count = (uint32_t)text.len, .as.text = text.ptr};
    yyjson_val parsed;
    /* Reads up to the first byte that is not part of the number; the caller guarantees that
     * there is one (number.h). */
    const char *end = yyjson_read_number(text.ptr, &parsed, YYJSON_READ_NOFLAG, NULL, NULL);
    if (end != text.ptr + text.len || !yyjson_is_real(&parsed))
        return bignum;
    number = (struct json){.type = JSON_REAL, .as.real = yyjson_get_real(&parsed)};
    return is_lossless(&number, &bignum) ? number : bignum;
}
