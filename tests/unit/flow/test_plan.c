/* What comes next: skipped steps, inputs, waits, what an approval shows, faults, and retries. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "flow/internal.h"

static struct catalog_report report;
static struct flow_service service;
static struct flow_run run;

/* A run of these steps with this input, as a start makes it. */
static void begin(const char *properties, const char *steps, const char *input)
{
    struct err err;
    struct buf text;
    buf_init(&text, 64 * 1024);
    buf_printf(
        &text,
        "{\"key\":\"t\",\"name\":\"T\",\"description\":\"T.\",\"input\":{\"type\":\"object\","
        "\"properties\":{%s},\"additionalProperties\":false},\"steps\":[%s]}",
        properties, steps);
    catalog_report_init(&report);
    run = (struct flow_run){.service = &service};
    run.tmpl = flow_template_compile(SLICE("t"), buf_slice(&text), NULL, &report);
    if (!run.tmpl)
        fail_msg("%.*s: %.*s", SLICE_ARG(report.problems[0].pointer),
                 SLICE_ARG(report.problems[0].text));
    buf_deinit(&text);
    arena_init(&run.op.arena, 64 * 1024 * 1024);
    arena_init(&run.scratch[0], 64 * 1024 * 1024);
    arena_init(&run.scratch[1], 64 * 1024 * 1024);
    run.flow = (struct flow){.template_key = SLICE("t"), .trigger_type = SLICE("manual")};
    run.op.request_id = SLICE("01a2007c-ddc7-7664-bcdc-429c0f5bdf92");
    run.input = json_parse(&run.op.arena, slice_cstr(input), &json_limits_request, &err);
    assert_non_null(run.input);
}

static void end(void)
{
    arena_deinit(&run.op.arena);
    arena_deinit(&run.scratch[0]);
    arena_deinit(&run.scratch[1]);
    flow_template_unref(run.tmpl);
    catalog_report_deinit(&report);
}

static void plan(size_t at)
{
    flow_plan_make(&run, at, 1, false);
}

#define N        "\"n\":{\"description\":\"N.\"}"
#define PASS(k)  "{\"key\":\"" k "\",\"type\":\"transform\",\"expr\":\"`1`\"}"
#define WAIT(of) "{\"key\":\"w\",\"type\":\"wait\"," of "}"

static void test_steps_whose_condition_is_false_are_passed_over(void **state)
{
    (void)state;
    begin(N,
          "{\"key\":\"a\",\"type\":\"transform\",\"when\":\"input.n == `1`\",\"expr\":\"`1`\"},"
          "{\"key\":\"b\",\"type\":\"transform\",\"when\":\"input.n == `2`\",\"expr\":\"`2`\"}",
          "{\"n\":2}");
    plan(0);
    assert_int_equal(run.plan.kind, FLOW_PLAN_TRANSFORM);
    assert_int_equal(run.plan.step, 1);
    plan(2);
    assert_int_equal(run.plan.kind, FLOW_PLAN_END);
    flow_plan_make(&run, 0, 2, true); /* decided before: it is not asked again */
    assert_int_equal(run.plan.step, 0);
    assert_int_equal(run.plan.attempt, 2);
    end();
}

static void test_inputs_of_calls(void **state)
{
    (void)state;
    begin(N,
          "{\"key\":\"a\",\"type\":\"tool_call\",\"tool\":\"x_y\",\"connection\":\"${input.n}\","
          "\"input\":{\"key\":\"${flow.templateKey}\",\"none\":\"${input.n[3]}\"}}",
          "{\"n\":\"17\"}");
    plan(0);
    assert_int_equal(run.plan.kind, FLOW_PLAN_CALL);
    assert_int_equal(run.plan.connection_id, 17);
    assert_string_equal(run.plan.input_json.ptr, "{\"key\":\"t\"}"); /* null members are left out */
    end();
}

static void check_wait(const char *of, const char *input, enum flow_plan_kind wanted)
{
    begin(N, of, input);
    plan(0);
    assert_int_equal(run.plan.kind, wanted);
    end();
}

static void test_waits(void **state)
{
    (void)state;
    check_wait(WAIT("\"for\":\"${input.n}\""), "{\"n\":60}", FLOW_PLAN_PARK);
    check_wait(WAIT("\"for\":\"${input.n}\""), "{\"n\":0}", FLOW_PLAN_PASS);
    check_wait(WAIT("\"for\":\"${input.n}\""), "{\"n\":-1}", FLOW_PLAN_FAULT);
    check_wait(WAIT("\"for\":\"${input.n}\""), "{\"n\":1e12}", FLOW_PLAN_FAULT);
    check_wait(WAIT("\"for\":\"${input.n}\""), "{\"n\":\"soon\"}", FLOW_PLAN_FAULT);
    check_wait(WAIT("\"until\":\"${input.n}\""), "{\"n\":\"2020-01-01T00:00:00+02:00\"}",
               FLOW_PLAN_PASS);
    check_wait(WAIT("\"until\":\"${input.n}\""), "{\"n\":\"2999-01-01T00:00:00-05:30\"}",
               FLOW_PLAN_PARK);
    check_wait(WAIT("\"until\":\"${input.n}\""), "{\"n\":\"tomorrow\"}", FLOW_PLAN_FAULT);
}

