/* loop/entrance: the order in which several accounts begin. An account that is alone does not
 * wait. */
#include "base/clock.h"
#include "loop/internal.h"
#include "testing.h"

enum { MANY = 100, A_TURN = 16, A_TURN_GREEDY = 2, YOUNG_MAX = 16, YOUNG_NS = 5 * 1000 * 1000 };

struct guest {
    struct op op;
    struct op_entry entry;
    size_t *order;
    size_t begun; /* its position among those that have begun; 0: none */
    bool stays;   /* until it is released */
    bool is_probe;
    size_t bytes; /* size of its reply */
    bool is_ended;
};

static enum op_result step_enter(struct op *op)
{
    struct guest *guest = CONTAINER_OF(op, struct guest, op);
    return op_enter(op, &guest->entry, guest->is_probe ? OP_PROBES : OP_STRANGERS);
}

static enum op_result step_begin(struct op *op)
{
    struct guest *guest = CONTAINER_OF(op, struct guest, op);
    guest->begun = ++*guest->order;
    op_weigh(op, guest->bytes);
    if (!guest->stays)
        return OP_DONE;
    op_hold(op, "the test");
    return OP_WAIT;
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

/* Guests stay once they have begun. */
static void come_to_stay(struct loop *loop, struct guest *from, size_t count, slice account)
{
    for (size_t i = 0; i < count; i++) {
        come(loop, &from[i], account);
        from[i].stays = true;
    }
}

static size_t count_begun(const struct guest *from, size_t count)
{
    size_t begun = 0;
    for (size_t i = 0; i < count; i++)
        begun += from[i].begun > 0;
    return begun;
}

static void turn_for(struct loop *loop, size_t turns)
{
    for (size_t i = 0; i < turns; i++)
        loop_turn(loop, false);
}

/* Ends the guests that stay, in the order in which they began, until none is left. */
static void see_off(struct loop *loop, struct guest *from, size_t count)
{
    while (op_count(loop) > 0) {
        for (size_t i = 0; i < count; i++)
            if (from[i].stays && from[i].begun) {
                from[i].stays = false;
                op_release(&from[i].op);
            }
        loop_turn(loop, false);
    }
}

static void run_to_the_end(struct loop *loop)
{
    while (op_count(loop) > 0)
        loop_turn(loop, false);
}

static size_t entered(const struct loop *loop, enum entered how)
{
    return (size_t)metric_get(loop->entrance.series[how]);
}

static void one_alone_passes(void **state)
{
    struct loop *loop = *state;
    size_t before = entered(loop, ENTERED_ALONE);
    come_many(loop);
    mem_fail_at(1, 1); /* waiting takes no memory */
    while (order < MANY) {
        loop_turn(loop, false);
        for (size_t i = 0; i < MANY; i++)
            assert_null(guests[i].op.entry);
    }
    mem_fail_at(0, 0);
    assert_int_equal(entered(loop, ENTERED_ALONE) - before, MANY);
    run_to_the_end(loop);
}

static void two_begin_in_turn(void **state)
{
    struct loop *loop = *state;
    struct guest first, late;
    size_t alone = entered(loop, ENTERED_ALONE), shared = entered(loop, ENTERED_SHARED),
           held = entered(loop, ENTERED_HELD);
    come(loop, &first, SLICE("other"));
    come_many(loop);
    do
        loop_turn(loop, false);
    while (!first.is_ended);
    assert_true(order <= 1 + A_TURN + 2 * A_TURN_GREEDY);
    size_t before = order;
    /* arrives after the waiting guests, and begins before them */
    come(loop, &late, SLICE("other"));
    while (!late.is_ended)
        loop_turn(loop, false);
    assert_true(late.begun <= before + 1 + 2 * A_TURN_GREEDY);
    assert_true(order < MANY);
    assert_int_equal(entered(loop, ENTERED_ALONE) - alone, 1);
    assert_int_equal(entered(loop, ENTERED_SHARED) - shared, A_TURN + 1);
    assert_int_equal(entered(loop, ENTERED_HELD) - held, MANY - A_TURN);
    run_to_the_end(loop);
    for (size_t i = 1; i < MANY; i++)
        assert_true(guests[i].begun > guests[i - 1].begun); /* in the order of their arrival */
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
    assert_int_equal(order, MANY); /* the first guest, and all others except the cancelled one */
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

/* Counts the guests that begin while a guest counts as young. After a pause of the machine, this is
 * repeated. */
static void an_account_with_more_than_others_waits_for_its_own(void **state)
{
    struct loop *loop = *state;
    size_t begun;
    uint64_t began_ns;
    do {
        order = 0;
        struct guest other;
        come(loop, &other, SLICE("other"));
        come_to_stay(loop, guests, MANY, SLICE("many"));
        began_ns = clock_mono_ns();
        turn_for(loop, MANY);
        begun = count_begun(guests, MANY);
        if (begun == YOUNG_MAX) { /* the end of one guest frees a place for another */
            guests[0].stays = false;
            op_release(&guests[0].op);
            turn_for(loop, 4);
            begun = count_begun(guests, MANY) - 1;
        }
        bool was_slow = clock_mono_ns() - began_ns >= YOUNG_NS;
        see_off(loop, guests, MANY);
        if (!was_slow)
            break;
    } while (true);
    assert_int_equal(begun, YOUNG_MAX);
}

static void an_account_may_have_as_many_as_the_others(void **state)
{
    enum { OTHERS = 3 * YOUNG_MAX };
    struct loop *loop = *state;
    size_t begun;
    uint64_t began_ns;
    bool was_slow;
    do {
        struct guest first;
        order = 0;
        come(loop, &first, SLICE("many"));
        come_to_stay(loop, guests, OTHERS, SLICE("other"));
        come_to_stay(loop, guests + OTHERS, MANY - OTHERS, SLICE("many"));
        began_ns = clock_mono_ns();
        turn_for(loop, MANY);
        begun = count_begun(guests + OTHERS, MANY - OTHERS);
        was_slow = clock_mono_ns() - began_ns >= YOUNG_NS;
        see_off(loop, guests, MANY);
    } while (was_slow);
    assert_in_range(begun, OTHERS - A_TURN, OTHERS);
}

static void a_guest_that_stays_long_no_longer_counts(void **state)
{
    struct loop *loop = *state;
    struct guest other;
    order = 0;
    come(loop, &other, SLICE("other"));
    come_to_stay(loop, guests, MANY, SLICE("many"));
    while (count_begun(guests, MANY) < MANY) /* wakes by itself */
        loop_turn(loop, true);
    see_off(loop, guests, MANY);
}

static void a_long_reply_counts_as_several(void **state)
{
    enum { TURNS = 20 };
    struct loop *loop = *state;
    size_t begun[2];
    for (size_t i = 0; i < 2; i++) {
        struct guest first;
        come(loop, &first, SLICE("other"));
        come_many(loop);
        for (size_t k = 0; k < MANY; k++)
            guests[k].bytes = i * 64 * 1024;
        turn_for(loop, TURNS);
        assert_true(first.is_ended);
        begun[i] = order;
        run_to_the_end(loop);
        assert_int_equal(order, MANY + 1);
    }
    assert_true(begun[0] >= TURNS * A_TURN_GREEDY);
    assert_true(begun[1] <= 1 + A_TURN + A_TURN_GREEDY);
}

/* Requests without an account together count as one account among the others. However many there
 * are, a probe does not wait for them. */
static void strangers_share_one_line(void **state)
{
    struct loop *loop = *state;
    struct guest first, late, probes[2];
    come(loop, &first, SLICE("other"));
    order = 0;
    for (size_t i = 0; i < MANY; i++)
        come(loop, &guests[i], SLICE(""));
    come(loop, &probes[0], SLICE(""));
    probes[0].is_probe = true;
    do
        loop_turn(loop, false);
    while (!first.is_ended || !probes[0].is_ended);
    assert_true(order <= 2 + A_TURN + 3 * A_TURN_GREEDY);
    size_t before = order;
    come(loop, &late, SLICE("other"));
    come(loop, &probes[1], SLICE(""));
    probes[1].is_probe = true;
    while (!late.is_ended || !probes[1].is_ended)
        loop_turn(loop, false);
    assert_true(order <= before + 2 + 3 * A_TURN_GREEDY);
    run_to_the_end(loop);
    assert_int_equal(order, MANY + 4);
}

/* Strangers that send many probes slow the others down only by what fits into a turn. */
static void probes_are_never_greedy(void **state)
{
    enum { TURNS = 5 };
    struct loop *loop = *state;
    struct guest first;
    order = 0;
    come(loop, &first, SLICE("other"));
    for (size_t i = 0; i < MANY; i++) {
        come(loop, &guests[i], SLICE(""));
        guests[i].is_probe = true;
    }
    turn_for(loop, TURNS);
    assert_true(order >= 1 + (TURNS - 2) * A_TURN);
    run_to_the_end(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_alone_passes),
        TEST(two_begin_in_turn),
        TEST(one_that_waits_is_cancelled),
        TEST(without_memory_all_pass),
        TEST(an_account_with_more_than_others_waits_for_its_own),
        TEST(an_account_may_have_as_many_as_the_others),
        TEST(a_guest_that_stays_long_no_longer_counts),
        TEST(a_long_reply_counts_as_several),
        TEST(strangers_share_one_line),
        TEST(probes_are_never_greedy),
    };
    return cmocka_run_group_tests_name("loop/entrance", tests, NULL, NULL);
}
