/*
 * What an approval has shown is read again before its calls are made: they are made only if it is
 * unchanged.
 */
#include "seam/seam.h"

#include "exec/internal.h"
#include "held.h"

#define TELL(more, q)                                                                              \
    STEP("b", "tool_call",                                                                         \
         "\"tool\":\"demo_tell\",\"confirmed_by\":\"approval:a\",\"retry\":{\"attempts\":2}," more \
         "\"input\":{\"q\":\"" q "\"}")
#define SAY(key, more, q)                                                            \
    STEP(key, "tool_call",                                                           \
         "\"tool\":\"demo_say\",\"confirmed_by\":\"approval:a\"," more "\"input\":{" \
         "\"q\":\"" q "\"}")

static const char *const templates[] = {
    TEMPLATE("one", ASK("a", "") "," SAY("b", "", "x")),
    TEMPLATE("two", ASK("a", "") "," SAY("b", "", "x") "," SAY("c", "", "y")),
    TEMPLATE("each", ASK("a", "") "," SAY("b", "\"for_each\":\"input.n\",", "${item}")),
    TEMPLATE_WITH("late", "\"deadline\":2,", ASK("a", "") "," SAY("b", "", "x")),
    TEMPLATE_WITH("each_late", "\"deadline\":2,",
                  ASK("a", "") "," SAY("b", "\"for_each\":\"input.n\",", "${item}")),
    TEMPLATE("safe", ASK("a", "") "," TELL("", "x")),
    TEMPLATE("each_safe",
             ASK("a", "") "," TELL("\"for_each\":\"input.n\",\"concurrency\":2,", "${item}")),
    TEMPLATE("one_by_one",
             ASK("a", "") "," TELL("\"for_each\":\"input.n\",\"concurrency\":1,", "${item}")),
    NULL,
};

static const char go[] = "{\"confirm\":true}", each[] = "{\"confirm\":true,\"n\":[\"x\",\"y\"]}";

static int set_up(void **state)
{
    *state = machine_new(templates);
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

/* The next call is a read of a name; name NULL: it is not found. */
static void name(struct machine *m, const char *name)
{
    char body[64];
    struct http_call *call = machine_call(m);
    assert_true(slice_eq_cstr(call->method, "GET"));
    (void)snprintf(body, sizeof(body), "{\"name\":\"%s\"}", name ? name : "");
    seam_call_reply(call, name ? 200 : 404, body);
    seam_settle(m->node.loop);
}

static void approve(struct machine *m, struct uuid id)
{
    machine_until(m, id, FLOW_WAITING);
    assert_int_equal(machine_command(m, FLOW_COMMAND_APPROVE, id), FLOW_ANSWER_DONE);
}

/* A flow whose approval has shown the name of x. */
static struct uuid approved(struct machine *m, const char *key)
{
    struct uuid id = machine_start(m, key, go);
    name(m, "Hall");
    if (strcmp(key, "two") == 0)
        name(m, "Room");
    approve(m, id);
    return id;
}

static struct uuid approved_each(struct machine *m)
{
    struct uuid id = machine_start(m, "each", each);
    name(m, "Hall");
    name(m, "Room");
    approve(m, id);
    return id;
}

static struct uuid approved_hold(struct machine *m)
{
    assert_int_equal(machine_ask_to_say(m, "k-1"), EXEC_HELD);
    struct uuid id = machine_held_flow(m);
    name(m, "Hall");
    approve(m, id);
    return id;
}

static struct uuid approved_way(struct machine *m, unsigned is_held)
{
    return is_held ? approved_hold(m) : approved(m, "one");
}

/* The next request is the write; status 0: it is only sent. */
static void answer_write(struct machine *m, unsigned status)
{
    struct http_call *call = machine_call(m);
    assert_true(slice_eq_cstr(call->method, "POST"));
    if (status == 0)
        return;
    seam_call_reply(call, status, "{}");
    seam_settle(m->node.loop);
}

/* It has failed, and nothing was written. */
static void check_failed(struct machine *m, struct uuid id, const char *text)
{
    size_t writes = m->walk.writes;
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, text);
    assert_int_equal(m->walk.writes, writes);
    assert_null(seam_call(m->node.http, 0));
}

static void check_undone(struct machine *m, struct uuid id, const char *text)
{
    check_failed(m, id, text);
    machine_check_outcome(m, id, "not_done");
}

static void resume(struct machine *m, struct uuid id)
{
    assert_int_equal(machine_command(m, FLOW_COMMAND_RESUME, id), FLOW_ANSWER_DONE);
}

