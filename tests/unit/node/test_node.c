/*
 * The life of a node: its lease, what it recovers from dead nodes and from itself, and how it
 * leaves.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "exec/machine.h"
#include "seam/table.h"
#include "store/node.h"

static const char app[] = APP("app", NO_AUTH, "", ACTION("put", "write", POST, ""));

static int set_up(void **state)
{
    const char *const manifests[] = {app, NULL};
    *state = machine_new(manifests, (struct seam_tuning){0});
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

/* Lets time pass until the node sends that query. */
static struct pg_query *await(struct machine *m, const char *name)
{
    for (unsigned i = 0; i < 200; i++) {
        seam_settle(m->node.loop);
        struct pg_query *query = seam_query_named(m->node.pool, name);
        if (query)
            return query;
        query = seam_query(m->node.pool, 0);
        if (query)
            seam_rows_answer(&m->store, query);
        else
            (void)seam_pass_timer(m->node.loop, 20000);
    }
    fail_msg("%s is never asked", name);
    return NULL;
}

static void pass(struct machine *m, uint64_t ms)
{
    struct seam_walk walk = {.node = &m->node, .store = &m->store, .place = SIZE_MAX};
    seam_walk_for_ms(&walk, ms);
}

/* ---- the lease ---- */

static void a_lease_is_renewed_before_it_ends(void **state)
{
    struct machine *m = *state;
    struct uuid id = node_id(m->node.node);
    pass(m, 60000);
    assert_true(node_may_write(m->node.node));
    assert_true(uuid_eq(node_id(m->node.node), id));
    assert_int_equal(m->store.nodes.count, 1);
    struct pg_query *beat = await(m, "node_heartbeat");
    assert_true(uuid_eq(seam_uuid(beat, "node_id"), id));
    assert_int_equal(seam_i64(beat, "lease_ms"), NODE_LEASE_MS);
}

/* A lease counts from the time before its statement was sent, minus a margin, however long the
 * answer took. */
static void a_lease_counts_from_before_it_was_asked_for(void **state)
{
    struct machine *m = *state;
    struct pg_query *beat = await(m, "node_heartbeat");
    uint64_t sent_ns = seam_now_ns();
    assert_int_equal(seam_rows_do(&m->store, beat), OK);
    seam_pass_ms(m->node.loop, 2000);
    seam_query_done(beat);
    seam_settle(m->node.loop);
    seam_move_to_ns(sent_ns + (NODE_LEASE_MS - 1000) * UINT64_C(1000000) - 1);
    assert_true(node_may_write(m->node.node));
    seam_move_to_ns(sent_ns + (NODE_LEASE_MS - 1000) * UINT64_C(1000000));
    assert_false(node_may_write(m->node.node));
}

/* After each kind of failure, the heartbeat is sent again soon, and the lease does not change
 * until then. */
static void a_heartbeat_that_fails_is_sent_again(void **state)
{
    struct machine *m = *state;
    static const int statuses[] = {ERR_BUSY, ERR_TIMEOUT, ERR_IO};
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
        seam_query_fail(await(m, "node_heartbeat"), statuses[i]);
        assert_true(node_may_write(m->node.node));
        uint64_t failed_ns = seam_now_ns();
        struct pg_query *again = await(m, "node_heartbeat");
        assert_int_equal((seam_now_ns() - failed_ns) / 1000000, 500);
        seam_rows_answer(&m->store, again);
    }
    assert_int_equal(m->store.nodes.count, 1);
}

/* Other nodes may have taken over its work, so from then on the process is another node. */
static void a_lease_that_ran_out_makes_another_node_of_it(void **state)
{
    struct machine *m = *state;
    struct uuid id = node_id(m->node.node);
    struct pg_query *beat = await(m, "node_heartbeat");
    seam_find_node(&m->store, id)->lease_until = seam_store_now();
    seam_rows_answer(&m->store, beat);
    seam_settle(m->node.loop);
    assert_false(node_may_write(m->node.node));
    seam_query_fail(await(m, "node_register"), ERR_BUSY);
    seam_settle(m->node.loop);
    assert_false(node_may_write(m->node.node));
    seam_rows_answer(&m->store, await(m, "node_register"));
    seam_settle(m->node.loop);
    assert_true(node_may_write(m->node.node));
    assert_false(uuid_eq(node_id(m->node.node), id));
    assert_int_equal(m->store.nodes.count, 2);
}

/* ---- its clock ---- */

