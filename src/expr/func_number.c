/*
 * func_number: functions that calculate. Integers stay integers as long as they fit; a real result
 * that is whole becomes an integer, so that ceil(1.2) is written as 2, not as 2.0. JSON has no
 * infinity and no NaN (RFC 8259 6), so a result beyond double's range is an error.
 */
#include "expr/func.h"

#include <math.h>
#include <stdio.h>

#include "base/ascii.h"

/* Up to 2^53 a double represents every integer exactly. */
static const double whole_max = 9007199254740992.0;

static int put_real(struct expr_run *run, const struct expr_node *call, double value,
                    struct json *out)
{
    if (!isfinite(value))
        return expr_run_fail(run, EXPR_FAULT_VALUE, call->at,
                             "the result of %s() is beyond the range of numbers",
                             call->as.function->name);
    /* The cast below is defined only within this range. */
    bool is_whole = fabs(value) <= whole_max && value == floor(value);
    *out = is_whole ? json_i64((int64_t)value) : json_real(value);
    return OK;
}

EXPR_FUNCTION(abs)
{
    const struct json *number = &args[0];
    *out = *number;
    if (number->type == JSON_INT && number->as.i64 < 0) {
        /* Unsigned, because -INT64_MIN does not fit int64_t. */
        *out = json_u64(0 - (uint64_t)number->as.i64);
    } else if (number->type == JSON_REAL) {
        return put_real(run, call, fabs(number->as.real), out);
    } else if (number->type == JSON_BIGNUM && number->as.text[0] == '-') {
        /* The number is text: the slice that starts one byte later has no sign. */
        out->as.text++;
        out->count--;
    }
    return OK;
}

EXPR_FUNCTION(ceil)
{
    *out = args[0]; /* integers, and numbers past double's range, are whole */
    return args[0].type == JSON_REAL ? put_real(run, call, ceil(args[0].as.real), out) : OK;
}

EXPR_FUNCTION(floor)
{
    *out = args[0];
    return args[0].type == JSON_REAL ? put_real(run, call, floor(args[0].as.real), out) : OK;
}

/* If all numbers are 64-bit integers, sets *total and returns true. The total cannot overflow,
 * since there are at most 2^32 numbers. */
static bool sum_whole(const struct json *numbers, __int128 *total)
{
    *total = 0;
    for (uint32_t i = 0; i < numbers->count; i++) {
        const struct json *number = &numbers->as.items[i];
        if (number->type == JSON_INT)
            *total += number->as.i64;
        else if (number->type == JSON_UINT)
            *total += number->as.u64;
        else
            return false;
    }
    return true;
}

/* Returns false if the value fits neither int64 nor uint64. */
static bool put_whole(__int128 value, struct json *out)
{
    if (value < INT64_MIN || value > UINT64_MAX)
        return false;
    *out = value < 0 ? json_i64((int64_t)value) : json_u64((uint64_t)value);
    return true;
}

/* Compensated summation (Neumaier), so that [1e100, 1, -1e100] loses nothing. */
static double sum_real(const struct json *numbers)
{
    double sum = 0, lost = 0;
    for (uint32_t i = 0; i < numbers->count; i++) {
        double value = json_to_double(&numbers->as.items[i]), next = sum + value;
        /* The part of the smaller operand that the addition rounded off. */
        lost += fabs(sum) >= fabs(value) ? (sum - next) + value : (value - next) + sum;
        sum = next;
    }
    return sum + lost;
}

EXPR_FUNCTION(sum)
{
    __int128 total = 0;
    int rc = expr_run_visit(run, args[0].count);
    if (rc != OK || (sum_whole(&args[0], &total) && put_whole(total, out)))
        return rc;
    return put_real(run, call, sum_real(&args[0]), out);
}

