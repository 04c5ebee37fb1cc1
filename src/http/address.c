/*
 * address: see address.h. The tables follow the IANA IPv4 and IPv6 Special-Purpose Address
 * Registries (RFC 6890 and its updates up to 2024), plus multicast, the reserved class E and the
 * forms of IPv6 that carry an IPv4 address. Entries that the registry calls globally reachable
 * (AS112, AMT) are refused as well: no provider uses them. Nothing in IPv6 outside 2000::/3 is
 * global unicast, so every address there is refused even without an entry in the table.
 */
#include "http/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/ip.h"
#include "base/mem.h"
#include "http/url.h"

/* Unset bytes are 0, as the table below relies on: {10} is 10.0.0.0. */
struct network {
    uint8_t bytes[16];
    uint8_t bits;
    const char *what;
};

static const struct network special4[] = {
    {{0}, 8, "\"this network\""},
    {{10}, 8, "a private network"},
    {{100, 64}, 10, "a carrier's shared address space"},
    {{127}, 8, "loopback"},
    {{169, 254}, 16, "link-local (where cloud metadata lives)"},
    {{172, 16}, 12, "a private network"},
    {{192, 0, 0}, 24, "IETF protocol assignments"},
    {{192, 0, 2}, 24, "documentation"},
    {{192, 31, 196}, 24, "AS112"},
    {{192, 52, 193}, 24, "AMT"},
    {{192, 88, 99}, 24, "a 6to4 relay"},
    {{192, 168}, 16, "a private network"},
    {{192, 175, 48}, 24, "AS112"},
    {{198, 18}, 15, "benchmarking"},
    {{198, 51, 100}, 24, "documentation"},
    {{203, 0, 113}, 24, "documentation"},
    {{224}, 4, "multicast"},
    /* This network comes before 240/4, which contains it: the first match gives the name. */
    {{255, 255, 255, 255}, 32, "broadcast"},
    {{240}, 4, "reserved"},
};

/* The first match gives the name, so narrower networks come first. */
static const struct network special6[] = {
    {{0}, 128, "the unspecified address"},
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128, "loopback"},
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, "IPv4-mapped"},
    {{0}, 96, "IPv4-compatible"},
    {{0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, "IPv4-translated"},
    {{0x00, 0x64, 0xff, 0x9b}, 96, "NAT64"},
    {{0x00, 0x64, 0xff, 0x9b, 0, 1}, 48, "local NAT64"},
    {{0x01}, 64, "discard-only"},
    {{0x01, 0, 0, 0, 0, 0, 0, 1}, 64, "a dummy prefix"},
    {{0x20, 0x01, 0, 0}, 32, "Teredo"},
    {{0x20, 0x01, 0, 2, 0, 0}, 48, "benchmarking"},
    {{0x20, 0x01, 0, 0x10}, 28, "ORCHID"},
    {{0x20, 0x01, 0, 0x20}, 28, "ORCHIDv2"},
    {{0x20, 0x01, 0, 0}, 23, "IETF protocol assignments"},
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "documentation"},
    {{0x20, 0x02}, 16, "6to4"},
    {{0x26, 0x20, 0, 0x4f, 0x80, 0}, 48, "AS112"},
    {{0x3f, 0xff}, 20, "documentation"},
    {{0x5f, 0}, 16, "segment routing"},
    {{0xfc}, 7, "a private network (unique local)"},
    {{0xfe, 0x80}, 10, "link-local"},
    {{0xfe, 0xc0}, 10, "site-local"},
    {{0xff}, 8, "multicast"},
};

static const char *network_find(const struct network *networks, size_t count,
                                const uint8_t *address)
{
    for (size_t i = 0; i < count; i++)
        if (ip_is_within(address, networks[i].bytes, networks[i].bits))
            return networks[i].what;
    return NULL;
}

