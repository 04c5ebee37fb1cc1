/*
 * Whether an execution may run: every reason to stop it before anything is claimed or sent, with
 * the message to its caller. Also that a request is built as its connection requires.
 */
#include <stdio.h>

#include "exec/machine.h"
#include "call/summary.h"
#include "seam/table.h"

enum { FIRST = 7, SECOND = 8, ROWS_MAX = 2 };

#define OAUTH                                                                                  \
    "{\"type\":\"oauth2\",\"authorize_url\":\"https://app.example/a\",\"token_url\":"          \
    "\"https://app.example/t\",\"scopes\":[\"mail.read\"],\"optional_scopes\":{\"mail.send\":" \
    "\"Send mail\"}}"
#define SEND ACTION("send", "write", POST, ",\"scopes\":[\"mail\",\"mail.send\"]")
#define LIST ACTION("list", "read", GET, ",\"scopes\":[\"mail.all\"]")
#define PATH ACTION("path", "read", "\"method\":\"GET\",\"path\":\"/get/${input.q}\"", "")
#define OVER ACTION("over", "read", GET, ",\"gone\":\"retired in March\"")

static const char mail[] =
    APP("mail", OAUTH, "", ACTION("get", "read", GET, "") "," SEND "," LIST "," PATH "," OVER);
static const char open_app[] = APP("open", NO_AUTH, "", ACTION("get", "read", GET, "") "," PATH);

