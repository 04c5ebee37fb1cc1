/*
 * Counts of calls by time: added to, read as sums, folded into longer slots. Rows of one account
 * and time are adjacent in the primary key, so a chart reads one range of it.
 */
#include "store/tally.h"

#include "store/internal.h"

/* Upper bounds of the buckets, in milliseconds; the last bucket has none. */
static const int64_t bounds[TALLY_BUCKETS - 1] = {10,  20,  40,   70,   100,  150,  200,  300,
                                                  500, 750, 1000, 2000, 4000, 8000, 16000};
/* The assumed end of the last bucket. */
enum { MS_MAX = 32000 };

static const char *const outcome_words[] = {"succeeded", "failed", "blocked"};
static const struct pg_words outcomes = {outcome_words, ARRAY_LEN(outcome_words), TALLY_FAILED};

#define ROW_OF(name, type, ...) PG_OF(#name, type, struct tally_row, name, __VA_ARGS__)
#define NAME_OF(name)           ROW_OF(name, PG_TEXT, .has_no_null = true)

/* Sets of several processes are each sorted by the key, so they lock rows in one order. */
#define ADD_UP                                                                            \
    " on conflict (account_id, slot, integration_id, action_id, outcome, error_code) do " \
    "update set calls = t.calls + excluded.calls, ms_sum = t.ms_sum + excluded.ms_sum, "  \
    "buckets = array(select b.old + b.new from unnest(t.buckets, excluded.buckets) with " \
    "ordinality b (old, new, n) order by b.n), last = greatest(t.last, excluded.last)"
static const struct pg_stmt tally_add = {
    .name = "tally_add",
    .sql = "insert into sluice.tally as t (account_id, slot, integration_id, action_id, outcome, "
           "error_code, is_hour, calls, ms_sum, buckets, last) @row :account_id, :slot, "
           ":integration_id, :action_id, :outcome, :error_code, false, :calls, :ms_sum, "
           "(:buckets)::integer[], :last @end" ADD_UP,
    PG_TAKES(ROW_OF(account_id, PG_UUID), ROW_OF(slot, PG_TIME), NAME_OF(integration_id),
             NAME_OF(action_id), PG_WORD("outcome", struct tally_row, outcome, &outcomes),
             NAME_OF(error_code), ROW_OF(calls, PG_I64), ROW_OF(ms_sum, PG_I64),
             ROW_OF(buckets, PG_TEXT), ROW_OF(last, PG_TEXT)),
    .key_count = 6,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE_ONCE,
};

#define GROUP_OF(name, type) PG_OF(#name, type, struct tally_group, name)
#define GROUP_WORD           PG_WORD("outcome", struct tally_group, outcome, &outcomes)

/* Returns rows by the primary key without summing them: for few rows that is cheaper than starting
 * an aggregation, which takes PostgreSQL more than a millisecond. */
#define ROWS_LIMIT 1001
_Static_assert(ROWS_LIMIT == TALLY_ROWS_MAX + 1, "one more says that there are more");
#define ROWS_SQL(source, order)                                                              \
    "select :ord, r.* from @input lateral (select t.slot, t.integration_id, t.action_id, "   \
    "t.outcome, t.error_code, t.calls, t.ms_sum, t.buckets::text, t.last from " source order \
    "limit " STORE_TEXT_OF(ROWS_LIMIT) ") r"
#define ROWS_COLUMNS                                                                        \
    PG_GIVES(GROUP_OF(at, PG_TIME), GROUP_OF(integration_id, PG_TEXT),                      \
             GROUP_OF(action_id, PG_TEXT), GROUP_WORD, GROUP_OF(error_code, PG_TEXT),       \
             GROUP_OF(calls, PG_I64), GROUP_OF(ms_sum, PG_I64), GROUP_OF(buckets, PG_TEXT), \
             GROUP_OF(last, PG_TEXT))
#define ALL_APPS "sluice.tally t where t.account_id = :account_id and t.slot >= :from_at "
/* One app's rows are looked up slot by slot: a month has some 120 slots, however many rows the
 * other apps have in them. They are not sorted, so that a limit ends the look-ups. */
#define NEXT_SLOT(after)                                                                    \
    "(select x.slot from sluice.tally x where x.account_id = :account_id and x.slot " after \
    " order by x.slot limit 1)"
#define ONE_APP                                                                                    \
    "(with recursive s (slot) as (" NEXT_SLOT(">= :from_at") " union all select " NEXT_SLOT(       \
        "> s.slot") " from s where s.slot is not null) select y.* from s, lateral "                \
                    "(select x.* from sluice.tally x where x.account_id = :account_id and x.slot " \
                    "= s.slot "                                                                    \
                    "and x.integration_id = :integration_id offset 0) y) t "
