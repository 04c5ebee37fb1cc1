/*
 * Circuits per account and origin, and per origin: when they open and close, and which executions
 * pass; see breaker.h.
 */
#include "base/log.h"
#include "base/mem.h"
#include "limit/breaker_internal.h"

enum {
    ACCOUNTS_MIN_DEFAULT = 3,
    PERCENT_DEFAULT = 50,
    WINDOW_MS_DEFAULT = 10000,
    OPEN_MS_DEFAULT = 5000,
    OPEN_MS_MAX_DEFAULT = 60000,
    PROBES_MAX_DEFAULT = 3,
    ORIGINS_MAX_DEFAULT = 4096,
    MEMBERS_MAX_DEFAULT = 16384,
    PROBE_RETRY_MS = 1000, /* retry time for executions that arrive while probes are under way */
    FRESH_PROBES = 4,      /* probes of accounts without a failure, in the first open period */
};

static struct metric opened_total =
    METRIC_INIT("sluice_circuit_opened_total",
                "Times that a circuit has opened, for all accounts or for one.", METRIC_COUNTER);
static struct metric heard_total =
    METRIC_INIT("sluice_circuit_heard_total",
                "Circuits that opened because another process had opened its own.", METRIC_COUNTER);
static struct metric refused_total = METRIC_INIT(
    "sluice_circuit_refused_total", "Executions refused by an open circuit.", METRIC_COUNTER);

/* The origin is scheme, host and port: URLs with the same origin fail together. */
slice breaker_origin_of(slice url)
{
    ptrdiff_t colon = slice_find_char(url, ':');
    bool has_scheme = colon >= 0 && slice_starts_with(slice_from(url, (size_t)colon), SLICE("://"));
    size_t at = has_scheme ? (size_t)colon + 3 : 0;
    while (at < url.len && url.ptr[at] != '/' && url.ptr[at] != '?')
        at++;
    return slice_first(url, at);
}

/* ---- opening and closing ---- */

/* Opens the circuit and returns the open period. It has jitter, so that processes do not probe at
 * the same moment. */
static uint64_t circuit_open(struct circuit *circuit, const struct breaker_config *config,
                             uint64_t now)
{
    unsigned twice = circuit->is_open ? circuit->open_ms * 2 : config->open_ms;
    circuit->open_ms = twice < config->open_ms_max ? twice : config->open_ms_max;
    uint64_t for_ms = circuit->open_ms + random_below(circuit->open_ms / 4 + 1);
    circuit->is_open = true;
    circuit->opened_ns = now;
    circuit->open_until_ns = now + for_ms * 1000000ull;
    metric_inc(&opened_total);
    return for_ms;
}

/* Earlier counts are invalid after this. */
static void origin_clear(struct breaker_origin *origin)
{
    origin->openings++;
    origin->window.now = origin->window.before = (struct tally){.accounts = 0};
}

static void origin_open(struct breaker_origin *origin, const struct tally *sum, uint64_t now)
{
    const struct breaker_config *config = &origin->breaker->config;
    uint64_t for_ms = circuit_open(&origin->circuit, config, now);
    origin->breaker->news.all = (struct breaker_news){BREAKER_OPENS, for_ms};
    origin->fresh_probe_ns = now + config->open_ms * 1000000ull / FRESH_PROBES;
    origin_clear(origin);
    breaker_origin_set_gauge(origin, true);
    log_event(LOG_WARN, "circuit opened", LOG_STR("origin", breaker_origin_name(origin)),
              LOG_INT("accounts", sum->accounts), LOG_INT("accounts_failing", sum->failing),
              LOG_INT("failed", sum->votes.failed), LOG_INT("succeeded", sum->votes.succeeded),
              LOG_INT("for_ms", for_ms));
}

/* The members' own circuits send their own probes: an origin that has recovered may still refuse
 * one account. */
static void origin_close(struct breaker_origin *origin, uint64_t now)
{
    origin->circuit.is_open = false;
    origin->closed_ns = now;
    origin_clear(origin);
    breaker_origin_set_gauge(origin, false);
    log_event(LOG_INFO, "circuit closed", LOG_STR("origin", breaker_origin_name(origin)));
}

static void log_member(enum log_level level, const char *what, const struct breaker_member *member)
{
    char account[UUID_TEXT_LEN + 1];
    struct votes sum = breaker_window_sum(&member->window).votes;
    uuid_format(member->account_id, account);
    log_event(level, what, LOG_CSTR("account_id", account),
              LOG_STR("origin", member->origin ? breaker_origin_name(member->origin)
                                               : SLICE("(of the account's connection)")),
              LOG_INT("failed", sum.failed), LOG_INT("succeeded", sum.succeeded),
              LOG_INT("for_ms", member->circuit.is_open ? member->circuit.open_ms : 0));
}

