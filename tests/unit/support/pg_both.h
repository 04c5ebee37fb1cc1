/*
 * For programs whose tests run in both batch modes of a database: the database, and a pool that is
 * open during a test, or during a group of tests. Its timeouts are longer than any pause of the
 * machine.
 */
#ifndef SUPPORT_PG_BOTH_H
#define SUPPORT_PG_BOTH_H

#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

static const char *conninfo; /* the program sets it before its first test */
static struct pg_bench bench;

static enum pg_mode set_mode = PG_MODE_SET, pipe_mode = PG_MODE_PIPE;

/* *state: one of the two modes. */
static inline int open_bench(void **state)
{
    enum { PATIENCE_MS = 60000 };
    struct pg_pool_config config = {.conninfo = conninfo,
                                    .mode = *(const enum pg_mode *)*state,
                                    .queue_timeout_ms = PATIENCE_MS,
                                    .lock_timeout_ms = PATIENCE_MS,
                                    .statement_timeout_ms = PATIENCE_MS};
    pg_bench_open(&bench, &config, true);
    return 0;
}

static inline int close_bench(void **state)
{
    (void)state;
    pg_bench_close(&bench);
    return 0;
}

/* A test in one mode, and in both, with these fixtures: those above, or functions that call them.
 */
#define IN_MODE(test, mode, open, close) \
    cmocka_unit_test_prestate_setup_teardown(test, open, close, &mode)
#define IN_BOTH_BY(test, open, close) \
    IN_MODE(test, set_mode, open, close), IN_MODE(test, pipe_mode, open, close)

#endif
