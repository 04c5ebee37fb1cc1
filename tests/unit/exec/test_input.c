/*
 * Which inputs are kept, and with which statement: those of writes, and of runs that failed or were
 * blocked. A run that reads and succeeds, and any run without the setting, sends the statement
 * without an input.
 */
#include "exec/machine.h"
#include "seam/rows.h"
#include "call/kept_input.h"
#include "exec/internal.h"

#define SECRET                                                                                    \
    "{\"action_id\":\"login\",\"title\":\"login\",\"description\":\"d\",\"side_effect_level\":"   \
    "\"write\",\"input_schema\":{\"type\":\"object\",\"properties\":{\"p\":{\"type\":\"string\"," \
    "\"description\":\"P.\",\"writeOnly\":true,\"pattern\":\"^x\"},\"q\":{\"type\":\"string\","   \
    "\"description\":\"Q.\",\"pattern\":\"^x\"}}},\"request\":{" POST "},\"display\":{\"title\":" \
    "\"T\",\"summary\":\"s\"}}"
static const char app[] =
    APP("open", NO_AUTH, "",
        ACTION("get", "read", GET, "") "," ACTION("put", "write", POST, "") "," SECRET);

static int open_with(void **state, unsigned input_days)
{
    const char *const manifests[] = {app, NULL};
    *state = machine_new(manifests, (struct seam_tuning){.input_days = input_days});
    return 0;
}

static int set_up(void **state)
{
    return open_with(state, 7);
}

static int set_up_without(void **state)
{
    return open_with(state, 0);
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

/* Asserts that the row has the input of the run with that id. */
static void assert_kept(struct machine *m, struct uuid id, const struct execution_input *row)
{
    struct arena arena;
    struct kept_input got;
    struct err err;
    arena_init(&arena, 1 << 20);
    assert_int_equal(kept_input_open(m->ring, seam_account, id, row, &arena, &got, &err), OK);
    assert_true(slice_eq_cstr(json_get_str(got.input, SLICE("q")), "marker"));
    int64_t day_us = INT64_C(86400) * 1000000, left = row->expires_at - seam_store_now();
    assert_true(left > 7 * day_us - 60 * INT64_C(1000000) && left <= 7 * day_us);
    arena_deinit(&arena);
}

static void run_to_call(struct machine *m, const char *action, bool is_write)
{
    machine_begin(m, "open", action, "{\"q\":\"marker\"}");
    if (is_write)
        machine_answer(m, "claim_own");
}

static void a_write(void **state)
{
    struct machine *m = *state;
    const unsigned replies[] = {200, 404, 500};
    for (size_t i = 0; i < ARRAY_LEN(replies); i++) {
        run_to_call(m, "put", true);
        machine_reply(m, replies[i], "{}");
        machine_answer(m, replies[i] == 500 ? "execution_finish_release_event"
                                            : "execution_finish_release_input");
        (void)machine_end(m);
        const struct execution *row = &m->store.executions.items[i];
        assert_kept(m, row->id, &row->input);
    }
}

static void a_read(void **state)
{
    struct machine *m = *state;
    run_to_call(m, "get", false);
    machine_reply(m, 200, "{}");
    machine_answer(m, "execution_insert");
    assert_int_equal(machine_end(m), EXEC_SUCCEEDED);
    run_to_call(m, "get", false);
    machine_reply(m, 404, "{}");
    machine_answer(m, "execution_insert_input");
    (void)machine_end(m);
    const struct execution *row = &m->store.executions.items[1];
    assert_kept(m, row->id, &row->input);
}

static void a_blocked_run(void **state)
{
    struct machine *m = *state;
    machine_want(m, "open", "put", "{\"q\":\"marker\"}");
    m->run.exec.is_confirmed = false;
    seam_run_start(&m->run);
    seam_settle(m->node.loop);
    struct pg_query *event = machine_query(m, "audit_insert_input");
    const struct execution_input row = {.sealed = seam_text(event, "sealed"),
                                        .key_id = seam_text(event, "key_id"),
                                        .expires_at = seam_time(event, "expires_at")};
    assert_true(seam_text(event, "own").len > PG_OIDS_BYTES(1));
    assert_kept(m, seam_uuid(event, "id"), &row);
    assert_true(m->node.exec->blocked_input_bytes == row.sealed.len);
    machine_answer(m, "audit_insert_input");
    assert_int_equal(machine_end(m), EXEC_CONFIRMATION_MISSING);
    assert_true(m->node.exec->blocked_input_bytes == 0);
}

/* What the schema marks writeOnly is in no message, since messages are stored in clear. */
static void a_message_has_no_secret(void **state)
{
    struct machine *m = *state;
    machine_begin(m, "open", "login", "{\"p\":\"hunter2\",\"q\":\"marker\"}");
    machine_answer(m, "audit_insert_input");
    (void)machine_end_of(m, &m->run);
    assert_slice_has(m->run.out.message, "/input/p: is not valid");
    assert_slice_has(m->run.out.message, "marker");
    assert_true(slice_find(m->run.out.message, SLICE("hunter2")) < 0);
    assert_true(slice_find(m->run.out.hint, SLICE("hunter2")) < 0);
    assert_int_equal(machine_end(m), EXEC_INPUT_INVALID);
}

/* Inputs of blocked runs that wait for the database have a limit. Beyond it, the event is stored
 * without. */
static void a_blocked_run_without_room(void **state)
{
    struct machine *m = *state;
    m->node.exec->blocked_input_bytes = (size_t)16 << 20;
    machine_want(m, "open", "put", "{\"q\":\"marker\"}");
    m->run.exec.is_confirmed = false;
    seam_run_start(&m->run);
    seam_settle(m->node.loop);
    machine_answer(m, "audit_insert");
    assert_int_equal(machine_end(m), EXEC_CONFIRMATION_MISSING);
    m->node.exec->blocked_input_bytes = 0;
}

/* Without the setting nothing is sealed. */
static void none_without_the_setting(void **state)
{
    struct machine *m = *state;
    run_to_call(m, "put", true);
    machine_reply(m, 500, "{}");
    machine_answer(m, "execution_finish_release_event");
    (void)machine_end(m);
    machine_want(m, "open", "put", "{}");
    m->run.exec.is_confirmed = false;
    seam_run_start(&m->run);
    seam_settle(m->node.loop);
    machine_answer(m, "audit_insert");
    (void)machine_end(m);
}

#define INPUT_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        INPUT_TEST(a_write),
        INPUT_TEST(a_read),
        INPUT_TEST(a_blocked_run),
        INPUT_TEST(a_message_has_no_secret),
        INPUT_TEST(a_blocked_run_without_room),
        cmocka_unit_test_setup_teardown(none_without_the_setting, set_up_without, tear_down),
    };
    return cmocka_run_group_tests_name("exec/input", tests, NULL, NULL);
}
