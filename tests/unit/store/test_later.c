/*
 * Statements in the background: their maximum number, when they are sent again, the results that
 * their owner gets, and what is left when the owner is freed.
 */
#include "base/clock.h"
#include "seam/seam.h"
#include "seam/table.h"
#include "store/audit.h"
#include "store/later.h"
#include "unit.h"

enum { ROOM = 3, RETRY_MS = 500 };

struct bench {
    struct loop *loop;
    struct pg_pool *pool;
    struct store_laters laters;
    size_t sent, ended, cancelled;
    size_t again; /* the number of results that are not accepted, so the statement is sent again */
};

struct note {
    struct store_later later;
    struct audit_event event;
};

static struct bench *bench_of(struct store_later *later)
{
    return CONTAINER_OF(later->laters, struct bench, laters);
}

static void send_note(struct store_later *later)
{
    struct note *note = CONTAINER_OF(later, struct note, later);
    store_audit_insert(later->laters->pool, &later->query, &later->op, &note->event);
}

static bool on_sent(struct store_later *later)
{
    struct bench *b = bench_of(later);
    b->sent++;
    if (b->again == 0)
        return false;
    b->again--;
    return true;
}

static void on_end(struct store_later *later, enum op_end end)
{
    struct bench *b = bench_of(later);
    b->ended++;
    b->cancelled += end == OP_ENDED_CANCELLED;
}

static const struct store_later_class once_class = {
    STORE_LATER(store_later_once, "note_once", struct note),
    .send = send_note,
    .on_sent = on_sent,
    .on_end = on_end,
    .failure = "a note was lost",
};
static const struct store_later_class again_class = {
    STORE_LATER(store_later_again, "note_again", struct note),
    .send = send_note,
    .on_sent = on_sent,
    .on_end = on_end,
    .retry_ms = RETRY_MS,
};
static const struct store_later_class at_once_class = {
    STORE_LATER(store_later_again, "note_at_once", struct note),
    .send = send_note,
    .on_sent = on_sent,
};

static int set_up(void **state)
{
    static struct bench bench;
    struct err err;
    seam_open(1);
    bench = (struct bench){.loop = loop_new(&err)};
    bench.pool = pg_pool_new(bench.loop, NULL, &err);
    store_laters_init(&bench.laters, bench.loop, bench.pool, ROOM);
    *state = &bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    store_laters_deinit(&b->laters);
    seam_pool_refuse(b->pool);
    seam_settle(b->loop);
    pg_pool_free(b->pool);
    seam_settle(b->loop);
    size_t left = op_count(b->loop);
    loop_free(b->loop);
    return seam_close() && left == 0 ? 0 : -1;
}

static struct note *begin(struct bench *b, const struct store_later_class *class, struct op *parent)
{
    struct note *note = store_later(&b->laters, class, parent, 0);
    if (note)
        note->event = (struct audit_event){.id = uuid_v7(), .kind = SLICE("key.created")};
    return note;
}

static void answer(struct bench *b)
{
    seam_query_done(seam_query(b->pool, 0));
    seam_settle(b->loop);
}

static void beyond_the_limit_there_is_no_room(void **state)
{
    struct bench *b = *state;
    for (size_t i = 0; i < ROOM; i++)
        assert_non_null(begin(b, &once_class, NULL));
    assert_null(begin(b, &once_class, NULL));
    assert_int_equal(seam_query_count(b->pool), 0); /* nothing is sent inside the call */
    seam_settle(b->loop);
    assert_int_equal(seam_query_count(b->pool), ROOM); /* all are sent in one turn */
    assert_null(begin(b, &once_class, NULL));
    answer(b);
    assert_int_equal(b->laters.count, ROOM - 1);
    assert_non_null(begin(b, &once_class, NULL));
    seam_settle(b->loop);
    while (b->laters.count > 0)
        answer(b);
    assert_int_equal(b->sent, ROOM + 1);
    assert_int_equal(b->ended, ROOM + 1);
    assert_int_equal(b->cancelled, 0);
    assert_int_equal(op_count(b->loop), 0);
}

static void a_failure_is_the_owner_s_to_see(void **state)
{
    struct bench *b = *state;
    (void)begin(b, &once_class, NULL);
    (void)begin(b, &once_class, NULL);
    seam_settle(b->loop);
    seam_query_fail(seam_query(b->pool, 0), ERR_TIMEOUT);
    seam_settle(b->loop);
    assert_true(b->laters.is_failing);
    assert_int_equal(b->sent, 1);
    answer(b);
    assert_false(b->laters.is_failing);
    assert_int_equal(b->ended, 2);
}

