/*
 * What a view shows for each state of a flow and its steps.
 */
#include "flow/flow.h"
#include "unit.h"

static const char text[] =
    "{\"key\":\"demo\",\"name\":\"Demo flow\",\"description\":\"A demo.\",\"steps\":["
    "{\"key\":\"find\",\"type\":\"tool_call\",\"tool\":\"gmail_list_messages\"},"
    "{\"key\":\"ask\",\"type\":\"approval\",\"title\":\"t\",\"summary\":\"s\"},"
    "{\"key\":\"make\",\"type\":\"tool_call\",\"tool\":\"gmail_send_message\","
    "\"confirmed_by\":\"approval:ask\"},"
    "{\"key\":\"rest\",\"type\":\"wait\",\"for\":1}]}";

/* Seconds on a past day, which a view shows as 2001-09-09T01:46:40.000Z and later. */
#define AT(seconds) ((INT64_C(1000000000) + (seconds)) * 1000000)

struct bench {
    struct flow_template *tmpl;
    struct arena arena;
    struct flow_step steps[8];
    struct flow_whole whole;
    const struct json *view; /* the most recently read view */
    struct buf out;
};

static int setup(void **state)
{
    struct bench *b = mem_zalloc(sizeof(*b));
    struct catalog_report report;
    catalog_report_init(&report);
    b->tmpl = flow_template_compile(SLICE("demo"), slice_cstr(text), NULL, &report);
    assert_non_null(b->tmpl);
    catalog_report_deinit(&report);
    arena_init(&b->arena, 4 * 1024 * 1024);
    buf_init(&b->out, 1024 * 1024);
    b->whole = (struct flow_whole){
        .flow = {.id = uuid_v7(),
                 .template_key = SLICE("demo"),
                 .trigger_type = SLICE("agent"),
                 .status = FLOW_RUNNING,
                 .rev = 1,
                 .created_at = AT(0),
                 .updated_at = AT(0)},
        .input = SLICE("{\"big\":12345678901234567890,\"nul\":\"\\u0000\"}"),
        .actor = SLICE("key:x"),
        .steps = b->steps,
    };
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;
    buf_deinit(&b->out);
    arena_deinit(&b->arena);
    flow_template_unref(b->tmpl);
    mem_free(b);
    return unit_end();
}

static void add(struct bench *b, int64_t step, int64_t attempt, const char *output,
                const char *error, int64_t from)
{
    b->steps[b->whole.step_count++] = (struct flow_step){
        .step_index = step,
        .attempt = attempt,
        .is_completed = output != NULL,
        .started_at = AT(from),
        .finished_at = AT(from + 1),
        .input = SLICE("{\"in\":1}"),
        .output = slice_cstr(output),
        .error = slice_cstr(error),
    };
}

/* Whether `part` is `whole` without these two members. */
static bool is_without(const struct json *part, const struct json *whole, const char *one,
                       const char *other)
{
    bool is_so = part->count + 2 == whole->count && json_get(whole, slice_cstr(one)) &&
                 json_get(whole, slice_cstr(other));
    for (uint32_t i = 0; is_so && i < part->count; i++) {
        slice name = json_str(&part->as.members[i].key);
        const struct json *value = json_get(whole, name);
        is_so = !slice_eq_cstr(name, one) && !slice_eq_cstr(name, other) && value &&
                json_equal(&part->as.members[i].value, value);
    }
    return is_so;
}

/* Checks that the summary is the view without its documents, in every state. */
static void check_summary(struct bench *b)
{
    buf_clear(&b->out);
    flow_view_write(&b->out, &b->whole, b->tmpl, FLOW_VIEW_SUMMARY);
    const struct json *summary =
        json_parse(&b->arena, buf_slice(&b->out), &json_limits_request, NULL);
    assert_non_null(summary);
    assert_true(
        is_without(JSON_GET(summary, "flow"), JSON_GET(b->view, "flow"), "input", "context"));
    const struct json *steps = JSON_GET(summary, "steps"), *whole = JSON_GET(b->view, "steps");
    assert_int_equal(steps->count, whole->count);
    for (uint32_t i = 0; i < steps->count; i++)
        assert_true(is_without(&steps->as.items[i], &whole->as.items[i], "input", "output"));
}

/* Checks that a key that may not read gets the same members and none of the documents, in every
 * state. */
