/*
 * A change of an account, a key or a session; see command.h.
 */
#include "vault/command.h"

#include "base/clock.h"
#include "vault/key.h"

enum { COMMAND_ARENA_BYTES_MAX = 64 * 1024 };

enum {
    LOAD_MAKER,
    TAKE_MAKER,
    LOAD_ROLLED,
    TAKE_ROLLED,
    CHECK_RIGHTS,
    CHANGE,
    CHANGED,
};

OP_OF(command_of, vault_command)

/* ---- the rights of a new key ---- */

/* Only keys are made with rights; all other kinds go on to the change at once. */
static bool makes_key(const struct vault_command *command)
{
    return command->in.kind == VAULT_KEY_CREATE || command->in.kind == VAULT_KEY_ROLL;
}

static bool is_of_account(const struct vault_command *command)
{
    return command->in.kind <= VAULT_ACCOUNT_RENAME;
}

static void load_key_row(struct vault_command *command, struct uuid account_id, struct uuid id)
{
    store_api_key_get(vault_auth_pool(command->auth), &command->query, &command->op, account_id,
                      id);
}

static bool is_key_over(const struct api_key *key)
{
    return key->revoked_at || (key->expires_at && key->expires_at <= clock_shared_us());
}

static enum op_result step_load_maker(struct op *op)
{
    struct vault_command *command = command_of(op);
    struct api_key_change *change = &command->in.key;
    const struct vault_grant *maker = &command->in.maker;
    /* A key with a policy could revoke the keys that can change it. */
    if (command->in.kind == VAULT_KEY_REVOKE && maker->policy.is_named &&
        !uuid_eq(change->key.id, maker->key_id)) {
        command->status = err_set(&command->err, ERR_REFUSED,
                                  "a key with a policy of its own revokes no other key");
        return OP_DONE;
    }
    if (!makes_key(command))
        return op_jump(op, CHANGE);
    if (uuid_is_nil(maker->key_id))
        return op_jump(op, LOAD_ROLLED);
    change->maker_id = maker->key_id;
    change->maker_account = vault_grant_payer(maker);
    if (!uuid_is_nil(change->maker_account)) /* the operator's keys belong to no account */
        change->key.made_by = maker->key_id;
    load_key_row(command, change->maker_account, change->maker_id);
    return OP_WAIT;
}

static enum op_result refuse_maker(struct vault_command *command)
{
    command->is_maker_over = true;
    command->status =
        err_set(&command->err, ERR_REFUSED, "the key that asks is revoked or has expired");
    return OP_DONE;
}

/* The maker's own row has its limits; a grant has only its scopes. It may have ended since the
 * request began, or in another process. */
static enum op_result step_take_maker(struct op *op)
{
    struct vault_command *command = command_of(op);
    command->status = store_api_key_find_result(&command->query, &command->maker);
    if (command->status == ERR_NOTFOUND || (command->status == OK && is_key_over(&command->maker)))
        return refuse_maker(command);
    return command->status == OK ? OP_NEXT : OP_DONE;
}

static enum op_result step_load_rolled(struct op *op)
{
    struct vault_command *command = command_of(op);
    command->in.key.key.line = command->in.key.key.id;
    if (command->in.kind != VAULT_KEY_ROLL)
        return op_jump(op, CHECK_RIGHTS);
    load_key_row(command, command->in.key.key.account_id, command->in.key.replaces);
    return OP_WAIT;
}

/* A key that rolls itself, or that a command rolls, is not made by itself. */
static void take_rights(struct vault_command *command, const struct api_key *old)
{
    struct api_key *key = &command->in.key.key;
    key->name = old->name;
    key->scopes = old->scopes;
    key->addresses = old->addresses;
    key->forms = old->forms;
    key->unattended_writes = old->unattended_writes;
    key->policy = old->policy;
    key->user_id = old->user_id;
    key->external_id = old->external_id;
    key->line = old->line;
    if (!command->in.is_new_expiry)
        key->expires_at = old->expires_at;
    if (uuid_is_nil(key->made_by) || uuid_eq(command->maker.line, old->line))
        key->made_by = old->made_by;
}

/* The statement ends the old key again, so a key that ends in the meantime is noticed there. */
static enum op_result step_take_rolled(struct op *op)
{
    struct vault_command *command = command_of(op);
    struct api_key old;
    command->status = store_api_key_find_result(&command->query, &old);
    if (command->status != OK)
        return OP_DONE;
    if (is_key_over(&old)) {
        command->status = err_set(&command->err, ERR_LIMIT,
                                  "the key %.*s is %s and cannot be rolled; create another key",
                                  SLICE_ARG(old.prefix), old.revoked_at ? "revoked" : "expired");
        return OP_DONE;
    }
    take_rights(command, &old);
    return OP_NEXT;
}

