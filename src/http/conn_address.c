/*
 * conn_address: counts the connections of each client address, so that one address cannot take them
 * all. An IPv6 client is counted by its /64, the usual network of one subscriber, which has 2^64
 * single addresses. Unix sockets and the addresses of trusted proxies, which serve many clients,
 * are not counted.
 */
#include <string.h>

#include "base/share.h"
#include "http/address.h"
#include "http/server_internal.h"

enum { PREFIX_LEN = 8, KEY_LEN = 1 + PREFIX_LEN };

struct http_conn_address {
    struct keyed keyed; /* in server->addresses */
    size_t count;
};

void http_conn_addresses_init(struct http_server *server)
{
    struct http_server_config *config = &server->config;
    if (config->address_connections_max == 0)
        config->address_connections_max = share_default(config->connections_max);
    keyed_init(&server->addresses, sizeof(struct http_conn_address));
}

/* Returns false if the address is not counted. */
static bool make_address_key(const struct http_conn *conn, char key[KEY_LEN])
{
    const struct address_policy *uncounted = conn->server->config.uncounted;
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC}, plain;
    memcpy(&peer, &conn->peer, sizeof(conn->peer));
    address_plain(&peer, &plain);
    memset(key, 0, KEY_LEN);
    if (plain.ss_family == AF_INET)
        memcpy(key + 1, &((struct sockaddr_in *)(void *)&plain)->sin_addr, 4);
    else if (plain.ss_family == AF_INET6)
        memcpy(key + 1, &((struct sockaddr_in6 *)(void *)&plain)->sin6_addr, PREFIX_LEN);
    else
        return false;
    /* The family comes first, so that equal bytes of IPv4 and IPv6 have different keys. */
    key[0] = plain.ss_family == AF_INET ? 4 : 6;
    return !uncounted || !address_policy_holds(uncounted, (const struct sockaddr *)&plain);
}

size_t http_conn_address_take(struct http_conn *conn)
{
    char key[KEY_LEN];
    if (!make_address_key(conn, key))
        return 0;
    struct http_conn_address *address = keyed_get(&conn->server->addresses, slice_of(key, KEY_LEN));
    /* Without memory the connection is served and not counted: an overloaded server should not
     * refuse everything. */
    if (!address)
        return 0;
    conn->address = address;
    return ++address->count;
}

void http_conn_address_release(struct http_conn *conn)
{
    struct http_conn_address *address = conn->address;
    conn->address = NULL;
    if (address && --address->count == 0)
        keyed_drop(&conn->server->addresses, &address->keyed);
}
