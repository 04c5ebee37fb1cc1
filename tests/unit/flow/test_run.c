/*
 * The table of a running flow: every step and jump. Each template also runs with each kind of
 * failure at each query and call, with a kill and an adoption there, and with a cancel by a person
 * there.
 */
#include <stdio.h>

#include "seam/seam.h"

#include "held.h"

/* Sorted by key, as in a template set. */
static const char *const templates[] = {
    TEMPLATE("ask", ASK("a", "\"expires_in\":60,")),
    TEMPLATE("ask_each", ASK("a", "") "," GET("b", EACH(""))),
    TEMPLATE("ask_say",
             ASK("a", "") "," STEP("b", "tool_call",
                                   "\"tool\":\"demo_say\",\"confirmed_by\":\"approval:a\","
                                   "\"input\":{\"q\":\"x\"}")),
    TEMPLATE("ask_much",
             GET("r", "") "," ASK("a", "") "," STEP(
                 "b", "tool_call",
                 "\"tool\":\"demo_say\",\"confirmed_by\":\"approval:a\",\"for_each\":\"input.n\","
                 "\"before\":{\"step\":\"r\",\"now\":{\"Q\":\"${before.q}\"},\"then\":{\"Q\":\"${"
                 "q}\"}},\"input\":{\"q\":\"${item}\"}")),
    TEMPLATE("ask_wait", ASK("a", "") "," WAIT("b", "60")),
    TEMPLATE("ask_write", ASK("a", "") "," PUT("b", "approval:a", "")),
    TEMPLATE("chain",
             PASS("a") "," WAIT("b", "0") "," STEP("c", "transform", "\"expr\":\"steps.a\"")),
    TEMPLATE("each", GET("a", EACH(""))),
    TEMPLATE_WITH("late", "\"deadline\":1,", GET("a", "")),
    TEMPLATE("nothing", STEP("a", "transform", "\"when\":\"input.n\",\"expr\":\"`1`\"")),
    TEMPLATE("pause", WAIT("a", "\"${input.n}\"") "," GET("b", "")),
    TEMPLATE("read", GET("a", "")),
    TEMPLATE("retry", GET("a", "\"retry\":{\"attempts\":3,\"backoff\":2,\"backoff_max\":2},")),
    TEMPLATE("set", SET("a", "\"confirmed_by\":\"start\",\"retry\":{\"attempts\":2},")),
    TEMPLATE("set_once", SET("a", "\"confirmed_by\":\"start\",\"retry\":{\"attempts\":1},")),
    TEMPLATE_WITH("wait_late", "\"deadline\":30,", WAIT("a", "60")),
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

/* Approves the flow. Returns the query that loads the run that follows. */
static struct pg_query *approve_until_load(struct machine *m, struct uuid id)
{
    machine_begin(m, FLOW_COMMAND_APPROVE, id);
    struct pg_query *query = machine_query(m, "flow_load_items");
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    return query;
}

/* ---- what is planned ---- */

static void a_call(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "read", "{\"confirm\":true}");
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(machine_count_steps(m, id, true), 1);
}

static void transforms_and_a_wait_that_is_over(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "chain", "{\"confirm\":true}");
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(machine_count_steps(m, id, true), 3);
    /* the output of the first step */
    assert_true(slice_eq_cstr(m->store.steps.items[2].step.output, "1"));
}

static void a_wait_and_a_call_after_it(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "pause", "{\"confirm\":true,\"n\":30}");
    machine_until(m, id, FLOW_WAITING);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
}

static void nothing_to_do(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "nothing", "{\"confirm\":true}");
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_COMPLETED);
    assert_int_equal(machine_row(m, id)->flow.rev, 2); /* the start is the first revision */
}

static void an_input_that_does_not_fit(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "pause", "{\"confirm\":true,\"n\":\"soon\"}");
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "validation_error");
}

static void an_approval_is_all_that_was_left(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", "{\"confirm\":true}");
    (void)approve_until_load(m, id);
    machine_until(m, id, FLOW_COMPLETED);
}

static void check_asked(struct machine *m, struct uuid id, const char *part)
{
    slice input = machine_row(m, id)->waiting_input;
    if (slice_find(input, slice_cstr(part)) < 0)
        fail_msg("no %s in %.*s", part, SLICE_ARG(input));
}

static void approve_to_the_end(struct machine *m, struct uuid id)
{
    assert_int_equal(machine_command(m, FLOW_COMMAND_APPROVE, id), FLOW_ANSWER_DONE);
    assert_true(slice_eq_cstr(machine_call(m)->method, "POST"));
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
}

