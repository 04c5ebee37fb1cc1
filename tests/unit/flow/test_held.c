/*
 * The call of a hold: an execution with its own key and record, made at most once whatever happens
 * around it. What is done at each place is in test_run.c.
 */
#include "seam/seam.h"

#include "exec/internal.h"
#include "held.h"

static const char *const templates[] = {TEMPLATE("read", GET("a", "")), NULL};

static int set_up(void **state)
{
    *state = machine_new(templates);
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

static struct hold *the_hold(struct machine *m)
{
    assert_int_equal(m->store.holds.count, 1);
    return &m->store.holds.items[0];
}

static struct uuid ask(struct machine *m, const char *key)
{
    assert_int_equal(machine_ask(m, key), EXEC_HELD);
    struct uuid id = the_hold(m)->flow_id;
    machine_until(m, id, FLOW_WAITING);
    return id;
}

static void approve(struct machine *m, struct uuid id)
{
    assert_int_equal(machine_command(m, FLOW_COMMAND_APPROVE, id), FLOW_ANSWER_DONE);
}

/* A call that was approved, and whose first byte was sent. */
static struct http_call *approved_call(struct machine *m, const char *key)
{
    approve(m, ask(m, key));
    return machine_call(m);
}

static void check_request(const struct machine *m, const struct http_call *call)
{
    (void)m;
    assert_true(slice_eq_cstr(call->method, "POST"));
    assert_true(slice_eq_cstr(seam_call_body(call), "{\"of\":\"x\"}"));
}

/* The step ends with that outcome, and nothing more was sent. */
static void check_failed(struct machine *m, struct uuid id, const char *outcome)
{
    size_t sent = m->walk.sent;
    machine_until(m, id, FLOW_FAILED);
    machine_check_outcome(m, id, outcome);
    assert_int_equal(m->walk.sent, sent);
}

/* What every error says that is not of a closed hold. */
static void check_resumable(const struct machine *m)
{
    const struct flow_step *last = &m->store.steps.items[m->store.steps.count - 1].step;
    assert_true(last->error.ptr && slice_find(last->error, SLICE("resumable")) < 0);
}

static void resume(struct machine *m, struct uuid id)
{
    assert_int_equal(machine_command(m, FLOW_COMMAND_RESUME, id), FLOW_ANSWER_DONE);
}

static void it_is_an_execution_under_the_key_of_its_request(void **state)
{
    struct machine *m = *state;
    static const char *const keys[] = {"k-1", ""};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        assert_int_equal(machine_ask(m, keys[i]), EXEC_HELD);
        struct hold *hold = &m->store.holds.items[i];
        machine_until(m, hold->flow_id, FLOW_WAITING);
        approve(m, hold->flow_id);
        check_request(m, machine_call(m));
        machine_reply(m, 200);
        machine_until(m, hold->flow_id, FLOW_COMPLETED);
        hold = &m->store.holds.items[i];
        const struct execution *record = seam_find_execution(&m->store, hold->execution_id);
        const struct row_claim *claim = seam_find_claim(&m->store, hold->account_id, hold->key);
        assert_true(record && record->is_succeeded && claim && claim->is_bound);
        assert_true(uuid_eq(claim->claim.execution_id, record->id));
        assert_memory_equal(claim->claim.fingerprint, hold->fingerprint, sizeof(hold->fingerprint));
        assert_int_equal(m->store.executions.count, i + 1);
        /* the request, sent again, gets it */
        assert_int_equal(machine_ask(m, keys[i]), EXEC_SUCCEEDED);
        assert_true(m->run.out.is_replayed);
        assert_true(uuid_eq(m->run.out.execution_id, record->id));
    }
}

/* The key is forgotten in between, as with an idempotency-ttl of a second. */
static void a_request_that_comes_late_gets_the_record(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, "k-1");
    approve(m, id);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
    m->store.claims.count = 0;
    assert_int_equal(machine_ask(m, "k-1"), EXEC_SUCCEEDED);
    assert_true(uuid_eq(m->run.out.execution_id, the_hold(m)->execution_id));
}

/* ---- a server that dies ---- */

