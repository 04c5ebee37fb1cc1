/*
 * A change of an account, a key or a session; see command.h.
 */
#include "vault/command.h"

#include "base/clock.h"

enum { COMMAND_ARENA_BYTES_MAX = 64 * 1024 };

OP_OF(command_of, vault_command)

static enum op_result step_change(struct op *op)
{
    struct vault_command *command = command_of(op);
    struct pg_pool *pool = vault_auth_pool(command->auth);
    struct pg_query *query = &command->query;
    const struct vault_command_request *in = &command->in;
    const struct api_key *key = &in->key.key;
    switch (in->kind) {
    case VAULT_ACCOUNT_CREATE:
        store_account_create(pool, query, op, &in->account);
        break;
    case VAULT_ACCOUNT_DISABLE:
        store_account_change(pool, query, op, &in->account, AUDIT_ACCOUNT_DISABLED);
        break;
    case VAULT_ACCOUNT_ENABLE:
        store_account_change(pool, query, op, &in->account, AUDIT_ACCOUNT_ENABLED);
        break;
    case VAULT_ACCOUNT_MARK:
        store_account_change(pool, query, op, &in->account, AUDIT_ACCOUNT_CHANGED);
        break;
    case VAULT_KEY_CREATE:
        store_api_key_create(pool, query, op, &in->key);
        break;
    case VAULT_KEY_REVOKE:
        store_api_key_revoke(pool, query, op, &in->key);
        break;
    case VAULT_SESSION_END:
        store_session_end(pool, query, op, key->account_id, in->session_hash, in->session_until);
        break;
    case VAULT_SESSIONS_END:
        store_sessions_end(pool, query, op, key->account_id, key->id, clock_shared_us());
        break;
    }
    return OP_WAIT;
}

static int result_of(struct vault_command *command)
{
    enum vault_command_kind kind = command->in.kind;
    if (kind == VAULT_SESSION_END || kind == VAULT_SESSIONS_END)
        return store_done_result(&command->query);
    if (kind != VAULT_ACCOUNT_CREATE)
        return store_hit_result(&command->query);
    int status = store_account_create_result(&command->query, &command->other);
    return status == OK && !uuid_is_nil(command->other) ? ERR_INVALID : status;
}

static enum op_result step_changed(struct op *op)
{
    struct vault_command *command = command_of(op);
    bool is_account = command->in.kind <= VAULT_ACCOUNT_MARK;
    command->status = result_of(command);
    /* The change is durable, so the old cached entries must not admit another request. */
    if (command->status == OK)
        vault_auth_changed(command->auth, is_account ? command->in.account.account.account_id
                                                     : command->in.key.key.account_id);
    return OP_DONE;
}

static const struct op_step steps[] = {{"change", step_change, 0}, {"changed", step_changed, 0}};
static const struct op_class command_class = {.name = "vault_command", OP_STEPS(steps)};

void vault_command_start(struct vault_auth *auth, struct vault_command *command,
                         const struct vault_command_request *request, struct op *parent)
{
    ASSERT(parent && (request->session_hash || request->kind != VAULT_SESSION_END));
    *command = (struct vault_command){
        .status = ERR_CLOSED,
        .auth = auth,
        .in = *request,
    };
    command->in.account.by = command->in.key.by = request->by;
    op_start(&command->op, &command_class, parent->loop, parent, COMMAND_ARENA_BYTES_MAX);
}
