/*
 * Clients: each wants one request carried out, and sends it, to any node, until it has a clear
 * answer. Also the people who decide about flows.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { ASKS_MAX = 12, BEGIN_MS_MAX = 60000, AGAIN_MS_MAX = 8000, RESUMES_MAX = 2 };

static const char *const actions[] = {"get", "put", "set", "pay", "del", "put"};

/* The line of the key that all held writes have. */
static const struct uuid asker = {{0x01, 0x9b, 0x76, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 2}};

void sim_clients_init(struct sim *sim, size_t executions, size_t flows)
{
    for (size_t i = 0; i < executions + flows; i++) {
        struct sim_client *client = &sim->clients[sim->client_count++];
        *client = (struct sim_client){
            .kind = i < executions ? (enum sim_kind)seam_pick(SIM_FLOW) : SIM_FLOW,
            .number = i,
            .next_ns = seam_now_ns() + seam_pick(BEGIN_MS_MAX) * 1000000,
        };
        if (client->kind == SIM_FLOW) {
            sim_apps_choose(client);
            if (seam_pick(2) == 0) /* its id comes with the flow */
                (void)snprintf(client->key, sizeof(client->key), "f%zu", i);
            else
                client->flow_id = uuid_v7();
        } else {
            client->name = actions[client->kind];
            if (seam_pick(2) == 0)
                (void)snprintf(client->key, sizeof(client->key), "k%zu", i);
            (void)snprintf(client->input, sizeof(client->input), "{\"of\":\"client-%zu-\"}", i);
        }
    }
}

uint64_t sim_clients_next_ns(const struct sim *sim)
{
    uint64_t next_ns = UINT64_MAX;
    for (size_t i = 0; i < sim->client_count; i++) {
        const struct sim_client *client = &sim->clients[i];
        if (!client->is_done && client->open == 0 && client->next_ns < next_ns)
            next_ns = client->next_ns;
    }
    return next_ns;
}

bool sim_clients_are_done(const struct sim *sim)
{
    for (size_t i = 0; i < sim->client_count; i++)
        if (!sim->clients[i].is_done || sim->clients[i].open > 0)
            return false;
    return true;
}

/* ---- requests ---- */

/* Whether an equal request gets the result of a write that was lost, though it has no key. */
static bool is_watched(const struct sim_client *client)
{
    return !client->key[0] && client->kind > SIM_READ && client->kind < SIM_HELD;
}

/* Whether the run has a claim that the next request finds. Its record may free the key, if the
 * client was there when it was sent. */
static bool may_be_repeated(const struct sim_run *run)
{
    static const char *const late[] = {"record",     "check_record", "mark_connection",
                                       "fit_output", "answer",       "notify_connection"};
    const struct op *op = exec_op_of(run->run.as.exec);
    for (size_t i = 0; i < ARRAY_LEN(late); i++)
        if (op->is_ended || strcmp(op_step_name(op), late[i]) == 0)
            return false;
    return true;
}

/* A client leaves during a write, and repeats it at once. */
static bool leave(struct sim *sim, struct sim_node *node)
{
    LIST_EACH(&node->runs, struct sim_run, run, link) {
        struct sim_client *client = run->client;
        if (run->run.is_command || run->is_left || !run->run.as.exec || !is_watched(client) ||
            !may_be_repeated(run) || seam_pick(2) == 0)
            continue;
        sim_note(sim, "client %zu: leaves", client->number);
        run->is_left = true;
        client->open--;
        client->next_ns = seam_now_ns();
        seam_run_leave(&run->run);
        sim_node_settle(sim, node);
        return true;
    }
    return false;
}

static void on_gone(struct seam_run *run)
{
    mem_free(CONTAINER_OF(run, struct sim_run, run));
}

static struct sim_node *any_up(struct sim *sim)
{
    size_t first = seam_pick(SIM_NODES);
    for (size_t i = 0; i < SIM_NODES; i++)
        if (sim->nodes[(first + i) % SIM_NODES].is_up)
            return &sim->nodes[(first + i) % SIM_NODES];
    return NULL;
}

static void begin(struct sim *sim, struct sim_node *node, struct sim_client *client,
                  struct sim_run *run)
{
    run->client = client;
    run->run.on_gone = on_gone;
    run->bound_id = client->bound_id;
    run->released_id = client->released_id;
    list_init(&run->link);
    list_push_back(&node->runs, &run->link);
    client->open++;
    seam_run_start(&run->run);
    sim_node_settle(sim, node);
}

