/*
 * walk: goes through a sequence in which everything is answered well, except that one place has a
 * fault. A test counts the places once, and then fails each of them in each way:
 *
 *   struct seam_walk walk = {.node = &node, .store = &store, .place = SIZE_MAX};
 *   seam_walk_until_ended(&walk, &run);         // walk.places: how many queries and calls
 *   for (place = 0; place < walk.places; place++)
 *       for (fault = 0; fault < SEAM_FAULTS; fault++)
 *           ... the same again with .place and .fault, then the invariants
 *
 * Places are the waits of the work itself. A node's periodic queries (heartbeats, scans) are
 * answered and not counted. walk.sent counts the requests whose first byte was sent, walk.writes
 * those that may change something.
 */
#ifndef TESTS_SEAM_WALK_H
#define TESTS_SEAM_WALK_H

#include "seam/node.h"

/* What a test of sequences uses: a node, its database, one run. A test's state points to it. */
struct seam_bench {
    struct catalog *catalog;
    struct flow_template_set *templates; /* NULL: none */
    struct seam_node node;
    struct seam_store store;
    struct seam_run run;
};

/* Opens the seam with the demo app and, if is_flow, the demo template. seam_bench_close ends
 * everything, and returns false if something is left. */
struct seam_bench *seam_bench_open(bool is_flow);
bool seam_bench_close(struct seam_bench *bench);

enum seam_fault {
    SEAM_REFUSED,     /* a query: never sent. A call: no connection */
    SEAM_ROLLED_BACK, /* a query: timed out in the database. A call: no handshake */
    SEAM_LOST_UNDONE, /* a query: the connection is lost before the commit. A call: cut at its
                         first byte */
    SEAM_LOST_DONE,   /* a query: the connection is lost after the commit. A call: done, cut within
                         the reply */
    SEAM_UNKNOWN_UNDONE, /* like SEAM_LOST_UNDONE, but not sent again. A call: no reply arrives */
    SEAM_UNKNOWN_DONE,   /* like SEAM_LOST_DONE, but not sent again. A call: the reply is garbage */
    SEAM_LATE,           /* answered after some seconds */
    SEAM_CANCELLED,      /* it is cancelled now and answered afterwards */
    SEAM_LEFT,           /* its client disconnects now, and it is answered afterwards */
    SEAM_FAULTS
};
const char *seam_fault_name(enum seam_fault fault);

struct seam_walk {
    struct seam_node *node;
    struct seam_store *store;
    size_t place; /* where the fault is; SIZE_MAX: nowhere */
    enum seam_fault fault;
    const char *reply; /* the body of each call's reply, with status 200; NULL: {} */
    /* out */
    size_t places;
    size_t sent, writes; /* requests whose first byte was sent, and those of them that are not
                          * GET */
    char where[64];      /* the statement or the request at the place */
    bool is_call, is_hit;
};

/* Runs until the run has ended. Returns false, and prints the run, if it has not ended within ten
 * minutes. */
bool seam_walk_until_ended(struct seam_walk *walk, struct seam_run *run);
/* Runs for that long, for background work. */
void seam_walk_for_ms(struct seam_walk *walk, uint64_t ms);
/* Runs until the flow has that status or any final status. Returns whether it has that status. */
bool seam_walk_until_status(struct seam_walk *walk, struct uuid flow_id, enum flow_status status);

#endif
