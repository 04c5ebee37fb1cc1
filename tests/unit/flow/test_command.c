/*
 * Tests every answer, step and transition of the flow command. For approve, reject, resume and
 * cancel, each query is made to fail in each way.
 */
#include "seam/seam.h"

#include "held.h"

/* Sorted by key, as in a template set. */
static const char *const templates[] = {
    TEMPLATE("ask", ASK("a", "\"expires_in\":600,") "," PUT("b", "approval:a", "")),
    TEMPLATE("fault", WAIT("a", "\"${input.n}\"")),
    TEMPLATE("pause", WAIT("a", "300")),
    TEMPLATE("read", GET("a", "")),
    NULL,
};

static const char confirmed[] = "{\"confirm\":true}";

static int set_up(void **state)
{
    *state = machine_new(templates);
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

static void check_message(const struct machine *m, const char *text)
{
    if (!m->run.message.ptr || slice_find(m->run.message, slice_cstr(text)) < 0)
        fail_msg("no \"%s\" in %.*s", text, SLICE_ARG(m->run.message));
}

/* ---- start ---- */

static void a_start_shows_what_it_made(void **state)
{
    struct machine *m = *state;
    machine_begin_start(m, "read", confirmed);
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_int_equal(m->run.answer, FLOW_ANSWER_DONE);
    assert_true(slice_find(m->run.as.command.view_json, SLICE("\"status\":\"running\"")) > 0);
    seam_run_end(&m->run);
    machine_reply(m, 200);
}

static void a_start_of_nothing_and_one_that_does_not_fit(void **state)
{
    struct machine *m = *state;
    machine_begin_start(m, "none", confirmed);
    assert_int_equal(machine_end(m), FLOW_ANSWER_NO_TEMPLATE);
    machine_begin_start(m, "read", "{\"other\":1}");
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_int_equal(m->run.answer, FLOW_ANSWER_INVALID);
    check_message(m, "confirm");
    check_message(m, "other");
    seam_run_end(&m->run);
    assert_int_equal(m->store.flows.count, 0);
}

static enum flow_answer start_as(struct machine *m, struct uuid id)
{
    seam_run_flow(&m->run, &m->node, "read", confirmed);
    m->run.command.flow_id = id;
    seam_run_start(&m->run);
    return machine_end(m);
}

static void a_start_that_is_repeated(void **state)
{
    struct machine *m = *state;
    struct uuid id = uuid_v7();
    assert_int_equal(start_as(m, id), FLOW_ANSWER_DONE);
    uint64_t before_ns = seam_now_ns();
    seam_run_flow(&m->run, &m->node, "read", confirmed);
    m->run.command.flow_id = id;
    seam_run_start(&m->run);
    while (!seam_run_has_ended(&m->run)) /* its call is not answered, so the flow is running */
        assert_true(seam_pass_timer(m->node.loop, 1000));
    assert_int_equal(m->run.answer, FLOW_ANSWER_REPEATED);
    assert_true(seam_now_ns() > before_ns); /* the first command has had time to finish */
    seam_run_end(&m->run);
    machine_reply(m, 200);
    machine_until(m, id, FLOW_COMPLETED);
    seam_settle(m->node.loop);
    assert_int_equal(start_as(m, id), FLOW_ANSWER_REPEATED); /* the flow's row exists */
    assert_int_equal(m->store.flows.count, 1);
}

static void a_start_that_the_database_does_not_take(void **state)
{
    struct machine *m = *state;
    machine_begin_start(m, "read", confirmed);
    seam_query_fail(machine_query(m, "flow_start"), ERR_BUSY);
    assert_int_equal(machine_end(m), FLOW_ANSWER_UNAVAILABLE);
    assert_int_equal(flow_service_active(m->node.flow), 0);
}

/* The statement is sent again until its answer has arrived. */
static void a_start_whose_answer_is_lost_is_still_answered(void **state)
{
    struct machine *m = *state;
    machine_begin_start(m, "read", confirmed);
    struct pg_query *query = machine_query(m, "flow_start");
    assert_int_equal(seam_rows_do(&m->store, query), OK);
    seam_query_lose_for_good(query);
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    assert_int_equal(m->store.flows.count, 1);
    machine_until(m, m->store.flows.items[0].flow.id, FLOW_COMPLETED);
}

/* No answer arrives while the client waits: it is unknown whether the flow began, and its id is
 * returned. */
static void a_start_that_may_have_begun_says_so(void **state)
{
    struct machine *m = *state;
    machine_begin_start(m, "read", confirmed);
    struct pg_query *query = machine_query(m, "flow_start");
    assert_int_equal(seam_rows_do(&m->store, query), OK);
    seam_query_lose_for_good(query);
    seam_pool_away_set(m->node.pool, true);
    while (!seam_run_has_ended(&m->run))
        assert_true(seam_pass_timer(m->node.loop, 60000));
    assert_int_equal(m->run.answer, FLOW_ANSWER_UNKNOWN);
    struct uuid id = m->run.as.command.flow_id;
    assert_true(uuid_eq(id, m->store.flows.items[0].flow.id));
    seam_run_end(&m->run);
    seam_pool_away_set(m->node.pool, false);
    machine_until(m, id, FLOW_COMPLETED);
}

/* ---- start with an idempotency key ---- */

static void prepare_keyed(struct machine *m, const char *template_key, const char *input)
{
    seam_run_flow(&m->run, &m->node, template_key, input);
    m->run.command.idempotency_key = SLICE("k");
}

static enum flow_answer start_keyed(struct machine *m, const char *template_key, const char *input)
{
    prepare_keyed(m, template_key, input);
    seam_run_start(&m->run);
    return machine_end(m);
}

static void a_key_gives_the_flow_as_it_is_now(void **state)
{
    struct machine *m = *state;
    assert_int_equal(start_keyed(m, "read", "{\"confirm\":true,\"n\":1}"), FLOW_ANSWER_DONE);
    struct uuid id = m->run.flow_id;
    machine_until(m, id, FLOW_COMPLETED);
    flow_service_drain(m->node.flow); /* the key returns the first start, whatever has changed */
    prepare_keyed(m, "read", "{\"n\":1,\"confirm\":true}");
    seam_run_start(&m->run);
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_int_equal(m->run.answer, FLOW_ANSWER_DONE);
    assert_true(m->run.as.command.is_replayed);
    assert_true(uuid_eq(m->run.as.command.flow_id, id));
    assert_true(slice_find(m->run.as.command.view_json, SLICE("\"status\":\"completed\"")) > 0);
    seam_run_end(&m->run);
    assert_int_equal(m->store.flows.count, 1);
}

static void a_key_of_another_request(void **state)
{
    struct machine *m = *state;
    assert_int_equal(start_keyed(m, "read", confirmed), FLOW_ANSWER_DONE);
    assert_int_equal(start_keyed(m, "read", "{\"confirm\":true,\"n\":1}"),
                     FLOW_ANSWER_KEY_MISMATCH);
    assert_int_equal(start_keyed(m, "pause", confirmed), FLOW_ANSWER_KEY_MISMATCH);
    prepare_keyed(m, "read", confirmed);
    m->run.command.trigger_type = SLICE("webhook");
    seam_run_start(&m->run);
    assert_int_equal(machine_end(m), FLOW_ANSWER_KEY_MISMATCH);
    seam_run_exec(&m->run, &m->node, "put", "{}");
    m->run.exec.idempotency_key = SLICE("k");
    m->run.exec.is_confirmed = true;
    seam_run_start(&m->run);
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_int_equal(m->run.out.reason, EXEC_KEY_MISMATCH);
    seam_run_end(&m->run);
    assert_int_equal(m->store.flows.count, 1);
}

/* A start of a template that writes, by a client that may repeat it. Returns the flow. */
static struct uuid start_watched(struct machine *m, const char *template_key, bool leaves_early,
                                 bool leaves_late)
{
    static const struct uuid by = {{9}};
    seam_run_flow(&m->run, &m->node, template_key, confirmed);
    m->run.command.lost_by = by;
    seam_run_start(&m->run);
    seam_settle(m->node.loop); /* it looks for its note */
    if (leaves_early)
        seam_run_leave(&m->run);
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_int_equal(m->run.answer, FLOW_ANSWER_DONE);
    if (leaves_late)
        seam_run_leave(&m->run);
    struct uuid id = m->run.as.command.flow_id;
    seam_run_end(&m->run);
    seam_walk_for_ms(&m->walk, 10);
    return id;
}

static void a_start_whose_reply_was_lost(void **state)
{
    struct machine *m = *state;
    for (size_t i = 0; i < 2; i++) {
        struct uuid first = start_watched(m, "ask", false, false);
        struct uuid lost = start_watched(m, "ask", i == 0, i == 1);
        assert_false(uuid_eq(first, lost)); /* the first one had its reply */
        assert_true(uuid_eq(start_watched(m, "ask", false, false), lost));
        seam_pass_ms(m->node.loop, EXEC_LOST_MS + 60000);
        assert_false(uuid_eq(start_watched(m, "ask", false, false), lost));
    }
    size_t count = m->store.claims.count;
    (void)start_watched(m, "pause", true, false); /* it writes nothing */
    assert_int_equal(m->store.claims.count, count);
}

static void begin_watched(struct machine *m, struct seam_run *run)
{
    seam_run_flow(run, &m->node, "ask", confirmed);
    run->command.lost_by = (struct uuid){{9}};
    seam_run_start(run);
    seam_settle(m->node.loop);
}

/* An equal start waits while the reply to the first is not delivered: then the key is bound, or
 * free. If the reply takes long, as with `wait`, it is made without the key. */
static void an_equal_start_during_the_first(void **state)
{
    enum { BOUND, FREED, LONG };
    struct machine *m = *state;
    for (int how = BOUND; how <= LONG; how++) {
        struct seam_run first;
        begin_watched(m, &first);
        assert_true(seam_walk_until_ended(&m->walk, &first));
        assert_int_equal(m->store.claims.count, 1);
        assert_false(m->store.claims.items[0].is_bound);
        begin_watched(m, &m->run);
        seam_walk_for_ms(&m->walk, 1000);
        assert_false(seam_run_has_ended(&m->run));
        if (how == BOUND)
            seam_run_leave(&first);
        else if (how == FREED)
            seam_run_end(&first);
        assert_true(seam_walk_until_ended(&m->walk, &m->run));
        assert_int_equal(m->run.answer, FLOW_ANSWER_DONE);
        assert_int_equal(m->run.as.command.is_replayed, how == BOUND);
        if (how != FREED) {
            assert_int_equal(uuid_eq(m->run.flow_id, first.flow_id), how == BOUND);
            seam_run_end(&first);
        }
        seam_run_end(&m->run);
        seam_walk_for_ms(&m->walk, 10);
        assert_int_equal(m->store.claims.count, how == BOUND);
        m->store.claims.count = 0;
    }
}

/* Both find the key free. The scan for orphans leaves the claim of the one that gets it. */
static void two_equal_starts_at_once(void **state)
{
    struct machine *m = *state;
    struct seam_run first;
    begin_watched(m, &first);
    begin_watched(m, &m->run);
    for (int i = 0; i < 2; i++)
        seam_rows_answer(&m->store, machine_query(m, "claim_find_held"));
    assert_true(seam_walk_until_ended(&m->walk, &first));
    struct uuid id = first.flow_id;
    struct node_claims claims = exec_service_claims(m->node.exec);
    assert_true(claims.is_carried(claims.owner, id));
    seam_run_end(&first);
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_false(claims.is_carried(claims.owner, id));
    assert_int_equal(m->run.answer, FLOW_ANSWER_DONE);
    assert_false(uuid_eq(m->run.flow_id, id));
    assert_false(m->run.as.command.is_replayed);
    seam_run_end(&m->run);
    seam_walk_for_ms(&m->walk, 10);
    assert_int_equal(m->store.claims.count, 0);
}

/* Else the approved call would fail, since the key is taken. */
static void a_key_of_a_hold(void **state)
{
    struct machine *m = *state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(machine_ask(m, i == 0 ? "" : "k-1"), EXEC_HELD);
        struct uuid id = m->store.holds.items[i].flow_id;
        machine_until(m, id, FLOW_WAITING);
        seam_run_flow(&m->run, &m->node, "read", confirmed);
        m->run.command.idempotency_key = m->store.holds.items[i].key;
        seam_run_start(&m->run);
        assert_int_equal(machine_end(m), FLOW_ANSWER_KEY_MISMATCH);
        assert_int_equal(m->store.flows.count, i + 1);
        assert_int_equal(machine_command(m, FLOW_COMMAND_APPROVE, id), FLOW_ANSWER_DONE);
        machine_reply(m, 200);
        machine_until(m, id, FLOW_COMPLETED);
    }
}

