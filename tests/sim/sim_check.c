/*
 * Invariants, which are checked after every event and at the end.
 */
#include "sim/sim.h"

#include <string.h>

/* ---- transitions ---- */

struct rule {
    const char *statement;
    unsigned from, to; /* sets of statuses */
};
#define IS(status) (1u << (status))
static const unsigned any = IS(FLOW_RUNNING) | IS(FLOW_WAITING) | IS(FLOW_COMPLETED) |
                            IS(FLOW_FAILED);
static const unsigned moved = IS(FLOW_RUNNING) | IS(FLOW_COMPLETED) | IS(FLOW_FAILED);

static bool is_allowed(const char *name, enum flow_status from, enum flow_status to)
{
    const struct rule rules[] = {
        {"flow_wake_park", IS(FLOW_WAITING), IS(FLOW_WAITING)},
        {"flow_wake", IS(FLOW_WAITING), moved},
        {"flow_move", IS(FLOW_RUNNING), moved},
        {"flow_park", IS(FLOW_RUNNING), IS(FLOW_WAITING)},
        {"flow_take_resume", IS(FLOW_WAITING) | IS(FLOW_FAILED), IS(FLOW_RUNNING)},
        {"flow_take_approve", IS(FLOW_WAITING), IS(FLOW_RUNNING)},
        {"flow_take_adopt", IS(FLOW_RUNNING), IS(FLOW_RUNNING)},
        {"flow_reject", IS(FLOW_WAITING), IS(FLOW_CANCELLED)},
        {"flow_cancel", any, IS(FLOW_CANCELLED)},
    };
    slice plain = slice_cstr(name);
    if (slice_ends_with(plain, SLICE("_heard"))) /* it writes the event, too */
        plain.len -= strlen("_heard");
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        if (slice_eq_cstr(plain, rules[i].statement))
            return (rules[i].from & IS(from)) && (rules[i].to & IS(to));
    return false;
}

static void check_owner(struct sim *sim, const struct flow *before, const struct flow *after)
{
    bool is_other = !uuid_is_nil(before->owner) && !uuid_is_nil(after->owner) &&
                    !uuid_eq(before->owner, after->owner);
    if (is_other && seam_node_lives(&sim->store, before->owner))
        sim_fail(sim, "a flow was taken from a node that lives");
    if (after->step_index < before->step_index ||
        (after->step_index == before->step_index && after->attempt < before->attempt))
        sim_fail(sim, "a flow went back");
}

/* A client that starts a flow with a key learns the flow's id from the first answer that has
 * one. */
static void check_new_flow(struct sim *sim, const struct flow *flow, const struct pg_query *query)
{
    struct sim_client *client = sim_client_in(sim, seam_text(query, "input"));
    if (!client || !client->key[0] || client->kind != SIM_FLOW)
        return;
    if (!uuid_is_nil(client->flow_id))
        sim_fail(sim, "client %zu has two flows under one key", client->number);
    client->flow_id = flow->id;
}

/* The id of the event that the statement writes for each endpoint; nil: it writes none. */
static struct uuid event_of(const struct pg_query *query)
{
    for (size_t i = 0; i < query->stmt->param_count; i++)
        if (strcmp(query->stmt->params[i].name, "event_id") == 0 && !query->params[i].is_null)
            return query->params[i].as.uuid;
    return (struct uuid){{0}};
}

static bool writes_events(const struct pg_query *query)
{
    const struct pg_stmt *stmt = query->stmt;
    size_t count = stmt->column_count;
    return count > 0 && strcmp(stmt->columns[count - 1].name, "has_event") == 0;
}

/* A change has an event if it ends the flow, or if a person has to approve or has approved. Its
 * kind and revision are the row's (STORE_OUTBOX). No two changes have one id. While accounts have
 * endpoints, the statement writes it: has_event is the last column. */
