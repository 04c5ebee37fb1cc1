#include "pg/shards.h"

#include "base/log.h"
#include "base/mem.h"

enum { LOAD_BYTES_MAX = 16 * 1024 * 1024, LOAD_REST_MS = 500 };

struct node {
    int64_t group;
    struct pg_pool *pool;
};

struct pg_shards {
    struct pg_pool *coordinator;
    struct pg_pool_config config;
    char *conninfo, *application_name;
    struct pg_placement *placement;
    struct node nodes[PG_NODES_MAX];
    size_t node_count;
    struct load *load; /* NULL: none is under way */
    bool is_outdated;  /* asked for while one is under way */
};

/* One reading of the placement, an op of its own; repeated until it succeeds. */
struct load {
    struct op op;
    struct op_timer rest;
    struct pg_query nodes, tables;
    struct pg_shards *shards; /* NULL: gone */
};

/* ShareLock is 5 (storage/lockdefs.h); what a move takes in the end, ExclusiveLock, excludes it. */
static const struct pg_column guard_params[] = {PG_ARG("shard_id", PG_I64),
                                                PG_ARG("group_id", PG_I64)};
const struct pg_stmt pg_guard_lock = {
    .name = "guard_lock",
    .sql = "select pg_catalog.lock_shard_metadata(5, array[:shard_id]), :group_id @from",
    PG_PARAMS(guard_params),
    .match = PG_MATCH_NONE,
    .no_account = "locks shards",
};
/* A statement of its own: its snapshot is taken when the locks are held. A shard that has left
 * fails it (division_by_zero). */
const struct pg_stmt pg_guard_check = {
    .name = "guard_check",
    .sql = "select 1 / (select count(*)::integer from pg_catalog.pg_dist_placement p "
           "where p.shardid = :shard_id and p.groupid = :group_id) @from",
    PG_PARAMS(guard_params),
    .match = PG_MATCH_NONE,
    .no_account = "locks shards",
};

/* ---- the pools of the nodes ---- */

static struct node *node_of(struct pg_shards *shards, int64_t group)
{
    for (size_t i = 0; i < shards->node_count; i++)
        if (shards->nodes[i].group == group)
            return &shards->nodes[i];
    return NULL;
}

/* A pool for the node. Where it had another address the pool of that one goes, and its queries go
 * to the new one. false: no memory, or PG_NODES_MAX nodes have queries under way. */
static bool node_take(struct pg_shards *shards, const struct pg_node_address *address)
{
    struct err err = {.code = OK};
    struct pg_pool_config config = shards->config;
    struct node *node = node_of(shards, address->group);
    struct pg_pool *old = node ? node->pool : NULL;
    char port[24];
    (void)snprintf(port, sizeof(port), "%lld", (long long)address->port);
    config.host = address->host.ptr; /* arena_dup ends it with a NUL */
    config.port = port;
    config.group = address->group;
    if (old && pg_target_points_to(old->target, config.host, config.port))
        return true;
    if (!node && shards->node_count == PG_NODES_MAX)
        return false;
    struct pg_pool *pool = pg_pool_new(shards->coordinator->loop, &config, &err);
    if (!pool) {
        log_event(LOG_ERROR, "a database node cannot be used", LOG_STR("host", address->host),
                  LOG_CSTR("reason", err.text));
        return false;
    }
    pool->coordinator = shards->coordinator;
    if (!node)
        node = &shards->nodes[shards->node_count++];
    *node = (struct node){address->group, pool};
    pg_pool_free(old);
    log_event(LOG_INFO, "database node", LOG_STR("host", address->host),
              LOG_INT("port", address->port), LOG_INT("group", address->group));
    return true;
}

static bool has_shards(const struct pg_placement *placement, int64_t group)
{
    for (size_t i = 0; i < placement->shard_count; i++)
        if (placement->shards[i].group == group)
            return true;
    return false;
}

/* Only nodes that have shards get connections. One that has lost its last shard keeps them until
 * nothing of it is under way. */
static bool nodes_take(struct pg_shards *shards, const struct pg_placement *placement)
{
    for (size_t i = shards->node_count; i-- > 0;) {
        struct node *node = &shards->nodes[i];
        if (has_shards(placement, node->group) || pg_pool_pending(node->pool))
            continue;
        log_event(LOG_INFO, "database node without shards", LOG_INT("group", node->group));
        pg_pool_free(node->pool);
        *node = shards->nodes[--shards->node_count];
    }
    for (size_t i = 0; i < placement->node_count; i++)
        if (has_shards(placement, placement->nodes[i].group) &&
            !node_take(shards, &placement->nodes[i]))
            return false;
    return true;
}

struct pg_pool *pg_shards_pool(const struct pg_shards *shards, const struct pg_shard *shard)
{
    struct node *node = node_of((struct pg_shards *)shards, shard->group);
    return node ? node->pool : NULL;
}

