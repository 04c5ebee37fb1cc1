/*
 * A sequence with one fault; see walk.h.
 */
#include "seam/walk.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "flow/template.h"

enum { LATE_MS = 3000, LONG_MS = 600000, TIMER_MS_MAX = 60000 };

struct seam_bench *seam_bench_open(bool is_flow)
{
    struct seam_bench *b = mem_zalloc(sizeof(*b));
    const char *const manifests[] = {seam_demo_manifest, NULL};
    const char *const templates[] = {seam_demo_template, NULL};
    seam_open(1);
    b->catalog = seam_catalog(manifests);
    b->templates = is_flow ? seam_templates(b->catalog, templates) : NULL;
    seam_store_init(&b->store);
    seam_node_open(&b->node, b->catalog, b->templates, NULL);
    seam_node_join(&b->node, &b->store);
    return b;
}

bool seam_bench_close(struct seam_bench *b)
{
    seam_node_close(&b->node);
    seam_store_deinit(&b->store);
    flow_template_set_free(b->templates);
    catalog_unref(b->catalog);
    mem_free(b);
    return seam_close();
}

const char *seam_fault_name(enum seam_fault fault)
{
    static const char *const names[SEAM_FAULTS] = {
        "refused",      "rolled back", "lost undone", "lost done", "unknown undone",
        "unknown done", "late",        "cancelled",   "left",
    };
    return names[fault];
}

/* Whether it is one of the node's periodic queries. */
static bool is_background(const struct pg_query *query)
{
    static const char *const names[] = {
        "node_register", "node_heartbeat", "claim_recover", "claim_owned", "due_scan",
        "flow_orphans",  "node_dead",      "flow_owned",    "flow_rev",    "connection_use"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(query->stmt->name, names[i]) == 0)
            return true;
    return false;
}

static void note_place(struct seam_walk *walk, const char *what, bool is_call)
{
    (void)snprintf(walk->where, sizeof(walk->where), "%s", what);
    walk->is_hit = true;
    walk->is_call = is_call;
}

static void pass(struct seam_walk *walk, uint64_t ms);

/* Whatever the fault is, the query is answered after it. */
static void fail_query(struct seam_walk *walk, struct seam_run *run, struct pg_query *query)
{
    int status = OK;
    note_place(walk, query->stmt->name, false);
    switch (walk->fault) {
    case SEAM_REFUSED:
        seam_query_fail(query, ERR_BUSY);
        return;
    case SEAM_ROLLED_BACK:
        seam_query_fail(query, ERR_TIMEOUT);
        return;
    case SEAM_LOST_DONE:
    case SEAM_UNKNOWN_DONE:
        status = seam_rows_do(walk->store, query);
        break;
    case SEAM_LATE:
        pass(walk, LATE_MS);
        break;
    case SEAM_CANCELLED:
        if (run)
            seam_run_cancel(run);
        break;
    case SEAM_LEFT:
        if (run)
            seam_run_leave(run);
        break;
    default:
        break;
    }
    if (status != OK)
        seam_query_fail(query, status);
    else if (walk->fault == SEAM_LOST_UNDONE || walk->fault == SEAM_LOST_DONE)
        seam_query_lose(query);
    else if (walk->fault == SEAM_UNKNOWN_UNDONE || walk->fault == SEAM_UNKNOWN_DONE)
        seam_query_lose_for_good(query);
    else
        seam_rows_answer(walk->store, query);
}

static void count_sent(struct seam_walk *walk, const struct http_call *call)
{
    walk->sent++;
    walk->writes += !slice_eq_cstr(call->method, "GET");
}

static void let_go(struct seam_walk *walk, struct http_call *call)
{
    if (!call->is_any_byte_sent && seam_call_send(call))
        count_sent(walk, call);
}

static void reply(struct seam_walk *walk, struct http_call *call)
{
    let_go(walk, call);
    seam_call_reply(call, 200, walk->reply ? walk->reply : "{}");
}