static void a_recorded_call_is_not_made_again(void **state)
{
    struct machine *m = *state;
    seam_call_reply(approved_call(m, "k-1"), 201, "{\"id\":7}");
    (void)machine_query(m, "hold_check"); /* of the record; the flow does not have it yet */
    struct uuid id = the_hold(m)->flow_id, execution_id = the_hold(m)->execution_id;
    m->store.claims.count = 0;
    machine_restart(m);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(m->walk.sent, 0);
    assert_int_equal(m->store.executions.count, 1);
    assert_true(uuid_eq(the_hold(m)->execution_id, execution_id));
    assert_true(slice_eq_cstr(m->store.steps.items[1].step.output, "{\"id\":7}"));
}

static void a_call_under_way_ends_as_unknown(void **state)
{
    struct machine *m = *state;
    (void)approved_call(m, "k-1");
    struct uuid id = the_hold(m)->flow_id;
    machine_restart(m);
    check_failed(m, id, "unknown");
    machine_check_error(m, id, "Resume does not make the call again");
    machine_check_error(m, id, "\"resumable\":false");
    char flow_id[UUID_TEXT_LEN + 1];
    uuid_format(id, flow_id);
    slice summary = m->store.executions.items[0].summary;
    assert_true(slice_find(summary, SLICE("\"approval_flow_id\"")) > 0);
    assert_true(slice_find(summary, slice_cstr(flow_id)) > 0);
    for (unsigned i = 0; i < 2; i++) { /* a resume only reads the record */
        resume(m, id);
        check_failed(m, id, "unknown");
        m->store.claims.count = 0;
    }
    assert_int_equal(m->walk.sent, 0);
}

/* An id that is stored, and has neither a claim nor a record: nothing was sent under it. */
static void an_intent_alone_does_not_stop_the_call(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, "k-1");
    machine_begin(m, FLOW_COMMAND_APPROVE, id);
    (void)machine_query(m, "claim_insert");
    struct uuid first = the_hold(m)->execution_id;
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    assert_false(uuid_is_nil(first));
    machine_restart(m);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
    assert_false(uuid_eq(the_hold(m)->execution_id, first));
    assert_int_equal(m->store.executions.count, 1);
}

/* The record may have been removed with its day. */
static void a_call_of_long_ago_is_unknown(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, "k-1");
    machine_begin(m, FLOW_COMMAND_APPROVE, id);
    (void)machine_query(m, "claim_insert");
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    machine_restart(m);
    seam_move_to_ns(seam_now_ns() + UINT64_C(13) * 3600 * 1000000000);
    check_failed(m, id, "unknown");
    machine_check_error(m, id, "no longer stored");
}

/* A call that could not be made waits for another try when its server drains. */
static void a_drain_before_another_try_leaves_no_doubt(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, "k-1");
    approve(m, id);
    seam_query_fail(machine_query(m, "claim_insert"), ERR_IO);
    seam_settle(m->node.loop);
    assert_false(uuid_is_nil(the_hold(m)->execution_id));
    flow_service_drain(m->node.flow);
    for (unsigned i = 0; i < 1000 && flow_service_active(m->node.flow) > 0; i++)
        machine_turn(m, NULL);
    assert_int_equal(flow_service_active(m->node.flow), 0);
    machine_restart(m);
    seam_move_to_ns(seam_now_ns() + UINT64_C(13) * 3600 * 1000000000);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
}

/* The server's lease expires during the call. It goes on as a new node, which does not own the
 * flow. */
static void a_lease_that_ends_during_the_call(void **state)
{
    struct machine *m = *state;
    struct http_call *call = approved_call(m, "k-1");
    struct uuid id = the_hold(m)->flow_id, before = node_id(m->node.node);
    seam_move_to_ns(seam_now_ns() + UINT64_C(20000000000));
    for (unsigned i = 0; i < 100 && uuid_eq(node_id(m->node.node), before); i++)
        machine_turn(m, NULL);
    seam_call_reply(call, 200, "{}");
    seam_settle(m->node.loop);
    seam_walk_for_ms(&m->walk, 60000);
    assert_int_equal(m->store.executions.count, 1);
    assert_int_equal(machine_row(m, id)->flow.status,
                     m->store.executions.items[0].is_succeeded ? FLOW_COMPLETED : FLOW_FAILED);
    assert_int_equal(m->walk.sent, 0);
}

