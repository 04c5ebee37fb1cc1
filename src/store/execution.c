/*
 * Executions: inserted once, when they have ended, with the run's input if it is kept. All
 * inserting statements are first sent without a check for a conflict; their `again` form is sent
 * only if the answer of a commit was lost (pg/pg.h).
 */
#include "store/execution.h"

#include "store/internal.h"

#define EXECUTION_INSERT                                                                       \
    "insert into sluice.execution (account_id, id, integration_id, action_id, connection_id, " \
    "status, error_code, started_at, finished_at, owner, summary, api_key_id, attempts, policy) "

#define OF(name, type, ...) PG_OF(#name, type, struct execution, name, __VA_ARGS__)

static const char *const status_words[] = {"failed", "succeeded"};
static const struct pg_words statuses = {status_words, ARRAY_LEN(status_words), 0};

/* The columns of a row, except its account. */
#define MEMBERS                                                                                \
    OF(id, PG_UUID), OF(integration_id, PG_TEXT), OF(action_id, PG_TEXT),                      \
        OF(connection_id, PG_I64, .has_null = true),                                           \
        PG_WORD("status", struct execution, is_succeeded, &statuses), OF(error_code, PG_TEXT), \
        OF(started_at, PG_TIME), OF(finished_at, PG_TIME), OF(owner, PG_UUID),                 \
        OF(summary, PG_TEXT), OF(api_key_id, PG_UUID, .has_null = true),                       \
        OF(attempts, PG_I64, .has_null = true), OF(policy, PG_TEXT)
static const struct pg_column insert_params[] = {OF(account_id, PG_UUID), MEMBERS};
static const struct pg_column insert_input_params[] = {OF(account_id, PG_UUID), MEMBERS,
                                                       STORE_INPUT_PARAMS(execution)};
/* `before` inserts the input, or is empty. `rest` is the text that is added for a resend. The id is
 * a UUIDv7 of this run: an existing row is from the first attempt, so "do nothing" is right, and
 * the usual case does not pay for the check. */
#define INSERT_STMT(stmt_name, before, takes, rest, ...)                                          \
    {                                                                                             \
        .name = stmt_name,                                                                        \
        .sql = before EXECUTION_INSERT                                                            \
            "@row :account_id, :id, :integration_id, :action_id, :connection_id, :status, "       \
            ":error_code, :started_at, :finished_at, :owner, :summary, :api_key_id, :attempts, "  \
            ":policy @end" rest,                                                                  \
        PG_PARAMS(takes), .key_count = 2, .match = PG_MATCH_NONE, .access = PG_WRITE, __VA_ARGS__ \
    }
#define OR_NOTHING         " on conflict do nothing"
#define INSERT_INPUT(rest) "with made as (" STORE_INPUT_INSERT STORE_INPUT_ROW("false") rest ") "
static const struct pg_stmt execution_insert_again =
    INSERT_STMT("execution_insert_again", "", insert_params, OR_NOTHING, );
static const struct pg_stmt execution_insert =
    INSERT_STMT("execution_insert", "", insert_params, "", .again = &execution_insert_again);
static const struct pg_stmt execution_insert_input_again =
    INSERT_STMT("execution_insert_input_again", INSERT_INPUT(OR_NOTHING), insert_input_params,
                OR_NOTHING, .gather = store_inputs_gather);
static const struct pg_stmt execution_insert_input =
    INSERT_STMT("execution_insert_input", INSERT_INPUT(""), insert_input_params, "",
                .again = &execution_insert_input_again, .gather = store_inputs_gather);

static const struct pg_column finish_params[] = {OF(account_id, PG_UUID), PG_ARG("key", PG_TEXT),
                                                 MEMBERS};
static const struct pg_column finish_input_params[] = {
    OF(account_id, PG_UUID), PG_ARG("key", PG_TEXT), MEMBERS, STORE_INPUT_PARAMS(execution)};

/* The claim is the fence: the execution is inserted only if the claim is still this node's
 * (execution_id and owner match). If the lease ran out and another node ended the run, `moved` is
 * empty, nothing is inserted, and the caller gets ERR_NOTFOUND. In a resend the claim may already
 * be deleted; an execution with this id, owner and time is then the result of the first attempt.
 * `:ord in (...)` is a hashed subplan, so a set is not matched pair by pair. */
