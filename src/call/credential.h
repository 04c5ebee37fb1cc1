/*
 * A credential that its owner has already, as JSON whose members depend on the integration's kind
 * of auth (contrib/integrations/README.md "auth"), and what to connect with it.
 */
#ifndef CALL_CREDENTIAL_H
#define CALL_CREDENTIAL_H

#include "call/enrol.h"

enum { CALL_CREDENTIAL_BYTES_MAX = 48 * 1024 };

/* Checks text against kind. *expires_at gets the expiry of an access token, 0 if unknown. Returns
 * ERR_INVALID or ERR_SYNTAX if something is missing or wrong; the message names it, but no value.
 * Returns ERR_REFUSED for AUTH_NONE. The arena holds a copy of the credential afterwards, so use a
 * short-lived arena. */
int call_credential_check(enum catalog_auth_kind kind, slice text, struct arena *arena,
                          int64_t *expires_at, struct err *err) MUST_CHECK;

/* Checks params (JSON text; SLICE_NONE: none) against the integration's schema. */
int call_params_check(const struct catalog_integration *integration, slice text,
                      struct arena *arena, struct err *err) MUST_CHECK;

/* What a caller says about its credential, the same in all faces. */
struct call_order {
    const struct catalog_integration *integration;
    slice auth;            /* the way to connect: "oauth2"; SLICE_NONE: the app's first */
    const char *auth_name; /* its name in the face: "--auth"; NULL: "auth" */
    slice credential;      /* JSON text */
    slice params;          /* JSON text; SLICE_NONE: none */
    slice scopes; /* separated by spaces; SLICE_NONE: those in the credential, else unknown */
};
/* Checks what the order says besides the credential and params. */
int call_order_check(const struct call_order *order, struct arena *arena,
                     struct err *err) MUST_CHECK;
/* Checks the order and makes a request of it, except owner, caller and label, which the caller of
 * this function sets; request->save.connection_id is set before. Scopes are in the arena; other
 * texts are borrowed. The message of an error names what is wrong, but no value. */
int call_order_read(const struct call_order *order, struct arena *arena,
                    struct call_enrol_request *request, struct err *err) MUST_CHECK;

#endif
