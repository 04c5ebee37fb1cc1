/*
 * Cached sums; see tally_cache.h.
 *
 * The cached sums cover the rows before a time, `open_at`. A reading adds the rows from that time
 * on, and caches the sums up to a later time. Two concurrent readings have a copy each, so nothing
 * is added twice; the sums that reach the latest time are kept.
 */
#include "store/tally_cache.h"

#include "base/clock.h"
#include "base/mem.h"

enum { SLOT_US = TALLY_SLOT_S * 1000000 };

struct tally_cache {
    struct cached_sums {
        struct uuid account_id;
        struct tally_range range;
        int64_t open_at;
        uint64_t read_ns;
        struct tally_sum *list; /* the texts follow in the same block; NULL if empty */
        size_t count, bytes;
    } items[TALLY_CACHE_MAX];
};

struct tally_cache *tally_cache_new(void)
{
    return mem_zalloc(sizeof(struct tally_cache));
}

void tally_cache_free(struct tally_cache *cache)
{
    for (size_t i = 0; cache && i < TALLY_CACHE_MAX; i++)
        mem_free(cache->items[i].list);
    mem_free(cache);
}

static bool is_over(const struct cached_sums *item, uint64_t now_ns)
{
    return !item->list || item->read_ns + TALLY_CACHE_S * 1000000000ULL <= now_ns;
}

/* Returns the account's sums with these steps, whatever their time, or NULL if there are none. A
 * range that has advanced replaces the former range. */
static struct cached_sums *find_sums(struct tally_cache *cache, const struct tally_reading *reading)
{
    for (size_t i = 0; i < TALLY_CACHE_MAX; i++) {
        struct cached_sums *item = &cache->items[i];
        if (item->list && uuid_eq(item->account_id, reading->account_id) &&
            item->range.step_s == reading->range.step_s)
            return item;
    }
    return NULL;
}

static struct cached_sums *oldest_sums(struct tally_cache *cache)
{
    struct cached_sums *oldest = &cache->items[0];
    for (size_t i = 1; i < TALLY_CACHE_MAX && oldest->list; i++)
        if (!cache->items[i].list || cache->items[i].read_ns < oldest->read_ns)
            oldest = &cache->items[i];
    return oldest;
}

/* ---- copies ---- */

enum { TEXTS = 4 };

static void texts_of(struct tally_sum *sum, slice *texts[TEXTS])
{
    texts[0] = &sum->integration_id;
    texts[1] = &sum->action_id;
    texts[2] = &sum->error_code;
    texts[3] = &sum->last;
}

static size_t copy_bytes(const struct tally_sum *list, size_t count)
{
    size_t bytes = count * sizeof(*list);
    for (size_t i = 0; i < count; i++)
        bytes += list[i].integration_id.len + list[i].action_id.len + list[i].error_code.len +
                 list[i].last.len;
    return bytes;
}

/* Copies the sums into a block of copy_bytes. */
static void copy_sums(struct tally_sum *to, const struct tally_sum *list, size_t count)
{
    char *room = (char *)(to + count);
    memcpy(to, list, count * sizeof(*list));
    for (size_t i = 0; i < count; i++) {
        slice *texts[TEXTS];
        texts_of(&to[i], texts);
        for (size_t n = 0; n < TEXTS; n++) {
            if (!texts[n]->ptr)
                continue;
            if (texts[n]->len > 0)
                memcpy(room, texts[n]->ptr, texts[n]->len);
            *texts[n] = slice_of(room, texts[n]->len);
            room += texts[n]->len;
        }
    }
}

/* ---- reading ---- */

/* Makes a copy, since another reading may replace the cached sums during this reading. If memory
 * runs out, everything is read. */
static void take_cached(struct tally_reading *reading, struct op *op)
{
    const struct cached_sums *item =
        reading->integration_id.ptr ? NULL : find_sums(reading->cache, reading);
    reading->from_at = reading->range.before_at > 0 ? reading->range.before_at
                                                    : reading->range.since;
    reading->read_ns = clock_mono_ns();
    reading->closed = NULL;
    reading->closed_count = 0;
    if (!item || is_over(item, reading->read_ns) || item->range.since != reading->range.since ||
        item->open_at > reading->open_at)
        return;
    reading->closed = arena_alloc(&op->arena, item->bytes);
    if (!reading->closed)
        return;
    copy_sums(reading->closed, item->list, item->count);
    reading->closed_count = item->count;
    reading->from_at = item->open_at;
    reading->read_ns = item->read_ns;
}

