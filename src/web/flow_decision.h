/*
 * flow_decision: a waiting decision, and the names of the keys that asked and decided.
 */
#ifndef WEB_FLOW_DECISION_H
#define WEB_FLOW_DECISION_H

#include "web/effect.h"

struct flow_names;

/* Reads the names of actors ("key:<id>"), and of the connections of an approval's items (NULL:
 * none) into *names. Continues with `then` once the caller's earlier queries have ended, too. */
enum op_result flow_names_begin(struct web_request *request, const slice *actors, size_t count,
                                const struct json *items, struct flow_names **names,
                                web_step *then);
/* Returns the key's name, or the actor itself if the key has no name or the actor is not a key. */
slice flow_names_actor(struct flow_names *names, slice actor);
/* Whether the actor is the caller of this request. */
bool flow_actor_is_own(struct web_request *request, slice actor);
/* Returns the identity with which an item's call is made. Returns SLICE_NONE if it is unknown, or
 * if the app needs no connection. */
slice flow_names_label(struct web_request *request, struct flow_names *names,
                       const struct json *item);
/* Writes an object, as todo_flow.html declares it, without the places and connections of its calls
 * and without the time since which it waits. */
struct flow_inbox_row;
void view_waiting(struct web_request *request, struct json_writer *w,
                  const struct flow_inbox_row *row);
/* Writes a member "templates": the present templates. */
void view_templates(struct web_request *request, struct json_writer *w);
/* Returns the name of a template of the set, or of held calls; else its key. Borrowed from the set,
 * constant, or the key itself. */
slice view_template_name(const struct web_request *request, slice key);
/* Writes a member "decision", as flow_decision.html declares it. step: the view of the waiting
 * step; steps: the views of all steps. is_kin: the decider counts as the asker, so that its
 * approval satisfies no policy that holds a call. */
void view_decision(struct web_request *request, struct flow_names *names, const struct flow *flow,
                   slice asker, const struct json *step, const struct titled_steps *steps,
                   bool may_decide, bool is_kin, struct json_writer *w);
/* Writes a member "writes_as": the connections of an approval's items. */
void view_writes_as(struct web_request *request, struct flow_names *names, const struct json *items,
                    struct json_writer *w);

#endif
