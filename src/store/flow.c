/*
 * Flows: start, and the transitions of the node that owns one.
 *
 * A transition updates one row of sluice.flow by its primary key, if rev and owner are still the
 * ones that the caller knows, and inserts the row of the finished attempt in the same statement. No
 * returned row means that the flow was cancelled or adopted: the caller drops it; or, if the
 * statement has no outbox, that an endpoint may hear the event: the caller sends the form with one.
 * rev grows by one with each change, so one of two transitions from one state wins.
 *
 * For a replay after a lost commit the `again` form is sent. It finds a higher rev and so updates
 * nothing, but finds its op_token in the row and returns the same as the first attempt.
 */
#include "store/flow.h"

#include "store/internal.h"

static const char *const status_names[] = {
    [FLOW_RUNNING] = "running", [FLOW_WAITING] = "waiting",     [FLOW_COMPLETED] = "completed",
    [FLOW_FAILED] = "failed",   [FLOW_CANCELLED] = "cancelled",
};

static const char *const waiting_names[] = {
    [FLOW_WAITS_NOT] = NULL,
    [FLOW_WAITS_TIME] = "time",
    [FLOW_WAITS_APPROVAL] = "approval",
    [FLOW_WAITS_RETRY] = "retry",
};

const char *flow_status_name(enum flow_status status)
{
    ASSERT(status < ARRAY_LEN(status_names));
    return status_names[status];
}

/* ---- the row ---- */

const struct pg_words store_flow_statuses = {status_names, ARRAY_LEN(status_names),
                                             ARRAY_LEN(status_names)};
const struct pg_words store_flow_pauses = {waiting_names, ARRAY_LEN(waiting_names), FLOW_WAITS_NOT};

const struct pg_column store_flow_columns[STORE_FLOW_COLUMNS] = {STORE_FLOW_ROW_COLUMNS};

/* ---- start ---- */

#define START_REST                                                                                 \
    STORE_FLOW_OF(template_key, PG_TEXT),                                                          \
        PG_OF("version", PG_UUID, struct flow, template_version),                                  \
        PG_OF("trigger", PG_TEXT, struct flow, trigger_type),                                      \
        PG_WORD("status", struct flow, status, &store_flow_statuses), STORE_FLOW_OF(rev, PG_I64),  \
        STORE_FLOW_OF(owner, PG_UUID, .has_null = true), STORE_FLOW_OF(step_index, PG_I64),        \
        STORE_FLOW_OF(attempt, PG_I64), STORE_FLOW_OF(is_begun, PG_BOOL),                          \
        PG_WORD("waiting_for", struct flow, waiting_for, &store_flow_pauses),                      \
        STORE_FLOW_OF(wake_at, PG_TIME), STORE_FLOW_OF(deadline, PG_TIME),                         \
        STORE_FLOW_OF(created_at, PG_TIME), STORE_FLOW_OF(updated_at, PG_TIME),                    \
        STORE_FLOW_OF(completed_at, PG_TIME), STORE_FLOW_OF(parent_id, PG_UUID, .has_null = true), \
        PG_ARG("input", PG_JSON), PG_ARG("actor", PG_TEXT), PG_ARG("shown", PG_JSON)
#define START_PARAMS STORE_FLOW_OF(account_id, PG_UUID), STORE_FLOW_OF(id, PG_UUID), START_REST
#define START_MORE   PG_ARG("trace", PG_TEXT), PG_ARG("title", PG_TEXT)
static const struct pg_column start_columns[] = {STORE_HAS_EVENT_COLUMN};
static const struct pg_column start_params[] = {START_PARAMS};
static const struct pg_column start_more_params[] = {START_PARAMS, START_MORE};
static const struct pg_column start_event_params[] = {START_PARAMS, START_MORE,
                                                      STORE_FLOW_EVENT_PARAMS};
/* As in store_claim_result, a row that conflicts is the row of the key. */
#define START_KEYED_PARAMS                                                                      \
    STORE_FLOW_OF(account_id, PG_UUID), PG_ARG("key", PG_TEXT), STORE_FLOW_OF(id, PG_UUID),     \
        START_REST, START_MORE, PG_ARG("fingerprint", PG_BYTES), PG_ARG("lifetime_ms", PG_I64), \
        PG_ARG("holder", PG_UUID)
