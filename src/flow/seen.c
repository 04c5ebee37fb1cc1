/*
 * Views as text, each with the revision that it shows: what a flow's owner tells those who watch
 * it, and the last ones that were asked for, so that a flow that has not changed is shown again for
 * the price of its revision. A view is what its revision says, whoever made the change.
 */
#include "flow/seen.h"

#include "base/mem.h"
#include "flow/internal.h"

enum {
    KEPT_MAX = 4096,
    KEPT_BYTES_MAX = 4 * 1024 * 1024,
    KEPT_VIEW_BYTES_MAX = 64 * 1024, /* a larger one is made again each time */
};

struct flow_seen_set {
    struct map by_flow; /* flow_id -> struct flow_seen */
    struct list all;    /* those asked for longest ago first */
    size_t bytes;
};

/* ---- a view ---- */

struct flow_seen *flow_seen_new(struct loop *loop, const struct flow_whole *whole,
                                const struct flow_template *tmpl)
{
    struct buf text;
    struct flow_seen *seen = NULL;
    buf_init(&text, FLOW_VIEW_BYTES_MAX);
    flow_view_write(&text, whole, tmpl);
    if (buf_is_ok(&text))
        seen = mem_alloc(sizeof(*seen) + text.len);
    if (seen) {
        *seen = (struct flow_seen){
            .refs = 1,
            .loop = loop,
            .account_id = whole->flow.account_id,
            .flow_id = whole->flow.id,
            .rev = whole->flow.rev,
            .status = whole->flow.status,
            .text = slice_of(seen->room, text.len),
        };
        memcpy(seen->room, text.ptr, text.len);
        list_init(&seen->link);
    }
    buf_deinit(&text);
    return seen;
}

struct flow_seen *flow_seen_ref(struct flow_seen *seen)
{
    seen->refs++;
    return seen;
}

static void free_seen(struct loop_garbage *garbage)
{
    mem_free(CONTAINER_OF(garbage, struct flow_seen, garbage));
}

void flow_seen_unref(struct flow_seen *seen)
{
    ASSERT(!seen || seen->refs > 0);
    if (!seen || --seen->refs > 0)
        return;
    seen->garbage.free = free_seen;
    loop_garbage_add(seen->loop, &seen->garbage);
}

bool flow_seen_has_ended(const struct flow_seen *seen)
{
    return seen->status == FLOW_COMPLETED || seen->status == FLOW_FAILED ||
           seen->status == FLOW_CANCELLED;
}

/* ---- those that are kept ---- */

static slice key_of(const struct uuid *flow_id)
{
    return slice_of(flow_id->bytes, sizeof(flow_id->bytes));
}

static void forget(struct flow_seen_set *set, struct flow_seen *seen)
{
    (void)map_remove(&set->by_flow, key_of(&seen->flow_id));
    list_unlink(&seen->link);
    ASSERT(set->bytes >= seen->text.len);
    set->bytes -= seen->text.len;
    flow_seen_unref(seen);
}

struct flow_seen *flow_seen_find(struct flow_seen_set *set, struct uuid account_id,
                                 struct uuid flow_id)
{
    struct flow_seen *seen = map_get(&set->by_flow, key_of(&flow_id));
    if (!seen || !uuid_eq(seen->account_id, account_id))
        return NULL;
    list_unlink(&seen->link);
    list_push_back(&set->all, &seen->link);
    return seen;
}

void flow_seen_keep(struct flow_seen_set *set, struct flow_seen *seen)
{
    flow_seen_drop(set, seen->flow_id, INT64_MAX);
    if (seen->text.len > KEPT_VIEW_BYTES_MAX)
        return;
    while (set->bytes + seen->text.len > KEPT_BYTES_MAX || set->by_flow.count >= KEPT_MAX)
        forget(set, LIST_ITEM(set->all.next, struct flow_seen, link));
    if (map_put(&set->by_flow, key_of(&seen->flow_id), seen, NULL) != OK)
        return; /* out of memory: it is made again */
    list_push_back(&set->all, &flow_seen_ref(seen)->link);
    set->bytes += seen->text.len;
}

void flow_seen_drop(struct flow_seen_set *set, struct uuid flow_id, int64_t before_rev)
{
    struct flow_seen *seen = map_get(&set->by_flow, key_of(&flow_id));
    if (seen && seen->rev < before_rev)
        forget(set, seen);
}

struct flow_seen_set *flow_seen_set_new(void)
{
    struct flow_seen_set *set = mem_zalloc(sizeof(*set));
    if (!set)
        return NULL;
    map_init(&set->by_flow, KEPT_MAX + 1);
    list_init(&set->all);
    return set;
}

void flow_seen_set_free(struct flow_seen_set *set)
{
    if (!set)
        return;
    LIST_EACH(&set->all, node)
    {
        struct flow_seen *seen = LIST_ITEM(node, struct flow_seen, link);
        ASSERT(seen->refs == 1);
        mem_free(seen); /* the loop may have had its last turn */
    }
    map_deinit(&set->by_flow);
    mem_free(set);
}
