/*
 * `sluice flow`: checking and showing templates, and explaining why a flow does not move. Runs the
 * real program.
 */
#include "unit/support/folder.h"

#include "base/id.h"
#include "integration/support/program.h"
#include "pg/sync.h"
#include "unit/support/pg_cluster.h"

static const char *database_url;
static struct folder folder;
static struct program last;
static char flow_text[UUID_TEXT_LEN + 1];

#define RUN(code, ...) run_args((code), (const char *const[]){__VA_ARGS__, NULL})

static void run_args(int code, const char *const *args)
{
    program_free(&last);
    program_start(&last, program_sluice(), args, NULL, 0);
    program_wait(&last);
    if (last.status != code)
        fail_msg("sluice %s %s: exit %d\n%s%s", args[0], args[1], last.status, last.out, last.err);
}

#define assert_out(part) assert_contains(last.out, part)
#define assert_err(part) assert_contains(last.err, part)

static void tell(const char *sql)
{
    struct err err = {.text = ""};
    struct pg_sync *sync = pg_sync_open(database_url, &err);
    if (!sync || pg_sync_run(sync, sql, &err) != OK)
        fail_msg("%s: %s", sql, err.text);
    pg_sync_close(sync);
}

static void templates_are_shown(void **state)
{
    (void)state;
    RUN(0, "flow", "list");
    assert_out("unread_mail_to_tasks");
    RUN(0, "flow", "list", "--json");
    assert_out("[{\"key\":\"mail_with_reminder\",\"name\":");
    RUN(0, "flow", "show", "unread_mail_to_tasks");
    assert_out("taskParent (any; required)");
    assert_out("notion_create_page, confirmed by approve_tasks");
    RUN(0, "flow", "show", "unread_mail_to_tasks", "--json");
    assert_out("{\"description\":");
    RUN(1, "flow", "show", "unread_mail_to_task");
    assert_err("did you mean unread_mail_to_tasks?");
    RUN(2, "flow", "show");
}

static void lint_names_file_and_place(void **state)
{
    char path[TEST_PATH_MAX], root[TEST_PATH_MAX];
    (void)state;
    folder_write(&folder, "good.json",
                 "{\"key\":\"good\",\"name\":\"Good\",\"description\":\"Fine.\",\"steps\":["
                 "{\"key\":\"one\",\"type\":\"transform\",\"expr\":\"flow.id\"}]}",
                 0600);
    RUN(0, "flow", "lint", folder_path(&folder, "good.json", path));
    assert_out("1 templates, 0 warnings: fine");
    folder_write(&folder, "bad.json",
                 "{\"key\":\"bad\",\"name\":\"Bad\",\"description\":\"Writes.\",\"steps\":["
                 "{\"key\":\"one\",\"type\":\"tool_call\",\"tool\":\"notion_create_page\","
                 "\"input\":{\"titel\":\"x\",\"parent\":\"${steps.two}\"}}]}",
                 0600);
    RUN(1, "flow", "lint", folder_path(&folder, ".", root));
    assert_out("bad.json /steps/0: notion_create_page writes: \"confirmed_by\" must name");
    assert_out("bad.json /steps/0/input: notion_create_page has no input \"titel\"");
    assert_out("bad.json /steps/0/input/parent: there is no step \"two\"");
    assert_err("4 errors and 0 warnings in 2 files");
    RUN(1, "flow", "lint", "/no/such/file.json");
    assert_out("/no/such/file.json: cannot be opened");
}

/* Replaces the flows with one flow. members: the values of the remaining columns. */
static void put_flow(const char *members)
{
    char sql[2048];
    (void)snprintf(sql, sizeof(sql),
                   "delete from sluice.flow; insert into sluice.flow (account_id, id, template_key,"
                   " template_version, trigger_type, rev, op_token, step_index, attempt, is_begun, "
                   "adoptions, created_at, updated_at, status, owner, waiting_for, wake_at) select "
                   "account_id, '%s', 'demo', '00000000-0000-0000-0000-000000000001', 'manual', 1, "
                   "gen_random_uuid(), 1, 1, true, 0, now(), now() - interval '5 minutes', %s "
                   "from sluice.account",
                   flow_text, members);
    tell(sql);
}

static void a_flow_is_explained(void **state)
{
    (void)state;
    RUN(0, "migrate");
    RUN(0, "accounts", "create", "Acme");
    tell("insert into sluice.flow_template values ('00000000-0000-0000-0000-000000000001', 'demo', "
         "'{\"key\":\"demo\",\"name\":\"D\",\"description\":\"d\",\"steps\":["
         "{\"key\":\"ask\",\"type\":\"approval\",\"title\":\"t\",\"summary\":\"s\"},"
         "{\"key\":\"nap\",\"type\":\"wait\",\"for\":9}]}', now())");
    tell("insert into sluice.node (node_id, name, started_at, lease_until) values "
         "('00000000-0000-0000-0000-00000000000a', 'alive:1', now(), now() + interval '1 hour'), "
         "('00000000-0000-0000-0000-00000000000d', 'dead:2', now(), now() - interval '1 hour')");
    RUN(1, "flow", "explain", flow_text);
    assert_err("there is no flow with that id");
    RUN(1, "flow", "explain", "nonsense");
    assert_err("\"nonsense\" is not a flow id");
    put_flow("'waiting', null, 'approval', null");
    RUN(0, "flow", "explain", flow_text);
    assert_out("account   Acme");
    assert_out("step      nap, attempt 1");
    assert_out("has waited 5 min for a person");
    put_flow("'waiting', null, 'time', now() + interval '3 hours'");
    RUN(0, "flow", "explain", flow_text);
    assert_out("next due");
    assert_out("It waits until");
    put_flow("'waiting', null, 'time', now() - interval '1 hour'");
    RUN(0, "flow", "explain", flow_text);
    assert_out("should wake it within seconds");
    put_flow("'running', '00000000-0000-0000-0000-00000000000a', null, null");
    RUN(0, "flow", "explain", flow_text);
    assert_out("alive:1 owns it.");
    put_flow("'running', '00000000-0000-0000-0000-00000000000d', null, null");
    RUN(0, "flow", "explain", flow_text, "--json");
    assert_out("\"owner\":\"dead:2\"");
    assert_out("should take it over within seconds");
    put_flow("'failed', null, null, null");
    tell("insert into sluice.flow_step select account_id, id, 1, 1, 'failed', now(), now(), null, "
         "null, '{\"code\":\"forbidden\",\"message\":\"No scope.\",\"hint\":\"Reconnect.\"}' "
         "from sluice.flow");
    RUN(0, "flow", "explain", flow_text);
    assert_out("error     forbidden: No scope.");
    assert_out("hint      Reconnect.");
    assert_out("\"nap\" has failed");
}

static int setup(void **state)
{
    (void)state;
    last = (struct program){.out_fd = -1, .err_fd = -1};
    folder_make(&folder);
    database_url = pg_cluster_database(false);
    setenv("SLUICE_DATABASE_URL", database_url, 1);
    uuid_format(uuid_v7(), flow_text);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    program_free(&last);
    folder_remove(&folder);
    return unit_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_are_shown),
        cmocka_unit_test(lint_names_file_and_place),
        cmocka_unit_test(a_flow_is_explained),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
