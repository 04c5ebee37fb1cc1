/*
 * Handles the rows of an account in all tables. The database makes the statements from its own
 * catalog and quotes the names; this file only inserts ids, in canonical form. Tables are listed at
 * each call, so a table that a later migration adds is covered. Erasure is two functions of the
 * schema (sql/0038_usage_sums.sql), which servers call, too (store/account_user.h,
 * store/account.h).
 */
#include "store/account_rows.h"

#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "store/internal.h"

enum { TABLES_ARENA_BYTES_MAX = 4 * 1024 * 1024, BATCH_ARENA_BYTES_MAX = 1024 * 1024 * 1024 };

#define SQL_BYTES_MAX ((size_t)64 * 1024)

#define HAS_ACCOUNT_ID                                                                  \
    "c.relnamespace = 'sluice'::regnamespace and exists (select 1 from pg_attribute a " \
    "where a.attrelid = c.oid and a.attname = 'account_id' and not a.attisdropped) "

/* Makes the cursor's statement for each table that is not a partition; `account` comes first, as
 * a reader of the export expects. `%s` and `%I` are for format(), `%%s` stays for put_account.
 * Rows are in the order of the primary key. translate() turns newlines between members of a json
 * column into blanks, so that a row is one line; newlines in strings are already escaped.
 * execution.summary is a text that holds JSON, hence its cast. Of bytes, only the number is
 * selected, except of sealed inputs, which the reader opens. The hashes of words are left out. */
static const char export_sql[] =
    "select format('select translate(''{\"table\":\"%s\",\"row\":'' || row_to_json(r)::text || "
    "''}'', E''\\n\\r'', ''  '') from (select %s from sluice.%I t where t.account_id = %%s "
    "order by %s) r', c.relname, "
    "(select string_agg(case when (c.relname, a.attname) = ('execution_input', 'sealed') "
    "then 'encode(t.sealed, ''hex'') as sealed' when a.atttypid = 'bytea'::regtype then format("
    "'octet_length(t.%1$I) as %2$I', a.attname, a.attname || '_bytes') "
    "when (c.relname, a.attname) = ('execution', 'summary') then 't.summary::json' "
    "else format('t.%I', a.attname) end, ', ' order by a.attnum) from pg_attribute a "
    "where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped "
    "and (c.relname, a.attname) not in (('execution_input', 'own'), ('execution_input', 'words'), "
    "('execution_input', 'marks'), ('execution_input', 'runs'))), c.relname, "
    "(select string_agg(format('t.%I', a.attname), ', ' order by array_position("
    "i.indkey::int2[], a.attnum)) from pg_index i join pg_attribute a on a.attrelid = c.oid "
    "and a.attnum = any(i.indkey::int2[]) where i.indrelid = c.oid and i.indisprimary)) "
    "from pg_class c where c.relkind in ('r', 'p') and not c.relispartition and " HAS_ACCOUNT_ID
    "order by c.relname <> 'account', c.relname";

/* Appends the text with each %s replaced by the account's id, quoted; NUL-terminated. */
static int put_account(struct buf *sql, slice text, struct uuid account_id, struct err *err)
{
    char id[UUID_TEXT_LEN + 1];
    ptrdiff_t at;
    /* A UUID in canonical form has no quote, so adding quotes around it is safe. */
    uuid_format(account_id, id);
    while ((at = slice_find(text, SLICE("%s"))) >= 0) {
        buf_append(sql, slice_first(text, (size_t)at));
        buf_printf(sql, "'%s'", id);
        text = slice_from(text, (size_t)at + 2);
    }
    buf_append(sql, text);
    buf_append_char(sql, '\0');
    return buf_is_ok(sql) ? OK : err_set(err, ERR_NOMEM, "out of memory");
}

/* Calls on_table for each row of `list_sql`, a statement with %s for the account. */
static int each_table(struct pg_sync *sync, const char *list_sql, struct uuid account_id,
                      int (*on_table)(void *ctx, const char *sql, struct err *err), void *ctx,
                      struct err *err)
{
    struct arena arena;
    struct pg_rows rows;
    struct buf sql;
    arena_init(&arena, TABLES_ARENA_BYTES_MAX);
    buf_init(&sql, SQL_BYTES_MAX);
    int result = pg_sync_text(sync, list_sql, &arena, &rows, err);
    for (size_t i = 0; result == OK && i < rows.count; i++) {
        buf_clear(&sql);
        result = put_account(&sql, pg_get_bytes(&rows, i, 0), account_id, err);
        if (result == OK)
            result = on_table(ctx, sql.ptr, err);
    }
    buf_deinit(&sql);
    arena_deinit(&arena);
    return result;
}

