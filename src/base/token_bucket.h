/*
 * A token bucket: at most `burst` tokens, refilled with `rate` tokens per second. The caller
 * supplies the time, so that one reading of the clock serves many buckets and a test can set its
 * own.
 */
#ifndef BASE_TOKEN_BUCKET_H
#define BASE_TOKEN_BUCKET_H

#include <stdint.h>

struct token_bucket {
    double tokens; /* below 0: tokens taken in advance */
    uint64_t filled_ns;
};

/* Starts full. */
static inline void token_bucket_init(struct token_bucket *bucket, double burst, uint64_t now_ns)
{
    *bucket = (struct token_bucket){burst, now_ns};
}

/* Adds the tokens since the last reading. Adds none if the clock does not advance or goes back. */
static inline void token_bucket_fill(struct token_bucket *bucket, double rate_per_s, double burst,
                                     uint64_t now_ns)
{
    if (now_ns > bucket->filled_ns) {
        bucket->tokens += (double)(now_ns - bucket->filled_ns) / 1e9 * rate_per_s;
        bucket->filled_ns = now_ns;
    }
    if (bucket->tokens > burst)
        bucket->tokens = burst;
}

/* Returns the time from the last filling until there are `wanted` tokens, rounded up; rate_per_s >
 * 0. */
static inline uint64_t token_bucket_wait_ns(const struct token_bucket *bucket, double rate_per_s,
                                            double wanted)
{
    double missing = wanted - bucket->tokens;
    return missing <= 0 ? 0 : (uint64_t)(missing / rate_per_s * 1e9) + 1;
}

#endif
