/*
 * Who asks, and from where: what an audit event says of a request.
 */
#include "api/request.h"
#include "http/address.h"

slice api_actor(struct api_request *request)
{
    char id[UUID_TEXT_LEN + 1];
    uuid_format(request->grant.key_id, id);
    return arena_printf(&request->op.arena, "key:%s", id);
}

/* The host alone, in the op's arena. */
static slice host_text(struct api_request *request, const struct sockaddr_storage *address)
{
    char text[ADDRESS_TEXT_MAX];
    slice host = address_format((const struct sockaddr *)address, text);
    if (address->ss_family == AF_INET)
        host = slice_split(&host, ':');
    else if (address->ss_family == AF_INET6)
        host = slice_of(text + 1, (size_t)slice_find_char(host, ']') - 1);
    return arena_dup(&request->op.arena, host);
}

/* Goes on from the address that was told last; true: another proxy of ours, so look further. */
static bool take_told(const struct address_policy *proxies, slice told,
                      struct sockaddr_storage *client)
{
    struct sockaddr_storage address;
    if (!address_parse(told, &address))
        return false;
    *client = address;
    return address_policy_holds(proxies, (const struct sockaddr *)client);
}

/* The last in a list, which is cut before it. */
static slice take_last(slice *list)
{
    size_t at = list->len;
    while (at > 0 && list->ptr[at - 1] != ',')
        at--;
    slice last = slice_from(*list, at);
    *list = slice_first(*list, at ? at - 1 : 0);
    return last;
}

/* Each proxy adds on the right whom it was asked by: as long as the one who tells is ours, the one
 * told is believed (RFC 7239 5.2 says the same of Forwarded). */
slice api_client_address(struct api_request *request)
{
    const struct address_policy *proxies = request->api->config.trusted_proxies;
    const struct http_head *head = &request->exchange->head;
    struct sockaddr_storage client;
    if (!address_parse(http_peer_text(request->exchange), &client))
        client = request->exchange->peer; /* a Unix socket */
    bool is_ours = address_policy_holds(proxies, (const struct sockaddr *)&client);
    for (size_t i = head->header_count; is_ours && i > 0; i--) {
        if (!slice_eq_nocase(head->headers[i - 1].name, SLICE("X-Forwarded-For")))
            continue;
        slice list = head->headers[i - 1].value;
        while (is_ours && list.len > 0)
            is_ours = take_told(proxies, take_last(&list), &client);
    }
    return host_text(request, &client);
}
