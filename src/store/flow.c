/*
 * Flows: start, and the transitions of the node that owns one.
 *
 * A transition updates one row of sluice.flow by its primary key, where rev and owner are still
 * what the caller knows, and inserts the row of the attempt that has ended, in the same statement.
 * No row back means that the flow was cancelled or adopted: the caller drops it. rev grows by one
 * with each change, so of two transitions from one state one wins.
 *
 * At a replay after a lost commit the `again` form is sent. It finds rev already grown and so
 * updates nothing, but finds its op_token in the row and answers as the first sending would have.
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

const struct pg_column store_flow_columns[STORE_FLOW_COLUMNS] = {STORE_FLOW_ROW_COLUMNS};

static enum flow_status parse_status(slice name)
{
    for (unsigned i = 0; i < ARRAY_LEN(status_names); i++)
        if (slice_eq_cstr(name, status_names[i]))
            return (enum flow_status)i;
    UNREACHABLE("a CHECK of the table");
    return FLOW_FAILED;
}

static enum flow_waiting parse_waiting(slice name)
{
    for (unsigned i = FLOW_WAITS_TIME; i < ARRAY_LEN(waiting_names); i++)
        if (slice_eq_cstr(name, waiting_names[i]))
            return (enum flow_waiting)i;
    return FLOW_WAITS_NOT;
}

void store_flow_read(const struct pg_rows *rows, size_t row, size_t col, struct flow *flow)
{
    *flow = (struct flow){
        .account_id = pg_get_uuid(rows, row, col),
        .id = pg_get_uuid(rows, row, col + 1),
        .template_key = pg_get_bytes(rows, row, col + 2),
        .template_version = pg_get_uuid(rows, row, col + 3),
        .trigger_type = pg_get_bytes(rows, row, col + 4),
        .status = parse_status(pg_get_bytes(rows, row, col + 5)),
        .rev = pg_get_i64(rows, row, col + 6),
        .owner = pg_get_uuid(rows, row, col + 7),
        .step_index = pg_get_i64(rows, row, col + 8),
        .attempt = pg_get_i64(rows, row, col + 9),
        .is_begun = pg_get_bool(rows, row, col + 10),
        .adoptions = pg_get_i64(rows, row, col + 11),
        .waiting_for = parse_waiting(pg_get_bytes(rows, row, col + 12)),
        .wake_at = pg_get_time(rows, row, col + 13),
        .deadline = pg_get_time(rows, row, col + 14),
        .created_at = pg_get_time(rows, row, col + 15),
        .updated_at = pg_get_time(rows, row, col + 16),
        .completed_at = pg_get_time(rows, row, col + 17),
    };
}

/* ---- start ---- */

static const struct pg_column start_params[] = {
    {"account_id", PG_UUID}, {"id", PG_UUID},           {"template_key", PG_TEXT},
    {"version", PG_UUID},    {"trigger", PG_TEXT},      {"status", PG_TEXT},
    {"rev", PG_I64},         {"owner", PG_UUID},        {"step_index", PG_I64},
    {"attempt", PG_I64},     {"is_begun", PG_BOOL},     {"waiting_for", PG_TEXT},
    {"wake_at", PG_TIME},    {"deadline", PG_TIME},     {"created_at", PG_TIME},
    {"updated_at", PG_TIME}, {"completed_at", PG_TIME}, {"input", PG_JSON},
    {"actor", PG_TEXT},      {"shown", PG_JSON},
};
/* What the second sending adds: the first inserts rows that cannot be there, and need not check. */
#define AGAIN " on conflict do nothing"

/* A start may be requested twice, by its caller's id. The second sending has to distinguish a flow
 * that it made itself from one that another request made under the same id: created_at, in
 * microseconds and drawn once per request, is the same only for its own. */
#define START_STMT(stmt_name, rest, answer, ...)                                                 \
    {                                                                                            \
        .name = stmt_name,                                                                       \
        .sql = "with made as (insert into sluice.flow (account_id, id, template_key, "           \
               "template_version, trigger_type, status, rev, op_token, owner, step_index, "      \
               "attempt, is_begun, adoptions, waiting_for, wake_at, deadline, created_at, "      \
               "updated_at, completed_at) "                                                      \
               "@row :account_id, :id, :template_key, :version, :trigger, :status, :rev, :id, "  \
               ":owner, :step_index, :attempt, :is_begun, 0::bigint, :waiting_for, :wake_at, "   \
               ":deadline, :created_at, :updated_at, :completed_at @end" rest                    \
               " returning id), documented as ("                                                 \
               "insert into sluice.flow_doc (account_id, flow_id, input, actor, waiting_input) " \
               "@row :account_id, :id, :input, :actor, :shown @end" rest ") "                    \
               "select :ord @from" answer,                                                       \
        PG_PARAMS(start_params), .key_count = 2, .is_write = true, .is_replayable = true,        \
        __VA_ARGS__                                                                              \
    }
