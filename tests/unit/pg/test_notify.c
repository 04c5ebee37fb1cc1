/* NOTIFY between two programs, and the effect of a lost connection. */
#include "pg/notify.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

static const char *conninfo;
static struct pg_bench bench;

struct ear {
    struct pg_notify *notify;
    size_t starts, count;
    char last[PG_NOTIFY_BYTES_MAX + 1];
};

static void on_notify(void *owner, slice payload)
{
    struct ear *ear = owner;
    if (!payload.ptr) {
        ear->starts++;
        return;
    }
    ear->count++;
    assert_true(payload.len <= PG_NOTIFY_BYTES_MAX);
    memcpy(ear->last, payload.ptr, payload.len);
    ear->last[payload.len] = '\0';
}

static bool has_started(void *arg)
{
    return ((struct ear *)arg)->starts > 0;
}

static void open_ear(struct ear *ear, const char *channel)
{
    struct err err;
    struct pg_notify_config config = {.conninfo = conninfo,
                                      .channel = channel,
                                      .dns = bench.dns,
                                      .on_notify = on_notify,
                                      .owner = ear};
    *ear = (struct ear){.notify = pg_notify_new(bench.loop, &config, &err)};
    assert_non_null(ear->notify);
    pg_bench_until_true(&bench, has_started, ear);
}

static size_t wanted;

static bool has_wanted(void *arg)
{
    return ((struct ear *)arg)->count >= wanted;
}

static void test_heard_by_all_and_coalesced(void **state)
{
    struct ear one, two, other;
    char large[PG_NOTIFY_BYTES_MAX];
    (void)state;
    open_ear(&one, "sluice");
    open_ear(&two, "sluice");
    open_ear(&other, "other");
    pg_notify_send(one.notify, SLICE("key:1"));
    pg_notify_send(one.notify, SLICE("key:1"));
    pg_notify_send(one.notify, SLICE("key:2"));
    wanted = 2;
    pg_bench_until_true(&bench, has_wanted, &one);
    pg_bench_until_true(&bench, has_wanted, &two);
    assert_string_equal(two.last, "key:2");
    assert_int_equal(one.count, 2);             /* the duplicate was not sent */
    pg_notify_send(two.notify, SLICE("key:1")); /* a later one is a new notification */
    wanted = 3;
    pg_bench_until_true(&bench, has_wanted, &one);
    memset(large, 'x', sizeof(large));
    pg_notify_send(two.notify, slice_of(large, sizeof(large)));
    wanted = 4;
    pg_bench_until_true(&bench, has_wanted, &one);
    assert_int_equal(strlen(one.last), PG_NOTIFY_BYTES_MAX);
    assert_int_equal(other.count, 0);
    pg_notify_free(one.notify);
    pg_notify_free(two.notify);
    pg_notify_free(other.notify);
}

static bool has_restarted(void *arg)
{
    return ((struct ear *)arg)->starts > 1;
}

static void test_a_reconnect_is_reported(void **state)
{
    struct ear ear;
    (void)state;
    open_ear(&ear, "sluice");
    items_ask(conninfo, "select count(pg_terminate_backend(pid)) from pg_stat_activity "
                        "where query like 'listen%' and datname = current_database()");
    pg_notify_send(ear.notify, SLICE("while away")); /* words: ok */
    pg_bench_until_true(&bench, has_restarted, &ear);
    pg_notify_send(ear.notify, SLICE("back"));
    wanted = 1;
    pg_bench_until_true(&bench, has_wanted, &ear);
    pg_notify_free(ear.notify);
}

static void test_overflow_is_dropped(void **state)
{
    struct ear ear;
    char text[20];
    (void)state;
    open_ear(&ear, "sluice");
    for (int i = 0; i < PG_NOTIFY_QUEUE_MAX + 50; i++) {
        snprintf(text, sizeof(text), "n%d", i);
        pg_notify_send(ear.notify, slice_cstr(text));
    }
    wanted = PG_NOTIFY_QUEUE_MAX;
    pg_bench_until_true(&bench, has_wanted, &ear);
    snprintf(text, sizeof(text), "n%d", PG_NOTIFY_QUEUE_MAX - 1);
    assert_string_equal(ear.last, text);
    pg_notify_free(ear.notify);
}

static int set_up(void **state)
{
    struct pg_pool_config config = {.queue_timeout_ms = 30000};
    (void)state;
    conninfo = config.conninfo = pg_cluster_database(false);
    pg_bench_open(&bench, &config, true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pg_bench_close(&bench);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heard_by_all_and_coalesced),
        cmocka_unit_test(test_a_reconnect_is_reported),
        cmocka_unit_test(test_overflow_is_dropped),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, tear_down));
}