/* ---- replies ---- */

static void a_refusal_that_passes_is_tried_again_under_another_id(void **state)
{
    static const char *const headers[] = {"retry-after", "1", NULL};
    struct machine *m = *state;
    seam_call_reply_with(approved_call(m, "k-1"), 429, headers, SLICE("{}"));
    struct uuid id = the_hold(m)->flow_id, first = the_hold(m)->execution_id;
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
    assert_false(uuid_eq(the_hold(m)->execution_id, first));
    assert_int_equal(m->store.executions.count, 2);
    assert_int_equal(machine_count_steps(m, id, false), 1);
}

static void a_refusal_is_tried_again_by_a_resume(void **state)
{
    struct machine *m = *state;
    seam_call_reply(approved_call(m, "k-1"), 404, "{}");
    struct uuid id = the_hold(m)->flow_id;
    check_failed(m, id, "not_done");
    check_resumable(m);
    resume(m, id);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(m->store.executions.count, 2);
}

static void a_lost_reply_is_unknown_for_good(void **state)
{
    struct machine *m = *state;
    seam_call_fail(approved_call(m, "k-1"), SEAM_SENT);
    struct uuid id = the_hold(m)->flow_id;
    check_failed(m, id, "unknown");
    resume(m, id);
    check_failed(m, id, "unknown");
    assert_int_equal(machine_ask(m, "k-1"), EXEC_BROKEN_OFF);
    assert_true(m->run.out.is_replayed);
}

/* Refuses the records of the call until its flow asks for them. */
static void refuse_records(struct machine *m)
{
    for (unsigned i = 0; i < 1000 && !seam_query_named(m->node.pool, "hold_check"); i++) {
        struct pg_query *finish = seam_query_named(m->node.pool, "execution_finish_keep");
        if (finish)
            seam_query_fail(finish, ERR_BUSY);
        else
            machine_turn(m, NULL);
        seam_settle(m->node.loop);
    }
}

/* A client that waited for the record would have been answered before. */
static void a_record_that_comes_late_is_awaited(void **state)
{
    struct machine *m = *state;
    seam_call_reply(approved_call(m, "k-1"), 200, "{}");
    struct uuid id = the_hold(m)->flow_id;
    seam_settle(m->node.loop);
    refuse_records(m);
    assert_int_equal(m->store.executions.count, 0);
    machine_until(m, id, FLOW_COMPLETED);
    assert_int_equal(m->store.executions.count, 1);
}

/* ---- a person who cancels ---- */

static void a_request_that_was_sent_is_recorded_after_a_cancel(void **state)
{
    struct machine *m = *state;
    struct http_call *call = approved_call(m, "k-1");
    struct uuid id = the_hold(m)->flow_id;
    machine_begin(m, FLOW_COMMAND_CANCEL, id);
    seam_node_answer(&m->node, &m->store);
    seam_call_reply(call, 200, "{}");
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    seam_walk_for_ms(&m->walk, 1000);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_CANCELLED);
    assert_int_equal(m->store.executions.count, 1);
    assert_int_equal(machine_ask(m, "k-1"), EXEC_SUCCEEDED);
    assert_int_equal(m->walk.sent, 0);
}

static void a_request_that_was_not_sent_is_not_sent_after_a_cancel(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, "k-1");
    approve(m, id);
    for (unsigned i = 0; i < 100 && seam_call_count(m->node.http) == 0; i++)
        machine_turn(m, NULL);
    machine_begin(m, FLOW_COMMAND_CANCEL, id);
    seam_node_answer(&m->node, &m->store);
    assert_false(seam_call_send(seam_call(m->node.http, 0)));
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    seam_walk_for_ms(&m->walk, 1000);
    assert_int_equal(m->walk.sent, 0);
    assert_int_equal(m->store.claims.count, 0);
    assert_int_equal(m->store.executions.count, 0);
    assert_int_equal(machine_ask(m, "k-1"), EXEC_HOLD_OVER);
}

