/*
 * Flows: start, the owner's transitions, items, and reads. rows_take.c has takes, and ends from
 * outside.
 */
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "seam/rows_flow.h"

/* ---- rows ---- */

struct row_flow *seam_find_flow(struct seam_store *store, struct uuid id)
{
    for (size_t i = 0; i < store->flows.count; i++)
        if (uuid_eq(store->flows.items[i].flow.id, id))
            return &store->flows.items[i];
    return NULL;
}

struct row_flow *seam_flow_of(struct seam_store *store, const struct pg_query *query,
                              const char *id)
{
    struct row_flow *row = seam_find_flow(store, seam_uuid(query, id));
    bool is_found = row && uuid_eq(row->flow.account_id, seam_uuid(query, "account_id"));
    return is_found ? row : NULL;
}

static const char *const waiting_names[] = {NULL, "time", "approval", "retry"};

static enum flow_waiting waiting_of(slice name)
{
    for (unsigned i = 1; i < ARRAY_LEN(waiting_names); i++)
        if (name.ptr && slice_eq_cstr(name, waiting_names[i]))
            return (enum flow_waiting)i;
    return FLOW_WAITS_NOT;
}

static enum flow_status status_of(slice name)
{
    for (unsigned i = 0; i <= FLOW_CANCELLED; i++)
        if (slice_eq_cstr(name, flow_status_name((enum flow_status)i)))
            return (enum flow_status)i;
    UNREACHABLE("no such status");
    return FLOW_FAILED;
}

/* Whether the row meets the CHECK constraints of sluice.flow. */
static bool is_legal(const struct flow *flow)
{
    bool has_owner = !uuid_is_nil(flow->owner);
    bool waits = flow->waiting_for != FLOW_WAITS_NOT;
    return (flow->status == FLOW_RUNNING) == has_owner && (flow->status == FLOW_WAITING) == waits &&
           (flow->wake_at != 0 || !waits || flow->waiting_for == FLOW_WAITS_APPROVAL) &&
           (!flow->is_begun || flow->attempt > 0) &&
           (flow->status != FLOW_COMPLETED || flow->completed_at != 0) && flow->rev > 0;
}

int seam_flow_set(struct seam_store *store, struct pg_query *query, struct row_flow *row,
                  const struct flow *after)
{
    struct flow before = row->flow;
    if (!is_legal(after))
        return ERR_INVALID;
    row->flow = *after;
    row->op_token = seam_uuid(query, "op_token");
    if (store->on_flow)
        store->on_flow(store->owner, &before, after, query);
    return OK;
}

size_t seam_flow_cells(const struct flow *flow, struct pg_value *cells)
{
    size_t n = 0;
    bool waits = flow->waiting_for != FLOW_WAITS_NOT;
    cells[n++] = pg_uuid(flow->account_id);
    cells[n++] = pg_uuid(flow->id);
    cells[n++] = pg_text(flow->template_key);
    cells[n++] = pg_uuid(flow->template_version);
    cells[n++] = pg_text(flow->trigger_type);
    cells[n++] = pg_text(slice_cstr(flow_status_name(flow->status)));
    cells[n++] = pg_i64(flow->rev);
    cells[n++] = uuid_is_nil(flow->owner) ? pg_null(PG_UUID) : pg_uuid(flow->owner);
    cells[n++] = pg_i64(flow->step_index);
    cells[n++] = pg_i64(flow->attempt);
    cells[n++] = pg_bool(flow->is_begun);
    cells[n++] = pg_i64(flow->adoptions);
    cells[n++] = waits ? pg_text(slice_cstr(waiting_names[flow->waiting_for])) : pg_null(PG_TEXT);
    cells[n++] = pg_time(flow->wake_at);
    cells[n++] = pg_time(flow->deadline);
    cells[n++] = pg_time(flow->created_at);
    cells[n++] = pg_time(flow->updated_at);
    cells[n++] = pg_time(flow->completed_at);
    cells[n++] = uuid_is_nil(flow->parent_id) ? pg_null(PG_UUID) : pg_uuid(flow->parent_id);
    return n;
}

/* ---- start ---- */

