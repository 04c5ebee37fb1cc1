/*
 * Executions: inserted once, when they have ended. Both statements with which one appears are sent
 * plainly first, without a check for a conflict; only where a commit's answer was lost is their
 * `again` form sent (pg/pg.h).
 */
#include "store/execution.h"

#include "store/internal.h"

#define EXECUTION_INSERT                                                                       \
    "insert into sluice.execution (account_id, id, integration_id, action_id, connection_id, " \
    "status, error_code, started_at, finished_at, owner, summary) "

static const struct pg_column insert_params[] = {
    {"account_id", PG_UUID}, {"id", PG_UUID},           {"integration_id", PG_TEXT},
    {"action_id", PG_TEXT},  {"connection_id", PG_I64}, {"status", PG_TEXT},
    {"error_code", PG_TEXT}, {"started_at", PG_TIME},   {"finished_at", PG_TIME},
    {"owner", PG_UUID},      {"summary", PG_TEXT},
};
/* `rest` is what the second sending adds. The id is a UUIDv7 of this run: a row that is there
 * already is the first sending's, so "do nothing" is right, and the usual case does not pay for the
 * check. */
#define INSERT_STMT(stmt_name, rest, ...)                                                   \
    {                                                                                       \
        .name = stmt_name,                                                                  \
        .sql = EXECUTION_INSERT                                                             \
            "@row :account_id, :id, :integration_id, :action_id, :connection_id, :status, " \
            ":error_code, :started_at, :finished_at, :owner, :summary @end" rest,           \
        PG_PARAMS(insert_params), .key_count = 2, .match = PG_MATCH_NONE, .is_write = true, \
        .is_replayable = true, __VA_ARGS__                                                  \
    }
static const struct pg_stmt execution_insert_again =
    INSERT_STMT("execution_insert_again", " on conflict do nothing", );
static const struct pg_stmt execution_insert =
    INSERT_STMT("execution_insert", "", .again = &execution_insert_again);

static const struct pg_column finish_params[] = {
    {"account_id", PG_UUID},     {"key", PG_TEXT},        {"id", PG_UUID},
    {"integration_id", PG_TEXT}, {"action_id", PG_TEXT},  {"connection_id", PG_I64},
    {"status", PG_TEXT},         {"error_code", PG_TEXT}, {"started_at", PG_TIME},
    {"finished_at", PG_TIME},    {"owner", PG_UUID},      {"summary", PG_TEXT},
};

/* The claim is the fence: only where it is still ours (execution_id and owner match) does the
 * execution appear. Where the lease ran out and another node ended the run, `moved` is empty,
 * nothing is inserted, and the caller gets ERR_NOTFOUND. At a second sending the claim may be gone
 * already; then an execution with this id, owner and time is what the first sending stored. `:ord
 * in (...)` is a hashed subplan, so a set is not matched pair by pair. */
#define FINISH_STORE                                                                            \
    "and t.execution_id = :id and t.owner = :owner "                                            \
    "returning :ord as ord, :account_id as account_id, :id as id, "                             \
    ":integration_id as integration_id, :action_id as action_id, "                              \
    ":connection_id as connection_id, :status as status, :error_code as error_code, "           \
    ":started_at as started_at, :finished_at as finished_at, :owner as owner, "                 \
    ":summary as summary), "                                                                    \
    "stored as (" EXECUTION_INSERT "select m.account_id, m.id, m.integration_id, m.action_id, " \
    "m.connection_id, m.status, m.error_code, m.started_at, m.finished_at, m.owner, m.summary " \
    "from moved m"
#define FINISH_ONCE ") select m.ord from moved m"
#define FINISH_AGAIN                                                                        \
    " on conflict do nothing) select :ord @from where :ord in (select m.ord from moved m) " \
    "or (select e.owner = :owner and e.finished_at = :finished_at from sluice.execution e " \
    "where e.account_id = :account_id and e.id = :id)"
/* Bound rows have no owner (a CHECK), which takes them out of the index idempotency_key_owner. */
#define FINISH_KEEP                                                      \
    "update sluice.idempotency_key t set state = 'bound', owner = null " \
    "@update(sluice.idempotency_key) "
#define FINISH_RELEASE "delete from sluice.idempotency_key t @delete(sluice.idempotency_key) "

#define FINISH_STMT(stmt_name, claim, answer, ...)                                         \
    {                                                                                      \
        .name = stmt_name, .sql = "with moved as (" claim FINISH_STORE answer,             \
        PG_PARAMS(finish_params), .key_count = 2, .is_write = true, .is_replayable = true, \
        __VA_ARGS__                                                                        \
    }
