/*
 * An Internet message (RFC 5322, 2045-2047, 2183, 2231) built from a JSON object, for APIs that
 * take a raw mail. Members, all optional, null counts as absent, unknown ones are ignored:
 *
 *   from, to, cc, bcc, reply_to   a string "Name <a@b.c>, d@e.f", an object {name, email}, or an
 *                                 array of either
 *                                 (a domain beyond ASCII is written as xn--..., the form that DNS
 *                                 uses)
 *   subject                       string
 *   date                          RFC 3339 string, becomes Date
 *   message_id, in_reply_to       string, with or without < >
 *   references                    string of ids, with or without spaces between them, or an array
 *   body (or text)                string, text/plain
 *   html                          string, text/html; with a body: multipart/alternative
 *   attachments                   [{name, content_type, data}], data is base64 or base64url;
 *                                 multipart/mixed
 *   forward                       a whole message in base64url, whose body and attachments become
 *                                 the last part, unchanged; multipart/mixed
 *
 * Lines end in CRLF and have at most 76 columns (an address or id longer than that stays whole, up
 * to 998). Text becomes quoted-printable or base64, whichever is shorter; line ends in it become
 * CRLF. A control character, such as CR or LF, in anything that goes into a header is an error
 * (ERR_INVALID), so no header can be injected. Deterministic: no clock, no random boundary; a
 * boundary contains "=_", which neither encoding can produce (RFC 2045 6.7).
 */
#ifndef MIME_MIME_H
#define MIME_MIME_H

#include "base/arena.h"
#include "base/err.h"
#include "json/json.h"

/* Appends the message to out. Returns OK, out->status, or ERR_INVALID: err then names the member
 * and says what is wrong with it. */
int mime_message(const struct json *message, struct arena_text *out, struct err *err) MUST_CHECK;
/* Appends the addresses of a value of `to`, without names and with ", " between them, exactly as a
 * message to that value has them. The result is that of mime_message. */
int mime_addresses(const struct json *value, struct arena_text *out, struct err *err) MUST_CHECK;
/* Appends the message ids in the text of a header that another program wrote, in < > and with " "
 * between them. What is not an id as mime_message accepts it is left out. Returns out->status. */
int mime_ids(slice list, struct arena_text *out) MUST_CHECK;

#endif
