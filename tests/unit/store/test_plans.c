/*
 * Reads the statement table and the system catalogs, and verifies the claims of src/README.md "The
 * database": keys and statements have account_id, and plans find rows by key, whatever the
 * statistics say.
 */
#include <stdlib.h>

#include "base/embed.h"
#include "pg/stmt.h"
#include "store/store.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

static const char *conninfo;

/* ---- catalogs ---- */

static void check_none(const char *what, const char *sql)
{
    struct err err;
    struct arena arena;
    struct pg_rows rows;
    struct pg_sync *sync = pg_sync_open(conninfo, &err);
    assert_non_null(sync);
    arena_init(&arena, 1024 * 1024);
    if (pg_sync_text(sync, sql, &arena, &rows, &err) != OK)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < rows.count; i++)
        print_error("%s: %.*s\n", what, SLICE_ARG(pg_get_bytes(&rows, i, 0)));
    assert_int_equal(rows.count, 0);
    arena_deinit(&arena);
    pg_sync_close(sync);
}

#define OUR_TABLES \
    "from pg_class c where c.relnamespace = 'sluice'::regnamespace and c.relkind in ('r', 'p') "

static void test_every_key_begins_with_account_id(void **state)
{
    (void)state;
    check_none("a table without account_id",
               "select c.relname " OUR_TABLES
               "and c.relname not in ('node', 'migration', 'flow_template') "
               "and not exists (select from pg_attribute a where a.attrelid = c.oid "
               "and a.attname = 'account_id' and a.attnotnull)");
    check_none(
        "a table without a primary key",
        "select c.relname " OUR_TABLES
        "and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)");
    check_none("a unique index that does not begin with account_id",
               "select i.indexrelid::regclass::text " /* leading column */
               "from pg_index i join pg_class c on c.oid = i.indrelid "
               "join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0] "
               "where c.relnamespace = 'sluice'::regnamespace and i.indisunique "
               "and a.attname <> 'account_id' and i.indexrelid::regclass::text not in "
               "('sluice.api_key_hash', 'sluice.node_pkey', 'sluice.migration_pkey', "
               "'sluice.account_external_id', 'sluice.flow_template_pkey')");
}

static void test_nothing_that_sharding_forbids(void **state)
{
    (void)state;
    check_none("a trigger",
               "select t.tgname from pg_trigger t join pg_class c on c.oid = t.tgrelid "
               "where c.relnamespace = 'sluice'::regnamespace and not t.tgisinternal");
    check_none("a sequence", "select relname from pg_class where relkind = 'S' "
                             "and relnamespace = 'sluice'::regnamespace");
    check_none("a column default",
               "select adrelid::regclass::text from pg_attrdef d join pg_class c on "
               "c.oid = d.adrelid where c.relnamespace = 'sluice'::regnamespace");
    check_none("a foreign key of a partitioned table",
               "select conname from pg_constraint f join pg_class c on c.oid in (f.conrelid, "
               "f.confrelid) where f.contype = 'f' and c.relkind = 'p' "
               "and c.relnamespace = 'sluice'::regnamespace");
    check_none("a default partition",
               "select partrelid::regclass::text from pg_partitioned_table where partdefid <> 0");
    check_none("jsonb", "select attrelid::regclass::text from pg_attribute a join pg_class c on "
                        "c.oid = a.attrelid where a.atttypid = 'jsonb'::regtype "
                        "and c.relnamespace = 'sluice'::regnamespace");
    check_none(
        "a partition whose documents are not lz4",
        "select attrelid::regclass::text from pg_attribute a join pg_class c on "
        "c.oid = a.attrelid where c.relispartition and c.relkind = 'r' "
        "and a.attname in ('summary', 'details', 'input', 'output') and a.attcompression <> 'l' "
        "and c.relnamespace = 'sluice'::regnamespace");
    assert_int_equal(items_ask(conninfo, "select count(*) from pg_inherits "
                                         "where inhparent = 'sluice.execution'::regclass"),
                     9); /* yesterday, today, 7 days */
}

