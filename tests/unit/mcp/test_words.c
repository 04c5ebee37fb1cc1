/* mcp/words: texts of sluice about its routes, reworded for a client that has tools. */
#include "api/request.h"
#include "mcp/words.h"
#include "unit.h"

static void expect(struct arena *arena, const char *said, const char *wanted)
{
    slice got = mcp_words_say(slice_cstr(said), MCP_OF_ACCOUNT, arena);
    if (!slice_eq_cstr(got, wanted))
        fail_msg("\"%.*s\", not \"%s\"", SLICE_ARG(got), wanted);
}

static void a_route_becomes_its_tool(void **state)
{
    expect(*state, "GET /api/actions/slack/post_message shows what it takes.",
           "describe_action shows what it takes.");
    expect(*state, "See GET /api/actions?integration_id=slack.", "See search_actions.");
    expect(*state,
           "GET /api/search?query= finds one; POST /api/tools/a_b/execute with "
           "connectionId, one of 5.",
           "search_actions finds one; run_action with connection_id, one of 5.");
    expect(*state, "\"GET /api/executions/0199\"", "\"read_result with execution_id 0199\"");
    expect(*state, "GET /api/flows/templates lists them",
           "describe_action with the template * "
           "lists them");
    expect(*state, "GET /api/flows/{id} has it", "get_flow has it");
    expect(*state, "GET /api/executions lists them", "history lists them");
    expect(*state, "POST /api/flows/x/cancel stops it", "cancel_flow stops it");
    expect(*state, "GET /api/audit?kind=execution.blocked lists them", "the dashboard lists them");
    expect(*state, "POST /api/flows/x/resume.", "the dashboard.");
    /* not a route of ours, or not a whole word */
    expect(*state, "GET /v1/api/x", "GET /v1/api/x");
    expect(*state, "FORGET /api/flows/x", "FORGET /api/flows/x");
    expect(*state, "myconnectionId GET /api/flows/1", "myconnectionId get_flow");
    expect(*state, "", "");
}

/* Checks every route, so that a new route cannot be forgotten. */
static void no_route_is_left(void **state)
{
    size_t count;
    const struct http_route *routes = api_routes(&count);
    for (size_t i = 0; i < count; i++) {
        slice method = http_method_text(routes[i].method);
        slice said =
            arena_printf(*state, "Try %.*s %s: it helps.", SLICE_ARG(method), routes[i].pattern);
        slice got = mcp_words_say(said, MCP_OF_ACCOUNT, *state);
        if (slice_find(said, SLICE(" /api/")) >= 0 && slice_find(got, SLICE("/api/")) >= 0)
            fail_msg("%.*s", SLICE_ARG(got));
    }
}

static void only_our_words_change(void **state)
{
    slice text =
        SLICE("{\"status\":\"failed\",\"hint\":\"GET /api/search\",\"output\":{\"hint\":"
              "\"GET /api/search\"},\"flow\":{\"input\":{\"message\":\"GET /api/search\"},"
              "\"steps\":[{\"error\":{\"message\":\"GET /api/search\",\"n\":[1]}},{\"output\":"
              "\"GET /api/search\"}]},\"error\":\"GET /api/search\"}");
    slice wanted =
        SLICE("{\"status\":\"failed\",\"hint\":\"search_actions\",\"output\":{\"hint\":"
              "\"GET /api/search\"},\"flow\":{\"input\":{\"message\":\"GET /api/search\"},"
              "\"steps\":[{\"error\":{\"message\":\"search_actions\",\"n\":[1]}},{\"output\":"
              "\"GET /api/search\"}]},\"error\":\"search_actions\"}");
    slice got = mcp_words_say_json(text, MCP_OF_ACCOUNT, *state);
    if (!slice_eq(got, wanted))
        fail_msg("%.*s", SLICE_ARG(got));
    slice plain = SLICE("{\"hint\":\"Wait.\"}");
    assert_ptr_equal(mcp_words_say_json(plain, MCP_OF_ACCOUNT, *state).ptr, plain.ptr);
}

static void a_message_is_said_once(void **state)
{
    static const char *const rows[][2] = {
        {"{\"message\":\"No: GET /api/search\",\"display\":{\"title\":\"T\",\"summary\":\"No: GET "
         "/api/search\"},\"hint\":\"x\"}",
         "{\"message\":\"No: search_actions\",\"display\":{\"title\":\"T\"},\"hint\":\"x\"}"},
        {"{\"display\":{\"title\":\"T\",\"summary\":\"\\\"}\"},\"message\":\"\\\"}\"}",
         "{\"display\":{\"title\":\"T\"},\"message\":\"\\\"}\"}"},
        /* no message, and a message that differs from the summary */
        {"{\"message\":null,\"display\":{\"title\":\"T\",\"summary\":\"S\"}}", NULL},
        {"{\"message\":\"M\",\"display\":{\"title\":\"T\",\"summary\":\"S\"}}", NULL},
        {"{\"message\":\"M\",\"output\":{\"display\":{\"title\":\"T\",\"summary\":\"M\"}}}", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        slice got = mcp_words_say_json(slice_cstr(rows[i][0]), MCP_OF_ACCOUNT, *state);
        if (!slice_eq_cstr(got, rows[i][1] ? rows[i][1] : rows[i][0]))
            fail_msg("%.*s", SLICE_ARG(got));
    }
}

/* The dashboard does not show the rows of a user: its agent gets the route, and the tools as ever.
 */
static void an_agent_of_a_user_gets_no_dashboard(void **state)
{
    static const char *const rows[][2] = {
        {"POST /api/flows/x/resume continues it.",
         "POST /api/flows/x/resume (with Sluice-User) continues it."},
        {"GET /api/flows/x?wait=1 or POST /api/flows/x/approve.",
         "get_flow or POST /api/flows/x/approve (with Sluice-User)."},
        {"POST /api/connect/sessions makes a link.", "connect_app makes a link."},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        slice got = mcp_words_say(slice_cstr(rows[i][0]), MCP_OF_USER, *state);
        if (!slice_eq_cstr(got, rows[i][1]))
            fail_msg("%.*s", SLICE_ARG(got));
    }
    size_t count;
    const struct http_route *routes = api_routes(&count);
    for (size_t i = 0; i < count; i++) {
        slice said = arena_printf(*state, "{\"hint\":\"%.*s %s\"}",
                                  SLICE_ARG(http_method_text(routes[i].method)), routes[i].pattern);
        assert_true(slice_find(mcp_words_say_json(said, MCP_OF_USER, *state), SLICE("dashboard")) <
                    0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(a_route_becomes_its_tool),
        ARENA_TEST(no_route_is_left),
        ARENA_TEST(only_our_words_change),
        ARENA_TEST(a_message_is_said_once),
        ARENA_TEST(an_agent_of_a_user_gets_no_dashboard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
