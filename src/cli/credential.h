/*
 * A credential as an operator provides it: JSON whose members depend on the integration's kind of
 * auth (contrib/integrations/README.md "auth"), and the connection that is made from it.
 */
#ifndef CLI_CREDENTIAL_H
#define CLI_CREDENTIAL_H

#include "cli/session.h"
#include "store/connection.h"

enum { CREDENTIAL_FILE_BYTES_MAX = 48 * 1024 };

/* Checks text against kind. *expires_at gets the expiry of an access token, 0 if unknown. Returns
 * ERR_INVALID or ERR_SYNTAX if something is missing or wrong; the message names it, but no value.
 * Returns ERR_REFUSED for AUTH_NONE. The arena holds a copy of the credential afterwards, so use a
 * short-lived arena. */
int credential_check(enum catalog_auth_kind kind, slice text, struct arena *arena,
                     int64_t *expires_at, struct err *err) MUST_CHECK;
/* Reads a file, or stdin for "-", into out, which the caller wipes. The buffer's maximum is one
 * byte more than the limit of `what`, so that a text that is too long is detected. */
int credential_read(const char *path, const char *what, struct buf *out,
                    struct err *err) MUST_CHECK;

/* Checks params (JSON text; SLICE_NONE: none) against the integration's schema. */
int credential_params_check(struct session *session, const struct catalog_integration *integration,
                            slice text) MUST_CHECK;

/* The arguments of `connections add`; dev uses it for its demo connections, too. */
struct credential_order {
    struct uuid account_id;
    const struct catalog_integration *integration;
    const struct catalog_auth *auth; /* the way to connect */
    slice label;
    slice credential; /* JSON text */
    slice params;     /* JSON text; SLICE_NONE: none */
    slice scopes;     /* space-separated; SLICE_NONE: unknown */
    bool is_default;
};
/* Checks all arguments, seals and stores the credential, and writes the audit event; *id gets
 * the connection's id. session: database and ring are open. */
int credential_connect(struct session *session, const struct credential_order *order,
                       int64_t *id) MUST_CHECK;

#endif