static void what_is_unchanged_is_called(void **state)
{
    struct machine *m = *state;
    for (unsigned is_held = 0; is_held < 2; is_held++) {
        struct uuid id = approved_way(m, is_held);
        name(m, "Hall");
        answer_write(m, 200);
        machine_until(m, id, FLOW_COMPLETED);
    }
}

static void what_has_changed_is_not_called(void **state)
{
    struct machine *m = *state;
    for (unsigned is_held = 0; is_held < 2; is_held++) {
        struct uuid id = approved_way(m, is_held);
        name(m, "Roof");
        check_failed(m, id,
                     "What q means has changed since it was approved: it was \\\"Named "
                     "Hall\\\", and is \\\"Named Roof\\\" now. The call was not made.");
        machine_check_error(m, id, "policy_blocked");
        if (is_held) {
            assert_int_equal(machine_ask_to_say(m, "k-1"), EXEC_HOLD_OVER);
            assert_int_equal(m->run.out.effect, EXEC_EFFECT_NONE);
        }
        resume(m, id);
        name(m, "Roof");
        check_undone(m, id, "has changed");
        resume(m, id); /* it is what was approved again */
        name(m, "Hall");
        answer_write(m, 200);
        machine_until(m, id, FLOW_COMPLETED);
    }
}

static void reply_version(struct machine *m, const char *body)
{
    struct http_call *call = machine_call(m);
    assert_true(slice_eq_cstr(call->method, "GET"));
    seam_call_reply(call, 200, body);
    seam_settle(m->node.loop);
}

