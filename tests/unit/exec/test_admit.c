/*
 * Whether a call may be sent now: waits and refusals by a connection's limits and an origin's
 * circuit, and what both learn from the end of a call.
 */
#include "exec/machine.h"
#include "seam/table.h"

enum { VOLUME = 4 };

#define LIMITS(members) ",\"limits\":{" members "}"
#define GET_ONLY        ACTION("get", "read", GET, "")
#define PUT             ACTION("put", "write", POST, "")
#define NEXT                                                                                 \
    ",\"then\":[{\"request\":{\"method\":\"POST\",\"url\":\"${first.body.url}\",\"hosts\":[" \
    "\"files.example\"]},\"done\":\"The file was uploaded\",\"not_done\":\"it was not posted\"}]"
#define UPLOADED "{\"url\":\"https://files.example/n\"}"
#define ODD                                                                                      \
    ",\"errors\":[{\"when\":\"status == `555`\",\"error_code\":\"validation_error\"},{\"when\":" \
    "\"status == `404`\",\"error_code\":\"timeout\"}]"

static const char paced[] = APP("paced", NO_AUTH, LIMITS("\"rate_per_s\":1,\"burst\":1"), GET_ONLY);
static const char single[] = APP("single", NO_AUTH, LIMITS("\"in_flight_max\":1"), GET_ONLY);
static const char learner[] = APP("learner", NO_AUTH, LIMITS("\"retry_after_s\":7"), PUT);
static const char plain[] = APP("plain", NO_AUTH, ODD, PUT "," ACTION("up", "write", POST, NEXT));

static struct machine *open_machine(unsigned volume)
{
    const char *const manifests[] = {paced, single, learner, plain, NULL};
    return machine_new(manifests, (struct seam_tuning){.circuit_volume = volume});
}

static int set_up(void **state)
{
    *state = open_machine(0);
    return 0;
}