void tally_cache_read(struct tally_cache *cache, struct pg_pool *pool,
                      struct tally_reading *reading, struct op *op, int64_t now)
{
    int64_t open_at = (now - TALLY_CACHE_MARGIN_S * 1000000LL) / SLOT_US * SLOT_US;
    reading->cache = cache;
    reading->pool = pool;
    reading->now = now;
    reading->is_added_up = false;
    reading->open_at = open_at > reading->range.since ? open_at : reading->range.since;
    take_cached(reading, op);
    store_tally_rows(pool, &reading->query, op, reading->account_id, reading->integration_id,
                     reading->from_at);
}

bool tally_cache_continue(struct tally_reading *reading)
{
    const struct pg_query *query = &reading->query;
    if (reading->is_added_up || query->status != OK || query->rows.count <= TALLY_ROWS_MAX)
        return false;
    reading->is_added_up = true;
    store_tally_read(reading->pool, &reading->query, query->wait.op, reading->account_id,
                     reading->integration_id, &reading->range, reading->from_at, reading->open_at);
    return true;
}

/* Nothing is cached if memory runs out, or for an account with very many actions. */
static void keep(const struct tally_reading *reading, const struct tally_sum *list, size_t count)
{
    struct cached_sums *item = find_sums(reading->cache, reading);
    int64_t rows = 0;
    for (size_t i = 0; i < count; i++)
        rows += list[i].kind == TALLY_BY_TIME ? list[i].rows : 0;
    /* another reading cached sums up to a later time */
    bool is_later = item &&
                    (item->range.since > reading->range.since ||
                     (item->range.since == reading->range.since &&
                      item->open_at >= reading->open_at && item->read_ns >= reading->read_ns));
    if (reading->integration_id.ptr || rows < TALLY_CACHE_ROWS_MIN || count > 2 * TALLY_SUMS_MAX ||
        is_later)
        return;
    if (!item)
        item = oldest_sums(reading->cache);
    size_t bytes = copy_bytes(list, count);
    struct tally_sum *copy = mem_alloc(bytes);
    if (!copy)
        return;
    copy_sums(copy, list, count);
    mem_free(item->list);
    *item = (struct cached_sums){reading->account_id,
                                 reading->range,
                                 reading->open_at,
                                 reading->read_ns,
                                 copy,
                                 count,
                                 bytes};
}

/* Sums the rows before open_at or, with is_open, the rows from it on. Returns NULL if out of
 * memory. */
static struct tally_sum *sums_of_rows(struct tally_reading *reading, struct arena *arena,
                                      const struct tally_group *found, size_t found_count,
                                      bool is_open, size_t room, size_t *count)
{
    const struct tally_group **groups =
        ARENA_ARRAY(arena, const struct tally_group *, found_count + 1);
    size_t group_count = 0;
    for (size_t i = 0; groups && i < found_count; i++) {
        bool is_of_open = reading->is_added_up ? found[i].is_open : found[i].at >= reading->open_at;
        if (is_of_open == is_open)
            groups[group_count++] = &found[i];
    }
    return groups ? tally_sums_of(arena, &reading->range, groups, group_count, room, count) : NULL;
}

int tally_cache_result(struct tally_reading *reading, struct tally_sum **list, size_t *count,
                       struct tally_sum *before)
{
    struct arena *arena = &reading->query.wait.op->arena;
    struct tally_group *found;
    struct tally_sum *closed = reading->closed, *open;
    size_t found_count, closed_count = reading->closed_count, fresh_count, open_count;
    int status = reading->is_added_up
                     ? store_tally_read_result(&reading->query, &found, &found_count)
                     : store_tally_rows_result(&reading->query, &found, &found_count);
    if (status != OK)
        return status;
    /* Usually no further slot has ended since the previous reading. */
    if (reading->open_at > reading->from_at) {
        closed =
            sums_of_rows(reading, arena, found, found_count, false, closed_count, &fresh_count);
        if (!closed)
            return ERR_NOMEM;
        if (closed_count > 0)
            memcpy(closed, reading->closed, closed_count * sizeof(*closed));
        closed_count = tally_sums_join(closed, closed_count + fresh_count);
        keep(reading, closed, closed_count);
    }
    open = sums_of_rows(reading, arena, found, found_count, true, closed_count, &open_count);
    if (!open)
        return ERR_NOMEM;
    if (closed_count > 0)
        memcpy(open, closed, closed_count * sizeof(*open));
    *count = tally_sums_join(open, closed_count + open_count);
    tally_sums_sort(open, *count);
    size_t before_count = tally_sums_before(open, *count, &reading->range, reading->now, before);
    *list = open + before_count;
    *count -= before_count;
    if (*count > TALLY_SUMS_MAX)
        *count = TALLY_SUMS_MAX;
    return OK;
}