static const struct pg_column start_keyed_params[] = {START_KEYED_PARAMS};
static const struct pg_column start_keyed_event_params[] = {START_KEYED_PARAMS,
                                                            STORE_FLOW_EVENT_PARAMS};
/* This text is added for a resend. The first attempt inserts rows that cannot exist yet, so it does
 * not have to check. */
#define AGAIN " on conflict do nothing"

#define FLOW_COLUMNS                                                                        \
    "account_id, id, template_key, template_version, trigger_type, status, rev, op_token, " \
    "owner, step_index, attempt, is_begun, adoptions, waiting_for, wake_at, deadline, "     \
    "created_at, updated_at, completed_at, parent_id"
#define FLOW_VALUES                                                                     \
    ":account_id, :id, :template_key, :version, :trigger, :status, :rev, :id, :owner, " \
    ":step_index, :attempt, :is_begun, 0::bigint, :waiting_for, :wake_at, :deadline, "  \
    ":created_at, :updated_at, :completed_at, :parent_id"
#define DOC_COLUMNS "account_id, flow_id, input, actor, waiting_input"
#define DOC_VALUES  ":account_id, :id, :input, :actor, :shown"

/* A start may be requested twice under the id that its caller gave. A resend has to distinguish its
 * own flow from a flow that another request made under the same id: created_at, in microseconds, is
 * set once per request, so it is equal only in the resend's own flow. */
/* The event of a flow that is parked or completed by the statement that makes it. Its row has no
 * column for the event, so the values are those of the input, if the row was made: a join of the
 * two would be a loop over all pairs. */
#define START_OUTBOX(rest)                                                                         \
    STORE_FLOW_OUTBOX(                                                                             \
        "'flow.' || c.status", "c.event_id, c.event_step, c.event_error, c.event_url, c.event_by", \
        "(select :account_id as account_id, :parent_id as parent_id, :id as id, :rev as rev, "     \
        ":updated_at as updated_at, :template_key as template_key, :title as title, "              \
        ":status as status, " STORE_FLOW_EVENT_TEXTS                                               \
        " @from where :event_id is not null and :id in (select d.id from made d)) c",              \
        rest)
#define START_STMT(stmt_name, params, flow_column, flow_value, column, value, rest, outbox, gives, \
                   answer, ...)                                                                    \
    {                                                                                              \
        .name = stmt_name,                                                                         \
        .sql = "with made as (insert into sluice.flow (" FLOW_COLUMNS flow_column ") "             \
               "@row " FLOW_VALUES flow_value " @end" rest " returning id"                         \
               "), documented as ("                                                                \
               "insert into sluice.flow_doc (" DOC_COLUMNS column ") "                             \
               "@row " DOC_VALUES value " @end" rest ")" outbox " select :ord" gives               \
               " @from" answer,                                                                    \
        PG_PARAMS(params), .key_count = 2, .access = PG_WRITE, __VA_ARGS__                         \
    }
#define START_IS_OURS                                        \
    " where :id in (select m.id from made m) or "            \
    "(select f.created_at = :created_at from sluice.flow f " \
    "where f.account_id = :account_id and f.id = :id)"
/* Separate statements, so that a start without a title and a trace costs nothing extra, nor does
 * one without an event. */
static const struct pg_stmt flow_start_again =
    START_STMT("flow_start_again", start_params, "", "", "", "", AGAIN, "", "", START_IS_OURS, );
static const struct pg_stmt flow_start = START_STMT("flow_start", start_params, "", "", "", "", "",
                                                    "", "", "", .again = &flow_start_again);
#define MORE                 ", title", ", :title", ", trace", ", :trace"
#define START_MORE_STMT(...) START_STMT(__VA_ARGS__)
static const struct pg_stmt flow_start_more_again = START_MORE_STMT(
    "flow_start_more_again", start_more_params, MORE, AGAIN, "", "", START_IS_OURS, );
static const struct pg_stmt flow_start_more = START_MORE_STMT(
    "flow_start_more", start_more_params, MORE, "", "", "", "", .again = &flow_start_more_again);