struct flow seam_flow_started(struct seam_store *store, const struct pg_query *query)
{
    return (struct flow){
        .account_id = seam_uuid(query, "account_id"),
        .id = seam_uuid(query, "id"),
        .template_key = seam_keep(store, seam_text(query, "template_key")),
        .template_version = seam_uuid(query, "version"),
        .trigger_type = seam_keep(store, seam_text(query, "trigger")),
        .status = status_of(seam_text(query, "status")),
        .rev = seam_i64(query, "rev"),
        .owner = seam_uuid(query, "owner"),
        .step_index = seam_i64(query, "step_index"),
        .attempt = seam_i64(query, "attempt"),
        .is_begun = seam_i64(query, "is_begun") != 0,
        .waiting_for = waiting_of(seam_text(query, "waiting_for")),
        .wake_at = seam_time(query, "wake_at"),
        .deadline = seam_time(query, "deadline"),
        .created_at = seam_time(query, "created_at"),
        .updated_at = seam_time(query, "updated_at"),
        .completed_at = seam_time(query, "completed_at"),
        .parent_id = seam_uuid(query, "parent_id"),
    };
}

static bool has_param(const struct pg_query *query, const char *name)
{
    for (size_t i = 0; i < query->stmt->param_count; i++)
        if (strcmp(query->stmt->params[i].name, name) == 0)
            return true;
    return false;
}

int seam_flow_add(struct seam_store *store, struct pg_query *query, const struct flow *flow)
{
    if (!is_legal(flow))
        return ERR_INVALID;
    struct row_flow *row = ROW_ADD(store, flows);
    *row = (struct row_flow){
        .flow = *flow,
        .op_token = flow->id,
        .input = seam_keep(store, seam_text(query, "input")),
        .actor = seam_keep(store, seam_text(query, "actor")),
        .waiting_input = seam_keep(store, seam_text(query, "shown")),
    };
    if (has_param(query, "trace")) {
        row->trace = seam_keep(store, seam_text(query, "trace"));
        row->title = seam_keep(store, seam_text(query, "title"));
    }
    if (store->on_flow)
        store->on_flow(store->owner, &(struct flow){0}, flow, query);
    return OK;
}

/* The second sending finds out from the time of a row whether the row is its own work, or that
 * of the first sending, or work of others. */
static int do_start(struct seam_store *store, struct pg_query *query)
{
    struct flow flow = seam_flow_started(store, query);
    const struct row_flow *other = seam_find_flow(store, flow.id);
    seam_rows(query, !other || other->flow.created_at == flow.created_at);
    if (other)
        return seam_is_again(query) ? OK : ERR_INVALID;
    return seam_flow_add(store, query, &flow);
}

/* Inserts both the key and the flow, or neither. The key must belong to this start, and the flow
 * must be new. */
static int do_start_keyed(struct seam_store *store, struct pg_query *query)
{
    struct flow flow = seam_flow_started(store, query);
    struct claim claim = {
        .account_id = flow.account_id,
        .key = seam_keep(store, seam_text(query, "key")),
        .execution_id = flow.id,
        .owner = seam_uuid(query, "holder"),
        .action_id = flow.template_key,
        .started_at = seam_store_now(),
    };
    slice fingerprint = seam_text(query, "fingerprint");
    memcpy(claim.fingerprint, fingerprint.ptr, sizeof(claim.fingerprint));
    if (!is_legal(&flow))
        return ERR_INVALID;
    struct row_claim *row =
        seam_claim_take(store, &claim, seam_store_now() + seam_i64(query, "lifetime_ms") * 1000,
                        seam_is_null(query, "holder"));
    seam_claim_put(store, query, row, false);
    bool is_ours = uuid_eq(row->claim.execution_id, flow.id);
    return is_ours && !seam_find_flow(store, flow.id) ? seam_flow_add(store, query, &flow) : OK;
}

/* ---- transitions ---- */

bool seam_step_is_there(struct seam_store *store, struct uuid flow_id, int64_t step,
                        int64_t attempt)
{
    for (size_t i = 0; i < store->steps.count; i++) {
        const struct row_step *row = &store->steps.items[i];
        if (uuid_eq(row->flow_id, flow_id) && row->step.step_index == step &&
            row->step.attempt == attempt)
            return true;
    }
    return false;
}

