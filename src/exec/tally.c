/*
 * Tallies in memory; see tally.h.
 */
#include "exec/tally.h"

#include "base/clock.h"
#include "base/metric.h"

static struct metric lost_total =
    METRIC_INIT("sluice_tallies_lost_total",
                "Calls that no chart shows, since they could not be counted.", METRIC_COUNTER);

/* The beginning of a row's key; the integration, action and error code follow. */
struct tally_key {
    struct uuid account_id;
    int64_t slot;
    uint8_t outcome, integration_len, action_len, code_len;
};

struct tally {
    struct keyed keyed;
    int64_t calls, ms_sum;
    int64_t buckets[TALLY_BUCKETS];
    uint8_t last_len; /* 0: it succeeded */
    char last[TALLY_LAST_MAX];
};
_Static_assert(TALLY_LAST_MAX <= UINT8_MAX, "last_len");

struct sent {
    struct store_later later;
    struct tally tally; /* a copy; its entry is in no ring */
    char buckets[TALLY_BUCKETS_TEXT_MAX];
};

static void lose(int64_t calls)
{
    metric_add(metric_series(&lost_total, SLICE_NONE), (double)calls);
}

static slice last_of(const struct tally *tally)
{
    return slice_of(tally->last, tally->last_len);
}

static void set_last(struct tally *tally, slice last)
{
    if (last.len > 0)
        memcpy(tally->last, last.ptr, last.len);
    tally->last_len = (uint8_t)last.len;
}

/* ---- writing ---- */

static slice take_text(const char **at, size_t len)
{
    slice text = slice_of(*at, len);
    *at += len;
    return text;
}

static void send_row(struct store_later *later)
{
    struct sent *sent = CONTAINER_OF(later, struct sent, later);
    const struct tally *tally = &sent->tally;
    const char *at = tally->keyed.key + sizeof(struct tally_key);
    struct tally_key key;
    memcpy(&key, tally->keyed.key, sizeof(key));
    struct tally_row row = {
        .account_id = key.account_id,
        .slot = key.slot,
        .outcome = (enum tally_outcome)key.outcome,
        .calls = tally->calls,
        .ms_sum = tally->ms_sum,
        .buckets = key.outcome == TALLY_BLOCKED
                       ? SLICE("{}")
                       : tally_buckets_write(sent->buckets, tally->buckets),
        .last = tally->last_len > 0 ? last_of(tally) : SLICE_NONE,
    };
    row.integration_id = take_text(&at, key.integration_len);
    row.action_id = take_text(&at, key.action_len);
    row.error_code = take_text(&at, key.code_len);
    store_tally_add(later->laters->pool, &later->query, &later->op, &row);
}

static void add_tally(void *row, const void *more)
{
    struct tally *tally = row;
    const struct tally *sent = more;
    tally->calls += sent->calls;
    tally->ms_sum += sent->ms_sum;
    for (size_t i = 0; i < TALLY_BUCKETS; i++)
        tally->buckets[i] += sent->buckets[i];
    if (slice_cmp(last_of(sent), last_of(tally)) > 0)
        set_last(tally, last_of(sent));
}

static void lose_tally(const void *row)
{
    const struct tally *tally = row;
    lose(tally->calls);
}

const struct counts_class tallies_class = {
    .row_size = sizeof(struct tally),
    .rows_max = TALLIES_MAX,
    .flush_max = TALLIES_FLUSH_MAX,
    .every_ms = TALLIES_EVERY_MS,
    .later = {COUNTS_LATER("tallies", struct sent), .send = send_row,
              .failure = "tallies could not be written"},
    .row_at = offsetof(struct sent, tally),
    .add = add_tally,
    .lose = lose_tally,
};

/* ---- counting ---- */

static void append(struct keyed *to, slice text)
{
    if (text.len > 0)
        memcpy(to->key + to->key_len, text.ptr, text.len);
    to->key_len += text.len;
}

void tallies_count(struct counts *tallies, struct uuid account_id, slice integration_id,
                   slice action_id, const struct exec_outcome *outcome, const struct json *input,
                   uint64_t took_ns)
{
    bool is_blocked = exec_reason_is_blocked(outcome->reason);
    slice code = exec_outcome_error_code(outcome);
    int64_t now = clock_shared_us();
    struct keyed text = {0};
    struct tally_key key;
    memset(&key, 0, sizeof(key)); /* the key's padding is compared, too */
    key.account_id = account_id;
    key.slot = now / (TALLY_SLOT_S * 1000000LL) * (TALLY_SLOT_S * 1000000LL);
    key.outcome = is_blocked                          ? TALLY_BLOCKED
                  : outcome->reason == EXEC_SUCCEEDED ? TALLY_SUCCEEDED
                                                      : TALLY_FAILED;
    struct tally *tally = NULL;
    if (sizeof(key) + integration_id.len + action_id.len + code.len <= sizeof(text.key)) {
        key.integration_len = (uint8_t)integration_id.len;
        key.action_len = (uint8_t)action_id.len;
        key.code_len = (uint8_t)code.len;
        append(&text, slice_of((const char *)&key, sizeof(key)));
        append(&text, integration_id);
        append(&text, action_id);
        append(&text, code);
        tally = counts_row(tallies, slice_of(text.key, text.key_len));
    }
    if (!tally) {
        lose(1);
        return;
    }
    int64_t ms = (int64_t)(took_ns / 1000000);
    tally->calls++;
    tally->ms_sum += ms;
    tally->buckets[tally_bucket_of(ms)]++;
    if (key.outcome != TALLY_SUCCEEDED) {
        char room[TALLY_LAST_MAX], said[TALLY_LAST_MAX];
        /* A held run says that it waits, which may be over when the charts are read. */
        slice message = outcome->reason == EXEC_HELD
                            ? SLICE("It was held for the approval of a person.")
                            : tally_message(said, outcome->message, input);
        set_last(tally, tally_last_write(room, now, message));
    }
}
