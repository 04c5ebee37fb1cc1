/*
 * The overview's apps, with their state in the period: first those with most calls, then connected
 * apps without calls.
 */
#include <inttypes.h>
#include <stdio.h>

#include "store/connection.h"
#include "web/chart.h"
#include "web/flow_decision.h"
#include "web/overview_stats.h"

enum {
    SLOW_MS = 2000,    /* an app is slow if its p95 is above this */
    FAILING_PART = 20, /* an app fails if more than one call, and one of this many, failed */
    SPARK_STEP = 4,
    SPARK_HEIGHT = 20,
};

/* ---- state ---- */

struct state {
    const char *dot, *text;
};

static struct state app_state_of(const struct tally_sum *sum, bool needs_reconnecting)
{
    int64_t tried = sum->succeeded + sum->failed;
    if (needs_reconnecting)
        return (struct state){"bad", "reconnect"};
    if (tried == 0)
        return (struct state){"", sum->blocked > 0 ? "blocked" : "no calls"};
    if (sum->failed > 1 && sum->failed >= tried / FAILING_PART)
        return (struct state){"bad", "failing"};
    if (tally_percentile(sum->buckets, 95) > SLOW_MS)
        return (struct state){"warn", "slow"};
    return (struct state){"ok", "works"};
}

static bool needs_reconnecting(slice app_id, const struct connection *connections, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (connections[i].status == CONNECTION_REAUTH_REQUIRED &&
            slice_eq(connections[i].integration_id, app_id))
            return true;
    return false;
}

/* Draws a stroke for each step with calls; the highest fills the picture. */
static slice spark_path(struct arena *arena, const struct tally_sum *sum, size_t steps)
{
    char path[TALLY_STEPS_MAX * 16];
    size_t len = 0;
    uint32_t most = 1;
    for (size_t i = 0; i < steps; i++)
        most = sum->steps[i] > most ? sum->steps[i] : most;
    for (size_t i = 0; i < steps; i++) {
        int height = (int)((double)sum->steps[i] * SPARK_HEIGHT / most);
        if (sum->steps[i] > 0)
            len += (size_t)snprintf(path + len, sizeof(path) - len, "M%zu %dV%d",
                                    i * SPARK_STEP + SPARK_STEP / 2, SPARK_HEIGHT,
                                    SPARK_HEIGHT - (height > 0 ? height : 1));
    }
    ASSERT(len < sizeof(path));
    return arena_dup(arena, slice_of(path, len));
}

/* ---- writing ---- */

static void write_app(struct web_request *request, struct json_writer *w,
                      const struct call_stats *stats, const struct tally_sum *sum, bool is_ended)
{
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, sum->integration_id, NULL);
    struct state state = app_state_of(sum, is_ended);
    size_t steps = stats->reading.range.steps;
    slice name = app ? app->name : sum->integration_id;
    json_open(w, '{');
    json_member_str(w, "app_id", sum->integration_id);
    json_member_str(w, "app", name);
    view_app_mark(w, sum->integration_id, name);
    chart_member_number(w, "calls", sum->succeeded + sum->failed + sum->blocked);
    json_member_i64(w, "width", (int64_t)steps * SPARK_STEP);
    json_member_str(w, "path", spark_path(&request->serve.op.arena, sum, steps));
    json_member_str(w, "failed", call_stats_failed_share(request, sum));
    call_stats_write_ms(request, w, "p95", sum, 95);
    json_member_str(w, "dot", slice_cstr(state.dot));
    json_member_str(w, "state", slice_cstr(state.text));
    json_close(w, '}');
}

static bool has_calls(const struct call_stats *stats, slice app_id)
{
    for (size_t i = 0; i < stats->count; i++)
        if (stats->list[i].kind == TALLY_BY_APP && slice_eq(stats->list[i].integration_id, app_id))
            return true;
    return false;
}

void overview_apps_write(struct web_request *request, struct json_writer *w,
                         const struct call_stats *stats, const struct connection *connections,
                         size_t count)
{
    const struct tally_sum *sum;
    size_t at = 0, lines = 0;
    json_member_open(w, "apps", '[');
    while ((sum = overview_next_sum(request, stats, TALLY_BY_APP, &at, &lines)) != NULL)
        write_app(request, w, stats, sum,
                  needs_reconnecting(sum->integration_id, connections, count));
    /* An app's ended connections come before its others, but not adjacent to them. */
    for (size_t i = 0; i < count && lines <= OVERVIEW_LINES_MAX; i++) {
        const struct tally_sum none = {.integration_id = connections[i].integration_id};
        bool is_new = !has_calls(stats, none.integration_id);
        for (size_t k = 0; k < i; k++)
            is_new = is_new && !slice_eq(connections[k].integration_id, none.integration_id);
        if (is_new && lines++ <= OVERVIEW_LINES_MAX)
            write_app(request, w, stats, &none,
                      needs_reconnecting(none.integration_id, connections, count));
    }
    json_close(w, ']');
}