#define START_IS_OURS                                        \
    " where :id in (select m.id from made m) or "            \
    "(select f.created_at = :created_at from sluice.flow f " \
    "where f.account_id = :account_id and f.id = :id)"
static const struct pg_stmt flow_start_again =
    START_STMT("flow_start_again", AGAIN, START_IS_OURS, );
static const struct pg_stmt flow_start =
    START_STMT("flow_start", "", "", .again = &flow_start_again);

static struct pg_value waiting_text(enum flow_waiting waiting)
{
    return pg_text(waiting == FLOW_WAITS_NOT ? SLICE_NONE : slice_cstr(waiting_names[waiting]));
}

void store_flow_start(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      const struct flow_start *start)
{
    const struct flow *flow = start->flow;
    bool is_running = flow->status == FLOW_RUNNING;
    struct pg_value *params = query->params;
    /* A flow that at once waits or is completed has gone through two states in one insert. */
    ASSERT(flow->rev == 1 ? is_running : flow->rev == 2 && !is_running);
    ASSERT(is_running == !uuid_is_nil(flow->owner));
    params[0] = pg_uuid(flow->account_id);
    params[1] = pg_uuid(flow->id);
    params[2] = pg_text(flow->template_key);
    params[3] = pg_uuid(flow->template_version);
    params[4] = pg_text(flow->trigger_type);
    params[5] = pg_text(slice_cstr(status_names[flow->status]));
    params[6] = pg_i64(flow->rev);
    params[7] = is_running ? pg_uuid(flow->owner) : pg_null(PG_UUID);
    params[8] = pg_i64(flow->step_index);
    params[9] = pg_i64(flow->attempt);
    params[10] = pg_bool(flow->is_begun);
    params[11] = waiting_text(flow->waiting_for);
    params[12] = pg_time(flow->wake_at);
    params[13] = pg_time(flow->deadline);
    params[14] = pg_time(flow->created_at);
    params[15] = pg_time(flow->updated_at);
    params[16] = pg_time(flow->completed_at);
    params[17] = pg_json(start->input);
    params[18] = pg_text_or_empty(start->actor);
    params[19] = pg_json(start->waiting_input);
    store_submit(pool, query, op, &flow_start);
}

int store_flow_start_result(const struct pg_query *query)
{
    if (query->status != OK)
        return query->status;
    return query->rows.count ? OK : ERR_INVALID;
}

/* ---- the owner's transitions ---- */

/* The columns of the attempt that has ended, at the end of both statements' parameters; all NULL
 * where none has, and then STEPPED inserts nothing. */
#define FINISHED_PARAMS                                                                          \
    {"f_step", PG_I64}, {"f_attempt", PG_I64}, {"f_status", PG_TEXT}, {"f_started_at", PG_TIME}, \
        {"f_finished_at", PG_TIME}, {"f_input", PG_JSON}, {"f_output", PG_JSON},                 \
    {                                                                                            \
        "f_error", PG_JSON                                                                       \
    }
enum { FINISHED_COUNT = 8 };

/* RETURNING carries the attempt's parameters on, so that `stepped` inserts for exactly the flows
 * that were moved; in set mode it would have to join the input again. */
#define MOVED_COLUMNS                                                                 \
    ":ord as ord, :account_id as account_id, :id as id, :f_step as f_step, "          \
    ":f_attempt as f_attempt, :f_status as f_status, :f_started_at as f_started_at, " \
    ":f_finished_at as f_finished_at, :f_input as f_input, :f_output as f_output, "   \
    ":f_error as f_error"

/* A flow with an owner is running (a CHECK), so owner is the whole fence. It is written neither as
 * an equality nor with the status, since the planner would then consider the partial index
 * flow_owner and walk all flows of the owner (pg/stmt.c). */
#define WHERE_OURS "and t.rev = :rev - 1 and t.owner is not distinct from :owner returning "

#define STEP_INSERT                                                                    \
    "insert into sluice.flow_step (account_id, flow_id, step_index, attempt, status, " \
    "started_at, finished_at, input, output, error) "

#define STEPPED                                                                      \
    "stepped as (" STEP_INSERT                                                       \
    "select m.account_id, m.id, m.f_step, m.f_attempt, m.f_status, m.f_started_at, " \
    "m.f_finished_at, m.f_input, m.f_output, m.f_error from moved m "                \
    "where m.f_step is not null"

