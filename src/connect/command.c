/*
 * A change of a connection, a client or a link; see command.h.
 */
#include "connect/command.h"

#include "connect/internal.h"
#include "connect/oauth_client.h"
#include "event/outbox.h"

enum { COMMAND_ARENA_BYTES_MAX = 64 * 1024, DEFAULT_TRIES_MAX = 10 };

enum step { STEP_CHANGE, STEP_CHANGED };

OP_OF(command_of, connect_command)

/* Seals the secret so that it can be opened only for this account and app. Returns false if out of
 * memory. */
static bool seal_secret(struct connect_command *command)
{
    struct oauth_client *client = &command->in.client.client;
    const struct vault_ring *ring = command->service->config.ring;
    slice secret = command->in.client_secret;
    struct vault_binding binding = oauth_client_binding(client->account_id, client->integration_id);
    client->key_id = vault_ring_key_id(ring);
    if (secret.len > 0 && vault_seal(ring, &binding, secret, &command->sealed) != OK)
        return false;
    client->sealed = buf_slice(&command->sealed);
    return true;
}

static enum op_result step_change(struct op *op)
{
    struct connect_command *command = command_of(op);
    struct pg_pool *pool = command->service->config.pool;
    struct pg_query *query = &command->query;
    const struct connect_command_request *in = &command->in;
    switch (in->kind) {
    case CONNECT_MAKE_DEFAULT:
        store_connection_default_set(pool, query, op, &in->connection);
        break;
    case CONNECT_RENAME:
        store_connection_label_set(pool, query, op, &in->connection, in->label);
        break;
    case CONNECT_SHARE:
        store_connection_share_set(pool, query, op, &in->connection, in->is_shared);
        break;
    case CONNECT_REMOVE:
        store_connection_delete(pool, query, op, &in->connection);
        break;
    case CONNECT_YIELD:
        store_connection_yield(pool, query, op, &in->connection, &in->twin);
        break;
    case CONNECT_IDENTIFY:
        store_connection_identity_set(pool, query, op, in->connection.account_id, in->connection.id,
                                      in->rev, &in->identity);
        break;
    case CONNECT_CLIENT_SET:
        command->status = ERR_NOMEM;
        if (!seal_secret(command))
            return OP_DONE;
        store_oauth_client_set(pool, query, op, &in->client);
        break;
    case CONNECT_CLIENT_REMOVE:
        store_oauth_client_delete(pool, query, op, &in->client);
        break;
    case CONNECT_LINK_CREATE:
        store_connect_session_insert(pool, query, op, &in->link);
        break;
    case CONNECT_LINK_TAKE:
        store_connect_session_take(pool, query, op, &in->link);
        break;
    }
    return OP_WAIT;
}

/* A connection has changed, and the change is durable: calls must not use old cache entries. */
static void after_change(struct connect_command *command, slice integration_id)
{
    struct uuid account_id = command->in.connection.account_id;
    connect_changed(command->service, account_id, integration_id);
    event_written(command->service->config.events, account_id, store_event_of(&command->query));
}

/* Clients are not cached. */
static int result_of(struct connect_command *command)
{
    const struct pg_query *query = &command->query;
    int status;
    switch (command->in.kind) {
    case CONNECT_MAKE_DEFAULT:
    case CONNECT_RENAME:
    case CONNECT_SHARE:
    case CONNECT_REMOVE:
        status = store_text_result(query, &command->integration_id);
        if (status == OK)
            after_change(command, command->integration_id);
        return status;
    case CONNECT_YIELD:
        status = store_connection_yield_result(query, &command->kept_id);
        if (status == OK)
            after_change(command, command->in.twin.integration_id);
        return status;
    case CONNECT_IDENTIFY:
    case CONNECT_CLIENT_SET:
    case CONNECT_LINK_CREATE:
        return store_done_result(query);
    case CONNECT_CLIENT_REMOVE:
        return store_hit_result(query);
    case CONNECT_LINK_TAKE:
        return store_connect_session_result(query, &command->link);
    }
    UNREACHABLE("a kind of change");
}

static enum op_result step_changed(struct op *op)
{
    struct connect_command *command = command_of(op);
    command->status = result_of(command);
    /* Another connection became the default at the same moment, and its row is committed by now. */
    if (command->status == ERR_INVALID && command->in.kind == CONNECT_MAKE_DEFAULT &&
        ++command->tries < DEFAULT_TRIES_MAX)
        return op_jump(op, STEP_CHANGE);
    return OP_DONE;
}

static void on_end(struct op *op, enum op_end end)
{
    (void)end;
    buf_deinit(&command_of(op)->sealed);
}

static const struct op_step steps[] = {
    [STEP_CHANGE] = {"change", step_change, 0},
    [STEP_CHANGED] = {"changed", step_changed, OP_TO(STEP_CHANGE)},
};
static const struct op_class command_class = {
    .name = "connect_command",
    OP_STEPS(steps),
    .on_end = on_end,
};

void connect_command_start(struct connect_service *service, struct connect_command *command,
                           const struct connect_command_request *request, struct op *parent)
{
    ASSERT(request->by.actor.len > 0 && parent);
    *command = (struct connect_command){
        .status = ERR_CLOSED,
        .service = service,
        .in = *request,
    };
    command->in.connection.by = command->in.client.by = command->in.link.by = request->by;
    buf_init(&command->sealed, VAULT_PLAIN_MAX + VAULT_SEAL_OVERHEAD);
    op_start(&command->op, &command_class, service->loop, parent, COMMAND_ARENA_BYTES_MAX);
}