static const struct pg_stmt tally_rows = {
    .name = "tally_rows",
    .sql = ROWS_SQL(ALL_APPS, "order by t.slot "),
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("from_at", PG_TIME)),
    ROWS_COLUMNS,
};
static const struct pg_stmt tally_app_rows = {
    .name = "tally_app_rows",
    .sql = ROWS_SQL(ONE_APP, ""),
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("from_at", PG_TIME),
             PG_ARG("integration_id", PG_TEXT)),
    ROWS_COLUMNS,
};

#define PARTS_MAX 2000
_Static_assert(PARTS_MAX == 2 * TALLY_SUMS_MAX, "as the header says");
/* clang-format off */
#define BUCKET(n)     ", sum(t.buckets[" #n "]) as b" #n
#define BUCKET_SUM(n) ", sum(a.b" #n ")"
/* Rows are first summed by step, which leaves few for the sums by time and by action. */
#define STEPS(source)                                                                            \
    "(select date_bin(make_interval(secs => :step_s), t.slot, 'epoch') as at, t.slot >= "        \
    ":open_at as is_open, t.slot < :since as is_before, t.integration_id, t.action_id, "         \
    "t.outcome, t.error_code, sum(t.calls) as calls, sum(t.ms_sum) as ms_sum, count(*) as "      \
    "rows, max(t.last) as last" STORE_EACH_BUCKET(BUCKET)                                              \
    " from " source "group by 1, 2, 3, 4, 5, 6, 7) a "
#define STEP_CALLS \
    "(extract(epoch from a.at - :since)::bigint / :step_s)::text || ':' || a.calls::text"
#define PARTS(source)                                                                            \
    "select :ord, r.* from @input lateral "                                                      \
    "(select a.at, a.is_open, a.integration_id, a.action_id, a.outcome, a.error_code, "          \
    "sum(a.calls)::bigint, sum(a.ms_sum)::bigint, sum(a.rows)::bigint, "                         \
    "array_remove(array[null" STORE_EACH_BUCKET(BUCKET_SUM) "], null)::text, max(a.last), "                       \
    "case when grouping(a.at) = 1 then string_agg(" STEP_CALLS ", ' ') end from " STEPS(source)  \
    "group by a.is_open, a.is_before, a.outcome, grouping sets ((a.at), (a.integration_id, "     \
    "a.action_id, a.error_code)) having not a.is_before or grouping(a.at) = 0 "                  \
    "order by grouping(a.at), sum(a.calls) desc limit " STORE_TEXT_OF(PARTS_MAX) ") r"
/* clang-format on */
#define READ_PARAMS                                                                    \
    PG_ARG("account_id", PG_UUID), PG_ARG("since", PG_TIME), PG_ARG("step_s", PG_I64), \
        PG_ARG("from_at", PG_TIME), PG_ARG("open_at", PG_TIME)
#define READ_COLUMNS                                                                               \
    PG_GIVES(GROUP_OF(at, PG_TIME), GROUP_OF(is_open, PG_BOOL), GROUP_OF(integration_id, PG_TEXT), \
             GROUP_OF(action_id, PG_TEXT), GROUP_WORD, GROUP_OF(error_code, PG_TEXT),              \
             GROUP_OF(calls, PG_I64), GROUP_OF(ms_sum, PG_I64), GROUP_OF(rows, PG_I64),            \
             GROUP_OF(buckets, PG_TEXT), GROUP_OF(last, PG_TEXT), GROUP_OF(steps, PG_TEXT))
static const struct pg_stmt tally_read = {
    .name = "tally_read",
    .sql = PARTS(ALL_APPS),
    PG_TAKES(READ_PARAMS),
    READ_COLUMNS,
};
static const struct pg_stmt tally_app_read = {
    .name = "tally_app_read",
    .sql = PARTS(ONE_APP),
    PG_TAKES(READ_PARAMS, PG_ARG("integration_id", PG_TEXT)),
    READ_COLUMNS,
};

#define OLD_OF(name, type) PG_OF(#name, type, struct tally_old, name)
static const struct pg_column old_columns[] = {OLD_OF(account_id, PG_UUID), OLD_OF(slot, PG_TIME)};
/* Gives the slot of a row of the given age: short enough that the charts' steps (tally_range_of)
 * can still separate it, with a margin for clocks that differ. Each slot is a multiple of the one
 * before. */