/* ---- reading the placement ---- */

enum { LOAD_ASK, LOAD_TAKE };

static enum op_result load_ask(struct op *op)
{
    struct load *load = CONTAINER_OF(op, struct load, op);
    struct pg_pool *pool = load->shards->coordinator;
    load->nodes.stmt = &pg_placement_nodes;
    load->tables.stmt = &pg_placement_shards;
    pg_submit(pool, &load->nodes, op);
    pg_submit(pool, &load->tables, op);
    return OP_WAIT;
}

static struct pg_placement *load_result(const struct load *load, struct err *err)
{
    if (load->nodes.status == OK && load->tables.status == OK)
        return pg_placement_new(&load->nodes.rows, &load->tables.rows, err);
    const struct pg_query *failed = load->nodes.status == OK ? &load->tables : &load->nodes;
    return err_null(err, failed->status, "%.*s", SLICE_ARG(failed->message));
}

static enum op_result load_take(struct op *op)
{
    struct load *load = CONTAINER_OF(op, struct load, op);
    struct err err = {.code = OK};
    struct pg_placement *placement = load_result(load, &err);
    if (placement && nodes_take(load->shards, placement)) {
        pg_placement_free(load->shards->placement);
        load->shards->placement = placement;
        return OP_DONE;
    }
    pg_placement_free(placement);
    /* ERR_BUSY: no database yet, which the links report. */
    if (err.code != OK && err.code != ERR_BUSY)
        log_event(LOG_ERROR, "the placement of shards cannot be read",
                  LOG_CSTR("reason", err.text));
    op_sleep(op, &load->rest, LOAD_REST_MS, "reading the placement again");
    return op_wait_then(op, LOAD_ASK);
}

static void load_on_end(struct op *op, enum op_end end)
{
    struct pg_shards *shards = CONTAINER_OF(op, struct load, op)->shards;
    (void)end;
    if (!shards)
        return;
    shards->load = NULL;
    pg_route_homeless(shards->coordinator);
    if (shards->is_outdated)
        pg_shards_refresh(shards);
}

void pg_shards_refresh(struct pg_shards *shards)
{
    static const struct op_step steps[] = {
        [LOAD_ASK] = {"ask", load_ask, 0},
        [LOAD_TAKE] = {"take", load_take, OP_TO(LOAD_ASK)},
    };
    static const struct op_class class = {
        .name = "pg_placement",
        OP_STEPS(steps),
        .on_end = load_on_end,
        .free = op_free_struct,
    };
    shards->is_outdated = shards->load != NULL;
    if (shards->load)
        return;
    struct load *load = mem_zalloc(sizeof(*load));
    if (!load)
        return; /* the next query that waits for it asks again */
    load->shards = shards;
    shards->load = load;
    op_start(&load->op, &class, shards->coordinator->loop, NULL, LOAD_BYTES_MAX);
}

/* ---- making and unmaking ---- */

struct pg_shards *pg_shards_new(struct pg_pool *coordinator, const struct pg_pool_config *config)
{
    struct pg_shards *shards = mem_zalloc(sizeof(*shards));
    if (!shards)
        return NULL;
    shards->coordinator = coordinator;
    shards->conninfo = mem_strdup(config->conninfo);
    if (config->application_name)
        shards->application_name = mem_strdup(config->application_name);
    shards->config = *config;
    shards->config.conninfo = shards->conninfo;
    shards->config.application_name = shards->application_name;
    if (!shards->conninfo || (config->application_name && !shards->application_name)) {
        pg_shards_free(shards);
        return NULL;
    }
    return shards;
}

void pg_shards_free(struct pg_shards *shards)
{
    if (!shards)
        return;
    if (shards->load) {
        shards->load->shards = NULL;
        op_cancel(&shards->load->op);
    }
    for (size_t i = 0; i < shards->node_count; i++)
        pg_pool_free(shards->nodes[i].pool);
    pg_placement_free(shards->placement);
    mem_free(shards->conninfo);
    mem_free(shards->application_name);
    mem_free(shards);
}

const struct pg_placement *pg_shards_placement(const struct pg_shards *shards)
{
    return shards->placement;
}

bool pg_shards_is_ready(const struct pg_shards *shards)
{
    for (size_t i = 0; shards->placement && i < shards->node_count; i++)
        if (pg_pool_is_ready(shards->nodes[i].pool))
            return true;
    return false;
}

size_t pg_shards_pending(const struct pg_shards *shards)
{
    size_t count = 0;
    for (size_t i = 0; i < shards->node_count; i++)
        count += pg_pool_pending(shards->nodes[i].pool);
    return count;
}

size_t pg_shards_waiting(const struct pg_shards *shards)
{
    size_t count = 0;
    for (size_t i = 0; i < shards->node_count; i++)
        count += shards->nodes[i].pool->waiting;
    return count;
}