static const struct pg_stmt execution_finish_keep_again =
    FINISH_STMT("execution_finish_keep_again", FINISH_KEEP, FINISH_AGAIN, );
static const struct pg_stmt execution_finish_keep = FINISH_STMT(
    "execution_finish_keep", FINISH_KEEP, FINISH_ONCE, .again = &execution_finish_keep_again);
static const struct pg_stmt execution_finish_release_again =
    FINISH_STMT("execution_finish_release_again", FINISH_RELEASE, FINISH_AGAIN, );
static const struct pg_stmt execution_finish_release =
    FINISH_STMT("execution_finish_release", FINISH_RELEASE, FINISH_ONCE,
                .again = &execution_finish_release_again);

static const struct pg_column get_columns[] = {
    {"account_id", PG_UUID}, {"id", PG_UUID},           {"integration_id", PG_TEXT},
    {"action_id", PG_TEXT},  {"connection_id", PG_I64}, {"status", PG_TEXT},
    {"error_code", PG_TEXT}, {"started_at", PG_TIME},   {"finished_at", PG_TIME},
    {"owner", PG_UUID},      {"summary", PG_TEXT},      {"summary_bytes", PG_I64},
};
static const struct pg_column get_params[] = {{"account_id", PG_UUID}, {"id", PG_UUID}};
#define ROW_SUMMARY STORE_SUMMARY_INLINE("t")
/* A small summary comes with the row; of a large one only the size, which a text that is stored out
 * of line has in its pointer. The caller then asks execution_get_summary, on the lane of large
 * reads. */
static const struct pg_stmt execution_get = {
    .name = "execution_get",
    .sql = "select :ord, t.account_id, t.id, t.integration_id, t.action_id, t.connection_id, "
           "t.status, t.error_code, t.started_at, t.finished_at, t.owner, " ROW_SUMMARY ", "
           "octet_length(t.summary)::bigint @read(sluice.execution)",
    PG_PARAMS(get_params),
    PG_COLUMNS(get_columns),
    .key_count = 2,
};

static const struct pg_column summary_columns[] = {{"summary", PG_TEXT}};
static const struct pg_stmt execution_get_summary = {
    .name = "execution_get_summary",
    .sql = "select :ord, t.summary @read(sluice.execution)",
    PG_PARAMS(get_params),
    PG_COLUMNS(summary_columns),
    .key_count = 2,
    .is_large = true,
};

/* A page of the key's index, newest first (STORE_PAGE_SQL). Only of a failed run is the summary
 * read: its error is part of a list's entry, and it has no output. The filters are not in an index:
 * a page reads 1000 rows at most and says where it stopped. */
static const struct pg_column list_params[] = {
    STORE_PAGE_PARAMS, {"integration_id", PG_TEXT}, {"status", PG_TEXT}};
static const struct pg_column list_columns[] = {
    {"id", PG_UUID},           {"integration_id", PG_TEXT}, {"action_id", PG_TEXT},
    {"connection_id", PG_I64}, {"status", PG_TEXT},         {"error_code", PG_TEXT},
    {"started_at", PG_TIME},   {"finished_at", PG_TIME},    {"summary", PG_TEXT},
    STORE_PAGE_COLUMNS};
#define LISTED_SUMMARY STORE_SUMMARY_INLINE("e")
static const struct pg_stmt execution_list = {
    .name = "execution_list",
    .sql = STORE_PAGE_SQL("sluice.execution",
                          "e.id, e.integration_id, e.action_id, e.connection_id, e.status, "
                          "e.error_code, e.started_at, e.finished_at, "
                          "case when e.status = 'failed' then " LISTED_SUMMARY " end as summary",
                          "(:integration_id is null or e.integration_id = :integration_id) and "
                          "(:status is null or e.status = :status)"),
    PG_PARAMS(list_params),
    PG_COLUMNS(list_columns),
};

const struct pg_stmt *const execution_stmts[] = {
    &execution_insert,
    &execution_insert_again,
    &execution_finish_keep,
    &execution_finish_keep_again,
    &execution_finish_release,
    &execution_finish_release_again,
    &execution_get,
    &execution_get_summary,
    &execution_list,
    NULL,
};

/* From integration_id on both statements have the same parameters. */
static void fill_from_integration(struct pg_value *params, const struct execution *execution)
{
    ASSERT(execution->is_succeeded == !execution->error_code.ptr);
    params[0] = pg_text(execution->integration_id);
    params[1] = pg_text(execution->action_id);
    params[2] = pg_i64_or_null(execution->connection_id);
    params[3] = pg_text(execution->is_succeeded ? SLICE("succeeded") : SLICE("failed"));
    params[4] = pg_text(execution->error_code);
    params[5] = pg_time(execution->started_at);
    params[6] = pg_time(execution->finished_at);
    params[7] = pg_uuid(execution->owner);
    params[8] = pg_text(execution->summary);
}

