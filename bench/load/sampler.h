/*
 * sampler: reads the server's own metrics once a second while it is under load, with GET /metrics.
 * A server without /metrics is measured without these figures.
 */
#ifndef LOAD_SAMPLER_H
#define LOAD_SAMPLER_H

#include "load/peer.h"

enum { SAMPLER_FIGURES = 5 };

/* A server figure in a sample. */
struct sampler_figure {
    /* the server's metric; NULL: the upper bound of the highest bucket of sluice_loop_lag_seconds
     * that has counted a turn since the last sample */
    const char *metric;
    const char *key; /* the key in the JSON report */
};
extern const struct sampler_figure sampler_figures[SAMPLER_FIGURES];

/* Values in the order of sampler_figures; negative: unknown. */
struct sample {
    double values[SAMPLER_FIGURES];
};

enum { SAMPLER_BUCKETS_MAX = 40 };

struct sampler {
    struct peer peer;
    struct sample last;
    double lags[SAMPLER_BUCKETS_MAX]; /* turns in each bucket, not cumulative */
    bool is_busy, has_lags;
    slice key;
};

void sampler_init(struct sampler *sampler, struct loop *loop, const struct peer_target *target,
                  slice key);
/* Sends a request unless one is in progress. The reply is stored in `last` when it arrives. */
void sampler_ask(struct sampler *sampler);
void sampler_close(struct sampler *sampler);

#endif
