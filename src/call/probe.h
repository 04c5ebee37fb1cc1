/*
 * probe: finds out whether the app accepts a credential, and for which user. It sends the
 * manifest's test request (auth.test) and its identity request (identity), with a credential that
 * is not stored yet, or with a stored one. For an OAuth client's credential (client credentials), a
 * token is requested first. The verdict does not depend on the identity.
 *
 * struct call_probe is an op, embedded in a caller's op. Addresses, overrides and limits are those
 * of executions.
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
    CALL_PROBE_UNTESTED, /* the manifest does not have a test request */
    CALL_PROBE_REFUSED,  /* refused by the app, or cannot be sent */
    CALL_PROBE_OUTAGE,   /* not tested: the failure does not concern the credential */
};

/* Borrowed until the probe has ended. */
struct call_probe_request {
    struct uuid tenant; /* the account that the calls count for */
    slice integration_id;
    slice auth_kind;           /* kind of auth; SLICE_NONE: the app's first */
    slice credential;          /* JSON text, as connections store it */
    const struct json *params; /* NULL: none */
    slice id_token;            /* the ID token that came with a grant; SLICE_NONE: none */
    bool is_identity_only;     /* a new grant needs no test */
};

struct call_probe {
    struct op op;
    /* out, in the op's arena */
    enum call_probe_verdict verdict;
    slice message; /* sentences on why the credential does not work, without secrets */
    slice label;   /* the app's name for the account; SLICE_NONE: unknown */
    struct connection_identity identity;
    /* sentences on why the identity is unknown; SLICE_NONE if it is known */
    slice identity_message;
    bool is_identity_outage; /* the app may say it if it is asked again */
    /* private */
    struct http_client *http;
    struct catalog *catalog;
    const struct catalog_integration *integration;
    int find_status; /* result of the lookup of `integration` */
    const struct catalog_auth *auth;
    struct call_probe_request in;
    const struct json *credential;
    struct catalog_action action;
    struct call_scope scope;
    struct call_built built;
    struct http_call call;
    struct oauth_request token_request;
};

/* http and catalog outlive the probe (the catalog is reference-counted). */
void call_probe_start(struct http_client *http, struct catalog *catalog, struct call_probe *probe,
                      const struct call_probe_request *request, struct op *parent);

#endif
