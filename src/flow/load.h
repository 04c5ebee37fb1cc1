/*
 * Loads one flow, or a page of a list of flows, as an op below a request: the rows and the
 * templates that they are pinned to. A request that loads many times (a long poll, an event
 * stream) starts an op each time, so that its own memory does not grow.
 */
#ifndef FLOW_LOAD_H
#define FLOW_LOAD_H

#include "flow/flow.h"

struct flow_load {
    struct op op;
    struct flow_service *service;
    struct uuid account_id, id;
    /* out, valid in the parent's next step; the op frees itself after that turn */
    int status; /* OK, ERR_NOTFOUND, or the status of the query */
    struct flow_whole whole;
    struct flow_template *tmpl;
    /* only for flow_load_start_view, instead of whole and tmpl; NULL if it is too large, or if out
     * of memory */
    struct flow_view *view;
    /* private */
    struct policy *policy;
    bool wants_view;
    struct pg_query query;
    struct flow_template_find find;
};

/* Holds parent until the load is done. policy: of the reader's key, borrowed until then; a flow
 * that it hides is not found. Returns NULL, with nothing started, if out of memory. */
struct flow_load *flow_load_start(struct flow_service *service, struct uuid account_id,
                                  struct uuid id, struct policy *policy,
                                  struct op *parent) MUST_CHECK;
/* Like flow_load_start, but only for the view: if the view of the current revision is cached or
 * can be made here, only the revision is read from the database. */
struct flow_load *flow_load_start_view(struct flow_service *service, struct uuid account_id,
                                       struct uuid id, struct policy *policy,
                                       struct op *parent) MUST_CHECK;
/* Whether the flow will not continue by itself. It may be resumable. */
bool flow_load_has_ended(const struct flow_load *load);
/* Returns {flow, steps} in the op's arena; SLICE_NONE if it is too large, or if out of memory. Not
 * available after flow_load_start_view. */
slice flow_load_render_view(struct flow_load *load);

/* A flow as a row of a list. The slices are in the page's arena. */
struct flow_row {
    struct uuid id;
    /* name is the template's; title is the flow's, or else the template's name */
    slice name, title;
    slice step_title;        /* the title of the current step (flow_step_title) */
    slice asker;             /* SLICE_NONE if it was not requested, or if the page has a need */
    size_t step, step_count; /* the number of the current step, counted from 1 */
    enum flow_status status;
    bool is_rejected; /* cancelled because a person rejected its approval */
    enum flow_waiting waiting_for;
    int64_t ends_at; /* when the flow continues by itself, or an approval expires; 0 if neither */
    int64_t updated_at;
};

/* A connection that flows may need. Borrowed until the page is done. */
struct flow_need {
    const struct catalog *catalog;
    slice integration_id;
    int64_t connection_id;
    bool is_default; /* steps that name no connection use this one */
};

struct flow_page {
    struct op op;
    struct flow_service *service;
    struct flow_filter filter;
    const struct flow_need *need; /* NULL: any flow */
    /* out, valid as in flow_load */
    int status;
    /* [flow record, ...]; flow_page_start_rows fills in the following members instead */
    struct buf text;
    struct flow_row *rows; /* `count` rows */
    size_t count;
    size_t examined; /* number of flows loaded; with a need, `count` of these flows have it */
    /* the value of `before` for the next page; nil if there are no older flows */
    struct uuid older;
    /* private */
    struct policy *policy;
    bool wants_rows;
    struct flow_listed *list;
    size_t listed, next, searches;
    struct pg_query query;
    struct flow_template_find find;
};
/* policy: as in flow_load_start; a page without the flows that it hides is shorter. */
/* Loads records for a client; without input and context if filter->is_rows_alone is set. Returns
 * NULL if out of memory. */
struct flow_page *flow_page_start(struct flow_service *service, const struct flow_filter *filter,
                                  struct policy *policy, struct op *parent) MUST_CHECK;
/* Loads rows for a page of the dashboard. The filter's is_rows_alone and with_asker must be set. */
struct flow_page *flow_page_start_rows(struct flow_service *service,
                                       const struct flow_filter *filter, struct policy *policy,
                                       struct op *parent) MUST_CHECK;
/* Loads rows of flows with remaining steps that use or may use a connection. Examines filter.limit
 * flows. The filter's with_input must be set. */
struct flow_page *flow_page_start_needing(struct flow_service *service,
                                          const struct flow_filter *filter,
                                          const struct flow_need *need, struct policy *policy,
                                          struct op *parent) MUST_CHECK;
/* need.c: whether a flow has this need. The slices of listed, and values parsed from them, are in
 * arena. */
bool flow_has_need(const struct flow_need *need, const struct flow_listed *listed,
                   const struct flow_template *tmpl, struct arena *arena) MUST_CHECK;
/* Returns the app whose connection is named by the input `name` alone; SLICE_NONE if the input
 * names no connection. Borrowed from the catalog. */
slice flow_input_connects(const struct flow_template *tmpl, const struct catalog *catalog,
                          slice name, struct arena *arena) MUST_CHECK;

#endif
