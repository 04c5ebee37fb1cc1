/*
 * encode: byte encodings by table. Each function reserves its exact (or maximum) room once and then
 * writes without further checks. A decoder that fails leaves `out` unchanged.
 */
#include "base/encode.h"

#include <stdint.h>

#include "base/ascii.h"

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64url_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
static const char hex_digits[] = "0123456789abcdef";

/* Returns the error of a buf that has no room. */
static int no_room(const struct buf *out, size_t len)
{
    return len > out->bytes_max - out->len ? ERR_LIMIT : ERR_NOMEM;
}

/* Writes the digits without padding; returns the end of the text. */
static char *put_base64(char *to, slice bytes, const char *digits)
{
    size_t tail = bytes.len % 3;
    const unsigned char *p = (const unsigned char *)bytes.ptr;
    const unsigned char *end = p + (bytes.len - tail);
    for (; p < end; p += 3, to += 4) {
        to[0] = digits[p[0] >> 2];
        to[1] = digits[(p[0] & 3) << 4 | p[1] >> 4];
        to[2] = digits[(p[1] & 15) << 2 | p[2] >> 6];
        to[3] = digits[p[2] & 63];
    }
    if (tail) {
        unsigned second = tail == 2 ? p[1] : 0;
        to[0] = digits[p[0] >> 2];
        to[1] = digits[(p[0] & 3u) << 4 | second >> 4];
        if (tail == 2)
            to[2] = digits[(second & 15) << 2];
        to += tail + 1;
    }
    return to;
}

static void base64_encode(struct buf *out, slice bytes, const char *digits, bool is_padded)
{
    /* The products cannot overflow: a slice in memory is shorter than 2^48 bytes. */
    size_t len = is_padded ? (bytes.len + 2) / 3 * 4 : BASE64URL_LEN(bytes.len);
    char *to = len > 0 ? buf_reserve(out, len) : NULL;
    if (!to)
        return;
    for (char *at = put_base64(to, bytes, digits); at < to + len; at++)
        *at = '=';
    buf_added(out, len);
}

void encode_base64(struct buf *out, slice bytes)
{
    base64_encode(out, bytes, base64_digits, true);
}

void encode_base64url(struct buf *out, slice bytes)
{
    base64_encode(out, bytes, base64url_digits, false);
}

slice encode_base64url_in(char *room, size_t size, slice bytes)
{
    ASSERT(BASE64URL_LEN(bytes.len) <= size);
    return slice_of(room, (size_t)(put_base64(room, bytes, base64url_digits) - room));
}

/* No digit's value has this bit (they are below 64), so the values of a whole text can be
 * combined with OR and tested once at its end. */
enum { BASE64_BAD = 0x80 };

/* The value of each byte as a digit, or BASE64_BAD for bytes that are not digits. */
static unsigned char base64_values[256], base64url_values[256];

/* Runs before main, so that decoding on several threads needs no lock for its tables. */
__attribute__((constructor)) static void fill_values(void)
{
    memset(base64_values, BASE64_BAD, sizeof(base64_values));
    memset(base64url_values, BASE64_BAD, sizeof(base64url_values));
    for (unsigned i = 0; i < 64; i++) {
        base64_values[(unsigned char)base64_digits[i]] = (unsigned char)i;
        base64url_values[(unsigned char)base64url_digits[i]] = (unsigned char)i;
    }
}

/* Decodes `count` (2 to 4) digits into count - 1 bytes. Returns false if one is not a digit, or if
 * surplus bits are not 0 (RFC 4648 3.5: each value has only one text). */
static bool decode_group(const unsigned char *p, size_t count, const unsigned char *values,
                         unsigned char *to)
{
    unsigned bits = 0, bad = 0;
    for (size_t i = 0; i < 4; i++) {
        /* A missing digit counts as 0, like the encoder's padding. */
        unsigned value = i < count ? values[p[i]] : 0;
        bad |= value;
        bits = bits << 6 | value;
    }
    for (size_t i = 0; i + 1 < count; i++)
        to[i] = (unsigned char)(bits >> (16 - 8 * i));
    unsigned unused = bits & ((1u << (8 * (4 - count))) - 1);
    return !(bad & BASE64_BAD) && unused == 0;
}

/* Decodes a text without padding, whose length is not 1 more than a multiple of 4. */
static int base64_decode(struct buf *out, slice text, const unsigned char *values)
{
    size_t tail = text.len % 4;
    size_t len = text.len / 4 * 3 + (tail ? tail - 1 : 0);
    ASSERT(tail != 1);
    unsigned char *to = (unsigned char *)buf_reserve(out, len);
    if (!to)
        return no_room(out, len);
    const unsigned char *p = (const unsigned char *)text.ptr;
    unsigned bad = 0;
    for (size_t i = 0; i < text.len / 4; i++, p += 4, to += 3) {
        unsigned a = values[p[0]], b = values[p[1]], c = values[p[2]], d = values[p[3]];
        bad |= a | b | c | d;
        to[0] = (unsigned char)(a << 2 | b >> 4);
        to[1] = (unsigned char)(b << 4 | c >> 2);
        to[2] = (unsigned char)(c << 6 | d);
    }
    if ((bad & BASE64_BAD) || (tail && !decode_group(p, tail, values, to)))
        return ERR_SYNTAX;
    buf_added(out, len);
    return OK;
}

