/* Events to deliver: claims and ends, their order, what is sent again, lists, and the limit of an
 * account. Rows are inserted directly. */
#include "base/clock.h"
#include "store/delivery.h"
#include "store/delivery_list.h"
#include "store/quota.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "support/rows.h"
#include "unit.h"

#define ENDPOINT(n) "00000000-0000-4000-8000-00000000000" #n
#define PENDING     "'pending', 0, now(), null"
#define DELIVERED   "'delivered', 1, null, now()"
#define FAILED      "'failed', 10, null, now()"

static const char *conninfo;
static struct pg_bench bench;
static struct pg_call call;
static struct uuid account, user, webhook;
static struct pg_sync *sync;

static struct uuid event_of(unsigned n)
{
    struct uuid id = {{[6] = 0x70, [8] = 0x80, [4] = (uint8_t)(n >> 8), [5] = (uint8_t)n}};
    return id;
}

/* Inserts the events with these numbers, all of one object if `object` is not 0, with the numbers
 * as its revisions. */
static void add(const struct uuid *owner, const char *endpoint, unsigned from, unsigned to,
                unsigned object, const char *state)
{
    char id[UUID_TEXT_LEN + 1], parent[UUID_TEXT_LEN + 1];
    uuid_format(*owner, id);
    uuid_format(account, parent);
    items_tellf(
        conninfo,
        "insert into sluice.delivery (account_id, parent_id, event_id, webhook_id, kind, object, "
        "rev, at, data, status, attempt, due_at, ended_at) select '%s', %s%s%s, "
        "(left(lpad(to_hex(n), 12, '0'), 8) || '-' || right(lpad(to_hex(n), 12, '0'), 4) || "
        "'-7000-8000-000000000000')::uuid, '%s', 'flow.failed', case when %u > 0 then "
        "lpad('%u', 32, '0')::uuid else gen_random_uuid() end, n, now(), '{\"n\":1}', %s "
        "from generate_series(%u, %u) n",
        id, owner == &user ? "'" : "", owner == &user ? parent : "null", owner == &user ? "'" : "",
        endpoint, object, object, state, from, to);
}

static int64_t count(const char *where)
{
    char sql[400];
    (void)snprintf(sql, sizeof(sql), "select count(*) from sluice.delivery where %s", where);
    return items_ask(conninfo, sql);
}

static int run(void (*start)(struct pg_call *at), void *arg)
{
    return pg_call_run(&bench, &call, start, arg);
}

/* ---- claims and ends ---- */

static void start_claim(struct pg_call *at)
{
    store_delivery_claim(bench.pool, &at->query, &at->op, at->arg);
}

static void start_end(struct pg_call *at)
{
    store_delivery_end(bench.pool, &at->query, &at->op, at->arg);
}

/* Returns ERR_NOTFOUND, ERR_BUSY if the row was put off, or OK. */
static int claim(unsigned n, int64_t attempt, bool is_full, bool is_next)
{
    struct delivery delivery;
    struct webhook of;
    bool is_claimed;
    struct delivery_claim in = {
        .ref = {.account_id = account, .id = event_of(n), .webhook_id = webhook, .rev = attempt},
        .is_full = is_full,
        .is_next = is_next,
        .timeout_ms = 15000};
    assert_int_equal(run(start_claim, &in), OK);
    int status = store_delivery_claim_result(&call.query, &delivery, &of, &is_claimed);
    if (status == OK) {
        assert_true(uuid_eq(delivery.event_id, event_of(n)) && delivery.rev == n);
        assert_int_equal(delivery.attempt, attempt + is_claimed);
        assert_true(uuid_eq(of.id, webhook) && slice_eq(of.url, SLICE("https://example.com/1")));
        assert_true(slice_eq(delivery.data, SLICE("{\"n\":1}")));
    }
    pg_call_end(&call);
    return status == OK && !is_claimed ? ERR_BUSY : status;
}

/* Returns the number of the object's next event; 0: there is none; -1: the attempt is not the
 * row's. */
static int end(unsigned n, int64_t attempt, enum delivery_status status, bool is_uncounted)
{
    struct due_ref next;
    struct delivery_end in = {.account_id = account,
                              .event_id = event_of(n),
                              .webhook_id = webhook,
                              .attempt = attempt,
                              .status = status,
                              .delay_ms = 3600 * 1000,
                              .code = 500,
                              .problem = SLICE("busy"),
                              .is_uncounted = is_uncounted};
    assert_int_equal(run(start_end, &in), OK);
    int found = store_delivery_end_result(&call.query, &next);
    pg_call_end(&call);
    return found == ERR_NOTFOUND ? -1 : next.id.bytes[4] << 8 | next.id.bytes[5];
}

