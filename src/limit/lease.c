/*
 * Leases of limits; see lease.h. The row has reserved the amount that a process may use between two
 * requests (store/rate_lease.c), so a process never returns what it may be using at the moment:
 * each request states how much the process keeps while the request is under way.
 */
#include "limit/lease.h"

#include "base/mem.h"
#include "base/metric.h"

enum {
    ASK_TIMEOUT_MS =
        1000, /* then the database is unreachable; below RATE_LEASE_MS - LEASE_TICK_MS */
    /* Requests that may be without an answer, for limits whose last request had none: more would
     * only wait for the same node. */
    UNANSWERED_MAX = LEASE_FLUSH_MAX / 4,
    ASKS_MAX = 4 * LEASE_FLUSH_MAX, /* all requests under way */
    USUAL_PROCESSES = 8, /* a part smaller than the limit divided by this number will soon grow */
};
#define MS_NS 1000000ULL

static struct metric asked_total =
    METRIC_INIT("sluice_leases_asked_total",
                "Parts of limits that were requested from the database.", METRIC_COUNTER);
static struct metric unanswered_total = METRIC_INIT(
    "sluice_leases_unanswered_total",
    "Parts of limits that the database did not grant: the last one stays in use.", METRIC_COUNTER);

struct leases {
    struct store_laters asks; /* under way */
    struct uuid holder;
    struct list active; /* struct lease.link: those with something to request or report */
    struct list asked;  /* struct lease.link: those in LEASE_ASKED, first request first */
    size_t count;       /* number of leases */
    size_t unanswered;  /* asks with is_unanswered */
    struct timer timer;
    uint64_t flushed_ns;
    bool is_closed;
};

struct lease_ask {
    struct store_later later;
    struct lease *lease; /* NULL once it has ended */
    struct rate_lease_ask row;
    char name[RATE_LEASE_NAME_MAX];
    int64_t used;
    uint64_t sent_ns;
    bool is_lost;       /* an answer was lost: the database may have given the part away */
    bool is_unanswered; /* the lease was or became LEASE_ALONE */
};

static uint64_t now_of(const struct leases *leases)
{
    return loop_now_ns(leases->asks.loop);
}

/* ---- when to request ---- */

/* An urgent request waits only for LEASE_GAP_MS. The others share the tick, so that one
 * statement has all requests of a process. */
static uint64_t lease_due_ns(const struct lease *lease)
{
    const struct leases *leases = lease->leases;
    uint64_t tick = lease->asked_ns + LEASE_TICK_MS * MS_NS;
    uint64_t gap = leases->flushed_ns + LEASE_GAP_MS * MS_NS;
    return lease->is_urgent ? gap : tick > gap ? tick : gap;
}

/* There is one timer for all leases; a flush checks at its end which are due. */
static void leases_await(struct leases *leases, uint64_t due)
{
    uint64_t now = now_of(leases);
    due = due > now ? due : now;
    if (!timer_is_armed(&leases->timer) || leases->timer.due_ns > due)
        timer_start(&leases->timer, due);
}

static void lease_activate(struct lease *lease)
{
    /* While a request is under way, on_end checks again. */
    if (!lease->leases || lease->leases->is_closed || lease->ask)
        return;
    if (list_is_empty(&lease->link))
        list_push_back(&lease->leases->active, &lease->link);
    leases_await(lease->leases, lease_due_ns(lease));
}

/* Whether the lease is still requested. An unused lease lets its part expire, for other processes.
 * One that was not answered is requested until it is: its part does not expire before. */
static bool lease_is_in_use(const struct lease *lease)
{
    return lease->used != 0 || lease->backlog > 0 || lease->floor > 0 || lease->is_urgent ||
           lease->state == LEASE_ALONE;
}

/* ---- requests ---- */

/* A limit by number of calls has no burst; a rate always has one. */
static bool is_of_calls(const struct lease *lease)
{
    return lease->burst == 0;
}

/* Returns the need per second, taken from the busier of the current and the previous half
 * second. */
static int64_t rate_needed(const struct lease *lease)
{
    int64_t most = lease->arrived > lease->arrived_before ? lease->arrived : lease->arrived_before;
    if (most < (int64_t)lease->backlog)
        most = (int64_t)lease->backlog;
    return most * LEASE_MILLION * (1000 / LEASE_TICK_MS);
}

/* Without other processes, or without the database, the part is the whole limit. */
static bool has_it_all(const struct lease *lease)
{
    return lease->state == LEASE_ALONE && lease->last == LEASE_NO_PART;
}

/* The database may give another process all but the floor, so until the answer arrives this process
 * makes no call above it. While the database is unreachable it keeps its whole part. */
