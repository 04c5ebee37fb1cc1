/*
 * Reads GET /metrics; see sampler.h.
 */
#include "load/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const struct sampler_figure sampler_figures[SAMPLER_FIGURES] = {
    {"process_cpu_seconds_total", "server_cpu_s"},
    {"process_resident_memory_bytes", "server_rss_bytes"},
    {NULL, "server_lag_s_max"},
    {"sluice_loop_turn_cpu_seconds_max", "server_turn_s_max"},
    {"sluice_pg_commits_total", "server_commits"},
};

/* Returns the value of a sample without labels in the Prometheus text format, or -1 if there is
 * none. */
static double find(slice text, slice name)
{
    while (text.ptr) {
        slice line = slice_split(&text, '\n');
        char number[64];
        if (!slice_starts_with(line, name) || line.len <= name.len || line.ptr[name.len] != ' ')
            continue;
        (void)snprintf(number, sizeof(number), "%.*s", SLICE_ARG(slice_from(line, name.len + 1)));
        return strtod(number, NULL);
    }
    return -1;
}

/* Reads the buckets of a histogram: "name{le="0.002"} 18" and so on, with cumulative counts. */
static double take_lags(struct sampler *sampler, slice text)
{
    static const slice prefix = SLICE_INIT("sluice_loop_lag_seconds_bucket{le=\"");
    double before = 0, bound = 0, longest = -1;
    for (size_t i = 0; text.ptr && i < SAMPLER_BUCKETS_MAX;) {
        slice line = slice_split(&text, '\n');
        char part[96];
        if (!slice_starts_with(line, prefix))
            continue;
        (void)snprintf(part, sizeof(part), "%.*s", SLICE_ARG(slice_from(line, prefix.len)));
        const char *count_text = strchr(part, ' ');
        double here = strtod(part, NULL), sum = count_text ? strtod(count_text, NULL) : before;
        bound = isfinite(here) ? here : bound; /* for +Inf the previous bound */
        if (sampler->has_lags && sum - before > sampler->lags[i])
            longest = bound;
        sampler->lags[i++] = sum - before;
        before = sum;
    }
    sampler->has_lags = true;
    return longest;
}

static void on_reply(struct peer *peer, unsigned status, slice body, const char *why)
{
    struct sampler *sampler = peer->owner;
    (void)why;
    sampler->is_busy = false;
    if (status != 200)
        return;
    for (size_t i = 0; i < SAMPLER_FIGURES; i++) {
        const char *metric = sampler_figures[i].metric;
        sampler->last.values[i] = metric ? find(body, slice_cstr(metric))
                                         : take_lags(sampler, body);
    }
}

void sampler_init(struct sampler *sampler, struct loop *loop, const struct peer_target *target,
                  slice key)
{
    *sampler = (struct sampler){.last = {{-1, -1, -1, -1, -1}}, .key = key};
    peer_init(&sampler->peer, loop, target, sampler, on_reply);
}

void sampler_ask(struct sampler *sampler)
{
    char request[1024];
    if (sampler->is_busy)
        return;
    int len = snprintf(request, sizeof(request),
                       "GET /metrics HTTP/1.1\r\nHost: %.*s\r\nAuthorization: Bearer %.*s\r\n\r\n",
                       SLICE_ARG(sampler->peer.target->host), SLICE_ARG(sampler->key));
    sampler->is_busy = true;
    peer_send(&sampler->peer, slice_of(request, (size_t)len), true);
}

void sampler_close(struct sampler *sampler)
{
    peer_close(&sampler->peer);
}
