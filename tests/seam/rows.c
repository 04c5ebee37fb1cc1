/*
 * Nodes, claims, executions, connections, and the table of statements by name. Flows are in
 * rows_flow.c.
 */
#include "seam/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

enum { ARENA_MAX = 1024 * 1024 * 1024, SCAN_MAX = 200 };

/* ---- tables ---- */

void seam_store_init(struct seam_store *store)
{
    *store = (struct seam_store){0};
    arena_init(&store->arena, ARENA_MAX);
}

void seam_store_deinit(struct seam_store *store)
{
    mem_free(store->nodes.items);
    mem_free(store->claims.items);
    mem_free(store->executions.items);
    mem_free(store->flows.items);
    mem_free(store->steps.items);
    mem_free(store->items.items);
    mem_free(store->holds.items);
    mem_free(store->templates.items);
    mem_free(store->connections.items);
    arena_deinit(&store->arena);
}

void seam_rows_grow(void **items, size_t *cap, size_t count, size_t size)
{
    if (count < *cap)
        return;
    *cap = *cap ? *cap * 2 : 16;
    *items = mem_realloc(*items, *cap * size);
    ASSERT(*items);
}

slice seam_keep(struct seam_store *store, slice text)
{
    return text.ptr ? arena_dup(&store->arena, text) : SLICE_NONE;
}

struct row_node *seam_find_node(struct seam_store *store, struct uuid id)
{
    for (size_t i = 0; i < store->nodes.count; i++)
        if (uuid_eq(store->nodes.items[i].id, id))
            return &store->nodes.items[i];
    return NULL;
}

bool seam_node_lives(struct seam_store *store, struct uuid id)
{
    const struct row_node *node = seam_find_node(store, id);
    return node && node->lease_until > seam_store_now();
}

struct row_claim *seam_find_claim(struct seam_store *store, struct uuid account_id, slice key)
{
    for (size_t i = 0; i < store->claims.count; i++) {
        struct row_claim *row = &store->claims.items[i];
        if (uuid_eq(row->claim.account_id, account_id) && slice_eq(row->claim.key, key))
            return row;
    }
    return NULL;
}

void seam_claim_remove(struct seam_store *store, struct row_claim *row)
{
    *row = store->claims.items[--store->claims.count];
}

struct execution *seam_find_execution(struct seam_store *store, struct uuid id)
{
    for (size_t i = 0; i < store->executions.count; i++)
        if (uuid_eq(store->executions.items[i].id, id))
            return &store->executions.items[i];
    return NULL;
}

/* ---- parameters ---- */

struct uuid seam_uuid(const struct pg_query *query, const char *param)
{
    const struct pg_value *value = seam_param(query, param);
    return value->is_null ? (struct uuid){{0}} : value->as.uuid;
}

int64_t seam_i64(const struct pg_query *query, const char *param)
{
    const struct pg_value *value = seam_param(query, param);
    return value->is_null ? 0 : value->as.i64;
}

int64_t seam_time(const struct pg_query *query, const char *param)
{
    return seam_i64(query, param);
}

slice seam_text(const struct pg_query *query, const char *param)
{
    const struct pg_value *value = seam_param(query, param);
    return value->is_null ? SLICE_NONE : value->as.bytes;
}

bool seam_is_null(const struct pg_query *query, const char *param)
{
    return seam_param(query, param)->is_null;
}

bool seam_is_again(const struct pg_query *query)
{
    return seam_query_stmt(query) != query->stmt;
}

int64_t seam_store_now(void)
{
    struct timespec now;
    int64_t shift_us = seam_wall_shift();
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - shift_us;
}

/* ---- nodes ---- */

static int do_register(struct seam_store *store, struct pg_query *query)
{
    struct uuid id = seam_uuid(query, "node_id");
    if (seam_find_node(store, id))
        return OK; /* on conflict do nothing */
    *ROW_ADD(store, nodes) = (struct row_node){
        .id = id, .lease_until = seam_store_now() + seam_i64(query, "lease_ms") * 1000};
    return OK;
}

/* Applies only while the lease is valid. A dead node stays dead. */
static int do_heartbeat(struct seam_store *store, struct pg_query *query)
{
    struct uuid id = seam_uuid(query, "node_id");
    if (!seam_node_lives(store, id))
        return OK;
    const struct pg_value now = pg_time(seam_store_now());
    seam_find_node(store, id)->lease_until = now.as.i64 + seam_i64(query, "lease_ms") * 1000;
    seam_row(query, &now);
    return OK;
}

