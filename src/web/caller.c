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

void web_audit(struct web_request *request, enum audit_kind kind, slice details)
{
    const struct audit_event event = {
        .account_id = request->session.account_id,
        .id = uuid_v7(),
        .kind = audit_kind_name(kind),
        .actor = web_actor(request),
        .request_id = request->exchange->request_id,
        .address = web_client_address(request),
        .details =
            arena_printf(&request->op.arena, "{%.*s,\"by\":\"dashboard\"}", SLICE_ARG(details)),
    };
    ASSERT(request->page->access == WEB_SESSION); /* a link's events have another actor */
    store_audit_insert(request->web->config.pool, &request->query, &request->op, &event);
}

void web_audited(struct web_request *request)
{
    /* The change is committed already, and cannot be undone for want of its event. The log has it.
     */
    const struct pg_query *query = &request->query;
    ASSERT(query->stmt); /* web_audit was called, or the page has inserted its own event */
    if (store_done_result(query) != OK)
        op_log(&request->op, LOG_ERROR, "a change was not recorded in the audit trail",
               LOG_CSTR("route", request->match.route->pattern), LOG_STR("cause", query->message));
}

static enum op_result redirect_audited(struct web_request *request)
{
    web_audited(request);
    return web_reply_redirect(request, request->redirect_path, request->redirect_notice);
}

enum op_result web_audit_then_redirect(struct web_request *request, enum audit_kind kind,
                                       slice details, slice path, const char *notice)
{
    request->redirect_path = path;
    request->redirect_notice = notice;
    web_audit(request, kind, details);
    return web_wait(request, redirect_audited);
}