static void fill_calls(struct lease *lease, struct rate_lease_ask *row)
{
    row->need = (int64_t)(lease->floor + lease->backlog);
    row->floor = (int64_t)lease->floor;
    if (lease->state == LEASE_ASKED && lease->part > row->floor)
        lease->part = row->floor;
    if (!has_it_all(lease) && row->floor < lease->part)
        row->floor = lease->part;
}

/* Half of the unused tokens is returned for other processes. While the database is unreachable, all
 * stay, except those of a whole limit, which the database did not grant. */
static void fill_row(struct lease *lease, struct rate_lease_ask *row)
{
    row->total = lease->total;
    row->burst = lease->burst;
    if (is_of_calls(lease)) {
        fill_calls(lease, row);
        return;
    }
    if (lease->state == LEASE_ASKED && lease->tokens.tokens > 0 && lease->backlog == 0)
        lease->given_back = lease->tokens.tokens / 2;
    lease->tokens.tokens -= lease->given_back;
    row->used = lease->used * LEASE_MILLION;
    row->need = rate_needed(lease);
    row->backlog = (int64_t)lease->backlog * LEASE_MILLION;
    if (!has_it_all(lease) && lease->tokens.tokens > 0)
        row->kept = (int64_t)(lease->tokens.tokens * LEASE_MILLION);
}

static void ask_count_unanswered(struct lease_ask *ask, bool is_unanswered)
{
    struct leases *leases = CONTAINER_OF(ask->later.laters, struct leases, asks);
    leases->unanswered += (size_t)is_unanswered - (size_t)ask->is_unanswered;
    ask->is_unanswered = is_unanswered;
}

static void ask_init(struct lease_ask *ask, struct lease *lease, uint64_t now)
{
    lease_fill(lease, now);
    lease->owner->on_ask(lease);
    ask->lease = lease;
    ask->sent_ns = now;
    ask->used = lease->used;
    memcpy(ask->name, lease->name, lease->name_len);
    ask->row.account_id = lease->account_id;
    ask->row.name = slice_of(ask->name, lease->name_len);
    ask->row.holder = lease->leases->holder;
    list_unlink(&lease->link);
    lease->given_back = 0;
    lease->refused_ns = 0;
    ask_count_unanswered(ask, lease->state == LEASE_ALONE);
    if (lease->state != LEASE_ALONE) {
        lease->last = lease->state == LEASE_HELD ? lease->part : LEASE_NO_PART;
        lease->state = LEASE_ASKED;
        list_push_back(&lease->leases->asked, &lease->link);
    }
    fill_row(lease, &ask->row);
    lease->ask = ask;
    lease->asked_ns = now;
    lease->used = 0;
    lease->is_urgent = false;
    metric_inc(&asked_total);
}

static void send_ask(struct store_later *later)
{
    struct lease_ask *ask = CONTAINER_OF(later, struct lease_ask, later);
    later->query.deadline_ns = ask->sent_ns + ASK_TIMEOUT_MS * MS_NS;
    store_rate_lease_take(later->laters->pool, &later->query, &later->op, &ask->row);
}

/* The tokens used while the request was under way are subtracted: the request had kept them. */
static void lease_take_answer(struct lease *lease, const struct lease_ask *ask,
                              const struct rate_lease *got)
{
    double tokens = (double)got->held / LEASE_MILLION - (double)lease->used;
    lease->tokens = (struct token_bucket){tokens, now_of(lease->leases)};
    lease->part = got->part;
    lease->state = LEASE_HELD;
    lease->ends_ns = ask->sent_ns + RATE_LEASE_MS * MS_NS;
    lease->may_have_more = is_of_calls(lease)
                               ? got->part >= ask->row.need
                               : got->held >= ask->row.backlog && got->held >= ask->row.kept;
}

static void lease_go_alone(struct lease *lease)
{
    if (lease->state != LEASE_ASKED)
        return;
    list_unlink(&lease->link);
    lease->state = LEASE_ALONE;
    if (lease->last != LEASE_NO_PART)
        lease->part = lease->last;
    lease->tokens.tokens += lease->given_back;
}

static void lease_answered(struct lease *lease)
{
    lease_fill(lease, now_of(lease->leases));
    lease->owner->on_answer(lease);
}

/* If the connection was lost, the database may have given away the part above the floor. So the
 * request is repeated until it is answered, whatever a repetition fails with, and the part stays at
 * the floor until ASK_TIMEOUT_MS have passed. */
