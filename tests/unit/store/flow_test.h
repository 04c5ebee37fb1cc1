/*
 * For the tests of flows: a current flow, its transitions, the calls, and both modes of a database.
 */
#ifndef STORE_FLOW_TEST_H
#define STORE_FLOW_TEST_H

#include "base/clock.h"
#include "store/flow_read.h"
#include "store/node.h"
#include "support/pg_both.h"

enum { CALLS_MAX = 64, SECOND_US = 1000000 };

static struct pg_call *calls;
static struct uuid account, node, other;

/* The current call's subject. */
static struct flow flow, got;
static struct flow_step step;
static struct flow_move move;
static struct flow_take take;
static struct flow_reject reject;
static struct uuid token;  /* a cancel's token */
static slice trace, title; /* start only; most have neither */
static slice key;          /* start only; mostly empty */
static struct uuid key_holder;

/* arg: the flow, or NULL for the current one. */
static inline void start_start(struct pg_call *c)
{
    const struct flow *wanted = c->arg ? c->arg : &flow;
    static struct claim claim; /* its fingerprint is borrowed */
    claim = (struct claim){
        .key = key, .execution_id = wanted->id, .owner = key_holder, .lifetime_ms = 3600 * 1000};
    struct flow_start begun = {
        .flow = wanted,
        .input = SLICE("{\"a\":1}"),
        .actor = SLICE("me"),
        .waiting_input = wanted->status == FLOW_WAITING ? SLICE("{\"title\":\"shown\"}")
                                                        : SLICE_NONE,
        .trace = trace,
        .title = title,
        .claim = key.ptr ? &claim : NULL,
    };
    store_flow_start(c->bench->pool, &c->query, &c->op, &begun);
}

static inline void start_move(struct pg_call *c)
{
    store_flow_move(c->bench->pool, &c->query, &c->op, c->arg ? c->arg : &move);
}

static inline void start_take(struct pg_call *c)
{
    store_flow_take(c->bench->pool, &c->query, &c->op, c->arg ? c->arg : &take);
}

static inline void start_cancel(struct pg_call *c)
{
    store_flow_cancel(c->bench->pool, &c->query, &c->op, account, flow.id, token, clock_wall_us(),
                      uuid_v7());
}

static inline void start_reject(struct pg_call *c)
{
    store_flow_reject(c->bench->pool, &c->query, &c->op, &reject);
}

static inline void run(void (*start)(struct pg_call *c), void *arg)
{
    int status = pg_call_run(&bench, &calls[0], start, arg);
    if (status != OK)
        print_error("%s: %.*s\n", calls[0].query.stmt->name, SLICE_ARG(calls[0].query.message));
    assert_int_equal(status, OK);
}

static inline int moved(void)
{
    run(start_move, NULL);
    int status = store_hit_result(&calls[0].query);
    pg_call_end(&calls[0]);
    return status;
}

/* Sends the move again, marked as a replay. */
static inline int moved_again(void)
{
    calls[0].is_again = true;
    int status = moved();
    calls[0].is_again = false;
    return status;
}

static inline int taken(enum flow_take_kind kind)
{
    take.kind = kind;
    take.account_id = account;
    take.id = flow.id;
    take.now = clock_wall_us();
    run(start_take, NULL);
    int status = store_flow_take_result(&calls[0].query, &got);
    pg_call_end(&calls[0]);
    return status;
}

static inline struct flow new_flow(void)
{
    int64_t now = clock_wall_us();
    return (struct flow){.account_id = account,
                         .id = uuid_v7(),
                         .template_key = SLICE("t"),
                         .template_version = uuid_v7(),
                         .trigger_type = SLICE("manual"),
                         .status = FLOW_RUNNING,
                         .rev = 1,
                         .owner = node,
                         .attempt = 1,
                         .is_begun = true,
                         .created_at = now,
                         .updated_at = now};
}

/* Makes a running flow of this node whose first step has begun. */
static inline void begin(void)
{
    flow = new_flow();
    take = (struct flow_take){.owner = node, .op_token = uuid_v7(), .step_index = -1};
    run(start_start, NULL);
    pg_call_end(&calls[0]);
}

/* Ends a flow that waits for a person. */
static inline struct flow_reject new_reject(slice error)
{
    return (struct flow_reject){.account_id = account,
                                .id = flow.id,
                                .op_token = uuid_v7(),
                                .step_index = -1,
                                .now = clock_wall_us(),
                                .error = error};
}

/* Makes the next transition, in which the current attempt has ended. */
static inline void finish_into(enum flow_status status)
{
    step =
        (struct flow_step){.step_index = flow.step_index,
                           .attempt = flow.attempt,
                           .is_completed = status != FLOW_FAILED,
                           .started_at = flow.created_at,
                           .finished_at = clock_wall_us(),
                           .input = SLICE("{}"),
                           .output = status != FLOW_FAILED ? SLICE("[\"\\u0000\"]") : SLICE_NONE,
                           .error = status == FLOW_FAILED ? SLICE("{\"code\":\"x\"}") : SLICE_NONE};
    flow.rev++;
    flow.status = status;
    flow.step_index += status != FLOW_FAILED;
    flow.updated_at = clock_wall_us();
    move =
        (struct flow_move){.next = &flow, .owner = node, .op_token = uuid_v7(), .finished = &step};
}

static inline void park(enum flow_waiting why, int64_t wake_at)
{
    finish_into(FLOW_WAITING);
    flow.waiting_for = why;
    flow.wake_at = wake_at;
    flow.is_begun = false;
    move.waiting_input = SLICE("{\"title\":\"shown\"}");
    assert_int_equal(moved(), OK);
}

/* Ends the pause of the flow: the next step begins, or the flow ends. */
static inline void wake_into(enum flow_status status)
{
    finish_into(status);
    flow.waiting_for = FLOW_WAITS_NOT;
    flow.is_begun = status == FLOW_RUNNING;
    flow.attempt = 1;
    move.is_wake = true;
}

/* The number of rows of this flow that meet a condition. */
static inline int64_t count(const char *table, const char *condition)
{
    char sql[512], id[UUID_TEXT_LEN + 1];
    uuid_format(flow.id, id);
    snprintf(sql, sizeof(sql), "select count(*) from sluice.%s where %s = '%s' and (%s)", table,
             strcmp(table, "flow") == 0 ? "id" : "flow_id", id, condition);
    return items_ask(conninfo, sql);
}

static inline void open_accounts(void)
{
    account = uuid_v7();
    node = uuid_v7();
    other = uuid_v7();
}

/* Fixtures of a group of tests in one mode. close_bench ends them. */
static inline int open_set(void **state)
{
    open_accounts();
    *state = &set_mode;
    return open_bench(state);
}

static inline int open_pipe(void **state)
{
    open_accounts();
    *state = &pipe_mode;
    return open_bench(state);
}

static inline void tests_begin(void)
{
    conninfo = pg_cluster_database(true);
    calls = mem_calloc(CALLS_MAX, sizeof(*calls));
}

/* The return value of main. */
static inline int tests_end(int failed)
{
    mem_free(calls);
    return unit_result(failed);
}

#endif
