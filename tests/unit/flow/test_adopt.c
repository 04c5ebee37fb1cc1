/*
 * The tables of adoption: flows of dead servers, and flows of our own that are not in memory. Each
 * scan and each take fails in each possible way.
 */
#include <stdlib.h>

#include "seam/seam.h"

#include "machine.h"

/* Sorted by key, as in a template set. */
static const char *const templates[] = {
    TEMPLATE("read", GET("a", "")),
    TEMPLATE("write", PUT("a", "start", "")),
    NULL,
};

static const char confirmed[] = "{\"confirm\":true}";

static int set_up(void **state)
{
    *state = machine_new(templates);
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

/* A flow that was started on a server that then dies in its call. */
static struct uuid abandon(struct machine *m, const char *key)
{
    struct uuid id = machine_start(m, key, confirmed);
    (void)machine_call(m);
    machine_restart(m);
    return id;
}

static void flows_of_a_dead_server_are_taken_over(void **state)
{
    struct machine *m = *state;
    struct uuid ids[3];
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        ids[i] = machine_start(m, "read", confirmed);
    machine_restart(m);
    uint64_t began_ns = seam_now_ns();
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        machine_until(m, ids[i], FLOW_COMPLETED);
        assert_true(seam_now_ns() - began_ns < UINT64_C(12000000000));
    }
}

static void one_that_left_by_itself_does_not_count(void **state)
{
    struct machine *m = *state;
    struct uuid id = abandon(m, "read");
    struct pg_query *scan = machine_query(m, "flow_orphans");
    seam_find_node(&m->store, machine_row(m, id)->flow.owner)->left_at = 1;
    seam_rows_answer(&m->store, scan);
    seam_rows_answer(&m->store, machine_query(m, "flow_take_adopt"));
    assert_int_equal(machine_row(m, id)->flow.adoptions, 0);
    machine_until(m, id, FLOW_COMPLETED);
    id = abandon(m, "read");
    seam_rows_answer(&m->store, machine_query(m, "flow_take_adopt"));
    assert_int_equal(machine_row(m, id)->flow.adoptions, 1);
}

static void without_room_it_waits(void **state)
{
    struct machine *m = *state;
    struct uuid id = abandon(m, "read");
    m->node.flow->config.runs_max = 0;
    seam_walk_for_ms(&m->walk, 30000);
    assert_int_equal(machine_row(m, id)->flow.adoptions, 0);
    m->node.flow->config.runs_max = 1;
    machine_until(m, id, FLOW_COMPLETED);
}

static void a_scan_that_fails_is_made_again(void **state)
{
    struct machine *m = *state;
    struct uuid id = abandon(m, "read");
    seam_query_fail(machine_query(m, "node_dead"), ERR_BUSY);
    seam_query_fail(machine_query(m, "flow_orphans"), ERR_BUSY);
    machine_until(m, id, FLOW_COMPLETED);
}

static void another_server_is_faster(void **state)
{
    struct machine *m = *state;
    struct uuid id = abandon(m, "read");
    struct pg_query *take = machine_query(m, "flow_take_adopt");
    machine_row(m, id)->flow.owner = uuid_v7();
    machine_row(m, id)->flow.rev++;
    seam_rows_answer(&m->store, take);
    seam_walk_for_ms(&m->walk, 60000);
    assert_int_equal(m->walk.sent, 0);
    assert_int_equal(flow_service_active(m->node.flow), 0);
}

/* The take may have succeeded, and here it has: the rows show this once no statement can be in
 * flight. */
static void a_take_whose_answer_is_lost_is_found(void **state)
{
    struct machine *m = *state;
    struct uuid id = abandon(m, "read");
    struct pg_query *take = machine_query(m, "flow_take_adopt");
    assert_int_equal(seam_rows_do(&m->store, take), OK);
    seam_query_lose_for_good(take);
    seam_query_fail(machine_query(m, "flow_owned"), ERR_BUSY);
    machine_until(m, id, FLOW_COMPLETED);
}

