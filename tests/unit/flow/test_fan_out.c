/*
 * The table of a lane: items that are read and items that are written, every failure of an item,
 * and each of its queries and calls failing in each way.
 */
#include "seam/seam.h"

#include "machine.h"

#define BAD                                                             \
    "\"tool\":\"demo_get\",\"for_each\":\"input.n\",\"concurrency\":1," \
    "\"input\":{\"q\":\"${abs(item)}\"}"

/* Sorted by key, as in a template set. */
static const char *const templates[] = {
    TEMPLATE("bad", STEP("a", "tool_call", BAD)),
    TEMPLATE_WITH("late", "\"deadline\":2,", GET("a", "\"for_each\":\"input.n\",")),
    TEMPLATE("read", GET("a", EACH("\"retry\":{\"attempts\":3,\"backoff\":2},"))),
    TEMPLATE("set", SET("a", EACH("\"confirmed_by\":\"start\",\"retry\":{\"attempts\":1},"))),
    TEMPLATE("write", PUT("a", "start", EACH(""))),
    NULL,
};

static const char three[] = "{\"confirm\":true,\"n\":[1,2,3]}";

static int set_up(void **state)
{
    *state = machine_new(templates);
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

static size_t count_facts(const struct machine *m, const char *fact)
{
    size_t count = 0;
    for (size_t i = 0; i < m->store.items.count; i++)
        count += slice_eq_cstr(m->store.items.items[i].fact, fact);
    return count;
}

static void items_that_are_read_have_no_intent(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "read", three);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(m->walk.sent, 3);
    assert_int_equal(count_facts(m, "begun"), 0);
    assert_int_equal(count_facts(m, "completed"), 3);
    assert_true(slice_eq_cstr(m->store.steps.items[0].step.output, "[{},{},{}]"));
}

static void items_that_are_written_have_one(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", three);
    (void)machine_query(m, "flow_item_insert");
    assert_int_equal(seam_call_count(m->node.http), 0);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(m->walk.writes, 3);
    assert_int_equal(count_facts(m, "begun"), 3);
    assert_int_equal(count_facts(m, "completed"), 3);
}

static void no_items(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "read", "{\"confirm\":true,\"n\":[]}");
    machine_until(m, id, FLOW_COMPLETED);
    assert_true(slice_eq_cstr(m->store.steps.items[0].step.output, "[]"));
}

static void facts_that_fail_are_written_again(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", three);
    seam_query_fail(machine_query(m, "flow_item_insert"), ERR_BUSY); /* begun */
    machine_reply(m, 200);
    seam_query_fail(machine_query(m, "flow_item_insert"), ERR_TIMEOUT); /* completed */
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(count_facts(m, "completed"), 3);
}

static void an_output_that_the_database_refuses(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "read", "{\"confirm\":true,\"n\":[1]}");
    machine_reply(m, 200);
    seam_query_fail(machine_query(m, "flow_item_insert"), ERR_INVALID);
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "Item 1 of 1 failed, 0 completed");
    machine_check_error(m, id, "cannot be stored");
}

static void an_input_that_does_not_fit(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "bad", "{\"confirm\":true,\"n\":[1,\"x\",2]}");
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "Item 2 of 3 failed, 1 completed: The input of this item");
    assert_int_equal(m->walk.sent, 1); /* no new item is begun */
}

/* No transition comes between two items: a change of the account's policies is enough, or the time
 * if its notification is lost. */
static void check_change_between_items(struct machine *m, bool is_notified)
{
    struct policy_cache *policies = machine_policies(m);
    struct uuid id = machine_start_by_key(m, "read", three);
    struct http_call *call = machine_call(m);
    seam_key_policy = SLICE("team@7");
    if (is_notified)
        flow_policies_changed(m->node.flow, &seam_account);
    LIST_EACH(&m->node.flow->runs, struct flow_run, run, link) {
        if (!is_notified) /* as if 11 s had passed */
            run->policy.learnt_ns -= 11 * UINT64_C(1000000000);
    }
    seam_call_reply(call, 200, "{}");
    seam_query_fail(machine_query(m, "flow_key_policy"), ERR_TIMEOUT); /* it is asked for again */
    machine_deny(machine_query(m, "policy_get"));
    machine_until(m, id, FLOW_FAILED);
    assert_int_equal(count_facts(m, "completed"), 2);
    machine_check_error(m, id, "Item 3 of 3 failed, 2 completed: The policy of this API key");
    machine_policies_free(m, policies);
}

static void a_policy_that_changes_between_items(void **state)
{
    check_change_between_items(*state, true);
}

static void a_policy_that_changes_without_a_notification(void **state)
{
    check_change_between_items(*state, false);
}