static void an_approval_begins_once_its_names_are_read(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask_say", "{\"confirm\":true}");
    assert_true(slice_eq_cstr(machine_call(m)->method, "GET"));
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_RUNNING);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_WAITING);
    check_asked(m, id,
                "\"target\":[{\"label\":\"Place\",\"id\":\"x\",\"name\":\"Named x\"}],"
                "\"shows\":{\"q\":\"Named x\"},\"input\":{\"q\":\"x\"}");
    (void)approve_until_load(m, id);
    assert_true(slice_eq_cstr(machine_call(m)->method, "GET")); /* again (test_compare.c) */
    machine_reply(m, 200);
    assert_true(slice_eq_cstr(machine_call(m)->method, "POST"));
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
}

/* The policy decides again, and what the approval has shown is not compared if it denies. */
static void a_policy_that_changes_while_names_are_read_again(void **state)
{
    struct machine *m = *state;
    struct policy_cache *policies = machine_policies(m);
    struct uuid id = machine_start_by_key(m, "ask_say", "{\"confirm\":true}");
    machine_reply(m, 200);
    machine_until(m, id, FLOW_WAITING);
    assert_int_equal(machine_command(m, FLOW_COMMAND_APPROVE, id), FLOW_ANSWER_DONE);
    struct http_call *call = machine_call(m);
    seam_key_policy = SLICE("team@7");
    flow_policies_changed(m->node.flow, &seam_account);
    seam_call_reply(call, 200, "{}");
    machine_deny(machine_query(m, "policy_get"));
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "The policy of this API key does not allow");
    machine_policies_free(m, policies);
}

/* The id is shown, and what runs is the same. */
static void an_approval_without_its_names(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask_say", "{\"confirm\":true}");
    machine_reply(m, 404);
    machine_until(m, id, FLOW_WAITING);
    check_asked(m, id,
                "\"target\":[{\"label\":\"Place\",\"id\":\"x\",\"unread\":true}],"
                "\"unread\":[\"q\"],\"input\":{\"q\":\"x\"}");
    approve_to_the_end(m, id);
}

/* Without memory for its names, an approval begins without them. */
static void an_approval_whose_names_do_not_fit(void **state)
{
    struct machine *m = *state;
    uint64_t n = 0, hits;
    do {
        struct uuid id = machine_start(m, "ask_say", "{\"confirm\":true}");
        seam_call_reply(machine_call(m), 200, "{}");
        mem_fail_at(++n, 1);
        seam_settle(m->node.loop);
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        machine_until(m, id, FLOW_WAITING);
        check_asked(m, id, "\"id\":\"x\","); /* in its target */
    } while (hits > 0);
    assert_true(n > 3);
}

/* If there is no room for everything, the places are left out first. The changes stay, and what was
 * not read is said. */
static void an_approval_of_many_calls(void **state)
{
    enum { CALLS = 1000, TEXT = 300 };
    struct machine *m = *state;
    struct buf input;
    buf_init(&input, 2 * CALLS * TEXT);
    buf_append_cstr(&input, "{\"confirm\":true,\"n\":[");
    for (int i = 0; i < CALLS; i++)
        buf_printf(&input, "%s\"%0*d\"", i > 0 ? "," : "", TEXT, 7);
    buf_append_cstr(&input, "]}");
    buf_append(&input, slice_of("", 1)); /* a NUL */
    struct uuid id = machine_start(m, "ask_much", buf_slice(&input).ptr);
    buf_deinit(&input);
    seam_call_reply(machine_call(m), 200, "{\"q\":\"old\"}");
    machine_until(m, id, FLOW_WAITING);
    check_asked(m, id,
                "\"changes\":{\"step\":\"r\",\"properties\":[{\"name\":\"Q\",\"now\":\"old\"");
    check_asked(m, id, "\"unread\":[\"q\"]");
    assert_true(slice_find(machine_row(m, id)->waiting_input, SLICE("\"target\"")) < 0);
}

static void a_wait_after_an_approval(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask_wait", "{\"confirm\":true}");
    (void)approve_until_load(m, id);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(machine_count_steps(m, id, true), 2);
}

static void an_approval_that_expires_is_asked_again(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", "{\"confirm\":true}");
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "timeout");
    assert_int_equal(machine_command(m, FLOW_COMMAND_RESUME, id), FLOW_ANSWER_DONE);
    machine_until(m, id, FLOW_WAITING);
    assert_int_equal(machine_row(m, id)->flow.attempt, 2);
}

static void a_write_after_an_approval_has_its_intent_first(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask_write", "{\"confirm\":true}");
    (void)approve_until_load(m, id);
    (void)machine_query(m, "flow_move");
    assert_int_equal(seam_call_count(m->node.http), 0);
    (void)machine_call(m);
    assert_true(machine_row(m, id)->flow.is_begun);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
}

static void items(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask_each", "{\"confirm\":true,\"n\":[1,2,3]}");
    (void)approve_until_load(m, id);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(m->walk.sent, 3);
}

/* ---- what goes wrong ---- */

