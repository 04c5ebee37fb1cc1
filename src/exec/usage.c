/*
 * The use of an account in memory; see usage.h.
 */
#include "exec/usage.h"

#include "base/clock.h"
#include "base/metric.h"
#include "store/usage.h"

static struct metric lost_total =
    METRIC_INIT("sluice_usage_lost_total",
                "Runs that no usage shows, since they could not be counted.", METRIC_COUNTER);

/* A row's key. It has no padding. */
struct usage_key {
    struct usage_by by;
    int64_t day;
};
_Static_assert(sizeof(struct usage_key) == 3 * sizeof(struct uuid) + sizeof(int64_t), "padding");

struct usage {
    struct keyed keyed;
    struct usage_counts counts;
};

struct sent {
    struct store_later later;
    struct usage usage;
    char buckets[TALLY_BUCKETS_TEXT_MAX];
};

static void send_usage(struct store_later *later)
{
    struct sent *sent = CONTAINER_OF(later, struct sent, later);
    const struct usage *usage = &sent->usage;
    struct usage_key key;
    memcpy(&key, usage->keyed.key, sizeof(key));
    const struct usage_row row = {
        .account_id = key.by.account_id,
        .day = key.day,
        .key_id = key.by.key_id,
        .user_id = key.by.user_id,
        .counts = usage->counts,
        .buckets = tally_buckets_write(sent->buckets, usage->counts.buckets),
    };
    store_usage_add(later->laters->pool, &later->query, &later->op, &row);
}

static void add_usage(void *row, const void *more)
{
    struct usage_counts *to = &((struct usage *)row)->counts;
    const struct usage_counts *from = &((const struct usage *)more)->counts;
    to->reads += from->reads;
    to->writes += from->writes;
    to->failed += from->failed;
    to->blocked += from->blocked;
    to->flow_calls += from->flow_calls;
    for (size_t i = 0; i < TALLY_BUCKETS; i++)
        to->buckets[i] += from->buckets[i];
}

/* Whether a row counts what is counted in the row of a user, too. */
static bool is_of_all_users(struct uuid user_id)
{
    return uuid_eq(user_id, usage_users_by_key) || uuid_eq(user_id, usage_users_by_day);
}

static void lose_usage(const void *row)
{
    struct usage_key key;
    memcpy(&key, ((const struct usage *)row)->keyed.key, sizeof(key));
    if (is_of_all_users(key.by.user_id))
        return;
    const struct usage_counts *counts = &((const struct usage *)row)->counts;
    metric_add(metric_series(&lost_total, SLICE_NONE),
               (double)(counts->reads + counts->writes + counts->blocked));
}

const struct counts_class usage_class = {
    .row_size = sizeof(struct usage),
    .rows_max = USAGE_MAX,
    .flush_max = USAGE_FLUSH_MAX,
    .every_ms = USAGE_EVERY_MS,
    .later = {COUNTS_LATER("usage", struct sent), .send = send_usage,
              .failure = "the usage of accounts could not be written"},
    .row_at = offsetof(struct sent, usage),
    .add = add_usage,
    .lose = lose_usage,
};

static void count_row(struct counts *usage, const struct usage_key *key,
                      const struct usage_counts *one)
{
    struct usage *row = counts_row(usage, slice_of((const char *)key, sizeof(*key)));
    if (row)
        add_usage(row, &(const struct usage){.counts = *one});
    else if (!is_of_all_users(key->by.user_id))
        metric_add(metric_series(&lost_total, SLICE_NONE), 1);
}

void usage_count(struct counts *usage, const struct usage_by *by,
                 const struct exec_outcome *outcome, uint64_t took_ns, bool is_write,
                 bool is_of_flow)
{
    bool is_blocked = exec_reason_is_blocked(outcome->reason);
    struct usage_counts one = {
        .blocked = is_blocked,
        .reads = !is_blocked && !is_write,
        .writes = !is_blocked && is_write,
        .failed = !is_blocked && outcome->reason != EXEC_SUCCEEDED,
        .flow_calls = is_of_flow,
    };
    struct usage_key key = {*by, usage_day_of(clock_shared_us())};
    bool is_of_user = !uuid_is_nil(by->user_id);
    if (is_of_user) {
        count_row(usage, &key, &one); /* without the duration: see struct usage_counts */
        key.by.user_id = usage_users_by_key;
    }
    one.buckets[tally_bucket_of((int64_t)(took_ns / 1000000))] = !is_blocked;
    count_row(usage, &key, &one);
    if (is_of_user) {
        key.by.user_id = usage_users_by_day;
        key.by.key_id = (struct uuid){{0}};
        count_row(usage, &key, &one);
    }
}
