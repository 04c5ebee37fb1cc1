/*
 * What the pages of one app share. Private to the room.
 */
#ifndef WEB_APP_H
#define WEB_APP_H

#include "base/secret.h"
#include "exec/probe.h"
#include "store/audit.h"
#include "store/connection.h"
#include "store/oauth.h"
#include "web/pages.h"

/* The app in the path's first parameter, from a snapshot that is held until the request ends (the
 * caller's on_end unrefs). NULL: answered, with 404, or with 403 for a connect link's session that
 * is for another app. */
const struct catalog_integration *app_of_path(struct web_request *request,
                                              struct catalog **catalog) MUST_CHECK;
/* Whether the session may have to do with it; a connect link's is for one app. */
bool app_is_allowed(const struct web_request *request, slice integration_id);
/* "/integrations/<id>", in the op's arena. */
slice app_path(struct web_request *request, slice integration_id);

/* The form that connects it, or gives connection `again` (not NULL) a new grant; what was typed
 * before is in the fields again, but no credential. */
void app_write_connect(struct web_request *request, const struct catalog_integration *app,
                       const struct connection *again, struct buf *out);
/* Lets forms of the page lead to the app's authorization server, where it has one. */
void app_allow_forms(struct web_request *request, const struct catalog_integration *app);
/* The page of that form alone, with what was wrong. */
enum op_result app_reply_connect(struct web_request *request, unsigned status,
                                 const struct catalog_integration *app,
                                 const struct connection *again, slice problem);

/* A label as it may be stored: 1 to 200 characters, UTF-8, no control characters. */
bool app_is_label(slice text);
/* Takes a hold. A connection's event in the audit trail; the caller waits and logs. */
void app_audit(struct web_request *request, struct pg_query *query, slice kind,
               int64_t connection_id, slice integration_id);
/* Logs where the event is not in the trail: what was done is done. */
void app_audited(struct web_request *request, const struct pg_query *query);

#endif
