/*
 * mime_message(object) -> string: an Internet message (RFC 5322, 2045-2047, 2183, 2231), for APIs
 * that take a raw mail. Members, all optional, null counts as absent, unknown ones are ignored:
 *
 *   from, to, cc, bcc, reply_to   a string "Name <a@b.c>, d@e.f", an object {name, email}, or an
 *                                 array of either
 *   subject                       string
 *   date                          RFC 3339 string, becomes Date
 *   message_id, in_reply_to       string, with or without < >
 *   references                    string of ids between spaces, or an array of them
 *   body (or text)                string, text/plain
 *   html                          string, text/html; with a body: multipart/alternative
 *   attachments                   [{name, content_type, data}], data is base64 or base64url;
 *                                 multipart/mixed
 *
 * Lines end in CRLF and have at most 76 columns (an address or id longer than that stays whole, up
 * to 998). Text becomes quoted-printable or base64, what is shorter; line ends in it become CRLF.
 * A control character, CR and LF above all, in anything that goes into a header is an error
 * (invalid-value), so no header can be injected. Deterministic: no clock, no random boundary; a
 * boundary holds "=_", which neither encoding can produce (RFC 2045 6.7).
 */
#ifndef EXPR_MIME_H
#define EXPR_MIME_H

#include "expr/run.h"

enum {
    MIME_COLUMNS_MAX = 76,
    MIME_NAME_MAX = 512,    /* bytes of a display name or a file name */
    MIME_ADDRESS_MAX = 320, /* RFC 5321 4.5.3.1: 64 + 1 + 255 */
    MIME_ID_MAX = 900,      /* a line has at most 998 bytes, RFC 5322 2.1.1 */
    MIME_MEDIA_TYPE_MAX = 127,
};

/* One message being written. Errors are sticky in status. */
struct mime {
    struct expr_text text;
    struct expr_run *run;
    uint32_t at;   /* of the call, for errors */
    size_t column; /* of the header line being written */
    int status;
};

/* Sets the error unless one is set: "mime_message(): ...", invalid-value. */
void mime_fail(struct mime *mime, const char *fmt, ...) PRINTF_LIKE(2, 3);
void mime_add(struct mime *mime, slice bytes);
#define MIME_LIT(mime, literal) mime_add((mime), SLICE(literal))

/* ---- mime_header.c ---- each writes whole lines; value may be NULL or null: nothing is written */

void mime_put_addresses(struct mime *mime, const char *field, const char *what,
                        const struct json *value);
void mime_put_subject(struct mime *mime, const struct json *value);
/* Message ids, for Message-ID, In-Reply-To and References. */
void mime_put_ids(struct mime *mime, const char *field, const char *what, const struct json *value);
/* A word on the current header line, folded before it when it does not fit. */
void mime_put_word(struct mime *mime, slice word, bool with_space);
/* Text as RFC 2047 encoded words of at most 75 characters, folded. */
void mime_put_encoded(struct mime *mime, slice text, bool with_space);
/* false with the error set: value is no string, or holds control characters. */
bool mime_check_text(struct mime *mime, const char *what, const struct json *value);

/* ---- mime_address.c ---- */

/* Writes the mailboxes that value names, with a comma between them; *count goes up. */
void mime_put_mailboxes(struct mime *mime, const char *field, const char *what,
                        const struct json *value, size_t *count);

/* ---- mime_body.c ---- */

/* Content-Type, Content-Transfer-Encoding, empty line and body of a text part; no CRLF at the
 * end. subtype is "plain" or "html". */
void mime_put_text(struct mime *mime, const char *subtype, slice text);
/* base64 or base64url text, white space skipped, as lines of 76; no CRLF at the end. */
void mime_put_base64(struct mime *mime, const char *what, slice base64);

#endif