#define FINISH_STORE(kept)                                                                  \
    "and t.execution_id = :id and t.owner = :owner returning :ord as ord), " kept           \
    "stored as (" EXECUTION_INSERT                                                          \
    "select :m.account_id, :m.id, :m.integration_id, :m.action_id, "                        \
    ":m.connection_id, :m.status, :m.error_code, :m.started_at, :m.finished_at, :m.owner, " \
    ":m.summary, :m.api_key_id, :m.attempts, :m.policy from moved m"
#define FINISH_ONCE ") select m.ord from moved m"
#define FINISH_AGAIN                                                                        \
    " on conflict do nothing) select :ord @from where :ord in (select m.ord from moved m) " \
    "or (select e.owner = :owner and e.finished_at = :finished_at from sluice.execution e " \
    "where e.account_id = :account_id and e.id = :id)"
/* Also stores the input. `rest` as for INSERT_STMT. The words of runs that share them are in the
 * row of one of them, which may be the one that the fence stops. So if it stops a run of the set,
 * each row has its own words, in the form of the version before. `offset 0`: so that is_whole is
 * computed once for a row. A lone run has no count (@set), which would be a twentieth of its
 * statement. */
#define FINISH_INPUTS                                                                        \
    "(select m.ord, not @set or :m.together is null or :m.together = (select count(*) from " \
    "moved) as is_whole from moved m where :m.sealed is not null offset 0) m"
#define FINISH_INPUT(rest)                                                                      \
    "kept as (" STORE_INPUT_INSERT "select :m.account_id, :m.id, false, :m.sealed, :m.key_id, " \
    ":m.expires_at, case when m.is_whole then (:m.own)::oid[] end, (case when m.is_whole then " \
    ":m.words else :m.own end)::oid[]::bigint[], case when m.is_whole then (:m.marks)::oid[] "  \
    "end, case when m.is_whole then :m.runs end from " FINISH_INPUTS rest "), "
/* Bound rows have no owner (a CHECK), so the index idempotency_key_owner does not contain them. The
 * key's life began with the claim and may have ended by now. It is extended, because requests that
 * wait for its run load it again within a second (exec/claim.c), and must find it. */
#define FINISH_KEEP                                                       \
    "update sluice.idempotency_key t set state = 'bound', owner = null, " \
    "expires_at = greatest(t.expires_at, now() + interval '5 seconds') "  \
    "@update(sluice.idempotency_key) "
#define FINISH_RELEASE "delete from sluice.idempotency_key t @delete(sluice.idempotency_key) "

#define FINISH_STMT(stmt_name, takes, claim, kept, answer, ...)                     \
    {                                                                               \
        .name = stmt_name, .is_result = true,                                       \
        .sql = "with moved as (" claim FINISH_STORE(kept) answer, PG_PARAMS(takes), \
        .key_count = 2, .access = PG_WRITE, __VA_ARGS__                             \
    }
static const struct pg_stmt execution_finish_keep_again =
    FINISH_STMT("execution_finish_keep_again", finish_params, FINISH_KEEP, "", FINISH_AGAIN, );
static const struct pg_stmt execution_finish_keep =
    FINISH_STMT("execution_finish_keep", finish_params, FINISH_KEEP, "", FINISH_ONCE,
                .again = &execution_finish_keep_again);
static const struct pg_stmt execution_finish_keep_input_again =
    FINISH_STMT("execution_finish_keep_input_again", finish_input_params, FINISH_KEEP,
                FINISH_INPUT(OR_NOTHING), FINISH_AGAIN, .gather = store_inputs_gather);
static const struct pg_stmt execution_finish_keep_input = FINISH_STMT(
    "execution_finish_keep_input", finish_input_params, FINISH_KEEP, FINISH_INPUT(""), FINISH_ONCE,
    .again = &execution_finish_keep_input_again, .gather = store_inputs_gather);
static const struct pg_stmt execution_finish_release_again = FINISH_STMT(
    "execution_finish_release_again", finish_params, FINISH_RELEASE, "", FINISH_AGAIN, );
static const struct pg_stmt execution_finish_release =
    FINISH_STMT("execution_finish_release", finish_params, FINISH_RELEASE, "", FINISH_ONCE,
                .again = &execution_finish_release_again);
static const struct pg_stmt execution_finish_release_input_again =
    FINISH_STMT("execution_finish_release_input_again", finish_input_params, FINISH_RELEASE,
                FINISH_INPUT(OR_NOTHING), FINISH_AGAIN, .gather = store_inputs_gather);
