/*
 * Holds: what a held request is answered, in each state of its flow, and whatever fails while the
 * hold is made.
 */
#include "seam/seam.h"

#include "held.h"

enum { EXPIRES_MS = 24 * 3600 * 1000 };

static const char *const templates[] = {TEMPLATE("read", GET("a", "")), NULL};
static const struct uuid asker = {{7}};

static int set_up(void **state)
{
    *state = machine_new(templates);
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

/* Without a key the server makes one of the request and its asker. */
static void prepare_as(struct machine *m, struct uuid by, const char *key, const char *input)
{
    seam_run_exec(&m->run, &m->node, "put", input);
    m->run.exec.asker = by;
    m->run.exec.holds_writes = true;
    if (key)
        m->run.exec.idempotency_key = slice_cstr(key);
}

static enum exec_reason end_run(struct machine *m)
{
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    return m->run.out.reason;
}

/* Returns the flow of the hold that the request gets. */
static struct uuid ask_as(struct machine *m, struct uuid by, const char *key, const char *input)
{
    prepare_as(m, by, key, input);
    seam_run_start(&m->run);
    assert_int_equal(end_run(m), EXEC_HELD);
    assert_non_null(m->run.out.approval);
    struct uuid flow_id = m->run.out.approval->flow_id;
    seam_run_end(&m->run);
    seam_settle(m->node.loop);
    return flow_id;
}

static struct uuid ask(struct machine *m, const char *key)
{
    return ask_as(m, asker, key, "{\"n\":1}");
}

static enum exec_effect over_effect; /* as check_over found it */

/* Sends the request once more: it is over, and the answer has the text. */
static void check_over(struct machine *m, const char *text)
{
    prepare_as(m, asker, "k", "{\"n\":1}");
    seam_run_start(&m->run);
    assert_int_equal(end_run(m), EXEC_HOLD_OVER);
    if (slice_find(m->run.out.message, slice_cstr(text)) < 0)
        fail_msg("no \"%s\" in %.*s", text, SLICE_ARG(m->run.out.message));
    assert_true(slice_find(m->run.out.hint, SLICE("idempotency_key")) > 0);
    bool is_none = m->run.out.effect == EXEC_EFFECT_NONE;
    assert_int_equal(slice_starts_with(m->run.out.hint, SLICE("Check first")), !is_none);
    over_effect = m->run.out.effect;
    seam_run_end(&m->run);
    seam_settle(m->node.loop);
}

static enum flow_answer decide(struct machine *m, enum flow_command_kind kind, struct uuid id)
{
    seam_run_command(&m->run, &m->node, kind, id);
    m->run.command.by.actor = SLICE("key:other");
    m->run.command.note = SLICE("not today");
    seam_run_start(&m->run);
    return machine_end(m);
}

static void a_request_gets_the_hold_of_its_key(void **state)
{
    struct machine *m = *state;
    prepare_as(m, asker, "k", "{\"n\":1}");
    seam_run_start(&m->run);
    assert_int_equal(end_run(m), EXEC_HELD);
    const struct exec_approval *approval = m->run.out.approval;
    struct uuid id = approval->flow_id;
    assert_true(slice_eq_cstr(approval->status, "waiting") && slice_eq_cstr(approval->key, "k"));
    assert_int_equal(approval->expires_at - machine_row(m, id)->flow.created_at,
                     (int64_t)EXPIRES_MS * 1000);
    seam_run_end(&m->run);
    seam_settle(m->node.loop);
    assert_true(uuid_eq(ask(m, "k"), id));
    assert_int_equal(m->store.flows.count, 1);
    assert_true(slice_eq_cstr(machine_row(m, id)->flow.template_key, FLOW_HELD_KEY));
    assert_false(uuid_eq(ask(m, "other"), id));
    assert_int_equal(m->store.flows.count, 2);
    assert_int_equal(m->store.templates.count, 1); /* of the tool */
}

/* The status is that of the flow, which asks once it has read what the id means. */
static void a_call_whose_id_has_a_name(void **state)
{
    struct machine *m = *state;
    static const enum flow_status expected[] = {FLOW_RUNNING, FLOW_WAITING};
    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        machine_begin_asking_for(m, "say", "{\"q\":\"x\"}", "k");
        assert_int_equal(end_run(m), EXEC_HELD);
        const struct exec_approval *approval = m->run.out.approval;
        struct uuid id = approval->flow_id;
        assert_true(slice_eq_cstr(approval->status, flow_status_name(expected[i])));
        assert_int_equal(machine_row(m, id)->flow.status, expected[i]);
        assert_true(approval->expires_at > 0);
        seam_run_end(&m->run);
        seam_settle(m->node.loop);
        machine_until(m, id, FLOW_WAITING);
    }
}

