/*
 * The versions of templates that flows run. A version is the hash of its body: rows are never
 * updated, and any number of processes may insert the same version. Flows refer to it without a
 * foreign key, because its check would lock this row at each start.
 */
#include "store/flow.h"
#include "store/internal.h"

#define NO_ACCOUNT "templates are the same for all accounts; a reference table where sharded"

static const struct pg_stmt template_insert = {
    .name = "flow_template_insert",
    .sql = "insert into sluice.flow_template (version, key, body, created_at) "
           "@row :version, :key, :body, :created_at @end on conflict do nothing",
    PG_TAKES(PG_ARG("version", PG_UUID), PG_ARG("key", PG_TEXT), PG_ARG("body", PG_JSON),
             PG_ARG("created_at", PG_TIME)),
    .key_count = 1,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
    .no_account = NO_ACCOUNT,
};

static const struct pg_stmt template_get = {
    .name = "flow_template_get",
    .sql = "select :ord, t.key, t.body @read(sluice.flow_template)",
    PG_TAKES(PG_ARG("version", PG_UUID)),
    PG_GIVES(PG_ARG("key", PG_TEXT), PG_ARG("body", PG_JSON)),
    .key_count = 1,
    .no_account = NO_ACCOUNT,
};

/* The statement sorts a small table once at the start, so an index on created_at is not worth its
 * cost. */
static const struct pg_stmt template_versions = {
    .name = "flow_template_versions",
    .sql = "select :ord, version from sluice.flow_template order by created_at desc limit 1000",
    PG_GIVES(PG_ARG("version", PG_UUID)),
    .no_account = NO_ACCOUNT,
};

const struct pg_stmt *const flow_template_stmts[] = {&template_insert, &template_get,
                                                     &template_versions, NULL};

int store_flow_template_versions_sync(struct pg_sync *sync, struct arena *arena,
                                      struct pg_rows *rows, struct err *err)
{
    return pg_sync_exec(sync, &template_versions, NULL, arena, rows, err);
}

int store_flow_template_insert_sync(struct pg_sync *sync, struct uuid version, slice key,
                                    slice body, int64_t now, struct err *err)
{
    return store_exec_sync(sync, &template_insert, NULL,
                           PG_VALUES(pg_uuid(version), pg_text(key), pg_json(body), pg_time(now)),
                           NULL, NULL, err);
}

void store_flow_template_insert(STORE_ARGS, struct uuid version, slice key, slice body, int64_t now)
{
    store_ask(pool, query, op, &template_insert,
              PG_VALUES(pg_uuid(version), pg_text(key), pg_json(body), pg_time(now)));
}

STORE_CALL_ONE(store_flow_template_get, template_get, struct uuid, pg_uuid)

int store_flow_template_get_result(const struct pg_query *query, slice *key, slice *body)
{
    int status = store_hit_result(query);
    if (status == OK) {
        *key = pg_get_bytes(&query->rows, 0, 0);
        *body = pg_get_bytes(&query->rows, 0, 1);
    }
    return status;
}
