/*
 * probe: does the app take this credential, and as whom? The manifest's test request (auth.test)
 * and its identity request (identity), sent with a credential that is not stored yet, or with one
 * that is. Where the credential is an OAuth client's (client credentials), a token is
 * asked for first. The verdict does not depend on the identity.
 *
 * An op embedded in a caller's op; addresses, overrides and limits are those of executions.
 */
#ifndef CALL_PROBE_H
#define CALL_PROBE_H

#include "connect/oauth_token.h"
#include "call/build.h"
#include "call/outcome.h"
#include "store/connection.h"

enum { CALL_PROBE_LABEL_MAX = 200 }; /* bytes */

enum call_probe_verdict {
    CALL_PROBE_WORKS,
    CALL_PROBE_UNTESTED, /* the manifest has no test request */
    CALL_PROBE_REFUSED,  /* by the app, or not fit to be sent */
    CALL_PROBE_OUTAGE,   /* the app cannot be asked now */
};

/* Borrowed until the probe has ended. */
struct call_probe_request {
    struct uuid account_id;
    slice integration_id;
    slice auth_kind;           /* the way to connect; SLICE_NONE: the app's first */
    slice credential;          /* JSON text, as connections store it */
    const struct json *params; /* NULL: none */
    slice id_token;            /* that came with the grant; SLICE_NONE: none did */
    bool is_identity_only;     /* a grant that is new needs no test */
};

struct call_probe {
    struct op op;
    /* out, in the op's arena */
    enum call_probe_verdict verdict;
    slice message; /* sentences unless it works; shows no secret */
    slice label;   /* of the account there, as the app names it; SLICE_NONE: not known */
    struct connection_identity identity;
    slice identity_message; /* sentences: why it is not known; SLICE_NONE when it is */
    /* private */
    struct http_client *http;
    struct catalog *catalog;
    const struct catalog_integration *integration;
    int find_status; /* of its look-up */
    const struct catalog_auth *auth;
    struct call_probe_request in;
    const struct json *credential;
    struct catalog_action action;
    struct call_scope scope;
    struct call_built built;
    struct http_call call;
    struct oauth_request token_request;
};

/* http and catalog outlive it (the catalog is counted). */
void call_probe_start(struct http_client *http, struct catalog *catalog, struct call_probe *probe,
                      const struct call_probe_request *request, struct op *parent);

#endif
