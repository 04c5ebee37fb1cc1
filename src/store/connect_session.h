/*
 * connect_session: links with which an end user connects one app. The token of a link begins with
 * its account, so that it is looked up by the table's key; what is stored of it is a hash.
 */
#ifndef STORE_CONNECT_SESSION_H
#define STORE_CONNECT_SESSION_H

#include "store/api_key.h"

enum {
    CONNECT_SESSION_HASH_LEN = 32,
    CONNECT_SESSION_URL_MAX = 500, /* bytes of a return URL */
};

struct connect_session {
    struct uuid account_id;
    uint8_t token_hash[CONNECT_SESSION_HASH_LEN];
    slice integration_id;
    uint8_t key_hash[API_KEY_HASH_LEN]; /* of the key that asked for it */
    bool is_reconnect;
    slice return_url; /* SLICE_NONE: none */
    int64_t created_at, expires_at;
};

/* store_done_result. */
void store_connect_session_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                  const struct connect_session *session);
/* Result: ERR_NOTFOUND; expires_at is the caller's to judge. Slices live in op's arena. */
void store_connect_session_get(struct pg_pool *pool, struct pg_query *query, struct op *op,
                               struct uuid account_id,
                               const uint8_t token_hash[CONNECT_SESSION_HASH_LEN]);
/* The same, and it is gone: whoever asks first has it. Not replayable. */
void store_connect_session_take(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                struct uuid account_id,
                                const uint8_t token_hash[CONNECT_SESSION_HASH_LEN]);
int store_connect_session_result(const struct pg_query *query,
                                 struct connect_session *session) MUST_CHECK;
/* Those that a key asked for and nobody has taken. */
void store_connect_session_count(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                 struct uuid account_id, const uint8_t key_hash[API_KEY_HASH_LEN]);
int store_connect_session_count_result(const struct pg_query *query, size_t *count) MUST_CHECK;
/* Those that nobody followed; at most 1000. store_done_result. */
void store_connect_session_sweep(struct pg_pool *pool, struct pg_query *query, struct op *op);

#endif
