/*
 * What a policy decides about an execution (exec/decide.c): before its key is looked up, and for
 * the parts of a run as for a run of their own.
 */
#include "exec/machine.h"
#include "policy/policy.h"
#include "seam/table.h"

#define EACH                                                                                   \
    ",\"output_schema\":{\"type\":\"object\",\"properties\":{\"rows\":{\"type\":"              \
    "\"array\"}}},\"response\":{\"kind\":\"object\"},\"each\":{\"items\":\"rows\",\"action\":" \
    "\"one\",\"input\":{\"q\":\"${item.id}\"},\"max\":12}"
static const char app[] =
    APP("app", NO_AUTH, "",
        ACTION("get", "read", GET, "") "," ACTION("put", "write", POST, "") "," ACTION(
            "list", "read", "\"method\":\"GET\",\"path\":\"/list\"", EACH) "," ACTION("one", "read",
                                                                                      GET, ""));

static int set_up(void **state)
{
    const char *const manifests[] = {app, NULL};
    *state = machine_new(manifests, (struct seam_tuning){0});
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

/* Runs to the end without a call; its event has these details. */
static void expect_blocked(struct machine *m, struct policy *policy, enum exec_reason reason,
                           const char *message, const char *details)
{
    seam_run_start(&m->run);
    machine_assert_no_call(m);
    assert_true(seam_run_has_ended(&m->run));
    assert_int_equal(m->run.out.reason, reason);
    assert_slice_has(m->run.out.message, message);
    assert_null(seam_query_named(m->node.pool, "claim_find_held"));
    assert_true(pg_value_is(seam_param(machine_query(m, "audit_insert"), "details"), details));
    (void)machine_end(m);
    policy_unref(policy);
}

#define PUT_DETAILS(rule) \
    "{\"integration_id\":\"app\",\"action_id\":\"put\",\"policy\":\"team@3\",\"rule\":" rule "}"

static void a_deny_looks_at_no_key(void **state)
{
    struct machine *m = *state;
    struct policy *policy = machine_want_under(
        m, "put", "{}",
        "{\"tools\":[\"app_get\"],\"decision\":\"allow\"},"
        "{\"side_effect\":[\"write\"],\"decision\":\"deny\",\"reason\":\"Ask Ada first.\"}");
    m->run.exec.idempotency_key = SLICE("k");
    expect_blocked(
        m, policy, EXEC_POLICY_DENIED,
        "The policy of this API key does not allow put: Ask Ada first. Nothing was done.",
        PUT_DETAILS("1"));
    assert_int_equal(exec_reason_parse(SLICE("policy_denied")), EXEC_POLICY_DENIED);
    assert_slice_equal(exec_outcome_error_code(&m->run.out), "policy_blocked");
}

/* The decision depends on the input: the invalid one is reported as such. */
static void an_unsure_deny_comes_after_the_input(void **state)
{
    static const char rule[] = "{\"recipients_outside\":[\"acme.com\"],\"decision\":\"deny\"}";
    struct machine *m = *state;
    struct policy *policy = machine_want_under(m, "put", "{\"q\":1}", rule);
    m->run.exec.idempotency_key = SLICE("k");
    m->run.exec.is_confirmed = false;
    expect_blocked(m, policy, EXEC_INPUT_INVALID, "/input/q", PUT_DETAILS("0"));
    policy = machine_want_under(m, "put", "{\"q\":\"x\"}", rule);
    m->run.exec.idempotency_key = SLICE("k");
    m->run.exec.is_confirmed = false;
    expect_blocked(m, policy, EXEC_POLICY_DENIED, "does not allow put.", PUT_DETAILS("0"));
}

static void a_read_needs_the_confirmation_that_a_policy_wants(void **state)
{
    static const char rule[] =
        "{\"when\":\"input.q == 'x'\",\"decision\":\"confirm\",\"reason\":\"It is private.\"}";
    struct machine *m = *state;
    struct policy *policy = machine_want_under(m, "get", "{\"q\":\"x\"}", rule);
    m->run.exec.is_confirmed = false;
    expect_blocked(m, policy, EXEC_CONFIRMATION_MISSING,
                   "get is a read action and was not confirmed, as the policy of this API key "
                   "requires (It is private). Nothing was done.",
                   "{\"integration_id\":\"app\",\"action_id\":\"get\",\"policy\":\"team@3\","
                   "\"rule\":0}");
    policy = machine_want_under(m, "get", "{\"q\":\"x\"}", rule);
    seam_run_start(&m->run);
    machine_reply(m, 200, "{}");
    assert_int_equal(machine_end(m), EXEC_SUCCEEDED);
    policy_unref(policy);
    policy = machine_want_under(m, "get", "{\"q\":\"y\"}", rule);
    m->run.exec.is_confirmed = false;
    seam_run_start(&m->run);
    machine_reply(m, 200, "{}");
    assert_int_equal(machine_end(m), EXEC_SUCCEEDED);
    policy_unref(policy);
}

/* The key's row has a result of this very request: it is not given. */
static void a_hidden_action_is_unknown(void **state)
{
    static const char hide[] =
        "{\"tools\":[\"app_put\"],\"decision\":\"deny\",\"hidden\":true,\"reason\":\"secret\"}";
    struct machine *m = *state;
    machine_want(m, "app", "put", "{}");
    m->run.exec.idempotency_key = SLICE("k");
    seam_run_start(&m->run);
    machine_answer(m, "claim_find");
    machine_answer(m, "claim_insert");
    machine_reply(m, 200, "{}");
    assert_int_equal(machine_end(m), EXEC_SUCCEEDED);
    for (int i = 0; i < 2; i++) {
        struct policy *policy = machine_want_under(m, "put", "{}", hide);
        m->run.exec.idempotency_key = i ? SLICE("k") : SLICE_NONE;
        m->run.exec.is_confirmed = false;
        seam_run_start(&m->run);
        machine_assert_no_call(m);
        if (i)
            machine_answer(m, "claim_find_held");
        assert_true(seam_run_has_ended(&m->run));
        assert_int_equal(m->run.out.reason, EXEC_ACTION_UNKNOWN);
        assert_slice_has(m->run.out.message, "has no action");
        assert_slice_equal(m->run.out.display_title, "Action not run");
        assert_true(slice_find(m->run.out.message, SLICE("secret")) < 0);
        (void)machine_end(m);
        policy_unref(policy);
    }
}

static void a_dry_run_says_what_was_decided(void **state)
{
    struct machine *m = *state;
    struct policy *policy =
        machine_want_under(m, "put", "{}", "{\"tools\":[\"app_p*\"],\"decision\":\"confirm\"}");
    m->run.exec.is_confirmed = false;
    m->run.exec.is_dry_run = true;
    seam_run_start(&m->run);
    assert_int_equal(machine_end_of(m, &m->run), EXEC_SUCCEEDED);
    assert_slice_has(m->run.summary_json, "\"policy\":{\"decision\":\"confirm\",\"rule\":0");
    (void)machine_end(m);
    policy_unref(policy);
}

/* Items are read by another action, which the policy decides about as well. */
static void a_part_is_decided_too(void **state)
{
    static const struct {
        const char *rule, *output;
        bool is_confirmed;
    } cases[] = {
        {"{\"tools\":[\"app_one\"],\"decision\":\"deny\"}", "\"not_read\":\"The policy", true},
        {"{\"tools\":[\"app_one\"],\"decision\":\"confirm\"}", "was not confirmed", false},
        {"{\"tools\":[\"app_one\"],\"decision\":\"confirm\"}", "\"name\":\"n\"", true},
    };
    struct machine *m = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct policy *policy = machine_want_under(m, "list", "{}", cases[i].rule);
        m->run.exec.is_confirmed = cases[i].is_confirmed;
        seam_run_start(&m->run);
        machine_reply(m, 200, "{\"rows\":[{\"id\":\"i0\"}]}");
        if (i == 2)
            machine_reply(m, 200, "{\"name\":\"n\"}");
        machine_assert_no_call(m);
        assert_int_equal(machine_end_of(m, &m->run), EXEC_SUCCEEDED);
        assert_slice_has(m->run.out.output_json, cases[i].output);
        (void)machine_end(m);
        policy_unref(policy);
    }
}

#define POLICY_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        POLICY_TEST(a_deny_looks_at_no_key),
        POLICY_TEST(an_unsure_deny_comes_after_the_input),
        POLICY_TEST(a_read_needs_the_confirmation_that_a_policy_wants),
        POLICY_TEST(a_hidden_action_is_unknown),
        POLICY_TEST(a_dry_run_says_what_was_decided),
        POLICY_TEST(a_part_is_decided_too),
    };
    return cmocka_run_group_tests_name("exec/policy", tests, NULL, NULL);
}
