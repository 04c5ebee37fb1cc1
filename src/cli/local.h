/*
 * Requests to a server on this machine, for commands that ask a running one. They block.
 */
#ifndef CLI_LOCAL_H
#define CLI_LOCAL_H

#include "base/buf.h"
#include "base/err.h"

/* What stands before the last colon of an address; behind it stands *port, empty where there is
 * none. */
slice local_split_port(slice address, slice *port);
/* GET of path at an address as the setting `listen` has it. reply: the body of a 200; the caller's
 * limit holds. ERR_REFUSED: another status, with its line and body; ERR_INVALID: no address to
 * ask; ERR_IO, ERR_LIMIT. */
int local_get(slice address, const char *path, struct buf *reply, struct err *err) MUST_CHECK;

#endif
