/*
 * Processes: how the database serves them, and their faults.
 */
#include "sim/sim.h"

#include "base/mem.h"

enum { AWAY_MS_MAX = 20000, PAUSE_MS_MAX = 25000, STEP_MS = 5000, STEP_FAR_MS = 300000 };

size_t sim_node_number(const struct sim *sim, const struct sim_node *node)
{
    return (size_t)(node - sim->nodes);
}

static void settle(struct sim_node *node)
{
    seam_wall_shift_set(node->wall_shift_us);
    seam_settle(node->on.loop);
    seam_wall_shift_set(0);
}

void sim_node_open(struct sim *sim, struct sim_node *node)
{
    node->is_up = true;
    node->is_paused = false;
    node->incarnation++;
    list_init(&node->runs);
    seam_wall_shift_set(node->wall_shift_us);
    seam_node_open(&node->on, sim->catalog, sim->templates, sim->ring);
    sim_node_settle(sim, node);
}

void sim_node_settle(struct sim *sim, struct sim_node *node)
{
    if (!node->is_up || node->is_paused)
        return;
    settle(node);
    sim_provider_take(sim, node);
    sim_node_harvest(sim, node);
    settle(node);
}

void sim_node_close(struct sim *sim, struct sim_node *node)
{
    seam_wall_shift_set(node->wall_shift_us);
    sim_node_drop_runs(sim, node);
    seam_node_close(&node->on);
    seam_wall_shift_set(0);
    node->is_up = false;
}

/* Queries on their way to the database may still be done, but no client gets an answer. */
void sim_node_crash(struct sim *sim, struct sim_node *node)
{
    struct pg_query *query;
    sim_note(sim, "node %zu: dies", sim_node_number(sim, node));
    for (size_t i = 0; (query = seam_query(node->on.pool, i)); i++)
        if (!seam_query_is_done(query) && seam_pick(2) == 0) {
            sim_note(sim, "node %zu: %s is done, and its answer is lost",
                     sim_node_number(sim, node), seam_query_stmt(query)->name);
            (void)seam_rows_do(&sim->store, query);
        }
    sim_node_close(sim, node);
    node->back_ns = seam_now_ns() + seam_pick(AWAY_MS_MAX) * 1000000;
    sim->crashes++;
}

void sim_node_return(struct sim *sim, struct sim_node *node)
{
    if (node->back_ns > seam_now_ns() || (node->is_up && !node->is_paused))
        return;
    sim_note(sim, "node %zu: %s", sim_node_number(sim, node), node->is_up ? "goes on" : "is back");
    if (!node->is_up) {
        sim_node_open(sim, node);
        return;
    }
    node->is_paused = false;
    sim_node_settle(sim, node);
}

/* ---- the database ---- */

static void lose(struct sim *sim, struct sim_node *node, struct pg_query *query)
{
    bool is_done = seam_query_is_done(query), is_for_good = sim_chance(sim, sim->storm.for_good);
    sim_note(sim, "node %zu: %s is lost, %sdone%s", sim_node_number(sim, node),
             seam_query_stmt(query)->name, is_done ? "" : "not ",
             is_for_good ? ", not sent again" : "");
    sim->lost++;
    if (is_for_good)
        seam_query_lose_for_good(query);
    else
        seam_query_lose(query);
}

static void refuse(struct sim *sim, struct sim_node *node, struct pg_query *query, int status)
{
    sim_note(sim, "node %zu: %s ends with status %d", sim_node_number(sim, node),
             seam_query_stmt(query)->name, status);
    seam_query_fail(query, status);
}

void sim_database_event(struct sim *sim, struct sim_node *node, size_t index)
{
    const struct sim_storm *storm = &sim->storm;
    struct pg_query *query = seam_query(node->on.pool, index);
    bool can_hear = !node->is_paused;
    if (!seam_query_is_done(query)) {
        if (can_hear && sim_chance(sim, storm->refuse)) {
            refuse(sim, node, query, ERR_BUSY);
        } else if (can_hear && sim_chance(sim, storm->rollback)) {
            refuse(sim, node, query, ERR_TIMEOUT);
        } else if (can_hear && sim_chance(sim, storm->lose)) {
            lose(sim, node, query);
        } else {
            int status = seam_rows_do(&sim->store, query);
            sim_note(sim, "node %zu: %s is done%s", sim_node_number(sim, node),
                     seam_query_stmt(query)->name, query->rows.count ? ", with rows" : "");
            if (status != OK)
                refuse(sim, node, query, status);
            else if (can_hear && !sim_chance(sim, storm->late))
                seam_query_done(query);
        }
    } else if (can_hear && sim_chance(sim, storm->lose)) {
        lose(sim, node, query);
    } else if (can_hear) {
        seam_query_done(query);
    }
    sim_node_settle(sim, node);
}

/* ---- faults ---- */

static struct sim_node *any_running(struct sim *sim)
{
    struct sim_node *node = &sim->nodes[seam_pick(SIM_NODES)];
    return node->is_up && !node->is_paused ? node : NULL;
}

void sim_fault_event(struct sim *sim)
{
    struct sim_node *node = any_running(sim);
    if (!node)
        return;
    if (sim_chance(sim, sim->storm.crash)) {
        sim_node_crash(sim, node);
    } else if (sim_chance(sim, sim->storm.pause)) {
        node->is_paused = true;
        node->back_ns = seam_now_ns() + seam_pick(PAUSE_MS_MAX) * 1000000;
        sim_note(sim, "node %zu: is paused", sim_node_number(sim, node));
    } else if (sim_chance(sim, sim->storm.step)) {
        uint64_t most_ms = seam_pick(10) == 0 ? STEP_FAR_MS : STEP_MS;
        node->wall_shift_us = ((int64_t)seam_pick(2 * most_ms) - (int64_t)most_ms) * 1000;
        sim_note(sim, "node %zu: its clock is set %+lld ms", sim_node_number(sim, node),
                 (long long)node->wall_shift_us / 1000);
    }
}
