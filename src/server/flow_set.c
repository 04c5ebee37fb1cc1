/*
 * Templates at start; see flow_set.h.
 */
#include "server/flow_set.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/flow.h"

enum { VERSIONS_BYTES_MAX = 1024 * 1024 };

static void log_problems(const struct catalog_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct catalog_problem *problem = &report->problems[i];
        log_event(problem->is_warning ? LOG_DEBUG : LOG_ERROR, "flow template",
                  LOG_STR("file", problem->source), LOG_STR("at", problem->pointer),
                  LOG_STR("problem", problem->text));
    }
}

static struct flow_template_set *load_template_set(const struct config *config,
                                                   const struct catalog *catalog, struct err *err)
{
    struct catalog_report *report = catalog_report_new(err);
    if (!report)
        return NULL;
    const char *dir = config->catalog_dir.len > 0 ? config->catalog_dir.ptr : NULL;
    struct flow_template_set *set = flow_template_set_load(dir, catalog, report);
    /* Warnings are also logged for a set that was loaded. */
    log_problems(report);
    if (!set)
        (void)err_set(err, ERR_INVALID, "the flow templates have errors; see the log above");
    catalog_report_free(report);
    return set;
}

static bool is_stored(const struct pg_rows *rows, struct uuid version)
{
    for (size_t i = 0; i < rows->count; i++)
        if (uuid_eq(pg_get_uuid(rows, i, 0), version))
            return true;
    return false;
}

/* Stores the versions that the database does not have: a flow refers to the row of its version,
 * so the row must exist before the first start. */
static int store_new_versions(const struct flow_template_set *set, struct pg_sync *sync,
                              struct err *err)
{
    struct arena arena;
    struct pg_rows stored;
    arena_init(&arena, VERSIONS_BYTES_MAX);
    int result = store_flow_template_versions_sync(sync, &arena, &stored, err);
    for (size_t i = 0; i < set->count && result == OK; i++)
        if (!is_stored(&stored, set->items[i]->version))
            result = store_flow_template_insert_sync(sync, set->items[i]->version,
                                                     set->items[i]->key, set->items[i]->body,
                                                     clock_shared_us(), err);
    arena_deinit(&arena);
    return result;
}

struct flow_template_set *flow_set_load(const struct config *config, const struct catalog *catalog,
                                        struct pg_sync *sync, struct err *err)
{
    struct flow_template_set *set = load_template_set(config, catalog, err);
    if (set && store_new_versions(set, sync, err) != OK) {
        flow_template_set_free(set);
        return NULL;
    }
    return set;
}
