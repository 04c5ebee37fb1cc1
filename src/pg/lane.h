/*
 * Internals of the pool: lanes (a connection and the batches in flight on it), batches, and the
 * slots of expanded statements. For the files of this room.
 */
#ifndef PG_LANE_H
#define PG_LANE_H

#include "base/keyed.h"
#include "base/map.h"
#include "base/metric.h"
#include "pg/link.h"
#include "pg/pg.h"
#include "pg/stmt.h"

enum {
    PG_SLOTS_MIN = 256,                          /* initial number of slots */
    PG_BATCH_BYTES_MAX = 1024 * 1024,            /* parameters of a batch of several queries */
    PG_BATCH_RESULT_BYTES_MAX = 2 * 1024 * 1024, /* expected results of such a batch */
    PG_FLIGHT_WRITES = 1, /* batches in flight; the next batch collects queries until one returns */
    PG_FLIGHT_READS = 4,
    PG_FLIGHT_SINGLES = 64, /* replayed queries, each with its own Sync */
    PG_ATTEMPTS_MAX = 8,
    PG_STALE_ATTEMPTS_MAX = 2, /* after that the error is the statement's own */
    PG_SKIPS_MAX = 1024,       /* queries skipped in a queue because their row is being changed */
    PG_TENANT_SKIPS_MAX = 128, /* the same for one tenant, if there are several */
    PG_ROWS_BUSY = 65536,      /* size of the bitmap of rows being changed, by hash; a power of
                                * two */
    PG_HOLD_MS = 5,            /* a batch in flight for longer does not hold back other lanes */
    PG_KINDS_MAX = 64,         /* different statements in a batch */
    PG_SHARED_OUT_MIN = 3,     /* reads of a turn divided among idle readers (pg/collect.c) */
    PG_SHARED_OUT_MAX = 8,
    PG_GUARD_COUNT = 2,
};

enum pg_query_state { QUERY_IDLE, QUERY_WAITING, QUERY_SENT, QUERY_REJECTED, QUERY_SPREAD };

/* The pool's data about a statement; one slot for each shard that it has been sent to. */
struct pg_slot {
    struct pg_slot_key {
        const struct pg_stmt *stmt;
        int64_t shard_id; /* 0: none */
    } key;                /* key of the map */
    const struct pg_stmt *stmt;
    unsigned index;
    unsigned tenant_at;                  /* the parameter account_id; PG_PARAMS_MAX: none */
    char *sql[2];                        /* by enum pg_mode; the set text is NULL without
                                          * parameters */
    char name[2][PG_STMT_NAME_MAX + 24]; /* prepared statement: s_name, p_name, p_name_SHARD */
    uint64_t batch_mark;                 /* number of the batch being built ... */
    size_t kind;                         /* ... and this statement's group in it */
    size_t result_bytes; /* expected for one query: the largest recent mean of its commands */
};

struct pg_queue {
    struct list queries; /* all, oldest first; those that are sent again precede all others and
                          * belong to no tenant */
    size_t count;
    struct keyed_table tenants; /* struct pg_tenant, by tenant */
    struct list ring;           /* tenants; the next one comes first */
};

/* The waiting queries of one tenant. */
struct pg_tenant {
    struct keyed keyed;  /* in the queue's ring; struct pg_query.tenant_link */
    struct list *cursor; /* the next query to consider, while a batch is collected */
    size_t count;
};

/* One message of a batch and its result. */
struct pg_command {
    struct pg_slot *slot;
    enum pg_mode mode;
    bool is_prepare;
    struct pg_query **queries; /* one in pipe mode */
    size_t count;
    /* Queries to answer: each of `queries`, followed by those that ask for the same rows. */
    struct pg_query **sharers;
    size_t sharer_count;
    PGresult *result;
};

