/*
 * command: a change of a policy, from any face: the document is checked, then the change and its
 * audit event are made (one statement), this process's cache of keys is updated, and other
 * processes are notified.
 *
 * An op, embedded in a caller's op. Borrowed members of the request live until it has ended.
 */
#ifndef POLICY_COMMAND_H
#define POLICY_COMMAND_H

#include "policy/policy.h"
#include "vault/auth.h"

enum policy_command_kind { POLICY_SET, POLICY_DELETE };

struct policy_command_request {
    enum policy_command_kind kind;
    struct audit_by by;
    struct uuid account_id;
    slice name;
    /* The others are for POLICY_SET */
    const struct json *document;
    slice root;   /* the JSON Pointer of the document in what the caller sent; "": it is all */
    bool has_rev; /* it is set only if it has the revision `rev` now; 0: only if there is none */
    int64_t rev;
};

struct policy_command {
    struct op op;
    /* out: OK; ERR_NOTFOUND if the account has no such policy to delete; ERR_SYNTAX if the name or
     * the document is wrong (is_large: it is too long), ERR_LIMIT if the account has too many, the
     * policy has another revision, or keys name it that is to be deleted (all with `problem`);
     * ERR_INVALID if the account does not exist; ERR_CLOSED if the change may have been made; else
     * the query's status */
    int status;
    bool is_large;
    slice problem; /* a sentence, without its last dot; in the op's arena */
    int64_t rev;   /* of the policy that was set */
    /* private */
    struct vault_auth *auth;
    struct policy_command_request in;
    struct policy_change change;
    struct pg_query query;
};
/* auth outlives it. */
void policy_command_start(struct vault_auth *auth, struct policy_command *command,
                          const struct policy_command_request *request, struct op *parent);

/* Returns the faults of a document as one sentence, without its last dot, in the arena; root is put
 * before the pointers. Never returns SLICE_NONE. */
slice policy_faults(const struct catalog_report *report, slice root, struct arena *arena);

#endif
