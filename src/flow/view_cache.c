/*
 * Views as text, each with its revision. A flow's run gives them to watches. The views that
 * requests have loaded last are cached, so an unchanged flow costs one read of its revision.
 *
 * A view depends on the revision alone, whichever node made the change. So a cached view is never
 * wrong, only old, and the reader compares its revision with the row's before use.
 */
#include "flow/view_cache.h"

#include "base/mem.h"
#include "flow/internal.h"

enum {
    CACHED_VIEWS_MAX = 4096,
    CACHE_BYTES_MAX = 4 * 1024 * 1024,
    CACHED_VIEW_BYTES_MAX = 64 * 1024, /* a larger view would displace many others, and is not
                                        * cached */
    TTL_MS = 24 * 60 * 60 * 1000,      /* any time would do, since the revision is compared */
};

struct cached_view {
    struct cache_entry cached;
    struct flow_view *view;
};

/* ---- a view ---- */

struct flow_view *flow_view_new(struct loop *loop, const struct flow_whole *whole,
                                const struct flow_template *tmpl)
{
    struct buf text;
    struct flow_view *view = NULL;
    buf_init(&text, FLOW_VIEW_BYTES_MAX);
    flow_view_write(&text, whole, tmpl, FLOW_VIEW_WHOLE);
    size_t len = text.len;
    flow_view_write(&text, whole, tmpl, FLOW_VIEW_SUMMARY);
    if (buf_is_ok(&text))
        view = mem_alloc(sizeof(*view) + text.len);
    if (view) {
        *view = (struct flow_view){
            .refs = 1,
            .loop = loop,
            .account_id = whole->flow.account_id,
            .flow_id = whole->flow.id,
            .template_version = whole->flow.template_version,
            .rev = whole->flow.rev,
            .status = whole->flow.status,
            .text = slice_of(view->room, len),
            .summary = slice_of(view->room + len, text.len - len),
        };
        memcpy(view->room, text.ptr, text.len);
    }
    buf_deinit(&text);
    return view;
}

struct flow_view *flow_view_ref(struct flow_view *view)
{
    view->refs++;
    return view;
}

static void free_view(struct loop_garbage *garbage)
{
    mem_free(CONTAINER_OF(garbage, struct flow_view, garbage));
}

void flow_view_unref(struct flow_view *view)
{
    ASSERT(!view || view->refs > 0);
    if (!view || --view->refs > 0)
        return;
    view->garbage.free = free_view;
    loop_garbage_add(view->loop, &view->garbage);
}

bool flow_view_has_ended(const struct flow_view *view)
{
    return view->status == FLOW_COMPLETED || view->status == FLOW_FAILED ||
           view->status == FLOW_CANCELLED;
}

/* ---- the cache ---- */

struct view_key {
    struct uuid account_id, flow_id;
};

static slice key_slice(const struct view_key *key)
{
    return slice_of((const char *)key, sizeof(*key));
}

static struct cached_view *cached_of(struct cache_entry *cached)
{
    return CONTAINER_OF(cached, struct cached_view, cached);
}

static void drop_view(struct cache_entry *cached)
{
    flow_view_unref(cached_of(cached)->view);
}

static const struct cache_class view_class = {
    .entry_bytes = sizeof(struct cached_view),
    .bytes_max = CACHE_BYTES_MAX,
    .drop = drop_view,
};

void flow_view_cache_init(struct cache *cache, struct loop *loop)
{
    cache_init(cache, &view_class, loop, CACHED_VIEWS_MAX);
}

struct flow_view *flow_view_cache_find(struct cache *cache, struct uuid account_id,
                                       struct uuid flow_id)
{
    const struct view_key key = {account_id, flow_id};
    struct cache_entry *cached = cache_find(cache, key_slice(&key));
    return cached ? cached_of(cached)->view : NULL;
}

void flow_view_cache_put(struct cache *cache, struct flow_view *view)
{
    const struct view_key key = {view->account_id, view->flow_id};
    size_t bytes = view->text.len + view->summary.len;
    struct cache_entry *cached;
    if (bytes > CACHED_VIEW_BYTES_MAX) {
        cached = cache_peek(cache, key_slice(&key));
        if (cached) /* an older view, which would cost each reader a statement in vain */
            cache_forget(cache, cached);
        return;
    }
    cached = cache_put(cache, key_slice(&key), bytes, TTL_MS);
    if (cached) /* else the next request loads the view again */
        cached_of(cached)->view = flow_view_ref(view);
}

void flow_view_cache_drop(struct cache *cache, const struct flow *flow)
{
    const struct view_key key = {flow->account_id, flow->id};
    struct cache_entry *cached = cache_peek(cache, key_slice(&key));
    if (cached && cached_of(cached)->view->rev < flow->rev)
        cache_forget(cache, cached);
}