static void a_start_that_is_refused_binds_nothing(void **state)
{
    struct machine *m = *state;
    assert_int_equal(start_keyed(m, "none", confirmed), FLOW_ANSWER_NO_TEMPLATE);
    assert_int_equal(start_keyed(m, "read", "{\"other\":1}"), FLOW_ANSWER_INVALID);
    prepare_keyed(m, "read", confirmed);
    seam_run_start(&m->run);
    seam_query_fail(machine_query(m, "flow_start_keyed"), ERR_TIMEOUT);
    assert_int_equal(machine_end(m), FLOW_ANSWER_UNAVAILABLE);
    assert_int_equal(m->store.claims.count, 0);
    assert_int_equal(start_keyed(m, "read", confirmed), FLOW_ANSWER_DONE);
}

/* Another request is faster: it inserts the flow after the look-up of the key. */
static void a_start_that_another_overtakes(void **state)
{
    struct machine *m = *state;
    struct uuid other = machine_start(m, "pause", confirmed);
    prepare_keyed(m, "read", confirmed);
    seam_run_start(&m->run);
    struct pg_query *query = machine_query(m, "flow_start_keyed");
    struct claim claim = {.account_id = seam_account, .key = SLICE("k"), .execution_id = other};
    slice fingerprint = seam_param(query, "fingerprint")->as.bytes;
    memcpy(claim.fingerprint, fingerprint.ptr, sizeof(claim.fingerprint));
    (void)seam_claim_take(&m->store, &claim, INT64_MAX, true);
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_int_equal(m->run.answer, FLOW_ANSWER_DONE);
    assert_true(m->run.as.command.is_replayed);
    assert_true(uuid_eq(m->run.as.command.flow_id, claim.execution_id));
    seam_run_end(&m->run);
    assert_int_equal(m->store.flows.count, 1);
    m->store.flows.count = 0; /* retention has removed it */
    seam_settle(m->node.loop);
    prepare_keyed(m, "read", confirmed);
    seam_run_start(&m->run);
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_int_equal(m->run.answer, FLOW_ANSWER_KEY_GONE);
    check_message(m, "no longer stored");
    seam_run_end(&m->run);
}

