/*
 * A share of a limited resource that many use at a time and that is not revoked: slots of a pool,
 * entries of a queue, bytes. A user may take one more unit while it has fewer than a multiple of
 * the free units. A single user gets `share` of `size`; the more users there are, the fewer each
 * gets. When several take all they can get, some units stay free for new users. (Dynamic
 * thresholds, as switches use for the buffer shared by their ports: Choudhury and Hahne, 1998.)
 */
#ifndef BASE_SHARE_H
#define BASE_SHARE_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the default share, seven eighths. k greedy users get 7 / (7k + 1) each. */
static inline size_t share_default(size_t size)
{
    return size - size / 8;
}

/* Returns whether a user that has `used` of `size` may take one more, when all users together have
 * `taken`. If share >= size, the answer is yes as long as any is free. */
static inline bool share_allows(size_t used, size_t taken, size_t size, size_t share)
{
    if (taken >= size)
        return false;
    return share >= size || used * (size - share) < share * (size - taken);
}

#endif
