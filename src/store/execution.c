/*
 * Executions: inserted once, when they have ended. Both statements with which one appears are sent
 * plainly first, without a check for a conflict; only where a commit's answer was lost is their
 * `again` form sent (pg/pg.h).
 */
#include "store/execution.h"

#include "store/internal.h"

#define EXECUTION_INSERT                                                                       \
    "insert into sluice.execution (account_id, id, integration_id, action_id, connection_id, " \
    "status, error_code, started_at, finished_at, owner, summary, api_key_id, attempts) "

#define OF(name, type, ...) PG_OF(#name, type, struct execution, name, __VA_ARGS__)

static const char *const status_words[] = {"failed", "succeeded"};
static const struct pg_words statuses = {status_words, ARRAY_LEN(status_words), 0};

/* A row but for its account. */
#define MEMBERS                                                                                \
    OF(id, PG_UUID), OF(integration_id, PG_TEXT), OF(action_id, PG_TEXT),                      \
        OF(connection_id, PG_I64, .has_null = true),                                           \
        PG_WORD("status", struct execution, is_succeeded, &statuses), OF(error_code, PG_TEXT), \
        OF(started_at, PG_TIME), OF(finished_at, PG_TIME), OF(owner, PG_UUID),                 \
        OF(summary, PG_TEXT), OF(api_key_id, PG_UUID, .has_null = true),                       \
        OF(attempts, PG_I64, .has_null = true)
static const struct pg_column insert_params[] = {OF(account_id, PG_UUID), MEMBERS};
/* `rest` is what the second sending adds. The id is a UUIDv7 of this run: a row that is there
 * already is the first sending's, so "do nothing" is right, and the usual case does not pay for the
 * check. */
#define INSERT_STMT(stmt_name, rest, ...)                                                       \
    {                                                                                           \
        .name = stmt_name,                                                                      \
        .sql = EXECUTION_INSERT                                                                 \
            "@row :account_id, :id, :integration_id, :action_id, :connection_id, :status, "     \
            ":error_code, :started_at, :finished_at, :owner, :summary, :api_key_id, :attempts " \
            "@end" rest,                                                                        \
        PG_PARAMS(insert_params), .key_count = 2, .match = PG_MATCH_NONE, .access = PG_WRITE,   \
        __VA_ARGS__                                                                             \
    }
static const struct pg_stmt execution_insert_again =
    INSERT_STMT("execution_insert_again", " on conflict do nothing", );
static const struct pg_stmt execution_insert =
    INSERT_STMT("execution_insert", "", .again = &execution_insert_again);

static const struct pg_column finish_params[] = {OF(account_id, PG_UUID), PG_ARG("key", PG_TEXT),
                                                 MEMBERS};

/* The claim is the fence: only where it is still ours (execution_id and owner match) does the
 * execution appear. Where the lease ran out and another node ended the run, `moved` is empty,
 * nothing is inserted, and the caller gets ERR_NOTFOUND. At a second sending the claim may be gone
 * already; then an execution with this id, owner and time is what the first sending stored. `:ord
 * in (...)` is a hashed subplan, so a set is not matched pair by pair. */
#define FINISH_STORE                                                                             \
    "and t.execution_id = :id and t.owner = :owner "                                             \
    "returning :ord as ord, :account_id as account_id, :id as id, "                              \
    ":integration_id as integration_id, :action_id as action_id, "                               \
    ":connection_id as connection_id, :status as status, :error_code as error_code, "            \
    ":started_at as started_at, :finished_at as finished_at, :owner as owner, "                  \
    ":summary as summary, :api_key_id as api_key_id, :attempts as attempts), "                   \
    "stored as (" EXECUTION_INSERT "select m.account_id, m.id, m.integration_id, m.action_id, "  \
    "m.connection_id, m.status, m.error_code, m.started_at, m.finished_at, m.owner, m.summary, " \
    "m.api_key_id, m.attempts from moved m"
#define FINISH_ONCE ") select m.ord from moved m"
#define FINISH_AGAIN                                                                        \
    " on conflict do nothing) select :ord @from where :ord in (select m.ord from moved m) " \
    "or (select e.owner = :owner and e.finished_at = :finished_at from sluice.execution e " \
    "where e.account_id = :account_id and e.id = :id)"