static void test_a_pause_ends_at_the_deadline(void **state)
{
    (void)state;
    begin(N, WAIT("\"for\":\"${input.n}\""), "{\"n\":3600}");
    run.flow.deadline = clock_wall_us() + 5000000;
    plan(0);
    assert_int_equal(run.plan.wake_at, run.flow.deadline);
    end();
}

#define ASK \
    "{\"key\":\"ask\",\"type\":\"approval\",\"title\":\"T ${input.n[0]}\",\"summary\":\"S\"},"

static void test_an_approval_shows_every_call(void **state)
{
    (void)state;
    begin(N,
          ASK "{\"key\":\"a\",\"type\":\"tool_call\",\"tool\":\"x_y\","
              "\"confirmed_by\":\"approval:ask\",\"for_each\":\"input.n\","
              "\"input\":{\"v\":\"${item}\",\"i\":\"${index}\"}},"
              "{\"key\":\"b\",\"type\":\"tool_call\",\"tool\":\"x_z\","
              "\"confirmed_by\":\"approval:ask\",\"when\":\"input.n[5]\",\"input\":{}}",
          "{\"n\":[7,8]}");
    plan(0);
    assert_int_equal(run.plan.kind, FLOW_PLAN_PARK);
    assert_int_equal(run.plan.wake_at, 0);
    assert_string_equal(run.plan.input_json.ptr,
                        "{\"title\":\"T 7\",\"summary\":\"S\",\"items\":["
                        "{\"stepKey\":\"a\",\"tool\":\"x_y\",\"input\":{\"v\":7,\"i\":0}},"
                        "{\"stepKey\":\"a\",\"tool\":\"x_y\",\"input\":{\"v\":8,\"i\":1}}]}");
    plan(1); /* what it showed is what is sent */
    assert_int_equal(run.plan.kind, FLOW_PLAN_FAN_OUT);
    struct json input;
    struct flow_error error;
    int64_t connection;
    assert_true(flow_plan_item(&run, 1, flow_run_scratch(&run), &input, &connection, &error));
    slice text = json_text_of(&input, flow_run_scratch(&run), 1000);
    assert_string_equal(text.ptr, "{\"v\":8,\"i\":1}");
    end();
}

static void test_faults(void **state)
{
    (void)state;
    begin(N,
          "{\"key\":\"a\",\"type\":\"tool_call\",\"tool\":\"x_y\",\"for_each\":\"input.n\","
          "\"input\":{}}",
          "{\"n\":\"text\"}");
    plan(0);
    assert_int_equal(run.plan.kind, FLOW_PLAN_FAULT);
    assert_string_equal(run.plan.error.code.ptr, "validation_error");
    assert_false(run.plan.error.is_retryable);
    end();
    begin(N,
          "{\"key\":\"a\",\"type\":\"tool_call\",\"tool\":\"x_y\",\"input\":{\"t\":"
          "\"text ${input.n}\"}}",
          "{}");
    plan(0); /* null inside a longer text */
    assert_int_equal(run.plan.kind, FLOW_PLAN_FAULT);
    end();
}

static void test_connections(void **state)
{
    (void)state;
    struct json value = json_string(SLICE("17"));
    assert_int_equal(flow_connection_id(&value), 17);
    value = json_i64(18);
    assert_int_equal(flow_connection_id(&value), 18);
    assert_int_equal(flow_connection_id(&json_null), 0);
    value = json_string(SLICE("nobody"));
    assert_int_equal(flow_connection_id(&value), EXEC_CONNECTION_NONE);
    value = json_i64(-3);
    assert_int_equal(flow_connection_id(&value), EXEC_CONNECTION_NONE);
}

static void test_retries(void **state)
{
    (void)state;
    struct flow_error error = {.is_retryable = true, .retry_after_ms = -1};
    begin(N,
          "{\"key\":\"a\",\"type\":\"tool_call\",\"tool\":\"x_y\",\"input\":{},"
          "\"retry\":{\"attempts\":4,\"backoff\":1,\"backoff_max\":3}}",
          "{}");
    plan(0);
    for (int i = 0; i < 1000; i++) {
        assert_in_range(flow_call_retry_ms(&run, &error, 1), 1, 1000);
        assert_in_range(flow_call_retry_ms(&run, &error, 2), 1, 2000);
        assert_in_range(flow_call_retry_ms(&run, &error, 3), 1, 3000);
    }
    assert_int_equal(flow_call_retry_ms(&run, &error, 4), 0);
    error.retry_after_ms = 7000; /* what the provider says */
    assert_in_range(flow_call_retry_ms(&run, &error, 1), 7000, 7500);
    error.is_final = true;
    assert_int_equal(flow_call_retry_ms(&run, &error, 1), 0);
    error = (struct flow_error){.retry_after_ms = 7000};
    assert_int_equal(flow_call_retry_ms(&run, &error, 1), 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_whose_condition_is_false_are_passed_over),
        cmocka_unit_test(test_inputs_of_calls),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_a_pause_ends_at_the_deadline),
        cmocka_unit_test(test_an_approval_shows_every_call),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_connections),
        cmocka_unit_test(test_retries),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    metric_deinit();
    return failed ? failed : mem_live_blocks() != 0;
}