/* RFC 5214: ...:0000:5efe:a.b.c.d or ...:0200:5efe:a.b.c.d tunnels to that IPv4 address. */
static bool is_isatap(const uint8_t *a)
{
    /* The bit 0x02 says whether the IPv4 address is globally unique; both forms tunnel. */
    return (a[8] & 0xfd) == 0 && a[9] == 0 && a[10] == 0x5e && a[11] == 0xfe;
}

/* Sets *bytes to the address in network order and returns its length; 0 for another family. */
static size_t address_bytes(const struct sockaddr *address, const uint8_t **bytes)
{
    if (address->sa_family == AF_INET) {
        *bytes = (const uint8_t *)&((const struct sockaddr_in *)(const void *)address)->sin_addr;
        return 4;
    }
    if (address->sa_family == AF_INET6) {
        *bytes = (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        return 16;
    }
    return 0;
}

const char *address_special(const struct sockaddr *address)
{
    const uint8_t *bytes;
    size_t len = address_bytes(address, &bytes);
    if (len == 4)
        /* IPv4 has no general rule like that for IPv6 below: an address that is not in the table
         * is reachable. */
        return network_find(special4, ARRAY_LEN(special4), bytes);
    if (len != 16)
        return "not an internet address";
    const char *what = network_find(special6, ARRAY_LEN(special6), bytes);
    if (what)
        return what;
    if ((bytes[0] & 0xe0) != 0x20)
        return "not global unicast";
    /* Checked last, because an ISATAP address may have any prefix, even a global one. */
    return is_isatap(bytes) ? "ISATAP" : NULL;
}

/* The address is formatted without inet_ntop, which uses sprintf: this runs for every request. */
static slice format_v4(const uint8_t *bytes, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < 4; i++) {
        char digits[SLICE_U64_MAX];
        slice number = slice_of_u64(bytes[i], digits);
        if (i > 0)
            out[len++] = '.';
        memcpy(out + len, number.ptr, number.len);
        len += number.len;
    }
    out[len] = '\0';
    return slice_of(out, len);
}

slice address_format_host(const struct sockaddr *address, char out[ADDRESS_TEXT_MAX])
{
    const uint8_t *bytes;
    size_t len = address_bytes(address, &bytes);
    if (len == 4)
        return format_v4(bytes, out);
    const char *text = len == 16 ? inet_ntop(AF_INET6, bytes, out, ADDRESS_TEXT_MAX)
                                 : memcpy(out, "unix", 5);
    ASSERT(text);
    return slice_cstr(out);
}

slice address_format(const struct sockaddr *address, char out[ADDRESS_TEXT_MAX])
{
    char host[ADDRESS_TEXT_MAX];
    const uint8_t *bytes;
    size_t len = address_bytes(address, &bytes);
    if (len == 0)
        return address_format_host(address, out);
    address_format_host(address, host);
    /* The casts go through void: sockaddr_storage is aligned for both types, but the compiler
     * does not know that. */
    uint16_t port = len == 4 ? ((const struct sockaddr_in *)(const void *)address)->sin_port
                             : ((const struct sockaddr_in6 *)(const void *)address)->sin6_port;
    int n = snprintf(out, ADDRESS_TEXT_MAX, len == 4 ? "%s:%u" : "[%s]:%u", host, ntohs(port));
    ASSERT(n > 0 && n < ADDRESS_TEXT_MAX);
    return slice_of(out, (size_t)n);
}

/* ---- what the operator allows ---- */

struct rule {
    bool is_network;
    uint16_t port; /* hosts only; 0: any */
    /* the network, or the address of a literal host; len is 0 for a name */
    struct ip_network ip;
    char host[URL_HOST_MAX + 1]; /* names only */
};

struct address_policy {
    size_t count, cap;
    struct rule *rules;
};

struct address_policy *address_policy_new(void)
{
    return mem_zalloc(sizeof(struct address_policy));
}

void address_policy_free(struct address_policy *policy)
{
    if (!policy)
        return;
    mem_free(policy->rules);
    mem_free(policy);
}

