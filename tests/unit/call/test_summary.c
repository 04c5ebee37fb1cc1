/*
 * The summary envelope (src/api/README.md "Executions"): the members of each kind of outcome, and
 * what may be sent again.
 */
#include "call/summary.h"
#include "unit.h"

static struct arena arena;

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 1024 * 1024);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_deinit(&arena);
    return unit_end();
}

static struct exec_outcome outcome(enum exec_reason reason)
{
    struct exec_outcome out = {
        .reason = reason,
        .integration_id = SLICE("gmail"),
        .action_id = SLICE("send_message"),
        .started_us = 1767225599123456,
        .finished_us = 1767225600000000,
        .output_json = SLICE("{\"id\":1}"),
        .display_title = SLICE("Title \"x\""),
        .display_summary = SLICE("Summary"),
        .message = SLICE("What happened\n"),
        .hint = SLICE("What to do"),
        .retry_after_ms = -1,
    };
    assert_true(uuid_parse(SLICE("0192f0c4-0000-7000-8000-000000000001"), &out.execution_id));
    return out;
}

static const struct json *render(const struct exec_outcome *out)
{
    slice text = exec_summary_render(out, &arena);
    struct err err;
    const struct json *json = json_parse(&arena, text, &json_limits_request, &err);
    assert_non_null(json);
    return json;
}

static void assert_member(const struct json *json, const char *name, const char *wanted)
{
    assert_text(json_get_str(json, slice_cstr(name)), wanted);
}

static void a_success_has_output_and_times(void **state)
{
    (void)state;
    struct exec_outcome out = outcome(EXEC_SUCCEEDED);
    const struct json *json = render(&out);
    assert_member(json, "status", "succeeded");
    assert_member(json, "execution_id", "0192f0c4-0000-7000-8000-000000000001");
    assert_member(json, "started_at", "2025-12-31T23:59:59.123Z");
    assert_member(json, "finished_at", "2026-01-01T00:00:00.000Z");
    assert_member(JSON_GET(json, "display"), "title", "Title \"x\"");
    assert_int_equal(json_get_i64(JSON_GET(json, "output"), SLICE("id"), 0), 1);
    assert_null(JSON_GET(json, "error_code"));
    assert_null(JSON_GET(json, "message"));
}

static void every_reason_has_a_summary_that_fits_its_kind(void **state)
{
    (void)state;
    for (unsigned i = 0; i < EXEC_REASONS; i++) {
        enum exec_reason reason = (enum exec_reason)i;
        struct exec_outcome out = outcome(reason);
        if (!exec_reason_status(reason)) {
            assert_int_equal(exec_outcome_error_code(&out).len, 0);
            assert_int_equal(exec_summary_render(&out, &arena).len, 0);
            continue;
        }
        const struct json *json = render(&out);
        bool is_blocked = exec_reason_is_blocked(reason);
        const char *status = is_blocked                      ? "blocked"
                             : exec_reason_is_failed(reason) ? "failed"
                                                             : "succeeded";
        assert_member(json, "status", status);
        assert_int_equal(json_is(JSON_GET(json, "execution_id"), JSON_NULL), is_blocked);
        assert_int_equal(JSON_GET(json, "output") != NULL, reason == EXEC_SUCCEEDED);
        if (reason == EXEC_SUCCEEDED)
            continue;
        assert_true(
            slice_eq(json_get_str(json, SLICE("error_code")), exec_outcome_error_code(&out)));
        assert_true(exec_outcome_error_code(&out).len > 0);
        assert_true(slice_eq(exec_reason_code(slice_cstr(exec_reason_name(reason))),
                             exec_outcome_error_code(&out)));
        assert_member(json, "message", "What happened\n");
        slice hint = json_get_str(json, SLICE("hint"));
        assert_true(slice_starts_with(hint, SLICE("What to do")));
        assert_true(slice_eq_cstr(exec_hint_of_people(hint), "What to do"));
        /* The route of the recommended action is given with it. */
        assert_int_equal(slice_find(hint, SLICE(" POST /api/connect/sessions")) > 0,
                         JSON_GET(json, "recommended_next_action") != NULL);
    }
    assert_true(slice_eq_cstr(exec_reason_code(SLICE("of a later version")), "of a later version"));
}

