/*
 * Housekeeping; see janitor.h.
 */
#include "server/janitor.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "loop/op.h"
#include "server/eraser.h"
#include "store/api_key.h"
#include "store/connect_session.h"
#include "store/delivery.h"
#include "store/flow.h"
#include "store/hold.h"
#include "store/later.h"
#include "store/node.h"
#include "store/oauth.h"
#include "store/rate_lease.h"
#include "store/retention.h"
#include "store/tally.h"
#include "store/usage.h"

enum {
    ROUND_MS = 60 * 1000,
    FIRST_ROUND_MS = 1000,
    ARENA_BYTES_MAX = 4 * 1024 * 1024,
    REMOVALS_MAX = 4000, /* rows per statement: more than a page has */
    DELIVERY_ROUNDS = 10,
    PAGES_MAX = 100, /* maximum number of pages for one batch in a round */
};

struct janitor {
    struct op op;
    struct pg_pool *pool;
    struct pg_query query;
    struct op_timer timer;
    unsigned keep_days, audit_days, input_days, webhook_days;
    unsigned rounds;
    struct catalog **catalog;
    size_t bite, sweep;  /* indices of the batch and of the statement under way */
    unsigned pages;      /* pages read for this batch in this round */
    int64_t holds_after; /* how far the scan of holds has come; 0: to begin */
    struct trimmer trimmer;
    struct eraser *eraser; /* an op of its own, for erasing takes long */
    struct store_laters removals;
    slice old_nodes; /* nodes to be removed, unless they own something */
};

static struct metric done_total =
    METRIC_INIT("sluice_housekeeping_total", "What housekeeping has done.", METRIC_COUNTER);
static struct metric failed_total = METRIC_INIT("sluice_housekeeping_failures_total",
                                                "Housekeeping steps that failed.", METRIC_COUNTER);

static struct metric flows_waiting =
    METRIC_INIT("sluice_flows_waiting",
                "Waiting flows of all accounts in the last minute: those that wait for a time, and "
                "those without one. Up to 10,000 of each kind are counted.",
                METRIC_GAUGE);

enum step {
    STEP_SLEEP,
    STEP_COUNT_WAITING,
    STEP_COUNTED,
    STEP_MAKE_PARTITION,
    STEP_MADE,
    STEP_FIND,
    STEP_BITE,
    STEP_DROP_PARTITION,
    STEP_DROPPED,
    STEP_TRIM,
    STEP_TRIMMED,
    STEP_FIND_NODES,
    STEP_FIND_OWNERS,
    STEP_REMOVE_NODES,
    STEP_NODES_REMOVED,
    STEP_SWEEP,
    STEP_SWEPT,
};

OP_OF(janitor_of, janitor)

bool housekeeping_note(struct op *op, const struct pg_query *query, int status, const char *what,
                       double count)
{
    struct buf text;
    /* Label values are literals of this room, so the number of series is limited. */
    buf_init(&text, 128);
    buf_printf(&text, "what=\"%s\"", what);
    metric_add(metric_series(status == OK ? &done_total : &failed_total, buf_slice(&text)),
               status == OK ? count : 1);
    buf_deinit(&text);
    if (status != OK)
        op_log(op, LOG_WARN, "housekeeping failed; the next round tries again",
               LOG_CSTR("what", what), LOG_INT("status", status),
               LOG_CSTR("sqlstate", query->sqlstate), LOG_STR("cause", query->message));
    return status == OK;
}

static bool note(struct op *op, int status, const char *what, double count)
{
    return housekeeping_note(op, &janitor_of(op)->query, status, what, count);
}

/* ---- rows that are found a page at a time, and changed one by one, in batches ---- */

struct removal {
    struct store_later later;
    const struct bite *bite;
    int64_t before;
    union {
        struct expired_key key;
        struct flow_ref flow;
        struct tally_old tally;
        struct flow_step_unfilled step;
        struct delivery_ended delivery;
        struct hold_ended hold;
    } row;
};