static void add_finished(struct seam_store *store, const struct pg_query *query)
{
    struct uuid flow_id = seam_uuid(query, "id");
    int64_t step = seam_i64(query, "f_step"), attempt = seam_i64(query, "f_attempt");
    if (seam_is_null(query, "f_step") || seam_step_is_there(store, flow_id, step, attempt))
        return;
    *ROW_ADD(store, steps) = (struct row_step){
        .flow_id = flow_id,
        .step = {.step_index = step,
                 .attempt = attempt,
                 .is_completed = pg_value_is(seam_param(query, "f_status"), "completed"),
                 .started_at = seam_time(query, "f_started_at"),
                 .finished_at = seam_time(query, "f_finished_at"),
                 .input = seam_keep(store, seam_text(query, "f_input")),
                 .output = seam_keep(store, seam_text(query, "f_output")),
                 .error = seam_keep(store, seam_text(query, "f_error"))},
    };
}

/* Whether rev is still the previous one, and the caller is still the owner. */
static bool is_ours(const struct seam_store *store, const struct pg_query *query,
                    const struct row_flow *row)
{
    if (store->bug == SEAM_BUG_NO_FENCE)
        return row->flow.status == FLOW_RUNNING;
    return row->flow.rev == seam_i64(query, "rev") - 1 &&
           uuid_eq(row->flow.owner, seam_uuid(query, "owner"));
}

/* Whether the flow still waits at that rev, and its time has come by the database's clock. */
static bool is_due(const struct pg_query *query, const struct row_flow *row)
{
    return row->flow.rev == seam_i64(query, "rev") - 1 && row->flow.waiting_for != FLOW_WAITS_NOT &&
           row->flow.wake_at != 0 && row->flow.wake_at <= seam_store_now();
}

/* Whether an endpoint may hear an event that the statement cannot write. */
static bool is_heard(const struct seam_store *store, const struct pg_query *query)
{
    return store->has_endpoint && query->stmt->column_count == 0 &&
           !seam_is_null(query, "event_id");
}

/* Returns the row if the statement's fence holds. Otherwise sets the rows of the answer, in which a
 * second sending finds its own token, and returns NULL. */
static struct row_flow *fenced(struct seam_store *store, struct pg_query *query)
{
    struct row_flow *row = seam_flow_of(store, query, "id");
    bool is_wake = strncmp(query->stmt->name, "flow_wake", 9) == 0;
    bool holds = row && !is_heard(store, query) &&
                 (is_wake ? is_due(query, row) : is_ours(store, query, row));
    bool is_done = row && seam_is_again(query) &&
                   uuid_eq(row->op_token, seam_uuid(query, "op_token"));
    seam_rows(query, holds || is_done);
    if (holds && !seam_is_null(query, "f_step") && !seam_is_again(query) &&
        seam_step_is_there(store, row->flow.id, seam_i64(query, "f_step"),
                           seam_i64(query, "f_attempt")))
        return NULL; /* a primary key: refused below */
    return holds ? row : NULL;
}

static int refused_or_missed(struct pg_query *query)
{
    bool is_refused = query->rows.count > 0 && !seam_is_again(query);
    return is_refused ? ERR_INVALID : OK;
}

static int do_move(struct seam_store *store, struct pg_query *query)
{
    struct row_flow *row = fenced(store, query);
    if (!row)
        return refused_or_missed(query);
    struct flow next = row->flow;
    next.rev = seam_i64(query, "rev");
    next.status = status_of(seam_text(query, "status"));
    bool is_wake = strncmp(query->stmt->name, "flow_wake", 9) == 0;
    if (is_wake)
        next.waiting_for = FLOW_WAITS_NOT;
    if (next.status != FLOW_RUNNING)
        next.owner = (struct uuid){{0}};
    else if (is_wake)
        next.owner = seam_uuid(query, "owner");
    next.step_index = seam_i64(query, "step_index");
    next.attempt = seam_i64(query, "attempt");
    next.is_begun = seam_i64(query, "is_begun") != 0;
    next.adoptions = seam_i64(query, "adoptions");
    next.updated_at = seam_time(query, "updated_at");
    next.completed_at = next.status == FLOW_COMPLETED ? next.updated_at : 0;
    int status = seam_flow_set(store, query, row, &next);
    if (status == OK)
        add_finished(store, query);
    return status;
}

