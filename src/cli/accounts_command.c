/*
 * sluice accounts: tenants. Each change of an account and its audit event are one transaction, and
 * running servers are notified at its commit; export and erasure are accounts_rows.c.
 */
#include "cli/accounts_rows.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/session.h"

static void put_account(struct output_json *json, const void *row)
{
    const struct account *account = row;
    json_open(&json->w, '{');
    output_json_uuid(json, "account_id", account->account_id);
    output_json_str(json, "name", account->name);
    output_json_time(json, "created_at", account->created_at);
    output_json_time(json, "disabled_at", account->disabled_at);
    json_close(&json->w, '}');
}

static int print_one(struct session *session, const struct command_call *call,
                     const struct account *account)
{
    char id[UUID_TEXT_LEN + 1];
    if (command_has(call, "json")) {
        struct output_json json;
        output_json_begin(&json);
        put_account(&json, account);
        return output_json_end(&json, stdout, &session->err);
    }
    uuid_format(account->account_id, id);
    (void)printf("account %s\nname    ", id);
    output_text(stdout, account->name);
    (void)printf("\nstate   %s\n", account->disabled_at ? "disabled" : "live");
    return OK;
}

/* ---- create ---- */

/* A second account of one name differs only by its id, and is usually the mistake of a script that
 * ran twice. */
static int check_is_new(struct session *session, slice name)
{
    struct account other;
    char id[UUID_TEXT_LEN + 1];
    int result =
        store_account_named_sync(session->sync, &session->arena, name, &other, &session->err);
    /* ERR_NOTFOUND: the name is free. Any other error is the database's. */
    if (result != OK)
        return result == ERR_NOTFOUND ? OK : result;
    uuid_format(other.account_id, id);
    return err_set(&session->err, ERR_INVALID,
                   "an account \"%.*s\" exists already (%s); --again creates another one",
                   SLICE_ARG(name), id);
}

static int create_account(struct session *session, struct command_call *call)
{
    struct account account = {.account_id = uuid_v7(), .name = slice_cstr(call->argv[0])};
    if (output_name_check(account.name, "a name", ACCOUNT_NAME_MAX, &session->err) != OK ||
        /* The audit event opens the transaction; session_commit ends it, with the account or
         * without it. */
        session_open_database(session) != OK ||
        session_audit(session, account.account_id, "account.created", SLICE_NONE) != OK)
        return (int)session->err.code;
    int result = command_has(call, "again") ? OK : check_is_new(session, account.name);
    if (result == OK)
        result = store_account_create_sync(session->sync, &account, &session->err);
    if (session_commit(session, result) != OK)
        return (int)session->err.code;
    /* Read back for created_at, which the database sets. */
    if (store_account_get_sync(session->sync, &session->arena, account.account_id, &account,
                               &session->err) != OK)
        return (int)session->err.code;
    /* The hint goes to stderr: scripts read the id from the first line of stdout. */
    if (!command_has(call, "json"))
        (void)fprintf(stderr, "next: sluice keys create \"%s\"\n", call->argv[0]);
    return print_one(session, call, &account);
}

/* ---- list, show ---- */

static void put_account_cells(struct output_table *table, const void *row)
{
    const struct account *account = row;
    output_table_uuid(table, account->account_id);
    output_table_time(table, account->created_at);
    output_table_cell(table, account->disabled_at ? SLICE("disabled") : SLICE("live"));
    output_table_cell(table, account->name);
}

static const struct output_list account_list = {
    .row_size = sizeof(struct account),
    .headings = "ACCOUNT|CREATED|STATE|NAME",
    .none = "there are no accounts; `sluice accounts create` creates one",
    .put_cells = put_account_cells,
    .put_json = put_account,
};

static int list_accounts(struct session *session, struct command_call *call)
{
    struct account *all;
    size_t count;
    if (session_open_database(session) != OK ||
        store_account_list_sync(session->sync, &session->arena, &all, &count, &session->err) != OK)
        return (int)session->err.code;
    return output_list(&account_list, all, count, command_has(call, "json"), &session->arena,
                       &session->err);
}

static int show_account(struct session *session, struct command_call *call)
{
    struct account account;
    if (session_open_account(session, call, &account) != OK)
        return (int)session->err.code;
    return print_one(session, call, &account);
}

/* ---- disable, enable ---- */

static int set_disabled(struct session *session, struct command_call *call, bool is_disabled)
{
    struct account account;
    if (session_open_account(session, call, &account) != OK)
        return (int)session->err.code;
    /* The account is in that state already: there is no change, and so no audit event. */
    if ((account.disabled_at != 0) == is_disabled)
        return print_one(session, call, &account);
    if (session_audit(session, account.account_id,
                      is_disabled ? "account.disabled" : "account.enabled", SLICE_NONE) != OK)
        return (int)session->err.code;
    int result =
        store_account_disable_sync(session->sync, account.account_id, is_disabled, &session->err);
    if (session_commit(session, result) != OK)
        return (int)session->err.code;
    result = store_account_get_sync(session->sync, &session->arena, account.account_id, &account,
                                    &session->err);
    return result == OK ? print_one(session, call, &account) : result;
}

static int disable_account(struct session *session, struct command_call *call)
{
    return set_disabled(session, call, true);
}

static int enable_account(struct session *session, struct command_call *call)
{
    return set_disabled(session, call, false);
}

/* ---- export, erase ---- */

/* ---- the table ---- */

static const struct config_option export_options[] = {
    {"out", "FILE", "write there instead of to stdout; complete or not at all, mode 0600"},
};
static const struct config_option erase_options[] = {
    {"yes", NULL, "confirm that the account is to be erased"},
    {"settle", "TIME",
     "how long running work of the servers may take to finish, and how long rows that it still "
     "writes are erased; at least the execution-timeout of the servers, 45s by default"},
};
static const struct config_option create_options[] = {
    {"again", NULL, "create it even if another account has this name"},
    {"json", NULL, "print JSON, for scripts"},
};

static const struct command_verb verbs[] = {
    {"create", "NAME", "Create an account. The first line of the output has its id.",
     create_account, COMMAND_OPTIONS(create_options)},
    {"list", "", "All accounts, oldest first.", list_accounts, COMMAND_JSON},
    {"show", "ACCOUNT", "One account.", show_account, COMMAND_JSON},
    {"disable", "ACCOUNT", "Refuse all keys of an account from now on; nothing is deleted.",
     disable_account, COMMAND_JSON},
    {"enable", "ACCOUNT", "Accept its keys again.", enable_account, COMMAND_JSON},
    {"export", "ACCOUNT",
     "Print everything that is stored for an account, one line of JSON per row, without "
     "credentials.",
     accounts_export, COMMAND_OPTIONS(export_options)},
    {"erase", "ACCOUNT", "Delete an account and everything that is stored for it, permanently.",
     accounts_erase, COMMAND_OPTIONS(erase_options), .needs = "yes"},
};

const struct command accounts_command = {
    .name = "accounts",
    .summary = "tenants: create, list, show, disable, enable, export, erase",
    .help = "ACCOUNT is an account's id, or its name if that is unique. Servers are notified of a "
            "change at once.",
    .scopes = CONFIG_DATABASE,
    COMMAND_VERBS(verbs),
};