#define START_HAS_EVENT ", " STORE_HAS_EVENT(":event_id")
static const struct pg_stmt flow_start_event_again = START_MORE_STMT(
    "flow_start_event_again", start_event_params, MORE, AGAIN, ", " START_OUTBOX(AGAIN),
    START_HAS_EVENT, START_IS_OURS, PG_COLUMNS(start_columns));
static const struct pg_stmt flow_start_event = START_MORE_STMT(
    "flow_start_event", start_event_params, MORE, "", ", " START_OUTBOX(""), START_HAS_EVENT, "",
    PG_COLUMNS(start_columns), .again = &flow_start_event_again);

/* A start with an idempotency key: the key is taken first and bound at once, or in flight for the
 * node `holder`, and flow and document follow if the key was free. Otherwise the answer is the flow
 * or execution that has it. The id is generated once for each request, so a request that finds its
 * id under the key has made the flow, in this attempt or in an earlier attempt. */
#define IF_OURS                                                                 \
    " from @input claimed c where c.account_id = :account_id and c.key = :key " \
    "and c.execution_id = :id"
#define START_KEYED_STMT(stmt_name, params, outbox, gives, ...)                                   \
    {                                                                                             \
        .name = stmt_name,                                                                        \
        .sql = "with claimed as (insert into sluice.idempotency_key as t (account_id, key, "      \
               "execution_id, fingerprint, state, owner, integration_id, action_id, "             \
               "connection_id, is_write, started_at, expires_at) "                                \
               "@row :account_id, :key, :id, :fingerprint, "                                      \
               "case when :holder is null then 'bound' else 'in_flight' end, :holder, '', "       \
               ":template_key, null::bigint, :holder is null, now(), " STORE_CLAIM_END            \
               " @end" STORE_CLAIM_OR_HOLDER "), made as (insert into sluice.flow (" FLOW_COLUMNS \
               ", title) select " FLOW_VALUES ", :title" IF_OURS AGAIN " returning id), "         \
               "documented as (insert into sluice.flow_doc (" DOC_COLUMNS                         \
               ", trace) select " DOC_VALUES ", :trace" IF_OURS AGAIN ")" outbox                  \
               " select :ord, c.account_id, c.key, c.execution_id, c.fingerprint, c.is_bound, "   \
               "c.owner, " STORE_CLAIM_NOT_READ gives                                             \
               " from @input claimed c where c.account_id = :account_id and c.key = :key",        \
        PG_PARAMS(params), .key_count = 2, .access = PG_WRITE, __VA_ARGS__                        \
    }
/* Without an event the last column is NULL, which store_has_event reads as "none". */
static const struct pg_stmt flow_start_keyed =
    START_KEYED_STMT("flow_start_keyed", start_keyed_params, "", "", PG_GIVES(STORE_CLAIM_COLUMNS));
static const struct pg_stmt flow_start_keyed_event =
    START_KEYED_STMT("flow_start_keyed_event", start_keyed_event_params, ", " START_OUTBOX(AGAIN),
                     START_HAS_EVENT, PG_GIVES(STORE_CLAIM_COLUMNS, STORE_HAS_EVENT_COLUMN));

/* A start with a hold: as with a key, the row is made first, and flow and document follow if the
 * key was free. A key is free of its row if the flow of that row is long over, or does not exist:
 * that is so only if this statement's snapshot has the row, since it has the row's flow then, too.
 * A row that another start has just made is returned as it is. Holds that wait are counted through
 * flow_approval. */
/* clang-format off */
#define HOLDS_LIMIT 10000
#define HOLD_HAS_ROOM                                                                              \
    "((select count(*) from (select 1 from sluice.flow w where w.account_id = :account_id and "    \
    "w.waiting_for = 'approval' and w.template_key <> '' and w.template_key = :template_key "      \
    "limit " STORE_TEXT_OF(HOLDS_LIMIT) ") o) < " STORE_TEXT_OF(HOLDS_LIMIT) " or "                \
    "(select count(*) > 0 from sluice.hold h where h.account_id = :account_id and h.key = :key))"