static void a_load_that_fails_is_tried_again(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", "{\"confirm\":true}");
    seam_query_fail(approve_until_load(m, id), ERR_BUSY);
    machine_until(m, id, FLOW_COMPLETED);
}

static void a_flow_that_another_node_took_is_let_go(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", "{\"confirm\":true}");
    struct pg_query *load = approve_until_load(m, id);
    machine_row(m, id)->flow.owner = uuid_v7();
    seam_rows_answer(&m->store, load);
    seam_settle(m->node.loop);
    assert_int_equal(flow_service_active(m->node.flow), 0);
}

static void a_template_that_cannot_be_read(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", "{\"confirm\":true}");
    struct pg_query *load = approve_until_load(m, id);
    machine_row(m, id)->flow.template_version = uuid_v7();
    seam_rows_answer(&m->store, load);
    seam_query_fail(machine_query(m, "flow_template_get"), ERR_BUSY);
    seam_query_done(machine_query(m, "flow_template_get")); /* no such version exists */
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "template cannot be read");
}

static void a_flow_that_kills_its_servers(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask_write", "{\"confirm\":true}");
    struct pg_query *load = approve_until_load(m, id);
    machine_row(m, id)->flow.adoptions = FLOW_POISON_ADOPTIONS;
    seam_rows_answer(&m->store, load);
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "died repeatedly");
    assert_int_equal(m->store.steps.items[1].step.step_index, 1); /* the step after the approval */
}

static void check_call(struct pg_query *query, const char *app_id, const char *action_id)
{
    assert_true(pg_value_is(seam_param(query, "f_integration_id"), app_id));
    assert_true(pg_value_is(seam_param(query, "f_action_id"), action_id));
}

static void a_call_that_fails_is_made_again(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "retry", "{\"confirm\":true}");
    struct pg_query *move = machine_reply_until(m, 503, "flow_move");
    check_call(move, "demo", "get"); /* the row names the called action, whether it failed or not */
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(machine_count_steps(m, id, false), 1);
}

static void a_long_retry_after_parks_the_flow(void **state)
{
    struct machine *m = *state;
    static const char *const headers[] = {"retry-after", "60", NULL};
    struct uuid id = machine_start(m, "retry", "{\"confirm\":true}");
    seam_call_reply_with(machine_call(m), 429, headers, SLICE("{}"));
    machine_until(m, id, FLOW_WAITING);
    assert_int_equal(machine_row(m, id)->flow.waiting_for, FLOW_WAITS_RETRY);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
}

/* The node's lease expires while the flow sleeps: nothing is sent under that lease any more. */
static void a_call_that_may_not_be_sent(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "retry", "{\"confirm\":true}");
    seam_rows_answer(&m->store, machine_reply_until(m, 503, "flow_move"));
    seam_settle(m->node.loop);
    seam_move_to_ns(seam_now_ns() + UINT64_C(20000000000));
    seam_settle(m->node.loop);
    assert_int_equal(seam_call_count(m->node.http), 0);
    assert_int_equal(flow_service_active(m->node.flow), 1);
    seam_move_to_ns(seam_now_ns() + UINT64_C(400000000)); /* time passes once more */
    seam_settle(m->node.loop);
    machine_until(m, id, FLOW_COMPLETED); /* taken by the next incarnation of the same process */
}

static void a_deadline_that_passes_between_attempts(void **state)
{
    struct machine *m = *state;
    static const char *const headers[] = {"retry-after", "3", NULL};
    struct uuid id = machine_start(m, "late", "{\"confirm\":true}");
    seam_call_reply_with(machine_call(m), 429, headers, SLICE("{}"));
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "deadline has passed");
    assert_int_equal(machine_count_steps(m, id, false), 2);
}

static void a_deadline_that_ends_a_wait(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "wait_late", "{\"confirm\":true}");
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "deadline has passed");
}

static void an_output_that_the_database_refuses(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "read", "{\"confirm\":true}");
    machine_reply(m, 200);
    seam_query_fail(machine_query(m, "flow_move"), ERR_INVALID);
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "cannot be stored");
}

static void an_approval_that_the_database_refuses(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask_say", "{\"confirm\":true}");
    machine_reply(m, 200);
    seam_query_fail(machine_query(m, "flow_park"), ERR_INVALID);
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "input cannot be stored");
    machine_check_outcome(m, id, "not_done");
}

static void a_transition_that_fails_is_tried_again(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "read", "{\"confirm\":true}");
    machine_reply(m, 200);
    seam_query_fail(machine_query(m, "flow_move"), ERR_BUSY);
    machine_until(m, id, FLOW_COMPLETED);
}

/* The statement that writes no event moves nothing; the account's next flows are known to need the
 * other one. */
