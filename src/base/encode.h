/*
 * Byte encodings: base64, base64url (RFC 4648 4, 5), hex, percent (RFC 3986). Each writes into a
 * buf, whose maximum bounds the result.
 */
#ifndef BASE_ENCODE_H
#define BASE_ENCODE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

void encode_base64(struct buf *out, slice bytes);
/* Without padding. */
void encode_base64url(struct buf *out, slice bytes);
/* The same for a length known beforehand, without an allocation. Into room, whose size must suffice
 * (asserted); returns what was written. */
#define BASE64URL_LEN(bytes) ((bytes) / 3 * 4 + ((bytes) % 3 ? (bytes) % 3 + 1 : 0))
slice encode_base64url_in(char *room, size_t size, slice bytes);
/* Padding required, no white space: as a strict API expects. ERR_SYNTAX. */
int decode_base64(struct buf *out, slice text) MUST_CHECK;
/* Padding optional. ERR_SYNTAX. */
int decode_base64url(struct buf *out, slice text) MUST_CHECK;
void encode_hex(struct buf *out, slice bytes); /* lower case */
/* Whether a server may treat a part of that path as "." or "..", which makes it another path (RFC
 * 3986 5.2.4). Servers differ, so this covers all of them: a part ends at a slash or a backslash,
 * each character may be percent-encoded, also more than once, and what follows a semicolon does not
 * count ("..;x"). Every check of a path uses this. */
bool path_has_dot_segment(slice path);
/* The same for a text that is one part, whatever it contains. */
bool path_is_dot_segment(slice segment);
/* Text for people to read: invisible characters (code_point_is_hidden) become \uXXXX, as in JSON,
 * except those in `kept` (ASCII); so do surplus marks on a letter. */
void encode_visible(struct buf *out, slice text, slice kept);
/* With a NUL after it, into room, whose size must suffice (asserted). */
void encode_hex_in(char *room, size_t size, slice bytes);
int decode_hex(struct buf *out, slice text) MUST_CHECK;
/* All but unreserved characters (RFC 3986 2.3) become %XX; fit for a path segment and a query. */
void encode_percent(struct buf *out, slice bytes);
/* plus_is_space for application/x-www-form-urlencoded and query strings. ERR_SYNTAX on a broken
 * escape; %00 is an error too. */
int decode_percent(struct buf *out, slice text, bool plus_is_space) MUST_CHECK;
/* The same in the arena; text itself if nothing in it is encoded. SLICE_NONE: a broken escape, or
 * past the arena's limit. */
slice decode_percent_in(struct arena *arena, slice text, bool plus_is_space);

#endif