/* The row was read before the cancel, and the answer arrives after it. */
static void a_proof_on_its_way_does_not_count_after_a_cancel(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, "k-1");
    approve(m, id);
    for (unsigned i = 0; i < 100 && seam_call_count(m->node.http) == 0; i++)
        machine_turn(m, NULL);
    seam_move_to_ns(seam_now_ns() + UINT64_C(2000000000)); /* longer than a proof is valid */
    assert_false(seam_call_send(seam_call(m->node.http, 0)));
    seam_settle(m->node.loop);
    struct pg_query *proof = seam_query_named(m->node.pool, "flow_rev");
    assert_non_null(proof);
    assert_int_equal(seam_rows_do(&m->store, proof), OK);
    machine_begin(m, FLOW_COMMAND_CANCEL, id);
    seam_settle(m->node.loop);
    seam_rows_answer(&m->store, seam_query_named(m->node.pool, "flow_cancel"));
    seam_settle(m->node.loop);
    seam_query_done(proof);
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    seam_walk_for_ms(&m->walk, 1000);
    assert_int_equal(m->walk.sent, 0);
    assert_int_equal(m->store.claims.count, 0);
}

/* The cancel is answered once no proof of this server can be valid any more. */
static void a_cancel_elsewhere_stops_what_was_not_sent(void **state)
{
    struct machine *m = *state;
    struct seam_node other;
    struct uuid id = ask(m, "k-1");
    approve(m, id);
    for (unsigned i = 0; i < 100 && seam_call_count(m->node.http) == 0; i++)
        machine_turn(m, NULL);
    seam_node_open(&other, m->catalog, m->templates, NULL);
    seam_node_join(&other, &m->store);
    seam_run_command(&m->run, &other, FLOW_COMMAND_CANCEL, id);
    seam_run_start(&m->run);
    for (unsigned i = 0; i < 100 && !seam_run_has_ended(&m->run); i++) {
        seam_node_answer(&other, &m->store);
        seam_pass_ms(other.loop, 100);
    }
    assert_true(seam_run_has_ended(&m->run));
    assert_int_equal(m->run.answer, FLOW_ANSWER_DONE);
    seam_run_end(&m->run);
    assert_false(seam_call_send(seam_call(m->node.http, 0)));
    seam_node_close(&other);
    seam_walk_for_ms(&m->walk, 1000);
    assert_int_equal(m->walk.sent, 0);
    assert_int_equal(m->store.claims.count, 0);
    assert_int_equal(flow_service_active(m->node.flow), 0);
}

/* ---- the hold ---- */

/* Its flow was resumed after it had ended for longer than the hold is kept. */
static void a_hold_that_was_removed(void **state)
{
    struct machine *m = *state;
    seam_call_reply(approved_call(m, "k-1"), 404, "{}");
    struct uuid id = the_hold(m)->flow_id;
    check_failed(m, id, "not_done");
    m->store.holds.count = 0;
    resume(m, id);
    check_failed(m, id, "not_done");
    machine_check_error(m, id, "Send the request again");
    machine_check_error(m, id, "\"resumable\":false");
}

static void another_run_of_the_request_is_awaited(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, "k-1");
    struct uuid other = machine_run_elsewhere(m, true);
    approve(m, id);
    seam_walk_for_ms(&m->walk, 5000);
    assert_int_equal(m->walk.sent, 0);
    assert_true(uuid_eq(the_hold(m)->execution_id, other));
    m->store.claims.count = 0; /* it was refused before it was sent */
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
    assert_false(uuid_eq(the_hold(m)->execution_id, other));
}

/* A request that is not held may have any key. */
static void another_request_has_the_key(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask(m, "k-1");
    (void)machine_run_elsewhere(m, true);
    m->store.claims.items[0].claim.fingerprint[0] ^= 1;
    approve(m, id);
    seam_walk_for_ms(&m->walk, 5000);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_RUNNING);
    m->store.claims.items[0].is_bound = true;
    check_failed(m, id, "not_done");
    machine_check_error(m, id, "Another request was made with the idempotency_key");
    m->store.claims.count = 0;
    resume(m, id);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
}

