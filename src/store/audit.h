/*
 * audit: events of an account other than executions: blocked runs with their reason, connections
 * made and lost, approvals, key changes. Insert-only, partitioned by day.
 */
#ifndef STORE_AUDIT_H
#define STORE_AUDIT_H

#include "store/execution_input.h"

/* All kinds of events, with their text in lists. The part before the dot is a group; kinds of a
 * group are adjacent. Only earlier versions wrote the last kind: their rows keep that name. */
#define AUDIT_KINDS(X)                                                                            \
    X(ACCOUNT_CREATED, "account.created", "The account was created")                              \
    X(ACCOUNT_CHANGED, "account.changed", "The account's name, mark or colour was changed")       \
    X(ACCOUNT_DISABLED, "account.disabled", "The account was disabled")                           \
    X(ACCOUNT_ENABLED, "account.enabled", "The account was enabled")                              \
    X(ACCOUNT_ERASED, "account.erased", "An account was erased")                                  \
    X(CONNECTION_ADDED, "connection.added", "An app was connected")                               \
    X(CONNECTION_RECONNECTED, "connection.reconnected", "An app was reconnected")                 \
    X(CONNECTION_DEFAULT_SET, "connection.default_set", "A connection became the default")        \
    X(CONNECTION_RENAMED, "connection.renamed", "A connection was renamed")                       \
    X(CONNECTION_SHARED, "connection.shared", "A connection was shared with the users")           \
    X(CONNECTION_UNSHARED, "connection.unshared", "A connection is no longer shared")             \
    X(CONNECTION_REMOVED, "connection.removed", "A connection was deleted")                       \
    X(CONNECTION_REAUTH_REQUIRED, "connection.reauth_required", "A connection has to be renewed") \
    X(EXECUTION_BLOCKED, "execution.blocked", "A run was blocked")                                \
    X(FLOW_APPROVED, "flow.approved", "Calls of a flow were approved")                            \
    X(FLOW_CANCELLED, "flow.cancelled", "A flow was cancelled")                                   \
    X(FLOW_REJECTED, "flow.rejected", "Calls of a flow were rejected")                            \
    X(FLOW_RESUMED, "flow.resumed", "A flow was resumed")                                         \
    X(KEY_CREATED, "key.created", "An API key was created")                                       \
    X(KEY_ROLLED, "key.rolled", "An API key was replaced by a new one")                           \
    X(KEY_REVOKED, "key.revoked", "An API key was revoked")                                       \
    X(LINK_CREATED, "link.created", "A connect link was created")                                 \
    X(LINK_USED, "link.used", "A connect link was opened")                                        \
    X(LINK_REFUSED, "link.refused", "A login was refused on a connect link")                      \
    X(POLICY_CHANGED, "policy.changed", "A policy was made or changed")                           \
    X(POLICY_DELETED, "policy.deleted", "A policy was deleted")                                   \
    X(USER_ERASED, "user.erased", "An end user was erased")                                       \
    X(WEBHOOK_CREATED, "webhook.created", "A webhook was created")                                \
    X(WEBHOOK_CHANGED, "webhook.changed", "A webhook was changed")                                \
    X(WEBHOOK_ROLLED, "webhook.rolled", "A webhook got another secret")                           \
    X(WEBHOOK_ENABLED, "webhook.enabled", "A webhook was switched on")                            \
    X(WEBHOOK_DISABLED, "webhook.disabled", "A webhook was switched off")                         \
    X(WEBHOOK_DELETED, "webhook.deleted", "A webhook was deleted")                                \
    X(CLIENT_SET, "oauth_client.set", "An OAuth client was set")                                  \
    X(CLIENT_REMOVED, "oauth_client.removed", "An OAuth client was deleted")                      \
    X(CLIENT_DELETED, "oauth_client.deleted", "An OAuth client was deleted by a command")
#define AUDIT_KIND_ENUM(name, text, sentence) AUDIT_##name,
enum audit_kind { AUDIT_KINDS(AUDIT_KIND_ENUM) AUDIT_KIND_COUNT };
/* All names as one text, with a space before each name, and the description of a valid filter by
 * kind. */
#define AUDIT_KIND_WORD(name, text, sentence) " " text
#define AUDIT_KIND_WORDS                      AUDIT_KINDS(AUDIT_KIND_WORD)
#define AUDIT_KIND_WANTED                     "one of, or the first word of:" AUDIT_KIND_WORDS
slice audit_kind_name(enum audit_kind kind);
slice audit_kind_sentence(enum audit_kind kind);
/* Returns the group of the kind, such as "key" for "key.created". */
slice audit_kind_group(enum audit_kind kind);
/* Finds the kind by its name in a row or a filter. Returns AUDIT_KIND_COUNT if no kind has that
 * name. */
enum audit_kind audit_kind_find(slice name);

/* The caller of a change, for the event of that change; borrowed like the event's other members. */
struct audit_by {
    slice actor;      /* "key:<id>", "operator:<login>", "system" */
    slice request_id; /* SLICE_NONE for none */
    slice address; /* the client's, or "host:<name>"; at most 200 characters; may be SLICE_NONE */
    slice means;   /* the face, such as "dashboard"; SLICE_NONE: the API */
    /* The account, if the change concerns rows of one of its users (store/account_user.h), else
     * nil. Its keys ask, it pays, and its OAuth clients are used. */
    struct uuid parent_id;
};

struct audit_event {
    struct uuid account_id;
    struct uuid id; /* uuid_v7(): also the event's time */
    slice kind;     /* audit_kind_name */
    slice reason;   /* an error code or a word; SLICE_NONE for none */
    struct audit_by by;
    slice details;                /* JSON object; SLICE_NONE for none; no secrets, no inputs */
    struct execution_input input; /* of a blocked run; only store_audit_insert_input stores it */
};

/* Copies the caller into the arena, without `means`. */
struct audit_by audit_by_dup(const struct audit_by *by, struct arena *arena);
/* Returns the key of an actor "key:<id>", or nil if the actor is not a key. */
struct uuid audit_actor_key(slice actor);

/* Inserts the event. Replayable. Read the result with store_done_result. */
void store_audit_insert(STORE_ARGS, const struct audit_event *event);
/* Likewise, with the input of the event's run. */
void store_audit_insert_input(STORE_ARGS, const struct audit_event *event);

/* Reads one event. The result is ERR_NOTFOUND if the account does not have it. */
void store_audit_get(STORE_ARGS, struct uuid account_id, struct uuid id);
STORE_ROW_RESULT(store_audit_get_result, audit_event)

/* Lists the account's events, newest first. kind: "key.created", or "key" for all kinds that begin
 * with it; actor: "key:<id>", or "key" for all keys; SLICE_NONE: all. next: as in
 * store_execution_list_result. */
void store_audit_list(STORE_ARGS, struct uuid account_id, const struct store_page *page, slice kind,
                      slice actor);
/* The same for the account and all its users; account_id is then the owner of each event. In a
 * sharded database pg_query.is_partial shows that a shard did not answer. Events of users are found
 * from the day on which the database was migrated to this version. */
void store_audit_list_all(STORE_ARGS, struct uuid account_id, const struct store_page *page,
                          slice kind);
int store_audit_list_result(const struct pg_query *query, struct audit_event **list, size_t *count,
                            struct uuid *next) MUST_CHECK;

#endif