static void a_server_that_drains_takes_nothing(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", confirmed);
    flow_service_drain(m->node.flow);
    machine_begin_start(m, "read", confirmed);
    assert_int_equal(machine_end(m), FLOW_ANSWER_UNAVAILABLE);
    assert_int_equal(machine_command(m, FLOW_COMMAND_APPROVE, id), FLOW_ANSWER_UNAVAILABLE);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_WAITING);
}

/* ---- what does not exist, or cannot be read ---- */

static void commands_for_no_flow(void **state)
{
    struct machine *m = *state;
    for (unsigned kind = FLOW_COMMAND_APPROVE; kind <= FLOW_COMMAND_CANCEL; kind++)
        assert_int_equal(machine_command(m, (enum flow_command_kind)kind, uuid_v7()),
                         FLOW_ANSWER_NOT_FOUND);
}

static void a_load_or_a_template_that_cannot_be_had(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", confirmed);
    machine_begin(m, FLOW_COMMAND_APPROVE, id);
    seam_query_fail(machine_query(m, "flow_load"), ERR_TIMEOUT);
    assert_int_equal(machine_end(m), FLOW_ANSWER_UNAVAILABLE);
    machine_row(m, id)->flow.template_version = uuid_v7();
    machine_begin(m, FLOW_COMMAND_APPROVE, id);
    seam_query_fail(machine_query(m, "flow_template_get"), ERR_TIMEOUT);
    assert_int_equal(machine_end(m), FLOW_ANSWER_UNAVAILABLE);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_WAITING);
}

