/*
 * The table of the timers: which are in memory, which are scanned for, and what happens if a scan
 * fails or there is no room for another run.
 */
#include "seam/seam.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/metric.h"
#include "machine.h"

/* Sorted by key, as in a template set. */
static const char *const templates[] = {
    TEMPLATE("pause", WAIT("a", "\"${input.n}\"")),
    NULL,
};

static int set_up(void **state)
{
    *state = machine_new(templates);
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

/* Starts a flow that waits and is in no heap, since its server is dead. */
static struct uuid wait_elsewhere(struct machine *m, const char *input)
{
    struct uuid id = machine_start(m, "pause", input);
    machine_restart(m);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_WAITING);
    return id;
}

static void they_fire_in_their_order(void **state)
{
    struct machine *m = *state;
    struct uuid late = machine_start(m, "pause", "{\"confirm\":true,\"n\":30}");
    struct uuid early = machine_start(m, "pause", "{\"confirm\":true,\"n\":10}");
    struct uuid middle = machine_start(m, "pause", "{\"confirm\":true,\"n\":20}");
    uint64_t began_ns = seam_now_ns();
    machine_until(m, early, FLOW_COMPLETED);
    assert_in_range(seam_now_ns() - began_ns, UINT64_C(9000000000), UINT64_C(11000000000));
    assert_int_equal(machine_row(m, middle)->flow.status, FLOW_WAITING);
    machine_until(m, middle, FLOW_COMPLETED);
    assert_int_equal(machine_row(m, late)->flow.status, FLOW_WAITING);
    machine_until(m, late, FLOW_COMPLETED);
    assert_in_range(seam_now_ns() - began_ns, UINT64_C(29000000000), UINT64_C(31000000000));
}

static void one_beyond_the_next_minute_is_found_by_a_scan(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "pause", "{\"confirm\":true,\"n\":300}");
    uint64_t began_ns = seam_now_ns();
    machine_until(m, id, FLOW_COMPLETED);
    assert_in_range(seam_now_ns() - began_ns, UINT64_C(299000000000), UINT64_C(301000000000));
}

static void one_of_another_server_is_found(void **state)
{
    struct machine *m = *state;
    machine_until(m, wait_elsewhere(m, "{\"confirm\":true,\"n\":40}"), FLOW_COMPLETED);
}

/* The heap is empty and marked as incomplete. Overdue flows are found nevertheless. */
static void a_scan_that_fails_is_made_again(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "pause", "{\"confirm\":true,\"n\":3}");
    seam_node_close(&m->node);
    seam_node_open(&m->node, m->catalog, m->templates, NULL);
    seam_rows_answer(&m->store, machine_query(m, "node_register"));
    seam_query_fail(machine_query(m, "due_scan"), ERR_TIMEOUT);
    seam_query_fail(machine_query(m, "due_scan"), ERR_BUSY);
    machine_until(m, id, FLOW_COMPLETED);
}

/* How long the first due flow has waited, as the metrics say. */
static double overdue_s(void)
{
    static const char name[] = "sluice_due_overdue_seconds{of=\"flow\"} ";
    struct buf text;
    buf_init(&text, 1024 * 1024);
    metric_render(&text);
    buf_append_char(&text, '\0');
    const char *found = strstr(text.ptr, name);
    assert_non_null(found);
    double seconds = strtod(found + sizeof(name) - 1, NULL);
    buf_deinit(&text);
    return seconds;
}

static void without_room_it_waits_for_a_run_to_end(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "pause", "{\"confirm\":true,\"n\":5}");
    m->node.flow->config.runs_max = 0;
    seam_walk_for_ms(&m->walk, 60000);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_WAITING);
    assert_true(overdue_s() > 50 && overdue_s() < 56); /* it is due since 55 s; a scan measures */
    m->node.flow->config.runs_max = 1;
    flow_service_fire_timers(m->node.flow);
    machine_until(m, id, FLOW_COMPLETED);
    seam_walk_for_ms(&m->walk, 5000);
    assert_true(overdue_s() == 0);
}

/* After the lease has expired, no timer fires under it, and there is no scan. */
static void a_server_that_may_not_write_is_idle(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "pause", "{\"confirm\":true,\"n\":25}");
    seam_move_to_ns(seam_now_ns() + UINT64_C(20000000000));
    seam_settle(m->node.loop);
    for (unsigned i = 0; i < 100; i++) { /* only the heartbeat is allowed */
        assert_null(seam_query_named(m->node.pool, "flow_wake"));
        (void)seam_pass_timer(m->node.loop, 100);
    }
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_WAITING);
    machine_until(m, id, FLOW_COMPLETED);
}

static void two_servers_go_for_the_same_one(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "pause", "{\"confirm\":true,\"n\":5}");
    struct pg_query *wake = machine_query(m, "flow_wake");
    machine_row(m, id)->flow.rev++; /* another node has taken the flow */
    machine_row(m, id)->flow.status = FLOW_RUNNING;
    machine_row(m, id)->flow.waiting_for = FLOW_WAITS_NOT;
    machine_row(m, id)->flow.owner = uuid_v7();
    seam_rows_answer(&m->store, wake);
    seam_walk_for_ms(&m->walk, 1000);
    assert_int_equal(flow_service_active(m->node.flow), 0);
    assert_int_equal(machine_count_steps(m, id, true), 0);
}

/* More timers than a page fire within the next minute. */
static void a_scan_continues_after_its_page(void **state)
{
    struct machine *m = *state;
    struct row_flow row = *machine_row(m, wait_elsewhere(m, "{\"confirm\":true,\"n\":50}"));
    for (unsigned i = 0; i < DUE_SCAN_MAX + 10; i++) {
        row.flow.id = uuid_v7();
        row.flow.wake_at = clock_wall_us() + 40000000 + i;
        *ROW_ADD(&m->store, flows) = row;
    }
    machine_restart(m);
    seam_walk_for_ms(&m->walk, 5000);
    struct pg_query *due = machine_query(m, "due_scan");
    assert_true(seam_time(due, "until") < clock_wall_us()); /* all timers of the minute are in
                                                             * memory */
    m->store.flows.count = 0;
}

static void a_drain_fires_nothing(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "pause", "{\"confirm\":true,\"n\":5}");
    flow_service_drain(m->node.flow);
    seam_walk_for_ms(&m->walk, 20000);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_WAITING);
}

static void every_step_and_jump_was_taken(void **state)
{
    (void)state;
    assert_int_equal(seam_table_missing("due"), 0);
}

#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_MACHINE(they_fire_in_their_order),
        ON_A_MACHINE(one_beyond_the_next_minute_is_found_by_a_scan),
        ON_A_MACHINE(one_of_another_server_is_found),
        ON_A_MACHINE(a_scan_that_fails_is_made_again),
        ON_A_MACHINE(without_room_it_waits_for_a_run_to_end),
        ON_A_MACHINE(a_server_that_may_not_write_is_idle),
        ON_A_MACHINE(two_servers_go_for_the_same_one),
        ON_A_MACHINE(a_scan_continues_after_its_page),
        ON_A_MACHINE(a_drain_fires_nothing),
        cmocka_unit_test(every_step_and_jump_was_taken),
    };
    seam_table_watch();
    return cmocka_run_group_tests_name("flow/timers", tests, NULL, NULL);
}