static void test_a_claim_is_fenced(void **state)
{
    (void)state;
    add(&account, ENDPOINT(1), 1, 1, 0, PENDING);
    assert_int_equal(claim(1, 1, false, false), ERR_NOTFOUND); /* other attempts */
    assert_int_equal(claim(1, 0, false, false), OK);
    assert_int_equal(claim(1, 0, false, false), ERR_NOTFOUND);
    assert_int_equal(claim(1, 1, false, false), ERR_NOTFOUND); /* it is being sent */
    assert_int_equal(count("due_at between now() + interval '25 seconds' and now() + interval '30 "
                           "seconds' and attempt = 1"),
                     1);
    items_tellf(conninfo, "update sluice.delivery set due_at = now()"); /* its process has died */
    assert_int_equal(claim(1, 1, false, false), OK);
    assert_int_equal(end(1, 1, DELIVERY_DELIVERED, false), -1); /* the former one's late end */
    assert_int_equal(end(1, 2, DELIVERY_PENDING, true), 0);
    assert_int_equal(count("attempt = 1 and due_at > now() + interval '59 minutes' and code = 500 "
                           "and problem = 'busy' and ended_at is null"),
                     1);
    items_tellf(conninfo, "update sluice.delivery set due_at = now()");
    assert_int_equal(claim(1, 1, false, false), OK);
    assert_int_equal(end(1, 2, DELIVERY_FAILED, false), 0);
    assert_int_equal(end(1, 2, DELIVERY_DELIVERED, false), -1);
    assert_int_equal(claim(1, 2, false, true), ERR_NOTFOUND);
    assert_int_equal(count("status = 'failed' and due_at is null and ended_at <= now()"), 1);
}

static void test_what_is_put_off(void **state)
{
    (void)state;
    add(&account, ENDPOINT(1), 1, 2, 7, PENDING);
    assert_int_equal(claim(2, 0, false, false), ERR_BUSY); /* 1 comes first */
    assert_int_equal(claim(1, 0, true, false), ERR_BUSY);  /* no room */
    assert_int_equal(count("attempt = 0 and due_at > now() + interval '4 seconds' and due_at < "
                           "now() + interval '20 seconds'"),
                     2);
    items_tellf(conninfo, "update sluice.delivery set due_at = now()");
    items_tellf(conninfo, "update sluice.webhook set paused_until = now() + interval '10 minutes'");
    assert_int_equal(claim(1, 0, false, false), ERR_BUSY);
    assert_int_equal(count("due_at > now() + interval '10 minutes'"), 1);
    items_tellf(conninfo, "update sluice.webhook set paused_until = null");
    assert_int_equal(claim(1, 0, false, false), ERR_NOTFOUND); /* it is not due */
    assert_int_equal(claim(1, 0, false, true), OK);            /* unless it is the next one */
    items_tellf(conninfo,
                "update sluice.delivery set due_at = now() + interval '1 hour' where rev = 2");
    assert_int_equal(end(1, 1, DELIVERY_PENDING, false), 0);
    items_tellf(conninfo, "update sluice.delivery set due_at = now() where rev = 1");
    assert_int_equal(claim(1, 1, false, false), OK);
    assert_int_equal(end(1, 2, DELIVERY_DELIVERED, false), 2);
    assert_int_equal(count("rev = 2 and due_at <= now()"), 1);
    assert_int_equal(claim(2, 0, false, true), OK);
    assert_int_equal(end(2, 1, DELIVERY_DELIVERED, false), 0);
}

/* ---- sending again ---- */

static void start_replays(struct pg_call *at)
{
    store_delivery_replays(bench.pool, &at->query, &at->op, at->arg);
}

static void start_replay(struct pg_call *at)
{
    store_delivery_replay(bench.pool, &at->query, &at->op, at->arg);
}

static void start_more(struct pg_call *at)
{
    store_delivery_more(bench.pool, &at->query, &at->op, at->arg);
}

/* The number of rows that have no attempt since they were written or sent again. */
static size_t more(unsigned since)
{
    struct due_ref *refs;
    size_t found;
    struct delivery_more in = {webhook, event_of(since)};
    assert_int_equal(run(start_more, &in), OK);
    assert_int_equal(store_due_scan_result(&call.query, &refs, &found), OK);
    pg_call_end(&call);
    return found;
}