static void check_bare(struct bench *b)
{
    buf_clear(&b->out);
    flow_view_write(&b->out, &b->whole, b->tmpl, FLOW_VIEW_BARE);
    const struct json *bare = json_parse(&b->arena, buf_slice(&b->out), &json_limits_request, NULL);
    assert_non_null(bare);
    const struct json *flow = JSON_GET(bare, "flow"), *whole = JSON_GET(b->view, "flow");
    assert_int_equal(flow->count, whole->count);
    assert_int_equal(JSON_GET(flow, "input")->count, 0);
    assert_int_equal(JSON_GET(flow, "context")->count, 0);
    assert_true(slice_eq(json_get_str(flow, SLICE("title")), b->tmpl->name));
    assert_true(
        slice_eq(json_get_str(flow, SLICE("status")), json_get_str(whole, SLICE("status"))));
    const struct json *steps = JSON_GET(bare, "steps");
    for (uint32_t i = 0; i < steps->count; i++) {
        const struct json *step = &steps->as.items[i];
        const struct json *error = JSON_GET(step, "error");
        const struct json *full = JSON_GET(&JSON_GET(b->view, "steps")->as.items[i], "error");
        assert_int_equal(step->count, JSON_GET(b->view, "steps")->as.items[i].count);
        assert_int_equal(JSON_GET(step, "input")->type, JSON_NULL);
        assert_int_equal(JSON_GET(step, "output")->type, JSON_NULL);
        assert_int_equal(error->type, full->type);
        if (error->type == JSON_OBJECT) {
            assert_true(json_equal(JSON_GET(error, "code"), JSON_GET(full, "code")));
            assert_false(json_equal(JSON_GET(error, "message"), JSON_GET(full, "message")));
            assert_null(JSON_GET(error, "hint"));
        }
    }
}

static void look(struct bench *b)
{
    buf_clear(&b->out);
    flow_view_write(&b->out, &b->whole, b->tmpl, FLOW_VIEW_WHOLE);
    assert_true(buf_is_ok(&b->out));
    b->view = json_parse(&b->arena, buf_slice(&b->out), &json_limits_request, NULL);
    assert_non_null(b->view);
    check_summary(b);
    check_bare(b);
}

static void check_at(struct bench *b, const char *pointer, const char *want, int line)
{
    const struct json *value = json_pointer(b->view, slice_cstr(pointer));
    struct buf got;
    buf_init(&got, 64 * 1024);
    if (value)
        json_write(&got, value);
    else
        buf_append_cstr(&got, "nothing");
    bool is_same = slice_eq_cstr(buf_slice(&got), want);
    if (!is_same)
        print_error("line %d: %s is %.*s\n", line, pointer, SLICE_ARG(buf_slice(&got)));
    buf_deinit(&got);
    assert_true(is_same);
}

#define assert_at(pointer, want) check_at(b, (pointer), (want), __LINE__)

static void check_statuses(struct bench *b, const char *flow, const char *const steps[4], int line)
{
    look(b);
    char want[64], pointer[64];
    (void)snprintf(want, sizeof(want), "\"%s\"", flow);
    check_at(b, "/flow/status", want, line);
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(want, sizeof(want), "\"%s\"", steps[i]);
        (void)snprintf(pointer, sizeof(pointer), "/steps/%zu/status", i);
        check_at(b, pointer, want, line);
    }
}

#define assert_statuses(flow, ...) \
    check_statuses(b, (flow), (const char *const[]){__VA_ARGS__}, __LINE__)

static void one_that_has_just_begun(void **state)
{
    struct bench *b = *state;
    b->whole.flow.is_begun = true;
    b->whole.flow.attempt = 1;
    assert_statuses("running", "running", "pending", "pending", "pending");
    assert_at("/flow/name", "\"Demo flow\"");
    assert_at("/flow/title", "\"Demo flow\"");
    assert_at("/flow/templateKey", "\"demo\"");
    assert_at("/flow/triggerType", "\"agent\"");
    assert_at("/flow/input/big", "12345678901234567890");
    assert_at("/flow/input/nul", "\"\\u0000\"");
    assert_at("/flow/context", "{}");
    assert_at("/flow/currentStep", "\"find\"");
    assert_at("/flow/createdAt", "\"2001-09-09T01:46:40.000Z\"");
    assert_at("/flow/completedAt", "null");
    assert_at("/steps/0/stepKey", "\"find\"");
    assert_at("/steps/0/stepIndex", "0");
    assert_at("/steps/0/stepType", "\"tool_call\"");
    assert_at("/steps/1/stepType", "\"approval\"");
    assert_at("/steps/3/stepType", "\"wait\"");
    assert_at("/steps/0/attemptCount", "1");
    assert_at("/steps/1/attemptCount", "0");
    assert_at("/steps/0/startedAt", "\"2001-09-09T01:46:40.000Z\"");
    assert_at("/steps/1/startedAt", "null");
    assert_at("/steps/0/input", "null");
    assert_at("/steps/0/wakeAt", "nothing");
}

