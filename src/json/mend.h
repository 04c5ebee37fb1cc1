/*
 * Mends text that is nearly JSON, as a browser does (Encoding Standard "UTF-8 decode", ECMA-262
 * JSON.parse): a byte order mark is skipped, each sequence of bytes that is not UTF-8 becomes
 * U+FFFD, and so does an unpaired escaped surrogate. For bodies from providers, where one such
 * message would make a whole list unreadable. Private to the room.
 */
#ifndef JSON_MEND_H
#define JSON_MEND_H

#include "json/json.h"

/* Returns the size of the mended text, at most three times that of the text. Linear. */
size_t json_mend_bytes(slice text);
/* Writes the mended text to `to`, which must not overlap the text. */
void json_mend(slice text, char *to);

#endif
