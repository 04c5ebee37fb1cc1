/*
 * Builds a message and its attachments. Every text that goes into a header passes mime_check_text
 * first: a CR or LF in it would add headers, such as Bcc, that an attacker chooses (header
 * injection).
 */
#include "mime/mime.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/map.h"
#include "mime/internal.h"

void mime_fail(struct mime *mime, const char *fmt, ...)
{
    /* The first error stays: later errors are its consequences. */
    if (mime->status != OK)
        return;
    char what[200];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    mime->status = err_set(mime->err, ERR_INVALID, "%s", what);
}

void mime_add(struct mime *mime, slice bytes)
{
    if (mime->status != OK)
        return;
    arena_text_add(mime->text, bytes);
    mime->status = mime->text->status;
}

/* ---- attachments ---- */

static bool is_token_char(char c)
{
    /* tspecials of RFC 2045 5.1 are not part of a token. */
    return c > ' ' && c < 0x7f && !strchr("()<>@,;:\\\"/[]?=", c);
}

/* Accepts type "/" subtype, alone or with parameters in printable ASCII (RFC 2045 5.1). */
static bool is_media_type(slice text)
{
    size_t i = 0, slashes = 0, part = 0;
    for (; i < text.len && text.ptr[i] != ';'; i++) {
        bool is_slash = text.ptr[i] == '/';
        if (is_slash ? part == 0 || slashes++ > 0 : !is_token_char(text.ptr[i]))
            return false;
        part = is_slash ? 0 : part + 1;
    }
    if (slashes != 1 || part == 0)
        return false;
    return slice_printable(slice_from(text, i), ' ') == text.len - i;
}

static void put_media_type(struct mime *mime, const struct json *value)
{
    slice type = SLICE("application/octet-stream");
    if (value && value->type != JSON_NULL) {
        if (!mime_check_text(mime, "an attachment's content_type", value))
            return;
        type = slice_trim(json_str(value));
        if (type.len > MIME_MEDIA_TYPE_MAX || !is_media_type(type))
            mime_fail(mime, "an attachment's content_type must be like application/pdf");
        /* A part of one of these types would be read as a message or as several parts, with
         * headers that were not checked here. */
        if (slice_eq_nocase(slice_first(type, 10), SLICE("multipart/")) ||
            slice_eq_nocase(slice_first(type, 8), SLICE("message/")))
            mime_fail(mime, "an attachment cannot be of type multipart/* or message/*");
    }
    MIME_LIT(mime, "Content-Type: ");
    mime_add(mime, type);
    MIME_LIT(mime, "\r\n");
}

/* Writes filename="...", for printable ASCII. */
static void put_plain_name(struct mime *mime, slice name)
{
    MIME_LIT(mime, ";\r\n filename=\"");
    for (size_t i = 0; i < name.len; i++) {
        /* Both are escaped in a quoted string (RFC 5322 3.2.4). */
        if (name.ptr[i] == '"' || name.ptr[i] == '\\')
            MIME_LIT(mime, "\\");
        mime_add(mime, slice_of(name.ptr + i, 1));
    }
    MIME_LIT(mime, "\"");
}

/* Writes filename*0*=UTF-8''...; filename*1*=... (RFC 2231 3 and 4), for any text of any length. */
static void put_extended_name(struct mime *mime, slice name)
{
    enum { ROOM = 50 };
    size_t used = ROOM + 1; /* bytes in the current line; more than ROOM: a new line begins */
    for (size_t i = 0, segment = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        /* The characters that RFC 2231 7 reserves are encoded, too. */
        bool is_plain = c < 0x80 && is_token_char((char)c) && c != '*' && c != '\'' && c != '%';
        /* A segment of at most ROOM bytes with its name stays below 76 columns. */
        if (used + 3 > ROOM) {
            arena_text_printf(mime->text, ";\r\n filename*%zu*=%s", segment,
                              segment == 0 ? "UTF-8''" : "");
            segment++;
            used = 0;
        }
        arena_text_printf(mime->text, is_plain ? "%c" : "%%%02X", c);
        used += is_plain ? 1 : 3;
    }
    if (mime->status == OK)
        mime->status = mime->text->status;
}

