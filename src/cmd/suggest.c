/*
 * Mistyped names; see suggest.h.
 */
#include "cmd/suggest.h"

#include <ctype.h>

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static bool same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

unsigned suggest_distance(slice a, slice b)
{
    /* three rows of the table: the one being filled and the two above it */
    unsigned rows[3][SUGGEST_NAME_MAX + 1];
    a = slice_first(a, SUGGEST_NAME_MAX);
    b = slice_first(b, SUGGEST_NAME_MAX);
    for (unsigned j = 0; j <= b.len; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= a.len; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (unsigned j = 1; j <= b.len; j++) {
            bool is_same = same(a.ptr[i - 1], b.ptr[j - 1]);
            row[j] = least(above[j - 1] + !is_same, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && same(a.ptr[i - 1], b.ptr[j - 2]) &&
                same(a.ptr[i - 2], b.ptr[j - 1]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[a.len % 3][b.len];
}

void suggest_begin(struct suggest *suggest, slice typed)
{
    /* about one letter in three may be wrong */
    *suggest = (struct suggest){.typed = typed, .distance = (unsigned)typed.len / 3 + 2};
}

void suggest_offer(struct suggest *suggest, slice name)
{
    bool is_start = suggest->typed.len >= 2 && slice_starts_with(name, suggest->typed);
    unsigned distance = is_start ? 1 : suggest_distance(suggest->typed, name);
    if (distance >= suggest->distance || distance >= name.len)
        return;
    suggest->distance = distance;
    suggest->best = name;
}
