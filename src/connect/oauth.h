/*
 * Connects an app by OAuth 2: authorization code with PKCE (RFC 6749 4.1, RFC 7636, RFC 9700).
 * oauth_begin makes the URL to which a person's browser is sent. The response at the redirect URI
 * goes to oauth_finish, which exchanges the code for a grant; save.h makes or reconnects a
 * connection with the grant.
 *
 * Between the two, the verifier and the request are stored, sealed, for ten minutes, under a hash
 * of the state: another process may finish what this one began. A state is valid once, and only
 * with the session id with which it began (chosen by the caller, such as a cookie). So an attacker
 * cannot have a grant to his own login stored in another person's account (RFC 6749 10.12).
 *
 * oauth_begin and oauth_finish are ops, embedded in a caller's op. Borrowed members of the requests
 * live until the parent has run.
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
    OAUTH_UNSUPPORTED, /* no such integration, or its auth is not oauth2 */
    /* the operator did not configure a client for the app, or the client's secret cannot be
     * opened */
    OAUTH_NO_CLIENT,
    OAUTH_CONNECTION_UNKNOWN, /* the account has no such connection to the app */
    OAUTH_FULL,               /* the account has reached its limit of connections */
    OAUTH_STATE_UNKNOWN,      /* not begun by this session, already finished, or too old */
    OAUTH_ISSUER_WRONG,       /* the answer is from another authorization server (RFC 9207) */
    OAUTH_DENIED,             /* the person, or the app, refused */
    OAUTH_EXCHANGE_REFUSED,   /* the code was not accepted; begin again */
    OAUTH_EXCHANGE_OUTAGE,    /* the token endpoint is unreachable; begin again later */
    OAUTH_UNAVAILABLE,        /* the database or memory is not available */
};

struct oauth_begin_request {
    struct uuid account_id;
    struct uuid parent_id; /* as in struct audit_by; likewise for oauth_finish_request */
    slice integration_id;
    slice session_id;      /* not empty; known only to this person's browser */
    slice redirect_uri;    /* exactly as it is registered with the app */
    slice label;           /* SLICE_NONE: not given. Not used for a reconnect */
    slice params;          /* JSON object, checked by the caller; SLICE_NONE: none */
    slice optional_scopes; /* the requested part of the manifest's optional scopes,
                            * space-separated; SLICE_NONE: none */
    int64_t connection_id; /* the connection to reconnect; 0: make a new one */
    /* put before the state's random text, so that the caller finds the account when the browser
     * returns: visible ASCII of at most OAUTH_STATE_PREFIX_MAX; SLICE_NONE: nothing */
    slice state_prefix;
    bool may_change_identity; /* reconnect only: stored for oauth_finish */
    /* the user to sign in, if the manifest has parameters for this. By default, for a reconnect,
     * the user of the connection */
    struct connection_identity hint;
};

struct oauth_begin {
    struct op op;
    /* out, in the op's arena */
    enum oauth_outcome outcome;
    slice message; /* a sentence, unless OAUTH_DONE */
    slice url;     /* where to send the browser */
    /* private */
    struct connect_service *service;
    struct oauth_begin_request in;
    struct catalog *catalog;
    const struct catalog_integration *integration;
    const struct catalog_auth *auth; /* the integration's auth of kind oauth2 */
    slice authorize_url, token_url;  /* with the params inserted */
    struct oauth_client_lookup lookup;
    struct pg_query query;
    struct oauth_begun begun;
    struct connection row; /* reconnect only */
    struct buf sealed;
    char state[48 + OAUTH_STATE_PREFIX_MAX], verifier[48]; /* 43 base64url characters */
};
void oauth_begin_start(struct connect_service *service, struct oauth_begin *begin,
                       const struct oauth_begin_request *request, struct op *parent);

/* The query parameters of the redirect, decoded; SLICE_NONE: absent. */
struct oauth_finish_request {
    struct uuid account_id, parent_id;
    slice session_id;
    slice state, code, iss, error;
};

struct oauth_finish {
    struct op op;
    /* out, in the op's arena */
    enum oauth_outcome outcome;
    slice message;         /* a sentence, unless OAUTH_DONE */
    slice integration_id;  /* known once the state was loaded */
    int64_t connection_id; /* the connection to reconnect; 0: make a new one */
    bool may_change_identity;
    slice label, params; /* as in the request that began it; SLICE_NONE: not given */
    /* if OAUTH_DONE: the credential for the connection, a reference for the caller */
    struct secret *credential;
    slice id_token;                /* SLICE_NONE: none */
    int64_t expires_at;            /* when the access token expires; 0: unknown, or never */
    slice scopes;                  /* granted; SLICE_NONE: unknown */
    slice scopes_missing;          /* scopes requested but not granted; SLICE_NONE: none */
    bool is_refresh_token_missing; /* the token will expire and cannot be renewed; then the app
                                    * must be connected again */
    /* private */
    struct connect_service *service;
    struct oauth_finish_request in;
    struct catalog *catalog;
    const struct catalog_integration *integration;
    const struct catalog_auth *auth; /* the integration's auth of kind oauth2 */
    const struct json *asked;        /* stored by begin */
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
