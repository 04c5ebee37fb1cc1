/*
 * Reload: reads manifests and trust roots again while the server runs, on SIGHUP and when files of
 * the `--catalog` folder change. They are compiled on a pool thread and swapped as a whole on the
 * loop; running executions and flows keep the versions they started with. If anything is faulty,
 * the old versions stay, the log says why, and sluice_catalog_outdated is 1.
 */
#ifndef SERVER_RELOAD_H
#define SERVER_RELOAD_H

#include "catalog/catalog.h"
#include "config/config.h"
#include "event/event.h"
#include "flow/template.h"
#include "http/client.h"
#include "loop/loop.h"
#include "mcp/mcp.h"
#include "pg/pg.h"
#include "tls/tls.h"
#include "trace/trace.h"

struct reload;

/* All pointers must outlive the reload; *catalog and *tls are counted references, *templates is
 * owned. A reload replaces these three. */
struct reload_config {
    struct loop *loop;
    const struct config *config;
    struct http_client *client;
    struct tracer *tracer; /* NULL: none */
    struct event_service *event;
    struct pg_pool *pool;
    struct catalog **catalog;
    struct flow_template_set **templates;
    struct tls_context **tls;
    struct mcp_listeners *mcp_listeners;
    /* Called when the reload that SIGHUP requested is done. */
    void (*on_hup)(void *owner, bool is_done);
    void *owner;
};

/* Called at start, before there is a loop that could stall. Returns NULL on failure; the log says
 * what is wrong with which file. */
struct catalog *reload_first_catalog(const struct config *config) MUST_CHECK;
/* Begins to watch. Returns NULL on failure, with err set. */
struct reload *reload_new(const struct reload_config *config, struct err *err) MUST_CHECK;
/* Ends its op: nothing is swapped after this, and the op frees itself. Accepts NULL. */
void reload_free(struct reload *reload);

#endif
