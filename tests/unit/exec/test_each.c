/*
 * Lists whose items are read in addition (exec/each.c): how many reads run at a time, what their
 * results and failures add to the list, and what a cancel ends.
 */
#include <stdio.h>

#include "exec/machine.h"
#include "seam/table.h"

enum { AT_ONCE = 10, MAX = 12, CONNECTION = 7, IN_FLIGHT = 2 };

#define SCHEMA(members) ",\"output_schema\":{\"type\":\"object\",\"properties\":{" members "}}"
#define KIND            ",\"response\":{\"kind\":\"object\"}"
#define EACH                                                                                     \
    ",\"each\":{\"when\":\"input.q\",\"items\":\"rows\",\"action\":\"one\",\"input\":{\"q\":\"$" \
    "{item.id}\"},\"output\":\"{name: name}\",\"max\":12}"

#define ACTIONS                                                     \
    ACTION("list", "read", "\"method\":\"GET\",\"path\":\"/list\"", \
           SCHEMA("\"rows\":{\"type\":\"array\"}") KIND EACH)       \
    "," ACTION("one", "read", GET, SCHEMA("\"name\":{}") KIND)

static const char app[] = APP("app", NO_AUTH, "", ACTIONS);
static const char narrow[] = APP("narrow", BEARER, ",\"limits\":{\"in_flight_max\":2}", ACTIONS);

static int set_up(void **state)
{
    const char *const manifests[] = {app, narrow, NULL};
    struct machine *m = machine_new(manifests, (struct seam_tuning){0});
    (void)machine_connect(m, "narrow", "bearer", CONNECTION, "{\"token\":\"t\"}");
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

/* The texts of the run are no longer needed. */
static void let_go(struct machine *m)
{
    seam_run_end(&m->run);
    seam_settle(m->node.loop);
}

/* The list of so many rows, which have only ids. */
static const char *rows(unsigned count)
{
    static char text[1024];
    size_t len = (size_t)snprintf(text, sizeof(text), "{\"rows\":[");
    for (unsigned i = 0; i < count; i++)
        len +=
            (size_t)snprintf(text + len, sizeof(text) - len, "%s{\"id\":\"i%u\"}", i ? "," : "", i);
    (void)snprintf(text + len, sizeof(text) - len, "],\"next\":\"n\"}");
    return text;
}

static void items_are_read_some_at_a_time(void **state)
{
    struct machine *m = *state;
    machine_begin(m, "app", "list", "{\"q\":\"x\"}");
    machine_reply(m, 200, rows(MAX + 1));
    for (unsigned i = 0; i < MAX; i++) {
        assert_int_equal(seam_call_count(m->node.http), i < AT_ONCE ? AT_ONCE - i : MAX - i);
        if (i == 0)
            assert_slice_equal(machine_call(m)->url, "https://app.example/get?q=i0");
        machine_reply(m, i == 1 ? 404 : 200, "{\"name\":\"n\",\"other\":1}");
    }
    assert_int_equal(machine_end_of(m, &m->run), EXEC_SUCCEEDED);
    slice output = m->run.out.output_json;
    assert_slice_has(output, "{\"rows\":[{\"id\":\"i0\",\"name\":\"n\"},"
                             "{\"id\":\"i1\",\"not_read\":\"The App found nothing there");
    assert_slice_has(output, "{\"id\":\"i11\",\"name\":\"n\"},"
                             "{\"id\":\"i12\",\"not_read\":\"Only the first 12 are read.\"}],"
                             "\"next\":\"n\"}");
    assert_int_equal(m->store.executions.count, 1); /* the reads of items leave no record */
    assert_slice_has(m->store.executions.items[0].summary, "\"i11\"");
    let_go(m);
}

static void nothing_is_read_unless_it_is_wanted(void **state)
{
    struct machine *m = *state;
    machine_begin(m, "app", "list", "{}");
    machine_reply(m, 200, rows(2));
    machine_assert_no_call(m);
    assert_int_equal(machine_end_of(m, &m->run), EXEC_SUCCEEDED);
    assert_slice_equal(m->run.out.output_json,
                       "{\"rows\":[{\"id\":\"i0\"},{\"id\":\"i1\"}],\"next\":\"n\"}");
    let_go(m);
}

static void an_output_without_the_list_stays_as_it_is(void **state)
{
    static const char *const bodies[] = {"{\"rows\":[]}", "{\"rows\":7}", "{\"rows\":[1]}",
                                         "{\"rows\":[{\"id\":\"i0\"},null]}", "{}"};
    struct machine *m = *state;
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        machine_begin(m, "app", "list", "{\"q\":\"x\"}");
        machine_reply(m, 200, bodies[i]);
        machine_assert_no_call(m);
        assert_int_equal(machine_end_of(m, &m->run), EXEC_SUCCEEDED);
        assert_slice_equal(m->run.out.output_json, bodies[i]);
        let_go(m);
    }
}

/* A reply that is larger than what is read on the loop. */
static void large_items_are_added_on_a_thread(void **state)
{
    enum { NAME = 80 * 1024 };
    struct machine *m = *state;
    char *body = mem_zalloc(NAME + 64);
    size_t len = (size_t)snprintf(body, 64, "{\"name\":\"");
    memset(body + len, 'x', NAME);
    (void)snprintf(body + len + NAME, 8, "\"}");
    machine_begin(m, "app", "list", "{\"q\":\"x\"}");
    machine_reply(m, 200, rows(2));
    machine_reply(m, 200, body);
    machine_reply(m, 200, "{\"name\":\"n\"}");
    assert_int_equal(machine_end_of(m, &m->run), EXEC_SUCCEEDED);
    assert_true(m->run.out.output_json.len > NAME);
    assert_slice_has(m->run.out.output_json, "x\"},{\"id\":\"i1\",\"name\":\"n\"}]");
    let_go(m);
    mem_free(body);
}

