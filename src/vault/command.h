/*
 * command: a change of an account, of one of its API keys or of a key's sessions, from any face:
 * the change and its audit event (one statement; the end of a session has none), the update of this
 * process's cache, and the notification of other processes.
 *
 * An op embedded in a caller's op. Borrowed members of the request live until it has ended.
 */
#ifndef VAULT_COMMAND_H
#define VAULT_COMMAND_H

#include "store/account.h"
#include "vault/auth.h"

enum vault_command_kind {
    VAULT_ACCOUNT_CREATE,
    VAULT_ACCOUNT_DISABLE,
    VAULT_ACCOUNT_ENABLE,
    VAULT_ACCOUNT_MARK, /* sets the account's mark and colour */
    VAULT_KEY_CREATE,
    VAULT_KEY_REVOKE,
    VAULT_SESSION_END,
    VAULT_SESSIONS_END, /* ends all sessions of a key that have begun until now */
};

/* account is used by the first four kinds, key by the others. */
struct vault_command_request {
    enum vault_command_kind kind;
    struct audit_by by;
    struct account_change account; /* `by` is not used */
    /* `by` is not used; id and hash are new if a key is to be made */
    struct api_key_change key;
    const uint8_t *session_hash;
    int64_t session_until; /* when the session would have ended */
};

struct vault_command {
    struct op op;
    /* out: OK; ERR_NOTFOUND if there is no such account or key, or the key to replace is revoked;
     * ERR_INVALID if another account has the name, a key has the id, or the key's account does not
     * exist; ERR_CLOSED if the change may have been made; otherwise the query's status */
    int status;
    struct uuid other; /* the other account that has the name */
    /* private */
    struct vault_auth *auth;
    struct vault_command_request in;
    struct pg_query query;
};
/* auth outlives it. */
void vault_command_start(struct vault_auth *auth, struct vault_command *command,
                         const struct vault_command_request *request, struct op *parent);

#endif