static void check_event(struct sim *sim, const struct flow *after, const struct pg_query *query)
{
    struct uuid id = event_of(query);
    bool waits = after->status == FLOW_WAITING && after->waiting_for == FLOW_WAITS_APPROVAL;
    bool is_heard = waits || after->status > FLOW_WAITING ||
                    strcmp(query->stmt->name, "flow_take_approve") == 0;
    if (uuid_is_nil(id) == is_heard)
        sim_fail(sim, "%s to %s %s", query->stmt->name, flow_status_name(after->status),
                 is_heard ? "has no event" : "has an event");
    if (is_heard && sim->store.has_endpoint && !writes_events(query))
        sim_fail(sim, "%s writes no event", query->stmt->name);
    for (size_t i = 0; i < sim->changes.count && is_heard; i++)
        if (uuid_eq(sim->changes.items[i], id))
            sim_fail(sim, "%s has the event of another change", query->stmt->name);
    if (is_heard)
        *ROW_ADD(sim, changes) = id;
}

void sim_check_flow(void *owner, const struct flow *before, const struct flow *after,
                    const struct pg_query *query)
{
    struct sim *sim = owner;
    char id[16];
    sim_note(sim, "flow %s: %s, step %lld, attempt %lld, rev %lld", sim_short(after->id, id),
             flow_status_name(after->status), (long long)after->step_index,
             (long long)after->attempt, (long long)after->rev);
    check_event(sim, after, query);
    if (before->rev == 0) {
        check_new_flow(sim, after, query);
        return;
    }
    if (!is_allowed(query->stmt->name, before->status, after->status))
        sim_fail(sim, "%s went from %s to %s", query->stmt->name, flow_status_name(before->status),
                 flow_status_name(after->status));
    if (before->step_index != after->step_index ||
        strcmp(query->stmt->name, "flow_take_resume") == 0)
        sim_client_in(sim, seam_find_flow(&sim->store, after->id)->input)->step_did = 0;
    if (after->rev != before->rev + 1)
        sim_fail(sim, "%s went from rev %lld to %lld", query->stmt->name, (long long)before->rev,
                 (long long)after->rev);
    check_owner(sim, before, after);
}

/* ---- writes ---- */

/* A held write is made by a flow that this node owns, or that was cancelled a moment ago. */
static void check_held_write(struct sim *sim, struct sim_node *node,
                             const struct sim_client *client)
{
    for (size_t i = 0; i < sim->store.flows.count; i++) {
        const struct row_flow *row = &sim->store.flows.items[i];
        bool is_ours = uuid_eq(row->flow.owner, node_id(node->on.node)) ||
                       row->flow.status == FLOW_CANCELLED;
        if (is_ours && sim_client_in(sim, row->input) == client)
            return;
    }
    sim_fail(sim, "node %zu makes a held write without a hold of its own",
             sim_node_number(sim, node));
}

void sim_check_write(struct sim *sim, struct sim_node *node, const struct http_call *call)
{
    struct uuid id = node_id(node->on.node);
    const struct sim_client *client = sim_client_of(sim, call);
    const struct row_flow *row =
        client && client->kind == SIM_FLOW ? seam_find_flow(&sim->store, client->flow_id) : NULL;
    if (!seam_node_lives(&sim->store, id))
        sim_fail(sim, "node %zu writes although its lease has run out", sim_node_number(sim, node));
    if (client && client->is_cancelled)
        sim_fail(sim, "node %zu writes for a flow whose cancel was acknowledged",
                 sim_node_number(sim, node));
    if (client && client->kind == SIM_FLOW && !row)
        sim_fail(sim, "node %zu writes for a flow that is not stored", sim_node_number(sim, node));
    if (row && row->flow.status != FLOW_CANCELLED && !uuid_eq(row->flow.owner, id))
        sim_fail(sim, "node %zu writes for a flow that is not its own", sim_node_number(sim, node));
    if (client && client->kind == SIM_HELD)
        check_held_write(sim, node, client);
}

/* ---- answers to clients ---- */

static bool has(slice text, const char *part)
{
    return text.ptr && slice_find(text, slice_cstr(part)) >= 0;
}

/* A 503, which has no summary, means that nothing was done. */
enum sim_effect_reported sim_reported(const struct sim_run *run)
{
    slice summary = exec_reason_status(run->run.out.reason) ? run->run.summary_json : SLICE_NONE;
    if (has(summary, "\"outcome\":\"done\""))
        return SIM_DONE;
    return has(summary, "\"outcome\":\"unknown\"") || has(summary, "\"outcome\":\"partly\"")
               ? SIM_IN_DOUBT
               : SIM_NOT_DONE;
}