static const struct pg_stmt execution_finish_release_input = FINISH_STMT(
    "execution_finish_release_input", finish_input_params, FINISH_RELEASE, FINISH_INPUT(""),
    FINISH_ONCE, .again = &execution_finish_release_input_again, .gather = store_inputs_gather);

/* The same for a run whose outcome is unknown, with its event: others do not pay for it. */
static const struct pg_column finish_event_params[] = {OF(account_id, PG_UUID),
                                                       PG_ARG("key", PG_TEXT),
                                                       MEMBERS,
                                                       STORE_INPUT_PARAMS(execution),
                                                       OF(event_id, PG_UUID),
                                                       OF(parent_id, PG_UUID, .has_null = true)};
static const struct pg_column event_columns[] = {STORE_HAS_EVENT_COLUMN};
#define FINISH_OUTBOX                                                                            \
    "), " STORE_OUTBOX("select :c.account_id as account_id, :c.parent_id as parent_id, "         \
                       ":c.event_id as event_id, 'execution.outcome_unknown' as kind, :c.id as " \
                       "object, 1::bigint as rev, :c.finished_at as at, :c.integration_id as "   \
                       "integration_id, :c.action_id as action_id from moved c",                 \
                       "'execution_id', m.object, 'account_id', coalesce(m.parent_id, "          \
                       "m.account_id), 'status', 'failed', 'integration_id', m.integration_id, " \
                       "'action_id', m.action_id",                                               \
                       "")
#define FINISH_EVENT_ONCE \
    FINISH_OUTBOX "select m.ord, " STORE_HAS_EVENT(":m.event_id") " from moved m"
#define FINISH_EVENT_AGAIN                                                                \
    " on conflict do nothing" FINISH_OUTBOX "select :ord, " STORE_HAS_EVENT(              \
        ":event_id") " @from where :ord in (select m.ord from moved m) "                  \
                     "or (select e.owner = :owner and e.finished_at = :finished_at from " \
                     "sluice.execution e "                                                \
                     "where e.account_id = :account_id and e.id = :id)"
#define FINISH_EVENT_STMT(name, claim, answer, ...)                                 \
    FINISH_STMT(name, finish_event_params, claim, FINISH_INPUT(OR_NOTHING), answer, \
                PG_COLUMNS(event_columns), .gather = store_inputs_gather, __VA_ARGS__)
static const struct pg_stmt execution_finish_keep_event_again =
    FINISH_EVENT_STMT("execution_finish_keep_event_again", FINISH_KEEP, FINISH_EVENT_AGAIN, );
static const struct pg_stmt execution_finish_keep_event =
    FINISH_EVENT_STMT("execution_finish_keep_event", FINISH_KEEP, FINISH_EVENT_ONCE,
                      .again = &execution_finish_keep_event_again);
static const struct pg_stmt execution_finish_release_event_again =
    FINISH_EVENT_STMT("execution_finish_release_event_again", FINISH_RELEASE, FINISH_EVENT_AGAIN, );
static const struct pg_stmt execution_finish_release_event =
    FINISH_EVENT_STMT("execution_finish_release_event", FINISH_RELEASE, FINISH_EVENT_ONCE,
                      .again = &execution_finish_release_event_again);

static const struct pg_column get_params[] = {PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID),
                                              PG_ARG("payer_id", PG_UUID)};
#define ROW_SUMMARY STORE_SUMMARY_INLINE("t")
#define ASKED_BY(row)                                                                          \
    row ".api_key_id, (select " STORE_KEY_LABEL " from sluice.api_key k where k.account_id = " \
        ":payer_id and k.id = " row ".api_key_id) as api_key_name, " row ".attempts"
#define ASKED_BY_COLUMNS OF(api_key_id, PG_UUID), OF(api_key_name, PG_TEXT), OF(attempts, PG_I64)
/* A small summary is read with the row. Of a large one only the size is read, which the pointer
 * to an out-of-line text contains; the caller then sends execution_get_summary, on the lane of
 * large reads. */
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
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID)),
    PG_GIVES(PG_ARG("summary", PG_TEXT)),
    .key_count = 2,
    .is_large = true,
};

/* Rows of a page are limited before anything is looked up for them. The summary of a failed
 * execution has no output; for other executions see STORE_SUMMARY_LISTED_BYTES. */