/* ---- users ---- */

enum { USERS_BATCH = 100 };

/* Calls on_users with the ids of at most USERS_BATCH users at a time, separated by commas, in the
 * order of the ids. A user that is made during the call may be missed. */
static int each_users(struct pg_sync *sync, struct uuid account_id,
                      int (*on_users)(void *ctx, slice ids, struct err *err), void *ctx,
                      struct err *err)
{
    static const char list_sql[] =
        "select coalesce(string_agg(u.user_id::text, ',' order by u.user_id), '') from (select "
        "t.user_id from sluice.account_user t where t.account_id = '%s' and t.user_id > '%s' "
        "order by t.user_id limit %d) u";
    char sql[sizeof(list_sql) + 2 * UUID_TEXT_LEN + 16];
    char account[UUID_TEXT_LEN + 1], after[UUID_TEXT_LEN + 1];
    struct uuid last = {{0}};
    struct arena arena;
    struct pg_rows rows;
    bool is_more = true;
    int result = OK;
    arena_init(&arena, TABLES_ARENA_BYTES_MAX);
    uuid_format(account_id, account);
    while (result == OK && is_more) {
        uuid_format(last, after);
        (void)snprintf(sql, sizeof(sql), list_sql, account, after, USERS_BATCH);
        arena_reset(&arena);
        result = pg_sync_text(sync, sql, &arena, &rows, err);
        slice ids = result == OK ? pg_get_bytes(&rows, 0, 0) : SLICE_NONE;
        is_more = ids.len > 0;
        if (!is_more)
            break;
        if (!uuid_parse(slice_from(ids, ids.len - UUID_TEXT_LEN), &last))
            result = err_set(err, ERR_IO, "the database gave no user's id");
        else
            result = on_users(ctx, ids, err);
    }
    arena_deinit(&arena);
    return result;
}

/* Calls on_owners for the users of the account, then for the account itself. */
static int each_owner(struct pg_sync *sync, struct uuid account_id,
                      int (*on_owners)(void *ctx, slice ids, struct err *err), void *ctx,
                      struct err *err)
{
    char id[UUID_TEXT_LEN + 1];
    uuid_format(account_id, id);
    int result = each_users(sync, account_id, on_owners, ctx, err);
    return result == OK ? on_owners(ctx, slice_cstr(id), err) : result;
}

/* ---- export ---- */

struct exporting {
    struct pg_sync *sync;
    struct account_export *export;
    struct arena arena; /* holds the rows of one batch */
};

static int fetch_batch(struct exporting *x, size_t *count, struct err *err)
{
    struct pg_rows rows;
    char sql[64];
    arena_reset(&x->arena);
    (void)snprintf(sql, sizeof(sql), "fetch %d from account_rows", ACCOUNT_ROWS_EXPORT_BATCH);
    int result = pg_sync_text(x->sync, sql, &x->arena, &rows, err);
    *count = result == OK ? rows.count : 0;
    for (size_t i = 0; result == OK && i < rows.count; i++) {
        result = x->export->on_line(x->export->owner, pg_get_bytes(&rows, i, 0), err);
        x->export->rows++;
    }
    return result;
}

static int export_table(void *ctx, const char *select, struct err *err)
{
    struct exporting *x = ctx;
    struct buf sql;
    size_t count = 0;
    buf_init(&sql, SQL_BYTES_MAX);
    buf_printf(&sql, "declare account_rows no scroll cursor for %s", select);
    buf_append_char(&sql, '\0');
    int result = buf_is_ok(&sql) ? pg_sync_run(x->sync, sql.ptr, err)
                                 : err_set(err, ERR_NOMEM, "out of memory");
    buf_deinit(&sql);
    do {
        if (result == OK)
            result = fetch_batch(x, &count, err);
    } while (result == OK && count > 0);
    /* The next table declares a cursor of the same name. */
    return result == OK ? pg_sync_run(x->sync, "close account_rows", err) : result;
}

/* A cluster's nodes have the rows of different users, so each user has statements of its own, as an
 * account has. */
static int export_users(void *ctx, slice ids, struct err *err)
{
    struct exporting *x = ctx;
    struct uuid user_id;
    int result = OK;
    while (result == OK && ids.len > 0) {
        ASSERT(uuid_parse(slice_split(&ids, ','), &user_id));
        result = each_table(x->sync, export_sql, user_id, export_table, x, err);
    }
    return result;
}

