/*
 * RFC 5322 and MIME reading, as far as a mail provider shows it: a tree of parts with decoded
 * headers and bodies. What had to be decoded lies in the arena given, the rest points into the raw
 * mail, which must live as long.
 */
#ifndef PROVIDER_MIME_H
#define PROVIDER_MIME_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum {
    MIME_DEPTH_MAX = 10,
    MIME_PARTS_MAX = 200, /* of one multipart */
    MIME_HEADERS_MAX = 500,
};

struct mime_header {
    slice name, value; /* unfolded, encoded words decoded, UTF-8 */
};

struct mime_part {
    slice part_id;   /* "" for the root, then "0", "1", "1.0" */
    slice mime_type; /* lower case, "text/plain" by default */
    slice filename;  /* "" when there is none */
    struct mime_header *headers;
    size_t header_count;
    slice body; /* without transfer encoding; text in UTF-8; empty for a multipart */
    struct mime_part *parts;
    size_t part_count;
};

/* ERR_SYNTAX: no header section, or a multipart without a boundary; ERR_LIMIT; ERR_NOMEM. */
int mime_parse(struct arena *arena, slice raw, struct mime_part *out, struct err *err) MUST_CHECK;
/* First header of that name, whatever its case; "" when absent. */
slice mime_header(const struct mime_part *part, const char *name);
/* The first part, depth first, that is of this type and no attachment; NULL when there is none. */
const struct mime_part *mime_find(const struct mime_part *part, const char *mime_type);
bool mime_is_attachment(const struct mime_part *part);

/* mime_text.c */
/* Decodes RFC 2047 encoded words. */
slice mime_decode_words(struct arena *arena, slice text);
/* What is no UTF-8 is read as Latin-1, whatever charset is named. */
slice mime_to_utf8(struct arena *arena, slice bytes);
void mime_decode_quoted(struct buf *out, slice text, bool is_header);
/* Forgiving: white space and other foreign bytes are skipped. */
void mime_decode_base64(struct buf *out, slice text);
/* Parameter of a structured header: mime_param("text/plain; charset=utf-8", "charset"). */
slice mime_param(struct arena *arena, slice value, const char *name);
/* Addresses of a header: calls back for each "local@domain" in it, lower case as written. */
void mime_addresses(slice value, void (*on_address)(void *user, slice address), void *user);

#endif