/* Bound rows have no owner (a CHECK), which takes them out of the index idempotency_key_owner. The
 * key's life began with the claim and may be over by now; those that wait for its run load it again
 * within a second (exec/claim.c), and must find it. */
#define FINISH_KEEP                                                       \
    "update sluice.idempotency_key t set state = 'bound', owner = null, " \
    "expires_at = greatest(t.expires_at, now() + interval '5 seconds') "  \
    "@update(sluice.idempotency_key) "
#define FINISH_RELEASE "delete from sluice.idempotency_key t @delete(sluice.idempotency_key) "

#define FINISH_STMT(stmt_name, claim, answer, ...)                                                \
    {                                                                                             \
        .name = stmt_name, .is_result = true, .sql = "with moved as (" claim FINISH_STORE answer, \
        PG_PARAMS(finish_params), .key_count = 2, .access = PG_WRITE, __VA_ARGS__                 \
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

static const struct pg_column get_params[] = {PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID)};
#define ROW_SUMMARY STORE_SUMMARY_INLINE("t")
#define ASKED_BY(row)                                                                              \
    row ".api_key_id, (select " STORE_KEY_LABEL " from sluice.api_key k where k.account_id = " row \
        ".account_id and k.id = " row ".api_key_id) as api_key_name, " row ".attempts"
#define ASKED_BY_COLUMNS OF(api_key_id, PG_UUID), OF(api_key_name, PG_TEXT), OF(attempts, PG_I64)
/* A small summary comes with the row; of a large one only the size, which a text that is stored out
 * of line has in its pointer. The caller then asks execution_get_summary, on the lane of large
 * reads. */
static const struct pg_stmt execution_get = {
    .name = "execution_get",
    .sql = "select :ord, t.account_id, t.id, t.integration_id, t.action_id, t.connection_id, "
           "t.status, t.error_code, t.started_at, t.finished_at, t.owner, " ROW_SUMMARY ", "
           "octet_length(t.summary)::bigint, " ASKED_BY("t") " @read(sluice.execution)",
    PG_PARAMS(get_params),
    PG_GIVES(OF(account_id, PG_UUID), OF(id, PG_UUID), OF(integration_id, PG_TEXT),
             OF(action_id, PG_TEXT), OF(connection_id, PG_I64),
             PG_WORD("status", struct execution, is_succeeded, &statuses), OF(error_code, PG_TEXT),
             OF(started_at, PG_TIME), OF(finished_at, PG_TIME), OF(owner, PG_UUID),
             OF(summary, PG_TEXT), OF(summary_bytes, PG_I64), ASKED_BY_COLUMNS),
    .key_count = 2,
};

static const struct pg_stmt execution_get_summary = {
    .name = "execution_get_summary",
    .sql = "select :ord, t.summary @read(sluice.execution)",
    PG_PARAMS(get_params),
    PG_GIVES(PG_ARG("summary", PG_TEXT)),
    .key_count = 2,
    .is_large = true,
};

/* A page of the key's index, newest first (STORE_PAGE_SQL). Of a failed run the summary is always
 * read: its error is part of a list's entry, and it has no output. Those that failed are listed by
 * execution_failed; the other filters are not in an index: a page reads 1000 rows at most and says
 * where it stopped. */
#define LISTED_SUMMARY                                                        \
    "case when octet_length(e.summary) <= case e.status when 'failed' "       \
    "then " STORE_TEXT_OF(STORE_SUMMARY_INLINE_BYTES) " else " STORE_TEXT_OF( \
        STORE_SUMMARY_LISTED_BYTES) " end then e.summary end"
#define READ_ROW                                                                     \
    "x.account_id, x.id, x.integration_id, x.action_id, x.connection_id, x.status, " \
    "x.error_code, x.started_at, x.finished_at, case when x.status = 'failed' or "   \
    ":with_summary then x.summary end as summary, x.api_key_id, x.attempts"