static void ask(struct sim *sim, struct sim_client *client)
{
    struct sim_node *node = any_up(sim);
    if (!node)
        return;
    struct sim_run *run = mem_zalloc(sizeof(*run));
    client->asks++;
    sim_note(sim, "client %zu: asks node %zu for %s%s%s, time %u", client->number,
             sim_node_number(sim, node), client->name, client->key[0] ? " with key " : "",
             client->key, client->asks);
    if (client->kind == SIM_FLOW) {
        seam_run_flow(&run->run, &node->on, client->name, client->input);
        if (client->key[0])
            run->run.command.idempotency_key = slice_cstr(client->key);
        else
            run->run.command.flow_id = client->flow_id;
        run->command = FLOW_COMMAND_START;
    } else {
        seam_run_exec(&run->run, &node->on, client->name, client->input);
        run->run.exec.is_confirmed = true;
        if (client->key[0])
            run->run.exec.idempotency_key = slice_cstr(client->key);
        if (is_watched(client))
            run->run.exec.lost_by = asker;
        run->run.exec.holds_writes = client->kind == SIM_HELD;
        run->run.exec.asker = asker;
    }
    begin(sim, node, client, run);
}

static void decide(struct sim *sim, struct sim_client *client, enum flow_command_kind kind)
{
    static const char *const names[] = {"start", "approve", "reject", "resume", "cancel"};
    struct sim_node *node = any_up(sim);
    if (!node)
        return;
    struct sim_run *run = mem_zalloc(sizeof(*run));
    sim_note(sim, "client %zu: %s at node %zu", client->number, names[kind],
             sim_node_number(sim, node));
    seam_run_command(&run->run, &node->on, kind, client->flow_id);
    run->command = kind;
    if (kind == FLOW_COMMAND_RESUME) {
        client->resumed++;
        /* a resume does not repeat the call of a hold */
        client->excuses += client->kind == SIM_FLOW && sim_is_in_doubt(sim, client->flow_id);
    }
    begin(sim, node, client, run);
}

/* Acts as a person who reads one flow and may decide about it. */
static bool decide_some(struct sim *sim)
{
    if (sim->store.flows.count == 0)
        return false;
    const struct row_flow *row = &sim->store.flows.items[seam_pick(sim->store.flows.count)];
    struct sim_client *client = sim_client_in(sim, row->input);
    if (client->open > 0)
        return false;
    if (client->kind == SIM_HELD && !uuid_eq(client->flow_id, row->flow.id)) {
        client->flow_id = row->flow.id;
        client->is_cancelled = client->is_approved = client->is_started = false; /* of another */
    }
    unsigned draw = (unsigned)seam_pick(sim->is_calm ? 10 : 40);
    if (row->flow.waiting_for == FLOW_WAITS_APPROVAL && draw < 10) {
        decide(sim, client, draw == 9 ? FLOW_COMMAND_REJECT : FLOW_COMMAND_APPROVE);
        if (!sim->is_calm && seam_pick(4) == 0) /* twice at the same moment */
            decide(sim, client, FLOW_COMMAND_APPROVE);
        return true;
    }
    if (sim->is_calm)
        return false;
    sim_check_failed(sim, row);
    if (row->flow.status == FLOW_FAILED && draw < 8 && client->resumed < RESUMES_MAX)
        decide(sim, client, FLOW_COMMAND_RESUME);
    else if (draw == 39 && seam_pick(8) == 0)
        decide(sim, client, FLOW_COMMAND_CANCEL);
    else
        return false;
    return true;
}

bool sim_client_event(struct sim *sim)
{
    struct sim_node *node = &sim->nodes[seam_pick(SIM_NODES)];
    if (!sim->is_calm && seam_pick(8) == 0 && node->is_up && !node->is_paused && leave(sim, node))
        return true;
    for (size_t i = 0; i < sim->client_count; i++) {
        struct sim_client *client = &sim->clients[i];
        if (client->is_done || client->open > 0 || client->next_ns > seam_now_ns())
            continue;
        client->next_ns = seam_now_ns() + (1 + seam_pick(AGAIN_MS_MAX)) * 1000000;
        ask(sim, client);
        if (client->key[0] && !sim->is_calm && seam_pick(8) == 0)
            ask(sim, client); /* the same, twice at once */
        return true;
    }
    return decide_some(sim);
}

/* ---- answers ---- */

