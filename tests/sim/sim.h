/*
 * sim: a deployment in one thread, driven by one seed. Three nodes share a store of rows
 * (seam/rows.h) and a provider with a ledger. Clients run actions with and without keys, and start,
 * approve, reject, cancel and resume flows, on any node. Some writes are held until a person has
 * approved them. If they get no answer, they retry; some leave during a write without a key, and
 * repeat it at once. During this, nodes crash at any step and
 * restart as new nodes, pause while time passes, and have their clocks set. Commits are late, are
 * refused, or are done while their answers are lost. The provider refuses, disconnects, is silent,
 * or carries out requests without an answer.
 *
 * After every event: each change of a flow is a legal transition by a node that may make it, and
 * has an event for the account's endpoints if one is due. Nothing is done twice unless the client
 * was warned that it may have been done, and no client is assured that nothing was done if
 * something was. The node that writes for a flow owns it. Every answer to a client matches the
 * store. When the faults have ended, every flow ends, no claim is left, and no node keeps anything
 * in memory.
 *
 * The same seed gives the same history, in any build: SEED=n prints it.
 *
 * Files: sim.c (the event loop, the program), sim_node.c (processes and their faults),
 * sim_client.c, sim_provider.c, sim_apps.c, sim_check.c (the invariants), sim_record.c
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "seam/node.h"

enum { SIM_NODES = 3, SIM_CLIENTS_MAX = 1024, SIM_DECISIONS_MAX = 4096 };

/* The number of events that go wrong, out of 1,000 of their kind. Drawn for each seed. */
struct sim_storm {
    unsigned crash, pause, step;               /* all events */
    unsigned refuse, rollback, lose, for_good; /* queries; for_good: lost queries only */
    unsigned late;                             /* answers that wait for another event */
    unsigned call_fail, refused;               /* calls */
    unsigned handshake;                        /* calls whose first byte waits for another event */
    unsigned time;                             /* events at which time passes while work waits */
};

struct sim_node {
    struct seam_node on;
    bool is_up, is_paused;
    uint64_t back_ns; /* when it restarts or resumes */
    int64_t wall_shift_us;
    unsigned incarnation;
    struct list runs; /* struct sim_run.link */
};

enum sim_kind {
    SIM_READ,
    SIM_WRITE,
    SIM_SAFE_WRITE,
    SIM_KEYED_WRITE,
    SIM_DELETE,
    SIM_HELD, /* a write that waits for an approval */
    SIM_FLOW
};

/* What an answer says about the effect. */
enum sim_effect_reported { SIM_NOT_DONE, SIM_DONE, SIM_IN_DOUBT };

/* One request that a client wants carried out, and repeats until it has a clear answer. It
 * follows the answers: if nothing was done, it retries. If the outcome is unknown, it abandons
 * the request, or repeats it although it may then be done twice. */
struct sim_client {
    enum sim_kind kind;
    size_t number;
    const char *name; /* action or template */
    char key[24];     /* empty: without one */
    char input[240];
    struct uuid flow_id; /* of a held write: the hold that was decided on last */
    unsigned asks, open;
    uint64_t next_ns;
    bool is_done;
    /* the last answer, and the client's reaction */
    bool is_succeeded; /* executions only */
    struct uuid execution_id;
    struct uuid bound_id, released_id; /* the executions that its key names, or named, according
                                        * to the last answer */
    bool is_approved, is_cancelled, is_started;
    unsigned resumed;
    unsigned step_did; /* what the current step of its flow has done, except for items */
    unsigned excuses;  /* number of times it repeated a request whose outcome was unknown */
};

/* An answer that a client waits for. */
struct sim_run {
    struct seam_run run;
    struct list link;
    struct sim_client *client;
    enum flow_command_kind command;    /* flows only */
    bool is_left;                      /* its client has disconnected, and asks again */
    struct uuid bound_id, released_id; /* the client's, when it began */
    unsigned did;                      /* the number of its requests that the provider has
                                        * carried out */
};

/* A request that changes something, with all its text, and what the provider has done about it. */
struct sim_effect {
    uint64_t hash;
    unsigned count; /* number of times it was done, minus undos */
};

/* An idempotency key of the provider, once its request is done. */
struct sim_key {
    uint64_t hash;
    size_t effect;
};

