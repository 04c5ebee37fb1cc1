/*
 * sim: a deployment in one thread, driven by one seed. Three nodes share a store of rows
 * (seam/rows.h) and a provider with a ledger; clients ask for executions with and without keys,
 * start flows, approve, reject, cancel and resume them, on any node, again where they got no
 * answer. Meanwhile nodes crash at any step and come back as new ones, stand still while time goes
 * on, have their clocks set; commits come late, are refused, or are done and their answers lost;
 * the provider refuses, breaks off, is silent, does what it says nothing of.
 *
 * After every event: what a statement did to a flow is a legal transition, and of whom it may come;
 * nothing is done twice unless its client was told that it may have been done, nor is anybody told
 * that nothing was done where something was; who writes for a flow owns it; what a
 * client was told stands in the store. When the storm is over every flow ends, no claim is left,
 * and no node holds anything in memory.
 *
 * The same seed is the same history, in any build: SEED=n tells it.
 *
 * Files: sim.c (the loop of events, the program), sim_node.c (processes and their faults),
 * sim_client.c, sim_provider.c, sim_apps.c, sim_check.c (what must hold), sim_record.c (what the
 * rows did, for a comparison with the real statements).
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "seam/node.h"

enum { SIM_NODES = 3, SIM_CLIENTS_MAX = 1024, SIM_DECISIONS_MAX = 4096 };

/* Of 1,000 events of a kind, how many go wrong. Drawn anew for each seed. */
struct sim_storm {
    unsigned crash, pause, step;               /* of all events */
    unsigned refuse, rollback, lose, for_good; /* of queries; for_good: of those lost */
    unsigned late;                             /* answers that wait for another event */
    unsigned call_fail, refused;               /* of calls */
    unsigned handshake;                        /* calls whose first byte waits for another event */
    unsigned time;                             /* events at which time goes on though work waits */
};

struct sim_node {
    struct seam_node on;
    bool is_up, is_paused;
    uint64_t back_ns; /* when it is back, or goes on */
    int64_t wall_shift_us;
    unsigned incarnation;
    struct list runs; /* struct sim_run.link */
};

enum sim_kind { SIM_READ, SIM_WRITE, SIM_SAFE_WRITE, SIM_KEYED_WRITE, SIM_DELETE, SIM_FLOW };

/* What an answer says of what was done. */
enum sim_effect_told { SIM_NOT_DONE, SIM_DONE, SIM_IN_DOUBT };

/* One thing that a client wants, and asks for until it is told what became of it. It does as it is
 * told: what was not done it asks for again; what is in doubt it gives up, or asks for once more
 * knowing that it may be done twice. */
struct sim_client {
    enum sim_kind kind;
    size_t number;
    const char *name; /* action or template */
    char key[24];     /* empty: without one */
    char input[240];
    struct uuid flow_id;
    unsigned asks, open;
    uint64_t next_ns;
    bool is_done;
    /* what it was told, and what it did */
    bool is_succeeded; /* of an execution */
    struct uuid execution_id;
    struct uuid bound_id, released_id; /* what its key has, or had, to the last answer */
    bool is_approved, is_cancelled, is_started;
    unsigned resumed;
    unsigned step_did; /* what was done by the current step of its flow, but for items */
    unsigned excuses;  /* times that it asked again for what it was told is in doubt */
};

/* An answer that a client waits for. */
struct sim_run {
    struct seam_run run;
    struct list link;
    struct sim_client *client;
    enum flow_command_kind command;    /* of a flow */
    struct uuid bound_id, released_id; /* the client's, when it began */
    unsigned did;                      /* how much the provider has done for it */
};

/* A request that changes something, by all its text; what the provider has of it. */
struct sim_effect {
    uint64_t hash;
    unsigned count; /* times that it was done, and not undone */
};

/* A key of the provider's own, once what it was sent with is done. */
struct sim_key {
    uint64_t hash;
    size_t effect;
};

/* A write that has reached the provider and is not answered yet. */
struct sim_request {
    const struct http_call *call;
    uint64_t started_ns; /* the call's: its struct is used again */
    uint64_t key;        /* hash of the provider's key; 0: none */
    size_t effect;
    struct sim_run *run; /* NULL: of a flow */
    struct sim_client *client;
    bool is_item; /* of a step that calls for each of several */
    bool did;     /* this one, and not one of the same before it */
};

