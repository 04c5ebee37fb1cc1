/*
 * The use of accounts: added to once a minute, read as sums. Counts are in no index, so an addition
 * changes no index.
 */
#include "store/usage.h"

#include "store/internal.h"

#define KEPT_DAYS  400
#define SCAN_USERS 1000
_Static_assert(KEPT_DAYS == USAGE_KEPT_DAYS && SCAN_USERS == USAGE_SCAN_USERS, "as callers know");

#define ROW_OF(name, type) PG_OF(#name, type, struct usage_row, name)
#define COUNT_OF(name)     PG_OF(#name, PG_I64, struct usage_row, counts.name)
#define ADD(name)          #name " = t." #name " + excluded." #name
#define NO_USER            "'00000000-0000-0000-0000-000000000000'"
#define USERS_BY_KEY       "'ffffffff-ffff-ffff-ffff-ffffffffffff'"
#define USERS_BY_DAY       "'ffffffff-ffff-ffff-ffff-fffffffffffe'"
#define FOUR               0xff, 0xff, 0xff, 0xff
const struct uuid usage_users_by_key = {{FOUR, FOUR, FOUR, FOUR}},
                  usage_users_by_day = {{FOUR, FOUR, FOUR, 0xff, 0xff, 0xff, 0xfe}};

/* A user that is being erased gets no rows: the last pass over its rows begins long after it was
 * marked, so a statement that found it unmarked has ended. OFFSET 0 keeps it a look-up by the
 * index, for each row. */
#define USER_EXISTS                                              \
    "(:user_id in (" NO_USER ", " USERS_BY_KEY ", " USERS_BY_DAY \
    ") or exists (select 1 from sluice.account_user u where "    \
    "u.account_id = :account_id and u.user_id = :user_id and u.erase_at is null offset 0))"
/* Sets of several processes are each sorted by the key, so they lock rows in one order. */
#define ADD_BUCKETS                                                                          \
    "buckets = array(select coalesce(b.old, 0) + coalesce(b.new, 0) from unnest(t.buckets, " \
    "excluded.buckets) with ordinality b (old, new, n) order by b.n)"
#define ADD_UP                                                                            \
    " on conflict (account_id, day, key_id, user_id) do update set " ADD(reads) ", " ADD( \
        writes) ", " ADD(failed) ", " ADD(blocked) ", " ADD(flow_calls) ", " ADD_BUCKETS
static const struct pg_stmt usage_add = {
    .name = "usage_add",
    .sql = "insert into sluice.usage as t (account_id, day, key_id, user_id, reads, writes, "
           "failed, blocked, flow_calls, buckets) select :account_id, :day, :key_id, :user_id, "
           ":reads, :writes, :failed, :blocked, :flow_calls, (:buckets)::bigint[] @from "
           "where " STORE_ACCOUNT_EXISTS(":account_id") " and " USER_EXISTS ADD_UP,
    PG_TAKES(ROW_OF(account_id, PG_UUID), ROW_OF(day, PG_TIME), ROW_OF(key_id, PG_UUID),
             ROW_OF(user_id, PG_UUID), COUNT_OF(reads), COUNT_OF(writes), COUNT_OF(failed),
             COUNT_OF(blocked), COUNT_OF(flow_calls), ROW_OF(buckets, PG_TEXT)),
    .key_count = 4,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE_ONCE,
};

#define SUM(name)          "sum(g." #name ")::bigint as " #name
#define SUMS               SUM(reads) ", " SUM(writes) ", " SUM(failed) ", " SUM(blocked) ", " SUM(flow_calls)
#define OF_RANGE           "g.account_id = :account_id and g.day >= :from_at and g.day < :to_at "
#define SUM_OF(name, type) PG_OF(#name, type, struct usage_sum, name)
#define TOTAL_OF(name)     PG_OF(#name, PG_I64, struct usage_sum, counts.name)
#define TOTALS \
    TOTAL_OF(reads), TOTAL_OF(writes), TOTAL_OF(failed), TOTAL_OF(blocked), TOTAL_OF(flow_calls)
/* clang-format off */
#define BUCKET_NAME(n) ", s.b" #n
#define BUCKET_NAMES   STORE_EACH_BUCKET(BUCKET_NAME)
#define BUCKET_SUM(n)  ", sum(g.buckets[" #n "])::bigint as b" #n
#define BUCKET_OF(n)   , PG_OF("b" #n, PG_I64, struct usage_sum, counts.buckets[n - 1])
#define SUMS_TIMED     SUMS STORE_EACH_BUCKET(BUCKET_SUM)
#define TOTALS_TIMED   TOTALS STORE_EACH_BUCKET(BUCKET_OF)
/* clang-format on */
#define RANGE                                                                            \
    PG_ARG("account_id", PG_UUID), PG_ARG("from_at", PG_TIME), PG_ARG("to_at", PG_TIME), \
        PG_ARG("count_max", PG_I64)

static const struct pg_stmt usage_by_day = {
    .name = "usage_by_day",
    .sql = "select :ord, c.* from @input lateral (select g.day, " SUMS_TIMED
           " from sluice.usage g where g.user_id in (" NO_USER ", " USERS_BY_DAY ") and " OF_RANGE
           "group by g.day order by g.day limit :count_max) c",
    PG_TAKES(RANGE),
    PG_GIVES(SUM_OF(day, PG_TIME), TOTALS_TIMED),
    .is_large = true,
};