static bool on_sent(struct store_later *later)
{
    struct lease_ask *ask = CONTAINER_OF(later, struct lease_ask, later);
    int status = later->query.status;
    ask->is_lost = ask->is_lost || status == ERR_CLOSED;
    return ask->lease && ask->lease->state == LEASE_ASKED && ask->is_lost && status != OK &&
           status != ERR_INVALID;
}

/* If the answer was lost, the usage is reported again: it may count twice, but is never lost. */
static void on_end(struct store_later *later, enum op_end end)
{
    struct lease_ask *ask = CONTAINER_OF(later, struct lease_ask, later);
    struct lease *lease = ask->lease;
    struct rate_lease got = {0};
    int status = end == OP_ENDED_DONE ? store_rate_lease_take_result(&later->query, &got)
                                      : ERR_CLOSED;
    if (status != OK)
        metric_inc(&unanswered_total);
    ask_count_unanswered(ask, false);
    if (!lease)
        return;
    /* ERR_INVALID: the account no longer exists and has no part; the database is reachable. */
    if (status == OK || status == ERR_INVALID) {
        list_unlink(&lease->link);
        lease_take_answer(lease, ask, &got);
    } else {
        lease_go_alone(lease);
        lease->used += ask->used;
    }
    lease->ask = NULL;
    lease_answered(lease);
    lease->owner->on_ask(lease);
    if (lease_is_in_use(lease))
        lease_activate(lease);
}

static const struct store_later_class ask_class = {
    STORE_LATER(store_later_again, "leases", struct lease_ask),
    .send = send_ask,
    .on_sent = on_sent,
    .on_end = on_end,
    .retry_ms = LEASE_GAP_MS,
    .failure = "parts of limits could not be requested",
};

static uint64_t lease_timeout_ns(const struct lease *lease)
{
    return lease->asked_ns + ASK_TIMEOUT_MS * MS_NS;
}

/* A request that was sent is limited only by statement_timeout, and its answer is awaited: it
 * counts even if it is late. */
static void leases_expire(struct leases *leases, uint64_t now)
{
    LIST_EACH(&leases->asked, struct lease, lease, link) {
        if (lease_timeout_ns(lease) > now)
            return;
        lease_go_alone(lease);
        ask_count_unanswered(lease->ask, true);
        lease_answered(lease);
    }
}

/* A node that is unreachable may have more limits than there are requests. Those that it did not
 * answer wait for it with a few requests, so that the others are left for limits of nodes that
 * answer. */
static struct lease_ask *lease_ask(struct lease *lease)
{
    struct leases *leases = lease->leases;
    size_t answerable = leases->asks.count - leases->unanswered;
    bool may_ask = lease->state == LEASE_ALONE ? leases->unanswered < UNANSWERED_MAX
                                               : answerable < LEASE_FLUSH_MAX;
    return may_ask ? store_later(&leases->asks, &ask_class, NULL, 0) : NULL;
}

/* A request that could not be made for ASK_TIMEOUT_MS counts as unanswered, too. */
static void lease_refuse(struct lease *lease, uint64_t now)
{
    if (lease->refused_ns == 0)
        lease->refused_ns = now;
    if (lease->state == LEASE_ALONE || now < lease->refused_ns + ASK_TIMEOUT_MS * MS_NS)
        return;
    lease_fill(lease, now);
    lease->last = lease->state == LEASE_HELD ? lease->part : LEASE_NO_PART;
    lease->state = LEASE_ALONE;
    lease->asked_ns = now;
    lease->is_urgent = false;
    metric_inc(&unanswered_total);
    lease_answered(lease);
}

/* Takes all leases that are due. Those that are not, or for which there is no room, set the
 * timer again. */
static void on_due(struct timer *timer)
{
    struct leases *leases = CONTAINER_OF(timer, struct leases, timer);
    uint64_t now = now_of(leases);
    leases_expire(leases, now);
    LIST_EACH(&leases->active, struct lease, lease, link) {
        bool is_due = lease_due_ns(lease) <= now;
        struct lease_ask *ask = is_due ? lease_ask(lease) : NULL;
        if (ask)
            ask_init(ask, lease, now);
        else if (is_due)
            lease_refuse(lease, now);
    }
    leases->flushed_ns = now;
    LIST_EACH(&leases->active, struct lease, lease, link)
        leases_await(leases, lease_due_ns(lease));
    if (!list_is_empty(&leases->asked))
        leases_await(leases, lease_timeout_ns(LIST_ITEM(leases->asked.next, struct lease, link)));
}

/* ---- use ---- */