static void reconnecting_is_recommended_where_it_helps(void **state)
{
    (void)state;
    struct exec_outcome out = outcome(EXEC_NOT_CONNECTED);
    const struct json *next = JSON_GET(render(&out), "recommended_next_action");
    assert_member(next, "tool", "sluice.connect_app");
    assert_member(JSON_GET(next, "input"), "integration_id", "gmail");
    assert_null(JSON_GET(JSON_GET(next, "input"), "force_reconnect"));
    out = outcome(EXEC_REAUTH_REQUIRED);
    next = JSON_GET(render(&out), "recommended_next_action");
    assert_true(json_get_bool(JSON_GET(next, "input"), SLICE("force_reconnect"), false));
    assert_null(JSON_GET(JSON_GET(next, "input"), "connection_id"));
    out.reconnect_id = 115295572658582;
    next = JSON_GET(render(&out), "recommended_next_action");
    assert_member(JSON_GET(next, "input"), "connection_id", "115295572658582");
    out = outcome(EXEC_SCOPE_MISSING);
    assert_non_null(JSON_GET(render(&out), "recommended_next_action"));
    out = outcome(EXEC_PROVIDER_FORBIDDEN);
    assert_null(JSON_GET(render(&out), "recommended_next_action"));
    out.advice = EXEC_ADVICE_RECONNECT;
    next = JSON_GET(render(&out), "recommended_next_action");
    assert_true(json_get_bool(JSON_GET(next, "input"), SLICE("force_reconnect"), false));
    out = outcome(EXEC_KEY_REFUSED);
    assert_non_null(JSON_GET(render(&out), "recommended_next_action"));
    out.advice = EXEC_ADVICE_NONE;
    assert_null(JSON_GET(render(&out), "recommended_next_action"));
    out = outcome(EXEC_CONNECTION_UNKNOWN);
    assert_null(JSON_GET(render(&out), "recommended_next_action"));
    out = outcome(EXEC_INPUT_INVALID);
    assert_null(JSON_GET(render(&out), "recommended_next_action"));
}

static void a_manifests_code_wins_and_an_empty_hint_is_left_out(void **state)
{
    (void)state;
    struct exec_outcome out = outcome(EXEC_PROVIDER_ERROR);
    out.error_code = SLICE("validation_error");
    out.hint = SLICE_NONE;
    const struct json *json = render(&out);
    assert_member(json, "error_code", "validation_error");
    assert_null(JSON_GET(json, "hint"));
}

static void only_what_could_succeed_is_retryable(void **state)
{
    (void)state;
    for (unsigned i = 0; i < EXEC_REASONS; i++) {
        struct exec_outcome out = outcome((enum exec_reason)i);
        bool is_always = i == EXEC_OWN_RATE_LIMIT || i == EXEC_CIRCUIT_OPEN ||
                         i == EXEC_PROVIDER_RATE_LIMITED || i == EXEC_HELD;
        bool is_sometimes = i == EXEC_TIMED_OUT || i == EXEC_UNREACHABLE || i == EXEC_BROKEN_OFF ||
                            i == EXEC_REPLY_UNREADABLE || i == EXEC_PARTLY_DONE ||
                            i == EXEC_OUTCOME_UNKNOWN;
        out.provider_status = 404;
        assert_int_equal(exec_outcome_is_retryable(&out), is_always);
        out.is_repeatable = true;
        assert_int_equal(exec_outcome_is_retryable(&out), is_always || is_sometimes);
        out.provider_status = 502;
        assert_int_equal(exec_outcome_is_retryable(&out),
                         is_always || is_sometimes || i == EXEC_PROVIDER_ERROR);
        out.is_replayed = true;
        assert_false(exec_outcome_is_retryable(&out));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_success_has_output_and_times, setup, teardown),
        cmocka_unit_test_setup_teardown(every_reason_has_a_summary_that_fits_its_kind, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(reconnecting_is_recommended_where_it_helps, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(only_what_could_succeed_is_retryable, setup, teardown),
        cmocka_unit_test_setup_teardown(a_manifests_code_wins_and_an_empty_hint_is_left_out, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
