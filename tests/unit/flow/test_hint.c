/* Hints of failed steps are about the flow, even if the execution's hint is about a request. */
#include "call/reply_words.h"
#include "flow/hint.h"
#include "unit.h"

static struct arena arena;

static void check_words(slice hint, enum exec_reason reason)
{
    static const char *const foreign[] = {
        "same request", "idempotency", "Idempotency", "Retry-After", "connectionId",
        "GET /",        "POST /",      "confirm",     "try again",   "send it again"};
    static const char *const own[] = {"resum", "Resum", "start a new flow"};
    bool is_own = false;
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        if (slice_find(hint, slice_cstr(foreign[i])) >= 0 &&
            (reason != EXEC_CONFIRMATION_MISSING || i != 7))
            fail_msg("%s: \"%s\" in: %.*s", exec_reason_name(reason), foreign[i], SLICE_ARG(hint));
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        is_own |= slice_find(hint, slice_cstr(own[i])) >= 0;
    if (!is_own)
        fail_msg("%s: nothing of the flow in: %.*s", exec_reason_name(reason), SLICE_ARG(hint));
}

static slice hint_of(enum exec_reason reason, enum exec_effect effect, slice said, bool is_given)
{
    struct exec_outcome out = {.reason = reason, .hint = said, .is_hint_given = is_given};
    slice hint = flow_hint_of(&out, effect, false, &arena);
    check_words(hint, reason);
    return hint;
}

/* That of a held call, which has no template, and of which no other input was approved. */
static slice held_hint_of(enum exec_reason reason, slice said, bool is_given)
{
    static const char *const foreign[] = {"template", "new flow", "Start", "then resume the flow."};
    bool is_input = reason == EXEC_INPUT_INVALID || reason == EXEC_PROVIDER_INVALID;
    struct exec_outcome out = {.reason = reason, .hint = said, .is_hint_given = is_given};
    slice hint = flow_hint_of(&out, EXEC_EFFECT_NONE, true, &arena);
    /* no request with this confirmation is held */
    if (reason != EXEC_CONFIRMATION_MISSING && reason != EXEC_CONNECTION_UNKNOWN)
        check_words(hint, reason);
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        if (reason != EXEC_CONFIRMATION_MISSING && (i < 3 || is_input) &&
            slice_find(hint, slice_cstr(foreign[i])) >= 0)
            fail_msg("%s: \"%s\" in: %.*s", exec_reason_name(reason), foreign[i], SLICE_ARG(hint));
    return hint;
}

/* Each hint of an execution about a reply, or about a missing reply. */
static void test_all_that_executions_say(void **state)
{
    static const unsigned statuses[] = {200, 302, 400, 404, 409, 429, 500, 503};
    (void)state;
    for (enum exec_reason reason = EXEC_INTEGRATION_UNKNOWN; reason < EXEC_REASONS; reason++)
        for (enum exec_effect effect = EXEC_EFFECT_NONE; effect <= EXEC_EFFECT_UNKNOWN; effect++)
            for (size_t i = 0; i < 2 * ARRAY_LEN(statuses); i++) {
                slice said = reply_hint(reason, effect, statuses[i / 2], i % 2);
                (void)hint_of(reason, effect, said, false);
                (void)held_hint_of(reason, said, false);
                said = reply_call_hint(reason, (enum http_call_result)(i % HTTP_CALL_RESULTS),
                                       effect, i & 2, i % 2);
                (void)hint_of(reason, effect, said, false);
                arena_reset(&arena);
            }
}

