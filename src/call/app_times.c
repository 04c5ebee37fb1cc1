/*
 * app_times: one entry for each app, with its series. The number of entries is limited: an entry
 * takes 2 KB, and 150 lines on the metrics page.
 */
#include "call/app_times.h"

#include "base/mem.h"

struct app_times {
    /* NULL until the app's first execution is counted */
    struct metric_series *whole, *calls, *phases[EXEC_PHASES];
    slice id; /* stored after the struct */
};

static struct metric execution_seconds = METRIC_INIT(
    "sluice_execution_seconds",
    "Time of an execution from its first check to its answer, by integration.", METRIC_HISTOGRAM);
static struct metric phase_seconds =
    METRIC_INIT("sluice_execution_phase_seconds",
                "Time of an execution by integration and phase: gate, limits, provider, record.",
                METRIC_HISTOGRAM);
static struct metric provider_seconds = METRIC_INIT(
    "sluice_provider_seconds", "Time of a call to a provider, by integration.", METRIC_HISTOGRAM);

/* The series are found once for each app, so that a call only adds to counters. */
static void find_series(struct app_times *times)
{
    static const char *const phases[EXEC_PHASES] = {"gate", "limits", "provider", "record"};
    char labels[160];
    slice app = SLICE_JOIN(labels, SLICE("integration=\""), times->id, SLICE("\""));
    times->whole = metric_series(&execution_seconds, app);
    times->calls = metric_series(&provider_seconds, app);
    for (size_t i = 0; i < EXEC_PHASES; i++) {
        slice text = SLICE_JOIN(labels, SLICE("integration=\""), times->id, SLICE("\",phase=\""),
                                slice_cstr(phases[i]), SLICE("\""));
        times->phases[i] = metric_series(&phase_seconds, text);
    }
}

/* Returns NULL if out of memory. */
static struct app_times *times_new(slice id)
{
    struct app_times *times = mem_zalloc(sizeof(*times) + id.len);
    if (!times)
        return NULL;
    memcpy(times + 1, id.ptr, id.len);
    times->id = slice_of((const char *)(times + 1), id.len);
    return times;
}

int app_times_init(struct app_times_table *table)
{
    map_init(&table->by_id, EXEC_APPS_MAX);
    table->other = times_new(SLICE("(other)"));
    return table->other ? OK : ERR_NOMEM;
}

void app_times_deinit(struct app_times_table *table)
{
    MAP_EACH(&table->by_id, slot)
        mem_free(slot->value);
    map_deinit(&table->by_id);
    mem_free(table->other);
}

/* If the table is full or memory is short, returns (other), and no entry is stored. */
static struct app_times *add_app(struct app_times_table *table, slice id)
{
    if (table->by_id.count == EXEC_APPS_MAX)
        return table->other;
    struct app_times *times = times_new(id);
    if (times && map_put(&table->by_id, times->id, times, NULL) == OK)
        return times;
    mem_free(times);
    return table->other;
}

struct app_times *app_times_of(struct app_times_table *table,
                               const struct catalog_integration *integration)
{
    if (!integration)
        return table->other;
    /* Another catalog may have another app at that position, so the name is compared. */
    struct app_times **hint = &table->hints[integration->position % EXEC_APP_HINTS];
    if (*hint && slice_eq((*hint)->id, integration->integration_id))
        return *hint;
    struct app_times *times = map_get(&table->by_id, integration->integration_id);
    if (!times)
        times = add_app(table, integration->integration_id);
    if (times != table->other)
        *hint = times;
    return times;
}

void app_times_count(struct app_times *times, const struct exec_times *spent, uint64_t took_ns)
{
    if (!times->whole)
        find_series(times);
    metric_observe_ns(times->whole, took_ns);
    metric_observe_ns(times->phases[EXEC_IN_GATE], spent->gate_ns);
    metric_observe_ns(times->phases[EXEC_IN_LIMITS], spent->limits_ns);
    metric_observe_ns(times->phases[EXEC_AT_PROVIDER], spent->provider_ns);
    metric_observe_ns(times->phases[EXEC_IN_RECORD], spent->record_ns);
}

void app_times_count_call(struct app_times *times, uint64_t took_ns)
{
    if (!times->calls)
        find_series(times);
    metric_observe_ns(times->calls, took_ns);
}
