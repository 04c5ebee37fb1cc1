/*
 * write_str: writes strings as JSON text. Whole runs are copied, only what RFC 8259 7 requires is
 * escaped, and bytes that are not UTF-8 become U+FFFD, one for each byte outside a sequence. Texts
 * from providers may contain any bytes, and a JSON text must be UTF-8 (RFC 8259 8.1).
 */
#include "json/json.h"

/* Returns 0 for plain ASCII, 1 for a byte to be escaped, 2 for a byte that is not ASCII. */
static unsigned byte_class(unsigned char c)
{
    if (c >= 0x80)
        return 2;
    return c < 0x20 || c == '"' || c == '\\';
}

/* Returns the length of the RFC 3629 sequence at text, 0 if there is none. */
static size_t utf8_len(const unsigned char *text, size_t room)
{
    unsigned char lead = text[0];
    size_t len = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || len > room)
        return 0;
    /* As in slice_utf8_first (base/slice.c), without its call: the ranges are those of RFC 3629
     * 4. */
    unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (text[1] < low || text[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    }
    return len;
}

static uint64_t load_word(const char *text)
{
    uint64_t word;
    memcpy(&word, text, sizeof(word));
    return word;
}

/* Whether none of the 8 bytes is below 0x20, '"', '\\' or past ASCII. The usual carry trick: a
 * borrow may cross into the next byte, but only from a byte that already makes the answer "no". */
static bool is_plain_word(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t quote = word ^ ones * '"';
    uint64_t slash = word ^ ones * '\\';
    uint64_t bad = (word - ones * 0x20) | (quote - ones) | (slash - ones) | word;
    return (bad & ones * 0x80) == 0;
}

/* Returns the end of the run from start that may be copied unchanged. */
static size_t run_end(slice text, size_t start)
{
    const unsigned char *bytes = (const unsigned char *)text.ptr;
    size_t at = start;
    while (at < text.len) {
        /* Eight bytes at a time while all are plain; else this byte decides. */
        if (text.len - at >= sizeof(uint64_t) && is_plain_word(load_word(text.ptr + at))) {
            at += sizeof(uint64_t);
            continue;
        }
        unsigned class = byte_class(bytes[at]);
        size_t len = class == 0 ? 1 : class == 2 ? utf8_len(bytes + at, text.len - at) : 0;
        if (len == 0)
            break;
        at += len;
    }
    return at;
}

static void write_escape(struct buf *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    static const char *const shorts[] = {
        ['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f",
        ['\r'] = "\\r", ['"'] = "\\\"", ['\\'] = "\\\\"};
    /* Only bytes outside a character get here with the top bit set. */
    if (c >= 0x80) {
        buf_append(out, SLICE("\xEF\xBF\xBD"));
    } else if (shorts[c]) {
        buf_append(out, (slice){shorts[c], 2});
    } else {
        const char text[] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        buf_append(out, (slice){text, sizeof(text)});
    }
}

static void write_escaped(struct buf *out, slice text, size_t end)
{
    buf_append_char(out, '"');
    for (size_t at = 0; buf_is_ok(out); end = run_end(text, at)) {
        buf_append(out, (slice){text.ptr + at, end - at});
        if (end == text.len)
            break;
        write_escape(out, (unsigned char)text.ptr[end]);
        at = end + 1;
    }
    buf_append_char(out, '"');
}

/* Copies at most 7 bytes, as two overlapping halves or as single bytes. */
static bool copy_short(char *to, slice text)
{
    uint32_t first, last;
    if (text.len >= sizeof(first)) {
        memcpy(&first, text.ptr, sizeof(first));
        memcpy(&last, text.ptr + text.len - sizeof(last), sizeof(last));
        memcpy(to, &first, sizeof(first));
        memcpy(to + text.len - sizeof(last), &last, sizeof(last));
        return is_plain_word(first | (uint64_t)last << 32);
    }
    for (size_t at = 0; at < text.len; at++) {
        if (byte_class((unsigned char)text.ptr[at]) != 0)
            return false;
        to[at] = text.ptr[at];
    }
    return true;
}

/* Copies while it checks, a word at a time; the last word overlaps the one before. Returns false if
 * some byte is not plain; the copy is then unusable. Most strings are keys and short texts, for
 * which calling a copying function would cost more than the copy. */
static bool copy_unescaped(char *to, slice text)
{
    if (text.len < sizeof(uint64_t))
        return copy_short(to, text);
    size_t last = text.len - sizeof(uint64_t);
    for (size_t at = 0;; at += sizeof(uint64_t)) {
        /* The last word overlaps the one before it, so no byte is left for a separate loop. */
        at = at < last ? at : last;
        uint64_t word = load_word(text.ptr + at);
        if (!is_plain_word(word))
            return false;
        memcpy(to + at, &word, sizeof(word));
        if (at == last)
            return true;
    }
}

void json_write_str(struct buf *out, slice text)
{
    /* Reserves space for the unescaped text: most strings need no escape, and write_escaped
     * itself reserves what it needs. */
    char *end = buf_reserve(out, text.len + 2);
    if (!end)
        return;
    if (!copy_unescaped(end + 1, text)) {
        write_escaped(out, text, run_end(text, 0));
        return;
    }
    end[0] = '"';
    end[text.len + 1] = '"';
    buf_added(out, text.len + 2);
}

slice json_excerpt(slice text, struct arena *arena)
{
    slice printed = slice_first_utf8(text, JSON_EXCERPT_BYTES_MAX), result = SLICE_NONE;
    struct buf out;
    /* Each byte may become six ("\u0000"). */
    buf_init(&out, 6 * JSON_EXCERPT_BYTES_MAX + 16);
    json_write_str(&out, printed);
    if (buf_is_ok(&out)) {
        /* Omits the quotes that json_write_str has added. */
        out.len--;
        if (printed.len < text.len)
            buf_append(&out, SLICE("..."));
        result = arena_dup(arena, slice_from(buf_slice(&out), 1));
    }
    buf_deinit(&out);
    return result;
}