/* ---- decisions ---- */

static void an_approval_and_a_second_one(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", confirmed);
    assert_int_equal(machine_command(m, FLOW_COMMAND_APPROVE, id), FLOW_ANSWER_DONE);
    machine_until(m, id, FLOW_COMPLETED);
    seam_run_command(&m->run, &m->node, FLOW_COMMAND_APPROVE, id);
    m->run.command.step_key = SLICE("a");
    seam_run_start(&m->run);
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_int_equal(m->run.answer, FLOW_ANSWER_CONFLICT);
    check_message(m, "it is completed");
    assert_true(slice_eq_cstr(m->run.as.command.earlier.by, "key:test"));
    assert_int_equal(m->run.as.command.earlier.what, FLOW_EARLIER_APPROVED);
    seam_run_end(&m->run);
}

/* The key that asked for a held call does not decide about it; it may cancel. */
static void a_held_call_and_its_approver(void **state)
{
    struct machine *m = *state;
    struct flow_template *tmpl = flow_template_set_find(m->templates, SLICE("ask"));
    tmpl->is_held = true;
    struct uuid id = machine_start_by_key(m, "ask", confirmed);
    for (unsigned kind = FLOW_COMMAND_APPROVE; kind <= FLOW_COMMAND_REJECT; kind++) {
        machine_begin_by(m, (enum flow_command_kind)kind, id, MACHINE_KEY);
        assert_int_equal(machine_end(m), FLOW_ANSWER_NOT_APPROVER);
        machine_begin_by(m, (enum flow_command_kind)kind, id, MACHINE_OTHER);
        seam_query_fail(machine_query(m, "api_key_is_kin"), ERR_TIMEOUT);
        assert_int_equal(machine_end(m), FLOW_ANSWER_UNAVAILABLE);
        assert_int_equal(machine_row(m, id)->flow.rev, 2);
    }
    machine_begin_by(m, FLOW_COMMAND_REJECT, id, MACHINE_OTHER);
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_CANCELLED);
    id = machine_start_by_key(m, "ask", confirmed);
    machine_begin_by(m, FLOW_COMMAND_APPROVE, id, MACHINE_OTHER);
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    machine_until(m, id, FLOW_FAILED); /* its call finds no hold here */
    id = machine_start_by_key(m, "ask", confirmed);
    machine_begin_by(m, FLOW_COMMAND_CANCEL, id, MACHINE_KEY);
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_CANCELLED);
}

