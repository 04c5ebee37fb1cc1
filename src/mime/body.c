/*
 * Bodies in quoted-printable and base64 (RFC 2045 6.7, 6.8), written in one pass, with CRLF line
 * ends and at most 76 columns. A bare CR or LF in the text becomes CRLF: mail programs and relays
 * treat a bare CR or LF differently, and SMTP smuggling exploits that.
 */
#include "base/encode.h"
#include "base/ascii.h"
#include "mime/internal.h"

/* Returns the length of the line end at text[i]: CRLF, a lone LF or a lone CR; 0 if there is
 * none. */
static size_t line_end(slice text, size_t i)
{
    if (text.ptr[i] == '\n')
        return 1;
    if (text.ptr[i] != '\r')
        return 0;
    return i + 1 < text.len && text.ptr[i + 1] == '\n' ? 2 : 1;
}

static bool is_literal(unsigned char c)
{
    return (c >= ' ' && c <= '~' && c != '=') || c == '\t';
}

/* ---- quoted-printable ---- */

static void put_quoted_printable(struct mime *mime, slice text)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t column = 0;
    for (size_t i = 0, end; i < text.len && mime->status == OK; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((end = line_end(text, i)) > 0) {
            MIME_LIT(mime, "\r\n");
            column = 0;
            i += end - 1;
            continue;
        }
        /* Relays may remove white space at the end of a line. */
        bool is_last = i + 1 == text.len || line_end(text, i + 1) > 0;
        bool is_plain = is_literal(c) && !(is_last && (c == ' ' || c == '\t'));
        size_t len = is_plain ? 1 : 3;
        /* One column stays free for the "=" of a soft line break (RFC 2045 6.7 (5)). */
        if (column + len >= MIME_COLUMNS_MAX) {
            MIME_LIT(mime, "=\r\n");
            column = 0;
        }
        char code[3] = {is_plain ? (char)c : '=', hex[c >> 4], hex[c & 15]};
        mime_add(mime, slice_of(code, len));
        column += len;
    }
}

/* ---- base64 ---- */

static void put_base64_line(struct mime *mime, slice bytes, bool is_first)
{
    char digits[80];
    struct buf buf = {.ptr = digits, .cap = sizeof digits, .bytes_max = sizeof digits};
    encode_base64(&buf, bytes);
    ASSERT(buf_is_ok(&buf) && buf.len <= MIME_COLUMNS_MAX);
    if (!is_first)
        MIME_LIT(mime, "\r\n");
    mime_add(mime, buf_slice(&buf));
}

static void put_text_base64(struct mime *mime, slice text)
{
    /* Each line has whole groups of three bytes, so only the last line has padding. */
    enum { LINE = MIME_COLUMNS_MAX / 4 * 3 };
    char line[LINE];
    size_t len = 0;
    bool is_first = true;
    for (size_t i = 0; i < text.len && mime->status == OK; i++) {
        size_t end = line_end(text, i);
        const char *from = end ? "\r\n" : text.ptr + i;
        for (size_t k = 0; k < (end ? 2 : 1); k++) {
            line[len++] = from[k];
            if (len < LINE)
                continue;
            put_base64_line(mime, slice_of(line, len), is_first);
            is_first = false;
            len = 0;
        }
        i += end ? end - 1 : 0;
    }
    if (len > 0)
        put_base64_line(mime, slice_of(line, len), is_first);
}

/* Returns the digit in the standard alphabet; 0 if it is not a digit. */
static char base64_digit(char c)
{
    if (ascii_is_alnum(c) || c == '+' || c == '/')
        return c;
    return c == '-' ? '+' : c == '_' ? '/' : '\0';
}

void mime_put_base64(struct mime *mime, const char *what, slice base64)
{
    size_t digits = 0, padding = 0;
    char line[MIME_COLUMNS_MAX];
    size_t len = 0;
    for (size_t i = 0; i < base64.len && mime->status == OK; i++) {
        char c = base64.ptr[i];
        if (c && strchr(" \t\r\n", c))
            continue;
        /* Both alphabets are read, and the standard one is written: APIs give base64url where
         * mail needs base64. */
        char digit = base64_digit(c);
        padding += c == '=';
        /* No digit may follow padding: readers disagree about such a second text. */
        if ((!digit && c != '=') || (digit && padding > 0)) {
            mime_fail(mime, "%s is not base64: wrong character at offset %zu", what, i);
            return;
        }
        if (!digit)
            continue;
        if (digits > 0 && len == 0)
            MIME_LIT(mime, "\r\n");
        line[len++] = digit;
        digits++;
        if (len == sizeof line) {
            mime_add(mime, slice_of(line, len));
            len = 0;
        }
    }
    /* Padding may be absent; if present it must be complete. */
    if (digits % 4 == 1 || padding > 2 || (padding > 0 && (digits + padding) % 4 != 0))
        mime_fail(mime, "%s is not base64: its length is wrong", what);
    mime_add(mime, slice_of(line, len));
    mime_add(mime, slice_first(SLICE("=="), (4 - digits % 4) % 4));
}

/* ---- text parts ---- */

void mime_put_text(struct mime *mime, const char *subtype, slice text)
{
    size_t coded = 0;
    for (size_t i = 0; i < text.len; i++)
        coded += !is_literal((unsigned char)text.ptr[i]) && line_end(text, i) == 0;
    /* Quoted-printable takes 1 + 2c bytes per byte, base64 4/3. */
    bool is_base64 = coded > text.len / 6;
    MIME_LIT(mime, "Content-Type: text/");
    mime_add(mime, slice_cstr(subtype));
    MIME_LIT(mime, "; charset=UTF-8\r\nContent-Transfer-Encoding: ");
    mime_add(mime, is_base64 ? SLICE("base64\r\n\r\n") : SLICE("quoted-printable\r\n\r\n"));
    if (is_base64)
        put_text_base64(mime, text);
    else
        put_quoted_printable(mime, text);
}
