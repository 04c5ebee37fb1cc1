/*
 * The list of all statements.
 *
 * A statement that is missing here is not covered by the tests that expand, EXPLAIN and check all
 * of them.
 */
#include "store/store.h"

#include "store/internal.h"

static const struct pg_stmt *const *const groups[] = {
    account_stmts,       api_key_stmts,        audit_stmts,        connect_session_stmts,
    connection_stmts,    execution_stmts,      flow_explain_stmts, flow_item_stmts,
    flow_read_stmts,     flow_retention_stmts, flow_stmts,         flow_take_stmts,
    flow_template_stmts, idempotency_stmts,    node_stmts,         oauth_stmts,
    retention_stmts,     kept_stmts,
};

const struct pg_stmt *store_stmt_at(size_t index)
{
    for (size_t g = 0; g < ARRAY_LEN(groups); g++)
        for (size_t i = 0; groups[g][i]; i++)
            if (index-- == 0)
                return groups[g][i];
    return NULL;
}

int store_exec_one_sync(struct pg_sync *sync, const struct pg_stmt *stmt,
                        const struct pg_value *params, const char *what, struct err *err)
{
    struct arena arena;
    struct pg_rows rows = {0};
    arena_init(&arena, 64 * 1024);
    int rc = pg_sync_exec(sync, stmt, params, &arena, &rows, err);
    if (rc == OK && rows.count == 0)
        rc = err_set(err, ERR_NOTFOUND, "%s", what);
    arena_deinit(&arena);
    return rc;
}
