/*
 * Ready files: JSON that is written once a server answers requests; complete at once, by rename.
 */
#ifndef SERVER_READY_FILE_H
#define SERVER_READY_FILE_H

#include <stdint.h>

#include "base/err.h"
#include "json/json.h"

/* Used for other small files, too, that must never be read half written. Mode 0600. */
int ready_file_write(const char *path, slice text, struct err *err) MUST_CHECK;
/* Harmless when it is not there. */
void ready_file_remove(const char *path);
/* "http://HOST:PORT" of a listener's address (0.0.0.0 and :: become loopback); a Unix socket as
 * "unix:/path"; the port is the one really bound. */
enum { READY_URL_MAX = 300 };
slice ready_base_url(slice address, uint16_t port, char text[READY_URL_MAX]);

#endif
