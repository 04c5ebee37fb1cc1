/*
 * HTTP statuses of outcomes, and the errors of the tool endpoint.
 */
#include "api/envelope.h"
#include "unit.h"

static void every_reason_has_a_status_that_fits_its_kind(void **state)
{
    (void)state;
    for (unsigned i = 0; i < EXEC_REASONS; i++) {
        enum exec_reason reason = (enum exec_reason)i;
        unsigned status = api_verdict_of(reason)->http_status;
        if (!exec_reason_status(reason))
            assert_true(reason == EXEC_NOT_IN_SCOPE ? status == 403 : status >= 500);
        else
            assert_int_equal(status, exec_reason_is_blocked(reason)  ? 409
                                     : exec_reason_is_failed(reason) ? 500
                                                                     : 200);
    }
}

/* src/api/README.md "Executions" and "Tool endpoint": only the members that they list. */
static void every_reason_has_a_tool_error_of_the_lists(void **state)
{
    (void)state;
    static const char *const types[] = {"validation", "confirmation", "policy",      "connection",
                                        "auth",       "rate_limit",   "timeout",     "network",
                                        "provider",   "not_found",    "unsupported", "internal"};
    for (unsigned i = 0; i < EXEC_REASONS; i++) {
        const struct api_verdict *verdict = api_verdict_of((enum exec_reason)i);
        const struct exec_outcome out = {.reason = (enum exec_reason)i};
        bool has_code = exec_outcome_error_code(&out).len > 0;
        bool is_confirmation = i == EXEC_CONFIRMATION_MISSING, is_known = false;
        assert_int_equal(verdict->tool_status, is_confirmation ? 412 : verdict->http_status);
        assert_int_equal(verdict->error_type != NULL, has_code);
        assert_int_equal(verdict->tool_code != NULL, has_code);
        if (!verdict->error_type)
            continue;
        for (size_t j = 0; j < ARRAY_LEN(types); j++)
            is_known = is_known || strcmp(verdict->error_type, types[j]) == 0;
        assert_true(is_known);
    }
    const struct api_verdict *invalid = api_verdict_of(EXEC_INPUT_INVALID);
    assert_string_equal(invalid->error_type, "validation");
    assert_string_equal(invalid->tool_code, "invalid_arguments");
    assert_string_equal(api_verdict_of(EXEC_CONFIRMATION_MISSING)->tool_code,
                        "confirmation_required");
    assert_string_equal(api_verdict_of(EXEC_CONNECTION_UNKNOWN)->error_type, "connection");
    const struct exec_outcome unknown = {.reason = EXEC_CONNECTION_UNKNOWN};
    assert_true(slice_eq_cstr(exec_outcome_error_code(&unknown), "integration_not_connected"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reason_has_a_status_that_fits_its_kind),
        cmocka_unit_test(every_reason_has_a_tool_error_of_the_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
