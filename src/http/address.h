/*
 * Which addresses the outbound client may connect to. Tenants name hosts, so without this check
 * they could reach services inside the operator's network (server-side request forgery, SSRF). The
 * check is on the socket address itself, after the name was resolved, so that neither a spelling of
 * a host nor a name that resolves to something else the second time (DNS rebinding) gets around it.
 * Everything in the IANA special-purpose registries (IPv4 and IPv6) is refused, even if an IPv6
 * address carries an IPv4 one (mapped, compatible, 6to4, NAT64, Teredo, ISATAP), unless the
 * operator allows the host or the network.
 */
#ifndef HTTP_ADDRESS_H
#define HTTP_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/slice.h"

enum { ADDRESS_TEXT_MAX = 64, ADDRESS_RULES_MAX = 256 };

struct address_policy;

/* Returns a policy that allows no special addresses; NULL if out of memory. */
struct address_policy *address_policy_new(void) MUST_CHECK;
void address_policy_free(struct address_policy *policy);
/* Adds one entry of the operator's list: "host", "host:port" (a name or literal as written in the
 * URL; any address that it resolves to is then allowed), "::1", "[::1]:443", or a network
 * "10.1.0.0/16", "fd00::/8" (whatever name resolves to it). The entry is copied. Returns ERR_SYNTAX
 * or ERR_LIMIT with a sentence. */
int address_policy_allow(struct address_policy *policy, slice entry, struct err *err) MUST_CHECK;
/* Adds an entry to a list of proxies: an address, a network, or "unix". A name is refused: a
 * proxy is identified by its address. */
int address_policy_allow_proxy(struct address_policy *policy, slice entry,
                               struct err *err) MUST_CHECK;
/* Whether an entry of the operator's list names this host (and port). */
bool address_policy_is_host_allowed(const struct address_policy *policy, slice host, uint16_t port);
/* Returns OK, or ERR_REFUSED with a sentence for the tenant, which does not reveal the address of
 * an internal name. host and port are those of the URL. policy may be NULL: no special address is
 * allowed. */
int address_policy_check(const struct address_policy *policy, slice host, uint16_t port,
                         const struct sockaddr *address, struct err *err) MUST_CHECK;
/* Refuses a name that has no address, with the same text as address_policy_check. */
int address_policy_refuse(slice host, struct err *err);
/* Returns the registry's name for the address's network, such as "loopback" or "private network";
 * NULL for a global unicast address. */
const char *address_special(const struct sockaddr *address);
/* "192.0.2.1:443", "[2001:db8::1]:443", "unix". */
slice address_format(const struct sockaddr *address, char out[ADDRESS_TEXT_MAX]);
/* "192.0.2.1", "2001:db8::1", "unix". */
slice address_format_host(const struct sockaddr *address, char out[ADDRESS_TEXT_MAX]);
/* Formats the address without port and scope; an IPv4-mapped address becomes its IPv4 address. */
void address_plain(const struct sockaddr_storage *address, struct sockaddr_storage *out);

/* For a list of proxies: whether one of its networks contains this address, or one of its addresses
 * is equal to this one. The only allowed name is "unix", which matches AF_UNIX. */
bool address_policy_holds(const struct address_policy *policy, const struct sockaddr *address);
/* Parses an address as a proxy writes it: "192.0.2.1", "192.0.2.1:443", "2001:db8::1",
 * "[2001:db8::1]:443"; an IPv4-mapped address (::ffff:192.0.2.1) becomes its IPv4 address. The port
 * is dropped. Returns false for any other text ("unknown", a name). */
bool address_parse(slice text, struct sockaddr_storage *out) MUST_CHECK;

#endif