static slice without_padding(slice text)
{
    /* At most two are removed: three would leave a group of one digit, which encodes no byte. */
    for (int i = 0; i < 2 && text.len && text.ptr[text.len - 1] == '='; i++)
        text.len--;
    return text;
}

int decode_base64(struct buf *out, slice text)
{
    return text.len % 4 ? ERR_SYNTAX : base64_decode(out, without_padding(text), base64_values);
}

int decode_base64url(struct buf *out, slice text)
{
    slice digits = without_padding(text);
    bool is_padded = digits.len < text.len;
    /* Padding is optional, but if present it must be complete (RFC 4648 3.2). */
    if (digits.len % 4 == 1 || (is_padded && text.len % 4))
        return ERR_SYNTAX;
    return base64_decode(out, digits, base64url_values);
}

static void put_hex(char *to, slice bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        *to++ = hex_digits[(unsigned char)bytes.ptr[i] >> 4];
        *to++ = hex_digits[bytes.ptr[i] & 15];
    }
}

void encode_hex_in(char *room, size_t size, slice bytes)
{
    ASSERT(size > 0 && bytes.len <= (size - 1) / 2);
    put_hex(room, bytes);
    room[2 * bytes.len] = '\0';
}

void encode_hex(struct buf *out, slice bytes)
{
    if (bytes.len > SIZE_MAX / 2) {
        out->is_failed = true;
        return;
    }
    char *to = buf_reserve(out, bytes.len * 2);
    if (!to)
        return;
    put_hex(to, bytes);
    buf_added(out, bytes.len * 2);
}

int decode_hex(struct buf *out, slice text)
{
    if (text.len % 2)
        return ERR_SYNTAX;
    size_t len = text.len / 2;
    char *to = buf_reserve(out, len);
    if (!to)
        return no_room(out, len);
    for (size_t i = 0; i < text.len; i += 2) {
        int high = ascii_hex_value(text.ptr[i]), low = ascii_hex_value(text.ptr[i + 1]);
        if (high < 0 || low < 0)
            return ERR_SYNTAX;
        *to++ = (char)(high << 4 | low);
    }
    buf_added(out, len);
    return OK;
}