/* Whether each of the two rows has what was read of it, or says why not. */
static bool is_whole(slice output)
{
    size_t found = 0;
    for (ptrdiff_t at; (at = slice_find(output, SLICE("{\"id\":\"i"))) >= 0; found++) {
        output = slice_from(output, (size_t)at + 1);
        ptrdiff_t end = slice_find_char(output, '}');
        slice row = slice_first(output, end < 0 ? output.len : (size_t)end);
        if (slice_find(row, SLICE("\"name\"")) < 0 && slice_find(row, SLICE("not_read")) < 0)
            return false;
    }
    return found == 2;
}

/* Each allocation in turn fails while the last item is added: no list looks whole that is not. */
static void items_without_memory(void **state)
{
    struct machine *m = *state;
    unsigned failed = 0;
    for (uint64_t n = 1, hits = 1; hits > 0; n++) {
        machine_begin(m, "app", "list", "{\"q\":\"x\"}");
        machine_reply(m, 200, rows(2));
        machine_reply(m, 200, "{\"name\":\"n\"}");
        assert_non_null(machine_call(m));
        mem_fail_at(n, 1);
        machine_reply(m, 200, "{\"name\":\"o\"}");
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        enum exec_reason reason = machine_end_of(m, &m->run);
        failed += reason != EXEC_SUCCEEDED;
        assert_true(reason != EXEC_SUCCEEDED || is_whole(m->run.out.output_json));
        let_go(m);
    }
    assert_true(failed > 0);
}

static void the_limits_of_the_connection_hold_for_the_reads(void **state)
{
    struct machine *m = *state;
    unsigned read = 0;
    machine_begin(m, "narrow", "list", "{\"q\":\"x\"}");
    seam_node_answer(&m->node, &m->store);
    machine_reply(m, 200, rows(5));
    for (; read < 5; read++) {
        seam_node_answer(&m->node, &m->store);
        assert_int_equal(seam_call_count(m->node.http), read < 4 ? IN_FLIGHT : 1);
        machine_reply(m, 200, "{\"name\":\"n\"}");
    }
    assert_int_equal(machine_end_of(m, &m->run), EXEC_SUCCEEDED);
    assert_slice_has(m->run.out.output_json, "{\"id\":\"i4\",\"name\":\"n\"}]");
    let_go(m);
}

/* The app answers one read of four: what was read is the result, and nothing is waited for beyond
 * the time-outs and the deadline. */
static void the_reads_end_at_the_deadline(void **state)
{
    struct machine *m = *state;
    machine_begin(m, "narrow", "list", "{\"q\":\"x\"}");
    seam_node_answer(&m->node, &m->store);
    machine_reply(m, 200, rows(4));
    seam_node_answer(&m->node, &m->store);
    machine_reply(m, 200, "{\"name\":\"n\"}");
    for (unsigned i = 0; i < 100 && !seam_run_has_ended(&m->run); i++) {
        seam_node_answer(&m->node, &m->store);
        while (seam_call_count(m->node.http) > 0) {
            seam_call_fail(seam_call(m->node.http, 0), SEAM_SILENCE);
            seam_settle(m->node.loop);
        }
        if (!seam_run_has_ended(&m->run))
            (void)seam_pass_timer(m->node.loop, 60000);
    }
    assert_int_equal(machine_end_of(m, &m->run), EXEC_SUCCEEDED);
    assert_slice_has(m->run.out.output_json, "{\"id\":\"i0\",\"name\":\"n\"},"
                                             "{\"id\":\"i1\",\"not_read\":");
    assert_slice_has(m->run.out.output_json, "{\"id\":\"i3\",\"not_read\":");
    let_go(m);
}

static void a_cancel_ends_the_reads(void **state)
{
    struct machine *m = *state;
    machine_begin(m, "app", "list", "{\"q\":\"x\"}");
    machine_reply(m, 200, rows(3));
    assert_int_equal(seam_call_count(m->node.http), 3);
    seam_run_cancel(&m->run);
    machine_assert_no_call(m);
    assert_int_equal(machine_end(m), EXEC_CANCELLED);
    assert_int_equal(m->store.executions.count, 0);
}

static void a_dry_run_names_the_reads(void **state)
{
    struct machine *m = *state;
    machine_want(m, "app", "list", "{\"q\":\"x\"}");
    m->run.exec.is_dry_run = true;
    seam_run_start(&m->run);
    machine_assert_no_call(m);
    (void)machine_end_of(m, &m->run);
    assert_slice_has(m->run.summary_json, "\"each\":{\"action_id\":\"one\",\"max\":12}");
    let_go(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(items_are_read_some_at_a_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_read_unless_it_is_wanted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_output_without_the_list_stays_as_it_is, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(large_items_are_added_on_a_thread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(items_without_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_limits_of_the_connection_hold_for_the_reads, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_reads_end_at_the_deadline, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cancel_ends_the_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_dry_run_names_the_reads, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("exec/each", tests, NULL, NULL);
}