static int do_park(struct seam_store *store, struct pg_query *query)
{
    struct row_flow *row = fenced(store, query);
    if (!row)
        return refused_or_missed(query);
    struct flow next = row->flow;
    next.rev = seam_i64(query, "rev");
    next.status = FLOW_WAITING;
    next.owner = (struct uuid){{0}};
    next.step_index = seam_i64(query, "step_index");
    next.attempt = seam_i64(query, "attempt");
    next.is_begun = false;
    next.adoptions = seam_i64(query, "adoptions");
    next.updated_at = seam_time(query, "updated_at");
    next.waiting_for = waiting_of(seam_text(query, "waiting_for"));
    next.wake_at = seam_time(query, "wake_at");
    int status = seam_flow_set(store, query, row, &next);
    if (status != OK)
        return status;
    row->waiting_input = seam_keep(store, seam_text(query, "shown"));
    add_finished(store, query);
    return OK;
}

/* ---- items of a fan-out ---- */

/* Applies only while the flow is at this rev and the caller owns it. */
static int do_item_insert(struct seam_store *store, struct pg_query *query)
{
    struct row_flow *row = seam_flow_of(store, query, "flow_id");
    struct row_item item = {
        .account_id = seam_uuid(query, "account_id"),
        .flow_id = seam_uuid(query, "flow_id"),
        .step_index = seam_i64(query, "step_index"),
        .item = seam_i64(query, "item"),
        .attempt = seam_i64(query, "attempt"),
        .at = seam_time(query, "at"),
        .fact = seam_keep(store, seam_text(query, "fact")),
        .output = seam_keep(store, seam_text(query, "output")),
        .error = seam_keep(store, seam_text(query, "error")),
    };
    bool holds = row && row->flow.rev == seam_i64(query, "rev") &&
                 uuid_eq(row->flow.owner, seam_uuid(query, "owner"));
    seam_rows(query, holds);
    for (size_t i = 0; i < store->items.count && holds; i++) {
        const struct row_item *other = &store->items.items[i];
        if (uuid_eq(other->flow_id, item.flow_id) && other->step_index == item.step_index &&
            other->item == item.item && other->attempt == item.attempt &&
            slice_eq(other->fact, item.fact))
            return OK; /* on conflict do nothing */
    }
    if (holds)
        *ROW_ADD(store, items) = item;
    return OK;
}

/* ---- reads ---- */

static int64_t size_of(slice document)
{
    return document.ptr ? (int64_t)document.len : -1;
}

static void put_step_frame(struct buf *out, const struct flow_step *step)
{
    buf_printf(out, "%" PRId64 " %" PRId64 " %d %" PRId64 " %" PRId64, step->step_index,
               step->attempt, step->error.ptr ? 0 : 1, step->started_at, step->finished_at);
    buf_printf(out, " %" PRId64 " %" PRId64 " %" PRId64 ";", size_of(step->input),
               size_of(step->output), size_of(step->error));
    buf_append(out, step->input);
    buf_append(out, step->output);
    buf_append(out, step->error);
}

/* Rows are added in the order of time. Frames are ordered by step and attempt. */
static void put_steps(struct seam_store *store, struct uuid flow_id, struct buf *out)
{
    for (int64_t at = 0, left = 1; left > 0; at++) {
        left = 0;
        for (size_t i = 0; i < store->steps.count; i++) {
            const struct row_step *row = &store->steps.items[i];
            if (!uuid_eq(row->flow_id, flow_id) || row->step.step_index < at)
                continue;
            left += row->step.step_index > at;
            if (row->step.step_index == at)
                put_step_frame(out, &row->step);
        }
        if (at == 0)
            left++;
    }
}

static int fact_of(slice fact)
{
    return slice_eq_cstr(fact, "begun") ? 0 : slice_eq_cstr(fact, "completed") ? 1 : 2;
}

