/*
 * Audit events.
 */
#include "store/audit.h"

#include "store/internal.h"

static const struct pg_column insert_params[] = {
    {"account_id", PG_UUID}, {"id", PG_UUID},         {"kind", PG_TEXT},    {"reason", PG_TEXT},
    {"actor", PG_TEXT},      {"request_id", PG_TEXT}, {"details", PG_JSON}, {"address", PG_TEXT}};
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

const struct pg_stmt *const audit_stmts[] = {&audit_insert, NULL};

static void fill(struct pg_value *params, const struct audit_event *event)
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
    fill(query->params, event);
    store_submit(pool, query, op, &audit_insert);
}

int store_audit_insert_sync(struct pg_sync *sync, const struct audit_event *event, struct err *err)
{
    struct pg_value params[ARRAY_LEN(insert_params)];
    fill(params, event);
    return pg_sync_exec(sync, &audit_insert, params, NULL, NULL, err);
}
