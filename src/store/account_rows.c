/*
 * Handles the rows of an account in all tables. The database makes the statements from its own
 * catalog and quotes the names; this file only inserts the account's id, in canonical form. Tables
 * are listed at each call, so a table that a later migration adds is covered.
 */
#include "store/account_rows.h"

#include <stdio.h>

#include "base/buf.h"
#include "store/internal.h"

enum { TABLES_ARENA_BYTES_MAX = 4 * 1024 * 1024, BATCH_ARENA_BYTES_MAX = 1024 * 1024 * 1024 };

#define SQL_BYTES_MAX ((size_t)64 * 1024)

#define HAS_ACCOUNT_ID                                                                \
    "c.relnamespace = 'sluice'::regnamespace and exists (select from pg_attribute a " \
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
    "and (c.relname, a.attname) <> ('execution_input', 'words')), c.relname, "
    "(select string_agg(format('t.%I', a.attname), ', ' order by array_position("
    "i.indkey::int2[], a.attnum)) from pg_index i join pg_attribute a on a.attrelid = c.oid "
    "and a.attnum = any(i.indkey::int2[]) where i.indrelid = c.oid and i.indisprimary)) "
    "from pg_class c where c.relkind in ('r', 'p') and not c.relispartition and " HAS_ACCOUNT_ID
    "order by c.relname <> 'account', c.relname";

/* Deletes a batch from each table that contains rows itself (partitions, not their parents). The
 * rows are selected by ctid, because a DELETE has no LIMIT; ctids are found by the key's index
 * and are stable within the statement. */
static const char erase_sql[] =
    "select format('with gone as (delete from sluice.%1$I t where t.account_id = %%s and t.ctid = "
    "any(array(select k.ctid from sluice.%1$I k where k.account_id = %%s limit 1000)) "
    "returning 1) select count(*) from gone', c.relname) "
    "from pg_class c where c.relkind = 'r' and c.relname not in ('account', 'account_user') "
    "and " HAS_ACCOUNT_ID "order by c.relname";

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

/* Calls on_user for each user, in the order of their ids. A cluster's nodes have the rows of
 * different users, so each user has statements of its own, as an account has. A user that is made
 * during the call may be missed. */
