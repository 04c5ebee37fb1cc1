/*
 * Requests to a server on this machine, for commands that query a running server. They block.
 */
#ifndef CLI_LOCAL_H
#define CLI_LOCAL_H

#include "base/buf.h"
#include "base/err.h"

/* The part before the last colon of an address; *port gets the part after it, empty if there is
 * none. */
slice local_split_port(slice address, slice *port);
/* GET of path at an address in the form of the setting `listen`. reply: the body of a 200; the
 * caller's limit applies. ERR_REFUSED: another status, with its line and body; ERR_INVALID: not a
 * usable address; ERR_IO, ERR_LIMIT. */
int local_get(slice address, const char *path, struct buf *reply, struct err *err) MUST_CHECK;

#endif