static int set_up_circuits(void **state)
{
    *state = open_machine(VOLUME);
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

static void start(struct machine *m, struct seam_run *run, const char *app, const char *action)
{
    seam_run_exec(run, &m->node, action, "{}");
    run->exec.integration_id = slice_cstr(app);
    run->exec.is_confirmed = true;
    seam_run_start(run);
    seam_settle(m->node.loop);
    if (seam_query_named(m->node.pool, "claim_own"))
        machine_answer(m, "claim_own");
}

static void end(struct machine *m, struct seam_run *run, enum exec_reason reason)
{
    assert_int_equal(machine_end_of(m, run), reason);
    seam_run_end(run);
    seam_settle(m->node.loop);
}

/* ---- limits ---- */

static void a_call_that_comes_too_early_waits_or_is_refused(void **state)
{
    struct machine *m = *state;
    struct seam_run runs[3];
    for (size_t i = 0; i < 3; i++)
        start(m, &runs[i], "paced", "get");
    assert_int_equal(seam_call_count(m->node.http), 1);
    /* the second waits one second; the third would wait longer than the allowed two */
    assert_false(seam_run_has_ended(&runs[1]));
    assert_true(seam_run_has_ended(&runs[2]));
    assert_int_equal(runs[2].out.retry_after_ms, 2001);
    assert_slice_equal(
        runs[2].out.message,
        "The App takes no more calls from this connection for about 3 s. Nothing was "
        "sent.");
    assert_slice_has(runs[2].out.hint, "Wait as long as Retry-After says");
    end(m, &runs[2], EXEC_OWN_RATE_LIMIT);
    machine_reply(m, 200, "{}");
    end(m, &runs[0], EXEC_SUCCEEDED);
    machine_assert_no_call(m);
    seam_pass_ms(m->node.loop, 1001);
    machine_reply(m, 200, "{}");
    end(m, &runs[1], EXEC_SUCCEEDED);
}

static void one_at_a_time(void **state)
{
    struct machine *m = *state;
    struct seam_run first, second, third;
    start(m, &first, "single", "get");
    start(m, &second, "single", "get");
    start(m, &third, "single", "get");
    assert_int_equal(seam_call_count(m->node.http), 1);
    seam_run_cancel(&second); /* while it waits */
    seam_settle(m->node.loop);
    assert_int_equal(second.out.reason, EXEC_CANCELLED);
    end(m, &second, EXEC_CANCELLED);
    machine_reply(m, 200, "{}");
    end(m, &first, EXEC_SUCCEEDED);
    assert_int_equal(seam_call_count(m->node.http), 1); /* the third's turn */
    machine_reply(m, 200, "{}");
    end(m, &third, EXEC_SUCCEEDED);
}

static void wait_is_learned(struct machine *m, const char *app, const char *const *headers,
                            int64_t told_ms, bool is_held)
{
    struct seam_run run;
    start(m, &run, app, "put");
    seam_call_reply_with(machine_call(m), 429, headers, SLICE("{}"));
    seam_settle(m->node.loop);
    (void)machine_end_of(m, &run);
    assert_int_equal(run.out.retry_after_ms, told_ms);
    end(m, &run, EXEC_PROVIDER_RATE_LIMITED);
    start(m, &run, app, "put");
    assert_int_equal(seam_call_count(m->node.http), is_held ? 0 : 1);
    if (is_held) {
        assert_int_equal(run.out.retry_after_ms, told_ms);
        end(m, &run, EXEC_OWN_RATE_LIMIT);
        return;
    }
    machine_reply(m, 200, "{}");
    end(m, &run, EXEC_SUCCEEDED);
}

/* The reply says how long to wait, otherwise the manifest does. If neither does, other calls are
 * still sent. */
static void a_refusal_says_when_to_come_again(void **state)
{
    static const char *const minute[] = {"retry-after", "60", NULL};
    wait_is_learned(*state, "plain", minute, 60000, true);
    wait_is_learned(*state, "learner", NULL, 7000, true);
}

static void a_refusal_that_says_nothing_holds_no_other(void **state)
{
    wait_is_learned(*state, "plain", NULL, EXEC_RETRY_AFTER_MS_DEFAULT, false);
}

/* The first refusal says how long to wait. The next refusal does not, so the same time is used
 * again. */
static void what_was_said_before_counts(void **state)
{
    static const char *const hour[] = {"retry-after", "1800", NULL};
    struct machine *m = *state;
    struct seam_run first, second;
    start(m, &first, "plain", "put");
    start(m, &second, "plain", "put");
    seam_call_reply_with(seam_call(m->node.http, 0), 429, hour, SLICE("{}"));
    seam_settle(m->node.loop);
    machine_reply(m, 429, "{}");
    (void)machine_end_of(m, &first);
    (void)machine_end_of(m, &second);
    assert_int_equal(second.out.retry_after_ms, 1800000);
    end(m, &first, EXEC_PROVIDER_RATE_LIMITED);
    end(m, &second, EXEC_PROVIDER_RATE_LIMITED);
}

/* A server without the credential does not know the connection. */
static void a_refusal_elsewhere_is_not_held_against_the_connection(void **state)
{
    static const char *const minute[] = {"retry-after", "60", NULL};
    struct machine *m = *state;
    struct seam_run run;
    start(m, &run, "plain", "up");
    machine_reply(m, 200, UPLOADED);
    assert_slice_equal(machine_call(m)->url, "https://files.example/n");
    seam_call_reply_with(machine_call(m), 429, minute, SLICE("{}"));
    seam_settle(m->node.loop);
    end(m, &run, EXEC_PARTLY_DONE);
    start(m, &run, "plain", "put");
    machine_reply(m, 200, "{}");
    end(m, &run, EXEC_SUCCEEDED);
}

/* ---- circuits ---- */

/* status 0: it fails in that phase. */
static const struct vote {
    const char *name;
    unsigned status;
    enum seam_phase phase;
    bool opens;
} votes[] = {
    {"done", 200, SEAM_SENT, false},
    {"the input is wrong", 422, SEAM_SENT, false},
    {"a rule calls it the input's fault", 555, SEAM_SENT, false},
    {"a rule calls it a timeout, of no 5xx", 404, SEAM_SENT, false},
    {"too fast", 429, SEAM_SENT, false},
    {"a fault", 500, SEAM_SENT, true},
    {"overloaded", 503, SEAM_SENT, true},
    {"no such name", 0, SEAM_RESOLVE, true},
    {"no server", 0, SEAM_DIAL, true},
    {"no TLS", 0, SEAM_HANDSHAKE, true},
    {"no connection in time", 0, SEAM_UNSENT, true},
    {"cut", 0, SEAM_SENT, true},
    {"silence", 0, SEAM_SILENCE, true},
    {"cut within the reply", 0, SEAM_MID_REPLY, true},
    {"no HTTP", 0, SEAM_GARBAGE, true},
};

static void let_fail(struct machine *m, const struct vote *vote)
{
    if (vote->status)
        seam_call_reply(machine_call(m), vote->status, "{}");
    else
        seam_call_fail(machine_call(m), vote->phase);
    seam_settle(m->node.loop);
}

/* Runs an execution in which every attempt ends in this way. */
static void run_once(struct machine *m, const struct vote *vote)
{
    struct seam_run run;
    start(m, &run, "plain", "put");
    for (unsigned i = 0; i < 400 && !seam_run_has_ended(&run); i++) {
        if (seam_call(m->node.http, 0))
            let_fail(m, vote);
        seam_node_answer(&m->node, &m->store);
        if (!seam_run_has_ended(&run) && !seam_call(m->node.http, 0))
            (void)seam_pass_timer(m->node.loop, 5000);
    }
    (void)machine_end_of(m, &run);
    seam_run_end(&run);
    seam_settle(m->node.loop);
}

static void what_the_origin_is_at_fault_for_opens_its_circuit(void **state)
{
    bool is_ok = true;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(votes); i++) {
        struct machine *m = open_machine(VOLUME);
        struct seam_run run;
        for (unsigned n = 0; n < VOLUME; n++)
            run_once(m, &votes[i]);
        start(m, &run, "plain", "put");
        bool is_open = run.out.reason == EXEC_CIRCUIT_OPEN;
        if (is_open != votes[i].opens) {
            print_error("%s: the circuit is %s\n", votes[i].name, is_open ? "open" : "closed");
            is_ok = false;
        }
        if (seam_call(m->node.http, 0))
            machine_reply(m, 200, "{}");
        (void)machine_end_of(m, &run);
        seam_run_end(&run);
        assert_int_equal(machine_free(m), 0);
    }
    assert_true(is_ok);
}