static void an_event_that_an_endpoint_hears(void **state)
{
    struct machine *m = *state;
    m->store.has_endpoint = true;
    for (int i = 0; i < 2; i++) {
        struct uuid id = machine_start(m, "read", "{\"confirm\":true}");
        machine_reply(m, 200);
        if (i == 0)
            seam_rows_answer(&m->store, machine_query(m, "flow_move"));
        seam_rows_answer(&m->store, machine_query(m, "flow_move_heard"));
        machine_until(m, id, FLOW_COMPLETED);
    }
}

static void a_write_that_a_dead_server_had_begun(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", "{\"confirm\":true}");
    (void)machine_call(m);
    machine_restart(m);
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "outcome is unknown");
    assert_int_equal(m->walk.sent, 0);
}

/* ---- what earlier attempts leave in doubt ---- */

static const char go[] = "{\"confirm\":true}";

static void refuse(struct machine *m, unsigned status)
{
    seam_call_reply(machine_call(m), status, "{\"error\":\"no\"}");
    seam_settle(m->node.loop);
}

static void resume(struct machine *m, struct uuid id)
{
    assert_int_equal(machine_command(m, FLOW_COMMAND_RESUME, id), FLOW_ANSWER_DONE);
}

static void a_refusal_proves_that_nothing_was_done(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", go);
    refuse(m, 404);
    machine_until(m, id, FLOW_FAILED);
    machine_check_outcome(m, id, "not_done");
    resume(m, id);
    refuse(m, 404);
    machine_until(m, id, FLOW_FAILED);
    machine_check_outcome(m, id, "not_done");
}

/* Covers attempts of the step itself, of a person, and of another process after a crash. */
static void a_lost_reply_stays_in_doubt(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", go);
    seam_call_fail(machine_call(m), SEAM_SENT);
    machine_until(m, id, FLOW_FAILED);
    machine_check_outcome(m, id, "unknown");
    for (unsigned i = 0; i < 3; i++) {
        static const unsigned refusals[] = {404, 401, 429};
        if (i == 2)
            machine_restart(m);
        resume(m, id);
        refuse(m, refusals[i]);
        machine_until(m, id, FLOW_FAILED);
        machine_check_outcome(m, id, "unknown");
        machine_check_error(m, id, "may or may not have happened");
    }
    resume(m, id);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
}

/* Loses the reply, and the replies to all of exec's own retries. */
static void lose_all(struct machine *m)
{
    while (!seam_query_named(m->node.pool, "flow_move")) {
        seam_call_fail(machine_call(m), SEAM_SENT);
        seam_settle(m->node.loop);
    }
}

static void a_try_of_the_retry_rule_keeps_the_doubt(void **state)
{
    struct machine *m = *state;
    for (unsigned is_killed = 0; is_killed < 2; is_killed++) {
        struct uuid id = machine_start(m, "set", go);
        lose_all(m);
        seam_rows_answer(&m->store, machine_query(m, "flow_move"));
        seam_settle(m->node.loop);
        assert_int_equal(machine_count_steps(m, id, false), 1);
        if (is_killed)
            machine_restart(m);
        refuse(m, 404);
        machine_until(m, id, FLOW_FAILED);
        assert_int_equal(machine_count_steps(m, id, false), 2);
        machine_check_outcome(m, id, "unknown");
    }
}

/* Another process repeats a call that may be repeated, at the first attempt and at a later one:
 * each has its intent. */
static void a_write_that_a_dead_server_had_begun_is_in_doubt(void **state)
{
    struct machine *m = *state;
    for (unsigned is_later = 0; is_later < 2; is_later++) {
        struct uuid id = machine_start(m, "set_once", go);
        if (is_later) {
            refuse(m, 404);
            machine_until(m, id, FLOW_FAILED);
            machine_check_outcome(m, id, "not_done");
            resume(m, id);
        }
        (void)machine_call(m);
        assert_true(machine_row(m, id)->flow.is_begun);
        machine_restart(m);
        refuse(m, 404);
        machine_until(m, id, FLOW_FAILED);
        machine_check_outcome(m, id, "unknown");
    }
}

static void a_read_leaves_no_doubt(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "read", go);
    (void)machine_call(m);
    machine_restart(m);
    refuse(m, 404);
    machine_until(m, id, FLOW_FAILED);
    machine_check_outcome(m, id, "not_done");
}

/* The previous version of the program stored no outcome: its codes for a lost reply mean that
 * the outcome is unknown. */
static void an_error_without_an_outcome(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", go);
    refuse(m, 404);
    machine_until(m, id, FLOW_FAILED);
    m->store.steps.items[0].step.error =
        SLICE("{\"code\":\"timeout\",\"message\":\"m\",\"retryable\":false}");
    resume(m, id);
    refuse(m, 404);
    machine_until(m, id, FLOW_FAILED);
    machine_check_outcome(m, id, "unknown");
}

/* ---- refusals that pass ---- */

