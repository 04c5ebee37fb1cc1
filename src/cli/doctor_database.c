/*
 * The database checks of `sluice doctor`.
 */
#include "base/clock.h"
#include "base/embed.h"
#include "cli/doctor.h"
#include "shard/citus.h"
#include "pg/migrate.h"
#include "vault/seal.h"

enum { VERSION_MIN = 140000, CLOCK_OFF_MS = 1000 };

/* A setting of PostgreSQL that must have a value, or must not have it (is_forbidden). */
struct wanted {
    const char *name, *value;
    bool is_forbidden;
    enum doctor_mark mark; /* the finding if the setting has another value */
    const char *because, *todo;
};

static const struct wanted wanted[] = {
    {"server_encoding", "UTF8", false, DOCTOR_FAIL, "texts in any language have to be stored",
     "Create the database with encoding 'UTF8'."},
    {"fsync", "on", false, DOCTOR_FAIL, "a crash can corrupt the database",
     "Set fsync = on in postgresql.conf."},
    {"full_page_writes", "on", false, DOCTOR_WARN, "a crash can corrupt pages",
     "Set full_page_writes = on, unless the file system writes pages whole."},
    {"synchronous_commit", "off", true, DOCTOR_FAIL,
     "a crash can lose results that clients have received, and a write can be made twice",
     "Set synchronous_commit = on, at least for sluice's user."},
    {"default_transaction_read_only", "on", true, DOCTOR_FAIL, "nothing can be stored",
     "Reset it for sluice's user and database."},
    {"default_transaction_isolation", "read committed", false, DOCTOR_FAIL,
     "concurrent statements of several servers would fail",
     "Reset it for sluice's user and database."},
    {"idle_session_timeout", "0", false, DOCTOR_WARN, "idle connections are closed",
     "Set it to 0 for sluice's user."},
    {"autovacuum", "on", false, DOCTOR_WARN, "tables and indexes grow without limit",
     "Set autovacuum = on."},
};

/* Reads one row as text. Returns false, after a report, if the database does not answer. */
static bool ask_text(struct doctor *doctor, const char *sql, struct pg_rows *rows)
{
    struct session *session = doctor->session;
    if (pg_sync_text(session->sync, sql, &session->arena, rows, &session->err) == OK)
        return true;
    doctor_say(doctor, DOCTOR_FAIL, "database",
               "Check whether sluice's user may read sluice's schema.", "%s", session->err.text);
    return false;
}

/* Returns a cell of the first row, or 0 if it is not a number. */
static int64_t number_at(const struct pg_rows *rows, size_t column)
{
    uint64_t number = 0;
    (void)!slice_to_u64(pg_get_bytes(rows, 0, column), INT64_MAX, &number);
    return (int64_t)number;
}

/* Opens the session's connection and reports which server answers. Returns false if no further
 * query is possible. */
static bool connect_database(struct doctor *doctor)
{
    struct session *session = doctor->session;
    const struct config *config = session->config;
    struct pg_rows rows;
    if (config->database_url.len == 0) {
        doctor_say(doctor, DOCTOR_FAIL, "database", "Set DATABASE_URL or database-url.",
                   "is not set");
        return false;
    }
    session->sync = pg_sync_open(config->database_url.ptr, &session->err);
    if (!session->sync) {
        doctor_say(doctor, DOCTOR_FAIL, "database",
                   "Check whether it runs and lets the server's user in (database-url, "
                   "pg_hba.conf). If database-url names no user, run this command as that user.",
                   "%s", session->err.text);
        return false;
    }
    if (!ask_text(
            doctor,
            "select current_setting('server_version_num'), current_setting('server_version'), "
            "pg_is_in_recovery()::integer, current_user, current_database()",
            &rows))
        return false;
    bool is_old = number_at(&rows, 0) < VERSION_MIN, is_standby = number_at(&rows, 2) == 1;
    doctor_say(doctor, is_old || is_standby ? DOCTOR_FAIL : DOCTOR_OK, "database",
               is_old       ? "Upgrade to PostgreSQL 14 or newer."
               : is_standby ? "Point database-url to the primary (target_session_attrs=read-write)."
                            : NULL,
               "PostgreSQL %.*s, user %.*s, database %.*s%s", SLICE_ARG(pg_get_bytes(&rows, 0, 1)),
               SLICE_ARG(pg_get_bytes(&rows, 0, 3)), SLICE_ARG(pg_get_bytes(&rows, 0, 4)),
               is_standby ? ": a standby" : "");
    return true;
}

static void check_settings(struct doctor *doctor)
{
    struct pg_rows rows;
    size_t well = 0;
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        char sql[128];
        (void)snprintf(sql, sizeof(sql), "select current_setting('%s')", wanted[i].name);
        if (!ask_text(doctor, sql, &rows))
            return;
        slice value = pg_get_bytes(&rows, 0, 0);
        if (slice_eq_cstr(value, wanted[i].value) != wanted[i].is_forbidden)
            well++;
        else
            doctor_say(doctor, wanted[i].mark, "database", wanted[i].todo, "%s is %.*s: %s",
                       wanted[i].name, SLICE_ARG(value), wanted[i].because);
    }
    if (well == ARRAY_LEN(wanted))
        doctor_say(doctor, DOCTOR_OK, "database", NULL, "%zu settings are right", well);
}