static void a_deadline_that_passes_between_items(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "late", three);
    machine_reply(m, 200);
    (void)machine_query(m, "flow_item_insert");
    seam_pass_ms(m->node.loop, 3000);
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "Items 2, 3 of 3 failed, 1 completed: The flow's deadline");
}

static void an_item_that_fails_is_called_again(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "read", "{\"confirm\":true,\"n\":[1]}");
    for (unsigned i = 0; i < 4; i++) /* exec retries some of them by itself */
        machine_reply(m, 503);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(count_facts(m, "failed"), 0);
}

static void a_long_retry_after_is_the_whole_steps(void **state)
{
    struct machine *m = *state;
    static const char *const headers[] = {"retry-after", "60", NULL};
    struct uuid id = machine_start(m, "read", three);
    machine_reply(m, 200);
    seam_call_reply_with(machine_call(m), 429, headers, SLICE("{}"));
    machine_until(m, id, FLOW_WAITING);
    size_t done = count_facts(m, "completed"), sent = m->walk.sent;
    assert_int_equal(machine_row(m, id)->flow.waiting_for, FLOW_WAITS_RETRY);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(m->walk.sent, sent + 3 - done); /* the items that had not completed */
}

static void outputs_that_are_too_large_together(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "read", three);
    char *reply = mem_alloc(600002);
    memset(reply, 'x', 600001);
    reply[0] = reply[600000] = '"';
    reply[600001] = '\0';
    m->walk.reply = reply;
    machine_until(m, id, FLOW_FAILED);
    mem_free(reply);
    machine_check_error(m, id, "larger than the 1 MB");
}

static void a_flow_that_is_cancelled_meanwhile(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", three);
    (void)machine_query(m, "flow_item_insert");
    machine_row(m, id)->flow.rev++; /* cancelled by another node, which will record it later */
    machine_row(m, id)->flow.status = FLOW_CANCELLED;
    machine_row(m, id)->flow.owner = (struct uuid){{0}};
    seam_walk_for_ms(&m->walk, 1000);
    assert_int_equal(m->walk.sent, 0);
    assert_int_equal(flow_service_active(m->node.flow), 0);
}

static void a_drain_before_the_intent(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", three);
    for (unsigned lane = 0; lane < 2; lane++)
        seam_query_fail(machine_query(m, "flow_item_insert"), ERR_BUSY);
    flow_service_drain(m->node.flow);
    seam_pass_ms(m->node.loop, 1000);
    assert_int_equal(flow_service_active(m->node.flow), 0);
    assert_int_equal(m->store.items.count, 0);
    machine_restart(m);
    machine_until(m, id, FLOW_COMPLETED); /* no outcome was unknown */
    assert_int_equal(m->walk.writes, 3);
}

static void a_write_that_a_dead_server_had_begun(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", three);
    machine_reply(m, 200);
    (void)machine_call(m);
    seam_rows_answer(&m->store, machine_query(m, "flow_item_insert"));
    machine_restart(m);
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "outcome is unknown");
    assert_int_equal(machine_command(m, FLOW_COMMAND_RESUME, id), FLOW_ANSWER_DONE);
    machine_until(m, id, FLOW_COMPLETED);
}

/* ---- what earlier attempts leave in doubt, for each item ---- */

static const char one[] = "{\"confirm\":true,\"n\":[1]}";

static void check_fact(const struct machine *m, int64_t item, const char *outcome)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "\"outcome\":\"%s\"", outcome);
    for (size_t i = m->store.items.count; i > 0; i--) {
        const struct row_item *row = &m->store.items.items[i - 1];
        if (row->item != item || !slice_eq_cstr(row->fact, "failed"))
            continue;
        if (slice_find(row->error, slice_cstr(text)) < 0)
            fail_msg("no %s in %.*s", text, SLICE_ARG(row->error));
        return;
    }
    fail_msg("item %lld has not failed", (long long)item);
}

static void resume_refused(struct machine *m, struct uuid id, unsigned status)
{
    assert_int_equal(machine_command(m, FLOW_COMMAND_RESUME, id), FLOW_ANSWER_DONE);
    machine_reply(m, status);
    machine_until(m, id, FLOW_FAILED);
}

/* This also holds after a person's retry, and after a crash in between. */
static void an_item_whose_reply_was_lost_stays_in_doubt(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", one);
    seam_call_fail(machine_call(m), SEAM_SENT);
    machine_until(m, id, FLOW_FAILED);
    check_fact(m, 0, "unknown");
    resume_refused(m, id, 404);
    check_fact(m, 0, "unknown");
    machine_restart(m);
    resume_refused(m, id, 404);
    check_fact(m, 0, "unknown");
    machine_check_outcome(m, id, "unknown");
    assert_int_equal(machine_command(m, FLOW_COMMAND_RESUME, id), FLOW_ANSWER_DONE);
    machine_until(m, id, FLOW_COMPLETED);
}

