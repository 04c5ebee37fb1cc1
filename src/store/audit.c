/*
 * Audit events: inserted, listed, never updated. The table is partitioned by day of the id; a list
 * is a page of STORE_PAGE_SQL, so partitions outside its range are pruned.
 */
#include "store/audit.h"

#include "store/internal.h"

#define KIND_NAME(name, text, sentence)     [AUDIT_##name] = SLICE_INIT(text),
#define KIND_SENTENCE(name, text, sentence) [AUDIT_##name] = SLICE_INIT(sentence),
static const slice kind_names[] = {AUDIT_KINDS(KIND_NAME)};
static const slice kind_sentences[] = {AUDIT_KINDS(KIND_SENTENCE)};

slice audit_kind_name(enum audit_kind kind)
{
    ASSERT(kind < AUDIT_KIND_COUNT);
    return kind_names[kind];
}

slice audit_kind_sentence(enum audit_kind kind)
{
    ASSERT(kind < AUDIT_KIND_COUNT);
    return kind_sentences[kind];
}

slice audit_kind_group(enum audit_kind kind)
{
    slice name = audit_kind_name(kind);
    return slice_split(&name, '.');
}

struct uuid audit_actor_key(slice actor)
{
    struct uuid id;
    bool is_key = slice_starts_with(actor, SLICE("key:")) && uuid_parse(slice_from(actor, 4), &id);
    return is_key ? id : (struct uuid){{0}};
}

struct audit_by audit_by_dup(const struct audit_by *by, struct arena *arena)
{
    return (struct audit_by){
        .actor = arena_dup(arena, by->actor),
        .request_id = arena_dup(arena, by->request_id),
        .address = by->address.len > 0 ? arena_dup(arena, by->address) : SLICE_NONE,
        .parent_id = by->parent_id,
    };
}

enum audit_kind audit_kind_find(slice name)
{
    enum audit_kind kind = 0;
    while (kind < AUDIT_KIND_COUNT && !slice_eq(kind_names[kind], name))
        kind++;
    return kind;
}

#define OF(name, type, ...) PG_OF(#name, type, struct audit_event, name, __VA_ARGS__)

/* The caller generates the id once, so a replay conflicts with its own row and leaves it
 * unchanged. */
#define INSERT_EVENT                                                                   \
    "insert into sluice.audit_event "                                                  \
    "(account_id, id, kind, reason, actor, request_id, details, address, parent_id) "  \
    "@row :account_id, :id, :kind, :reason, :actor, :request_id, :details, :address, " \
    ":by_parent @end "                                                                 \
    "on conflict do nothing"
#define MEMBERS                                                                       \
    OF(account_id, PG_UUID), OF(id, PG_UUID), OF(kind, PG_TEXT), OF(reason, PG_TEXT), \
        STORE_BY(audit_event), STORE_BY_PARENT(audit_event), OF(details, PG_JSON)
static const struct pg_stmt audit_insert = {
    .name = "audit_insert",
    .sql = INSERT_EVENT,
    PG_TAKES(MEMBERS),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};
static const struct pg_stmt audit_insert_input = {
    .name = "audit_insert_input",
    .sql = "with made as (" STORE_INPUT_INSERT STORE_INPUT_ROW(
        "true") "on conflict do nothing) " INSERT_EVENT,
    PG_TAKES(MEMBERS, STORE_INPUT_PARAMS(audit_event)),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
    .gather = store_inputs_gather,
};

/* `key` must match `key` and `key.created` but not `keyring`: hence the dot, and the colon for
 * an actor. left(), not LIKE, since a kind may contain `_`, which LIKE treats as a wildcard. */
#define IS_OF_KIND                         \
    "(:kind is null or e.kind = :kind or " \
    "left(e.kind, char_length(:kind) + 1) = :kind || '.')"
static const struct pg_stmt audit_list = {
    .name = "audit_list",
    .sql = STORE_PAGE_SQL("sluice.audit_event",
                          "e.id, e.kind, e.reason, e.actor, e.request_id, e.address, e.details",
                          IS_OF_KIND " and (:actor is null or e.actor = :actor or "
                                     "left(e.actor, char_length(:actor) + 1) = :actor || ':')"),
    PG_TAKES(STORE_PAGE_PARAMS, PG_ARG("kind", PG_TEXT), PG_ARG("actor", PG_TEXT)),
    PG_GIVES(OF(id, PG_UUID), OF(kind, PG_TEXT), OF(reason, PG_TEXT), STORE_BY(audit_event),
             OF(details, PG_JSON), STORE_PAGE_COLUMNS),
};