static int64_t flows_before(const struct janitor *janitor)
{
    return clock_shared_us() - (int64_t)janitor->keep_days * 86400 * 1000000;
}

static void find_flows(struct janitor *janitor)
{
    store_flow_ended(janitor->pool, &janitor->query, &janitor->op, flows_before(janitor));
}

static void find_steps(struct janitor *janitor)
{
    store_flow_steps_unfilled(janitor->pool, &janitor->query, &janitor->op);
}

static void find_keys(struct janitor *janitor)
{
    store_keys_expired(janitor->pool, &janitor->query, &janitor->op);
}

static void find_tallies(struct janitor *janitor)
{
    store_tally_due(janitor->pool, &janitor->query, &janitor->op);
}

static void find_holds(struct janitor *janitor)
{
    store_holds_ended(janitor->pool, &janitor->query, &janitor->op, janitor->holds_after);
    janitor->holds_after = 0;
}

static void find_deliveries(struct janitor *janitor)
{
    int64_t age_us = (int64_t)janitor->webhook_days * 86400 * 1000000;
    store_deliveries_ended(janitor->pool, &janitor->query, &janitor->op,
                           clock_shared_us() - age_us);
}

/* Each statement checks again that the row is unchanged: another process may have been first. */
static void remove_flow(struct store_later *later, const struct removal *removal)
{
    store_flow_remove(later->laters->pool, &later->query, &later->op, &removal->row.flow,
                      removal->before);
}

static void fill_step(struct store_later *later, const struct removal *removal)
{
    store_flow_step_fill(later->laters->pool, &later->query, &later->op, &removal->row.step);
}

static void expire_key(struct store_later *later, const struct removal *removal)
{
    store_key_expire(later->laters->pool, &later->query, &later->op, &removal->row.key);
}

static void fold_tally(struct store_later *later, const struct removal *removal)
{
    store_tally_fold(later->laters->pool, &later->query, &later->op, &removal->row.tally);
}

static void remove_hold(struct store_later *later, const struct removal *removal)
{
    store_hold_remove(later->laters->pool, &later->query, &later->op, &removal->row.hold);
}

static void remove_delivery(struct store_later *later, const struct removal *removal)
{
    store_delivery_remove(later->laters->pool, &later->query, &later->op, &removal->row.delivery);
}

/* Texts of a row are copied: the janitor's arena is reset before its op may have ended. */
static void own_key(struct janitor *janitor, struct removal *removal)
{
    struct expired_key *key = &removal->row.key;
    (void)janitor;
    key->key = arena_dup(&removal->later.op.arena, key->key);
}

/* A row that says how far the scan has come may be of an open hold, which is not removed. */
static void own_hold(struct janitor *janitor, struct removal *removal)
{
    struct hold_ended *hold = &removal->row.hold;
    int64_t until = hold->passed_until;
    hold->key = arena_dup(&removal->later.op.arena, hold->key);
    if (until != 0 && (janitor->holds_after == 0 || until < janitor->holds_after))
        janitor->holds_after = until;
}

/* Actions that are not in the catalog get empty names. */
static void own_step(struct janitor *janitor, struct removal *removal)
{
    struct flow_step_unfilled *step = &removal->row.step;
    struct arena *arena = &removal->later.op.arena;
    const struct catalog_action *action =
        step->tool.ptr ? catalog_find_tool(*janitor->catalog, step->tool) : NULL;
    slice app_id = action ? action->integration->integration_id : step->tool;
    slice action_id = action ? action->action_id : step->tool;
    step->integration_id = app_id.ptr ? arena_dup(arena, app_id) : SLICE("");
    step->action_id = action_id.ptr ? arena_dup(arena, action_id) : SLICE("");
}

/* Flows are removed before partitions are dropped: partitions of their documents stay until
 * their last flow is removed. */
