/* The payloads of hints. A hint is sent together with its transaction. */
#include "pg/notify.h"
#include "store/change.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "unit.h"

static const char *conninfo;

static void test_payloads(void **state)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "x",
                                      "01900000-0000-7000-8000-000000000000 ",
                                      " 01900000-0000-7000-8000-000000000000",
                                      "01900000-0000-7000-8000-00000000000g",
                                      "01900000-0000-7000-8000-0000000000001"};
    char text[STORE_CHANGE_TEXT_MAX + 1], name[STORE_CHANGE_INTEGRATION_MAX + 1];
    struct uuid account = uuid_v7(), got;
    slice integration;
    (void)state;
    assert_true(
        store_change_parse(store_change_format(account, SLICE_NONE, text), &got, &integration));
    assert_true(uuid_eq(got, account) && !integration.ptr);
    memset(name, 'x', sizeof(name));
    for (size_t len = 1; len <= STORE_CHANGE_INTEGRATION_MAX; len++) {
        slice payload = store_change_format(account, slice_of(name, len), text);
        assert_true(payload.len <= STORE_CHANGE_TEXT_MAX);
        assert_true(store_change_parse(payload, &got, &integration));
        assert_true(uuid_eq(got, account) && slice_eq(integration, slice_of(name, len)));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(store_change_parse(slice_cstr(bad[i]), &got, &integration));
}

static void test_user_payloads(void **state)
{
    static const char *const bad[] = {
        "",
        "user",
        "user ",
        "user x x x",
        "user 01900000-0000-7000-8000-000000000000",
        "user 01900000-0000-7000-8000-000000000000 01900000-0000-7000-8000-000000000001",
        "user 01900000-0000-7000-8000-000000000000 01900000-0000-7000-8000-000000000001 ",
        "user 01900000-0000-7000-8000-000000000000 x a",
        "01900000-0000-7000-8000-000000000000 gmail"};
    char text[STORE_CHANGE_USER_MAX + 1], name[ACCOUNT_USER_ID_MAX];
    struct account_user user = {.account_id = uuid_v7(), .user_id = uuid_v7()}, got;
    struct uuid account;
    slice integration;
    (void)state;
    memset(name, '~', sizeof(name));
    for (size_t len = 1; len <= sizeof(name); len++) {
        user.external_id = slice_of(name, len);
        slice payload = store_change_user_format(&user, text);
        assert_true(payload.len <= STORE_CHANGE_USER_MAX);
        assert_true(store_change_user_parse(payload, &got));
        assert_true(uuid_eq(got.account_id, user.account_id) && uuid_eq(got.user_id, user.user_id));
        assert_true(slice_eq(got.external_id, user.external_id));
        assert_false(store_change_parse(payload, &account, &integration)); /* versions before */
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(store_change_user_parse(slice_cstr(bad[i]), &got));
}

struct heard {
    struct uuid account;
    size_t count;
    bool is_listening, is_told;
};

static void on_notify(void *owner, slice payload)
{
    struct heard *heard = owner;
    slice integration;
    heard->is_listening = true;
    if (!payload.ptr)
        return;
    heard->count++;
    heard->is_told = store_change_parse(payload, &heard->account, &integration);
}

static void test_only_a_commit_notifies(void **state)
{
    struct pg_bench bench;
    struct heard heard = {.count = 0};
    struct err err;
    struct uuid undone = uuid_v7(), done = uuid_v7();
    (void)state;
    struct pg_pool_config pool = {.conninfo = conninfo};
    pg_bench_open(&bench, &pool, true);
    struct pg_notify_config config = {.conninfo = conninfo,
                                      .channel = STORE_CHANGE_CHANNEL,
                                      .dns = bench.dns,
                                      .on_notify = on_notify,
                                      .owner = &heard};
    struct pg_notify *notify = pg_notify_new(bench.loop, &config, &err);
    assert_non_null(notify);
    pg_bench_until(&bench, &heard.is_listening);
    struct pg_sync *sync = pg_sync_open(conninfo, &err);
    assert_non_null(sync);
    assert_int_equal(pg_sync_run(sync, "begin", &err), OK);
    assert_int_equal(store_change_notify_sync(sync, undone, &err), OK);
    assert_int_equal(pg_sync_run(sync, "rollback", &err), OK);
    assert_int_equal(store_change_notify_sync(sync, done, &err), OK);
    pg_bench_until(&bench, &heard.is_told);
    assert_true(uuid_eq(heard.account, done));
    assert_int_equal(heard.count, 1);
    pg_sync_close(sync);
    pg_notify_free(notify);
    pg_bench_close(&bench);
}

static int set_up(void **state)
{
    (void)state;
    conninfo = pg_cluster_database(true);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_payloads),
        cmocka_unit_test(test_user_payloads),
        cmocka_unit_test(test_only_a_commit_notifies),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