/* Partitions that exist when the index is added get it from the migration, later ones when they are
 * attached. That of yesterday has no event of a user. */
static void test_partitions_have_the_index_of_users_events(void **state)
{
    (void)state;
    items_tell(conninfo, "select sluice.partitions_make(9)");
    check_none("a partition without audit_event_of_users",
               "select p.inhrelid::regclass::text from pg_inherits p "
               "where p.inhparent = 'sluice.audit_event'::regclass "
               "and right(p.inhrelid::regclass::text, 8) >= to_char(now() at time zone 'UTC', "
               "'YYYYMMDD') and not exists (select from pg_index i where i.indrelid = p.inhrelid "
               "and i.indisvalid and pg_get_expr(i.indpred, i.indrelid) = "
               "'(parent_id IS NOT NULL)')");
    items_tell(conninfo,
               "do $$ declare part text; begin for part in select c.relname from pg_class "
               "c where c.relkind = 'r' and c.relispartition and right(c.relname, 8) > "
               "to_char((now() at time zone 'UTC')::date + 7, 'YYYYMMDD') and "
               "c.relnamespace = 'sluice'::regnamespace loop execute format('drop table "
               "sluice.%I', part); end loop; end $$");
}

static slice citus_script(void)
{
    for (size_t i = 0; i < embed_sql_count; i++)
        if (slice_eq_cstr(slice_cstr(embed_sql[i].name), "citus.sql"))
            return slice_of((const char *)embed_sql[i].data, embed_sql[i].len);
    fail_msg("sql/citus.sql is not there");
    return SLICE_NONE;
}

/* A table that the script lacks would be missing only on a cluster. Nodes are not distributed. */
static void test_citus_distributes_every_table(void **state)
{
    enum { SQL_BYTES_MAX = 64 * 1024 };
    char *sql = mem_alloc(SQL_BYTES_MAX);
    (void)state;
    (void)snprintf(sql, SQL_BYTES_MAX,
                   "with named as (select (regexp_matches($script$%.*s$script$, "
                   "'''sluice\\.(\\w+)''', 'g'))[1] as name), tables as (select c.relname::text "
                   "as name " OUR_TABLES "and not c.relispartition and c.relname <> 'node') "
                   "(select name from tables except select name from named) union all "
                   "(select name from named except select name from tables)",
                   SLICE_ARG(citus_script()));
    check_none("only the schema or only sql/citus.sql has the table", sql);
    mem_free(sql);
}

/* ---- statements ---- */

static void test_every_statement_names_its_account(void **state)
{
    size_t exempt = 0, i = 0;
    (void)state;
    for (const struct pg_stmt *stmt; (stmt = store_stmt_at(i)); i++) {
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(stmt->name, store_stmt_at(k)->name);
        if (stmt->no_account) {
            exempt++;
            continue;
        }
        if (stmt->param_count == 0 || strcmp(stmt->params[0].name, "account_id") != 0)
            fail_msg("%s: the first parameter is not account_id", stmt->name);
        struct buf sql;
        struct err err;
        buf_init(&sql, PG_SQL_MAX);
        assert_int_equal(pg_stmt_expand(stmt, PG_MODE_PIPE, &sql, &err), OK);
        bool is_insert = slice_starts_with(buf_slice(&sql), SLICE("insert into")) ||
                         slice_starts_with(buf_slice(&sql), SLICE("with made as (insert into"));
        const char *want = is_insert ? "(account_id, " : "account_id = $1";
        bool is_call = slice_find(buf_slice(&sql), SLICE("(account_id => $1,")) > 0;
        if (!is_call && slice_find(buf_slice(&sql), slice_cstr(want)) < 0)
            fail_msg("%s: no \"%s\" in: %.*s", stmt->name, want, SLICE_ARG(buf_slice(&sql)));
        if (is_insert && slice_find(buf_slice(&sql), SLICE("values ( $1,")) < 0 &&
            slice_find(buf_slice(&sql), SLICE("select $1,")) < 0)
            fail_msg("%s: account_id is not the first value", stmt->name);
        buf_deinit(&sql);
    }
    assert_true(i > 20);
    assert_int_equal(exempt, 56); /* a new exemption needs a decision here */
}

