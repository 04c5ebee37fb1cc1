/*
 * The breaker's memory; see breaker.h for its limits. Time is divided into halves of the window;
 * votes of the current and the previous half count.
 *
 * An origin counts accounts, not votes: a member's verdict is in the half of its newest vote, and
 * is moved when the member votes again, so that no account counts twice.
 */
#include "base/mem.h"
#include "catalog/catalog.h"
#include "limit/breaker_internal.h"

static struct metric state_gauge = METRIC_INIT(
    "sluice_circuit_open",
    "1 while calls to an app's origin are refused for all accounts that tried it.", METRIC_GAUGE);
/* ---- tallies ---- */

static uint64_t half_of(const struct breaker *breaker, uint64_t now)
{
    return now / (breaker->config.window_ms * 1000000ull / 2);
}

/* The previous half is kept, so a sum covers at least a half and at most a whole window. */
static void window_turn(struct window *window, uint64_t half)
{
    if (window->half == half)
        return;
    window->before = window->half + 1 == half ? window->now : (struct tally){.accounts = 0};
    window->now = (struct tally){.accounts = 0};
    window->half = half;
}

struct tally breaker_window_sum(const struct window *window)
{
    const struct tally *now = &window->now, *before = &window->before;
    return (struct tally){
        .votes = {now->votes.succeeded + before->votes.succeeded,
                  now->votes.failed + before->votes.failed},
        .accounts = now->accounts + before->accounts,
        .failing = now->failing + before->failing,
    };
}

bool breaker_is_share(const struct breaker *breaker, uint64_t part, uint64_t all)
{
    return part > 0 && part * 100 >= all * breaker->config.percent;
}

bool breaker_member_is_failing(const struct breaker_member *member)
{
    struct votes sum = breaker_window_sum(&member->window).votes;
    return breaker_is_share(member->breaker, sum.failed, (uint64_t)sum.failed + sum.succeeded);
}

/* Removes the member from the origin's tally, if it is still there. The caller has advanced the
 * origin's window. */
static void member_uncount(struct breaker_member *member)
{
    struct breaker_origin *origin = member->origin;
    if (!member->is_counted)
        return;
    member->is_counted = false;
    if (member->counted_opening != origin->openings)
        return;
    uint64_t half = member->window.half, now = origin->window.half;
    struct tally *tally = half == now       ? &origin->window.now
                          : half + 1 == now ? &origin->window.before
                                            : NULL;
    if (!tally)
        return;
    tally->accounts--;
    tally->failing -= member->is_counted_failing;
}

static void window_count(struct window *window, bool is_failure)
{
    window->now.votes.failed += is_failure;
    window->now.votes.succeeded += !is_failure;
}

/* Counts the vote in the windows of the member and of its origin. */
void breaker_member_vote(struct breaker_member *member, bool is_failure, uint64_t now)
{
    struct breaker_origin *origin = member->origin;
    uint64_t half = half_of(member->breaker, now);
    if (origin) {
        window_turn(&origin->window, half);
        member_uncount(member);
    }
    window_turn(&member->window, half);
    window_count(&member->window, is_failure);
    if (!origin)
        return;
    window_count(&origin->window, is_failure);
    member->is_counted = true;
    member->is_counted_failing = breaker_member_is_failing(member);
    member->counted_opening = origin->openings;
    origin->window.now.accounts++;
    origin->window.now.failing += member->is_counted_failing;
}

/* ---- members ---- */

/* The hash uses the process's own key, so collisions of two origins cannot be constructed. */
struct member_key {
    struct uuid account_id;
    uint64_t origin_hash;
};

static slice member_key(const struct member_key *key)
{
    return slice_of((const char *)key, sizeof(*key));
}

static struct shard *shard_of(struct breaker *breaker, const struct uuid *account_id)
{
    return &breaker
                ->shards[hash_bytes(account_id->bytes, sizeof(account_id->bytes)) % BREAKER_SHARDS];
}

/* The member's vote is removed from the origin's sum, too, as if it had never called. */
static void member_free(struct breaker_member *member)
{
    struct breaker *breaker = member->breaker;
    ASSERT(member->passes == 0);
    if (member->origin)
        member_uncount(member);
    list_unlink(&member->origin_link);
    shard_of(breaker, &member->account_id)->count--;
    keyed_drop(&breaker->members, &member->keyed);
}

/* Drops the least recently used entry without executions under way. Returns false if there is
 * none. */
static bool shard_make_room(struct shard *shard, size_t members_max)
{
    if (shard->count < members_max)
        return true;
    LIST_EACH(&shard->by_age, struct breaker_member, member, keyed.ring) {
        if (member->passes > 0)
            continue;
        member_free(member);
        return true;
    }
    return false;
}

/* If a connection names the host, the integration is part of the key. */
static struct member_key make_member_key(const struct breaker_key *key)
{
    char text[CATALOG_TOOL_NAME_MAX + 1 + BREAKER_ORIGIN_MAX];
    slice scope =
        slice_first(key->is_host_given ? key->integration_id : SLICE_NONE, CATALOG_TOOL_NAME_MAX);
    slice origin = slice_first(key->origin, BREAKER_ORIGIN_MAX);
    if (scope.len > 0)
        memcpy(text, scope.ptr, scope.len);
    text[scope.len] = ' ';
    memcpy(text + scope.len + 1, origin.ptr, origin.len);
    return (struct member_key){key->account_id, hash_bytes(text, scope.len + 1 + origin.len)};
}