EXPR_FUNCTION(avg)
{
    __int128 total = 0;
    int rc = expr_run_visit(run, args[0].count);
    if (rc != OK || args[0].count == 0)
        return rc;
    if (sum_whole(&args[0], &total) && total % args[0].count == 0 &&
        put_whole(total / args[0].count, out))
        return OK;
    return put_real(run, call, sum_real(&args[0]) / args[0].count, out);
}

/* Accepts only the characters of a number without white space around it (RFC 8259 6): json_parse
 * would also accept "true", "[]" and white space. */
static bool is_number_text(slice text)
{
    if (text.len == 0 || text.len > EXPR_SOURCE_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (!memchr("0123456789+-.eE", text.ptr[i], 15))
            return false;
    return true;
}

EXPR_FUNCTION(to_number)
{
    if (json_is_number(&args[0]))
        *out = args[0];
    enum { PARSE_COST = 16 }; /* a parse takes as long as this many node visits */
    bool is_text = args[0].type == JSON_STRING;
    int rc = expr_run_visit(run, is_text ? PARSE_COST + args[0].count / EXPR_SCAN_UNIT : 0);
    if (rc != OK || !is_text || !is_number_text(json_str(&args[0])))
        return rc;
    const struct json *number =
        json_parse(run->arena, json_str(&args[0]), &json_limits_request, NULL);
    if (number)
        *out = *number;
    /* Text that is not a number is not an error: to_number gives null for it. The only error is
     * out of memory. */
    return number || !run->arena->is_exhausted ? OK : expr_run_nomem(run);
}

/* Returns the number of decimals of the currency's smallest unit, from ISO 4217, but two for ISK
 * and UGX, as in card networks. */
static unsigned currency_digits(slice code)
{
    /* The lists are searched as text. The caller has checked that a code has three letters, so a
     * match is always a whole code. */
    static const char none[] = "BIF CLP DJF GNF JPY KMF KRW MGA PYG RWF VND VUV XAF XOF XPF";
    static const char three[] = "BHD IQD JOD KWD LYD OMR TND";
    return slice_find(slice_cstr(none), code) >= 0    ? 0
           : slice_find(slice_cstr(three), code) >= 0 ? 3
                                                      : 2;
}

EXPR_FUNCTION(money)
{
    static const unsigned units[] = {1, 10, 100, 1000};
    slice given = json_str(&args[1]);
    char code[3], *room = NULL;
    int64_t amount = 0;
    bool is_code = given.len == sizeof(code);
    for (size_t i = 0; i < sizeof(code) && is_code; i++) {
        code[i] = ascii_upper(given.ptr[i]);
        is_code = ascii_is_upper(code[i]);
    }
    *out = json_null;
    /* A missing amount is not an error, whatever the currency: replies often omit optional
     * fields. */
    if (args[0].type == JSON_NULL)
        return OK;
    if (!is_code || !json_to_i64(&args[0], &amount))
        return expr_run_fail(run, EXPR_FAULT_VALUE, call->at,
                             "money() wants a whole number of the smallest unit and a currency's "
                             "three letters");
    enum { MONEY_BYTES_MAX = 32 };
    unsigned digits = currency_digits(slice_of(code, sizeof(code)));
    /* As in abs(), the value may be INT64_MIN. */
    uint64_t size = amount < 0 ? 0 - (uint64_t)amount : (uint64_t)amount;
    int rc = expr_run_text(run, MONEY_BYTES_MAX, &room);
    if (rc != OK)
        return rc;
    int len = snprintf(room, MONEY_BYTES_MAX, "%s%llu", amount < 0 ? "-" : "",
                       (unsigned long long)(size / units[digits]));
    if (digits > 0)
        len += snprintf(room + len, MONEY_BYTES_MAX - (size_t)len, ".%0*llu", (int)digits,
                        (unsigned long long)(size % units[digits]));
    len += snprintf(room + len, MONEY_BYTES_MAX - (size_t)len, " %.3s", code);
    *out = expr_string(room, (size_t)len);
    return OK;
}
