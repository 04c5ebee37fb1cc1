/*
 * Holds: their start, the statements around their calls, and the templates that are stored for
 * them.
 */
#include <string.h>

#include "seam/rows_flow.h"

/* ---- rows ---- */

struct hold *seam_find_hold(struct seam_store *store, struct uuid account_id, slice key)
{
    for (size_t i = 0; i < store->holds.count; i++) {
        struct hold *hold = &store->holds.items[i];
        if (uuid_eq(hold->account_id, account_id) && slice_eq(hold->key, key))
            return hold;
    }
    return NULL;
}

struct hold *seam_hold_of(struct seam_store *store, struct uuid flow_id)
{
    for (size_t i = 0; i < store->holds.count; i++)
        if (uuid_eq(store->holds.items[i].flow_id, flow_id))
            return &store->holds.items[i];
    return NULL;
}

/* STORE_HOLD_IS_KEPT */
static bool is_kept(struct seam_store *store, const struct hold *hold)
{
    const struct row_flow *row = seam_find_flow(store, hold->flow_id);
    return row && (!uuid_is_nil(row->flow.owner) || row->flow.waiting_for != FLOW_WAITS_NOT ||
                   row->flow.updated_at > seam_store_now() - hold->lifetime_ms * 1000);
}

static size_t put_hold(const struct hold *hold, struct pg_value *cells)
{
    size_t n = 0;
    cells[n++] = pg_uuid(hold->account_id);
    cells[n++] = pg_text(hold->key);
    cells[n++] = pg_uuid(hold->flow_id);
    cells[n++] = pg_bytes(slice_of(hold->fingerprint, sizeof(hold->fingerprint)));
    cells[n++] = pg_uuid(hold->asker);
    cells[n++] = uuid_is_nil(hold->execution_id) ? pg_null(PG_UUID) : pg_uuid(hold->execution_id);
    cells[n++] = pg_i64(hold->lifetime_ms);
    return n;
}

/* ---- start ---- */

/* The row stays unchanged unless its flow is long over, or gone. The limit of open holds is not
 * modelled. */
static struct hold *take_hold(struct seam_store *store, const struct pg_query *query)
{
    struct hold hold = {
        .account_id = seam_uuid(query, "account_id"),
        .key = seam_keep(store, seam_text(query, "key")),
        .flow_id = seam_uuid(query, "id"),
        .asker = seam_uuid(query, "asker"),
        .lifetime_ms = seam_i64(query, "lifetime_ms"),
    };
    memcpy(hold.fingerprint, seam_text(query, "fingerprint").ptr, sizeof(hold.fingerprint));
    struct hold *row = seam_find_hold(store, hold.account_id, hold.key);
    if (row && is_kept(store, row))
        return row;
    if (!row)
        row = ROW_ADD(store, holds);
    *row = hold;
    return row;
}

static int do_start_held(struct seam_store *store, struct pg_query *query)
{
    struct pg_value cells[16];
    struct flow flow = seam_flow_started(store, query);
    const struct hold *row = take_hold(store, query);
    size_t n = put_hold(row, cells);
    cells[n++] = pg_bool(false); /* has_event */
    ASSERT(n == query->stmt->column_count);
    seam_row(query, cells);
    bool is_ours = uuid_eq(row->flow_id, flow.id);
    return is_ours && !seam_find_flow(store, flow.id) ? seam_flow_add(store, query, &flow) : OK;
}

static int do_find(struct seam_store *store, struct pg_query *query)
{
    struct pg_value cells[16];
    const struct hold *row =
        seam_find_hold(store, seam_uuid(query, "account_id"), seam_text(query, "key"));
    if (!row || !is_kept(store, row))
        return OK;
    const struct row_flow *flow = seam_find_flow(store, row->flow_id);
    size_t n = put_hold(row, cells);
    cells[n++] = pg_bool(flow->flow.status == FLOW_RUNNING || flow->flow.status == FLOW_WAITING);
    const struct execution *record = seam_find_execution(store, row->execution_id);
    cells[n++] = pg_bool(record != NULL);
    cells[n++] = pg_text(record && !record->is_succeeded ? record->summary : SLICE_NONE);
    ASSERT(n == query->stmt->column_count);
    seam_row(query, cells);
    return OK;
}

/* ---- the call ---- */

/* A bound key that has expired counts as free. */
static const struct row_claim *holder_of(struct seam_store *store, const struct hold *hold)
{
    const struct row_claim *row = seam_find_claim(store, hold->account_id, hold->key);
    return row && (!row->is_bound || row->expires_at > seam_store_now()) ? row : NULL;
}