static void note_answer(struct sim *sim, const struct sim_run *run)
{
    static const char *const answers[] = {
        [FLOW_ANSWER_DONE] = "done",
        [FLOW_ANSWER_NOT_FOUND] = "not found",
        [FLOW_ANSWER_NO_TEMPLATE] = "no template",
        [FLOW_ANSWER_NOT_IN_SCOPE] = "not in scope",
        [FLOW_ANSWER_INVALID] = "invalid",
        [FLOW_ANSWER_CONFLICT] = "conflict",
        [FLOW_ANSWER_REPEATED] = "repeated",
        [FLOW_ANSWER_KEY_MISMATCH] = "another request's key",
        [FLOW_ANSWER_KEY_GONE] = "the key's flow does not exist any more",
        [FLOW_ANSWER_UNAVAILABLE] = "unavailable",
        [FLOW_ANSWER_UNKNOWN] = "unknown",
    };
    if (run->run.is_command)
        sim_note(sim, "client %zu: gets: %s", run->client->number, answers[run->run.answer]);
    else
        sim_note(sim, "client %zu: gets: %s%s", run->client->number,
                 exec_reason_name(run->run.out.reason),
                 run->run.out.is_replayed ? ", as before" : "");
}

static void continue_or_finish(struct sim_client *client, bool is_to_repeat)
{
    if (!is_to_repeat || client->asks >= ASKS_MAX)
        client->is_done = true;
}

/* It is unknown whether the request was carried out. With a key it is sent again. Without a key
 * it is abandoned, unless its claim is found. */
static void continue_unanswered(const struct sim_run *run)
{
    struct sim_client *client = run->client;
    bool is_repeatable = client->kind == SIM_FLOW || client->kind == SIM_HELD ||
                         client->kind == SIM_READ ||
                         (is_watched(client) && run->run.as.exec && may_be_repeated(run));
    continue_or_finish(client, is_repeatable || client->key[0]);
}

/* Sends the request again as another request, under another key, so it may be done twice. */
static void insist(struct sim *sim, struct sim_client *client)
{
    sim_note(sim, "client %zu: tries it all the same", client->number);
    client->excuses++;
    if (client->key[0])
        (void)snprintf(client->key, sizeof(client->key), "k%zu.%u", client->number,
                       client->excuses);
    client->bound_id = client->released_id = (struct uuid){{0}};
    client->is_cancelled = client->is_approved = false; /* of the former hold */
}

/* Whether the answer of a held write is about its hold: it asks until a person has decided. */
static bool heed_hold(struct sim_client *client, const struct sim_run *run)
{
    enum exec_reason reason = run->run.out.reason;
    if (reason == EXEC_HELD)
        client->asks = 0;
    else if (reason == EXEC_HOLD_OVER)
        client->is_done = true;
    return reason == EXEC_HELD || reason == EXEC_HOLD_OVER;
}

/* A request whose outcome is unknown is repeated once under its key, which then gives the same
 * answer. */
static void heed(struct sim *sim, struct sim_client *client, const struct sim_run *run)
{
    struct uuid id = run->run.out.execution_id;
    switch (sim_reported(run)) {
    case SIM_NOT_DONE:
        if (exec_reason_is_failed(run->run.out.reason))
            client->released_id = id;
        continue_or_finish(client, true);
        break;
    case SIM_DONE:
        client->bound_id = id;
        continue_or_finish(client, false);
        break;
    case SIM_IN_DOUBT: {
        bool is_first = client->key[0] && uuid_is_nil(client->bound_id);
        client->bound_id = id;
        bool may_insist = client->key[0] || client->kind != SIM_HELD;
        if (!is_first && may_insist && seam_pick(2) == 0 && client->open == 0 && !sim->is_calm) {
            insist(sim, client);
            continue_or_finish(client, true);
        } else {
            continue_or_finish(client, is_first);
        }
        break;
    }
    }
}

static void take_answer(struct sim *sim, struct sim_run *run)
{
    struct sim_client *client = run->client;
    if (run->is_left)
        return;
    client->open--;
    note_answer(sim, run);
    sim_check_reported(sim, run);
    if (!run->run.is_command) {
        if (!heed_hold(client, run))
            heed(sim, client, run);
    } else if (run->command == FLOW_COMMAND_START) {
        bool is_there = run->run.answer == FLOW_ANSWER_DONE ||
                        run->run.answer == FLOW_ANSWER_REPEATED;
        continue_or_finish(client, !is_there);
    }
}

void sim_node_harvest(struct sim *sim, struct sim_node *node)
{
    LIST_EACH(&node->runs, struct sim_run, run, link) {
        if (!seam_run_has_ended(&run->run))
            continue;
        list_unlink(&run->link);
        take_answer(sim, run);
        sim_provider_forget(sim, run);
        seam_run_end(&run->run);
    }
}

void sim_node_drop_runs(struct sim *sim, struct sim_node *node)
{
    LIST_DRAIN(&node->runs, struct sim_run, run, link) {
        if (!run->is_left) {
            run->client->open--;
            if (!run->run.is_command || run->command == FLOW_COMMAND_START)
                continue_unanswered(run);
        }
        sim_provider_forget(sim, run);
        seam_run_drop(&run->run);
    }
}