static bool names(const struct pg_stmt *stmt, const char *verb, const char *table)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%ssluice.%s", verb, table);
    const char *at = strstr(stmt->sql, text);
    return at && strchr(" (),'", at[strlen(text)]);
}

/* Where a statement is sent on a sharded database (pg/pg.h): a statement without an account that
 * reads distributed tables is sent to each shard, unless a command sends it to the coordinator. A
 * statement that changes a table with a copy on each node is sent to the coordinator. */
static void test_statements_go_where_their_rows_are(void **state)
{
    static const char *const distributed[] = {
        "connection", "execution",    "idempotency_key", "audit_event",
        "flow",       "flow_doc",     "flow_step",       "oauth_client",
        "flow_item",  "oauth_begun",  "connect_session", "tally",
        "rate_lease", "account_user", "execution_input", "usage",
        "delivery",   "hold"};
    static const char *const copied[] = {"migration",     "account", "api_key", "session_end",
                                         "flow_template", "webhook", "policy"};
    static const char *const verbs[] = {"into ", "update ", "delete from "};
    const slice of_commands =
        SLICE("flow_explain_account flow_explain_user connection_stale oauth_client_stale");
    const struct pg_stmt *stmt;
    (void)state;
    for (size_t i = 0; (stmt = store_stmt_at(i)); i++) {
        bool is_everywhere = stmt->no_account && !stmt->is_spread &&
                             !slice_has_word(of_commands, slice_cstr(stmt->name));
        for (size_t t = 0; t < ARRAY_LEN(distributed); t++)
            if (is_everywhere && names(stmt, "", distributed[t]))
                fail_msg("%s: reads %s of all accounts and is not spread", stmt->name,
                         distributed[t]);
        for (size_t t = 0; t < ARRAY_LEN(copied); t++)
            for (size_t v = 0; v < ARRAY_LEN(verbs); v++)
                if (!stmt->no_account && !stmt->is_copied && names(stmt, verbs[v], copied[t]))
                    fail_msg("%s: changes %s on one node alone", stmt->name, copied[t]);
    }
}

static bool has_column(const struct pg_stmt *stmt, slice name)
{
    for (size_t i = 0; i < stmt->column_count; i++)
        if (slice_eq_cstr(name, stmt->columns[i].name))
            return true;
    return false;
}

/* The rows of the shards are merged by these columns. An unsharded database does not need them, so
 * no other test would notice a wrong name. */
static void test_a_spread_is_ordered_by_its_columns(void **state)
{
    const struct pg_stmt *stmt;
    (void)state;
    for (size_t i = 0; (stmt = store_stmt_at(i)); i++) {
        slice names = slice_cstr(stmt->spread_order ? stmt->spread_order : "");
        while (names.len) {
            slice name = slice_split(&names, ' ');
            if (!has_column(stmt, slice_from(name, name.ptr[0] == '-')))
                fail_msg("%s: spread_order \"%.*s\" is not a column", stmt->name, SLICE_ARG(name));
        }
    }
}

static void test_writes_say_whether_a_replay_is_harmless(void **state)
{
    (void)state;
    for (size_t i = 0; store_stmt_at(i); i++) {
        const struct pg_stmt *stmt = store_stmt_at(i);
        const struct pg_stmt *replay = stmt->again ? stmt->again : stmt;
        bool inserts = strstr(replay->sql, "insert into") != NULL;
        bool is_operators = strstr(replay->sql, "on conflict") == NULL;
        assert_ptr_equal(replay->params, stmt->params);
        assert_ptr_equal(replay->columns, stmt->columns);
        assert_true(replay->access != PG_WRITE_ONCE || !stmt->again);
        if (inserts && stmt->access == PG_WRITE && is_operators)
            fail_msg("%s: a replayable insert without ON CONFLICT", stmt->name);
    }
}

/* ---- plans ---- */

