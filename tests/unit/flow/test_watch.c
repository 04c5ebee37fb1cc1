/*
 * Watches: notified immediately of a change by this process, and within about a second of a change
 * by another. Without watches, nothing runs.
 */
#include "flow/internal.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

static const char *conninfo;
static struct pg_bench bench;
static struct flow_service service;
static struct uuid account, flow;

struct seen {
    struct flow_watch watch;
    unsigned count;
};

static void on_change(struct flow_watch *watch)
{
    CONTAINER_OF(watch, struct seen, watch)->count++;
}

static struct seen watch_for(struct uuid id, int64_t rev)
{
    return (struct seen){
        .watch = {.account_id = account, .flow_id = id, .rev = rev, .on_change = on_change}};
}

static void poke(int64_t rev, enum flow_status status)
{
    const struct flow changed = {.account_id = account, .id = flow, .rev = rev, .status = status};
    flow_watch_notify(&service, &changed, NULL, NULL);
}

static bool is_seen(void *arg)
{
    return ((struct seen *)arg)->count > 0;
}

static void tell(const char *sql)
{
    char whole[1024], owner[UUID_TEXT_LEN + 1], id[UUID_TEXT_LEN + 1];
    uuid_format(account, owner);
    uuid_format(flow, id);
    assert_true(snprintf(whole, sizeof(whole),
                         "with k as (select '%s'::uuid as account, '%s'::uuid as flow) %s", owner,
                         id, sql) < (int)sizeof(whole));
    items_tell(conninfo, whole);
}

static void a_change_here_is_reported_at_once(void **state)
{
    struct seen one = watch_for(flow, 3), other = watch_for(flow, 4);
    struct seen foreign = watch_for(account, 0);
    (void)state;
    flow_watch_add(&service, &one.watch);
    flow_watch_add(&service, &other.watch);
    flow_watch_add(&service, &foreign.watch);
    poke(3, FLOW_RUNNING);
    assert_int_equal(one.count, 0); /* this watch has already read revision 3 */
    poke(4, FLOW_RUNNING);
    assert_int_equal(one.count, 1);
    assert_int_equal(one.watch.news_rev, 4);
    assert_int_equal(other.count, 0);
    flow_watch_remove(&one.watch);
    flow_watch_remove(&one.watch);
    poke(5, FLOW_RUNNING);
    assert_int_equal(one.count, 1);
    assert_int_equal(other.count, 1);
    assert_int_equal(foreign.count, 0);
    flow_watch_wake_all(&service);
    assert_int_equal(other.count, 2);
    assert_int_equal(foreign.count, 1);
    flow_watch_remove(&other.watch);
    flow_watch_remove(&foreign.watch);
}

static void a_watch_for_the_end_is_not_notified_of_steps(void **state)
{
    struct seen one = watch_for(flow, 3);
    (void)state;
    one.watch.is_until_settled = true;
    flow_watch_add(&service, &one.watch);
    poke(4, FLOW_RUNNING);
    assert_int_equal(one.count, 0);
    poke(5, FLOW_WAITING);
    poke(6, FLOW_COMPLETED);
    assert_int_equal(one.count, 2);
    flow_watch_wake_all(&service);
    assert_int_equal(one.count, 3);
    flow_watch_remove(&one.watch);
}

static void a_change_elsewhere_is_found(void **state)
{
    struct seen seen = watch_for(flow, 1);
    (void)state;
    flow_watch_add(&service, &seen.watch);
    tell(
        "update sluice.flow f set rev = 2 from k where f.account_id = k.account and f.id = k.flow");
    pg_bench_until_true(&bench, is_seen, &seen);
    seen.count = 0;
    seen.watch.rev = 2;
    tell(
        "update sluice.flow f set rev = 9 from k where f.account_id = k.account and f.id = k.flow");
    pg_bench_until_true(&bench, is_seen, &seen);
    flow_watch_remove(&seen.watch);
}

/* Flows that wait, fail or begin on any process, and ids that are not flows; never the same id
 * twice. */