/* clang-format off */
#define BEFORE(length, age) "date_bin(interval '" length "', now(), 'epoch') - interval '" age "'"
#define BEFORE_HOURS        BEFORE("1 hour", "2 hours")
#define BEFORE_QUARTERS     BEFORE("6 hours", "30 hours")
#define BEFORE_DAYS         BEFORE("1 day", "8 days")
#define BEFORE_ALL          BEFORE("1 hour", "30 days")
#define BEGIN_OF(row, length)  "date_bin(interval '" length "', " row ".slot, 'epoch')"
#define IS_WITHIN(length)      "d.is_hour and " BEGIN_OF("d", length) " <> d.slot"
#define BEGIN(row)                                                        \
    "case when " row ".slot < " BEFORE_DAYS " then " BEGIN_OF(row, "1 day") \
    " when " row ".slot < " BEFORE_QUARTERS " then " BEGIN_OF(row, "6 hours") \
    " else " BEGIN_OF(row, "1 hour") " end"
#define OLDER(index, before)                                                                \
    "(select d.account_id, d.slot from sluice.tally d where " index " and d.slot < " before \
    " order by d.slot limit 5000)"
/* Rows are found through the partial indexes tally_young, tally_within_6h, tally_within_day and
 * tally_hour. */
#define ALL_OLD                                                           \
    OLDER("not d.is_hour", BEFORE_HOURS) " union all "                    \
    OLDER(IS_WITHIN("6 hours"), BEFORE_QUARTERS) " union all "            \
    OLDER(IS_WITHIN("1 day"), BEFORE_DAYS) " union all "                  \
    OLDER("d.is_hour", BEFORE_ALL)
/* clang-format on */
static const struct pg_stmt tally_due = {
    .name = "tally_due",
    .sql = "select :ord, h.* from @input lateral (select distinct u.account_id, u.slot from "
           "(" ALL_OLD ") u order by 2 limit 500) h",
    PG_COLUMNS(old_columns),
    .no_account = "a read-only scan for what is to be folded, over all accounts",
    .is_spread = true,
    .spread_max = TALLY_OLD_MAX,
    .spread_order = "slot",
};

/* Folded rows are deleted before the sum is inserted, since a slot may have the key of its first
 * part. Blocked calls have no buckets, so the sums of their buckets are NULL. A resend finds
 * nothing. */
/* clang-format off */
#define FOLDED(n) ", sum(g.buckets[" #n "])"
#define FOLDS                                                                                   \
    "select g.account_id, " BEGIN("g") ", g.integration_id, g.action_id, g.outcome, "           \
    "g.error_code, true, sum(g.calls), sum(g.ms_sum), array_remove("                            \
    "array[null" STORE_EACH_BUCKET(FOLDED) "], null), max(g.last) from gone g where g.slot >= now() - "            \
    "interval '30 days' group by 1, 2, 3, 4, 5, 6"
#define IS_DUE "(not t.is_hour or " BEGIN("t") " <> t.slot or t.slot < now() - interval '30 days')"
/* clang-format on */
static const struct pg_stmt tally_fold = {
    .name = "tally_fold",
    .sql = "with gone as (delete from sluice.tally t @delete(sluice.tally) and " IS_DUE
           " returning t.*) insert into sluice.tally as t (account_id, slot, integration_id, "
           "action_id, outcome, error_code, is_hour, calls, ms_sum, buckets, last) " FOLDS ADD_UP,
    PG_PARAMS(old_columns),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

const struct pg_stmt *const tally_stmts[] = {
    &tally_add,      &tally_rows, &tally_app_rows, &tally_read,
    &tally_app_read, &tally_due,  &tally_fold,     NULL};

size_t tally_bucket_of(int64_t ms)
{
    size_t at = 0;
    while (at < TALLY_BUCKETS - 1 && ms >= bounds[at])
        at++;
    return at;
}

slice tally_buckets_write(char room[TALLY_BUCKETS_TEXT_MAX], const int64_t buckets[TALLY_BUCKETS])
{
    char digits[SLICE_U64_MAX];
    size_t len = 0;
    bool is_empty = true;
    room[len++] = '{';
    for (size_t i = 0; i < TALLY_BUCKETS; i++) {
        slice number = slice_of_u64((uint64_t)buckets[i], digits);
        is_empty &= buckets[i] == 0;
        memcpy(room + len, number.ptr, number.len);
        len += number.len;
        room[len++] = i + 1 < TALLY_BUCKETS ? ',' : '}';
    }
    return is_empty ? SLICE("{}") : slice_of(room, len);
}

int64_t tally_percentile(const int64_t buckets[TALLY_BUCKETS], unsigned percent)
{
    int64_t total = 0, below = 0;
    for (size_t i = 0; i < TALLY_BUCKETS; i++)
        total += buckets[i];
    if (total == 0)
        return -1;
    double wanted = (double)total * percent / 100;
    for (size_t i = 0; i < TALLY_BUCKETS; i++) {
        if (buckets[i] == 0 || (double)(below + buckets[i]) < wanted) {
            below += buckets[i];
            continue;
        }
        int64_t from = i > 0 ? bounds[i - 1] : 0, to = i < TALLY_BUCKETS - 1 ? bounds[i] : MS_MAX;
        double fraction = (wanted - (double)below) / (double)buckets[i];
        return from + (int64_t)(fraction * (double)(to - from));
    }
    return MS_MAX; /* not reached, since the sum of all buckets is at least `wanted` */
}

bool tally_range_of(uint64_t hours, int64_t now, struct tally_range *range)
{
    /* before_s is the slot of rows that are twice as old as the range. */
    static const struct {
        uint64_t hours;
        int64_t step_s, before_s;
    } ranges[] = {
        {1, 300, 300}, {24, 3600, 6 * 3600}, {168, 6 * 3600, 24 * 3600}, {720, 24 * 3600, 0}};
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
        int64_t step_s = ranges[i].step_s, before_s = ranges[i].before_s,
                steps = (int64_t)hours * 3600 / step_s;
        if (ranges[i].hours != hours)
            continue;
        /* The last step contains now. */
        int64_t since_s = (now / 1000000 / step_s + 1 - steps) * step_s;
        *range = (struct tally_range){since_s * 1000000, step_s, (size_t)steps, 0, before_s};
        if (before_s > 0)
            range->before_at = (since_s - steps * step_s) / before_s * before_s * 1000000;
        return true;
    }
    return false;
}

