/*
 * Masks secrets by value: those that were sent with a request and may be repeated in the reply. Any
 * text from another server that is shown, stored or logged is masked by one of these.
 */
#ifndef BASE_SECRET_MASK_H
#define BASE_SECRET_MASK_H

#include "base/arena.h"

enum {
    SECRET_MASK_MAX = 16,
    SECRET_MASK_BYTES_MIN = 6, /* a shorter secret would mask ordinary words */
};

/* The struct is zeroed at first. The texts are borrowed. */
struct secret_mask {
    slice secrets[SECRET_MASK_MAX];
    size_t count;
};

/* Adds a secret, unless it is too short or there are SECRET_MASK_MAX already. */
void secret_mask_add(struct secret_mask *mask, slice secret);
/* Replaces each occurrence of a secret by "***". Returns the text itself if there is none,
 * otherwise a text in the arena, or SLICE_NONE if out of memory. */
slice secret_mask_text(const struct secret_mask *mask, slice text, struct arena *arena);

#endif
