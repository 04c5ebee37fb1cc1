/*
 * The inbox: flows that wait for a person's decision, with their data for a list. The newest
 * FLOW_INBOX_MAX are read through flow_approval, whose condition on template_key is repeated here
 * (store/flow_read.c); a flow that waits forever comes after those that expire.
 */
#include "store/flow_inbox.h"
#include "store/internal.h"

#define INBOX_LIMIT 100
#define USES_LIMIT  20 /* a list names one place, and the first connections */
_Static_assert(INBOX_LIMIT == FLOW_INBOX_MAX, "as callers know it");

#define NEWEST                                                                                  \
    "(select w.* from sluice.flow w where w.account_id = :account_id and w.template_key <> '' " \
    "and w.waiting_for = 'approval' and (:template_key is null or w.template_key = "            \
    ":template_key) order by w.id desc limit " STORE_TEXT_OF(INBOX_LIMIT) ") n "

/* Whether the flow's version of its template is one of those that count. */
#define IS_GIVEN "(:given is null or position(concat(' ', n.template_version, ' ') in :given) > 0)"

#define OF(name, type)      PG_OF(#name, type, struct flow_inbox_row, name)
#define PART_OF(name, type) PG_OF(#name, type, struct flow_inbox_filter, name)
/* The requester is read only for the filter. Documents are read only for the requested part. Of a
 * large document only the members that a list shows are sent, and it is parsed once, whereas each
 * -> would parse the whole document. Each tool appears once, separated by spaces, and so does each
 * combination of a tool, a connection and a place. PostgreSQL has no
 * U+0000 in a text and refuses to extract a member from a document that contains one, for example
 * in a mail's subject. So the character is replaced first, as on the pages. */
#define IS_SMALL \
    "(octet_length(x.waiting_input::text) <= " STORE_TEXT_OF(STORE_SUMMARY_INLINE_BYTES) ")"
#define PART                                                                                     \
    "(select n.* from " NEWEST "where " IS_GIVEN                                                 \
    " and (:actor is null or (select o.actor from sluice.flow_doc o "                            \
    "where o.account_id = :account_id and o.flow_id = n.id) = :actor) order by n.wake_at nulls " \
    "last, n.id limit :count_max offset :skip) f"
static const struct pg_stmt flow_inbox = {
    .name = "flow_inbox",
    .sql = "select :ord, c.* from @input lateral (select f.id, f.template_key, f.updated_at, "
           "f.wake_at, d.actor, " STORE_ACTOR_NAME
           " as asker, d.document, r.title, r.summary, r.domains, t.calls, "
           "t.tools, t.uses from " PART ", lateral (select x.actor, case when " IS_SMALL
           " then x.waiting_input::text end as document, case when not " IS_SMALL
           " then replace(x.waiting_input::text, '\\u0000', '\\ufffd')::json end as large from "
           "sluice.flow_doc x where x.account_id = :account_id and x.flow_id = f.id offset 0) d, "
           "lateral json_to_record(d.large) r (title text, summary text, items json, domains "
           "text), lateral "
           "(with i as materialized (select * from json_to_recordset(r.items) i (tool text, "
           "connection jsonb, target jsonb)) select (select count(*) from i) as calls, (select "
           "string_agg(distinct i.tool, ' ') from i) as tools, (select json_agg(u.use)::text from "
           "(select distinct to_jsonb(i) as use from i order by 1 limit " STORE_TEXT_OF(
               USES_LIMIT) ") u) as uses) t "
                           "order by f.wake_at nulls last, f.id) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PART_OF(template_key, PG_TEXT), PART_OF(actor, PG_TEXT),
             PART_OF(skip, PG_I64), PART_OF(count_max, PG_I64), PART_OF(payer_id, PG_UUID),
             PART_OF(given, PG_TEXT)),
    PG_GIVES(OF(id, PG_UUID), OF(template_key, PG_TEXT), OF(updated_at, PG_TIME),
             OF(wake_at, PG_TIME), OF(actor, PG_TEXT), OF(asker, PG_TEXT), OF(document, PG_TEXT),
             OF(title, PG_TEXT), OF(summary, PG_TEXT), OF(domains, PG_TEXT), OF(calls, PG_I64),
             OF(tools, PG_TEXT), OF(uses, PG_TEXT)),
};

#undef OF
#define OF(name, type) PG_OF(#name, type, struct flow_near, name)
/* Rows before the flow's own position come last, so the first row is the next decision and the last
 * row the previous one. Titles are read for these two. */
