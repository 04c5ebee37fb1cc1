/*
 * Bucket 0 holds 0 to 2047 us one by one. Bucket n > 0 holds [1024 << n, 2048 << n) in 1024 parts
 * of 1 << n microseconds.
 */
#include "load/histogram.h"

#include <string.h>

static size_t index_of(uint64_t us)
{
    if (us > HISTOGRAM_US_MAX)
        us = HISTOGRAM_US_MAX;
    unsigned bucket = us < 2 * HISTOGRAM_PARTS ? 0 : 53 - (unsigned)__builtin_clzll(us);
    return (size_t)bucket * HISTOGRAM_PARTS + (size_t)(us >> bucket);
}

/* Returns the smallest value counted at this index. */
static uint64_t value_at(size_t index)
{
    if (index < 2 * HISTOGRAM_PARTS)
        return index;
    size_t bucket = index / HISTOGRAM_PARTS - 1;
    return (uint64_t)(index - bucket * HISTOGRAM_PARTS) << bucket;
}

void histogram_clear(struct histogram *histogram)
{
    memset(histogram, 0, sizeof(*histogram));
}

void histogram_record(struct histogram *histogram, uint64_t us)
{
    if (histogram->total == 0 || us < histogram->min_us)
        histogram->min_us = us;
    if (us > histogram->max_us)
        histogram->max_us = us;
    histogram->total++;
    histogram->sum_us += us;
    histogram->counts[index_of(us)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    if (from->total == 0)
        return;
    if (into->total == 0 || from->min_us < into->min_us)
        into->min_us = from->min_us;
    if (from->max_us > into->max_us)
        into->max_us = from->max_us;
    into->total += from->total;
    into->sum_us += from->sum_us;
    for (size_t i = 0; i < HISTOGRAM_COUNTS; i++)
        into->counts[i] += from->counts[i];
}

uint64_t histogram_last_us(const struct histogram *histogram, size_t index)
{
    uint64_t last = value_at(index + 1) - 1;
    return last < histogram->max_us ? last : histogram->max_us;
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
    double wanted = (double)histogram->total * percent / 100;
    uint64_t reached = 0;
    for (size_t i = 0; histogram->total && i < HISTOGRAM_COUNTS; i++) {
        reached += histogram->counts[i];
        if (reached > 0 && (double)reached >= wanted)
            return histogram_last_us(histogram, i);
    }
    return histogram->max_us;
}

double histogram_mean(const struct histogram *histogram)
{
    return histogram->total ? (double)histogram->sum_us / (double)histogram->total : 0;
}
