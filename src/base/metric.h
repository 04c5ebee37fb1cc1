/*
 * Counters, gauges and histograms in the Prometheus text format (0.0.4). Each is a static struct
 * that registers itself on first use. Labels are a text made by the caller
 * (`method="GET",status="200"`, or with metric_label), limited in number per family. Loop thread
 * only.
 */
#ifndef BASE_METRIC_H
#define BASE_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
enum {
    METRIC_BUCKETS = 20,      /* histograms: 1, 2 and 5 of each decade, 50 us to 100 s, then +Inf */
    METRIC_SERIES_MAX = 1024, /* label combinations per family; further ones are counted under
                               * other="true" */
    METRIC_LABELS_MAX = 512,  /* bytes of a label text */
};

struct metric_series;

/* Static: static struct metric requests =
 *     METRIC_INIT("sluice_http_requests_total", "HTTP requests answered.", METRIC_COUNTER);
 * name follows [a-zA-Z_:][a-zA-Z0-9_:]*; the rest belongs to metric.c. */
struct metric {
    const char *name, *help;
    enum metric_kind kind;
    struct metric_series *series, *series_last; /* in order of first use */
    size_t series_count;
    struct metric_series *plain;  /* the series without labels, once it was requested */
    struct metric_series *recent; /* the series used last, usually the next one, too */
    struct metric *next;
    bool is_registered;
};

#define METRIC_INIT(name_, help_, kind_)                  \
    {                                                     \
        .name = (name_), .help = (help_), .kind = (kind_) \
    }

/* Returns the series with these labels ("" for none), which is made if it is new; never NULL (a
 * shared spare if out of memory). Keep the pointer: it is valid until metric_deinit. Labels that
 * are malformed or over METRIC_LABELS_MAX count as other="true". */
struct metric_series *metric_series(struct metric *metric, slice labels);
/* Appends name="value", with a comma in front if out is not empty, and escapes the value; for
 * values that are not constants. */
void metric_label(struct buf *out, const char *name, slice value);
/* value >= 0, because counters only go up. Neither metric_add nor metric_set is for histograms. */
void metric_add(struct metric_series *series, double value);
void metric_set(struct metric_series *series, double value);
/* Returns the value of a counter or gauge, or the number of observations of a histogram. */
double metric_get(const struct metric_series *series);
/* Adds one observation to a histogram, in nanoseconds; exported in seconds. */
void metric_observe_ns(struct metric_series *series, uint64_t ns);
/* These are shorthands for the series without labels. */
void metric_inc(struct metric *metric);
void metric_time(struct metric *metric, uint64_t ns);
/* Appends all families, in order of first use. */
void metric_render(struct buf *out);
/* Frees all series and forgets all families; pointers to series become invalid. */
void metric_deinit(void);

#endif
