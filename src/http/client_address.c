/*
 * client_address: the address of the client that sent a request, past the proxies of the operator.
 * Any client can send X-Forwarded-For, so only entries that a trusted proxy appended are used.
 */
#include "http/address.h"
#include "http/server.h"

/* Sets *client to the address that the last hop reported. Returns whether that is a trusted proxy,
 * too, so that the entry before it is used. */
static bool take_hop(const struct address_policy *proxies, slice hop,
                     struct sockaddr_storage *client)
{
    struct sockaddr_storage address;
    if (!address_parse(hop, &address))
        return false;
    *client = address;
    return address_policy_holds(proxies, (const struct sockaddr *)client);
}

/* Removes the last entry from a list and returns it. */
static slice take_last(slice *list)
{
    size_t at = list->len;
    while (at > 0 && list->ptr[at - 1] != ',')
        at--;
    slice last = slice_from(*list, at);
    *list = slice_first(*list, at ? at - 1 : 0);
    return last;
}

/* Each proxy appends its client's address on the right. An entry is trusted if a proxy of the
 * operator added it (RFC 7239 5.2 says the same about Forwarded). The leftmost entries come from
 * the client itself, which may have forged them. */
slice http_client_address(struct http_exchange *exchange, const struct address_policy *proxies)
{
    const struct http_head *head = &exchange->head;
    struct sockaddr_storage client;
    char text[ADDRESS_TEXT_MAX];
    address_plain(&exchange->peer, &client);
    bool is_ours = address_policy_holds(proxies, (const struct sockaddr *)&client);
    /* Fields of one name form one list in order (RFC 9110 5.3), so the last field is read first. */
    for (size_t i = head->header_count; is_ours && i > 0; i--) {
        if (!slice_eq_nocase(head->headers[i - 1].name, SLICE("X-Forwarded-For")))
            continue;
        slice list = head->headers[i - 1].value;
        while (is_ours && list.len > 0)
            is_ours = take_hop(proxies, take_last(&list), &client);
    }
    slice host =
        arena_dup(&exchange->arena, address_format_host((const struct sockaddr *)&client, text));
    return host.ptr ? host : SLICE(""); /* in no network: a key bound to addresses is refused */
}
