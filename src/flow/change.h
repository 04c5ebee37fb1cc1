/*
 * change: what a call that waits for approval would change, as people read it: each property with
 * what it is now and what it will be then (a step's `before`, contrib/templates/README.md).
 */
#ifndef FLOW_CHANGE_H
#define FLOW_CHANGE_H

#include "flow/template.h"

enum {
    FLOW_CHANGE_PROPERTIES_MAX = 30, /* of a call that are shown */
    FLOW_CHANGE_TEXT_BYTES_MAX = 400,
};

/* Of one call: `before` is what the step that was read gave (of a fan-out over the same items: for
 * this one), item NULL: none; input: what the call sends. */
struct flow_change {
    const struct flow_before *def;
    slice step; /* the key of the step that was read */
    const struct json *before, *item, *input;
    size_t index;
};

/* A member "changes" of the open object: {step, title?, properties: [{name, now?, then?}], more?,
 * same?}. title: what it is that changes.
 * A text that is left out is empty; same: how many properties are known and stay, left out where
 * that is not certain. Nothing is written where it is not known what there is now. */
void flow_change_write(struct json_writer *w, const struct flow_change *change,
                       struct expr_budget *budget, struct arena *arena);

#endif
