/*
 * The provider: a ledger of what it has done, and its answers. It carries out a request as soon as
 * it arrives, and undoes it if it then refuses the request, or fails without having done it.
 */
#include "sim/sim.h"

#include <stdio.h>

#include "base/map.h"
#include "base/mem.h"
#include "exec/internal.h"

/* ---- first bytes ---- */

static bool is_write(const struct http_call *call)
{
    return !slice_eq_cstr(call->method, "GET");
}

static bool is_to(const struct http_call *call, const char *path)
{
    return slice_find(call->url, slice_cstr(path)) >= 0;
}

static uint64_t hash_of(const struct http_call *call)
{
    slice body = seam_call_body(call);
    return hash_stable(body.ptr, body.len) * 31 + hash_stable(call->url.ptr, call->url.len);
}

/* ---- the ledger ---- */

static size_t effect_of(struct sim *sim, const struct http_call *call)
{
    uint64_t hash = hash_of(call);
    size_t at = 0;
    while (at < sim->effects.count && sim->effects.items[at].hash != hash)
        at++;
    if (at == sim->effects.count)
        *ROW_ADD(sim, effects) = (struct sim_effect){.hash = hash};
    return at;
}

static struct sim_key *find_key(struct sim *sim, uint64_t hash)
{
    for (size_t i = 0; i < sim->keys.count; i++)
        if (sim->keys.items[i].hash == hash)
            return &sim->keys.items[i];
    return NULL;
}

static uint64_t key_of(const struct http_call *call)
{
    slice key = http_header_get(call->headers, call->header_count, SLICE("Idempotency-Key"));
    return key.ptr ? hash_stable(key.ptr, key.len) : 0;
}

/* Returns the run that made the call; NULL: a flow made it. */
static struct sim_run *run_of(struct sim_node *node, const struct http_call *call)
{
    LIST_EACH(&node->runs, struct sim_run, run, link) {
        if (!run->run.is_command && run->run.as.exec && exec_op_of(run->run.as.exec) == call->owner)
            return run;
    }
    return NULL;
}

static struct sim_request *find_request(struct sim *sim, const struct http_call *call)
{
    for (size_t i = sim->requests.count; i-- > 0;)
        if (sim->requests.items[i].call == call &&
            sim->requests.items[i].started_ns == call->started_ns)
            return &sim->requests.items[i];
    return NULL;
}

void sim_provider_forget(struct sim *sim, const struct sim_run *run)
{
    for (size_t i = 0; i < sim->requests.count; i++)
        if (sim->requests.items[i].run == run)
            sim->requests.items[i].run = NULL;
}

static void mark(struct sim *sim, struct sim_request *request, bool did)
{
    struct sim_effect *effect = &sim->effects.items[request->effect];
    if (request->did == did)
        return;
    request->did = did;
    effect->count += did ? 1 : (unsigned)-1;
    if (request->run)
        request->run->did += did ? 1 : (unsigned)-1;
    else if (!request->is_item && (did || request->client->step_did > 0))
        request->client->step_did += did ? 1 : (unsigned)-1;
    if (request->key && did)
        *ROW_ADD(sim, keys) = (struct sim_key){request->key, request->effect};
    else if (request->key)
        find_key(sim, request->key)->hash = 0;
}

static bool has_item(const struct http_call *call)
{
    return slice_find(seam_call_body(call), SLICE("\"item\"")) >= 0;
}

/* The request is done as soon as it arrives, and only once, unless its client has been warned
 * that it may already be done. A request that may be repeated is done when it first arrives. */
static void do_write(struct sim *sim, struct sim_node *node, const struct http_call *call)
{
    struct sim_client *client = sim_client_of(sim, call);
    struct sim_request request = {.call = call,
                                  .started_ns = call->started_ns,
                                  .key = key_of(call),
                                  .effect = effect_of(sim, call),
                                  .run = run_of(node, call),
                                  .client = client,
                                  .is_item = !is_to(call, "demo.example") || has_item(call)};
    const struct sim_effect *effect = &sim->effects.items[request.effect];
    bool is_state = is_to(call, "/set") || is_to(call, "/del");
    bool is_there = is_state ? effect->count > 0 : request.key && find_key(sim, request.key);
    if (!client)
        sim_fail(sim, "a write belongs to no client: %.*s", SLICE_ARG(call->url));
    if (client->kind == SIM_HELD && request.run)
        sim_fail(sim, "a held write was made by its request");
    if (is_to(call, "/pay") && !request.key)
        sim_fail(sim, "a write does not have a key of the provider's");
    *ROW_ADD(sim, requests) = request;
    mark(sim, &sim->requests.items[sim->requests.count - 1], !is_there);
    sim->writes++;
    effect = &sim->effects.items[request.effect];
    if (effect->count > 1 + client->excuses)
        sim_fail(sim,
                 "client %zu: a write was done %u times, and it was warned %u times that it may "
                 "have been: %.*s %.*s",
                 client->number, effect->count, client->excuses, SLICE_ARG(call->url),
                 SLICE_ARG(seam_call_body(call)));
}

/* Whether the answer to another request with the same effect, already sent or still to come,
 * says that it is done. */
