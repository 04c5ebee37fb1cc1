/*
 * Who asks, and from where: what an audit event says of a request.
 */
#include "api/request.h"

slice api_actor(struct api_request *request)
{
    char id[UUID_TEXT_LEN + 1];
    uuid_format(request->grant.key_id, id);
    return arena_printf(&request->op.arena, "key:%s", id);
}

slice api_client_address(struct api_request *request)
{
    return http_client_address(request->exchange, request->api->config.trusted_proxies);
}