static int do_leave(struct seam_store *store, struct pg_query *query)
{
    struct row_node *node = seam_find_node(store, seam_uuid(query, "node_id"));
    int64_t now = seam_store_now();
    if (!node)
        return OK;
    node->lease_until = node->lease_until < now ? node->lease_until : now;
    node->left_at = now;
    return OK;
}

/* The dead node with the lowest id above this one, or NULL. */
static const struct row_node *next_dead(const struct seam_store *store, struct uuid after)
{
    const struct row_node *next = NULL;
    for (size_t i = 0; i < store->nodes.count; i++) {
        const struct row_node *node = &store->nodes.items[i];
        if (node->lease_until <= seam_store_now() && memcmp(&node->id, &after, sizeof(after)) > 0 &&
            (!next || memcmp(&node->id, &next->id, sizeof(after)) < 0))
            next = node;
    }
    return next;
}

/* The arrays of dead nodes as text, in the form of store/node.c. */
static int do_dead(struct seam_store *store, struct pg_query *query)
{
    struct buf ids, left;
    buf_init(&ids, 1024 * 1024);
    buf_init(&left, 1024 * 1024);
    const struct row_node *node = NULL;
    for (struct uuid after = {{0}}; (node = next_dead(store, after)); after = node->id) {
        char id[UUID_TEXT_LEN + 1];
        uuid_format(node->id, id);
        buf_printf(&ids, "%s%.*s", ids.len ? "," : "{", UUID_TEXT_LEN, id);
        buf_printf(&left, "%s%c", left.len ? "," : "{", node->left_at ? 't' : 'f');
    }
    buf_append_char(&ids, '}');
    buf_append_char(&left, '}');
    const struct pg_value cells[] = {pg_text(buf_slice(&ids)), pg_text(buf_slice(&left))};
    if (ids.len > 1)
        seam_row(query, cells);
    buf_deinit(&ids);
    buf_deinit(&left);
    return OK;
}

bool seam_is_named(const struct pg_query *query, struct uuid node)
{
    char id[UUID_TEXT_LEN + 1];
    uuid_format(node, id);
    return slice_find(seam_text(query, "nodes"), slice_of(id, UUID_TEXT_LEN)) >= 0;
}

/* ---- claims ---- */

static int64_t key_end(const struct pg_query *query)
{
    int64_t end = seam_store_now() + seam_i64(query, "lifetime_ms") * 1000;
    int64_t guarded = seam_time(query, "guards_until") + INT64_C(30000000);
    return seam_is_null(query, "guards_until") || guarded < end ? end : guarded;
}

static struct claim claim_of(struct seam_store *store, const struct pg_query *query)
{
    struct claim claim = {
        .account_id = seam_uuid(query, "account_id"),
        .key = seam_keep(store, seam_text(query, "key")),
        .execution_id = seam_uuid(query, "execution_id"),
        .owner = seam_uuid(query, "owner"),
        .integration_id = seam_keep(store, seam_text(query, "integration_id")),
        .action_id = seam_keep(store, seam_text(query, "action_id")),
        .connection_id = seam_i64(query, "connection_id"),
        .is_write = seam_i64(query, "is_write") != 0,
        .parent_id = seam_uuid(query, "parent_id"),
        .started_at = seam_store_now(),
    };
    memcpy(claim.fingerprint, seam_text(query, "fingerprint").ptr, sizeof(claim.fingerprint));
    return claim;
}

/* A larger summary is stored separately from its row. */
static slice inline_summary(const struct execution *row)
{
    return row && row->summary.len <= STORE_SUMMARY_INLINE_BYTES ? row->summary : SLICE_NONE;
}

enum { CLAIM_CELLS = 12 };

static void fill_claim(struct seam_store *store, const struct row_claim *row, bool with_execution,
                       struct pg_value *cells)
{
    const struct claim *claim = &row->claim;
    const struct execution *found =
        with_execution && row->is_bound ? seam_find_execution(store, claim->execution_id) : NULL;
    const struct pg_value values[CLAIM_CELLS] = {
        pg_uuid(claim->account_id),
        pg_text(claim->key),
        pg_uuid(claim->execution_id),
        pg_bytes(slice_of(claim->fingerprint, sizeof(claim->fingerprint))),
        pg_bool(row->is_bound),
        row->is_bound ? pg_null(PG_UUID) : pg_uuid(claim->owner),
        found ? pg_bool(found->is_succeeded) : pg_null(PG_BOOL),
        pg_text(found ? found->error_code : SLICE_NONE),
        pg_text(inline_summary(found)),
        found ? pg_i64((int64_t)found->summary.len) : pg_null(PG_I64),
        found ? pg_time(found->started_at) : pg_null(PG_TIME),
        found ? pg_time(found->finished_at) : pg_null(PG_TIME),
    };
    memcpy(cells, values, sizeof(values));
}