static void put_disposition(struct mime *mime, const struct json *value)
{
    MIME_LIT(mime, "Content-Disposition: attachment");
    if (value && value->type != JSON_NULL && mime_check_text(mime, "an attachment's name", value)) {
        slice name = json_str(value);
        bool is_ascii = true;
        for (size_t i = 0; i < name.len; i++)
            is_ascii = is_ascii && name.ptr[i] >= ' ' && name.ptr[i] <= '~';
        if (name.len > MIME_NAME_MAX)
            mime_fail(mime, "an attachment's name is over %d bytes long", MIME_NAME_MAX);
        /* Long names are written in segments, since a quoted string without spaces cannot be
         * folded. */
        else if (is_ascii && name.len <= 60 && name.len > 0)
            put_plain_name(mime, name);
        else
            put_extended_name(mime, name);
    }
    MIME_LIT(mime, "\r\n");
}

static void put_attachment(struct mime *mime, const struct json *attachment)
{
    const struct json *data = JSON_GET(attachment, "data");
    if (!json_is(attachment, JSON_OBJECT) || !json_is(data, JSON_STRING)) {
        mime_fail(mime, "an attachment must be an object with a string data in base64");
        return;
    }
    put_media_type(mime, JSON_GET(attachment, "content_type"));
    put_disposition(mime, JSON_GET(attachment, "name"));
    MIME_LIT(mime, "Content-Transfer-Encoding: base64\r\n\r\n");
    mime_put_base64(mime, "an attachment's data", json_str(data));
}

/* ---- multipart ---- */

struct boundary {
    char text[48];
    size_t len;
};

/* The boundary is derived from the content, so that the same message always gives the same bytes: a
 * repeated step sends exactly what the first attempt sent. It need not be unique; "=_" keeps it
 * from occurring in a body that is written here. */
static struct boundary boundary_of(const char *kind, slice seed)
{
    struct boundary b;
    int len = snprintf(b.text, sizeof b.text, "=_sluice_%s_%016llx", kind,
                       (unsigned long long)hash_stable(seed.ptr, seed.len));
    ASSERT(len > 0 && (size_t)len < sizeof b.text);
    b.len = (size_t)len;
    return b;
}

/* Returns a boundary that does not occur in the forwarded message, which is copied as it is: it may
 * have been made here, from the same text, or by a sender who knows how boundaries are made. A hash
 * of the whole message is not in the message. */
static struct boundary boundary_outside(struct mime *mime, slice message, slice seed)
{
    struct boundary b = boundary_of("mixed", seed);
    if (slice_find(message, slice_of(b.text, b.len)) >= 0)
        b = boundary_of("mixed", message);
    if (slice_find(message, slice_of(b.text, b.len)) >= 0)
        mime_fail(mime, "forward has the boundary that is made from it");
    return b;
}

static void open_multipart(struct mime *mime, const char *kind, const struct boundary *b)
{
    MIME_LIT(mime, "Content-Type: multipart/");
    mime_add(mime, slice_cstr(kind));
    MIME_LIT(mime, ";\r\n boundary=\"");
    mime_add(mime, slice_of(b->text, b->len));
    MIME_LIT(mime, "\"\r\n");
}

/* Writes the line between parts, which includes the CRLF before it (RFC 2046 5.1.1). */
static void put_boundary(struct mime *mime, const struct boundary *b, bool is_last)
{
    MIME_LIT(mime, "\r\n--");
    mime_add(mime, slice_of(b->text, b->len));
    mime_add(mime, is_last ? SLICE("--") : SLICE("\r\n"));
}

/* Writes plain text, HTML, or both: the headers of the part, then the body. */
static void put_content(struct mime *mime, const struct json *body, const struct json *html)
{
    if (body && html) {
        struct boundary b = boundary_of("alt", json_str(body));
        open_multipart(mime, "alternative", &b);
        put_boundary(mime, &b, false);
        mime_put_text(mime, "plain", json_str(body));
        put_boundary(mime, &b, false);
        mime_put_text(mime, "html", json_str(html));
        put_boundary(mime, &b, true);
    } else if (html) {
        mime_put_text(mime, "html", json_str(html));
    } else {
        mime_put_text(mime, "plain", body ? json_str(body) : SLICE(""));
    }
}

