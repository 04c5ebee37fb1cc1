/*
 * The content of a ready file, which is written as a whole (base/file.h) once a server answers
 * requests.
 */
#ifndef SERVER_READY_FILE_H
#define SERVER_READY_FILE_H

#include <stdint.h>

#include "base/err.h"
#include "json/json.h"

/* Returns "http://HOST:PORT" for a listener's address (0.0.0.0 and :: become loopback),
 * "unix:/path" for a Unix socket. The port is the bound port, also if the setting is 0. */
enum { READY_URL_MAX = 300 };
slice ready_base_url(slice address, uint16_t port, char text[READY_URL_MAX]);

#endif
