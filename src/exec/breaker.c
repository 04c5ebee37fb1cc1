/*
 * Circuits by origin; see breaker.h. Two generations of a window make it slide: votes of the former
 * one count until the present one has lasted as long.
 */
#include "exec/breaker.h"

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"

enum {
    PERCENT_DEFAULT = 50,
    WINDOW_MS_DEFAULT = 10000,
    OPEN_MS_DEFAULT = 5000,
    OPEN_MS_MAX_DEFAULT = 60000,
    PROBES_MAX_DEFAULT = 3,
    ORIGINS_MAX_DEFAULT = 4096,
    PROBE_RETRY_MS = 1000, /* for those who come while the probes are out */
};

/* Of a set of accounts: none, this one, or several. */
struct who {
    struct uuid one;
    bool is_any, is_several;
};

struct votes {
    uint32_t succeeded, failed;
    struct who succeeding, failing;
};

struct breaker_origin {
    struct breaker *breaker;
    struct list age_link; /* least recently used first */
    size_t passes, probes;
    bool is_open; /* until a probe has succeeded */
    uint64_t open_until_ns;
    unsigned open_ms; /* of the present or last time */
    uint64_t window_ends_ns;
    struct votes now, before;    /* halves of the window */
    struct metric_series *gauge; /* once it has opened */
    size_t name_len;
    char name[BREAKER_ORIGIN_MAX];
};

struct breaker {
    struct breaker_config config;
    struct map origins;
    struct list by_age;
};

static struct metric state_gauge = METRIC_INIT(
    "sluice_circuit_open",
    "1 while calls to an origin are refused, of origins that have failed so.", METRIC_GAUGE);
static struct metric opened_total =
    METRIC_INIT("sluice_circuit_opened_total", "Times that a circuit has opened.", METRIC_COUNTER);
static struct metric refused_total = METRIC_INIT(
    "sluice_circuit_refused_total", "Executions refused by an open circuit.", METRIC_COUNTER);

/* ---- votes ---- */

static void who_add(struct who *who, struct uuid account_id)
{
    if (who->is_any && !uuid_eq(who->one, account_id))
        who->is_several = true;
    who->one = account_id;
    who->is_any = true;
}

static void who_join(struct who *who, const struct who *other)
{
    if (!other->is_any)
        return;
    who_add(who, other->one);
    who->is_several = who->is_several || other->is_several;
}

static struct votes votes_sum(const struct breaker_origin *origin)
{
    struct votes sum = origin->now;
    sum.succeeded += origin->before.succeeded;
    sum.failed += origin->before.failed;
    who_join(&sum.succeeding, &origin->before.succeeding);
    who_join(&sum.failing, &origin->before.failing);
    return sum;
}

/* One account fails and another succeeds: it is not the origin. */
static bool is_one_accounts_fault(const struct votes *votes)
{
    if (votes->failing.is_several || !votes->succeeding.is_any)
        return false;
    return votes->succeeding.is_several || !uuid_eq(votes->succeeding.one, votes->failing.one);
}

static void window_turn(struct breaker_origin *origin, uint64_t now)
{
    uint64_t half_ns = origin->breaker->config.window_ms * 1000000ull / 2;
    if (now < origin->window_ends_ns)
        return;
    bool is_recent = now < origin->window_ends_ns + half_ns;
    origin->before = is_recent ? origin->now : (struct votes){0};
    origin->now = (struct votes){0};
    origin->window_ends_ns = now + half_ns;
}

static void window_clear(struct breaker_origin *origin)
{
    origin->now = origin->before = (struct votes){0};
    origin->window_ends_ns = 0;
}

/* ---- origins ---- */

static slice origin_name(const struct breaker_origin *origin)
{
    return slice_of(origin->name, origin->name_len);
}

static void origin_free(struct breaker_origin *origin)
{
    ASSERT(origin->passes == 0);
    (void)map_remove(&origin->breaker->origins, origin_name(origin));
    list_unlink(&origin->age_link);
    if (origin->gauge)
        metric_set(origin->gauge, 0);
    mem_free(origin);
}

