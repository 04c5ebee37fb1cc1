/*
 * The calls of an account's flows by time, as an op below a request: the steps that have ended
 * (store/flow_past.h), with what the templates that their flows are pinned to say of them.
 */
#ifndef FLOW_CALLS_H
#define FLOW_CALLS_H

#include "flow/flow.h"
#include "store/flow_past.h"

struct flow_calls_row {
    struct flow_past call;
    slice tool;                 /* SLICE_NONE: no call, or the flow or its template is gone */
    slice step_key, step_title; /* step_title: SLICE_NONE where the template gives it none */
    slice flow_title;           /* of the flow, its template's name where it has none */
    bool is_fan_out;            /* one call an item */
};

struct flow_calls {
    struct op op;
    struct flow_service *service;
    struct uuid account_id;
    struct flow_past_range range;
    /* out, valid in the parent's next step; the op frees itself after that turn */
    int status;                  /* OK, else as pg_query */
    struct flow_calls_row *rows; /* in the op's arena; youngest first */
    size_t count;                /* as many as the range wanted: more may follow */
    /* private */
    struct flow_past *list;
    size_t next;
    struct pg_query query;
    struct flow_template_find find;
};

/* Holds parent until it is done. NULL: out of memory, nothing was started. */
struct flow_calls *flow_calls_start(struct flow_service *service, struct uuid account_id,
                                    const struct flow_past_range *range,
                                    struct op *parent) MUST_CHECK;

#endif