bool sim_is_in_doubt(const struct sim *sim, struct uuid flow_id)
{
    const struct flow_step *last = NULL;
    for (size_t i = 0; i < sim->store.steps.count; i++)
        if (uuid_eq(sim->store.steps.items[i].flow_id, flow_id) &&
            !sim->store.steps.items[i].step.is_completed)
            last = &sim->store.steps.items[i].step;
    return last && has(last->error, "\"outcome\":\"unknown\"");
}

void sim_check_failed(struct sim *sim, const struct row_flow *row)
{
    const struct sim_client *client = sim_client_in(sim, row->input);
    if (row->flow.status == FLOW_FAILED && client->step_did > 0 &&
        !sim_is_in_doubt(sim, row->flow.id))
        sim_fail(sim, "the flow of client %zu failed, and does not say that its step may be done",
                 client->number);
}

/* Checks that the answer matches what was done, and the state of its key. A released key runs
 * again. A bound key gives the same answer. */
static void check_effect(struct sim *sim, const struct sim_run *run)
{
    const struct sim_client *client = run->client;
    const struct exec_outcome *out = &run->run.out;
    bool is_result = out->reason == EXEC_SUCCEEDED || exec_reason_is_failed(out->reason);
    if (client->kind != SIM_READ && sim_reported(run) == SIM_NOT_DONE && run->did > 0)
        sim_fail(sim, "client %zu got the answer that nothing was done (%s), but it was",
                 client->number, exec_reason_name(out->reason));
    if (!client->key[0] || !is_result)
        return;
    if (!uuid_is_nil(run->bound_id) && !uuid_eq(run->bound_id, out->execution_id))
        sim_fail(sim, "client %zu: a key that was bound ran again", client->number);
    bool is_held = client->kind == SIM_HELD; /* its hold keeps the key */
    if (!is_held && !uuid_is_nil(run->released_id) && uuid_eq(run->released_id, out->execution_id))
        sim_fail(sim, "client %zu: a key that was released gives the former answer",
                 client->number);
}

static void check_execution(struct sim *sim, const struct sim_run *run)
{
    struct sim_client *client = run->client;
    const struct exec_outcome *out = &run->run.out;
    check_effect(sim, run);
    if (out->reason != EXEC_SUCCEEDED && !exec_reason_is_failed(out->reason))
        return;
    const struct execution *row = seam_find_execution(&sim->store, out->execution_id);
    if (out->reason == EXEC_OUTCOME_UNKNOWN && (!row || row->is_succeeded))
        return; /* its record may come later, and say more */
    if (!row)
        sim_fail(sim, "client %zu got an answer about an execution that is not stored",
                 client->number);
    if (row->is_succeeded != (out->reason == EXEC_SUCCEEDED))
        sim_fail(sim, "client %zu got another outcome than the stored one", client->number);
    if (client->kind == SIM_READ)
        return;
    /* An execution that failed with proof that nothing was done has released its key. Another may
     * succeed under that key, and its answer may come earlier. */
    if (out->reason != EXEC_SUCCEEDED)
        return;
    if (client->is_succeeded && !uuid_eq(client->execution_id, out->execution_id))
        sim_fail(sim, "client %zu got answers about two executions under one key", client->number);
    client->is_succeeded = true;
    client->execution_id = out->execution_id;
}

static bool has_approval(struct sim *sim, const struct row_flow *row)
{
    for (size_t i = 0; i < sim->store.steps.count; i++) {
        const struct row_step *step = &sim->store.steps.items[i];
        if (uuid_eq(step->flow_id, row->flow.id) && step->step.is_completed &&
            step->step.output.ptr && slice_find(step->step.output, SLICE("approvedBy")) >= 0)
            return true;
    }
    return false;
}

