/*
 * flow_decision: what waits for a person to decide, and the names of those who asked and decided.
 */
#ifndef WEB_FLOW_DECISION_H
#define WEB_FLOW_DECISION_H

#include "web/effect.h"

struct flow_names;

/* Reads the names of actors ("key:<id>"), and of the connections that the items of an approval go
 * through (NULL: none) into *names, then goes on with `then`, once what the caller has asked for
 * before is there, too. */
enum op_result flow_names_begin(struct web_request *request, const slice *actors, size_t count,
                                const struct json *items, struct flow_names **names,
                                web_step *then);
/* A key's name; the actor as it is where it has none, or is no key. */
slice flow_names_actor(struct flow_names *names, slice actor);
/* As whom the call of an item is made; SLICE_NONE: not known, or the app needs no connection. */
slice flow_names_whom(struct web_request *request, struct flow_names *names,
                      const struct json *item);
/* An object, as todo_flow.html declares it. */
struct flow_inbox_row;
void view_waiting(struct web_request *request, struct json_writer *w,
                  const struct flow_inbox_row *row);
/* A member "templates": those that there are. */
void view_templates(struct web_request *request, struct json_writer *w);
/* A member "decision", as flow_decision.html declares it. step: the view of the one that waits,
 * steps: of all. */
void view_decision(struct web_request *request, struct flow_names *names, const struct flow *flow,
                   slice asker, const struct json *step, const struct titled_steps *steps,
                   struct json_writer *w);
/* A member "writes_as": the connections that the items of an approval go through. */
void view_writes_as(struct web_request *request, struct flow_names *names, const struct json *items,
                    struct json_writer *w);

#endif