#define HOLD_TAKE(column) "case when n.is_free then excluded." column " else t." column " end"
#define HOLD_OR_EARLIER                                                                            \
    " on conflict (account_id, key) do update set (flow_id, fingerprint, asker, execution_id, "    \
    "lifetime_ms, created_at) = (select "                                                          \
    HOLD_TAKE("flow_id") ", "                                                                      \
    HOLD_TAKE("fingerprint") ", "                                                                  \
    HOLD_TAKE("asker") ", "                                                                        \
    "case when not n.is_free then t.execution_id end, "                                            \
    HOLD_TAKE("lifetime_ms") ", "                                                                  \
    HOLD_TAKE("created_at") " from "                                                               \
    "(select (select count(*) > 0 from sluice.hold h where h.account_id = t.account_id and "       \
    "h.key = t.key and h.flow_id = t.flow_id and not " STORE_HOLD_IS_KEPT("h") ") as is_free "     \
    "offset 0) n) returning " STORE_HOLD_ROW("t")
#define THE_HOLD " from @input held c where c.account_id = :account_id and c.key = :key"
#define IF_HELD  THE_HOLD " and c.flow_id = :id"
static const struct pg_column start_held_params[] = {
    STORE_FLOW_OF(account_id, PG_UUID), PG_ARG("key", PG_TEXT), STORE_FLOW_OF(id, PG_UUID),
    START_REST, START_MORE, STORE_FLOW_EVENT_PARAMS,
    PG_ARG("fingerprint", PG_BYTES), PG_ARG("asker", PG_UUID), PG_ARG("lifetime_ms", PG_I64)};
static const struct pg_stmt flow_start_held = {
    .name = "flow_start_held",
    .sql = "with held as (insert into sluice.hold as t (account_id, key, flow_id, fingerprint, "
           "asker, lifetime_ms, created_at) select :account_id, :key, :id, :fingerprint, :asker, "
           ":lifetime_ms, now() @from where " HOLD_HAS_ROOM HOLD_OR_EARLIER "), "
           "made as (insert into sluice.flow (" FLOW_COLUMNS ", title) "
           "select " FLOW_VALUES ", :title" IF_HELD AGAIN " returning id), "
           "documented as (insert into sluice.flow_doc (" DOC_COLUMNS ", trace) "
           "select " DOC_VALUES ", :trace" IF_HELD AGAIN "), " START_OUTBOX(AGAIN)
           "select :ord, " STORE_HOLD_ROW("c") ", " STORE_HAS_EVENT(":event_id") THE_HOLD,
    PG_PARAMS(start_held_params),
    PG_GIVES(STORE_HOLD_OF(hold, ), STORE_HAS_EVENT_COLUMN),
    .key_count = 2,
    .access = PG_WRITE,
};
/* clang-format on */
_Static_assert(HOLDS_LIMIT == HOLDS_OPEN_MAX, "as callers know it");

static struct pg_value event_id(const struct flow_event *event)
{
    return uuid_is_nil(event->id) ? pg_null(PG_UUID) : pg_uuid(event->id);
}

enum { EVENT_VALUES = 5 };
/* Fills in the values of STORE_FLOW_EVENT_PARAMS; returns their number. */
static size_t fill_event(struct pg_value *values, const struct flow_event *event)
{
    values[0] = event_id(event);
    values[1] = pg_text(event->step_key);
    values[2] = pg_text(event->error_code);
    values[3] = pg_text(event->url);
    values[4] = pg_text(event->rejected_by);
    return EVENT_VALUES;
}

