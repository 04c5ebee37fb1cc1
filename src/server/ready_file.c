/*
 * Ready files; see ready_file.h.
 */
#include "server/ready_file.h"

#include <stdio.h>

slice ready_base_url(slice address, uint16_t port, char text[READY_URL_MAX])
{
    if (slice_starts_with(address, SLICE("unix:")) || port == 0)
        return address;
    size_t len = address.len;
    /* The port is after the last colon; an IPv6 host has other colons, in brackets. */
    while (len > 0 && address.ptr[len - 1] != ':')
        len--;
    slice host = slice_first(address, len > 0 ? len - 1 : 0);
    /* A client cannot connect to a wildcard address. */
    if (slice_eq_cstr(host, "0.0.0.0") || host.len == 0 || slice_eq_cstr(host, "*"))
        host = SLICE("127.0.0.1");
    if (slice_eq_cstr(host, "[::]"))
        host = SLICE("[::1]");
    (void)snprintf(text, READY_URL_MAX, "http://%.*s:%u", SLICE_ARG(host), (unsigned)port);
    return slice_cstr(text);
}
