/*
 * Tallies in memory; see tally.h. A row that is being written is removed from the table, so that a
 * call during the write begins another row. It returns to the table if nothing was stored.
 */
#include "exec/tally.h"

#include "base/clock.h"
#include "base/metric.h"

enum { BUCKETS_TEXT_MAX = TALLY_BUCKETS * (SLICE_U64_MAX + 1) + 2 };

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
    char buckets[BUCKETS_TEXT_MAX];
};

static void lose(int64_t calls)
{
    metric_add(metric_series(&lost_total, SLICE_NONE), (double)calls);
}

/* Returns NULL if there is no room. */
static struct tally *tally_get(struct tallies *tallies, slice key)
{
    struct tally *tally = keyed_find(&tallies->table, key);
    if (tally || tallies->table.map.count >= TALLIES_MAX)
        return tally;
    tally = keyed_get(&tallies->table, key);
    if (tally)
        list_push_back(&tallies->order, &tally->keyed.ring);
    return tally;
}

static void arm_timer(struct tallies *tallies)
{
    if (!list_is_empty(&tallies->order) && !timer_is_armed(&tallies->timer))
        timer_start_in_ms(&tallies->timer, TALLIES_EVERY_MS);
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

static slice buckets_text(const struct tally *tally, char *room)
{
    char digits[SLICE_U64_MAX];
    size_t len = 0;
    room[len++] = '{';
    for (size_t i = 0; i < TALLY_BUCKETS; i++) {
        slice number = slice_of_u64((uint64_t)tally->buckets[i], digits);
        memcpy(room + len, number.ptr, number.len);
        len += number.len;
        room[len++] = i + 1 < TALLY_BUCKETS ? ',' : '}';
    }
    return slice_of(room, len);
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
        .buckets = key.outcome == TALLY_BLOCKED ? SLICE("{}") : buckets_text(tally, sent->buckets),
        .last = tally->last_len > 0 ? last_of(tally) : SLICE_NONE,
    };
    row.integration_id = take_text(&at, key.integration_len);
    row.action_id = take_text(&at, key.action_len);
    row.error_code = take_text(&at, key.code_len);
    store_tally_add(later->laters->pool, &later->query, &later->op, &row);
}

/* Called if the write was rolled back or never sent. Adds the counts to the row that calls during
 * the write have begun, if any. */
static void put_back(struct tallies *tallies, const struct tally *sent)
{
    struct tally *tally = tally_get(tallies, slice_of(sent->keyed.key, sent->keyed.key_len));
    if (!tally) {
        lose(sent->calls);
        return;
    }
    tally->calls += sent->calls;
    tally->ms_sum += sent->ms_sum;
    for (size_t i = 0; i < TALLY_BUCKETS; i++)
        tally->buckets[i] += sent->buckets[i];
    if (slice_cmp(last_of(sent), last_of(tally)) > 0)
        set_last(tally, last_of(sent));
    arm_timer(tallies);
}

static bool on_sent(struct store_later *later)
{
    const struct sent *sent = CONTAINER_OF(later, struct sent, later);
    int status = store_done_result(&later->query);
    if (status == ERR_BUSY || status == ERR_TIMEOUT || status == ERR_IO)
        put_back(CONTAINER_OF(later->laters, struct tallies, sent), &sent->tally);
    else if (status != OK)
        lose(sent->tally.calls); /* the account no longer exists, or the row may have been stored */
    return false;
}

static const struct store_later_class sent_class = {
    STORE_LATER(store_later_once, "tallies", struct sent),
    .send = send_row,
    .on_sent = on_sent,
    .failure = "tallies could not be written",
};

/* Rows that do not fit are written with the next statement. */
void tallies_write(struct tallies *tallies)
{
    struct sent *sent;
    timer_stop(&tallies->timer);
    while (!list_is_empty(&tallies->order) &&
           (sent = store_later(&tallies->sent, &sent_class, NULL, 0))) {
        struct tally *tally = LIST_ITEM(tallies->order.next, struct tally, keyed.ring);
        sent->tally = *tally;
        keyed_drop(&tallies->table, &tally->keyed);
    }
    arm_timer(tallies);
}

static void on_due(struct timer *timer)
{
    tallies_write(CONTAINER_OF(timer, struct tallies, timer));
}

bool tallies_are_written(const struct tallies *tallies)
{
    return tallies->sent.count == 0 && tallies->table.map.count == 0;
}

/* ---- counting ---- */

static void append(struct keyed *to, slice text)
{
    if (text.len > 0)
        memcpy(to->key + to->key_len, text.ptr, text.len);
    to->key_len += text.len;
}

void tallies_count(struct tallies *tallies, struct uuid account_id, slice integration_id,
                   slice action_id, const struct exec_outcome *outcome, const struct json *input,
                   uint64_t took_ns)
{
    bool is_blocked = exec_reason_is_blocked(outcome->reason);
    slice code = exec_outcome_error_code(outcome);
    int64_t now = clock_shared_us();
    struct keyed text = {0};
    struct tally_key key;
    if (!exec_reason_status(outcome->reason) || outcome->is_replayed || outcome->is_dry_run)
        return;
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
        tally = tally_get(tallies, slice_of(text.key, text.key_len));
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
        slice message = tally_message(said, outcome->message, input);
        set_last(tally, tally_last_write(room, now, message));
    }
    arm_timer(tallies);
}

/* ---- the service ---- */

void tallies_init(struct tallies *tallies, struct loop *loop, struct pg_pool *pool)
{
    store_laters_init(&tallies->sent, loop, pool, TALLIES_FLUSH_MAX);
    keyed_init(&tallies->table, sizeof(struct tally));
    list_init(&tallies->order);
    timer_init(&tallies->timer, loop, on_due);
}

void tallies_deinit(struct tallies *tallies)
{
    timer_stop(&tallies->timer);
    LIST_EACH(&tallies->order, struct keyed, entry, ring)
        keyed_drop(&tallies->table, entry);
    keyed_deinit(&tallies->table);
    store_laters_deinit(&tallies->sent);
}