void store_flow_start(STORE_ARGS, const struct flow_start *start)
{
    const struct flow *flow = start->flow;
    bool is_running = flow->status == FLOW_RUNNING;
    /* A flow that waits or completes at once goes through two states in one insert. */
    ASSERT(flow->rev == 1 ? is_running : flow->rev == 2 && !is_running);
    ASSERT(is_running == !uuid_is_nil(flow->owner));
    const struct claim *claim = start->claim;
    bool has_event = !uuid_is_nil(start->event.id);
    const struct hold *hold = start->hold;
    ASSERT(!claim || !hold);
    bool has_more = start->trace.ptr || start->title.ptr;
    struct pg_value values[9 + EVENT_VALUES] = {
        claim  ? pg_text(claim->key)
        : hold ? pg_text(hold->key)
               : pg_null(PG_TEXT),
        pg_json(start->input), pg_text_or_empty(start->actor), pg_json(start->waiting_input)};
    size_t count = 4;
    if (has_more || has_event || claim || hold) {
        values[count++] = pg_text(start->trace);
        values[count++] = pg_text(start->title);
    }
    if (claim) {
        ASSERT(claim->key.ptr && uuid_eq(claim->execution_id, flow->id));
        ASSERT(claim->lifetime_ms > 0 && claim->guards_until == 0);
        values[count++] = pg_bytes(slice_of(claim->fingerprint, sizeof(claim->fingerprint)));
        values[count++] = pg_i64(claim->lifetime_ms);
        values[count++] = uuid_is_nil(claim->owner) ? pg_null(PG_UUID) : pg_uuid(claim->owner);
    }
    if (has_event || hold)
        count += fill_event(&values[count], &start->event);
    if (hold) {
        values[count++] = pg_bytes(slice_of(hold->fingerprint, sizeof(hold->fingerprint)));
        values[count++] = pg_uuid(hold->asker);
        values[count++] = pg_i64(hold->lifetime_ms);
        store_ask_of(pool, query, op, &flow_start_held, flow, values, count);
        return;
    }
    if (!claim) {
        store_ask_of(pool, query, op,
                     has_event  ? &flow_start_event
                     : has_more ? &flow_start_more
                                : &flow_start,
                     flow, &values[1], count - 1);
        return;
    }
    store_ask_of(pool, query, op, has_event ? &flow_start_keyed_event : &flow_start_keyed, flow,
                 values, count);
}

int store_flow_start_result(const struct pg_query *query)
{
    if (query->status != OK)
        return query->status;
    return query->rows.count ? OK : ERR_INVALID;
}

/* ---- the owner's transitions ---- */

/* The columns of the finished attempt, at the end of both statements' parameters. They are all
 * NULL if there is no attempt, and STEPPED then inserts nothing. */
#define FINISHED_PARAMS                                                                      \
    PG_ARG("f_step", PG_I64), PG_ARG("f_attempt", PG_I64), PG_ARG("f_status", PG_TEXT),      \
        PG_ARG("f_started_at", PG_TIME), PG_ARG("f_finished_at", PG_TIME),                   \
        PG_ARG("f_input", PG_JSON), PG_ARG("f_output", PG_JSON), PG_ARG("f_error", PG_JSON), \
        PG_ARG("f_integration_id", PG_TEXT), PG_ARG("f_action_id", PG_TEXT),                 \
        PG_ARG("f_api_key_id", PG_UUID)
static const char *const ended_words[] = {"failed", "completed"};
static const struct pg_words endings = {ended_words, ARRAY_LEN(ended_words), 0};
/* The columns above as members of an attempt. */
static const struct pg_column finished_params[] = {
    PG_OF("f_step", PG_I64, struct flow_step, step_index),
    PG_OF("f_attempt", PG_I64, struct flow_step, attempt),
    PG_WORD("f_status", struct flow_step, is_completed, &endings),
    PG_OF("f_started_at", PG_TIME, struct flow_step, started_at),
    PG_OF("f_finished_at", PG_TIME, struct flow_step, finished_at),
    PG_OF("f_input", PG_JSON, struct flow_step, input),
    PG_OF("f_output", PG_JSON, struct flow_step, output),
    PG_OF("f_error", PG_JSON, struct flow_step, error),
    PG_OF("f_integration_id", PG_TEXT, struct flow_step, integration_id),
    PG_OF("f_action_id", PG_TEXT, struct flow_step, action_id),
    PG_OF("f_api_key_id", PG_UUID, struct flow_step, api_key_id, .has_null = true)};

/* RETURNING passes on the attempt's parameters, so that `stepped` inserts for exactly the flows
 * that were moved; in set mode it would have to join the input again. */
