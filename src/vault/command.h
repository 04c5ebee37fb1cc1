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
    /* marks a disabled account as being erased; then servers delete its rows and those of its users
     * (server/eraser.h), and at last the account */
    VAULT_ACCOUNT_ERASE,
    VAULT_ACCOUNT_RENAME, /* sets its name */
    VAULT_KEY_CREATE,
    /* creates a key with the name and the rights of the key that key.replaces names, which ends at
     * key.replaced_until or earlier */
    VAULT_KEY_ROLL,
    VAULT_KEY_REVOKE,
    VAULT_SESSION_END,
    VAULT_SESSIONS_END, /* ends all sessions of a key that have begun until now */
};

/* account is used by the kinds of accounts, which come first, key by the others. */
struct vault_command_request {
    enum vault_command_kind kind;
    struct audit_by by;
    struct account_change account; /* `by` is not used */
    /* `by` is not used; id and hash are new if a key is to be made */
    struct api_key_change key;
    /* To make or revoke a key, the grant of the key that asks; key_id is nil: a command does */
    struct vault_grant maker;
    bool is_new_expiry; /* the key's expires_at is set; else a rolled key keeps the old one's */
    const uint8_t *session_hash;
    int64_t session_until; /* when the session would have ended */
};

/* A key that is made by another key gets no right that its maker lacks, unless that is the
 * operator's. Where it leaves addresses, expiry or unattended_writes open, the maker's apply. */
struct vault_command {
    struct op op;
    /* out: OK; ERR_NOTFOUND if there is no such account or key, or the key to replace has just
     * ended; ERR_INVALID if another account has the name or external id, a key has the id, or the
     * key's account does not exist; ERR_REFUSED if the maker may not make this key, or has ended
     * (is_maker_over), if the account is to be enabled and is being erased, or is to be erased and
     * is not disabled, ERR_LIMIT if there are too many keys, or the key cannot be rolled (err says
     * why); ERR_CLOSED if the change may have been made; otherwise the query's status */
    int status;
    bool is_maker_over;
    struct err err;
    struct uuid other;  /* the other account that has the name or external id */
    struct api_key key; /* a key that was made; its texts are in the op's arena or the request's */
    /* private */
    struct vault_auth *auth;
    struct vault_command_request in;
    struct api_key maker;
    struct pg_query query;
};
/* auth outlives it. */
void vault_command_start(struct vault_auth *auth, struct vault_command *command,
                         const struct vault_command_request *request, struct op *parent);

#endif
