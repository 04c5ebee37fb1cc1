/*
 * A change of a connection; see command.h.
 */
#include "connect/command.h"

#include "connect/internal.h"

enum { COMMAND_ARENA_BYTES_MAX = 64 * 1024, DEFAULT_TRIES_MAX = 10 };

enum step { STEP_CHANGE, STEP_CHANGED };

OP_OF(command_of, connect_command)

static enum op_result step_change(struct op *op)
{
    struct connect_command *command = command_of(op);
    struct pg_pool *pool = command->service->config.pool;
    const struct connection_change *change = &command->in.change;
    switch (command->in.kind) {
    case CONNECT_MAKE_DEFAULT:
        store_connection_default_set(pool, &command->query, op, change);
        break;
    case CONNECT_RENAME:
        store_connection_label_set(pool, &command->query, op, change, command->in.label);
        break;
    case CONNECT_REMOVE:
        store_connection_delete(pool, &command->query, op, change);
        break;
    }
    return OP_WAIT;
}

static enum op_result step_changed(struct op *op)
{
    struct connect_command *command = command_of(op);
    command->status = store_text_result(&command->query, &command->integration_id);
    /* Another one became the default at the same moment, and its row is committed by now. */
    if (command->status == ERR_INVALID && command->in.kind == CONNECT_MAKE_DEFAULT &&
        ++command->tries < DEFAULT_TRIES_MAX)
        return op_jump(op, STEP_CHANGE);
    /* The change is durable: calls must not use what was cached. */
    if (command->status == OK)
        connect_changed(command->service, command->in.change.account_id, command->integration_id);
    return OP_DONE;
}

static const struct op_step steps[] = {
    [STEP_CHANGE] = {"change", step_change, 0},
    [STEP_CHANGED] = {"changed", step_changed, OP_TO(STEP_CHANGE)},
};
static const struct op_class command_class = {.name = "connect_command", OP_STEPS(steps)};

void connect_command_start(struct connect_service *service, struct connect_command *command,
                           const struct connect_command_request *request, struct op *parent)
{
    ASSERT(request->change.id > 0 && request->change.by.actor.len > 0 && parent);
    *command = (struct connect_command){
        .status = ERR_CLOSED,
        .service = service,
        .in = *request,
    };
    op_start(&command->op, &command_class, service->loop, parent, COMMAND_ARENA_BYTES_MAX);
}