struct pg_batch {
    struct list link; /* lane's flight, oldest first */
    struct arena arena;
    struct pg_query **queries; /* by kind, then by key */
    size_t query_count;
    struct pg_command *commands; /* one more than command_count: the Sync, which may also fail */
    size_t command_count, command_at; /* results of those before command_at have arrived */
    size_t guard_count;               /* commands at the front, on a node of a sharded database */
    size_t failed_at;                 /* SIZE_MAX: none */
    uint64_t sent_ns;
    bool is_large; /* its query is from the queue of large reads */
    /* An earlier batch of the pipeline failed before a Prepare that this batch relies on. */
    bool is_unprepared;
};

struct pg_lane {
    struct pg_link link;
    struct pg_pool *pool;
    bool is_writer, needs_flush;
    struct list flight; /* batches */
    size_t flight_count, large_count;
    uint64_t heard_ns; /* when the server last sent bytes */
    uint8_t *prepared; /* indexed by slot: one bit per enum pg_mode; slots_room bytes */
};

struct pg_pool {
    struct loop *loop;
    struct loop_hook hook;
    struct timer sweep, hold;
    struct pg_target *target;
    enum pg_mode mode;
    /* The pool's database is a Citus cluster, or possibly one (for commands): statements are
     * planned by their values, which name the shard, and each is committed by itself. */
    bool is_coordinator;
    /* A query timed out waiting for a connection, and none has been established since. */
    bool is_unreachable;
    size_t queue_max, batch_rows_max;
    uint64_t queue_timeout_ns, stall_ns;
    struct map slots;
    struct pg_slot **slot_list;
    size_t slot_count, slots_room;
    struct pg_queue writes, reads, large;
    /* NULL unless the database is sharded. The coordinator's pool has a router, and keeps queries
     * whose node is unknown; a node's pool has its coordinator. */
    struct pg_router *router;
    struct pg_queue homeless;
    struct pg_pool *coordinator;
    int64_t group;
    struct list rejected;
    size_t pending; /* number of queries waiting, in flight or rejected */
    size_t waiting;
    struct pg_lane **lanes; /* writers first */
    size_t writer_count, lane_count, lanes_alive;
    struct buf scratch; /* arrays of the statement being sent */
    uint64_t batch_mark;
    /* Rows in batches in flight and in the batch being collected, by hash: two rows with the
     * same bit exclude each other, which only costs time. */
    uint64_t rows_busy[PG_ROWS_BUSY / 64];
    bool is_dirty, is_closing;
    struct loop_garbage garbage;
};

/*
 * Divides the queries of a coordinator's pool among the nodes of a sharded database. It is given to
 * the pool before its first turn, and the pool frees it.
 */
struct pg_router {
    /* Returns the queue for a query of the coordinator's pool, and sets the query's pool to that
     * of the queue. */
    struct pg_queue *(*route)(struct pg_query *query);
    /* Sends the query to each shard. op is held until the query has ended, as by pg_submit. Returns
     * false if out of memory; nothing was started then. */
    bool (*spread)(struct pg_router *router, struct pg_query *query, struct op *op);
    /* For a query of a node's pool whose shard has moved, or could not be locked: the query
     * waits without a node until the shard's location is known. */
    void (*moved)(struct pg_query *query);
    /* Reads the placement of the nodes again, because it may be outdated. */
    void (*refresh)(struct pg_router *router);
    /* Writes the SQL with the tables' names replaced by those of the shard. Returns false if the
     * shard no longer exists. */
    bool (*rename)(const struct pg_router *router, int64_t shard_id, slice sql, struct buf *out);
    /* For the nodes' pools: number of queries waiting or in flight, number waiting, and whether one
     * of the pools is connected. */
    size_t (*pending)(const struct pg_router *router);
    size_t (*waiting)(const struct pg_router *router);
    bool (*is_ready)(const struct pg_router *router);
    /* Ends the reads under way with ERR_BUSY, and frees the nodes' pools. */
    void (*free)(struct pg_router *router);
    /* The commands with which a batch on a node begins. Parameters: shard_id, group_id. */
    const struct pg_stmt *guards[PG_GUARD_COUNT];
};

