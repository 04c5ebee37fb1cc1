/* loop/reads: the order in which ready streams are read, and how much is read in a turn. */
#include "base/id.h"
#include "loop/internal.h"
#include "testing.h"

enum { CROWD = 60, BURN_NS = 50 * 1000, EVERY_MAX = 4 };

/* A stream that, if it continues, is ready again as soon as it was read. */
struct one {
    struct loop_reader reader;
    struct loop *loop;
    struct loop_task again;
    size_t reads, order; /* the position of the last read among all reads */
    uint64_t burn_ns;
    bool goes_on;
};

static size_t order;

static void on_again(struct loop_task *task)
{
    struct one *one = CONTAINER_OF(task, struct one, again);
    loop_reader_ready(one->loop, &one->reader);
}

static void on_turn(struct loop_reader *reader)
{
    struct one *one = CONTAINER_OF(reader, struct one, reader);
    uint64_t until_ns = clock_mono_ns() + one->burn_ns;
    one->reads++;
    one->order = ++order;
    while (clock_mono_ns() < until_ns)
        continue;
    if (one->goes_on)
        loop_task_queue_next_turn(one->loop, &one->again);
}

static struct uuid account_of(uint8_t number)
{
    struct uuid id = uuid_v7_floor(1000000);
    id.bytes[15] = number;
    return id;
}

/* account 0: a stranger. */
static void one_begin(struct one *one, struct loop *loop, enum read_class class, uint8_t account,
                      uint64_t burn_ns)
{
    *one = (struct one){.loop = loop, .burn_ns = burn_ns};
    loop_task_init(&one->again, on_again);
    loop_reader_init(&one->reader, class, on_turn);
    loop_reader_move(loop, &one->reader, account ? account_of(account) : (struct uuid){{0}}, class);
    loop_reader_ready(loop, &one->reader);
}

static void turn_for(struct loop *loop, size_t turns)
{
    for (size_t i = 0; i < turns; i++)
        loop_turn(loop, false);
}

static struct one crowd[CROWD];

static void crowd_begin(struct loop *loop, enum read_class class, uint8_t account)
{
    order = 0;
    for (size_t i = 0; i < CROWD; i++) {
        one_begin(&crowd[i], loop, class, account, BURN_NS);
        crowd[i].goes_on = true;
    }
}

static void crowd_end(struct loop *loop)
{
    for (size_t i = 0; i < CROWD; i++) {
        loop_reader_leave(loop, &crowd[i].reader);
        loop_task_cancel(&crowd[i].again);
    }
}

static size_t crowd_reads(void)
{
    size_t sum = 0;
    for (size_t i = 0; i < CROWD; i++)
        sum += crowd[i].reads;
    return sum;
}

static void apps_come_before_clients_and_discards_last(void **state)
{
    struct loop *loop = *state;
    struct one ones[READ_CLASSES];
    order = 0;
    for (size_t i = READ_CLASSES; i-- > 0;)
        one_begin(&ones[i], loop, (enum read_class)i, 0, 0);
    while (order < READ_CLASSES)
        loop_turn(loop, true);
    for (size_t i = 0; i < READ_CLASSES; i++)
        assert_int_equal(ones[i].order, i + 1);
    assert_false(loop_has_ready(loop));
}

/* However many streams an account has, a stream of another account is read every few turns, in
 * each class. */
static void no_crowd_takes_the_turns_of_others(void **state)
{
    static const struct {
        enum read_class class;
        uint8_t account;
    } crowds[] = {
        {READ_APPS, 0}, {READ_APPS, 1}, {READ_CLIENTS, 0}, {READ_CLIENTS, 1}, {READ_DISCARDED, 0},
    };
    struct loop *loop = *state;
    for (size_t i = 0; i < ARRAY_LEN(crowds); i++) {
        enum { TURNS = 100 };
        struct one quiet[2];
        crowd_begin(loop, crowds[i].class, crowds[i].account);
        one_begin(&quiet[0], loop, READ_APPS, 2, 0);
        one_begin(&quiet[1], loop, READ_CLIENTS, 2, 0);
        quiet[0].goes_on = quiet[1].goes_on = true;
        turn_for(loop, TURNS);
        for (size_t k = 0; k < 2; k++) {
            assert_true(quiet[k].reads >= TURNS / EVERY_MAX);
            loop_reader_leave(loop, &quiet[k].reader);
            loop_task_cancel(&quiet[k].again);
        }
        WAIT_UNTIL(loop, crowd_reads() >= TURNS); /* this stream continues, too */
        crowd_end(loop);
    }
}

