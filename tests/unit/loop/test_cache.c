/*
 * The cache: one load for all waiting requests, how long its result is valid, what is evicted
 * first, and that no request after a change gets a value from before the change.
 */
#include "loop/cache.h"

#include "base/mem.h"
#include "testing.h"

enum { ASKS = 8, GOOD_MS = 60000 };

/* An entry holds the number that the source had when the load was sent. */
struct number {
    struct cache_entry cached;
    int *block; /* on the heap, so that a leak is found */
};

struct number_load {
    struct cache_load under;
    struct op_timer timer;
    int sent;
};

static struct number_load *held[ASKS]; /* loads that wait for let_go */
static size_t held_count, loads, drops;
static int source;
static uint64_t good_ms;
static size_t number_bytes;
static bool is_held;

static struct ask {
    struct op op;
    struct cache *cache;
    const char *key;
    struct cache_wait wait;
    int found; /* 0: not answered */
    bool was_cached, is_done;
} asks[ASKS];

/* ---- the cache ---- */

static void load_number(struct cache_load *under)
{
    struct number_load *load = CONTAINER_OF(under, struct number_load, under);
    loads++;
    load->sent = source;
    if (!is_held) {
        op_sleep(&under->op, &load->timer, 0, "the source");
        return;
    }
    op_hold(&under->op, "the test");
    held[held_count++] = load;
}

static uint64_t number_loaded(struct cache_load *under)
{
    struct number *number = CONTAINER_OF(under->entry, struct number, cached);
    number->block = mem_alloc(sizeof(*number->block));
    assert_non_null(number->block);
    *number->block = CONTAINER_OF(under, struct number_load, under)->sent;
    under->entry->bytes = number_bytes;
    return good_ms;
}

static void answer_ask(struct cache_wait *wait, const struct cache_entry *cached)
{
    CONTAINER_OF(wait, struct ask, wait)->found =
        *CONTAINER_OF(cached, const struct number, cached)->block;
}

static void drop_number(struct cache_entry *cached)
{
    drops++;
    mem_free(CONTAINER_OF(cached, struct number, cached)->block);
}

static const struct cache_class number_class = {
    CACHE_LOAD("number", struct number, struct number_load),
    .arena_bytes_max = 1024,
    .tail_bytes = 1,
    .bytes_max = 10,
    .load = load_number,
    .loaded = number_loaded,
    .answer = answer_ask,
    .drop = drop_number,
};

static void set_up(struct cache *cache, struct loop *loop, size_t count_max)
{
    cache_init(cache, &number_class, loop, count_max);
    memset(asks, 0, sizeof(asks));
    held_count = loads = drops = number_bytes = 0;
    source = 1;
    good_ms = GOOD_MS;
    is_held = false;
}

static void let_go(size_t index)
{
    op_release(&held[index]->under.op);
}

/* ---- look-ups ---- */

static enum op_result step_ask(struct op *op)
{
    struct ask *ask = CONTAINER_OF(op, struct ask, op);
    const struct cache_entry *cached = cache_find(ask->cache, slice_cstr(ask->key));
    ask->was_cached = cached != NULL;
    if (cached) {
        answer_ask(&ask->wait, cached);
        return OP_NEXT;
    }
    assert_true(cache_await(ask->cache, slice_cstr(ask->key), &ask->wait, op));
    return OP_WAIT;
}

static void on_end(struct op *op, enum op_end end)
{
    (void)end;
    CONTAINER_OF(op, struct ask, op)->is_done = true;
}

static const struct op_step ask_steps[] = {{"ask", step_ask, 0}};
static const struct op_class ask_class = {.name = "ask", OP_STEPS(ask_steps), .on_end = on_end};

static void start(struct cache *cache, size_t index, const char *key)
{
    asks[index] = (struct ask){.cache = cache, .key = key};
    op_start(&asks[index].op, &ask_class, cache->loop, NULL, 1024);
}

/* Returns the result. */
static int ask(struct cache *cache, size_t index, const char *key)
{
    start(cache, index, key);
    WAIT_UNTIL(cache->loop, asks[index].is_done);
    return asks[index].found;
}

static void start_held(struct cache *cache, size_t index, const char *key)
{
    is_held = true;
    start(cache, index, key);
    WAIT_UNTIL(cache->loop, asks[index].op.holds > 0 && held_count > 0);
}

static void tear_down(struct cache *cache)
{
    struct loop *loop = cache->loop;
    cache_deinit(cache);
    WAIT_UNTIL(loop, op_count(loop) == 0);
}

/* ---- the tests ---- */

static void all_that_ask_share_a_load(void **state)
{
    struct cache cache;
    set_up(&cache, *state, 8);
    start_held(&cache, 0, "a1");
    for (size_t i = 1; i < ASKS; i++)
        start(&cache, i, "a1");
    WAIT_UNTIL(cache.loop, asks[ASKS - 1].op.holds > 0);
    op_cancel(&asks[3].op);
    WAIT_UNTIL(cache.loop, asks[3].is_done);
    let_go(0);
    for (size_t i = 0; i < ASKS; i++) {
        WAIT_UNTIL(cache.loop, asks[i].is_done);
        assert_int_equal(asks[i].found, i == 3 ? 0 : 1);
    }
    assert_int_equal(loads, 1);
    source = 2;
    assert_int_equal(ask(&cache, 0, "a1"), 1);
    assert_true(asks[0].was_cached);
    tear_down(&cache);
    assert_int_equal(drops, 1);
}

