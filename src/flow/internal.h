/*
 * What the files of this room share: the service, and a flow that runs.
 */
#ifndef FLOW_INTERNAL_H
#define FLOW_INTERNAL_H

#include "base/map.h"
#include "base/metric.h"
#include "flow/flow.h"

struct flow_run;
struct flow_timers;
struct flow_adopter;
struct flow_watches;

enum {
    FLOW_RUNS_MAX = 2000, /* default of flow_config.runs_max */
    FLOW_RUN_ARENA_MAX = 128 * 1024 * 1024,
    FLOW_OUTPUT_BYTES_MAX = 1024 * 1024, /* of a step */
    FLOW_POISON_ADOPTIONS = 5,
};

struct flow_service {
    struct flow_config config;
    struct map by_id; /* flow id -> struct flow_run, the one that may go on */
    struct list runs; /* struct flow_run.link: all, also those that were lost */
    size_t run_count;
    size_t taking;      /* takes under way, which may become runs */
    struct map pinned;  /* version -> struct flow_template, those in use (pinned.c) */
    struct list unused; /* pinned.c */
    struct flow_timers *timers;
    struct flow_adopter *adopter;
    struct flow_watches *watches;
    bool is_draining;
    bool has_strays; /* something of ours may be in no memory: look at the rows */
};

/* watch.c. NULL: out of memory. Free: nobody may be watching (asserted). */
struct flow_watches *flow_watches_new(struct flow_service *service) MUST_CHECK;
void flow_watches_free(struct flow_watches *watches);
/* On the way down: its op ends. */
void flow_watches_stop(struct flow_watches *watches);

#endif
