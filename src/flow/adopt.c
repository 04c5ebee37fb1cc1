/*
 * Flows that dead nodes left behind are taken over, in sets until none is left; and flows of our
 * own that are in no memory (a transition whose answer was lost, no memory for the run).
 */
#include "base/clock.h"
#include "base/mem.h"
#include "flow/internal.h"

enum {
    LOOK_MS = 1000, /* with the lease before it: adopted within 12 s */
    LOOK_JITTER_MS = 500,
    NOT_YET_MS = 100,            /* until this node is known */
    STRAY_AGE_US = 20 * 1000000, /* older than any statement that may still make it known */
    ADOPT_ARENA_MAX = 4 * 1024 * 1024,
};

struct flow_adopter {
    struct op op;
    struct flow_service *service;
    struct pg_query query;
    struct op_timer rest;
    int64_t strays_at;
};

enum adopt_step { ADOPT_REST, ADOPT_FIND, ADOPT_FOUND, ADOPT_STRAYS, ADOPT_STRAYS_FOUND };

static struct flow_adopter *adopter_of(struct op *op)
{
    return CONTAINER_OF(op, struct flow_adopter, op);
}

static enum op_result step_rest(struct op *op)
{
    struct flow_adopter *adopter = adopter_of(op);
    arena_reset(&op->arena);
    bool is_up = exec_node_may_write(adopter->service->config.node);
    op_sleep(op, &adopter->rest, is_up ? LOOK_MS + random_below(LOOK_JITTER_MS) : NOT_YET_MS,
             "rest between looks");
    return OP_WAIT;
}

static enum op_result step_find(struct op *op)
{
    struct flow_adopter *adopter = adopter_of(op);
    struct flow_service *service = adopter->service;
    if (!flow_service_has_room(service) || !exec_node_may_write(service->config.node)) {
        op_goto(op, ADOPT_REST);
        return OP_NEXT;
    }
    store_flow_orphans(service->config.pool, &adopter->query, op);
    return OP_WAIT;
}

/* The takes of one look share batches; the next look comes when all are done. */
static enum op_result step_found(struct op *op)
{
    struct flow_adopter *adopter = adopter_of(op);
    struct flow_service *service = adopter->service;
    struct flow_ref *refs = NULL;
    size_t count = 0;
    op_goto(op, ADOPT_STRAYS);
    if (store_flow_scan_result(&adopter->query, &refs, &count) != OK)
        return OP_NEXT;
    if (count > 0)
        op_log(op, LOG_WARN, "taking over flows of nodes that are gone", LOG_INT("count", count));
    for (size_t i = 0; i < count && flow_service_has_room(service); i++)
        (void)flow_take_start(service, &refs[i], op);
    if (count > 0)
        op_goto(op, ADOPT_FIND);
    return op->holds > 0 ? OP_WAIT : OP_NEXT;
}

static enum op_result step_strays(struct op *op)
{
    struct flow_adopter *adopter = adopter_of(op);
    struct flow_service *service = adopter->service;
    int64_t now = clock_wall_us();
    op_goto(op, ADOPT_REST);
    if (service->has_strays && adopter->strays_at == 0)
        adopter->strays_at = now + STRAY_AGE_US;
    if (adopter->strays_at == 0 || now < adopter->strays_at)
        return OP_NEXT;
    adopter->strays_at = 0;
    service->has_strays = false;
    store_flow_owned(service->config.pool, &adopter->query, op, exec_node_id(service->config.node),
                     now - STRAY_AGE_US);
    op_goto(op, ADOPT_STRAYS_FOUND);
    return OP_WAIT;
}

static enum op_result step_strays_found(struct op *op)
{
    struct flow_adopter *adopter = adopter_of(op);
    struct flow_service *service = adopter->service;
    struct flow_ref *refs = NULL;
    size_t count = 0;
    op_goto(op, ADOPT_REST);
    if (store_flow_scan_result(&adopter->query, &refs, &count) != OK)
        service->has_strays = true;
    for (size_t i = 0; i < count; i++)
        if (!flow_run_is_known(service, refs[i].id))
            (void)flow_take_start(service, &refs[i], op);
    return op->holds > 0 ? OP_WAIT : OP_NEXT;
}

static const struct op_step steps[] = {
    [ADOPT_REST] = {"rest", step_rest, 0},
    [ADOPT_FIND] = {"find", step_find, 0},
    [ADOPT_FOUND] = {"found", step_found, 0},
    [ADOPT_STRAYS] = {"strays", step_strays, 0},
    [ADOPT_STRAYS_FOUND] = {"strays_found", step_strays_found, 0},
};

static void cancel_adopter(struct op *op)
{
    pg_cancel(&adopter_of(op)->query);
}

static void free_adopter(struct op *op)
{
    mem_free(adopter_of(op));
}

static const struct op_class adopter_class = {
    .name = "flow_adopter",
    .steps = steps,
    .step_count = ARRAY_LEN(steps),
    .on_cancel = cancel_adopter,
    .free = free_adopter,
};

struct flow_adopter *flow_adopter_new(struct flow_service *service)
{
    struct flow_adopter *adopter = mem_zalloc(sizeof(*adopter));
    if (!adopter)
        return NULL;
    adopter->service = service;
    op_start(&adopter->op, &adopter_class, service->config.loop, NULL, ADOPT_ARENA_MAX);
    return adopter;
}

void flow_adopter_stop(struct flow_adopter *adopter)
{
    if (adopter)
        op_cancel(&adopter->op);
}