#define MOVED_COLUMNS                                                                 \
    ":ord as ord, :account_id as account_id, :id as id, :f_step as f_step, "          \
    ":f_attempt as f_attempt, :f_status as f_status, :f_started_at as f_started_at, " \
    ":f_finished_at as f_finished_at, :f_input as f_input, :f_output as f_output, "   \
    ":f_error as f_error, :f_integration_id as f_integration_id, "                    \
    ":f_action_id as f_action_id, :f_api_key_id as f_api_key_id"
#define MOVED_EVENT                                                 \
    ", t.parent_id, t.rev, t.updated_at, t.template_key, t.title, " \
    "t.status, " STORE_FLOW_EVENT_TEXTS
/* The kind follows from the status: waiting (for an approval), completed, failed. */
#define MOVED_OUTBOX ", " STORE_FLOW_OUTBOX_OF("'flow.' || c.status", "moved")
static const struct pg_column moved_columns[] = {STORE_HAS_EVENT_COLUMN};

/* A flow with an owner is running (a CHECK), so owner alone is the fence. It is written neither as
 * an equality nor with the status, since the planner would then consider the partial index
 * flow_owner and walk all flows of the owner (pg/stmt.c). */
#define IF_OWNED "and t.rev = :rev - 1 and t.owner is not distinct from :owner "
/* The further fence of a statement without an outbox: an event has no endpoint. It is not an
 * `exists`, of which the planner might read all endpoints at once. */
#define IF_UNHEARD                                                  \
    "and (:event_id is null or (select w.id from sluice.webhook w " \
    "where w.account_id = coalesce(t.parent_id, t.account_id) limit 1) is null) "

#define STEP_INSERT                                                                    \
    "insert into sluice.flow_step (account_id, flow_id, step_index, attempt, status, " \
    "started_at, finished_at, input, output, error, integration_id, action_id, api_key_id) "

#define STEPPED                                                                      \
    "stepped as (" STEP_INSERT                                                       \
    "select m.account_id, m.id, m.f_step, m.f_attempt, m.f_status, m.f_started_at, " \
    "m.f_finished_at, m.f_input, m.f_output, m.f_error, m.f_integration_id, "        \
    "m.f_action_id, m.f_api_key_id from moved m "                                    \
    "where m.f_step is not null"

/* Returns which of the queries were executed. In a resend a query may find its own token in the
 * row, even while its first attempt is still committing it: FOR SHARE waits for that commit and
 * then sees the row's last version. `:ord in` is a hashed subplan, see execution.c. */
#define ANSWER_ONCE  "select m.ord from moved m"
#define ANSWER_AGAIN "select :ord" AGAIN_IF
#define EVENT_ONCE   "select m.ord, " STORE_HAS_EVENT("m.event_id") " from moved m"
#define EVENT_AGAIN  "select :ord, " STORE_HAS_EVENT(":event_id") AGAIN_IF
#define AGAIN_IF                                            \
    " @from where :ord in (select m.ord from moved m) "     \
    "or (select f.op_token = :op_token from sluice.flow f " \
    "where f.account_id = :account_id and f.id = :id for share)"

/* What both kinds of transition set. */
#define NEXT_PARAMS                                                                               \
    STORE_FLOW_OF(account_id, PG_UUID), STORE_FLOW_OF(id, PG_UUID), STORE_FLOW_OF(rev, PG_I64),   \
        PG_ARG("owner", PG_UUID), PG_ARG("op_token", PG_UUID), STORE_FLOW_OF(step_index, PG_I64), \
        STORE_FLOW_OF(attempt, PG_I64), STORE_FLOW_OF(adoptions, PG_I64),                         \
        STORE_FLOW_OF(updated_at, PG_TIME)
#define NEXT                                                                           \
    "rev = :rev, op_token = :op_token, step_index = :step_index, attempt = :attempt, " \
    "adoptions = :adoptions, updated_at = :updated_at, "
#define MOVE_PARAMS                                                            \
    NEXT_PARAMS, PG_WORD("status", struct flow, status, &store_flow_statuses), \
        STORE_FLOW_OF(is_begun, PG_BOOL)
