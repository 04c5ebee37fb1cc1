/* Tallies: rows that are summed, which of them are read and cached, and rows that are merged
 * into longer periods once they are old. */
#include "base/clock.h"
#include "store/tally_cache.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

enum { CALLS_MAX = 40 };
#define MINUTE_US ((int64_t)60 * 1000000)
#define FAST      "{3,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}"
#define SLOW      "{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1}"

static const char *conninfo;
static struct pg_bench bench;
static struct pg_call *calls;
static struct uuid account;
static int64_t hour; /* the beginning of the last complete hour */

static void start_add(struct pg_call *call)
{
    store_tally_add(call->bench->pool, &call->query, &call->op, call->arg);
}

static struct tally_row row_of(int64_t slot, slice action_id, enum tally_outcome outcome)
{
    return (struct tally_row){
        .account_id = account,
        .last = outcome == TALLY_SUCCEEDED ? SLICE_NONE : SLICE("0000000000000007 it was late"),
        .slot = slot,
        .integration_id = SLICE("gmail"),
        .action_id = action_id,
        .outcome = outcome,
        .error_code = outcome == TALLY_SUCCEEDED ? SLICE_NONE
                      : outcome == TALLY_FAILED  ? SLICE("timeout")
                                                 : SLICE("policy_blocked"),
        .calls = outcome == TALLY_SUCCEEDED ? 3 : 1,
        .ms_sum = outcome == TALLY_SUCCEEDED ? 12 : 20000,
        .buckets = slice_cstr(outcome == TALLY_SUCCEEDED ? FAST
                              : outcome == TALLY_FAILED  ? SLOW
                                                         : "{}"),
    };
}

static void add(struct tally_row row)
{
    assert_int_equal(pg_call_run(&bench, calls, start_add, &row), OK);
    assert_int_equal(store_done_result(&calls[0].query), OK);
    pg_call_end(calls);
}

static int64_t ask(const char *sql)
{
    return items_ask(conninfo, sql);
}

static struct tally_range read_range;
static int64_t read_open_at;
static slice read_app;   /* SLICE_NONE: all apps */
static bool is_added_up; /* the database computes the sums */
static void start_read(struct pg_call *call)
{
    if (is_added_up)
        store_tally_read(call->bench->pool, &call->query, &call->op, account, read_app, &read_range,
                         read_range.before_at, read_open_at);
    else
        store_tally_rows(call->bench->pool, &call->query, &call->op, account, read_app,
                         read_range.before_at);
}

/* Reads all sums, of closed and of open periods. */
static size_t read_sums(struct tally_sum **list)
{
    struct tally_group *found;
    const struct tally_group *groups[200];
    size_t count = 0, sums = 0, open = 0;
    assert_int_equal(pg_call_run(&bench, calls, start_read, NULL), OK);
    assert_int_equal(is_added_up ? store_tally_read_result(&calls[0].query, &found, &count)
                                 : store_tally_rows_result(&calls[0].query, &found, &count),
                     OK);
    assert_in_range(count, 0, ARRAY_LEN(groups));
    for (size_t i = 0; i < count; i++) {
        groups[i] = &found[i];
        open += found[i].is_open;
    }
    if (is_added_up)
        assert_true(read_open_at > read_range.since || open == count);
    *list = tally_sums_of(&calls[0].op.arena, &read_range, groups, count, 0, &sums);
    assert_non_null(*list);
    tally_sums_sort(*list, sums);
    return sums;
}

