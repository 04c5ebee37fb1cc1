/*
 * Pages of lists by id; the statements are STORE_PAGE_SQL of internal.h.
 */
#include "store/internal.h"

void store_page_params(struct pg_query *query, struct uuid account_id,
                       const struct store_page *page)
{
    ASSERT(page->count_max > 0 && page->count_max <= STORE_PAGE_COUNT_MAX);
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_uuid(page->since);
    query->params[2] = pg_uuid(page->before);
    query->params[3] = pg_i64((int64_t)page->count_max);
}

/* The row that says how far the scan went is the last: it is the oldest that was read. */
size_t store_page_end(const struct pg_query *query, struct uuid *next)
{
    const struct pg_rows *rows = &query->rows;
    *next = (struct uuid){{0}};
    if (rows->count == 0)
        return 0;
    size_t last = rows->count - 1, is_match = rows->column_count - 2;
    bool is_full = (int64_t)rows->count == query->params[3].as.i64;
    if (is_full || pg_get_bool(rows, last, is_match + 1))
        *next = pg_get_uuid(rows, last, 0);
    return rows->count - !pg_get_bool(rows, last, is_match);
}
