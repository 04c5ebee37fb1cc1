/*
 * The set of flow templates that a server offers: loaded, and made durable before it is used.
 */
#ifndef SERVER_FLOW_SET_H
#define SERVER_FLOW_SET_H

#include "config/config.h"
#include "flow/template.h"
#include "pg/sync.h"

/* At start, before the loop turns: blocks on the database. NULL: err, and the log says what is
 * wrong with which file. */
struct flow_template_set *flow_set_load(const struct config *config, const struct catalog *catalog,
                                        struct pg_sync *sync, struct err *err) MUST_CHECK;

#endif