static void one_that_has_not_begun_its_step(void **state)
{
    struct bench *b = *state;
    assert_statuses("running", "pending", "pending", "pending", "pending");
    assert_at("/steps/0/attemptCount", "0");
    assert_at("/steps/0/startedAt", "null");
}

/* Makes a flow whose step "find" completed at the second attempt, and whose step "ask" waits. */
static void wait_for_approval(struct bench *b)
{
    add(b, 0, 1, NULL, "{\"code\":\"timeout\",\"message\":\"m\",\"retryable\":true}", 1);
    add(b, 0, 2, "{\"ids\":[1]}", NULL, 3);
    b->whole.flow.status = FLOW_WAITING;
    b->whole.flow.waiting_for = FLOW_WAITS_APPROVAL;
    b->whole.flow.step_index = 1;
    b->whole.flow.attempt = 1;
    b->whole.flow.updated_at = AT(5);
    b->whole.waiting_input = SLICE("{\"title\":\"t\"}");
}

static void one_that_waits_for_approval(void **state)
{
    struct bench *b = *state;
    wait_for_approval(b);
    assert_statuses("waiting", "completed", "waiting", "pending", "pending");
    assert_at("/flow/currentStep", "\"ask\"");
    assert_at("/flow/context", "{\"find\":{\"ids\":[1]}}");
    assert_at("/steps/0/attemptCount", "2");
    assert_at("/steps/0/output", "{\"ids\":[1]}");
    assert_at("/steps/0/error", "null");
    assert_at("/steps/0/startedAt", "\"2001-09-09T01:46:41.000Z\"");
    assert_at("/steps/0/completedAt", "\"2001-09-09T01:46:44.000Z\"");
    assert_at("/steps/1/input", "{\"title\":\"t\"}");
    assert_at("/steps/1/output", "null");
    assert_at("/steps/1/startedAt", "\"2001-09-09T01:46:45.000Z\"");
    assert_at("/steps/1/completedAt", "null");
    assert_at("/steps/1/expiresAt", "nothing");
    b->whole.flow.wake_at = AT(3600);
    look(b);
    assert_at("/steps/1/expiresAt", "\"2001-09-09T02:46:40.000Z\"");
    assert_at("/steps/1/wakeAt", "nothing");
    assert_at("/steps/2/expiresAt", "nothing");
}

static void one_that_was_approved_a_moment_ago(void **state)
{
    struct bench *b = *state;
    wait_for_approval(b);
    add(b, 1, 1, "{\"approvedBy\":\"key:x\"}", NULL, 6);
    b->whole.flow.status = FLOW_RUNNING;
    b->whole.flow.waiting_for = FLOW_WAITS_NOT;
    b->whole.waiting_input = SLICE_NONE;
    assert_statuses("running", "completed", "completed", "pending", "pending");
    assert_at("/flow/context/ask", "{\"approvedBy\":\"key:x\"}");
    assert_at("/steps/1/input", "{\"in\":1}");
}

static void one_that_was_rejected(void **state)
{
    struct bench *b = *state;
    wait_for_approval(b);
    add(b, 1, 1, NULL, "{\"code\":\"policy_blocked\",\"message\":\"no\",\"retryable\":false}", 6);
    b->whole.flow.status = FLOW_CANCELLED;
    b->whole.flow.waiting_for = FLOW_WAITS_NOT;
    assert_statuses("cancelled", "completed", "failed", "cancelled", "cancelled");
    assert_at("/steps/1/error/message", "\"no\"");
    assert_at("/flow/completedAt", "null");
}

static void one_that_waits_for_a_time(void **state)
{
    struct bench *b = *state;
    wait_for_approval(b);
    add(b, 1, 1, "{}", NULL, 5);
    add(b, 2, 1, "7", NULL, 7);
    b->whole.flow.waiting_for = FLOW_WAITS_TIME;
    b->whole.flow.step_index = 3;
    b->whole.flow.wake_at = AT(60);
    assert_statuses("waiting", "completed", "completed", "completed", "waiting");
    assert_at("/steps/3/wakeAt", "\"2001-09-09T01:47:40.000Z\"");
    assert_at("/steps/2/output", "7");
}

