/*
 * The body of a provider's reply: its value for expressions, and whether it can be the action's own
 * (contrib/integrations/README.md "response"). Private to the room.
 */
#ifndef CALL_REPLY_BODY_H
#define CALL_REPLY_BODY_H

#include "catalog/catalog.h"
#include "http/client.h"

/* Facts found while the value was made. */
struct reply_body {
    bool is_json;
    enum json_type type; /* type of the JSON value */
};

/* Returns the body as `wanted` demands, in the arena: parsed if it is JSON (but not for REPLY_TEXT
 * and REPLY_BYTES), its text if it is UTF-8, else {content_type, encoding, data, bytes}; null if
 * there is none (for REPLY_TEXT "", for REPLY_BYTES no bytes). *found is filled in. */
struct json reply_body_value(struct reply_body *found, enum catalog_reply_body wanted,
                             const struct http_call *call, struct arena *arena);
/* Returns why the body cannot be the action's reply, as part of a sentence such as "with an empty
 * body, not the JSON that the action returns", constant or in the arena; SLICE_NONE if it can be
 * the action's reply. */
slice reply_body_misfit(const struct reply_body *found, const struct catalog_reply *wanted,
                        const struct http_call *call, struct arena *arena);

#endif
