/*
 * The tree of a mail: header sections, multiparts, transfer encodings, encoded words, charsets.
 */
#include "provider/mime.h"

#include "base/ascii.h"
#include "base/encode.h"
#include "provider/provider.h"

/* Shared by all parts of a mail. */
struct reading {
    struct arena *arena;
    slice prefix;
    struct mime_part *last;
    size_t count;
    struct err *err;
};

/* ---- texts ---- */

slice mime_base64url(struct arena *arena, slice bytes)
{
    struct buf out;
    buf_init(&out, 2 * bytes.len + 4);
    encode_base64url(&out, bytes);
    while (out.len % 4)
        buf_append_char(&out, '=');
    return arena_take(arena, &out);
}

/* Text that is not UTF-8 is decoded as Latin-1, whatever charset is named. */
static slice to_utf8(struct arena *arena, slice bytes)
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
    return arena_take(arena, &out);
}

/* In a header a space is written as an underscore. */
static void decode_quoted(struct buf *out, slice text, bool is_header)
{
    while (text.len) {
        char c = text.ptr[0];
        text = slice_from(text, 1);
        if (c != '=')
            buf_append_char(out, is_header && c == '_' ? ' ' : c);
        else if (slice_starts_with(text, SLICE("\r\n")))
            text = slice_from(text, 2);
        else if (slice_starts_with(text, SLICE("\n")))
            text = slice_from(text, 1);
        else if (text.len >= 2 && decode_hex(out, slice_first(text, 2)) == OK)
            text = slice_from(text, 2);
        else
            buf_append_char(out, c);
    }
}

/* Decodes base64. White space is skipped. If the rest has an invalid character, nothing is
 * decoded. */
static void decode_lines(struct buf *out, slice text)
{
    struct buf digits;
    buf_init(&digits, text.len + 1);
    for (size_t i = 0; i < text.len; i++)
        if (!strchr(" \t\r\n", text.ptr[i]))
            buf_append_char(&digits, text.ptr[i]);
    (void)!decode_base64(out, buf_slice(&digits));
    buf_deinit(&digits);
}

/* Consumes an RFC 2047 encoded word at the beginning of *text. Returns false if there is none. */
static bool take_word(struct arena *arena, slice *text, struct buf *out)
{
    slice rest = *text, fields[4]; /* "=", charset, encoding, data */
    struct buf bytes;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        fields[i] = slice_split(&rest, '?');
    if (!slice_eq(fields[0], SLICE("=")) || fields[2].len != 1 ||
        !slice_starts_with(rest, SLICE("=")) || slice_find_char(fields[3], ' ') >= 0)
        return false;
    buf_init(&bytes, fields[3].len + 1);
    if (slice_eq_nocase(fields[2], SLICE("b")))
        decode_lines(&bytes, fields[3]);
    else
        decode_quoted(&bytes, fields[3], true);
    buf_append(out, to_utf8(arena, buf_slice(&bytes)));
    buf_deinit(&bytes);
    *text = slice_from(rest, 1);
    return true;
}

/* Returns the text of a header's value, on one line. */
static slice decode_words(struct arena *arena, slice text)
{
    struct buf out;
    bool is_after_word = false;
    if (slice_find(text, SLICE("=?")) < 0 && slice_find_char(text, '\n') < 0)
        return to_utf8(arena, text);
    buf_init(&out, text.len * 3 + 1);
    while (text.len) {
        /* White space between two encoded words belongs to neither. */
        slice ahead = is_after_word ? slice_trim(text) : text;
        is_after_word = take_word(arena, &ahead, &out);
        if (is_after_word) {
            text = ahead;
            continue;
        }
        if (text.ptr[0] != '\r' && text.ptr[0] != '\n')
            buf_append_char(&out, text.ptr[0]);
        text = slice_from(text, 1);
    }
    return to_utf8(arena, arena_take(arena, &out));
}

/* Consumes a parameter's value from *rest: a quoted string, or the text up to a semicolon. */
static slice take_value(struct arena *arena, slice *rest)
{
    slice text = slice_trim(*rest);
    struct buf value;
    size_t i = 1;
    if (!slice_starts_with(text, SLICE("\"")))
        return slice_trim(slice_split(rest, ';'));
    buf_init(&value, text.len + 1);
    for (; i < text.len && text.ptr[i] != '"'; i++) {
        i += text.ptr[i] == '\\' && i + 1 < text.len;
        buf_append_char(&value, text.ptr[i]);
    }
    *rest = slice_from(text, i + 1);
    slice_split(rest, ';');
    return arena_take(arena, &value);
}

/* RFC 8187: charset'language'percent-encoded. */
static slice extended_value(struct arena *arena, slice value)
{
    struct buf out;
    slice_split(&value, '\'');
    slice_split(&value, '\'');
    buf_init(&out, value.len + 1);
    bool is_ok = decode_percent(&out, value, false) == OK;
    slice text = arena_take(arena, &out);
    return to_utf8(arena, is_ok ? text : value);
}

