/*
 * Accounts, written by operator commands only: servers learn of them through their API keys, and
 * read what their pages have around them. All statements but account_named go by the primary key;
 * the table is small, and a command may scan it.
 */
#include "store/account.h"

#include "base/clock.h"
#include "store/internal.h"

/* As numbers of the text of a statement. */
#define ACCOUNT_BRIEF_LIMIT 100
#define ACCOUNT_BRIEF_READ  1000
_Static_assert(ACCOUNT_BRIEF_LIMIT == ACCOUNT_BRIEF_MAX, "as callers know it");
_Static_assert(ACCOUNT_BRIEF_READ == ACCOUNT_BRIEF_CONNECTIONS, "as callers know it");

#define OF(name, type, ...) PG_OF(#name, type, struct account, name, __VA_ARGS__)

/* Not replayable, and it need not be: the command blocks, and an operator who lost the connection
 * lists the accounts before creating one again. */
static const struct pg_stmt account_create = {
    .name = "account_create",
    .sql = "insert into sluice.account (account_id, name, created_at) "
           "@row :account_id, :name, :now @end",
    PG_TAKES(OF(account_id, PG_UUID), OF(name, PG_TEXT, .has_no_null = true), PG_NOW("now")),
    .key_count = 1,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE_ONCE,
    .is_copied = true,
};

static const struct pg_column account_columns[] = {
    OF(account_id, PG_UUID), OF(name, PG_TEXT),       OF(mark, PG_TEXT),
    OF(colour, PG_TEXT),     OF(created_at, PG_TIME), OF(disabled_at, PG_TIME)};
static const struct pg_stmt account_list = {
    .name = "account_list",
    .sql = "select :ord, account_id, name, mark, colour, created_at, disabled_at from "
           "sluice.account order by created_at, account_id limit 10000",
    PG_COLUMNS(account_columns),
    .no_account = "an operator's list of accounts",
};

/* There is no index on the name, and no unique one: names are for people, and two accounts may
 * share one. "order by created_at" makes the answer the same each time. */
static const struct pg_stmt account_named = {
    .name = "account_named",
    .sql = "select :ord, a.* from @input lateral (select account_id, name, mark, colour, "
           "created_at, disabled_at from sluice.account where name = :name order by created_at "
           "limit 1) a",
    PG_TAKES(PG_ARG("name", PG_TEXT)),
    PG_COLUMNS(account_columns),
    .no_account = "an operator's search for an account by its name",
};

static const struct pg_stmt account_get = {
    .name = "account_get",
    .sql = "select :ord, t.account_id, t.name, t.mark, t.colour, t.created_at, t.disabled_at "
           "@read(sluice.account)",
    PG_TAKES(PG_ARG("account_id", PG_UUID)),
    PG_COLUMNS(account_columns),
    .key_count = 1,
    .is_copied = true,
};

/* A row keeps its data: keys are refused because api_key_find reads disabled_at with each key. */
static const struct pg_stmt account_disable = {
    .name = "account_disable",
    .sql = "update sluice.account t set disabled_at = :disabled_at @update(sluice.account) "
           "returning :ord",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("disabled_at", PG_TIME)),
    .key_count = 1,
    .access = PG_WRITE,
    .is_copied = true,
};

static const struct pg_stmt account_mark = {
    .name = "account_mark",
    .sql = "update sluice.account t set mark = :mark, colour = :colour @update(sluice.account) "
           "returning :ord",
    PG_TAKES(OF(account_id, PG_UUID), OF(mark, PG_TEXT), OF(colour, PG_TEXT)),
    .key_count = 1,
    .access = PG_WRITE,
    .is_copied = true,
};

#define OF_BRIEF(name, type) PG_OF(#name, type, struct account_brief, name)

/* Approvals by flow_approval, which needs the condition on template_key (store/flow_read.c). A
 * connection's status is in no index: rows are read, and their number is bounded. The limit of one
 * keeps the account a search by its key. */
