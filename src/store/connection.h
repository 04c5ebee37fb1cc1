/*
 * connection: an account's grant on one app: sealed credentials (vault/seal.h), their key id, and
 * their health. Changes are compare-and-set on `rev`, and carry an operation token, so that a
 * change that is sent again after a lost connection returns the actual result.
 */
#ifndef STORE_CONNECTION_H
#define STORE_CONNECTION_H

#include "store/audit.h"

enum {
    CONNECTION_LABEL_MAX = 200,
    CONNECTION_ERROR_MAX = 500,
    CONNECTION_FAILURE_MAX = 500, /* bytes */
    CONNECTION_EMAIL_MAX = 320,   /* in characters, like the next two constants */
    CONNECTION_SUBJECT_MAX = 255,
    CONNECTION_IDENTITY_LABEL_MAX = 200,
};

enum connection_status { CONNECTION_LIVE, CONNECTION_REAUTH_REQUIRED, CONNECTION_REVOKED };

/* The user at the app. Each member is SLICE_NONE if it is unknown. An identity is recognized by its
 * email or its subject. */
struct connection_identity {
    slice email;
    slice subject; /* the app's own id of the user, workspace or account; unique */
    slice label;   /* shown to people: a name, a login, a workspace */
};

struct connection {
    struct uuid account_id;
    int64_t id; /* short_id_new() */
    slice integration_id;
    slice label;
    bool is_default;
    slice auth_kind; /* "oauth2", "api_key" ... as in the manifest */
    slice sealed;    /* credentials, vault/seal.h; empty for auth none */
    slice key_id;    /* the master key that sealed them */
    slice scopes;    /* granted, space-separated; SLICE_NONE: unknown */
    slice params;    /* JSON object for ${connection.params.x}; SLICE_NONE counts as {} */
    enum connection_status status;
    slice error; /* why it is not live, for a person; SLICE_NONE when live */
    /* when the access token expires; 0 if it is unknown or the token does not expire */
    int64_t expires_at;
    int64_t rev; /* starts at 1, plus 1 with each change */
    int64_t created_at, updated_at;
    int64_t last_used_at; /* the last call to the app, with a delay of some seconds; 0: none yet */
    int64_t failed_at;    /* the last failed call, with the same delay */
    slice failure;        /* its error text; SLICE_NONE: no failed call */
    struct connection_identity identity;
    struct uuid parent_id; /* of a user's connection: the account; else nil */
    bool is_shared;        /* of the account's: it serves users without a connection to the app */
};

const char *connection_status_name(enum connection_status status);
bool connection_identity_is_known(const struct connection_identity *identity);
/* Returns whether a login with the subject `came` is one that `wanted` means: the same, or a user
 * of the workspace `wanted` ("T1" means "T1/U1", too). */
bool connection_subject_admits(slice wanted, slice came);
/* Returns the name that people know: the email, else the label, else the subject. Returns
 * SLICE_NONE if there is none of these. */
slice connection_identity_text(const struct connection_identity *identity);

/* connection_list.c: */

/* Finds the choices for a call that names no connection: the integration's default first, then the
 * oldest live connections (CONNECTION_CHOICE_LIVE_MAX), and enough others to show whether there is
 * none, one or several. The result is read like a page. */
#define CONNECTION_CHOICE_LIVE_MAX 10
void store_connection_choice(STORE_ARGS, struct uuid account_id, slice integration_id);

/* The choices for a call of a user, among the connections that the account shares: the default
 * first, then the oldest ones, CONNECTION_CHOICE_LIVE_MAX at most. */
void store_connection_shared(STORE_ARGS, struct uuid account_id, slice integration_id);

/* A page of one integration's connections, or of all connections sorted by integration; the oldest
 * come first. is_all: those of the account and of all its users. In a sharded database
 * pg_query.is_partial then shows that a shard did not answer. */
