/*
 * Latencies in a histogram of fixed size with 3 significant digits from 1 microsecond to 60 s, in
 * the layout of Gil Tene's HdrHistogram: buckets of doubling width, each of 1024 equal parts.
 */
#ifndef LOAD_HISTOGRAM_H
#define LOAD_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

enum {
    HISTOGRAM_PARTS = 1024,
    HISTOGRAM_BUCKETS = 17, /* 2048 us doubled 15 times is 67 s */
    HISTOGRAM_COUNTS = (HISTOGRAM_BUCKETS + 1) * HISTOGRAM_PARTS,
};
#define HISTOGRAM_US_MAX 60000000ull

struct histogram {
    uint64_t total, sum_us, min_us, max_us;
    uint64_t counts[HISTOGRAM_COUNTS];
};

void histogram_clear(struct histogram *histogram);
/* Adds a value. Longer values count as 60 s in the buckets; max_us keeps the true value. */
void histogram_record(struct histogram *histogram, uint64_t us);
void histogram_merge(struct histogram *into, const struct histogram *from);
/* Returns the value that `percent` (0 to 100) of all values do not exceed, or 0 if there are no
 * values. */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);
double histogram_mean(const struct histogram *histogram);
/* Returns the highest value that is counted in counts[index]. */
uint64_t histogram_last_us(const struct histogram *histogram, size_t index);

#endif