void store_execution_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            const struct execution *execution)
{
    query->params[0] = pg_uuid(execution->account_id);
    query->params[1] = pg_uuid(execution->id);
    fill_from_integration(&query->params[2], execution);
    store_submit(pool, query, op, &execution_insert);
}

void store_execution_finish(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            const struct execution *execution, slice key, enum claim_end end)
{
    ASSERT(key.ptr || end == CLAIM_RELEASE);
    query->params[0] = pg_uuid(execution->account_id);
    query->params[1] = store_claim_key(query, key, execution->id);
    query->params[2] = pg_uuid(execution->id);
    fill_from_integration(&query->params[3], execution);
    store_submit(pool, query, op,
                 end == CLAIM_KEEP ? &execution_finish_keep : &execution_finish_release);
}

int store_execution_finish_result(const struct pg_query *query)
{
    if (query->status != OK)
        return query->status;
    return query->rows.count ? OK : ERR_NOTFOUND;
}

void store_execution_get(struct pg_pool *pool, struct pg_query *query, struct op *op,
                         struct uuid account_id, struct uuid id)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_uuid(id);
    store_submit(pool, query, op, &execution_get);
}

int store_execution_get_result(const struct pg_query *query, struct execution *execution)
{
    const struct pg_rows *rows = &query->rows;
    if (query->status != OK)
        return query->status;
    if (rows->count == 0)
        return ERR_NOTFOUND;
    *execution = (struct execution){
        .account_id = pg_get_uuid(rows, 0, 0),
        .id = pg_get_uuid(rows, 0, 1),
        .integration_id = pg_get_bytes(rows, 0, 2),
        .action_id = pg_get_bytes(rows, 0, 3),
        .connection_id = pg_get_i64(rows, 0, 4),
        .is_succeeded = slice_eq(pg_get_bytes(rows, 0, 5), SLICE("succeeded")),
        .error_code = pg_get_bytes(rows, 0, 6),
        .started_at = pg_get_time(rows, 0, 7),
        .finished_at = pg_get_time(rows, 0, 8),
        .owner = pg_get_uuid(rows, 0, 9),
        .summary = pg_get_bytes(rows, 0, 10),
        .summary_bytes = (size_t)pg_get_i64(rows, 0, 11),
    };
    return OK;
}

void store_execution_get_summary(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                 struct uuid account_id, struct uuid id)
{
    query->params[0] = pg_uuid(account_id);
    query->params[1] = pg_uuid(id);
    store_submit(pool, query, op, &execution_get_summary);
}

int store_execution_get_summary_result(const struct pg_query *query, slice *summary)
{
    if (query->status != OK)
        return query->status;
    if (query->rows.count == 0)
        return ERR_NOTFOUND;
    *summary = pg_get_bytes(&query->rows, 0, 0);
    return OK;
}

void store_execution_list(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          struct uuid account_id, const struct store_page *page,
                          const struct execution_filter *filter)
{
    store_page_params(query, account_id, page);
    query->params[4] = pg_text(filter->integration_id);
    query->params[5] = pg_text(filter->status);
    store_submit(pool, query, op, &execution_list);
}

int store_execution_list_result(const struct pg_query *query, struct execution **list,
                                size_t *count, struct uuid *next)
{
    const struct pg_rows *rows = &query->rows;
    if (query->status != OK)
        return query->status;
    *count = store_page_end(query, next);
    *list = ARENA_ARRAY(&query->op->arena, struct execution, *count + 1);
    if (!*list)
        return ERR_NOMEM;
    for (size_t i = 0; i < *count; i++)
        (*list)[i] = (struct execution){
            .account_id = query->params[0].as.uuid,
            .id = pg_get_uuid(rows, i, 0),
            .integration_id = pg_get_bytes(rows, i, 1),
            .action_id = pg_get_bytes(rows, i, 2),
            .connection_id = pg_get_i64(rows, i, 3),
            .is_succeeded = slice_eq(pg_get_bytes(rows, i, 4), SLICE("succeeded")),
            .error_code = pg_get_bytes(rows, i, 5),
            .started_at = pg_get_time(rows, i, 6),
            .finished_at = pg_get_time(rows, i, 7),
            .summary = pg_get_bytes(rows, i, 8),
        };
    return OK;
}
