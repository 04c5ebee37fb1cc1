/*
 * The sequence of an execution, on the seam: its steps from gate to answer, and each kind of
 * failure of each query and call.
 */
#include <stdlib.h>

#include "base/metric.h"
#include "exec/internal.h"
#include "seam/table.h"
#include "seam/walk.h"
#include "unit.h"

static int set_up(void **state)
{
    *state = seam_bench_open(false);
    return 0;
}

static int tear_down(void **state)
{
    return seam_bench_close(*state) ? 0 : -1;
}

static void a_read_is_called_then_recorded_then_answered(void **state)
{
    struct seam_bench *b = *state;
    seam_run_exec(&b->run, &b->node, "get", "{\"q\":\"x\"}");
    seam_run_start(&b->run);
    seam_settle(b->node.loop);
    struct http_call *call = seam_call(b->node.http, 0);
    assert_non_null(call);
    assert_int_equal(seam_query_count(b->node.pool), 0); /* a read has no intent */
    assert_true(slice_eq_cstr(call->url, "https://demo.example/get?q=x"));
    seam_call_reply(call, 200, "{\"items\":[]}");
    seam_settle(b->node.loop);
    assert_false(seam_run_has_ended(&b->run)); /* not before it is recorded */
    struct pg_query *query = seam_query_named(b->node.pool, "execution_insert");
    assert_non_null(query);
    assert_true(pg_value_is(seam_param(query, "status"), "succeeded"));
    seam_rows_answer(&b->store, query);
    seam_settle(b->node.loop);
    assert_int_equal(b->run.out.reason, EXEC_SUCCEEDED);
    seam_run_end(&b->run);
}

/* ---- a confirmed write ---- */

static void start_write(struct seam_bench *b, const char *key)
{
    seam_run_exec(&b->run, &b->node, "put", "{\"a\":1}");
    b->run.exec.is_confirmed = true;
    b->run.exec.idempotency_key = key ? slice_cstr(key) : SLICE_NONE;
    seam_run_start(&b->run);
}

static void a_write_is_claimed_before_it_is_called(void **state)
{
    struct seam_bench *b = *state;
    start_write(b, "k1");
    seam_settle(b->node.loop);
    seam_rows_answer(&b->store, seam_query_named(b->node.pool, "claim_find"));
    seam_settle(b->node.loop);
    struct pg_query *claim = seam_query_named(b->node.pool, "claim_insert");
    assert_non_null(claim);
    assert_int_equal(seam_call_count(b->node.http), 0); /* nothing is sent before the intent is
                                                         * stored */
    seam_rows_answer(&b->store, claim);
    seam_settle(b->node.loop);
    assert_int_equal(seam_call_count(b->node.http), 1);
    seam_call_reply(seam_call(b->node.http, 0), 201, "{\"id\":7}");
    seam_settle(b->node.loop);
    struct pg_query *finish = seam_query_named(b->node.pool, "execution_finish_keep");
    assert_non_null(finish);
    assert_false(seam_run_has_ended(&b->run));
    seam_rows_answer(&b->store, finish);
    seam_settle(b->node.loop);
    assert_int_equal(b->run.out.reason, EXEC_SUCCEEDED);
    assert_true(seam_find_claim(&b->store, seam_account, SLICE("k1"))->is_bound);
    seam_run_end(&b->run);
}

static void an_unconfirmed_write_makes_no_call(void **state)
{
    struct seam_bench *b = *state;
    seam_run_exec(&b->run, &b->node, "put", "{\"a\":1}");
    seam_run_start(&b->run);
    seam_settle(b->node.loop);
    assert_int_equal(seam_call_count(b->node.http), 0);
    assert_int_equal(b->run.out.reason, EXEC_CONFIRMATION_MISSING);
    seam_rows_answer(&b->store, seam_query_named(b->node.pool, "audit_insert"));
    seam_run_end(&b->run);
}

/* ---- after the answer ---- */

