/*
 * A server's services on the seam, without its listeners: one struct seam_node is one process.
 * Clients send it executions and commands. Each is the child of an op that keeps its result until
 * the test releases it.
 */
#ifndef TESTS_SEAM_NODE_H
#define TESTS_SEAM_NODE_H

#include "flow/flow.h"
#include "seam/rows.h"
#include "seam/seam.h"

/* An app that needs no connection: `get` is a read, `put` a write that has to be confirmed, `set` a
 * write that may be repeated, `pay` a write with the app's own idempotency key, `del` a delete of
 * what input.of names. Each accepts any object. */
extern const char seam_demo_manifest[];
/* demo_get, then demo_put confirmed by its approval, with a wait of a minute in between. */
extern const char seam_demo_template[];

/* Builds a catalog from manifests, an array that ends with NULL. Asserts that they are valid. The
 * caller gets the reference. */
struct catalog *seam_catalog(const char *const *manifests);
struct flow_template_set *seam_templates(const struct catalog *catalog,
                                         const char *const *templates);

struct seam_tuning {
    size_t work_bytes;       /* limit for all executions together; 0: no limit */
    unsigned circuit_volume; /* executions before a circuit may open; 0: none ever opens */
    size_t connections_max;  /* limit per account; 0: no limit */
    unsigned input_days;     /* 0: no input is kept */
};

struct seam_node {
    struct loop *loop;
    struct pg_pool *pool;
    struct http_client *http;
    struct catalog *catalog;
    struct flow_template_set *templates; /* borrowed */
    struct vault_ring *ring;             /* borrowed */
    struct connect_service *connect;
    struct node *node;
    struct due_timers *due;
    struct exec_service *exec;
    struct flow_service *flow;
    struct budget_queue work; /* if memory is limited */
    struct seam_tuning tuning;
};

/* The arguments are shared and borrowed. If templates is NULL, the node runs no flows. */
void seam_node_open(struct seam_node *node, struct catalog *catalog,
                    struct flow_template_set *templates, struct vault_ring *ring);
void seam_node_open_as(struct seam_node *node, struct catalog *catalog,
                       struct flow_template_set *templates, struct vault_ring *ring,
                       struct seam_tuning tuning);
/* Ends everything under way, like the last step of a drain. Queries that the database did not
 * answer are lost. Every struct seam_run must have been released. Asserts, through loop_free and
 * the services, that nothing is left. */
void seam_node_close(struct seam_node *node);
/* The first half of seam_node_close: everything is ended, but its memory is not freed yet. After
 * this nothing reaches the pool or the client. */
void seam_node_cut(struct seam_node *node);

/* Answers the node's periodic queries from the rows, until none is left. Time does not move. */
void seam_node_answer(struct seam_node *node, struct seam_store *store);
/* The node is registered, and its lease is valid. */
void seam_node_join(struct seam_node *node, struct seam_store *store);

/* ---- what a client sends ---- */

struct seam_run {
    struct op op; /* keeps the following until seam_run_end */
    struct seam_node *node;
    union {
        struct exec *exec;
        struct flow_command command;
    } as;
    struct exec_request exec;
    struct flow_request command;
    struct json input;
    const char *input_text;
    unsigned ended; /* number of times it has ended: 0 or 1 */
    /* result of an execution: its texts live until seam_run_end */
    struct exec_outcome out;
    struct exec_approval approval; /* of `out`, if there is one */
    slice summary_json;
    /* result of a command */
    enum flow_answer answer;
    struct uuid flow_id;
    slice message, view_json;
    bool is_command, is_held;
    void (*on_gone)(struct seam_run *run); /* called when it may be freed; or NULL */
};

extern const struct uuid seam_account;

/* Runs demo's `action` for seam_account. run->exec may be changed until seam_run_start. */
void seam_run_exec(struct seam_run *run, struct seam_node *node, const char *action,
                   const char *input);
void seam_run_command(struct seam_run *run, struct seam_node *node, enum flow_command_kind kind,
                      struct uuid flow_id);
/* Starts a flow of that template. */
void seam_run_flow(struct seam_run *run, struct seam_node *node, const char *template_key,
                   const char *input);
void seam_run_start(struct seam_run *run);
/* Acts as if the run's client had disconnected: an execution that nothing depends on is
 * cancelled. */
void seam_run_leave(struct seam_run *run);
/* Cancels the execution or command, whatever step it is in. */
void seam_run_cancel(struct seam_run *run);
bool seam_run_has_ended(const struct seam_run *run);
/* Acts as if its process had died: it ends without an answer. */
void seam_run_drop(struct seam_run *run);
/* Releases the run, which must have ended (asserted), then settles. */
void seam_run_end(struct seam_run *run);

#endif
