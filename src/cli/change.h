/*
 * change: changes by operators. It runs the commands of the nouns' rooms and reports the result in
 * terms of the operator. The audit event names the user that runs the command.
 */
#ifndef CLI_CHANGE_H
#define CLI_CHANGE_H

#include "cli/session.h"
#include "connect/command.h"
#include "connect/save.h"
#include "event/command.h"
#include "policy/command.h"
#include "vault/command.h"

/* For all functions: the session's database is open; session->err has the reason if the result is
 * not OK. */

/* Sets request->by. *other (other may be NULL) gets the account that already has the name if the
 * result is ERR_INVALID. */
int change_vault(struct session *session, struct vault_command_request *request,
                 struct uuid *other) MUST_CHECK;
/* As change_vault, for connections and OAuth clients. To set a client, the ring must be open,
 * too. */
int change_connect(struct session *session, struct connect_command_request *request) MUST_CHECK;
/* Creates a connection, whose id goes to *id. The ring must be open, too. */
int change_save(struct session *session, struct connect_save_request *request,
                int64_t *id) MUST_CHECK;
/* Sets request->by and public_url. For a new secret the ring must be open, too; *id and secret then
 * get the endpoint's id and the secret's text, which the caller wipes. Else both may be NULL. */
int change_webhook(struct session *session, struct webhook_command_request *request,
                   struct uuid *id, char secret[EVENT_SECRET_TEXT_MAX + 1]) MUST_CHECK;
/* Sets request->by. *rev gets the revision of a policy that was set. */
int change_policy(struct session *session, struct policy_command_request *request,
                  int64_t *rev) MUST_CHECK;

#endif