/* Fails the next attempt before its first byte is sent. exec makes some retries of its own. */
static void fail_unsent(struct machine *m, struct uuid id, enum seam_phase phase)
{
    size_t failed = machine_count_steps(m, id, false);
    for (unsigned i = 0; i < 1000 && machine_count_steps(m, id, false) == failed; i++) {
        struct http_call *call = seam_call(m->node.http, 0);
        if (call)
            seam_call_fail(call, phase);
        machine_turn(m, NULL);
    }
}

static void a_write_is_repeated_after_a_refusal_that_passes(void **state)
{
    static const char *const headers[] = {"retry-after", "1", NULL};
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", go);
    seam_call_reply_with(machine_call(m), 429, headers, SLICE("{}"));
    seam_rows_answer(&m->store, machine_query(m, "flow_move"));
    fail_unsent(m, id, SEAM_DIAL);
    fail_unsent(m, id, SEAM_UNSENT);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(machine_count_steps(m, id, false), 3);
}

static void ten_tries_are_made(void **state)
{
    struct machine *m = *state;
    static const char *const headers[] = {"retry-after", "86400", NULL};
    struct uuid id = machine_start(m, "write", go);
    for (unsigned i = 1; i <= 10; i++) {
        seam_call_reply_with(machine_call(m), 429, headers, SLICE("{}"));
        machine_until(m, id, i < 10 ? FLOW_WAITING : FLOW_FAILED);
        const struct flow *flow = &machine_row(m, id)->flow;
        if (i < 10)
            assert_true(flow->wake_at - flow->updated_at <= 3600 * INT64_C(1000000));
        seam_move_to_ns(seam_now_ns() + UINT64_C(3600) * 1000000000);
    }
    machine_check_error(m, id, "rate_limited");
    machine_check_outcome(m, id, "not_done");
}

/* A call is not repeated if it may have been done, or if it would be refused again. */
static void a_write_is_not_repeated_after_anything_else(void **state)
{
    struct machine *m = *state;
    static const unsigned refusals[] = {400, 401, 403, 404, 409, 500, 503};
    for (size_t i = 0; i < ARRAY_LEN(refusals); i++) {
        struct uuid id = machine_start(m, "write", go);
        refuse(m, refusals[i]);
        machine_until(m, id, FLOW_FAILED);
        assert_int_equal(machine_count_steps(m, id, false), 1);
    }
}

/* A drain: a flow that sleeps before its next attempt is released, and the next server continues
 * it. */
static void a_drain_while_it_sleeps(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "retry", "{\"confirm\":true}");
    seam_rows_answer(&m->store, machine_reply_until(m, 503, "flow_move"));
    seam_settle(m->node.loop);
    flow_service_drain(m->node.flow);
    seam_settle(m->node.loop);
    assert_int_equal(flow_service_active(m->node.flow), 0);
    machine_restart(m);
    machine_until(m, id, FLOW_COMPLETED);
}

/* ---- every place ---- */

static const struct {
    const char *key, *input;
    bool is_write;
} ways[] = {
    {"read", "{\"confirm\":true}", false},
    {"write", "{\"confirm\":true}", true},
    {"chain", "{\"confirm\":true}", false},
    {"pause", "{\"confirm\":true,\"n\":5}", false},
    {"ask_write", "{\"confirm\":true}", true},
    {"ask_each", "{\"confirm\":true,\"n\":[1,2]}", false},
    {"ask_say", "{\"confirm\":true}", true},
    {NULL, "put", true}, /* a call that is held */
    {NULL, "say", true},
};

enum event { EVENT_FAULT, EVENT_DEATH, EVENT_CANCEL };

static bool expect(bool holds, const struct machine *m, const char *key, const char *what)
{
    if (!holds)
        print_error("%s, %s at %s (place %zu): %s\n", key ? key : "held",
                    seam_fault_name(m->walk.fault), m->walk.where, m->walk.place, what);
    return holds;
}

/* Acts as a person who wants the flow to complete: approves when asked, and retries. */
static void push(struct machine *m, struct uuid id)
{
    const struct row_flow *row = seam_find_flow(&m->store, id);
    if (row && row->flow.waiting_for == FLOW_WAITS_APPROVAL)
        (void)machine_command(m, FLOW_COMMAND_APPROVE, id);
    seam_walk_for_ms(&m->walk, 60000);
}

static bool check_end(struct machine *m, const char *key, struct uuid id, bool is_write)
{
    const struct row_flow *row = seam_find_flow(&m->store, id);
    bool is_ok = expect(flow_service_active(m->node.flow) == 0, m, key, "it is still in memory");
    if (!row)
        return is_ok;
    is_ok &= expect(row->flow.status > FLOW_WAITING, m, key, "it has not ended");
    is_ok &= expect(!is_write || m->walk.writes <= 1, m, key, "it wrote twice");
    return is_ok;
}

