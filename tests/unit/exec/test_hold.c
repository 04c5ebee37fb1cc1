/*
 * Calls that wait for an approval (exec/hold.c): which are held, their key, and the answers. The
 * test makes the holds.
 */
#include "exec/hold.h"
#include "exec/counts.h"
#include "exec/machine.h"
#include "seam/table.h"

#define SIGN                                                                                  \
    "{\"action_id\":\"sign\",\"title\":\"sign\",\"description\":\"d\",\"side_effect_level\":" \
    "\"write\","                                                                              \
    "\"input_schema\":{\"type\":\"object\",\"properties\":{\"q\":{\"type\":\"string\","       \
    "\"description\":"                                                                        \
    "\"Q.\"},\"pin\":{\"type\":\"string\",\"description\":\"P.\",\"writeOnly\":true}}},"      \
    "\"request\":{" POST "},\"display\":{\"title\":\"T\",\"summary\":\"s\"}}"
#define SEND                                                          \
    ACTION("send", "write", "\"method\":\"POST\",\"path\":\"/send\"", \
           ",\"files\":{\"travel\":\"raw\"}")
static const char app[] =
    APP("app", NO_AUTH, "",
        ACTION("get", "read", GET, "") "," ACTION("put", "write", POST, "") "," SIGN "," SEND);
static const char hold_puts[] =
    "{\"tools\":[\"app_put\",\"app_send\"],\"decision\":\"hold\",\"reason\":"
    "\"Ask Ada.\",\"expires_in\":60}";

/* What exec has asked for. */
static struct asked {
    struct exec_hold *hold;
    struct op *op;
    unsigned count;
} asked;

static bool begin_hold(void *owner, struct exec_hold *hold, struct op *op)
{
    assert_ptr_equal(owner, &asked);
    asked.hold = hold;
    asked.op = op;
    asked.count++;
    op_hold(op, "its hold");
    return true;
}

