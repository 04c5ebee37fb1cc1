/*
 * Absolute http and https URLs as the client accepts them (RFC 3986, strict: a request is sent
 * exactly as it is written, so nothing is repaired). Slices point into the text.
 */
#ifndef HTTP_URL_H
#define HTTP_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

enum { URL_BYTES_MAX = 16 * 1024, URL_HOST_MAX = 253, URL_ORIGIN_MAX = 8 + 255 + 6 };

struct url {
    bool is_https;
    bool is_ip_literal; /* IPv4 in four decimals, or an IPv6 literal */
    slice host;         /* as written, IPv6 without brackets */
    uint16_t port;      /* the scheme's default if none is written */
    slice authority;    /* "host[:port]" as written: the value of Host */
    slice target;       /* path and query as written; "" if the URL ends after the authority */
};

/* Returns ERR_SYNTAX with a sentence for another scheme, user information (credentials belong in
 * headers), a fragment, an empty or malformed host or port, a host of digits and dots that is not a
 * plain IPv4 address (2130706433, 0x7f.1), or any byte that is not visible ASCII. Returns ERR_LIMIT
 * for a text over URL_BYTES_MAX. err may be NULL. */
int url_parse(slice text, struct url *url, struct err *err) MUST_CHECK;
/* Writes "https://host:port", lower case, port always present, IPv6 in brackets, NUL-terminated. */
slice url_origin(const struct url *url, char out[URL_ORIGIN_MAX + 1]);

#endif
