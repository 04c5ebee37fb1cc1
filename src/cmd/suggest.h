/*
 * The nearest of a few names to one that was mistyped: for commands, flags and action ids.
 */
#ifndef CMD_SUGGEST_H
#define CMD_SUGGEST_H

#include "base/slice.h"

enum { SUGGEST_NAME_MAX = 64 };

struct suggest {
    slice typed;
    slice best; /* out: SLICE_NONE while nothing is near enough */
    unsigned distance;
};

void suggest_begin(struct suggest *suggest, slice typed);
/* name is borrowed as long as the result is used. */
void suggest_offer(struct suggest *suggest, slice name);
/* Letters to change, insert, drop or swap with their neighbour (optimal string alignment); names
 * over SUGGEST_NAME_MAX bytes are cut. */
unsigned suggest_distance(slice a, slice b);

#endif