/* Checks the answer to a command for a step and with a revision, either of which may be missing. */
static void check_conflict(struct machine *m, struct uuid id, const char *step, int64_t rev,
                           const char *message)
{
    seam_run_command(&m->run, &m->node, FLOW_COMMAND_REJECT, id);
    m->run.command.step_key = step ? slice_cstr(step) : SLICE_NONE;
    m->run.command.rev = rev;
    seam_run_start(&m->run);
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_int_equal(m->run.answer, FLOW_ANSWER_CONFLICT);
    check_message(m, message);
    seam_run_end(&m->run);
    seam_settle(m->node.loop);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_WAITING);
}

static void decisions_that_do_not_fit(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", confirmed);
    check_conflict(m, id, "b", 0, "waits for approval is \"a\"");
    check_conflict(m, id, "a", 7, "has changed since it was shown");
    machine_row(m, id)->flow.wake_at = 1;
    check_conflict(m, id, "a", 0, "has expired");
    check_conflict(m, machine_start(m, "pause", confirmed), NULL, 0,
                   "No approval step of this flow is waiting: step \"a\" waits until 20");
    id = machine_start(m, "read", confirmed);
    static const char *const headers[] = {"retry-after", "60", NULL};
    seam_call_reply_with(machine_call(m), 429, headers, SLICE("{}"));
    machine_until(m, id, FLOW_WAITING);
    check_conflict(m, id, NULL, 0, "to be tried again");
}

static void a_rejection_ends_it(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", confirmed);
    seam_run_command(&m->run, &m->node, FLOW_COMMAND_REJECT, id);
    m->run.command.note = SLICE("not now");
    seam_run_start(&m->run);
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_CANCELLED);
    machine_check_error(m, id, "Rejected by key:test: not now");
    seam_run_command(&m->run, &m->node, FLOW_COMMAND_APPROVE, id);
    m->run.command.step_key = SLICE("a");
    seam_run_start(&m->run);
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_int_equal(m->run.answer, FLOW_ANSWER_CONFLICT);
    assert_true(slice_eq_cstr(m->run.as.command.earlier.by, "key:test"));
    assert_int_equal(m->run.as.command.earlier.what, FLOW_EARLIER_REJECTED);
    seam_run_end(&m->run);
}

static void a_late_decision_says_what_was_earlier(void **state)
{
    struct machine *m = *state;
    static const enum flow_earlier ends[] = {FLOW_EARLIER_EXPIRED, FLOW_EARLIER_CANCELLED};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        struct uuid id = machine_start(m, "ask", confirmed);
        if (ends[i] == FLOW_EARLIER_EXPIRED)
            machine_row(m, id)->flow.wake_at = 1;
        else
            assert_int_equal(machine_command(m, FLOW_COMMAND_CANCEL, id), FLOW_ANSWER_DONE);
        seam_run_command(&m->run, &m->node, FLOW_COMMAND_APPROVE, id);
        m->run.command.step_key = SLICE("a");
        seam_run_start(&m->run);
        assert_true(seam_walk_until_ended(&m->walk, &m->run));
        assert_int_equal(m->run.answer, FLOW_ANSWER_CONFLICT);
        assert_int_equal(m->run.as.command.earlier.what, ends[i]);
        assert_null(m->run.as.command.earlier.by.ptr);
        assert_true(m->run.as.command.earlier.at > 0);
        seam_run_end(&m->run);
        seam_settle(m->node.loop);
    }
}

