/*
 * waterfall: the times of a flow's steps, as bars below each other on one scale, in thousandths of
 * its width. Pauses (a wait, an approval, nothing at all) may take days while the work takes a
 * second: for each uninterrupted pause at most a fifth of all work is drawn.
 */
#ifndef WEB_WATERFALL_H
#define WEB_WATERFALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WATERFALL_SPANS_MAX = 64, WATERFALL_WIDTH = 1000 };

struct waterfall_span {
    int64_t begin, end;     /* microseconds; not before its start, else it counts as empty */
    bool is_pause, is_open; /* open: a pause without an end yet */
};

/* Each at least a few thousandths wide, within 0 to WATERFALL_WIDTH. */
struct waterfall_bar {
    int64_t x, width;
};

/* count: at most WATERFALL_SPANS_MAX, of spans and bars. */
void waterfall_fit(const struct waterfall_span *spans, size_t count, struct waterfall_bar *bars);

#endif