/* A write that has reached the provider and is not answered yet. */
struct sim_request {
    const struct http_call *call;
    uint64_t started_ns; /* the start of the call, whose struct is reused */
    uint64_t key;        /* hash of the provider's key; 0: none */
    size_t effect;
    struct sim_run *run; /* NULL: a flow's step */
    struct sim_client *client;
    bool is_item; /* its step makes one call for each of several items */
    bool did;     /* this call did it, and not an equal call before it */
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
    bool is_calm; /* no more faults */
    ROWS(struct sim_effect) effects;
    ROWS(struct sim_key) keys;
    ROWS(struct sim_request) requests;
    ROWS(struct uuid) changes; /* ids of the events of flows' changes */
    uint64_t began_ns;
    size_t events, crashes, lost, writes;
};

/* ---- sim.c ---- */

/* Adds a line to the history. */
void sim_note(const struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reports that an invariant does not hold: prints the seed and the history, and ends the
 * process. */
_Noreturn void sim_fail(const struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool sim_chance(const struct sim *sim, unsigned of_thousand);
const char *sim_short(struct uuid id, char text[16]);

/* ---- sim_node.c ---- */

void sim_node_open(struct sim *sim, struct sim_node *node);
/* Settles the node with its own clock, and then everything that follows from its work without
 * delay: first bytes and answers. */
void sim_node_settle(struct sim *sim, struct sim_node *node);
void sim_node_crash(struct sim *sim, struct sim_node *node);
void sim_node_close(struct sim *sim, struct sim_node *node);
/* Restarts or resumes the node if its time has come. */
void sim_node_return(struct sim *sim, struct sim_node *node);
/* Handles one of the queries at the database, or one of their answers, in any order. */
void sim_database_event(struct sim *sim, struct sim_node *node, size_t index);
/* Causes one fault, or none. */
void sim_fault_event(struct sim *sim);
size_t sim_node_number(const struct sim *sim, const struct sim_node *node);

/* ---- sim_provider.c ---- */

/* Forgets a run that has ended, and whose calls have ended, too. */
void sim_provider_forget(struct sim *sim, const struct sim_run *run);
/* Sends the first byte of each call that has not sent it yet. */
void sim_provider_take(struct sim *sim, struct sim_node *node);
void sim_provider_event(struct sim *sim, struct sim_node *node, size_t index);

/* ---- sim_client.c ---- */

void sim_clients_init(struct sim *sim, size_t executions, size_t flows);
/* Lets a client make a request, or decide about a flow. Returns false if no client has anything to
 * do now. */
bool sim_client_event(struct sim *sim);
/* The time of the next action of a client; UINT64_MAX: never. */
uint64_t sim_clients_next_ns(const struct sim *sim);
void sim_node_harvest(struct sim *sim, struct sim_node *node);
/* Ends the requests that this node handled: its process has died. */
void sim_node_drop_runs(struct sim *sim, struct sim_node *node);
bool sim_clients_are_done(const struct sim *sim);

/* ---- sim_apps.c ---- */

/* The demo app, and the apps that the built-in templates call. */
struct catalog *sim_apps_catalog(void);
/* The templates in `own` and the built-in ones. */
struct flow_template_set *sim_apps_templates(const struct catalog *catalog, const char *const *own);
struct vault_ring *sim_apps_ring(void);
/* Creates the account's connections, one for each app. */
void sim_apps_connect(struct sim *sim);
/* Chooses a template and its input. */
void sim_apps_choose(struct sim_client *client);
void sim_apps_answer(struct sim *sim, struct http_call *call);
/* The client that a text names, or NULL. */
struct sim_client *sim_client_in(struct sim *sim, slice text);
struct sim_client *sim_client_of(struct sim *sim, const struct http_call *call);

/* ---- sim_record.c ---- */

/* If RECORD names a file, every statement is written to it. */
void sim_record_open(void);
void sim_record_close(void);
void sim_record(void *owner, const struct pg_query *query, int status);

/* ---- sim_check.c ---- */

void sim_check_flow(void *owner, const struct flow *before, const struct flow *after,
                    const struct pg_query *query);
void sim_check_reported(struct sim *sim, const struct sim_run *run);
enum sim_effect_reported sim_reported(const struct sim_run *run);
/* Whether the error of the flow's last failed step says that the effect is unknown. */
bool sim_is_in_doubt(const struct sim *sim, struct uuid flow_id);
/* Checks a flow that has failed: its error says what its step did, or may have done. */
void sim_check_failed(struct sim *sim, const struct row_flow *row);
/* Checks a write whose first byte is about to be sent. */
void sim_check_write(struct sim *sim, struct sim_node *node, const struct http_call *call);
bool sim_all_have_ended(struct sim *sim);
void sim_check_end(struct sim *sim);

#endif