/* An origin with executions under way stays; where all have some, false. */
static bool make_room(struct breaker *breaker)
{
    if (breaker->origins.count < breaker->config.origins_max)
        return true;
    LIST_EACH(&breaker->by_age, node)
    {
        struct breaker_origin *origin = LIST_ITEM(node, struct breaker_origin, age_link);
        if (origin->passes > 0)
            continue;
        origin_free(origin);
        return true;
    }
    return false;
}

static struct breaker_origin *origin_find(struct breaker *breaker, slice name)
{
    return map_get(&breaker->origins, slice_first(name, BREAKER_ORIGIN_MAX));
}

static struct breaker_origin *origin_get(struct breaker *breaker, slice name)
{
    struct breaker_origin *origin = origin_find(breaker, name);
    if (!origin && make_room(breaker) && (origin = mem_zalloc(sizeof(*origin)))) {
        origin->breaker = breaker;
        name = slice_first(name, BREAKER_ORIGIN_MAX);
        memcpy(origin->name, name.ptr, name.len);
        origin->name_len = name.len;
        list_init(&origin->age_link);
        if (map_put(&breaker->origins, origin_name(origin), origin, NULL) != OK) {
            mem_free(origin);
            return NULL;
        }
    }
    if (!origin)
        return NULL;
    list_unlink(&origin->age_link);
    list_push_back(&breaker->by_age, &origin->age_link);
    return origin;
}

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

static void origin_open(struct breaker_origin *origin, uint64_t now, const struct votes *votes)
{
    const struct breaker_config *config = &origin->breaker->config;
    unsigned twice = origin->is_open ? origin->open_ms * 2 : config->open_ms;
    origin->open_ms = twice < config->open_ms_max ? twice : config->open_ms_max;
    /* many processes must not send their probes at the same moment */
    uint64_t jitter_ms = random_below(origin->open_ms / 4 + 1);
    origin->is_open = true;
    origin->open_until_ns = now + (origin->open_ms + jitter_ms) * 1000000ull;
    window_clear(origin);
    if (!origin->gauge) {
        struct buf label;
        buf_init(&label, METRIC_LABELS_MAX);
        metric_label(&label, "origin", origin_name(origin));
        origin->gauge = metric_series(&state_gauge, buf_slice(&label));
        buf_deinit(&label);
    }
    metric_set(origin->gauge, 1);
    metric_inc(&opened_total);
    log_event(LOG_WARN, "circuit opened", LOG_STR("origin", origin_name(origin)),
              LOG_INT("failed", votes->failed), LOG_INT("succeeded", votes->succeeded),
              LOG_INT("for_ms", origin->open_ms + jitter_ms));
}

static void origin_close(struct breaker_origin *origin)
{
    origin->is_open = false;
    window_clear(origin);
    metric_set(origin->gauge, 0);
    log_event(LOG_INFO, "circuit closed", LOG_STR("origin", origin_name(origin)));
}

static void judge_window(struct breaker_origin *origin, uint64_t now)
{
    const struct breaker_config *config = &origin->breaker->config;
    struct votes sum = votes_sum(origin);
    uint64_t count = (uint64_t)sum.failed + sum.succeeded;
    if (config->volume_min > 0 && count >= config->volume_min &&
        (uint64_t)sum.failed * 100 >= count * config->percent && !is_one_accounts_fault(&sum))
        origin_open(origin, now, &sum);
}

/* ---- passing ---- */

/* 0: may go (as a probe, where the circuit is open); else when to come again. */
static uint64_t refusal_ms(const struct breaker_origin *origin, uint64_t now)
{
    if (!origin->is_open)
        return 0;
    if (now < origin->open_until_ns)
        return (origin->open_until_ns - now + 999999) / 1000000;
    return origin->probes < origin->breaker->config.probes_max ? 0 : PROBE_RETRY_MS;
}

