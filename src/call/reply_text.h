/*
 * A provider's error text, prepared for display: found in the reply, joined into one line and
 * limited in length. Private to the room.
 */
#ifndef CALL_REPLY_TEXT_H
#define CALL_REPLY_TEXT_H

#include "base/arena.h"
#include "json/json.h"

/* Returns the provider's error message: the member where JSON APIs commonly have it, the reply
 * itself if it is text, or the title of an HTML page. SLICE_NONE if none is found. The result is a
 * part of the body. */
slice reply_error_text(const struct json *body);
/* Returns the text as valid UTF-8 on one line (each run of control characters and white space
 * becomes a space), at most bytes_max long, in the arena. SLICE_NONE if nothing is left, or if out
 * of memory. */
slice reply_clean_text(slice text, size_t bytes_max, struct arena *arena);

#endif
