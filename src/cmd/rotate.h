/*
 * Key rotation: every stored credential that is sealed under another key than the first one is
 * opened and sealed again. Safe beside running servers and beside itself, and to repeat.
 */
#ifndef CMD_ROTATE_H
#define CMD_ROTATE_H

#include "cmd/session.h"

/* A session's body (session_run). Prints what was done; fails when a credential did not open. */
int rotate_all(struct session *session, struct command_call *call);

#endif
