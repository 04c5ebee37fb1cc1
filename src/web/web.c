/*
 * The dashboard: the table of its pages, and what their requests share. Only this file knows all
 * pages.
 */
#include "web/web.h"

#include <stdio.h>

#include "base/embed.h"
#include "base/mem.h"
#include "limit/account_rate.h"
#include "web/effect.h"
#include "web/gzip.h"
#include "web/pages.h"

enum {
    SIGN_INS_AT_ONCE = 10, /* sign-ins from one address at once; after that one per second */
    /* the page's own fields and those of a kept form */
    SIGN_IN_FORM_BYTES_MAX = WEB_RUN_FORM_BYTES_MAX + WEB_FORM_BYTES_MAX,
    MARKUP_BYTES_MAX = 16 * 1024 * 1024,
};

/* The access to a page, and the scope that the session's key needs; 0: any. */
#define PAGE(access, scope, begin) (&(const struct web_page){access, scope, begin, NULL, 0, false})
#define VIEW(access, view)         (&(const struct web_page){access, 0, NULL, view, 0, false})
#define FORM(access, scope, begin, bytes_max) \
    (&(const struct web_page){access, scope, begin, NULL, bytes_max, false})
#define FRAMELESS(access, scope, begin) \
    (&(const struct web_page){access, scope, begin, NULL, 0, true})

