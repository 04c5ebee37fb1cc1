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
};

struct flow_view_cache {
    struct map by_flow; /* flow_id -> struct flow_view */
    struct list all;    /* least recently used first */
    size_t bytes;       /* total size of all texts, without the structs */
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
        list_init(&view->link);
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

static size_t bytes_of(const struct flow_view *view)
{
    return view->text.len + view->summary.len;
}

static void evict(struct flow_view_cache *set, struct flow_view *view)
{
    (void)map_remove(&set->by_flow, uuid_slice(&view->flow_id));
    list_unlink(&view->link);
    ASSERT(set->bytes >= bytes_of(view));
    set->bytes -= bytes_of(view);
    flow_view_unref(view);
}

/* The account is compared, too, so that the id of another account's flow finds nothing. */
struct flow_view *flow_view_cache_find(struct flow_view_cache *set, struct uuid account_id,
                                       struct uuid flow_id)
{
    struct flow_view *view = map_get(&set->by_flow, uuid_slice(&flow_id));
    if (!view || !uuid_eq(view->account_id, account_id))
        return NULL;
    list_move_back(&set->all, &view->link); /* most recently used */
    return view;
}

void flow_view_cache_put(struct flow_view_cache *set, struct flow_view *view)
{
    flow_view_cache_drop(set, view->flow_id, INT64_MAX);
    if (bytes_of(view) > CACHED_VIEW_BYTES_MAX)
        return;
    while (set->bytes + bytes_of(view) > CACHE_BYTES_MAX || set->by_flow.count >= CACHED_VIEWS_MAX)
        evict(set, LIST_ITEM(set->all.next, struct flow_view, link));
    if (map_put(&set->by_flow, uuid_slice(&view->flow_id), view, NULL) != OK)
        return; /* out of memory: the next request loads the view again */
    list_push_back(&set->all, &flow_view_ref(view)->link);
    set->bytes += bytes_of(view);
}

void flow_view_cache_drop(struct flow_view_cache *set, struct uuid flow_id, int64_t before_rev)
{
    struct flow_view *view = map_get(&set->by_flow, uuid_slice(&flow_id));
    if (view && view->rev < before_rev)
        evict(set, view);
}

struct flow_view_cache *flow_view_cache_new(void)
{
    struct flow_view_cache *set = mem_zalloc(sizeof(*set));
    if (!set)
        return NULL;
    map_init(&set->by_flow, CACHED_VIEWS_MAX + 1);
    list_init(&set->all);
    return set;
}

void flow_view_cache_free(struct flow_view_cache *set)
{
    if (!set)
        return;
    LIST_EACH(&set->all, struct flow_view, view, link) {
        ASSERT(view->refs == 1);
        mem_free(view); /* freed directly, not as garbage: the loop may have had its last turn */
    }
    map_deinit(&set->by_flow);
    mem_free(set);
}