/* The days of one key are looked up one by one, whatever the number of other keys. */
static const struct pg_stmt usage_of_key = {
    .name = "usage_of_key",
    .sql = "select :ord, c.* from @input lateral (select d.day, s.* from generate_series(:from_at, "
           ":to_at - interval '24 hours', interval '24 hours') d(day), lateral (select " SUMS_TIMED
           " from sluice.usage g where g.account_id = :account_id and g.day = d.day and g.key_id = "
           ":key_id and g.user_id in (" NO_USER ", " USERS_BY_KEY
           ") offset 0) s where s.reads is not null order by d.day limit :count_max) c",
    PG_TAKES(RANGE, PG_ARG("key_id", PG_UUID)),
    PG_GIVES(SUM_OF(day, PG_TIME), TOTALS_TIMED),
    .is_large = true,
};

static const struct pg_stmt usage_by_key = {
    .name = "usage_by_key",
    .sql = "select :ord, c.* from @input lateral (select s.key_id, (select k.name from "
           "sluice.api_key k where k.account_id = :account_id and k.id = s.key_id) as key_name, "
           "s.reads, s.writes, s.failed, s.blocked, s.flow_calls" BUCKET_NAMES
           " from (select g.key_id, " SUMS_TIMED " from sluice.usage g where g.user_id in (" NO_USER
           ", " USERS_BY_KEY ") and " OF_RANGE "and g.key_id >= :first "
           "group by g.key_id order by g.key_id limit :count_max) s order by s.key_id) c",
    PG_TAKES(RANGE, PG_ARG("first", PG_UUID)),
    PG_GIVES(SUM_OF(key_id, PG_UUID), SUM_OF(key_name, PG_TEXT), TOTALS_TIMED),
    .is_large = true,
};

/* Users are read in the order of their ids, each with its rows by the index usage_user. Without the
 * limit of users, a page of an account with many of them could read all. */
#define SUMS_OF(user)                                                                            \
    "lateral (select coalesce(sum(g.reads), 0)::bigint as reads, coalesce(sum(g.writes), 0)::"   \
    "bigint as writes, coalesce(sum(g.failed), 0)::bigint as failed, coalesce(sum(g.blocked), "  \
    "0)::bigint as blocked, coalesce(sum(g.flow_calls), 0)::bigint as flow_calls, count(*) = 0 " \
    "as is_empty from sluice.usage g where g.user_id = " user " and " OF_RANGE ") s "
#define RESULT "s.is_empty, s.reads, s.writes, s.failed, s.blocked, s.flow_calls "
static const struct pg_stmt usage_by_user = {
    .name = "usage_by_user",
    .sql =
        "select :ord, c.* from @input lateral (select r.* from ("
        "(select u.external_id, u.n = " STORE_TEXT_OF(
            SCAN_USERS) " as is_scan_end, " RESULT
                        "from (select t.external_id, t.user_id, row_number() over (order by "
                        "t.external_id) as n "
                        "from sluice.account_user t where t.account_id = :account_id and "
                        "t.external_id > :after "
                        "order by t.external_id limit " STORE_TEXT_OF(SCAN_USERS) ") u, " SUMS_OF("u.user_id") "where not s.is_empty or u.n = " STORE_TEXT_OF(
                            SCAN_USERS) " order by u.external_id limit :count_max) union all "
                                        "(select null, false, " RESULT "from " SUMS_OF(
                                            "'00000000-0000-0000-0000-000000000000'") "where not "
                                                                                      "s.is_empty))"
                                                                                      " r "
                                                                                      "order by "
                                                                                      "r.external_"
                                                                                      "id nulls "
                                                                                      "last limit "
                                                                                      ":count_max) "
                                                                                      "c",
    PG_TAKES(RANGE, PG_ARG("after", PG_TEXT)),
    PG_GIVES(SUM_OF(external_id, PG_TEXT), SUM_OF(is_scan_end, PG_BOOL), SUM_OF(is_empty, PG_BOOL),
             TOTALS),
    .is_large = true,
};

#define SWEEP_MAX 5000
#define DAY_TIME  "(b.day at time zone 'UTC')"
static const struct pg_stmt usage_sweep = {
    .name = "usage_sweep",
    .sql = "delete from sluice.usage t where (t.account_id, t.day, t.key_id, t.user_id) in (select "
           "b.account_id, b.day, b.key_id, b.user_id from sluice.usage b where " DAY_TIME
           " < (now() at time zone 'UTC') - interval '" STORE_TEXT_OF(
               KEPT_DAYS) " days' order by " DAY_TIME " limit " STORE_TEXT_OF(SWEEP_MAX) ")",
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
    .no_account = "what is due, over all accounts",
    .is_spread = true,
};

const struct pg_stmt *const usage_stmts[] = {
    &usage_add, &usage_by_day, &usage_of_key, &usage_by_key, &usage_by_user, &usage_sweep, NULL};

STORE_CALL_OF(store_usage_add, usage_add, usage_row)
STORE_CALL(store_usage_sweep, usage_sweep)

#define RANGE_VALUES(range)                                                     \
    pg_uuid((range)->account_id), pg_time((range)->from), pg_time((range)->to), \
        pg_i64((int64_t)(range)->count_max)

void store_usage_by_day(STORE_ARGS, const struct usage_range *range)
{
    if (uuid_is_nil(range->key_id))
        store_ask(pool, query, op, &usage_by_day, PG_VALUES(RANGE_VALUES(range)));
    else
        store_ask(pool, query, op, &usage_of_key,
                  PG_VALUES(RANGE_VALUES(range), pg_uuid(range->key_id)));
}

void store_usage_by_key(STORE_ARGS, const struct usage_range *range, struct uuid first)
{
    store_ask(pool, query, op, &usage_by_key, PG_VALUES(RANGE_VALUES(range), pg_uuid(first)));
}

void store_usage_by_user(STORE_ARGS, const struct usage_range *range, slice after)
{
    store_ask(pool, query, op, &usage_by_user,
              PG_VALUES(RANGE_VALUES(range), pg_text_or_empty(after)));
}
