/*
 * waterfall: the times of a flow's steps, as bars below each other on one scale, in thousandths of
 * its width. Pauses (a wait, an approval, or no activity) may take days while the work takes a
 * second: each uninterrupted pause is drawn at most as long as a fifth of all work.
 */
#ifndef WEB_WATERFALL_H
#define WEB_WATERFALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WATERFALL_SPANS_MAX = 64, WATERFALL_WIDTH = 1000 };

struct waterfall_span {
    int64_t begin, end;     /* microseconds; an end before the start means no duration */
    bool is_pause, is_open; /* open: the span is a pause that has not ended */
};

/* Each bar is at least a few thousandths wide, within 0 to WATERFALL_WIDTH. */
struct waterfall_bar {
    int64_t x, width;
};

/* Computes a bar for each span. count is the number of spans and of bars, at most
 * WATERFALL_SPANS_MAX. */
void waterfall_fit(const struct waterfall_span *spans, size_t count, struct waterfall_bar *bars);

#endif