static int set_up(void **state)
{
    const char *const manifests[] = {app, NULL};
    const struct exec_holder holder = {begin_hold, &asked};
    struct machine *m = machine_new(manifests, (struct seam_tuning){0});
    asked = (struct asked){.hold = NULL};
    exec_service_holder_set(m->node.exec, &holder);
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

static const struct uuid asker = {{7}}, other_asker = {{8}};

/* Prepares an unconfirmed run of that key under a policy that holds `put`. */
static struct policy *want_held(struct machine *m, const char *input, const char *key)
{
    struct policy *policy = machine_want_under(m, "put", input, hold_puts);
    m->run.exec.asker = asker;
    m->run.exec.is_confirmed = false;
    m->run.exec.idempotency_key = key ? slice_cstr(key) : SLICE_NONE;
    return policy;
}

/* Runs until the hold is asked for. */
static void run_to_hold(struct machine *m)
{
    unsigned count = asked.count;
    seam_run_start(&m->run);
    machine_answer(m, "claim_find_held");
    machine_assert_no_call(m);
    assert_int_equal(asked.count, count + 1);
    assert_false(seam_run_has_ended(&m->run));
}

static void answer_hold(struct machine *m, enum exec_hold_answer answer)
{
    asked.hold->answer = answer;
    asked.hold->flow_id = (struct uuid){{9}};
    op_release(asked.op);
    seam_settle(m->node.loop);
}

static void answer_open(struct machine *m, bool is_new)
{
    asked.hold->is_new = is_new;
    asked.hold->status = SLICE("waiting");
    asked.hold->url = SLICE("https://sluice.example/flows/9");
    asked.hold->expires_at = INT64_C(1767225600000000);
    answer_hold(m, EXEC_HOLD_OPEN);
}

static void end_with(struct machine *m, struct policy *policy, enum exec_reason reason)
{
    machine_assert_no_call(m);
    assert_int_equal(machine_end(m), reason);
    policy_unref(policy);
}

static void a_held_call_waits_under_a_key_made_for_it(void **state)
{
    struct machine *m = *state;
    struct policy *policy = want_held(m, "{\"q\":\"x\"}", NULL);
    m->run.exec.user = SLICE("ada");
    m->run.exec.pages_max = 3;
    run_to_hold(m);
    const struct exec_hold *hold = asked.hold;
    assert_false(hold->is_unattended);
    assert_string_equal(hold->key_name, "idempotency_key");
    assert_true(slice_starts_with(hold->key, SLICE("hold-")));
    assert_true(slice_eq(hold->key, exec_hold_key(hold->fingerprint, asker, &asked.op->arena)));
    assert_true(uuid_eq(hold->asker, asker) && uuid_eq(hold->account_id, seam_account));
    assert_slice_equal(hold->action->tool_name, "app_put");
    assert_slice_equal(json_get_str(hold->input, SLICE("q")), "x");
    assert_slice_equal(hold->decider, "team@3");
    assert_slice_equal(hold->reason, "Ask Ada.");
    assert_slice_equal(hold->user, "ada");
    assert_int_equal(hold->rule, 0);
    assert_int_equal(hold->expires_s, 60);
    assert_int_equal(hold->pages_max, 3);
    answer_open(m, true);
    struct pg_query *audit = machine_query(m, "audit_insert");
    assert_true(pg_value_is(seam_param(audit, "reason"), "held"));
    assert_true(
        pg_value_is(seam_param(audit, "details"),
                    "{\"integration_id\":\"app\",\"action_id\":\"put\",\"policy\":\"team@3\","
                    "\"rule\":0,\"flow_id\":\"09000000-0000-0000-0000-000000000000\"}"));
    assert_true(seam_run_has_ended(&m->run));
    assert_int_equal(m->run.out.reason, EXEC_HELD);
    assert_slice_equal(m->run.out.message,
                       "put waits for the approval of a person, as the policy of this API key "
                       "requires: Ask Ada. Nothing was done yet.");
    assert_slice_equal(exec_outcome_error_code(&m->run.out), "policy_blocked");
    assert_true(exec_outcome_is_retryable(&m->run.out));
    assert_slice_has(
        m->run.summary_json,
        "\"approval\":{\"flow_id\":\"09000000-0000-0000-0000-000000000000\",\"status\":"
        "\"waiting\",\"url\":\"https://sluice.example/flows/9\",\"expires_at\":"
        "\"2026-01-01T00:00:00.000Z\",\"idempotency_key\":\"hold-");
    end_with(m, policy, EXEC_HELD);
}

/* The keys of a line are one asker: it is the line that is in the key. */
static void the_key_is_that_of_request_and_asker(void **state)
{
    static const struct {
        const char *input;
        const struct uuid *asker;
        bool is_same;
    } cases[] = {{"{\"q\":\"x\"}", &asker, true},
                 {"{\"q\":\"x\",\"none\":1}", &asker, false},
                 {"{\"q\":\"y\"}", &asker, false},
                 {"{\"q\":\"x\"}", &other_asker, false}};
    struct machine *m = *state;
    char first[80] = "";
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct policy *policy = want_held(m, cases[i].input, NULL);
        m->run.exec.asker = *cases[i].asker;
        run_to_hold(m);
        if (i == 0)
            (void)snprintf(first, sizeof(first), "%.*s", SLICE_ARG(asked.hold->key));
        assert_int_equal(slice_eq_cstr(asked.hold->key, first), cases[i].is_same);
        answer_open(m, false);
        assert_null(seam_query_named(m->node.pool, "audit_insert")); /* it is known */
        end_with(m, policy, EXEC_HELD);
    }
}

/* Its state is asked for again and again, with the same request. */
static void an_open_hold_is_counted_once(void **state)
{
    struct machine *m = *state;
    struct counts *tallies = exec_service_tallies(m->node.exec);
    for (size_t i = 0; i < 3; i++) {
        struct policy *policy = want_held(m, "{}", "k");
        run_to_hold(m);
        answer_open(m, i == 0);
        end_with(m, policy, EXEC_HELD);
    }
    counts_write(tallies);
    seam_settle(m->node.loop);
    assert_int_equal(seam_param(machine_query(m, "tally_add"), "calls")->as.i64, 1);
}