static const struct bite {
    const char *what, *label;
    void (*find)(struct janitor *janitor);
    size_t size, count_max; /* size of a row; rows per page: a full page means that there may be
                             * more */
    unsigned pages_max;     /* maximum number of pages in a round; 0: no maximum */
    void (*own)(struct janitor *janitor, struct removal *removal); /* NULL if a row has no text */
    void (*send)(struct store_later *later, const struct removal *removal);
} bites[] = {
    {"flow", "what=\"flow\"", find_flows, sizeof(struct flow_ref), FLOW_SCAN_MAX, PAGES_MAX, NULL,
     remove_flow},
    {"step", "what=\"step\"", find_steps, sizeof(struct flow_step_unfilled), FLOW_SCAN_MAX,
     PAGES_MAX, own_step, fill_step},
    {"key", "what=\"key\"", find_keys, sizeof(struct expired_key), RETENTION_KEYS_MAX, 0, own_key,
     expire_key},
    {"tally", "what=\"tally\"", find_tallies, sizeof(struct tally_old), TALLY_OLD_MAX, PAGES_MAX,
     NULL, fold_tally},
    {"hold", "what=\"hold\"", find_holds, sizeof(struct hold_ended), HOLDS_ENDED_MAX, PAGES_MAX,
     own_hold, remove_hold},
    /* comes last: see next_bite */
    {"delivery", "what=\"delivery\"", find_deliveries, sizeof(struct delivery_ended),
     DELIVERY_ENDED_MAX, 0, NULL, remove_delivery},
};

/* The last batch has its turn every DELIVERY_ROUNDS: days are kept, and most databases have no such
 * rows. */
static size_t next_bite(struct janitor *janitor)
{
    size_t next = janitor->bite + 1;
    if (next == ARRAY_LEN(bites) - 1 && janitor->rounds++ % DELIVERY_ROUNDS != 0)
        next++;
    return next % ARRAY_LEN(bites);
}

static void send_removal(struct store_later *later)
{
    const struct removal *removal = CONTAINER_OF(later, struct removal, later);
    removal->bite->send(later, removal);
}

/* A failure is only counted; the next round finds the row again. */
static bool count_removal(struct store_later *later)
{
    const struct removal *removal = CONTAINER_OF(later, struct removal, later);
    bool is_done = store_done_result(&later->query) == OK;
    metric_add(
        metric_series(is_done ? &done_total : &failed_total, slice_cstr(removal->bite->label)), 1);
    return false;
}

static const struct store_later_class removal_class = {
    STORE_LATER(store_later_once, "removal", struct removal),
    .send = send_removal,
    .on_sent = count_removal,
};

/* ---- the round ---- */

static enum op_result step_sleep(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    /* The first round begins soon after the start, so that restarts do not delay housekeeping. */
    bool is_first = janitor->query.stmt == NULL;
    /* The arena has the results of the last round, which are no longer needed. */
    arena_reset(&op->arena);
    op_sleep(op, &janitor->timer, is_first ? FIRST_ROUND_MS : ROUND_MS, "time for the next round");
    return OP_WAIT;
}

static enum op_result step_count_waiting(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    store_flow_waiting(janitor->pool, &janitor->query, op);
    return OP_WAIT;
}

static enum op_result step_counted(struct op *op)
{
    size_t count = 0;
    if (note(op, store_flow_waiting_result(&janitor_of(op)->query, &count), "flows_counted", 1))
        metric_set(metric_series(&flows_waiting, SLICE_NONE), (double)count);
    return OP_NEXT;
}

static enum op_result step_make_partition(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    store_partition_make(janitor->pool, &janitor->query, op);
    return OP_WAIT;
}

static enum op_result step_made(struct op *op)
{
    size_t count = 0;
    int status = store_count_result(&janitor_of(op)->query, &count);
    /* A failure does not end the round, since the other steps do not depend on this one. */
    if (note(op, status, "partition_made", (double)count) && count > 0)
        return op_jump(op, STEP_MAKE_PARTITION);
    return OP_NEXT;
}

static enum op_result step_find(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    arena_reset(&op->arena); /* the ops of the page before have ended */
    bites[janitor->bite].find(janitor);
    return OP_WAIT;
}

