/*
 * A request of a flow is sent only while it is proven that this process owns the flow. The check
 * runs just before the first byte is sent, however late that is. A cancel on another node is
 * acknowledged only when no proof can be valid any more.
 */
#include "seam/seam.h"

#include "machine.h"

enum { HANDSHAKE_MS = 3000, CANCEL_WAIT_MS = EXEC_PROOF_MS + 100 };

static const char *const templates[] = {
    TEMPLATE("write", PUT("a", "start", "")),
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

/* Starts a flow whose call is under way, before any byte of the call has been sent. */
static struct uuid start_write(struct machine *m)
{
    struct uuid id = machine_start(m, "write", "{\"confirm\":true}");
    for (unsigned i = 0; i < 100 && seam_call_count(m->node.http) == 0; i++)
        machine_turn(m, NULL);
    assert_int_equal(seam_call_count(m->node.http), 1);
    return id;
}

/* Lets the time of a handshake pass. The queries of the nodes themselves are still answered. */
static void handshake(struct machine *m)
{
    for (unsigned ms = 0; ms < HANDSHAKE_MS; ms += 100) {
        seam_pass_ms(m->node.loop, 100);
        seam_node_answer(&m->node, &m->store);
    }
}

static void a_quick_handshake_needs_no_query(void **state)
{
    struct machine *m = *state;
    struct uuid id = start_write(m);
    seam_pass_ms(m->node.loop, EXEC_PROOF_MS / 2);
    assert_true(seam_call_send(seam_call(m->node.http, 0)));
    assert_null(seam_query_named(m->node.pool, "flow_rev"));
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
}

static void after_a_long_handshake_the_row_is_checked_and_the_call_continues(void **state)
{
    struct machine *m = *state;
    struct uuid id = start_write(m);
    handshake(m);
    assert_false(seam_call_send(seam_call(m->node.http, 0)));
    seam_settle(m->node.loop);
    assert_int_equal(seam_call_count(m->node.http), 0); /* nothing is sent before the answer */
    seam_rows_answer(&m->store, seam_query_named(m->node.pool, "flow_rev"));
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(machine_count_steps(m, id, true), 1);
}

/* Changes only the row, as another node would. */
static void cancel_row(struct machine *m, struct uuid id)
{
    struct row_flow *row = machine_row(m, id);
    row->flow.status = FLOW_CANCELLED;
    row->flow.owner = (struct uuid){{0}};
    row->flow.rev++;
}

static void a_flow_cancelled_meanwhile_sends_nothing(void **state)
{
    struct machine *m = *state;
    struct uuid id = start_write(m);
    cancel_row(m, id);
    handshake(m);
    assert_false(seam_call_send(seam_call(m->node.http, 0)));
    seam_settle(m->node.loop);
    seam_rows_answer(&m->store, seam_query_named(m->node.pool, "flow_rev"));
    seam_settle(m->node.loop);
    assert_int_equal(seam_call_count(m->node.http), 0);
    assert_int_equal(flow_service_active(m->node.flow), 0); /* the row alone decides */
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_CANCELLED);
}

static void a_database_that_is_away_is_asked_again(void **state)
{
    struct machine *m = *state;
    struct uuid id = start_write(m);
    handshake(m);
    assert_false(seam_call_send(seam_call(m->node.http, 0)));
    seam_settle(m->node.loop);
    seam_query_fail(seam_query_named(m->node.pool, "flow_rev"), ERR_BUSY);
    seam_settle(m->node.loop);
    assert_int_equal(seam_call_count(m->node.http), 0);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(machine_count_steps(m, id, true), 1);
}

static void a_lease_that_ended_meanwhile_sends_nothing(void **state)
{
    struct machine *m = *state;
    (void)start_write(m);
    seam_pool_away_set(m->node.pool, true);
    seam_pass_ms(m->node.loop, 12000); /* longer than the lease */
    assert_false(seam_call_send(seam_call(m->node.http, 0)));
    seam_settle(m->node.loop);
    assert_int_equal(seam_call_count(m->node.http), 0);
    seam_pool_away_set(m->node.pool, false);
}

/* ---- the other side ---- */

/* Lets another node cancel. All queries are answered, but the cancel has to wait. */
static void begin_cancel(struct machine *m, struct seam_node *node, struct uuid id)
{
    seam_run_command(&m->run, node, FLOW_COMMAND_CANCEL, id);
    seam_run_start(&m->run);
    seam_node_answer(node, &m->store);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_CANCELLED);
}

static void end_cancel(struct machine *m, struct seam_node *node)
{
    assert_true(seam_run_has_ended(&m->run));
    assert_int_equal(m->run.answer, FLOW_ANSWER_DONE);
    seam_run_end(&m->run);
    seam_settle(node->loop);
}

static void a_cancel_elsewhere_waits_until_no_proof_is_good(void **state)
{
    struct machine *m = *state;
    struct seam_node other;
    struct uuid id = start_write(m);
    seam_node_open(&other, m->catalog, m->templates, NULL);
    seam_node_join(&other, &m->store);
    begin_cancel(m, &other, id);
    for (unsigned again = 0; again < 2; again++) { /* at first the cancel may not wait yet */
        seam_pass_ms(other.loop, EXEC_PROOF_MS);
        seam_node_answer(&other, &m->store);
        assert_false(seam_run_has_ended(&m->run));
        seam_pass_ms(other.loop, CANCEL_WAIT_MS - EXEC_PROOF_MS);
        seam_node_answer(&other, &m->store);
        end_cancel(m, &other);
        assert_false(again == 0 && seam_call_send(seam_call(m->node.http, 0)));
        if (again == 0)
            begin_cancel(m, &other, id);
    }
    seam_node_answer(&m->node, &m->store);
    assert_int_equal(seam_call_count(m->node.http), 0);
    seam_node_close(&other);
}

static void a_cancel_here_cuts_the_call_without_waiting(void **state)
{
    struct machine *m = *state;
    struct uuid id = start_write(m);
    begin_cancel(m, &m->node, id);
    assert_int_equal(seam_call_count(m->node.http), 0);
    end_cancel(m, &m->node);
}

#define PROOF_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROOF_TEST(a_quick_handshake_needs_no_query),
        PROOF_TEST(after_a_long_handshake_the_row_is_checked_and_the_call_continues),
        PROOF_TEST(a_flow_cancelled_meanwhile_sends_nothing),
        PROOF_TEST(a_database_that_is_away_is_asked_again),
        PROOF_TEST(a_lease_that_ended_meanwhile_sends_nothing),
        PROOF_TEST(a_cancel_elsewhere_waits_until_no_proof_is_good),
        PROOF_TEST(a_cancel_here_cuts_the_call_without_waiting),
    };
    return cmocka_run_group_tests_name("flow/proof", tests, NULL, NULL);
}
