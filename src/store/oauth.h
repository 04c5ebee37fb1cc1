/*
 * oauth: clients registered with the apps' authorization servers, and authorizations that people
 * have begun. Secrets are sealed (vault/seal.h); the states of authorizations are stored as hashes.
 */
#ifndef STORE_OAUTH_H
#define STORE_OAUTH_H

#include "store/audit.h"

enum {
    OAUTH_HASH_LEN = 32, /* SHA-256 */
    OAUTH_CLIENT_ID_MAX = 1000,
};

struct oauth_client {
    struct uuid account_id; /* nil for the client of all accounts that have none of their own */
    slice integration_id;
    slice client_id;
    slice sealed; /* the sealed secret; empty for a public client */
    slice key_id;
    int64_t created_at, updated_at;
};

/* Reads a client. The result is ERR_NOTFOUND if there is none; slices live in op's arena. */
void store_oauth_client_get(STORE_ARGS, struct uuid account_id, slice integration_id);
STORE_ROW_RESULT(store_oauth_client_get_result, oauth_client)

/* A change of a client, with its audit event; the nil account's client has no event. For a
 * deletion only account_id and integration_id are read. */
struct oauth_client_change {
    struct audit_by by;
    struct oauth_client client;
};
/* Inserts or replaces the client. Read the result with store_done_result. */
void store_oauth_client_set(STORE_ARGS, const struct oauth_client_change *change);
/* Deletes the client. Not replayed. Read the result with store_hit_result. */
void store_oauth_client_delete(STORE_ARGS, const struct oauth_client_change *change);

/* Operator commands. */
/* Lists the clients of one account, or of the nil account; at most 1000. */
int store_oauth_client_list_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                                 struct oauth_client **list, size_t *count,
                                 struct err *err) MUST_CHECK;
/* As store_connection_stale_sync, for clients. */
int store_oauth_client_stale_sync(struct pg_sync *sync, struct arena *arena, slice key_id,
                                  struct uuid after_account, slice after_integration,
                                  struct oauth_client **list, size_t *count,
                                  struct err *err) MUST_CHECK;
/* Replaces the sealed secret if client->sealed is still the stored value. Otherwise returns
 * ERR_NOTFOUND. */
int store_oauth_client_reseal_sync(struct pg_sync *sync, const struct oauth_client *client,
                                   slice sealed, slice key_id, struct err *err) MUST_CHECK;

struct oauth_begun {
    struct uuid account_id;
    uint8_t state_hash[OAUTH_HASH_LEN], session_hash[OAUTH_HASH_LEN];
    slice integration_id, sealed, key_id;
    int64_t created_at, expires_at;
};

/* Inserts the authorization. Read the result with store_done_result: ERR_INVALID if the account
 * does not exist. */
void store_oauth_begun_insert(STORE_ARGS, const struct oauth_begun *begun);
/* Takes the authorization: only the first request with the session that began it gets it. Not
 * replayable: the result is ERR_CLOSED if the answer was lost. It is ERR_NOTFOUND if the
 * authorization is unknown, was taken, or belongs to another session (it then stays). Otherwise it
 * is the sealed value and expires_at, which may have passed. */
void store_oauth_begun_take(STORE_ARGS, struct uuid account_id,
                            const uint8_t state_hash[OAUTH_HASH_LEN],
                            const uint8_t session_hash[OAUTH_HASH_LEN]);
STORE_ROW_RESULT(store_oauth_begun_take_result, oauth_begun)
/* Removes authorizations that were never finished. Read the result with store_done_result. */
void store_oauth_begun_sweep(STORE_ARGS);

#endif