void seam_claim_put(struct seam_store *store, struct pg_query *query, struct row_claim *row,
                    bool with_execution)
{
    struct pg_value cells[CLAIM_CELLS + 1];
    fill_claim(store, row, with_execution, cells);
    cells[CLAIM_CELLS] = pg_bool(false); /* has_event, of a statement with that column */
    seam_row(query, cells);
}

void seam_claim_put_held(struct seam_store *store, struct pg_query *query,
                         const struct row_claim *row, const struct hold *hold)
{
    static const uint8_t none[IDEMPOTENCY_FINGERPRINT_LEN];
    struct pg_value cells[CLAIM_CELLS + 2];
    if (row)
        fill_claim(store, row, true, cells);
    for (size_t i = 0; !row && i < CLAIM_CELLS; i++)
        cells[i] = pg_null(query->stmt->columns[i].type);
    if (!row) {
        cells[0] = pg_uuid(hold->account_id);
        cells[1] = pg_text(hold->key);
        cells[3] = pg_bytes(slice_of(none, sizeof(none)));
    }
    cells[CLAIM_CELLS] = pg_bool(hold != NULL);
    cells[CLAIM_CELLS + 1] = pg_bytes(slice_of(hold ? hold->fingerprint : none, sizeof(none)));
    seam_row(query, cells);
}

/* A bound key that has expired counts as free. */
static int do_claim_find(struct seam_store *store, struct pg_query *query)
{
    struct row_claim *row =
        seam_find_claim(store, seam_uuid(query, "account_id"), seam_text(query, "key"));
    if (row && (!row->is_bound || row->expires_at > seam_store_now()))
        seam_claim_put(store, query, row, true);
    return OK;
}

/* The row stays unchanged, except that a bound key that has expired gets a new owner. The
 * execution that the row then names has won. */
struct row_claim *seam_claim_take(struct seam_store *store, const struct claim *claim,
                                  int64_t expires_at, bool is_bound)
{
    struct row_claim *row = seam_find_claim(store, claim->account_id, claim->key);
    bool is_over = row && row->is_bound && row->expires_at <= claim->started_at;
    if (!row)
        row = ROW_ADD(store, claims);
    else if (!is_over)
        return row;
    *row = (struct row_claim){.claim = *claim, .is_bound = is_bound, .expires_at = expires_at};
    return row;
}

static int do_claim_insert(struct seam_store *store, struct pg_query *query)
{
    struct claim claim = claim_of(store, query);
    seam_claim_put(store, query, seam_claim_take(store, &claim, key_end(query), false), false);
    return OK;
}

static int do_claim_spend(struct seam_store *store, struct pg_query *query)
{
    struct claim claim = claim_of(store, query);
    seam_claim_put(store, query, seam_claim_take(store, &claim, key_end(query), true), false);
    return OK;
}

static int do_claim_bind(struct seam_store *store, struct pg_query *query)
{
    struct claim claim = claim_of(store, query);
    struct row_claim *row = seam_find_claim(store, claim.account_id, claim.key);
    if (!row)
        row = seam_claim_take(store, &claim, 0, true);
    if (uuid_eq(row->claim.execution_id, claim.execution_id)) {
        row->is_bound = true;
        row->expires_at = key_end(query);
    }
    return OK;
}

static int do_claim_own(struct seam_store *store, struct pg_query *query)
{
    struct claim claim = claim_of(store, query);
    if (seam_find_claim(store, claim.account_id, claim.key))
        return seam_is_again(query) ? OK : ERR_INVALID;
    *ROW_ADD(store, claims) = (struct row_claim){.claim = claim};
    return OK;
}

/* The fence of release and finish: the claim's execution and owner are unchanged. */
static struct row_claim *find_ours(struct seam_store *store, const struct pg_query *query,
                                   const char *id)
{
    struct row_claim *row =
        seam_find_claim(store, seam_uuid(query, "account_id"), seam_text(query, "key"));
    bool is_ours = row && !row->is_bound &&
                   uuid_eq(row->claim.execution_id, seam_uuid(query, id)) &&
                   uuid_eq(row->claim.owner, seam_uuid(query, "owner"));
    return is_ours ? row : NULL;
}