/* Which of the queries were done. At a second sending a query may find its own token in the row,
 * also while the first is still about to commit it: FOR SHARE waits for that commit and then sees
 * the row's last version. `:ord in` is a hashed subplan, see execution.c. */
#define ANSWER_ONCE "select m.ord from moved m"
#define ANSWER_AGAIN                                               \
    "select :ord @from where :ord in (select m.ord from moved m) " \
    "or (select f.op_token = :op_token from sluice.flow f "        \
    "where f.account_id = :account_id and f.id = :id for share)"

static const struct pg_column move_params[] = {
    {"account_id", PG_UUID}, {"id", PG_UUID},       {"rev", PG_I64},         {"owner", PG_UUID},
    {"op_token", PG_UUID},   {"status", PG_TEXT},   {"step_index", PG_I64},  {"attempt", PG_I64},
    {"is_begun", PG_BOOL},   {"adoptions", PG_I64}, {"updated_at", PG_TIME}, FINISHED_PARAMS,
};
/* A flow that ends gives up its owner in the same statement, as the CHECK wants it. */
#define STAYS "owner = case when :status = 'running' then t.owner end, "
#define MOVE_STMT(stmt_name, took, fence, rest, answer, ...)                                \
    {                                                                                       \
        .name = stmt_name,                                                                  \
        .sql = "with moved as (update sluice.flow t set rev = :rev, op_token = :op_token, " \
               "status = :status, " took                                                    \
               "step_index = :step_index, attempt = :attempt, is_begun = :is_begun, "       \
               "adoptions = :adoptions, updated_at = :updated_at, "                         \
               "completed_at = case when :status = 'completed' then :updated_at end "       \
               "@update(sluice.flow) " fence MOVED_COLUMNS "), " STEPPED rest ") " answer,  \
        PG_PARAMS(move_params), .key_count = 2, .is_write = true, .is_replayable = true,    \
        __VA_ARGS__                                                                         \
    }
static const struct pg_stmt flow_move_again =
    MOVE_STMT("flow_move_again", STAYS, WHERE_OURS, AGAIN, ANSWER_AGAIN, );
static const struct pg_stmt flow_move =
    MOVE_STMT("flow_move", STAYS, WHERE_OURS, "", ANSWER_ONCE, .again = &flow_move_again);

/* A statement of its own because of flow_doc, which is partitioned: merely opening a plan that
 * updates all partitions costs more than a transition. flow_doc is found by any(array[]) and two
 * bounds for the reasons of pg/stmt.c; it has a row since the start, and `shown` may be NULL. */
static const struct pg_column park_params[] = {
    {"account_id", PG_UUID}, {"id", PG_UUID},          {"rev", PG_I64},         {"owner", PG_UUID},
    {"op_token", PG_UUID},   {"waiting_for", PG_TEXT}, {"step_index", PG_I64},  {"attempt", PG_I64},
    {"wake_at", PG_TIME},    {"adoptions", PG_I64},    {"updated_at", PG_TIME}, {"shown", PG_JSON},
    FINISHED_PARAMS,
};
#define PARK_STMT(stmt_name, fence, rest, answer, ...)                                           \
    {                                                                                            \
        .name = stmt_name,                                                                       \
        .sql = "with moved as (update sluice.flow t set rev = :rev, op_token = :op_token, "      \
               "status = 'waiting', owner = null, step_index = :step_index, "                    \
               "attempt = :attempt, is_begun = false, adoptions = :adoptions, "                  \
               "updated_at = :updated_at, waiting_for = :waiting_for, wake_at = :wake_at "       \
               "@update(sluice.flow) " fence MOVED_COLUMNS ", :shown as shown), " STEPPED rest   \
               "), shown as (update sluice.flow_doc d set waiting_input = m.shown from moved m " \
               "where d.account_id = any(array[m.account_id]) and d.flow_id >= m.id and "        \
               "d.flow_id <= m.id) " answer,                                                     \
        PG_PARAMS(park_params), .key_count = 2, .is_write = true, .is_replayable = true,         \
        __VA_ARGS__                                                                              \
    }
static const struct pg_stmt flow_park_again =
    PARK_STMT("flow_park_again", WHERE_OURS, AGAIN, ANSWER_AGAIN, );
static const struct pg_stmt flow_park =
    PARK_STMT("flow_park", WHERE_OURS, "", ANSWER_ONCE, .again = &flow_park_again);

/* The same two transitions from a pause whose time has come: taking the flow and its first
 * transition are one statement, one commit. All nodes that hold a timer send it at the same time,
 * in batches. SKIP LOCKED: a statement that waited for another's row lock here would itself hold
 * rows that the other waits for. What is skipped is done by the holder of the lock, or found by the
 * next scan for due flows (store_flow_due). now() is the database's clock, so a node whose clock is
 * fast wakes nothing early. */
