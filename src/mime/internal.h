/*
 * Declarations that the files of the room share: a message while it is written. Private to the
 * room.
 */
#ifndef MIME_INTERNAL_H
#define MIME_INTERNAL_H

#include "mime/mime.h"

enum {
    MIME_COLUMNS_MAX = 76,
    MIME_NAME_MAX = 512,    /* bytes of a display name or a file name */
    MIME_ADDRESS_MAX = 320, /* RFC 5321 4.5.3.1: 64 + 1 + 255 */
    MIME_ID_MAX = 900,      /* a line has at most 998 bytes, RFC 5322 2.1.1 */
    MIME_MEDIA_TYPE_MAX = 127,
};

/* One message being written. Errors are sticky in status. */
struct mime {
    struct arena_text *text;
    struct err *err;
    size_t column; /* columns used in the header line being written */
    int status;
};

/* Sets the error (ERR_INVALID) unless one is already set. */
void mime_fail(struct mime *mime, const char *fmt, ...) PRINTF_LIKE(2, 3);
void mime_add(struct mime *mime, slice bytes);
#define MIME_LIT(mime, literal) mime_add((mime), SLICE(literal))

/* ---- header.c ---- Each function writes whole lines, or nothing if value is NULL or null. */

void mime_put_addresses(struct mime *mime, const char *field, const char *what,
                        const struct json *value);
void mime_put_subject(struct mime *mime, const struct json *value);
/* Writes message ids, for Message-ID, In-Reply-To and References. */
void mime_put_ids(struct mime *mime, const char *field, const char *what, const struct json *value);
/* Writes a word on the current header line; folds the line before it if the word does not fit. */
void mime_put_word(struct mime *mime, slice word, bool with_space);
/* Writes text as RFC 2047 encoded words of at most 75 characters, folded. */
void mime_put_encoded(struct mime *mime, slice text, bool with_space);
/* Returns false with the error set if value is not a string or contains control characters. */
bool mime_check_text(struct mime *mime, const char *what, const struct json *value);

/* ---- domain.c ---- */

/* Converts a domain with letters beyond ASCII to the form that DNS uses, in room: each such label
 * becomes "xn--" and punycode. Returns SLICE_NONE if a label is not valid or would have to be
 * normalized first. */
slice mime_domain_ascii(slice domain, char room[MIME_ADDRESS_MAX]);

/* ---- address.c ---- */

/* Writes the mailboxes in value, separated by commas, and adds their number to *count. */
void mime_put_mailboxes(struct mime *mime, const char *field, const char *what,
                        const struct json *value, size_t *count);

/* ---- forward.c ---- */

/* Returns the message in raw (base64url), in the arena of the text; SLICE_NONE if raw is NULL, or
 * with the error set. */
slice mime_read_forward(struct mime *mime, const struct json *raw);
/* Writes the fields of the message that describe its body, an empty line, and its body. */
void mime_put_forward(struct mime *mime, slice message);
bool mime_is_8bit(slice bytes);

/* ---- body.c ---- */

/* Writes the Content-Type, Content-Transfer-Encoding, empty line and body of a text part; no
 * CRLF at the end. subtype is "plain" or "html". */
void mime_put_text(struct mime *mime, const char *subtype, slice text);
/* Writes base64 or base64url text as lines of 76 columns, white space skipped; no CRLF at the
 * end. */
void mime_put_base64(struct mime *mime, const char *what, slice base64);

#endif
