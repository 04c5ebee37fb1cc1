/* mcp/outside: which members of a reply come from outside, and how they are marked. */
#include "mcp/outside.h"
#include "unit.h"

struct row {
    const char *reply, *own, *outside, *pointers; /* outside is NULL if there is no such member */
};

static const struct row rows[] = {
    {"{\"status\":\"succeeded\",\"execution_id\":\"1\",\"output\":{\"status\":\"x\"},\"pages\":{"
     "\"next\":null},\"display\":{\"title\":\"t\"},\"outcome\":\"done\",\"approval_flow_id\":"
     "\"f\"}",
     "{\"status\":\"succeeded\",\"execution_id\":\"1\",\"outcome\":\"done\",\"approval_flow_id\":"
     "\"f\"}",
     "{\"output\":{\"status\":\"x\"},\"pages\":{\"next\":null},\"display\":{\"title\":\"t\"}}",
     "[\"/output\",\"/pages\",\"/display\"]"},
    {"{\"status\":\"succeeded\",\"output\":null}", "{\"status\":\"succeeded\",\"output\":null}",
     NULL, NULL},
    /* a refusal of sluice, and one that may quote an app */
    {"{\"status\":\"blocked\",\"error_code\":\"policy_blocked\",\"message\":\"m\",\"hint\":\"h\"}",
     "{\"status\":\"blocked\",\"error_code\":\"policy_blocked\",\"message\":\"m\",\"hint\":\"h\"}",
     NULL, NULL},
    {"{\"status\":\"blocked\",\"error_code\":\"reauth_required\",\"message\":\"m\",\"hint\":\"h\"}",
     "{\"status\":\"blocked\",\"error_code\":\"reauth_required\",\"hint\":\"h\"}",
     "{\"message\":\"m\"}", "[\"/message\"]"},
    {"{\"status\":\"failed\",\"error_code\":\"validation_error\",\"message\":\"m\",\"hint\":\"h\"}",
     "{\"status\":\"failed\",\"error_code\":\"validation_error\",\"hint\":\"h\"}",
     "{\"message\":\"m\"}", "[\"/message\"]"},
    /* a held call, and one whose approval is over: its message has words of a person or an app */
    {"{\"status\":\"blocked\",\"error_code\":\"policy_blocked\",\"message\":\"m\",\"approval\":{"
     "\"flow_id\":\"f\","
     "\"status\":\"waiting\",\"url\":\"u\"}}",
     "{\"status\":\"blocked\",\"error_code\":\"policy_blocked\",\"message\":\"m\",\"approval\":{"
     "\"flow_id\":\"f\","
     "\"status\":\"waiting\",\"url\":\"u\"}}",
     NULL, NULL},
    {"{\"status\":\"blocked\",\"display\":{\"title\":\"t\"},\"error_code\":\"policy_blocked\","
     "\"message\":\"m\","
     "\"hint\":\"h\",\"approval\":{\"status\":\"cancelled\"}}",
     "{\"status\":\"blocked\",\"error_code\":\"policy_blocked\",\"hint\":\"h\",\"approval\":{"
     "\"status\":\"cancelled\"}}",
     "{\"display\":{\"title\":\"t\"},\"message\":\"m\"}", "[\"/display\",\"/message\"]"},
    {"{\"dry_run\":true,\"policy\":{\"decision\":\"hold\",\"rule\":0},\"shows\":{\"policy\":\"x\"}"
     "}",
     "{\"dry_run\":true,\"policy\":{\"decision\":\"hold\",\"rule\":0}}",
     "{\"shows\":{\"policy\":\"x\"}}", "[\"/shows\"]"},
    {"{\"error\":\"e\"}", "{\"error\":\"e\"}", NULL, NULL},
    /* a member that is not known */
    {"{\"status\":\"failed\",\"request\":{\"hint\":\"h\"}}", "{\"status\":\"failed\"}",
     "{\"request\":{\"hint\":\"h\"}}", "[\"/request\"]"},
    /* positions in arrays are kept; items after the last one with such data are left out */
    {"{\"connections\":[{\"id\":\"1\",\"identity\":null},{\"id\":\"2\",\"label\":\"l\","
     "\"identity\":\"a@b\"},{\"id\":\"3\",\"identity\":null}],\"next_cursor\":\"m:3\"}",
     "{\"connections\":[{\"id\":\"1\",\"identity\":null},{\"id\":\"2\"},{\"id\":\"3\","
     "\"identity\":null}],\"next_cursor\":\"m:3\"}",
     "{\"connections\":[{},{\"label\":\"l\",\"identity\":\"a@b\"}]}",
     "[\"/connections/1/label\",\"/connections/1/identity\"]"},
    {"{\"flowId\":\"f\",\"flow\":{\"flow\":{\"id\":\"f\",\"title\":\"t\"},\"steps\":[{\"stepKey\":"
     "\"a\",\"error\":null},{\"stepKey\":\"b\",\"error\":{\"code\":\"forbidden\",\"message\":\"m\","
     "\"resumable\":false,\"hint\":\"h\"}},{\"stepKey\":\"c\",\"error\":{\"code\":\"validation_"
     "error\",\"message\":"
     "\"m\",\"hint\":\"h\"}}],\"hint\":\"h\"}}",
     "{\"flowId\":\"f\",\"flow\":{\"flow\":{\"id\":\"f\"},\"steps\":[{\"stepKey\":\"a\",\"error\":"
     "null},{\"stepKey\":\"b\",\"error\":{\"code\":\"forbidden\",\"resumable\":false,\"hint\":"
     "\"h\"}},{\"stepKey\":"
     "\"c\",\"error\":{\"code\":\"validation_error\"}}],\"hint\":\"h\"}}",
     "{\"flow\":{\"flow\":{\"title\":\"t\"},\"steps\":[{},{\"error\":{\"message\":\"m\"}},{"
     "\"error\":{\"message\":\"m\",\"hint\":\"h\"}}]}}",
     "[\"/flow/flow/title\",\"/flow/steps/1/error/message\",\"/flow/steps/2/error/message\",\"/"
     "flow/steps/2/error/hint\"]"},
    /* the results of run_actions: each is divided as it would be alone */
    {"{\"results\":[{\"status\":\"succeeded\",\"output\":{\"hint\":\"x\"},\"display\":{\"title"
     "\":\"t\"}},{\"error\":\"e\",\"retry_after\":1},{\"status\":\"blocked\",\"error_code\":\"r"
     "eauth_required\",\"message\":\"m\",\"hint\":\"h\"}]}",
     "{\"results\":[{\"status\":\"succeeded\"},{\"error\":\"e\",\"retry_after\":1},{\"status\":"
     "\"blocked\",\"error_code\":\"reauth_required\",\"hint\":\"h\"}]}",
     "{\"results\":[{\"output\":{\"hint\":\"x\"},\"display\":{\"title\":\"t\"}},{},{\"message\""
     ":\"m\"}]}",
     "[\"/results/0/output\",\"/results/0/display\",\"/results/2/message\"]"},
    /* a refusal is sluice's own in its result only */
    {"{\"results\":[{\"status\":\"blocked\",\"error_code\":\"policy_blocked\",\"message\":\"m\""
     ",\"hint\":\"h\",\"display\":{\"title\":\"t\"},\"shows\":{\"id\":\"s\"}},{\"status\":\"fai"
     "led\",\"error_code\":\"policy_blocked\",\"message\":\"m\"}]}",
     "{\"results\":[{\"status\":\"blocked\",\"error_code\":\"policy_blocked\",\"message\":\"m\""
     ",\"hint\":\"h\",\"display\":{\"title\":\"t\"}},{\"status\":\"failed\",\"error_code\":\"po"
     "licy_blocked\"}]}",
     "{\"results\":[{\"shows\":{\"id\":\"s\"}},{\"message\":\"m\"}]}",
     "[\"/results/0/shows\",\"/results/1/message\"]"},
    {"{\"results\":[{\"error\":\"e\",\"connections\":[{\"id\":\"1\",\"label\":\"l\"}],\"coerced"
     "\":[\"/input/a\"]},{\"status\":\"succeeded\",\"execution_id\":\"2\",\"truncated\":true}]}",
     "{\"results\":[{\"error\":\"e\",\"connections\":[{\"id\":\"1\"}],\"coerced\":[\"/input/a\""
     "]},{\"status\":\"succeeded\",\"execution_id\":\"2\",\"truncated\":true}]}",
     "{\"results\":[{\"connections\":[{\"label\":\"l\"}]}]}",
     "[\"/results/0/connections/0/label\"]"},
    {"{\"results\":[{\"connection\":{\"id\":\"1\",\"label\":\"l\"},\"status\":\"succeeded\",\"o"
     "utput\":1}]}",
     "{\"results\":[{\"connection\":{\"id\":\"1\"},\"status\":\"succeeded\"}]}",
     "{\"results\":[{\"connection\":{\"label\":\"l\"},\"output\":1}]}",
     "[\"/results/0/connection/label\",\"/results/0/output\"]"},
    /* an app's own results */
    {"{\"status\":\"succeeded\",\"output\":{\"results\":[{\"status\":\"blocked\",\"error_code\""
     ":\"forbidden\",\"message\":\"m\"}]}}",
     "{\"status\":\"succeeded\"}",
     "{\"output\":{\"results\":[{\"status\":\"blocked\",\"error_code\":\"forbidden\",\"message"
     "\":\"m\"}]}}",
     "[\"/output\"]"},
    /* a summary has its place: no deeper object is one */
    {"{\"results\":[{\"error\":{\"status\":\"blocked\",\"error_code\":\"forbidden\",\"message\""
     ":\"m\"}},{\"results\":[{\"status\":\"blocked\",\"error_code\":\"forbidden\",\"message\":"
     "\"m\"}]}]}",
     "{\"results\":[{\"error\":{\"status\":\"blocked\",\"error_code\":\"forbidden\"}},{\"result"
     "s\":[{\"status\":\"blocked\",\"error_code\":\"forbidden\"}]}]}",
     "{\"results\":[{\"error\":{\"message\":\"m\"}},{\"results\":[{\"message\":\"m\"}]}]}",
     "[\"/results/0/error/message\",\"/results/1/results/0/message\"]"},
    {"{\"results\":[{\"error\":\"e\"},null,{}]}", "{\"results\":[{\"error\":\"e\"},null,{}]}", NULL,
     NULL},
};