void lease_fill(struct lease *lease, uint64_t now_ns)
{
    bool is_over = lease->state == LEASE_NONE ||
                   (lease->state != LEASE_ALONE && now_ns >= lease->ends_ns);
    if (is_over) {
        lease->part = 0;
        lease->tokens = (struct token_bucket){0, now_ns};
        if (lease->state == LEASE_HELD)
            lease->state = LEASE_NONE;
    }
    if (has_it_all(lease) && lease->part != lease->total) {
        lease->part = lease->total;
        token_bucket_init(&lease->tokens, (double)lease->burst / LEASE_MILLION, now_ns);
    }
    double burst = (double)lease->burst / LEASE_MILLION;
    if (lease->state == LEASE_ALONE && !has_it_all(lease))
        burst = burst * (double)lease->part / (double)lease->total;
    if (!is_of_calls(lease))
        token_bucket_fill(&lease->tokens, (double)lease->part / LEASE_MILLION, burst, now_ns);
}

void lease_arrive(struct lease *lease, uint64_t now_ns)
{
    uint64_t window = now_ns / (LEASE_TICK_MS * MS_NS);
    if (!lease->leases)
        return;
    if (window != lease->window) {
        lease->arrived_before = window == lease->window + 1 ? lease->arrived : 0;
        lease->arrived = 0;
        lease->window = window;
    }
    lease->arrived++;
}

void lease_spend(struct lease *lease, int64_t calls)
{
    if (!is_of_calls(lease)) {
        lease->tokens.tokens -= (double)calls;
        lease->used += lease->leases ? calls : 0;
    }
    lease_activate(lease);
}

bool lease_wants_more(struct lease *lease, uint64_t now_ns)
{
    lease_fill(lease, now_ns);
    if (lease->state == LEASE_ALONE || lease->leases->is_closed) {
        lease_activate(lease);
        return false;
    }
    if (lease->state == LEASE_NONE || lease->may_have_more)
        lease->is_urgent = lease->ask == NULL;
    lease_activate(lease);
    return lease->is_urgent || lease->ask;
}

uint64_t lease_wait_ns(const struct lease *lease, double tokens)
{
    int64_t usual = lease->total / USUAL_PROCESSES;
    int64_t rate = lease->part > usual ? lease->part : usual > 0 ? usual : 1;
    return token_bucket_wait_ns(&lease->tokens, (double)rate / LEASE_MILLION, tokens);
}

/* ---- creation and removal ---- */

void lease_init(struct lease *lease, struct leases *leases, const struct lease_owner *owner,
                struct uuid account_id, slice name)
{
    ASSERT(name.len > 0 && name.len <= RATE_LEASE_NAME_MAX);
    *lease = (struct lease){.leases = leases, .owner = owner, .account_id = account_id};
    list_init(&lease->link);
    lease->last = LEASE_NO_PART;
    lease->state = leases ? LEASE_NONE : LEASE_ALONE;
    memcpy(lease->name, name.ptr, name.len);
    lease->name_len = (uint8_t)name.len;
    if (leases)
        leases->count++;
}

void lease_deinit(struct lease *lease)
{
    if (lease->leases) {
        list_unlink(&lease->link);
        lease->leases->count--;
    }
    if (lease->ask)
        lease->ask->lease = NULL;
    lease->leases = NULL;
    lease->ask = NULL;
}

/* A changed limit does not add a burst, since its tokens stay. */
void lease_set(struct lease *lease, int64_t total, int64_t burst, uint64_t now_ns)
{
    ASSERT(total > 0 && burst >= 0);
    bool is_whole = lease->total > 0 && lease->part == lease->total;
    bool is_new = lease->total == 0;
    lease->total = total;
    lease->burst = burst;
    if (is_whole)
        lease->part = total;
    if (is_new)
        lease->tokens.filled_ns = now_ns;
    lease_fill(lease, now_ns);
}

struct leases *leases_new(struct loop *loop, struct pg_pool *pool)
{
    struct leases *leases = mem_zalloc(sizeof(*leases));
    if (!leases)
        return NULL;
    store_laters_init(&leases->asks, loop, pool, ASKS_MAX);
    leases->holder = uuid_v7();
    list_init(&leases->active);
    list_init(&leases->asked);
    timer_init(&leases->timer, loop, on_due);
    return leases;
}

void leases_close(struct leases *leases)
{
    if (!leases)
        return;
    timer_stop(&leases->timer);
    leases->is_closed = true;
    LIST_EACH(&leases->active, struct lease, lease, link)
        list_unlink(&lease->link);
    store_laters_cancel(&leases->asks);
}

void leases_free(struct leases *leases)
{
    if (!leases)
        return;
    ASSERT(leases->count == 0);
    timer_stop(&leases->timer);
    store_laters_deinit(&leases->asks);
    mem_free(leases);
}
