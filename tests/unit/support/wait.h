/*
 * Waiting for a condition that the loop makes true. If nothing can end a wait any more, it prints
 * what waits, and ends the program, after a second. This does not depend on the machine's speed.
 * Nothing can end a wait if
 *
 *   - no callback and no task has run in fifty successive rounds of 20 ms,
 *   - no timer of the loop is due within five seconds (no healthy test waits for that long),
 *   - no work is on a thread (a test does not wait like this for threads of its own),
 *   - there is no child process except PostgreSQL,
 *   - none of our TCP connections has bytes under way,
 *   - and PostgreSQL, if the program has one, has answered all requests.
 *
 * If one of these is in doubt, the wait continues. After three seconds it says so, and after 300 it
 * ends.
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
/* Turns the loop once, and blocks until something is ready, but at most 20 ms. */
void wait_turn(struct wait *wait);

#define WAIT_UNTIL(loop_, condition)                                 \
    do {                                                             \
        struct wait wait_;                                           \
        wait_begin(&wait_, (loop_), #condition, __FILE__, __LINE__); \
        while (!(condition))                                         \
            wait_turn(&wait_);                                       \
    } while (0)

/* Whether work that the loop does not know of is still under way. Describes the work in out (may
 * be NULL), one line each. Set by the code that starts PostgreSQL. */
extern bool (*wait_for_database)(FILE *out);

#endif