static void it_is_sent_until_its_owner_is_content(void **state)
{
    struct bench *b = *state;
    b->again = 2;
    (void)begin(b, &again_class, NULL);
    seam_settle(b->loop);
    for (size_t i = 1; i <= 2; i++) {
        seam_query_fail(seam_query(b->pool, 0), ERR_IO);
        seam_settle(b->loop);
        assert_int_equal(b->sent, i);
        assert_int_equal(b->laters.count, 1);
        seam_pass_ms(b->loop, RETRY_MS - 1);
        assert_int_equal(seam_query_count(b->pool), 0);
        seam_pass_ms(b->loop, 1);
        assert_int_equal(seam_query_count(b->pool), 1);
    }
    answer(b);
    assert_int_equal(b->laters.count, 0);
    b->again = 1;
    (void)begin(b, &at_once_class, NULL);
    seam_settle(b->loop);
    answer(b);
    assert_int_equal(seam_query_count(b->pool), 1); /* sent again without a pause */
    answer(b);
    assert_int_equal(b->laters.count, 0);
}

static void it_is_cancelled_at_every_place(void **state)
{
    struct bench *b = *state;
    b->again = 1;
    (void)begin(b, &again_class, NULL); /* pauses */
    seam_settle(b->loop);
    answer(b);
    (void)begin(b, &once_class, NULL); /* is in the database */
    seam_settle(b->loop);
    (void)begin(b, &once_class, NULL); /* is not sent */
    store_laters_cancel(&b->laters);
    assert_null(store_later(&b->laters, &once_class, NULL, 0)); /* the pool is freed next */
    seam_settle(b->loop);
    assert_int_equal(b->cancelled, 3);
    assert_int_equal(b->laters.count, 0);
    answer(b); /* no step follows */
    assert_int_equal(b->sent, 1);
    assert_int_equal(op_count(b->loop), 0);
}

static void an_owner_that_goes_hears_nothing(void **state)
{
    struct bench *b = *state;
    (void)begin(b, &once_class, NULL);
    seam_settle(b->loop);
    (void)begin(b, &again_class, NULL);
    store_laters_deinit(&b->laters);
    memset(&b->laters, 0xA5, sizeof(b->laters));
    seam_settle(b->loop);
    answer(b);
    store_laters_init(&b->laters, b->loop, b->pool, ROOM);
    assert_int_equal(b->sent + b->ended, 0);
    assert_int_equal(op_count(b->loop), 0);
}

/* ---- a parent ---- */

struct parent {
    struct op op;
    struct bench *bench;
};

static enum op_result step_begin(struct op *op)
{
    struct bench *b = CONTAINER_OF(op, struct parent, op)->bench;
    (void)begin(b, &once_class, op);
    (void)begin(b, &once_class, op);
    return OP_WAIT;
}

static const struct op_step parent_steps[] = {{"begin", step_begin, 0}};
static const struct op_class parent_class = {.name = "parent", OP_STEPS(parent_steps)};

static void a_parent_waits_for_all(void **state)
{
    struct bench *b = *state;
    struct parent parent = {.bench = b};
    op_start(&parent.op, &parent_class, b->loop, NULL, 1024);
    seam_settle(b->loop);
    answer(b);
    assert_true(op_is_active(&parent.op));
    answer(b);
    assert_false(op_is_active(&parent.op));
    assert_int_equal(op_count(b->loop), 0);
}

static void every_step_and_jump_was_taken(void **state)
{
    (void)state;
    assert_int_equal(seam_table_missing("note_once"), 0);
    assert_int_equal(seam_table_missing("note_again"), 0);
}

#define LATER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LATER_TEST(beyond_the_limit_there_is_no_room),
        LATER_TEST(a_failure_is_the_owner_s_to_see),
        LATER_TEST(it_is_sent_until_its_owner_is_content),
        LATER_TEST(it_is_cancelled_at_every_place),
        LATER_TEST(an_owner_that_goes_hears_nothing),
        LATER_TEST(a_parent_waits_for_all),
        cmocka_unit_test(every_step_and_jump_was_taken),
    };
    seam_table_watch();
    return cmocka_run_group_tests_name("store/later", tests, NULL, NULL);
}