static bool is_relied_on(const struct sim *sim, const struct sim_request *request)
{
    for (size_t i = 0; i < sim->requests.count; i++) {
        const struct sim_request *other = &sim->requests.items[i];
        if (other != request && other->effect == request->effect && !other->did)
            return true;
    }
    return false;
}

/* Undoes the effect of a request that was not done after all. Returns false if it stays done, since
 * the answer to another request relies on it. */
static bool undo(struct sim *sim, const struct http_call *call)
{
    struct sim_request *request = find_request(sim, call);
    if (request && request->did && is_relied_on(sim, request))
        return false;
    if (request)
        mark(sim, request, false);
    return true;
}

void sim_provider_take(struct sim *sim, struct sim_node *node)
{
    struct http_call *call;
    for (size_t i = 0; (call = seam_call(node->on.http, i)); i++) {
        if (call->is_any_byte_sent || sim_chance(sim, sim->storm.handshake))
            continue;
        sim_note(sim, "node %zu: %.*s %.*s %.*s", sim_node_number(sim, node),
                 SLICE_ARG(call->method), SLICE_ARG(call->url), SLICE_ARG(seam_call_body(call)));
        if (sim_chance(sim, sim->storm.call_fail) && seam_pick(3) == 0) {
            enum seam_phase phase =
                (enum seam_phase)seam_pick(SEAM_SENT); /* before its first byte */
            sim_note(sim, "node %zu: it fails: %s", sim_node_number(sim, node),
                     seam_phase_name(phase));
            seam_call_fail(call, phase);
            i--;
            continue;
        }
        if (!seam_call_send(call)) {
            sim_note(sim, "node %zu: does not send it", sim_node_number(sim, node));
            i--;
        } else if (is_write(call)) {
            sim_check_write(sim, node, call);
            do_write(sim, node, call);
        }
    }
}

/* ---- answers ---- */

/* A refusal is true: the provider did not do what it refuses to do. */
static bool refuse(struct sim *sim, struct sim_node *node, struct http_call *call)
{
    static const unsigned statuses[] = {400, 401, 403, 404, 409, 410, 413, 422, 429, 429, 501};
    unsigned status = statuses[seam_pick(ARRAY_LEN(statuses))];
    bool is_demo = is_to(call, "demo.example");
    if (!is_demo && (status == 401 || status == 403)) /* its connection would be lost for all
                                                       * runs */
        status = 429;
    if (is_to(call, "/del") && (status == 404 || status == 410))
        status = 422;
    if (is_write(call) && !undo(sim, call))
        return false;
    sim_note(sim, "node %zu: the provider answers %u: %.*s", sim_node_number(sim, node), status,
             SLICE_ARG(call->url));
    seam_call_reply(call, status, "{}");
    return true;
}

/* Fails the call in a way that does not show whether the provider has done it. */
static void fail(struct sim *sim, struct sim_node *node, struct http_call *call)
{
    static const unsigned statuses[] = {500, 502, 503, 302, 408};
    unsigned status = seam_pick(2) == 0 ? statuses[seam_pick(ARRAY_LEN(statuses))] : 0;
    enum seam_phase phase = (enum seam_phase)(SEAM_SENT + seam_pick(SEAM_PHASES - SEAM_SENT));
    bool is_undone = is_write(call) && seam_pick(2) == 0 && undo(sim, call);
    char digits[16];
    (void)snprintf(digits, sizeof(digits), "%u", status);
    sim_note(sim, "node %zu: the provider fails%s: %s: %.*s", sim_node_number(sim, node),
             is_undone ? ", and did nothing" : "", status ? digits : seam_phase_name(phase),
             SLICE_ARG(call->url));
    if (status)
        seam_call_reply(call, status, "{}");
    else
        seam_call_fail(call, phase);
}

static void answer(struct sim *sim, struct sim_node *node, struct http_call *call)
{
    const struct sim_request *request = is_write(call) ? find_request(sim, call) : NULL;
    bool is_gone = is_to(call, "/del") && request && !request->did;
    sim_note(sim, "node %zu: the provider answers%s: %.*s", sim_node_number(sim, node),
             is_gone ? " that nothing exists" : "", SLICE_ARG(call->url));
    if (is_gone)
        seam_call_reply(call, seam_pick(2) == 0 ? 404 : 410, "{}");
    else
        sim_apps_answer(sim, call);
}

/* Plants a fault: the effect of an earlier request of the run is forgotten. */
static void forget_doubt(struct sim_node *node, const struct http_call *call)
{
    LIST_EACH(&node->on.exec->all, struct exec, exec, all_link) {
        if (&exec->attempt.call != call)
            continue;
        exec->attempt.doubt = NULL;
        exec->in.is_in_doubt = false;
    }
}

void sim_provider_event(struct sim *sim, struct sim_node *node, size_t index)
{
    struct http_call *call = seam_call(node->on.http, index);
    if (node->is_paused)
        return;
    if (!call->is_any_byte_sent) {
        sim_node_settle(sim, node);
        return;
    }
    if (sim->bug == SEAM_BUG_LAST_REPLY)
        forget_doubt(node, call);
    if (!sim_chance(sim, sim->storm.refused) || !refuse(sim, node, call)) {
        if (sim_chance(sim, sim->storm.call_fail))
            fail(sim, node, call);
        else
            answer(sim, node, call);
    }
    sim_node_settle(sim, node);
}
