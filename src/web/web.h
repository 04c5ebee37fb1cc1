/*
 * web: the dashboard, where people connect apps, approve steps and follow flows and executions.
 * Pages are files of pages/ that render data made here, and work without JavaScript; the only
 * script keeps a page up to date.
 *
 * A session is a sealed cookie: it refers to an API key by its hash, so that it ends with the key,
 * needs no table and is valid on every node. The key's scopes limit it.
 */
#ifndef WEB_WEB_H
#define WEB_WEB_H

#include "api/api.h"

struct web;

/* Uses the services of the API, and runs endpoints for its pages; api and everything in config must
 * outlive it. Returns NULL and sets *err on failure. */
struct web *web_new(const struct api_config *config, struct api *api, struct err *err) MUST_CHECK;
/* Frees the web; NULL is allowed. No request may be under way (asserted). */
void web_free(struct web *web);
/* Sets the address for browsers, such as "https://sluice.example.com": redirect URIs begin with it,
 * and with https the cookie is __Host-. Call this once the server listens; url is copied. If
 * is_set, an operator set the address, and pages are refused under any other name (421). */
void web_public_url_set(struct web *web, slice url, bool is_set);
/* Returns whether the path is one of the dashboard's pages; another handler answers other paths
 * with 404. */
bool web_has_path(const struct web *web, const struct http_exchange *exchange);
/* The handler for http_server_new, with the web as ctx. */
extern const struct http_handler web_handler;

#endif