/* A code, as the interface says it, stands in the summary alone; a row may have it elsewhere. */
/* clang-format off */
#define IS_OF_CODE "strpos(e.summary, '\"error_code\":\"' || :error_code || '\"') > 0"
#define LIST_SQL(only)                                                                        \
    STORE_PAGE_OF_SQL("sluice.execution", READ_ROW, only,                                     \
                      "e.id, e.integration_id, e.action_id, e.connection_id, e.status, "      \
                      "e.error_code, e.started_at, e.finished_at, " LISTED_SUMMARY            \
                      " as summary, " ASKED_BY("e"),                                          \
                      "(:integration_id is null or e.integration_id = :integration_id) and "  \
                      "(:action_id is null or e.action_id = :action_id) and "                 \
                      "(:status is null or e.status = :status) and "                          \
                      "(:api_key_id is null or e.api_key_id = :api_key_id) and "              \
                      "(:error_code is null or " IS_OF_CODE ")")
/* clang-format on */
static const struct pg_column list_params[] = {STORE_PAGE_PARAMS,
                                               PG_ARG("integration_id", PG_TEXT),
                                               PG_ARG("action_id", PG_TEXT),
                                               PG_ARG("status", PG_TEXT),
                                               PG_ARG("api_key_id", PG_UUID),
                                               PG_ARG("error_code", PG_TEXT),
                                               PG_ARG("with_summary", PG_BOOL)};
static const struct pg_column list_columns[] = {
    OF(id, PG_UUID),
    OF(integration_id, PG_TEXT),
    OF(action_id, PG_TEXT),
    OF(connection_id, PG_I64),
    PG_WORD("status", struct execution, is_succeeded, &statuses),
    OF(error_code, PG_TEXT),
    OF(started_at, PG_TIME),
    OF(finished_at, PG_TIME),
    OF(summary, PG_TEXT),
    ASKED_BY_COLUMNS,
    STORE_PAGE_COLUMNS};
#define LIST_STMT(stmt_name, only)                                                                 \
    {                                                                                              \
        .name = stmt_name, .sql = LIST_SQL(only), PG_PARAMS(list_params), PG_COLUMNS(list_columns) \
    }
static const struct pg_stmt execution_list = LIST_STMT("execution_list", "");
static const struct pg_stmt execution_list_failed =
    LIST_STMT("execution_list_failed", " and x.status = 'failed'");

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
    &execution_list_failed,
    NULL,
};

void store_execution_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            const struct execution *execution)
{
    ASSERT(execution->is_succeeded == !execution->error_code.ptr);
    store_ask_of(pool, query, op, &execution_insert, execution, PG_NO_VALUES);
}

void store_execution_finish(struct pg_pool *pool, struct pg_query *query, struct op *op,
                            const struct execution *execution, slice key, enum claim_end end)
{
    ASSERT(execution->is_succeeded == !execution->error_code.ptr);
    ASSERT(key.ptr || end == CLAIM_RELEASE);
    store_ask_of(pool, query, op,
                 end == CLAIM_KEEP ? &execution_finish_keep : &execution_finish_release, execution,
                 PG_VALUES(store_claim_key(query, key, execution->id)));
}

STORE_CALL_ID(store_execution_get, execution_get, struct uuid, pg_uuid)

STORE_CALL_ID(store_execution_get_summary, execution_get_summary, struct uuid, pg_uuid)

void store_execution_list(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          struct uuid account_id, const struct store_page *page,
                          const struct execution_filter *filter)
{
    ASSERT(!filter->error_code.ptr || filter->status.ptr);
    bool is_of_key = !uuid_is_nil(filter->api_key_id);
    bool is_of_failed = slice_eq_cstr(filter->status, status_words[0]);
    store_ask_of(pool, query, op, is_of_failed ? &execution_list_failed : &execution_list, page,
                 PG_VALUES(pg_uuid(account_id), pg_text(filter->integration_id),
                           pg_text(filter->action_id), pg_text(filter->status),
                           is_of_key ? pg_uuid(filter->api_key_id) : pg_null(PG_UUID),
                           pg_text(filter->error_code), pg_bool(filter->with_summary)));
}

int store_execution_list_result(const struct pg_query *query, struct execution **list,
                                size_t *count, struct uuid *next)
{
    int status;
    *list = store_page_result(query, sizeof(**list), count, next, &status);
    for (size_t i = 0; status == OK && i < *count; i++)
        (*list)[i].account_id = query->params[0].as.uuid;
    return status;
}