static int each_user(struct pg_sync *sync, struct uuid account_id,
                     int (*on_user)(void *ctx, struct uuid user_id, struct err *err), void *ctx,
                     struct err *err)
{
    static const char list_sql[] = "select user_id::text from sluice.account_user "
                                   "where account_id = '%s' and user_id > '%s' "
                                   "order by user_id limit %d";
    char sql[sizeof(list_sql) + 2 * UUID_TEXT_LEN + 16];
    char account[UUID_TEXT_LEN + 1], after[UUID_TEXT_LEN + 1];
    struct uuid user_id = {{0}};
    struct arena arena;
    struct pg_rows rows = {.count = USERS_BATCH};
    int result = OK;
    arena_init(&arena, TABLES_ARENA_BYTES_MAX);
    uuid_format(account_id, account);
    while (result == OK && rows.count == USERS_BATCH) {
        uuid_format(user_id, after);
        (void)snprintf(sql, sizeof(sql), list_sql, account, after, USERS_BATCH);
        arena_reset(&arena);
        result = pg_sync_text(sync, sql, &arena, &rows, err);
        for (size_t i = 0; result == OK && i < rows.count; i++) {
            if (!uuid_parse(pg_get_bytes(&rows, i, 0), &user_id))
                result = err_set(err, ERR_IO, "the database gave no user's id");
            else
                result = on_user(ctx, user_id, err);
        }
    }
    arena_deinit(&arena);
    return result;
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

static int export_user(void *ctx, struct uuid user_id, struct err *err)
{
    struct exporting *x = ctx;
    return each_table(x->sync, export_sql, user_id, export_table, x, err);
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
        result = each_user(sync, account_id, export_user, &x, err);
    (void)!pg_sync_run(sync, "rollback", &ignored); /* nothing was written */
    arena_deinit(&x.arena);
    return result;
}

/* ---- erasure ---- */

struct erasing {
    struct pg_sync *sync;
    uint64_t rows, refused;
};

static int ask_count(struct pg_sync *sync, const char *sql, uint64_t *count, struct err *err)
{
    struct arena arena;
    struct pg_rows rows;
    arena_init(&arena, TABLES_ARENA_BYTES_MAX);
    int result = pg_sync_text(sync, sql, &arena, &rows, err);
    if (result == OK && !slice_to_u64(pg_get_bytes(&rows, 0, 0), UINT64_MAX, count))
        result = err_set(err, ERR_IO, "the database gave no count");
    arena_deinit(&arena);
    return result;
}

/* 23503 is foreign_key_violation: rows of another table still refer to these. The table is retried
 * in the next pass, after the others. */
static int erase_table(void *ctx, const char *sql, struct err *err)
{
    struct erasing *erasing = ctx;
    uint64_t count;
    do {
        int result = ask_count(erasing->sync, sql, &count, err);
        if (result == ERR_INVALID && strcmp(pg_sync_sqlstate(erasing->sync), "23503") == 0) {
            erasing->refused++;
            return OK;
        }
        if (result != OK)
            return result;
        erasing->rows += count;
    } while (count > 0);
    return OK;
}

/* Each pass except the last removes rows, so the depth of the references limits the number of
 * passes. */
static int erase_owner(void *ctx, struct uuid owner, struct err *err)
{
    struct erasing *erasing = ctx;
    uint64_t before;
    do {
        before = erasing->rows;
        erasing->refused = 0;
        int result = each_table(erasing->sync, erase_sql, owner, erase_table, erasing, err);
        if (result != OK)
            return result;
    } while (erasing->refused > 0 && erasing->rows > before);
    if (erasing->refused == 0)
        return OK;
    return err_set(err, ERR_INVALID, "rows of other accounts refer to rows of this one");
}

int store_account_erase_rows_sync(struct pg_sync *sync, struct uuid account_id, uint64_t *rows,
                                  struct err *err)
{
    struct erasing erasing = {.sync = sync};
    int result = each_user(sync, account_id, erase_owner, &erasing, err);
    if (result == OK)
        result = erase_owner(&erasing, account_id, err);
    *rows = erasing.rows;
    return result;
}

static int ask_of_account(struct pg_sync *sync, const char *text, struct uuid account_id,
                          uint64_t *count, struct err *err)
{
    struct buf sql;
    buf_init(&sql, SQL_BYTES_MAX);
    int result = put_account(&sql, slice_cstr(text), account_id, err);
    if (result == OK)
        result = ask_count(sync, sql.ptr, count, err);
    buf_deinit(&sql);
    return result;
}

struct claiming {
    struct pg_sync *sync;
    uint64_t count;
};

static int count_claims(void *ctx, struct uuid owner, struct err *err)
{
    struct claiming *claiming = ctx;
    uint64_t count = 0;
    int result = ask_of_account(claiming->sync,
                                "select count(*) from sluice.idempotency_key k where "
                                "k.account_id = %s and k.state = 'in_flight'",
                                owner, &count, err);
    claiming->count += count;
    return result;
}

int store_account_claims_sync(struct pg_sync *sync, struct uuid account_id, uint64_t *count,
                              struct err *err)
{
    struct claiming claiming = {.sync = sync};
    int result = each_user(sync, account_id, count_claims, &claiming, err);
    if (result == OK)
        result = count_claims(&claiming, account_id, err);
    *count = claiming.count;
    return result;
}

/* The list of users goes last, so that each earlier pass finds the rows that servers still write
 * for them. */
int store_account_delete_sync(struct pg_sync *sync, struct uuid account_id, struct err *err)
{
    static const char *const texts[] = {
        "with gone as (delete from sluice.account_user t where t.account_id = %s returning 1) "
        "select count(*) from gone",
        "with gone as (delete from sluice.account t where t.account_id = %s returning 1) "
        "select count(*) from gone"};
    uint64_t count;
    struct err ignored;
    int result = pg_sync_run(sync, "begin", err);
    for (size_t i = 0; result == OK && i < ARRAY_LEN(texts); i++)
        result = ask_of_account(sync, texts[i], account_id, &count, err);
    if (result == OK)
        return pg_sync_run(sync, "commit", err);
    (void)!pg_sync_run(sync, "rollback", &ignored);
    return result;
}