#define LISTED_SUMMARY                                                        \
    "case when octet_length(e.summary) <= case e.status when 'failed' "       \
    "then " STORE_TEXT_OF(STORE_SUMMARY_INLINE_BYTES) " else " STORE_TEXT_OF( \
        STORE_SUMMARY_LISTED_BYTES) " end then e.summary end"
/* The error code that the API reports is only in the summary; the row may have another code. Quotes
 * within a text of the summary are escaped, as are those of the code. */
#define IS_OF_CODE                                                         \
    "e.error_code is not null and strpos(e.summary, '\"error_code\":' || " \
    "to_json(:error_code)::text) > 0"
#define IS_WANTED(status)                                                  \
    "(:integration_id is null or e.integration_id = :integration_id) and " \
    "(:action_id is null or e.action_id = :action_id) and "                \
    "(:status is null or " status " = :status) and "                       \
    "(:api_key_id is null or e.api_key_id = :api_key_id) and "
#define RAN_COLUMNS                                                                          \
    "x.integration_id, x.action_id, x.connection_id, x.status, x.error_code, x.started_at, " \
    "x.finished_at, case when x.status = 'failed' or :with_summary then x.summary end as "   \
    "summary, x.api_key_id, x.attempts from sluice.execution x where x.account_id = :account_id "
#define RAN_LISTED                                                                           \
    "e.id, e.integration_id, e.action_id, e.connection_id, e.status, e.error_code, "         \
    "e.started_at, e.finished_at, " LISTED_SUMMARY " as summary, e.api_key_id, e.attempts, " \
    "null::uuid as flow_id, null::bigint as step_index, null::bytea as tail, e.is_blocked"
#define RAN(only)                                                                           \
    STORE_PAGE_ROWS_SQL("select x.id, false as is_blocked, " RAN_COLUMNS                    \
                        "and x.id < :before and x.id >= :since" only " order by x.id desc", \
                        "id desc", RAN_LISTED,                                              \
                        IS_WANTED("e.status") "(:error_code is null or (" IS_OF_CODE "))")

/* Blocked runs are events, which have no summary; their time is that of their id. A reason is not
 * the code that is reported, so a filter by code lets all of them pass. Of an id with \u0000, which
 * the caller may have sent, ->> would fail. */
#define OF_DETAILS(name) \
    "case when strpos(x.details::text, '\\u0000') = 0 then x.details->>'" name "' end as " name
#define BLOCKED_COLUMNS                                                                         \
    OF_DETAILS("integration_id")                                                                \
    ", " OF_DETAILS(                                                                            \
        "action_id") ", null::bigint as connection_id, 'failed' as status, x.reason as "        \
                     "error_code, "                                                             \
                     "null::timestamptz as started_at, null::timestamptz as finished_at, "      \
                     "null::text as "                                                           \
                     "summary, case when x.actor ~ '^key:[0-9a-f-]{36}$' then substr(x.actor, " \
                     "5)::uuid end "                                                            \
                     "as api_key_id, null::bigint as attempts from sluice.audit_event x "       \
                     "where x.account_id = :account_id "
#define IS_BLOCKED "x.kind = 'execution.blocked'"
#define BLOCKED                                                                       \
    STORE_PAGE_ROWS_SQL("select x.id, " IS_BLOCKED " as is_blocked, " BLOCKED_COLUMNS \
                        "and x.id < :before and x.id >= :since order by x.id desc",   \
                        "id desc", RAN_LISTED, "e.is_blocked and " IS_WANTED("'blocked'") "true")

/* The runs that have all words of one of the lists, with what is stored for them. First the newest
 * 1000 inputs of the range are read. They are enough if the range has no others, or if a page of
 * them has the words: so a search for frequent words ends there, however many other runs have them.
 * With other filters, which many of them may not pass, more have to match. Otherwise the
 * index of words finds all runs, in no order, over all days. If it has found 10,001, the
 * newest inputs are the answer all the same, and the next page continues after them. So a search
 * for rare words is complete, and one for frequent words begins with the newest runs. The words are
 * hashes under a key of the account: the index needs no account to find those of one account. A
 * condition on the id there would offer the primary key to the planner, which would then read all
 * of it; a limit there would make a sequential scan look as good as the index, hence the inner
 * list, which is read no further than needed. A case is evaluated in its order, and a list only
 * when it is read. */
#define IN_RANGE(row) \
    row ".account_id = :account_id and " row ".id < :before and " row ".id >= :since "