static void a_time_that_is_over_needs_a_load(void **state)
{
    struct cache cache;
    set_up(&cache, *state, 8);
    good_ms = 0; /* a failure answers the requests that wait for it, and is not cached */
    assert_int_equal(ask(&cache, 0, "a1"), 1);
    assert_null(cache_peek(&cache, SLICE("a1")));
    good_ms = 1;
    assert_int_equal(ask(&cache, 0, "a1"), 1);
    WAIT_UNTIL(cache.loop, !cache_find(&cache, SLICE("a1")));
    assert_non_null(cache_peek(&cache, SLICE("a1")));
    source = 2;
    assert_int_equal(ask(&cache, 0, "a1"), 2);
    assert_false(asks[0].was_cached);
    assert_int_equal(cache.table.count, 1);
    tear_down(&cache);
}

static void the_least_recently_used_goes(void **state)
{
    struct cache cache;
    set_up(&cache, *state, 2);
    (void)ask(&cache, 0, "a1");
    (void)ask(&cache, 0, "b1");
    (void)ask(&cache, 0, "a1");
    (void)ask(&cache, 0, "c1");
    assert_int_equal(cache.table.count, 2);
    assert_non_null(cache_find(&cache, SLICE("a1")));
    assert_null(cache_peek(&cache, SLICE("b1")));
    assert_non_null(cache_find(&cache, SLICE("c1")));
    /* a load in flight is evicted, too, but still answers the requests that wait for it */
    start_held(&cache, 0, "d1");
    is_held = false;
    (void)ask(&cache, 1, "e1");
    (void)ask(&cache, 1, "f1");
    assert_null(cache_peek(&cache, SLICE("d1")));
    let_go(0);
    WAIT_UNTIL(cache.loop, asks[0].is_done);
    assert_int_equal(asks[0].found, 1);
    assert_null(cache_peek(&cache, SLICE("d1")));
    tear_down(&cache);
    assert_int_equal(drops, loads);
}

static void put(struct cache *cache, const char *key, int value, size_t bytes)
{
    struct cache_entry *entry = cache_put(cache, slice_cstr(key), bytes, GOOD_MS);
    assert_non_null(entry);
    struct number *number = CONTAINER_OF(entry, struct number, cached);
    number->block = mem_alloc(sizeof(*number->block));
    assert_non_null(number->block);
    *number->block = value;
}

/* What is put replaces the entry that was there, and a load under way answers those that wait. */
static void what_is_put_needs_no_load(void **state)
{
    struct cache cache;
    set_up(&cache, *state, 2);
    put(&cache, "a1", 7, 0);
    assert_int_equal(ask(&cache, 0, "a1"), 7);
    assert_int_equal(loads, 0);
    start_held(&cache, 0, "b1");
    put(&cache, "b1", 8, 0);
    let_go(0);
    WAIT_UNTIL(cache.loop, asks[0].is_done);
    assert_int_equal(asks[0].found, 1);
    assert_int_equal(ask(&cache, 1, "b1"), 8);
    put(&cache, "b1", 9, 0);
    assert_int_equal(ask(&cache, 1, "b1"), 9);
    put(&cache, "c1", 10, 0);
    assert_null(cache_peek(&cache, SLICE("a1")));
    mem_fail_at(1, 1);
    assert_null(cache_put(&cache, SLICE("b1"), 0, GOOD_MS));
    mem_fail_at(0, 0);
    assert_null(cache_peek(&cache, SLICE("b1")));
    tear_down(&cache);
    assert_int_equal(drops, 5);
}

/* Room is made by forgetting the least recently used entries, for what is put and for what was
 * loaded. */
static void all_together_have_at_most_bytes_max(void **state)
{
    struct cache cache;
    set_up(&cache, *state, 8);
    put(&cache, "a1", 1, 4);
    put(&cache, "b1", 2, 4);
    (void)cache_find(&cache, SLICE("a1"));
    put(&cache, "c1", 3, 6);
    assert_int_equal(cache.bytes, 10);
    assert_null(cache_peek(&cache, SLICE("b1")));
    number_bytes = 4;
    assert_int_equal(ask(&cache, 0, "d1"), 1);
    assert_int_equal(cache.bytes, 10);
    assert_null(cache_peek(&cache, SLICE("a1")));
    assert_non_null(cache_peek(&cache, SLICE("c1")));
    number_bytes = 11; /* alone too large: it answers, and is not kept */
    assert_int_equal(ask(&cache, 0, "e1"), 1);
    assert_int_equal(cache.table.count, 0);
    assert_int_equal(cache.bytes, 0);
    number_bytes = 4;
    good_ms = 0;
    assert_int_equal(ask(&cache, 0, "f1"), 1);
    assert_int_equal(cache.bytes, 0);
    tear_down(&cache);
    assert_int_equal(drops, 6);
}

