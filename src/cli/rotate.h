/*
 * Key rotation: opens every stored credential that is sealed under a key other than the first, and
 * seals it again with the first key. It is safe while servers run, in several processes at once,
 * and if it is repeated.
 */
#ifndef CLI_ROTATE_H
#define CLI_ROTATE_H

#include "cli/session.h"

/* A session's body (session_run). Prints what was done; fails if a credential could not be
 * opened. */
int rotate_all(struct session *session, struct command_call *call);

#endif
