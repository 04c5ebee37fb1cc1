/*
 * The token endpoint (RFC 6749 3.2): builds the request for a grant and parses its reply. No I/O
 * here.
 */
#ifndef CONNECT_OAUTH_TOKEN_H
#define CONNECT_OAUTH_TOKEN_H

#include "base/buf.h"
#include "base/secret_mask.h"
#include "catalog/catalog.h"
#include "http/client.h"

enum {
    OAUTH_TOKEN_BYTES_MAX = 16 * 1024,  /* per token */
    OAUTH_REPLY_BYTES_MAX = 256 * 1024, /* per reply of a token endpoint */
    OAUTH_REQUEST_BYTES_MAX = 128 * 1024,
    OAUTH_REQUEST_HEADERS_MAX = 3,
};

enum oauth_grant { OAUTH_GRANT_CODE, OAUTH_GRANT_REFRESH, OAUTH_GRANT_CLIENT };

/* All borrowed. */
struct oauth_ask {
    const struct catalog_auth *auth;
    enum oauth_grant grant;
    slice client_id, client_secret;     /* secret empty: a public client */
    slice code, redirect_uri, verifier; /* OAUTH_GRANT_CODE; verifier empty: no PKCE */
    slice refresh_token;                /* OAUTH_GRANT_REFRESH */
    slice token_url;                    /* empty: the manifest's URL */
};

/* The data that http_call borrows, and its secrets in each form in which the reply may contain
 * them. */
struct oauth_request {
    struct http_header headers[OAUTH_REQUEST_HEADERS_MAX];
    size_t header_count;
    struct buf body, authorization;
    slice body_part;
    struct buf secret_texts;
    struct secret_mask secrets; /* point into secret_texts and authorization */
};

/* Inserts the connection's params (an object or NULL) into a manifest's URL. Returns the text
 * itself if it has no placeholders, else a copy in the arena. SLICE_NONE if a param is missing or
 * contains more than a part of a host or path, or if out of memory. */
slice oauth_url_make(slice text, const struct json *params, struct arena *arena);

/* Fills request, and method, url, headers and body of call. Client authentication and form
 * follow the manifest (contrib/integrations/README.md "auth"). ERR_LIMIT, ERR_NOMEM.
 * oauth_request_deinit must be called in any case. */
int oauth_request_make(const struct oauth_ask *ask, struct oauth_request *request,
                       struct http_call *call) MUST_CHECK;
/* Wipes and frees the request. Does nothing if it is zeroed. */
void oauth_request_deinit(struct oauth_request *request);

enum oauth_verdict {
    OAUTH_GRANTED,
    OAUTH_GONE,    /* the grant has ended: invalid_grant, or as the manifest's `gone` says */
    OAUTH_REFUSED, /* an answer that will not change for the same request: a wrong client, for
                    * example */
    OAUTH_OUTAGE,  /* no answer, 5xx, 429, or not the reply of a token endpoint: the grant may still
                      be valid */
    OAUTH_TIMEOUT,
};

/* Slices are in the arena. */
struct oauth_reply {
    enum oauth_verdict verdict;
    slice access_token, refresh_token; /* refresh token SLICE_NONE: the previous one stays valid */
    slice id_token;                    /* OpenID Connect; SLICE_NONE: none */
    slice scopes;         /* granted, separated by single spaces; SLICE_NONE: not in the reply */
    int64_t expires_in_s; /* 0: not in the reply */
    slice error;          /* the server's error code; SLICE_NONE. Never with OAUTH_GONE */
    slice message;        /* part of a sentence, for a person; without secrets */
};

/* Parses the reply once call, made from that request, has ended: JSON and form replies, errors even
 * with status 200. Apart from the tokens themselves, no text of the result contains a token or a
 * secret of the request. */
void oauth_reply_read(const struct catalog_auth *auth, const struct oauth_request *request,
                      const struct http_call *call, struct arena *arena, struct oauth_reply *reply);
/* Returns scopes that a provider has separated by spaces or commas, separated by single spaces;
 * SLICE_NONE if there are none. */
slice oauth_scopes_normal(slice text, struct arena *arena);
/* Returns the scopes of wanted (array of strings or NULL) that are not in granted, separated by
 * single spaces; SLICE_NONE if none is missing. */
slice oauth_scopes_missing(const struct json *wanted, slice granted, struct arena *arena);

/* Writes the credential of a connection after a grant, as JSON text: the previous credential (or
 * NULL) with the new tokens. The caller wipes *out. */
int oauth_credential_write(const struct json *former, const struct oauth_reply *reply,
                           struct buf *out) MUST_CHECK;

#endif
