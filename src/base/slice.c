/*
 * slice: comparing, splitting and parsing of borrowed bytes. Nothing here allocates.
 */
#include "base/slice.h"

#include "base/ascii.h"

bool slice_eq_nocase_bytes(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (a[i] != b[i] && ascii_lower(a[i]) != ascii_lower(b[i]))
            return false;
    return true;
}

/* Tests eight bytes at a time by subtraction: a borrow may cross into the next byte, but only from
 * a byte that ends the run anyway. */
size_t slice_printable(slice s, char first)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    size_t at = 0;
    for (uint64_t word; s.len - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, s.ptr + at, sizeof(word));
        uint64_t rubout = word ^ ones * 0x7f;
        if (((word - ones * (uint64_t)first) | (rubout - ones) | word) & ones * 0x80)
            break;
    }
    while (at < s.len && s.ptr[at] >= first && s.ptr[at] < 0x7f)
        at++;
    return at;
}

bool slice_starts_with(slice s, slice prefix)
{
    return prefix.len <= s.len && slice_eq(slice_first(s, prefix.len), prefix);
}

bool slice_ends_with(slice s, slice suffix)
{
    return suffix.len <= s.len && slice_eq(slice_from(s, s.len - suffix.len), suffix);
}

int slice_cmp(slice a, slice b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common ? memcmp(a.ptr, b.ptr, common) : 0;
    if (order == 0)
        order = (a.len > b.len) - (a.len < b.len);
    return order;
}

ptrdiff_t slice_find(slice s, slice needle)
{
    if (needle.len == 0)
        return 0;
    if (needle.len > s.len)
        return -1;
    /* memmem is linear in glibc (two-way), so a long hostile needle costs no quadratic time. */
    const char *at = memmem(s.ptr, s.len, needle.ptr, needle.len);
    return at ? at - s.ptr : -1;
}

ptrdiff_t slice_find_char(slice s, char c)
{
    /* memchr must not get NULL, which empty slices may hold. */
    const char *at = s.len ? memchr(s.ptr, c, s.len) : NULL;
    return at ? at - s.ptr : -1;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

slice slice_trim(slice s)
{
    while (s.len && is_blank(s.ptr[0]))
        s = slice_from(s, 1);
    while (s.len && is_blank(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

slice slice_split(slice *s, char sep)
{
    slice all = *s;
    ptrdiff_t at = slice_find_char(all, sep);
    if (at < 0) {
        *s = SLICE_NONE;
        return all;
    }
    *s = slice_from(all, (size_t)at + 1);
    return slice_first(all, (size_t)at);
}

bool slice_to_u64(slice s, uint64_t max, uint64_t *value)
{
    uint64_t sum = 0;
    if (s.len == 0)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned)(unsigned char)s.ptr[i] - '0';
        if (digit > 9)
            return false;
        /* Stops at the first overflow, since the caller does not limit the number of digits. */
        if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, digit, &sum))
            return false;
    }
    if (sum > max)
        return false;
    *value = sum;
    return true;
}

bool slice_to_u64_capped(slice s, uint64_t max, uint64_t *value)
{
    for (size_t i = 0; i < s.len; i++)
        if (!ascii_is_digit(s.ptr[i]))
            return false;
    /* All characters are digits, but the text is refused, because it is empty or the number is over
     * max. */
    if (!slice_to_u64(s, max, value))
        *value = max;
    return s.len > 0;
}

bool slice_to_i64(slice s, int64_t *value)
{
    bool is_negative = s.len && s.ptr[0] == '-';
    uint64_t size;
    /* The magnitude of INT64_MIN is one more than INT64_MAX. */
    if (!slice_to_u64(is_negative ? slice_from(s, 1) : s, (uint64_t)INT64_MAX + is_negative, &size))
        return false;
    *value = is_negative ? (int64_t)(0 - size) : (int64_t)size;
    return true;
}

bool slice_has_word(slice words, slice word)
{
    if (word.len == 0 || slice_find_char(word, ' ') >= 0)
        return false;
    for (size_t from = 0;;) {
        ptrdiff_t found = slice_find(slice_from(words, from), word);
        if (found < 0)
            return false;
        size_t begin = from + (size_t)found, end = begin + word.len;
        if ((begin == 0 || words.ptr[begin - 1] == ' ') &&
            (end == words.len || words.ptr[end] == ' '))
            return true;
        from = begin + 1;
    }
}

bool slice_to_bool(slice s, bool *value)
{
    static const slice words[] = {SLICE_INIT("true"),  SLICE_INIT("1"), SLICE_INIT("yes"),
                                  SLICE_INIT("false"), SLICE_INIT("0"), SLICE_INIT("no")};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (!slice_eq_nocase(s, words[i]))
            continue;
        *value = i < 3;
        return true;
    }
    return false;
}

/* Returns the number of bytes of s that belong to one sequence. *len gets the length of the
 * complete sequence, or 0 if the first byte does not begin one. The ranges of the second byte come
 * from RFC 3629 4: they exclude overlong forms, surrogates and code points above U+10FFFF. */
static size_t utf8_begun(slice s, size_t *len)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    *len = p[0] < 0x80 ? 1 : p[0] < 0xC2 || p[0] > 0xF4 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (*len <= 1)
        return *len;
    unsigned char low = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    if (s.len < 2 || p[1] < low || p[1] > high)
        return 1;
    size_t begun = 2;
    while (begun < *len && begun < s.len && (p[begun] & 0xC0) == 0x80)
        begun++;
    return begun;
}