#define LISTS                                                                                   \
    "lists as materialized (select split_part(q, '/', 1)::bigint[] as words, "                  \
    "nullif(split_part(q, '/', 2), '')::oid[] as own from unnest(string_to_array(:words, ';'))" \
    " q), "
#define HAS_WORDS(row)                                                                        \
    "case when " row ".own is null then l.own is null and " row ".words @> l.words else " row \
    ".own @> l.own end"
#define NEWEST                                                                                    \
    "newest as materialized (select w.id, w.is_blocked, w.expires_at > now() and exists (select " \
    "from lists l where " HAS_WORDS(                                                              \
        "w") ") as is_found from (select x.id, x.is_blocked, "                                    \
             "x.expires_at, x.words, x.own from sluice.execution_input x where " IN_RANGE(        \
                 "x") "and (:with_blocked or not x.is_blocked) order by x.id desc limit 1000) "   \
                      "w), "                                                                      \
                      "enough as materialized (select count(*) < 1000 or count(*) filter (where " \
                      "n.is_found) >= "                                                           \
                      "case when :integration_id is null and :action_id is null and :status is "  \
                      "null and "                                                                 \
                      ":api_key_id is null and :error_code is null then :count_max else 250 end " \
                      "as "                                                                       \
                      "is_enough "                                                                \
                      "from newest n), "
/* The runs of row m that have all words of list l (store_inputs_gather), which are at most 16. A
 * function in FROM would store its rows, for each m. */
#define RUNS_OF                                                                                  \
    "select encode(substr(m.runs, 16 * b.n + 1, 16), 'hex')::uuid as id from (select bit_and("   \
    "coalesce(m.marks[array_position(m.marks, w.word) + cardinality(m.marks) / 2]::bigint, 0)) " \
    "as bits from (select unnest(l.own) as word) w) f cross join (values (0), (1), (2), (3), "   \
    "(4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15)) b (n) where "             \
    "f.bits >> b.n & 1 = 1"
/* One scan reads m, and so no further than the limit: the arms of a union would each read it, the
 * first to its end. */
#define HITS                                                                                     \
    "(with " LISTS NEWEST                                                                        \
    "hit as materialized (select s.* from lists l, lateral (with m as materialized (select "     \
    "x.account_id, x.id, x.is_blocked, x.expires_at, x.words, x.own, x.marks, x.runs from "      \
    "sluice.execution_input x where x.words @> l.words) select m.account_id, r.id, "             \
    "m.is_blocked, m.expires_at from m cross join lateral (select m.id where m.runs is null "    \
    "and " HAS_WORDS(                                                                            \
        "m") " union all " RUNS_OF " and m.runs is not null) r limit 10001) s), "                \
             "chosen as materialized (select case when (select e.is_enough from enough e) then " \
             "false else "                                                                       \
             "(select count(*) from hit) <= 10000 end as is_hit) "                               \
             "select a.id, a.is_blocked, a.is_found from (select h.id, h.is_blocked, true as "   \
             "is_found "                                                                         \
             "from hit h where (select c.is_hit from chosen c) and " IN_RANGE(                   \
                 "h") "and h.expires_at > now() and (:with_blocked or not h.is_blocked) "        \
                      "union all select n.id, n.is_blocked, n.is_found from newest n where not " \
                      "(select "                                                                 \
                      "c.is_hit "                                                                \
                      "from chosen c)) a order by a.id desc limit 1000)"
#define FOUND                                                                                    \
    STORE_PAGE_ROWS_SQL(                                                                         \
        "select h.id, h.is_blocked, r.* from " HITS " h left join lateral (select " RAN_COLUMNS  \
        "and x.id = h.id and h.is_found and not h.is_blocked and "                               \
        ":status is distinct from 'blocked' union all select " BLOCKED_COLUMNS                   \
        "and x.id = h.id and h.is_found and h.is_blocked and :with_blocked offset 0) r on true " \
        "order by h.id desc",                                                                    \
        "id desc", RAN_LISTED,                                                                   \
        "e.status is not null and " IS_WANTED("case when e.is_blocked then 'blocked' else "      \
                                              "e.status end") "(:error_code is null or "         \
                                                              "e.is_blocked or (" IS_OF_CODE "))")

