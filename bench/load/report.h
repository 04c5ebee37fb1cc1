/*
 * The results of a run, as text, as JSON, and as the page report.html that draws the JSON.
 */
#ifndef LOAD_REPORT_H
#define LOAD_REPORT_H

#include "load/load.h"
#include "load/sampler.h"

enum { REPORT_SECONDS_MAX = 100000 };

/* One second of the run, including the warm-up. */
struct report_second {
    double at_s; /* since measuring began; negative in the warm-up */
    double done_per_s, wrong_per_s;
    uint64_t p50_us, p99_us, max_us;
    struct sample server; /* cumulative, as sampled */
};

struct report {
    const struct load_options *options;
    int64_t started_us; /* wall clock */
    double measured_s;
    struct load_part total; /* all scenarios together */
    struct load_part parts[SCENARIOS_MAX];
    uint64_t dropped;
    uint64_t unmeasured; /* ended outside the measured time */
    double cpu, cpu_max; /* cores used by all load processes together, and by the busiest */
    char why[LOAD_WHY_MAX];
    struct report_second *seconds;
    size_t second_count;
};

/* A load process that uses this much of a core may limit the results. */
#define REPORT_CPU_BUSY 0.9

void report_print(const struct report *report);
void report_write_json(const struct report *report, struct buf *out);
/* Writes one file without external resources, so that it can be archived and mailed. */
void report_write_html(const struct report *report, struct buf *out);

#endif