static const char *sample(enum pg_type type)
{
    static char id[64];
    char text[UUID_TEXT_LEN + 1];
    switch (type) {
    case PG_UUID:
        uuid_format(uuid_v7(), text);
        snprintf(id, sizeof(id), "'%s'", text);
        return id;
    case PG_I64:
        return "1";
    case PG_TEXT:
        return "'x'";
    case PG_JSON:
        return "'{}'";
    case PG_BYTES:
        return "'\\x00'";
    case PG_TIME:
        return "now()";
    case PG_BOOL:
        return "true";
    case PG_OIDS:
        return "'1 2'";
    }
    return "null";
}

/* prepare x (uuid[], ...) as ...; explain execute x (array[...]::uuid[], ...) */
static void put_list(struct buf *out, const struct pg_stmt *stmt, enum pg_mode mode, bool values)
{
    const char *array = mode == PG_MODE_SET ? "[]" : "";
    if (stmt->param_count == 0)
        return;
    for (size_t i = 0; i < stmt->param_count; i++) {
        const char *type = pg_type_name(stmt->params[i].type);
        buf_append_cstr(out, i ? ", " : "(");
        if (!values)
            buf_printf(out, "%s%s", type, array);
        else if (mode == PG_MODE_SET)
            buf_printf(out, "array[%s]::%s[]", sample(stmt->params[i].type), type);
        else
            buf_printf(out, "%s::%s", sample(stmt->params[i].type), type);
    }
    buf_append_char(out, ')');
}

static struct pg_rows explain(struct pg_sync *sync, struct arena *arena, const struct pg_stmt *stmt,
                              enum pg_mode mode)
{
    struct err err;
    struct pg_rows rows;
    struct buf sql;
    buf_init(&sql, 64 * 1024);
    buf_append_cstr(&sql, "deallocate all; prepare x ");
    put_list(&sql, stmt, mode, false);
    buf_append_cstr(&sql, " as ");
    assert_int_equal(pg_stmt_expand(stmt, mode, &sql, &err), OK);
    buf_append_char(&sql, '\0');
    if (pg_sync_run(sync, sql.ptr, &err) != OK)
        fail_msg("%s: %s in: %s", stmt->name, err.text, sql.ptr);
    buf_clear(&sql);
    buf_append_cstr(&sql, "explain (costs off) execute x ");
    put_list(&sql, stmt, mode, true);
    buf_append_char(&sql, '\0');
    if (pg_sync_text(sync, sql.ptr, arena, &rows, &err) != OK)
        fail_msg("%s: %s in: %s", stmt->name, err.text, sql.ptr);
    buf_deinit(&sql);
    return rows;
}

static bool has(slice line, const char *part)
{
    return slice_find(line, slice_cstr(part)) >= 0;
}

static void fail_plan(const struct pg_stmt *stmt, const struct pg_rows *rows, const char *why)
{
    for (size_t i = 0; i < rows->count; i++)
        print_error("    %.*s\n", SLICE_ARG(pg_get_bytes(rows, i, 0)));
    fail_msg("%s: %s", stmt->name, why);
}

/* Rows of an endpoint are found by indexes that begin with its id. That of its pending events is
 * for walks over all of them alone. */
static void check_walk_of_endpoint(const struct pg_stmt *stmt, const struct pg_rows *rows,
                                   slice line, slice next)
{
    bool is_of_endpoint = strncmp(stmt->name, "delivery_list", 13) == 0 ||
                          strcmp(stmt->name, "delivery_more") == 0 ||
                          strcmp(stmt->name, "delivery_replays") == 0;
    bool is_of_pending = strstr(stmt->sql, "x.status = 'pending'") != NULL;
    bool is_walk = is_of_pending ? has(line, "delivery_pending")
                                 : has(line, "delivery_webhook") || has(line, "delivery_failed");
    if (has(line, "delivery_pending") && stmt->key_count > 0)
        fail_plan(stmt, rows, "a walk over the endpoint's pending events");
    if (is_of_endpoint && has(line, " on delivery ") && (!is_walk || !has(next, "webhook_id")))
        fail_plan(stmt, rows, "a walk over deliveries of other endpoints");
}