#define WHERE_DUE                                                                       \
    "and t.rev = :rev - 1 and t.waiting_for is not null and t.wake_at <= now() "        \
    "and t.ctid = (select k.ctid from sluice.flow k where k.account_id = t.account_id " \
    "and k.id = t.id for update skip locked) returning "
/* waiting_for goes with the pause; wake_at stays (store/flow.h says what it means then). */
#define TAKEN "owner = case when :status = 'running' then :owner end, waiting_for = null, "
static const struct pg_stmt flow_wake_again =
    MOVE_STMT("flow_wake_again", TAKEN, WHERE_DUE, AGAIN, ANSWER_AGAIN, );
static const struct pg_stmt flow_wake =
    MOVE_STMT("flow_wake", TAKEN, WHERE_DUE, "", ANSWER_ONCE, .again = &flow_wake_again);
static const struct pg_stmt flow_wake_park_again =
    PARK_STMT("flow_wake_park_again", WHERE_DUE, AGAIN, ANSWER_AGAIN, );
static const struct pg_stmt flow_wake_park =
    PARK_STMT("flow_wake_park", WHERE_DUE, "", ANSWER_ONCE, .again = &flow_wake_park_again);

static void fill_finished(struct pg_value *params, const struct flow_step *step)
{
    if (!step) {
        static const struct pg_column columns[] = {FINISHED_PARAMS};
        for (size_t i = 0; i < FINISHED_COUNT; i++)
            params[i] = pg_null(columns[i].type);
        return;
    }
    ASSERT(step->is_completed == !step->error.ptr && step->attempt > 0);
    params[0] = pg_i64(step->step_index);
    params[1] = pg_i64(step->attempt);
    params[2] = pg_text(step->is_completed ? SLICE("completed") : SLICE("failed"));
    params[3] = pg_time(step->started_at);
    params[4] = pg_time(step->finished_at);
    params[5] = pg_json(step->input);
    params[6] = pg_json(step->output);
    params[7] = pg_json(step->error);
}

static void fill_fence(struct pg_value *params, const struct flow_move *move)
{
    params[0] = pg_uuid(move->next->account_id);
    params[1] = pg_uuid(move->next->id);
    params[2] = pg_i64(move->next->rev);
    params[3] = pg_uuid(move->owner);
    params[4] = pg_uuid(move->op_token);
}

static void park(struct pg_pool *pool, struct pg_query *query, struct op *op,
                 const struct flow_move *move)
{
    const struct flow *next = move->next;
    struct pg_value *params = query->params;
    ASSERT(next->waiting_for != FLOW_WAITS_NOT && !next->is_begun);
    fill_fence(params, move);
    params[5] = waiting_text(next->waiting_for);
    params[6] = pg_i64(next->step_index);
    params[7] = pg_i64(next->attempt);
    params[8] = pg_time(next->wake_at);
    params[9] = pg_i64(next->adoptions);
    params[10] = pg_time(next->updated_at);
    params[11] = pg_json(move->waiting_input);
    fill_finished(&params[12], move->finished);
    store_submit(pool, query, op, move->is_wake ? &flow_wake_park : &flow_park);
}

void store_flow_move(struct pg_pool *pool, struct pg_query *query, struct op *op,
                     const struct flow_move *move)
{
    const struct flow *next = move->next;
    struct pg_value *params = query->params;
    /* Cancelling is not the owner's transition: it has no owner fence (flow_take.c). */
    ASSERT(next->rev > 1 && next->status != FLOW_CANCELLED);
    if (next->status == FLOW_WAITING) {
        park(pool, query, op, move);
        return;
    }
    fill_fence(params, move);
    params[5] = pg_text(slice_cstr(status_names[next->status]));
    params[6] = pg_i64(next->step_index);
    params[7] = pg_i64(next->attempt);
    params[8] = pg_bool(next->is_begun);
    params[9] = pg_i64(next->adoptions);
    params[10] = pg_time(next->updated_at);
    fill_finished(&params[11], move->finished);
    store_submit(pool, query, op, move->is_wake ? &flow_wake : &flow_move);
}

int store_flow_move_result(const struct pg_query *query)
{
    if (query->status != OK)
        return query->status;
    return query->rows.count ? OK : ERR_NOTFOUND;
}

const struct pg_stmt *const flow_stmts[] = {
    &flow_start,     &flow_start_again,     &flow_move, &flow_move_again,
    &flow_park,      &flow_park_again,      &flow_wake, &flow_wake_again,
    &flow_wake_park, &flow_wake_park_again, NULL,
};
