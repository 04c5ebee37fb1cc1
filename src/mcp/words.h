/*
 * Texts of sluice name routes of its API. Most of these texts are answers of the API, and some are
 * stored. A client of MCP has tools instead: in answers to it, each route is replaced by the
 * equivalent tool, or by "the dashboard" if there is none. The dashboard shows an account's own
 * rows alone, so an agent of a user gets the route instead, for the account's application. Private
 * to the mcp room.
 */
#ifndef MCP_WORDS_H
#define MCP_WORDS_H

#include "api/request.h"

enum mcp_reader { MCP_OF_ACCOUNT, MCP_OF_USER };
static inline enum mcp_reader mcp_reader_of(const struct api_request *request)
{
    return uuid_is_nil(request->serve.grant.parent_id) ? MCP_OF_ACCOUNT : MCP_OF_USER;
}

/* Converts a sentence of sluice, or such a sentence within quotes of JSON. Returns the text
 * itself if it contains no route; the result is in the arena otherwise. */
slice mcp_words_say(slice sentence, enum mcp_reader reader, struct arena *arena);
/* Converts a JSON reply of the API: changes its hints, messages and errors, including those of a
 * flow's steps. All else stays, because texts from apps and callers are not sluice's. The summary
 * in `display` is left out if it repeats the message. */
slice mcp_words_say_json(slice json_text, enum mcp_reader reader, struct arena *arena);
/* Says where all of a flow can be read that is too large here. */
const char *mcp_words_whole_flow(enum mcp_reader reader);

#endif
