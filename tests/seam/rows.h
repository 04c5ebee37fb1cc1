/*
 * rows: the store as rows in memory. Each statement that executions, flows and their commands use
 * is implemented here under its name, with the fence of its SQL, which its comment names. The rows
 * refuse what the schema's CHECK constraints forbid, as the database does.
 *
 * seam_rows_do runs a query's statement immediately, as its commit would, and gives the query its
 * rows. The test then answers it (seam_query_done), or loses the answer (seam_query_lose). All
 * nodes of a test share one struct seam_store.
 */
#ifndef TESTS_SEAM_ROWS_H
#define TESTS_SEAM_ROWS_H

#include "seam/seam.h"
#include "store/connection.h"
#include "store/execution.h"
#include "store/flow.h"
#include "store/hold_call.h"
#include "store/hold.h"
#include "store/idempotency.h"

struct row_node {
    struct uuid id;
    int64_t lease_until, left_at;
};

struct row_claim {
    struct claim claim; /* key: as stored; a run without a key gets a unique one */
    bool is_bound;
    int64_t expires_at;
};

struct row_flow {
    struct flow flow;
    struct uuid op_token;
    slice input, actor, waiting_input, trace, title;
};

struct row_step {
    struct uuid flow_id;
    struct flow_step step;
};

struct row_item {
    struct uuid account_id, flow_id;
    int64_t step_index, item, attempt, at;
    slice fact, output, error;
};

struct row_template {
    struct uuid version;
    slice key, body;
};

/* A fault of the store or of its caller that a test must find. */
enum seam_bug {
    SEAM_BUG_NONE,
    SEAM_BUG_NO_FENCE,       /* an owner's transition checks neither rev nor owner */
    SEAM_BUG_EARLY_ANSWER,   /* an answer is sent before the commit, which may then not happen */
    SEAM_BUG_REPEAT_WRITE,   /* the adopting node does not see that the step has begun */
    SEAM_BUG_FORGET_BINDING, /* a key is free again after a write */
    SEAM_BUG_ADOPT_TWICE,    /* an adoption does not check the flow's owner */
    SEAM_BUG_LAST_REPLY,     /* a run considers only its last reply */
    SEAM_BUG_DROP_KEY,       /* the adopting node does not see the key of a hold */
    SEAM_BUGS
};

#define ROWS(type)    \
    struct {          \
        type *items;  \
        size_t count; \
        size_t cap;   \
    }

struct seam_store {
    struct arena arena; /* all texts */
    ROWS(struct row_node) nodes;
    ROWS(struct row_claim) claims;
    ROWS(struct execution) executions;
    ROWS(struct row_flow) flows;
    ROWS(struct row_step) steps;
    ROWS(struct row_item) items;
    ROWS(struct hold) holds;
    ROWS(struct row_template) templates;
    ROWS(struct connection) connections;
    size_t audit_count;
    enum seam_bug bug;
    bool has_endpoint; /* each account has one, so an event needs a statement that writes it */
    /* Called after each change of a flow's row. `before` is zeroed for a new row. May be NULL. */
    void (*on_flow)(void *owner, const struct flow *before, const struct flow *after,
                    const struct pg_query *query);
    /* Called after each statement, with the rows of the answer. May be NULL. */
    void (*on_done)(void *owner, const struct pg_query *query, int status);
    void *owner;
};

void seam_store_init(struct seam_store *store);
void seam_store_deinit(struct seam_store *store);
/* now(): the database's clock, which is independent of the nodes' clocks. */
int64_t seam_store_now(void);

/* Runs the statement. OK: the rows are in the query. Otherwise the status for seam_query_fail:
 * ERR_INVALID if a constraint refuses it. */
int seam_rows_do(struct seam_store *store, struct pg_query *query);
/* Runs the statement and answers the query. */
void seam_rows_answer(struct seam_store *store, struct pg_query *query);

/* May be NULL. Valid until the next statement. */
struct row_node *seam_find_node(struct seam_store *store, struct uuid id);
struct row_flow *seam_find_flow(struct seam_store *store, struct uuid id);
struct row_claim *seam_find_claim(struct seam_store *store, struct uuid account_id, slice key);
struct execution *seam_find_execution(struct seam_store *store, struct uuid id);
struct hold *seam_find_hold(struct seam_store *store, struct uuid account_id, slice key);
struct hold *seam_hold_of(struct seam_store *store, struct uuid flow_id);
/* Whether the node's lease is valid. */
bool seam_node_lives(struct seam_store *store, struct uuid id);

/* ---- between the files of rows ---- */

struct seam_statement {
    const char *name;
    int (*run)(struct seam_store *store, struct pg_query *query);
};
extern const struct seam_statement seam_flow_statements[];
extern const struct seam_statement seam_flow_take_statements[];
extern const struct seam_statement seam_hold_statements[];
#define ROW_ADD(store, table)                                                                  \
    (seam_rows_grow((void **)&(store)->table.items, &(store)->table.cap, (store)->table.count, \
                    sizeof(*(store)->table.items)),                                            \
     &(store)->table.items[(store)->table.count++])
void seam_rows_grow(void **items, size_t *cap, size_t count, size_t size);
slice seam_keep(struct seam_store *store, slice text);

/* The row for a claim's statement, which takes a key or finds its holder. Its columns are those of
 * the answer. */
struct row_claim *seam_claim_take(struct seam_store *store, const struct claim *claim,
                                  int64_t expires_at, bool is_bound);
void seam_claim_remove(struct seam_store *store, struct row_claim *row);
void seam_claim_put(struct seam_store *store, struct pg_query *query, struct row_claim *row,
                    bool with_execution);
/* Puts a row of claim_find_held; one of the two may be NULL. */
void seam_claim_put_held(struct seam_store *store, struct pg_query *query,
                         const struct row_claim *row, const struct hold *hold);

struct uuid seam_uuid(const struct pg_query *query, const char *param);
int64_t seam_i64(const struct pg_query *query, const char *param);
/* 0: NULL */
int64_t seam_time(const struct pg_query *query, const char *param);
/* Returns the text, borrowed, or SLICE_NONE for a NULL. */
slice seam_text(const struct pg_query *query, const char *param);
/* Whether the node is one of those that a scan looks for. */
bool seam_is_named(const struct pg_query *query, struct uuid node);
bool seam_is_null(const struct pg_query *query, const char *param);
/* Whether this is the statement's second form, after a lost answer. */
bool seam_is_again(const struct pg_query *query);

#endif