/* Returns a parameter of a structured header such as "text/plain; charset=utf-8"; "" if it is
 * absent. */
static slice param(struct arena *arena, slice value, const char *name)
{
    slice_split(&value, ';');
    while (value.len) {
        slice key = slice_trim(slice_split(&value, '='));
        slice text = take_value(arena, &value);
        bool is_extended = slice_ends_with(key, SLICE("*"));
        if (slice_eq_nocase(slice_first(key, key.len - is_extended), slice_cstr(name)))
            return is_extended ? extended_value(arena, text) : decode_words(arena, text);
    }
    return SLICE("");
}

static bool is_address_char(char c)
{
    return ascii_is_alnum(c) || (c && strchr("!#$%&'*+-/=?^_`{|}~.", c)) ||
           (unsigned char)c >= 0x80;
}

slice mime_take_address(slice *value)
{
    for (ptrdiff_t sign; (sign = slice_find_char(*value, '@')) >= 0;) {
        size_t at = (size_t)sign, start = at, end = at + 1;
        slice all = *value;
        while (start > 0 && is_address_char(all.ptr[start - 1]))
            start--;
        while (end < all.len && is_address_char(all.ptr[end]))
            end++;
        *value = slice_from(all, end);
        if (start < at && end > at + 1)
            return slice_of(all.ptr + start, end - start);
    }
    return SLICE_NONE;
}

/* ---- parts ---- */

slice mime_header(const struct mime_part *part, const char *name)
{
    for (uint32_t i = 0; i < part->headers.count; i++)
        if (slice_eq_nocase(json_get_str(json_at(&part->headers, i), SLICE("name")),
                            slice_cstr(name)))
            return json_get_str(json_at(&part->headers, i), SLICE("value"));
    return SLICE("");
}

const struct mime_part *mime_find(const struct mime_part *part, const char *type)
{
    while (part && (!slice_eq_cstr(part->type, type) || part->filename.len))
        part = part->next;
    return part;
}

/* Consumes the next line of *text, and returns it without its end, CRLF or LF. */
static slice take_line(slice *text)
{
    slice line = slice_split(text, '\n');
    if (slice_ends_with(line, SLICE("\r")))
        line.len--;
    return line;
}

int mime_read_head(struct arena *arena, slice *text, struct mime_part *out, struct err *err)
{
    out->headers = json_array();
    while (text->len) {
        slice value = take_line(text);
        if (!value.len)
            break;
        while (text->len && (text->ptr[0] == ' ' || text->ptr[0] == '\t')) {
            slice more = take_line(text);
            value.len = (size_t)(more.ptr + more.len - value.ptr);
        }
        slice name = slice_split(&value, ':');
        if (!name.len || !value.ptr || slice_find_char(name, ' ') >= 0)
            return err_set(err, ERR_SYNTAX, "a line of the header has no field name");
        if (out->headers.count == MIME_HEADERS_MAX)
            return err_set(err, ERR_LIMIT, "more than %d headers", MIME_HEADERS_MAX);
        json_array_push(arena, &out->headers,
                        OBJECT(arena, "name value", json_string(name),
                               json_string(decode_words(arena, slice_trim(value)))));
    }
    return out->headers.count ? OK : err_set(err, ERR_SYNTAX, "the message has no header");
}

static void read_type(struct arena *arena, struct mime_part *part)
{
    slice type = mime_header(part, "Content-Type"), rest = type;
    char *media = arena_cstr(arena, slice_trim(slice_split(&rest, ';')));
    for (char *c = media; c && *c; c++)
        *c = ascii_lower(*c);
    part->type = media && strchr(media, '/') ? slice_cstr(media) : SLICE("text/plain");
    part->filename = param(arena, mime_header(part, "Content-Disposition"), "filename");
    if (!part->filename.len)
        part->filename = param(arena, type, "name");
}

static void read_body(struct arena *arena, slice text, struct mime_part *part)
{
    slice encoding = mime_header(part, "Content-Transfer-Encoding");
    struct buf decoded;
    buf_init(&decoded, text.len + 1);
    bool is_base64 = slice_eq_nocase(encoding, SLICE("base64"));
    bool is_quoted = slice_eq_nocase(encoding, SLICE("quoted-printable"));
    if (is_base64)
        decode_lines(&decoded, text);
    else if (is_quoted)
        decode_quoted(&decoded, text, false);
    slice bytes = arena_take(arena, &decoded);
    part->body = is_base64 || is_quoted ? bytes : text;
    if (slice_starts_with(part->type, SLICE("text/")) && !part->filename.len)
        part->body = to_utf8(arena, part->body);
}

static int read_part(struct reading *r, slice raw, slice id, unsigned depth,
                     struct mime_part *part);

