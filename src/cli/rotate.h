/*
 * Key rotation: every stored credential that is sealed under a key other than the first key is
 * opened and sealed again. Safe while servers run, in several processes at once, and when repeated.
 */
#ifndef CLI_ROTATE_H
#define CLI_ROTATE_H

#include "cli/session.h"

/* A session's body (session_run). Prints what was done; fails if a credential did not open. */
int rotate_all(struct session *session, struct command_call *call);

#endif