/* A call of a flow has no id: its position in the list is a UUIDv7 of its time, with the
 * microsecond after the version, and at the end `tail`, a unique part of 8 bytes. In the order of
 * time and tail, rows are in the order of their positions. So a position is made only for the rows
 * of a page, and for those of the millisecond in which the page begins: to make one costs more than
 * to read the row. Rows are read through flow_step_call, from each partition that may have one: a
 * flow is older than its steps, so later partitions are left out. Calls of flows that retention has
 * removed are not listed; the lookup must not turn into a read of all flows. */
#define CALL_US(row) "(extract(epoch from " row ".started_at) * 1000000)::bigint"
#define CALL_TAIL                                                                     \
    "(substr(uuid_send(x.flow_id), 9, 5) || substr(int8send(x.step_index), 8, 1) || " \
    "substr(int8send(x.attempt), 7, 2))"
#define CALL_ID(row, tail)                                                            \
    "(lpad(to_hex(" CALL_US(row) " / 1000), 12, '0') || '7' || lpad(to_hex(" CALL_US( \
        row) " % 1000), 3, '0') || encode(" tail ", 'hex'))::uuid"
#define CALL_STATUS "case e.status when 'failed' then 'failed' else 'succeeded' end"
#define CALLED(only)                                                                               \
    STORE_PAGE_ROWS_SQL(                                                                           \
        "select " CALL_TAIL " as tail, x.integration_id, x.action_id, x.status, x.started_at, "    \
        "x.finished_at, x.error, x.api_key_id, x.flow_id, x.step_index from sluice.flow_step x "   \
        "where x.account_id = :account_id and "                                                    \
        "x.started_at >= :since_at and x.started_at < :before_at and x.flow_id < :flow_before "    \
        "and :with_calls and (x.started_at < :before_at - interval '1 millisecond' or " CALL_ID(   \
            "x", CALL_TAIL) " < :before)" only " order by x.started_at desc, tail desc",           \
        "started_at desc, tail desc",                                                              \
        CALL_ID("e", "e.tail") " as id, e.integration_id, e.action_id, null::bigint, " CALL_STATUS \
                               " as status, "                                                      \
                               "null::text, e.started_at, e.finished_at, e.error::text, "          \
                               "e.api_key_id, null::bigint, "                                      \
                               "e.flow_id, e.step_index, e.tail, false",                           \
        "e.integration_id <> '' and " IS_WANTED(                                                   \
            CALL_STATUS) "(:error_code is null or "                                                \
                         "e.error->>'code' = :error_code) and exists (select 1 from sluice.flow "  \
                         "f where "                                                                \
                         "f.account_id = :account_id and f.id = e.flow_id offset 0)")

/* Counts the items of a fan-out that this attempt of its step began, and those that it did not
 * complete: a step has a row once no item is under way, so the others failed, or their outcome is
 * unknown. The tail ends with the attempt. The key reads the facts of all attempts, so lists with
 * calls do not wait in a batch with small reads (is_large). */
#define ITEMS                                                                                  \
    "select count(distinct n.item) as calls, count(distinct n.item) - count(*) filter (where " \
    "n.fact = 'completed') as failed_calls from sluice.flow_item n where n.account_id = "      \
    ":account_id and n.flow_id = t.flow_id and n.step_index = t.step_index and n.attempt = "   \
    "get_byte(t.tail, 6) * 256 + get_byte(t.tail, 7) and v.step->'for_each' is not null"
/* Lists without calls of flows do not pay for the partitions of items. */
#define NO_ITEMS "select 0::bigint as calls, 0::bigint as failed_calls"

/* Merges lists in one order: each returns as many rows as are wanted, and the first scan that was
 * cut ends the page. The columns of flows and their templates are looked up by key. */
