/*
 * Accounts, changed by operators only, with commands or keys: servers notice a change through the
 * account's API keys, and read an account for the frame of their pages. A change is a function of
 * the schema, which also makes the audit event (sql/0032_accounts.sql,
 * sql/0035_account_erase_usage.sql, sql/0038_usage_sums.sql).
 */
#include "store/account.h"

#include "base/clock.h"
#include "store/account_user.h"
#include "store/internal.h"

/* The limits as constants that can be part of a statement's text. */
#define ACCOUNT_BRIEF_LIMIT 100
#define ACCOUNT_BRIEF_READ  1000
_Static_assert(ACCOUNT_BRIEF_LIMIT == ACCOUNT_BRIEF_MAX, "as callers know it");
_Static_assert(ACCOUNT_BRIEF_READ == ACCOUNT_BRIEF_CONNECTIONS, "as callers know it");

#define OF(name, type, ...) PG_OF(#name, type, struct account, name, __VA_ARGS__)

#define OF_CHANGE(name, type, ...) \
    PG_OF(#name, type, struct account_change, account.name, __VA_ARGS__)

/* This is not replayable, and does not have to be: an operator whose answer was lost lists the
 * accounts before creating one again. Names are for people: they have no index, and two accounts
 * may share one. */
static const struct pg_stmt account_create = {
    .name = "account_create",
    .sql = "select :ord, c.* from @input lateral sluice.account_create(account_id => :account_id, "
           "name => :name, external_id => :external_id, created_at => :created_at, is_again => "
           ":is_again, " STORE_BY_ARGS ") c",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), OF_CHANGE(name, PG_TEXT, .has_no_null = true),
             OF_CHANGE(external_id, PG_TEXT), OF_CHANGE(created_at, PG_TIME),
             PG_OF("is_again", PG_BOOL, struct account_change, is_again),
             STORE_BY_PARAMS(account_change)),
    PG_GIVES(PG_ARG("other", PG_UUID)),
    .key_count = 1,
    .access = PG_WRITE_ONCE,
    .is_copied = true,
};

/* Disabling an account keeps its data. Its keys are refused because api_key_find reads disabled_at
 * with each key. */
static const struct pg_stmt account_change = {
    .name = "account_change",
    .sql = "select :ord, c.* from @input lateral sluice.account_change(account_id => :account_id, "
           "is_mark => :is_mark, disabled_at => :disabled_at, mark => :mark, colour => "
           ":colour, name => :name, " STORE_BY_ARGS ") c",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), PG_ARG("is_mark", PG_BOOL),
             PG_ARG("disabled_at", PG_TIME), OF_CHANGE(mark, PG_TEXT), OF_CHANGE(colour, PG_TEXT),
             PG_ARG("name", PG_TEXT), STORE_BY_PARAMS(account_change)),
    PG_GIVES(PG_ARG("is_done", PG_BOOL)),
    .key_count = 1,
    .access = PG_WRITE,
    .is_copied = true,
};

static const struct pg_stmt account_erase = {
    .name = "account_erase",
    .sql = "select :ord, c.* from @input lateral sluice.account_erase(account_id => "
           ":account_id, " STORE_BY_ARGS ") c",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), STORE_BY_PARAMS(account_change)),
    PG_GIVES(PG_ARG("is_done", PG_BOOL)),
    .key_count = 1,
    .access = PG_WRITE,
    .is_copied = true,
};

#define OF_ERASING(name, type) PG_OF(#name, type, struct account_user_erasing, name)
static const struct pg_stmt account_erasing = {
    .name = "account_erasing",
    .sql = "select :ord, c.* from @input lateral (select t.account_id, t.account_id, "
           "t.erase_at <= now() from sluice.account t where t.erase_at is not null and "
           "(t.erase_at > " STORE_FAR ") = :is_far and t.account_id > :after "
           "order by t.account_id limit :count_max) c",
    PG_TAKES(PG_ARG("after", PG_UUID), PG_ARG("count_max", PG_I64), PG_ARG("is_far", PG_BOOL)),
    PG_GIVES(OF_ERASING(account_id, PG_UUID), OF_ERASING(user_id, PG_UUID),
             OF_ERASING(is_due, PG_BOOL)),
    .no_account = "what is to be erased, over all accounts",
};

static const struct pg_stmt account_users_erase = {
    .name = "account_users_erase",
    .sql = "select :ord, sluice.account_users_erase(account_id => :account_id, after => :after, "
           "rows_max => :rows_max) @from",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("after", PG_TEXT), PG_ARG("rows_max", PG_I64)),
    PG_GIVES(PG_ARG("last", PG_TEXT)),
    .access = PG_WRITE,
    .goes_alone = true,
    .is_copied = true,
};

