/*
 * What operators change; see change.h.
 */
#include "cli/change.h"

#include "cli/engine.h"

/* Of each kind of row: what is said where it is not there, and where it was not to be had; `list`
 * shows what became of a change whose answer was lost. */
struct words {
    const char *missing, *refused, *list;
};

/* The result of a command in the words of an operator; what the database said is in the log. */
static int say_change(struct session *session, int status, const struct words *words)
{
    struct err *err = &session->err;
    switch (status) {
    case OK:
        return OK;
    case ERR_NOTFOUND:
        return err_set(err, status, "%s; `%s` shows them", words->missing, words->list);
    case ERR_INVALID:
        return err_set(err, ERR_BUSY, "%s", words->refused);
    case ERR_CLOSED:
        return err_set(err, status,
                       "the database's answer was lost, so the change may have been made; `%s` "
                       "shows it",
                       words->list);
    default:
        return err_set(err, ERR_IO, "the database did not take the change");
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
    static const struct words of_account = {"there is no account of that id",
                                            "there is another account of that name",
                                            "sluice accounts list"};
    static const struct words of_key = {
        "the account has no key of that id, or it is revoked",
        "there is no account of that id any more; `sluice accounts list` shows them",
        "sluice keys list"};
    /* The kinds of accounts are the first ones. */
    bool is_account = request->kind <= VAULT_ACCOUNT_MARK;
    struct vault_change it = {.in = request};
    struct engine engine;
    session_fill_operator(session, &request->by.actor, &request->by.address);
    int result = engine_open(&engine, session, false);
    if (result == OK) {
        engine_run(&engine, start_vault, NULL, &it);
        result = say_change(session, it.command.status, is_account ? &of_account : &of_key);
        if (other)
            *other = it.command.other;
    }
    engine_close(&engine);
    return result;
}

/* ---- connections ---- */

struct connection_changing {
    struct connect_command command;
    struct connect_command_request in;
};

static void start_connection(struct engine *engine, struct op *op, void *arg)
{
    struct connection_changing *it = arg;
    connect_command_start(engine->connect, &it->command, &it->in, op);
}

int change_connection(struct session *session, enum connect_command_kind kind,
                      struct uuid account_id, int64_t id)
{
    static const struct words words = {
        "the account has no connection of that id",
        "another connection was made the default at the same moment; try again",
        "sluice connections list"};
    struct connection_changing it = {
        .in = {.kind = kind, .change = {.account_id = account_id, .id = id}}};
    struct engine engine;
    session_fill_operator(session, &it.in.change.by.actor, &it.in.change.by.address);
    int result = engine_open(&engine, session, false);
    if (result == OK) {
        engine_run(&engine, start_connection, NULL, &it);
        result = say_change(session, it.command.status, &words);
    }
    engine_close(&engine);
    return result;
}