#define POSITION "coalesce(n.wake_at, 'infinity'), n.id"
#define NEAR                                                                                      \
    "(select n.id, n.template_key, row_number() over (order by (" POSITION                        \
    ") < (own.at, :id), " POSITION ") as place, count(*) over () as others from " NEWEST          \
    ", (select case when "                                                                        \
    "w.waiting_for = 'approval' then coalesce(w.wake_at, 'infinity') else '-infinity' end as at " \
    "from sluice.flow w where w.account_id = :account_id and w.id = :id) own where n.id <> :id "  \
    "and " IS_GIVEN ") f"
static const struct pg_stmt flow_near = {
    .name = "flow_near",
    .sql = "select :ord, c.* from @input lateral (select f.id, f.template_key, (select "
           "replace(x.waiting_input::text, '\\u0000', '\\ufffd')::json->>'title' from "
           "sluice.flow_doc x where x.account_id = :account_id and x.flow_id = f.id) as title, "
           "f.others from " NEAR " where f.place in (1, f.others) order by f.place) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID), PG_ARG("template_key", PG_TEXT),
             PG_ARG("given", PG_TEXT)),
    PG_GIVES(OF(id, PG_UUID), OF(template_key, PG_TEXT), OF(title, PG_TEXT), OF(others, PG_I64)),
};

#undef OF
#define OF(name, type) PG_OF(#name, type, struct flow_version_count, name)
static const struct pg_stmt flow_waiting_versions = {
    .name = "flow_waiting_versions",
    .sql = "select :ord, c.* from @input lateral (select n.template_version, count(*) from " NEWEST
           "group by 1) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("template_key", PG_TEXT)),
    PG_GIVES(OF(version, PG_UUID), OF(count, PG_I64)),
};

#undef OF
#define OF(name, type) PG_OF(#name, type, struct flow_asker, name)
static const struct pg_stmt flow_askers = {
    .name = "flow_askers",
    .sql = "select :ord, c.* from @input lateral (select d.actor, " STORE_ACTOR_NAME
           " as name from "
           "(select distinct x.actor from " NEWEST ", lateral (select o.actor from "
           "sluice.flow_doc o where o.account_id = :account_id and o.flow_id = n.id offset 0) x "
           "where " IS_GIVEN ") d order by 2, 1) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("template_key", PG_TEXT),
             PG_ARG("given", PG_TEXT), PG_ARG("payer_id", PG_UUID)),
    PG_GIVES(OF(actor, PG_TEXT), OF(name, PG_TEXT)),
};

/* Counts the flows in one status, up to a limit, through flow_status (store/flow_read.c). Two
 * states are parameters: with a constant the planner would choose their partial indexes, which
 * do not have the account. */
#define COUNT_LIMIT 1000
#define COUNTED(columns, condition)                                                            \
    "(select " columns " from sluice.flow t where t.account_id = :account_id and t.status <> " \
    "'' and " condition " limit " STORE_TEXT_OF(COUNT_LIMIT) ") "
#define COUNT_OF(name, condition) \
    "(select count(*) from " COUNTED("1", condition) "n) as " name ", "
#define IS_RUNNING   "t.status = :is_running"
#define IS_WAITING   "t.status = :is_waiting"
#define IS_COMPLETED "t.status = 'completed' and t.id >= :since"
#define IS_FAILED    "t.status = 'failed' and t.id >= :since"
/* Reads one day of executions; older counts are in the tallies, which have no partitions to open.
 * An EXISTS would become a hashed subplan over all accounts. */
#define HAS_ROW(from) "(select count(*) > 0 from (select " from " limit 1) e)"
#define HAS_EXECUTION                                                                      \
    HAS_ROW("from sluice.execution x where x.account_id = :account_id and x.id >= :since") \
    " or " HAS_ROW(                                                                        \
        "from sluice.tally y where y.account_id = :account_id and y.outcome <> 'blocked'")
#undef OF
/* Those that went off by themselves, and those that are paused (store/delivery.h). At most
 * WEBHOOKS_MAX. */
#define FAILING_WEBHOOKS                                                                       \
    "(select json_agg(f) from (select w.id, left(w.url, 100) as url, w.off_reason as reason, " \
    "w.failures from sluice.webhook w where w.account_id = :account_id and "                   \
    "(w.off_reason in ('answered_410', 'failing') or (w.off_at is null and w.failures > 2)) "  \
    "order by w.id) f)"