/* An intent without a result, for a write that is repeated and for one that is not. */
static void an_item_that_a_dead_server_had_begun_stays_in_doubt(void **state)
{
    static const char *const keys[] = {"set", "write"};
    struct machine *m = *state;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct uuid id = machine_start(m, keys[i], one);
        (void)machine_call(m);
        machine_restart(m);
        if (i == 0)
            machine_reply(m, 404);
        machine_until(m, id, FLOW_FAILED);
        machine_check_outcome(m, id, "unknown");
        resume_refused(m, id, 404);
        machine_check_outcome(m, id, "unknown");
    }
}

/* If the outcome of one item is unknown, that does not affect another item. */
static void each_item_has_its_own_doubt(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", "{\"confirm\":true,\"n\":[1,2]}");
    seam_call_fail(machine_call(m), SEAM_SENT);
    machine_reply(m, 404);
    machine_until(m, id, FLOW_FAILED);
    check_fact(m, 0, "unknown");
    check_fact(m, 1, "not_done");
    assert_int_equal(machine_command(m, FLOW_COMMAND_RESUME, id), FLOW_ANSWER_DONE);
    machine_reply(m, 404);
    machine_reply(m, 404);
    machine_until(m, id, FLOW_FAILED);
    check_fact(m, 0, "unknown");
    check_fact(m, 1, "not_done");
    machine_check_outcome(m, id, "unknown");
}

/* The step reports the item whose outcome is unknown, whichever failed first. */
static void an_item_in_doubt_speaks_for_the_step(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", "{\"confirm\":true,\"n\":[1,2]}");
    machine_reply(m, 404);
    seam_call_fail(machine_call(m), SEAM_SENT);
    machine_until(m, id, FLOW_FAILED);
    check_fact(m, 0, "not_done");
    check_fact(m, 1, "unknown");
    machine_check_outcome(m, id, "unknown");
    machine_check_error(m, id, "Items 1, 2 of 2 failed, 0 completed: ");
    machine_check_error(m, id, "did not send a whole, readable reply");
}

static void one_item_of_two_is_a_part(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", "{\"confirm\":true,\"n\":[1,2]}");
    machine_reply(m, 404);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_FAILED);
    machine_check_outcome(m, id, "partly");
    id = machine_start(m, "write", "{\"confirm\":true,\"n\":[1,2]}");
    machine_reply(m, 404);
    machine_reply(m, 404);
    machine_until(m, id, FLOW_FAILED);
    machine_check_outcome(m, id, "not_done");
}

/* ---- refusals that pass ---- */

static void an_item_is_repeated_after_a_refusal_that_passes(void **state)
{
    static const char *const headers[] = {"retry-after", "1", NULL};
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", three);
    for (unsigned i = 0; i < 6; i++)
        seam_call_reply_with(machine_call(m), 429, headers, SLICE("{}"));
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(m->store.steps.items[0].step.attempt, 1);
}

/* Ten attempts in total, whether they are made in the lane or in the step. */
static void an_item_has_ten_tries(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "write", one);
    for (unsigned i = 1; i <= 10; i++) {
        const char *const headers[] = {"retry-after", i % 3 ? "1" : "60", NULL};
        seam_call_reply_with(machine_call(m), 429, headers, SLICE("{}"));
    }
    machine_until(m, id, FLOW_FAILED);
    check_fact(m, 0, "not_done");
    assert_int_equal(m->walk.sent, 0); /* an eleventh attempt would be counted in the walk */
}

/* The record of a failed item outlives the server that wrote it. */
static void an_item_that_a_dead_server_saw_fail(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "read", "{\"confirm\":true,\"n\":[1]}");
    machine_reply(m, 403);
    (void)machine_query(m, "flow_move");
    assert_int_equal(count_facts(m, "failed"), 1);
    machine_restart(m);
    machine_until(m, id, FLOW_FAILED);
    machine_check_error(m, id, "Item 1 of 1 failed");
    assert_int_equal(m->walk.sent, 0); /* the item is not called again */
}