static void put_items(struct seam_store *store, const struct flow *flow, struct buf *out)
{
    for (int64_t at = 0, left = 1; left > 0; at++) {
        left = at == 0;
        for (size_t i = 0; i < store->items.count; i++) {
            const struct row_item *row = &store->items.items[i];
            if (!uuid_eq(row->flow_id, flow->id) || row->step_index != flow->step_index)
                continue;
            left += row->item > at;
            if (row->item != at)
                continue;
            buf_printf(out, "%" PRId64 " %" PRId64 " %d %" PRId64 " %" PRId64 " %" PRId64 ";",
                       row->item, row->attempt, fact_of(row->fact), row->at, size_of(row->output),
                       size_of(row->error));
            buf_append(out, row->output);
            buf_append(out, row->error);
        }
    }
}

static int do_load(struct seam_store *store, struct pg_query *query)
{
    struct pg_value cells[32];
    struct buf steps, items;
    struct row_flow *row = seam_flow_of(store, query, "id");
    if (!row)
        return OK;
    buf_init(&steps, 16 * 1024 * 1024);
    buf_init(&items, 16 * 1024 * 1024);
    put_steps(store, row->flow.id, &steps);
    if (strcmp(query->stmt->name, "flow_load_items") == 0)
        put_items(store, &row->flow, &items);
    size_t n = seam_flow_cells(&row->flow, cells);
    cells[n++] = pg_json(row->input);
    cells[n++] = pg_text(row->actor);
    cells[n++] = pg_json(row->waiting_input);
    cells[n++] = pg_text(row->trace);
    cells[n++] = pg_text(row->title);
    cells[n++] = pg_text(seam_key_policy);
    cells[n++] = pg_text(steps.len ? buf_slice(&steps) : SLICE_NONE);
    cells[n++] = pg_text(items.len ? buf_slice(&items) : SLICE_NONE);
    ASSERT(n == query->stmt->column_count);
    seam_row(query, cells);
    buf_deinit(&steps);
    buf_deinit(&items);
    return OK;
}

static int do_rev(struct seam_store *store, struct pg_query *query)
{
    const struct row_flow *row = seam_flow_of(store, query, "id");
    struct pg_value rev = pg_i64(row ? row->flow.rev : 0);
    if (row)
        seam_row(query, &rev);
    return OK;
}

static int do_key_policy(struct seam_store *store, struct pg_query *query)
{
    const struct pg_value policy = pg_text(seam_key_policy);
    (void)store;
    if (seam_key_policy.ptr)
        seam_row(query, &policy);
    return OK;
}

/* No key was made by another one here. */
static int do_is_kin(struct seam_store *store, struct pg_query *query)
{
    struct uuid id = seam_uuid(query, "id");
    const struct pg_value is_kin =
        pg_bool(!uuid_is_nil(id) && uuid_eq(id, seam_uuid(query, "other_id")));
    (void)store;
    seam_row(query, &is_kin);
    return OK;
}

const struct seam_statement seam_flow_statements[] = {
    {"api_key_is_kin", do_is_kin},
    {"flow_key_policy", do_key_policy},
    {"flow_start_keyed", do_start_keyed},
    {"flow_start_keyed_event", do_start_keyed},
    {"flow_start", do_start},
    {"flow_start_again", do_start},
    {"flow_start_more", do_start},
    {"flow_start_more_again", do_start},
    {"flow_start_event", do_start},
    {"flow_start_event_again", do_start},
    {"flow_move", do_move},
    {"flow_move_again", do_move},
    {"flow_move_heard", do_move},
    {"flow_move_heard_again", do_move},
    {"flow_wake", do_move},
    {"flow_wake_again", do_move},
    {"flow_wake_heard", do_move},
    {"flow_wake_heard_again", do_move},
    {"flow_park", do_park},
    {"flow_park_again", do_park},
    {"flow_park_heard", do_park},
    {"flow_park_heard_again", do_park},
    {"flow_wake_park", do_park},
    {"flow_wake_park_again", do_park},
    {"flow_wake_park_heard", do_park},
    {"flow_wake_park_heard_again", do_park},
    {"flow_item_insert", do_item_insert},
    {"flow_load", do_load},
    {"flow_load_items", do_load},
    {"flow_rev", do_rev},
    {NULL, NULL},
};
