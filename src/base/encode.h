/*
 * Byte encodings: base64, base64url (RFC 4648 4, 5), hex, percent (RFC 3986). Each writes into a
 * buf, whose maximum limits the result.
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
/* Like encode_base64url, for a length known in advance, without an allocation. Writes to room,
 * which must be large enough (asserted); returns the written text. */
#define BASE64URL_LEN(bytes) ((bytes) / 3 * 4 + ((bytes) % 3 ? (bytes) % 3 + 1 : 0))
slice encode_base64url_in(char *room, size_t size, slice bytes);
/* Padding is required, and white space is refused. Returns ERR_SYNTAX if text is not base64. */
int decode_base64(struct buf *out, slice text) MUST_CHECK;
/* Padding is optional. Returns ERR_SYNTAX if text is not base64url. */
int decode_base64url(struct buf *out, slice text) MUST_CHECK;
void encode_hex(struct buf *out, slice bytes); /* lower case */
/* Returns whether a server may treat a segment of that path as "." or "..", which would make it
 * another path (RFC 3986 5.2.4). Servers differ, so this covers all of them: a segment ends at a
 * slash or a backslash; each character may be percent-encoded, even more than once; anything after
 * a semicolon is ignored ("..;x"). Every check of a path uses this. */
bool path_has_dot_segment(slice path);
/* Like path_has_dot_segment, for a text that is one segment, whatever it contains. */
bool path_is_dot_segment(slice segment);
/* Writes text for people to read: invisible characters (code_point_is_hidden) become \uXXXX, as in
 * JSON, except those in `kept` (ASCII). Surplus marks on a letter become \uXXXX, too. */
void encode_visible(struct buf *out, slice text, slice kept);
/* Writes the hex digits and a NUL to room, which must be large enough (asserted). */
void encode_hex_in(char *room, size_t size, slice bytes);
int decode_hex(struct buf *out, slice text) MUST_CHECK;
/* Writes the bytes with all but unreserved characters (RFC 3986 2.3) as %XX; the result is valid in
 * a path segment and in a query. */
void encode_percent(struct buf *out, slice bytes);
/* plus_is_space is for application/x-www-form-urlencoded and query strings. Returns ERR_SYNTAX if
 * there is a broken escape, or %00. */
int decode_percent(struct buf *out, slice text, bool plus_is_space) MUST_CHECK;
/* Like decode_percent, but in the arena; returns text itself if nothing in it is encoded. Returns
 * SLICE_NONE if there is a broken escape, or if the arena's limit is exceeded. */
slice decode_percent_in(struct arena *arena, slice text, bool plus_is_space);

#endif
