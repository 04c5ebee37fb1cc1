/*
 * A share of something limited that many use at a time and that is not taken back: slots of a pool,
 * entries of a queue, bytes. A user may take one more while it has fewer than a multiple of what is
 * free: alone it gets `share` of `size`; the more others use, the fewer; and when several take all
 * they can get, some stay free for new users. (Dynamic thresholds, as switches have for the buffer
 * that their ports share: Choudhury and Hahne, 1998.)
 */
#ifndef BASE_SHARE_H
#define BASE_SHARE_H

#include <stdbool.h>
#include <stddef.h>

/* The default: seven eighths. k greedy users get 7 / (7k + 1) each. */
static inline size_t share_default(size_t size)
{
    return size - size / 8;
}

/* May a user that has `used` of `size` take one more, when all users together have `taken`? With
 * share >= size: as long as any is free. */
static inline bool share_allows(size_t used, size_t taken, size_t size, size_t share)
{
    if (taken >= size)
        return false;
    return share >= size || used * (size - share) < share * (size - taken);
}

#endif