static int do_claim_release(struct seam_store *store, struct pg_query *query)
{
    struct row_claim *row = find_ours(store, query, "execution_id");
    if (row)
        seam_claim_remove(store, row);
    return OK;
}

static void give_claim(struct seam_store *store, struct pg_query *query, const struct claim *claim)
{
    const struct hold *hold = seam_find_hold(store, claim->account_id, claim->key);
    bool is_held = hold && uuid_eq(hold->execution_id, claim->execution_id);
    const struct pg_value cells[] = {
        pg_uuid(claim->account_id),
        pg_text(claim->key),
        pg_uuid(claim->execution_id),
        pg_bytes(slice_of(claim->fingerprint, sizeof(claim->fingerprint))),
        pg_uuid(claim->owner),
        pg_text(claim->integration_id),
        pg_text(claim->action_id),
        claim->connection_id ? pg_i64(claim->connection_id) : pg_null(PG_I64),
        pg_bool(claim->is_write),
        uuid_is_nil(claim->parent_id) ? pg_null(PG_UUID) : pg_uuid(claim->parent_id),
        pg_time(claim->started_at),
        is_held ? pg_uuid(hold->flow_id) : pg_null(PG_UUID),
    };
    seam_row(query, cells);
}

static int do_claim_recover(struct seam_store *store, struct pg_query *query)
{
    for (size_t i = 0; i < store->claims.count && query->rows.count < SCAN_MAX; i++) {
        const struct row_claim *row = &store->claims.items[i];
        if (!row->is_bound && seam_is_named(query, row->claim.owner))
            give_claim(store, query, &row->claim);
    }
    return OK;
}

static int by_start(const void *a, const void *b)
{
    const struct claim *left = *(const struct claim *const *)a;
    const struct claim *right = *(const struct claim *const *)b;
    return (left->started_at > right->started_at) - (left->started_at < right->started_at);
}

/* The rows of the answer are in order of age, the oldest first. */
static int do_claim_owned(struct seam_store *store, struct pg_query *query)
{
    const struct claim **found = mem_calloc(store->claims.count + 1, sizeof(*found));
    size_t count = 0;
    for (size_t i = 0; i < store->claims.count; i++) {
        const struct row_claim *row = &store->claims.items[i];
        if (!row->is_bound && uuid_eq(row->claim.owner, seam_uuid(query, "owner")) &&
            row->claim.started_at < seam_store_now() - seam_i64(query, "age_ms") * 1000)
            found[count++] = &row->claim;
    }
    qsort(found, count, sizeof(*found), by_start);
    for (size_t i = 0; i < count && i < SCAN_MAX; i++)
        give_claim(store, query, found[i]);
    mem_free(found);
    return OK;
}

/* ---- executions ---- */

static struct execution_input input_of(struct seam_store *store, const struct pg_query *query)
{
    const char *name = seam_query_stmt(query)->name;
    bool has_input = strstr(name, "_input") ||
                     (strstr(name, "_event") && seam_text(query, "sealed").ptr);
    if (!has_input)
        return (struct execution_input){0};
    return (struct execution_input){.sealed = seam_keep(store, seam_text(query, "sealed")),
                                    .key_id = seam_keep(store, seam_text(query, "key_id")),
                                    .words = seam_keep(store, seam_text(query, "own")),
                                    .expires_at = seam_time(query, "expires_at")};
}

static void add_execution(struct seam_store *store, const struct pg_query *query)
{
    *ROW_ADD(store, executions) = (struct execution){
        .account_id = seam_uuid(query, "account_id"),
        .id = seam_uuid(query, "id"),
        .integration_id = seam_keep(store, seam_text(query, "integration_id")),
        .action_id = seam_keep(store, seam_text(query, "action_id")),
        .connection_id = seam_i64(query, "connection_id"),
        .is_succeeded = pg_value_is(seam_param(query, "status"), "succeeded"),
        .error_code = seam_keep(store, seam_text(query, "error_code")),
        .started_at = seam_time(query, "started_at"),
        .finished_at = seam_time(query, "finished_at"),
        .owner = seam_uuid(query, "owner"),
        .summary = seam_keep(store, seam_text(query, "summary")),
        .attempts = seam_i64(query, "attempts"),
        .input = input_of(store, query),
    };
}

static int do_execution_insert(struct seam_store *store, struct pg_query *query)
{
    if (seam_find_execution(store, seam_uuid(query, "id")))
        return seam_is_again(query) ? OK : ERR_INVALID;
    add_execution(store, query);
    return OK;
}

