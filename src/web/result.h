/*
 * result: the result of a flow, for people: the short facts in its last step's output, and links to
 * created objects.
 */
#ifndef WEB_RESULT_H
#define WEB_RESULT_H

#include "json/json.h"

enum { RESULT_FACTS_MAX = 10, RESULT_LINKS_MAX = 20 };

/* Writes a member "result": {facts: [{name, text}], links: [{title, url}]}. The member is null if
 * there is nothing to show. steps has the steps of the flow's view. A text becomes a link if it is
 * only a URL with https://; its title is that of its object, else the URL. */
void result_view(struct json_writer *w, const struct json *steps);

#endif
