/*
 * The contents of a server's /metrics at one moment, and the differences between two.
 */
#ifndef CLI_TOP_SAMPLES_H
#define CLI_TOP_SAMPLES_H

#include "base/arena.h"
#include "base/slice.h"

struct sample {
    slice name, labels; /* without braces */
    double value;
};

struct samples {
    struct arena arena;
    struct sample *items;
    size_t count, cap;
};

void samples_init(struct samples *samples);
void samples_deinit(struct samples *samples);
/* Adds the lines of a text in the Prometheus format, which is copied. The series of several
 * processes may be added together. Returns false if out of memory. */
bool samples_add(struct samples *samples, slice text) MUST_CHECK;
/* Returns the sum of the series of that name whose labels contain `label` (`status="503"`; empty:
 * all series). */
double samples_sum(const struct samples *samples, const char *name, slice label);
/* Returns the largest value of the series with that name, or 0 if there is none. */
double samples_max(const struct samples *samples, const char *name);
/* Returns whether both samples are from the same processes, none of which restarted in between. */
bool samples_continue(const struct samples *now, const struct samples *before);
/* Returns the growth of a sum. A counter that is lower than before was restarted, so it grew from
 * 0. */
double samples_growth(const struct samples *now, const struct samples *before, const char *name,
                      slice label);
/* Returns the quantile of a histogram's observations between two samples, in seconds, interpolated
 * within its bucket. It is negative if there are no observations. name: without _bucket. */
double samples_quantile(const struct samples *now, const struct samples *before, const char *name,
                        slice label, double quantile);
/* Returns the value of one label, or SLICE_NONE if it is absent. */
slice samples_label(const struct sample *sample, const char *name);

#endif
