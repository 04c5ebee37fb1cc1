/*
 * change: what operators change, by the commands of the nouns' rooms, and the answer in an
 * operator's words. The audit event has the user that runs the command.
 */
#ifndef CLI_CHANGE_H
#define CLI_CHANGE_H

#include "cli/session.h"
#include "connect/command.h"
#include "vault/command.h"

/* All of them: session's database is open; err has why where it is not OK. */

/* `by` is filled in here. other: NULL, or where the account goes that has the name (ERR_INVALID).
 */
int change_vault(struct session *session, struct vault_command_request *request,
                 struct uuid *other) MUST_CHECK;
/* Of a connection that is there. */
int change_connection(struct session *session, enum connect_command_kind kind,
                      struct uuid account_id, int64_t id) MUST_CHECK;

#endif