/* Continues with the next page once the ops of this page, which hold this op, have ended; or
 * with the next batch. Rows for which there was no room are found again. */
static enum op_result step_bite(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    const struct bite *bite = &bites[janitor->bite];
    size_t count = 0;
    int status;
    const char *rows = store_list_result(&janitor->query, bite->size, &count, &status);
    if (status != OK)
        (void)note(op, status, bite->what, 0);
    for (size_t i = 0; i < count; i++) {
        struct removal *removal = store_later(&janitor->removals, &removal_class, op, 0);
        if (!removal)
            break;
        removal->bite = bite;
        removal->before = flows_before(janitor);
        memcpy(&removal->row, rows + i * bite->size, bite->size);
        if (bite->own)
            bite->own(janitor, removal);
    }
    bool is_over = count < bite->count_max || ++janitor->pages == bite->pages_max;
    if (is_over) {
        janitor->pages = 0;
        janitor->bite = next_bite(janitor);
    }
    enum step next = is_over && janitor->bite == 0 ? STEP_DROP_PARTITION : STEP_FIND;
    return op->holds > 0 ? op_wait_then(op, next) : op_jump(op, next);
}

static enum op_result step_drop_partition(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    /* Each statement drops one partition, since a drop locks its table. */
    store_partitions_drop(janitor->pool, &janitor->query, op, janitor->keep_days,
                          janitor->audit_days, janitor->input_days);
    return OP_WAIT;
}

static enum op_result step_dropped(struct op *op)
{
    size_t count = 0;
    int status = store_count_result(&janitor_of(op)->query, &count);
    /* The step is repeated until a call drops nothing. */
    if (note(op, status, "partition_dropped", (double)count) && count > 0)
        return op_jump(op, STEP_DROP_PARTITION);
    return OP_NEXT;
}

static enum op_result step_trim(struct op *op)
{
    /* trimmer does a limited amount of work and returns within the round. */
    trimmer_start(&janitor_of(op)->trimmer, op);
    return OP_WAIT;
}

static enum op_result step_trimmed(struct op *op)
{
    const struct trimmer *trimmer = &janitor_of(op)->trimmer;
    if (trimmer->status != OK)
        (void)note(op, trimmer->status, "kept", 0);
    metric_add(metric_series(&done_total, SLICE("what=\"execution\"")),
               (double)trimmer->removed[QUOTA_EXECUTIONS]);
    metric_add(metric_series(&done_total, SLICE("what=\"audit_event\"")),
               (double)trimmer->removed[QUOTA_AUDIT]);
    metric_add(metric_series(&done_total, SLICE("what=\"blocked_input\"")),
               (double)trimmer->removed[QUOTA_BLOCKED_INPUTS]);
    metric_add(metric_series(&done_total, SLICE("what=\"delivery_failed\"")),
               (double)trimmer->removed[QUOTA_DELIVERIES]);
    return OP_NEXT;
}

static enum op_result step_find_nodes(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    store_node_old(janitor->pool, &janitor->query, op);
    return OP_WAIT;
}

static enum op_result step_find_owners(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    int status = store_text_result(&janitor->query, &janitor->old_nodes);
    if (status != OK) {
        if (status != ERR_NOTFOUND)
            (void)note(op, status, "nodes", 0);
        return op_jump(op, STEP_SWEEP);
    }
    store_node_owning(janitor->pool, &janitor->query, op, janitor->old_nodes);
    return OP_WAIT;
}

static enum op_result step_remove_nodes(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    slice owning;
    int status = store_node_owning_result(&janitor->query, &owning);
    if (status != OK) {
        (void)note(op, status, "nodes", 0);
        return op_jump(op, STEP_SWEEP);
    }
    store_node_remove(janitor->pool, &janitor->query, op, janitor->old_nodes, owning);
    return OP_WAIT;
}

