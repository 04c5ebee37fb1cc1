#include "shard/shards.h"

#include "base/log.h"
#include "base/mem.h"

enum { LOAD_BYTES_MAX = 16 * 1024 * 1024, LOAD_REST_MS = 500 };

/* Reads the placement once, as a separate op. The op is repeated until it succeeds. */
struct shards_load {
    struct op op;
    struct op_timer rest;
    struct pg_query nodes, tables;
    struct shards *shards; /* NULL: freed */
};

/* ShareLock is 5 (storage/lockdefs.h); it excludes the ExclusiveLock that a move takes at its
 * end. */
static const struct pg_column guard_params[] = {PG_ARG("shard_id", PG_I64),
                                                PG_ARG("group_id", PG_I64)};
static const struct pg_stmt guard_lock = {
    .name = "guard_lock",
    .sql = "select pg_catalog.lock_shard_metadata(5, array[:shard_id]), :group_id @from",
    PG_PARAMS(guard_params),
    .match = PG_MATCH_NONE,
    .no_account = "locks shards",
};
/* A separate statement, so that its snapshot is taken after the locks. It fails if a shard has
 * moved: only an error makes the server skip the rest of the batch. Its text, which PostgreSQL
 * logs, says so: the cast of anything but a number fails, and it is outside of the CASE, where the
 * planner cannot evaluate it. */
static const struct pg_stmt guard_check = {
    .name = "guard_check",
    .sql = "select (select case count(*) when 1 then '1' else format('shard %s is not in node "
           "group %s any more: the batch is sent again', :shard_id, :group_id) end "
           "from pg_catalog.pg_dist_placement p "
           "where p.shardid = :shard_id and p.groupid = :group_id)::integer @from",
    PG_PARAMS(guard_params),
    .match = PG_MATCH_NONE,
    .no_account = "locks shards",
};

/* ---- the pools of the nodes ---- */

static struct shards_node *node_of(struct shards *shards, int64_t group)
{
    for (size_t i = 0; i < shards->node_count; i++)
        if (shards->nodes[i].group == group)
            return &shards->nodes[i];
    return NULL;
}

/* Makes sure that there is a pool for the node. If the node had another address, the old pool ends
 * and its queries move to the new pool. Returns false if out of memory, or if PLACEMENT_NODES_MAX
 * nodes have queries under way. */
static bool node_take(struct shards *shards, const struct placement_node *address)
{
    struct err err = {.code = OK};
    struct pg_pool_config config = shards->config;
    struct shards_node *node = node_of(shards, address->group);
    struct pg_pool *old = node ? node->pool : NULL;
    char port[24];
    (void)snprintf(port, sizeof(port), "%lld", (long long)address->port);
    config.host = address->host.ptr; /* arena_dup ends it with a NUL */
    config.port = port;
    config.group = address->group;
    if (old && pg_target_points_to(old->target, config.host, config.port))
        return true;
    if (!node && shards->node_count == PLACEMENT_NODES_MAX)
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
    *node = (struct shards_node){address->group, pool};
    pg_pool_free(old);
    log_event(LOG_INFO, "database node", LOG_STR("host", address->host),
              LOG_INT("port", address->port), LOG_INT("group", address->group));
    return true;
}

/* A node of the cluster may have no shards, such as the coordinator, or a node that was just added
 * or emptied. */
static bool has_shards(const struct placement *placement, int64_t group)
{
    for (size_t i = 0; i < placement->shard_count; i++)
        if (placement->shards[i].group == group)
            return true;
    return false;
}

/* Only nodes with shards get connections. A node that has lost its last shard keeps them until
 * no query is under way. */
