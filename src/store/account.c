/*
 * Accounts, read and written by operator commands only: servers learn of them through their API
 * keys. All statements but account_named go by the primary key; the table is small, and a command
 * may scan it.
 */
#include "store/account.h"

#include "base/clock.h"
#include "store/internal.h"

static const struct pg_column create_params[] = {
    {"account_id", PG_UUID}, {"name", PG_TEXT}, {"now", PG_TIME}};
/* Not replayable, and it need not be: the command blocks, and an operator who lost the connection
 * lists the accounts before creating one again. */
static const struct pg_stmt account_create = {
    .name = "account_create",
    .sql = "insert into sluice.account (account_id, name, created_at) "
           "@row :account_id, :name, :now @end",
    PG_PARAMS(create_params),
    .key_count = 1,
    .match = PG_MATCH_NONE,
    .is_write = true,
};

static const struct pg_column account_columns[] = {
    {"account_id", PG_UUID}, {"name", PG_TEXT}, {"created_at", PG_TIME}, {"disabled_at", PG_TIME}};
static const struct pg_stmt account_list = {
    .name = "account_list",
    .sql = "select :ord, account_id, name, created_at, disabled_at from sluice.account "
           "order by created_at, account_id limit 10000",
    PG_COLUMNS(account_columns),
    .no_account = "an operator's list of accounts",
};

static const struct pg_column named_params[] = {{"name", PG_TEXT}};
/* There is no index on the name, and no unique one: names are for people, and two accounts may
 * share one. "order by created_at" makes the answer the same each time. */
static const struct pg_stmt account_named = {
    .name = "account_named",
    .sql = "select :ord, a.* from @input lateral (select account_id, name, created_at, "
           "disabled_at from sluice.account where name = :name order by created_at limit 1) a",
    PG_PARAMS(named_params),
    PG_COLUMNS(account_columns),
    .no_account = "an operator's search for an account by its name",
};

static const struct pg_column get_params[] = {{"account_id", PG_UUID}};
static const struct pg_stmt account_get = {
    .name = "account_get",
    .sql = "select :ord, t.account_id, t.name, t.created_at, t.disabled_at @read(sluice.account)",
    PG_PARAMS(get_params),
    PG_COLUMNS(account_columns),
    .key_count = 1,
};

static const struct pg_column disable_params[] = {{"account_id", PG_UUID},
                                                  {"disabled_at", PG_TIME}};
/* A row keeps its data: keys are refused because api_key_find reads disabled_at with each key. */
static const struct pg_stmt account_disable = {
    .name = "account_disable",
    .sql = "update sluice.account t set disabled_at = :disabled_at @update(sluice.account) "
           "returning :ord",
    PG_PARAMS(disable_params),
    .key_count = 1,
    .is_write = true,
    .is_replayable = true,
};

const struct pg_stmt *const account_stmts[] = {&account_create, &account_list,    &account_named,
                                               &account_get,    &account_disable, NULL};

static void read_row(const struct pg_rows *rows, size_t row, struct account *account)
{
    account->account_id = pg_get_uuid(rows, row, 0);
    account->name = pg_get_bytes(rows, row, 1);
    account->created_at = pg_get_time(rows, row, 2);
    account->disabled_at = pg_get_time(rows, row, 3);
}

int store_account_create_sync(struct pg_sync *sync, const struct account *account, struct err *err)
{
    struct pg_value params[] = {pg_uuid(account->account_id), pg_text_or_empty(account->name),
                                pg_time(clock_wall_us())};
    return pg_sync_exec(sync, &account_create, params, NULL, NULL, err);
}

int store_account_list_sync(struct pg_sync *sync, struct arena *arena, struct account **accounts,
                            size_t *count, struct err *err)
{
    struct pg_rows rows;
    int rc = pg_sync_exec(sync, &account_list, NULL, arena, &rows, err);
    if (rc != OK)
        return rc;
    *accounts = ARENA_ARRAY(arena, struct account, rows.count + 1);
    if (!*accounts)
        return err_set(err, ERR_NOMEM, "the list of accounts is too large");
    for (size_t i = 0; i < rows.count; i++)
        read_row(&rows, i, &(*accounts)[i]);
    *count = rows.count;
    return OK;
}

int store_account_named_sync(struct pg_sync *sync, struct arena *arena, slice name,
                             struct account *account, struct err *err)
{
    struct pg_rows rows;
    struct pg_value params[] = {pg_text_or_empty(name)};
    /* An arbitrary number of this program. The lock ends with the caller's transaction, which
     * creates the account where this finds none: a second process waits here and then finds it. A
     * row lock would not do, since there is no row yet. */
    int rc = pg_sync_run(sync, "select pg_advisory_xact_lock(7453010373645639523)", err);
    if (rc == OK)
        rc = pg_sync_exec(sync, &account_named, params, arena, &rows, err);
    if (rc != OK)
        return rc;
    if (rows.count == 0)
        return ERR_NOTFOUND;
    read_row(&rows, 0, account);
    return OK;
}

static const char no_account_text[] =
    "there is no account of that id; `sluice accounts list` shows them";

int store_account_get_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                           struct account *account, struct err *err)
{
    struct pg_rows rows;
    struct pg_value params[] = {pg_uuid(account_id)};
    int rc = pg_sync_exec(sync, &account_get, params, arena, &rows, err);
    if (rc != OK)
        return rc;
    if (rows.count == 0)
        return err_set(err, ERR_NOTFOUND, "%s", no_account_text);
    read_row(&rows, 0, account);
    return OK;
}

int store_account_disable_sync(struct pg_sync *sync, struct uuid account_id, bool disabled,
                               struct err *err)
{
    struct pg_value params[] = {pg_uuid(account_id), pg_time(disabled ? clock_wall_us() : 0)};
    return store_exec_one_sync(sync, &account_disable, params, no_account_text, err);
}
