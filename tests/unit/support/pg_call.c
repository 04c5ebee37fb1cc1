/*
 * The op of a test's call: submit, wait, rest until the test has looked.
 */
#include "support/pg_call.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

enum { WAIT_SECONDS = 300 };

static struct pg_call *call_of(struct op *op)
{
    return CONTAINER_OF(op, struct pg_call, op);
}

static void submit(struct pg_call *call)
{
    call->is_submitted = true;
    call->query.is_unknown = call->is_again;
    call->query.status = call->is_again ? ERR_CLOSED : OK;
    call->start(call);
}

static enum op_result step_submit(struct op *op)
{
    struct pg_call *call = call_of(op);
    if (call->is_submitted) /* by the first one, and it has its answer */
        return OP_NEXT;
    for (size_t i = 0; i <= call->with_next; i++)
        submit(call + i);
    return OP_WAIT;
}

static enum op_result step_rest(struct op *op)
{
    call_of(op)->is_done = true;
    op_hold(op, "the test");
    return OP_WAIT;
}

static const struct op_step steps[] = {{"submit", step_submit, 0}, {"rest", step_rest, 0}};

static void on_cancel(struct op *op)
{
    pg_cancel(&call_of(op)->query);
}

static void on_free(struct op *op)
{
    call_of(op)->is_freed = true;
}

static const struct op_class call_class = {
    .name = "pg_call",
    .steps = steps,
    .step_count = ARRAY_LEN(steps),
    .on_cancel = on_cancel,
    .free = on_free,
};

void pg_call_start(struct pg_bench *bench, struct pg_call *call,
                   void (*start)(struct pg_call *call), void *arg)
{
    call->bench = bench;
    call->start = start;
    call->arg = arg;
    call->is_done = call->is_freed = call->is_submitted = false;
    call->with_next = 0;
    op_start(&call->op, &call_class, bench->loop, NULL, 64 * 1024 * 1024);
}

void pg_calls_start(struct pg_bench *bench, struct pg_call *calls, size_t count,
                    void (*start)(struct pg_call *call), void *args, size_t arg_bytes)
{
    for (size_t i = 0; i < count; i++)
        pg_call_start(bench, &calls[i], start, args ? (char *)args + i * arg_bytes : NULL);
    calls[0].with_next = count - 1;
}

int pg_call_run(struct pg_bench *bench, struct pg_call *call, void (*start)(struct pg_call *call),
                void *arg)
{
    pg_call_start(bench, call, start, arg);
    pg_calls_wait(bench, call, 1);
    return call->query.status;
}

_Noreturn static void die(struct pg_bench *bench, const char *what)
{
    fprintf(stderr, "pg_call: %s; last error: %s\n", what,
            bench->pool ? pg_pool_last_error(bench->pool) : "");
    op_print_all(bench->loop);
    abort();
}

void pg_calls_wait(struct pg_bench *bench, struct pg_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!pg_bench_until(bench, &calls[i].is_done))
            die(bench, "a query does not end");
}

void pg_call_end(struct pg_call *call)
{
    op_release(&call->op);
    if (!pg_bench_until(call->bench, &call->is_freed))
        die(call->bench, "an op does not end");
}

void pg_calls_end(struct pg_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        op_release(&calls[i].op);
    for (size_t i = 0; i < count; i++)
        if (!pg_bench_until(calls[i].bench, &calls[i].is_freed))
            die(calls[i].bench, "an op does not end");
}

static bool is_set(void *flag)
{
    return *(const bool *)flag;
}

/* A timer that makes the loop turn now and then, so that a wait can end. */
static void on_tick(struct timer *timer)
{
    timer_start_in_ms(timer, 20);
}

bool pg_bench_until_true(struct pg_bench *bench, bool (*is_true)(void *arg), void *arg)
{
    struct timer tick;
    uint64_t until_ns = clock_mono_ns() + (uint64_t)WAIT_SECONDS * 1000 * 1000 * 1000;
    if (is_true(arg))
        return true;
    timer_init(&tick, bench->loop, on_tick);
    timer_start_in_ms(&tick, 20);
    while (!is_true(arg) && clock_mono_ns() < until_ns)
        loop_turn(bench->loop, true);
    timer_stop(&tick);
    return is_true(arg);
}

bool pg_bench_until(struct pg_bench *bench, const bool *flag)
{
    return pg_bench_until_true(bench, is_set, (void *)flag);
}

static bool is_ready(void *pool)
{
    return pg_pool_is_ready(pool);
}

void pg_bench_open(struct pg_bench *bench, const struct pg_pool_config *config, bool wait)
{
    struct err err;
    struct pg_pool_config with_dns = *config;
    *bench = (struct pg_bench){.loop = loop_new(&err)};
    bench->dns = bench->loop ? dns_resolver_new(bench->loop, &(struct dns_config){0}) : NULL;
    with_dns.dns = bench->dns;
    bench->pool = bench->dns ? pg_pool_new(bench->loop, &with_dns, &err) : NULL;
    if (!bench->pool) {
        fprintf(stderr, "pg_bench_open: %s\n", err.text);
        abort();
    }
    if (wait && !pg_bench_until_true(bench, is_ready, bench->pool))
        die(bench, "the pool does not come up");
}

static bool has_no_ops(void *loop)
{
    return op_count(loop) == 0;
}

void pg_bench_close(struct pg_bench *bench)
{
    pg_pool_free(bench->pool);
    bench->pool = NULL;
    if (!pg_bench_until_true(bench, has_no_ops, bench->loop))
        die(bench, "an op does not end");
    dns_resolver_free(bench->dns);
    loop_free(bench->loop);
}