static void a_run_that_is_known_is_left_alone(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "read", confirmed);
    struct http_call *call = machine_call(m);
    m->node.flow->has_lost = true;
    struct pg_query *owned = machine_query(m, "flow_owned");
    machine_row(m, id)->flow.updated_at = 1;
    seam_rows_answer(&m->store, owned);
    seam_settle(m->node.loop);
    assert_null(seam_query_named(m->node.pool, "flow_take_adopt"));
    assert_ptr_equal(seam_call(m->node.http, 0), call);
    seam_call_reply(call, 200, "{}");
    machine_until(m, id, FLOW_COMPLETED);
}

/* ---- each place ---- */

static size_t walk_once(const char *key, size_t place, enum seam_fault fault, bool *is_ok)
{
    struct machine *m = machine_new(templates);
    struct uuid id = abandon(m, key);
    m->walk.place = place;
    m->walk.fault = fault;
    seam_walk_for_ms(&m->walk, 180000);
    const struct flow *flow = &machine_row(m, id)->flow;
    bool is_write = strcmp(key, "write") == 0;
    bool is_right = flow_service_active(m->node.flow) == 0 && flow->status > FLOW_WAITING &&
                    (!is_write || m->walk.writes == 0); /* the dead server may have made the call */
    if (!is_right)
        print_error("%s, %s at %s: %s\n", key, seam_fault_name(fault), m->walk.where,
                    flow_status_name(flow->status));
    *is_ok &= is_right;
    size_t places = m->walk.places;
    assert_int_equal(machine_free(m), 0);
    return places;
}

static void each_place_fails_in_each_way(void **state)
{
    static const char *const keys[] = {"read", "write"};
    bool is_ok = true;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        size_t places = walk_once(keys[i], SIZE_MAX, SEAM_REFUSED, &is_ok);
        assert_true(places >= 3);
        for (size_t place = 0; place < places; place++)
            for (unsigned fault = 0; fault < SEAM_FAULTS; fault++)
                (void)walk_once(keys[i], place, (enum seam_fault)fault, &is_ok);
    }
    assert_true(is_ok);
}

/* The adopting server also dies, at each moment of an adoption. */
static void its_heir_dies_at_each_moment(void **state)
{
    static const char *const at[] = {"node_dead", "flow_orphans", "flow_take_adopt",
                                     "flow_load_items", "flow_move"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        struct machine *m = machine_new(templates);
        struct uuid id = abandon(m, "write");
        (void)machine_query(m, at[i]);
        machine_restart(m);
        machine_until(m, id, FLOW_FAILED);
        machine_check_error(m, id, "outcome is unknown");
        assert_int_equal(m->walk.writes, 0);
        assert_int_equal(machine_free(m), 0);
    }
}

static void every_step_and_jump_was_taken(void **state)
{
    (void)state;
    assert_int_equal(seam_table_missing("flow_adopter"), 0);
    assert_int_equal(seam_table_missing("flow_take"), 0);
}

#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_MACHINE(flows_of_a_dead_server_are_taken_over),
        ON_A_MACHINE(one_that_left_by_itself_does_not_count),
        ON_A_MACHINE(without_room_it_waits),
        ON_A_MACHINE(a_scan_that_fails_is_made_again),
        ON_A_MACHINE(another_server_is_faster),
        ON_A_MACHINE(a_take_whose_answer_is_lost_is_found),
        ON_A_MACHINE(a_run_that_is_known_is_left_alone),
        cmocka_unit_test(each_place_fails_in_each_way),
        cmocka_unit_test(its_heir_dies_at_each_moment),
        cmocka_unit_test(every_step_and_jump_was_taken),
    };
    seam_table_watch();
    /* As when there is little time: what is cancelled ends in later turns. */
    (void)setenv("SLUICE_YIELD_EVERY", "1", 1);
    return cmocka_run_group_tests_name("flow/adopt", tests, NULL, NULL);
}
