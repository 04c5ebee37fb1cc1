/*
 * Masks secrets by value: those that were sent with a request, which the reply may repeat. Any text
 * from another server that is shown, stored or logged goes through one of these.
 */
#ifndef BASE_SECRET_MASK_H
#define BASE_SECRET_MASK_H

#include "base/arena.h"

enum {
    SECRET_MASK_MAX = 16,
    SECRET_MASK_BYTES_MIN = 6, /* a shorter secret would mask ordinary words */
};

/* Begins zeroed. The texts are borrowed. */
struct secret_mask {
    slice secrets[SECRET_MASK_MAX];
    size_t count;
};

/* Left out if it is too short, or past SECRET_MASK_MAX. */
void secret_mask_add(struct secret_mask *mask, slice secret);
/* Each occurrence of a secret becomes "***". Returns the text itself if there is none. In the
 * arena; SLICE_NONE: out of memory. */
slice secret_mask_text(const struct secret_mask *mask, slice text, struct arena *arena);

#endif