static bool is_unreserved(char c)
{
    return ascii_is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

void encode_percent(struct buf *out, slice bytes)
{
    static const char upper_digits[] = "0123456789ABCDEF";
    size_t len = 0;
    for (size_t i = 0; i < bytes.len; i++)
        len += is_unreserved(bytes.ptr[i]) ? 1 : 3;
    char *to = buf_reserve(out, len);
    for (size_t i = 0; to && i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.ptr[i];
        if (is_unreserved((char)c)) {
            *to++ = (char)c;
            continue;
        }
        *to++ = '%';
        *to++ = upper_digits[c >> 4];
        *to++ = upper_digits[c & 15];
    }
    if (to)
        buf_added(out, len);
}

/* Decodes one character of text, escaped or not, and moves *at past it. Returns -1 if it is invalid
 * or NUL. NUL is refused in both forms: a C library that reads the result would stop there
 * ("a.png%00.exe"). */
static int percent_char(slice text, size_t *at, bool plus_is_space)
{
    char c = text.ptr[(*at)++];
    if (c == '+' && plus_is_space)
        return ' ';
    if (c != '%')
        return c ? (unsigned char)c : -1;
    if (text.len - *at < 2)
        return -1;
    int high = ascii_hex_value(text.ptr[*at]), low = ascii_hex_value(text.ptr[*at + 1]);
    *at += 2;
    bool is_bad = high < 0 || low < 0 || (high | low) == 0;
    return is_bad ? -1 : high << 4 | low;
}

int decode_percent(struct buf *out, slice text, bool plus_is_space)
{
    char *to = buf_reserve(out, text.len);
    if (!to)
        return no_room(out, text.len);
    size_t len = 0, at = 0;
    while (at < text.len) {
        int c = percent_char(text, &at, plus_is_space);
        if (c < 0)
            return ERR_SYNTAX;
        to[len++] = (char)c;
    }
    buf_added(out, len);
    return OK;
}

slice decode_percent_in(struct arena *arena, slice text, bool plus_is_space)
{
    bool has_plus = plus_is_space && slice_find_char(text, '+') >= 0;
    if (slice_find_char(text, '%') < 0 && !has_plus)
        return text.ptr ? text : SLICE("");
    char *room = arena_alloc_text(arena, text.len + 1);
    if (!room)
        return SLICE_NONE;
    /* Decoded text is never longer, so the buffer never grows. */
    struct buf out = {.ptr = room, .cap = text.len, .bytes_max = text.len};
    if (decode_percent(&out, text, plus_is_space) != OK)
        return SLICE_NONE;
    room[out.len] = '\0';
    return buf_slice(&out);
}

/* ---- paths ---- */

/* Decodes a character as many times as it was encoded: "%252e" is a dot. Moves *at past it. */
static char fully_decoded(slice text, size_t *at)
{
    char c = text.ptr[(*at)++];
    while (c == '%' && text.len - *at >= 2 && ascii_is_hex(text.ptr[*at]) &&
           ascii_is_hex(text.ptr[*at + 1])) {
        c = (char)(ascii_hex_value(text.ptr[*at]) << 4 | ascii_hex_value(text.ptr[*at + 1]));
        *at += 2;
    }
    return c;
}

static bool find_dot_segment(slice path, bool is_split)
{
    size_t dots = 0, at = 0;
    bool has_others = false, is_after_semicolon = false;
    if (slice_find_char(path, '.') < 0 && slice_find_char(path, '%') < 0)
        return false;
    for (;;) {
        bool is_end = at == path.len;
        char c = is_end ? '/' : fully_decoded(path, &at);
        if (is_end || (is_split && (c == '/' || c == '\\'))) {
            if (!has_others && (dots == 1 || dots == 2))
                return true;
            if (is_end)
                return false;
            dots = 0;
            has_others = is_after_semicolon = false;
            continue;
        }
        is_after_semicolon = is_after_semicolon || c == ';';
        dots += !is_after_semicolon && c == '.';
        has_others = has_others || (!is_after_semicolon && c != '.');
    }
}

bool path_has_dot_segment(slice path)
{
    return find_dot_segment(path, true);
}

bool path_is_dot_segment(slice segment)
{
    return find_dot_segment(segment, false);
}

/* ---- for people ---- */

/* Writes \uXXXX, or a surrogate pair for characters past U+FFFF, as in JSON. */
static void put_mark(struct buf *out, uint32_t c)
{
    if (c > 0xffff)
        buf_printf(out, "\\u%04x\\u%04x", (unsigned)(0xd7c0 + (c >> 10)),
                   (unsigned)(0xdc00 + (c & 0x3ff)));
    else
        buf_printf(out, "\\u%04x", (unsigned)c);
}

enum { LETTER_MARKS_MAX = 8 };

/* Returns whether c is a combining mark of a script in which many marks can be added to a
 * letter. */
static bool is_mark(uint32_t c)
{
    static const uint32_t ranges[][2] = {
        {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},   {0x64b, 0x65f},
        {0x6d6, 0x6dc},   {0x6df, 0x6e4},   {0x730, 0x74a},   {0x7eb, 0x7f3},   {0xe31, 0xe31},
        {0xe34, 0xe3a},   {0xe47, 0xe4e},   {0xeb1, 0xeb1},   {0xeb4, 0xebc},   {0xec8, 0xece},
        {0x1ab0, 0x1aff}, {0x1cd0, 0x1ce8}, {0x1dc0, 0x1dff}, {0x20d0, 0x20ff}, {0xfe20, 0xfe2f},
    };
    if (c > 0x20ff && c < 0xfe20) /* most text is above this range */
        return false;
    for (size_t i = 0; i < ARRAY_LEN(ranges) && c >= ranges[i][0]; i++)
        if (c <= ranges[i][1])
            return true;
    return false;
}

/* A letter or symbol, and the marks on it. */
struct letter {
    uint32_t c;
    unsigned marks;
    bool has_selector;
};

/* Returns whether c is a symbol that has both a text form and an emoji form. */
static bool has_two_forms(uint32_t c)
{
    return c == '#' || c == '*' || (c >= '0' && c <= '9') || c == 0xa9 || c == 0xae ||
           (c >= 0x203c && c <= 0x3299) || (c >= 0x1f000 && c <= 0x1faff);
}

/* Returns whether c is to be escaped: more marks than any script uses would extend into the lines
 * above and below; a variation selector that selects nothing can hide text from readers. */
static bool is_surplus(uint32_t c, struct letter *letter)
{
    if (is_mark(c))
        return ++letter->marks > LETTER_MARKS_MAX;
    if (c == 0xfe0e || c == 0xfe0f) {
        bool is_first = !letter->has_selector && has_two_forms(letter->c);
        letter->has_selector = true;
        return !is_first;
    }
    *letter = (struct letter){.c = c};
    return false;
}

void encode_visible(struct buf *out, slice text, slice kept)
{
    size_t run = 0, at = 0;
    struct letter letter = {0};
    while (at < text.len) {
        uint32_t c = (unsigned char)text.ptr[at];
        size_t len = c < 0x80 ? 1 : slice_utf8_first(slice_from(text, at));
        if (len > 1)
            (void)slice_code_point(slice_from(text, at), &c);
        /* Bytes that are not UTF-8 are copied: the writer of the output replaces them. */
        bool is_kept = c < 0x80 && slice_find_char(kept, (char)c) >= 0;
        bool is_marked = is_surplus(c, &letter) || code_point_is_hidden(c);
        if (len > 0 && is_marked && !is_kept) {
            buf_append(out, slice_of(text.ptr + run, at - run));
            put_mark(out, c);
            run = at + len;
        }
        at += len > 0 ? len : 1;
    }
    buf_append(out, slice_from(text, run));
}
