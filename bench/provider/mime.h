/*
 * Parsing of RFC 5322 and MIME, with the features that Gmail shows: each part as the MessagePart of
 * a reply, and decoded. Decoded data are in the given arena; the rest points into the raw mail,
 * which must live as long.
 */
#ifndef PROVIDER_MIME_H
#define PROVIDER_MIME_H

#include "base/arena.h"
#include "base/err.h"
#include "json/json.h"

enum {
    MIME_DEPTH_MAX = 10,
    MIME_PARTS_MAX = 2000,
    MIME_HEADERS_MAX = 500,
};

/* A part. The parts inside it, and those after it, follow in the order of the text. */
struct mime_part {
    slice type;          /* lower case, "text/plain" by default */
    slice filename;      /* "" when there is none */
    slice attachment_id; /* "" if it is not an attachment */
    /* decoded from the transfer encoding, text as UTF-8; empty for a multipart */
    slice body;
    struct json headers; /* [{name, value}], unfolded, encoded words decoded, UTF-8 */
    struct json json;    /* {partId, mimeType, filename, headers, body, parts} */
    struct mime_part *next;
};

/* Reads a header section; *text gets the body after the empty line. Returns OK, ERR_LIMIT,
 * ERR_NOMEM, or ERR_SYNTAX if there is no header section. */
int mime_read_head(struct arena *arena, slice *text, struct mime_part *out,
                   struct err *err) MUST_CHECK;
/* Parses the whole mail. An attachment's id is `prefix` and the id of its part. Returns ERR_SYNTAX
 * also if a multipart has no boundary. */
int mime_parse(struct arena *arena, slice raw, slice prefix, struct mime_part *out,
               struct err *err) MUST_CHECK;
/* Returns the first header of that name, in any case, or "" if there is none. */
slice mime_header(const struct mime_part *part, const char *name);
/* Returns the first part that has this type and is not an attachment, or NULL. */
const struct mime_part *mime_find(const struct mime_part *part, const char *type);
/* Consumes the next "local@domain" of a header's value. Returns SLICE_NONE at the end. */
slice mime_take_address(slice *value);
/* Encodes as base64url with padding, as Gmail writes it. */
slice mime_base64url(struct arena *arena, slice bytes);

#endif