static void check_flow_facts(struct sim *sim, const struct sim_client *client)
{
    const struct row_flow *row = seam_find_flow(&sim->store, client->flow_id);
    if (client->is_started && !row)
        sim_fail(sim, "the start of the flow of client %zu was lost", client->number);
    if (client->is_cancelled && row->flow.status != FLOW_CANCELLED)
        sim_fail(sim, "the flow of client %zu is no longer cancelled", client->number);
    if (client->is_approved && !has_approval(sim, row))
        sim_fail(sim, "the approval of the flow of client %zu was lost", client->number);
}

void sim_check_reported(struct sim *sim, const struct sim_run *run)
{
    struct sim_client *client = run->client;
    if (!run->run.is_command) {
        check_execution(sim, run);
        return;
    }
    const struct flow_command *command = &run->run.as.command;
    bool is_start = run->command == FLOW_COMMAND_START;
    if (is_start && !command->is_replayed && run->run.answer == FLOW_ANSWER_UNAVAILABLE &&
        client->key[0] && seam_find_flow(&sim->store, command->flow_id))
        sim_fail(sim, "client %zu got the answer that its flow did not begin", client->number);
    if (run->run.answer != FLOW_ANSWER_DONE)
        return;
    if (!uuid_eq(command->flow_id, client->flow_id))
        sim_fail(sim, "client %zu got an answer about another flow than its own", client->number);
    client->is_started = true;
    client->is_approved |= run->command == FLOW_COMMAND_APPROVE;
    client->is_cancelled |= run->command == FLOW_COMMAND_CANCEL ||
                            run->command == FLOW_COMMAND_REJECT;
    check_flow_facts(sim, client);
}

/* ---- the end ---- */

bool sim_all_have_ended(struct sim *sim)
{
    for (size_t i = 0; i < sim->store.flows.count; i++)
        if (sim->store.flows.items[i].flow.status <= FLOW_WAITING)
            return false;
    for (size_t i = 0; i < sim->store.claims.count; i++)
        if (!sim->store.claims.items[i].is_bound)
            return false;
    return sim_clients_are_done(sim);
}

static void check_client(struct sim *sim, const struct sim_client *client)
{
    if (client->kind == SIM_FLOW) {
        check_flow_facts(sim, client);
        return;
    }
    if (!uuid_is_nil(client->bound_id) && !seam_find_execution(&sim->store, client->bound_id))
        sim_fail(sim, "the last answer to client %zu is not stored", client->number);
    if (client->kind == SIM_READ || !client->is_succeeded)
        return;
    if (!seam_find_execution(&sim->store, client->execution_id))
        sim_fail(sim, "the execution of client %zu was lost", client->number);
    if (!client->key[0])
        return;
    const struct row_claim *claim =
        seam_find_claim(&sim->store, seam_account, slice_cstr(client->key));
    if (!claim || !uuid_eq(claim->claim.execution_id, client->execution_id))
        sim_fail(sim, "the key of client %zu is no longer bound to its execution", client->number);
}

void sim_check_end(struct sim *sim)
{
    for (size_t i = 0; i < sim->store.flows.count; i++) {
        const struct row_flow *row = &sim->store.flows.items[i];
        if (row->flow.status <= FLOW_WAITING)
            sim_fail(sim, "the flow of client %zu has not ended: it is %s, step %lld",
                     sim_client_in(sim, row->input)->number, flow_status_name(row->flow.status),
                     (long long)row->flow.step_index);
        sim_check_failed(sim, row);
    }
    for (size_t i = 0; i < sim->store.claims.count; i++)
        if (!sim->store.claims.items[i].is_bound)
            sim_fail(sim, "a claim is in flight forever: %.*s",
                     SLICE_ARG(sim->store.claims.items[i].claim.key));
    for (size_t i = 0; i < sim->client_count; i++) {
        if (!sim->clients[i].is_done)
            sim_fail(sim, "client %zu has no answer", i);
        check_client(sim, &sim->clients[i]);
    }
    for (size_t i = 0; i < SIM_NODES; i++)
        if (flow_service_active(sim->nodes[i].on.flow) ||
            exec_service_active(sim->nodes[i].on.exec))
            sim_fail(sim, "node %zu holds something that has ended", i);
}
