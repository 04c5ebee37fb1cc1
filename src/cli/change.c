/*
 * Changes by operators; see change.h.
 */
#include "cli/change.h"

#include "base/mem.h"
#include "cli/engine.h"

/* For each kind of row: the message if the row does not exist, the message if the change was
 * refused, and the command that lists such rows, for a change whose answer was lost. */
struct words {
    const char *missing, *refused, *list;
};

/* Runs the op of a change: `start` starts it, with `it`, and `done`, if not NULL, reads what ends
 * with it. The engine is opened without apps, since no change calls one. */
static int run_change(struct session *session, struct audit_by *by, engine_start *start,
                      engine_start *done, void *it)
{
    struct engine engine;
    *by = session_by(session);
    int result = engine_open(&engine, session, false);
    if (result == OK)
        engine_run(&engine, start, done, it);
    /* It also closes the parts that were opened before an error. */
    engine_close(&engine);
    return result;
}

/* Sets the result of a command in terms of the operator; the log has the database's own message.
 * `problem`, if not NULL, is what the command itself says of a wrong request. */
static int say_change(struct session *session, int status, const struct err *problem,
                      const struct words *words)
{
    struct err *err = &session->err;
    if (problem && problem->code != OK)
        return err_set(err, ERR_INVALID, "%s", problem->text);
    switch (status) {
    case OK:
        return OK;
    case ERR_NOTFOUND:
        return err_set(err, status, "%s; `%s` shows them", words->missing, words->list);
    /* A constraint or an existing row refused the change. */
    case ERR_INVALID:
        return err_set(err, ERR_BUSY, "%s", words->refused);
    case ERR_CLOSED:
        return err_set(err, status,
                       "the database's answer was lost, so the change may have been made; `%s` "
                       "shows it",
                       words->list);
    default:
        return err_set(err, ERR_IO, "the database refused the change");
    }
}

/* ---- accounts, keys ---- */

struct vault_change {
    struct vault_command command;
    const struct vault_command_request *in;
};

static void start_vault(struct engine *engine, struct op *op, void *arg)
{
    struct vault_change *it = arg;
    vault_command_start(engine->auth, &it->command, it->in, op);
}

int change_vault(struct session *session, struct vault_command_request *request, struct uuid *other)
{
    /* ERR_INVALID means that another account has the name, or that the account has been erased
     * by now. */
    static const struct words of_account = {"there is no account with that id",
                                            "there is another account with that name",
                                            "sluice accounts list"};
    static const struct words of_key = {
        "the account has no key with that id, or the key is revoked",
        "there is no account with that id any more; `sluice accounts list` shows them",
        "sluice keys list"};
    /* The kinds of accounts come first. */
    bool is_account = request->kind <= VAULT_ACCOUNT_RENAME;
    struct vault_change it = {.in = request};
    int result = run_change(session, &request->by, start_vault, NULL, &it);
    if (other)
        *other = it.command.other;
    return result == OK ? say_change(session, it.command.status, &it.command.err,
                                     is_account ? &of_account : &of_key)
                        : result;
}

/* ---- connections, clients ---- */

struct connect_change {
    struct connect_command command;
    const struct connect_command_request *in;
};

static void start_connect(struct engine *engine, struct op *op, void *arg)
{
    struct connect_change *it = arg;
    connect_command_start(engine->connect, &it->command, it->in, op);
}

int change_connect(struct session *session, struct connect_command_request *request)
{
    static const struct words of_connection = {
        "the account has no connection with that id",
        "another connection was made the default at the same moment. Try again",
        "sluice connections list"};
    static const struct words of_client = {"there is no such OAuth client",
                                           "the database refused it", "sluice oauth-clients list"};
    struct connect_change it = {.in = request};
    int result = run_change(session, &request->by, start_connect, NULL, &it);
    return result == OK ? say_change(session, it.command.status, NULL,
                                     request->kind <= CONNECT_REMOVE ? &of_connection : &of_client)
                        : result;
}

/* ---- a new connection ---- */

