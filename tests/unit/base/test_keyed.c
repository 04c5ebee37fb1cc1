/*
 * State by key: one entry for each key, zeroed when it is new, without an allocation for one that
 * was just dropped.
 */
#include "base/keyed.h"
#include "unit.h"

struct count {
    struct keyed keyed;
    int value;
};

static void a_key_has_one_entry(void **state)
{
    struct keyed_table table;
    (void)state;
    keyed_init(&table, sizeof(struct count));
    assert_null(keyed_find(&table, SLICE("a")));
    struct count *a = keyed_get(&table, SLICE("a"));
    struct count *none = keyed_get(&table, SLICE_NONE); /* the empty key is a key, too */
    assert_non_null(a);
    assert_ptr_not_equal(a, none);
    assert_int_equal(a->value, 0);
    a->value = 1;
    assert_ptr_equal(keyed_get(&table, SLICE("a")), a);
    assert_ptr_equal(keyed_find(&table, SLICE("a")), a);
    keyed_drop(&table, &a->keyed);
    assert_null(keyed_find(&table, SLICE("a")));
    keyed_drop(&table, &none->keyed);
    keyed_deinit(&table);
    assert_int_equal(mem_live_blocks(), 0);
}

static void a_dropped_entry_leaves_its_ring_and_no_memory(void **state)
{
    struct keyed_table table;
    struct list ring = LIST_INIT(ring);
    (void)state;
    keyed_init(&table, sizeof(struct count));
    struct count *a = keyed_get(&table, SLICE("a"));
    list_push_back(&ring, &a->keyed.ring);
    a->value = 7;
    keyed_drop(&table, &a->keyed);
    assert_true(list_is_empty(&ring));
    struct count *b = keyed_get(&table, SLICE("b"));
    assert_ptr_equal(b, a); /* the same block */
    assert_int_equal(b->value, 0);
    assert_true(list_is_empty(&b->keyed.ring));
    keyed_drop(&table, &b->keyed);
    keyed_deinit(&table);
    assert_int_equal(mem_live_blocks(), 0);
}

/* Takes the first entry of the ring, which then moves to the end, so each entry waits for one turn
 * of every other. */
static void entries_are_served_in_turn(void **state)
{
    enum { NODES = 6 };
    static const char *const keys[NODES] = {"a", "a", "b", "a", "c", "b"};
    static const size_t order[NODES - 1] = {0, 2, 1, 5, 3}; /* node 4 is removed before its turn */
    struct keyed_table table;
    struct list ring = LIST_INIT(ring), nodes[NODES];
    (void)state;
    keyed_init(&table, sizeof(struct count));
    for (size_t i = 0; i < NODES; i++) {
        struct count *count = keyed_get(&table, slice_cstr(keys[i]));
        list_init(&nodes[i]);
        keyed_join(&count->keyed, &ring, &nodes[i]);
    }
    struct count *c = keyed_find(&table, SLICE("c"));
    keyed_leave(&c->keyed, &nodes[4]);
    assert_true(list_is_empty(&c->keyed.ring));
    keyed_drop(&table, &c->keyed);
    for (size_t i = 0; i < NODES - 1; i++) {
        struct keyed *entry = LIST_ITEM(ring.next, struct keyed, ring);
        struct list *first = entry->waiting.next;
        assert_ptr_equal(first, &nodes[order[i]]);
        list_move_back(&ring, &entry->ring);
        keyed_leave(entry, first);
        if (list_is_empty(&entry->waiting))
            keyed_drop(&table, entry);
    }
    assert_true(list_is_empty(&ring));
    keyed_deinit(&table);
    assert_int_equal(mem_live_blocks(), 0);
}

static void without_memory_there_is_none(void **state)
{
    struct keyed_table table;
    (void)state;
    for (uint64_t at = 1; at <= 2; at++) {
        keyed_init(&table, sizeof(struct count));
        mem_fail_at(at, 1); /* the entry's block, and its slot in the map */
        assert_null(keyed_get(&table, SLICE("a")));
        mem_fail_at(0, 0);
        assert_null(keyed_find(&table, SLICE("a")));
        keyed_deinit(&table);
        assert_int_equal(mem_live_blocks(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_one_entry),
        cmocka_unit_test(a_dropped_entry_leaves_its_ring_and_no_memory),
        cmocka_unit_test(entries_are_served_in_turn),
        cmocka_unit_test(without_memory_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