/* Hints of gates and manifests keep their useful advice. */
static void test_what_mends_it_is_kept(void **state)
{
    static const struct {
        enum exec_reason reason;
        bool is_given;
        const char *said, *kept;
    } cases[] = {
        {EXEC_SCOPE_MISSING, false,
         "It is asked for only where a person wants it: reconnect the app, tick \"Files\" there, "
         "then send the same request again.",
         "reconnect the app, tick \"Files\" there, then resume the flow."},
        {EXEC_REAUTH_REQUIRED, false,
         "Reconnect the app and send the same request again, or name another connection: POST "
         "/api/tools/x/execute with connectionId, one of 17. GET /api/connections?integration_id=x "
         "shows "
         "their labels.",
         "Reconnect the app, then resume the flow."},
        {EXEC_INPUT_INVALID, false, "Correct the input: /to is a text",
         "Correct the input: /to is a text. Resume makes the same call again. To use another "
         "input, start a new flow."},
        {EXEC_PROVIDER_RATE_LIMITED, true,
         "Wait as long as Retry-After says and try again; Notion allows three requests a second.",
         "Wait as long as retry_after says and resume the flow; Notion allows three requests"},
        {EXEC_PROVIDER_ERROR, true, "Read it again and repeat the change.",
         "Read it again and repeat the change. Then resume the flow."},
        {EXEC_PROVIDER_ERROR, true,
         "The idempotency key belongs to another input: use another key for this one.",
         "Then resume the flow."},
        {EXEC_CIRCUIT_OPEN, false,
         "Nothing was sent, so nothing was done. The app itself is failing. Try again later.",
         "Nothing was sent, so nothing was done. The app itself is failing. Resume the flow "
         "later."},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        slice hint = hint_of(cases[i].reason, EXEC_EFFECT_NONE, slice_cstr(cases[i].said),
                             cases[i].is_given);
        if (slice_find(hint, slice_cstr(cases[i].kept)) < 0)
            fail_msg("no \"%s\" in: %.*s", cases[i].kept, SLICE_ARG(hint));
    }
}

/* A held call cannot be corrected: another request has to be sent. */
static void test_a_held_call_is_not_corrected(void **state)
{
    static const struct {
        enum exec_reason reason;
        bool is_given;
        const char *said, *meant;
    } cases[] = {
        {EXEC_PROVIDER_INVALID, false,
         "Nothing was done. Correct the input as the message says, then try again.",
         "Nothing was done. Correct the input as the message says. Send a corrected request: "
         "resume "
         "sends the same input again."},
        {EXEC_PROVIDER_ERROR, false,
         "Nothing was done. Correct what the message says, then try again.",
         "Nothing was done. Correct what the message says. Send a corrected request: resume sends "
         "the same input again."},
        {EXEC_PROVIDER_INVALID, true, "Use an id of list_pages.",
         "Use an id of list_pages. Send a corrected request: resume sends the same input again."},
        {EXEC_PROVIDER_ERROR, true, "Wait a minute, then try again.",
         "Wait a minute, then resume the flow."},
        {EXEC_REAUTH_REQUIRED, false, "",
         "Nothing was done. Reconnect the app, then resume the "
         "flow."},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        slice hint = held_hint_of(cases[i].reason, slice_cstr(cases[i].said), cases[i].is_given);
        if (!slice_eq_cstr(hint, cases[i].meant))
            fail_msg("not \"%s\": %.*s", cases[i].meant, SLICE_ARG(hint));
    }
}

/* No hint about a refusal says that nothing was done if something may have been done. */
static void test_doubt_is_said(void **state)
{
    (void)state;
    slice hint = hint_of(EXEC_PROVIDER_RATE_LIMITED, EXEC_EFFECT_UNKNOWN,
                         SLICE("Nothing was done. Wait."), true);
    assert_true(slice_find(hint, SLICE("outcome is unknown")) >= 0);
    assert_true(slice_find(hint, SLICE("othing was")) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_executions_say),
        cmocka_unit_test(test_what_mends_it_is_kept),
        cmocka_unit_test(test_a_held_call_is_not_corrected),
        cmocka_unit_test(test_doubt_is_said),
    };
    arena_init(&arena, 16 * 1024 * 1024);
    int failed = cmocka_run_group_tests_name("flow/hint", tests, NULL, NULL);
    arena_deinit(&arena);
    return unit_result(failed);
}