/* Returns NULL if all members of the shard have executions under way, or if out of memory; the
 * member is then not counted. */
static struct breaker_member *member_new(struct breaker *breaker, const struct member_key *key,
                                         struct breaker_origin *origin)
{
    struct shard *shard = shard_of(breaker, &key->account_id);
    size_t most = (breaker->config.members_max + BREAKER_SHARDS - 1) / BREAKER_SHARDS;
    struct breaker_member *member =
        shard_make_room(shard, most) ? keyed_get(&breaker->members, member_key(key)) : NULL;
    if (!member)
        return NULL;
    member->account_id = key->account_id;
    if (uuid_is_nil(breaker->first))
        breaker->first = key->account_id;
    breaker->has_others |= !uuid_eq(breaker->first, key->account_id);
    member->breaker = breaker;
    member->origin = origin;
    list_init(&member->origin_link);
    shard->count++;
    list_push_back(&shard->by_age, &member->keyed.ring);
    if (origin)
        list_push_back(&origin->members, &member->origin_link);
    return member;
}

/* ---- origins ---- */

slice breaker_origin_name(const struct breaker_origin *origin)
{
    return slice_of(origin->name, origin->name_len);
}

/* A metric series is made when a circuit first opens: most origins never need one. */
void breaker_origin_set_gauge(struct breaker_origin *origin, bool is_open)
{
    struct buf label;
    if (!origin->gauge && !is_open)
        return;
    if (!origin->gauge) {
        buf_init(&label, METRIC_LABELS_MAX);
        metric_label(&label, "origin", breaker_origin_name(origin));
        origin->gauge = metric_series(&state_gauge, buf_slice(&label));
        buf_deinit(&label);
    }
    metric_set(origin->gauge, is_open);
}

static void origin_free(struct breaker_origin *origin)
{
    ASSERT(origin->passes == 0);
    LIST_EACH(&origin->members, struct breaker_member, member, origin_link)
        member_free(member);
    (void)map_remove(&origin->breaker->origins, breaker_origin_name(origin));
    list_unlink(&origin->age_link);
    breaker_origin_set_gauge(origin, false);
    mem_free(origin);
}

/* Drops the least recently used entry without executions under way. Returns false if there is
 * none. */
static bool origins_make_room(struct breaker *breaker)
{
    if (breaker->origins.count < breaker->config.origins_max)
        return true;
    LIST_EACH(&breaker->by_age, struct breaker_origin, origin, age_link) {
        if (origin->passes > 0)
            continue;
        origin_free(origin);
        return true;
    }
    return false;
}

struct breaker_origin *breaker_origin_get(struct breaker *breaker, slice name)
{
    name = slice_first(name, BREAKER_ORIGIN_MAX);
    struct breaker_origin *origin = map_get(&breaker->origins, name);
    if (!origin && origins_make_room(breaker) && (origin = mem_zalloc(sizeof(*origin)))) {
        origin->breaker = breaker;
        memcpy(origin->name, name.ptr, name.len);
        origin->name_len = name.len;
        list_init(&origin->age_link);
        list_init(&origin->members);
        if (map_put(&breaker->origins, breaker_origin_name(origin), origin, NULL) != OK) {
            mem_free(origin);
            return NULL;
        }
    }
    if (!origin)
        return NULL;
    list_move_back(&breaker->by_age, &origin->age_link);
    return origin;
}

/* The member used last goes to the end of its shard, so the least recently used is dropped. */
struct breaker_member *breaker_member_get(struct breaker *breaker, const struct breaker_key *key)
{
    struct breaker_origin *origin = key->is_host_given ? NULL
                                                       : breaker_origin_get(breaker, key->origin);
    if (!origin && !key->is_host_given)
        return NULL;
    struct member_key of = make_member_key(key);
    struct breaker_member *member = keyed_find(&breaker->members, member_key(&of));
    if (!member)
        return member_new(breaker, &of, origin);
    struct shard *shard = shard_of(breaker, &of.account_id);
    list_move_back(&shard->by_age, &member->keyed.ring);
    return member;
}

struct breaker_member *breaker_member_find(struct breaker *breaker, const struct breaker_key *key)
{
    struct member_key of = make_member_key(key);
    return keyed_find(&breaker->members, member_key(&of));
}

void breaker_table_deinit(struct breaker *breaker)
{
    for (size_t i = 0; i < BREAKER_SHARDS; i++)
        LIST_EACH(&breaker->shards[i].by_age, struct breaker_member, member, keyed.ring)
            member_free(member);
    while (!list_is_empty(&breaker->by_age))
        origin_free(LIST_ITEM(breaker->by_age.next, struct breaker_origin, age_link));
    keyed_deinit(&breaker->members);
    map_deinit(&breaker->origins);
}
