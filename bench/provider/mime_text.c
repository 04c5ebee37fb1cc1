/*
 * Texts of a mail: encoded words, quoted-printable, base64, charsets, parameters, addresses.
 */
#include "base/ascii.h"
#include "provider/mime.h"

/* A soft line break at text[i] ('='): its length, or 0. */
static size_t soft_break(slice text, size_t i)
{
    size_t j = i + 1;
    while (j < text.len && (text.ptr[j] == ' ' || text.ptr[j] == '\t'))
        j++;
    if (j < text.len && text.ptr[j] == '\r')
        j++;
    if (j < text.len && text.ptr[j] == '\n')
        return j + 1 - i;
    return j == text.len ? j - i : 0;
}

void mime_decode_quoted(struct buf *out, slice text, bool is_header)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '_' && is_header) {
            buf_append_char(out, ' ');
            continue;
        }
        if (c != '=') {
            buf_append_char(out, c);
            continue;
        }
        size_t skip = is_header ? 0 : soft_break(text, i);
        if (skip) {
            i += skip - 1;
            continue;
        }
        int high = i + 2 < text.len ? ascii_hex_value(text.ptr[i + 1]) : -1;
        int low = i + 2 < text.len ? ascii_hex_value(text.ptr[i + 2]) : -1;
        if (high < 0 || low < 0) {
            buf_append_char(out, c);
            continue;
        }
        buf_append_char(out, (char)(high * 16 + low));
        i += 2;
    }
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+' || c == '-')
        return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

void mime_decode_base64(struct buf *out, slice text)
{
    uint32_t bits = 0;
    unsigned count = 0;
    for (size_t i = 0; i < text.len && text.ptr[i] != '='; i++) {
        int value = base64_value(text.ptr[i]);
        if (value < 0)
            continue;
        bits = (bits << 6 | (uint32_t)value) & 0xffffff;
        count += 6;
        if (count >= 8) {
            count -= 8;
            buf_append_char(out, (char)(bits >> count & 0xff));
        }
    }
}

slice mime_to_utf8(struct arena *arena, slice bytes)
{
    struct buf out;
    if (slice_is_utf8(bytes, NULL))
        return bytes;
    buf_init(&out, bytes.len * 2 + 1);
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.ptr[i];
        if (c >= 0x80)
            buf_append_char(&out, (char)(0xc0 | c >> 6));
        buf_append_char(&out, (char)(c < 0x80 ? c : 0x80 | (c & 0x3f)));
    }
    slice text = arena_dup(arena, buf_slice(&out));
    buf_deinit(&out);
    return text;
}

/* Decodes the encoded word that text begins with into out; its length, 0 when there is none. */
static size_t decode_word(struct arena *arena, slice text, struct buf *out)
{
    if (!slice_starts_with(text, SLICE("=?")))
        return 0;
    slice rest = slice_from(text, 2);
    (void)slice_split(&rest, '?'); /* the charset */
    slice encoding = rest.ptr ? slice_split(&rest, '?') : SLICE_NONE;
    slice data = rest.ptr ? slice_split(&rest, '?') : SLICE_NONE;
    if (encoding.len != 1 || !rest.ptr || !rest.len || rest.ptr[0] != '=' ||
        slice_find_char(data, ' ') >= 0)
        return 0;
    struct buf bytes;
    buf_init(&bytes, data.len + 1);
    if (encoding.ptr[0] == 'B' || encoding.ptr[0] == 'b')
        mime_decode_base64(&bytes, data);
    else
        mime_decode_quoted(&bytes, data, true);
    buf_append(out, mime_to_utf8(arena, buf_slice(&bytes)));
    buf_deinit(&bytes);
    return (size_t)(rest.ptr + 1 - text.ptr);
}

