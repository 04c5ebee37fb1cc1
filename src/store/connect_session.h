/*
 * connect_session: links with which an end user connects one app. The token of a link begins with
 * its account, so that it is looked up by the table's key; only its hash is stored.
 *
 * A link is made, taken by one browser, and used once: it makes one connection, or gives its
 * connection a new grant.
 */
#ifndef STORE_CONNECT_SESSION_H
#define STORE_CONNECT_SESSION_H

#include "store/api_key.h"

enum {
    CONNECT_SESSION_HASH_LEN = 32,
    CONNECT_SESSION_URL_MAX = 500, /* bytes of a return URL */
    /* length of a link's token in bytes: the version, the account's id and 256 random bits */
    CONNECT_SESSION_TOKEN_VERSION = 2,
    CONNECT_SESSION_TOKEN_BYTES = 1 + 16 + 32,
};

struct connect_session {
    struct uuid account_id;
    uint8_t token_hash[CONNECT_SESSION_HASH_LEN];
    struct uuid id; /* recorded in the audit trail */
    slice integration_id;
    struct uuid key_id;                 /* the key that created it */
    uint8_t key_hash[API_KEY_HASH_LEN]; /* the hash of that key */
    bool is_reconnect;
    int64_t connection_id; /* the connection to reconnect; 0: make a new one */
    slice email, subject;  /* only this identity may be connected; SLICE_NONE: any */
    slice return_url;      /* SLICE_NONE: none */
    int64_t created_at;
    int64_t expires_at; /* end of the link; once taken, its end for the browser that took it */
    /* out */
    slice account_name, account_mark, account_colour; /* store/account.h */
    int64_t taken_at, used_at;                        /* 0: not yet */
    int64_t made_id;                                  /* the connection, once the link is used */
    struct uuid parent_id; /* in, too. Of a user's link: the account; else nil */
};

/* A change of a link, with its audit event; borrowed until it is done. */
struct connect_session_change {
    struct audit_by by;
    struct connect_session session; /* a take uses only account_id and token_hash */
    uint8_t taken_by[CONNECT_SESSION_HASH_LEN];
    int64_t until;
};
/* store_done_result. */
void store_connect_session_insert(STORE_ARGS, const struct connect_session_change *change);
/* Reads a link by its token. The result is ERR_NOTFOUND if there is none; the caller checks
 * expires_at. Slices live in op's arena. */
void store_connect_session_get(STORE_ARGS, struct uuid account_id,
                               const uint8_t token_hash[CONNECT_SESSION_HASH_LEN]);
/* Takes the link until `until` and returns it. Only the first browser gets it; it may take the link
 * again without a second event (taken_by is the hash of a random value of its page, so that a form
 * sent twice counts as one). The result is ERR_NOTFOUND for all others, and after expires_at. */
void store_connect_session_take(STORE_ARGS, const struct connect_session_change *change);
STORE_ROW_RESULT(store_connect_session_result, connect_session)
/* Reads a link by its id, without its secrets: integration_id, expires_at, taken_at, and made_id
 * once the connection is stored. The result is ERR_NOTFOUND if there is no such link, or if it
 * ended more than a day ago. */
void store_connect_session_state(STORE_ARGS, struct uuid account_id, struct uuid id);
/* Counts the links of a key that may still connect an app. Read the result with
 * store_count_result. */
void store_connect_session_count(STORE_ARGS, struct uuid account_id,
                                 const uint8_t key_hash[API_KEY_HASH_LEN]);
/* Binds the link to this connection before the connection is stored, so that the link makes no
 * other. Read the result with store_hit_result: ERR_NOTFOUND if the link has made another
 * connection, was not taken, or has ended. */
void store_connect_session_use(STORE_ARGS, struct uuid account_id,
                               const uint8_t token_hash[CONNECT_SESSION_HASH_LEN],
                               int64_t connection_id);
/* Allows the link to be used again, since the connection was not stored after all. Read the result
 * with store_done_result. */
void store_connect_session_unuse(STORE_ARGS, struct uuid account_id,
                                 const uint8_t token_hash[CONNECT_SESSION_HASH_LEN],
                                 int64_t connection_id);
/* Removes links that ended a day ago (until then their page shows the outcome); at most 1000. Read
 * the result with store_done_result. */
void store_connect_session_sweep(STORE_ARGS);

#endif
