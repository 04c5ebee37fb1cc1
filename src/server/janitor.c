/*
 * Housekeeping; see janitor.h.
 */
#include "server/janitor.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "loop/op.h"
#include "store/api_key.h"
#include "store/connect_session.h"
#include "store/flow.h"
#include "store/node.h"
#include "store/oauth.h"
#include "store/retention.h"

enum {
    ROUND_MS = 60 * 1000,
    FIRST_ROUND_MS = 1000,
    ARENA_BYTES_MAX = 4 * 1024 * 1024,
    EXPIRE_ARENA_BYTES_MAX = 16 * 1024,
    FLOW_PAGES_MAX = 100, /* a round */
};

struct janitor {
    struct op op;
    struct pg_pool *pool;
    struct pg_query query;
    struct op_timer timer;
    unsigned keep_days, audit_days;
    unsigned flow_pages; /* in this round */
    struct keeper keeper;
};

static struct metric done_total =
    METRIC_INIT("sluice_housekeeping_total", "What housekeeping has done.", METRIC_COUNTER);
static struct metric failed_total = METRIC_INIT("sluice_housekeeping_failures_total",
                                                "Housekeeping steps that failed.", METRIC_COUNTER);

enum step {
    STEP_SLEEP,
    STEP_MAKE_PARTITIONS,
    STEP_MADE,
    STEP_FIND_FLOWS,
    STEP_REMOVE_FLOWS,
    STEP_DROP_PARTITION,
    STEP_DROPPED,
    STEP_KEEP,
    STEP_KEPT,
    STEP_FIND_KEYS,
    STEP_EXPIRE_KEYS,
    STEP_SWEEP_NODES,
    STEP_SWEPT,
    STEP_SWEEP_BEGUN,
    STEP_BEGUN_SWEPT,
    STEP_LINKS_SWEPT,
    STEP_SESSIONS_SWEPT,
};

static struct janitor *janitor_of(struct op *op)
{
    return CONTAINER_OF(op, struct janitor, op);
}

/* Counts a step's result. false: it failed, which is logged. */
static bool note(struct op *op, int status, const char *what, double count)
{
    struct buf text;
    /* Label values are literals of this file, so the number of series is bounded. */
    struct janitor *janitor = janitor_of(op);
    buf_init(&text, 128);
    buf_printf(&text, "what=\"%s\"", what);
    metric_add(metric_series(status == OK ? &done_total : &failed_total, buf_slice(&text)),
               status == OK ? count : 1);
    buf_deinit(&text);
    if (status != OK)
        op_log(op, LOG_WARN, "housekeeping failed, retrying in the next round",
               LOG_CSTR("what", what), LOG_INT("status", status),
               LOG_CSTR("sqlstate", janitor->query.sqlstate),
               LOG_STR("cause", janitor->query.message));
    return status == OK;
}

/* ---- one expired key: each has its own op, so that many share a batch ---- */

struct expiry {
    struct op op;
    struct pg_pool *pool;
    struct pg_query query;
    struct expired_key key;
};

static struct expiry *expiry_of(struct op *op)
{
    return CONTAINER_OF(op, struct expiry, op);
}

static enum op_result step_expire(struct op *op)
{
    struct expiry *expiry = expiry_of(op);
    /* The statement checks again that the key has expired: another process may have removed it. */
    store_key_expire(expiry->pool, &expiry->query, op, &expiry->key);
    return OP_WAIT;
}

static enum op_result step_expired(struct op *op)
{
    int status = store_done_result(&expiry_of(op)->query);
    /* A failure is counted only; the key is found again in the next round. */
    metric_add(metric_series(status == OK ? &done_total : &failed_total, SLICE("what=\"key\"")), 1);
    return OP_DONE;
}

static const struct op_step expiry_steps[] = {{"expire", step_expire, 0},
                                              {"expired", step_expired, 0}};
static const struct op_class expiry_class = {
    .name = "key_expiry",
    .is_background = true,
    .steps = expiry_steps,
    .step_count = ARRAY_LEN(expiry_steps),
    .free = op_free_struct,
};

static void start_expiry(struct janitor *janitor, const struct expired_key *key)
{
    struct expiry *expiry = mem_zalloc(sizeof(*expiry));
    /* Out of memory: the key is found again in the next round. */
    if (!expiry)
        return;
    expiry->pool = janitor->pool;
    op_start(&expiry->op, &expiry_class, janitor->op.loop, &janitor->op, EXPIRE_ARENA_BYTES_MAX);
    expiry->key = *key;
    /* Copied: the janitor's arena is reset before this op may have ended. */
    expiry->key.key = arena_dup(&expiry->op.arena, key->key);
}

/* ---- one flow that ended long ago, in the same way ---- */

struct removal {
    struct op op;
    struct pg_pool *pool;
    struct pg_query query;
    struct flow_ref ref;
    int64_t before;
};

