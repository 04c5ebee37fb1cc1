/*
 * Connecting an app by OAuth 2: authorization code with PKCE (RFC 6749 4.1, RFC 7636, RFC 9700).
 * oauth_begin makes the URL that a person's browser is sent to; what comes back to the redirect URI
 * goes to oauth_finish, which exchanges the code for a grant; keep.h makes or mends a connection of
 * it.
 *
 * In between, the verifier and what was asked for are stored, sealed, for ten minutes, under a hash
 * of the state: another process may finish what this one began. A state is good once, and only with
 * the session id that began it (the caller's: a cookie's, say), so that an attacker cannot get a
 * grant to his own login stored in another person's account (RFC 6749 10.12).
 *
 * Both are ops embedded in a caller's op. What the requests borrow lives until the parent has run.
 */
#ifndef CONNECT_OAUTH_H
#define CONNECT_OAUTH_H

#include "connect/oauth_client.h"
#include "connect/oauth_token.h"
#include "store/oauth.h"

enum {
    OAUTH_BEGUN_MS = 10 * 60 * 1000,
    OAUTH_URL_BYTES_MAX = 16 * 1024,
    OAUTH_STATE_PREFIX_MAX = 40,
};

enum oauth_outcome {
    OAUTH_DONE,
    OAUTH_UNSUPPORTED,        /* no such integration, or not one of auth oauth2 */
    OAUTH_NO_CLIENT,          /* the operator gave none for the app, or its secret does not open */
    OAUTH_CONNECTION_UNKNOWN, /* the one to reconnect is none of the account's to the app */
    OAUTH_FULL,               /* the account has as many connections as it may */
    OAUTH_STATE_UNKNOWN,      /* not begun by this session, finished already, or too old */
    OAUTH_ISSUER_WRONG,       /* the answer is another authorization server's (RFC 9207) */
    OAUTH_DENIED,             /* the person, or the app, said no */
    OAUTH_EXCHANGE_REFUSED,   /* the code was not taken; begin again */
    OAUTH_EXCHANGE_OUTAGE,    /* the token endpoint is unreachable; begin again later */
    OAUTH_UNAVAILABLE,        /* the database, or memory */
};

struct oauth_begin_request {
    struct uuid account_id;
    slice integration_id;
    slice session_id;      /* not empty; anything that only this person's browser has */
    slice redirect_uri;    /* exactly as it is registered with the app */
    slice label;           /* SLICE_NONE: none was given. Of a reconnect: not used */
    slice params;          /* JSON object, checked by the caller; SLICE_NONE: none */
    slice optional_scopes; /* of the manifest's, those wanted: space-separated; SLICE_NONE: none */
    int64_t connection_id; /* the one to reconnect; 0: a new one */
    /* comes before the state's random text, so that the caller finds the account when the browser
     * is back: visible ASCII of at most OAUTH_STATE_PREFIX_MAX; SLICE_NONE: nothing */
    slice state_prefix;
    bool may_change_identity; /* of a reconnect: kept for the way back */
    /* as whom to sign in, where the manifest says how that is asked for. Of a reconnect, where it
     * has none, as whom the connection is known */
    struct connection_identity hint;
};

struct oauth_begin {
    struct op op;
    /* out, in the op's arena */
    enum oauth_outcome outcome;
    slice message; /* a sentence unless done */
    slice url;     /* where to send the browser */
    /* private */
    struct connect_service *service;
    struct oauth_begin_request in;
    struct catalog *catalog;
    const struct catalog_integration *integration;
    const struct catalog_auth *auth; /* its OAuth */
    slice authorize_url, token_url;  /* with the params in them */
    struct oauth_client_lookup lookup;
    struct pg_query query;
    struct oauth_begun begun;
    struct connection row; /* of a reconnect */
    struct buf sealed;
    char state[48 + OAUTH_STATE_PREFIX_MAX], verifier[48]; /* 43 base64url characters */
};
void oauth_begin_start(struct connect_service *service, struct oauth_begin *begin,
                       const struct oauth_begin_request *request, struct op *parent);

/* The query parameters of the redirect, decoded; SLICE_NONE what is not there. */
struct oauth_finish_request {
    struct uuid account_id;
    slice session_id;
    slice state, code, iss, error;
};

struct oauth_finish {
    struct op op;
    /* out, in the op's arena */
    enum oauth_outcome outcome;
    slice message;         /* a sentence unless done */
    slice integration_id;  /* known once the state was */
    int64_t connection_id; /* the one to reconnect; 0: a new one */
    bool may_change_identity;
    slice label, params;           /* as they were given when it was begun; SLICE_NONE: not */
    struct secret *credential;     /* of the connection, with OAUTH_DONE: the caller's reference */
    slice id_token;                /* SLICE_NONE: none came */
    int64_t expires_at;            /* of the access token; 0: not known, or never */
    slice scopes;                  /* granted; SLICE_NONE: not known */
    slice scopes_missing;          /* asked for and not granted; SLICE_NONE: none */
    bool is_refresh_token_missing; /* the token ends, and then the app must be connected again */
    /* private */
    struct connect_service *service;
    struct oauth_finish_request in;
    struct catalog *catalog;
    const struct catalog_integration *integration;
    const struct catalog_auth *auth; /* its OAuth */
    const struct json *asked;        /* what begin sealed */
    struct oauth_client_lookup lookup;
    struct pg_query query;
    struct oauth_request request;
    struct http_call call;
    struct oauth_reply reply;
    uint8_t state_hash[OAUTH_HASH_LEN];
    int64_t asked_us;
};
void oauth_finish_start(struct connect_service *service, struct oauth_finish *finish,
                        const struct oauth_finish_request *request, struct op *parent);

#endif
