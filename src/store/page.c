/*
 * Pages of lists by id; the statements are STORE_PAGE_SQL of internal.h.
 *
 * A page reads at most STORE_PAGE_ROWS rows of the index, so a filter that matches few rows costs
 * no more than a filter that matches all. The row where it stopped is returned even if it does not
 * match, with is_cut, so that the next page begins after it.
 */
#include "store/internal.h"

/* The last row is the oldest row read; it may only mark how far the scan went. */
static size_t end_page(const struct pg_query *query, struct uuid *next)
{
    const struct pg_rows *rows = &query->rows;
    int64_t count_max = query->params[3].as.i64;
    ASSERT(count_max > 0 && count_max <= STORE_PAGE_COUNT_MAX);
    *next = (struct uuid){{0}};
    if (rows->count == 0)
        return 0;
    size_t last = rows->count - 1, is_match = rows->column_count - 2;
    /* A full page has as many rows as the caller wanted, and more may follow. Otherwise the range
     * has ended, unless the last row is the cut. */
    bool is_full = (int64_t)rows->count == count_max;
    if (is_full || pg_get_bool(rows, last, is_match + 1))
        *next = pg_get_uuid(rows, last, 0);
    /* a cut row that does not match is not counted */
    return rows->count - !pg_get_bool(rows, last, is_match);
}

void *store_page_result(const struct pg_query *query, size_t size, size_t *count, struct uuid *next,
                        int *status)
{
    void *list = store_list_result(query, size, count, status);
    if (*status == OK)
        *count = end_page(query, next);
    return list;
}