static size_t events_lost(void)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    metric_render(&text);
    buf_append_char(&text, '\0');
    const char *line = strstr(text.ptr, "\nsluice_audit_events_lost_total ");
    size_t count = line ? strtoul(line + strlen("\nsluice_audit_events_lost_total "), NULL, 10) : 0;
    buf_deinit(&text);
    return count;
}

static void block_once(struct seam_bench *b)
{
    seam_run_exec(&b->run, &b->node, "put", "{\"a\":1}");
    seam_run_start(&b->run);
    seam_settle(b->node.loop);
    assert_int_equal(b->run.out.reason, EXEC_CONFIRMATION_MISSING);
    seam_run_end(&b->run);
    seam_settle(b->node.loop);
}

/* A shutdown waits until nothing is active. Here the run has ended, and its event is not stored
 * yet. */
static void what_is_to_be_stored_of_a_run_that_ended_is_active(void **state)
{
    struct seam_bench *b = *state;
    block_once(b);
    assert_int_equal(exec_service_active(b->node.exec), 1);
    seam_rows_answer(&b->store, seam_query_named(b->node.pool, "audit_insert"));
    seam_settle(b->node.loop);
    assert_int_equal(exec_service_active(b->node.exec), 0);
    assert_int_equal(events_lost(), 0);
}

static void each_event_that_is_lost_is_counted(void **state)
{
    struct seam_bench *b = *state;
    size_t room = b->node.exec->audits.count_max;
    b->node.exec->audits.count_max = 2;
    for (size_t i = 0; i < 3; i++)
        block_once(b);
    assert_int_equal(events_lost(), 1); /* there was no room */
    seam_query_fail(seam_query_named(b->node.pool, "audit_insert"), ERR_TIMEOUT);
    seam_settle(b->node.loop);
    assert_int_equal(events_lost(), 2);
    exec_service_cancel_all(b->node.exec); /* the time allowed for the shutdown is over */
    seam_settle(b->node.loop);
    assert_int_equal(events_lost(), 3);
    assert_int_equal(exec_service_active(b->node.exec), 0);
    b->node.exec->audits.count_max = room;
}

/* ---- each place, each fault ---- */

enum sequence { READ, KEYED_READ, WRITE, KEYED_WRITE, SEQUENCES };

static void start(struct seam_bench *b, enum sequence which)
{
    bool is_keyed = which == KEYED_READ || which == KEYED_WRITE;
    if (which == WRITE || which == KEYED_WRITE) {
        start_write(b, is_keyed ? "k1" : NULL);
        return;
    }
    seam_run_exec(&b->run, &b->node, "get", "{}");
    b->run.exec.idempotency_key = is_keyed ? SLICE("k1") : SLICE_NONE;
    seam_run_start(&b->run);
}

/* A claim that is in flight although its owner lives and no longer runs it. Executions are
 * cancelled only in a shutdown, after which another process ends the remaining claims. */
static size_t claims_left(struct seam_bench *b)
{
    size_t count = 0;
    for (size_t i = 0; i < b->store.claims.count; i++)
        count += !b->store.claims.items[i].is_bound;
    return count;
}

static bool expect(bool holds, const struct seam_walk *walk, enum sequence which, const char *what)
{
    if (!holds)
        print_error("sequence %d, %s at %s (place %zu): %s\n", which, seam_fault_name(walk->fault),
                    walk->where, walk->place, what);
    return holds;
}

static bool check(struct seam_bench *b, const struct seam_walk *walk, enum sequence which)
{
    const struct exec_outcome *out = &b->run.out;
    bool is_ok = expect(b->run.ended == 1, walk, which, "it has ended once");
    is_ok &= expect(out->reason < EXEC_REASONS, walk, which, "it has an outcome");
    is_ok &= expect(walk->writes <= 1, walk, which, "the write went out twice");
    bool is_cut = walk->place != SIZE_MAX && walk->fault == SEAM_CANCELLED;
    is_ok &= expect(claims_left(b) == 0 || is_cut, walk, which, "a claim is left in flight");
    bool is_recorded = seam_find_execution(&b->store, out->execution_id) != NULL;
    is_ok &= expect(out->reason != EXEC_SUCCEEDED || is_recorded, walk, which,
                    "it succeeded and is not recorded");
    is_ok &= expect(out->reason == EXEC_SUCCEEDED || walk->place != SIZE_MAX, walk, which,
                    "it failed without a fault");
    return is_ok;
}

