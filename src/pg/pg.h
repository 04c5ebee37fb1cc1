/*
 * pg: statements for PostgreSQL, batched. Many requests of one loop turn become one transaction:
 * while a batch is in flight on a connection, the next batch collects queries. When the first
 * returns, all waiting queries are sent together with one Sync, and so one fsync (src/README.md
 * "The database").
 *
 * Users: only `store` writes SQL. Ops of the rooms above embed a struct pg_query, pass it to a
 * store function and return OP_WAIT; they are woken once the commit is durable. Nothing is reported
 * as done before its commit.
 *
 * Each statement is written once, as a template (struct pg_stmt), and expanded twice:
 *   set   ONE statement for all queries of a kind (pg_stmt_set_max): parameters are arrays
 *   pipe  one plain statement per query, each naming its account by `account_id = $1`
 *
 * For a Citus cluster (is_sharded) the pool has one such pool for each node, and sends a query to
 * the node that has its account's shard (shard/shards.h, shard/route.c).
 *
 * Limits: PG_PARAMS_MAX, PG_COLUMNS_MAX; a bounded queue (ERR_BUSY above it); batches of at most
 * batch_rows_max queries, about 1 MB of parameters, and about 2 MB of expected results; a query
 * with over PG_ALONE_BYTES of parameters is sent alone.
 */
#ifndef PG_PG_H
#define PG_PG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/id.h"
#include "base/list.h"
#include "base/slice.h"
#include "loop/loop.h"
#include "loop/op.h"

struct dns_resolver;

enum {
    PG_PARAMS_MAX = 32,
    PG_COLUMNS_MAX = 32,
    PG_ALONE_BYTES = 256 * 1024,
    PG_PARAM_BYTES_MAX = 64 * 1024 * 1024, /* maximum of all parameters of a query; above it
                                            * ERR_LIMIT */
    PG_SQLSTATE_LEN = 5,
};

/* ---- statements ---- */

enum pg_type {
    PG_UUID,
    PG_I64,   /* bigint */
    PG_TEXT,  /* UTF-8 without U+0000 */
    PG_JSON,  /* text of a JSON document; \u0000 escapes survive */
    PG_BYTES, /* bytea */
    PG_TIME,  /* timestamptz; microseconds since 1970-01-01 UTC in C */
    PG_BOOL,
    PG_OIDS, /* oidvector, only as a parameter (pg_oids_write): a list of numbers without text to
              * parse; an array of lists has lists as elements, which one of bigint[] does not */
};

/* The words that a table stores for an enum, or a bool (false first): words[value]. A NULL word
 * is stored as NULL. */
struct pg_words {
    const char *const *list;
    unsigned count;
    unsigned unknown; /* the value for a word of a newer version; count: no such word can occur */
};

/* The struct member of a column (pg/bind.h). */
enum pg_member_kind {
    PG_IS_VALUE, /* no member: a value of the call */
    PG_IS_UUID,
    PG_IS_I64, /* int64_t, size_t */
    PG_IS_BOOL,
    PG_IS_SLICE,
    PG_IS_ARRAY, /* bytes, as many as the member has */
    PG_IS_WORD,  /* an enum or a bool, stored as a word */
    PG_IS_NOW,   /* no member: the time of the shared clock */
    PG_IS_NEW,   /* no member: a new id */
    PG_IS_MADE,  /* no member: NULL until the query is sent (pg_stmt.gather) */
};

/* A parameter or a column of the result; written by the macros below. */
struct pg_column {
    const char *name;
    enum pg_type type;
    enum pg_member_kind kind;
    uint16_t at, len; /* where the member begins, and its size */
    bool has_null;    /* the nil uuid and 0 are NULL in the database; otherwise they are stored as
                         values */
    bool has_no_null; /* a slice without bytes is an empty value; otherwise it is NULL */
    const struct pg_words *words;
};

/* A column that is not a member of a struct. pg_bind provides the time for PG_NOW and a new id for
 * PG_NEW_ID. */
#define PG_ARG(name_, type_)             \
    {                                    \
        .name = (name_), .type = (type_) \
    }
#define PG_NOW(name_)                                       \
    {                                                       \
        .name = (name_), .type = PG_TIME, .kind = PG_IS_NOW \
    }
#define PG_NEW_ID(name_)                                    \
    {                                                       \
        .name = (name_), .type = PG_UUID, .kind = PG_IS_NEW \
    }
/* A parameter that pg_stmt.gather sets. */
#define PG_MADE(name_, type_)                                \
    {                                                        \
        .name = (name_), .type = (type_), .kind = PG_IS_MADE \
    }
