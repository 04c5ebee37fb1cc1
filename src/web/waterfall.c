/*
 * Bars of a waterfall; see waterfall.h.
 *
 * The starts and ends of all spans divide the time into pieces. A piece with work has its full
 * length; any other piece has at most a maximum length.
 */
#include "web/waterfall.h"

#include <stdlib.h>

#include "base/assert.h"

enum { BAR_WIDTH_MIN = 6, PAUSE_PART = 5, PIECES_MAX = 2 * WATERFALL_SPANS_MAX };

struct pieces {
    int64_t at[PIECES_MAX];   /* the cuts, sorted */
    double drawn[PIECES_MAX]; /* the length drawn up to each cut */
    size_t count;
};

static int64_t end_of(const struct waterfall_span *span)
{
    if (span->is_open)
        return INT64_MAX;
    return span->end > span->begin ? span->end : span->begin;
}

static int compare_times(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

static bool is_work(const struct waterfall_span *spans, size_t count, int64_t from, int64_t to)
{
    for (size_t i = 0; i < count; i++)
        if (!spans[i].is_pause && spans[i].begin <= from && end_of(&spans[i]) >= to)
            return true;
    return false;
}

static void cut(struct pieces *pieces, const struct waterfall_span *spans, size_t count)
{
    double work = 0;
    pieces->count = 0;
    for (size_t i = 0; i < count; i++) {
        pieces->at[pieces->count++] = spans[i].begin;
        pieces->at[pieces->count++] = end_of(&spans[i]);
    }
    qsort(pieces->at, pieces->count, sizeof(pieces->at[0]), compare_times);
    for (size_t i = 1; i < pieces->count; i++)
        if (is_work(spans, count, pieces->at[i - 1], pieces->at[i]))
            work += (double)pieces->at[i] - (double)pieces->at[i - 1];
    pieces->drawn[0] = 0;
    for (size_t i = 1; i < pieces->count; i++) {
        double length = (double)pieces->at[i] - (double)pieces->at[i - 1];
        double most = work / PAUSE_PART + 1;
        if (length > most && !is_work(spans, count, pieces->at[i - 1], pieces->at[i]))
            length = most;
        pieces->drawn[i] = pieces->drawn[i - 1] + length;
    }
}

/* Returns the position of a time, which must be one of the cuts. */
static int64_t x_of(const struct pieces *pieces, int64_t time)
{
    double all = pieces->drawn[pieces->count - 1];
    size_t i = 0;
    while (i + 1 < pieces->count && pieces->at[i] < time)
        i++;
    ASSERT(pieces->at[i] == time);
    return all > 0 ? (int64_t)(pieces->drawn[i] / all * WATERFALL_WIDTH) : 0;
}

void waterfall_fit(const struct waterfall_span *spans, size_t count, struct waterfall_bar *bars)
{
    struct pieces pieces;
    ASSERT(count <= WATERFALL_SPANS_MAX);
    if (count == 0)
        return;
    cut(&pieces, spans, count);
    for (size_t i = 0; i < count; i++) {
        int64_t x = x_of(&pieces, spans[i].begin);
        int64_t width = x_of(&pieces, end_of(&spans[i])) - x;
        width = width > BAR_WIDTH_MIN ? width : BAR_WIDTH_MIN;
        x = x > WATERFALL_WIDTH - width ? WATERFALL_WIDTH - width : x;
        bars[i] = (struct waterfall_bar){x, width};
    }
}