static const struct http_route routes[] = {
    {HTTP_METHOD_GET, "/", PAGE(WEB_ACCOUNT, SCOPE_READ, web_overview)},
    {HTTP_METHOD_GET, "/sign-in", PAGE(WEB_OPEN, 0, web_sign_in)},
    {HTTP_METHOD_POST, "/sign-in", FORM(WEB_OPEN, 0, web_sign_in_post, SIGN_IN_FORM_BYTES_MAX)},
    {HTTP_METHOD_GET, "/sign-out", PAGE(WEB_ACCOUNT, 0, web_sign_out_ask)},
    {HTTP_METHOD_POST, "/sign-out", PAGE(WEB_ACCOUNT, 0, web_sign_out)},
    {HTTP_METHOD_POST, "/sign-out/everywhere", PAGE(WEB_ACCOUNT, 0, web_sign_out_everywhere)},
    {HTTP_METHOD_GET, "/approvals", PAGE(WEB_SESSION, SCOPE_READ, web_approvals)},
    {HTTP_METHOD_GET, "/flows", PAGE(WEB_SESSION, SCOPE_READ, web_flows)},
    {HTTP_METHOD_GET, "/flows/new", PAGE(WEB_SESSION, SCOPE_EXECUTE, web_flow_new)},
    {HTTP_METHOD_POST, "/flows/new", PAGE(WEB_SESSION, SCOPE_EXECUTE, web_flow_start)},
    {HTTP_METHOD_GET, "/flows/{id}", PAGE(WEB_SESSION, SCOPE_READ, web_flow)},
    {HTTP_METHOD_GET, "/flows/{id}/events", FRAMELESS(WEB_SESSION, SCOPE_READ, web_flow_events)},
    {HTTP_METHOD_GET, "/events", FRAMELESS(WEB_SESSION, SCOPE_READ, web_account_events)},
    {HTTP_METHOD_POST, "/flows/{id}/approve", PAGE(WEB_SESSION, SCOPE_APPROVE, web_flow_approve)},
    {HTTP_METHOD_POST, "/flows/{id}/reject", PAGE(WEB_SESSION, SCOPE_APPROVE, web_flow_reject)},
    {HTTP_METHOD_POST, "/flows/{id}/resume",
     PAGE(WEB_SESSION, SCOPE_EXECUTE_WRITE, web_flow_resume)},
    {HTTP_METHOD_GET, "/flows/{id}/cancel",
     PAGE(WEB_SESSION, SCOPE_EXECUTE_WRITE, web_flow_cancel_ask)},
    {HTTP_METHOD_POST, "/flows/{id}/cancel",
     PAGE(WEB_SESSION, SCOPE_EXECUTE_WRITE, web_flow_cancel)},
    {HTTP_METHOD_GET, "/flows/{id}/again", PAGE(WEB_SESSION, SCOPE_EXECUTE, web_flow_again_ask)},
    {HTTP_METHOD_POST, "/flows/{id}/again", PAGE(WEB_SESSION, SCOPE_EXECUTE, web_flow_again)},
    {HTTP_METHOD_GET, "/executions", PAGE(WEB_SESSION, SCOPE_READ, web_executions)},
    {HTTP_METHOD_GET, "/executions/{id}", PAGE(WEB_SESSION, SCOPE_READ, web_execution)},
    {HTTP_METHOD_GET, "/executions/{id}/again",
     PAGE(WEB_SESSION, SCOPE_EXECUTE, web_execution_again_ask)},
    {HTTP_METHOD_POST, "/executions/{id}/again",
     FORM(WEB_SESSION, SCOPE_EXECUTE, web_execution_again, WEB_RUN_FORM_BYTES_MAX)},
    {HTTP_METHOD_GET, "/docs", PAGE(WEB_OPEN, 0, web_docs)},
    {HTTP_METHOD_GET, "/docs/{operation}", PAGE(WEB_OPEN, 0, web_docs_operation)},
    {HTTP_METHOD_GET, "/integrations", PAGE(WEB_SESSION, SCOPE_READ, web_apps)},
    {HTTP_METHOD_GET, "/integrations/{id}", PAGE(WEB_SESSION, SCOPE_READ, web_app)},
    {HTTP_METHOD_GET, "/integrations/{id}/actions/{action}",
     PAGE(WEB_SESSION, SCOPE_READ, web_action)},
    {HTTP_METHOD_POST, "/integrations/{id}/connect",
     PAGE(WEB_SESSION, SCOPE_EXECUTE_WRITE, web_app_connect)},
    {HTTP_METHOD_POST, "/integrations/{id}/client", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_app_client)},
    {HTTP_METHOD_GET, "/integrations/{id}/client/delete",
     PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_app_client_delete_ask)},
    {HTTP_METHOD_POST, "/integrations/{id}/client/delete",
     PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_app_client_delete)},
    {HTTP_METHOD_GET, "/connections", VIEW(WEB_SESSION, &web_connections)},
    {HTTP_METHOD_GET, "/connections/{id}", PAGE(WEB_SESSION, SCOPE_READ, web_connection)},
    {HTTP_METHOD_POST, "/connections/{id}/default",
     PAGE(WEB_SESSION, SCOPE_ADMIN, web_connection_default)},
    {HTTP_METHOD_POST, "/connections/{id}/label",
     PAGE(WEB_SESSION, SCOPE_ADMIN, web_connection_label)},
    {HTTP_METHOD_GET, "/connections/{id}/delete",
     PAGE(WEB_SESSION, SCOPE_ADMIN, web_connection_delete_ask)},
    {HTTP_METHOD_POST, "/connections/{id}/delete",
     PAGE(WEB_SESSION, SCOPE_ADMIN, web_connection_delete)},
    {HTTP_METHOD_POST, "/connections/{id}/test",
     PAGE(WEB_SESSION, SCOPE_EXECUTE, web_connection_test)},
    {HTTP_METHOD_GET, "/connect/callback",
     PAGE(WEB_CALLBACK, SCOPE_EXECUTE_WRITE, web_connect_callback)},
    {HTTP_METHOD_GET, "/connect/{token}", PAGE(WEB_LINK, 0, web_connect_link)},
    {HTTP_METHOD_POST, "/connect/{token}", PAGE(WEB_LINK, 0, web_connect_link_take)},
    {HTTP_METHOD_POST, "/connect/{token}/go",
     PAGE(WEB_LINK, SCOPE_EXECUTE_WRITE, web_connect_link_go)},
    {HTTP_METHOD_GET, "/keys", VIEW(WEB_ACCOUNT, &web_keys)},
    {HTTP_METHOD_GET, "/keys/new", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_key_form)},
    {HTTP_METHOD_POST, "/keys/new", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_key_create)},
    {HTTP_METHOD_GET, "/keys/{id}", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_key)},
    {HTTP_METHOD_GET, "/keys/{id}/events", FRAMELESS(WEB_ACCOUNT, SCOPE_ADMIN, web_key_events)},
    {HTTP_METHOD_GET, "/keys/{id}/revoke", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_key_revoke_ask)},
    {HTTP_METHOD_POST, "/keys/{id}/revoke", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_key_revoke)},
    {HTTP_METHOD_GET, "/users", VIEW(WEB_ACCOUNT, &web_users)},
    {HTTP_METHOD_GET, "/users/{id}", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_user)},
    {HTTP_METHOD_GET, "/users/{id}/erase", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_user_erase_ask)},
    {HTTP_METHOD_POST, "/users/{id}/erase", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_user_erase)},
    {HTTP_METHOD_GET, "/webhooks", VIEW(WEB_ACCOUNT, &web_webhooks)},
    {HTTP_METHOD_GET, "/webhooks/new", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_webhook_new)},
    {HTTP_METHOD_POST, "/webhooks/new", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_webhook_create)},
    {HTTP_METHOD_GET, "/webhooks/{id}", PAGE(WEB_ACCOUNT, SCOPE_READ, web_webhook)},
    {HTTP_METHOD_GET, "/webhooks/{id}/edit", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_webhook_edit)},
    {HTTP_METHOD_POST, "/webhooks/{id}/edit", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_webhook_change)},
    {HTTP_METHOD_POST, "/webhooks/{id}/switch", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_webhook_switch)},
    {HTTP_METHOD_POST, "/webhooks/{id}/test", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_webhook_test)},
    {HTTP_METHOD_GET, "/webhooks/{id}/roll", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_webhook_roll_ask)},
    {HTTP_METHOD_POST, "/webhooks/{id}/roll", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_webhook_roll)},
    {HTTP_METHOD_GET, "/webhooks/{id}/delete",
     PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_webhook_delete_ask)},
    {HTTP_METHOD_POST, "/webhooks/{id}/delete", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_webhook_delete)},
    {HTTP_METHOD_POST, "/webhooks/{id}/replay", PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_webhook_replay)},
    {HTTP_METHOD_POST, "/webhooks/{id}/deliveries/{event}/replay",
     PAGE(WEB_ACCOUNT, SCOPE_ADMIN, web_webhook_replay_one)},
    {HTTP_METHOD_GET, "/audit", PAGE(WEB_SESSION, SCOPE_ADMIN, web_audit_trail)},
    {HTTP_METHOD_GET, "/audit.csv", PAGE(WEB_SESSION, SCOPE_ADMIN, web_audit_csv)},
    {HTTP_METHOD_GET, "/assets/{name}", FRAMELESS(WEB_OPEN, 0, web_asset)},
};

