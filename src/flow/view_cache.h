/*
 * The view of a flow as text, at one revision; reference-counted. The most recently read views are
 * cached: at most 4096, 4 MB together.
 */
#ifndef FLOW_VIEW_CACHE_H
#define FLOW_VIEW_CACHE_H

#include "loop/loop.h"
#include "store/flow_read.h"

enum { FLOW_VIEW_BYTES_MAX = 60 * 1024 * 1024 };

struct cache;
struct flow_template;

struct flow_view {
    unsigned refs;
    struct uuid account_id, flow_id, template_version;
    int64_t rev;
    enum flow_status status;
    slice text;    /* {flow, steps} */
    slice summary; /* {flow, steps} without documents: no input, context or output */
    struct loop *loop;
    struct loop_garbage garbage;
    char room[];
};

/* Returns NULL if the view is too large, or if out of memory. */
struct flow_view *flow_view_new(struct loop *loop, const struct flow_whole *whole,
                                const struct flow_template *tmpl) MUST_CHECK;
struct flow_view *flow_view_ref(struct flow_view *view);
/* Accepts NULL. After the last reference the text stays valid until the bottom of the turn, as a
 * reply's body requires. */
void flow_view_unref(struct flow_view *view);
/* Whether the flow will not continue by itself. It may be resumable. */
bool flow_view_has_ended(const struct flow_view *view);

void flow_view_cache_init(struct cache *cache, struct loop *loop);
/* Returns the cached view of this account's flow, borrowed; NULL if there is none. Its revision may
 * be an earlier one. */
struct flow_view *flow_view_cache_find(struct cache *cache, struct uuid account_id,
                                       struct uuid flow_id);
/* Replaces the cached view of the same flow; takes its own reference. A view that is too large,
 * or for which there is no memory, is not cached. */
void flow_view_cache_put(struct cache *cache, struct flow_view *view);
/* Drops the flow's view if its revision is earlier than the flow's. */
void flow_view_cache_drop(struct cache *cache, const struct flow *flow);

#endif
