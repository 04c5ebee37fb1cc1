/*
 * Audit events: inserted, listed, never updated. The table is partitioned by day of the id; a list
 * is a page of STORE_PAGE_SQL, so it prunes partitions outside its range.
 */
#include "store/audit.h"

#include "store/internal.h"

static const struct pg_column insert_params[] = {
    {"account_id", PG_UUID}, {"id", PG_UUID},         {"kind", PG_TEXT},    {"reason", PG_TEXT},
    {"actor", PG_TEXT},      {"request_id", PG_TEXT}, {"details", PG_JSON}, {"address", PG_TEXT}};
/* The id is drawn by the caller, once: a replay meets its own row and leaves it. */
static const struct pg_stmt audit_insert = {
    .name = "audit_insert",
    .sql = "insert into sluice.audit_event "
           "(account_id, id, kind, reason, actor, request_id, details, address) "
           "@row :account_id, :id, :kind, :reason, :actor, :request_id, :details, :address @end "
           "on conflict do nothing",
    PG_PARAMS(insert_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .is_write = true,
    .is_replayable = true,
};

static const struct pg_column list_params[] = {STORE_PAGE_PARAMS, {"kind", PG_TEXT}};
static const struct pg_column list_columns[] = {
    {"id", PG_UUID},         {"kind", PG_TEXT},    {"reason", PG_TEXT},  {"actor", PG_TEXT},
    {"request_id", PG_TEXT}, {"address", PG_TEXT}, {"details", PG_JSON}, STORE_PAGE_COLUMNS};
/* `key` finds `key` and `key.created` but not `keyring`: hence the point. left() and not LIKE,
 * since a kind may hold `_`, which LIKE takes for any character. */
static const struct pg_stmt audit_list = {
    .name = "audit_list",
    .sql = STORE_PAGE_SQL("sluice.audit_event",
                          "e.id, e.kind, e.reason, e.actor, e.request_id, e.address, e.details",
                          ":kind is null or e.kind = :kind or "
                          "left(e.kind, char_length(:kind) + 1) = :kind || '.'"),
    PG_PARAMS(list_params),
    PG_COLUMNS(list_columns),
};

const struct pg_stmt *const audit_stmts[] = {&audit_insert, &audit_list, NULL};

static void fill_event_params(struct pg_value *params, const struct audit_event *event)
{
    ASSERT(event->kind.ptr);
    params[0] = pg_uuid(event->account_id);
    params[1] = pg_uuid(event->id);
    params[2] = pg_text(event->kind);
    params[3] = pg_text(event->reason);
    params[4] = pg_text_or_empty(event->actor);
    params[5] = pg_text(event->request_id);
    params[6] = pg_json(event->details);
    params[7] = pg_text(event->address);
}

void store_audit_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                        const struct audit_event *event)
{
    fill_event_params(query->params, event);
    store_submit(pool, query, op, &audit_insert);
}

int store_audit_insert_sync(struct pg_sync *sync, const struct audit_event *event, struct err *err)
{
    struct pg_value params[ARRAY_LEN(insert_params)];
    fill_event_params(params, event);
    return pg_sync_exec(sync, &audit_insert, params, NULL, NULL, err);
}

void store_audit_list(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      struct uuid account_id, const struct store_page *page, slice kind)
{
    store_page_params(query, account_id, page);
    query->params[4] = pg_text(kind);
    store_submit(pool, query, op, &audit_list);
}

int store_audit_list_result(const struct pg_query *query, struct audit_event **list, size_t *count,
                            struct uuid *next)
{
    const struct pg_rows *rows = &query->rows;
    if (query->status != OK)
        return query->status;
    *count = store_page_end(query, next);
    *list = ARENA_ARRAY(&query->op->arena, struct audit_event, *count + 1);
    if (!*list)
        return ERR_NOMEM;
    for (size_t i = 0; i < *count; i++)
        (*list)[i] = (struct audit_event){
            .account_id = query->params[0].as.uuid,
            .id = pg_get_uuid(rows, i, 0),
            .kind = pg_get_bytes(rows, i, 1),
            .reason = pg_get_bytes(rows, i, 2),
            .actor = pg_get_bytes(rows, i, 3),
            .request_id = pg_get_bytes(rows, i, 4),
            .address = pg_get_bytes(rows, i, 5),
            .details = pg_get_bytes(rows, i, 6),
        };
    return OK;
}
