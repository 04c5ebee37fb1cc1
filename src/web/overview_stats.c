/*
 * What the overview shows of the period besides its charts: failures by action and code.
 */
#include "web/overview_stats.h"

#include "serve/stored.h"
#include "web/chart.h"
#include "web/flow_decision.h"

int64_t overview_refused(const struct call_stats *stats, slice integration_id)
{
    int64_t blocked = 0;
    for (size_t i = 0; i < stats->count; i++) {
        const struct tally_sum *sum = &stats->list[i];
        if (sum->kind == TALLY_BY_ERROR && slice_eq(sum->integration_id, integration_id) &&
            slice_eq(sum->error_code, SLICE("reauth_required")))
            blocked += sum->blocked;
    }
    return blocked;
}

/* Failures of an action have its last message, which the policy of the key may not give. */
static bool may_have_sum(const struct web_request *request, const struct tally_sum *sum,
                         enum tally_kind kind)
{
    return sum->kind == kind &&
           (kind != TALLY_BY_ERROR || serve_gives(&request->serve, *request->web->config.catalog,
                                                  sum->integration_id, sum->action_id));
}

const struct tally_sum *overview_next_sum(const struct web_request *request,
                                          const struct call_stats *stats, enum tally_kind kind,
                                          size_t *at, size_t *lines)
{
    while (*at < stats->count && !may_have_sum(request, &stats->list[*at], kind))
        (*at)++;
    return *at < stats->count && (*lines)++ < OVERVIEW_LINES_MAX ? &stats->list[(*at)++] : NULL;
}

void overview_errors_write(struct web_request *request, struct json_writer *w,
                           const struct call_stats *stats)
{
    const struct tally_sum *sum;
    size_t at = 0, lines = 0;
    json_member_open(w, "errors", '[');
    while ((sum = overview_next_sum(request, stats, TALLY_BY_ERROR, &at, &lines)) != NULL) {
        int64_t last_at;
        slice message = tally_last_read(sum->last, &last_at);
        json_open(w, '{');
        json_member_str(w, "app_id", sum->integration_id);
        json_member_str(w, "action_id", sum->action_id);
        view_names(request, w, sum->integration_id, sum->action_id);
        view_app_mark_of(request, w, sum->integration_id);
        json_member_str(w, "code", sum->error_code);
        json_member_str(w, "state", sum->failed > 0 ? SLICE("failed") : SLICE("blocked"));
        json_member_str(w, "period", call_stats_period_key(stats));
        chart_member_number(w, "calls", sum->failed + sum->blocked);
        json_member_str(w, "message", message);
        view_time(w, "last_at", last_at);
        json_close(w, '}');
    }
    json_close(w, ']');
}
