/*
 * The CPU time and memory of this process, for its metrics.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdint.h>

struct process_usage {
    double cpu_s;       /* user and system, all threads, since the start */
    uint64_t rss_bytes; /* resident memory; 0 if the system does not report it */
};

struct process_usage process_usage(void);

#endif
