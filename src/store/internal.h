/*
 * For the files of this room: statement tables and small helpers.
 */
#ifndef STORE_INTERNAL_H
#define STORE_INTERNAL_H

#include "store/execution.h"
#include "store/store.h"

/* Each noun's statements, ended by NULL. */
extern const struct pg_stmt *const account_stmts[];
extern const struct pg_stmt *const api_key_stmts[];
extern const struct pg_stmt *const audit_stmts[];
extern const struct pg_stmt *const connect_session_stmts[];
extern const struct pg_stmt *const connection_stmts[];
extern const struct pg_stmt *const execution_stmts[];
extern const struct pg_stmt *const flow_explain_stmts[];
extern const struct pg_stmt *const flow_item_stmts[];
extern const struct pg_stmt *const flow_read_stmts[];
extern const struct pg_stmt *const flow_retention_stmts[];
extern const struct pg_stmt *const flow_stmts[];
extern const struct pg_stmt *const flow_take_stmts[];
extern const struct pg_stmt *const flow_template_stmts[];
extern const struct pg_stmt *const idempotency_stmts[];
extern const struct pg_stmt *const kept_stmts[];
extern const struct pg_stmt *const node_stmts[];
extern const struct pg_stmt *const oauth_stmts[];
extern const struct pg_stmt *const retention_stmts[];

/* An execution's summary where it is small. The size of a text that lies out of line is known
 * without reading it. */
#define STORE_TEXT_OF(number)  STORE_TEXT_OF_(number)
#define STORE_TEXT_OF_(number) #number
#define STORE_SUMMARY_INLINE(row)                                                      \
    "case when octet_length(" row                                                      \
    ".summary) <= " STORE_TEXT_OF(STORE_SUMMARY_INLINE_BYTES) " then " row ".summary " \
                                                              "end"

/* 0 counts as absent. */
static inline struct pg_value pg_i64_or_null(int64_t value)
{
    return value ? pg_i64(value) : pg_null(PG_I64);
}

/* An empty slice that is not NULL. */
static inline struct pg_value pg_text_or_empty(slice value)
{
    return pg_text(value.ptr ? value : SLICE(""));
}

static inline void store_submit(struct pg_pool *pool, struct pg_query *query, struct op *op,
                                const struct pg_stmt *stmt)
{
    query->stmt = stmt;
    pg_submit(pool, query, op);
}

/*
 * A page of a list by id (store.h). `columns` and `match`, the filter, are of row e; the first
 * column is the id. Two columns follow: is_match, false for a row that only says how far the page
 * has read, and is_cut, true of that row: there it stopped. The parameters begin with
 * STORE_PAGE_PARAMS.
 */
#define STORE_PAGE_PARAMS                                             \
    {"account_id", PG_UUID}, {"since", PG_UUID}, {"before", PG_UUID}, \
    {                                                                 \
        "count_max", PG_I64                                           \
    }
#define STORE_PAGE_COLUMNS \
    {"is_match", PG_BOOL}, \
    {                      \
        "is_cut", PG_BOOL  \
    }
#define STORE_PAGE_SQL(table, columns, match)                                                     \
    "select :ord, t.* from @input lateral (select p.* from (select " columns ", (" match ") "     \
    "as is_match, e.n = 1000 as is_cut from (select r.*, row_number() over (order by r.id desc) " \
    "as n from (select x.* from " table " x where x.account_id = :account_id "                    \
    "and x.id < :before and x.id >= :since order by x.id desc limit 1000) r) e) p "               \
    "where p.is_match or p.is_cut order by p.id desc limit :count_max) t"
void store_page_params(struct pg_query *query, struct uuid account_id,
                       const struct store_page *page);
/* How many of the rows match, and where the next page goes on (before that id): nil where this one
 * has read its whole range. */
size_t store_page_end(const struct pg_query *query, struct uuid *next);

/* A flow's whole row, as table alias t, in the order of store_flow_columns (store/flow.c). */
#define STORE_FLOW_ROW                                                                   \
    "t.account_id, t.id, t.template_key, t.template_version, t.trigger_type, t.status, " \
    "t.rev, t.owner, t.step_index, t.attempt, t.is_begun, t.adoptions, t.waiting_for, "  \
    "t.wake_at, t.deadline, t.created_at, t.updated_at, t.completed_at"
#define STORE_FLOW_ROW_COLUMNS                                                                     \
    {"account_id", PG_UUID}, {"id", PG_UUID}, {"template_key", PG_TEXT}, {"version", PG_UUID},     \
        {"trigger", PG_TEXT}, {"status", PG_TEXT}, {"rev", PG_I64}, {"owner", PG_UUID},            \
        {"step_index", PG_I64}, {"attempt", PG_I64}, {"is_begun", PG_BOOL}, {"adoptions", PG_I64}, \
        {"waiting_for", PG_TEXT}, {"wake_at", PG_TIME}, {"deadline", PG_TIME},                     \
        {"created_at", PG_TIME}, {"updated_at", PG_TIME},                                          \
    {                                                                                              \
        "completed_at", PG_TIME                                                                    \
    }
enum { STORE_FLOW_COLUMNS = 18 };
struct flow;
extern const struct pg_column store_flow_columns[STORE_FLOW_COLUMNS];
/* From the columns of a row that begin at `col`. Slices lie in the query's arena. */
void store_flow_read(const struct pg_rows *rows, size_t row, size_t col, struct flow *flow);

/* A sync statement that must hit a row: ERR_NOTFOUND with `what` else. */
int store_exec_one_sync(struct pg_sync *sync, const struct pg_stmt *stmt,
                        const struct pg_value *params, const char *what,
                        struct err *err) MUST_CHECK;

/* The key parameter of a claim: the client's, or one made of the execution's id, which begins with
 * U+0001 and so meets no client's; its text is kept in the query. */
struct pg_value store_claim_key(struct pg_query *query, slice key, struct uuid execution_id);

#endif