static unsigned searches_by_index;

/* A scan of a table must use an index, with a condition. On a tenant's table, the condition must
 * include account_id. A statement without an account may scan small tables, or a limited range. */
static void check_plan(const struct pg_stmt *stmt, const struct pg_rows *rows)
{
    /* Used by a command, which plans it for each call. */
    if (has(slice_cstr(stmt->name), "flow_explain_account") ||
        has(slice_cstr(stmt->name), "flow_explain_user"))
        return;
    for (size_t i = 0; i < rows->count; i++) {
        slice line = pg_get_bytes(rows, i, 0);
        slice next = i + 1 < rows->count ? pg_get_bytes(rows, i + 1, 0) : SLICE("");
        /* An index of words has no order and no account: the words are hashes under the account's
         * key. Until there are statistics, a small partition is read instead. */
        if (strcmp(stmt->name, "execution_find") == 0 &&
            (has(line, "Bitmap Heap Scan on execution_input_") ||
             has(line, "Seq Scan on execution_input_") || has(line, "_words_idx"))) {
            searches_by_index += has(line, "_words_idx");
            continue;
        }
        if (has(line, "Hash Join") || has(line, "Merge Join") || has(line, "Bitmap"))
            fail_plan(stmt, rows, "a join or scan that is not pinned");
        /* Rows need not be checked against the condition of a partial index. */
        if (strstr(stmt->sql, "x.status = 'failed'") && has(line, "Filter: ") &&
            has(line, "status = 'failed'"))
            fail_plan(stmt, rows, "a walk over what has succeeded");
        bool is_scan = has(line, "Scan ") && has(line, " on ");
        if (!is_scan || has(line, "Subquery Scan") || has(line, "Function Scan") ||
            has(line, "CTE Scan") || has(line, "WorkTable Scan") || has(line, "Values Scan"))
            continue;
        /* Templates do not belong to a tenant, and are found by their key. */
        if (has(line, " using flow_template_pkey on flow_template ") && has(next, "version = "))
            continue;
        if (has(line, " on account_user ") && strcmp(stmt->name, "account_user_far") == 0 &&
            !has(line, "account_user_far"))
            fail_plan(stmt, rows, "a walk over all users that are being erased");
        check_walk_of_endpoint(stmt, rows, line, next);
        bool is_flow = has(line, " on flow ");
        if (stmt->no_account && !has(line, "idempotency_key") && !has(line, "api_key") && !is_flow)
            continue;
        if (has(line, "Seq Scan"))
            fail_plan(stmt, rows, "a sequential scan");
        if (has(line, "idempotency_key_expiry") || has(line, "connection_pkey on connection t") ||
            has(line, "idempotency_key_owner") || has(line, "flow_owner") ||
            has(line, "flow_due") || has(line, "flow_ended"))
            if (stmt->no_account && has(next, "Index Cond"))
                continue;
        if (!has(next, "Index Cond"))
            fail_plan(stmt, rows, "a walk over a whole index");
        bool is_change = has(line, " on ") && has(line, " t") && stmt->access != PG_READ &&
                         stmt->key_count == 2 && has(line, "_pkey");
        if (is_change && !has(next, " AND "))
            fail_plan(stmt, rows, "a look-up by half of the key");
        if (strncmp(stmt->name, "execution_list", 14) == 0 && has(line, " on flow_step_") &&
            !has(line, "started_at"))
            fail_plan(stmt, rows, "a walk over the account's steps");
        if (has(line, " on flow_step_") && has(line, "started_at") && !has(next, "started_at"))
            fail_plan(stmt, rows, "a walk over the account's steps, not those of a flow");
        if (has(line, "flow_status") && !strstr(stmt->sql, ".status <> ''"))
            fail_plan(stmt, rows, "a walk over the account's flows");
        if (has(line, "flow_pkey") && strstr(stmt->sql, ".status <> ''"))
            fail_plan(stmt, rows, "a walk over flows of other statuses");
        if (strstr(stmt->sql, "x.template_key <> ''") && is_flow && !has(line, "flow_approval"))
            fail_plan(stmt, rows, "a walk over flows that wait for no person");
        if (strcmp(stmt->name, "flow_start_held") == 0 && has(line, " on flow w") &&
            !has(line, "flow_approval"))
            fail_plan(stmt, rows, "a walk over flows that wait for no person");
        bool by_hash = stmt->no_account && has(line, "api_key_hash");
        if (!by_hash && !has(next, "account_id") && !has(line, " on node"))
            fail_plan(stmt, rows, "a look-up without account_id");
    }
}