static size_t walk_once(enum sequence which, size_t place, enum seam_fault fault, bool *is_ok)
{
    void *state;
    assert_int_equal(set_up(&state), 0);
    struct seam_bench *b = state;
    struct seam_walk walk = {.node = &b->node, .store = &b->store, .place = place, .fault = fault};
    start(b, which);
    bool has_ended = expect(seam_walk_until_ended(&walk, &b->run), &walk, which, "it never ends");
    assert_true(has_ended);
    seam_walk_for_ms(&walk, 120000); /* claims that are released later */
    *is_ok &= check(b, &walk, which);
    seam_run_end(&b->run);
    assert_int_equal(tear_down(&state), 0);
    return walk.places;
}

static void fail_at_each_place(enum sequence which)
{
    bool is_ok = true;
    size_t places = walk_once(which, SIZE_MAX, SEAM_REFUSED, &is_ok);
    assert_true(places >= 2);
    for (size_t place = 0; place < places; place++)
        for (unsigned fault = 0; fault < SEAM_FAULTS; fault++)
            (void)walk_once(which, place, (enum seam_fault)fault, &is_ok);
    assert_true(is_ok);
}

static void a_read_may_fail_anywhere(void **state)
{
    (void)state;
    fail_at_each_place(READ);
}

static void a_read_with_a_key_may_fail_anywhere(void **state)
{
    (void)state;
    fail_at_each_place(KEYED_READ);
}

static void a_write_may_fail_anywhere(void **state)
{
    (void)state;
    fail_at_each_place(WRITE);
}

static void a_write_with_a_key_may_fail_anywhere(void **state)
{
    (void)state;
    fail_at_each_place(KEYED_WRITE);
}

/* As the end of a drain does if it comes between two steps. */
static bool cut_before(enum sequence which, size_t step)
{
    void *state;
    assert_int_equal(set_up(&state), 0);
    struct seam_bench *b = state;
    struct seam_walk walk = {.node = &b->node, .store = &b->store, .place = SIZE_MAX};
    seam_table_cancel("exec", step);
    start(b, which);
    assert_true(seam_walk_until_ended(&walk, &b->run));
    bool is_cut = seam_table_has_cancelled();
    assert_int_equal(b->run.out.reason, is_cut ? EXEC_CANCELLED : EXEC_SUCCEEDED);
    seam_run_end(&b->run);
    assert_int_equal(tear_down(&state), 0);
    return is_cut;
}

static void it_is_cancelled_before_each_step(void **state)
{
    (void)state;
    for (enum sequence which = READ; which < SEQUENCES; which++) {
        size_t step = 0;
        while (cut_before(which, step))
            step++;
        assert_true(step > 5);
    }
}

#define EXEC_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EXEC_TEST(a_read_is_called_then_recorded_then_answered),
        EXEC_TEST(a_write_is_claimed_before_it_is_called),
        EXEC_TEST(an_unconfirmed_write_makes_no_call),
        EXEC_TEST(what_is_to_be_stored_of_a_run_that_ended_is_active),
        EXEC_TEST(each_event_that_is_lost_is_counted),
        cmocka_unit_test(a_read_may_fail_anywhere),
        cmocka_unit_test(a_read_with_a_key_may_fail_anywhere),
        cmocka_unit_test(a_write_may_fail_anywhere),
        cmocka_unit_test(a_write_with_a_key_may_fail_anywhere),
        cmocka_unit_test(it_is_cancelled_before_each_step),
    };
    seam_table_watch();
    return cmocka_run_group_tests_name("exec/exec", tests, NULL, NULL);
}
