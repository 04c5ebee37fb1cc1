/*
 * Lists of deliveries; see delivery_list.h. The index delivery_webhook, of kinds that are not empty
 * (so of all rows), is walked backward, or that of failed or of pending rows. Rows of users are
 * under their own ids, so no account is named, and each shard is asked.
 */
#include "store/delivery_list.h"

#include "store/internal.h"

#define OF(name, type) PG_OF(#name, type, struct delivery_item, name)

/* `only` makes it a walk over a partial index. */
#define LIST(stmt_name, only, match)                                                          \
    {                                                                                         \
        .name = stmt_name,                                                                    \
        .sql = "select :ord, t.* from @input lateral (" STORE_PAGE_ROWS_SQL(                  \
            "select x.event_id as id, x.kind, x.object, x.rev, x.at, x.status, x.attempt, "   \
            "x.due_at, x.code, x.problem, x.data, x.account_id from sluice.delivery x where " \
            "x.webhook_id = "                                                                 \
            ":webhook_id and x.event_id < :before and x.event_id >= :since and " only         \
            " order by x.event_id desc",                                                      \
            "id desc",                                                                        \
            "e.id, e.kind, e.object, e.rev, e.at, e.status, e.attempt, e.due_at, "            \
            "e.code, e.problem, e.data, e.account_id",                                        \
            match) ") t",                                                                     \
        PG_TAKES(PG_ARG("webhook_id", PG_UUID), STORE_PAGE_RANGE_PARAMS,                      \
                 PG_ARG("status", PG_TEXT)),                                                  \
        PG_COLUMNS(list_columns),                                                             \
        .no_account =                                                                         \
            "an endpoint hears an account and all its users, which other nodes may have",     \
        .is_spread = true, .spread_max = STORE_PAGE_COUNT_MAX, .spread_order = "-id",         \
    }
static const struct pg_column list_columns[] = {
    OF(id, PG_UUID),
    OF(kind, PG_TEXT),
    OF(object, PG_UUID),
    OF(rev, PG_I64),
    OF(at, PG_TIME),
    OF(status, PG_TEXT),
    PG_OF("attempt", PG_I64, struct delivery_item, attempts),
    OF(due_at, PG_TIME),
    OF(code, PG_I64),
    OF(problem, PG_TEXT),
    OF(data, PG_JSON),
    OF(account_id, PG_UUID),
    STORE_PAGE_COLUMNS};
static const struct pg_stmt delivery_list =
    LIST("delivery_list", "x.kind <> ''", ":status is null or e.status = :status");
static const struct pg_stmt delivery_list_failed =
    LIST("delivery_list_failed", "x.status = 'failed'", "e.status = :status");
static const struct pg_stmt delivery_list_pending =
    LIST("delivery_list_pending", "x.status = 'pending' and x.attempt >= 0", "e.status = :status");

const struct pg_stmt *const delivery_list_stmts[] = {&delivery_list, &delivery_list_failed,
                                                     &delivery_list_pending, NULL};

void store_delivery_list(STORE_ARGS, struct uuid webhook_id, const struct store_page *page,
                         slice status)
{
    const struct pg_stmt *stmt = slice_eq(status, SLICE("failed"))    ? &delivery_list_failed
                                 : slice_eq(status, SLICE("pending")) ? &delivery_list_pending
                                                                      : &delivery_list;
    store_ask_of(pool, query, op, stmt, page, PG_VALUES(pg_uuid(webhook_id), pg_text(status)));
}

int store_delivery_list_result(const struct pg_query *query, struct delivery_item **list,
                               size_t *count, struct uuid *next)
{
    int status;
    *list = store_page_result(query, sizeof(**list), count, next, &status);
    return status;
}
