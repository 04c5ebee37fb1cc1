/*
 * Adds up tallies; see tally_sums.h. Each group is added to up to four sums, which are found by
 * their keys.
 */
#include "store/tally_sums.h"

#include <stdlib.h>

#include "base/map.h"

enum { KEY_MAX = 400, STEP_US = 1000000 };

struct node {
    struct tally_sum sum;
    struct node *next;
};

struct adder {
    struct arena *arena;
    const struct tally_range *range;
    struct map map; /* struct node, by key */
    struct node *first;
    size_t count;
    bool is_failed; /* out of memory */
};

/* ---- lookup ---- */

/* A key that is too long is truncated: two sums may become one, which never happens with names
 * of a catalog. */
static struct tally_sum *sum_of(struct adder *adder, const struct tally_sum *wanted)
{
    const int64_t numbers[] = {wanted->kind, wanted->at};
    char room[KEY_MAX];
    slice key = SLICE_JOIN(room, slice_of((const char *)numbers, sizeof(numbers)),
                           wanted->integration_id, SLICE("/"), wanted->action_id, SLICE("/"),
                           wanted->error_code);
    struct node *node = map_get(&adder->map, key);
    if (node)
        return &node->sum;
    node = ARENA_NEW(adder->arena, struct node);
    slice own = arena_dup(adder->arena, key);
    if (!node || !own.ptr || map_put(&adder->map, own, node, NULL) != OK) {
        adder->is_failed = true;
        return NULL;
    }
    *node = (struct node){*wanted, adder->first};
    adder->first = node;
    adder->count++;
    return &node->sum;
}

/* ---- adding ---- */

static void add_steps(struct tally_sum *to, const struct tally_range *range,
                      const struct tally_group *group)
{
    slice rest = group->steps;
    uint64_t step, calls;
    if (group->at != 0) {
        step = (uint64_t)((group->at - range->since) / (range->step_s * STEP_US));
        to->steps[step < range->steps ? step : range->steps - 1] += (uint32_t)group->calls;
        return;
    }
    while (rest.len > 0) {
        slice item = slice_split(&rest, ' ');
        slice number = slice_split(&item, ':');
        if (slice_to_u64(number, INT32_MAX, &step) && slice_to_u64(item, UINT32_MAX, &calls))
            to->steps[step < range->steps ? step : range->steps - 1] += (uint32_t)calls;
    }
}

/* "{1,0,...}" */
static void read_buckets(slice text, int64_t buckets[TALLY_BUCKETS])
{
    slice rest = slice_trim(text);
    memset(buckets, 0, TALLY_BUCKETS * sizeof(*buckets));
    if (rest.len < 2)
        return;
    rest = slice_of(rest.ptr + 1, rest.len - 2);
    for (size_t i = 0; i < TALLY_BUCKETS && rest.len > 0; i++)
        if (!slice_to_i64(slice_split(&rest, ','), &buckets[i]))
            buckets[i] = 0;
}

static void add_group(struct adder *adder, const struct tally_group *group,
                      const int64_t buckets[TALLY_BUCKETS], const struct tally_sum *wanted)
{
    struct tally_sum *sum = sum_of(adder, wanted);
    if (!sum)
        return;
    int64_t *calls[] = {&sum->succeeded, &sum->failed, &sum->blocked};
    *calls[group->outcome] += group->calls;
    sum->ms_sum += group->ms_sum;
    sum->rows += group->rows > 0 ? group->rows : 1;
    for (size_t i = 0; i < TALLY_BUCKETS; i++)
        sum->buckets[i] += buckets[i];
    if (wanted->kind == TALLY_BY_APP)
        add_steps(sum, adder->range, group);
    if (wanted->kind == TALLY_BY_ERROR && slice_cmp(group->last, sum->last) > 0)
        sum->last = group->last;
}

static void add_all(struct adder *adder, const struct tally_group *group)
{
    int64_t step_us = adder->range->step_s * STEP_US, buckets[TALLY_BUCKETS];
    slice app = group->integration_id, action = group->action_id;
    read_buckets(group->buckets, buckets);
    if (group->at != 0)
        add_group(
            adder, group, buckets,
            &(const struct tally_sum){.kind = TALLY_BY_TIME, .at = group->at / step_us * step_us});
    if (!app.ptr || (group->at != 0 && group->at < adder->range->since))
        return;
    add_group(adder, group, buckets,
              &(const struct tally_sum){.kind = TALLY_BY_APP, .integration_id = app});
    add_group(adder, group, buckets,
              &(const struct tally_sum){
                  .kind = TALLY_BY_ACTION, .integration_id = app, .action_id = action});
    if (group->outcome != TALLY_SUCCEEDED)
        add_group(adder, group, buckets,
                  &(const struct tally_sum){.kind = TALLY_BY_ERROR,
                                            .integration_id = app,
                                            .action_id = action,
                                            .error_code = group->error_code});
}

