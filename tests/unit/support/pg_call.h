/*
 * For tests that use the database: a loop with a pool, and queries that a test can start, wait for
 * and read like function calls.
 */
#ifndef SUPPORT_PG_CALL_H
#define SUPPORT_PG_CALL_H

#include "loop/dns.h"
#include "loop/loop.h"
#include "loop/op.h"
#include "pg/pg.h"
#include "support/wait.h"

struct pg_bench {
    struct loop *loop;
    struct dns_resolver *dns;
    struct pg_pool *pool;
};

/* The caller sets config->conninfo and other members; dns is filled in. wait: for a first
 * connection. */
void pg_bench_open(struct pg_bench *bench, const struct pg_pool_config *config, bool wait);
/* Like pg_bench_open, with a pool that another room creates. */
typedef struct pg_pool *pg_pool_maker(struct loop *loop, const struct pg_pool_config *config,
                                      struct err *err);
void pg_bench_open_by(struct pg_bench *bench, pg_pool_maker *make,
                      const struct pg_pool_config *config, bool wait);
/* Frees everything and asserts that no memory is left. */
void pg_bench_close(struct pg_bench *bench);
/* Turn the loop until *flag is true, or is_true(arg) returns true; see support/wait.h. */
#define pg_bench_until(bench_, flag_)               WAIT_UNTIL((bench_)->loop, *(flag_))
#define pg_bench_until_true(bench_, is_true_, arg_) WAIT_UNTIL((bench_)->loop, is_true_(arg_))

/* One query in its own op. Zeroed before use; call_start fills query->params and submits it. */
struct pg_call {
    struct op op;
    struct pg_query query;
    struct pg_bench *bench;
    void (*start)(struct pg_call *call);
    void *arg;
    size_t with_next; /* pg_calls_start only: how many further calls are submitted with this one */
    bool is_submitted;
    bool is_again; /* it may already have been done: pg_query.is_unknown */
    bool is_done;  /* the query has ended; its results stay until pg_call_end */
    bool is_freed; /* the op's memory may be freed */
};

void pg_call_start(struct pg_bench *bench, struct pg_call *call,
                   void (*start)(struct pg_call *call), void *arg);
/* Starts `count` calls in one turn, so that they may share a batch. If the machine is paused for
 * a millisecond, a turn may end after each op. args[i * arg_bytes] is the argument of calls[i]. */
void pg_calls_start(struct pg_bench *bench, struct pg_call *calls, size_t count,
                    void (*start)(struct pg_call *call), void *args, size_t arg_bytes);
/* Starts the call, waits, and returns the query's status. */
int pg_call_run(struct pg_bench *bench, struct pg_call *call, void (*start)(struct pg_call *call),
                void *arg);
/* Waits until `count` calls are done. */
void pg_calls_wait(struct pg_bench *bench, struct pg_call *calls, size_t count);
/* Releases the op and waits until its memory is freed. The call may be used again. */
void pg_call_end(struct pg_call *call);
void pg_calls_end(struct pg_call *calls, size_t count);

#endif