static void a_change_in_between_is_loaded_again(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", confirmed);
    machine_begin(m, FLOW_COMMAND_APPROVE, id);
    (void)machine_query(m, "flow_take_approve");
    machine_row(m, id)->flow.rev++;
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    machine_until(m, id, FLOW_COMPLETED);
}

/* ---- resume and cancel ---- */

static void resumes(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "fault", "{\"confirm\":true,\"n\":\"x\"}");
    machine_until(m, id, FLOW_FAILED);
    assert_int_equal(machine_command(m, FLOW_COMMAND_RESUME, id), FLOW_ANSWER_DONE);
    machine_until(m, id, FLOW_FAILED);
    assert_int_equal(machine_count_steps(m, id, false), 2);
    id = machine_start(m, "pause", confirmed);
    assert_int_equal(machine_command(m, FLOW_COMMAND_RESUME, id), FLOW_ANSWER_DONE);
    assert_int_equal(machine_row(m, id)->flow.rev, 2); /* the flow continues to wait */
    machine_until(m, id, FLOW_COMPLETED);
    machine_begin(m, FLOW_COMMAND_RESUME, id);
    assert_int_equal(machine_end(m), FLOW_ANSWER_CONFLICT);
}

static void a_cancel_cuts_what_runs(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "read", confirmed);
    (void)machine_call(m);
    assert_int_equal(machine_command(m, FLOW_COMMAND_CANCEL, id), FLOW_ANSWER_DONE);
    assert_int_equal(flow_service_active(m->node.flow), 0);
    assert_int_equal(seam_call_count(m->node.http), 0);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_CANCELLED);
    assert_int_equal(machine_command(m, FLOW_COMMAND_CANCEL, id), FLOW_ANSWER_DONE); /* again */
}

/* ---- a policy ---- */

static struct policy *policy_of(const char *text)
{
    struct catalog_report *report = catalog_report_new(NULL);
    struct policy *policy =
        policy_compile_text(SLICE_NONE, slice_cstr(text), SLICE("team@1"), report);
    assert_non_null(policy);
    catalog_report_free(report);
    return policy;
}

static enum flow_answer command_under(struct machine *m, enum flow_command_kind kind,
                                      struct uuid id, struct policy *policy)
{
    seam_run_command(&m->run, &m->node, kind, id);
    m->run.command.policy = policy;
    seam_run_start(&m->run);
    return machine_end(m);
}

/* A flow with a call that the caller's policy denies is not there, and none is started. */
static void a_policy_hides_flows(void **state)
{
    struct machine *m = *state;
    struct policy *denies = policy_of(
        "{\"default\":\"allow\",\"rules\":[{\"tools\":[\"demo_get\"],\"decision\":\"deny\","
        "\"reason\":\"Not yet\"}]}");
    struct policy *hides = policy_of("{\"default\":\"allow\",\"rules\":[{\"tools\":[\"demo_get\"],"
                                     "\"decision\":\"deny\",\"hidden\":true}]}");
    struct policy *allows = policy_of("{\"default\":\"allow\",\"rules\":[]}");
    struct uuid id = machine_start(m, "read", confirmed);
    (void)machine_call(m);
    for (unsigned kind = FLOW_COMMAND_APPROVE; kind <= FLOW_COMMAND_CANCEL; kind++)
        assert_int_equal(command_under(m, (enum flow_command_kind)kind, id, denies),
                         FLOW_ANSWER_NOT_FOUND);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_RUNNING);
    assert_int_equal(command_under(m, FLOW_COMMAND_CANCEL, id, allows), FLOW_ANSWER_DONE);
    assert_int_equal(machine_row(m, id)->flow.status, FLOW_CANCELLED);
    for (unsigned i = 0; i < 2; i++) {
        seam_run_flow(&m->run, &m->node, "read", confirmed);
        m->run.command.policy = i ? hides : denies;
        seam_run_start(&m->run);
        assert_int_equal(machine_end(m), i ? FLOW_ANSWER_NO_TEMPLATE : FLOW_ANSWER_CONFLICT);
    }
    policy_unref(denies);
    policy_unref(hides);
    policy_unref(allows);
}