static struct uuid start_way(struct machine *m, size_t way, bool *is_done)
{
    if (!ways[way].key) {
        bool has_name = strcmp(ways[way].input, "say") == 0;
        *is_done = (has_name ? machine_ask_to_say : machine_ask)(m, "k-1") == EXEC_HELD;
        return machine_held_flow(m);
    }
    machine_begin_start(m, ways[way].key, ways[way].input);
    *is_done = machine_end(m) == FLOW_ANSWER_DONE;
    return m->run.flow_id;
}

static size_t walk_once(size_t way, size_t place, enum seam_fault fault, bool *is_ok)
{
    struct machine *m = machine_new(templates);
    m->walk.place = place;
    m->walk.fault = fault;
    bool is_done;
    struct uuid id = start_way(m, way, &is_done);
    *is_ok &= expect(is_done || m->walk.is_hit, m, ways[way].key, "it did not start");
    for (unsigned i = 0; i < 4; i++)
        push(m, id);
    *is_ok &= check_end(m, ways[way].key, id, ways[way].is_write);
    size_t places = m->walk.places;
    assert_int_equal(machine_free(m), 0);
    return places;
}

static void each_place_fails_in_each_way(void **state)
{
    bool is_ok = true;
    (void)state;
    for (size_t way = 0; way < ARRAY_LEN(ways); way++) {
        size_t places = walk_once(way, SIZE_MAX, SEAM_REFUSED, &is_ok);
        for (size_t place = 0; place < places; place++)
            for (unsigned fault = 0; fault < SEAM_FAULTS; fault++)
                (void)walk_once(way, place, (enum seam_fault)fault, &is_ok);
    }
    assert_true(is_ok);
}

/* Runs the flow until it waits for that query or call. Returns false if it has ended before. */
static bool go_to(struct machine *m, struct uuid id, size_t place)
{
    for (unsigned i = 0; i < 1000; i++) {
        seam_settle(m->node.loop);
        const struct row_flow *row = seam_find_flow(&m->store, id);
        struct http_call *call = seam_call(m->node.http, 0);
        bool is_here = flow_service_active(m->node.flow) > 0;
        if (row && row->flow.status > FLOW_WAITING && !is_here)
            return false;
        if (is_here && place-- == 0)
            return true;
        if (!is_here && row && row->flow.waiting_for == FLOW_WAITS_APPROVAL)
            (void)machine_command(m, FLOW_COMMAND_APPROVE, id);
        else if (call && seam_query_count(m->node.pool) == 0)
            machine_reply(m, 200);
        else
            machine_turn(m, NULL);
    }
    fail_msg("it does not end");
    return false;
}

/* Kills the server of the flow, so that another server adopts it, or cancels the flow as a
 * person. */
static bool interrupt(size_t way, size_t place, enum event event, bool *is_ok)
{
    struct machine *m = machine_new(templates);
    bool is_done;
    struct uuid id = start_way(m, way, &is_done);
    assert_true(is_done);
    bool is_there = go_to(m, id, place);
    m->walk.place = SIZE_MAX;
    if (is_there && event == EVENT_DEATH)
        machine_restart(m);
    else if (is_there)
        *is_ok &= expect(machine_command(m, FLOW_COMMAND_CANCEL, id) == FLOW_ANSWER_DONE, m,
                         ways[way].key, "it was not cancelled");
    for (unsigned i = 0; i < 4; i++)
        push(m, id);
    *is_ok &= check_end(m, ways[way].key, id, ways[way].is_write);
    enum flow_status status = machine_row(m, id)->flow.status;
    *is_ok &= expect(event != EVENT_CANCEL || !is_there || status == FLOW_CANCELLED, m,
                     ways[way].key, "it is not cancelled");
    assert_int_equal(machine_free(m), 0);
    return is_there;
}

static void it_is_killed_or_cancelled_at_each_wait(void **state)
{
    bool is_ok = true;
    (void)state;
    for (size_t way = 0; way < ARRAY_LEN(ways); way++)
        for (unsigned event = EVENT_DEATH; event <= EVENT_CANCEL; event++) {
            size_t place = 0;
            while (interrupt(way, place, (enum event)event, &is_ok))
                place++;
            assert_true(place > 0);
        }
    assert_true(is_ok);
}

/* Cancels one op before one of its steps, as the end of a drain does. Another server continues. */
static bool cut_before(size_t way, const char *class_name, size_t step, bool *is_ok)
{
    size_t blocks = mem_live_blocks();
    struct machine *m = machine_new(templates);
    bool is_done;
    seam_table_cancel(class_name, step);
    struct uuid id = start_way(m, way, &is_done);
    for (unsigned i = 0; i < 2; i++)
        push(m, id);
    bool is_cut = seam_table_has_cancelled();
    *is_ok &= expect(is_done || is_cut, m, ways[way].key, "it did not start");
    machine_restart(m);
    m->walk.place = SIZE_MAX;
    for (unsigned i = 0; i < 4; i++)
        push(m, id);
    bool is_good = check_end(m, ways[way].key, id, ways[way].is_write);
    (void)machine_free(m);
    size_t left = mem_live_blocks() - blocks;
    is_good &= left == 0;
    if (!is_good)
        print_error("%s: %s was cancelled before its step %zu; %zu blocks are left\n",
                    ways[way].key ? ways[way].key : "held", class_name, step, left);
    *is_ok &= is_good;
    return is_cut;
}