static void end_all(size_t count)
{
    pg_calls_wait(&bench, calls, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(store_done_result(&calls[i].query), OK);
    pg_calls_end(calls, count);
}

/* Many processes add to one row concurrently, each its own calls. */
static void test_rows_add_up(void **state)
{
    struct tally_row rows[CALLS_MAX];
    (void)state;
    for (size_t i = 0; i < CALLS_MAX; i++)
        rows[i] = row_of(hour, i % 2 ? SLICE("send") : SLICE("read"), TALLY_SUCCEEDED);
    pg_calls_start(&bench, calls, CALLS_MAX, start_add, rows, sizeof(*rows));
    end_all(CALLS_MAX);
    assert_int_equal(ask("select count(*) from sluice.tally"), 2);
    assert_int_equal(ask("select sum(calls) from sluice.tally"), 3 * CALLS_MAX);
    assert_int_equal(ask("select sum(ms_sum) from sluice.tally"), 12 * CALLS_MAX);
    assert_int_equal(ask("select sum(buckets[1]) from sluice.tally"), 3 * CALLS_MAX);
    assert_int_equal(ask("select count(*) from sluice.tally where cardinality(buckets) = 16"), 2);
}

static void check_sum(const struct tally_sum *sum, enum tally_kind kind, const char *action,
                      const char *code, int64_t succeeded, int64_t failed, int64_t blocked)
{
    assert_int_equal(sum->kind, kind);
    assert_true(slice_eq_cstr(sum->action_id, action));
    assert_true(slice_eq_cstr(sum->error_code, code));
    assert_int_equal(sum->succeeded, succeeded);
    assert_int_equal(sum->failed, failed);
    assert_int_equal(sum->blocked, blocked);
}

static void add_for_sums(void)
{
    add(row_of(hour - 90 * MINUTE_US, SLICE("read"), TALLY_SUCCEEDED)); /* before the requested
                                                                         * time */
    add(row_of(hour - 60 * MINUTE_US, SLICE("send"), TALLY_FAILED));    /* before the range */
    for (int64_t slot = hour; slot < hour + 90 * MINUTE_US; slot += 5 * MINUTE_US)
        add(row_of(slot, SLICE("read"), TALLY_SUCCEEDED));
    struct tally_row newest = row_of(hour, SLICE("send"), TALLY_FAILED);
    add(newest);
    newest.last = SLICE("0000000000000009 it is gone"); /* words: ok */
    add(newest);
    newest.last = SLICE("0000000000000008 no");
    newest.slot += 65 * MINUTE_US;
    add(newest);
    add(row_of(hour, SLICE("send"), TALLY_BLOCKED));
}

static void check_sums(void)
{
    struct tally_sum *s;
    int64_t at;
    assert_int_equal(read_sums(&s), 8);
    check_sum(&s[0], TALLY_BY_TIME, "", "", 0, 1, 0);
    assert_int_equal(s[0].at, hour - 60 * MINUTE_US);
    check_sum(&s[1], TALLY_BY_TIME, "", "", 36, 2, 1);
    assert_int_equal(s[1].at, hour);
    assert_int_equal(s[1].ms_sum, 12 * 12 + 3 * 20000);
    assert_int_equal(s[1].buckets[0], 36);
    assert_int_equal(s[1].buckets[15], 2);
    assert_int_equal(s[1].rows, 12 + 2);
    check_sum(&s[2], TALLY_BY_TIME, "", "", 18, 1, 0);
    assert_int_equal(s[2].at, hour + 60 * MINUTE_US);
    check_sum(&s[3], TALLY_BY_APP, "", "", 54, 3, 1);
    assert_true(slice_eq_cstr(s[3].integration_id, "gmail"));
    assert_int_equal(s[3].steps[0], 36 + 2 + 1);
    assert_int_equal(s[3].steps[1], 18 + 1);
    check_sum(&s[4], TALLY_BY_ERROR, "send", "timeout", 0, 3, 0);
    assert_true(slice_eq_cstr(tally_last_read(s[4].last, &at), "it is gone")); /* words: ok */
    assert_int_equal(at, 9);
    check_sum(&s[5], TALLY_BY_ERROR, "send", "policy_blocked", 0, 0, 1);
    assert_true(slice_eq_cstr(tally_last_read(s[5].last, &at), "it was late"));
    check_sum(&s[6], TALLY_BY_ACTION, "read", "", 54, 0, 0);
    check_sum(&s[7], TALLY_BY_ACTION, "send", "", 0, 3, 1);
    assert_int_equal(s[7].buckets[15], 3);
    pg_call_end(calls);
}

static void check_all_sums(void)
{
    struct tally_sum *s;
    read_range = (struct tally_range){hour, 3600, 2, hour - 60 * MINUTE_US, 3600};
    for (int i = 0; i < 3; i++) {
        is_added_up = i > 0;
        read_open_at = i == 2 ? hour + 60 * MINUTE_US : hour - 120 * MINUTE_US;
        check_sums();
        struct uuid own = account;
        account = uuid_v7(); /* another's */
        assert_int_equal(read_sums(&s), 0);
        pg_call_end(calls);
        account = own;
    }
    is_added_up = false;
}

/* The sums are equal whether the database computes them or reads the rows one by one. */
static void test_sums(void **state)
{
    (void)state;
    add_for_sums();
    check_all_sums();
}

/* The sums of one app are those of an account that uses no other. */
static void test_sums_of_one_app(void **state)
{
    struct tally_sum *s;
    (void)state;
    add_for_sums();
    for (int64_t slot = hour - 60 * MINUTE_US; slot < hour + 90 * MINUTE_US;
         slot += 5 * MINUTE_US) {
        struct tally_row other = row_of(slot, SLICE("read"), TALLY_SUCCEEDED);
        other.integration_id = slot % (10 * MINUTE_US) ? SLICE("a") : SLICE("z");
        add(other);
    }
    read_app = SLICE("gmail");
    check_all_sums();
    read_app = SLICE("b");
    for (int i = 0; i < 2; i++) {
        is_added_up = i > 0;
        assert_int_equal(read_sums(&s), 0);
        pg_call_end(calls);
    }
    is_added_up = false;
    read_app = SLICE_NONE;
}

/* Half of the row that begins before the range, and half of the step that includes now. */
static void test_the_time_before_is_estimated_by_shares(void **state)
{
    const int64_t h = 3600 * (int64_t)1000000;
    const struct tally_range range = {24 * h, 3600, 4, 18 * h, 6 * 3600};
    const struct tally_sum list[] = {
        {.kind = TALLY_BY_TIME, .at = 18 * h, .succeeded = 60, .failed = 6, .blocked = 3},
        {.kind = TALLY_BY_TIME, .at = 19 * h, .succeeded = 1000}, /* a late row of that time */
        {.kind = TALLY_BY_TIME, .at = 21 * h, .succeeded = 100},
        {.kind = TALLY_BY_TIME, .at = 23 * h, .succeeded = 400, .failed = 8},
        {.kind = TALLY_BY_TIME, .at = 24 * h, .succeeded = 7},
        {.kind = TALLY_BY_APP, .succeeded = 7},
    };
    struct tally_sum before;
    (void)state;
    assert_int_equal(tally_sums_before(list, ARRAY_LEN(list), &range, 27 * h + h / 4, &before), 4);
    assert_int_equal(before.succeeded, 40 + 100 + 100); /* the part from 20 to 24 of the row from
                                                         * 18 to 24 */
    assert_int_equal(before.failed, 4 + 2);
    assert_int_equal(before.blocked, 2);
    assert_int_equal(tally_sums_before(list + 4, 2, &range, 27 * h, &before), 0);
    assert_int_equal(before.succeeded, 0);
}

static void test_ranges(void **state)
{
    const int64_t h = 3600 * (int64_t)1000000, now = 20000 * 24 * h + 13 * h + h / 2;
    struct tally_range range;
    (void)state;
    assert_true(tally_range_of(24, now, &range));
    assert_int_equal(range.since, 20000 * 24 * h - 10 * h);
    assert_int_equal(range.steps, 24);
    assert_int_equal(range.before_at,
                     19999 * 24 * h - 12 * h); /* starts at a multiple of six hours */
    assert_true(tally_range_of(168, now, &range));
    assert_int_equal(range.since, 19993 * 24 * h + 18 * h);
    assert_int_equal(range.before_at, 19986 * 24 * h);
    assert_true(tally_range_of(1, now, &range));
    assert_int_equal(range.before_at, range.since - h);
    assert_true(tally_range_of(720, now, &range));
    assert_int_equal(range.steps, 30);
    assert_int_equal(range.before_at, 0);
    assert_false(tally_range_of(2, now, &range));
}

static void test_the_newest_failure_is_one_line(void **state)
{
    char room[TALLY_LAST_MAX], longer[300];
    int64_t at;
    (void)state;
    slice text =
        tally_last_write(room, 1700000000123456, SLICE("\xff two\nlines\x1b[0m \xe2\x80\xae \0."));
    assert_true(slice_is_utf8(text, NULL));
    assert_true(slice_eq_cstr(text, "1700000000123456   two lines [0m    ."));
    assert_true(slice_eq_cstr(tally_last_read(text, &at), "  two lines [0m    ."));
    assert_int_equal(at, 1700000000123456);
    assert_true(slice_eq_cstr(tally_last_read(SLICE_NONE, &at), ""));
    assert_int_equal(at, 0);
    for (size_t i = 0; i < sizeof(longer); i++)
        longer[i] = "\xc3\xa9"[i % 2];
    text = tally_last_write(room, 1, slice_of(longer, sizeof(longer)));
    assert_in_range(text.len, TALLY_LAST_MAX - 1, TALLY_LAST_MAX);
    assert_true(slice_is_utf8(text, NULL));
    assert_true(slice_cmp(tally_last_write(longer, 2, SLICE("")), text) > 0);
}

static void start_due(struct pg_call *call)
{
    store_tally_due(call->bench->pool, &call->query, &call->op);
}

static void start_fold(struct pg_call *call)
{
    store_tally_fold(call->bench->pool, &call->query, &call->op, call->arg);
}

/* Merges all rows that are old enough in one set. Returns their number. */
static size_t fold(void)
{
    struct tally_old *list, old[CALLS_MAX];
    size_t count = 0;
    assert_int_equal(pg_call_run(&bench, calls, start_due, NULL), OK);
    assert_int_equal(store_tally_due_result(&calls[0].query, &list, &count), OK);
    assert_in_range(count, 0, CALLS_MAX);
    memcpy(old, list, count * sizeof(*old));
    pg_call_end(calls);
    if (count > 0)
        pg_calls_start(&bench, calls, count, start_fold, old, sizeof(*old));
    end_all(count);
    return count;
}

static void test_old_rows_become_hours(void **state)
{
    int64_t old = hour - 3 * 60 * MINUTE_US, older = old - 60 * MINUTE_US;
    (void)state;
    add(row_of(hour, SLICE("read"), TALLY_SUCCEEDED)); /* stays as it is */
    for (int64_t slot = old; slot < old + 60 * MINUTE_US; slot += 5 * MINUTE_US) {
        add(row_of(slot, SLICE("read"), TALLY_SUCCEEDED));
        add(row_of(slot, SLICE("send"), TALLY_BLOCKED));
    }
    add(row_of(older + 55 * MINUTE_US, SLICE("send"), TALLY_FAILED));
    assert_int_equal(ask("select count(*) from sluice.tally"), 26);
    assert_int_equal(fold(), 13);
    assert_int_equal(ask("select count(*) from sluice.tally"), 4);
    assert_int_equal(ask("select count(*) from sluice.tally where is_hour"), 3);
    assert_int_equal(ask("select sum(calls) from sluice.tally where is_hour"), 36 + 12 + 1);
    assert_int_equal(ask("select buckets[1] from sluice.tally where is_hour and "
                         "outcome = 'succeeded' and cardinality(buckets) = 16"),
                     36);
    assert_int_equal(ask("select cardinality(buckets) from sluice.tally where outcome = 'blocked'"),
                     0);
    assert_int_equal(fold(), 0);
    /* A late row is added to its hour. */
    add(row_of(old + 5 * MINUTE_US, SLICE("read"), TALLY_SUCCEEDED));
    assert_int_equal(fold(), 1);
    assert_int_equal(ask("select sum(calls) from sluice.tally where is_hour and "
                         "outcome = 'succeeded'"),
                     39);
    assert_int_equal(ask("select count(*) from sluice.tally"), 4);
}

static int64_t rows_at(int64_t slot)
{
    char sql[160];
    (void)snprintf(sql, sizeof(sql),
                   "select coalesce(sum(calls), 0)::bigint from sluice.tally where is_hour and "
                   "slot = to_timestamp(%lld)",
                   (long long)(slot / 1000000));
    return ask(sql);
}

/* Rows become hours, then six hours, then days. A late row gets the length for its age
 * immediately. */
static void test_rows_become_longer_as_they_grow_old(void **state)
{
    int64_t long_us = 60 * MINUTE_US, now = clock_wall_us();
    int64_t quarter = now / (6 * long_us) * (6 * long_us),
            day = now / (24 * long_us) * (24 * long_us);
    const int64_t parts[] = {0, long_us, long_us + 5 * MINUTE_US, 5 * long_us};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        add(row_of(quarter - 18 * long_us + parts[i], SLICE("read"), TALLY_SUCCEEDED));
    assert_int_equal(fold(), 4);
    assert_int_equal(ask("select count(*) from sluice.tally"), 3);
    assert_int_equal(rows_at(quarter - 17 * long_us), 6);
    assert_int_equal(fold(), 0);
    items_tell(conninfo, "update sluice.tally set slot = slot - interval '24 hours'");
    assert_int_equal(fold(), 2); /* the first hour is where the row of six hours will be */
    assert_int_equal(ask("select count(*) from sluice.tally"), 1);
    assert_int_equal(rows_at(quarter - 42 * long_us), 12);
    items_tell(conninfo, "delete from sluice.tally");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        add(row_of(day - 10 * 24 * long_us + 12 * long_us + parts[i], SLICE("read"), TALLY_FAILED));
    assert_int_equal(fold(), 4);
    assert_int_equal(ask("select count(*) from sluice.tally"), 1);
    assert_int_equal(rows_at(day - 10 * 24 * long_us), 4);
    assert_int_equal(ask("select buckets[16] from sluice.tally"), 4);
    items_tell(conninfo, "update sluice.tally set slot = slot + interval '6 hours'");
    assert_int_equal(fold(), 1);
    assert_int_equal(rows_at(day - 10 * 24 * long_us), 4);
}

static void test_rows_are_kept_for_thirty_days(void **state)
{
    int64_t day = 24 * 60 * MINUTE_US;
    (void)state;
    add(row_of(hour - 29 * day, SLICE("read"), TALLY_SUCCEEDED));
    add(row_of(hour - 32 * day, SLICE("read"), TALLY_SUCCEEDED)); /* never folded */
    assert_int_equal(fold(), 2);
    assert_int_equal(ask("select count(*) from sluice.tally where is_hour"), 1);
    items_tell(conninfo, "update sluice.tally set slot = slot - interval '2 days'");
    assert_int_equal(fold(), 1);
    assert_int_equal(ask("select count(*) from sluice.tally"), 0);
    assert_int_equal(fold(), 0);
}

/* ---- what is cached ---- */

static struct tally_cache *cache;
static struct tally_reading readings[3];
static int64_t cache_now, calls_before;

static void start_cached(struct pg_call *call)
{
    struct tally_reading *reading = call->arg;
    *reading = (struct tally_reading){.account_id = account, .range = read_range};
    tally_cache_read(cache, call->bench->pool, reading, &call->op, cache_now);
}

/* The calls that the i-th of these readings has found, by time. Ends the reading. */
static int64_t end_cached(size_t i)
{
    struct tally_sum *list;
    struct tally_sum before;
    size_t count;
    int64_t calls_found = 0, by_app = 0;
    assert_int_equal(tally_cache_result(&readings[i], &list, &count, &before), OK);
    calls_before = before.succeeded;
    for (size_t k = 0; k < count; k++) {
        assert_true(k == 0 || list[k].kind >= list[k - 1].kind);
        calls_found += list[k].kind == TALLY_BY_TIME ? list[k].succeeded : 0;
        by_app += list[k].kind == TALLY_BY_APP ? list[k].succeeded : 0;
    }
    assert_int_equal(calls_found, by_app);
    pg_call_end(&calls[i]);
    return calls_found;
}

/* Reads until all rows are read: if there are many, a second query is sent. */
static void wait_cached(size_t count)
{
    pg_calls_wait(&bench, calls, count);
    for (size_t i = 0; i < count; i++)
        if (tally_cache_continue(&readings[i]))
            WAIT_UNTIL(bench.loop, pg_pool_pending(bench.pool) == 0);
}

static int64_t read_cached(void)
{
    (void)pg_call_run(&bench, &calls[0], start_cached, &readings[0]);
    wait_cached(1);
    return end_cached(0);
}

/* Adds rows of that many actions. */
static void add_many(int64_t slot, int count)
{
    char sql[400], id[UUID_TEXT_LEN + 1];
    uuid_format(account, id);
    (void)snprintf(sql, sizeof(sql),
                   "insert into sluice.tally select '%s', to_timestamp(%lld), 'gmail', 'a' || n, "
                   "'succeeded', '', false, 1, 1, array_fill(1, array[16]) from "
                   "generate_series(1, %d) n",
                   id, (long long)(slot / 1000000), count);
    items_tell(conninfo, sql);
}

/* Past times are read once: a deletion is not noticed, but new rows are. */
static void test_sums_of_what_is_over_are_cached(void **state)
{
    (void)state;
    read_range = (struct tally_range){hour, 3600, 2, 0, 0};
    cache_now = hour + 70 * MINUTE_US;
    add_many(hour, 600);
    assert_int_equal(read_cached(), 600);
    items_tell(conninfo, "delete from sluice.tally");
    add(row_of(hour + 65 * MINUTE_US, SLICE("read"), TALLY_SUCCEEDED));
    assert_int_equal(read_cached(), 603);
    assert_int_equal(read_cached(), 603); /* not added to the cache, because its period is not
                                           * over */
    cache_now += 10 * MINUTE_US;
    assert_int_equal(read_cached(), 603); /* now the period is over */
    add(row_of(hour + 75 * MINUTE_US, SLICE("read"), TALLY_SUCCEEDED));
    assert_int_equal(read_cached(), 606);
    struct uuid own = account;
    account = uuid_v7(); /* another's */
    assert_int_equal(read_cached(), 0);
    account = own;
    read_range.since += 60 * MINUTE_US; /* a later range */
    assert_int_equal(read_cached(), 6);
}

static void test_few_rows_are_not_cached(void **state)
{
    (void)state;
    read_range = (struct tally_range){hour, 3600, 2, 0, 0};
    cache_now = hour + 70 * MINUTE_US;
    add_many(hour, 400);
    assert_int_equal(read_cached(), 400);
    items_tell(conninfo, "delete from sluice.tally");
    assert_int_equal(read_cached(), 0);
}

/* Each process adds new rows to its own copy. */
static void test_two_that_read_at_once_count_nothing_twice(void **state)
{
    (void)state;
    read_range = (struct tally_range){hour, 3600, 2, 0, 0};
    cache_now = hour + 30 * MINUTE_US;
    add_many(hour, 600);
    assert_int_equal(read_cached(), 600);
    add_many(hour + 25 * MINUTE_US, 600);
    cache_now += 30 * MINUTE_US;
    pg_calls_start(&bench, calls, 2, start_cached, readings, sizeof(readings[0]));
    wait_cached(2);
    assert_int_equal(end_cached(0), 1200);
    assert_int_equal(end_cached(1), 1200);
    assert_int_equal(read_cached(), 1200);
}

/* The database sums the rows beyond TALLY_ROWS_MAX. Earlier times are cached with the rest. */
static void test_many_rows_are_added_up_by_the_database(void **state)
{
    (void)state;
    read_range = (struct tally_range){hour, 3600, 2, hour - 120 * MINUTE_US, 3600};
    cache_now = hour + 90 * MINUTE_US;
    add_many(hour, 600);
    add_many(hour + 80 * MINUTE_US, 600);
    add_many(hour - 90 * MINUTE_US, 8);
    /* half of this hour is in the first 90 minutes of the earlier period */
    add_many(hour - 60 * MINUTE_US, 8);
    assert_int_equal(read_cached(), 1200);
    assert_int_equal(calls_before, 12);
    items_tell(conninfo, "delete from sluice.tally");
    assert_int_equal(read_cached(), 1200);
    assert_int_equal(calls_before, 12);
}

static void test_percentiles(void **state)
{
    int64_t buckets[TALLY_BUCKETS] = {0};
    (void)state;
    assert_int_equal(tally_percentile(buckets, 50), -1);
    assert_int_equal(tally_bucket_of(0), 0);
    assert_int_equal(tally_bucket_of(9), 0);
    assert_int_equal(tally_bucket_of(10), 1);
    assert_int_equal(tally_bucket_of(15999), 14);
    assert_int_equal(tally_bucket_of(INT64_MAX), 15);
    buckets[tally_bucket_of(120)] = 100; /* 100 to 150 */
    assert_int_equal(tally_percentile(buckets, 50), 125);
    assert_int_equal(tally_percentile(buckets, 95), 147);
    buckets[tally_bucket_of(5000)] = 100; /* 4000 to 8000 */
    assert_int_equal(tally_percentile(buckets, 50), 150);
    assert_int_equal(tally_percentile(buckets, 95), 7600);
    buckets[15] = 1000;
    assert_int_equal(tally_percentile(buckets, 100), 32000);
}

static int empty(void **state)
{
    char sql[200], id[UUID_TEXT_LEN + 1];
    (void)state;
    account = uuid_v7();
    tally_cache_free(cache);
    cache = tally_cache_new();
    assert_non_null(cache);
    uuid_format(account, id);
    (void)snprintf(sql, sizeof(sql),
                   "delete from sluice.tally; insert into sluice.account (account_id, name, "
                   "created_at) values ('%s', 'a', now())",
                   id);
    items_tell(conninfo, sql);
    return 0;
}

static int set_up(void **state)
{
    struct pg_pool_config config = {.queue_timeout_ms = 30000, .lock_timeout_ms = 30000};
    (void)state;
    calls = mem_calloc(CALLS_MAX, sizeof(*calls));
    conninfo = config.conninfo = pg_cluster_database(true);
    pg_bench_open(&bench, &config, true);
    hour = clock_wall_us() / (60 * MINUTE_US) * 60 * MINUTE_US - 60 * MINUTE_US;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pg_bench_close(&bench);
    tally_cache_free(cache);
    mem_free(calls);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_rows_add_up, empty),
        cmocka_unit_test_setup(test_sums, empty),
        cmocka_unit_test_setup(test_sums_of_one_app, empty),
        cmocka_unit_test_setup(test_old_rows_become_hours, empty),
        cmocka_unit_test_setup(test_rows_become_longer_as_they_grow_old, empty),
        cmocka_unit_test_setup(test_rows_are_kept_for_thirty_days, empty),
        cmocka_unit_test_setup(test_sums_of_what_is_over_are_cached, empty),
        cmocka_unit_test_setup(test_few_rows_are_not_cached, empty),
        cmocka_unit_test_setup(test_two_that_read_at_once_count_nothing_twice, empty),
        cmocka_unit_test_setup(test_many_rows_are_added_up_by_the_database, empty),
        cmocka_unit_test(test_the_time_before_is_estimated_by_shares),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_the_newest_failure_is_one_line),
        cmocka_unit_test(test_percentiles),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, tear_down));
}
