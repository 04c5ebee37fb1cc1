/*
 * Endpoints of accounts. Changes are functions of the schema, which insert the audit event in the
 * same transaction: on a cluster the one table is copied and the other distributed.
 */
#include "store/webhook.h"

#include "store/internal.h"

#define EVENT_KIND_SLICE(name, text, sentence) [EVENT_##name] = SLICE_INIT(text),
static const slice kind_names[] = {EVENT_KINDS(EVENT_KIND_SLICE)};

slice event_kind_name(enum event_kind kind)
{
    ASSERT(kind < EVENT_KIND_COUNT);
    return kind_names[kind];
}

enum event_kind event_kind_find(slice name)
{
    unsigned kind = 0;
    while (kind < EVENT_KIND_COUNT && !slice_eq(kind_names[kind], name))
        kind++;
    return (enum event_kind)kind;
}

/* ---- statements ---- */

#define WEBHOOK_COLUMNS                                                                       \
    "t.account_id, t.id, t.url, t.description, t.events, t.sealed, t.old_sealed, t.key_id, "  \
    "t.old_until, t.api_key_id, t.off_at, t.off_reason, t.failing_since, t.failures, t.rev, " \
    "t.created_at"

#define OF(name, type, ...) PG_OF(#name, type, struct webhook, name, __VA_ARGS__)

static const struct pg_column webhook_columns[] = {
    OF(account_id, PG_UUID),
    OF(id, PG_UUID),
    OF(url, PG_TEXT),
    OF(description, PG_TEXT),
    OF(events, PG_TEXT),
    OF(sealed, PG_BYTES),
    OF(old_sealed, PG_BYTES),
    OF(key_id, PG_TEXT),
    OF(old_until, PG_TIME),
    PG_OF("api_key_id", PG_UUID, struct webhook, api_key),
    OF(off_at, PG_TIME),
    OF(off_reason, PG_TEXT),
    OF(failing_since, PG_TIME),
    OF(failures, PG_I64),
    OF(rev, PG_I64),
    OF(created_at, PG_TIME)};

static const struct pg_stmt webhook_get = {
    .name = "webhook_get",
    .sql = "select :ord, " WEBHOOK_COLUMNS " @read(sluice.webhook)",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID)),
    PG_COLUMNS(webhook_columns),
    .key_count = 2,
    .is_copied = true,
};

/* Walks the primary key, whose ids are ordered by time. */
static const struct pg_stmt webhook_list = {
    .name = "webhook_list",
    .sql = "select :ord, c.* from @input lateral (select " WEBHOOK_COLUMNS
           " from sluice.webhook t where t.account_id = :account_id order by t.id limit 100) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID)),
    PG_COLUMNS(webhook_columns),
    .is_copied = true,
};

#define OF_CHANGE(name, type, ...) \
    PG_OF(#name, type, struct webhook_change, webhook.name, __VA_ARGS__)
/* The members that a client or the service can change. */
#define STATE_ARGS                                                                               \
    "url => :url, description => :description, events => :events, sealed => :sealed, "           \
    "old_sealed => :old_sealed, key_id => :key_id, old_until => :old_until, off_at => :off_at, " \
    "off_reason => :off_reason, "
#define STATE_PARAMS                                                                              \
    OF_CHANGE(url, PG_TEXT), OF_CHANGE(description, PG_TEXT, .has_no_null = true),                \
        OF_CHANGE(events, PG_TEXT), OF_CHANGE(sealed, PG_BYTES), OF_CHANGE(old_sealed, PG_BYTES), \
        OF_CHANGE(key_id, PG_TEXT), OF_CHANGE(old_until, PG_TIME), OF_CHANGE(off_at, PG_TIME),    \
        OF_CHANGE(off_reason, PG_TEXT)

static const char *const changed_texts[] = {"changed", "full", "twice", "stale"};
static const struct pg_words changed_words = {changed_texts, ARRAY_LEN(changed_texts),
                                              WEBHOOK_UNKNOWN};
struct changed {
    enum webhook_changed changed;
};

static const struct pg_stmt webhook_create = {
    .name = "webhook_create",
    .sql = "select :ord, c.* from @input lateral sluice.webhook_create(account_id => :account_id, "
           "id => :id, " STATE_ARGS "api_key_id => :api_key_id, created_at => :created_at, "
           "count_max => :count_max, " STORE_BY_ARGS ") c",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), OF_CHANGE(id, PG_UUID), STATE_PARAMS,
             PG_OF("api_key_id", PG_UUID, struct webhook_change, webhook.api_key, .has_null = true),
             OF_CHANGE(created_at, PG_TIME), PG_ARG("count_max", PG_I64),
             STORE_BY_PARAMS(webhook_change)),
    PG_GIVES(PG_WORD("changed", struct changed, changed, &changed_words)),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
    .is_copied = true,
};