/* A person has agreed in a form, whose state is valid for longer than keys are kept. */
static void a_key_that_guards_something_is_kept_for_it(void **state)
{
    struct machine *m = *state;
    int64_t until = seam_store_now() + INT64_C(600000000);
    m->node.flow->config.idempotency_ttl_ms = m->node.exec->config.idempotency_ttl_ms = 1000;
    machine_begin_asking(m, "k-1");
    m->run.exec.key_guards_until = until;
    (void)machine_end(m);
    struct uuid id = the_hold(m)->flow_id;
    machine_until(m, id, FLOW_WAITING);
    approve(m, id);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
    assert_true(m->store.claims.items[0].expires_at >= until);
}

/* ---- what is no longer held ---- */

static void set_unattended(struct machine *m, bool holds)
{
    m->node.flow->config.holds_unattended = holds;
}

/* Asks for a write that is held as long as the server's setting says so. */
static struct uuid ask_by_setting(struct machine *m, const char *key)
{
    set_unattended(m, true);
    machine_begin_asking(m, key);
    m->run.exec.is_set_to_hold = true;
    (void)machine_end(m);
    assert_int_equal(m->run.out.reason, EXEC_HELD);
    struct uuid id = the_hold(m)->flow_id;
    machine_until(m, id, FLOW_WAITING);
    return id;
}

/* The same request would run without a key by now. */
static void a_call_without_a_key_that_is_not_held_any_more(void **state)
{
    struct machine *m = *state;
    struct uuid id = ask_by_setting(m, "");
    set_unattended(m, false);
    approve(m, id);
    check_failed(m, id, "not_done");
    machine_check_error(m, id, "did not hold this call any more");
    machine_check_error(m, id, "\"resumable\":false");
    set_unattended(m, true); /* it may have been made meanwhile */
    resume(m, id);
    check_failed(m, id, "not_done");
    assert_int_equal(m->walk.sent, 0);
}

/* With a key of its own it is made, as long as a run of the same request under that key would be
 * found. */
static void a_call_with_a_key_that_is_not_held_any_more(void **state)
{
    struct machine *m = *state;
    for (unsigned is_old = 0; is_old < 2; is_old++) {
        struct uuid id = ask_by_setting(m, "k-1");
        set_unattended(m, false);
        if (is_old) {
            the_hold(m)->lifetime_ms = 1000;
            seam_pass_ms(m->node.loop, 2000);
        }
        approve(m, id);
        if (is_old) {
            check_failed(m, id, "not_done");
            break;
        }
        machine_reply(m, 200);
        machine_until(m, id, FLOW_COMPLETED);
        m->store.holds.count = m->store.claims.count = 0;
    }
    machine_check_error(m, the_hold(m)->flow_id, "did not hold this call any more");
}

#define HELD_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HELD_TEST(it_is_an_execution_under_the_key_of_its_request),
        HELD_TEST(a_request_that_comes_late_gets_the_record),
        HELD_TEST(a_recorded_call_is_not_made_again),
        HELD_TEST(a_call_under_way_ends_as_unknown),
        HELD_TEST(an_intent_alone_does_not_stop_the_call),
        HELD_TEST(a_call_of_long_ago_is_unknown),
        HELD_TEST(a_drain_before_another_try_leaves_no_doubt),
        HELD_TEST(a_refusal_that_passes_is_tried_again_under_another_id),
        HELD_TEST(a_refusal_is_tried_again_by_a_resume),
        HELD_TEST(a_lost_reply_is_unknown_for_good),
        HELD_TEST(a_record_that_comes_late_is_awaited),
        HELD_TEST(a_request_that_was_sent_is_recorded_after_a_cancel),
        HELD_TEST(a_request_that_was_not_sent_is_not_sent_after_a_cancel),
        HELD_TEST(a_cancel_elsewhere_stops_what_was_not_sent),
        HELD_TEST(a_proof_on_its_way_does_not_count_after_a_cancel),
        HELD_TEST(a_key_that_guards_something_is_kept_for_it),
        HELD_TEST(a_hold_that_was_removed),
        HELD_TEST(another_run_of_the_request_is_awaited),
        HELD_TEST(another_request_has_the_key),
        HELD_TEST(a_lease_that_ends_during_the_call),
        HELD_TEST(a_call_without_a_key_that_is_not_held_any_more),
        HELD_TEST(a_call_with_a_key_that_is_not_held_any_more),
    };
    return cmocka_run_group_tests_name("flow/held", tests, NULL, NULL);
}