/* Writes the host in lower case, without a trailing dot, so that equal hosts compare equal. */
static size_t host_normalize(slice host, char out[URL_HOST_MAX + 1])
{
    if (host.len && host.ptr[host.len - 1] == '.')
        host.len--;
    if (host.len > URL_HOST_MAX)
        return 0;
    for (size_t i = 0; i < host.len; i++) {
        char c = host.ptr[i];
        out[i] = ascii_lower(c);
    }
    out[host.len] = '\0';
    return host.len;
}

static int parse_host(slice entry, struct rule *rule, struct err *err)
{
    char text[16 + URL_HOST_MAX + 16];
    struct url url;
    if (ip_network_parse(entry, &rule->ip, NULL) == OK) /* "::1" needs no brackets here */
        return OK;
    /* The URL parser handles hosts and ports; a path after the entry is refused below. */
    int n = snprintf(text, sizeof(text), "http://%.*s", SLICE_ARG(entry));
    if (n < 0 || (size_t)n >= sizeof(text) || memchr(entry.ptr, '\0', entry.len) ||
        url_parse(slice_of(text, (size_t)n), &url, NULL) != OK || url.target.len)
        return err_set(err, ERR_SYNTAX,
                       "\"%.*s\" is not a host, host:port or network to allow connections to",
                       SLICE_ARG(slice_first(entry, 80)));
    /* If the authority ends with the host, there is no port and the rule is for any port. A bracket
     * after the host closes an IPv6 address. */
    if (url.authority.ptr + url.authority.len != url.host.ptr + url.host.len &&
        url.authority.ptr[url.authority.len - 1] != ']')
        rule->port = url.port;
    if (ip_network_parse(url.host, &rule->ip, NULL) == OK)
        return OK;
    host_normalize(url.host, rule->host);
    return OK;
}

int address_policy_allow_proxy(struct address_policy *policy, slice entry, struct err *err)
{
    uint8_t bytes[16];
    slice text = slice_trim(entry);
    bool is_network = slice_find_char(text, '/') >= 0;
    if (!is_network && !slice_eq_cstr(text, "unix") && ip_parse(text, bytes) == 0)
        return err_set(err, ERR_SYNTAX,
                       "\"%.*s\" is not an address such as 10.1.2.3 or ::1, a network such as "
                       "10.1.0.0/16, or \"unix\"",
                       SLICE_ARG(slice_first(text, 80)));
    return address_policy_allow(policy, text, err);
}

int address_policy_allow(struct address_policy *policy, slice entry, struct err *err)
{
    struct rule rule = {0};
    entry = slice_trim(entry);
    rule.is_network = slice_find_char(entry, '/') >= 0;
    int code = rule.is_network ? ip_network_parse(entry, &rule.ip, err)
                               : parse_host(entry, &rule, err);
    if (code != OK)
        return code;
    if (policy->count == ADDRESS_RULES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d allowed hosts and networks",
                       ADDRESS_RULES_MAX);
    if (policy->count == policy->cap) {
        size_t cap = policy->cap ? policy->cap * 2 : 4;
        struct rule *rules = mem_realloc(policy->rules, cap * sizeof(*rules));
        if (!rules)
            return err_set(err, ERR_NOMEM, "out of memory for the allowed hosts");
        policy->rules = rules;
        policy->cap = cap;
    }
    policy->rules[policy->count++] = rule;
    return OK;
}

bool address_policy_is_host_allowed(const struct address_policy *policy, slice host, uint16_t port)
{
    char name[URL_HOST_MAX + 1];
    uint8_t ip[16];
    if (!policy || policy->count == 0 || host_normalize(host, name) == 0)
        return false;
    size_t ip_len = ip_parse(host, ip);
    for (size_t i = 0; i < policy->count; i++) {
        const struct rule *rule = &policy->rules[i];
        /* A literal in the URL matches only literal rules, and a name only rules with a name:
         * len is 0 for a name. */
        if (rule->is_network || (rule->port && rule->port != port) || rule->ip.len != ip_len)
            continue;
        if (ip_len ? ip_network_holds(&rule->ip, ip, ip_len) : strcmp(rule->host, name) == 0)
            return true;
    }
    return false;
}

