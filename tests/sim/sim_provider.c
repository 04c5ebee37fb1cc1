/*
 * The provider: a ledger of what reached it, and what it answers.
 */
#include "sim/sim.h"

#include "base/map.h"
#include "base/mem.h"

/* ---- first bytes ---- */

static bool is_write(const struct http_call *call)
{
    return !slice_eq_cstr(call->method, "GET");
}

static uint64_t hash_of(const struct http_call *call)
{
    slice body = seam_call_body(call);
    return hash_stable(body.ptr, body.len) * 31 + hash_stable(call->url.ptr, call->url.len);
}

/* What the write counts against: no more than one of the same text, unless it may be repeated, or a
 * person has resumed its flow. */
static void count_effect(struct sim *sim, const struct http_call *call)
{
    slice body = seam_call_body(call);
    uint64_t hash = hash_of(call);
    struct sim_client *client = sim_client_in(sim, body);
    bool is_safe = slice_find(call->url, SLICE("/set")) >= 0;
    struct sim_effect *effect = NULL;
    for (size_t i = 0; i < sim->effects.count && !effect; i++)
        if (sim->effects.items[i].hash == hash)
            effect = &sim->effects.items[i];
    if (!effect) {
        effect = ROW_ADD(sim, effects);
        *effect = (struct sim_effect){.hash = hash};
    }
    effect->count++;
    sim->writes++;
    if (!client)
        sim_fail(sim, "a write is of no client: %.*s", SLICE_ARG(body));
    if (!is_safe && effect->count > 1 + client->resumed)
        sim_fail(sim, "a write reached the provider %u times: %.*s", effect->count,
                 SLICE_ARG(body));
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
            count_effect(sim, call);
        }
    }
}

/* ---- answers ---- */

/* It says that it did nothing. */
static void uncount_effect(struct sim *sim, const struct http_call *call)
{
    uint64_t hash = hash_of(call);
    for (size_t i = 0; i < sim->effects.count; i++)
        if (sim->effects.items[i].hash == hash)
            sim->effects.items[i].count--;
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
    if (sim_chance(sim, sim->storm.limited)) {
        sim_note(sim, "node %zu: the provider answers 429", sim_node_number(sim, node));
        if (is_write(call))
            uncount_effect(sim, call);
        seam_call_reply(call, 429, "{}");
    } else if (sim_chance(sim, sim->storm.call_fail)) {
        unsigned status = seam_pick(2) == 0 ? 500 : 0;
        enum seam_phase phase = (enum seam_phase)(SEAM_SENT + seam_pick(SEAM_PHASES - SEAM_SENT));
        sim_note(sim, "node %zu: the provider fails: %s", sim_node_number(sim, node),
                 status ? "500" : seam_phase_name(phase));
        if (status)
            seam_call_reply(call, status, "{}");
        else
            seam_call_fail(call, phase);
    } else {
        sim_note(sim, "node %zu: the provider answers", sim_node_number(sim, node));
        sim_apps_answer(sim, call);
    }
    sim_node_settle(sim, node);
}