static struct removal *removal_of(struct op *op)
{
    return CONTAINER_OF(op, struct removal, op);
}

static enum op_result step_remove(struct op *op)
{
    struct removal *removal = removal_of(op);
    /* `before` is checked again in the statement, so that a stale page removes nothing too early.
     */
    store_flow_remove(removal->pool, &removal->query, op, &removal->ref, removal->before);
    return OP_WAIT;
}

static enum op_result step_removed(struct op *op)
{
    int status = store_done_result(&removal_of(op)->query);
    metric_add(metric_series(status == OK ? &done_total : &failed_total, SLICE("what=\"flow\"")),
               1);
    return OP_DONE;
}

static const struct op_step removal_steps[] = {{"remove", step_remove, 0},
                                               {"removed", step_removed, 0}};
static const struct op_class removal_class = {
    .name = "flow_removal",
    .is_background = true,
    .steps = removal_steps,
    .step_count = ARRAY_LEN(removal_steps),
    .free = op_free_struct,
};

static int64_t flows_before(const struct janitor *janitor)
{
    return clock_wall_us() - (int64_t)janitor->keep_days * 86400 * 1000000;
}

static void start_removal(struct janitor *janitor, const struct flow_ref *ref)
{
    /* Out of memory: the flow is found again in the next round. */
    struct removal *removal = mem_zalloc(sizeof(*removal));
    if (!removal)
        return;
    removal->pool = janitor->pool;
    removal->ref = *ref;
    removal->before = flows_before(janitor);
    op_start(&removal->op, &removal_class, janitor->op.loop, &janitor->op, EXPIRE_ARENA_BYTES_MAX);
}

/* ---- the round ---- */

static enum op_result step_sleep(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    /* The first round comes soon after the start, so that a restart delays no housekeeping. */
    bool is_first = janitor->query.stmt == NULL;
    /* The arena has the results of the last round, which are not needed any more. */
    arena_reset(&op->arena);
    janitor->flow_pages = 0;
    op_sleep(op, &janitor->timer, is_first ? FIRST_ROUND_MS : ROUND_MS, "time for the next round");
    return OP_WAIT;
}

static enum op_result step_make_partitions(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    store_partitions_make(janitor->pool, &janitor->query, op);
    return OP_WAIT;
}

static enum op_result step_made(struct op *op)
{
    size_t count = 0;
    int status = store_count_result(&janitor_of(op)->query, &count);
    /* A failure does not stop the round: the other steps do not depend on this one. */
    (void)note(op, status, "partition_made", (double)count);
    return OP_NEXT;
}

static enum op_result step_find_flows(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    store_flow_ended(janitor->pool, &janitor->query, op, flows_before(janitor));
    return OP_WAIT;
}

/* Jumps to `step` for the next page, once the ops of this page have ended: each holds this op. */
static enum op_result go_back(struct op *op, enum step step)
{
    return op->holds > 0 ? op_wait_then(op, step) : op_jump(op, step);
}

/* Comes before partitions are dropped: partitions of flows' documents stay until their last flow is
 * removed. */
static enum op_result step_remove_flows(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    struct flow_ref *refs = NULL;
    size_t count = 0;
    int status = store_flow_scan_result(&janitor->query, &refs, &count);
    if (status != OK)
        (void)note(op, status, "flow", 0);
    for (size_t i = 0; i < count; i++)
        start_removal(janitor, &refs[i]);
    /* A full page suggests more; the limit keeps one round from running without end. */
    if (count == FLOW_SCAN_MAX && ++janitor->flow_pages < FLOW_PAGES_MAX)
        return go_back(op, STEP_FIND_FLOWS);
    return op->holds > 0 ? OP_WAIT : OP_NEXT;
}

static enum op_result step_drop_partition(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    /* One partition for each statement, since a drop takes a lock on its table. */
    store_partitions_drop(janitor->pool, &janitor->query, op, janitor->keep_days,
                          janitor->audit_days);
    return OP_WAIT;
}

static enum op_result step_dropped(struct op *op)
{
    size_t count = 0;
    int status = store_count_result(&janitor_of(op)->query, &count);
    /* Until a call drops nothing. */
    if (note(op, status, "partition_dropped", (double)count) && count > 0)
        return op_jump(op, STEP_DROP_PARTITION);
    return OP_NEXT;
}

static enum op_result step_keep(struct op *op)
{
    /* keeper works in bounded parts and returns within the round. */
    keeper_start(&janitor_of(op)->keeper, op);
    return OP_WAIT;
}

static enum op_result step_kept(struct op *op)
{
    const struct keeper *keeper = &janitor_of(op)->keeper;
    if (keeper->status != OK)
        (void)note(op, keeper->status, "kept", 0);
    metric_add(metric_series(&done_total, SLICE("what=\"execution\"")),
               (double)keeper->removed[KEPT_EXECUTIONS]);
    metric_add(metric_series(&done_total, SLICE("what=\"audit_event\"")),
               (double)keeper->removed[KEPT_AUDIT]);
    return OP_NEXT;
}

