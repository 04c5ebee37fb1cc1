/*
 * sluice's own sentences about a provider's reply, or about a call without one: what happened,
 * whether anything was done, and what to do next. They are written for a model that has to decide
 * how to continue; a manifest's own texts take precedence. Private to the room.
 */
#ifndef CALL_REPLY_WORDS_H
#define CALL_REPLY_WORDS_H

#include "call/outcome.h"
#include "http/client.h"

/* Returns text to put after the app's name: "found the request invalid". All texts of this file are
 * constant. */
const char *reply_status_words(enum exec_reason reason, unsigned status);
/* Returns the hint for a reply with this status; SLICE_NONE if there is none. */
slice reply_hint(enum exec_reason reason, enum exec_effect effect, unsigned status, bool is_write);
/* Returns text to put after the app's name: "could not be reached". result is how the call ended,
 * or HTTP_CALL_RESULTS if that is unknown. */
const char *reply_call_words(enum exec_reason reason, enum http_call_result result);
slice reply_call_hint(enum exec_reason reason, enum http_call_result result,
                      enum exec_effect effect, bool is_any_byte_sent, bool is_write);

#endif
