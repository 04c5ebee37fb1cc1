/*
 * flow_next: from one waiting decision to the next, in the order of the inbox.
 */
#ifndef WEB_FLOW_NEXT_H
#define WEB_FLOW_NEXT_H

#include "web/request.h"

/* Reads the decisions next to the flow's. The request waits for the query. */
void flow_next_ask(struct web_request *request, struct pg_query *query, struct uuid flow_id);
/* Writes a member "next", as flow.html declares it; null if no other flow waits, or if the query
 * was not sent. Returns a status of store.h. */
int flow_next_view(struct web_request *request, const struct pg_query *query,
                   struct json_writer *w) MUST_CHECK;
/* After a decision on the flow: redirects to the next one, or to the inbox if there is none. */
enum op_result flow_next_go(struct web_request *request, struct uuid flow_id);

#endif