/* The asking key can read the approval, so this names an id only if that key may read it. */
static void a_key_that_may_not_read_has_no_name_shown(void **state)
{
    struct machine *m = *state;
    seam_run_exec(&m->run, &m->node, "say", "{\"q\":\"x\"}");
    m->run.exec.holds_writes = true;
    m->run.exec.asker = asker;
    m->run.exec.scopes = SCOPE_READ | SCOPE_EXECUTE_WRITE;
    seam_run_start(&m->run);
    assert_int_equal(end_run(m), EXEC_HELD);
    struct uuid id = m->run.out.approval->flow_id;
    seam_run_end(&m->run);
    machine_until(m, id, FLOW_WAITING); /* no reply of the app is needed */
    slice asked = machine_row(m, id)->waiting_input;
    assert_true(slice_find(asked, SLICE("\"unread\":[\"q\"]")) > 0);
    assert_true(slice_find(asked, SLICE("\"shows\"")) < 0);
}

/* Without a key, the request and its asker make one. */
static void a_request_without_a_key(void **state)
{
    static const struct uuid another = {{8}};
    struct machine *m = *state;
    struct uuid id = ask(m, NULL);
    assert_true(uuid_eq(ask(m, NULL), id));
    assert_false(uuid_eq(ask_as(m, another, NULL, "{\"n\":1}"), id));
    assert_false(uuid_eq(ask_as(m, asker, NULL, "{\"n\":2}"), id));
    assert_int_equal(m->store.flows.count, 3);
}

static void a_key_of_another_request(void **state)
{
    struct machine *m = *state;
    (void)ask(m, "k");
    prepare_as(m, asker, "k", "{\"n\":2}");
    seam_run_start(&m->run);
    assert_int_equal(end_run(m), EXEC_KEY_MISMATCH);
    seam_run_end(&m->run);
    assert_int_equal(m->store.flows.count, 1);
}

static void a_rejection_says_who_and_why(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, "k");
    assert_int_equal(decide(m, FLOW_COMMAND_REJECT, id), FLOW_ANSWER_DONE);
    check_over(m, "Rejected by key:other: not today");
    /* in the caller's words */
    prepare_as(m, asker, "k", "{\"n\":1}");
    m->run.exec.key_name = "Idempotency-Key header";
    seam_run_start(&m->run);
    assert_int_equal(end_run(m), EXEC_HOLD_OVER);
    assert_true(slice_ends_with(m->run.out.hint, SLICE("with a new Idempotency-Key header.")));
    seam_run_end(&m->run);
    seam_settle(m->node.loop);
    assert_false(uuid_eq(ask(m, "a new key"), id));
}

static void an_approval_expires(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, "k");
    seam_pass_ms(m->node.loop, EXPIRES_MS);
    machine_until(m, id, FLOW_FAILED);
    check_over(m, "no decision on this call by");
}

static void a_hold_is_cancelled(void **state)
{
    struct machine *m = *state;
    assert_int_equal(decide(m, FLOW_COMMAND_CANCEL, ask(m, "k")), FLOW_ANSWER_DONE);
    check_over(m, "was cancelled");
    assert_int_equal(over_effect, EXEC_EFFECT_NONE);
}

/* An id was stored for its call, and nothing says what has become of it. */
static void a_hold_is_cancelled_in_its_call(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, "k");
    m->store.holds.items[0].execution_id = uuid_v7();
    assert_int_equal(decide(m, FLOW_COMMAND_CANCEL, id), FLOW_ANSWER_DONE);
    check_over(m, "It may have been made");
    assert_int_equal(over_effect, EXEC_EFFECT_UNKNOWN);
}

/* The call is made once; the request gets its summary then. */
static void an_approved_call_is_replayed(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, NULL);
    assert_int_equal(decide(m, FLOW_COMMAND_APPROVE, id), FLOW_ANSWER_DONE);
    machine_until(m, id, FLOW_COMPLETED);
    prepare_as(m, asker, NULL, "{\"n\":1}");
    seam_run_start(&m->run);
    assert_int_equal(end_run(m), EXEC_SUCCEEDED);
    assert_true(m->run.out.is_replayed);
    seam_run_end(&m->run);
    seam_settle(m->node.loop);
    assert_int_equal(m->walk.writes, 1);
    assert_int_equal(m->store.executions.count, 1);
}

/* The app has refused it: nothing was done, so its failure is not replayed. */
static void an_approved_call_that_fails(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, "k");
    assert_int_equal(decide(m, FLOW_COMMAND_APPROVE, id), FLOW_ANSWER_DONE);
    machine_reply(m, 400);
    machine_until(m, id, FLOW_FAILED);
    assert_int_equal(m->store.executions.count, 1);
    check_over(m, "was approved, and failed at 2026-");
}

