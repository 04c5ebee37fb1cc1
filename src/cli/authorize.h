/*
 * sluice connections authorize: connects an app by OAuth from a terminal, for operators, or if no
 * dashboard can be reached. The person opens the printed address in any browser, and then pastes
 * the address of the page that the browser ends up on.
 */
#ifndef CLI_AUTHORIZE_H
#define CLI_AUTHORIZE_H

#include "cli/session.h"
#include "connect/oauth.h"

/* session: catalog, ring and database are open. request: complete and checked, except for the
 * session id. Prints the outcome to stdout. */
int authorize_run(struct session *session, const struct oauth_begin_request *request) MUST_CHECK;

#endif
