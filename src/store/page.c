/*
 * Pages of lists by id; the statements are STORE_PAGE_SQL of internal.h.
 *
 * A page reads at most STORE_PAGE_ROWS rows of the index, so a filter that matches few rows costs
 * no more than a filter that matches all. The row where it stopped is returned even if it does not
 * match, with is_cut, so that the next page begins after it.
 */
#include "store/internal.h"

/* The last row of the page is the oldest row read; it may only mark how far the scan went. The rows
 * of a sharded database's nodes are merged: more than were wanted may follow, and after the first
 * cut, rows of one node are missing. */
static size_t end_page(const struct pg_query *query, struct uuid *next)
{
    const struct pg_rows *rows = &query->rows;
    int64_t count_max = query->params[3].as.i64;
    size_t count = 0, is_match = rows->column_count - 2;
    bool is_cut = false;
    ASSERT(count_max > 0 && count_max <= STORE_PAGE_COUNT_MAX);
    *next = (struct uuid){{0}};
    while (count < rows->count && (int64_t)count < count_max && !is_cut)
        is_cut = pg_get_bool(rows, count++, is_match + 1);
    if (count == 0)
        return 0;
    /* A full page has as many rows as the caller wanted, and more may follow. Otherwise the range
     * has ended, unless the last row is the cut. */
    if ((int64_t)count == count_max || is_cut)
        *next = pg_get_uuid(rows, count - 1, 0);
    /* a cut row that does not match is not counted */
    return count - !pg_get_bool(rows, count - 1, is_match);
}

void *store_page_result(const struct pg_query *query, size_t size, size_t *count, struct uuid *next,
                        int *status)
{
    void *list = store_list_result(query, size, count, status);
    if (*status == OK)
        *count = end_page(query, next);
    return list;
}
