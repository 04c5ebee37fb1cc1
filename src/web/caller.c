/*
 * The caller of a page and its address, and the audit trail, which records both for every change.
 */
#include "web/request.h"

slice web_actor(struct web_request *request)
{
    char id[UUID_TEXT_LEN + 1];
    ASSERT(request->session.is_open && !uuid_is_nil(request->session.key_id));
    uuid_format(request->session.key_id, id);
    return arena_printf(&request->op.arena, "key:%s", id);
}

slice web_client_address(struct web_request *request)
{
    return http_client_address(request->exchange, request->web->config.trusted_proxies);
}

struct audit_by web_by(struct web_request *request)
{
    return (struct audit_by){
        .actor = web_actor(request),
        .request_id = request->exchange->request_id,
        .address = web_client_address(request),
        .means = SLICE("dashboard"),
    };
}
