/*
 * Takes of flows that no node runs, ends of flows from outside, and the scans that find them.
 */
#include <stdlib.h>
#include <string.h>

#include "seam/rows_flow.h"

enum { DUE_MAX = 2000, ORPHANS_MAX = 500 };

static void put_flow(struct pg_query *query, const struct flow *flow)
{
    struct pg_value cells[32];
    size_t n = seam_flow_cells(flow, cells);
    if (n < query->stmt->column_count)
        cells[n++] = pg_bool(false); /* no endpoint hears of it */
    ASSERT(n == query->stmt->column_count);
    seam_row(query, cells);
}

/* Answers with the row if this statement changed it, or if an earlier sending of it did, which left
 * its token in the row. */
static int put_row_now(struct seam_store *store, struct pg_query *query, bool was_ours)
{
    const struct row_flow *row = seam_flow_of(store, query, "id");
    if (row && was_ours)
        put_flow(query, &row->flow);
    return OK;
}

static bool has_token(const struct row_flow *row, const struct pg_query *query)
{
    return row && uuid_eq(row->op_token, seam_uuid(query, "op_token"));
}

/* rev 0: any. */
static bool is_at_rev(const struct row_flow *row, const struct pg_query *query)
{
    int64_t rev = seam_i64(query, "rev");
    return row && (rev == 0 || row->flow.rev == rev);
}

static struct flow running_again(const struct row_flow *row, const struct pg_query *query)
{
    struct flow next = row->flow;
    next.status = FLOW_RUNNING;
    next.owner = seam_uuid(query, "owner");
    next.rev++;
    next.waiting_for = FLOW_WAITS_NOT;
    next.updated_at = seam_time(query, "now");
    return next;
}

/* Resumes a flow that has failed, or that waits and whose time has come. */
static int do_resume(struct seam_store *store, struct pg_query *query)
{
    struct row_flow *row = seam_flow_of(store, query, "id");
    int64_t now = seam_store_now();
    bool is_again = has_token(row, query);
    bool holds = is_at_rev(row, query) && (row->flow.status == FLOW_FAILED ||
                                           (row->flow.waiting_for != FLOW_WAITS_NOT &&
                                            row->flow.wake_at != 0 && row->flow.wake_at <= now));
    if (holds) {
        struct flow next = running_again(row, query);
        next.is_begun = false;
        next.adoptions = 0;
        if (row->flow.status == FLOW_FAILED && next.deadline != 0 && next.deadline <= now)
            next.deadline = 0;
        if (seam_flow_set(store, query, row, &next) != OK)
            return ERR_INVALID;
    }
    return put_row_now(store, query, holds || is_again);
}

/* Whether the flow waits for an approval at that step, and the approval has not expired. */
static bool is_open(const struct row_flow *row, const struct pg_query *query)
{
    int64_t step = seam_i64(query, "step_index");
    return is_at_rev(row, query) && row->flow.waiting_for == FLOW_WAITS_APPROVAL &&
           (step == -1 || row->flow.step_index == step) &&
           (row->flow.wake_at == 0 || row->flow.wake_at > seam_store_now());
}

static void end_approval(struct seam_store *store, const struct row_flow *row, int64_t parked_at,
                         slice output, slice error)
{
    const struct flow *flow = &row->flow;
    if (seam_step_is_there(store, flow->id, flow->step_index, flow->attempt))
        return; /* on conflict do nothing */
    *ROW_ADD(store, steps) = (struct row_step){
        .flow_id = flow->id,
        .step = {.step_index = flow->step_index,
                 .attempt = flow->attempt,
                 .is_completed = !error.ptr,
                 .started_at = parked_at,
                 .finished_at = flow->updated_at,
                 .input = row->waiting_input,
                 .output = seam_keep(store, output),
                 .error = seam_keep(store, error)},
    };
}

static int do_approve(struct seam_store *store, struct pg_query *query)
{
    struct row_flow *row = seam_flow_of(store, query, "id");
    bool is_again = has_token(row, query), holds = is_open(row, query);
    if (holds) {
        int64_t parked_at = row->flow.updated_at;
        struct flow next = running_again(row, query);
        next.adoptions = 0;
        if (seam_flow_set(store, query, row, &next) != OK)
            return ERR_INVALID;
        end_approval(store, row, parked_at, seam_text(query, "output"), SLICE_NONE);
    }
    return put_row_now(store, query, holds || is_again);
}

static int do_reject(struct seam_store *store, struct pg_query *query)
{
    struct row_flow *row = seam_flow_of(store, query, "id");
    bool is_again = has_token(row, query), holds = is_open(row, query);
    if (holds) {
        int64_t parked_at = row->flow.updated_at;
        struct flow next = row->flow;
        next.status = FLOW_CANCELLED;
        next.rev++;
        next.waiting_for = FLOW_WAITS_NOT;
        next.updated_at = seam_time(query, "now");
        if (seam_flow_set(store, query, row, &next) != OK)
            return ERR_INVALID;
        end_approval(store, row, parked_at, SLICE_NONE, seam_text(query, "error"));
    }
    return put_row_now(store, query, holds || is_again);
}

/* Plants a fault: the adopting node finds neither the claim nor the record of a hold's call. */
static void drop_key(struct seam_store *store, struct uuid flow_id)
{
    struct hold *hold = seam_hold_of(store, flow_id);
    struct row_claim *row = hold ? seam_find_claim(store, hold->account_id, hold->key) : NULL;
    if (hold)
        hold->execution_id = (struct uuid){{0}};
    if (row)
        seam_claim_remove(store, row);
}