/* It may have been done. */
static void an_approved_call_with_an_unknown_outcome(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, "k");
    assert_int_equal(decide(m, FLOW_COMMAND_APPROVE, id), FLOW_ANSWER_DONE);
    seam_call_reply(machine_call(m), 200, "not JSON");
    machine_until(m, id, FLOW_FAILED);
    prepare_as(m, asker, "k", "{\"n\":1}");
    seam_run_start(&m->run);
    assert_int_not_equal(end_run(m), EXEC_HOLD_OVER);
    assert_int_not_equal(m->run.out.reason, EXEC_SUCCEEDED);
    assert_true(m->run.out.is_replayed);
    seam_run_end(&m->run);
    seam_settle(m->node.loop);
}

/* The page of a user's flow is found with the user. */
static void the_url_names_the_user(void **state)
{
    struct machine *m = *state;
    flow_service_public_url_set(m->node.flow, SLICE("https://sluice.test"));
    for (int i = 0; i < 4; i++) {
        prepare_as(m, asker, i < 2 ? "k" : "theirs", "{\"n\":1}");
        if (i >= 2)
            m->run.exec.user = SLICE("ada@x&y");
        seam_run_start(&m->run);
        assert_int_equal(end_run(m), EXEC_HELD);
        slice url = m->run.out.approval->url;
        assert_true(slice_starts_with(url, SLICE("https://sluice.test/flows/")));
        assert_int_equal(slice_ends_with(url, SLICE("?user=ada%40x%26y")), i >= 2);
        seam_run_end(&m->run);
        seam_settle(m->node.loop);
    }
}

/* A call that no person can see whole is not held. */
static void a_call_that_is_too_large(void **state)
{
    struct machine *m = *state;
    struct buf text;
    buf_init(&text, 4 * 1024 * 1024);
    buf_append_cstr(&text, "{\"n\":\"");
    for (size_t i = 0; i < 2 * 1024 * 1024; i++)
        buf_append_char(&text, 'x');
    buf_append_cstr(&text, "\"}");
    buf_append_char(&text, '\0');
    assert_true(buf_is_ok(&text));
    prepare_as(m, asker, "k", text.ptr);
    seam_run_start(&m->run);
    assert_int_equal(end_run(m), EXEC_POLICY_DENIED);
    assert_true(slice_find(m->run.out.message, SLICE("too large")) > 0);
    seam_run_end(&m->run);
    assert_int_equal(m->store.flows.count, 0);
    buf_deinit(&text);
}

static size_t places;

/* Whatever fails at this place, the request can be sent again, and there is one hold. */
static void check_fault(size_t place, enum seam_fault fault)
{
    struct machine *m = machine_new(templates);
    m->walk.place = place;
    m->walk.fault = fault;
    prepare_as(m, asker, "k", "{\"n\":1}");
    seam_run_start(&m->run);
    enum exec_reason reason = end_run(m);
    if (reason != EXEC_HELD && reason != EXEC_UNAVAILABLE && reason != EXEC_CANCELLED)
        fail_msg("%s at %s: %s", seam_fault_name(fault), m->walk.where, exec_reason_name(reason));
    places = m->walk.places;
    seam_run_end(&m->run);
    seam_walk_for_ms(&m->walk, 60000);
    m->walk.place = SIZE_MAX;
    struct uuid id = ask(m, "k");
    assert_int_equal(m->store.holds.count, 1);
    assert_int_equal(m->store.flows.count, 1);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_WAITING);
    assert_int_equal(machine_free(m), 0);
}

static void every_wait_may_fail(void **state)
{
    (void)state;
    check_fault(SIZE_MAX, SEAM_REFUSED);
    size_t count = places;
    assert_true(count >= 4); /* the key, the hold, the template, the start */
    for (size_t place = 0; place < count; place++)
        for (enum seam_fault fault = 0; fault < SEAM_FAULTS; fault++)
            check_fault(place, fault);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_request_gets_the_hold_of_its_key),
        TEST(a_request_without_a_key),
        TEST(a_call_whose_id_has_a_name),
        TEST(a_key_that_may_not_read_has_no_name_shown),
        TEST(a_key_of_another_request),
        TEST(a_rejection_says_who_and_why),
        TEST(an_approval_expires),
        TEST(a_hold_is_cancelled),
        TEST(a_hold_is_cancelled_in_its_call),
        TEST(an_approved_call_is_replayed),
        TEST(an_approved_call_that_fails),
        TEST(an_approved_call_with_an_unknown_outcome),
        TEST(the_url_names_the_user),
        TEST(a_call_that_is_too_large),
        cmocka_unit_test(every_wait_may_fail),
    };
    return unit_result(cmocka_run_group_tests(tests, NULL, NULL));
}