struct tally_sum *tally_sums_of(struct arena *arena, const struct tally_range *range,
                                const struct tally_group *const *groups, size_t count, size_t room,
                                size_t *sum_count)
{
    struct adder adder = {.arena = arena, .range = range};
    ASSERT(range->steps > 0 && range->steps <= TALLY_STEPS_MAX);
    map_init(&adder.map, 4 * count + 1);
    for (size_t i = 0; i < count; i++)
        add_all(&adder, groups[i]);
    map_deinit(&adder.map);
    struct tally_sum *list = ARENA_ARRAY(arena, struct tally_sum, room + adder.count + 1);
    if (!list || adder.is_failed)
        return NULL;
    *sum_count = adder.count;
    for (struct node *node = adder.first; node; node = node->next)
        list[room++] = node->sum;
    return list;
}

/* ---- lists ---- */

static int compare_keys(const void *a, const void *b)
{
    const struct tally_sum *one = a, *other = b;
    if (one->kind != other->kind)
        return one->kind < other->kind ? -1 : 1;
    if (one->at != other->at)
        return one->at < other->at ? -1 : 1;
    int order = slice_cmp(one->integration_id, other->integration_id);
    if (order == 0)
        order = slice_cmp(one->action_id, other->action_id);
    return order ? order : slice_cmp(one->error_code, other->error_code);
}

static int64_t calls_of(const struct tally_sum *sum)
{
    return sum->succeeded + sum->failed + sum->blocked;
}

/* Sorts by key if the calls are equal, so that the order is stable. */
static int compare_sums(const void *a, const void *b)
{
    const struct tally_sum *one = a, *other = b;
    if (one->kind == other->kind && one->at == other->at && calls_of(one) != calls_of(other))
        return calls_of(one) > calls_of(other) ? -1 : 1;
    return compare_keys(a, b);
}

static void add_sum(struct tally_sum *to, const struct tally_sum *sum)
{
    to->succeeded += sum->succeeded;
    to->failed += sum->failed;
    to->blocked += sum->blocked;
    to->ms_sum += sum->ms_sum;
    to->rows += sum->rows;
    for (size_t i = 0; i < TALLY_BUCKETS; i++)
        to->buckets[i] += sum->buckets[i];
    for (size_t i = 0; i < TALLY_STEPS_MAX; i++)
        to->steps[i] += sum->steps[i];
    if (slice_cmp(sum->last, to->last) > 0)
        to->last = sum->last;
}

size_t tally_sums_join(struct tally_sum *list, size_t count)
{
    size_t left = 0;
    if (count == 0)
        return 0;
    qsort(list, count, sizeof(*list), compare_keys);
    for (size_t i = 1; i < count; i++) {
        if (compare_keys(&list[left], &list[i]) == 0)
            add_sum(&list[left], &list[i]);
        else
            list[++left] = list[i];
    }
    return left + 1;
}

void tally_sums_sort(struct tally_sum *list, size_t count)
{
    if (count > 0)
        qsort(list, count, sizeof(*list), compare_sums);
}

/* Returns the fraction of a sum that counts for the previous range, which is compared. */
static double share_of(int64_t at, const struct tally_range *range, int64_t now)
{
    int64_t step_us = range->step_s * STEP_US, long_us = range->before_s * STEP_US,
            begin = range->since - (int64_t)range->steps * step_us;
    if (at < begin)
        return at == range->before_at ? (double)(at + long_us - begin) / (double)long_us : 0;
    return at < range->since - step_us ? 1 : (double)(now % step_us) / (double)step_us;
}

size_t tally_sums_before(const struct tally_sum *list, size_t count,
                         const struct tally_range *range, int64_t now, struct tally_sum *before)
{
    double calls[3] = {0};
    size_t i = 0;
    for (; i < count && list[i].kind == TALLY_BY_TIME && list[i].at < range->since; i++) {
        double share = share_of(list[i].at, range, now);
        calls[0] += share * (double)list[i].succeeded;
        calls[1] += share * (double)list[i].failed;
        calls[2] += share * (double)list[i].blocked;
    }
    *before = (struct tally_sum){.succeeded = (int64_t)(calls[0] + 0.5),
                                 .failed = (int64_t)(calls[1] + 0.5),
                                 .blocked = (int64_t)(calls[2] + 0.5)};
    return i;
}