#define UNHEARD_PARAMS PG_ARG("event_id", PG_UUID), FINISHED_PARAMS
#define HEARD_PARAMS   STORE_FLOW_EVENT_PARAMS, FINISHED_PARAMS
static const struct pg_column move_params[] = {MOVE_PARAMS, UNHEARD_PARAMS};
static const struct pg_column move_heard_params[] = {MOVE_PARAMS, HEARD_PARAMS};
/* A flow that ends clears its owner in the same statement, as the CHECK demands. */
#define STAYS "owner = case when :status = 'running' then t.owner end, "
#define MOVE_SQL(took, fence, event, rest)                                    \
    "with moved as (update sluice.flow t set " NEXT "status = :status, " took \
    "is_begun = :is_begun, "                                                  \
    "completed_at = case when :status = 'completed' then :updated_at end "    \
    "@update(sluice.flow) " fence "returning " MOVED_COLUMNS event "), " STEPPED rest ")"

/* Separate statements because flow_doc is partitioned: merely opening a plan that updates all
 * partitions costs more than a transition. flow_doc is found by any(array[]) and two bounds for the
 * reasons of pg/stmt.c; its row has existed since the start, and `shown` may be NULL. */
#define PARK_PARAMS                                                                    \
    NEXT_PARAMS, PG_WORD("waiting_for", struct flow, waiting_for, &store_flow_pauses), \
        STORE_FLOW_OF(wake_at, PG_TIME), PG_ARG("shown", PG_JSON)
static const struct pg_column park_params[] = {PARK_PARAMS, UNHEARD_PARAMS};
static const struct pg_column park_heard_params[] = {PARK_PARAMS, HEARD_PARAMS};
#define PARK_SQL(took, fence, event, rest)                                               \
    "with moved as (update sluice.flow t set " NEXT "status = 'waiting', owner = null, " \
    "is_begun = false, waiting_for = :waiting_for, wake_at = :wake_at "                  \
    "@update(sluice.flow) " fence "returning " MOVED_COLUMNS event                       \
    ", :shown as shown), " STEPPED rest                                                  \
    "), shown as (update sluice.flow_doc d set waiting_input = m.shown from "            \
    "moved m where d.account_id = any(array[m.account_id]) and d.flow_id >= m.id and "   \
    "d.flow_id <= m.id)"

/* The same two transitions from a pause whose time has come: one statement, and so one commit,
 * takes the flow and makes its first transition. All nodes with a timer send it at the same
 * time, in batches. SKIP LOCKED: a statement that waited for another's row lock here would
 * itself lock rows that the other waits for. The holder of the lock handles skipped rows, or the
 * next scan for due flows finds them (store_due_scan). now() is the database's clock, so a node
 * with a fast clock wakes nothing early. */
#define IF_DUE                                                                          \
    "and t.rev = :rev - 1 and t.waiting_for is not null and t.wake_at <= now() "        \
    "and t.ctid = (select k.ctid from sluice.flow k where k.account_id = t.account_id " \
    "and k.id = t.id for update skip locked) "
/* waiting_for is cleared with the pause; wake_at stays (store/flow.h explains its meaning then). */
#define TAKEN "owner = case when :status = 'running' then :owner end, waiting_for = null, "

/* A transition in two forms, each with its resend. Few accounts have an endpoint: the first form
 * plans no outbox, and transitions with and without an event share a batch. */
enum { UNHEARD, UNHEARD_AGAIN, HEARD, HEARD_AGAIN, FORMS };
#define FORM(stmt_name, params, sql_, ...)                                                     \
    {                                                                                          \
        .name = stmt_name, .sql = sql_, PG_PARAMS(params), .key_count = 2, .access = PG_WRITE, \
        __VA_ARGS__                                                                            \
    }
