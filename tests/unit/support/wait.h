/*
 * Waiting for a condition that the loop makes true. A wait that nothing can end any more prints
 * what waits, and ends the program, after a second; that is no matter of the machine's speed.
 * Nothing can end it when
 *   - no callback and no task has run in fifty rounds of 20 ms in a row,
 *   - no timer of the loop is due within five seconds (no healthy test waits for so long),
 *   - no work is on a thread (a test that makes threads of its own does not wait for them so), and
 * no child but PostgreSQL is there to do something,
 *   - none of our TCP connections has bytes under way,
 *   - and PostgreSQL, if the program has one, has all that it was asked for answered.
 * Where one of these is in doubt it goes on; after three seconds it says so, after 300 it ends.
 */
#ifndef TESTS_SUPPORT_WAIT_H
#define TESTS_SUPPORT_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "loop/loop.h"

struct wait {
    struct loop *loop;
    const char *what, *file;
    int line;
    uint64_t began_ns;
    unsigned quiet; /* rounds without an event */
    bool is_noted;
};

void wait_begin(struct wait *wait, struct loop *loop, const char *what, const char *file, int line);
/* Turns the loop once, and blocks until something is ready, for 20 ms at most. */
void wait_turn(struct wait *wait);

#define WAIT_UNTIL(loop_, condition)                                 \
    do {                                                             \
        struct wait wait_;                                           \
        wait_begin(&wait_, (loop_), #condition, __FILE__, __LINE__); \
        while (!(condition))                                         \
            wait_turn(&wait_);                                       \
    } while (0)

/* What the loop does not know of: whether it is still at work on something. Describes that in out
 * (may be NULL), a line each. Set by what starts PostgreSQL. */
extern bool (*wait_for_database)(FILE *out);

#endif
