/*
 * Calls are counted in memory by their outcome, and the counts are written together every ten
 * seconds.
 */
#include "seam/walk.h"
#include "store/tally.h"
#include "unit.h"

static int set_up(void **state)
{
    *state = seam_bench_open(false);
    return 0;
}

static int tear_down(void **state)
{
    return seam_bench_close(*state) ? 0 : -1;
}

/* Runs a read from gate to answer, with this answer from the app. */
static void read_once(struct seam_bench *b, unsigned status)
{
    seam_run_exec(&b->run, &b->node, "get", "{\"q\":\"x\"}");
    seam_run_start(&b->run);
    seam_settle(b->node.loop);
    seam_call_reply(seam_call(b->node.http, 0), status, "{\"items\":[]}");
    seam_node_answer(&b->node, &b->store);
    seam_run_end(&b->run);
    seam_settle(b->node.loop);
}

/* Runs a write without a confirmation. */
static void block_once(struct seam_bench *b, const char *action)
{
    seam_run_exec(&b->run, &b->node, action, "{}");
    seam_run_start(&b->run);
    seam_node_answer(&b->node, &b->store);
    seam_run_end(&b->run);
    seam_settle(b->node.loop);
}

static size_t written(struct seam_bench *b)
{
    size_t count = 0;
    struct pg_query *query;
    for (size_t i = 0; (query = seam_query(b->node.pool, i)); i++)
        count += strcmp(seam_query_stmt(query)->name, "tally_add") == 0;
    return count;
}

static struct pg_query *row_of(struct seam_bench *b, const char *outcome)
{
    struct pg_query *query;
    for (size_t i = 0; (query = seam_query(b->node.pool, i)); i++)
        if (strcmp(seam_query_stmt(query)->name, "tally_add") == 0 &&
            pg_value_is(seam_param(query, "outcome"), outcome))
            return query;
    fail_msg("no row is written for a call that %s", outcome);
    return NULL;
}

static void check_row(struct seam_bench *b, const char *outcome, const char *action,
                      const char *code, int64_t calls)
{
    struct pg_query *query = row_of(b, outcome);
    assert_true(pg_value_is(seam_param(query, "integration_id"), "demo"));
    assert_true(pg_value_is(seam_param(query, "action_id"), action));
    assert_true(pg_value_is(seam_param(query, "error_code"), code));
    assert_int_equal(seam_param(query, "calls")->as.i64, calls);
    assert_int_equal(seam_param(query, "slot")->as.i64 % (300 * 1000000LL), 0);
}

/* Checks the message of the last failure and its time, which is within the five minutes of the
 * row. */
static void check_last(struct seam_bench *b, const char *outcome, const char *message)
{
    struct pg_query *query = row_of(b, outcome);
    int64_t at, slot = seam_param(query, "slot")->as.i64;
    slice said = tally_last_read(seam_param(query, "last")->as.bytes, &at);
    assert_true(slice_eq_cstr(said, message));
    assert_in_range(at, slot, slot + TALLY_SLOT_S * 1000000LL);
}

static void it_writes_every_ten_seconds_what_it_counted(void **state)
{
    struct seam_bench *b = *state;
    assert_true(counts_are_written(exec_service_tallies(b->node.exec)));
    for (size_t i = 0; i < 3; i++)
        read_once(b, 200);
    read_once(b, 400);
    block_once(b, "put");
    seam_pass_ms(b->node.loop, TALLIES_EVERY_MS - 2000);
    assert_int_equal(written(b), 0);
    seam_pass_ms(b->node.loop, 4000);
    assert_int_equal(written(b), 3);
    check_row(b, "succeeded", "get", "", 3);
    check_row(b, "failed", "get", "validation_error", 1);
    check_row(b, "blocked", "put", "policy_blocked", 1);
    assert_true(pg_value_is(seam_param(row_of(b, "succeeded"), "buckets"),
                            "{3,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}"));
    assert_true(pg_value_is(seam_param(row_of(b, "blocked"), "buckets"), "{}"));
    assert_true(seam_param(row_of(b, "succeeded"), "last")->is_null);
    check_last(b, "failed", "Demo found the request invalid (HTTP 400 Bad Request).");
    check_last(b, "blocked", "put is a write action and was not confirmed. Nothing was done.");
    seam_node_answer(&b->node, &b->store);
    assert_true(counts_are_written(exec_service_tallies(b->node.exec)));
    assert_int_equal(seam_query_count(b->node.pool), 0);
}

