/*
 * Connections: queries without an id: the choices for a call, pages of a list, and a summary for
 * each app of an account. Each reads no more than it returns, however many connections an account
 * has, except the last, which counts all of them.
 */
#include "store/connection_internal.h"
#include "store/internal.h"

enum { LIST_PAGE_MAX = 500 }; /* only used by operator commands */

/* The statement makes three searches, each by an index and bounded: the default by
 * connection_default, the oldest live connections by connection_live, two of any status by
 * connection_integration (enough to tell one from several). UNION removes duplicates. OFFSET 0
 * keeps the rows' lookup by key from being merged into a join over the whole account
 * (pg/stmt.c). */
static const struct pg_stmt connection_choice = {
    .name = "connection_choice",
    .sql = "select :ord, c.* from @input lateral (select " CONNECTION_SELECT " from (select d.id "
           "from sluice.connection d where d.account_id = :account_id and d.integration_id = "
           ":integration_id and d.is_default union (select l.id from sluice.connection l "
           "where l.account_id = :account_id and l.integration_id = :integration_id "
           "and l.error is null order by l.id limit " STORE_TEXT_OF(
               CONNECTION_CHOICE_LIVE_MAX) ") union (select o.id from sluice.connection o "
                                           "where o.account_id = :account_id and "
                                           "o.integration_id = :integration_id order by o.id limit "
                                           "2)) found, lateral (select * from sluice.connection x "
                                           "where x.account_id = :account_id and x.id = found.id "
                                           "offset 0) t order by t.is_default desc, t.id) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("integration_id", PG_TEXT)),
    PG_COLUMNS(connection_columns),
    .is_shared = true,
};

/* By connection_shared, which contains shared connections alone. */
static const struct pg_stmt connection_shared = {
    .name = "connection_shared",
    .sql = "select :ord, c.* from @input lateral (select " CONNECTION_SELECT
           " from sluice.connection t where t.account_id = :account_id and t.integration_id = "
           ":integration_id and t.is_shared order by t.is_default desc, t.id limit " STORE_TEXT_OF(
               CONNECTION_CHOICE_LIVE_MAX) ") c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("integration_id", PG_TEXT)),
    PG_COLUMNS(connection_columns),
    .is_shared = true,
};

/* These pages walk connection_integration from where the previous page ended, in index order,
 * without a sort. */
#define PAGE_OF(condition, order)                                                                  \
    "select :ord, c.* from @input lateral (select " CONNECTION_SELECT                              \
    " from sluice.connection t where t.account_id = :account_id and " condition " order by " order \
    " limit :count_max) c"

static const struct pg_column page_params[] = {
    PG_ARG("account_id", PG_UUID), PG_ARG("integration_id", PG_TEXT), PG_ARG("after_id", PG_I64),
    PG_ARG("count_max", PG_I64)};
static const struct pg_stmt connection_page = {
    .name = "connection_page",
    .sql = PAGE_OF("(t.integration_id, t.id) > (:integration_id, :after_id)",
                   "t.integration_id, t.id"),
    PG_PARAMS(page_params),
    PG_COLUMNS(connection_columns),
};
static const struct pg_stmt connection_page_of_app = {
    .name = "connection_page_of_app",
    .sql = PAGE_OF("t.integration_id = :integration_id and t.id > :after_id", "t.id"),
    PG_PARAMS(page_params),
    PG_COLUMNS(connection_columns),
};

static const struct pg_stmt connection_page_shared = {
    .name = "connection_page_shared",
    .sql = PAGE_OF("t.is_shared and (t.integration_id, t.id) > (:integration_id, :after_id)",
                   "t.integration_id, t.id"),
    PG_PARAMS(page_params),
    PG_COLUMNS(connection_columns),
};
static const struct pg_stmt connection_page_shared_of_app = {
    .name = "connection_page_shared_of_app",
    .sql =
        PAGE_OF("t.is_shared and t.integration_id = :integration_id and t.id > :after_id", "t.id"),
    PG_PARAMS(page_params),
    PG_COLUMNS(connection_columns),
};

/* The same pages over an account and all its users. The rows of a sharded database's nodes are
 * merged by the bytes of their columns, so they are ordered in this way everywhere. Users' rows are
 * read in the order of connection_of_users; the account's own ones are sorted. */
#define ALL_PART(whose, condition, order)                                               \
    "(select o.* from sluice.connection o where o." whose " = :payer_id and " condition \
    " order by " order " limit :count_max)"
#define ALL_OF(condition, order)                                               \
    "select :ord, c.* from @input lateral (select " CONNECTION_SELECT          \
    " from (" ALL_PART("account_id", condition, order) " union all " ALL_PART( \
        "parent_id", condition,                                                \
        order) ") t order by t.integration_id collate \"C\", t.id limit :count_max) c"
static const struct pg_column page_all_params[] = {
    PG_ARG("payer_id", PG_UUID), PG_ARG("integration_id", PG_TEXT), PG_ARG("after_id", PG_I64),
    PG_ARG("count_max", PG_I64)};