static const struct pg_stmt account_ended = {
    .name = "account_ended",
    .sql = "update sluice.account t set erase_at = now() + :wait_ms * interval '1 millisecond' "
           "@update(sluice.account)",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("wait_ms", PG_I64)),
    .key_count = 1,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
    .is_copied = true,
};

static const struct pg_stmt account_remove = {
    .name = "account_remove",
    .sql = "select :ord, case when " STORE_ONE_SHARD_AFTER_ANOTHER
           " then sluice.account_remove(account_id => :account_id, with_users => false) end @from",
    PG_TAKES(PG_ARG("account_id", PG_UUID)),
    PG_GIVES(PG_ARG("is_done", PG_BOOL)),
    .access = PG_WRITE,
    .goes_alone = true,
    .is_copied = true,
};

#define ACCOUNT_COLUMNS                                                                    \
    "t.account_id, t.name, t.external_id, t.mark, t.colour, t.created_at, t.disabled_at, " \
    "t.erase_at"
static const struct pg_column account_columns[] = {
    OF(account_id, PG_UUID),  OF(name, PG_TEXT),    OF(external_id, PG_TEXT),
    OF(mark, PG_TEXT),        OF(colour, PG_TEXT),  OF(created_at, PG_TIME),
    OF(disabled_at, PG_TIME), OF(erase_at, PG_TIME)};
#define LIST_MAX 10000
_Static_assert(LIST_MAX == ACCOUNT_LIST_MAX, "as callers know it");
static const struct pg_stmt account_list = {
    .name = "account_list",
    .sql =
        "select :ord, " ACCOUNT_COLUMNS
        " from sluice.account t order by t.created_at, t.account_id limit " STORE_TEXT_OF(LIST_MAX),
    PG_COLUMNS(account_columns),
    .no_account = "an operator's list of accounts",
};

static const struct pg_stmt account_named = {
    .name = "account_named",
    .sql = "select :ord, t.* from @input lateral (select " ACCOUNT_COLUMNS
           " from sluice.account t where t.name = :name order by t.created_at, t.account_id "
           "limit 2) t",
    PG_TAKES(PG_ARG("name", PG_TEXT)),
    PG_COLUMNS(account_columns),
    .no_account = "an operator's search for an account",
    .is_copied = true,
};

/* Walks the primary key backward. */
static const struct pg_stmt account_page = {
    .name = "account_page",
    .sql = "select :ord, t.* from @input lateral (select " ACCOUNT_COLUMNS
           " from sluice.account t where t.account_id < :before order by t.account_id desc "
           "limit :count_max) t",
    PG_TAKES(PG_ARG("before", PG_UUID), PG_ARG("count_max", PG_I64)),
    PG_COLUMNS(account_columns),
    .no_account = "an operator's list of accounts",
    .is_copied = true,
};

static const struct pg_stmt account_get = {
    .name = "account_get",
    .sql = "select :ord, " ACCOUNT_COLUMNS " @read(sluice.account)",
    PG_TAKES(PG_ARG("account_id", PG_UUID)),
    PG_COLUMNS(account_columns),
    .key_count = 1,
    .is_copied = true,
};

#define OF_BRIEF(name, type) PG_OF(#name, type, struct account_brief, name)

/* Approvals are read through flow_approval, which needs the condition on template_key
 * (store/flow_read.c). A connection's status is not indexed, so rows are read, up to a limit.
 * LIMIT 1 makes the planner look the account up by its key. */
#define BRIEF_APPROVALS                                                                        \
    "(select count(*) from (select 1 from sluice.flow f where f.account_id = :account_id and " \
    "f.template_key <> '' and f.waiting_for = 'approval' limit " STORE_TEXT_OF(                \
        ACCOUNT_BRIEF_LIMIT) ") w) as approvals, "
#define BRIEF_BROKEN                                                                        \
    "(select count(*) from (select o.status from sluice.connection o where o.account_id = " \
    ":account_id limit " STORE_TEXT_OF(ACCOUNT_BRIEF_READ) ") s where s.status = "          \
                                                           "'reauth_required') as broken "
static const struct pg_stmt account_brief = {
    .name = "account_brief",
    .sql = "select :ord, c.* from @input lateral (select a.name, a.mark, a.colour, "
           "(select " STORE_KEY_LABEL " "
           "from sluice.api_key k where k.account_id = :payer_id and k.id = :key_id) as "
           "key_name, " BRIEF_APPROVALS BRIEF_BROKEN
           "from sluice.account a where a.account_id = :payer_id limit 1) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("payer_id", PG_UUID), PG_ARG("key_id", PG_UUID)),
    PG_GIVES(OF_BRIEF(name, PG_TEXT), OF_BRIEF(mark, PG_TEXT), OF_BRIEF(colour, PG_TEXT),
             OF_BRIEF(key_name, PG_TEXT), OF_BRIEF(approvals, PG_I64), OF_BRIEF(broken, PG_I64)),
};