static void one_whose_call_is_to_be_tried_again(void **state)
{
    struct bench *b = *state;
    add(b, 0, 1, NULL, "{\"code\":\"rate_limited\",\"message\":\"m\",\"retryable\":true}", 1);
    b->whole.flow.status = FLOW_WAITING;
    b->whole.flow.waiting_for = FLOW_WAITS_RETRY;
    b->whole.flow.attempt = 1;
    b->whole.flow.wake_at = AT(30);
    assert_statuses("waiting", "waiting", "pending", "pending", "pending");
    assert_at("/steps/0/error/code", "\"rate_limited\"");
    assert_at("/steps/0/wakeAt", "\"2001-09-09T01:47:10.000Z\"");
    b->whole.flow.status = FLOW_RUNNING;
    b->whole.flow.waiting_for = FLOW_WAITS_NOT;
    b->whole.flow.attempt = 2;
    b->whole.flow.is_begun = true;
    assert_statuses("running", "running", "pending", "pending", "pending");
    assert_at("/steps/0/error", "null");
    assert_at("/steps/0/attemptCount", "2");
    assert_at("/steps/0/wakeAt", "nothing");
}

static void one_whose_wait_is_over(void **state)
{
    struct bench *b = *state;
    wait_for_approval(b);
    add(b, 1, 1, "{}", NULL, 5);
    add(b, 2, 1, "7", NULL, 7);
    b->whole.flow.status = FLOW_RUNNING;
    b->whole.flow.waiting_for = FLOW_WAITS_NOT;
    b->whole.flow.step_index = 3;
    assert_statuses("running", "completed", "completed", "completed", "running");
}

static void one_that_failed(void **state)
{
    struct bench *b = *state;
    add(b, 0, 1, NULL, "{\"code\":\"forbidden\",\"message\":\"m\",\"retryable\":false}", 1);
    b->whole.flow.status = FLOW_FAILED;
    b->whole.flow.attempt = 1;
    assert_statuses("failed", "failed", "pending", "pending", "pending");
    assert_at("/steps/0/error/code", "\"forbidden\"");
    assert_at("/steps/0/completedAt", "null");
    assert_at("/steps/0/input", "{\"in\":1}");
    b->whole.flow.status = FLOW_CANCELLED;
    assert_statuses("cancelled", "failed", "cancelled", "cancelled", "cancelled");
}

static void one_that_was_cancelled_in_a_call(void **state)
{
    struct bench *b = *state;
    add(b, 0, 1, NULL, "{\"code\":\"timeout\",\"message\":\"m\",\"retryable\":true}", 1);
    b->whole.flow.status = FLOW_CANCELLED;
    b->whole.flow.attempt = 2;
    b->whole.flow.is_begun = true;
    assert_statuses("cancelled", "cancelled", "cancelled", "cancelled", "cancelled");
    assert_at("/steps/0/error", "null");
}

static void one_that_completed_with_steps_skipped(void **state)
{
    struct bench *b = *state;
    add(b, 0, 1, "[]", NULL, 1);
    add(b, 2, 1, "null", NULL, 3);
    b->whole.flow.status = FLOW_COMPLETED;
    b->whole.flow.step_index = 3;
    b->whole.flow.completed_at = b->whole.flow.updated_at = AT(9);
    assert_statuses("completed", "completed", "skipped", "completed", "skipped");
    assert_at("/flow/context", "{\"find\":[],\"make\":null}");
    assert_at("/flow/currentStep", "\"rest\"");
    assert_at("/flow/completedAt", "\"2001-09-09T01:46:49.000Z\"");
    assert_at("/steps/1/attemptCount", "0");
    b->whole.flow.step_index = 2; /* the flow ended in its last step, whichever step the row
                                   * names */
    assert_statuses("completed", "completed", "skipped", "completed", "skipped");
    assert_at("/flow/currentStep", "\"rest\"");
}

static void a_record_is_the_flow_of_its_view(void **state)
{
    struct bench *b = *state;
    wait_for_approval(b);
    look(b);
    struct flow_listed listed = {
        .flow = b->whole.flow, .input = b->whole.input, .outputs = &b->steps[1], .output_count = 1};
    struct buf record;
    buf_init(&record, 64 * 1024);
    flow_record_write(&record, &listed, b->tmpl, false);
    const struct json *value =
        json_parse(&b->arena, buf_slice(&record), &json_limits_request, NULL);
    assert_non_null(value);
    assert_true(json_equal(value, JSON_GET(b->view, "flow")));
    buf_deinit(&record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_that_has_just_begun, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_has_not_begun_its_step, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_waits_for_approval, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_was_approved_a_moment_ago, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_was_rejected, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_waits_for_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(one_whose_call_is_to_be_tried_again, setup, teardown),
        cmocka_unit_test_setup_teardown(one_whose_wait_is_over, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_failed, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_was_cancelled_in_a_call, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_completed_with_steps_skipped, setup, teardown),
        cmocka_unit_test_setup_teardown(a_record_is_the_flow_of_its_view, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
