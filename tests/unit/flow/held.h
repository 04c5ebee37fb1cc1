/*
 * A call that is held, as a client asks for it.
 */
#ifndef TESTS_UNIT_FLOW_HELD_H
#define TESTS_UNIT_FLOW_HELD_H

#include "machine.h"

static const struct uuid held_asker = {
    {0x01, 0x9b, 0x76, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 2}};

/* Begins the request for a write that has to wait for an approval; key: "" for none. */
static inline void machine_begin_asking_for(struct machine *m, const char *action,
                                            const char *input, const char *key)
{
    seam_run_exec(&m->run, &m->node, action, input);
    m->run.exec.is_confirmed = true;
    m->run.exec.holds_writes = true;
    m->run.exec.asker = held_asker;
    if (*key)
        m->run.exec.idempotency_key = slice_cstr(key);
    seam_run_start(&m->run);
}

static inline void machine_begin_asking(struct machine *m, const char *key)
{
    machine_begin_asking_for(m, "put", "{\"of\":\"x\"}", key);
}

/* Asks for a call whose id has a name, and returns how the request ended. */
static inline enum exec_reason machine_ask_to_say(struct machine *m, const char *key)
{
    machine_begin_asking_for(m, "say", "{\"q\":\"x\"}", key);
    (void)machine_end(m);
    return m->run.out.reason;
}

/* Asks, and returns how the request ended. */
static inline enum exec_reason machine_ask(struct machine *m, const char *key)
{
    machine_begin_asking(m, key);
    (void)machine_end(m);
    return m->run.out.reason;
}

/* The flow of the only hold; nil: there is none. */
static inline struct uuid machine_held_flow(const struct machine *m)
{
    return m->store.holds.count > 0 ? m->store.holds.items[0].flow_id : (struct uuid){{0}};
}

/* An execution of the hold's request under the hold's key, by a request that was not held. It has
 * succeeded unless it is in flight. */
static inline struct uuid machine_run_elsewhere(struct machine *m, bool is_in_flight)
{
    const struct hold *hold = &m->store.holds.items[0];
    struct uuid id = uuid_v7();
    struct row_claim *row = ROW_ADD(&m->store, claims);
    *row = (struct row_claim){
        .claim = {.account_id = hold->account_id, .key = hold->key, .execution_id = id},
        .is_bound = !is_in_flight,
        .expires_at = seam_store_now() + INT64_C(3600000000),
    };
    memcpy(row->claim.fingerprint, hold->fingerprint, sizeof(hold->fingerprint));
    if (is_in_flight)
        return id;
    *ROW_ADD(&m->store, executions) = (struct execution){
        .account_id = hold->account_id,
        .id = id,
        .integration_id = SLICE("demo"),
        .action_id = SLICE("put"),
        .is_succeeded = true,
        .started_at = seam_store_now(),
        .finished_at = seam_store_now(),
        .summary = SLICE("{\"status\":\"succeeded\",\"output\":{\"by\":\"another\"}}"),
    };
    return id;
}

#endif
