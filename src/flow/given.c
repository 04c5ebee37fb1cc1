/*
 * What a policy gives of the flows that wait; see given.h.
 */
#include "flow/given.h"

#include "flow/internal.h"

enum {
    GIVEN_ARENA_BYTES_MAX = 256 * 1024,
    VERSION_TEXT_LEN = UUID_TEXT_LEN + 1, /* with the blank after it */
};

OP_OF(given_of, flow_given)

enum given_step { GIVEN_SEND, GIVEN_READ, GIVEN_NEXT, GIVEN_TEMPLATE };

static enum op_result end_with(struct flow_given *given, int status)
{
    given->status = status;
    return OP_DONE;
}

static enum op_result step_send(struct op *op)
{
    struct flow_given *given = given_of(op);
    store_flow_waiting_versions(given->service->config.pool, &given->query, op, given->account_id);
    return OP_WAIT;
}

static enum op_result step_read(struct op *op)
{
    struct flow_given *given = given_of(op);
    int status = store_flow_waiting_versions_result(&given->query, &given->list, &given->listed);
    if (status != OK)
        return end_with(given, status);
    given->is_given = ARENA_ARRAY(&op->arena, bool, given->listed + 1); /* never of size 0 */
    return given->is_given ? OP_NEXT : end_with(given, ERR_NOMEM);
}

/* The template is that of the version at `next`, or cannot be read: a reader with a policy does not
 * see such a flow (load.c). */
static void take_version(struct flow_given *given)
{
    const struct catalog *catalog = *given->service->config.catalog;
    struct flow_template_find *find = &given->find;
    if (find->status != OK && find->status != ERR_NOTFOUND && find->status != ERR_INVALID)
        given->status = find->status;
    if (find->tmpl) {
        given->is_given[given->next] = !flow_is_hidden(find->tmpl, catalog, given->policy);
        flow_template_unref(find->tmpl);
    }
    *find = (struct flow_template_find){0};
    given->next++;
}

static enum op_result write_versions(struct flow_given *given)
{
    size_t len = 1;
    char *text = arena_alloc_text(&given->op.parent->arena, 1 + given->listed * VERSION_TEXT_LEN);
    if (!text)
        return end_with(given, ERR_NOMEM);
    text[0] = ' ';
    for (size_t i = 0; i < given->listed; i++) {
        char id[UUID_TEXT_LEN + 1];
        if (!given->is_given[i])
            continue;
        uuid_format(given->list[i].version, id);
        memcpy(text + len, id, UUID_TEXT_LEN);
        text[len + UUID_TEXT_LEN] = ' ';
        len += VERSION_TEXT_LEN;
        given->count += given->list[i].count;
    }
    given->versions = slice_of(text, len);
    return end_with(given, OK);
}

/* Most waiting flows share a few templates, which are in memory. */
static enum op_result step_next(struct op *op)
{
    struct flow_given *given = given_of(op);
    given->status = OK;
    while (given->status == OK && given->next < given->listed) {
        if (!flow_template_find(given->service, &given->find, given->list[given->next].version, op))
            return OP_WAIT;
        take_version(given);
    }
    return given->status == OK ? write_versions(given) : OP_DONE;
}

static enum op_result step_template(struct op *op)
{
    struct flow_given *given = given_of(op);
    flow_template_found(given->service, &given->find);
    take_version(given);
    return given->status == OK ? op_jump(op, GIVEN_NEXT) : OP_DONE;
}

static void free_given(struct op *op)
{
    flow_template_unref(given_of(op)->find.tmpl);
}

static const struct op_step given_steps[] = {
    [GIVEN_SEND] = {"send", step_send, 0},
    [GIVEN_READ] = {"read", step_read, 0},
    [GIVEN_NEXT] = {"next", step_next, 0},
    [GIVEN_TEMPLATE] = {"template", step_template, OP_TO(GIVEN_NEXT)},
};

static const struct op_class given_class = {
    .name = "flow_given",
    OP_STEPS(given_steps),
    .free = free_given,
};

struct flow_given *flow_given_start(struct flow_service *service, struct uuid account_id,
                                    struct policy *policy, struct op *parent)
{
    struct flow_given *given = arena_calloc(&parent->arena, 1, sizeof(*given));
    ASSERT(policy);
    if (!given)
        return NULL;
    given->service = service;
    given->account_id = account_id;
    given->policy = policy;
    given->status = ERR_BUSY; /* if it is cancelled before it has a result */
    given->versions = SLICE("");
    op_start(&given->op, &given_class, parent->loop, parent, GIVEN_ARENA_BYTES_MAX);
    return given;
}