static void an_account_is_watched_as_a_whole(void **state)
{
    struct seen seen = watch_for((struct uuid){{0}}, 0),
                stranger = watch_for((struct uuid){{0}}, 1);
    (void)state;
    stranger.watch.account_id = uuid_v7();
    assert_int_equal(flow_watch_stamp(&service, account), 0);
    flow_watch_add(&service, &seen.watch);
    flow_watch_add(&service, &stranger.watch);
    pg_bench_until_true(&bench, is_seen, &seen);
    int64_t first = seen.watch.news_rev;
    assert_true(first > 1);
    assert_int_equal(flow_watch_stamp(&service, account), first);
    struct seen same = watch_for((struct uuid){{0}}, first);
    flow_watch_add(&service, &same.watch);
    seen.watch.rev = first;
    seen.count = 0;
    tell("update sluice.flow f set rev = rev + 1 from k where f.account_id = k.account and f.id = "
         "k.flow");
    pg_bench_until_true(&bench, is_seen, &seen);
    assert_int_not_equal(seen.watch.news_rev, first);
    assert_int_equal(same.count, 1);
    same.watch.rev = seen.watch.rev = seen.watch.news_rev;
    seen.count = same.count = 0;
    flow_watch_touch(&service, account);
    pg_bench_until_true(&bench, is_seen, &seen);
    assert_true(seen.watch.news_rev > (int64_t)1 << 54);
    assert_int_equal(same.count, 1);
    assert_int_equal(stranger.count, 0); /* the watch knows that there is no such flow */
    flow_watch_wake_all(&service);
    assert_int_equal(same.count, 2);
    assert_int_equal(stranger.count, 1);
    flow_watch_remove(&seen.watch);
    flow_watch_remove(&same.watch);
    flow_watch_remove(&stranger.watch);
    flow_watch_touch(&service, uuid_v7());
}

static void a_deleted_flow_is_reported_too(void **state)
{
    struct seen seen = watch_for(uuid_v7(), 1);
    (void)state;
    flow_watch_add(&service, &seen.watch);
    pg_bench_until_true(&bench, is_seen, &seen);
    flow_watch_remove(&seen.watch);
}

/* This account is the first to watch an id that belongs to a flow of another account: the watch
 * ends with "not found", gets no changes, and does not block the owner's watch. */
static void another_account_watches_nothing(void **state)
{
    struct seen foreign = watch_for(flow, 0), ours = watch_for(flow, 9);
    (void)state;
    tell(
        "update sluice.flow f set rev = 9 from k where f.account_id = k.account and f.id = k.flow");
    foreign.watch.account_id = uuid_v7();
    foreign.watch.rev = 1;
    flow_watch_add(&service, &foreign.watch);
    flow_watch_add(&service, &ours.watch);
    poke(10, FLOW_WAITING);
    assert_int_equal(foreign.count, 0);
    assert_int_equal(ours.count, 1);
    ours.count = 0;
    ours.watch.rev = 9;
    pg_bench_until_true(&bench, is_seen, &foreign); /* a poll, which also covers the owner's
                                                     * watch */
    assert_int_equal(ours.count, 0);
    flow_watch_remove(&foreign.watch);
    flow_watch_remove(&ours.watch);
}

static bool is_idle(void *arg)
{
    (void)arg;
    return op_count(bench.loop) == *(size_t *)arg;
}

/* Everything that a thousand watches leave is freed after the next poll. */
static void many_watches(void **state)
{
    enum { MANY = 2500 };
    struct seen *seen = mem_calloc(MANY, sizeof(*seen));
    size_t ops = op_count(bench.loop);
    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        seen[i] = watch_for(uuid_v7(), 1);
        flow_watch_add(&service, &seen[i].watch);
    }
    /* The last flow waits for two whole polls. */
    pg_bench_until_true(&bench, is_seen, &seen[MANY - 1]);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(seen[i].count > 0);
        flow_watch_remove(&seen[i].watch);
    }
    pg_bench_until_true(&bench, is_idle, &ops);
    mem_free(seen);
}

static int set_up(void **state)
{
    (void)state;
    conninfo = pg_cluster_database(true);
    account = uuid_v7();
    flow = uuid_v7();
    tell("insert into sluice.flow select account, flow, 't', gen_random_uuid(), 'agent', "
         "'completed', 1, gen_random_uuid(), null, 0, 1, true, 0, null, null, null, now(), now(), "
         "now() from k");
    return 0;
}

static int open_it(void **state)
{
    struct pg_pool_config config = {.conninfo = conninfo};
    (void)state;
    pg_bench_open(&bench, &config, true);
    service = (struct flow_service){.config = {.loop = bench.loop, .pool = bench.pool}};
    service.watches = flow_watches_new(&service);
    flow_view_cache_init(&service.views, bench.loop);
    return service.watches ? 0 : -1;
}

static int close_it(void **state)
{
    (void)state;
    flow_watches_free(service.watches);
    cache_deinit(&service.views);
    pg_bench_close(&bench);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_change_here_is_reported_at_once, open_it, close_it),
        cmocka_unit_test_setup_teardown(a_watch_for_the_end_is_not_notified_of_steps, open_it,
                                        close_it),
        cmocka_unit_test_setup_teardown(a_change_elsewhere_is_found, open_it, close_it),
        cmocka_unit_test_setup_teardown(an_account_is_watched_as_a_whole, open_it, close_it),
        cmocka_unit_test_setup_teardown(a_deleted_flow_is_reported_too, open_it, close_it),
        cmocka_unit_test_setup_teardown(another_account_watches_nothing, open_it, close_it),
        cmocka_unit_test_setup_teardown(many_watches, open_it, close_it),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