static void each_op_is_cancelled_before_each_step(void **state)
{
    static const char *const classes[] = {"flow", "flow_lane", "exec", "hold", "flow_command"};
    bool is_ok = true;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
        size_t most = 0;
        for (size_t way = 0; way < ARRAY_LEN(ways); way++) {
            size_t step = 0;
            while (cut_before(way, classes[i], step, &is_ok))
                step++;
            most = step > most ? step : most;
        }
        if (most == 0)
            fail_msg("no op of class %s has run", classes[i]);
    }
    assert_true(is_ok);
}

/* The same request was sent with its key, and was not held. It runs before the call looks at what
 * there is, or after that: its end is that of the call. */
static void a_held_call_that_another_run_has_made(void **state)
{
    struct machine *m = *state;
    static const char *const statements[] = {"hold_check", "claim_find_held"};
    for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
        assert_int_equal(machine_ask(m, "k-1"), EXEC_HELD);
        struct uuid id = machine_held_flow(m);
        machine_begin(m, FLOW_COMMAND_APPROVE, id);
        (void)machine_query(m, statements[i]);
        struct uuid other = machine_run_elsewhere(m, false);
        assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
        machine_until(m, id, FLOW_COMPLETED);
        assert_int_equal(m->walk.sent, 0);
        assert_true(uuid_eq(m->store.holds.items[0].execution_id, other));
        m->store.holds.count = m->store.claims.count = 0;
    }
}

/* The calls of a flow are decided by the policy that its key has when they are made: a change takes
 * effect with the next call, and without the policy nothing is called. */
static void a_policy_that_changes(void **state)
{
    struct machine *m = *state;
    struct policy_cache *policies = machine_policies(m);
    struct uuid id = machine_start_by_key(m, "ask_each", "{\"confirm\":true,\"n\":[1]}");
    seam_key_policy = SLICE("team@7");
    machine_begin(m, FLOW_COMMAND_APPROVE, id);
    seam_query_fail(machine_query(m, "policy_get"), ERR_TIMEOUT); /* it is asked for again */
    machine_policy(machine_query(m, "policy_get"), "{}");         /* it cannot be read now */
    machine_deny(machine_query(m, "policy_get"));
    machine_until(m, id, FLOW_FAILED);
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    assert_int_equal(m->walk.sent, 0);
    machine_check_error(m, id, "The policy of this API key does not allow");
    machine_policies_free(m, policies);
}

/* A start has the policy of its request, unless that has changed since the request began. */
static void a_policy_that_changes_before_the_start(void **state)
{
    struct machine *m = *state;
    struct policy_cache *policies = machine_policies(m);
    seam_run_flow(&m->run, &m->node, "read", "{\"confirm\":true}");
    m->run.command.by.actor = SLICE(MACHINE_KEY);
    seam_run_start(&m->run);
    seam_key_policy = SLICE("team@7");
    flow_policies_changed(m->node.flow, NULL); /* there is no run yet */
    machine_deny(machine_query(m, "policy_get"));
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    machine_until(m, m->run.flow_id, FLOW_FAILED);
    assert_int_equal(m->walk.sent, 0);
    machine_policies_free(m, policies);
}

/* What a policy holds is made if another key than the starter's approved exactly this call. */
static void a_policy_that_holds(void **state)
{
    static const char *const approvers[] = {MACHINE_KEY, MACHINE_OTHER, MACHINE_OTHER};
    struct machine *m = *state;
    struct policy_cache *policies = machine_policies(m);
    struct uuid id;
    for (size_t i = 0; i < ARRAY_LEN(approvers); i++) {
        bool is_each = i == 2, is_made = i > 0;
        seam_key_policy = SLICE("@");
        id = machine_start_by_key(m, is_each ? "ask_much" : "ask_write",
                                  "{\"confirm\":true,\"n\":[1,2]}");
        if (is_each)
            machine_reply(m, 200); /* the read before the approval */
        machine_until(m, id, FLOW_WAITING);
        seam_key_policy = SLICE("team@7");
        machine_begin_by(m, FLOW_COMMAND_APPROVE, id, approvers[i]);
        if (i == 0) /* later flows find the text in the cache */
            machine_policy(machine_query(m, "policy_get"),
                           "{\"default\":\"hold\",\"rules\":[{\"side_effect\":[\"read\"],"
                           "\"decision\":\"allow\"}]}");
        seam_query_fail(machine_query(m, "api_key_is_kin"), ERR_TIMEOUT); /* it is asked again */
        for (size_t j = 0; j < (is_each ? 2 : 1) && is_made; j++)
            machine_reply(m, 200);
        machine_until(m, id, is_made ? FLOW_COMPLETED : FLOW_FAILED);
        assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
        if (!is_made)
            machine_check_error(m, id, "it needs an approval of exactly this call in the flow");
    }
    machine_policies_free(m, policies);
}