slice mime_decode_words(struct arena *arena, slice text)
{
    if (slice_find(text, SLICE("=?")) < 0)
        return mime_to_utf8(arena, arena_dup(arena, text));
    struct buf out;
    buf_init(&out, text.len * 3 + 1);
    size_t gap = 0; /* white space behind an encoded word; dropped before another one */
    bool is_behind_word = false;
    for (size_t i = 0; i < text.len;) {
        size_t kept = out.len;
        size_t used = decode_word(arena, slice_from(text, i), &out);
        if (used) {
            if (is_behind_word && gap) {
                struct buf word;
                buf_init(&word, out.len + 1);
                buf_append(&word, slice_from(buf_slice(&out), kept));
                out.len = kept - gap;
                buf_append(&out, buf_slice(&word));
                buf_deinit(&word);
            }
            is_behind_word = true;
            gap = 0;
            i += used;
            continue;
        }
        char c = text.ptr[i++];
        buf_append_char(&out, c);
        if (c == ' ' || c == '\t')
            gap++;
        else
            is_behind_word = false, gap = 0;
        if (!is_behind_word)
            gap = 0;
    }
    slice decoded = mime_to_utf8(arena, arena_dup(arena, buf_slice(&out)));
    buf_deinit(&out);
    return decoded;
}

/* The value at text: a quoted string or up to ';'. *rest is behind it. */
static slice param_value(struct arena *arena, slice text, slice *rest)
{
    text = slice_trim(text);
    if (!text.len || text.ptr[0] != '"') {
        *rest = text;
        return slice_trim(slice_split(rest, ';'));
    }
    struct buf value;
    buf_init(&value, text.len + 1);
    size_t i = 1;
    for (; i < text.len && text.ptr[i] != '"'; i++) {
        if (text.ptr[i] == '\\' && i + 1 < text.len)
            i++;
        buf_append_char(&value, text.ptr[i]);
    }
    *rest = slice_from(text, i + 1);
    slice_split(rest, ';');
    slice copy = arena_dup(arena, buf_slice(&value));
    buf_deinit(&value);
    return copy;
}

/* RFC 8187: charset'language'percent-encoded. */
static slice extended_value(struct arena *arena, slice value)
{
    slice_split(&value, '\'');
    slice_split(&value, '\'');
    struct buf out;
    buf_init(&out, value.len + 1);
    for (size_t i = 0; i < value.len; i++) {
        int high = value.ptr[i] == '%' && i + 2 < value.len ? ascii_hex_value(value.ptr[i + 1])
                                                            : -1;
        int low = high >= 0 ? ascii_hex_value(value.ptr[i + 2]) : -1;
        buf_append_char(&out, low >= 0 ? (char)(high * 16 + low) : value.ptr[i]);
        if (low >= 0)
            i += 2;
    }
    slice text = mime_to_utf8(arena, arena_dup(arena, buf_slice(&out)));
    buf_deinit(&out);
    return text;
}

slice mime_param(struct arena *arena, slice value, const char *name)
{
    slice_split(&value, ';');
    while (value.len) {
        ptrdiff_t equals = slice_find_char(value, '=');
        if (equals < 0)
            break;
        slice key = slice_trim(slice_first(value, (size_t)equals));
        slice found = param_value(arena, slice_from(value, (size_t)equals + 1), &value);
        if (slice_eq_nocase(key, slice_cstr(name)))
            return mime_decode_words(arena, found);
        if (key.len && key.ptr[key.len - 1] == '*' &&
            slice_eq_nocase(slice_first(key, key.len - 1), slice_cstr(name)))
            return extended_value(arena, found);
    }
    return SLICE_NONE;
}

static bool is_address_char(char c)
{
    return ascii_is_alnum(c) || (c && strchr("!#$%&'*+-/=?^_`{|}~.", c)) ||
           (unsigned char)c >= 0x80;
}

void mime_addresses(slice value, void (*on_address)(void *user, slice address), void *user)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] != '@')
            continue;
        size_t start = i, end = i + 1;
        while (start > 0 && is_address_char(value.ptr[start - 1]))
            start--;
        while (end < value.len && (is_address_char(value.ptr[end])))
            end++;
        if (start < i && end > i + 1)
            on_address(user, slice_of(value.ptr + start, end - start));
        i = end;
    }
}
