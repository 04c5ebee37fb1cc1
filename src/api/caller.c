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
    /* The check of the key has it already, but for paths without a key. */
    slice known = request->check.address;
    return known.ptr ? known
                     : http_client_address(request->exchange, request->api->config.trusted_proxies);
}

struct audit_by api_by(struct api_request *request)
{
    return (struct audit_by){
        .actor = api_actor(request),
        .request_id = request->exchange->request_id,
        .address = api_client_address(request),
    };
}