static enum op_result step_nodes_removed(struct op *op)
{
    (void)note(op, store_done_result(&janitor_of(op)->query), "nodes", 1);
    return OP_NEXT;
}

/* Each sweep is a single statement on a small table; they run one after another. */
static const struct {
    const char *what;
    void (*start)(struct pg_pool *pool, struct pg_query *query, struct op *op);
} sweeps[] = {
    {"oauth_begun", store_oauth_begun_sweep},
    {"connect_session", store_connect_session_sweep},
    {"session", store_session_end_sweep},
    {"rate_lease", store_rate_lease_sweep},
    {"usage", store_usage_sweep},
};

static enum op_result step_sweep(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    sweeps[janitor->sweep].start(janitor->pool, &janitor->query, op);
    return OP_WAIT;
}

static enum op_result step_swept(struct op *op)
{
    struct janitor *janitor = janitor_of(op);
    (void)note(op, store_done_result(&janitor->query), sweeps[janitor->sweep].what, 1);
    janitor->sweep = (janitor->sweep + 1) % ARRAY_LEN(sweeps);
    return op_jump(op, janitor->sweep > 0 ? STEP_SWEEP : STEP_SLEEP);
}

static void on_cancel(struct op *op)
{
    /* trimmer's op is a child and has its own queries to cancel. */
    op_cancel(&janitor_of(op)->trimmer.op);
}

static const struct op_step steps[] = {
    [STEP_SLEEP] = {"sleep", step_sleep, 0},
    [STEP_COUNT_WAITING] = {"count_waiting", step_count_waiting, 0},
    [STEP_COUNTED] = {"counted", step_counted, 0},
    [STEP_MAKE_PARTITION] = {"make_partition", step_make_partition, 0},
    [STEP_MADE] = {"made", step_made, OP_TO(STEP_MAKE_PARTITION)},
    [STEP_FIND] = {"find", step_find, 0},
    [STEP_BITE] = {"bite", step_bite, OP_TO(STEP_FIND) | OP_TO(STEP_DROP_PARTITION)},
    [STEP_DROP_PARTITION] = {"drop_partition", step_drop_partition, 0},
    [STEP_DROPPED] = {"dropped", step_dropped, OP_TO(STEP_DROP_PARTITION)},
    [STEP_TRIM] = {"trim", step_trim, 0},
    [STEP_TRIMMED] = {"trimmed", step_trimmed, 0},
    [STEP_FIND_NODES] = {"find_nodes", step_find_nodes, 0},
    [STEP_FIND_OWNERS] = {"find_owners", step_find_owners, OP_TO(STEP_SWEEP)},
    [STEP_REMOVE_NODES] = {"remove_nodes", step_remove_nodes, OP_TO(STEP_SWEEP)},
    [STEP_NODES_REMOVED] = {"nodes_removed", step_nodes_removed, 0},
    [STEP_SWEEP] = {"sweep", step_sweep, 0},
    [STEP_SWEPT] = {"swept", step_swept, OP_TO(STEP_SWEEP) | OP_TO(STEP_SLEEP)},
};

static const struct op_class janitor_class = {
    .name = "janitor",
    .is_background = true,
    OP_STEPS(steps),
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
    janitor->input_days = config->input_days;
    janitor->webhook_days = config->webhook_days;
    janitor->catalog = config->catalog;
    store_laters_init(&janitor->removals, loop, pool, REMOVALS_MAX);
    trimmer_init(&janitor->trimmer, pool, &config->trimmer);
    janitor->eraser = eraser_new(loop, pool, config->erase_wait_ms);
    if (!janitor->eraser) {
        mem_free(janitor);
        return NULL;
    }
    op_start(&janitor->op, &janitor_class, loop, NULL, ARENA_BYTES_MAX);
    return janitor;
}

void janitor_free(struct janitor *janitor)
{
    if (!janitor)
        return;
    eraser_free(janitor->eraser);
    op_cancel(&janitor->op);
}

void janitor_erase_users(struct janitor *janitor)
{
    eraser_wake(janitor->eraser);
}