static void member_open(struct breaker_member *member, uint64_t now)
{
    struct breaker_origin *origin = member->origin;
    uint64_t for_ms = circuit_open(&member->circuit, &member->breaker->config, now);
    member->breaker->news.own = (struct breaker_news){BREAKER_OPENS, for_ms};
    log_member(LOG_WARN, "circuit opened for an account", member);
    member->window.now = member->window.before = (struct tally){.accounts = 0};
    if (!origin)
        return;
    /* Sets the origin's gauge if every account there fails. One account alone may itself be the
     * cause, unless there is no other. */
    struct tally sum = breaker_window_sum(&origin->window);
    bool is_telling = sum.accounts > 1 || !member->breaker->has_others;
    if (sum.failing == sum.accounts && is_telling)
        breaker_origin_set_gauge(origin, true);
}

static void member_close(struct breaker_member *member)
{
    member->circuit.is_open = false;
    member->window.now = member->window.before = (struct tally){.accounts = 0};
    log_member(LOG_INFO, "circuit closed for an account", member);
}

/* ---- votes ---- */

/* Whether the member may send a probe: its circuit's open period is over, or the origin's circuit
 * has closed since the member's circuit opened. */
static bool member_is_due(const struct breaker_member *member, uint64_t now)
{
    const struct circuit *circuit = &member->circuit;
    return now >= circuit->open_until_ns ||
           (member->origin && member->origin->closed_ns > circuit->opened_ns);
}

/* The volume is checked first: two failures of two calls prove nothing. */
static void check_member(struct breaker_member *member, uint64_t now)
{
    unsigned volume_min = member->breaker->config.volume_min;
    struct votes sum = breaker_window_sum(&member->window).votes;
    if (volume_min > 0 && (uint64_t)sum.failed + sum.succeeded >= volume_min &&
        breaker_member_is_failing(member))
        member_open(member, now);
}

/* Opens the circuit if there were enough executions, enough of them failed, and enough accounts
 * failed, both in number and as a share of the accounts here. */
static void check_origin(struct breaker_origin *origin, uint64_t now)
{
    const struct breaker_config *config = &origin->breaker->config;
    struct tally sum = breaker_window_sum(&origin->window);
    uint64_t count = (uint64_t)sum.votes.failed + sum.votes.succeeded;
    if (config->volume_min > 0 && count >= config->volume_min &&
        breaker_is_share(origin->breaker, sum.votes.failed, config->volume_min) &&
        sum.failing >= config->accounts_min &&
        breaker_is_share(origin->breaker, sum.failing, sum.accounts))
        origin_open(origin, &sum, now);
}

/* The origin's circuit is open: executions that entered before it opened have no vote. */
static void report_open(struct breaker_origin *origin, const struct breaker_pass *pass,
                        bool is_failure, uint64_t now)
{
    struct tally one = {.votes = {0, 1}, .accounts = 1, .failing = 1};
    if (!is_failure && (pass->is_origin_probe || pass->opening == origin->openings)) {
        origin_close(origin, now);
        origin->breaker->news.all.turn = BREAKER_CLOSES;
    } else if (is_failure && pass->is_origin_probe && now >= origin->circuit.open_until_ns) {
        origin_open(origin, &one, now);
    }
}

/* Leaving first clears the pass, so that it votes only once, whatever opens or closes below. */
void breaker_report(struct breaker_pass *given, bool is_failure, uint64_t now)
{
    struct breaker_pass pass = *given;
    struct breaker_member *member = pass.member;
    breaker_leave(given);
    if (!member)
        return;
    struct breaker_origin *origin = member->origin;
    member->breaker->news = (struct breaker_votes_news){.own = {BREAKER_STAYS, 0}};
    member->voted_ns = now;
    member->failed_ns = is_failure ? now : 0;
    bool is_all_open = origin && origin->circuit.is_open;
    if (member->circuit.is_open) {
        if (pass.is_member_probe && !is_failure) {
            member_close(member);
            member->breaker->news.own.turn = BREAKER_CLOSES;
        } else if (pass.is_member_probe && is_failure && member_is_due(member, now)) {
            member_open(member, now);
        }
    } else if (!is_all_open) {
        breaker_member_vote(member, is_failure, now);
        if (is_failure)
            check_member(member, now);
    }
    if (is_all_open)
        report_open(origin, &pass, is_failure, now);
    else if (origin && is_failure)
        check_origin(origin, now);
    if (origin && !is_failure && !origin->circuit.is_open && !member->circuit.is_open)
        breaker_origin_set_gauge(origin, false);
}