#define LIST_SQL(lists, items)                                                                  \
    "select :ord, c.* from @input lateral (select t.id, t.integration_id, t.action_id, "        \
    "t.connection_id, t.status, t.error_code, t.started_at, t.finished_at, t.summary, "         \
    "t.api_key_id, (select " STORE_KEY_LABEL " from sluice.api_key k where k.account_id = "     \
    "coalesce(:parent_id, :account_id) and k.id = t.api_key_id) as api_key_name, t.attempts, "  \
    "t.flow_id, "                                                                               \
    "g.template_key, coalesce(g.title, v.body->>'name') as flow_title, v.step->>'key' as "      \
    "step_key, case when :with_tools then (select string_agg(s->>'tool', ' ') from "            \
    "json_array_elements(v.body->'steps') s) end as flow_tools, "                               \
    "v.step->'for_each' is not null as is_fan_out, fan.calls, fan.failed_calls, "               \
    "t.is_blocked, t.is_match, "                                                                \
    "t.is_cut from (select "                                                                    \
    "u.* from (select b.*, count(*) filter (where b.is_cut) over (order by b.id desc rows "     \
    "between unbounded preceding and 1 preceding) as cuts from (" lists ") b) u "               \
    "where u.cuts = 0 order by u.id desc limit :count_max) t "                                  \
    "left join lateral (select f.template_key, f.template_version, f.title from sluice.flow f " \
    "where f.account_id = :account_id and f.id = t.flow_id offset 0) g on true "                \
    "left join lateral (select m.body, m.body->'steps'->t.step_index::integer as step from "    \
    "sluice.flow_template m where m.version = g.template_version offset 0) v on true "          \
    "left join lateral (" items " offset 0) fan on true "                                       \
    "order by t.id desc) c"
static const struct pg_column list_params[] = {STORE_PAGE_PARAMS,
                                               PG_ARG("integration_id", PG_TEXT),
                                               PG_ARG("action_id", PG_TEXT),
                                               PG_ARG("status", PG_TEXT),
                                               PG_ARG("api_key_id", PG_UUID),
                                               PG_ARG("error_code", PG_TEXT),
                                               PG_ARG("with_summary", PG_BOOL),
                                               PG_ARG("with_calls", PG_BOOL),
                                               PG_ARG("since_at", PG_TIME),
                                               PG_ARG("before_at", PG_TIME),
                                               PG_ARG("flow_before", PG_UUID),
                                               PG_ARG("parent_id", PG_UUID),
                                               PG_ARG("with_blocked", PG_BOOL),
                                               PG_ARG("with_tools", PG_BOOL),
                                               PG_ARG("words", PG_TEXT)};
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
    OF(flow_id, PG_UUID),
    OF(template_key, PG_TEXT),
    OF(flow_title, PG_TEXT),
    OF(step_key, PG_TEXT),
    OF(flow_tools, PG_TEXT),
    OF(is_fan_out, PG_BOOL),
    OF(calls, PG_I64),
    OF(failed_calls, PG_I64),
    OF(is_blocked, PG_BOOL),
    STORE_PAGE_COLUMNS};
#define LIST_STMT(stmt_name, lists, items, ...)                                   \
    {                                                                             \
        .name = stmt_name, .sql = LIST_SQL(lists, items), PG_PARAMS(list_params), \
        PG_COLUMNS(list_columns), __VA_ARGS__                                     \
    }
#define TRIED "(" RAN("") ") union all (" CALLED(" and x.integration_id <> ''") ")"
static const struct pg_stmt execution_list =
    LIST_STMT("execution_list", "(" RAN("") ")", NO_ITEMS, );
static const struct pg_stmt execution_list_calls =
    LIST_STMT("execution_list_calls", TRIED, ITEMS, .is_large = true);
/* Uses the indexes execution_failed and flow_step_failed. */
#define FAILED " and x.status = 'failed'"
static const struct pg_stmt execution_list_failed =
    LIST_STMT("execution_list_failed", "(" RAN(FAILED) ")", NO_ITEMS, );
static const struct pg_stmt execution_list_failed_calls =
    LIST_STMT("execution_list_failed_calls", "(" RAN(FAILED) ") union all (" CALLED(FAILED) ")",
              ITEMS, .is_large = true);
/* Others do not pay for the partitions of the audit trail. */
static const struct pg_stmt execution_list_blocked =
    LIST_STMT("execution_list_blocked", BLOCKED, NO_ITEMS, );
static const struct pg_stmt execution_list_all =
    LIST_STMT("execution_list_all", TRIED " union all (" BLOCKED ")", ITEMS, .is_large = true);
static const struct pg_stmt execution_find =
    LIST_STMT("execution_find", FOUND, NO_ITEMS, .is_large = true);

const struct pg_stmt *const execution_stmts[] = {
    &execution_insert,
    &execution_insert_again,
    &execution_insert_input,
    &execution_insert_input_again,
    &execution_finish_keep,
    &execution_finish_keep_again,
    &execution_finish_keep_input,
    &execution_finish_keep_input_again,
    &execution_finish_release,
    &execution_finish_release_again,
    &execution_finish_release_input,
    &execution_finish_release_input_again,
    &execution_finish_keep_event,
    &execution_finish_keep_event_again,
    &execution_finish_release_event,
    &execution_finish_release_event_again,
    &execution_get,
    &execution_get_summary,
    &execution_list,
    &execution_list_calls,
    &execution_list_failed,
    &execution_list_failed_calls,
    &execution_list_blocked,
    &execution_list_all,
    &execution_find,
    NULL,
};