static void each_answer_has_its_outcome(void **state)
{
    static const struct {
        enum exec_hold_answer answer;
        enum exec_reason reason;
        const char *message;
    } cases[] = {
        {EXEC_HOLD_ENDED, EXEC_HOLD_OVER, "Ada rejected it."},
        {EXEC_HOLD_FULL, EXEC_POLICY_DENIED, "Ada rejected it."},
        {EXEC_HOLD_MISMATCH, EXEC_KEY_MISMATCH, "Idempotency-Key header was used for a different"},
        {EXEC_HOLD_UNAVAILABLE, EXEC_UNAVAILABLE, "Ada rejected it."},
    };
    struct machine *m = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct policy *policy = want_held(m, "{}", "k");
        m->run.exec.key_name = "Idempotency-Key header";
        run_to_hold(m);
        assert_slice_equal(asked.hold->key, "k");
        assert_string_equal(asked.hold->key_name, "Idempotency-Key header");
        asked.hold->message = SLICE("Ada rejected it.");
        asked.hold->hint = SLICE("Use a new key.");
        asked.hold->effect = EXEC_EFFECT_UNKNOWN;
        answer_hold(m, cases[i].answer);
        assert_slice_has(m->run.out.message, cases[i].message);
        bool has_ended = cases[i].answer == EXEC_HOLD_ENDED;
        assert_int_equal(m->run.out.approval != NULL, has_ended);
        assert_int_equal(m->run.out.effect, has_ended ? EXEC_EFFECT_UNKNOWN : EXEC_EFFECT_NONE);
        assert_false(exec_outcome_is_retryable(&m->run.out));
        end_with(m, policy, cases[i].reason);
    }
}

/* The key of the first run has expired; its record is found through the hold. */
static void a_call_that_was_made_is_replayed(void **state)
{
    struct machine *m = *state;
    machine_want(m, "app", "put", "{}");
    m->run.exec.idempotency_key = SLICE("k");
    seam_run_start(&m->run);
    machine_answer(m, "claim_find");
    machine_answer(m, "claim_insert");
    machine_reply(m, 200, "{\"id\":\"made\"}");
    assert_int_equal(machine_end_of(m, &m->run), EXEC_SUCCEEDED);
    struct uuid made = m->run.out.execution_id;
    (void)machine_end(m);
    struct policy *policy = want_held(m, "{}", "k2");
    run_to_hold(m);
    asked.hold->execution_id = made;
    answer_hold(m, EXEC_HOLD_RUN);
    machine_answer(m, "execution_get");
    assert_true(seam_run_has_ended(&m->run) && m->run.out.is_replayed);
    assert_true(uuid_eq(m->run.out.execution_id, made));
    assert_slice_has(m->run.summary_json, "\"made\"");
    end_with(m, policy, EXEC_SUCCEEDED);
    policy = want_held(m, "{}", "k"); /* by its key alone, before anything is held */
    seam_run_start(&m->run);
    machine_answer(m, "claim_find_held");
    assert_int_equal(asked.count, 1);
    assert_true(m->run.out.is_replayed);
    end_with(m, policy, EXEC_SUCCEEDED);
}

/* Also if the policy does not hold that request. */
static void another_request_does_not_get_the_key_of_a_hold(void **state)
{
    struct machine *m = *state;
    struct hold *hold = ROW_ADD(&m->store, holds);
    struct row_flow *flow = ROW_ADD(&m->store, flows);
    flow->flow =
        (struct flow){.account_id = seam_account, .id = {{9}}, .waiting_for = FLOW_WAITS_APPROVAL};
    const struct json input = json_object();
    *hold = (struct hold){.account_id = seam_account, .key = SLICE("k"), .flow_id = {{9}}};
    for (int i = 0; i < 2; i++) {
        struct policy *policy = machine_want_under(m, "get", "{}", hold_puts);
        m->run.exec.idempotency_key = SLICE("k");
        struct exec_request same = m->run.exec;
        same.input = &input;
        if (i == 1)
            assert_int_equal(exec_fingerprint(&same, SLICE("get"), hold->fingerprint), OK);
        seam_run_start(&m->run);
        machine_answer(m, "claim_find_held");
        if (i == 1) { /* the same one, which is not held any more */
            machine_answer(m, "claim_insert");
            machine_reply(m, 200, "{}");
        }
        end_with(m, policy, i == 0 ? EXEC_KEY_MISMATCH : EXEC_SUCCEEDED);
    }
}