/* ---- notifications from other processes ---- */

const struct breaker_votes_news *breaker_news(const struct breaker *breaker)
{
    return &breaker->news;
}

/* Opens the circuit for for_ms. Returns false if it is already open for at least as long. */
static bool circuit_hear(struct circuit *circuit, const struct breaker_config *config,
                         uint64_t for_ms, uint64_t now)
{
    uint64_t most_ms = config->open_ms_max + config->open_ms_max / 4;
    uint64_t until = now + (for_ms < most_ms ? for_ms : most_ms) * 1000000ull;
    if (circuit->is_open && circuit->open_until_ns >= until)
        return false;
    circuit->open_ms = for_ms < config->open_ms_max ? (unsigned)for_ms : config->open_ms_max;
    circuit->is_open = true;
    circuit->opened_ns = now;
    circuit->open_until_ns = until;
    metric_inc(&heard_total);
    return true;
}

static void origin_hear(struct breaker_origin *origin, const struct breaker_news *news,
                        uint64_t now)
{
    const struct breaker_config *config = &origin->breaker->config;
    if (news->turn == BREAKER_CLOSES && origin->circuit.is_open) {
        origin_close(origin, now);
    } else if (news->turn == BREAKER_OPENS &&
               circuit_hear(&origin->circuit, config, news->for_ms, now)) {
        origin->fresh_probe_ns = now + config->open_ms * 1000000ull / FRESH_PROBES;
        origin_clear(origin);
        breaker_origin_set_gauge(origin, true);
    }
}

static void member_hear(struct breaker_member *member, const struct breaker_news *news,
                        uint64_t now)
{
    if (news->turn == BREAKER_CLOSES && member->circuit.is_open)
        member_close(member);
    else if (news->turn == BREAKER_OPENS &&
             circuit_hear(&member->circuit, &member->breaker->config, news->for_ms, now))
        member->window.now = member->window.before = (struct tally){.accounts = 0};
}

void breaker_hear(struct breaker *breaker, const struct breaker_key *key, bool is_of_all,
                  const struct breaker_news *news, uint64_t now)
{
    ASSERT(!is_of_all || !key->is_host_given);
    if (breaker->config.volume_min == 0) /* no circuit ever opens in this process */
        return;
    struct breaker_origin *origin = is_of_all ? breaker_origin_get(breaker, key->origin) : NULL;
    struct breaker_member *member = is_of_all ? NULL : breaker_member_get(breaker, key);
    if (origin)
        origin_hear(origin, news, now);
    if (member)
        member_hear(member, news, now);
}

/* ---- entering ---- */

static uint64_t ms_until(uint64_t at, uint64_t now)
{
    return (at - now + 999999) / 1000000;
}

/* Returns 0 if the execution may go (as a probe if the circuit is open), otherwise the time
 * after which to retry. */
static uint64_t member_refusal_ms(const struct breaker_member *member, uint64_t now)
{
    const struct circuit *circuit = &member->circuit;
    if (!circuit->is_open)
        return 0;
    if (!member_is_due(member, now))
        return ms_until(circuit->open_until_ns, now);
    return circuit->probes < member->breaker->config.probes_max ? 0 : PROBE_RETRY_MS;
}

static bool is_in_good_standing(const struct breaker_member *member, uint64_t now)
{
    uint64_t window_ns = member->breaker->config.window_ms * 1000000ull;
    return member->voted_ns > 0 && member->failed_ns == 0 && now - member->voted_ns < window_ns;
}

/* Whether the account had no known failure recently. */
static bool is_fresh(const struct breaker_member *member, uint64_t now)
{
    uint64_t lately_ns = member->breaker->config.open_ms_max * 1000000ull;
    return member->failed_ns == 0 || now - member->failed_ns >= lately_ns;
}

static bool wants_origin_probe(const struct breaker_member *member, uint64_t now)
{
    return member->origin && member->origin->circuit.is_open && !is_in_good_standing(member, now);
}

static uint64_t origin_refusal_ms(const struct breaker_member *member, uint64_t now)
{
    const struct breaker_origin *origin = member->origin;
    if (!wants_origin_probe(member, now))
        return 0;
    const struct circuit *circuit = &origin->circuit;
    bool is_slot_free = circuit->probes < origin->breaker->config.probes_max && !member->is_probing;
    bool is_due = now >= circuit->open_until_ns ||
                  (now >= origin->fresh_probe_ns && is_fresh(member, now));
    if (is_due && is_slot_free)
        return 0;
    return now < circuit->open_until_ns ? ms_until(circuit->open_until_ns, now) : PROBE_RETRY_MS;
}

