/*
 * change: changes by operators, through the commands of the nouns' rooms, and the answer in an
 * operator's words. The audit event has the user that runs the command.
 */
#ifndef CLI_CHANGE_H
#define CLI_CHANGE_H

#include "cli/session.h"
#include "connect/command.h"
#include "connect/save.h"
#include "vault/command.h"

/* All of them: session's database is open; err has the reason if the result is not OK. */

/* `by` is filled in here. other: NULL, or gets the account that has the name (ERR_INVALID). */
int change_vault(struct session *session, struct vault_command_request *request,
                 struct uuid *other) MUST_CHECK;
/* The same. To set a client the ring is open, too. */
int change_connect(struct session *session, struct connect_command_request *request) MUST_CHECK;
/* A new connection, whose id goes to *id; is_default: even if the account has another default for
 * the app. The ring is open, too. */
int change_save(struct session *session, struct connect_save_request *request, bool is_default,
                int64_t *id) MUST_CHECK;

#endif