/* ---- each place ---- */

/* A flow to which the command applies, and its state afterwards. */
static struct uuid prepare(struct machine *m, enum flow_command_kind kind)
{
    if (kind != FLOW_COMMAND_RESUME)
        return machine_start(m, "ask", confirmed);
    struct uuid id = machine_start(m, "fault", "{\"confirm\":true,\"n\":\"x\"}");
    machine_until(m, id, FLOW_FAILED);
    seam_settle(m->node.loop);
    return id;
}

static bool has_happened(struct machine *m, enum flow_command_kind kind, struct uuid id)
{
    const struct flow *flow = &machine_row(m, id)->flow;
    if (kind == FLOW_COMMAND_RESUME)
        return flow->rev > 2;
    if (kind == FLOW_COMMAND_APPROVE)
        return machine_count_steps(m, id, true) > 0;
    return flow->status == FLOW_CANCELLED;
}

/* A change that was certainly made is in the trail once, even if the answer could not be built.
 * If the fault hits the change or its event, the event may be only in the log. */
static bool is_audited(const struct machine *m)
{
    static const char *const own[] = {"flow_take", "flow_reject", "flow_cancel", "audit_insert"};
    for (size_t i = 0; m->walk.is_hit && i < ARRAY_LEN(own); i++)
        if (strstr(m->walk.where, own[i]))
            return true; /* the seam also counts repeated statements */
    return m->store.audit_count == 1;
}

static size_t walk_once(enum flow_command_kind kind, size_t place, enum seam_fault fault,
                        bool *is_ok)
{
    struct machine *m = machine_new(templates);
    struct uuid id = prepare(m, kind);
    m->walk =
        (struct seam_walk){.node = &m->node, .store = &m->store, .place = place, .fault = fault};
    enum flow_answer answer = machine_command(m, kind, id);
    size_t places = m->walk.places;
    bool is_right = answer == FLOW_ANSWER_DONE ||
                    (m->walk.is_hit && answer != FLOW_ANSWER_REPEATED);
    is_right &= answer != FLOW_ANSWER_DONE || has_happened(m, kind, id);
    is_right &= !has_happened(m, kind, id) || is_audited(m);
    m->walk.place = SIZE_MAX;
    seam_walk_for_ms(&m->walk, 60000);
    is_right &= flow_service_active(m->node.flow) == 0 && m->walk.writes <= 1;
    /* A command that was done, or may be done later, never ends as "unavailable". */
    is_right &= answer != FLOW_ANSWER_UNAVAILABLE || !has_happened(m, kind, id);
    if (has_happened(m, kind, id)) /* even if its answer was lost: some server runs it */
        is_right &= machine_row(m, id)->flow.status > FLOW_WAITING;
    else
        is_right &= machine_command(m, kind, id) == FLOW_ANSWER_DONE;
    if (!is_right)
        print_error("command %u, %s at %s: answer %u, status %s\n", kind, seam_fault_name(fault),
                    m->walk.where, answer, flow_status_name(machine_row(m, id)->flow.status));
    *is_ok &= is_right;
    seam_walk_for_ms(&m->walk, 60000);
    assert_int_equal(machine_free(m), 0);
    return places;
}

static void each_query_fails_in_each_way(void **state)
{
    bool is_ok = true;
    (void)state;
    for (unsigned kind = FLOW_COMMAND_APPROVE; kind <= FLOW_COMMAND_CANCEL; kind++) {
        size_t places = walk_once((enum flow_command_kind)kind, SIZE_MAX, SEAM_REFUSED, &is_ok);
        for (size_t place = 0; place < places; place++)
            for (unsigned fault = 0; fault < SEAM_FAULTS; fault++)
                (void)walk_once((enum flow_command_kind)kind, place, (enum seam_fault)fault,
                                &is_ok);
    }
    assert_true(is_ok);
}

/* One fault at one point of a start. If the answer is "unavailable", no flow is made, now or later.
 * With a key, the same request makes one flow, however often it is sent. */