static void check_all_plans(void)
{
    struct arena arena;
    struct pg_sync *sync = items_open_pinned(conninfo);
    for (size_t i = 0; store_stmt_at(i); i++) {
        const struct pg_stmt *stmt = store_stmt_at(i);
        for (int mode = PG_MODE_SET; mode <= PG_MODE_PIPE; mode++) {
            if (mode == PG_MODE_SET && stmt->param_count == 0)
                continue;
            arena_init(&arena, 1024 * 1024);
            struct pg_rows rows = explain(sync, &arena, stmt, (enum pg_mode)mode);
            if (!stmt->goes_alone)
                check_plan(stmt, &rows);
            arena_deinit(&arena);
        }
    }
    pg_sync_close(sync);
}

#define FLOW_ID                                                                    \
    "('0' || substr(sluice.uuid_floor(current_date)::text, 2, 17) || '-8000-' || " \
    "lpad(n::text, 12, '0'))::uuid"
#define FILL(rows)                                                                                 \
    "insert into sluice.account select sluice.uuid_floor(current_date - n), 'a', now() "           \
    "from generate_series(1, " #rows "::integer) n on conflict do nothing;"                        \
    "insert into sluice.api_key select a.account_id, gen_random_uuid(), "                          \
    "sha256(a.account_id::text::bytea), 'p', 'n', 'read', now() from sluice.account a "            \
    "on conflict do nothing;"                                                                      \
    "insert into sluice.connection select a.account_id, n, 'gmail', 'l', false, 'none', '', '', "  \
    "null, '{}', 'live', null, null, 1, gen_random_uuid(), now(), now() from sluice.account a, "   \
    "generate_series(1, 5) n on conflict do nothing;"                                              \
    "insert into sluice.execution select a.account_id, ('0' || substr(sluice.uuid_floor("          \
    "current_date)::text, 2, 17) || '-8000-' || lpad(n::text, 12, '0'))::uuid, 'i', 'a', null, "   \
    "'succeeded', null, now(), now(), gen_random_uuid(), '{}' from sluice.account a, "             \
    "generate_series(1, 5) n on conflict do nothing;"                                              \
    "insert into sluice.execution_input select e.account_id, e.id, true, '', 'k', now(), "         \
    "array[hashtextextended(e.account_id::text, 0)] from sluice.execution e "                      \
    "on conflict do nothing;"                                                                      \
    "insert into sluice.idempotency_key select a.account_id, 'k' || n, gen_random_uuid(), "        \
    "sha256('x'), 'bound', null, 'i', 'a', null, true, now(), now() from sluice.account a, "       \
    "generate_series(1, 5) n on conflict do nothing;"                                              \
    "insert into sluice.flow select a.account_id, " FLOW_ID ", 't', gen_random_uuid(), "           \
    "'agent', (array['completed', 'failed', 'cancelled'])[n % 3 + 1], 1, gen_random_uuid(), "      \
    "null, 0, 1, true, 0, null, null, null, now(), now(), now() from sluice.account a, "           \
    "generate_series(1, 5) n on conflict do nothing;"                                              \
    "insert into sluice.flow_doc select f.account_id, f.id, '{}', 'a', null from sluice.flow f "   \
    "on conflict do nothing;"                                                                      \
    "insert into sluice.flow_step select f.account_id, f.id, n, 1, 'completed', now(), now(), "    \
    "'{}', '{}', null from sluice.flow f, generate_series(0, 0) n on conflict do nothing;"         \
    "insert into sluice.oauth_client select a.account_id, 'i' || n, 'c', '', 'k', now(), now() "   \
    "from sluice.account a, generate_series(1, 5) n on conflict do nothing;"                       \
    "insert into sluice.connect_session select a.account_id, sha256(n::text::bytea), 'i', "        \
    "sha256('k'), false, null, now(), now() from sluice.account a, generate_series(1, 5) n "       \
    "on conflict do nothing;"                                                                      \
    "insert into sluice.oauth_begun select a.account_id, sha256(n::text::bytea), sha256('s'), "    \
    "'i', '', 'k', now(), now() from sluice.account a, generate_series(1, 5) n "                   \
    "on conflict do nothing;"                                                                      \
    "insert into sluice.webhook (account_id, id, url, description, sealed, key_id, failures, "     \
    "rev, created_at) select a.account_id, a.account_id, 'u', '', '', 'k', 0, 1, now() from "      \
    "sluice.account a on conflict do nothing;"                                                     \
    "insert into sluice.policy select a.account_id, 'p' || n, n, '{}', now() from "                \
    "sluice.account a, generate_series(1, 5) n on conflict do nothing;"                            \
    "insert into sluice.hold select f.account_id, 'k' || f.id, f.id, sha256('x'), f.id, f.id, "    \
    "1000, now() from sluice.flow f on conflict do nothing;"                                       \
    "insert into sluice.delivery (account_id, event_id, webhook_id, kind, object, rev, at, data, " \
    "status, attempt, due_at, ended_at) select a.account_id, " FLOW_ID                             \
    ", a.account_id, 'k', " FLOW_ID                                                                \
    ", n, now(), '{}', case when n = 1 then 'pending' else 'delivered' end, 1, "                   \
    "case when n = 1 then now() end, case when n > 1 then now() end from sluice.account a, "       \
    "generate_series(1, 5) n on conflict do nothing;"