struct sim {
    uint64_t seed;
    enum seam_bug bug;
    struct seam_store store;
    struct catalog *catalog;
    struct flow_template_set *templates;
    struct vault_ring *ring;
    struct sim_node nodes[SIM_NODES];
    struct sim_client clients[SIM_CLIENTS_MAX];
    size_t client_count;
    struct sim_storm storm;
    bool is_calm; /* nothing goes wrong any more */
    ROWS(struct sim_effect) effects;
    ROWS(struct sim_key) keys;
    ROWS(struct sim_request) requests;
    uint64_t began_ns;
    size_t events, crashes, lost, writes;
};

/* ---- sim.c ---- */

/* A line of the history. */
void sim_note(const struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Something that must hold does not: tells the seed and the history, and ends the process. */
_Noreturn void sim_fail(const struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool sim_chance(const struct sim *sim, unsigned of_thousand);
const char *sim_short(struct uuid id, char text[16]);

/* ---- sim_node.c ---- */

void sim_node_open(struct sim *sim, struct sim_node *node);
/* With its own clock, and then whatever follows at once from what it did: first bytes, answers. */
void sim_node_settle(struct sim *sim, struct sim_node *node);
void sim_node_crash(struct sim *sim, struct sim_node *node);
void sim_node_close(struct sim *sim, struct sim_node *node);
/* Comes back, or goes on, when its time has come. */
void sim_node_return(struct sim *sim, struct sim_node *node);
/* One of the queries at the database, or of their answers, in any order. */
void sim_database_event(struct sim *sim, struct sim_node *node, size_t index);
/* One fault, perhaps. */
void sim_fault_event(struct sim *sim);
size_t sim_node_number(const struct sim *sim, const struct sim_node *node);

/* ---- sim_provider.c ---- */

/* Its run is gone, and so are the calls of it. */
void sim_provider_forget(struct sim *sim, const struct sim_run *run);
/* The first byte of each call that has not left yet leaves. */
void sim_provider_take(struct sim *sim, struct sim_node *node);
void sim_provider_event(struct sim *sim, struct sim_node *node, size_t index);

/* ---- sim_client.c ---- */

void sim_clients_init(struct sim *sim, size_t executions, size_t flows);
/* Somebody asks for something, or decides about a flow. false: nobody wants to now. */
bool sim_client_event(struct sim *sim);
/* When the next one wants to; UINT64_MAX: never. */
uint64_t sim_clients_next_ns(const struct sim *sim);
void sim_node_harvest(struct sim *sim, struct sim_node *node);
/* The process that they asked has died. */
void sim_node_drop_runs(struct sim *sim, struct sim_node *node);
bool sim_clients_are_done(const struct sim *sim);

/* ---- sim_apps.c ---- */

/* The demo app, and those that the built-in templates call. */
struct catalog *sim_apps_catalog(void);
/* `own` texts and the built-in ones. */
struct flow_template_set *sim_apps_templates(const struct catalog *catalog, const char *const *own);
struct vault_ring *sim_apps_ring(void);
/* The account's, one an app. */
void sim_apps_connect(struct sim *sim);
/* A template and what it takes. */
void sim_apps_choose(struct sim_client *client);
void sim_apps_answer(struct sim *sim, struct http_call *call);
/* Whom a text names; NULL: nobody. */
struct sim_client *sim_client_in(struct sim *sim, slice text);
struct sim_client *sim_client_of(struct sim *sim, const struct http_call *call);

/* ---- sim_record.c ---- */

/* Where RECORD names a file: all that is done is written there. */
void sim_record_open(void);
void sim_record_close(void);
void sim_record(void *owner, const struct pg_query *query, int status);

/* ---- sim_check.c ---- */

void sim_check_flow(void *owner, const struct flow *before, const struct flow *after,
                    const struct pg_query *query);
void sim_check_told(struct sim *sim, const struct sim_run *run);
enum sim_effect_told sim_told(const struct sim_run *run);
/* What the error of a flow's last failed step says. */
bool sim_is_in_doubt(const struct sim *sim, struct uuid flow_id);
/* Of a flow that has failed: what its step did, or may have done, its error says. */
void sim_check_failed(struct sim *sim, const struct row_flow *row);
/* A first byte of a write is about to leave. */
void sim_check_write(struct sim *sim, struct sim_node *node, const struct http_call *call);
bool sim_all_have_ended(struct sim *sim);
void sim_check_end(struct sim *sim);

#endif