static enum op_result step_find_keys(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    store_keys_expired(janitor->pool, &janitor->query, op);
    return OP_WAIT;
}

static enum op_result step_expire_keys(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    struct expired_key *keys = NULL;
    size_t count = 0;
    int status = store_keys_expired_result(&janitor->query, &keys, &count);
    if (status != OK)
        (void)note(op, status, "key", 0);
    for (size_t i = 0; i < count; i++)
        start_expiry(janitor, &keys[i]);
    /* A full page: there may be more. */
    if (count == RETENTION_KEYS_MAX)
        return go_back(op, STEP_FIND_KEYS);
    return op->holds > 0 ? OP_WAIT : OP_NEXT;
}

static enum op_result step_sweep_nodes(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    store_node_sweep(janitor->pool, &janitor->query, op);
    return OP_WAIT;
}

static enum op_result step_swept(struct op *op)
{
    /* The steps from here on are single statements on small tables. */
    (void)note(op, store_done_result(&janitor_of(op)->query), "nodes", 1);
    return OP_NEXT;
}

static enum op_result step_sweep_begun(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    store_oauth_begun_sweep(janitor->pool, &janitor->query, op);
    return OP_WAIT;
}

static enum op_result step_begun_swept(struct op *op)
{
    (void)note(op, store_done_result(&janitor_of(op)->query), "oauth_begun", 1);
    store_connect_session_sweep(janitor_of(op)->pool, &janitor_of(op)->query, op);
    return OP_WAIT;
}

static enum op_result step_links_swept(struct op *op)
{
    (void)note(op, store_done_result(&janitor_of(op)->query), "connect_session", 1);
    store_session_end_sweep(janitor_of(op)->pool, &janitor_of(op)->query, op);
    return OP_WAIT;
}

static enum op_result step_sessions_swept(struct op *op)
{
    (void)note(op, store_done_result(&janitor_of(op)->query), "session", 1);
    return op_jump(op, STEP_SLEEP);
}

static void on_cancel(struct op *op)
{
    /* keeper's op is a child and has its own queries to cancel. */
    op_cancel(&janitor_of(op)->keeper.op);
}

static const struct op_step steps[] = {
    [STEP_SLEEP] = {"sleep", step_sleep, 0},
    [STEP_MAKE_PARTITIONS] = {"make_partitions", step_make_partitions, 0},
    [STEP_MADE] = {"made", step_made, 0},
    [STEP_FIND_FLOWS] = {"find_flows", step_find_flows, 0},
    [STEP_REMOVE_FLOWS] = {"remove_flows", step_remove_flows, OP_TO(STEP_FIND_FLOWS)},
    [STEP_DROP_PARTITION] = {"drop_partition", step_drop_partition, 0},
    [STEP_DROPPED] = {"dropped", step_dropped, OP_TO(STEP_DROP_PARTITION)},
    [STEP_KEEP] = {"keep", step_keep, 0},
    [STEP_KEPT] = {"kept", step_kept, 0},
    [STEP_FIND_KEYS] = {"find_keys", step_find_keys, 0},
    [STEP_EXPIRE_KEYS] = {"expire_keys", step_expire_keys, OP_TO(STEP_FIND_KEYS)},
    [STEP_SWEEP_NODES] = {"sweep_nodes", step_sweep_nodes, 0},
    [STEP_SWEPT] = {"swept", step_swept, 0},
    [STEP_SWEEP_BEGUN] = {"sweep_begun", step_sweep_begun, 0},
    [STEP_BEGUN_SWEPT] = {"begun_swept", step_begun_swept, 0},
    [STEP_LINKS_SWEPT] = {"links_swept", step_links_swept, 0},
    [STEP_SESSIONS_SWEPT] = {"sessions_swept", step_sessions_swept, OP_TO(STEP_SLEEP)},
};

static const struct op_class janitor_class = {
    .name = "janitor",
    .is_background = true,
    .steps = steps,
    .step_count = ARRAY_LEN(steps),
    .on_cancel = on_cancel,
    .free = op_free_struct,
};

struct janitor *janitor_new(struct loop *loop, struct pg_pool *pool,
                            const struct janitor_config *config)
{
    struct janitor *janitor = mem_zalloc(sizeof(*janitor));
    if (!janitor)
        return NULL;
    /* The first sleep begins at once; no query is sent from here. */
    janitor->pool = pool;
    janitor->keep_days = config->keep_days;
    janitor->audit_days = config->audit_days;
    keeper_init(&janitor->keeper, pool, &config->keeper);
    op_start(&janitor->op, &janitor_class, loop, NULL, ARENA_BYTES_MAX);
    return janitor;
}

void janitor_free(struct janitor *janitor)
{
    if (janitor)
        op_cancel(&janitor->op);
}
