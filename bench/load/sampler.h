/*
 * sampler: the server's own metrics while it is under load, once a second, from its GET /metrics. A
 * server without /metrics is measured without these figures.
 */
#ifndef LOAD_SAMPLER_H
#define LOAD_SAMPLER_H

#include "load/peer.h"

/* Negative: not known. */
struct sample {
    double cpu_s;      /* process_cpu_seconds_total */
    double rss_bytes;  /* process_resident_memory_bytes */
    double turn_s_max; /* sluice_loop_turn_cpu_seconds_max, since the server's start */
    double commits;    /* sluice_pg_commits_total */
    /* Of the turns since the sample before, the bound of the highest bucket of
     * sluice_loop_lag_seconds in which there is one: no turn took longer. */
    double lag_s_max;
};

enum { SAMPLER_BUCKETS_MAX = 40 };

struct sampler {
    struct peer peer;
    struct sample last;
    double lags[SAMPLER_BUCKETS_MAX]; /* turns in each bucket, not summed up */
    bool is_busy, has_lags;
    slice key;
};

void sampler_init(struct sampler *sampler, struct loop *loop, const struct peer_target *target,
                  slice key);
/* Sends a request unless one is under way; the reply is in `last` some time later. */
void sampler_ask(struct sampler *sampler);
void sampler_close(struct sampler *sampler);

/* The value of a sample without labels in the Prometheus text format; -1 when there is none. */
double sampler_find(slice text, slice name);

#endif