/* Adopts a flow whose owner is still the dead node. */
static int do_adopt(struct seam_store *store, struct pg_query *query)
{
    struct row_flow *row = seam_flow_of(store, query, "id");
    struct uuid dead = seam_uuid(query, "dead_owner");
    bool is_again = has_token(row, query);
    bool holds = is_at_rev(row, query) && uuid_eq(row->flow.owner, dead);
    if (store->bug == SEAM_BUG_ADOPT_TWICE && row)
        holds = row->flow.status == FLOW_RUNNING;
    if (holds) {
        struct flow next = running_again(row, query);
        next.adoptions += seam_i64(query, "has_left") ? 0 : 1;
        next.is_begun = next.is_begun && store->bug != SEAM_BUG_REPEAT_WRITE;
        if (seam_flow_set(store, query, row, &next) != OK)
            return ERR_INVALID;
        if (store->bug == SEAM_BUG_DROP_KEY)
            drop_key(store, row->flow.id);
    }
    return put_row_now(store, query, holds || is_again);
}

/* Cancels a flow in any state. A cancelled flow does not change. */
static int do_cancel(struct seam_store *store, struct pg_query *query)
{
    struct pg_value cells[32];
    struct row_flow *row = seam_flow_of(store, query, "id");
    if (!row)
        return OK;
    bool was_cancelled = row->flow.status == FLOW_CANCELLED;
    struct uuid owner = row->flow.owner;
    if (!was_cancelled) {
        struct flow next = row->flow;
        next.status = FLOW_CANCELLED;
        next.rev++;
        next.owner = (struct uuid){{0}};
        next.waiting_for = FLOW_WAITS_NOT;
        next.updated_at = seam_time(query, "now");
        if (seam_flow_set(store, query, row, &next) != OK)
            return ERR_INVALID;
    }
    size_t n = seam_flow_cells(&row->flow, cells);
    cells[n++] = was_cancelled ? pg_null(PG_UUID) : pg_uuid(owner);
    cells[n++] = pg_bool(false); /* no endpoint hears of it */
    seam_row(query, cells);
    return OK;
}

/* ---- scans ---- */

/* Only flow_orphans has the column has_left. */
static void put_ref(struct pg_query *query, const struct flow *flow, bool has_left)
{
    const struct pg_value cells[] = {
        pg_uuid(flow->account_id),
        pg_uuid(flow->id),
        uuid_is_nil(flow->owner) ? pg_null(PG_UUID) : pg_uuid(flow->owner),
        pg_i64(flow->rev),
        pg_time(flow->wake_at),
        pg_i64(flow->adoptions),
        uuid_is_nil(flow->parent_id) ? pg_null(PG_UUID) : pg_uuid(flow->parent_id),
        pg_bool(has_left),
    };
    seam_row(query, cells);
}

static int by_wake(const void *a, const void *b)
{
    const struct flow *x = *(const struct flow *const *)a, *y = *(const struct flow *const *)b;
    if (x->wake_at != y->wake_at)
        return x->wake_at < y->wake_at ? -1 : 1;
    return uuid_cmp(x->id, y->id);
}

static void put_due(struct pg_query *query, const struct flow *flow)
{
    const struct pg_value cells[] = {
        pg_text(SLICE("flow")),
        pg_uuid(flow->account_id),
        pg_uuid(flow->id),
        pg_null(PG_UUID),
        pg_i64(flow->rev),
        pg_time(flow->wake_at),
        uuid_is_nil(flow->parent_id) ? pg_null(PG_UUID) : pg_uuid(flow->parent_id),
    };
    seam_row(query, cells);
}

static int do_due(struct seam_store *store, struct pg_query *query)
{
    int64_t until = seam_time(query, "until"), after_at = seam_time(query, "after_at");
    struct uuid after_id = seam_uuid(query, "after_id");
    const struct flow **found = calloc(store->flows.count + 1, sizeof(*found));
    size_t count = 0;
    for (size_t i = 0; i < store->flows.count; i++) {
        const struct flow *flow = &store->flows.items[i].flow;
        bool is_after = flow->wake_at > after_at ||
                        (flow->wake_at == after_at && uuid_cmp(flow->id, after_id) > 0);
        if (flow->status == FLOW_WAITING && flow->wake_at != 0 && flow->wake_at <= until &&
            is_after)
            found[count++] = flow;
    }
    qsort(found, count, sizeof(*found), by_wake);
    for (size_t i = 0; i < count && i < DUE_MAX; i++)
        put_due(query, found[i]);
    free(found);
    return OK;
}

static int do_orphans(struct seam_store *store, struct pg_query *query)
{
    for (size_t i = 0; i < store->flows.count && query->rows.count < ORPHANS_MAX; i++) {
        const struct flow *flow = &store->flows.items[i].flow;
        const struct row_node *node = seam_find_node(store, flow->owner);
        if (flow->status == FLOW_RUNNING && seam_is_named(query, flow->owner))
            put_ref(query, flow, node && node->left_at != 0);
    }
    return OK;
}

static int do_owned(struct seam_store *store, struct pg_query *query)
{
    for (size_t i = 0; i < store->flows.count; i++) {
        const struct flow *flow = &store->flows.items[i].flow;
        if (flow->status == FLOW_RUNNING && uuid_eq(flow->owner, seam_uuid(query, "owner")) &&
            flow->updated_at < seam_time(query, "before"))
            put_ref(query, flow, false);
    }
    return OK;
}

const struct seam_statement seam_flow_take_statements[] = {
    {"flow_take_resume", do_resume},
    {"flow_take_approve", do_approve},
    {"flow_take_adopt", do_adopt},
    {"flow_reject", do_reject},
    {"flow_cancel", do_cancel},
    {"due_scan", do_due},
    {"flow_orphans", do_orphans},
    {"flow_owned", do_owned},
    {NULL, NULL},
};
