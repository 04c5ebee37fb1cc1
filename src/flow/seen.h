/*
 * The view of a flow as text, at one revision; counted. The last ones that were
 * asked for are kept: at most 4096, 4 MB together. See seen.c.
 */
#ifndef FLOW_SEEN_H
#define FLOW_SEEN_H

#include "base/list.h"
#include "loop/loop.h"
#include "store/flow_read.h"

enum { FLOW_VIEW_BYTES_MAX = 60 * 1024 * 1024 };

struct flow_template;
struct flow_seen_set;

struct flow_seen {
    unsigned refs;
    struct uuid account_id, flow_id;
    int64_t rev;
    enum flow_status status;
    slice text; /* {flow, steps} */
    struct loop *loop;
    struct loop_garbage garbage;
    struct list link;
    char room[];
};

/* NULL: too large, or out of memory. */
struct flow_seen *flow_seen_new(struct loop *loop, const struct flow_whole *whole,
                                const struct flow_template *tmpl) MUST_CHECK;
struct flow_seen *flow_seen_ref(struct flow_seen *seen);
/* NULL is fine. The last one's text lives to the bottom of the turn, as a reply's body has to. */
void flow_seen_unref(struct flow_seen *seen);
/* The flow may be resumed or not, but nothing happens to it by itself any more. */
bool flow_seen_has_ended(const struct flow_seen *seen);

/* NULL: out of memory. */
struct flow_seen_set *flow_seen_set_new(void) MUST_CHECK;
void flow_seen_set_free(struct flow_seen_set *set);
/* What was kept of this account's flow: perhaps of a revision that has passed. Borrowed. NULL. */
struct flow_seen *flow_seen_find(struct flow_seen_set *set, struct uuid account_id,
                                 struct uuid flow_id);
void flow_seen_keep(struct flow_seen_set *set, struct flow_seen *seen);
/* What was kept of it, when it is of an earlier revision. */
void flow_seen_drop(struct flow_seen_set *set, struct uuid flow_id, int64_t before_rev);

#endif
