/*
 * Migrations. The checksum is computed by the database itself (sha256, PostgreSQL 11), so that this
 * room needs no hash of its own.
 *
 * One advisory lock of the session serializes migrating processes; the lock ends with the
 * connection, so a process that dies leaves no lock. A file and its record commit together: after
 * any crash or lost connection the record shows exactly which files were applied, and the next run
 * continues from there. That is why no file may contain a statement that PostgreSQL refuses in a
 * transaction (create index concurrently).
 */
#include "pg/migrate.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "pg/script.h"
#include "pg/sync.h"

enum { MIGRATIONS_MAX = 1000, FILE_BYTES_MAX = 1024 * 1024 };

struct migration {
    const struct embed_file *file;
    unsigned version;
};

struct migrator {
    struct pg_sync *sync;
    struct arena arena;
    struct err *err;
    struct migration *known;
    unsigned known_count, found;
};

/* ---- files ---- */

/* Returns the version: 1 for "0001_base.sql", 0 for a file that is not a migration, such as
 * citus.sql, which an operator runs. */
static unsigned file_version(const struct embed_file *file)
{
    slice name = slice_cstr(file->name);
    uint64_t version;
    if (name.len < 6 || name.ptr[4] != '_' || !slice_ends_with(name, SLICE(".sql")))
        return 0;
    if (!slice_to_u64(slice_first(name, 4), MIGRATIONS_MAX, &version))
        return 0;
    return (unsigned)version;
}

unsigned pg_schema_known(const struct embed_file *files, size_t file_count)
{
    unsigned known = 0;
    for (size_t i = 0; i < file_count; i++)
        known += file_version(&files[i]) > 0;
    return known;
}

static int migrator_list(struct migrator *m, const struct embed_file *files, size_t file_count)
{
    m->known = ARENA_ARRAY(&m->arena, struct migration, file_count + 1);
    if (!m->known)
        return err_set(m->err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < file_count; i++) {
        unsigned version = file_version(&files[i]);
        if (version == 0)
            continue;
        /* The numbers have no gaps: files are applied after the highest recorded number, so a file
         * inserted below it later would never be applied. */
        if (version != m->known_count + 1)
            return err_set(m->err, ERR_INVALID, "migration %s is out of order: number %04u is due",
                           files[i].name, m->known_count + 1);
        m->known[m->known_count++] = (struct migration){&files[i], version};
    }
    return OK;
}

/* ---- what is recorded ---- */

static const struct pg_stmt checksum_stmt = {
    .name = "migration_checksum",
    .sql = "select :ord, sha256(:content) @from",
    PG_TAKES(PG_ARG("content", PG_BYTES)),
    PG_GIVES(PG_ARG("checksum", PG_BYTES)),
    .no_account = "looks at no table",
};

static const struct pg_stmt recorded_stmt = {
    .name = "migration_recorded",
    .sql = "select :ord, version::bigint, name, checksum from sluice.migration order by version",
    PG_GIVES(PG_ARG("version", PG_I64), PG_ARG("name", PG_TEXT), PG_ARG("checksum", PG_BYTES)),
    .no_account = "the schema's own history",
};

static const struct pg_stmt record_stmt = {
    .name = "migration_record",
    .sql = "insert into sluice.migration (version, name, checksum, applied_at) "
           "@row :version, :name, sha256(:content), now() @end",
    PG_TAKES(PG_ARG("version", PG_I64), PG_ARG("name", PG_TEXT), PG_ARG("content", PG_BYTES)),
    .match = PG_MATCH_NONE,
    .access = PG_WRITE_ONCE,
    .no_account = "the schema's own history",
};

static const struct pg_stmt clock_stmt = {
    .name = "clock",
    .sql = "select :ord, clock_timestamp() @from",
    PG_GIVES(PG_ARG("now", PG_TIME)),
    .no_account = "looks at no table",
};

static slice file_bytes(const struct embed_file *file)
{
    return slice_of(file->data, file->len);
}

