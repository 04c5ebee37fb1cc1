/*
 * `sluice accounts export` and `sluice accounts erase`, for all that is stored for one account.
 */
#ifndef CLI_ACCOUNTS_ROWS_H
#define CLI_ACCOUNTS_ROWS_H

#include "cli/session.h"

/* These are bodies for session_run. accounts_export reads the option out, accounts_erase the
 * options yes and settle. */
int accounts_export(struct session *session, struct command_call *call);
int accounts_erase(struct session *session, struct command_call *call);

#endif
