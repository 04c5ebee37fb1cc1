/*
 * Lines by account: one for each key, zeroed when it is new, without an allocation for a line that
 * was just dropped.
 */
#include "base/lines.h"
#include "unit.h"

struct count {
    struct line line;
    int value;
};

static void a_key_has_one_line(void **state)
{
    struct lines lines;
    (void)state;
    lines_init(&lines, sizeof(struct count));
    assert_null(lines_find(&lines, SLICE("a")));
    struct count *a = lines_get(&lines, SLICE("a"));
    struct count *none = lines_get(&lines, SLICE_NONE); /* also a key */
    assert_non_null(a);
    assert_ptr_not_equal(a, none);
    assert_int_equal(a->value, 0);
    a->value = 1;
    assert_ptr_equal(lines_get(&lines, SLICE("a")), a);
    assert_ptr_equal(lines_find(&lines, SLICE("a")), a);
    lines_drop(&lines, &a->line);
    assert_null(lines_find(&lines, SLICE("a")));
    lines_drop(&lines, &none->line);
    lines_deinit(&lines);
    assert_int_equal(mem_live_blocks(), 0);
}

static void a_dropped_line_leaves_its_ring_and_nothing_of_itself(void **state)
{
    struct lines lines;
    struct list ring = LIST_INIT(ring);
    (void)state;
    lines_init(&lines, sizeof(struct count));
    struct count *a = lines_get(&lines, SLICE("a"));
    list_push_back(&ring, &a->line.ring);
    a->value = 7;
    lines_drop(&lines, &a->line);
    assert_true(list_is_empty(&ring));
    struct count *b = lines_get(&lines, SLICE("b"));
    assert_ptr_equal(b, a); /* the same block */
    assert_int_equal(b->value, 0);
    assert_true(list_is_empty(&b->line.ring));
    lines_drop(&lines, &b->line);
    lines_deinit(&lines);
    assert_int_equal(mem_live_blocks(), 0);
}

/* Takes the first line of the ring, which then moves to the end, so each line waits for one turn
 * of every other. */
static void lines_are_served_in_turn(void **state)
{
    enum { NODES = 6 };
    static const char *const keys[NODES] = {"a", "a", "b", "a", "c", "b"};
    static const size_t order[NODES - 1] = {0, 2, 1, 5, 3}; /* 4 leaves before its turn */
    struct lines lines;
    struct list ring = LIST_INIT(ring), nodes[NODES];
    (void)state;
    lines_init(&lines, sizeof(struct count));
    for (size_t i = 0; i < NODES; i++) {
        struct count *count = lines_get(&lines, slice_cstr(keys[i]));
        list_init(&nodes[i]);
        line_join(&count->line, &ring, &nodes[i]);
    }
    struct count *c = lines_find(&lines, SLICE("c"));
    line_leave(&c->line, &nodes[4]);
    assert_true(list_is_empty(&c->line.ring));
    lines_drop(&lines, &c->line);
    for (size_t i = 0; i < NODES - 1; i++) {
        struct line *line = LIST_ITEM(ring.next, struct line, ring);
        struct list *first = line->waiting.next;
        assert_ptr_equal(first, &nodes[order[i]]);
        list_move_back(&ring, &line->ring);
        line_leave(line, first);
        if (list_is_empty(&line->waiting))
            lines_drop(&lines, line);
    }
    assert_true(list_is_empty(&ring));
    lines_deinit(&lines);
    assert_int_equal(mem_live_blocks(), 0);
}

static void without_memory_there_is_none(void **state)
{
    struct lines lines;
    (void)state;
    for (uint64_t at = 1; at <= 2; at++) {
        lines_init(&lines, sizeof(struct count));
        mem_fail_at(at, 1); /* its block, and its slot in the map */
        assert_null(lines_get(&lines, SLICE("a")));
        mem_fail_at(0, 0);
        assert_null(lines_find(&lines, SLICE("a")));
        lines_deinit(&lines);
        assert_int_equal(mem_live_blocks(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_one_line),
        cmocka_unit_test(a_dropped_line_leaves_its_ring_and_nothing_of_itself),
        cmocka_unit_test(lines_are_served_in_turn),
        cmocka_unit_test(without_memory_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
