/*
 * All statements, for the tests that expand, EXPLAIN and check each of them, and helpers that the
 * room's files share.
 */
#include "store/store.h"

#include "store/internal.h"

#define GROUP_OF(file) file##_stmts,
static const struct pg_stmt *const *const groups[] = {STORE_FILES(GROUP_OF)};

const struct pg_stmt *store_stmt_at(size_t index)
{
    for (size_t g = 0; g < ARRAY_LEN(groups); g++)
        for (size_t i = 0; groups[g][i]; i++)
            if (index-- == 0)
                return groups[g][i];
    return NULL;
}

/* ---- rows ---- */

static void *read_rows(const struct pg_stmt *stmt, const struct pg_rows *rows, struct arena *arena,
                       size_t size, size_t count)
{
    char *list = arena_calloc(arena, count + 1, size);
    for (size_t i = 0; list && i < count; i++)
        pg_read(stmt, rows, i, list + i * size);
    return list;
}

int store_row_result(const struct pg_query *query, void *out, size_t size)
{
    int status = store_hit_result(query);
    if (status != OK)
        return status;
    memset(out, 0, size);
    pg_read(query->stmt, &query->rows, 0, out);
    return OK;
}

void *store_list_result(const struct pg_query *query, size_t size, size_t *count, int *status)
{
    *status = query->status;
    *count = 0;
    if (*status != OK)
        return NULL;
    void *list =
        read_rows(query->stmt, &query->rows, &query->wait.op->arena, size, query->rows.count);
    if (list)
        *count = query->rows.count;
    else
        *status = ERR_NOMEM;
    return list;
}

bool store_has_event(const struct pg_query *query)
{
    const struct pg_rows *rows = &query->rows;
    return query->status == OK && rows->count > 0 && rows->column_count > 0 &&
           pg_get_bool(rows, 0, rows->column_count - 1);
}

struct uuid store_event_of(const struct pg_query *query)
{
    for (size_t i = 0; store_has_event(query) && i < query->stmt->param_count; i++)
        if (strcmp(query->stmt->params[i].name, "event_id") == 0)
            return query->params[i].as.uuid;
    return (struct uuid){{0}};
}

int store_text_result(const struct pg_query *query, slice *text)
{
    int status = store_hit_result(query);
    if (status == OK)
        *text = pg_get_bytes(&query->rows, 0, 0);
    return status;
}

int store_count_result(const struct pg_query *query, size_t *count)
{
    if (query->status == OK)
        *count = query->rows.count > 0 ? (size_t)pg_get_i64(&query->rows, 0, 0) : 0;
    return query->status;
}

int store_rev_result(const struct pg_query *query, int64_t *rev)
{
    int status = store_hit_result(query);
    if (status == OK)
        *rev = pg_get_i64(&query->rows, 0, 0);
    return status;
}

/* ---- operator commands ---- */

int store_exec_sync(struct pg_sync *sync, const struct pg_stmt *stmt, const void *from,
                    const struct pg_value *values, size_t count, struct arena *arena,
                    struct pg_rows *rows, struct err *err)
{
    struct pg_value params[PG_PARAMS_MAX];
    pg_bind(stmt, from, values, count, params);
    return pg_sync_exec(sync, stmt, params, arena, rows, err);
}

int store_exec_one_sync(struct pg_sync *sync, const struct pg_stmt *stmt, const void *from,
                        const struct pg_value *values, size_t count, const char *what,
                        struct err *err)
{
    struct arena arena;
    struct pg_rows rows = {0};
    arena_init(&arena, 64 * 1024);
    int rc = store_exec_sync(sync, stmt, from, values, count, &arena, &rows, err);
    if (rc == OK && rows.count == 0)
        rc = err_set(err, ERR_NOTFOUND, "%s", what);
    arena_deinit(&arena);
    return rc;
}

void *store_list_sync(struct pg_sync *sync, struct arena *arena, const struct pg_stmt *stmt,
                      const struct pg_value *values, size_t value_count, size_t size, size_t *count,
                      struct err *err)
{
    struct pg_rows rows;
    if (store_exec_sync(sync, stmt, NULL, values, value_count, arena, &rows, err) != OK)
        return NULL;
    void *list = read_rows(stmt, &rows, arena, size, rows.count);
    *count = rows.count;
    if (!list)
        err_set(err, ERR_NOMEM, "the list is too large (%s)", stmt->name);
    return list;
}
