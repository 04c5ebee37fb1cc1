/*
 * One flow for an operator, with its owner's lease; see flow_explain.h.
 */
#include "store/flow_explain.h"

#include "store/internal.h"

/* One search of the primary key (account_id, id) for each account, since no index is on the id
 * alone: an operator has the id from a log line, and a command may take that long. OFFSET 0 keeps
 * the search inside the loop. */
static const struct pg_column explain_params[] = {{"id", PG_UUID}};
static const struct pg_column explain_columns[] = {
    STORE_FLOW_ROW_COLUMNS,   {"account_name", PG_TEXT}, {"node_name", PG_TEXT},
    {"lease_until", PG_TIME}, {"nodes_alive", PG_I64},   {"now", PG_TIME},
    {"body", PG_JSON},        {"last_error", PG_JSON},
};
static const struct pg_stmt flow_explain = {
    .name = "flow_explain",
    .sql = "select :ord, " STORE_FLOW_ROW ", a.name, "
           "(select n.name from sluice.node n where n.node_id = t.owner), "
           "(select n.lease_until from sluice.node n where n.node_id = t.owner), "
           "(select count(*) from sluice.node n where n.lease_until > now()), now(), "
           "(select v.body from sluice.flow_template v where v.version = t.template_version), "
           "(select s.error from sluice.flow_step s where s.account_id = t.account_id "
           "and s.flow_id = t.id and s.error is not null "
           "order by s.step_index desc, s.attempt desc limit 1) "
           "from @input sluice.account a, lateral (select f.* from sluice.flow f "
           "where f.account_id = a.account_id and f.id = :id offset 0) t",
    PG_PARAMS(explain_params),
    PG_COLUMNS(explain_columns),
    .no_account = "an operator knows a flow by its id",
};

const struct pg_stmt *const flow_explain_stmts[] = {&flow_explain, NULL};

int store_flow_explain_sync(struct pg_sync *sync, struct arena *arena, struct uuid id,
                            struct flow_explained *explained, struct err *err)
{
    enum { NAME = STORE_FLOW_COLUMNS, NODE, LEASE, ALIVE, NOW, BODY, ERROR };
    const struct pg_value params[] = {pg_uuid(id)};
    struct pg_rows rows;
    int rc = pg_sync_exec(sync, &flow_explain, params, arena, &rows, err);
    if (rc != OK)
        return rc;
    if (rows.count == 0)
        return err_set(err, ERR_NOTFOUND, "there is no flow of that id");
    *explained = (struct flow_explained){
        .account_name = pg_get_bytes(&rows, 0, NAME),
        .node_name = pg_get_bytes(&rows, 0, NODE),
        .lease_until = pg_get_time(&rows, 0, LEASE),
        .nodes_alive = pg_get_i64(&rows, 0, ALIVE),
        .now = pg_get_time(&rows, 0, NOW),
        .template_body = pg_get_bytes(&rows, 0, BODY),
        .last_error = pg_get_bytes(&rows, 0, ERROR),
    };
    store_flow_read(&rows, 0, 0, &explained->flow);
    return OK;
}