/* ---- the newest failure ---- */

enum { LAST_DIGITS = 16 };

slice tally_last_write(char room[TALLY_LAST_MAX], int64_t at, slice message)
{
    char digits[SLICE_U64_MAX];
    slice number = slice_of_u64(at > 0 ? (uint64_t)at : 0, digits);
    size_t len = number.len < LAST_DIGITS ? LAST_DIGITS - number.len : 0;
    memset(room, '0', len);
    memcpy(room + len, number.ptr, number.len);
    len += number.len;
    room[len++] = ' ';
    while (message.len > 0) {
        uint32_t c = 0;
        size_t size = slice_utf8_first(message);
        bool is_safe = size > 0 && slice_code_point(message, &c) == size &&
                       !code_point_is_unsafe(c);
        if (len + (is_safe ? size : 1) > TALLY_LAST_MAX)
            break;
        if (is_safe)
            memcpy(room + len, message.ptr, size);
        else
            room[len] = ' ';
        len += is_safe ? size : 1;
        message = slice_from(message, size > 0 ? size : 1);
    }
    return slice_of(room, len);
}

slice tally_last_read(slice last, int64_t *at)
{
    slice number = slice_split(&last, ' ');
    if (!slice_to_i64(number, at))
        *at = 0;
    return last.ptr ? last : SLICE("");
}

void store_tally_add(STORE_ARGS, const struct tally_row *row)
{
    ASSERT(row->calls > 0 && (row->outcome == TALLY_SUCCEEDED) == (row->error_code.len == 0));
    store_ask_of(pool, query, op, &tally_add, row, PG_NO_VALUES);
}

void store_tally_rows(STORE_ARGS, struct uuid account_id, slice integration_id, int64_t from_at)
{
    if (integration_id.ptr)
        store_ask(pool, query, op, &tally_app_rows,
                  PG_VALUES(pg_uuid(account_id), pg_time(from_at), pg_text(integration_id)));
    else
        store_ask(pool, query, op, &tally_rows, PG_VALUES(pg_uuid(account_id), pg_time(from_at)));
}

void store_tally_read(STORE_ARGS, struct uuid account_id, slice integration_id,
                      const struct tally_range *range, int64_t from_at, int64_t open_at)
{
    const struct pg_value values[] = {pg_uuid(account_id),   pg_time(range->since),
                                      pg_i64(range->step_s), pg_time(from_at),
                                      pg_time(open_at),      pg_text(integration_id)};
    ASSERT(range->step_s > 0 && range->step_s % TALLY_SLOT_S == 0);
    if (integration_id.ptr)
        store_ask(pool, query, op, &tally_app_read, values, ARRAY_LEN(values));
    else
        store_ask(pool, query, op, &tally_read, values, ARRAY_LEN(values) - 1);
}

STORE_CALL(store_tally_due, tally_due)
STORE_CALL_OF(store_tally_fold, tally_fold, tally_old)
