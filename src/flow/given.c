/*
 * The flows that a policy lets its key see; see given.h.
 */
#include "flow/given.h"

#include "flow/internal.h"

enum {
    GIVEN_ARENA_BYTES_MAX = 64 * 1024 * 1024,
    VERSION_TEXT_LEN = UUID_TEXT_LEN + 1, /* with the blank after it */
};

OP_OF(given_of, flow_given)

enum given_step { GIVEN_SEND, GIVEN_READ, GIVEN_TEMPLATES };

static enum op_result end_with(struct flow_given *given, int status)
{
    given->status = status;
    return OP_DONE;
}

static enum op_result step_send(struct op *op)
{
    struct flow_given *given = given_of(op);
    struct pg_pool *pool = given->service->config.pool;
    if (uuid_is_nil(given->since))
        store_flow_waiting_versions(pool, &given->query, op, given->account_id);
    else
        store_flow_counted_versions(pool, &given->query, op, given->account_id, given->since);
    return OP_WAIT;
}

/* Most waiting flows share a few templates, which are in memory. The others are asked for
 * together. */
static enum op_result step_read(struct op *op)
{
    struct flow_given *given = given_of(op);
    struct flow_version_count *list;
    size_t count;
    int status = store_flow_waiting_versions_result(&given->query, &list, &count);
    if (status != OK)
        return end_with(given, status);
    given->finds = ARENA_ARRAY(&op->arena, struct flow_template_find, count + 1); /* never empty */
    if (!given->finds)
        return end_with(given, ERR_NOMEM);
    given->list = list;
    for (; given->listed < count; given->listed++)
        (void)!flow_template_find(given->service, &given->finds[given->listed],
                                  list[given->listed].version, op);
    return op->holds > 0 ? OP_WAIT : OP_NEXT;
}

/* A flow whose template cannot be read is not shown to a reader with a policy (load.c). */
static bool may_show_version(const struct flow_given *given, const struct flow_template_find *find)
{
    return find->tmpl &&
           !flow_is_hidden(find->tmpl, *given->service->config.catalog, given->policy);
}

/* All versions together have at most FLOW_COUNT_MAX flows in a state (given.h). */
static void add_counts(struct flow_given *given, const struct flow_version_count *of)
{
    given->count += of->count;
    given->counts.running += of->running;
    given->counts.waiting += of->waiting;
    given->counts.completed += of->completed;
    given->counts.failed += of->failed;
}

static enum op_result step_templates(struct op *op)
{
    struct flow_given *given = given_of(op);
    char *text = arena_alloc_text(&op->parent->arena, 1 + given->listed * VERSION_TEXT_LEN);
    size_t len = 1;
    if (!text)
        return end_with(given, ERR_NOMEM);
    text[0] = ' ';
    for (size_t i = 0; i < given->listed; i++) {
        struct flow_template_find *find = &given->finds[i];
        char id[UUID_TEXT_LEN + 1];
        if (find->status != OK && find->status != ERR_NOTFOUND && find->status != ERR_INVALID)
            return end_with(given, find->status);
        if (!may_show_version(given, find))
            continue;
        uuid_format(given->list[i].version, id);
        memcpy(text + len, id, UUID_TEXT_LEN);
        text[len + UUID_TEXT_LEN] = ' ';
        len += VERSION_TEXT_LEN;
        add_counts(given, &given->list[i]);
    }
    given->versions = slice_of(text, len);
    return end_with(given, OK);
}

static void on_end(struct op *op, enum op_end how)
{
    struct flow_given *given = given_of(op);
    (void)how;
    for (size_t i = 0; i < given->listed; i++)
        flow_template_unref(given->finds[i].tmpl);
    given->listed = 0;
}

static const struct op_step given_steps[] = {
    [GIVEN_SEND] = {"send", step_send, 0},
    [GIVEN_READ] = {"read", step_read, 0},
    [GIVEN_TEMPLATES] = {"templates", step_templates, 0},
};

static const struct op_class given_class = {
    .name = "flow_given",
    OP_STEPS(given_steps),
    .on_end = on_end,
};

struct flow_given *flow_given_start(struct flow_service *service, struct uuid account_id,
                                    struct uuid since, struct policy *policy, struct op *parent)
{
    struct flow_given *given = arena_calloc(&parent->arena, 1, sizeof(*given));
    ASSERT(policy);
    if (!given)
        return NULL;
    given->service = service;
    given->account_id = account_id;
    given->since = since;
    given->policy = policy;
    given->status = ERR_BUSY; /* if it is cancelled before it has a result */
    given->versions = SLICE("");
    op_start(&given->op, &given_class, parent->loop, parent, GIVEN_ARENA_BYTES_MAX);
    return given;
}
