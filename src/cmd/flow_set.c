/*
 * Templates at start; see flow_set.h.
 */
#include "cmd/flow_set.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/flow.h"

static void log_problems(const struct catalog_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct catalog_problem *problem = &report->problems[i];
        log_event(problem->is_warning ? LOG_DEBUG : LOG_ERROR, "flow template",
                  LOG_STR("file", problem->source), LOG_STR("at", problem->pointer),
                  LOG_STR("problem", problem->text));
    }
}

static struct flow_template_set *load(const struct config *config, const struct catalog *catalog,
                                      struct err *err)
{
    struct catalog_report *report = mem_alloc(sizeof(*report));
    if (!report) {
        (void)err_set(err, ERR_NOMEM, "out of memory for flow templates");
        return NULL;
    }
    catalog_report_init(report);
    const char *dir = config->catalog_dir.len > 0 ? config->catalog_dir.ptr : NULL;
    struct flow_template_set *set = flow_template_set_load(dir, catalog, report);
    log_problems(report);
    if (!set)
        (void)err_set(err, ERR_INVALID,
                      "the flow templates have errors; they are in the log above");
    catalog_report_deinit(report);
    mem_free(report);
    return set;
}

/* A flow may be pinned to a version only once it is in the database. */
static int publish(const struct flow_template_set *set, const char *conninfo, struct err *err)
{
    struct pg_sync *sync = pg_sync_open(conninfo, err);
    int result = sync ? OK : (int)err->code;
    for (size_t i = 0; i < set->count && result == OK; i++)
        result = store_flow_template_insert_sync(sync, set->items[i]->version, set->items[i]->key,
                                                 set->items[i]->body, clock_wall_us(), err);
    if (sync)
        pg_sync_close(sync);
    return result;
}

struct flow_template_set *flow_set_load(const struct config *config, const struct catalog *catalog,
                                        const char *conninfo, struct err *err)
{
    struct flow_template_set *set = load(config, catalog, err);
    if (set && publish(set, conninfo, err) != OK) {
        flow_template_set_free(set);
        return NULL;
    }
    return set;
}
