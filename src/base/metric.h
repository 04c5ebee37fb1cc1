/*
 * Counters, gauges and histograms in the Prometheus text format (0.0.4). Each is a static struct
 * that registers itself on first use; labels are a constant text made by the caller
 * (`method="GET",status="200"`), bounded per family. Loop thread only.
 */
#ifndef BASE_METRIC_H
#define BASE_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
enum {
    METRIC_BUCKETS = 22,     /* histograms: 50 us * 2^k, so 50 us to about 105 s, then +Inf */
    METRIC_SERIES_MAX = 512, /* label combinations a family; further ones fall into label
                                other="true" */
};

struct metric_series;

/* static struct metric requests = {"sluice_http_requests_total", "HTTP requests answered.",
 *                                  METRIC_COUNTER}; */
struct metric {
    const char *name, *help;
    enum metric_kind kind;
    struct metric_series *series; /* a list; found through a map in metric.c */
    struct metric *next;
    bool is_registered;
};

/* The series with these labels ("" for none), made when new; never NULL (falls back to a shared
 * spare when out of memory). Keep the pointer: it lives until metric_deinit. */
struct metric_series *metric_series(struct metric *metric, slice labels);
void metric_add(struct metric_series *series, double value);
void metric_set(struct metric_series *series, double value);
double metric_get(const struct metric_series *series);
/* Histograms: one observation, in nanoseconds; shown in seconds. */
void metric_observe_ns(struct metric_series *series, uint64_t ns);
/* Shorthands for the series without labels. */
void metric_inc(struct metric *metric);
void metric_time(struct metric *metric, uint64_t ns);
void metric_render(struct buf *out);
void metric_deinit(void);

#endif
