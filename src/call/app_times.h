/*
 * Histograms of executions by app: of the whole execution, its phases, and calls. An app's
 * histograms are looked up by name once; later executions find them by the app's position in the
 * catalog.
 */
#ifndef CALL_APP_TIMES_H
#define CALL_APP_TIMES_H

#include "base/map.h"
#include "base/metric.h"
#include "catalog/catalog.h"
#include "call/outcome.h"

enum {
    /* the first apps to run get their own histograms; further apps, and executions without an app,
     * share those of (other) */
    EXEC_APPS_MAX = 200,
    EXEC_APP_HINTS = 256,
};
enum exec_phase { EXEC_IN_GATE, EXEC_IN_LIMITS, EXEC_AT_PROVIDER, EXEC_IN_RECORD, EXEC_PHASES };

struct app_times;

struct app_times_table {
    struct map by_id;                        /* struct app_times, by integration_id */
    struct app_times *hints[EXEC_APP_HINTS]; /* by position in the catalog; may belong to another
                                              * app */
    struct app_times *other;
};

/* Returns OK or ERR_NOMEM; call app_times_deinit in either case. */
int app_times_init(struct app_times_table *table) MUST_CHECK;
void app_times_deinit(struct app_times_table *table);
/* Returns the app's histograms, or those of (other) if integration is NULL. Never returns NULL. */
struct app_times *app_times_of(struct app_times_table *table,
                               const struct catalog_integration *integration);
/* Records the end of an execution. Replays and refusals are recorded, too: their time in the
 * gate matters. */
void app_times_count(struct app_times *times, const struct exec_times *spent, uint64_t took_ns);
/* Records one call, from its first byte to its reply. */
void app_times_count_call(struct app_times *times, uint64_t took_ns);

#endif