/* A column that is a member of a struct, with other properties as further arguments. */
#define PG_MEMBER(name_, type_, kind_, struct_, member_, ...)                                \
    {                                                                                        \
        .name = (name_), .type = (type_), .kind = (kind_), .at = offsetof(struct_, member_), \
        .len = sizeof(((struct_ *)NULL)->member_), __VA_ARGS__                               \
    }
#define PG_OF(name_, type_, struct_, member_, ...) \
    PG_MEMBER(name_, type_,                                                                \
              _Generic(((struct_ *)NULL)->member_, struct uuid: PG_IS_UUID, int64_t: PG_IS_I64, \
                       size_t: PG_IS_I64, bool: PG_IS_BOOL, slice: PG_IS_SLICE,            \
                       uint8_t *: PG_IS_ARRAY),                                            \
              struct_, member_, __VA_ARGS__)
#define PG_WORD(name_, struct_, member_, words_) \
    PG_MEMBER(name_, PG_TEXT, PG_IS_WORD, struct_, member_, .words = (words_))

enum pg_access {
    PG_READ,       /* goes to any connection; running it twice is harmless */
    PG_WRITE,      /* goes to a writer connection; running it twice is harmless and returns the same
                      result */
    PG_WRITE_ONCE, /* likewise, but it must not be run a second time */
};

enum pg_match {
    PG_MATCH_ORD,  /* set mode: the first result column is `:ord` (bigint, not in `columns`) */
    PG_MATCH_KEY,  /* an INSERT, whose RETURNING cannot see the ordinal: the first key_count result
                      columns are the key, and `columns` lists them */
    PG_MATCH_NONE, /* no result rows: success of the batch is success of the query */
};

/*
 * A statement; static and constant. `sql` is a template:
 *   :name             a parameter; `i.name` in set mode, `$n` in pipe mode
 *   :row.name         the parameter in a part of a WITH list whose `row` has :ord as `ord`
 *   :ord              the query's ordinal; `i.ord` or `1::bigint`
 *   @row ... @end     the source row of an INSERT: `select ... from input i` or `values (...)`
 *   @from             `from input i`, or nothing
 *   @input            `input i,` inside a FROM list, or nothing
 *   @set              `true` in set mode, else `false`: the planner removes what depends on it
 *   @read(table)      FROM and WHERE of a lookup by the key parameters; the row is `t`
 *   @update(table)    FROM and WHERE of `update table t set ...` by the key parameters
 *   @delete(table)    USING and WHERE of `delete from table t` likewise
 * A uuid parameter account_id names the query's account: waiting queries take turns by account. The
 * key parameters are the first key_count ones, named like their columns. The last three markers pin
 * the plan (pg/stmt.c explains how). A template may begin with `with x as (...)`.
 */
struct pg_query;
struct pg_stmt {
    const char *name; /* unique, [a-z0-9_], below 48 characters */
    const char *sql;
    const struct pg_column *params;
    const struct pg_column *columns; /* results, without ord */
    uint8_t param_count, column_count;
    /* The first key_count parameters name the row: at most one change of a row is in flight,
     * changes are made in the order of submission, and sets are sorted by these parameters. 0:
     * different queries cannot change the same row. */
    uint8_t key_count;
    enum pg_match match;
    enum pg_access access;
    bool goes_alone; /* never shares a batch: DDL */
    /* The statement stores the result of a finished action, so it waits for its full time while
     * the database is unreachable, even if a client is waiting. */
    bool is_result;
    /* A read whose rows may be large: one at a time, on one of the readers, which takes no other
     * read during it if there is a second reader. So no small read has to wait for it. */
    bool is_large;
    /* A read that many callers are likely to send at the same time with the same parameters: a
     * batch sends it once for all of them, and each gets a copy of its rows. */
    bool is_shared;
    /* The statement to send instead if this statement may have been executed already and its
     * answer was lost: it has the same parameters and columns, and finds the result of the
     * first. So the usual case needs no check. NULL: this statement itself. */
    const struct pg_stmt *again;
    /* Sets the parameters that depend on which queries share a message (PG_MADE). It is called each
     * time before these queries are sent, one of them or, sorted by key, all of a set. Bytes are
     * allocated in the arena. Returns false if out of memory. NULL: there are none. */
    bool (*gather)(struct pg_query *const *queries, size_t count, struct arena *arena);
    /* For a table of which each node of a sharded database has a copy, kept in sync by the
     * coordinator: the statement is sent to the coordinator (shard/shards.h), as statements
     * without an account are. */
    bool is_copied;
    /* The statement has no account and reads distributed tables: on a sharded database it is
     * sent to each shard. Of all rows the first spread_max are returned (0: all), in ascending
     * order of the columns in spread_order, which are separated by spaces ("-id": descending); each
     * shard returns up to the same number in that order, texts by their bytes. Without an order the
     * shards take turns. Parameters
     * PG_HASH_MIN and PG_HASH_MAX become the bounds of uuid_hash(account_id) in the shard. A
     * shard whose node is unreachable returns no rows. */
    bool is_spread;
    uint16_t spread_max;
    const char *spread_order;
    /* NULL, or why this statement may lack account_id (checked by the lint test). */
    const char *no_account;
};

