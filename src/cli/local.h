/*
 * Requests to a server on this machine, for commands that query a running server. They block.
 */
#ifndef CLI_LOCAL_H
#define CLI_LOCAL_H

#include "base/buf.h"
#include "base/err.h"

/* Returns the part of an address before the last colon; *port gets the part after it, empty if
 * there is no colon. */
slice local_split_port(slice address, slice *port);
/* Sends GET path to an address in the form of the setting `listen`. reply, which the caller limits,
 * gets the body of a 200. Returns ERR_REFUSED for another status, with its line and body in err;
 * ERR_INVALID if the address cannot be used; or ERR_IO or ERR_LIMIT. */
int local_get(slice address, const char *path, struct buf *reply, struct err *err) MUST_CHECK;

#endif
