/*
 * The calls of an account's flows by time; see calls.h.
 */
#include "flow/calls.h"

#include "base/mem.h"
#include "flow/internal.h"

enum { CALLS_ARENA_BYTES_MAX = 16 * 1024 * 1024 };

OP_OF(calls_of, flow_calls)

enum calls_step { CALLS_LOAD, CALLS_LOADED, CALLS_READ, CALLS_TEMPLATE };

static enum op_result calls_load(struct op *op)
{
    struct flow_calls *calls = calls_of(op);
    store_flow_past_list(calls->service->config.pool, &calls->query, op, calls->account_id,
                         &calls->range);
    return OP_WAIT;
}

static enum op_result calls_loaded(struct op *op)
{
    struct flow_calls *calls = calls_of(op);
    calls->status = store_flow_past_list_result(&calls->query, &calls->list, &calls->count);
    if (calls->status != OK)
        return OP_DONE;
    calls->rows = ARENA_ARRAY(&op->arena, struct flow_calls_row, calls->count + 1);
    if (calls->rows)
        return OP_NEXT;
    calls->status = ERR_NOMEM;
    return OP_DONE;
}

/* The row at `next`, whose template was searched. A template that is gone, or that compiles no
 * more, leaves a row that is no call. Its texts are copied, as the reference is dropped here. */
static void put_row(struct flow_calls *calls)
{
    struct arena *arena = &calls->op.arena;
    struct flow_template *tmpl = calls->find.tmpl;
    int status = calls->find.status;
    if (status != OK && status != ERR_NOTFOUND && status != ERR_INVALID)
        calls->status = status;
    struct flow_calls_row *row = &calls->rows[calls->next];
    row->call = calls->list[calls->next++];
    if (tmpl && (uint64_t)row->call.step_index < tmpl->step_count) {
        const struct flow_step_def *step = &tmpl->steps[row->call.step_index];
        row->tool = step->type == FLOW_TOOL_CALL ? arena_dup(arena, step->tool) : SLICE_NONE;
        row->step_key = arena_dup(arena, step->key);
        row->step_title = step->label.ptr ? arena_dup(arena, step->label) : SLICE_NONE;
        row->flow_title = row->call.title.ptr ? row->call.title : arena_dup(arena, tmpl->name);
        row->is_fan_out = step->for_each != NULL;
    }
    if (tmpl)
        flow_template_unref(tmpl);
    calls->find = (struct flow_template_find){0};
}

/* As the page of a list (load.c): most rows share few templates, which are in memory. */
static enum op_result calls_read(struct op *op)
{
    struct flow_calls *calls = calls_of(op);
    while (calls->status == OK && calls->next < calls->count) {
        struct uuid version = calls->list[calls->next].template_version;
        if (!uuid_is_nil(version) && !flow_template_find(calls->service, &calls->find, version, op))
            return OP_WAIT;
        put_row(calls);
    }
    return OP_DONE;
}

static enum op_result calls_template(struct op *op)
{
    struct flow_calls *calls = calls_of(op);
    flow_template_found(calls->service, &calls->find);
    put_row(calls);
    return op_jump(op, CALLS_READ);
}

static void calls_free(struct op *op)
{
    mem_free(calls_of(op));
}

static const struct op_step calls_steps[] = {
    [CALLS_LOAD] = {"load", calls_load, 0},
    [CALLS_LOADED] = {"loaded", calls_loaded, 0},
    [CALLS_READ] = {"read", calls_read, 0},
    [CALLS_TEMPLATE] = {"template", calls_template, OP_TO(CALLS_READ)},
};

static const struct op_class calls_class = {
    .name = "flow_calls",
    OP_STEPS(calls_steps),
    .free = calls_free,
};

struct flow_calls *flow_calls_start(struct flow_service *service, struct uuid account_id,
                                    const struct flow_past_range *range, struct op *parent)
{
    struct flow_calls *calls = mem_zalloc(sizeof(*calls));
    if (!calls)
        return NULL;
    calls->service = service;
    calls->account_id = account_id;
    calls->range = *range;
    calls->status = ERR_BUSY; /* if it is cancelled before it has a result */
    op_start(&calls->op, &calls_class, parent->loop, parent, CALLS_ARENA_BYTES_MAX);
    return calls;
}
