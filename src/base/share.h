/*
 * A share of something that many use at a time and that is not taken back: slots, places, entries
 * of a queue. One more is allowed while there are fewer in use by whoever asks than a multiple of
 * what is free: alone it gets `share` of `size`; the more others use, the fewer; and as several
 * take all they get, some stay free for those to come. (Dynamic thresholds, as switches have for
 * the buffer that their ports share: Choudhury and Hahne, 1998.)
 */
#ifndef BASE_SHARE_H
#define BASE_SHARE_H

#include <stdbool.h>
#include <stddef.h>

/* Where nothing else is set: seven eighths. k that are greedy get 7 / (7k + 1) each. */
static inline size_t share_default(size_t size)
{
    return size - size / 8;
}

/* One more, for a user that has `used` of `size`, of which all use `taken`? share >= size: as
 * long as any is free. */
static inline bool share_allows(size_t used, size_t taken, size_t size, size_t share)
{
    if (taken >= size)
        return false;
    return share >= size || used * (size - share) < share * (size - taken);
}

#endif