bool breaker_enter(struct breaker *breaker, struct breaker_pass *pass, slice origin_text,
                   uint64_t now_ns, uint64_t *retry_ms)
{
    ASSERT(!pass->origin);
    struct breaker_origin *origin = origin_get(breaker, origin_text);
    *pass = (struct breaker_pass){NULL, false};
    *retry_ms = 0;
    if (!origin) /* too many others, or no memory: nothing is counted */
        return true;
    *retry_ms = refusal_ms(origin, now_ns);
    if (*retry_ms > 0) {
        metric_inc(&refused_total);
        return false;
    }
    *pass = (struct breaker_pass){origin, origin->is_open};
    origin->passes++;
    if (pass->is_probe && origin->probes++ == 0)
        log_event(LOG_INFO, "circuit lets a probe pass", LOG_STR("origin", origin_name(origin)));
    return true;
}

bool breaker_would_refuse(struct breaker *breaker, slice origin_text, uint64_t now_ns)
{
    const struct breaker_origin *origin = origin_find(breaker, origin_text);
    return origin && refusal_ms(origin, now_ns) > 0;
}

bool breaker_is_open(const struct breaker_pass *pass, uint64_t now_ns)
{
    const struct breaker_origin *origin = pass->origin;
    return origin && origin->is_open && !pass->is_probe && now_ns < origin->open_until_ns;
}

void breaker_leave(struct breaker_pass *pass)
{
    struct breaker_origin *origin = pass->origin;
    if (!origin)
        return;
    ASSERT(origin->passes > 0 && (!pass->is_probe || origin->probes > 0));
    origin->passes--;
    if (pass->is_probe)
        origin->probes--;
    *pass = (struct breaker_pass){NULL, false};
}

void breaker_report(struct breaker_pass *pass, bool is_failure, struct uuid account_id,
                    uint64_t now_ns)
{
    struct breaker_origin *origin = pass->origin;
    bool is_probe = pass->is_probe;
    breaker_leave(pass);
    if (!origin)
        return;
    if (origin->is_open) { /* votes of those who went in before it opened are known already */
        struct votes one = {.failed = 1};
        if (is_probe && !is_failure)
            origin_close(origin);
        else if (is_probe && now_ns >= origin->open_until_ns)
            origin_open(origin, now_ns, &one);
        return;
    }
    window_turn(origin, now_ns);
    struct votes *votes = &origin->now;
    if (is_failure)
        votes->failed++;
    else
        votes->succeeded++;
    who_add(is_failure ? &votes->failing : &votes->succeeding, account_id);
    if (is_failure)
        judge_window(origin, now_ns);
}

/* ---- the whole ---- */

struct breaker *breaker_new(const struct breaker_config *config)
{
    struct breaker *breaker = mem_zalloc(sizeof(*breaker));
    if (!breaker)
        return NULL;
    struct breaker_config *own = &breaker->config;
    *own = *config;
    own->percent = own->percent ? own->percent : PERCENT_DEFAULT;
    own->window_ms = own->window_ms ? own->window_ms : WINDOW_MS_DEFAULT;
    own->open_ms = own->open_ms ? own->open_ms : OPEN_MS_DEFAULT;
    own->open_ms_max = own->open_ms_max ? own->open_ms_max : OPEN_MS_MAX_DEFAULT;
    if (own->open_ms_max < own->open_ms)
        own->open_ms_max = own->open_ms;
    own->probes_max = own->probes_max ? own->probes_max : PROBES_MAX_DEFAULT;
    own->origins_max = own->origins_max ? own->origins_max : ORIGINS_MAX_DEFAULT;
    map_init(&breaker->origins, own->origins_max);
    list_init(&breaker->by_age);
    return breaker;
}

void breaker_free(struct breaker *breaker)
{
    if (!breaker)
        return;
    while (!list_is_empty(&breaker->by_age))
        origin_free(LIST_ITEM(breaker->by_age.next, struct breaker_origin, age_link));
    map_deinit(&breaker->origins);
    mem_free(breaker);
}
