/*
 * ascii: classes and case of ASCII characters, the same in every locale. Bytes from 0x80 on belong
 * to no class and have no case, so UTF-8 passes through unchanged. `c` is a char or an unsigned
 * char: int takes both without a cast.
 */
#ifndef BASE_ASCII_H
#define BASE_ASCII_H

#include <stdbool.h>

static inline bool ascii_is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static inline bool ascii_is_lower(int c)
{
    return c >= 'a' && c <= 'z';
}

static inline bool ascii_is_upper(int c)
{
    return c >= 'A' && c <= 'Z';
}

static inline bool ascii_is_letter(int c)
{
    return ascii_is_lower(c) || ascii_is_upper(c);
}

static inline bool ascii_is_alnum(int c)
{
    return ascii_is_letter(c) || ascii_is_digit(c);
}

static inline char ascii_lower(char c)
{
    return ascii_is_upper(c) ? (char)(c - 'A' + 'a') : c;
}

static inline char ascii_upper(char c)
{
    return ascii_is_lower(c) ? (char)(c - 'a' + 'A') : c;
}

/* Returns 0 to 15, for letters in either case, or -1 if c is not a hexadecimal digit. */
static inline int ascii_hex_value(int c)
{
    if (ascii_is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static inline bool ascii_is_hex(int c)
{
    return ascii_hex_value(c) >= 0;
}

#endif