size_t slice_utf8_first(slice s)
{
    size_t len = 0, begun = s.len > 0 ? utf8_begun(s, &len) : 0;
    return begun == len ? len : 0;
}

size_t slice_utf8_fault(slice s)
{
    size_t len, begun = utf8_begun(s, &len);
    return begun > 0 ? begun : 1;
}

size_t slice_code_point(slice s, uint32_t *code_point)
{
    const unsigned char *bytes = (const unsigned char *)s.ptr;
    size_t len = bytes[0] < 0x80 ? 1 : bytes[0] < 0xE0 ? 2 : bytes[0] < 0xF0 ? 3 : 4;
    ASSERT(len <= s.len);
    *code_point = len == 1 ? bytes[0] : bytes[0] & (0xFFU >> (len + 1));
    for (size_t i = 1; i < len; i++)
        *code_point = *code_point << 6 | (bytes[i] & 0x3FU);
    return len;
}

bool slice_is_utf8(slice s, size_t *bad_at)
{
    size_t i = 0;
    while (i < s.len) {
        uint64_t eight;
        /* ASCII, which is most text, is checked eight bytes at a time: a byte without its top
         * bit needs no decoding. */
        while (s.len - i >= sizeof(eight)) {
            memcpy(&eight, s.ptr + i, sizeof(eight));
            if (eight & 0x8080808080808080u)
                break;
            i += sizeof(eight);
        }
        if (i == s.len)
            break;
        if ((unsigned char)s.ptr[i] < 0x80) { /* of the last ones, or before one that is not */
            i++;
            continue;
        }
        size_t len = slice_utf8_first(slice_from(s, i));
        if (len == 0) {
            if (bad_at)
                *bad_at = i;
            return false;
        }
        i += len;
    }
    return true;
}

/* Returns whether c is in Unicode's class Zs, or hidden. */
static bool is_blank_sign(uint32_t c)
{
    return c == 0x20 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x202f ||
           c == 0x205f || c == 0x3000 || code_point_is_hidden(c);
}

bool slice_is_name(slice s, size_t characters_max)
{
    size_t characters = 0;
    bool is_visible = false, is_control = false;
    if (!slice_is_utf8(s, NULL))
        return false;
    for (slice rest = s; rest.len > 0 && !is_control; characters++) {
        uint32_t c;
        rest = slice_from(rest, slice_code_point(rest, &c));
        is_control = c < 0x20 || (c >= 0x7f && c < 0xa0);
        is_visible |= !is_blank_sign(c);
    }
    return !is_control && is_visible && characters <= characters_max;
}

bool code_point_is_unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || (c >= 0x200e && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

bool code_point_is_hidden(uint32_t c)
{
    /* These ranges are from Unicode 15, each from its first to its last character. They include
     * Default_Ignorable_Code_Point without the two variation selectors that make a symbol a text or
     * an emoji, and blank symbols. */
    static const uint32_t ranges[][2] = {
        {0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},
        {0x600, 0x605},     {0x61c, 0x61c},     {0x6dd, 0x6dd},     {0x70f, 0x70f},
        {0x890, 0x891},     {0x8e2, 0x8e2},     {0x115f, 0x1160},   {0x17b4, 0x17b5},
        {0x180b, 0x180f},   {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},
        {0x2800, 0x2800},   {0x3164, 0x3164},   {0xfe00, 0xfe0d},   {0xfeff, 0xfeff},
        {0xffa0, 0xffa0},   {0xfff0, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
        {0x13430, 0x13442}, {0x16fe4, 0x16fe4}, {0x1bca0, 0x1bca3}, {0x1d159, 0x1d159},
        {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
    };
    for (size_t i = 0; i < ARRAY_LEN(ranges) && c >= ranges[i][0]; i++)
        if (c <= ranges[i][1])
            return true;
    return false;
}

slice slice_first_utf8(slice s, size_t len)
{
    if (len >= s.len)
        return s;
    /* Goes back over at most three continuation bytes to the start of a split sequence. Bytes
     * after the cut may be missing, so only the lead byte gives its full length. */
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char lead = (unsigned char)s.ptr[len - back];
        if ((lead & 0xC0) == 0x80)
            continue;
        size_t whole = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
        return slice_first(s, whole > back ? len - back : len);
    }
    return slice_first(s, len);
}

slice slice_join(char *room, size_t size, const slice *parts, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        slice part = slice_first(parts[i], size - len);
        if (part.len > 0)
            memcpy(room + len, part.ptr, part.len);
        len += part.len;
    }
    return slice_of(room, len);
}

slice slice_of_u64(uint64_t value, char room[SLICE_U64_MAX])
{
    size_t at = SLICE_U64_MAX;
    do {
        room[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    return slice_of(room + at, SLICE_U64_MAX - at);
}

bool slice_eq_secret(slice a, slice b)
{
    if (a.len != b.len)
        return false;
    unsigned char differ = 0;
    /* Every byte is compared even after the first difference: the duration must not reveal how
     * much of a guessed key was right. */
    for (size_t i = 0; i < a.len; i++) {
        differ = (unsigned char)(differ | ((unsigned char)a.ptr[i] ^ (unsigned char)b.ptr[i]));
        __asm__ volatile("" : "+r"(differ)); /* no early exit, no vector shortcut */
    }
    return differ == 0;
}
