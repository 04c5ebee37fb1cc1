/*
 * Policies of accounts. Changes are functions of the schema, which insert the audit event in the
 * same transaction: on a cluster the one table is copied and the other distributed.
 */
#include "store/policy.h"

#include "store/internal.h"

/* ---- the policy of a key ---- */

struct key_policy store_key_policy(slice named, int64_t rev)
{
    slice name = named.ptr ? named : SLICE(POLICY_DEFAULT_NAME);
    struct key_policy policy = {.rev = rev, .is_named = named.ptr != NULL};
    /* One whose name this version does not know is as good as gone. */
    if (name.len > POLICY_NAME_MAX)
        policy.rev = 0;
    else
        memcpy(policy.name, name.ptr, name.len);
    return policy;
}

/* ---- statements ---- */

#define OF(name, type, ...) PG_OF(#name, type, struct policy_row, name, __VA_ARGS__)

static const struct pg_column policy_columns[] = {OF(account_id, PG_UUID), OF(name, PG_TEXT),
                                                  OF(rev, PG_I64), OF(updated_at, PG_TIME),
                                                  OF(body, PG_JSON)};

static const struct pg_stmt policy_get = {
    .name = "policy_get",
    .sql = "select :ord, t.account_id, t.name, t.rev, t.updated_at, t.body @read(sluice.policy)",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("name", PG_TEXT)),
    PG_COLUMNS(policy_columns),
    .key_count = 2,
    .is_copied = true,
};

/* Walks the primary key. */
static const struct pg_stmt policy_list = {
    .name = "policy_list",
    .sql = "select :ord, c.*, null::json from @input lateral (select t.account_id, t.name, t.rev, "
           "t.updated_at from sluice.policy t where t.account_id = :account_id order by t.name "
           "limit 1000) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID)),
    PG_COLUMNS(policy_columns),
    .is_copied = true,
};

#define OF_CHANGE(name, type, ...) \
    PG_OF(#name, type, struct policy_change, policy.name, __VA_ARGS__)

static const char *const changed_texts[] = {"changed", "stale", "full"};
static const struct pg_words changed_words = {changed_texts, ARRAY_LEN(changed_texts),
                                              POLICY_UNKNOWN};

static const struct pg_stmt policy_set = {
    .name = "policy_set",
    .sql = "select :ord, c.* from @input lateral sluice.policy_set(account_id => :account_id, "
           "name => :name, old_rev => case when :has_rev then :rev end, body => :body, "
           "count_max => :count_max, " STORE_BY_ARGS ") c",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), OF_CHANGE(name, PG_TEXT),
             PG_OF("has_rev", PG_BOOL, struct policy_change, has_rev),
             PG_OF("rev", PG_I64, struct policy_change, rev), OF_CHANGE(body, PG_JSON),
             PG_ARG("count_max", PG_I64), STORE_BY_PARAMS(policy_change)),
    PG_GIVES(PG_WORD("word", struct policy_set, changed, &changed_words),
             PG_OF("new_rev", PG_I64, struct policy_set, rev)),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
    .is_copied = true,
};

static const struct pg_stmt policy_delete = {
    .name = "policy_delete",
    .sql = "select :ord, c.* from @input lateral sluice.policy_delete(account_id => :account_id, "
           "name => :name, " STORE_BY_ARGS ") c",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), OF_CHANGE(name, PG_TEXT),
             STORE_BY_PARAMS(policy_change)),
    PG_GIVES(PG_OF("users", PG_I64, struct policy_users, count),
             PG_OF("labels", PG_TEXT, struct policy_users, labels)),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
    .is_copied = true,
};

const struct pg_stmt *const policy_stmts[] = {&policy_get, &policy_list, &policy_set,
                                              &policy_delete, NULL};

/* ---- calls ---- */

STORE_CALL_ID(store_policy_get, policy_get, slice, pg_text)
STORE_CALL_ONE(store_policy_list, policy_list, struct uuid, pg_uuid)

void store_policy_set(STORE_ARGS, const struct policy_change *change)
{
    store_ask_of(pool, query, op, &policy_set, change,
                 PG_VALUES(pg_i64(POLICIES_MAX), store_kind(AUDIT_POLICY_CHANGED)));
}

STORE_CALL_CHANGE(store_policy_delete, policy_delete, policy_change, AUDIT_POLICY_DELETED)

/* ---- operator commands ---- */

int store_policy_get_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                          slice name, struct policy_row *policy, struct err *err)
{
    size_t count;
    struct policy_row *list = store_list_sync(sync, arena, &policy_get,
                                              PG_VALUES(pg_uuid(account_id), pg_text(name)),
                                              sizeof(*list), &count, err);
    if (!list)
        return (int)err->code;
    if (count == 0)
        return err_set(err, ERR_NOTFOUND,
                       "the account has no policy with this name; `sluice policy list` shows them");
    *policy = list[0];
    return OK;
}

int store_policy_list_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                           struct policy_row **list, size_t *count, struct err *err)
{
    *list = store_list_sync(sync, arena, &policy_list, PG_VALUES(pg_uuid(account_id)),
                            sizeof(**list), count, err);
    return *list ? OK : (int)err->code;
}