static void an_approved_call_runs(void **state)
{
    struct machine *m = *state;
    for (int i = 0; i < 3; i++) {
        struct policy *policy = i < 2 ? want_held(m, "{}", "k")
                                      : machine_want_under(m, "put", "{}", "");
        m->run.exec.idempotency_key = SLICE("k");
        m->run.exec.is_approved = m->run.exec.is_confirmed = true;
        m->run.exec.is_only_if_held = i > 0;
        seam_run_start(&m->run);
        if (i < 2) {
            machine_answer(m, "claim_find_held");
            if (i == 0) {
                machine_answer(m, "claim_insert");
                machine_reply(m, 200, "{}");
            }
            assert_int_equal(m->run.out.is_replayed, i == 1);
        } else {
            machine_assert_no_call(m);
            assert_slice_has(m->run.out.message, "does not hold put any more");
        }
        end_with(m, policy, i < 2 ? EXEC_SUCCEEDED : EXEC_POLICY_DENIED);
    }
    assert_int_equal(asked.count, 0);
}

/* A call of a flow without an approval, a part of another call, a call with files, and one of which
 * no hold can be made: denied, once the input is right. */
static void what_cannot_wait_is_denied(void **state)
{
    struct call_file file = {.name = SLICE("a.txt"), .data = SLICE("YQ==")};
    struct machine *m = *state;
    for (int i = 0; i < 5; i++) {
        struct policy *policy =
            machine_want_under(m, i == 2 ? "send" : "put", i == 4 ? "{\"q\":1}" : "{}", hold_puts);
        m->run.exec.is_recorded_by_caller = i == 0;
        m->run.exec.is_part = i == 1;
        m->run.exec.files = i == 2 ? &file : NULL;
        m->run.exec.file_count = i == 2;
        m->run.exec.asker = i >= 3 ? (struct uuid){{0}} : asker;
        seam_run_start(&m->run);
        machine_assert_no_call(m);
        assert_true(seam_run_has_ended(&m->run));
        if (i < 4)
            assert_slice_has(m->run.out.message, i == 2 ? "with files" : "needs");
        end_with(m, policy, i == 4 ? EXEC_INPUT_INVALID : EXEC_POLICY_DENIED);
    }
    assert_int_equal(asked.count, 0);
}

/* An approval would show them. */
static void secrets_do_not_wait(void **state)
{
    struct machine *m = *state;
    static const char holds[] = "{\"decision\":\"hold\"}";
    struct policy *policy = machine_want_under(m, "sign", "{\"pin\":\"1234\"}", holds);
    m->run.exec.asker = asker;
    seam_run_start(&m->run);
    machine_assert_no_call(m);
    assert_true(seam_run_has_ended(&m->run));
    assert_slice_has(m->run.out.message, "a call whose input has secrets");
    end_with(m, policy, EXEC_POLICY_DENIED);
    assert_int_equal(asked.count, 0);
    policy = machine_want_under(m, "sign", "{\"q\":\"1234\"}", holds);
    m->run.exec.asker = asker;
    run_to_hold(m);
    answer_open(m, true);
    end_with(m, policy, EXEC_HELD);
}

static void a_face_may_want_the_confirmation_too(void **state)
{
    struct machine *m = *state;
    struct policy *policy = want_held(m, "{}", "k");
    m->run.exec.confirms_held = true;
    seam_run_start(&m->run);
    machine_assert_no_call(m);
    assert_null(seam_query_named(m->node.pool, "claim_find_held"));
    end_with(m, policy, EXEC_CONFIRMATION_MISSING);
    policy = want_held(m, "{}", "k");
    m->run.exec.confirms_held = m->run.exec.is_confirmed = true;
    run_to_hold(m);
    answer_open(m, true);
    end_with(m, policy, EXEC_HELD);
}