struct web *web_new(const struct api_config *config, struct api *api, struct err *err)
{
    struct web *web = mem_zalloc(sizeof(*web));
    if (!web)
        return err_null(err, ERR_NOMEM, "out of memory for the dashboard");
    web->api = api;
    web->config = *config;
    web->serve = (struct serve){.face = &web_face,
                                .work = config->work,
                                .trusted_proxies = config->trusted_proxies,
                                .policies = config->policies};
    arena_init(&web->arena, MARKUP_BYTES_MAX);
    web->serve.router = http_router_new(routes, ARRAY_LEN(routes), err);
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        const struct web_page *page = routes[i].data;
        /* a page that takes an end user is one whose links name it */
        ASSERT(page->access != WEB_SESSION || markup_keeps_user(slice_cstr(routes[i].pattern)));
    }
    web->sign_ins = account_rate_new(1, SIGN_INS_AT_ONCE, NULL);
    web->markup =
        markup_load(&web->arena, slice_of(embed_markup[0].data, embed_markup[0].len), err);
    web->gzip = gzip_new();
    slice *homes = ARENA_ARRAY(&web->arena, slice, config->home_domain_count + 1);
    web->config.home_domains = homes;
    if (web->serve.router && web->sign_ins && web->markup && web->gzip && homes &&
        effect_read_homes(config->home_domains, config->home_domain_count, homes, &web->arena,
                          err) == OK)
        return web;
    web_free(web);
    return NULL;
}

void web_free(struct web *web)
{
    if (!web)
        return;
    /* Requests use the config and the router. */
    ASSERT(web->serve.active == 0);
    http_router_free(web->serve.router);
    account_rate_free(web->sign_ins);
    gzip_free(web->gzip);
    arena_deinit(&web->arena);
    mem_free(web);
}

void web_public_url_set(struct web *web, slice url, bool is_set)
{
    web->is_public_url_set = is_set;
    (void)snprintf(web->public_url, sizeof(web->public_url), "%.*s", SLICE_ARG(url));
}

bool web_has_path(const struct web *web, const struct http_exchange *exchange)
{
    struct http_route_match match;
    return http_router_match(web->serve.router, exchange->head.method, exchange->segments,
                             exchange->segment_count, &match) != HTTP_MATCH_NO_PATH;
}