static int set_up(void **state)
{
    const char *const manifests[] = {mail, open_app, NULL};
    *state = machine_new(manifests, (struct seam_tuning){0});
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

struct row {
    int64_t id; /* 0: there is none */
    bool is_default;
    const char *label, *credential, *error, *scopes; /* NULL: label, a token, none, unknown */
};

struct way {
    const char *name, *app, *action, *input;
    int64_t connection_id;
    struct row rows[ROWS_MAX];
    enum exec_reason reason;
    const char *message, *hint; /* substrings that they must contain */
};

#define A_TOKEN "{\"access_token\":\"t0\"}"

static const struct way ways[] = {
    {.name = "no such app",
     .app = "mial",
     .action = "get",
     .reason = EXEC_INTEGRATION_UNKNOWN,
     .message = "\"mail\"",
     .hint = "GET /api/integrations lists the integrations"},
    {.name = "no such app in the name of a tool",
     .app = "mial",
     .action = "mial_send",
     .reason = EXEC_INTEGRATION_UNKNOWN,
     .message = "mail_send",
     .hint = "GET /api/integrations"},
    {.name = "no such action",
     .app = "mail",
     .action = "sent",
     .reason = EXEC_ACTION_UNKNOWN,
     .message = "Nothing was done.",
     .hint = "GET /api/actions?integration_id=mail lists its actions."},
    {.name = "not connected",
     .app = "mail",
     .action = "get",
     .reason = EXEC_NOT_CONNECTED,
     .message = "The App is not connected to this account. Nothing was done.",
     .hint = "Connect the app in the dashboard"},
    {.name = "several, none of them the default",
     .app = "mail",
     .action = "get",
     .rows = {{FIRST, .label = "work"}, {SECOND, .label = "home"}},
     .reason = EXEC_CONNECTION_AMBIGUOUS,
     .message = "has several connections, and none of them is the default",
     .hint = "POST /api/tools/mail_get/execute with connectionId, one of 7, 8. "
             "GET /api/connections?integration_id=mail shows their labels."},
    {.name = "lost",
     .app = "mail",
     .action = "get",
     .rows = {{FIRST, .is_default = true, .error = "revoked by Ann"}},
     .reason = EXEC_REAUTH_REQUIRED,
     .message = "no longer works (revoked by Ann). Nothing was done.",
     .hint = "Reconnect the app, then send the same request again."},
    {.name = "the default is lost, and another one is live",
     .app = "mail",
     .action = "get",
     .rows = {{FIRST, .is_default = true, .error = "revoked"}, {SECOND, .label = "home"}},
     .reason = EXEC_REAUTH_REQUIRED,
     .message = "(revoked)",
     .hint = "POST /api/tools/mail_get/execute with connectionId, one of 8. "
             "GET /api/connections?integration_id=mail shows their labels."},
    {.name = "the named one is lost",
     .app = "mail",
     .action = "get",
     .connection_id = FIRST,
     .rows = {{FIRST, .is_default = true, .error = "revoked"}},
     .reason = EXEC_REAUTH_REQUIRED,
     .message = "(revoked)",
     .hint = "GET /api/connections?integration_id=mail lists them."},
    {.name = "the named one does not belong to the account",
     .app = "mail",
     .action = "get",
     .connection_id = 99,
     .rows = {{FIRST, .is_default = true}},
     .reason = EXEC_CONNECTION_UNKNOWN,
     .message = "There is no The App connection 99 in this account. Nothing was sent.",
     .hint = "GET /api/connections?integration_id=mail lists the connections that you can choose."},
    {.name = "one is named though none is needed",
     .app = "open",
     .action = "get",
     .connection_id = FIRST,
     .reason = EXEC_CONNECTION_UNKNOWN,
     .message = "The App needs no connection. Nothing was sent.",
     .hint = "Leave connectionId out."},
    {.name = "a credential that is not JSON",
     .app = "mail",
     .action = "get",
     .rows = {{FIRST, .is_default = true, .credential = "["}},
     .reason = EXEC_REAUTH_REQUIRED,
     .message = "(its stored credential cannot be read)"},
    {.name = "a credential without the member that is sent",
     .app = "mail",
     .action = "get",
     .rows = {{FIRST, .is_default = true, .credential = "{\"refresh_token\":\"r\"}"}},
     .reason = EXEC_REAUTH_REQUIRED,
     .message = "no longer works (the connection has no \"access_token\", which \"send\" in the "
                "app's manifest needs). Nothing was done."},
    {.name = "a credential that may not be sent",
     .app = "mail",
     .action = "get",
     .rows = {{FIRST, .is_default = true, .credential = "{\"access_token\":\"a\\nb\"}"}},
     .reason = EXEC_REAUTH_REQUIRED,
     .message = "(the stored credential has characters that may not be sent)"},
    {.name = "a permission that a person has to tick",
     .app = "mail",
     .action = "send",
     .rows = {{FIRST, .is_default = true, .scopes = "mail.read"}},
     .reason = EXEC_SCOPE_MISSING,
     .message = "lacks the permission that this action needs (mail or mail.send)",
     .hint = "tick \"Send mail\" there"},
    {.name = "a permission that is requested in any case",
     .app = "mail",
     .action = "list",
     .rows = {{FIRST, .is_default = true, .scopes = "mail.read mail.send"}},
     .reason = EXEC_SCOPE_MISSING,
     .message = "(mail.all)",
     .hint = "Reconnect the app and grant the permission"},
    {.name = "an operation that was retired",
     .app = "mail",
     .action = "over",
     .rows = {{FIRST, .is_default = true}},
     .reason = EXEC_OPERATION_GONE,
     .message = "The App no longer offers \"over\": retired in March. Nothing was done.",
     .hint = "Do not send it again. GET /api/actions?integration_id=mail"},
    {.name = "an input that makes no request",
     .app = "open",
     .action = "path",
     .input = "{\"q\":\"..\"}",
     .reason = EXEC_INPUT_INVALID,
     .message = "The request cannot be made from this input: ",
     .hint = "GET /api/actions/open/path shows what the action takes."},
};

static void connect_rows(struct machine *m, const struct row *rows)
{
    for (size_t i = 0; i < ROWS_MAX && rows[i].id; i++) {
        struct connection *row = machine_connect(m, "mail", "oauth2", rows[i].id,
                                                 rows[i].credential ? rows[i].credential : A_TOKEN);
        row->is_default = rows[i].is_default;
        if (rows[i].label)
            row->label = slice_cstr(rows[i].label);
        if (rows[i].error)
            row->error = slice_cstr(rows[i].error);
        if (rows[i].scopes)
            row->scopes = slice_cstr(rows[i].scopes);
    }
}

static void disconnect(struct machine *m)
{
    m->store.connections.count = 0;
    connect_forget_all(m->node.connect);
}

static void begin(struct machine *m, const struct way *way)
{
    machine_want(m, way->app, way->action, way->input ? way->input : "{}");
    m->run.exec.connection_id = way->connection_id;
    m->run.exec.by.address = SLICE("192.0.2.1");
    seam_run_start(&m->run);
    seam_settle(m->node.loop);
}

/* Runs until only the event has not been answered. */
static void answer_lookup(struct machine *m)
{
    static const char *const names[] = {"connection_choice", "connection_get"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        while (seam_query_named(m->node.pool, names[i]))
            machine_answer(m, names[i]);
}

static bool has(slice text, const char *part)
{
    return !part || slice_find(text, slice_cstr(part)) >= 0;
}

static bool expect(const struct way *way, const char *what, bool holds, slice is)
{
    if (!holds)
        print_error("%s: %s: %.*s\n", way->name, what, (int)is.len, is.ptr ? is.ptr : "");
    return holds;
}

/* Checks that the run has one event, with its reason, the app and the action. */
static bool expect_event(struct machine *m, const struct way *way)
{
    struct pg_query *event = machine_query(m, "audit_insert");
    char details[200];
    (void)snprintf(details, sizeof(details), "{\"integration_id\":\"%s\",\"action_id\":\"%s\"}",
                   way->app, strncmp(way->action, "mial_", 5) == 0 ? way->action + 5 : way->action);
    bool is_ok = expect(way, "the event",
                        pg_value_is(seam_param(event, "kind"), "execution.blocked") &&
                            pg_value_is(seam_param(event, "reason"), exec_reason_name(way->reason)),
                        seam_text(event, "reason"));
    is_ok &= expect(way, "its details", pg_value_is(seam_param(event, "details"), details),
                    seam_text(event, "details"));
    is_ok &= pg_value_is(seam_param(event, "actor"), "key:test") &&
             pg_value_is(seam_param(event, "address"), "192.0.2.1");
    return is_ok;
}

static void what_may_not_run_says_why(void **state)
{
    struct machine *m = *state;
    bool is_ok = true;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        const struct way *way = &ways[i];
        connect_rows(m, way->rows);
        begin(m, way);
        answer_lookup(m);
        machine_assert_no_call(m);
        assert_true(seam_run_has_ended(&m->run));
        is_ok &= expect_event(m, way);
        (void)machine_end_of(m, &m->run);
        const struct exec_outcome *out = &m->run.out;
        is_ok &= expect(way, "the reason", out->reason == way->reason,
                        slice_cstr(exec_reason_name(out->reason)));
        is_ok &= expect(way, "the message", has(out->message, way->message), out->message);
        is_ok &= expect(way, "the hint", has(out->hint, way->hint), out->hint);
        is_ok &= expect(way, "nothing was called", out->attempts == 0, SLICE_NONE);
        (void)machine_end(m);
        disconnect(m);
    }
    assert_true(is_ok);
    assert_int_equal(m->store.executions.count, 0);
    assert_int_equal(m->store.claims.count, 0);
}

/* The same checks for a step of a flow. The step is its own record, so there is no event. */
static void a_caller_that_records_by_itself_has_no_event(void **state)
{
    struct machine *m = *state;
    struct exec_proof proof = {.flow_id = uuid_v7(), .owner = node_id(m->node.node), .rev = 1};
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        connect_rows(m, ways[i].rows);
        machine_want(m, ways[i].app, ways[i].action, ways[i].input ? ways[i].input : "{}");
        m->run.exec.connection_id = ways[i].connection_id;
        m->run.exec.is_recorded_by_caller = true;
        m->run.exec.proof = &proof;
        seam_run_start(&m->run);
        seam_settle(m->node.loop);
        answer_lookup(m);
        assert_null(seam_query_named(m->node.pool, "audit_insert"));
        assert_int_equal(machine_end(m), ways[i].reason);
        disconnect(m);
    }
    assert_int_equal(m->store.audit_count, 0);
}