int store_account_export_sync(struct pg_sync *sync, struct uuid account_id,
                              struct account_export *export, struct err *err)
{
    struct exporting x = {.sync = sync, .export = export};
    struct err ignored;
    export->rows = 0;
    arena_init(&x.arena, BATCH_ARENA_BYTES_MAX);
    /* Repeatable read shows all tables as of one moment, while servers continue to write. The
     * transaction is read only, so nothing is locked. There is no statement_timeout, because a
     * large table may take long. */
    int result = pg_sync_run(sync,
                             "begin isolation level repeatable read, read only; "
                             "set local timezone to 'UTC'; set local statement_timeout to 0",
                             err);
    if (result == OK)
        result = each_table(sync, export_sql, account_id, export_table, &x, err);
    if (result == OK)
        result = each_users(sync, account_id, export_users, &x, err);
    (void)!pg_sync_run(sync, "rollback", &ignored); /* nothing was written */
    arena_deinit(&x.arena);
    return result;
}

/* ---- erasure ---- */

enum { ERASE_PAUSE_US = 20 * 1000 };

struct erasing {
    struct pg_sync *sync;
    uint64_t count;
};

static int ask_number(struct pg_sync *sync, const char *sql, int64_t *number, struct err *err)
{
    struct arena arena;
    struct pg_rows rows;
    uint64_t count = 0;
    arena_init(&arena, TABLES_ARENA_BYTES_MAX);
    int result = pg_sync_text(sync, sql, &arena, &rows, err);
    slice text = result == OK ? pg_get_bytes(&rows, 0, 0) : SLICE_NONE;
    if (result == OK && !slice_eq_cstr(text, "-1") && !slice_to_u64(text, INT64_MAX, &count))
        result = err_set(err, ERR_IO, "the database gave no count");
    *number = slice_eq_cstr(text, "-1") ? -1 : (int64_t)count;
    arena_deinit(&arena);
    return result;
}

/* Asks for a number about owners, whose ids need no quoting. */
static int ask_of_owners(struct pg_sync *sync, const char *before, slice ids, const char *after,
                         int64_t *number, struct err *err)
{
    struct buf sql;
    buf_init(&sql, SQL_BYTES_MAX);
    buf_printf(&sql, "%s'{%.*s}'%s", before, SLICE_ARG(ids), after);
    buf_append_char(&sql, '\0');
    int result = buf_is_ok(&sql) ? ask_number(sync, sql.ptr, number, err)
                                 : err_set(err, ERR_NOMEM, "out of memory");
    buf_deinit(&sql);
    return result;
}

/* Waits while a server erases users: one process at a time deletes rows. */
static int erase_owners(void *ctx, slice ids, struct err *err)
{
    struct erasing *erasing = ctx;
    int64_t count;
    do {
        int result = ask_of_owners(erasing->sync, "select sluice.rows_erase(", ids,
                                   "::uuid[], 1000, 2)", &count, err);
        if (result != OK)
            return result;
        /* servers that erase users have their turn, too */
        if (count != 0)
            (void)usleep(ERASE_PAUSE_US);
        erasing->count += count > 0 ? (uint64_t)count : 0;
    } while (count != 0);
    return OK;
}

int store_account_erase_rows_sync(struct pg_sync *sync, struct uuid account_id, uint64_t *rows,
                                  struct err *err)
{
    struct erasing erasing = {.sync = sync};
    int result = each_owner(sync, account_id, erase_owners, &erasing, err);
    *rows = erasing.count;
    return result;
}

static int count_claims(void *ctx, slice ids, struct err *err)
{
    struct erasing *claims = ctx;
    int64_t count = 0;
    int result = ask_of_owners(claims->sync,
                               "select count(*) from sluice.idempotency_key k where k.account_id = "
                               "any(",
                               ids, "::uuid[]) and k.state = 'in_flight'", &count, err);
    claims->count += (uint64_t)count;
    return result;
}

int store_account_claims_sync(struct pg_sync *sync, struct uuid account_id, uint64_t *count,
                              struct err *err)
{
    struct erasing claims = {.sync = sync};
    int result = each_owner(sync, account_id, count_claims, &claims, err);
    *count = claims.count;
    return result;
}

int store_account_delete_sync(struct pg_sync *sync, struct uuid account_id, struct err *err)
{
    char id[UUID_TEXT_LEN + 1], sql[256];
    uuid_format(account_id, id);
    (void)snprintf(sql, sizeof(sql),
                   "select case when " STORE_ONE_SHARD_AFTER_ANOTHER
                   " then sluice.account_remove('%s', true) end",
                   id);
    return pg_sync_run(sync, sql, err);
}