static double clock_offset(void)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    metric_render(&text);
    buf_append_char(&text, '\0');
    const char *line = strstr(text.ptr, "\nsluice_clock_offset_seconds ");
    double value = line ? strtod(line + strlen("\nsluice_clock_offset_seconds "), NULL) : -1e9;
    buf_deinit(&text);
    return value;
}

/* The number of log lines that contain this text. */
static unsigned lines_with(int log, const char *words)
{
    static char text[64 * 1024];
    unsigned count = 0;
    log_flush();
    ssize_t len = pread(log, text, sizeof(text) - 1, 0);
    assert_true(len >= 0);
    text[len] = '\0';
    for (const char *at = text; (at = strstr(at, words)); at++)
        count++;
    return count;
}

/* A wrong clock is logged once when the error begins and once when it ends. Shared times always
 * use the clock of the database. */
static void a_clock_that_is_off_is_reported(void **state)
{
    struct machine *m = *state;
    const struct {
        int shift_s;
        unsigned off, well; /* lines so far */
    } steps[] = {{0, 0, 0},   {29, 0, 0},  {-29, 0, 0},    {31, 1, 0},    {90, 1, 0},
                 {-29, 1, 1}, {-31, 2, 1}, {-86400, 2, 1}, {86400, 2, 1}, {0, 2, 2}};
    int log = memfd_create("log", 0);
    assert_true(log >= 0);
    log_init(LOG_INFO, LOG_JSON);
    log_set_fd(log);
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        seam_wall_shift_set(INT64_C(1000000) * steps[i].shift_s);
        pass(m, 5000);
        double off_s = clock_offset() - steps[i].shift_s;
        assert_true(off_s > -0.1 && off_s < 0.1);
        assert_int_equal(lines_with(log, "clock differs from the database's"), steps[i].off);
        assert_int_equal(lines_with(log, "agrees with the database's again"), steps[i].well);
        int64_t shared_us = clock_shared_us() - seam_store_now();
        assert_true(shared_us > -100000 && shared_us < 100000);
    }
    log_set_fd(STDERR_FILENO);
    close(log);
}

static bool is_replayed(struct machine *m)
{
    machine_want(m, "app", "put", "{}");
    m->run.exec.idempotency_key = SLICE("kept");
    seam_run_start(&m->run);
    for (unsigned i = 0; i < 10 && !seam_run_has_ended(&m->run); i++) {
        seam_node_answer(&m->node, &m->store);
        seam_settle(m->node.loop);
        if (seam_call_count(m->node.http) > 0)
            machine_reply(m, 200, "{}");
    }
    assert_int_equal(machine_end(m), EXEC_SUCCEEDED);
    return m->run.out.is_replayed;
}

/* Keys expire by the database's clock, since a node's clock may be wrong. */
static void a_key_outlives_the_clock_of_a_node(void **state)
{
    struct machine *m = *state;
    const int64_t days[] = {3, -3, 0};
    assert_false(is_replayed(m));
    for (size_t i = 0; i < ARRAY_LEN(days); i++) {
        seam_wall_shift_set(days[i] * 24 * 3600 * 1000000);
        assert_true(is_replayed(m));
    }
    seam_find_claim(&m->store, seam_account, SLICE("kept"))->expires_at = seam_store_now();
    assert_false(is_replayed(m));
}

/* ---- what is recovered ---- */

static void add_claim(struct machine *m, struct uuid owner, unsigned number, bool is_write)
{
    char key[32];
    (void)snprintf(key, sizeof(key), "key%u", number);
    *ROW_ADD(&m->store, claims) =
        (struct row_claim){.claim = {.account_id = seam_account,
                                     .key = seam_keep(&m->store, slice_cstr(key)),
                                     .execution_id = uuid_v7(),
                                     .owner = owner,
                                     .integration_id = SLICE("app"),
                                     .action_id = SLICE("put"),
                                     .is_write = is_write,
                                     .started_at = seam_store_now() - INT64_C(60000000)}};
}

/* Claims of a node whose lease has expired. If there are more than one scan returns, several
 * scans take them. */
static void claims_of_the_dead_are_ended(void **state)
{
    struct machine *m = *state;
    struct uuid dead = uuid_v7();
    *ROW_ADD(&m->store, nodes) = (struct row_node){.id = dead, .lease_until = seam_store_now()};
    for (unsigned i = 0; i < CLAIM_RECOVER_MAX + 5; i++)
        add_claim(m, dead, i, i % 2 == 0);
    pass(m, 30000);
    size_t bound = 0;
    for (size_t i = 0; i < m->store.claims.count; i++)
        bound += m->store.claims.items[i].is_bound;
    /* a write may have been done, so its key keeps an unknown outcome; the key of a read is free */
    assert_int_equal(m->store.claims.count, bound);
    assert_int_equal(bound, CLAIM_RECOVER_MAX / 2 + 3);
    assert_int_equal(m->store.executions.count, bound);
    for (size_t i = 0; i < m->store.executions.count; i++)
        assert_slice_has(m->store.executions.items[i].summary, "unknown");
}