static void fail_call(struct seam_walk *walk, struct seam_run *run, struct http_call *call)
{
    static const enum seam_phase phases[] = {
        [SEAM_REFUSED] = SEAM_DIAL,           [SEAM_ROLLED_BACK] = SEAM_HANDSHAKE,
        [SEAM_LOST_UNDONE] = SEAM_SENT,       [SEAM_LOST_DONE] = SEAM_MID_REPLY,
        [SEAM_UNKNOWN_UNDONE] = SEAM_SILENCE, [SEAM_UNKNOWN_DONE] = SEAM_GARBAGE,
    };
    note_place(walk, "the call", true);
    if (walk->fault < ARRAY_LEN(phases)) {
        seam_call_fail(call, phases[walk->fault]);
        if (call->is_any_byte_sent)
            count_sent(walk, call);
        return;
    }
    let_go(walk, call);
    if (walk->fault == SEAM_LATE)
        pass(walk, LATE_MS);
    else if (walk->fault == SEAM_CANCELLED && run)
        seam_run_cancel(run);
    else if (walk->fault == SEAM_LEFT && run)
        seam_run_leave(run);
    if (call == seam_call(walk->node->http, 0))
        reply(walk, call);
}

static void answer_background(struct seam_walk *walk)
{
    bool is_any = true;
    while (is_any) {
        struct pg_query *query;
        is_any = false;
        for (size_t i = 0; (query = seam_query(walk->node->pool, i)) && !is_any; i++) {
            is_any = is_background(query);
            if (is_any)
                seam_rows_answer(walk->store, query);
        }
        seam_settle(walk->node->loop);
    }
}

/* Lets time pass for this node while its work waits. */
static void pass(struct seam_walk *walk, uint64_t ms)
{
    uint64_t until_ns = seam_now_ns() + ms * 1000000;
    answer_background(walk);
    while (seam_pass_timer(walk->node->loop, (until_ns - seam_now_ns()) / 1000000))
        answer_background(walk);
    seam_move_to_ns(until_ns);
    seam_settle(walk->node->loop);
}

/* Answers one query or call. Returns false if none is waiting. */
static bool answer_next(struct seam_walk *walk, struct seam_run *run)
{
    seam_settle(walk->node->loop);
    answer_background(walk);
    struct pg_query *query = seam_query(walk->node->pool, 0);
    struct http_call *call = seam_call(walk->node->http, 0);
    if (!query && !call)
        return false;
    bool is_place = walk->places++ == walk->place;
    if (query && is_place)
        fail_query(walk, run, query);
    else if (query)
        seam_rows_answer(walk->store, query);
    else if (is_place)
        fail_call(walk, run, call);
    else
        reply(walk, call);
    seam_settle(walk->node->loop);
    return true;
}

/* Answers a query or call, or lets time pass to the next timer. */
static void continue_walk(struct seam_walk *walk, struct seam_run *run)
{
    if (!answer_next(walk, run) && !seam_pass_timer(walk->node->loop, TIMER_MS_MAX))
        seam_pass_ms(walk->node->loop, TIMER_MS_MAX);
}

bool seam_walk_until_ended(struct seam_walk *walk, struct seam_run *run)
{
    uint64_t until_ns = seam_now_ns() + LONG_MS * UINT64_C(1000000);
    while (!seam_run_has_ended(run) && seam_now_ns() < until_ns)
        continue_walk(walk, run);
    if (!seam_run_has_ended(run))
        op_print_all(walk->node->loop);
    return seam_run_has_ended(run);
}

void seam_walk_for_ms(struct seam_walk *walk, uint64_t ms)
{
    uint64_t until_ns = seam_now_ns() + ms * 1000000;
    while (seam_now_ns() < until_ns)
        if (!answer_next(walk, NULL) &&
            !seam_pass_timer(walk->node->loop, (until_ns - seam_now_ns()) / 1000000))
            seam_move_to_ns(until_ns);
    while (answer_next(walk, NULL))
        continue;
}

bool seam_walk_until_status(struct seam_walk *walk, struct uuid flow_id, enum flow_status status)
{
    uint64_t until_ns = seam_now_ns() + LONG_MS * UINT64_C(1000000);
    while (seam_now_ns() < until_ns) {
        const struct row_flow *row = seam_find_flow(walk->store, flow_id);
        if (row && (row->flow.status == status || row->flow.status > FLOW_WAITING))
            return row->flow.status == status;
        continue_walk(walk, NULL);
    }
    return false;
}
