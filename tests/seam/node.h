/*
 * A server's services on the seam, without its listeners: one struct seam_node is one process. And
 * what a client does to it: executions and commands, each the child of an op that keeps what came
 * of it until the test lets go.
 */
#ifndef TESTS_SEAM_NODE_H
#define TESTS_SEAM_NODE_H

#include "flow/flow.h"
#include "seam/rows.h"
#include "seam/seam.h"

/* An app that needs no connection: `get` is a read, `put` a write that has to be confirmed, `set`
 * one that may be repeated, `pay` one with the app's own idempotency key, `del` a delete of what
 * input.of names. Each takes any object. */
extern const char seam_demo_manifest[];
/* demo_get, then demo_put confirmed by its approval, with a wait of a minute in between. */
extern const char seam_demo_template[];

/* From texts, ended by NULL; asserted to be right. The caller's reference. */
struct catalog *seam_catalog(const char *const *manifests);
struct flow_template_set *seam_templates(const struct catalog *catalog,
                                         const char *const *templates);

struct seam_tuning {
    size_t work_bytes;       /* that executions may take together; 0: any number */
    unsigned circuit_volume; /* executions before a circuit may open; 0: none ever opens */
    size_t connections_max;  /* of an account; 0: any number */
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
    struct exec_service *exec;
    struct flow_service *flow;
    struct budget_queue work; /* where there is a bound of memory */
    struct seam_tuning tuning;
};

/* What is given here is shared and borrowed; templates NULL: no flows. */
void seam_node_open(struct seam_node *node, struct catalog *catalog,
                    struct flow_template_set *templates, struct vault_ring *ring);
void seam_node_open_as(struct seam_node *node, struct catalog *catalog,
                       struct flow_template_set *templates, struct vault_ring *ring,
                       struct seam_tuning tuning);
/* All that is under way is cut, as by the last step of a drain; what the database was asked and
 * did not answer is lost. Whoever waits (struct seam_run) must have been let go. Asserts, through
 * loop_free and the services, that nothing is left. */
void seam_node_close(struct seam_node *node);
/* The first half of it: cut, but the memory is there. After it nothing reaches pool or client. */
void seam_node_cut(struct seam_node *node);

/* Answers from the rows whatever the node asks now and then: all queries that are there, until none
 * is left. Time stands. */
void seam_node_answer(struct seam_node *node, struct seam_store *store);
/* Registered, with a lease that runs. */
void seam_node_join(struct seam_node *node, struct seam_store *store);

/* ---- what a client does ---- */

struct seam_run {
    struct op op; /* keeps what follows until seam_run_end */
    struct seam_node *node;
    union {
        struct exec *exec;
        struct flow_command command;
    } as;
    struct exec_request exec;
    struct flow_request command;
    struct json input;
    const char *input_text;
    unsigned ended; /* times; 1 at last, whatever happens */
    /* out, of an execution: texts live until seam_run_end */
    struct exec_outcome out;
    slice summary_json;
    /* out, of a command */
    enum flow_answer answer;
    struct uuid flow_id;
    slice message, view_json;
    bool is_command, is_held;
    void (*on_gone)(struct seam_run *run); /* its memory is free to go; NULL: nobody asks */
};

extern const struct uuid seam_account;

/* demo's `action`, by seam_account; run->exec may be changed until seam_run_start. */
void seam_run_exec(struct seam_run *run, struct seam_node *node, const char *action,
                   const char *input);
void seam_run_command(struct seam_run *run, struct seam_node *node, enum flow_command_kind kind,
                      struct uuid flow_id);
/* START of that template. */
void seam_run_flow(struct seam_run *run, struct seam_node *node, const char *template_key,
                   const char *input);
void seam_run_start(struct seam_run *run);
/* As when its client goes away: an execution that nothing depends on is given up. */
void seam_run_leave(struct seam_run *run);
/* The execution or command is cancelled, whatever it is at. */
void seam_run_cancel(struct seam_run *run);
bool seam_run_has_ended(const struct seam_run *run);
/* Its process has died: it ends without an answer. */
void seam_run_drop(struct seam_run *run);
/* Lets go; then settle. It must have ended (asserted). */
void seam_run_end(struct seam_run *run);

#endif