#define PAGE_ALL                                                                  \
    PG_PARAMS(page_all_params), PG_COLUMNS(connection_columns),                   \
        .no_account = "an account and all its users, which other nodes may have", \
        .is_spread = true, .spread_max = CONNECTION_PAGE_ALL_MAX,                 \
        .spread_order = "integration_id id"
static const struct pg_stmt connection_page_all = {
    .name = "connection_page_all",
    .sql = ALL_OF("(o.integration_id collate \"C\", o.id) > (:integration_id, :after_id)",
                  "o.integration_id collate \"C\", o.id"),
    PAGE_ALL,
};
static const struct pg_stmt connection_page_all_of_app = {
    .name = "connection_page_all_of_app",
    .sql = ALL_OF("o.integration_id collate \"C\" = :integration_id and o.id > :after_id", "o.id"),
    PAGE_ALL,
};

/* Reads all connections of the app: labels are not indexed, and are seldom used to select a
 * connection. */
static const struct pg_stmt connection_labelled = {
    .name = "connection_labelled",
    .sql = "select :ord, c.* from @input lateral (select " CONNECTION_SELECT
           " from sluice.connection t where t.account_id = :account_id and t.integration_id = "
           ":integration_id and t.status <> 'revoked' order by t.label = :label desc, t.id limit "
           ":count_max) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("integration_id", PG_TEXT),
             PG_ARG("label", PG_TEXT), PG_ARG("count_max", PG_I64)),
    PG_COLUMNS(connection_columns),
};

/* A row of a version that knew only the workspace has its id as the subject: "T1" for "T1/U1". It
 * is this user's if both have the same address, or, if the app has no addresses, if it is the only
 * such row. Else a new credential would make a second connection, and calls would use the old one.
 */
#define IS_OF_WORKSPACE(t)                                                                        \
    "starts_with(:subject, " t ".identity_subject || '/') and " CONNECTION_MAY_BE_TWIN(           \
        t) " and "                                                                                \
           "(lower(" t ".identity_email) = lower(:email) or (" t ".identity_email is null and "   \
           ":email is null and not exists (select 1 from sluice.connection o where o.account_id " \
           "= "                                                                                   \
           ":account_id and o.integration_id = :integration_id and o.id <> " t ".id and "         \
           "o.identity_subject = " t ".identity_subject and " CONNECTION_MAY_BE_TWIN("o") ")))"

/* Reads all connections of the app: subjects are not indexed, as only a new connection is compared
 * with them. */
static const struct pg_stmt connection_twin = {
    .name = "connection_twin",
    .sql = "select :ord, c.id from @input lateral (select t.id from sluice.connection t "
           "where t.account_id = :account_id and t.integration_id = :integration_id "
           "and ((" CONNECTION_IS_TWIN("t") ") or (" IS_OF_WORKSPACE(
               "t") ")) "
                    "order by t.identity_subject = :subject desc, t.id limit 1) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), CONNECTION_TWIN_PARAMS),
    PG_GIVES(PG_ARG("id", PG_I64)),
};

/* The status is not indexed: rows are read, and their number is bounded. */
#define SCAN_LIMIT 1000
_Static_assert(SCAN_LIMIT == CONNECTION_ENDED_SCAN, "as callers know it");
static const struct pg_stmt connection_ended = {
    .name = "connection_ended",
    .sql = "select :ord, c.* from @input lateral (select " CONNECTION_SELECT " from (select x.* "
           "from sluice.connection x where x.account_id = :account_id order by x.integration_id, "
           "x.id limit " STORE_TEXT_OF(SCAN_LIMIT) ") t order by t.status <> 'reauth_required', "
                                                   "t.integration_id, t.id limit :count_max) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("count_max", PG_I64)),
    PG_COLUMNS(connection_columns),
};

#define OF(name, type, ...) PG_OF(#name, type, struct connection_app, name, __VA_ARGS__)

#define APPS_OF(condition)                                                              \
    "select :ord, c.* from @input lateral (select t.integration_id, "                   \
    "count(*) filter (where t.status <> 'revoked'), count(*) filter (where t.status = " \
    "'live'), bool_or(t.is_default and t.status <> 'revoked'), "                        \
    "bool_or(t.is_default and t.status = 'live') from sluice.connection t "             \
    "where t.account_id = :account_id" condition                                        \
    " group by t.integration_id order by t.integration_id) c"
#define APPS                                                                       \
    PG_TAKES(PG_ARG("account_id", PG_UUID)),                                       \
        PG_GIVES(OF(integration_id, PG_TEXT), OF(count, PG_I64), OF(live, PG_I64), \
                 OF(has_default, PG_BOOL), OF(is_default_live, PG_BOOL)),          \
        .is_shared = true

/* Reads all of an account's connections, by connection_integration, which also gives the order that
 * GROUP BY needs. The status is not indexed, so the rows themselves are read. */