/* If the claim belongs to another execution, the second sending finds what the first has
 * written, by owner and time. */
static int finish(struct seam_store *store, struct pg_query *query, bool is_kept)
{
    struct row_claim *row = find_ours(store, query, "id");
    const struct execution *found = seam_find_execution(store, seam_uuid(query, "id"));
    if (row && found && !seam_is_again(query))
        return ERR_INVALID;
    bool is_done = found && seam_is_again(query) &&
                   uuid_eq(found->owner, seam_uuid(query, "owner")) &&
                   found->finished_at == seam_time(query, "finished_at");
    seam_rows(query, row || is_done);
    if (!row)
        return OK;
    if (!found)
        add_execution(store, query);
    if (is_kept && store->bug != SEAM_BUG_FORGET_BINDING) {
        row->is_bound = true;
        if (row->expires_at < seam_store_now() + INT64_C(5000000))
            row->expires_at = seam_store_now() + INT64_C(5000000);
        row->claim.owner = (struct uuid){{0}};
    } else {
        seam_claim_remove(store, row);
    }
    return OK;
}

static int do_finish_keep(struct seam_store *store, struct pg_query *query)
{
    return finish(store, query, true);
}

static int do_finish_release(struct seam_store *store, struct pg_query *query)
{
    return finish(store, query, false);
}

static int do_execution_get(struct seam_store *store, struct pg_query *query)
{
    const struct execution *row = seam_find_execution(store, seam_uuid(query, "id"));
    if (!row)
        return OK;
    const struct pg_value cells[] = {
        pg_uuid(row->account_id),
        pg_uuid(row->id),
        pg_text(row->integration_id),
        pg_text(row->action_id),
        row->connection_id ? pg_i64(row->connection_id) : pg_null(PG_I64),
        pg_text(row->is_succeeded ? SLICE("succeeded") : SLICE("failed")),
        pg_text(row->error_code),
        pg_time(row->started_at),
        pg_time(row->finished_at),
        pg_uuid(row->owner),
        pg_text(inline_summary(row)),
        pg_i64((int64_t)row->summary.len),
        pg_null(PG_UUID),
        pg_null(PG_TEXT),
        row->attempts ? pg_i64(row->attempts) : pg_null(PG_I64),
    };
    seam_row(query, cells);
    return OK;
}

static int do_execution_summary(struct seam_store *store, struct pg_query *query)
{
    const struct execution *row = seam_find_execution(store, seam_uuid(query, "id"));
    struct pg_value cell = pg_text(row ? row->summary : SLICE_NONE);
    if (row)
        seam_row(query, &cell);
    return OK;
}

/* ---- connections, audit ---- */

static void put_connection(struct pg_query *query, const struct connection *row)
{
    const struct pg_value cells[] = {
        pg_uuid(row->account_id),
        pg_i64(row->id),
        pg_text(row->integration_id),
        pg_text(row->label),
        pg_bool(row->is_default),
        pg_text(row->auth_kind),
        pg_bytes(row->sealed),
        pg_text(row->key_id),
        pg_text(row->scopes),
        pg_json(row->params),
        pg_text(row->error.ptr ? SLICE("reauth_required") : SLICE("live")),
        pg_text(row->error),
        pg_time(row->expires_at),
        pg_i64(row->rev),
        pg_time(row->created_at),
        pg_time(row->updated_at),
        pg_null(PG_TIME),
        pg_null(PG_TIME),
        pg_null(PG_TEXT),
        pg_text(row->identity.email),
        pg_text(row->identity.subject),
        pg_text(row->identity.label),
        uuid_is_nil(row->parent_id) ? pg_null(PG_UUID) : pg_uuid(row->parent_id),
        pg_bool(row->is_shared),
    };
    ASSERT(ARRAY_LEN(cells) == query->stmt->column_count);
    seam_row(query, cells);
}

static int do_connection_choice(struct seam_store *store, struct pg_query *query)
{
    for (size_t i = 0; i < store->connections.count; i++) {
        const struct connection *row = &store->connections.items[i];
        if (uuid_eq(row->account_id, seam_uuid(query, "account_id")) &&
            slice_eq(row->integration_id, seam_text(query, "integration_id")))
            put_connection(query, row);
    }
    return OK;
}