/* pool.c */
void pg_query_end(struct pg_query *query, int status);
/* Puts the query back at the front of its queue, to be sent again. */
void pg_query_again(struct pg_query *query);
/* Selects the statement to send, which depends on whether it may have been executed already.
 * Returns false if out of memory. */
bool pg_query_choose(struct pg_query *query) MUST_CHECK;
void pg_queue_push(struct pg_queue *queue, struct pg_query *query);
void pg_queue_push_front(struct pg_queue *queue, struct pg_query *query);
void pg_queue_unlink(struct pg_query *query);
/* Returns the pool's queue in which queries of this statement wait to be sent. */
struct pg_queue *pg_queue_of(struct pg_pool *pool, const struct pg_stmt *stmt);
/* Starts the check of deadlines, because queries are pending. */
void pg_pool_arm_sweep(struct pg_pool *pool);
/* Submits the query to a node's pool, for that shard. */
void pg_submit_to(struct pg_pool *node, struct pg_query *query, struct op *op, int64_t shard_id);
/* Called last by each lane; the pool's memory is freed with its last lane. */
void pg_pool_lane_freed(struct pg_pool *pool);

/* lane.c */
extern const struct pg_link_events pg_lane_events;
/* Sends one batch from this queue of the pool if there is one and the lane is free to send. Returns
 * true if it sent one; call again until false, then call pg_lane_flush. */
bool pg_lane_send(struct pg_lane *lane, struct pg_queue *queue) MUST_CHECK;
void pg_lane_flush(struct pg_lane *lane);
/* Drops the lane if it has been silent for too long. */
void pg_lane_check_stall(struct pg_lane *lane, uint64_t now_ns);

/* tenant.c */
void pg_queue_init(struct pg_queue *queue);
void pg_queue_deinit(struct pg_queue *queue);
/* Adds the query to those of its tenant. Returns ERR_BUSY if this tenant, or all tenants together,
 * have reached the limit of waiting queries, or ERR_NOMEM. */
int pg_tenant_join(struct pg_queue *queue, struct pg_query *query) MUST_CHECK;
/* Removes the query from its tenant. Does nothing if it belongs to no tenant. */
void pg_tenant_leave(struct pg_queue *queue, struct pg_query *query);

/* slot.c: returns this pool's slot of a statement (for a shard; 0: none), created if it is new;
 * NULL if out of memory. A template that does not expand is a bug: it prints and aborts. */
struct pg_slot *pg_slot_get(struct pg_pool *pool, const struct pg_stmt *stmt,
                            int64_t shard_id) MUST_CHECK;
void pg_slot_free_all(struct pg_pool *pool);
/* Makes space for that many slots, in the lanes, too. Returns false if out of memory. */
bool pg_slots_make_room(struct pg_pool *pool, size_t room) MUST_CHECK;

/* collect.c: takes queries from the queue. Returns NULL if each waiting query waits for its row, or
 * if out of memory (the first query then ends with ERR_NOMEM). */
struct pg_batch *pg_batch_collect(struct pg_lane *lane, struct pg_queue *queue) MUST_CHECK;
/* Lets the rows of a batch be changed again, once it is no longer in flight. */
void pg_batch_leave_rows(struct pg_pool *pool, const struct pg_batch *batch);
/* batch.c */
/* Returns false if the connection broke. */
bool pg_batch_send(struct pg_batch *batch, struct pg_lane *lane) MUST_CHECK;
/* For a failed batch: marks its statements from the failed one on as not prepared. (They count
 * as prepared once they are sent, since later batches in the pipeline rely on them.) */
void pg_batch_unprepare(const struct pg_batch *batch, struct pg_lane *lane);
/* For a batch whose results have all arrived and are committed: fills and ends the queries. */
void pg_batch_deliver(struct pg_batch *batch);
void pg_batch_free(struct pg_batch *batch);

#endif
