/*
 * sluice connections authorize: an app connected by OAuth from a terminal, for operators and where
 * no dashboard can be reached. A person opens the address that is printed, in any browser, and
 * pastes the address that the browser ends at.
 */
#ifndef CLI_AUTHORIZE_H
#define CLI_AUTHORIZE_H

#include "cli/session.h"
#include "connect/oauth.h"

/* session: catalog, ring and database are open. request: all but the session id, checked. Prints
 * the outcome to stdout. */
int authorize_run(struct session *session, const struct oauth_begin_request *request) MUST_CHECK;

#endif
