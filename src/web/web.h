/*
 * web: the dashboard, where people connect apps, approve steps and see what happened. Pages are
 * files of pages/ over data that are made here, and work without JavaScript; the one script only
 * keeps a page fresh.
 *
 * A session is a sealed cookie: it names an API key by its hash, so that it ends with the key,
 * needs no table and is good on every node. What may be done is what the key's scopes allow.
 */
#ifndef WEB_WEB_H
#define WEB_WEB_H

#include "connect/connect.h"
#include "exec/exec.h"
#include "flow/flow.h"
#include "http/address.h"
#include "http/server.h"
#include "loop/budget_wait.h"
#include "vault/auth.h"

struct web;

struct web_config {
    struct loop *loop;
    struct pg_pool *pool;
    struct vault_auth *auth;
    const struct vault_ring *ring; /* seals cookies */
    struct connect_service *connect;
    struct exec_service *exec;
    struct flow_service *flow;
    struct catalog **catalog;
    struct flow_template_set **templates;
    struct http_client *http;
    struct budget_queue *work; /* the memory of requests counts in it; NULL: uncounted */
    const struct address_policy *trusted_proxies; /* NULL: none */
    /* "https://sluice.example.com", as browsers reach this server: redirect URIs begin with it, and
     * with https the cookie is __Host-. Empty: web_public_url_set follows. */
    slice public_url;
};

/* Everything in config outlives it. NULL: err. */
struct web *web_new(const struct web_config *config, struct err *err) MUST_CHECK;
/* No request may be under way (asserted). NULL is fine. */
void web_free(struct web *web);
/* Sets it once the server listens, if none was configured; copied. */
void web_public_url_set(struct web *web, slice url);
/* Whether the path is one of its pages; other paths get a 404 elsewhere. */
bool web_has_path(const struct web *web, const struct http_exchange *exchange);
/* For http_server_new, with the web as ctx. */
extern const struct http_handler web_handler;

#endif
