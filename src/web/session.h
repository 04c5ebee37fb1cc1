/*
 * Sessions: the content of a sealed cookie, checked against the API key that opened the session.
 *
 * The cookie's plain text is JSON {key, csrf, until, link?}: the key's SHA-256 as hex, the token
 * that forms must contain, the end in milliseconds, and for a session of a connect link the link's
 * token. It is sealed with the master key and bound to the account. A link's session is sealed
 * under another id and has a separate cookie, so that it is never taken for a session of the
 * dashboard.
 */
#ifndef WEB_SESSION_H
#define WEB_SESSION_H

#include "base/arena.h"
#include "base/id.h"
#include "store/api_key.h"
#include "vault/auth.h"
#include "vault/seal.h"

enum {
    SESSION_MS = 12 * 60 * 60 * 1000, /* after a sign-in */
    SESSION_LINK_MS = 60 * 60 * 1000, /* of a connect link's session */
    SESSION_CSRF_LEN = 32,            /* hex digits */
    SESSION_COOKIE_MAX = 2048,
};

struct web_session {
    bool is_open;
    struct uuid account_id;
    struct uuid parent_id; /* of a link that a user's request made: the account; else nil */
    uint8_t key_hash[API_KEY_HASH_LEN];
    char csrf[SESSION_CSRF_LEN + 1];
    int64_t until_ms;
    slice link_token; /* the token of the connect link; SLICE_NONE otherwise */
};

/* Draws a new token for the session's forms. The session is also identified by its hash. */
void session_draw_csrf(struct web_session *session);
/* Returns the cookie's value in base64url, or SLICE_NONE if out of memory. */
slice session_seal(const struct vault_ring *ring, const struct web_session *session,
                   struct arena *arena);
/* Returns ERR_* if the cookie cannot be unsealed, or if the session has ended. The key and the
 * session must still be checked (session_caller, vault_auth_check_caller). */
int session_unseal(const struct vault_ring *ring, slice cookie, bool is_link, struct arena *arena,
                   struct web_session *session) MUST_CHECK;
/* Returns the caller to check for this session (vault_auth_check_caller). */
struct vault_caller session_caller(const struct web_session *session);

#endif