/* A rolled key has the rights of the old one, so it is refused where a new one would be limited. */
static enum op_result step_check_rights(struct op *op)
{
    struct vault_command *command = command_of(op);
    struct api_key *key = &command->in.key.key;
    const struct api_key wanted = *key;
    command->status = uuid_is_nil(command->in.key.maker_account)
                          ? OK /* a command makes it, or the operator */
                          : vault_key_limit(key, &command->maker, &command->err);
    /* A key that the operator's key makes ends with it, unless the request says when. */
    if (uuid_is_nil(command->in.key.maker_account) && !key->expires_at)
        key->expires_at = command->maker.expires_at;
    bool is_limited = key->expires_at != wanted.expires_at ||
                      key->addresses.ptr != wanted.addresses.ptr ||
                      !slice_eq(key->forms, wanted.forms) ||
                      key->unattended_writes.ptr != wanted.unattended_writes.ptr;
    if (command->status == OK && command->in.kind == VAULT_KEY_ROLL && is_limited)
        command->status = err_set(&command->err, ERR_REFUSED,
                                  "the key to roll has rights that the key that asks lacks");
    return command->status == OK ? OP_NEXT : OP_DONE;
}

/* ---- the change ---- */

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
    case VAULT_ACCOUNT_RENAME:
    case VAULT_ACCOUNT_MARK:
        store_account_change(pool, query, op, &in->account, AUDIT_ACCOUNT_CHANGED);
        break;
    case VAULT_ACCOUNT_ERASE:
        store_account_erase(pool, query, op, &in->account);
        break;
    case VAULT_KEY_CREATE:
    case VAULT_KEY_ROLL:
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

static int made_result(struct vault_command *command)
{
    enum api_key_made made;
    struct err *err = &command->err;
    int status = store_api_key_create_result(&command->query, &made);
    if (status != OK || made == API_KEY_MADE)
        return status;
    switch (made) {
    case API_KEY_MAKER_OVER:
        (void)refuse_maker(command);
        return ERR_REFUSED;
    case API_KEY_ROLLED:
        return err_set(err, ERR_LIMIT,
                       "the key has been rolled, and a newer key of its line is valid: roll that "
                       "one");
    case API_KEY_NO_POLICY:
        return err_set(err, ERR_LIMIT, "the account has no policy \"%.*s\"",
                       SLICE_ARG(command->in.key.key.policy));
    case API_KEY_FULL:
        return err_set(err, ERR_LIMIT,
                       "the account has the maximum of %d valid keys: revoke one first",
                       API_KEY_LIVE_MAX);
    default:
        return ERR_NOTFOUND;
    }
}

static int account_result(struct vault_command *command)
{
    if (command->in.kind == VAULT_ACCOUNT_CREATE) {
        int status = store_account_create_result(&command->query, &command->other);
        return status == OK && !uuid_is_nil(command->other) ? ERR_INVALID : status;
    }
    int status = store_account_change_result(&command->query);
    if (status != ERR_REFUSED)
        return status;
    return err_set(&command->err, status,
                   command->in.kind == VAULT_ACCOUNT_ERASE
                       ? "the account is not disabled; disable it first"
                       : "the account is being erased and stays disabled");
}

static int result_of(struct vault_command *command)
{
    enum vault_command_kind kind = command->in.kind;
    if (makes_key(command))
        return made_result(command);
    if (kind == VAULT_SESSION_END || kind == VAULT_SESSIONS_END)
        return store_done_result(&command->query);
    return is_of_account(command) ? account_result(command) : store_hit_result(&command->query);
}

static enum op_result step_changed(struct op *op)
{
    struct vault_command *command = command_of(op);
    struct uuid account_id = is_of_account(command) ? command->in.account.account.account_id
                                                    : command->in.key.key.account_id;
    command->status = result_of(command);
    command->key = command->in.key.key;
    /* The change is durable, or may be, so the old cached entries must not admit another request.
     */
    if (command->status != OK && command->status != ERR_CLOSED)
        return OP_DONE;
    if (command->in.kind == VAULT_ACCOUNT_ERASE)
        vault_auth_erasing(command->auth, account_id);
    else
        vault_auth_changed(command->auth, account_id);
    return OP_DONE;
}

static const struct op_step steps[] = {
    [LOAD_MAKER] = {"load_maker", step_load_maker, OP_TO(LOAD_ROLLED) | OP_TO(CHANGE)},
    [TAKE_MAKER] = {"take_maker", step_take_maker, 0},
    [LOAD_ROLLED] = {"load_rolled", step_load_rolled, OP_TO(CHECK_RIGHTS)},
    [TAKE_ROLLED] = {"take_rolled", step_take_rolled, 0},
    [CHECK_RIGHTS] = {"check_rights", step_check_rights, 0},
    [CHANGE] = {"change", step_change, 0},
    [CHANGED] = {"changed", step_changed, 0}};
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
    if (!command->in.account.account.created_at)
        command->in.account.account.created_at = clock_shared_us();
    command->in.account.is_renamed = request->kind == VAULT_ACCOUNT_RENAME;
    op_start(&command->op, &command_class, parent->loop, parent, COMMAND_ARENA_BYTES_MAX);
}
