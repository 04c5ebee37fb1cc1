/*
 * Steps of an account's flows by time: by flow_step_time, of each partition that may have one. A
 * flow is older than its steps, so later partitions are left out.
 */
#include "store/flow_past.h"

#include "store/internal.h"

enum { ROWS_MAX = 200 };
#define SCAN_MAX "1000"

#define OF(name, type, ...) PG_OF(#name, type, struct flow_past, name, __VA_ARGS__)

static const char *const ending_words[] = {"failed", "completed"};
static const struct pg_words step_endings = {ending_words, ARRAY_LEN(ending_words), 0};

/* SCAN_MAX steps of the index are read at most, as by the page of a list (store/page.c): the last
 * of them is returned even where it is not wanted. Rows are limited before anything is looked up
 * for them, and in the order of the index, so that no more are read than are wanted. A step that
 * took no input and has not failed is of no call. What is looked up is NULL where retention has the
 * flow removed already. No step is read where no template calls the app or the action: its body,
 * which is canonical, has "tool":"APP_ACTION" of each call. Where there are more than 200 versions
 * of templates, one is taken to do so. A tool that left the catalog is its own app and action. */
#define MAY_CALL                                                                                   \
    "((:app_id is null and :action_id is null) or (select count(*) > 200 or bool_or((:app_id is "  \
    "null or strpos(v.body, '\"tool\":\"' || :app_id) > 0) and (:action_id is null or "            \
    "strpos(v.body, '_' || :action_id || '\"') > 0 or strpos(v.body, '\"tool\":\"' || :action_id " \
    "|| '\"') > 0)) from (select t.body::text as body from sluice.flow_template t limit 201) v))"
#define PAST_SQL(only)                                                                             \
    "select :ord, c.* from @input lateral (select s.flow_id, g.template_version, "                 \
    "g.title, s.step_index, s.attempt, s.status, s.started_at, s.finished_at, s.error, d.actor, "  \
    "(select " STORE_KEY_LABEL " from sluice.api_key k where k.account_id = :account_id and "      \
    "'key:' || k.id::text = d.actor), s.is_cut from (select r.*, r.n = " SCAN_MAX " as is_cut "    \
    "from (select y.*, row_number() over (order by y.started_at desc) as n from "                  \
    "(select x.flow_id, x.step_index, x.attempt, x.status, x.started_at, x.finished_at, "          \
    "x.error, x.input is not null or x.status = 'failed' as may_be_call from sluice.flow_step x "  \
    "where x.account_id = :account_id and "                                                        \
    "x.started_at >= :since and x.started_at < :before and x.flow_id < :flow_before and " MAY_CALL \
        only " order by x.started_at desc limit " SCAN_MAX ") y) r where (r.may_be_call and "      \
    "(:status is null or r.status = :status)) or r.n = " SCAN_MAX                                  \
    " order by r.started_at desc limit :count_max) s "                                             \
    "left join lateral (select a.actor from sluice.flow_doc a where "                              \
    "a.account_id = :account_id and a.flow_id = s.flow_id offset 0) d on true "                    \
    "left join lateral (select f.template_version, f.title from sluice.flow f where "              \
    "f.account_id = :account_id and f.id = s.flow_id offset 0) g on true "                         \
    "order by s.n) c"
static const struct pg_column past_params[] = {
    PG_ARG("account_id", PG_UUID),  PG_ARG("since", PG_TIME),    PG_ARG("before", PG_TIME),
    PG_ARG("flow_before", PG_UUID), PG_ARG("status", PG_TEXT),   PG_ARG("count_max", PG_I64),
    PG_ARG("app_id", PG_TEXT),      PG_ARG("action_id", PG_TEXT)};
static const struct pg_column past_columns[] = {
    OF(flow_id, PG_UUID),      OF(template_version, PG_UUID),
    OF(title, PG_TEXT),        OF(step_index, PG_I64),
    OF(attempt, PG_I64),       PG_WORD("status", struct flow_past, is_completed, &step_endings),
    OF(started_at, PG_TIME),   OF(finished_at, PG_TIME),
    OF(error, PG_JSON),        OF(actor, PG_TEXT),
    OF(api_key_name, PG_TEXT), OF(is_cut, PG_BOOL)};
#define PAST_STMT(stmt_name, only)                                                                 \
    {                                                                                              \
        .name = stmt_name, .sql = PAST_SQL(only), PG_PARAMS(past_params), PG_COLUMNS(past_columns) \
    }
static const struct pg_stmt flow_past_list = PAST_STMT("flow_past_list", "");
/* By flow_step_failed. */
static const struct pg_stmt flow_past_failed =
    PAST_STMT("flow_past_failed", " and x.status = 'failed'");

const struct pg_stmt *const flow_past_stmts[] = {&flow_past_list, &flow_past_failed, NULL};

void store_flow_past_list(struct pg_pool *pool, struct pg_query *query, struct op *op,
                          struct uuid account_id, const struct flow_past_range *range)
{
    enum { MARGIN_MS = 24 * 60 * 60 * 1000 }; /* clocks of nodes that differ */
    enum flow_past_outcome outcome = range->outcome;
    ASSERT(range->count_max > 0 && range->count_max <= ROWS_MAX);
    ASSERT(range->since > 0 && range->before > 0);
    store_ask(pool, query, op, outcome == FLOW_PAST_FAILED ? &flow_past_failed : &flow_past_list,
              PG_VALUES(pg_uuid(account_id), pg_time(range->since), pg_time(range->before),
                        pg_uuid(uuid_v7_floor(range->before / 1000 + MARGIN_MS)),
                        pg_text(outcome == FLOW_PAST_ALL      ? SLICE_NONE
                                : outcome == FLOW_PAST_FAILED ? SLICE("failed")
                                                              : SLICE("completed")),
                        pg_i64(range->count_max), pg_text(range->app_id),
                        pg_text(range->action_id)));
}