/* The templates above run in every way. A step type that is in none of them would not be tested. */
static void every_type_of_step_is_in_a_template(void **state)
{
    const char *name;
    (void)state;
    for (unsigned type = 0; (name = flow_step_type_name((enum flow_step_type)type)); type++) {
        char member[64];
        bool is_there = false;
        (void)snprintf(member, sizeof(member), "\"type\":\"%s\"", name);
        for (size_t i = 0; templates[i]; i++)
            is_there |= strstr(templates[i], member) != NULL;
        if (!is_there)
            fail_msg("no template has a step of type %s", name);
    }
}

static void every_step_and_jump_was_taken(void **state)
{
    (void)state;
    assert_int_equal(seam_table_missing("flow"), 0);
}

#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_MACHINE(a_call),
        ON_A_MACHINE(a_policy_that_changes),
        ON_A_MACHINE(a_policy_that_changes_before_the_start),
        ON_A_MACHINE(a_held_call_that_another_run_has_made),
        ON_A_MACHINE(a_policy_that_holds),
        ON_A_MACHINE(transforms_and_a_wait_that_is_over),
        ON_A_MACHINE(a_wait_and_a_call_after_it),
        ON_A_MACHINE(nothing_to_do),
        ON_A_MACHINE(an_input_that_does_not_fit),
        ON_A_MACHINE(an_approval_is_all_that_was_left),
        ON_A_MACHINE(an_approval_begins_once_its_names_are_read),
        ON_A_MACHINE(a_policy_that_changes_while_names_are_read_again),
        ON_A_MACHINE(an_approval_without_its_names),
        ON_A_MACHINE(an_approval_whose_names_do_not_fit),
        ON_A_MACHINE(an_approval_of_many_calls),
        ON_A_MACHINE(a_wait_after_an_approval),
        ON_A_MACHINE(an_approval_that_expires_is_asked_again),
        ON_A_MACHINE(a_write_after_an_approval_has_its_intent_first),
        ON_A_MACHINE(items),
        ON_A_MACHINE(a_load_that_fails_is_tried_again),
        ON_A_MACHINE(a_flow_that_another_node_took_is_let_go),
        ON_A_MACHINE(a_template_that_cannot_be_read),
        ON_A_MACHINE(a_flow_that_kills_its_servers),
        ON_A_MACHINE(a_call_that_fails_is_made_again),
        ON_A_MACHINE(a_long_retry_after_parks_the_flow),
        ON_A_MACHINE(a_call_that_may_not_be_sent),
        ON_A_MACHINE(a_deadline_that_passes_between_attempts),
        ON_A_MACHINE(a_deadline_that_ends_a_wait),
        ON_A_MACHINE(an_output_that_the_database_refuses),
        ON_A_MACHINE(an_approval_that_the_database_refuses),
        ON_A_MACHINE(a_transition_that_fails_is_tried_again),
        ON_A_MACHINE(an_event_that_an_endpoint_hears),
        ON_A_MACHINE(a_write_that_a_dead_server_had_begun),
        ON_A_MACHINE(a_drain_while_it_sleeps),
        ON_A_MACHINE(a_refusal_proves_that_nothing_was_done),
        ON_A_MACHINE(a_lost_reply_stays_in_doubt),
        ON_A_MACHINE(a_try_of_the_retry_rule_keeps_the_doubt),
        ON_A_MACHINE(a_write_that_a_dead_server_had_begun_is_in_doubt),
        ON_A_MACHINE(a_read_leaves_no_doubt),
        ON_A_MACHINE(an_error_without_an_outcome),
        ON_A_MACHINE(a_write_is_repeated_after_a_refusal_that_passes),
        ON_A_MACHINE(ten_tries_are_made),
        ON_A_MACHINE(a_write_is_not_repeated_after_anything_else),
        cmocka_unit_test(each_place_fails_in_each_way),
        cmocka_unit_test(it_is_killed_or_cancelled_at_each_wait),
        cmocka_unit_test(each_op_is_cancelled_before_each_step),
        cmocka_unit_test(every_type_of_step_is_in_a_template),
        cmocka_unit_test(every_step_and_jump_was_taken),
    };
    seam_table_watch();
    return cmocka_run_group_tests_name("flow/run", tests, NULL, NULL);
}