static const struct pg_stmt webhook_update = {
    .name = "webhook_update",
    .sql = "select :ord, c.* from @input lateral sluice.webhook_update(account_id => :account_id, "
           "id => :id, rev => :rev, " STATE_ARGS "is_forgiven => :is_forgiven, " STORE_BY_ARGS
           ") c",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), OF_CHANGE(id, PG_UUID), OF_CHANGE(rev, PG_I64),
             STATE_PARAMS, PG_OF("is_forgiven", PG_BOOL, struct webhook_change, is_forgiven),
             STORE_BY_PARAMS(webhook_change)),
    PG_GIVES(PG_WORD("changed", struct changed, changed, &changed_words)),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
    .is_copied = true,
};

static const struct pg_stmt webhook_delete = {
    .name = "webhook_delete",
    .sql = "select :ord, c.* from @input lateral sluice.webhook_delete(account_id => :account_id, "
           "id => :id, " STORE_BY_ARGS ") c",
    PG_TAKES(OF_CHANGE(account_id, PG_UUID), OF_CHANGE(id, PG_UUID),
             STORE_BY_PARAMS(webhook_change)),
    PG_GIVES(PG_ARG("is_there", PG_BOOL)),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
    .is_copied = true,
};

static const struct pg_stmt webhook_stale = {
    .name = "webhook_stale",
    .sql = "select :ord, c.* from @input lateral (select " WEBHOOK_COLUMNS
           " from sluice.webhook t where (t.account_id, t.id) > (:after_account, :after_id) "
           "and t.key_id <> :key_id order by t.account_id, t.id limit 100) c",
    PG_TAKES(PG_ARG("key_id", PG_TEXT), PG_ARG("after_account", PG_UUID),
             PG_ARG("after_id", PG_UUID)),
    PG_COLUMNS(webhook_columns),
    .no_account = "key rotation walks over all accounts",
};

/* Fenced by rev, which rises: a change that has read the row must not write the secrets that are
 * sealed by the former key back. */
static const struct pg_stmt webhook_reseal = {
    .name = "webhook_reseal",
    .sql = "update sluice.webhook t set sealed = :sealed, old_sealed = :old_sealed, "
           "key_id = :key_id, rev = t.rev + 1 @update(sluice.webhook) and t.rev = :rev "
           "returning :ord",
    PG_TAKES(OF(account_id, PG_UUID), OF(id, PG_UUID), OF(rev, PG_I64), PG_ARG("sealed", PG_BYTES),
             PG_ARG("old_sealed", PG_BYTES), PG_ARG("key_id", PG_TEXT)),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
    .is_copied = true,
};

const struct pg_stmt *const webhook_stmts[] = {
    &webhook_get,    &webhook_list,  &webhook_create, &webhook_update,
    &webhook_delete, &webhook_stale, &webhook_reseal, NULL};

/* ---- calls ---- */

STORE_CALL_ID(store_webhook_get, webhook_get, struct uuid, pg_uuid)
STORE_CALL_ONE(store_webhook_list, webhook_list, struct uuid, pg_uuid)

void store_webhook_create(STORE_ARGS, const struct webhook_change *change)
{
    store_ask_of(pool, query, op, &webhook_create, change,
                 PG_VALUES(pg_i64(WEBHOOKS_MAX), store_kind(change->kind)));
}

void store_webhook_update(STORE_ARGS, const struct webhook_change *change)
{
    store_ask_of(pool, query, op, &webhook_update, change, PG_VALUES(store_kind(change->kind)));
}

void store_webhook_delete(STORE_ARGS, const struct webhook_change *change)
{
    store_ask_of(pool, query, op, &webhook_delete, change, PG_VALUES(store_kind(change->kind)));
}

int store_webhook_changed_result(const struct pg_query *query, enum webhook_changed *changed)
{
    struct changed row = {WEBHOOK_UNKNOWN};
    int status = store_row_result(query, &row, sizeof(row));
    *changed = row.changed;
    return status;
}

/* ---- operator commands ---- */

int store_webhook_list_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                            struct webhook **list, size_t *count, struct err *err)
{
    *list = store_list_sync(sync, arena, &webhook_list, PG_VALUES(pg_uuid(account_id)),
                            sizeof(**list), count, err);
    return *list ? OK : (int)err->code;
}

int store_webhook_stale_sync(struct pg_sync *sync, struct arena *arena, slice key_id,
                             struct uuid after_account, struct uuid after_id, struct webhook **list,
                             size_t *count, struct err *err)
{
    *list = store_list_sync(sync, arena, &webhook_stale,
                            PG_VALUES(pg_text(key_id), pg_uuid(after_account), pg_uuid(after_id)),
                            sizeof(**list), count, err);
    return *list ? OK : (int)err->code;
}

int store_webhook_reseal_sync(struct pg_sync *sync, const struct webhook *webhook, slice sealed,
                              slice old_sealed, slice key_id, struct err *err)
{
    return store_exec_one_sync(sync, &webhook_reseal, webhook,
                               PG_VALUES(pg_bytes(sealed), pg_bytes(old_sealed), pg_text(key_id)),
                               "the webhook was changed in the meantime", err);
}
