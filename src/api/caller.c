/*
 * The actor of a request and its address, as its audit events have them.
 */
#include "api/request.h"

slice api_actor(struct api_request *request)
{
    char text[4 + UUID_TEXT_LEN + 1] = "key:";
    uuid_format(request->grant.key_id, text + 4);
    return arena_dup(&request->op.arena, slice_cstr(text));
}

slice api_client_address(struct api_request *request)
{
    return http_client_address(request->exchange, request->api->config.trusted_proxies);
}