static void expect(slice got, const char *wanted)
{
    if (wanted ? !slice_eq_cstr(got, wanted) : got.ptr != NULL)
        fail_msg("\"%.*s\", not \"%s\"", SLICE_ARG(got), wanted ? wanted : "nothing");
}

static void a_reply_is_divided(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct mcp_outside found;
        assert_true(mcp_outside_find(slice_cstr(rows[i].reply), *state, &found));
        expect(found.own, rows[i].own);
        expect(found.outside, rows[i].outside);
        expect(found.pointers, rows[i].pointers);
    }
}

static void the_lines_have_an_id_of_their_own(void **state)
{
    struct mcp_outside found = {.own = SLICE("{}")};
    expect(mcp_outside_text(&found, *state), "{}");
    expect(mcp_outside_object(&found, SLICE("{\"a\":1}"), *state), "{\"a\":1}");
    found.outside = SLICE("{\"output\":1}");
    found.pointers = SLICE("[\"/output\"]");
    slice first = mcp_outside_text(&found, *state), second = mcp_outside_text(&found, *state);
    assert_true(slice_starts_with(first, SLICE("{}\nBEGIN ")));
    assert_false(slice_eq(first, second));
    slice rest = slice_from(first, strlen("{}\nBEGIN ")), id = slice_split(&rest, '\n');
    assert_int_equal(id.len, 8);
    assert_true(slice_eq(rest, arena_printf(*state, "{\"output\":1}\nEND %.*s", SLICE_ARG(id))));
    expect(mcp_outside_object(&found, SLICE("{\"output\":1}"), *state),
           "{\"outside\":[\"/output\"],\"output\":1}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(a_reply_is_divided),
        ARENA_TEST(the_lines_have_an_id_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