/* The database cannot say which connections exist, so nothing was decided, and there is no
 * event. */
static void a_lookup_that_fails(void **state)
{
    struct machine *m = *state;
    static const int statuses[] = {ERR_BUSY, ERR_TIMEOUT, ERR_IO};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        machine_begin(m, "mail", "get", "{}");
        machine_fail(m, "connection_choice", statuses[i]);
        machine_assert_no_call(m);
        assert_null(seam_query_named(m->node.pool, "audit_insert"));
        (void)machine_end_of(m, &m->run);
        assert_slice_has(m->run.out.message, "The database cannot be reached");
        assert_int_equal(machine_end(m), EXEC_UNAVAILABLE);
    }
}

static void it_may_be_cancelled_at_the_lookup(void **state)
{
    struct machine *m = *state;
    connect_rows(m, (struct row[ROWS_MAX]){{FIRST, .is_default = true}});
    machine_begin(m, "mail", "get", "{}");
    (void)machine_query(m, "connection_choice");
    seam_run_cancel(&m->run);
    seam_settle(m->node.loop);
    assert_int_equal(machine_end(m), EXEC_CANCELLED);
    machine_assert_no_call(m);
}

/* The choice among several connections: the default, or the named one. If the scopes of the
 * grant are unknown, the app decides. */
