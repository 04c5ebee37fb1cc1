/*
 * IP addresses as 4 or 16 bytes in network order.
 */
#ifndef BASE_IP_H
#define BASE_IP_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/slice.h"

/* Accepts "192.0.2.1" as four decimals, neither octal nor a short form, and "2001:db8::1" without
 * brackets and zone. Returns the number of bytes, or 0 if it is neither. */
size_t ip_parse(slice text, uint8_t out[16]);
/* An address, or a network given by its prefix. */
struct ip_network {
    uint8_t bytes[16];
    /* len: 4 or 16; bits: length of the prefix, which is 8 * len for an address */
    uint8_t len, bits;
};

/* Accepts "10.1.0.0/16", "fd00::/8", or an address. Otherwise, and if bits after the prefix are
 * set, returns ERR_SYNTAX with a message in err. */
int ip_network_parse(slice text, struct ip_network *out, struct err *err) MUST_CHECK;
/* Returns whether the network contains the address, which has len bytes. */
bool ip_network_holds(const struct ip_network *network, const uint8_t *bytes, size_t len);
/* Compares only the prefix; `network` has at least that many bits. */
bool ip_is_within(const uint8_t *bytes, const uint8_t *network, unsigned bits);

/* Sets *out to the address of len bytes; other members are 0. */
void ip_sockaddr(const uint8_t *bytes, size_t len, uint16_t port, struct sockaddr_storage *out);

#endif
