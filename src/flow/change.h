/*
 * change: what a call that waits for approval would change, for people: each property with its
 * present value and its value after the call (a step's `before`, contrib/templates/README.md).
 */
#ifndef FLOW_CHANGE_H
#define FLOW_CHANGE_H

#include "flow/template.h"

enum {
    FLOW_CHANGE_PROPERTIES_MAX = 30, /* shown for a call */
    FLOW_CHANGE_TEXT_BYTES_MAX = 400,
};

/* For one call: `before` is the result of the read step (for a fan-out over the same items: for
 * this one), item NULL: none; input: the call's input. */
struct flow_change {
    const struct flow_before *def;
    slice step; /* the key of the step that was read */
    const struct json *before, *item, *input;
    size_t index;
};

/* A member "changes" of the open object: {step, title?, properties: [{name, now?, then?}], more?,
 * same?}. title: the thing that changes. A missing text is empty; same: how many known properties
 * stay, left out if uncertain. Nothing is written if the present values are unknown. */
void flow_change_write(struct json_writer *w, const struct flow_change *change,
                       struct expr_budget *budget, struct arena *arena);

#endif
