/*
 * IP addresses as bytes in network order: 4 of them, or 16.
 */
#ifndef BASE_IP_H
#define BASE_IP_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/slice.h"

/* "192.0.2.1" in four decimals, no octal and no short form; "2001:db8::1" without brackets and
 * zone. Returns the number of bytes; 0: it is neither. */
size_t ip_parse(slice text, uint8_t out[16]);
/* An address, or a network by its prefix. */
struct ip_network {
    uint8_t bytes[16];
    uint8_t len, bits; /* 4 or 16 bytes; all of their bits for an address */
};

/* "10.1.0.0/16", "fd00::/8", or an address. ERR_SYNTAX with a sentence, also if bits after the
 * prefix are set. */
int ip_network_parse(slice text, struct ip_network *out, struct err *err) MUST_CHECK;
/* For an address of that many bytes. */
bool ip_network_holds(const struct ip_network *network, const uint8_t *bytes, size_t len);
/* Compares the prefix alone; `network` has at least that many bits. */
bool ip_is_within(const uint8_t *bytes, const uint8_t *network, unsigned bits);

/* From that many bytes; other members are 0. */
void ip_sockaddr(const uint8_t *bytes, size_t len, uint16_t port, struct sockaddr_storage *out);

#endif