/* The first id of the day on which the migration added the column parent_id. Partitions of former
 * days have no index on it, and are pruned. */
#define USERS_SINCE                                                                            \
    "(select (lpad(to_hex((extract(epoch from date_trunc('day', m.applied_at, 'UTC')) * 1000)" \
    "::bigint), 12, '0') || repeat('0', 20))::uuid from sluice.migration m "                   \
    "where m.version = 31)"
/* One part of the scan: the newest rows that `whose` and `since` select. */
#define NEWEST(whose, since)                                                                      \
    "(select x.* from sluice.audit_event x where " whose " and x.id < :before and x.id >= " since \
    " order by x.id desc limit 1000)"
static const struct pg_stmt audit_list_all = {
    .name = "audit_list_all",
    .sql = "select :ord, t.* from @input lateral (" STORE_PAGE_ROWS_SQL(
        "select u.* from (" NEWEST("x.account_id = :payer_id", ":since") " union all " NEWEST(
            "x.parent_id = :payer_id",
            "greatest(:since, " USERS_SINCE ")") ") u order by u.id desc",
        "id desc",
        "e.id, e.account_id, e.kind, e.reason, e.actor, e.request_id, e.address, e.details",
        IS_OF_KIND) ") t",
    PG_TAKES(PG_ARG("payer_id", PG_UUID), STORE_PAGE_RANGE_PARAMS, PG_ARG("kind", PG_TEXT)),
    PG_GIVES(OF(id, PG_UUID), OF(account_id, PG_UUID), OF(kind, PG_TEXT), OF(reason, PG_TEXT),
             STORE_BY(audit_event), OF(details, PG_JSON), STORE_PAGE_COLUMNS),
    .no_account = "an account and all its users, which other nodes may have",
    .is_spread = true,
    .spread_max = STORE_PAGE_COUNT_MAX,
    .spread_order = "-id",
};

static const struct pg_stmt audit_get = {
    .name = "audit_get",
    .sql = "select :ord, t.account_id, t.id, t.kind, t.reason, t.actor, t.request_id, t.address, "
           "t.details @read(sluice.audit_event)",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID)),
    PG_GIVES(OF(account_id, PG_UUID), OF(id, PG_UUID), OF(kind, PG_TEXT), OF(reason, PG_TEXT),
             STORE_BY(audit_event), OF(details, PG_JSON)),
    .key_count = 2,
};

const struct pg_stmt *const audit_stmts[] = {&audit_insert,   &audit_insert_input, &audit_list,
                                             &audit_list_all, &audit_get,          NULL};

STORE_CALL_ID(store_audit_get, audit_get, struct uuid, pg_uuid)

void store_audit_insert(STORE_ARGS, const struct audit_event *event)
{
    ASSERT(event->kind.ptr && !event->input.sealed.ptr);
    store_ask_of(pool, query, op, &audit_insert, event, PG_NO_VALUES);
}

void store_audit_insert_input(STORE_ARGS, const struct audit_event *event)
{
    ASSERT(event->kind.ptr && event->input.sealed.ptr);
    store_ask_of(pool, query, op, &audit_insert_input, event, PG_NO_VALUES);
}

void store_audit_list(STORE_ARGS, struct uuid account_id, const struct store_page *page, slice kind,
                      slice actor)
{
    store_ask_of(pool, query, op, &audit_list, page,
                 PG_VALUES(pg_uuid(account_id), pg_text(kind), pg_text(actor)));
}

void store_audit_list_all(STORE_ARGS, struct uuid account_id, const struct store_page *page,
                          slice kind)
{
    store_ask_of(pool, query, op, &audit_list_all, page,
                 PG_VALUES(pg_uuid(account_id), pg_text(kind)));
}

int store_audit_list_result(const struct pg_query *query, struct audit_event **list, size_t *count,
                            struct uuid *next)
{
    int status;
    *list = store_page_result(query, sizeof(**list), count, next, &status);
    bool is_of_one = query->stmt == &audit_list;
    for (size_t i = 0; status == OK && is_of_one && i < *count; i++)
        (*list)[i].account_id = query->params[0].as.uuid;
    return status;
}