static bool is_of_a(const struct cache_entry *entry, const void *data)
{
    assert_ptr_equal(data, asks);
    return entry->key.ptr[0] == 'a';
}

/* Entries are forgotten one by one, by group, and all together. */
static void what_is_forgotten_is_loaded_again(void **state)
{
    struct cache cache;
    set_up(&cache, *state, 8);
    (void)ask(&cache, 0, "a1");
    (void)ask(&cache, 0, "a2");
    (void)ask(&cache, 0, "b1");
    source = 2;
    cache_forget_group(&cache, SLICE("a"));
    assert_int_equal(ask(&cache, 0, "a1"), 2);
    assert_int_equal(ask(&cache, 0, "a2"), 2);
    assert_int_equal(ask(&cache, 0, "b1"), 1);
    source = 3;
    cache_forget(&cache, cache_peek(&cache, SLICE("b1")));
    assert_int_equal(ask(&cache, 0, "b1"), 3);
    source = 4;
    cache_forget_if(&cache, is_of_a, asks);
    assert_int_equal(ask(&cache, 0, "a1"), 4);
    assert_int_equal(ask(&cache, 0, "a2"), 4);
    assert_int_equal(ask(&cache, 0, "b1"), 3);
    cache_forget_if(&cache, NULL, NULL);
    assert_int_equal(cache.table.count, 0);
    tear_down(&cache);
    assert_int_equal(drops, loads);
}

/* A load from before a change answers only requests from before the change, whichever of the two
 * loads ends first. */
static void what_is_asked_after_a_change_is_loaded_after_it(void **state)
{
    for (int is_late_first = 0; is_late_first < 2; is_late_first++) {
        struct cache cache;
        set_up(&cache, *state, 8);
        start_held(&cache, 0, "a1");
        source = 2;
        cache_forget_group(&cache, SLICE("a"));
        start(&cache, 1, "a1");
        WAIT_UNTIL(cache.loop, held_count == 2);
        let_go(is_late_first ? 1 : 0);
        WAIT_UNTIL(cache.loop, asks[is_late_first].is_done);
        let_go(is_late_first ? 0 : 1);
        WAIT_UNTIL(cache.loop, asks[0].is_done && asks[1].is_done);
        assert_int_equal(asks[0].found, 1);
        assert_int_equal(asks[1].found, 2);
        assert_int_equal(ask(&cache, 2, "a1"), 2);
        assert_true(asks[2].was_cached);
        tear_down(&cache);
        assert_int_equal(drops, 2);
    }
}

/* Loads under way outlive the cache, and nothing waits for a load that only fills it. */
static void a_cache_goes_while_it_loads(void **state)
{
    struct cache cache;
    set_up(&cache, *state, 8);
    is_held = true;
    assert_true(cache_await(&cache, SLICE("a1"), NULL, NULL));
    assert_true(cache_await(&cache, SLICE("a1"), NULL, NULL));
    WAIT_UNTIL(cache.loop, held_count == 1);
    cache_deinit(&cache);
    memset(&cache, 0xff, sizeof(cache));
    let_go(0);
    WAIT_UNTIL(*state, op_count(*state) == 0);
    assert_int_equal(drops, 1);
}

/* The account that pays for the first wait pays for the load, even if that wait ends first. */
static void a_load_has_the_account_of_its_wait(void **state)
{
    struct cache cache;
    char account[] = "of the wait";
    set_up(&cache, *state, 8);
    is_held = true;
    start(&cache, 0, "a1");
    asks[0].op.account_id = slice_cstr(account);
    WAIT_UNTIL(cache.loop, held_count == 1);
    op_cancel(&asks[0].op);
    WAIT_UNTIL(cache.loop, asks[0].is_done);
    memset(account, 'x', sizeof(account) - 1);
    assert_true(slice_eq_cstr(held[0]->under.op.account_id, "of the wait"));
    let_go(0);
    assert_int_equal(ask(&cache, 1, "a1"), 1);
    tear_down(&cache);
}

static void without_memory_nothing_is_kept(void **state)
{
    struct cache cache;
    set_up(&cache, *state, 8);
    for (uint64_t at = 1; at <= 3; at++) { /* the entry, its load, the table */
        mem_fail_at(at, 1);
        assert_false(cache_await(&cache, SLICE("a1"), NULL, NULL));
        mem_fail_at(0, 0);
        assert_null(cache_peek(&cache, SLICE("a1")));
    }
    assert_int_equal(ask(&cache, 0, "a1"), 1);
    tear_down(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_that_ask_share_a_load),
        TEST(a_time_that_is_over_needs_a_load),
        TEST(the_least_recently_used_goes),
        TEST(what_is_put_needs_no_load),
        TEST(all_together_have_at_most_bytes_max),
        TEST(what_is_forgotten_is_loaded_again),
        TEST(what_is_asked_after_a_change_is_loaded_after_it),
        TEST(a_cache_goes_while_it_loads),
        TEST(a_load_has_the_account_of_its_wait),
        TEST(without_memory_nothing_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