enum { CONNECTION_PAGE_ALL_MAX = 200 };
struct connection_page {
    bool is_all;
    bool is_shared;             /* only those that the account shares with its users */
    slice integration_id;       /* SLICE_NONE: all */
    slice after_integration_id; /* the last connection of the previous page; SLICE_NONE: none */
    int64_t after_id;           /* the id of that connection; 0: none */
    size_t count_max;           /* with is_all at most CONNECTION_PAGE_ALL_MAX */
};
void store_connection_page(STORE_ARGS, struct uuid account_id, const struct connection_page *page);
/* Reads the connections of one integration, except revoked ones. Those with this label come
 * first. */
void store_connection_labelled(STORE_ARGS, struct uuid account_id, slice integration_id,
                               slice label, size_t count_max);
/* A user of an app, as two connections may have it. */
struct connection_twin {
    slice integration_id;
    slice subject;
    slice email;  /* SLICE_NONE: unknown; two known ones must be equal, in any case */
    slice params; /* a JSON object; the same user has another connection with other params */
};
/* Finds the oldest connection of this user that is not revoked, else one whose subject is only the
 * user's workspace (connection_subject_admits), if no other user's is likely to be meant. Read the
 * result with store_rev_result: the id, or ERR_NOTFOUND. It is ERR_INVALID for params with
 * \\u0000. */
void store_connection_twin(STORE_ARGS, struct uuid account_id, const struct connection_twin *twin);
/* Examines the first CONNECTION_ENDED_SCAN connections, sorted by integration. Ended ones come
 * first. */
enum { CONNECTION_ENDED_SCAN = 1000 };
void store_connection_ended(STORE_ARGS, struct uuid account_id, size_t count_max);
/* The list is in op's arena. It is empty if there are no connections, which is not an error. */
STORE_LIST_RESULT(store_connection_list_result, connection)

/* An account's connections of one integration. */
struct connection_app {
    slice integration_id;
    size_t count, live; /* live: including those that need a new grant */
    bool has_default, is_default_live;
    bool is_shared; /* no column: those that the account shares with the user (connect_apps) */
};
/* Lists these counts by integration. The list is in op's arena. */
void store_connection_apps(STORE_ARGS, struct uuid account_id);
/* The same for those that the account shares with its users. */
void store_connection_shared_apps(STORE_ARGS, struct uuid account_id);
STORE_LIST_RESULT(store_connection_apps_result, connection_app)
/* Counts the account's connections, up to count_max. Read the result with store_count_result. */
void store_connection_count(STORE_ARGS, struct uuid account_id, size_t count_max);

/* connection.c: */

/* Result: ERR_NOTFOUND. */
void store_connection_get(STORE_ARGS, struct uuid account_id, int64_t id);
STORE_ROW_RESULT(store_connection_get_result, connection)
/* Inserts a connection, from all members except rev and the times. count_max: the account's
 * maximum, 0: no limit; several processes that connect at the same moment may exceed it. is_default
 * is allowed only if no other connection of that integration is the default; otherwise the result
 * is ERR_INVALID (SQLSTATE 23505). The result is ERR_LIMIT at count_max; *is_own is false if there
 * is already a connection with that id, which is left unchanged. */
void store_connection_insert(STORE_ARGS, const struct connection *connection, size_t count_max);
int store_connection_insert_result(const struct pg_query *query, bool *is_own) MUST_CHECK;

/* New credentials after a refresh; makes the connection live. Compare-and-set on rev. The result is
 * OK and the new rev, or ERR_NOTFOUND if the row has another rev by now (another writer was first:
 * read it again) or no longer exists. */
struct connection_credentials {
    slice sealed, key_id;
    slice auth_kind;    /* SLICE_NONE: as before */
    slice scopes;       /* SLICE_NONE: as before, if auth_kind is also SLICE_NONE */
    int64_t expires_at; /* 0: unknown */
    bool is_grant_new;  /* not a renewal: the row's identity is replaced, even by an unknown one */
    struct connection_identity identity;
};
void store_connection_credentials_set(STORE_ARGS, struct uuid account_id, int64_t id, int64_t rev,
                                      const struct connection_credentials *credentials);

/* Stores facts that were found about the credential that the row has at rev; rev stays. A row that
 * has another credential by now is left unchanged. Read the result with store_done_result. */
