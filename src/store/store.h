/*
 * store: all SQL of the program, one file per noun; rows in, structs out.
 *
 * Asynchronous calls come in pairs. `store_noun_verb(pool, query, op, ...)` fills the query, which
 * lives inside op's memory, and submits it: op is held until it is done (pg/pg.h). Slices that are
 * passed in are borrowed until then. Once awake, `store_noun_verb_result(query, &out)` returns OK
 * or ERR_NOTFOUND as its comment says, or the query's own status; slices in the result live in op's
 * arena. Calls that end in `_sync` block and are for operator commands.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "pg/pg.h"
#include "pg/sync.h"

/* The first arguments of every asynchronous call. */
#define STORE_ARGS struct pg_pool *pool, struct pg_query *query, struct op *op

/* For tests. Returns the statement with that number, counted from 0, or NULL after the last. */
const struct pg_stmt *store_stmt_at(size_t index);

/*
 * Lists by id are read in pages, newest first. A page walks the index of the key backward over the
 * ids in [since, before), so partitions outside this range are pruned. A filter is applied to the
 * rows read: a page reads at most STORE_PAGE_ROWS rows and reports where it stopped.
 */
enum { STORE_PAGE_ROWS = 1000, STORE_PAGE_COUNT_MAX = 200 };
struct store_page {
    struct uuid since, before;
    size_t count_max; /* rows wanted, at most STORE_PAGE_COUNT_MAX */
};

/* Returns the query's status; for statements that only had to be committed. */
static inline int store_done_result(const struct pg_query *query)
{
    return query->status;
}

/* For statements that must find their row: returns ERR_NOTFOUND if it does not exist or is not in
 * the required state. */
static inline int store_hit_result(const struct pg_query *query)
{
    return query->status == OK && query->rows.count == 0 ? ERR_NOTFOUND : query->status;
}
/* For statements whose columns are members of a struct of `size` bytes. The first function gets the
 * first row, and returns ERR_NOTFOUND if there is none. The second gets all rows, as an array in
 * the op's arena. Members without a column are zero. */
int store_row_result(const struct pg_query *query, void *out, size_t size) MUST_CHECK;
void *store_list_result(const struct pg_query *query, size_t size, size_t *count,
                        int *status) MUST_CHECK;
/* These define the result function of such a statement: `int name(query, &row)`, `int name(query,
 * &list, &count)`. Slices live in the op's arena, too. */
#define STORE_ROW_RESULT(name, type)                                                  \
    MUST_CHECK static inline int name(const struct pg_query *query, struct type *row) \
    {                                                                                 \
        return store_row_result(query, row, sizeof(*row));                            \
    }
#define STORE_LIST_RESULT(name, type)                                                   \
    MUST_CHECK static inline int name(const struct pg_query *query, struct type **list, \
                                      size_t *count)                                    \
    {                                                                                   \
        int status;                                                                     \
        *list = store_list_result(query, sizeof(**list), count, &status);               \
        return status;                                                                  \
    }

/* For statements that write an event: whether an endpoint hears it. */
bool store_has_event(const struct pg_query *query);
/* The same, for statements that make the event's id: it, or nil. */
struct uuid store_event_of(const struct pg_query *query);

/* As store_hit_result, for statements that return one row with one text or document. */
int store_text_result(const struct pg_query *query, slice *text) MUST_CHECK;
/* Gets the number in the first row; for statements that count. */
int store_count_result(const struct pg_query *query, size_t *count) MUST_CHECK;
/* As store_hit_result, for statements that return the row's revision. */
int store_rev_result(const struct pg_query *query, int64_t *rev) MUST_CHECK;

#endif
