/*
 * The set of flow templates that a server offers: loaded, and stored before use.
 */
#ifndef SERVER_FLOW_SET_H
#define SERVER_FLOW_SET_H

#include "config/config.h"
#include "flow/template.h"
#include "pg/sync.h"

/* Called at start, before the loop runs, because it blocks on the database. Returns NULL on
 * failure: err has the reason, and the log names the faulty files. */
struct flow_template_set *flow_set_load(const struct config *config, const struct catalog *catalog,
                                        struct pg_sync *sync, struct err *err) MUST_CHECK;

#endif
