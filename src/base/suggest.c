/*
 * suggest: the nearest of many names by edit distance; see suggest.h for what counts. Names may
 * come from a client and there may be thousands to compare, so each comparison is limited: first by
 * length and by the set of letters, then to a band around the diagonal, and finally by the total of
 * cells left.
 */
#include "base/suggest.h"

#include "base/ascii.h"
#include "base/assert.h"

static struct suggest_name fold_name(slice name)
{
    struct suggest_name folded = {.is_long = name.len > SUGGEST_NAME_MAX};
    for (size_t i = 0; i < name.len && !folded.is_long; i++) {
        char c = name.ptr[i];
        if (c == '_' || c == '-' || c == ' ' || c == '.')
            continue;
        c = ascii_lower(c);
        folded.text[folded.len++] = c;
        /* 64 bits for 256 byte values: two values may share one bit, which can only make names
         * look nearer than they are. */
        folded.letters |= UINT64_C(1) << ((unsigned char)c % 64);
    }
    return folded;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Each edit changes at most two of the characters that only one of the names contains. */
static bool may_be_near(const struct suggest_name *a, const struct suggest_name *b, unsigned limit)
{
    unsigned gap = a->len > b->len ? a->len - b->len : b->len - a->len;
    unsigned apart = (unsigned)__builtin_popcountll(a->letters ^ b->letters);
    return !a->is_long && !b->is_long && gap < limit && apart < 2 * limit;
}

/* Fills one row of the distance table; cells further than `limit` from the diagonal are not
 * filled. Returns the lowest value of the row. rows: the current row and the two above it, used
 * in rotation. */
static unsigned fill_row(unsigned rows[3][SUGGEST_NAME_MAX + 2], const struct suggest_name *a,
                         const struct suggest_name *b, unsigned i, unsigned limit)
{
    unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
    unsigned from = i > limit ? i - limit : 1, to = least(b->len, i + limit), nearest = limit;
    /* Outside the band no path is shorter than limit, so such a cell counts as limit. */
    row[from - 1] = from == 1 ? i : limit;
    for (unsigned j = from; j <= to; j++) {
        bool is_same = a->text[i - 1] == b->text[j - 1];
        row[j] = least(above[j - 1] + !is_same, least(above[j], row[j - 1]) + 1);
        /* A swap of two neighbours counts as one edit: it is the most common typing error. */
        if (i > 1 && j > 1 && a->text[i - 1] == b->text[j - 2] && a->text[i - 2] == b->text[j - 1])
            row[j] = least(row[j], before[j - 2] + 1);
        nearest = least(nearest, row[j]);
    }
    row[to + 1] = limit;
    return least(nearest, row[from - 1]);
}

/* Returns at most `limit`. Adds the work done to cells. */
static unsigned distance(const struct suggest_name *a, const struct suggest_name *b, unsigned limit,
                         unsigned *cells)
{
    unsigned rows[3][SUGGEST_NAME_MAX + 2];
    ASSERT(limit <= SUGGEST_DISTANCE_MAX + 1);
    if (!may_be_near(a, b, limit))
        return limit;
    for (unsigned j = 0; j <= b->len + 1; j++)
        rows[0][j] = rows[1][j] = rows[2][j] = least(j, limit);
    for (unsigned i = 1; i <= a->len; i++) {
        *cells += 2 * limit + 1;
        /* No later row can have a value below the limit again. */
        if (fill_row(rows, a, b, i, limit) >= limit)
            return limit;
    }
    return least(rows[a->len % 3][b->len], limit);
}

unsigned suggest_distance(slice a, slice b, unsigned limit)
{
    const struct suggest_name left = fold_name(a), right = fold_name(b);
    unsigned cells = 0;
    return distance(&left, &right, limit, &cells);
}

void suggest_begin(struct suggest *suggest, slice typed)
{
    *suggest = (struct suggest){.typed = fold_name(typed), .cells_left = SUGGEST_CELLS_MAX};
    /* limit is the first distance that is too far: one more than the edits allowed. */
    suggest->limit = least(suggest->typed.len / 3 + 1, SUGGEST_DISTANCE_MAX) + 1;
}

static bool starts_with(const struct suggest_name *name, const struct suggest_name *start)
{
    return start->len >= 2 && name->len >= start->len &&
           memcmp(name->text, start->text, start->len) == 0;
}

void suggest_offer(struct suggest *suggest, slice name)
{
    const struct suggest_name *typed = &suggest->typed;
    const struct suggest_name offered = fold_name(name);
    /* A name of n characters does not match with n edits: no character of it would be left. */
    unsigned limit = least(suggest->limit, offered.len), found = limit, cells = 0;
    if (typed->len == 0 || limit == 0)
        return;
    if (starts_with(&offered, typed))
        found = offered.len == typed->len ? 0 : 1;
    else if (suggest->cells_left > 0)
        found = distance(typed, &offered, limit, &cells);
    /* The cells are charged even if nothing was found: the limit is on work, not on matches. */
    suggest->cells_left -= least(cells, suggest->cells_left);
    if (found >= limit)
        return;
    suggest->limit = found;
    suggest->best = name;
}
