/* loop/entrance: who begins when several accounts ask; who is alone passes. */
#include "testing.h"

enum { MANY = 100, A_TURN = 8 };

struct guest {
    struct op op;
    struct op_entry entry;
    size_t *order;
    size_t begun; /* its place; 0: it has not */
    bool is_ended;
};

static enum op_result step_enter(struct op *op)
{
    return op_enter(op, &CONTAINER_OF(op, struct guest, op)->entry);
}

static enum op_result step_begin(struct op *op)
{
    struct guest *guest = CONTAINER_OF(op, struct guest, op);
    guest->begun = ++*guest->order;
    return OP_DONE;
}

static void end_guest(struct op *op, enum op_end end)
{
    (void)end;
    CONTAINER_OF(op, struct guest, op)->is_ended = true;
}

static const struct op_step guest_steps[] = {{"enter", step_enter, 0}, {"begin", step_begin, 0}};
static const struct op_class guest_class = {
    .name = "guest", .steps = guest_steps, .step_count = 2, .on_end = end_guest};

static struct guest guests[MANY];
static size_t order;

static void come(struct loop *loop, struct guest *guest, slice account)
{
    *guest = (struct guest){.order = &order};
    op_start(&guest->op, &guest_class, loop, NULL, 4096);
    guest->op.account_id = account;
}

static void come_many(struct loop *loop)
{
    order = 0;
    for (size_t i = 0; i < MANY; i++)
        come(loop, &guests[i], SLICE("many"));
}

static void run_to_the_end(struct loop *loop)
{
    while (op_count(loop) > 0)
        loop_turn(loop, false);
}

static void one_alone_passes(void **state)
{
    struct loop *loop = *state;
    come_many(loop);
    mem_fail_at(1, 1); /* it takes no memory */
    while (order < MANY) {
        loop_turn(loop, false);
        for (size_t i = 0; i < MANY; i++)
            assert_null(guests[i].op.entry);
    }
    mem_fail_at(0, 0);
    run_to_the_end(loop);
}

static void two_begin_in_turn(void **state)
{
    struct loop *loop = *state;
    struct guest first, late;
    come(loop, &first, SLICE("other"));
    come_many(loop);
    do
        loop_turn(loop, false);
    while (!first.is_ended);
    assert_true(order <= 1 + 2 * A_TURN);
    size_t before = order;
    come(loop, &late, SLICE("other")); /* behind those that wait, and before them */
    while (!late.is_ended)
        loop_turn(loop, false);
    assert_true(late.begun <= before + 2 * A_TURN);
    assert_true(order < MANY);
    run_to_the_end(loop);
    for (size_t i = 1; i < MANY; i++)
        assert_true(guests[i].begun > guests[i - 1].begun); /* in the order they came */
}

static void one_that_waits_is_cancelled(void **state)
{
    struct loop *loop = *state;
    struct guest first;
    come(loop, &first, SLICE("other"));
    come_many(loop);
    do
        loop_turn(loop, false);
    while (!first.is_ended);
    struct guest *last = &guests[MANY - 1];
    assert_non_null(last->op.entry);
    assert_string_equal(last->op.waits_for, "its account's turn");
    op_cancel(&last->op);
    while (!last->is_ended)
        loop_turn(loop, false);
    assert_int_equal(last->begun, 0);
    run_to_the_end(loop);
    assert_int_equal(order, MANY); /* the other, and all but it */
}

static void without_memory_all_pass(void **state)
{
    struct loop *loop = *state;
    struct guest first;
    come(loop, &first, SLICE("other"));
    come_many(loop);
    mem_fail_at(1, SIZE_MAX);
    while (order < MANY + 1)
        loop_turn(loop, false);
    mem_fail_at(0, 0);
    run_to_the_end(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_alone_passes),
        TEST(two_begin_in_turn),
        TEST(one_that_waits_is_cancelled),
        TEST(without_memory_all_pass),
    };
    return cmocka_run_group_tests_name("loop/entrance", tests, NULL, NULL);
}
