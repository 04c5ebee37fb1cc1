/*
 * The op of a test's call: it submits the query, waits, and is then idle until the test has read
 * the result.
 */
#include "support/pg_call.h"

#include <stdio.h>
#include <stdlib.h>

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
    if (call->is_submitted) /* already done by the first call, which has its answer */
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

static void on_free(struct op *op)
{
    call_of(op)->is_freed = true;
}

static const struct op_class call_class = {
    .name = "pg_call",
    .steps = steps,
    .step_count = ARRAY_LEN(steps),
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

void pg_calls_wait(struct pg_bench *bench, struct pg_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        WAIT_UNTIL(bench->loop, calls[i].is_done);
}

void pg_call_end(struct pg_call *call)
{
    pg_calls_end(call, 1);
}

void pg_calls_end(struct pg_call *calls, size_t count)
{
    for (size_t i = 0; i < count; i++)
        op_release(&calls[i].op);
    for (size_t i = 0; i < count; i++)
        WAIT_UNTIL(calls[i].bench->loop, calls[i].is_freed);
}

void pg_bench_open(struct pg_bench *bench, const struct pg_pool_config *config, bool wait)
{
    pg_bench_open_by(bench, pg_pool_new, config, wait);
}

void pg_bench_open_by(struct pg_bench *bench, pg_pool_maker *make,
                      const struct pg_pool_config *config, bool wait)
{
    struct err err;
    struct pg_pool_config with_dns = *config;
    *bench = (struct pg_bench){.loop = loop_new(&err)};
    bench->dns = bench->loop ? dns_resolver_new(bench->loop, &(struct dns_config){0}) : NULL;
    with_dns.dns = bench->dns;
    bench->pool = bench->dns ? make(bench->loop, &with_dns, &err) : NULL;
    if (!bench->pool) {
        fprintf(stderr, "pg_bench_open: %s\n", err.text);
        abort();
    }
    if (wait)
        WAIT_UNTIL(bench->loop, pg_pool_is_ready(bench->pool));
}

void pg_bench_close(struct pg_bench *bench)
{
    pg_pool_free(bench->pool);
    bench->pool = NULL;
    WAIT_UNTIL(bench->loop, op_count(bench->loop) == 0);
    dns_resolver_free(bench->dns);
    loop_free(bench->loop);
}
