/*
 * The nearest of many names to a mistyped name: for commands, flags, settings, ids and property
 * names. Letter case and the separators "_", "-", "." and space do not count, so that
 * "max_results", "maxResults" and "MAX-RESULTS" are one name.
 *
 * The cost is limited whatever was typed: names over SUGGEST_NAME_MAX bytes never match, and over
 * all names at most SUGGEST_CELLS_MAX cells of distance tables are filled (about 2 ms). After that,
 * only a name that differs just in case and separators is found.
 */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stdint.h>

#include "base/slice.h"

enum {
    SUGGEST_NAME_MAX = 64,
    SUGGEST_DISTANCE_MAX = 4, /* maximum edits, however long the name is */
    SUGGEST_CELLS_MAX = 1 << 20,
};

/* A name without case and separators. */
struct suggest_name {
    char text[SUGGEST_NAME_MAX];
    unsigned len;
    uint64_t letters; /* the set of its characters, for a quick rejection */
    /* the name has more than SUGGEST_NAME_MAX bytes; the other members are then empty */
    bool is_long;
};

struct suggest {
    slice best; /* out: the nearest name; SLICE_NONE if none is near enough */
    /* out: the number of edits to `best`; only a name with fewer edits replaces `best` */
    unsigned limit;
    /* private */
    struct suggest_name typed;
    unsigned cells_left;
};

/* About one character in three may be wrong, in a short name only one. typed is copied. */
void suggest_begin(struct suggest *suggest, slice typed);
/* A name that begins with what was typed (at least two characters) counts as one edit; among
 * equally near names the first is chosen. name is borrowed as long as the result is used. */
void suggest_offer(struct suggest *suggest, slice name);
/* Returns the number of characters to change, insert, drop or swap with their neighbour (optimal
 * string alignment). Returns `limit` (at most SUGGEST_DISTANCE_MAX + 1) if there are at least as
 * many, or if a name is over SUGGEST_NAME_MAX. */
unsigned suggest_distance(slice a, slice b, unsigned limit);

#endif