static bool is_network_allowed(const struct address_policy *policy, const struct sockaddr *address)
{
    const uint8_t *bytes = NULL;
    size_t len = address_bytes(address, &bytes);
    for (size_t i = 0; len && policy && i < policy->count; i++) {
        const struct rule *rule = &policy->rules[i];
        if (rule->is_network && ip_network_holds(&rule->ip, bytes, len))
            return true;
    }
    return false;
}

int address_policy_check(const struct address_policy *policy, slice host, uint16_t port,
                         const struct sockaddr *address, struct err *err)
{
    /* The cheap test comes first, since most addresses are global. The host's rule comes last,
     * since a rule for a name allows any address that it resolves to. */
    if (!address_special(address) || is_network_allowed(policy, address) ||
        address_policy_is_host_allowed(policy, host, port))
        return OK;
    return address_policy_refuse(host, err);
}

int address_policy_refuse(slice host, struct err *err)
{
    return err_set(err, ERR_REFUSED,
                   "connections to %.*s are not allowed, because it has no public address; an "
                   "operator can allow the host or its network",
                   SLICE_ARG(slice_first(host, URL_HOST_MAX)));
}

/* ---- lists of proxies ---- */

/* Like address_bytes, but gives the 4 bytes of an IPv4-mapped address (::ffff:0:0/96, RFC 4291
 * 2.5.5.2): a dual-stack socket reports an IPv4 peer in this form, and the operator writes it as
 * IPv4. */
static size_t plain_bytes(const struct sockaddr *address, const uint8_t **bytes)
{
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    size_t len = address_bytes(address, bytes);
    if (len != 16 || memcmp(*bytes, mapped, sizeof(mapped)) != 0)
        return len;
    *bytes += sizeof(mapped);
    return 4;
}

bool address_policy_holds(const struct address_policy *policy, const struct sockaddr *address)
{
    const uint8_t *bytes = NULL;
    size_t len = plain_bytes(address, &bytes);
    for (size_t i = 0; policy && i < policy->count; i++) {
        const struct rule *rule = &policy->rules[i];
        if (len == 0 && rule->ip.len == 0 && strcmp(rule->host, "unix") == 0)
            return true;
        if (ip_network_holds(&rule->ip, bytes, len))
            return true;
    }
    return false;
}

void address_plain(const struct sockaddr_storage *address, struct sockaddr_storage *out)
{
    const uint8_t *bytes;
    size_t len = plain_bytes((const struct sockaddr *)address, &bytes);
    *out = (struct sockaddr_storage){.ss_family = address->ss_family};
    if (len > 0)
        ip_sockaddr(bytes, len, 0, out);
}

/* Returns the text without its port. */
static slice without_port(slice text)
{
    ptrdiff_t end = slice_find_char(text, ']'), colon = slice_find_char(text, ':');
    if (text.len > 0 && text.ptr[0] == '[')
        return end > 0 ? slice_of(text.ptr + 1, (size_t)end - 1) : SLICE_NONE;
    /* Two colons and no bracket: an IPv6 address without a port. */
    bool has_one = colon >= 0 && slice_find_char(slice_from(text, (size_t)colon + 1), ':') < 0;
    return has_one ? slice_first(text, (size_t)colon) : text;
}

bool address_parse(slice text, struct sockaddr_storage *out)
{
    uint8_t ip[16];
    size_t len = ip_parse(without_port(slice_trim(text)), ip);
    struct sockaddr_storage peer;
    if (len == 0)
        return false;
    ip_sockaddr(ip, len, 0, &peer);
    address_plain(&peer, out);
    return true;
}