static const struct pg_stmt connection_apps = {
    .name = "connection_apps",
    .sql = APPS_OF(""),
    APPS,
};
static const struct pg_stmt connection_shared_apps = {
    .name = "connection_shared_apps",
    .sql = APPS_OF(" and t.is_shared"),
    APPS,
};

/* The inner LIMIT limits the count: callers only compare it with a maximum. */
static const struct pg_stmt connection_count = {
    .name = "connection_count",
    .sql = "select :ord, c.n from @input lateral (select count(*) as n from (select 1 from "
           "sluice.connection t where t.account_id = :account_id limit :count_max) few) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("count_max", PG_I64)),
    PG_GIVES(PG_ARG("count", PG_I64)),
};

const struct pg_stmt *const connection_list_stmts[] = {
    &connection_choice,      &connection_shared,          &connection_page,
    &connection_page_of_app, &connection_page_shared,     &connection_page_shared_of_app,
    &connection_page_all,    &connection_page_all_of_app, &connection_labelled,
    &connection_twin,        &connection_ended,           &connection_apps,
    &connection_shared_apps, &connection_count,           NULL};

/* ---- choices for a call ---- */

STORE_CALL_ID(store_connection_choice, connection_choice, slice, pg_text)
STORE_CALL_ID(store_connection_shared, connection_shared, slice, pg_text)

/* ---- pages ---- */

void store_connection_page(STORE_ARGS, struct uuid account_id, const struct connection_page *page)
{
    static const struct pg_stmt *const stmts[3][2] = {
        {&connection_page, &connection_page_of_app},
        {&connection_page_all, &connection_page_all_of_app},
        {&connection_page_shared, &connection_page_shared_of_app}};
    bool is_of_app = page->integration_id.ptr != NULL;
    ASSERT(page->count_max >= 1);
    ASSERT(!page->is_all || page->count_max <= CONNECTION_PAGE_ALL_MAX);
    store_ask(
        pool, query, op, stmts[page->is_shared ? 2 : page->is_all][is_of_app],
        PG_VALUES(pg_uuid(account_id),
                  pg_text_or_empty(is_of_app ? page->integration_id : page->after_integration_id),
                  pg_i64(page->after_id), pg_i64((int64_t)page->count_max)));
}

void store_connection_labelled(STORE_ARGS, struct uuid account_id, slice integration_id,
                               slice label, size_t count_max)
{
    store_ask(pool, query, op, &connection_labelled,
              PG_VALUES(pg_uuid(account_id), pg_text(integration_id), pg_text(label),
                        pg_i64((int64_t)count_max)));
}

void store_connection_twin(STORE_ARGS, struct uuid account_id, const struct connection_twin *twin)
{
    store_ask_of(pool, query, op, &connection_twin, twin, PG_VALUES(pg_uuid(account_id)));
}

void store_connection_ended(STORE_ARGS, struct uuid account_id, size_t count_max)
{
    store_ask(pool, query, op, &connection_ended,
              PG_VALUES(pg_uuid(account_id), pg_i64((int64_t)count_max)));
}

/* Makes space for LIST_PAGE_MAX more connections after the first `count` of *list. The size is
 * doubled, so that the total cost of copies is linear; an older array stays in the arena until the
 * command ends. */
static bool reserve_page(struct arena *arena, struct connection **list, size_t count, size_t *room)
{
    if (count + LIST_PAGE_MAX <= *room)
        return true;
    *room = 2 * *room + LIST_PAGE_MAX;
    struct connection *grown = ARENA_ARRAY(arena, struct connection, *room);
    if (grown && count > 0)
        memcpy(grown, *list, count * sizeof(*grown));
    *list = grown;
    return grown != NULL;
}

int store_connection_list_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                               struct connection **list, size_t *count, struct err *err)
{
    struct connection last = {.integration_id = SLICE("")};
    size_t room = 0;
    *list = NULL;
    *count = 0;
    for (size_t got = LIST_PAGE_MAX; got == LIST_PAGE_MAX;) {
        if (!reserve_page(arena, list, *count, &room))
            return err_set(err, ERR_NOMEM, "the list of connections is too large");
        struct connection *page =
            store_list_sync(sync, arena, &connection_page,
                            PG_VALUES(pg_uuid(account_id), pg_text(last.integration_id),
                                      pg_i64(last.id), pg_i64(LIST_PAGE_MAX)),
                            sizeof(*page), &got, err);
        if (!page)
            return (int)err->code;
        memcpy(*list + *count, page, got * sizeof(*page));
        *count += got;
        if (*count > 0)
            last = (*list)[*count - 1];
    }
    return OK;
}

/* ---- summary ---- */

STORE_CALL_ONE(store_connection_apps, connection_apps, struct uuid, pg_uuid)
STORE_CALL_ONE(store_connection_shared_apps, connection_shared_apps, struct uuid, pg_uuid)

void store_connection_count(STORE_ARGS, struct uuid account_id, size_t count_max)
{
    store_ask(pool, query, op, &connection_count,
              PG_VALUES(pg_uuid(account_id), pg_i64((int64_t)count_max)));
}
