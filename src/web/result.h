/*
 * result: what a flow has come to, for people: the short facts of what its last step gave, and
 * links to what was made.
 */
#ifndef WEB_RESULT_H
#define WEB_RESULT_H

#include "json/json.h"

enum { RESULT_FACTS_MAX = 10, RESULT_LINKS_MAX = 20 };

/* A member "result": {facts: [{name, text}], links: [{title, url}]}. steps: of the flow's view.
 * Null where nothing can be said. A link is a text of its own that begins with https://, and has
 * the title of the object that it stands in, else its own. */
void result_view(struct json_writer *w, const struct json *steps);

#endif