#define PG_HASH_MIN "hash_min"
#define PG_HASH_MAX "hash_max"

#define PG_COLUMNS(array) .columns = (array), .column_count = ARRAY_LEN(array)
#define PG_PARAMS(array)  .params = (array), .param_count = ARRAY_LEN(array)
/* The same as PG_PARAMS and PG_COLUMNS, for columns that no other statement has. */
#define PG_TAKES(...) PG_PARAMS(((const struct pg_column[]){__VA_ARGS__}))
#define PG_GIVES(...) PG_COLUMNS(((const struct pg_column[]){__VA_ARGS__}))

/* ---- values ---- */

/* A parameter. Bytes are borrowed until the query has ended. */
struct pg_value {
    uint8_t type; /* enum pg_type, checked against the statement */
    bool is_null;
    union {
        struct uuid uuid;
        int64_t i64; /* I64, TIME, BOOL */
        slice bytes; /* TEXT, JSON, BYTES */
    } as;
};

struct pg_value pg_uuid(struct uuid value);
struct pg_value pg_i64(int64_t value);
/* For tests: no statement has one. */
struct pg_value pg_bool(bool value);
/* A slice with ptr NULL becomes NULL. */
struct pg_value pg_text(slice value);
struct pg_value pg_json(slice value);
struct pg_value pg_bytes(slice value);
/* Writes the binary form of a PG_OIDS value, of PG_OIDS_BYTES(count) bytes. count is not 0. */
#define PG_OIDS_BYTES(count) (20 + 8 * (count))
void pg_oids_write(char *out, const uint32_t *list, size_t count);
/* Reads what pg_oids_write has written: how many numbers there are, and number i of them. */
size_t pg_oids_count(slice value);
uint32_t pg_oids_get(slice value, size_t i);
/* wall_us 0 becomes NULL (absent). */
struct pg_value pg_time(int64_t wall_us);
struct pg_value pg_null(enum pg_type type);

/* ---- results ---- */

/* A cell in the type's binary form. */
struct pg_cell {
    const char *ptr;
    int32_t len; /* -1: NULL */
};

struct pg_rows {
    size_t count;
    size_t column_count;
    struct pg_cell *cells; /* count * column_count cells, row by row; cells and bytes are in an
                            * arena */
};

/* Getters: row < count, col < column_count (asserted). For NULL they return the nil uuid, 0, false
 * or SLICE_NONE. A value whose length does not fit the type reads as NULL. */
bool pg_is_null(const struct pg_rows *rows, size_t row, size_t col);
struct uuid pg_get_uuid(const struct pg_rows *rows, size_t row, size_t col);
int64_t pg_get_i64(const struct pg_rows *rows, size_t row, size_t col);
bool pg_get_bool(const struct pg_rows *rows, size_t row, size_t col);
/* Text, json or bytea; borrowed from the arena; followed by a NUL that is not counted in its
 * length. */
slice pg_get_bytes(const struct pg_rows *rows, size_t row, size_t col);
/* Microseconds since 1970; 0 for NULL; +-infinity are INT64_MAX and INT64_MIN. */
int64_t pg_get_time(const struct pg_rows *rows, size_t row, size_t col);

/* ---- queries ---- */

struct pg_pool;
struct pg_queue;
struct pg_slot;