static void an_open_circuit_says_how_long(void **state)
{
    struct machine *m = *state;
    struct seam_run run;
    for (unsigned n = 0; n < VOLUME; n++)
        run_once(m, &votes[5]);
    start(m, &run, "plain", "put");
    machine_assert_no_call(m);
    assert_true(seam_run_has_ended(&run));
    assert_slice_has(run.out.message, "Calls of this account to https://app.example kept failing, "
                                      "so no more are sent for about ");
    assert_slice_has(run.out.hint, "Most of this account's recent calls to the app failed");
    assert_true(run.out.retry_after_ms > 0);
    end(m, &run, EXEC_CIRCUIT_OPEN);
    assert_int_equal(m->store.claims.count, 0); /* nothing was claimed for it */
    /* after that time, one execution may probe */
    seam_pass_ms(m->node.loop, 10000);
    seam_node_answer(&m->node, &m->store);
    start(m, &run, "plain", "put");
    machine_reply(m, 200, "{}");
    end(m, &run, EXEC_SUCCEEDED);
}

/* Each request of an action checks the circuit of its own origin. */
static void the_second_request_s_origin_has_a_circuit_of_its_own(void **state)
{
    struct machine *m = *state;
    struct seam_run run;
    for (unsigned n = 0; n < VOLUME; n++) {
        start(m, &run, "plain", "up");
        machine_reply(m, 200, UPLOADED);
        machine_reply(m, 500, "{}");
        end(m, &run, EXEC_PROVIDER_ERROR);
    }
    start(m, &run, "plain", "up");
    machine_reply(m, 200, UPLOADED);
    machine_assert_no_call(m);
    (void)machine_end_of(m, &run);
    assert_slice_has(run.out.message, "The file was uploaded, but it was not posted. Calls of this "
                                      "account to https://files.example kept failing");
    end(m, &run, EXEC_PARTLY_DONE);
    start(m, &run, "plain", "put"); /* the circuit of the first request is closed */
    machine_reply(m, 200, "{}");
    end(m, &run, EXEC_SUCCEEDED);
}

#define ADMIT_TEST(name)   cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define CIRCUIT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_circuits, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ADMIT_TEST(a_call_that_comes_too_early_waits_or_is_refused),
        ADMIT_TEST(one_at_a_time),
        ADMIT_TEST(a_refusal_says_when_to_come_again),
        ADMIT_TEST(a_refusal_that_says_nothing_holds_no_other),
        ADMIT_TEST(what_was_said_before_counts),
        ADMIT_TEST(a_refusal_elsewhere_is_not_held_against_the_connection),
        cmocka_unit_test(what_the_origin_is_at_fault_for_opens_its_circuit),
        CIRCUIT_TEST(an_open_circuit_says_how_long),
        CIRCUIT_TEST(the_second_request_s_origin_has_a_circuit_of_its_own),
    };
    return cmocka_run_group_tests_name("exec/admit", tests, NULL, NULL);
}