static void steps_without_a_call_are_not_counted(void **state)
{
    struct seam_bench *b = *state;
    seam_run_exec(&b->run, &b->node, "get", "{\"q\":\"x\"}");
    b->run.exec.is_dry_run = true;
    seam_run_start(&b->run);
    seam_node_answer(&b->node, &b->store);
    assert_int_equal(b->run.out.reason, EXEC_SUCCEEDED);
    seam_run_end(&b->run);
    seam_settle(b->node.loop);
    assert_true(counts_are_written(exec_service_tallies(b->node.exec)));
}

static void a_held_run_is_not_kept_as_one_that_waits(void **state)
{
    struct seam_bench *b = *state;
    const struct exec_outcome held = {
        .reason = EXEC_HELD,
        .message = SLICE("put waits for the approval of a person. Nothing was done yet.")};
    struct counts *tallies = exec_service_tallies(b->node.exec);
    tallies_count(tallies, (struct uuid){{1}}, SLICE("demo"), SLICE("put"), &held, NULL, 0);
    counts_write(tallies);
    seam_settle(b->node.loop);
    check_row(b, "blocked", "put", "policy_blocked", 1);
    check_last(b, "blocked", "It was held for the approval of a person.");
    seam_node_answer(&b->node, &b->store);
}

/* Tenants choose the names in their calls. No row has a name that the catalog does not know. */
static void unknown_names_are_one_row(void **state)
{
    struct seam_bench *b = *state;
    block_once(b, "no_such_action");
    block_once(b, "another");
    counts_write(exec_service_tallies(b->node.exec));
    seam_settle(b->node.loop);
    assert_int_equal(written(b), 1);
    check_row(b, "blocked", "", "action_not_found", 2);
    seam_node_answer(&b->node, &b->store);
}

static void what_was_not_done_is_written_later(void **state)
{
    struct seam_bench *b = *state;
    struct counts *tallies = exec_service_tallies(b->node.exec);
    read_once(b, 200);
    counts_write(tallies);
    seam_settle(b->node.loop);
    read_once(b, 200); /* a call during the write is answered, and the row includes it */
    assert_false(counts_are_written(tallies));
    counts_write(tallies);
    seam_settle(b->node.loop);
    seam_query_fail(row_of(b, "succeeded"), ERR_TIMEOUT);
    seam_settle(b->node.loop);
    read_once(b, 200);
    counts_write(tallies);
    seam_settle(b->node.loop);
    check_row(b, "succeeded", "get", "", 2);
    seam_query_fail(row_of(b, "succeeded"), ERR_INVALID); /* the account was deleted */
    seam_settle(b->node.loop);
    assert_true(counts_are_written(tallies));
    read_once(b, 200);
    counts_write(tallies);
    seam_settle(b->node.loop);
    seam_query_lose_for_good(row_of(b, "succeeded")); /* it may have been done */
    seam_settle(b->node.loop);
    assert_true(counts_are_written(tallies));
}

static void a_process_goes_down_with_a_row_under_way(void **state)
{
    struct seam_bench *b = *state;
    read_once(b, 200);
    counts_write(exec_service_tallies(b->node.exec));
    seam_settle(b->node.loop);
    assert_int_equal(written(b), 1);
    read_once(b, 400);
    assert_false(counts_are_written(exec_service_tallies(b->node.exec)));
}