/* The text is the same. */
static void another_version_is_not_called(void **state)
{
    struct machine *m = *state;
    static const char first[] = "{\"name\":\"Hall\",\"v\":1}",
                      next[] = "{\"name\":\"Hall\",\"v\":2}";
    struct uuid id = machine_start(m, "one", go);
    reply_version(m, first);
    approve(m, id);
    reply_version(m, next);
    check_undone(m, id, "it is another version of \\\"Named Hall\\\" now. The call was not made.");
    resume(m, id);
    name(m, "Hall"); /* without a version */
    check_undone(m, id,
                 "What q means reads \\\"Named Hall\\\" as it was approved, but the app does not "
                 "say any more which version of it that is. The call was not made.");
    resume(m, id);
    reply_version(m, first);
    answer_write(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
}

/* It was deleted, or is hidden now. */
static void what_is_not_there_any_more(void **state)
{
    struct machine *m = *state;
    for (unsigned is_held = 0; is_held < 2; is_held++) {
        struct uuid id = approved_way(m, is_held);
        name(m, NULL);
        check_undone(m, id, "What q means could not be read again. It was \\\"Named Hall\\\"");
        machine_check_error(m, id, "policy_blocked");
        assert_int_equal(machine_count_steps(m, id, false), 1);
    }
}

/* Each attempt reads again. */
static void an_app_that_cannot_be_read_now(void **state)
{
    static const char *const headers[] = {"retry-after", "4", NULL};
    struct machine *m = *state;
    for (unsigned is_held = 0; is_held < 2; is_held++) {
        struct uuid id = approved_way(m, is_held);
        seam_call_reply_with(machine_call(m), 429, headers, SLICE("{}"));
        seam_rows_answer(&m->store, machine_query(m, "flow_move"));
        name(m, "Hall");
        machine_check_error(m, id, "could not be read again");
        answer_write(m, 200);
        machine_until(m, id, FLOW_COMPLETED);
    }
}

static void a_read_that_is_slow(void **state)
{
    struct machine *m = *state;
    struct uuid id = approved(m, "one");
    (void)machine_call(m);
    seam_pass_ms(m->node.loop, 2100);
    seam_rows_answer(&m->store, machine_query(m, "flow_move"));
    assert_int_equal(m->walk.writes, 0);
    name(m, "Roof");
    check_failed(m, id, "has changed");
}

/* The attempt after one that was refused compares again. */
static void a_change_between_two_attempts(void **state)
{
    static const char *const headers[] = {"retry-after", "1", NULL};
    struct machine *m = *state;
    for (unsigned is_held = 0; is_held < 2; is_held++) {
        struct uuid id = approved_way(m, is_held);
        name(m, "Hall");
        struct http_call *call = machine_call(m);
        assert_true(slice_eq_cstr(call->method, "POST"));
        seam_call_reply_with(call, 429, headers, SLICE("{}"));
        name(m, "Roof");
        check_failed(m, id, "has changed");
    }
}

/* The server dies during the reads, before the intent. */
static void another_server_compares_again(void **state)
{
    struct machine *m = *state;
    for (unsigned is_held = 0; is_held < 2; is_held++) {
        struct uuid id = approved_way(m, is_held);
        (void)machine_call(m);
        machine_restart(m);
        name(m, "Roof");
        check_undone(m, id, "has changed");
    }
}

/* Loses the replies to the next writes, those of exec's own retries, too. */
static void lose_writes(struct machine *m, const char *until)
{
    for (unsigned i = 0; i < 100 && !seam_query_named(m->node.pool, until); i++) {
        struct http_call *call = machine_call(m);
        assert_true(slice_eq_cstr(call->method, "POST"));
        seam_call_fail(call, SEAM_SENT);
        seam_settle(m->node.loop);
    }
}

/* Its first attempt may have changed what it is about. */
static void a_call_in_doubt_that_may_be_repeated(void **state)
{
    struct machine *m = *state;
    for (unsigned is_restarted = 0; is_restarted < 2; is_restarted++) {
        struct uuid id = approved(m, "safe");
        name(m, "Hall");
        lose_writes(m, "flow_move");
        if (is_restarted) {
            seam_rows_answer(&m->store, machine_query(m, "flow_move"));
            machine_restart(m);
        }
        answer_write(m, 200);
        machine_until(m, id, FLOW_COMPLETED);
    }
}

static void items_in_doubt_that_may_be_repeated(void **state)
{
    struct machine *m = *state;
    for (unsigned i = 0; i < 4; i++) {
        bool is_restarted = i % 2, is_one_by_one = i > 1;
        struct uuid id = machine_start(m, is_one_by_one ? "one_by_one" : "each_safe", each);
        name(m, "Hall");
        name(m, "Room");
        approve(m, id);
        name(m, "Hall");
        name(m, "Room");
        while (machine_row(m, id)->flow.status == FLOW_RUNNING) {
            struct http_call *call = seam_call(m->node.http, 0);
            if (call && seam_call_send(call))
                seam_call_fail(call, SEAM_SENT);
            machine_turn(m, NULL);
        }
        machine_check_outcome(m, id, "unknown");
        if (is_restarted)
            machine_restart(m);
        resume(m, id);
        if (is_one_by_one)
            name(m, "Room"); /* which was not begun */
        answer_write(m, 200);
        answer_write(m, 200);
        machine_until(m, id, FLOW_COMPLETED);
    }
}

static void a_call_that_was_recorded_is_not_compared(void **state)
{
    struct machine *m = *state;
    struct uuid id = approved_hold(m);
    name(m, "Hall");
    answer_write(m, 0);
    seam_call_reply(machine_call(m), 200, "{}");
    (void)machine_query(m, "flow_move");
    machine_restart(m);
    size_t sent = m->walk.sent;
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(m->walk.sent, sent);
}

/* A person has approved the id. */
static void an_id_without_a_name_is_not_read_again(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "one", go);
    name(m, NULL);
    approve(m, id);
    answer_write(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
}

/* The first call may have changed what the second is about. */
static void a_call_after_another_of_the_flow(void **state)
{
    struct machine *m = *state;
    struct uuid id = approved(m, "two");
    name(m, "Hall");
    answer_write(m, 200);
    answer_write(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
}

static void all_items_are_compared_before_the_first_call(void **state)
{
    struct machine *m = *state;
    struct uuid id = approved_each(m);
    name(m, "Hall");
    name(m, "Roof");
    check_undone(m, id, "it was \\\"Named Room\\\"");
    machine_check_error(m, id, "No call was made.");
    resume(m, id);
    name(m, "Hall");
    name(m, "Room");
    answer_write(m, 200);
    answer_write(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
}

/* Those that have completed may have changed what they are about. */
static void the_items_that_are_left_are_compared(void **state)
{
    struct machine *m = *state;
    for (unsigned is_restarted = 0; is_restarted < 2; is_restarted++) {
        struct uuid id = approved_each(m);
        name(m, "Hall");
        name(m, "Room");
        answer_write(m, 200);
        answer_write(m, 400);
        machine_until(m, id, FLOW_FAILED);
        if (is_restarted)
            machine_restart(m);
        resume(m, id);
        name(m, "Roof");
        check_failed(m, id, "it was \\\"Named Room\\\"");
        machine_check_error(m, id, "No further call was made.");
        resume(m, id);
        name(m, "Room");
        answer_write(m, 200);
        machine_until(m, id, FLOW_COMPLETED);
    }
}

static void a_flow_that_is_cancelled_during_the_reads(void **state)
{
    struct machine *m = *state;
    for (unsigned is_held = 0; is_held < 2; is_held++) {
        struct uuid id = approved_way(m, is_held);
        (void)machine_call(m);
        assert_int_equal(machine_command(m, FLOW_COMMAND_CANCEL, id), FLOW_ANSWER_DONE);
        seam_walk_for_ms(&m->walk, 60000);
        assert_int_equal(machine_row(m, id)->flow.status, FLOW_CANCELLED);
        assert_int_equal(m->walk.writes, 0);
        assert_int_equal(flow_service_active(m->node.flow), 0);
    }
}

/* A server that drains begins no call, and leaves no doubt: the next one compares and calls. */
static void a_drain_during_the_reads(void **state)
{
    struct machine *m = *state;
    for (unsigned way = 0; way < 3; way++) {
        struct uuid id = way == 2 ? approved_each(m) : approved_way(m, way);
        struct http_call *call = machine_call(m);
        flow_service_drain(m->node.flow);
        seam_call_reply(call, 200, "{\"name\":\"Hall\"}");
        seam_settle(m->node.loop);
        if (way == 2)
            name(m, "Room");
        for (unsigned i = 0; i < 10; i++)
            machine_turn(m, NULL);
        assert_int_equal(flow_service_active(m->node.flow), 0);
        assert_int_equal(m->walk.writes, 0);
        machine_restart(m);
        name(m, "Hall");
        if (way == 2)
            name(m, "Room");
        answer_write(m, 200);
        if (way == 2)
            answer_write(m, 200);
        machine_until(m, id, FLOW_COMPLETED);
    }
}

static void a_deadline_during_the_reads(void **state)
{
    struct machine *m = *state;
    for (unsigned is_fan_out = 0; is_fan_out < 2; is_fan_out++) {
        struct uuid id = machine_start(m, is_fan_out ? "each_late" : "late", each);
        name(m, "Hall");
        if (is_fan_out)
            name(m, "Room");
        machine_until(m, id, FLOW_WAITING);
        seam_pass_ms(m->node.loop, 1000);
        approve(m, id);
        struct http_call *call = machine_call(m);
        seam_pass_ms(m->node.loop, 1100);
        seam_call_reply(call, 200, "{\"name\":\"Hall\"}");
        seam_settle(m->node.loop);
        if (is_fan_out)
            name(m, "Room");
        check_undone(m, id, "deadline has passed");
    }
}

/* Every allocation of the comparison fails in turn: the call is not made without it. */
static void no_memory_for_the_comparison(void **state)
{
    struct machine *m = *state;
    uint64_t n = 0, hits;
    do {
        struct uuid id = approved(m, "one");
        seam_call_reply(machine_call(m), 200, "{\"name\":\"Roof\"}");
        mem_fail_at(++n, 1);
        seam_settle(m->node.loop);
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        m->walk.reply = "{\"name\":\"Roof\"}";
        machine_until(m, id, FLOW_FAILED);
        m->walk.reply = NULL;
        assert_int_equal(m->walk.writes, 0);
    } while (hits > 0);
    assert_true(n > 3);
}

#define COMPARE_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        COMPARE_TEST(what_is_unchanged_is_called),
        COMPARE_TEST(what_has_changed_is_not_called),
        COMPARE_TEST(another_version_is_not_called),
        COMPARE_TEST(what_is_not_there_any_more),
        COMPARE_TEST(an_app_that_cannot_be_read_now),
        COMPARE_TEST(a_read_that_is_slow),
        COMPARE_TEST(a_change_between_two_attempts),
        COMPARE_TEST(another_server_compares_again),
        COMPARE_TEST(a_call_in_doubt_that_may_be_repeated),
        COMPARE_TEST(items_in_doubt_that_may_be_repeated),
        COMPARE_TEST(a_call_that_was_recorded_is_not_compared),
        COMPARE_TEST(an_id_without_a_name_is_not_read_again),
        COMPARE_TEST(a_call_after_another_of_the_flow),
        COMPARE_TEST(all_items_are_compared_before_the_first_call),
        COMPARE_TEST(the_items_that_are_left_are_compared),
        COMPARE_TEST(a_flow_that_is_cancelled_during_the_reads),
        COMPARE_TEST(a_drain_during_the_reads),
        COMPARE_TEST(a_deadline_during_the_reads),
        COMPARE_TEST(no_memory_for_the_comparison),
    };
    return cmocka_run_group_tests_name("flow/compare", tests, NULL, NULL);
}