/* Streams of one line are read in the order in which they became ready: no stream waits for a later
 * stream. */
static void one_waits_for_those_before_it_only(void **state)
{
    struct loop *loop = *state;
    struct one late;
    crowd_begin(loop, READ_CLIENTS, 0);
    turn_for(loop, 3);
    size_t before = crowd_reads();
    one_begin(&late, loop, READ_CLIENTS, 0, 0);
    while (late.reads == 0)
        loop_turn(loop, false);
    assert_in_range(late.order, before + 1, before + 2 * CROWD);
    crowd_end(loop);
}

static void what_is_thrown_away_has_little_of_a_turn(void **state)
{
    struct loop *loop = *state;
    crowd_begin(loop, READ_DISCARDED, 0);
    for (size_t turns = 1, before = 0; before < 3 * CROWD; turns++) {
        loop_turn(loop, true);
        assert_true((crowd_reads() - before) * LOOP_DISCARD_BYTES <= 16 * 1024);
        before = crowd_reads();
        assert_true(turns < 100 * CROWD); /* the loop sleeps between reads */
    }
    crowd_end(loop);
}

static void one_that_moves_or_leaves_keeps_no_line(void **state)
{
    struct loop *loop = *state;
    struct one one;
    order = 0;
    one_begin(&one, loop, READ_CLIENTS, 1, 0);
    loop_reader_move(loop, &one.reader, account_of(2), READ_DISCARDED);
    loop_reader_move(loop, &one.reader, account_of(3), READ_CLIENTS);
    loop_reader_leave(loop, &one.reader);
    loop_reader_leave(loop, &one.reader);
    assert_false(loop_has_ready(loop));
    loop_reader_ready(loop, &one.reader);
    mem_fail_at(1, SIZE_MAX); /* an account without memory waits with the strangers */
    loop_reader_move(loop, &one.reader, account_of(4), READ_CLIENTS);
    turn_for(loop, 1);
    mem_fail_at(0, 0);
    assert_int_equal(one.reads, 1);
}

/* The metrics report how long streams waited before they were read. */
static void the_longest_wait_is_reported(void **state)
{
    struct loop *loop = *state;
    struct buf out;
    buf_init(&out, 1024 * 1024);
    crowd_begin(loop, READ_CLIENTS, 0);
    turn_for(loop, CROWD);
    crowd_end(loop);
    uint64_t turns = loop->reads.turns_max[READ_KIND_STRANGER];
    assert_in_range(turns, 2, CROWD);
    assert_int_equal((uint64_t)metric_get(loop->reads.turns[READ_KIND_STRANGER]), turns);
    assert_int_equal((uint64_t)metric_get(loop->reads.turns[READ_KIND_ACCOUNT]), 0);
    assert_true(metric_get(loop->reads.waits[READ_KIND_STRANGER]) >= CROWD);
    metric_render(&out);
    assert_true(slice_find(buf_slice(&out),
                           SLICE("sluice_loop_read_wait_turns_max{of=\"apps\"} 0\n")) >= 0);
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(apps_come_before_clients_and_discards_last),
        TEST(no_crowd_takes_the_turns_of_others),
        TEST(one_waits_for_those_before_it_only),
        TEST(what_is_thrown_away_has_little_of_a_turn),
        TEST(one_that_moves_or_leaves_keeps_no_line),
        TEST(the_longest_wait_is_reported),
    };
    return cmocka_run_group_tests_name("loop/reads", tests, NULL, NULL);
}