/* A message is kept longer than the input that it may quote. */
static void no_value_of_the_input_is_kept(void **state)
{
    (void)state;
    static const struct {
        const char *input, *message, *kept;
    } cases[] = {
        {"{\"cc\":\"bob smith\"}", "cc: bob smith is not an email address.",
         "cc: \u2026 is not an email address."},
        {"{\"a\":{\"b\":[\"x\",\"Zo\u00eb\"]}}", "Gmail: no label \"Zo\u00eb\" or Zo\u00ebs.",
         "Gmail: no label \"\u2026\" or Zo\u00ebs."},
        {"{\"id\":\"19a4\"}", "Not found: https://x.example/19a4, 19a4.",
         "Not found: https:\u2026, \u2026."},
        {"{\"n\":48151623}", "Order 48151623 is closed", "Order \u2026 is closed"},
        {"{\"n\":-1250.75,\"m\":-42}", "Balance -1250.75 is below -42.",
         "Balance \u2026 is below \u2026."},
        {"{\"n\":10000000000000000000000000000000000000000000000000000000000000000001}", "No 10.",
         ""},
        {"{\"to\":\"Ann <ann@x.example>\"}", "ann@x.example and eve@y.example bounced",
         "\u2026 and \u2026 bounced"},
        {"{}", "ask bob@x.example (or Eve)", "ask \u2026 (or Eve)"},
        {"{\"q\":\"was\"}", "Nothing was done (1).", "Nothing \u2026 done (1)."},
        {"{\"text\":\"The code is 4711-AB and the secret word of our house is open sesame, which "
         "is not to be passed on to anybody outside of this family.\"}",
         "Rejected: 4711-AB, secret word of a house. It is not valid.",
         "Rejected: \u2026, \u2026 a house. It is not valid."},
        {NULL, "Demo is not connected.", "Demo is not connected."},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct arena arena;
        struct err err;
        char room[TALLY_LAST_MAX];
        arena_init(&arena, 64 * 1024);
        const struct json *input = cases[i].input ? json_parse(&arena, slice_cstr(cases[i].input),
                                                               &json_limits_request, &err)
                                                  : NULL;
        slice kept = tally_message(room, slice_cstr(cases[i].message), input);
        if (!slice_eq_cstr(kept, cases[i].kept))
            fail_msg("%s: %.*s", cases[i].message, SLICE_ARG(kept));
        arena_deinit(&arena);
    }
}

/* What cannot be searched is not kept; a long message is cut between two words. */
static void a_message_is_bounded(void **state)
{
    char room[TALLY_LAST_MAX], message[400], text[40 * 1024];
    struct json large;
    (void)state;
    memset(text, 'x', sizeof(text));
    large = json_string(slice_of(text, sizeof(text)));
    assert_int_equal(tally_message(room, SLICE("It failed."), &large).len, 0);
    struct json values[256];
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        values[i] = json_i64(1);
    large = (struct json){.type = JSON_ARRAY, .count = 255, .as.items = values};
    assert_true(tally_message(room, SLICE("It failed."), &large).len > 0);
    large.count = 256;
    assert_int_equal(tally_message(room, SLICE("It failed."), &large).len, 0);
    for (size_t i = 0; i < sizeof(message); i++)
        message[i] = i % 8 == 7 ? ' ' : 'm';
    slice kept = tally_message(room, slice_of(message, sizeof(message)), NULL);
    assert_in_range(kept.len, TALLY_LAST_MAX - 9, TALLY_LAST_MAX);
    memset(message, ' ', sizeof(message));
    for (size_t i = 0; i < sizeof(message); i += 2)
        message[i] = 'm';
    kept = tally_message(room, slice_of(message, sizeof(message)), NULL);
    assert_int_equal(kept.len, 2 * 64);
}

/* Names that no catalog would accept, since the limits of the table hold for any name. */
static void more_than_there_is_room_for_is_lost(void **state)
{
    struct seam_bench *b = *state;
    struct counts tallies;
    struct exec_outcome blocked = {.reason = EXEC_CONFIRMATION_MISSING};
    char name[200];
    counts_init(&tallies, &tallies_class, b->node.loop, b->node.pool);
    memset(name, 'x', sizeof(name));
    tallies_count(&tallies, uuid_v7(), slice_of(name, sizeof(name)), SLICE("a"), &blocked, NULL, 0);
    assert_int_equal(tallies.table.map.count, 0);
    /* those that do not fit are written at once, as far as the database answers */
    for (size_t i = 0; i < TALLIES_MAX + TALLIES_FLUSH_MAX + 10; i++)
        tallies_count(&tallies, uuid_v7(), SLICE("demo"), SLICE("a"), &blocked, NULL, 0);
    assert_int_equal(tallies.table.map.count, TALLIES_MAX);
    assert_int_equal(tallies.sent.count, TALLIES_FLUSH_MAX);
    seam_settle(b->node.loop);
    assert_int_equal(written(b), TALLIES_FLUSH_MAX);
    counts_deinit(&tallies);
    seam_node_answer(&b->node, &b->store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_value_of_the_input_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_is_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_writes_every_ten_seconds_what_it_counted, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(steps_without_a_call_are_not_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(unknown_names_are_one_row, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_held_run_is_not_kept_as_one_that_waits, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_was_not_done_is_written_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_process_goes_down_with_a_row_under_way, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(more_than_there_is_room_for_is_lost, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("exec/tally", tests, NULL, NULL);
}