#define FORMS_OF(name, SQL, kind, took, fence)                                              \
    {                                                                                       \
        [UNHEARD] = FORM(#name, kind##_params,                                              \
                         SQL(took, fence IF_UNHEARD, "", "") " " ANSWER_ONCE,               \
                         .again = &name[UNHEARD_AGAIN]),                                    \
        [UNHEARD_AGAIN] = FORM(#name "_again", kind##_params,                               \
                               SQL(took, fence IF_UNHEARD, "", AGAIN) " " ANSWER_AGAIN, ),  \
        [HEARD] = FORM(#name "_heard", kind##_heard_params,                                 \
                       SQL(took, fence, MOVED_EVENT, "") MOVED_OUTBOX EVENT_ONCE,           \
                       PG_COLUMNS(moved_columns), .again = &name[HEARD_AGAIN]),             \
        [HEARD_AGAIN] = FORM(#name "_heard_again", kind##_heard_params,                     \
                             SQL(took, fence, MOVED_EVENT, AGAIN) MOVED_OUTBOX EVENT_AGAIN, \
                             PG_COLUMNS(moved_columns))                                     \
    }
static const struct pg_stmt flow_move[FORMS] = FORMS_OF(flow_move, MOVE_SQL, move, STAYS, IF_OWNED);
static const struct pg_stmt flow_wake[FORMS] = FORMS_OF(flow_wake, MOVE_SQL, move, TAKEN, IF_DUE);
static const struct pg_stmt flow_park[FORMS] = FORMS_OF(flow_park, PARK_SQL, park, , IF_OWNED);
static const struct pg_stmt flow_wake_park[FORMS] =
    FORMS_OF(flow_wake_park, PARK_SQL, park, , IF_DUE);

/* Fills in the last parameters of a transition: the finished attempt, or NULLs. */
static void fill_finished(struct pg_value *params, const struct flow_step *step)
{
    static const struct pg_stmt finished = {PG_PARAMS(finished_params)};
    if (step) {
        ASSERT(step->is_completed == !step->error.ptr && step->attempt > 0);
        pg_bind(&finished, step, PG_NO_VALUES, params);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(finished_params); i++)
        params[i] = pg_null(finished_params[i].type);
}

void store_flow_move(STORE_ARGS, const struct flow_move *move)
{
    static const struct pg_stmt *const forms[2][2] = {{flow_move, flow_wake},
                                                      {flow_park, flow_wake_park}};
    const struct flow *next = move->next;
    bool is_parked = next->status == FLOW_WAITING;
    /* owner, op_token, the shown document if it parks, the event, and the attempt */
    struct pg_value values[3 + EVENT_VALUES + ARRAY_LEN(finished_params)] = {
        pg_uuid(move->owner), pg_uuid(move->op_token)};
    size_t count = 2;
    /* A cancel does not come from the owner, so it has no owner fence (flow_take.c). */
    ASSERT(next->rev > 1 && next->status != FLOW_CANCELLED);
    ASSERT(!is_parked || (next->waiting_for != FLOW_WAITS_NOT && !next->is_begun));
    if (is_parked)
        values[count++] = pg_json(move->waiting_input);
    if (move->has_outbox)
        count += fill_event(&values[count], &move->event);
    else
        values[count++] = event_id(&move->event);
    fill_finished(&values[count], move->finished);
    store_ask_of(pool, query, op,
                 &forms[is_parked][move->is_wake][move->has_outbox ? HEARD : UNHEARD], next, values,
                 count + ARRAY_LEN(finished_params));
}

/* The key's own policy, `@`, and the revision; either may be empty. */
struct key_policy store_flow_policy(slice text)
{
    int64_t rev;
    bool is_found = text.ptr != NULL;
    slice named = slice_split(&text, '@');
    if (!is_found) /* the key was deleted; a name without a row denies everything */
        return store_key_policy(SLICE("-"), 0);
    return store_key_policy(named.len > 0 ? named : SLICE_NONE, slice_to_i64(text, &rev) ? rev : 0);
}

#define EACH_FORM(first) first, first + UNHEARD_AGAIN, first + HEARD, first + HEARD_AGAIN
const struct pg_stmt *const flow_stmts[] = {
    &flow_start_keyed,
    &flow_start_keyed_event,
    &flow_start_held,
    &flow_start,
    &flow_start_again,
    &flow_start_more,
    &flow_start_more_again,
    &flow_start_event,
    &flow_start_event_again,
    EACH_FORM(&flow_move[UNHEARD]),
    EACH_FORM(&flow_wake[UNHEARD]),
    EACH_FORM(&flow_park[UNHEARD]),
    EACH_FORM(&flow_wake_park[UNHEARD]),
    NULL,
};