#define BRIEF_APPROVALS                                                                      \
    "(select count(*) from (select from sluice.flow f where f.account_id = :account_id and " \
    "f.template_key <> '' and f.waiting_for = 'approval' limit " STORE_TEXT_OF(              \
        ACCOUNT_BRIEF_LIMIT) ") w) as approvals, "
#define BRIEF_BROKEN                                                                        \
    "(select count(*) from (select o.status from sluice.connection o where o.account_id = " \
    ":account_id limit " STORE_TEXT_OF(ACCOUNT_BRIEF_READ) ") s where s.status = "          \
                                                           "'reauth_required') as broken "
static const struct pg_stmt account_brief = {
    .name = "account_brief",
    .sql = "select :ord, c.* from @input lateral (select a.name, a.mark, a.colour, "
           "(select " STORE_KEY_LABEL " "
           "from sluice.api_key k where k.account_id = :account_id and k.id = :key_id) as "
           "key_name, " BRIEF_APPROVALS BRIEF_BROKEN
           "from sluice.account a where a.account_id = :account_id limit 1) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("key_id", PG_UUID)),
    PG_GIVES(OF_BRIEF(name, PG_TEXT), OF_BRIEF(mark, PG_TEXT), OF_BRIEF(colour, PG_TEXT),
             OF_BRIEF(key_name, PG_TEXT), OF_BRIEF(approvals, PG_I64), OF_BRIEF(broken, PG_I64)),
};

const struct pg_stmt *const account_stmts[] = {
    &account_create,  &account_list, &account_named, &account_get,
    &account_disable, &account_mark, &account_brief, NULL};

STORE_CALL_ID(store_account_brief, account_brief, struct uuid, pg_uuid)

int store_account_create_sync(struct pg_sync *sync, const struct account *account, struct err *err)
{
    return store_exec_sync(sync, &account_create, account, PG_NO_VALUES, NULL, NULL, err);
}

int store_account_list_sync(struct pg_sync *sync, struct arena *arena, struct account **accounts,
                            size_t *count, struct err *err)
{
    *accounts =
        store_list_sync(sync, arena, &account_list, PG_NO_VALUES, sizeof(**accounts), count, err);
    return *accounts ? OK : (int)err->code;
}

/* The first row. */
static int read_account(struct pg_sync *sync, struct arena *arena, const struct pg_stmt *stmt,
                        struct pg_value value, struct account *account, struct err *err)
{
    size_t count;
    struct account *list =
        store_list_sync(sync, arena, stmt, PG_VALUES(value), sizeof(*list), &count, err);
    if (!list)
        return (int)err->code;
    *account = list[0];
    return count > 0 ? OK : ERR_NOTFOUND;
}

int store_account_named_sync(struct pg_sync *sync, struct arena *arena, slice name,
                             struct account *account, struct err *err)
{
    /* An arbitrary number of this program. The lock ends with the caller's transaction, which
     * creates the account where this finds none: a second process waits here and then finds it. A
     * row lock would not do, since there is no row yet. */
    int rc = pg_sync_run(sync, "select pg_advisory_xact_lock(7453010373645639523)", err);
    return rc == OK
               ? read_account(sync, arena, &account_named, pg_text_or_empty(name), account, err)
               : rc;
}

static const char no_account_text[] =
    "there is no account of that id; `sluice accounts list` shows them";

int store_account_get_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                           struct account *account, struct err *err)
{
    int rc = read_account(sync, arena, &account_get, pg_uuid(account_id), account, err);
    return rc == ERR_NOTFOUND ? err_set(err, rc, "%s", no_account_text) : rc;
}

int store_account_disable_sync(struct pg_sync *sync, struct uuid account_id, bool disabled,
                               struct err *err)
{
    return store_exec_one_sync(
        sync, &account_disable, NULL,
        PG_VALUES(pg_uuid(account_id), pg_time(disabled ? clock_shared_us() : 0)), no_account_text,
        err);
}

int store_account_mark_sync(struct pg_sync *sync, const struct account *account, struct err *err)
{
    return store_exec_one_sync(sync, &account_mark, account, PG_NO_VALUES, no_account_text, err);
}