static void a_setting_holds_writes(void **state)
{
    struct machine *m = *state;
    machine_want(m, "app", "put", "{}");
    m->run.exec.asker = asker;
    m->run.exec.holds_writes = m->run.exec.is_set_to_hold = true;
    run_to_hold(m);
    assert_true(asked.hold->is_unattended && asked.hold->is_by_setting);
    assert_int_equal(asked.hold->rule, POLICY_RULE_DEFAULT);
    assert_int_equal(asked.hold->expires_s, 24 * 60 * 60);
    assert_null(asked.hold->decider.ptr);
    answer_open(m, true);
    assert_slice_has(m->run.out.message, "as writes of clients that cannot ask one do");
    assert_true(pg_value_is(seam_param(machine_query(m, "audit_insert"), "details"),
                            "{\"integration_id\":\"app\",\"action_id\":\"put\",\"unattended\":true,"
                            "\"flow_id\":\"09000000-0000-0000-0000-000000000000\"}"));
    assert_int_equal(machine_end(m), EXEC_HELD);
    machine_want(m, "app", "get", "{}");
    m->run.exec.asker = asker;
    m->run.exec.holds_writes = true;
    seam_run_start(&m->run);
    machine_reply(m, 200, "{}");
    assert_int_equal(machine_end(m), EXEC_SUCCEEDED);
    /* the call of such a hold */
    machine_want(m, "app", "put", "{}");
    m->run.exec.holds_writes = m->run.exec.is_approved = m->run.exec.is_only_if_held = true;
    m->run.exec.idempotency_key = SLICE("k");
    seam_run_start(&m->run);
    machine_answer(m, "claim_find_held");
    machine_answer(m, "claim_insert");
    machine_reply(m, 200, "{}");
    assert_int_equal(machine_end(m), EXEC_SUCCEEDED);
}

static void a_dry_run_makes_no_hold(void **state)
{
    struct machine *m = *state;
    struct policy *policy = want_held(m, "{}", "k");
    m->run.exec.is_dry_run = true;
    seam_run_start(&m->run);
    assert_int_equal(machine_end_of(m, &m->run), EXEC_SUCCEEDED);
    assert_false(m->run.out.wants_confirmation);
    assert_slice_has(m->run.summary_json, "\"policy\":{\"decision\":\"hold\",\"rule\":0");
    assert_int_equal(asked.count, 0);
    end_with(m, policy, EXEC_SUCCEEDED);
}

/* The client leaves: the hold may exist, and its answer comes too late. */
static void a_client_that_leaves_gets_no_answer(void **state)
{
    struct machine *m = *state;
    struct policy *policy = want_held(m, "{}", NULL);
    run_to_hold(m);
    seam_run_leave(&m->run);
    seam_settle(m->node.loop);
    answer_open(m, true);
    assert_int_equal(machine_end(m), EXEC_CANCELLED);
    policy_unref(policy);
}

#define HOLD_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOLD_TEST(a_held_call_waits_under_a_key_made_for_it),
        HOLD_TEST(the_key_is_that_of_request_and_asker),
        HOLD_TEST(an_open_hold_is_counted_once),
        HOLD_TEST(each_answer_has_its_outcome),
        HOLD_TEST(a_call_that_was_made_is_replayed),
        HOLD_TEST(another_request_does_not_get_the_key_of_a_hold),
        HOLD_TEST(an_approved_call_runs),
        HOLD_TEST(what_cannot_wait_is_denied),
        HOLD_TEST(secrets_do_not_wait),
        HOLD_TEST(a_face_may_want_the_confirmation_too),
        HOLD_TEST(a_setting_holds_writes),
        HOLD_TEST(a_dry_run_makes_no_hold),
        HOLD_TEST(a_client_that_leaves_gets_no_answer),
    };
    return cmocka_run_group_tests_name("exec/hold", tests, NULL, NULL);
}