/* The node's lease expires while an item waits for its next attempt. */
static void a_call_that_may_not_be_sent(void **state)
{
    struct machine *m = *state;
    static const char *const headers[] = {"retry-after", "3", NULL};
    struct uuid id = machine_start(m, "read", "{\"confirm\":true,\"n\":[1]}");
    seam_call_reply_with(machine_call(m), 429, headers, SLICE("{}"));
    seam_settle(m->node.loop);
    seam_move_to_ns(seam_now_ns() + UINT64_C(20000000000));
    seam_settle(m->node.loop);
    assert_int_equal(seam_call_count(m->node.http), 0);
    machine_until(m, id, FLOW_COMPLETED);
}

/* ---- each place ---- */

static bool check_items(const struct machine *m, bool is_write)
{
    bool is_ok = !is_write || m->walk.writes <= 3;
    for (size_t i = 0; i < m->store.items.count; i++)
        for (size_t k = 0; k < i; k++) {
            const struct row_item *a = &m->store.items.items[i], *b = &m->store.items.items[k];
            bool has_ended_twice = a->item == b->item && a->attempt == b->attempt &&
                                   !slice_eq_cstr(a->fact, "begun") &&
                                   !slice_eq_cstr(b->fact, "begun");
            is_ok &= !has_ended_twice;
        }
    return is_ok;
}

static size_t walk_once(const char *key, size_t place, enum seam_fault fault, bool *is_ok)
{
    struct machine *m = machine_new(templates);
    m->walk.place = place;
    m->walk.fault = fault;
    machine_begin_start(m, key, three);
    (void)machine_end(m);
    struct uuid id = m->run.flow_id;
    seam_walk_for_ms(&m->walk, 180000);
    const struct row_flow *row = seam_find_flow(&m->store, id);
    bool is_right = check_items(m, strcmp(key, "write") == 0) &&
                    flow_service_active(m->node.flow) == 0 &&
                    (!row || row->flow.status > FLOW_WAITING);
    if (!is_right)
        print_error("%s, %s at %s (place %zu)\n", key, seam_fault_name(fault), m->walk.where,
                    place);
    *is_ok &= is_right;
    size_t places = m->walk.places;
    assert_int_equal(machine_free(m), 0);
    return places;
}

static void each_place_fails_in_each_way(void **state)
{
    static const char *const keys[] = {"read", "write"};
    bool is_ok = true;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        size_t places = walk_once(keys[i], SIZE_MAX, SEAM_REFUSED, &is_ok);
        assert_true(places > 6);
        for (size_t place = 0; place < places; place++)
            for (unsigned fault = 0; fault < SEAM_FAULTS; fault++)
                (void)walk_once(keys[i], place, (enum seam_fault)fault, &is_ok);
    }
    assert_true(is_ok);
}

static void every_step_and_jump_was_taken(void **state)
{
    (void)state;
    assert_int_equal(seam_table_missing("flow_lane"), 0);
}

#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_MACHINE(items_that_are_read_have_no_intent),
        ON_A_MACHINE(items_that_are_written_have_one),
        ON_A_MACHINE(no_items),
        ON_A_MACHINE(facts_that_fail_are_written_again),
        ON_A_MACHINE(an_output_that_the_database_refuses),
        ON_A_MACHINE(an_input_that_does_not_fit),
        ON_A_MACHINE(a_policy_that_changes_between_items),
        ON_A_MACHINE(a_policy_that_changes_without_a_notification),
        ON_A_MACHINE(a_deadline_that_passes_between_items),
        ON_A_MACHINE(an_item_that_fails_is_called_again),
        ON_A_MACHINE(a_long_retry_after_is_the_whole_steps),
        ON_A_MACHINE(outputs_that_are_too_large_together),
        ON_A_MACHINE(a_flow_that_is_cancelled_meanwhile),
        ON_A_MACHINE(a_drain_before_the_intent),
        ON_A_MACHINE(a_write_that_a_dead_server_had_begun),
        ON_A_MACHINE(an_item_whose_reply_was_lost_stays_in_doubt),
        ON_A_MACHINE(an_item_that_a_dead_server_had_begun_stays_in_doubt),
        ON_A_MACHINE(each_item_has_its_own_doubt),
        ON_A_MACHINE(an_item_in_doubt_speaks_for_the_step),
        ON_A_MACHINE(one_item_of_two_is_a_part),
        ON_A_MACHINE(an_item_is_repeated_after_a_refusal_that_passes),
        ON_A_MACHINE(an_item_has_ten_tries),
        ON_A_MACHINE(an_item_that_a_dead_server_saw_fail),
        ON_A_MACHINE(a_call_that_may_not_be_sent),
        cmocka_unit_test(each_place_fails_in_each_way),
        cmocka_unit_test(every_step_and_jump_was_taken),
    };
    seam_table_watch();
    return cmocka_run_group_tests_name("flow/fan_out", tests, NULL, NULL);
}