static int migrator_compare(struct migrator *m, const struct pg_rows *rows, size_t row)
{
    unsigned version = (unsigned)pg_get_i64(rows, row, 0);
    slice name = pg_get_bytes(rows, row, 1);
    /* Rows are ordered by version and begin with 1. */
    if (version != row + 1)
        return err_set(m->err, ERR_REFUSED,
                       "the database's record of migrations has a gap before number %u", version);
    /* Applied by a newer binary: there is no file to compare with. The caller decides whether it
     * may serve. */
    if (version > m->known_count)
        return OK;
    const struct embed_file *file = m->known[version - 1].file;
    struct pg_value content = pg_bytes(file_bytes(file));
    struct pg_rows ours;
    int rc = pg_sync_exec(m->sync, &checksum_stmt, &content, &m->arena, &ours, m->err);
    if (rc != OK)
        return rc;
    if (slice_eq(pg_get_bytes(&ours, 0, 0), pg_get_bytes(rows, row, 2)))
        return OK;
    return err_set(m->err, ERR_REFUSED,
                   "migration %u was applied as %.*s, and its contents differ from this binary's "
                   "%s: the database belongs to another build of sluice",
                   version, SLICE_ARG(name), file->name);
}

/* Sets `found`. A database without the table is at version 0. to_regclass is also null if the
 * schema is missing, and needs no permission to read it. */
static int migrator_read(struct migrator *m)
{
    struct pg_rows rows;
    int rc = pg_sync_text(m->sync, "select to_regclass('sluice.migration') is not null", &m->arena,
                          &rows, m->err);
    if (rc != OK || !slice_eq(pg_get_bytes(&rows, 0, 0), SLICE("t")))
        return rc;
    rc = pg_sync_exec(m->sync, &recorded_stmt, NULL, &m->arena, &rows, m->err);
    for (size_t row = 0; rc == OK && row < rows.count; row++)
        rc = migrator_compare(m, &rows, row);
    if (rc == OK)
        m->found = (unsigned)rows.count;
    return rc;
}

/* ---- applying ---- */

static int migrator_prepare(struct migrator *m)
{
    struct pg_rows rows;
    /* Checked before anything is created: the encoding of a database cannot be changed later,
     * and text is stored and sorted as UTF-8. */
    int rc = pg_sync_text(m->sync, "show server_encoding", &m->arena, &rows, m->err);
    if (rc != OK)
        return rc;
    if (!slice_eq(pg_get_bytes(&rows, 0, 0), SLICE("UTF8")))
        return err_set(m->err, ERR_REFUSED,
                       "the database's encoding is %.*s; create it with encoding 'UTF8'",
                       SLICE_ARG(pg_get_bytes(&rows, 0, 0)));
    /* The lock's number is arbitrary. A second `migrate` waits here, without a limit, since the
     * first may take long; then it reads the record and finds nothing to do. The time limit is then
     * set for DDL, which must not wait long for a running transaction while others wait for it.
     * Citus refuses a file that changes distributed and copied tables unless it runs shard by
     * shard; elsewhere that setting has no effect. */
    rc = pg_sync_run(m->sync,
                     "set lock_timeout = 0; select pg_advisory_lock(7453010373645639521);"
                     "set lock_timeout = '10s';"
                     "set citus.multi_shard_modify_mode = 'sequential'",
                     m->err);
    if (rc != OK)
        return rc;
    return pg_sync_run(m->sync,
                       "create schema if not exists sluice;"
                       "create table if not exists sluice.migration ("
                       " version integer primary key check (version > 0),"
                       " name text not null, checksum bytea not null,"
                       " applied_at timestamptz not null)",
                       m->err);
}

static int migrator_apply_in_transaction(struct migrator *m, const struct migration *migration)
{
    const struct embed_file *file = migration->file;
    slice script = file_bytes(file), statement;
    while (pg_script_next(&script, &statement)) {
        /* PQexec requires a NUL at the end. */
        char *sql = arena_cstr(&m->arena, statement);
        if (!sql)
            return err_set(m->err, ERR_NOMEM, "the file is too large");
        int rc = pg_sync_run(m->sync, sql, m->err);
        if (rc != OK)
            return rc;
    }
    struct pg_value params[] = {pg_i64(migration->version), pg_text(slice_cstr(file->name)),
                                pg_bytes(file_bytes(file))};
    return pg_sync_exec(m->sync, &record_stmt, params, NULL, NULL, m->err);
}

static int migrator_apply(struct migrator *m, const struct migration *migration)
{
    int rc = pg_sync_run(m->sync, "begin", m->err);
    if (rc != OK)
        return rc;
    rc = migrator_apply_in_transaction(m, migration);
    if (rc == OK)
        rc = pg_sync_run(m->sync, "commit", m->err);
    if (rc == OK)
        return OK;
    /* A connection lost in "commit" is reported this way, too. The next run of `migrate` finds
     * out from the record. */
    err_prefix(m->err, "migration %s failed and was rolled back", migration->file->name);
    struct err ignored;
    (void)!pg_sync_run(m->sync, "rollback", &ignored);
    return rc;
}