const struct pg_stmt *const account_stmts[] = {&account_create,
                                               &account_change,
                                               &account_erase,
                                               &account_erasing,
                                               &account_users_erase,
                                               &account_ended,
                                               &account_remove,
                                               &account_list,
                                               &account_named,
                                               &account_page,
                                               &account_get,
                                               &account_brief,
                                               NULL};

STORE_CALL_ONE(store_account_get, account_get, struct uuid, pg_uuid)
STORE_CALL_ONE(store_account_remove, account_remove, struct uuid, pg_uuid)
STORE_CALL_ID(store_account_ended, account_ended, int64_t, pg_i64)
STORE_CALL_IDS(store_account_brief, account_brief, struct uuid, pg_uuid)

STORE_CALL_CHANGE(store_account_create, account_create, account_change, AUDIT_ACCOUNT_CREATED)

int store_account_create_result(const struct pg_query *query, struct uuid *other)
{
    int status = store_hit_result(query);
    *other = status == OK ? pg_get_uuid(&query->rows, 0, 0) : (struct uuid){{0}};
    return status;
}

void store_account_change(STORE_ARGS, const struct account_change *change, enum audit_kind kind)
{
    int64_t disabled_at = kind == AUDIT_ACCOUNT_DISABLED ? clock_shared_us() : 0;
    store_ask_of(pool, query, op, &account_change, change,
                 PG_VALUES(pg_bool(kind == AUDIT_ACCOUNT_CHANGED), pg_time(disabled_at),
                           pg_text(change->is_renamed ? change->account.name : SLICE_NONE),
                           store_kind(kind)));
}

STORE_CALL_CHANGE(store_account_erase, account_erase, account_change, AUDIT_ACCOUNT_ERASED)

int store_account_change_result(const struct pg_query *query)
{
    int status = store_hit_result(query);
    return status == OK && !pg_get_bool(&query->rows, 0, 0) ? ERR_REFUSED : status;
}

void store_account_erasing(STORE_ARGS, bool is_far, struct uuid after, size_t count_max)
{
    store_ask(pool, query, op, &account_erasing,
              PG_VALUES(pg_uuid(after), pg_i64((int64_t)count_max), pg_bool(is_far)));
}

void store_account_users_erase(STORE_ARGS, struct uuid account_id, slice after)
{
    store_ask(
        pool, query, op, &account_users_erase,
        PG_VALUES(pg_uuid(account_id), pg_text_or_empty(after), pg_i64(ACCOUNT_USER_ERASE_MAX)));
}

int store_account_users_erase_result(const struct pg_query *query, slice *last)
{
    *last = SLICE_NONE;
    if (query->status == OK && query->rows.count > 0)
        *last = pg_get_bytes(&query->rows, 0, 0);
    return query->status;
}

void store_account_page(STORE_ARGS, struct uuid before, size_t count_max)
{
    ASSERT(count_max > 0);
    if (uuid_is_nil(before))
        memset(before.bytes, 0xff, sizeof(before.bytes));
    store_ask(pool, query, op, &account_page,
              PG_VALUES(pg_uuid(before), pg_i64((int64_t)count_max)));
}

int store_account_list_sync(struct pg_sync *sync, struct arena *arena, struct account **accounts,
                            size_t *count, struct err *err)
{
    *accounts =
        store_list_sync(sync, arena, &account_list, PG_NO_VALUES, sizeof(**accounts), count, err);
    return *accounts ? OK : (int)err->code;
}

int store_account_named_sync(struct pg_sync *sync, struct arena *arena, slice name,
                             struct account **accounts, size_t *count, struct err *err)
{
    *accounts = store_list_sync(sync, arena, &account_named, PG_VALUES(pg_text(name)),
                                sizeof(**accounts), count, err);
    return *accounts ? OK : (int)err->code;
}

int store_account_get_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                           struct account *account, struct err *err)
{
    size_t count;
    struct account *list = store_list_sync(
        sync, arena, &account_get, PG_VALUES(pg_uuid(account_id)), sizeof(*list), &count, err);
    if (!list)
        return (int)err->code;
    *account = list[0];
    return count > 0
               ? OK
               : err_set(err, ERR_NOTFOUND,
                         "there is no account with that id; `sluice accounts list` shows them");
}
