/*
 * Reads one flow for an operator, with its owner's lease; see flow_explain.h.
 */
#include "store/flow_explain.h"

#include "store/internal.h"

#define OF(name, type, ...) PG_OF(#name, type, struct flow_explained, name, __VA_ARGS__)
_Static_assert(offsetof(struct flow_explained, flow) == 0, "its columns are those of a flow");

/* Searches the primary key (account_id, id) once for each account, since there is no index on the
 * id alone: an operator has the id from a log line, and a command may take that long. Each call is
 * planned again, so no plan is cached. */
static const struct pg_stmt flow_explain_account = {
    .name = "flow_explain_account",
    .sql = "select :ord, a.account_id, a.name from @input sluice.account a "
           "join sluice.flow f on f.account_id = a.account_id where f.id = :id",
    PG_TAKES(PG_ARG("id", PG_UUID)),
    PG_GIVES(STORE_FLOW_OF(account_id, PG_UUID), OF(account_name, PG_TEXT)),
    .no_account = "an operator knows a flow by its id",
};

/* The same for a user's flow, once no account has it: users are not looked up one by one, as an
 * account may have a million, so this reads all flows. */
static const struct pg_stmt flow_explain_user = {
    .name = "flow_explain_user",
    .sql = "select :ord, f.account_id, a.name from @input sluice.flow f "
           "join sluice.account a on a.account_id = f.parent_id where f.id = :id",
    PG_TAKES(PG_ARG("id", PG_UUID)),
    PG_GIVES(STORE_FLOW_OF(account_id, PG_UUID), OF(account_name, PG_TEXT)),
    .no_account = "an operator knows a flow by its id",
};

static const struct pg_stmt flow_explain = {
    .name = "flow_explain",
    .sql = "select :ord, " STORE_FLOW_ROW ", now(), "
           "(select s.error from sluice.flow_step s where s.account_id = :account_id "
           "and s.flow_id = :id and s.error is not null "
           "order by s.step_index desc, s.attempt desc limit 1) @read(sluice.flow)",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID)),
    PG_GIVES(STORE_FLOW_ROW_COLUMNS, OF(now, PG_TIME), OF(last_error, PG_JSON)),
    .key_count = 2,
};

/* Nodes belong to no account; in a sharded database they are rows of the coordinator. */
static const struct pg_stmt flow_explain_around = {
    .name = "flow_explain_around",
    .sql = "select :ord, (select n.name from sluice.node n where n.node_id = :owner), "
           "(select n.lease_until from sluice.node n where n.node_id = :owner), "
           "(select count(*) from sluice.node n where n.lease_until > now()), "
           "(select v.body from sluice.flow_template v where v.version = :version) @from",
    PG_TAKES(PG_ARG("owner", PG_UUID), PG_ARG("version", PG_UUID)),
    PG_GIVES(OF(node_name, PG_TEXT), OF(lease_until, PG_TIME), OF(nodes_alive, PG_I64),
             PG_OF("body", PG_JSON, struct flow_explained, template_body)),
    .no_account = "processes and templates, not a tenant's",
};

const struct pg_stmt *const flow_explain_stmts[] = {&flow_explain_account, &flow_explain_user,
                                                    &flow_explain, &flow_explain_around, NULL};

/* Reads the single row of a statement into the members of a struct. */
static struct flow_explained *explain_row(struct pg_sync *sync, struct arena *arena,
                                          const struct pg_stmt *stmt, const struct pg_value *values,
                                          size_t value_count, struct err *err)
{
    size_t count;
    struct flow_explained *list =
        store_list_sync(sync, arena, stmt, values, value_count, sizeof(*list), &count, err);
    if (list && count == 0)
        err_set(err, ERR_NOTFOUND, "there is no flow with that id");
    return list && count > 0 ? list : NULL;
}

int store_flow_explain_sync(struct pg_sync *sync, struct arena *arena, struct uuid id,
                            struct flow_explained *explained, struct err *err)
{
    const struct flow_explained *account =
        explain_row(sync, arena, &flow_explain_account, PG_VALUES(pg_uuid(id)), err);
    if (!account && err->code == ERR_NOTFOUND)
        account = explain_row(sync, arena, &flow_explain_user, PG_VALUES(pg_uuid(id)), err);
    if (!account)
        return (int)err->code;
    const struct flow_explained *row = explain_row(
        sync, arena, &flow_explain, PG_VALUES(pg_uuid(account->flow.account_id), pg_uuid(id)), err);
    if (!row)
        return (int)err->code;
    const struct flow_explained *around =
        explain_row(sync, arena, &flow_explain_around,
                    PG_VALUES(pg_uuid(row->flow.owner), pg_uuid(row->flow.template_version)), err);
    if (!around)
        return (int)err->code;
    *explained = *row;
    explained->account_name = account->account_name;
    explained->node_name = around->node_name;
    explained->lease_until = around->lease_until;
    explained->nodes_alive = around->nodes_alive;
    explained->template_body = around->template_body;
    return OK;
}