static void a_scan_that_fails_is_made_again_later(void **state)
{
    static const char *const scans[] = {"node_dead", "claim_recover", "claim_owned"};
    struct machine *m = *state;
    *ROW_ADD(&m->store, nodes) =
        (struct row_node){.id = uuid_v7(), .lease_until = seam_store_now()};
    for (size_t i = 0; i < ARRAY_LEN(scans); i++) {
        seam_query_fail(await(m, scans[i]), ERR_BUSY);
        seam_settle(m->node.loop);
        assert_true(node_may_write(m->node.node));
        seam_rows_answer(&m->store, await(m, scans[i]));
    }
}

/* Claims of the node itself that no run here knows. A claim that belongs to a run stays. */
static void orphans_are_ended_and_runs_are_not(void **state)
{
    struct machine *m = *state;
    machine_begin(m, "app", "put", "{}");
    machine_answer(m, "claim_own");
    (void)machine_call(m);
    m->store.claims.items[0].claim.started_at -= INT64_C(60000000);
    add_claim(m, node_id(m->node.node), 1, true);
    while (m->store.executions.count == 0)
        seam_rows_answer(&m->store, await(m, "execution_finish_keep_event"));
    assert_int_equal(m->store.executions.count, 1);
    assert_true(
        uuid_eq(m->store.executions.items[0].id, m->store.claims.items[1].claim.execution_id));
    assert_false(m->store.claims.items[0].is_bound);
    machine_reply(m, 200, "{}");
    assert_int_equal(machine_end(m), EXEC_SUCCEEDED);
}

/* ---- leaving ---- */

static void it_leaves_from_its_rest(void **state)
{
    struct machine *m = *state;
    struct uuid id = node_id(m->node.node);
    (void)await(m, "node_heartbeat");
    pass(m, 100);
    node_leave(m->node.node, NULL);
    struct pg_query *leave = await(m, "node_leave");
    assert_true(uuid_eq(seam_uuid(leave, "node_id"), id));
    assert_false(node_may_write(m->node.node)); /* already before the statement is sent */
    seam_rows_answer(&m->store, leave);
    seam_settle(m->node.loop);
    assert_true(seam_find_node(&m->store, id)->left_at > 0);
    pass(m, 60000);
    assert_int_equal(seam_query_count(m->node.pool), 0); /* the node sends no more queries */
    assert_true(uuid_eq(node_id(m->node.node), id));
}

static void it_leaves_while_it_registers(void **state)
{
    struct machine *m = *state;
    struct uuid id = node_id(m->node.node);
    struct pg_query *beat = await(m, "node_heartbeat");
    seam_find_node(&m->store, id)->lease_until = seam_store_now();
    seam_rows_answer(&m->store, beat);
    struct pg_query *asked = await(m, "node_register");
    node_leave(m->node.node, NULL);
    seam_query_fail(asked, ERR_BUSY);
    seam_rows_answer(&m->store, await(m, "node_leave"));
    seam_settle(m->node.loop);
    assert_false(node_may_write(m->node.node));
    assert_int_equal(m->store.nodes.count, 1);
}

static void every_step_and_jump_was_taken(void **state)
{
    (void)state;
    assert_int_equal(seam_table_missing("node"), 0);
}

#define NODE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(a_lease_is_renewed_before_it_ends),
        NODE_TEST(a_lease_counts_from_before_it_was_asked_for),
        NODE_TEST(a_heartbeat_that_fails_is_sent_again),
        NODE_TEST(a_lease_that_ran_out_makes_another_node_of_it),
        NODE_TEST(a_clock_that_is_off_is_reported),
        NODE_TEST(a_key_outlives_the_clock_of_a_node),
        NODE_TEST(claims_of_the_dead_are_ended),
        NODE_TEST(a_scan_that_fails_is_made_again_later),
        NODE_TEST(orphans_are_ended_and_runs_are_not),
        NODE_TEST(it_leaves_from_its_rest),
        NODE_TEST(it_leaves_while_it_registers),
        cmocka_unit_test(every_step_and_jump_was_taken),
    };
    seam_table_watch();
    return cmocka_run_group_tests_name("node/node", tests, NULL, NULL);
}