static void put_mixed(struct mime *mime, const struct json *body, const struct json *html,
                      const struct json *attachments, slice forward)
{
    struct boundary b = boundary_outside(mime, forward, json_str(body ? body : html));
    open_multipart(mime, "mixed", &b);
    if (mime_is_8bit(forward)) /* the whole is labelled like its parts, RFC 2045 6.4 */
        MIME_LIT(mime, "Content-Transfer-Encoding: 8bit\r\n");
    put_boundary(mime, &b, false);
    put_content(mime, body, html);
    for (uint32_t i = 0; attachments && i < attachments->count && mime->status == OK; i++) {
        put_boundary(mime, &b, false);
        put_attachment(mime, &attachments->as.items[i]);
    }
    if (forward.ptr) {
        put_boundary(mime, &b, false);
        mime_put_forward(mime, forward);
    }
    put_boundary(mime, &b, true);
}

/* ---- the message ---- */

/* Returns NULL if the member is absent, null, or of another type, which also sets the error. */
static const struct json *message_member(struct mime *mime, const struct json *message,
                                         const char *name, enum json_type type)
{
    const struct json *value = json_get(message, slice_cstr(name));
    if (!value || value->type == JSON_NULL)
        return NULL;
    if (value->type != type) {
        mime_fail(mime, "%s must be %s, not %s", name, type == JSON_ARRAY ? "an array" : "a string",
                  json_is_number(value) ? "number" : json_type_name(value));
        return NULL;
    }
    return value;
}

static void put_date(struct mime *mime, const struct json *value)
{
    int64_t wall_us = 0;
    char text[30];
    if (!value || mime->status != OK)
        return;
    if (!time_parse(json_str(value), &wall_us)) {
        mime_fail(mime, "date must be an RFC 3339 time");
        return;
    }
    /* "Sun, 06 Nov 1994 08:49:37 GMT": as in HTTP except for the day's zero and the zone. */
    time_format_http(wall_us, text);
    slice day = slice_of(text + 5, 20);
    MIME_LIT(mime, "Date: ");
    mime_add(mime, slice_of(text, 5));
    mime_add(mime, slice_from(day, *day.ptr == '0'));
    MIME_LIT(mime, " +0000\r\n");
}

static void put_headers(struct mime *mime, const struct json *message)
{
    static const struct {
        const char *name, *field;
    } addresses[] = {
        {"from", "From"}, {"to", "To"}, {"cc", "Cc"}, {"bcc", "Bcc"}, {"reply_to", "Reply-To"}};
    /* RFC 5322 3.6 does not prescribe the order of fields. */
    put_date(mime, message_member(mime, message, "date", JSON_STRING));
    for (size_t i = 0; i < ARRAY_LEN(addresses); i++)
        mime_put_addresses(mime, addresses[i].field, addresses[i].name,
                           json_get(message, slice_cstr(addresses[i].name)));
    mime_put_ids(mime, "Message-ID", "message_id", JSON_GET(message, "message_id"));
    mime_put_ids(mime, "In-Reply-To", "in_reply_to", JSON_GET(message, "in_reply_to"));
    mime_put_ids(mime, "References", "references", JSON_GET(message, "references"));
    mime_put_subject(mime, JSON_GET(message, "subject"));
    MIME_LIT(mime, "MIME-Version: 1.0\r\n");
}

int mime_message(const struct json *message, struct arena_text *out, struct err *err)
{
    struct mime mime = {.text = out, .err = err};
    put_headers(&mime, message);
    const struct json *body = message_member(&mime, message, "body", JSON_STRING);
    const struct json *html = message_member(&mime, message, "html", JSON_STRING);
    const struct json *attachments = message_member(&mime, message, "attachments", JSON_ARRAY);
    slice forward =
        mime_read_forward(&mime, message_member(&mime, message, "forward", JSON_STRING));
    /* `text` is another name for `body`, which takes precedence. */
    if (!body)
        body = message_member(&mime, message, "text", JSON_STRING);
    if ((attachments && attachments->count > 0) || forward.ptr)
        put_mixed(&mime, body, html, attachments, forward);
    else
        put_content(&mime, body, html);
    MIME_LIT(&mime, "\r\n");
    return mime.status;
}
