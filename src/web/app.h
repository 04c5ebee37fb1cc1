/*
 * What the pages of one app share. Private to the room.
 */
#ifndef WEB_APP_H
#define WEB_APP_H

#include "base/secret.h"
#include "exec/enrol.h"
#include "store/connection.h"
#include "store/oauth.h"
#include "web/pages.h"

/* The app in the path's first parameter, from a snapshot that is held until the request ends (the
 * caller's on_end unrefs). NULL: answered, with 404. */
const struct catalog_integration *app_of_path(struct web_request *request,
                                              struct catalog **catalog) MUST_CHECK;
/* "/integrations/<id>", in the op's arena. */
slice app_path(struct web_request *request, slice integration_id);

/* "/connections/<id>", in the op's arena. */
slice app_connection_path(struct web_request *request, int64_t id);

/* ---- of a connection (connection.c) ---- */

/* Where to go once it is connected: to its own page where it was `again`, to the app's where it is
 * new, and to the link's where a link's session did it. */
slice app_path_after(struct web_request *request, slice integration_id, int64_t connection_id,
                     bool again);
/* What the app was asked for and did not grant, space-separated; SLICE_NONE: all was, or nobody
 * knows. */
slice app_scopes_missing(struct web_request *request, const struct catalog_integration *app,
                         const struct connection *row);
void app_write_badges(const struct connection *row, struct buf *out);
/* <p>: as whom it acts; nothing where that is not known, or is its label. */
void app_write_identity(const struct connection *row, struct buf *out);
/* <p>: when it was last used. */
void app_write_last_use(const struct connection *row, struct buf *out);
/* The form that gives it a new grant or credential; nothing where the session may not. */
void app_write_reconnect(struct web_request *request, const struct catalog_integration *app,
                         const struct connection *row, struct buf *out);

/* The form that connects it, or gives connection `again` (not NULL) a new grant, one for each way
 * there is to connect; what was typed before is in the fields again, but no credential. has_client:
 * false leaves OAuth out, for which there is no client. */
void app_write_connect(struct web_request *request, const struct catalog_integration *app,
                       const struct connection *again, bool has_client, struct buf *out);
/* Lets forms of the page lead to the app's authorization server, where it has one. */
void app_allow_forms(struct web_request *request, const struct catalog_integration *app);
/* The page of that form alone, with what was wrong. */
enum op_result app_reply_connect(struct web_request *request, unsigned status,
                                 const struct catalog_integration *app,
                                 const struct connection *again, slice problem);

/* ---- the app's OAuth client (app_client.c) ---- */

/* Where there is none that works: what this person may do about it, and the form that sets one
 * where that is allowed. again: the connection whose page is gone back to; 0: the app's. */
void app_write_client_wanted(struct web_request *request, const struct catalog_integration *app,
                             int64_t again, struct buf *out);
/* Which one is used, and how to use another. own NULL: the operator's. */
void app_write_client(struct web_request *request, const struct catalog_integration *app,
                      const struct oauth_client *own, struct buf *out);

/* ---- a connect link (connect_link.c); of a session that a link gave ---- */

/* "/connect/<token>". */
slice app_link_path(struct web_request *request);
/* "link:<id>", for the audit trail. */
slice app_link_actor(struct web_request *request, const struct connect_session *link);
/* What a query for the request's link found, whole: OK, ERR_NOTFOUND, or as pg_query. */
int app_link_result(const struct pg_query *query, const struct web_link *link,
                    struct connect_session *row) MUST_CHECK;

/* ---- */

/* What a person or the app did wrong, as status. */
unsigned app_enrol_status(enum exec_enrolled result);

/* web_audit of a connection. */
void app_audit(struct web_request *request, slice kind, int64_t connection_id,
               slice integration_id);

#endif
