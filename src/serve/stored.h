/*
 * stored: which stored results a caller may have. The policy of its key hides those of an action
 * that it denies for every input (src/policy/README.md).
 */
#ifndef SERVE_STORED_H
#define SERVE_STORED_H

#include "catalog/catalog.h"
#include "serve/request.h"
#include "store/audit.h"
#include "store/connection.h"

/* Whether the caller may have results of this action, or hear of them. Those of an action that the
 * catalog no longer has are hidden by any policy: it cannot decide about them. */
bool serve_gives_by(const struct serve_request *request, const struct catalog *catalog,
                    slice integration_id, slice action_id);
static inline bool serve_gives(const struct serve_request *request, const struct catalog *catalog,
                               slice integration_id, slice action_id)
{
    return !request->policy || serve_gives_by(request, catalog, integration_id, action_id);
}

/* Whether the caller may hear of a flow that makes calls of these tools, separated by blanks. With
 * a policy SLICE_NONE hides it: nothing is known of the flow. */
bool serve_gives_tools(const struct serve_request *request, const struct catalog *catalog,
                       slice tools);

/* Returns the connection as the caller may have it. Its last failure does not say of which action
 * it is, so it is left out if the policy denies any action of the app. */
struct connection serve_connection(const struct serve_request *request,
                                   const struct catalog *catalog, const struct connection *row);

/* Whether the caller may have the event. Of a hidden action it has only those that say that it is
 * unknown; the policy is removed from their details. Those of flows are without title and note,
 * which have text of calls. */
bool serve_gives_event(struct serve_request *request, const struct catalog *catalog,
                       struct audit_event *event);

#endif