struct save_change {
    struct connect_save save;
    const struct connect_save_request *in;
};

static void start_save(struct engine *engine, struct op *op, void *arg)
{
    struct save_change *it = arg;
    connect_save_start(engine->connect, &it->save, it->in, op);
}

/* A command does not use a connect link, and the connection is new, so the other results are
 * impossible. */
static int say_saved(struct session *session, enum connect_saved kept)
{
    struct err *err = &session->err;
    if (kept == CONNECT_SAVED)
        return OK;
    if (kept == CONNECT_SAVE_FULL)
        return err_set(
            err, ERR_LIMIT,
            "the account already has as many connections as account-kept-connections allows (%zu). "
            "Nothing was connected. Remove one that is no longer used, or reconnect one",
            (size_t)session->config->account_kept_connections);
    if (kept == CONNECT_SAVE_TOO_LARGE)
        return err_set(err, ERR_LIMIT, "the credential is too large");
    return err_set(err, ERR_IO, "the database refused the connection");
}

int change_save(struct session *session, struct connect_save_request *request, int64_t *id)
{
    struct save_change it = {.in = request};
    int result = run_change(session, &request->by, start_save, NULL, &it);
    if (result == OK)
        result = say_saved(session, it.save.result);
    /* If the result is OK, the id is known and the row is durable. */
    *id = it.save.connection_id;
    if (result == OK && request->is_default && !it.save.is_default)
        return err_set(&session->err, ERR_IO,
                       "connection %lld was stored, but could not be made the default; `sluice "
                       "connections default` does that",
                       (long long)*id);
    return result;
}

/* ---- endpoints of events ---- */

struct endpoint_change {
    struct webhook_command command;
    const struct webhook_command_request *in;
};

static void start_webhook(struct engine *engine, struct op *op, void *arg)
{
    struct endpoint_change *it = arg;
    webhook_command_start(engine->event, &it->command, it->in, op);
}

int change_webhook(struct session *session, struct webhook_command_request *request,
                   struct uuid *id, char secret[EVENT_SECRET_TEXT_MAX + 1])
{
    static const struct words of_webhook = {"the account has no webhook with that id",
                                            "there is no account with that id any more",
                                            "sluice webhooks list"};
    struct endpoint_change it = {.in = request};
    request->public_url = session->config->public_url;
    int result = run_change(session, &request->by, start_webhook, NULL, &it);
    if (result == OK)
        result = say_change(session, it.command.status, &it.command.err, &of_webhook);
    if (id)
        *id = it.command.webhook.id;
    if (secret)
        memcpy(secret, it.command.secret, sizeof(it.command.secret));
    mem_wipe(it.command.secret, sizeof(it.command.secret));
    return result;
}

/* ---- policies ---- */

struct policy_changing {
    struct policy_command command;
    const struct policy_command_request *in;
    struct err err;
};

/* The document is compiled on this loop, too, so nothing is stored that servers cannot read. */
static void start_policy(struct engine *engine, struct op *op, void *arg)
{
    struct policy_changing *it = arg;
    policy_command_start(engine->auth, &it->command, it->in, op);
}

/* The problem is in the memory of the command's op. */
static void keep_problem(struct engine *engine, struct op *op, void *arg)
{
    struct policy_changing *it = arg;
    (void)engine;
    (void)op;
    if (it->command.problem.ptr)
        (void)err_set(&it->err, ERR_INVALID, "%.*s", SLICE_ARG(it->command.problem));
}

/* What is wrong with the request is said as it is; the rest in terms of the operator. */
int change_policy(struct session *session, struct policy_command_request *request, int64_t *rev)
{
    static const struct words of_policy = {"the account has no policy with that name",
                                           "there is no account with that id any more",
                                           "sluice policy list"};
    struct policy_changing it = {.in = request};
    int result = run_change(session, &request->by, start_policy, keep_problem, &it);
    *rev = it.command.rev;
    return result == OK ? say_change(session, it.command.status, &it.err, &of_policy) : result;
}
