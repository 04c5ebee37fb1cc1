/*
 * A provider's error text, prepared for display: found in the reply, joined into one line and
 * limited in length. Private to the room.
 */
#ifndef CALL_REPLY_TEXT_H
#define CALL_REPLY_TEXT_H

#include "base/arena.h"
#include "json/json.h"

/* The provider's own words: from the member where JSON APIs commonly have them, the reply itself
 * if it is text, or the title of an HTML page. SLICE_NONE: none found. The result is a part of
 * the body. */
slice reply_error_text(const struct json *body);
/* On one line (runs of control characters and white space become a space), valid UTF-8, at most
 * bytes_max. In the arena; SLICE_NONE: nothing is left, or out of memory. */
slice reply_clean_text(slice text, size_t bytes_max, struct arena *arena);

#endif