static bool is_refused(const struct breaker_member *member, uint64_t now,
                       struct breaker_refusal *refusal)
{
    *refusal = (struct breaker_refusal){member_refusal_ms(member, now), false};
    if (refusal->retry_ms > 0)
        return true;
    *refusal = (struct breaker_refusal){origin_refusal_ms(member, now), true};
    return refusal->retry_ms > 0;
}

bool breaker_enter(struct breaker *breaker, struct breaker_pass *pass,
                   const struct breaker_key *key, uint64_t now, struct breaker_refusal *refusal)
{
    ASSERT(!pass->member);
    struct breaker_member *member = breaker_member_get(breaker, key);
    *pass = (struct breaker_pass){.member = NULL};
    *refusal = (struct breaker_refusal){0, false};
    if (!member) /* nothing is counted */
        return true;
    if (is_refused(member, now, refusal)) {
        metric_inc(&refused_total);
        return false;
    }
    struct breaker_origin *origin = member->origin;
    pass->member = member;
    pass->is_member_probe = member->circuit.is_open;
    pass->is_origin_probe = wants_origin_probe(member, now);
    pass->is_probe = pass->is_member_probe || pass->is_origin_probe;
    pass->opening = origin ? origin->openings : 0;
    member->passes++;
    member->circuit.probes += pass->is_member_probe;
    if (!origin)
        return true;
    origin->passes++;
    if (pass->is_origin_probe) {
        member->is_probing = true;
        origin->fresh_probe_ns = now + breaker->config.open_ms * 1000000ull / FRESH_PROBES;
        if (origin->circuit.probes++ == 0)
            log_event(LOG_INFO, "circuit lets a probe pass",
                      LOG_STR("origin", breaker_origin_name(origin)));
    }
    return true;
}

bool breaker_would_refuse(struct breaker *breaker, const struct breaker_key *key, uint64_t now)
{
    const struct breaker_member *member = breaker_member_find(breaker, key);
    struct breaker_refusal refusal;
    return member && is_refused(member, now, &refusal);
}

bool breaker_is_open(const struct breaker_pass *pass, uint64_t now)
{
    const struct breaker_member *member = pass->member;
    struct breaker_refusal refusal;
    return member && !pass->is_probe && is_refused(member, now, &refusal);
}

void breaker_leave(struct breaker_pass *pass)
{
    struct breaker_member *member = pass->member;
    if (!member)
        return;
    struct breaker_origin *origin = member->origin;
    ASSERT(member->passes > 0);
    member->passes--;
    member->circuit.probes -= pass->is_member_probe;
    if (origin) {
        origin->passes--;
        origin->circuit.probes -= pass->is_origin_probe;
        member->is_probing = member->is_probing && !pass->is_origin_probe;
    }
    *pass = (struct breaker_pass){.member = NULL};
}

/* ---- creation and removal ---- */

struct breaker *breaker_new(const struct breaker_config *config)
{
    struct breaker *breaker = mem_zalloc(sizeof(*breaker));
    if (!breaker)
        return NULL;
    struct breaker_config *own = &breaker->config;
    *own = *config;
    DEFAULT_TO(own->accounts_min, ACCOUNTS_MIN_DEFAULT);
    DEFAULT_TO(own->percent, PERCENT_DEFAULT);
    DEFAULT_TO(own->window_ms, WINDOW_MS_DEFAULT);
    DEFAULT_TO(own->open_ms, OPEN_MS_DEFAULT);
    DEFAULT_TO(own->open_ms_max, OPEN_MS_MAX_DEFAULT);
    if (own->open_ms_max < own->open_ms)
        own->open_ms_max = own->open_ms;
    DEFAULT_TO(own->probes_max, PROBES_MAX_DEFAULT);
    DEFAULT_TO(own->origins_max, ORIGINS_MAX_DEFAULT);
    DEFAULT_TO(own->members_max, MEMBERS_MAX_DEFAULT);
    map_init(&breaker->origins, own->origins_max);
    keyed_init(&breaker->members, sizeof(struct breaker_member));
    list_init(&breaker->by_age);
    for (size_t i = 0; i < BREAKER_SHARDS; i++)
        list_init(&breaker->shards[i].by_age);
    return breaker;
}

void breaker_free(struct breaker *breaker)
{
    if (!breaker)
        return;
    breaker_table_deinit(breaker);
    mem_free(breaker);
}