static void test_plans_on_empty_tables(void **state)
{
    (void)state;
    check_all_plans();
}

static void test_plans_on_tiny_tables(void **state)
{
    (void)state;
    items_tell(conninfo, FILL(1) "analyze");
    items_tell(conninfo, "vacuum analyze");
    check_all_plans();
}

static void test_plans_on_large_tables(void **state)
{
    (void)state;
    items_tell(conninfo, FILL(5000) "analyze");
    searches_by_index = 0;
    check_all_plans();
    assert_true(searches_by_index >= 2); /* in both modes */
}

/* The list of approvals does not scan the account's flows that wait for a time. */
static void test_plans_with_many_timers(void **state)
{
    (void)state;
    items_tell(conninfo,
               "insert into sluice.flow select (select min(account_id::text)::uuid from "
               "sluice.account), gen_random_uuid(), 't', gen_random_uuid(), 'agent', 'waiting', 1, "
               "gen_random_uuid(), null, 0, 0, false, 0, "
               "case when n % 10000 = 0 then 'approval' else 'time' end, now(), null, now(), "
               "now(), null from generate_series(1, 100000) n");
    items_tell(conninfo, "vacuum analyze sluice.flow");
    assert_int_equal(items_ask(conninfo, "select pg_relation_size('sluice.flow_approval') / 8192"),
                     2); /* its head and one page */
    check_all_plans();
}

static int set_up(void **state)
{
    (void)state;
    conninfo = pg_cluster_database(true);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_key_begins_with_account_id),
        cmocka_unit_test(test_nothing_that_sharding_forbids),
        cmocka_unit_test(test_partitions_have_the_index_of_users_events),
        cmocka_unit_test(test_citus_distributes_every_table),
        cmocka_unit_test(test_every_statement_names_its_account),
        cmocka_unit_test(test_statements_go_where_their_rows_are),
        cmocka_unit_test(test_a_spread_is_ordered_by_its_columns),
        cmocka_unit_test(test_writes_say_whether_a_replay_is_harmless),
        cmocka_unit_test(test_plans_on_empty_tables),
        cmocka_unit_test(test_plans_on_tiny_tables),
        cmocka_unit_test(test_plans_on_large_tables),
        cmocka_unit_test(test_plans_with_many_timers),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
