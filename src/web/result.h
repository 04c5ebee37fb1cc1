/*
 * result: the result of a flow, for people: the short facts of its last step's output, and links to
 * created objects.
 */
#ifndef WEB_RESULT_H
#define WEB_RESULT_H

#include "json/json.h"

enum { RESULT_FACTS_MAX = 10, RESULT_LINKS_MAX = 20 };

/* A member "result": {facts: [{name, text}], links: [{title, url}]}. steps: of the flow's view.
 * Null if there is nothing to show. A link is a text that is only a URL with https://, and has the
 * title of its object, else its own. */
void result_view(struct json_writer *w, const struct json *steps);

#endif
