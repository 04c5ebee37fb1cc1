/*
 * The blocking lookup: runs on a pool thread and accesses only its arguments.
 */
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

#include "loop/dns.h"

static const struct addrinfo *next_of(const struct addrinfo *from, int family)
{
    while (from && from->ai_family != family)
        from = from->ai_next;
    return from;
}

static void add_address(struct dns_addresses *out, const struct addrinfo *info)
{
    ASSERT(out->count < DNS_ADDRESSES_MAX);
    ASSERT(info->ai_addrlen <= sizeof(out->list[0]));
    memset(&out->list[out->count], 0, sizeof(out->list[0]));
    memcpy(&out->list[out->count++], info->ai_addr, info->ai_addrlen);
}

/* Alternates the families, so that a client whose IPv6 is broken does not try eight IPv6 addresses
 * first. */
static void interleave(const struct addrinfo *found, struct dns_addresses *out)
{
    const struct addrinfo *next[2];
    int first = found && found->ai_family == AF_INET ? AF_INET : AF_INET6;
    next[0] = next_of(found, first);
    next[1] = next_of(found, first == AF_INET ? AF_INET6 : AF_INET);
    for (size_t turn = 0; (next[0] || next[1]) && out->count < DNS_ADDRESSES_MAX; turn++) {
        const struct addrinfo *info = next[turn % 2];
        if (!info)
            continue;
        add_address(out, info);
        next[turn % 2] = next_of(info->ai_next, info->ai_family);
    }
}

int dns_lookup_system(const char *name, struct dns_addresses *out, const char **cause)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_ADDRCONFIG,
    };
    struct addrinfo *found = NULL;
    out->count = 0;
    int rc = getaddrinfo(name, NULL, &hints, &found);
    if (rc != 0) {
        *cause = gai_strerror(rc);
        if (rc == EAI_NONAME || rc == EAI_NODATA || rc == EAI_ADDRFAMILY)
            return ERR_NOTFOUND;
        return rc == EAI_MEMORY ? ERR_NOMEM : ERR_IO;
    }
    interleave(found, out);
    freeaddrinfo(found);
    *cause = "the name has no address";
    return out->count ? OK : ERR_NOTFOUND;
}