static void the_chosen_one_s_credential_is_sent(void **state)
{
    struct machine *m = *state;
    static const struct {
        int64_t id;
        const char *action, *sent;
    } cases[] = {
        {0, "get",
         "GET https://app.example/get\nAccept: application/json\nAuthorization: Bearer "
         "second\n\n"},
        {FIRST, "get",
         "GET https://app.example/get\nAccept: application/json\nAuthorization: Bearer first\n\n"},
        {SECOND, "list",
         "GET https://app.example/get\nAccept: application/json\nAuthorization: Bearer second\n\n"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        machine_connect(m, "mail", "oauth2", FIRST, "{\"access_token\":\"first\"}")->is_default =
            false;
        machine_connect(m, "mail", "oauth2", SECOND, "{\"access_token\":\"second\"}");
        machine_want(m, "mail", cases[i].action, "{}");
        m->run.exec.connection_id = cases[i].id;
        seam_run_start(&m->run);
        seam_settle(m->node.loop);
        answer_lookup(m);
        machine_assert_sent(m, cases[i].sent);
        machine_reply(m, 200, "{}");
        struct pg_query *record = machine_query(m, "execution_insert");
        assert_int_equal(seam_i64(record, "connection_id"), cases[i].id ? cases[i].id : SECOND);
        assert_int_equal(machine_end(m), EXEC_SUCCEEDED);
        disconnect(m);
    }
}

/* ---- without memory ---- */

static uint64_t fail_allocation(struct machine *m, const struct way *way, uint64_t n)
{
    connect_rows(m, way->rows);
    begin(m, way);
    struct pg_query *query = seam_query_named(m->node.pool, "connection_choice");
    if (!query)
        query = seam_query_named(m->node.pool, "connection_get");
    if (query)
        seam_rows_answer(&m->store, query);
    mem_fail_at(n, 1);
    seam_settle(m->node.loop);
    uint64_t hits = mem_fail_hits();
    mem_fail_at(0, 0);
    machine_assert_no_call(m);
    enum exec_reason reason = machine_end(m);
    if (reason != way->reason && reason != EXEC_UNAVAILABLE)
        fail_msg("%s: %s at allocation %zu", way->name, exec_reason_name(reason), (size_t)n);
    disconnect(m);
    return hits;
}

static void each_allocation_may_fail(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        for (uint64_t n = 1; fail_allocation(*state, &ways[i], n) > 0; n++)
            continue;
}

#define GATE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        GATE_TEST(what_may_not_run_says_why),
        GATE_TEST(a_caller_that_records_by_itself_has_no_event),
        GATE_TEST(a_lookup_that_fails),
        GATE_TEST(it_may_be_cancelled_at_the_lookup),
        GATE_TEST(the_chosen_one_s_credential_is_sent),
        GATE_TEST(each_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("exec/gate", tests, NULL, NULL);
}
