/*
 * A credential as an operator provides it, and the connection that is made from it.
 */
#ifndef CLI_CREDENTIAL_H
#define CLI_CREDENTIAL_H

#include "call/credential.h"
#include "cli/session.h"

/* Reads a file, or stdin for "-", into out, which the caller wipes. The buffer's maximum is one
 * byte more than the limit of `what`, so that a text that is too long is detected. */
int credential_read(const char *path, const char *what, struct buf *out,
                    struct err *err) MUST_CHECK;

/* Checks the arguments of `connections add`, which dev uses for its demo connections, too, and
 * makes a request of them for change_save, without the owner. */
int credential_order_read(struct session *session, const struct call_order *order, slice label,
                          struct call_enrol_request *request) MUST_CHECK;

#endif