static bool is_ours(struct seam_store *store, const struct pg_query *query)
{
    const struct row_flow *row = seam_flow_of(store, query, "flow_id");
    return row && row->flow.rev == seam_i64(query, "rev") &&
           uuid_eq(row->flow.owner, seam_uuid(query, "owner"));
}

static int do_check(struct seam_store *store, struct pg_query *query)
{
    const struct hold *hold = seam_hold_of(store, seam_uuid(query, "flow_id"));
    if (!hold || !uuid_eq(hold->account_id, seam_uuid(query, "account_id")))
        return OK;
    const struct execution *record = seam_find_execution(store, hold->execution_id);
    const struct row_claim *holder = holder_of(store, hold);
    bool is_same = holder && memcmp(holder->claim.fingerprint, hold->fingerprint,
                                    sizeof(hold->fingerprint)) == 0;
    bool has_summary = record && record->summary.len <= STORE_HOLD_SUMMARY_BYTES;
    const struct pg_value cells[] = {
        pg_text(hold->key),
        pg_bytes(slice_of(hold->fingerprint, sizeof(hold->fingerprint))),
        pg_uuid(hold->asker),
        uuid_is_nil(hold->execution_id) ? pg_null(PG_UUID) : pg_uuid(hold->execution_id),
        pg_bool(is_ours(store, query)),
        pg_i64(hold->lifetime_ms),
        pg_bool(record != NULL),
        pg_bool(record && record->is_succeeded),
        pg_text(has_summary ? record->summary : SLICE_NONE),
        holder ? pg_uuid(holder->claim.execution_id) : pg_null(PG_UUID),
        pg_bool(holder && holder->is_bound),
        pg_bool(is_same),
    };
    ASSERT(ARRAY_LEN(cells) == query->stmt->column_count);
    seam_row(query, cells);
    return OK;
}

/* The fences: the flow's revision and owner, and the execution until now. A second sending finds
 * its own id. */
static int do_intend(struct seam_store *store, struct pg_query *query)
{
    struct uuid id = seam_uuid(query, "execution_id");
    struct hold *hold =
        seam_find_hold(store, seam_uuid(query, "account_id"), seam_text(query, "key"));
    bool holds =
        hold && uuid_eq(hold->flow_id, seam_uuid(query, "flow_id")) &&
        (uuid_eq(hold->execution_id, seam_uuid(query, "was")) || uuid_eq(hold->execution_id, id)) &&
        is_ours(store, query);
    seam_rows(query, holds);
    if (holds)
        hold->execution_id = id;
    return OK;
}

/* ---- templates ---- */

static struct row_template *find_template(struct seam_store *store, struct uuid version)
{
    for (size_t i = 0; i < store->templates.count; i++)
        if (uuid_eq(store->templates.items[i].version, version))
            return &store->templates.items[i];
    return NULL;
}

static int do_template_insert(struct seam_store *store, struct pg_query *query)
{
    struct uuid version = seam_uuid(query, "version");
    if (!find_template(store, version))
        *ROW_ADD(store, templates) =
            (struct row_template){.version = version,
                                  .key = seam_keep(store, seam_text(query, "key")),
                                  .body = seam_keep(store, seam_text(query, "body"))};
    return OK;
}

static int do_template_get(struct seam_store *store, struct pg_query *query)
{
    const struct row_template *row = find_template(store, seam_uuid(query, "version"));
    if (!row)
        return OK;
    const struct pg_value cells[] = {pg_text(row->key), pg_json(row->body)};
    seam_row(query, cells);
    return OK;
}

/* The key's claim, as claim_find has it, and the fingerprint of its hold. */
static int do_claim_find(struct seam_store *store, struct pg_query *query)
{
    struct uuid account_id = seam_uuid(query, "account_id");
    slice key = seam_text(query, "key");
    struct row_claim *row = seam_find_claim(store, account_id, key);
    const struct hold *hold = seam_find_hold(store, account_id, key);
    if (hold && !is_kept(store, hold))
        hold = NULL;
    if (row && row->is_bound && row->expires_at <= seam_store_now())
        row = NULL;
    if (row || hold)
        seam_claim_put_held(store, query, row, hold);
    return OK;
}

const struct seam_statement seam_hold_statements[] = {
    {"claim_find_held", do_claim_find},
    {"flow_start_held", do_start_held},
    {"hold_find", do_find},
    {"hold_check", do_check},
    {"hold_intend", do_intend},
    {"flow_template_insert", do_template_insert},
    {"flow_template_get", do_template_get},
    {NULL, NULL},
};
