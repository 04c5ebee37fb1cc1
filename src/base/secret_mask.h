/*
 * Masking by value: the secrets that went out with a request, which what comes back may hold. Any
 * text of another server that is shown, stored or logged goes through one of these.
 */
#ifndef BASE_SECRET_MASK_H
#define BASE_SECRET_MASK_H

#include "base/arena.h"

enum {
    SECRET_MASK_MAX = 16,
    SECRET_MASK_BYTES_MIN = 6, /* a shorter one would mask ordinary words */
};

/* Begins zeroed. The texts are borrowed. */
struct secret_mask {
    slice secrets[SECRET_MASK_MAX];
    size_t count;
};

/* One that is too short is left out, as one is past SECRET_MASK_MAX. */
void secret_mask_add(struct secret_mask *mask, slice secret);
/* Each occurrence of a secret becomes "***". The text itself where there is none. In the arena;
 * SLICE_NONE without memory. */
slice secret_mask_text(const struct secret_mask *mask, slice text, struct arena *arena);

#endif