static int migrator_run(struct migrator *m, const struct pg_migrate_events *events,
                        unsigned *applied)
{
    int rc = migrator_prepare(m);
    if (rc == OK)
        rc = migrator_read(m);
    if (rc == OK && m->found > m->known_count)
        rc = err_set(m->err, ERR_REFUSED,
                     "the database is at schema version %u, but this binary knows only %u: migrate "
                     "with the newer sluice",
                     m->found, m->known_count);
    /* Versions begin with 1, so known[found] is the first missing migration. */
    for (unsigned i = m->found; rc == OK && i < m->known_count; i++) {
        if (events && events->on_apply)
            events->on_apply(events->owner, m->known[i].version, m->known[i].file->name);
        rc = migrator_apply(m, &m->known[i]);
        if (rc == OK && applied)
            ++*applied;
    }
    return rc;
}

/* ---- entry points ---- */

static int migrator_open(struct migrator *m, const char *conninfo, const struct embed_file *files,
                         size_t file_count, struct err *err)
{
    *m = (struct migrator){.err = err};
    /* The copies of all files and the recorded rows are kept until the end; sql/ has tens of KB. */
    arena_init(&m->arena, 4 * (size_t)FILE_BYTES_MAX);
    int rc = migrator_list(m, files, file_count);
    if (rc != OK)
        return rc;
    m->sync = pg_sync_open(conninfo, err);
    return m->sync ? OK : ERR_IO;
}

static void migrator_close(struct migrator *m)
{
    pg_sync_close(m->sync);
    arena_deinit(&m->arena);
}

int pg_migrate(const char *conninfo, const struct embed_file *files, size_t file_count,
               const struct pg_migrate_events *events, unsigned *applied, struct err *err)
{
    struct migrator m;
    struct err spare;
    if (applied)
        *applied = 0;
    int rc = migrator_open(&m, conninfo, files, file_count, err ? err : &spare);
    if (rc == OK)
        rc = migrator_run(&m, events, applied);
    migrator_close(&m);
    return rc;
}

static int schema_check(const struct migrator *m)
{
    if (pg_schema_is_served(m->known_count, m->found))
        return OK;
    if (m->found == 0)
        return err_set(m->err, ERR_REFUSED,
                       "the database has no sluice schema yet: run `sluice migrate`");
    if (m->found < m->known_count)
        return err_set(
            m->err, ERR_REFUSED,
            "the database is at schema version %u, but this binary needs %u: run `sluice migrate`",
            m->found, m->known_count);
    return err_set(m->err, ERR_REFUSED,
                   "the database is at schema version %u, but this binary serves %u and %u: start "
                   "the newer sluice",
                   m->found, m->known_count, m->known_count + 1);
}

static int schema_read(struct migrator *m, const char *conninfo, const struct embed_file *files,
                       size_t file_count, struct err *err)
{
    int rc = migrator_open(m, conninfo, files, file_count, err);
    if (rc == OK)
        rc = migrator_read(m);
    return rc == OK ? schema_check(m) : rc;
}

int pg_schema_check(const char *conninfo, const struct embed_file *files, size_t file_count,
                    unsigned *version, struct err *err)
{
    struct migrator m;
    struct err spare;
    int rc = schema_read(&m, conninfo, files, file_count, err ? err : &spare);
    if (version)
        *version = m.found;
    migrator_close(&m);
    return rc;
}

/* Called before any time is written that another process compares. */
static int share_clock(struct migrator *m)
{
    struct pg_rows now;
    uint64_t sent_ns = clock_boot_ns();
    int rc = pg_sync_exec(m->sync, &clock_stmt, NULL, &m->arena, &now, m->err);
    if (rc == OK)
        clock_share(pg_get_time(&now, 0, 0), sent_ns, clock_boot_ns());
    return rc;
}

struct pg_sync *pg_schema_open(const char *conninfo, const struct embed_file *files,
                               size_t file_count, struct err *err)
{
    struct migrator m;
    struct pg_sync *sync = NULL;
    if (schema_read(&m, conninfo, files, file_count, err) == OK && share_clock(&m) == OK) {
        sync = m.sync;
        /* migrator_close leaves the connection to the caller. */
        m.sync = NULL;
    }
    migrator_close(&m);
    return sync;
}
