/*
 * ip: see ip.h. inet_pton, unlike inet_aton, accepts no form that other parsers read differently.
 */
#include "base/ip.h"

#include <arpa/inet.h>
#include <netinet/in.h>

size_t ip_parse(slice text, uint8_t out[16])
{
    char copy[INET6_ADDRSTRLEN];
    /* inet_pton takes a C string, so it would not see the text after a NUL. */
    if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.ptr, '\0', text.len))
        return 0;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    if (inet_pton(AF_INET, copy, out) == 1)
        return 4;
    return inet_pton(AF_INET6, copy, out) == 1 ? 16 : 0;
}

bool ip_is_within(const uint8_t *bytes, const uint8_t *network, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(bytes, network, whole) != 0)
        return false;
    /* This is the mask of the significant bits of the last byte. If rest is 0 that byte may be past
     * the end of the address, so it is not read. */
    uint8_t mask = (uint8_t)(0xff00u >> rest);
    return rest == 0 || (bytes[whole] & mask) == (network[whole] & mask);
}

bool ip_network_holds(const struct ip_network *network, const uint8_t *bytes, size_t len)
{
    return len > 0 && network->len == len && ip_is_within(bytes, network->bytes, network->bits);
}

int ip_network_parse(slice text, struct ip_network *out, struct err *err)
{
    slice rest = text;
    slice ip = slice_split(&rest, '/');
    uint64_t bits;
    *out = (struct ip_network){.len = 0};
    out->len = (uint8_t)ip_parse(ip, out->bytes);
    bits = out->len * 8u;
    if (out->len == 0 || (ip.len < text.len && !slice_to_u64(rest, bits, &bits)))
        return err_set(err, ERR_SYNTAX, "\"%.*s\" is not a network such as 10.1.0.0/16 or fd00::/8",
                       SLICE_ARG(slice_first(text, 80)));
    out->bits = (uint8_t)bits;
    uint8_t masked[16] = {0};
    memcpy(masked, out->bytes, out->bits / 8);
    if (out->bits % 8)
        masked[out->bits / 8] = (uint8_t)(out->bytes[out->bits / 8] & (0xff00u >> (out->bits % 8)));
    /* Such a network is refused, not truncated: 10.1.2.3/8 is more likely a typing error than meant
     * to be 10.0.0.0/8. */
    if (memcmp(masked, out->bytes, out->len) != 0)
        return err_set(err, ERR_SYNTAX, "the network \"%.*s\" has bits set after its prefix",
                       SLICE_ARG(slice_first(text, 80)));
    return OK;
}

void ip_sockaddr(const uint8_t *bytes, size_t len, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;
    ASSERT(len == 4 || len == 16);
    *out = (struct sockaddr_storage){.ss_family = len == 4 ? AF_INET : AF_INET6};
    /* The port is at the same offset in both families. */
    v4->sin_port = htons(port);
    memcpy(len == 4 ? (void *)&v4->sin_addr : (void *)&v6->sin6_addr, bytes, len);
}