static size_t start_once(bool is_keyed, size_t place, enum seam_fault fault, bool *is_ok)
{
    struct machine *m = machine_new(templates);
    m->walk =
        (struct seam_walk){.node = &m->node, .store = &m->store, .place = place, .fault = fault};
    prepare_keyed(m, "read", confirmed);
    if (!is_keyed)
        m->run.command.idempotency_key = SLICE_NONE;
    seam_run_start(&m->run);
    bool is_ended = seam_walk_until_ended(&m->walk, &m->run);
    enum flow_answer answer = m->run.answer;
    struct uuid id = m->run.as.command.flow_id;
    seam_run_end(&m->run);
    size_t places = m->walk.places;
    m->walk.place = SIZE_MAX;
    seam_walk_for_ms(&m->walk, 60000);
    size_t made = m->store.flows.count;
    bool is_right = is_ended && made <= 1;
    is_right &= answer != FLOW_ANSWER_UNAVAILABLE || made == 0;
    is_right &= answer != FLOW_ANSWER_DONE || made == 1;
    is_right &= made == 0 || uuid_eq(m->store.flows.items[0].flow.id, id);
    is_right &= made == 0 || m->store.flows.items[0].flow.status == FLOW_COMPLETED;
    if (is_keyed)
        is_right &= start_keyed(m, "read", confirmed) == FLOW_ANSWER_DONE &&
                    m->store.flows.count == 1;
    if (!is_right)
        print_error("%s at %s: answer %u, %zu flows\n", seam_fault_name(fault), m->walk.where,
                    answer, made);
    *is_ok &= is_right;
    seam_walk_for_ms(&m->walk, 60000);
    assert_int_equal(machine_free(m), 0);
    return places;
}

static void each_query_of_a_start_fails_in_each_way(void **state)
{
    bool is_ok = true;
    (void)state;
    for (unsigned is_keyed = 0; is_keyed < 2; is_keyed++) {
        size_t places = start_once(is_keyed, SIZE_MAX, SEAM_REFUSED, &is_ok);
        assert_true(places > is_keyed);
        for (size_t place = 0; place < places; place++)
            for (unsigned fault = 0; fault < SEAM_FAULTS; fault++)
                (void)start_once(is_keyed, place, (enum seam_fault)fault, &is_ok);
    }
    assert_true(is_ok);
}

static void every_step_and_jump_was_taken(void **state)
{
    (void)state;
    assert_int_equal(seam_table_missing("flow_command"), 0);
}

#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_MACHINE(a_start_shows_what_it_made),
        ON_A_MACHINE(a_start_of_nothing_and_one_that_does_not_fit),
        ON_A_MACHINE(a_start_that_is_repeated),
        ON_A_MACHINE(a_start_that_the_database_does_not_take),
        ON_A_MACHINE(a_start_whose_answer_is_lost_is_still_answered),
        ON_A_MACHINE(a_start_that_may_have_begun_says_so),
        ON_A_MACHINE(a_key_gives_the_flow_as_it_is_now),
        ON_A_MACHINE(a_key_of_another_request),
        ON_A_MACHINE(a_key_of_a_hold),
        ON_A_MACHINE(a_start_whose_reply_was_lost),
        ON_A_MACHINE(an_equal_start_during_the_first),
        ON_A_MACHINE(two_equal_starts_at_once),
        ON_A_MACHINE(a_start_that_is_refused_binds_nothing),
        ON_A_MACHINE(a_start_that_another_overtakes),
        ON_A_MACHINE(a_server_that_drains_takes_nothing),
        ON_A_MACHINE(commands_for_no_flow),
        ON_A_MACHINE(a_load_or_a_template_that_cannot_be_had),
        ON_A_MACHINE(an_approval_and_a_second_one),
        ON_A_MACHINE(a_held_call_and_its_approver),
        ON_A_MACHINE(decisions_that_do_not_fit),
        ON_A_MACHINE(a_rejection_ends_it),
        ON_A_MACHINE(a_late_decision_says_what_was_earlier),
        ON_A_MACHINE(a_change_in_between_is_loaded_again),
        ON_A_MACHINE(resumes),
        ON_A_MACHINE(a_cancel_cuts_what_runs),
        ON_A_MACHINE(a_policy_hides_flows),
        cmocka_unit_test(each_query_fails_in_each_way),
        cmocka_unit_test(each_query_of_a_start_fails_in_each_way),
        cmocka_unit_test(every_step_and_jump_was_taken),
    };
    seam_table_watch();
    return cmocka_run_group_tests_name("flow/command", tests, NULL, NULL);
}