/* Each process opens its writers and readers, and one connection that listens for notifications. */
static void check_room(struct doctor *doctor)
{
    const struct config *config = doctor->session->config;
    uint64_t processes = config->workers > 0 ? config->workers : 1;
    int64_t needed =
        (int64_t)(processes * (config->database_writers + config->database_readers + 1));
    struct pg_rows rows;
    if (!ask_text(doctor,
                  "select current_setting('max_connections')::integer - "
                  "current_setting('superuser_reserved_connections')::integer",
                  &rows))
        return;
    bool is_enough = number_at(&rows, 0) >= needed;
    doctor_say(doctor, is_enough ? DOCTOR_OK : DOCTOR_FAIL, "database",
               is_enough ? NULL
                         : "Raise max_connections, or lower workers, database-writers or "
                           "database-readers.",
               "%lld connections may be open, and this server opens %lld",
               (long long)number_at(&rows, 0), (long long)needed);
}

/* Makes the check that `serve` makes before it starts: the migrations, and whether tables are
 * distributed. */
static void check_version(struct doctor *doctor)
{
    struct session *session = doctor->session;
    const struct config *config = session->config;
    struct err err;
    unsigned version = 0;
    bool is_sharded = slice_eq_cstr(config->database_batch, "sharded");
    if (pg_schema_check(config->database_url.ptr, embed_sql, embed_sql_count, &version, &err) != OK)
        doctor_say(doctor, DOCTOR_FAIL, "schema",
                   "`sluice migrate` brings the database to this program's schema. If the schema "
                   "is newer than this program, install the newer program.",
                   "%s", err.text);
    else if (citus_check(session->sync, is_sharded, &err) != OK)
        doctor_say(doctor, DOCTOR_FAIL, "schema",
                   "Set database-batch to match the tables: sharded after `sluice migrate "
                   "--citus`, otherwise set.",
                   "%s", err.text);
    else
        doctor_say(doctor, DOCTOR_OK, "schema", NULL, "version %u, and this program has %u",
                   version, pg_schema_known(embed_sql, embed_sql_count));
}

/* Compares the clock of this machine with the database's; the round trip is the error of the
 * measurement. */
static void check_clocks(struct doctor *doctor)
{
    struct pg_rows rows;
    int64_t before = clock_wall_us();
    if (!ask_text(doctor, "select (extract(epoch from clock_timestamp()) * 1000000)::bigint",
                  &rows))
        return;
    int64_t after = clock_wall_us(), theirs = number_at(&rows, 0);
    int64_t off_ms = (theirs < before  ? before - theirs
                      : theirs > after ? theirs - after
                                       : 0) /
                     1000;
    bool is_well = off_ms < CLOCK_OFF_MS;
    doctor_say(doctor, is_well ? DOCTOR_OK : DOCTOR_WARN, "clock",
               is_well ? NULL : "Run a time daemon on both machines.",
               "%lld ms from the database's", (long long)off_ms);
}

/* Reports credentials that no key of the ring can open. */
static void check_sealed(struct doctor *doctor)
{
    const struct session *session = doctor->session;
    struct pg_rows rows;
    size_t closed = 0;
    if (!ask_text(doctor,
                  "select c.key_id, count(*) from (select key_id from sluice.connection union all "
                  "select key_id from sluice.oauth_client where octet_length(sealed) > 0 union all "
                  "select key_id from sluice.webhook) c group by c.key_id",
                  &rows))
        return;
    for (size_t i = 0; session->ring && i < rows.count; i++) {
        slice key_id = pg_get_bytes(&rows, i, 0);
        if (vault_ring_has(session->ring, key_id))
            continue;
        closed++;
        doctor_say(doctor, DOCTOR_FAIL, "master-key",
                   "Add that key to master-key-file, or reconnect the apps and roll the webhooks.",
                   "%.*s credentials are sealed with key %.*s, which "
                   "is missing",
                   SLICE_ARG(pg_get_bytes(&rows, i, 1)), SLICE_ARG(key_id));
    }
    if (session->ring && closed == 0)
        doctor_say(doctor, DOCTOR_OK, "master-key", NULL,
                   "all stored credentials are sealed with keys of this server");
}

/* A key whose policy no longer exists may do nothing. No command and no request lets that happen.
 */
static void check_policies(struct doctor *doctor)
{
    struct pg_rows rows;
    if (!ask_text(doctor,
                  "select count(*) from sluice.api_key k where k.policy is not null and "
                  "k.revoked_at is null and coalesce(case when k.user_id is null then k.expires_at "
                  "else k.ends_at end > now(), true) and "
                  "not exists (select from sluice.policy p where p.account_id = k.account_id and "
                  "p.name = k.policy)",
                  &rows))
        return;
    if (number_at(&rows, 0) > 0)
        doctor_say(doctor, DOCTOR_WARN, "policies",
                   "`sluice keys list ACCOUNT` shows a key's policy, `sluice policy set` makes it.",
                   "%lld keys name a policy that does not exist, so they may do nothing",
                   (long long)number_at(&rows, 0));
}

void doctor_check_database(struct doctor *doctor)
{
    if (!connect_database(doctor))
        return;
    check_settings(doctor);
    check_room(doctor);
    check_clocks(doctor);
    size_t failed = doctor->counts[DOCTOR_FAIL];
    check_version(doctor);
    if (doctor->counts[DOCTOR_FAIL] != failed) /* the schema cannot be read */
        return;
    check_sealed(doctor);
    check_policies(doctor);
}