static int do_connection_shared(struct seam_store *store, struct pg_query *query)
{
    for (size_t i = 0; i < store->connections.count; i++) {
        const struct connection *row = &store->connections.items[i];
        if (row->is_shared && uuid_eq(row->account_id, seam_uuid(query, "account_id")) &&
            slice_eq(row->integration_id, seam_text(query, "integration_id")))
            put_connection(query, row);
    }
    return OK;
}

static int do_connection_get(struct seam_store *store, struct pg_query *query)
{
    for (size_t i = 0; i < store->connections.count; i++) {
        const struct connection *row = &store->connections.items[i];
        if (uuid_eq(row->account_id, seam_uuid(query, "account_id")) &&
            row->id == seam_i64(query, "id"))
            put_connection(query, row);
    }
    return OK;
}

static int do_audit_insert(struct seam_store *store, struct pg_query *query)
{
    (void)query;
    store->audit_count++;
    return OK;
}

static int do_nothing(struct seam_store *store, struct pg_query *query)
{
    (void)store, (void)query;
    return OK;
}

/* ---- by name ---- */

static const struct seam_statement statements[] = {
    {"node_register", do_register},
    {"node_heartbeat", do_heartbeat},
    {"node_leave", do_leave},
    {"node_dead", do_dead},
    {"claim_find", do_claim_find},
    {"claim_insert", do_claim_insert},
    {"claim_spend", do_claim_spend},
    {"claim_bind", do_claim_bind},
    {"claim_own", do_claim_own},
    {"claim_own_again", do_claim_own},
    {"claim_release", do_claim_release},
    {"claim_recover", do_claim_recover},
    {"claim_owned", do_claim_owned},
    {"execution_insert", do_execution_insert},
    {"execution_insert_input", do_execution_insert},
    {"execution_insert_input_again", do_execution_insert},
    {"execution_insert_again", do_execution_insert},
    {"execution_finish_keep", do_finish_keep},
    {"execution_finish_keep_again", do_finish_keep},
    {"execution_finish_keep_input", do_finish_keep},
    {"execution_finish_keep_input_again", do_finish_keep},
    {"execution_finish_release", do_finish_release},
    {"execution_finish_release_again", do_finish_release},
    {"execution_finish_release_input", do_finish_release},
    {"execution_finish_release_input_again", do_finish_release},
    {"execution_finish_keep_event", do_finish_keep},
    {"execution_finish_keep_event_again", do_finish_keep},
    {"execution_finish_release_event", do_finish_release},
    {"execution_finish_release_event_again", do_finish_release},
    {"execution_get", do_execution_get},
    {"execution_get_summary", do_execution_summary},
    {"connection_choice", do_connection_choice},
    {"connection_shared", do_connection_shared},
    {"connection_get", do_connection_get},
    {"connection_use", do_nothing},
    {"tally_add", do_nothing},
    {"usage_add", do_nothing},
    {"audit_insert", do_audit_insert},
    {"audit_insert_input", do_audit_insert},
    {"audit_list", do_nothing}, /* they are only counted */
    {NULL, NULL},
};

static const struct seam_statement *find(const struct seam_statement *table, const char *name)
{
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

static void refuse_unknown(const char *name)
{
    fprintf(stderr, "seam: the rows do not have the statement %s\n", name);
    abort();
}

/* Answers one in fifty transitions and records as done without doing it. Returns whether it has. */
static bool is_lost_later(struct pg_query *query)
{
    const struct pg_stmt *stmt = query->stmt;
    if (stmt->access == PG_READ || stmt->column_count > 0 || seam_pick(50) != 0)
        return false;
    seam_rows(query, stmt->match != PG_MATCH_NONE);
    return true;
}

int seam_rows_do(struct seam_store *store, struct pg_query *query)
{
    const char *name = seam_query_stmt(query)->name;
    const struct seam_statement *statement = find(statements, name);
    if (!statement)
        statement = find(seam_flow_statements, name);
    if (!statement)
        statement = find(seam_flow_take_statements, name);
    if (!statement)
        statement = find(seam_hold_statements, name);
    if (!statement)
        refuse_unknown(name);
    seam_query_done_set(query);
    if (store->bug == SEAM_BUG_EARLY_ANSWER && is_lost_later(query))
        return OK;
    int status = statement->run(store, query);
    if (store->on_done)
        store->on_done(store->owner, query, status);
    return status;
}

void seam_rows_answer(struct seam_store *store, struct pg_query *query)
{
    int status = seam_rows_do(store, query);
    if (status == OK)
        seam_query_done(query);
    else
        seam_query_fail(query, status);
}