static size_t replays(unsigned since, unsigned until, unsigned after, unsigned first)
{
    struct due_ref *refs;
    size_t found;
    struct delivery_replays in = {webhook, event_of(since), event_of(until), event_of(after)};
    assert_int_equal(run(start_replays, &in), OK);
    assert_int_equal(store_due_scan_result(&call.query, &refs, &found), OK);
    if (found > 0)
        assert_true(uuid_eq(refs[0].id, event_of(first)));
    for (size_t i = 1; i < found; i++)
        assert_true(uuid_cmp(refs[i - 1].id, refs[i].id) < 0);
    pg_call_end(&call);
    return found;
}

static int replay(unsigned n, int64_t attempt)
{
    struct due_ref ref = {
        .account_id = account, .id = event_of(n), .webhook_id = webhook, .rev = attempt};
    assert_int_equal(run(start_replay, &ref), OK);
    int status = store_hit_result(&call.query);
    pg_call_end(&call);
    return status;
}

static void test_what_is_sent_again(void **state)
{
    (void)state;
    add(&account, ENDPOINT(1), 1, 50, 0, DELIVERED);
    add(&user, ENDPOINT(1), 51, 52, 0, FAILED);
    add(&account, ENDPOINT(1), 60, 60, 0, PENDING);
    add(&account, ENDPOINT(1), 61, 63, 9, FAILED);
    add(&account, ENDPOINT(2), 70, 75, 0, FAILED);
    assert_int_equal(replays(1, 100, 0, 51), 5);
    assert_int_equal(replays(52, 62, 0, 52), 3);
    assert_int_equal(replays(1, 100, 61, 62), 2);
    assert_int_equal(replays(50, 50, 0, 50), 1); /* a single event, whatever became of it */
    assert_int_equal(replays(60, 60, 0, 60), 1);
    assert_int_equal(replays(70, 70, 0, 70), 0); /* of another endpoint */
    assert_int_equal(replay(62, 9), ERR_NOTFOUND);
    assert_int_equal(more(1), 1); /* 60 */
    assert_int_equal(replay(62, 10), OK);
    assert_int_equal(more(1), 2);
    assert_int_equal(more(61), 1);
    assert_int_equal(replay(62, 10), ERR_NOTFOUND);
    assert_int_equal(replay(60, 0), ERR_NOTFOUND); /* it is pending */
    /* it neither waits for an earlier event of its object, nor does a later one wait for it */
    items_tellf(
        conninfo,
        "update sluice.delivery set status = 'pending', due_at = now(), ended_at = null, attempt "
        "= 0 where rev in (61, 63)");
    assert_int_equal(claim(62, 10, false, false), OK);
    assert_int_equal(more(62), 1); /* 63: 62 has an attempt now */
    assert_int_equal(end(62, 11, DELIVERY_DELIVERED, false), 0);
    assert_int_equal(claim(63, 0, false, false), ERR_BUSY); /* 61 */
}

/* ---- lists ---- */

struct asked {
    struct store_page page;
    slice status;
};

static void start_list(struct pg_call *at)
{
    struct asked *asked = at->arg;
    store_delivery_list(bench.pool, &at->query, &at->op, webhook, &asked->page, asked->status);
}

/* The page of this status: its rows, and whether it has read the whole range. */
static size_t list_of(slice status, bool *is_whole)
{
    struct delivery_item *items;
    struct uuid next;
    size_t found;
    struct asked asked = {{.before = event_of(60000), .count_max = 100}, status};
    assert_int_equal(run(start_list, &asked), OK);
    assert_int_equal(store_delivery_list_result(&call.query, &items, &found, &next), OK);
    for (size_t i = 0; i < found; i++)
        assert_true(!status.ptr || slice_eq(items[i].status, status));
    *is_whole = uuid_is_nil(next);
    pg_call_end(&call);
    return found;
}

/* Failed and pending ones are found however many were delivered after them. */
static void test_lists(void **state)
{
    bool is_whole;
    (void)state;
    add(&account, ENDPOINT(1), 1, 3, 0, FAILED);
    add(&user, ENDPOINT(1), 4, 5, 0, PENDING);
    add(&account, ENDPOINT(1), 10, 1500, 0, DELIVERED);
    assert_int_equal(list_of(SLICE("failed"), &is_whole), 3);
    assert_true(is_whole);
    assert_int_equal(list_of(SLICE("pending"), &is_whole), 2);
    assert_true(is_whole);
    assert_int_equal(list_of(SLICE("delivered"), &is_whole), 100);
    assert_int_equal(list_of(SLICE_NONE, &is_whole), 100);
    assert_false(is_whole);
}