#define OF(name, type) PG_OF(#name, type, struct flow_counts, name)
_Static_assert(COUNT_LIMIT == FLOW_COUNT_MAX, "as callers know it");

/* One part of a statement per line. */
/* clang-format off */
static const struct pg_stmt flow_counts = {
    .name = "flow_counts",
    .sql = "select :ord, c.* from @input lateral (select "
    COUNT_OF("running", IS_RUNNING)
    COUNT_OF("waiting", IS_WAITING)
    COUNT_OF("completed", IS_COMPLETED)
    COUNT_OF("failed", IS_FAILED)
    "(" HAS_EXECUTION ") as has_execution, (select count(*) > 1 from sluice.api_key k where "
    "k.account_id = :account_id and k.revoked_at is null) as has_keys, " FAILING_WEBHOOKS
    " as failing_webhooks) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("since", PG_UUID), PG_ARG("is_running", PG_TEXT),
             PG_ARG("is_waiting", PG_TEXT)),
    PG_GIVES(OF(running, PG_I64), OF(waiting, PG_I64), OF(completed, PG_I64), OF(failed, PG_I64),
             OF(has_execution, PG_BOOL), OF(has_keys, PG_BOOL), OF(failing_webhooks, PG_JSON)),
};

#undef OF
#define OF(name, type)         PG_OF(#name, type, struct flow_version_count, name)
#define ROWS(state, condition) COUNTED("t.template_version, '" state "' as state", condition)
#define ROWS_OF(state)         ", count(*) filter (where n.state = '" state "')"
static const struct pg_stmt flow_counted_versions = {
    .name = "flow_counted_versions",
    .sql = "select :ord, c.* from @input lateral (select n.template_version"
    ROWS_OF("running")
    ROWS_OF("waiting")
    ROWS_OF("completed")
    ROWS_OF("failed")
    " from ("
    ROWS("running", IS_RUNNING) "union all "
    ROWS("waiting", IS_WAITING) "union all "
    ROWS("completed", IS_COMPLETED) "union all "
    ROWS("failed", IS_FAILED) ") n group by 1) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("since", PG_UUID), PG_ARG("is_running", PG_TEXT),
             PG_ARG("is_waiting", PG_TEXT)),
    PG_GIVES(OF(version, PG_UUID), OF(running, PG_I64), OF(waiting, PG_I64), OF(completed, PG_I64),
             OF(failed, PG_I64)),
};
/* clang-format on */

const struct pg_stmt *const flow_inbox_stmts[] = {
    &flow_inbox,  &flow_near, &flow_waiting_versions, &flow_counted_versions, &flow_askers,
    &flow_counts, NULL};

void store_flow_counts(STORE_ARGS, struct uuid account_id, struct uuid since)
{
    store_ask(pool, query, op, &flow_counts,
              PG_VALUES(pg_uuid(account_id), pg_uuid(since), pg_text(SLICE("running")),
                        pg_text(SLICE("waiting"))));
}

void store_flow_counted_versions(STORE_ARGS, struct uuid account_id, struct uuid since)
{
    store_ask(pool, query, op, &flow_counted_versions,
              PG_VALUES(pg_uuid(account_id), pg_uuid(since), pg_text(SLICE("running")),
                        pg_text(SLICE("waiting"))));
}

void store_flow_inbox(STORE_ARGS, struct uuid account_id, const struct flow_inbox_filter *filter)
{
    store_ask_of(pool, query, op, &flow_inbox, filter, PG_VALUES(pg_uuid(account_id)));
}

void store_flow_near(STORE_ARGS, struct uuid account_id, struct uuid flow_id, slice given)
{
    store_ask(pool, query, op, &flow_near,
              PG_VALUES(pg_uuid(account_id), pg_uuid(flow_id), pg_null(PG_TEXT), pg_text(given)));
}

void store_flow_askers(STORE_ARGS, struct uuid account_id, slice template_key, slice given,
                       struct uuid payer_id)
{
    store_ask(
        pool, query, op, &flow_askers,
        PG_VALUES(pg_uuid(account_id), pg_text(template_key), pg_text(given), pg_uuid(payer_id)));
}

void store_flow_waiting_versions(STORE_ARGS, struct uuid account_id)
{
    store_ask(pool, query, op, &flow_waiting_versions,
              PG_VALUES(pg_uuid(account_id), pg_null(PG_TEXT)));
}