/* Returns the position of the next mark (a line end and the delimiter) that is followed on its line
 * only by blanks, or by two dashes (*is_last). Returns -1 if there is none. */
static ptrdiff_t find_delimiter(slice text, slice mark, bool *is_last)
{
    for (size_t from = 0;;) {
        ptrdiff_t at = slice_find(slice_from(text, from), mark);
        if (at < 0)
            return -1;
        from += (size_t)at + mark.len;
        slice rest = slice_from(text, from);
        slice tail = slice_trim(take_line(&rest));
        *is_last = slice_eq(tail, SLICE("--"));
        if (!tail.len || *is_last)
            return (ptrdiff_t)(from - mark.len);
    }
}

/* text includes the line end before its first line, since the line end before a delimiter belongs
 * to the delimiter (RFC 2046 5.1.1). The delimiter after the last part may be missing. */
static int read_multipart(struct reading *r, slice text, slice id, unsigned depth,
                          struct mime_part *part, struct json *parts)
{
    slice boundary = param(r->arena, mime_header(part, "Content-Type"), "boundary");
    slice mark = arena_printf(r->arena, "\n--%.*s", SLICE_ARG(boundary));
    bool is_last;
    ptrdiff_t at = find_delimiter(text, mark, &is_last);
    if (!boundary.len || at < 0)
        return err_set(r->err, ERR_SYNTAX, "a multipart has no boundary, or it does not occur");
    while (at >= 0 && !is_last) {
        text = slice_from(text, (size_t)at + mark.len);
        slice_split(&text, '\n');
        text = slice_of(text.ptr - (text.ptr != NULL), text.len + (text.ptr != NULL));
        at = find_delimiter(text, mark, &is_last);
        slice inner = slice_from(at < 0 ? text : slice_first(text, (size_t)at), 1);
        struct mime_part *next = ARENA_NEW(r->arena, struct mime_part);
        if (!next || ++r->count > MIME_PARTS_MAX)
            return err_set(r->err, ERR_LIMIT, "more than %d parts", MIME_PARTS_MAX);
        r->last = r->last->next = next;
        inner.len -= slice_ends_with(inner, SLICE("\r"));
        slice inner_id =
            arena_printf(r->arena, "%.*s%s%u", SLICE_ARG(id), id.len ? "." : "", parts->count);
        if (read_part(r, inner, inner_id, depth + 1, next) != OK)
            return r->err->code;
        json_array_push(r->arena, parts, next->json);
    }
    return OK;
}

/* Writes the part in the form of Gmail's MessagePart. The bytes of an attachment are a separate
 * resource. */
static void shape(struct reading *r, slice id, struct mime_part *part, struct json parts)
{
    struct arena *arena = r->arena;
    struct json body = OBJECT(arena, "size", json_u64(part->body.len));
    if (part->attachment_id.len)
        json_object_set(arena, &body, SLICE("attachmentId"), json_string(part->attachment_id));
    else if (part->body.len)
        json_object_set(arena, &body, SLICE("data"),
                        json_string(mime_base64url(arena, part->body)));
    part->json = OBJECT(arena, "partId mimeType filename headers body", json_string(id),
                        json_string(part->type), json_string(part->filename), part->headers, body);
    if (parts.count)
        json_object_set(arena, &part->json, SLICE("parts"), parts);
}

static int read_part(struct reading *r, slice raw, slice id, unsigned depth, struct mime_part *part)
{
    struct json parts = json_array();
    if (depth > MIME_DEPTH_MAX)
        return err_set(r->err, ERR_LIMIT, "parts are nested more than %d deep", MIME_DEPTH_MAX);
    /* If a body part begins with its empty line, it has no header. */
    part->headers = json_array();
    if (depth && (raw.len == 0 || slice_starts_with(raw, SLICE("\n")) ||
                  slice_starts_with(raw, SLICE("\r"))))
        take_line(&raw);
    else if (mime_read_head(r->arena, &raw, part, r->err) != OK)
        return r->err->code;
    read_type(r->arena, part);
    if (slice_starts_with(part->type, SLICE("multipart/"))) {
        raw = slice_of(raw.ptr - (raw.len > 0), raw.len + (raw.len > 0));
        if (read_multipart(r, raw, id, depth, part, &parts) != OK)
            return r->err->code;
    } else {
        read_body(r->arena, raw, part);
        if (part->filename.len || !slice_starts_with(part->type, SLICE("text/")))
            part->attachment_id =
                arena_printf(r->arena, "%.*s-%.*s", SLICE_ARG(r->prefix), SLICE_ARG(id));
    }
    shape(r, id, part, parts);
    return OK;
}

int mime_parse(struct arena *arena, slice raw, slice prefix, struct mime_part *out, struct err *err)
{
    struct reading r = {.arena = arena, .prefix = prefix, .last = out, .err = err};
    *out = (struct mime_part){0};
    return read_part(&r, raw, SLICE(""), 0, out);
}
