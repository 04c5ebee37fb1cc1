/*
 * change: shows people what a call that waits for approval would change: each property with its
 * present value and its value after the call (a step's `before`, contrib/templates/README.md).
 */
#ifndef FLOW_CHANGE_H
#define FLOW_CHANGE_H

#include "flow/template.h"

enum {
    FLOW_CHANGE_PROPERTIES_MAX = 30, /* maximum number of properties shown for a call */
    FLOW_CHANGE_TEXT_BYTES_MAX = 400,
};

/* The data for one call. before is the result of the step that read the present values (in a
 * fan-out over the same items, the result for this item). item is NULL if there is no item. input
 * is the call's input. */
struct flow_change {
    const struct flow_before *def;
    slice step; /* the key of the step that read the present values */
    const struct json *before, *item, *input;
    size_t index;
};

/* Adds a member "changes" to the open object: {step, title?, properties: [{name, now?, then?}],
 * more?, same?}. title names the thing that changes. An omitted `now` or `then` is empty. same is
 * the number of known properties that stay unchanged; it is omitted if uncertain. Writes nothing if
 * the present values are unknown. */
void flow_change_write(struct json_writer *w, const struct flow_change *change,
                       struct expr_budget *budget, struct arena *arena);

#endif