void store_execution_insert(STORE_ARGS, const struct execution *execution)
{
    ASSERT(execution->is_succeeded == !execution->error_code.ptr);
    store_ask_of(pool, query, op,
                 execution->input.sealed.ptr ? &execution_insert_input : &execution_insert,
                 execution, PG_NO_VALUES);
}

void store_execution_finish(STORE_ARGS, const struct execution *execution, slice key,
                            enum claim_end end)
{
    ASSERT(execution->is_succeeded == !execution->error_code.ptr);
    ASSERT(key.ptr || end == CLAIM_RELEASE);
    static const struct pg_stmt *const stmts[][3] = {
        [CLAIM_KEEP] = {&execution_finish_keep, &execution_finish_keep_input,
                        &execution_finish_keep_event},
        [CLAIM_RELEASE] = {&execution_finish_release, &execution_finish_release_input,
                           &execution_finish_release_event}};
    bool has_event = !uuid_is_nil(execution->event_id), has_input = execution->input.sealed.ptr;
    store_ask_of(pool, query, op, stmts[end][has_event ? 2 : has_input], execution,
                 PG_VALUES(store_claim_key(query, key, execution->id)));
}

STORE_CALL_IDS(store_execution_get, execution_get, struct uuid, pg_uuid)
STORE_CALL_ID(store_execution_get_summary, execution_get_summary, struct uuid, pg_uuid)

static const struct pg_stmt *list_stmt(const struct execution_filter *filter)
{
    bool is_of_blocked = slice_eq_cstr(filter->status, "blocked");
    ASSERT(filter->with_blocked || !is_of_blocked);
    if (filter->words.ptr)
        return &execution_find;
    if (filter->with_blocked && !filter->status.ptr)
        return &execution_list_all;
    bool is_of_failed = slice_eq_cstr(filter->status, status_words[0]);
    if (is_of_blocked)
        return &execution_list_blocked;
    if (filter->with_calls)
        return is_of_failed ? &execution_list_failed_calls : &execution_list_calls;
    return is_of_failed ? &execution_list_failed : &execution_list;
}

void store_execution_list(STORE_ARGS, struct uuid account_id, const struct store_page *page,
                          const struct execution_filter *filter)
{
    enum { MARGIN_MS = 24 * 60 * 60 * 1000 }; /* clocks of nodes may differ */
    const int64_t ms_max = (INT64_C(1) << 48) - 1;
    int64_t since_ms = uuid_v7_wall_ms(page->since), before_ms = uuid_v7_wall_ms(page->before);
    bool is_of_key = !uuid_is_nil(filter->api_key_id);
    store_ask_of(
        pool, query, op, list_stmt(filter), page,
        PG_VALUES(
            pg_uuid(account_id), pg_text(filter->integration_id), pg_text(filter->action_id),
            pg_text(filter->status), is_of_key ? pg_uuid(filter->api_key_id) : pg_null(PG_UUID),
            pg_text(filter->error_code), pg_bool(filter->with_summary), pg_bool(filter->with_calls),
            pg_time(since_ms > 0 ? since_ms * 1000 : 1), pg_time((before_ms + 1) * 1000),
            pg_uuid(uuid_v7_floor(before_ms < ms_max - MARGIN_MS ? before_ms + MARGIN_MS : ms_max)),
            uuid_is_nil(filter->parent_id) ? pg_null(PG_UUID) : pg_uuid(filter->parent_id),
            pg_bool(filter->with_blocked), pg_bool(filter->with_tools), pg_text(filter->words)));
}

int store_execution_list_result(const struct pg_query *query, struct execution **list,
                                size_t *count, struct uuid *next)
{
    int status;
    *list = store_page_result(query, sizeof(**list), count, next, &status);
    for (size_t i = 0; status == OK && i < *count; i++) {
        struct execution *one = &(*list)[i];
        one->account_id = query->params[0].as.uuid;
        if (one->is_blocked)
            one->started_at = one->finished_at = uuid_v7_wall_ms(one->id) * 1000;
    }
    return status;
}