void store_connection_identity_set(STORE_ARGS, struct uuid account_id, int64_t id, int64_t rev,
                                   const struct connection_identity *identity);

/* Changes by a person or a program (connection_manage.c), each with its audit event. The result is
 * the integration's id (store_text_result), or ERR_CLOSED if the answer was lost; repeating the
 * change is harmless. */
struct connection_change {
    struct uuid account_id;
    int64_t id;
    struct audit_by by;
};
/* Makes the connection the default; the former default of the same integration is cleared. The
 * result is ERR_INVALID if another connection became the default at the same moment; try again
 * then. */
void store_connection_default_set(STORE_ARGS, const struct connection_change *change);
/* Sets the label, of at most CONNECTION_LABEL_MAX characters; otherwise the result is
 * ERR_INVALID. */
void store_connection_label_set(STORE_ARGS, const struct connection_change *change, slice label);
/* Shares it with the account's users, or ends that. A user's own connection is not found. */
void store_connection_share_set(STORE_ARGS, const struct connection_change *change, bool is_shared);
void store_connection_delete(STORE_ARGS, const struct connection_change *change);
/* Deletes the connection if the account has another one of the same user. Of connections that are
 * made and yield at the same time, one remains. The result is the id of one that remains, or
 * ERR_NOTFOUND if there is no other one. */
void store_connection_yield(STORE_ARGS, const struct connection_change *change,
                            const struct connection_twin *twin);
int store_connection_yield_result(const struct pg_query *query, int64_t *kept_id) MUST_CHECK;

/* connection_refresh.c: */

/* Sets the status to reauth_required by compare-and-set, and inserts the audit event
 * connection.reauth_required in the same statement: there is one event for each loss, however many
 * processes find it. Read the result with store_rev_result. */
struct connection_loss {
    struct uuid account_id;
    int64_t id, rev;
    slice error; /* shown to people */
    /* for the event; details: JSON object, SLICE_NONE for none */
    struct audit_by by;
    slice reason, details;
};
void store_connection_lost(STORE_ARGS, const struct connection_loss *loss);

/* Claims the refresh: no other holder may refresh the token for lease_ms, by the database's clock.
 * If the same holder repeats the claim, the lease starts again. Read the result with
 * store_hit_result: ERR_NOTFOUND if another holder has the claim, or if the row has another rev by
 * now. A change of credentials or status ends the claim. */
void store_connection_claim(STORE_ARGS, struct uuid account_id, int64_t id, int64_t rev,
                            struct uuid holder, unsigned lease_ms);
/* Ends the holder's claim. Read the result with store_done_result. */
void store_connection_release(STORE_ARGS, struct uuid account_id, int64_t id, struct uuid holder);

/* The last use of a connection (connection_use.c). This is not a change, so rev stays. The latest
 * time is kept. Read the result with store_done_result. */
struct connection_use {
    struct uuid account_id;
    int64_t id;
    int64_t used_at;
    int64_t failed_at; /* 0: no call failed */
    slice failure;     /* at most CONNECTION_FAILURE_MAX; with failed_at */
};
void store_connection_use(STORE_ARGS, const struct connection_use *use);

/* Operator commands. */
/* Lists all connections of the account, in the order of pages. */
int store_connection_list_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                               struct connection **list, size_t *count, struct err *err) MUST_CHECK;
/* Lists one page of connections of all accounts that are sealed with a key other than key_id, for
 * `keys rotate`; after is the last (account, id) of the previous page. */
int store_connection_stale_sync(struct pg_sync *sync, struct arena *arena, slice key_id,
                                struct uuid after_account, int64_t after_id,
                                struct connection **list, size_t *count,
                                struct err *err) MUST_CHECK;
/* Replaces the sealed credential by compare-and-set on rev. Returns ERR_NOTFOUND if another writer
 * was first. */
int store_connection_reseal_sync(struct pg_sync *sync, struct uuid account_id, int64_t id,
                                 int64_t rev, slice sealed, slice key_id,
                                 struct err *err) MUST_CHECK;

#endif
