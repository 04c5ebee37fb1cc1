/*
 * Declarations shared by the pages of one app, of app_facts.c if nothing else is said. Private to
 * the room.
 */
#ifndef WEB_APP_H
#define WEB_APP_H

#include "base/secret.h"
#include "call/enrol.h"
#include "store/connection.h"
#include "store/oauth.h"
#include "web/pages.h"

/* The app in the path's first parameter, from a catalog snapshot that is held until the request
 * ends (the caller's on_end calls catalog_unref). Returns NULL if a 404 was sent. */
const struct catalog_integration *app_of_path(struct web_request *request,
                                              struct catalog **catalog) MUST_CHECK;
/* Returns "/integrations/<id>", in the op's arena. */
slice app_path(struct web_request *request, slice integration_id);

/* Returns "/connections/<id>", in the op's arena. */
slice app_connection_path(struct web_request *request, int64_t id);

/* ---- what an app can do ---- */

/* Writes a member "scopes": the scopes of the app's OAuth connection, as scopes.html declares it.
 * If app is NULL, there are none. */
void app_view_scopes(struct json_writer *w, const struct catalog_integration *app);
/* Writes a member "not_asked": the optional scopes that a person may allow, in words. If app is
 * NULL, there are none. */
void app_view_not_asked(struct json_writer *w, const struct catalog_integration *app);
/* Returns whether a connection with these scopes may not run the action. SLICE_NONE means that the
 * scopes are unknown. */
bool app_refuses(const struct catalog_action *action, slice granted);
/* The following leave out what the policy of the session's key denies (serve/foresee.h). */
/* Writes a member "access": the titles of the actions that these scopes allow, by effect
 * (access.html). If app is NULL, there are none. */
void app_view_access(const struct web_request *request, struct json_writer *w,
                     const struct catalog_integration *app, slice granted);
/* Writes a member "actions": all actions of the app, and whether these scopes allow each. */
void app_view_actions(const struct web_request *request, struct json_writer *w,
                      const struct catalog_integration *app, slice granted);
/* Returns the number of the app's actions. */
int64_t app_count_actions(const struct web_request *request, const struct catalog_integration *app);

/* ---- of a connection ---- */

/* A 404. */
enum op_result app_no_connection(struct web_request *request);
/* Returns the path of the page to go to after connecting: the connection's own if it existed before
 * (`again`), the app's if it is new, and the link's if the session was opened by a link. */
slice app_path_after(struct web_request *request, slice integration_id, int64_t connection_id,
                     bool again);
/* Returns the requested scopes that were not granted, space-separated. Returns SLICE_NONE if none
 * is missing, or if the app does not report them. */
slice app_scopes_missing(struct web_request *request, const struct catalog_integration *app,
                         const struct connection *row);
/* Describes space-separated scopes in words, separated by semicolons; a scope without a description
 * is written as it is. The result is in the op's arena. Returns SLICE_NONE for SLICE_NONE. */
slice app_scope_texts(struct web_request *request, const struct catalog_integration *app,
                      slice scopes);
/* Returns the connection's identity, or SLICE_NONE if it is unknown. */
slice app_acts_as(const struct connection *row);

/* ---- the form (app_form.c) ---- */

/* Writes a member "forms": the forms that connect the app, or give the connection `again` (not
 * NULL) a new grant; one for each way to connect (connect_form.html). Typed values are filled in
 * again, except the credential. If has_client is false, OAuth is left out, since it could only
 * fail. */
void app_view_forms(struct web_request *request, struct json_writer *w,
                    const struct catalog_integration *app, const struct connection *again,
                    bool has_client);
/* Writes a member "forms" without any form. */
void app_view_no_forms(struct json_writer *w);
/* Allows forms of the page to lead to the app's authorization server, if it has one. */
void app_allow_forms(struct web_request *request, const struct catalog_integration *app);
/* Sends the page with only the connect form, and the problem. */
enum op_result app_reply_connect(struct web_request *request, unsigned status,
                                 const struct catalog_integration *app,
                                 const struct connection *again, slice problem);

/* ---- a connect link, for sessions that a link opened (link.c) ---- */

/* "/connect/<token>". */
slice app_link_path(struct web_request *request);
/* Returns the holder of the link, as the caller of a change. */
struct audit_by app_link_by(struct web_request *request, const struct connect_session *link);
/* Reads the result of the query for the request's link, and sets all members of the row. Returns
 * OK, ERR_NOTFOUND, or the query's status. */
int app_link_result(const struct pg_query *query, const struct web_link *link,
                    struct connect_session *row) MUST_CHECK;

/* ---- */

/* Returns the HTTP status for a result of enrolling. */
unsigned app_enrol_status(enum call_enrolled result);

#endif