static bool nodes_take(struct shards *shards, const struct placement *placement)
{
    for (size_t i = shards->node_count; i-- > 0;) {
        struct shards_node *node = &shards->nodes[i];
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

struct pg_pool *shards_pool(const struct shards *shards, const struct shard *shard)
{
    struct shards_node *node = node_of((struct shards *)shards, shard->group);
    return node ? node->pool : NULL;
}

/* ---- reading the placement ---- */

enum { LOAD_ASK, LOAD_TAKE };

static enum op_result load_ask(struct op *op)
{
    struct shards_load *load = CONTAINER_OF(op, struct shards_load, op);
    struct pg_pool *pool = load->shards->coordinator;
    load->nodes.stmt = &placement_nodes;
    load->tables.stmt = &placement_shards;
    pg_submit(pool, &load->nodes, op);
    pg_submit(pool, &load->tables, op);
    return OP_WAIT;
}

/* Returns NULL on failure; err has the database's message, or says what is wrong with its
 * answer. */
static struct placement *load_result(const struct shards_load *load, struct err *err)
{
    if (load->nodes.status == OK && load->tables.status == OK)
        return placement_new(&load->nodes.rows, &load->tables.rows, err);
    const struct pg_query *failed = load->nodes.status == OK ? &load->tables : &load->nodes;
    return err_null(err, failed->status, "%.*s", SLICE_ARG(failed->message));
}

static enum op_result load_take(struct op *op)
{
    struct shards_load *load = CONTAINER_OF(op, struct shards_load, op);
    struct err err = {.code = OK};
    struct placement *placement = load_result(load, &err);
    if (placement && nodes_take(load->shards, placement)) {
        placement_free(load->shards->placement);
        load->shards->placement = placement;
        return OP_DONE;
    }
    placement_free(placement);
    /* ERR_BUSY: there is no database connection yet, which the links report. */
    if (err.code != OK && err.code != ERR_BUSY)
        log_event(LOG_ERROR, "the placement of shards cannot be read",
                  LOG_CSTR("reason", err.text));
    op_sleep(op, &load->rest, LOAD_REST_MS, "reading the placement again");
    return op_wait_then(op, LOAD_ASK);
}

/* Queries that waited continue, and if another reading was requested during this one, it starts
 * now. */
static void load_on_end(struct op *op, enum op_end end)
{
    struct shards *shards = CONTAINER_OF(op, struct shards_load, op)->shards;
    (void)end;
    if (!shards)
        return;
    shards->load = NULL;
    shard_route_homeless(shards->coordinator);
    if (shards->is_outdated)
        shards_refresh(shards);
}

void shards_refresh(struct shards *shards)
{
    static const struct op_step steps[] = {
        [LOAD_ASK] = {"ask", load_ask, 0},
        [LOAD_TAKE] = {"take", load_take, OP_TO(LOAD_ASK)},
    };
    static const struct op_class class = {
        .name = "placement",
        OP_STEPS(steps),
        .on_end = load_on_end,
        .free = op_free_struct,
    };
    shards->is_outdated = shards->load != NULL;
    if (shards->load)
        return;
    struct shards_load *load = mem_zalloc(sizeof(*load));
    if (!load)
        return; /* the next query that waits for it starts a new reading */
    load->shards = shards;
    shards->load = load;
    op_start(&load->op, &class, shards->coordinator->loop, NULL, LOAD_BYTES_MAX);
}

/* ---- callbacks of the coordinator's pool ---- */

static void router_refresh(struct pg_router *router)
{
    shards_refresh(shards_of(router));
}

static bool router_rename(const struct pg_router *router, int64_t shard_id, slice sql,
                          struct buf *out)
{
    const struct placement *placement = shards_of(router)->placement;
    const struct shard *shard = placement_by_id(placement, shard_id);
    if (shard)
        placement_rename(placement, shard, sql, out);
    return shard != NULL;
}

/* A node that is down affects only its own accounts. */
static bool router_is_ready(const struct pg_router *router)
{
    const struct shards *shards = shards_of(router);
    for (size_t i = 0; shards->placement && i < shards->node_count; i++)
        if (pg_pool_is_ready(shards->nodes[i].pool))
            return true;
    return false;
}

static size_t router_pending(const struct pg_router *router)
{
    const struct shards *shards = shards_of(router);
    size_t count = 0;
    for (size_t i = 0; i < shards->node_count; i++)
        count += pg_pool_pending(shards->nodes[i].pool);
    return count;
}

static size_t router_waiting(const struct pg_router *router)
{
    const struct shards *shards = shards_of(router);
    size_t count = 0;
    for (size_t i = 0; i < shards->node_count; i++)
        count += shards->nodes[i].pool->waiting;
    return count;
}

/* During this call the nodes' queries move to the coordinator, which is closing and ends them. */
static void router_free(struct pg_router *router)
{
    struct shards *shards = shards_of(router);
    spread_end_all(shards);
    if (shards->load) {
        shards->load->shards = NULL;
        op_cancel(&shards->load->op);
    }
    for (size_t i = 0; i < shards->node_count; i++)
        pg_pool_free(shards->nodes[i].pool);
    placement_free(shards->placement);
    mem_free(shards->conninfo);
    mem_free(shards->application_name);
    mem_free(shards);
}

/* ---- creation ---- */

/* Returns NULL if out of memory. */
static struct shards *shards_new(struct pg_pool *coordinator, const struct pg_pool_config *config)
{
    struct shards *shards = mem_zalloc(sizeof(*shards));
    if (!shards)
        return NULL;
    shards->router = (struct pg_router){
        .route = shard_query_route,
        .spread = spread_start,
        .moved = shard_query_moved,
        .refresh = router_refresh,
        .rename = router_rename,
        .pending = router_pending,
        .waiting = router_waiting,
        .is_ready = router_is_ready,
        .free = router_free,
        .guards = {&guard_lock, &guard_check},
    };
    shards->coordinator = coordinator;
    list_init(&shards->spreads);
    shards->conninfo = mem_strdup(config->conninfo);
    if (config->application_name)
        shards->application_name = mem_strdup(config->application_name);
    shards->config = *config;
    shards->config.conninfo = shards->conninfo;
    shards->config.application_name = shards->application_name;
    if (shards->conninfo && (!config->application_name || shards->application_name))
        return shards;
    router_free(&shards->router);
    return NULL;
}

/* The coordinator is created first: a node's pool ends with it, and none is created before the
 * first placement is read. */
struct pg_pool *shard_pool_new(struct loop *loop, const struct pg_pool_config *config,
                               struct err *err)
{
    ASSERT(config->is_sharded && !config->host);
    struct pg_pool *coordinator = pg_pool_new(loop, config, err);
    struct shards *shards = coordinator ? shards_new(coordinator, config) : NULL;
    if (shards) {
        coordinator->router = &shards->router;
        shards_refresh(shards);
        return coordinator;
    }
    if (coordinator)
        err_set(err, ERR_NOMEM, "out of memory");
    pg_pool_free(coordinator);
    return NULL;
}
