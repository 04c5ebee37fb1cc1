/*
 * `sluice accounts export` and `sluice accounts erase`: all that is stored of one account.
 */
#ifndef CMD_ACCOUNTS_ROWS_H
#define CMD_ACCOUNTS_ROWS_H

#include "cmd/session.h"

/* Bodies for session_run; options out, yes, settle. */
int accounts_export(struct session *session, struct command_call *call);
int accounts_erase(struct session *session, struct command_call *call);

#endif