/* ---- the limit ---- */

static void start_find(struct pg_call *at)
{
    size_t *max = at->arg;
    store_quota_find(bench.pool, &at->query, &at->op, QUOTA_DELIVERIES, (struct uuid){{0}},
                     QUOTA_ACCOUNTS_MAX, *max);
}

static void start_trim(struct pg_call *at)
{
    store_quota_trim(bench.pool, &at->query, &at->op, QUOTA_DELIVERIES, at->arg, 0);
}

/* Returns the account's row; last is nil if it has no more pending events than this. */
static struct quota_cut beyond(size_t max)
{
    struct quota_cut *cuts, cut = {0};
    size_t found;
    assert_int_equal(run(start_find, &max), OK);
    assert_int_equal(store_quota_find_result(&call.query, &cuts, &found), OK);
    for (size_t i = 0; i < found; i++)
        if (uuid_eq(cuts[i].account_id, account))
            cut = cuts[i];
        else
            assert_true(uuid_is_nil(cuts[i].last));
    pg_call_end(&call);
    return cut;
}

static void test_the_oldest_pending_events_of_an_account_fail(void **state)
{
    size_t trimmed;
    (void)state;
    add(&account, ENDPOINT(1), 1, 5, 0, DELIVERED);
    for (unsigned n = 10; n < 40; n++) /* 30 of two endpoints, some of a user's */
        add(n % 5 == 0 ? &user : &account, n % 2 ? ENDPOINT(1) : ENDPOINT(2), n, n, 0, PENDING);
    assert_true(uuid_is_nil(beyond(30).last));
    struct quota_cut cut = beyond(20);
    assert_true(uuid_eq(cut.account_id, account) && uuid_eq(cut.last, event_of(19)));
    assert_int_equal(run(start_trim, &cut), OK);
    assert_int_equal(store_quota_trim_result(&call.query, &trimmed), OK);
    pg_call_end(&call);
    assert_int_equal(trimmed, 10);
    assert_int_equal(count("status = 'failed' and rev between 10 and 19 and due_at is null and "
                           "ended_at is not null and problem like 'too many%' and attempt = 0"),
                     10);
    assert_int_equal(count("status = 'pending' and rev >= 20"), 20);
    assert_int_equal(count("status = 'delivered'"), 5);
    assert_true(uuid_is_nil(beyond(20).last));
    assert_true(uuid_is_nil(beyond(1000 * 1000).last)); /* the table is too small */
}

static int empty(void **state)
{
    (void)state;
    items_tellf(conninfo, "delete from sluice.delivery");
    return 0;
}

static int set_up(void **state)
{
    struct err err;
    struct pg_pool_config config = {.queue_timeout_ms = 30000, .lock_timeout_ms = 30000};
    char id[UUID_TEXT_LEN + 1];
    (void)state;
    conninfo = config.conninfo = pg_cluster_database(true);
    sync = pg_sync_open(conninfo, &err);
    account = uuid_v7();
    user = uuid_v7();
    assert_true(uuid_parse(SLICE(ENDPOINT(1)), &webhook));
    struct account rows[] = {{.account_id = account, .name = SLICE("test")},
                             {.account_id = uuid_v7(), .name = SLICE("other")}};
    pg_bench_open(&bench, &config, true);
    uuid_format(account, id);
    items_tellf(
        conninfo,
        "insert into sluice.webhook (account_id, id, url, description, sealed, key_id, failures, "
        "rev, created_at) select '%s', ('00000000-0000-4000-8000-00000000000' || n)::uuid, "
        "'https://example.com/' || n, '', '', '', 0, 1, now() from generate_series(1, 2) n",
        id);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!sync || rows_account(sync, &rows[i]) != OK)
            return ERR_IO;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pg_sync_close(sync);
    pg_bench_close(&bench);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_claim_is_fenced, empty),
        cmocka_unit_test_setup(test_what_is_put_off, empty),
        cmocka_unit_test_setup(test_what_is_sent_again, empty),
        cmocka_unit_test_setup(test_lists, empty),
        cmocka_unit_test_setup(test_the_oldest_pending_events_of_an_account_fail, empty),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, tear_down));
}
