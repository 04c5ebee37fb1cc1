/*
 * One flow for an operator, with its owner's lease; see flow_explain.h.
 */
#include "store/flow_explain.h"

#include "store/internal.h"

/* One search of the primary key (account_id, id) for each account, since no index is on the id
 * alone: an operator has the id from a log line, and a command may take that long. OFFSET 0 keeps
 * the search inside the loop. */
#define OF(name, type, ...) PG_OF(#name, type, struct flow_explained, name, __VA_ARGS__)
_Static_assert(offsetof(struct flow_explained, flow) == 0, "its columns are those of a flow");
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
    PG_TAKES(PG_ARG("id", PG_UUID)),
    PG_GIVES(STORE_FLOW_ROW_COLUMNS, OF(account_name, PG_TEXT), OF(node_name, PG_TEXT),
             OF(lease_until, PG_TIME), OF(nodes_alive, PG_I64), OF(now, PG_TIME),
             PG_OF("body", PG_JSON, struct flow_explained, template_body), OF(last_error, PG_JSON)),
    .no_account = "an operator knows a flow by its id",
};

const struct pg_stmt *const flow_explain_stmts[] = {&flow_explain, NULL};

int store_flow_explain_sync(struct pg_sync *sync, struct arena *arena, struct uuid id,
                            struct flow_explained *explained, struct err *err)
{
    size_t count;
    struct flow_explained *list = store_list_sync(
        sync, arena, &flow_explain, PG_VALUES(pg_uuid(id)), sizeof(*list), &count, err);
    if (!list)
        return (int)err->code;
    *explained = list[0];
    return count > 0 ? OK : err_set(err, ERR_NOTFOUND, "there is no flow of that id");
}
