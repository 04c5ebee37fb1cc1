/*
 * api: the JSON interface. Each request is an op (request.c), each group of endpoints is in one
 * file, and all envelopes and statuses are in one table (envelope.c).
 */
#ifndef API_API_H
#define API_API_H

#include "catalog/catalog.h"
#include "connect/connect.h"
#include "exec/exec.h"
#include "flow/flow.h"
#include "http/address.h"
#include "http/router.h"
#include "http/server.h"
#include "loop/budget_wait.h"
#include "vault/auth.h"
#include "vault/seal.h"

enum {
    API_WAIT_S_MAX = 60
}; /* the longest time that a client may let a request wait for a
    * change */

struct api;
struct mcp_listeners;
struct vault_users;
struct event_service;
struct policy_cache;

struct api_config {
    struct loop *loop;
    struct pg_pool *pool;
    struct vault_auth *auth;
    struct http_client *http;
    struct exec_service *exec;
    struct catalog **catalog; /* the current snapshot */
    struct flow_service *flow;
    struct flow_template_set **templates; /* the current set */
    uint64_t files_body_bytes_max;        /* limit of bodies with files; 0: as other bodies */
    /* proxies whose X-Forwarded-For is trusted, or NULL. Must outlive the api */
    const struct address_policy *trusted_proxies;
    uint64_t account_rate_per_s; /* requests per second and account; 0: unlimited */
    uint64_t account_burst;
    struct vault_users *users;     /* end users of accounts */
    struct policy_cache *policies; /* of keys */
    struct leases *leases; /* shares of the account's rate (limit/lease.h); NULL: this process
                            * limits alone */
    unsigned schema_known; /* pg_schema_known(): for /readyz */
    struct connect_service *connect;
    struct event_service *event; /* endpoints of events */
    struct budget_queue *work;   /* the memory of requests; NULL: unlimited */
    /* Endpoints of another room that depends on this one: the data of each is a struct
     * api_endpoint, and their routes need a key. They must outlive the api. */
    const struct http_route *routes;
    size_t route_count;
    const struct vault_ring *ring; /* seals the states that an MCP client keeps for a call */
    /* origins of pages that may call /mcp from a browser, in addition to the public URL's:
     * "https://example.com" */
    const slice *mcp_origins;
    size_t mcp_origin_count;
    enum vault_unattended unattended; /* of MCP writes, unless the API key says otherwise */
    const slice *home_domains;        /* the operator's own domains; the dashboard marks recipients
                                       * outside of them */
    size_t home_domain_count;
    struct mcp_listeners *mcp_listeners; /* open subscriptions of /mcp */
    struct tracer *tracer;               /* NULL: no traces */
};

/* Everything in config must outlive the api. Returns NULL with err set on failure. */
struct api *api_new(const struct api_config *config, struct err *err) MUST_CHECK;
/* The beginning of links to the dashboard: "https://sluice.example.com". Copied. */
void api_public_url_set(struct api *api, slice url);
/* No request may be under way (asserted). */
void api_free(struct api *api);
/* Whether the path belongs to the api: an endpoint, or any path below /api or /mcp, where the api
 * also answers with 404. */
bool api_has_path(const struct api *api, const struct http_exchange *exchange);
/* After this call only this server answers /metrics. */
void api_metrics_only_on(struct api *api, const struct http_server *server);
/* For http_server_new, with the api as ctx. */
extern const struct http_handler api_handler;

#endif
