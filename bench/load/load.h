/*
 * load: one load process. Its connections start operations in a closed loop (the next operation
 * starts when the last has ended) or in an open loop (at a constant rate, whatever the server
 * does). In an open loop, the latency of an operation starts at its scheduled time, so a stall
 * counts for all operations that it delays (no coordinated omission).
 */
#ifndef LOAD_LOAD_H
#define LOAD_LOAD_H

#include "load/histogram.h"
#include "load/options.h"

enum { LOAD_WHY_MAX = 320 };

/* The result of one scenario in the measured time. */
struct load_part {
    uint64_t done, wrong;
    struct histogram latencies;
};

/* The results of a process, in shared memory that the parent has zeroed. */
struct load_result {
    struct load_part parts[SCENARIOS_MAX];
    /* open loop: operations that were scheduled but dropped because LOAD_DUE_MAX were waiting */
    uint64_t dropped;
    double cpu;             /* cores that the process used while measuring */
    double measured_s;      /* closed loop: until the run ended; open loop: the duration */
    char why[LOAD_WHY_MAX]; /* the first failure */
    /* current values since the start, for the progress line and the time line */
    volatile uint64_t live_done, live_wrong;
    volatile uint64_t measured; /* operations in parts so far, which the other processes read */
    /* in the last full second */
    volatile uint64_t second, second_p50_us, second_p99_us, second_max_us;
};

enum { LOAD_DUE_MAX = 1 << 20 };

struct load_plan {
    const struct load_options *options;
    const struct peer_target *target;
    unsigned process;          /* number of this process */
    uint64_t connections;      /* connections of this process */
    uint64_t connection_first; /* the number of its first connection */
    uint64_t start_ns, end_ns; /* when measuring starts and ends, by CLOCK_MONOTONIC */
};

/* Runs until the end. results has an entry for each process; the one of plan->process is filled.
 * If the process could not run, returns a value other than 0 and sets why of its result. */
int load_run(const struct load_plan *plan, struct load_result *results);

#endif