/* Must be zeroed before its first use; may be used again once it has ended. */
struct pg_query {
    /* in */
    const struct pg_stmt *stmt;
    uint64_t deadline_ns; /* limits both waiting and resending; 0: the pool's queue_timeout_ms */
    struct pg_value params[PG_PARAMS_MAX];
    /* in and out: the operation may have been executed already and its answer lost
     * (pg_stmt.again). Stays set with ERR_CLOSED, for a caller that retries with the same query;
     * cleared after OK. */
    bool is_unknown;
    /* out */
    /* OK ERR_BUSY     never sent, so without effect: the queue is full, or no database was reached
     *              before the deadline, or, if a client waits (op.h), since another query's
     *              deadline passed
     * ERR_CLOSED   outcome unknown: it was sent, the connection was lost, and it is not replayable,
     *              or was sent again with any result other than ERR_INVALID and ERR_LIMIT
     * ERR_TIMEOUT  statement_timeout or lock_timeout: rolled back
     * ERR_INVALID  refused by a constraint or by the value's type (SQLSTATE class 22, 23)
     * ERR_IO       any other SQL error: rolled back
     * ERR_LIMIT    parameters over PG_PARAM_BYTES_MAX; never sent
     * ERR_NOMEM    done, but the result did not fit the op's arena */
    int status;
    char sqlstate[PG_SQLSTATE_LEN +
                  1];    /* set for an SQL error (ERR_IO, ERR_INVALID, ERR_TIMEOUT); else empty */
    slice message;       /* the server's message, in the op's arena; may be SLICE_NONE. For logs */
    struct pg_rows rows; /* in the op's arena */
    bool is_partial;     /* OK, but shards of a sharded database did not answer (is_spread) */
    /* private to pg */
    struct pg_pool *pool;
    struct pg_queue *queue;
    struct pg_slot *slot;
    struct pg_tenant *tenant;
    struct op_wait wait; /* in op->waits */
    struct list link, tenant_link;
    uint64_t key_hash;
    uint64_t queued_ns, expires_ns;
    size_t param_bytes;
    int64_t shard_id;  /* the shard, if a node executes it; 0: none */
    struct op *spread; /* the op that sends the query to all shards */
    uint8_t state, attempts;
    bool is_single, is_abandoned, has_rerun;
    char text[48]; /* a parameter made by the store */
};

/* ---- pool ---- */

enum pg_mode { PG_MODE_SET, PG_MODE_PIPE };

struct pg_pool_config {
    const char *conninfo; /* URI or key=value; several hosts and Unix sockets are allowed; copied */
    const char *application_name; /* NULL: "sluice" */
    struct dns_resolver *dns;     /* outlives the pool */
    enum pg_mode mode;            /* tests only: PG_MODE_PIPE makes no sets */
    /* For commands, on any database: plans depend on the values, and no write shares a batch. */
    bool is_command;
    bool is_sharded; /* conninfo is that of the coordinator of a Citus cluster (shard/shards.h) */
    unsigned writers, readers;     /* for each node; 0: 2 each; at most PG_LANES_MAX together */
    size_t queue_max;              /* limit of waiting queries, 0: 10000; shared (base/share.h) */
    size_t batch_rows_max;         /* 0: 1024 */
    unsigned queue_timeout_ms;     /* 0: 5000 */
    unsigned statement_timeout_ms; /* 0: 10000 */
    unsigned lock_timeout_ms;      /* 0: 1000 */
    unsigned connect_timeout_ms;   /* one attempt, 0: 5000 */
    /* private to pg: a node of the cluster, instead of the conninfo's hosts */
    const char *host, *port;
    int64_t group;
};

enum { PG_LANES_MAX = 64 };

/* Starts connecting; queries may be submitted at once, and wait. Reconnects forever with back-off
 * and jitter. Returns NULL on failure: err explains the fault in the conninfo. Each connection is a
 * separate op ("pg_link", counted in op_count). */
struct pg_pool *pg_pool_new(struct loop *loop, const struct pg_pool_config *config,
                            struct err *err) MUST_CHECK;
/* Ends waiting queries with ERR_BUSY and those in flight with ERR_CLOSED, closes the connections;
 * the memory is freed at the bottom of this turn or the next. Accepts NULL. */
void pg_pool_free(struct pg_pool *pool);
/* Whether at least one writer and one reader are connected. For /readyz. */
bool pg_pool_is_ready(const struct pg_pool *pool);
/* Returns the number of queries waiting and in flight. */
size_t pg_pool_pending(const struct pg_pool *pool);

/* Takes a hold on op ("pg <name>") and never completes before it returns; the hold is released
 * at a later point of the loop with the out fields set. The query must be in op's memory. Do not
 * submit a query that is under way (asserted). When op is cancelled, a query that was not sent
 * yet ends with ERR_BUSY and releases op. For a query in flight the pool holds op until the
 * result has arrived (bounded by statement_timeout), but copies no result and never sends the
 * query again. */
void pg_submit(struct pg_pool *pool, struct pg_query *query, struct op *op);

#endif
