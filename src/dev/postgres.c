/*
 * The private PostgreSQL; see postgres.h.
 */
#include "dev/postgres.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/slice.h"
#include "dev/postgres_folder.h"
#include "pg/sync.h"

enum {
    VERSION_MIN = 14,
    START_TIMEOUT_MS = 30000,
    STOP_TIMEOUT_MS = 15000,
    WAIT_MS = 5,
    ARENA_BYTES_MAX = 64 * 1024,
};

static void sleep_briefly(void)
{
    struct timespec wait = {.tv_nsec = WAIT_MS * 1000000L};
    (void)nanosleep(&wait, NULL);
}

/* ---- the programs ---- */

static const char versions_root[] = "/usr/lib/postgresql";

/* Debian has a folder for each version. wanted: a major version, 0 for the newest. */
static bool find_versioned(char *bin, long wanted)
{
    long best = 0;
    DIR *dir = opendir(versions_root);
    if (!dir)
        return false;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        long version = strtol(entry->d_name, NULL, 10);
        char path[DEV_PATH_MAX];
        (void)snprintf(path, sizeof(path), "%s/%ld/bin/postgres", versions_root, version);
        bool is_fit = wanted ? version == wanted : version >= VERSION_MIN && version > best;
        if (is_fit && access(path, X_OK) == 0)
            best = version;
    }
    (void)closedir(dir);
    (void)snprintf(bin, DEV_PATH_MAX, "%s/%ld/bin", versions_root, best);
    return best > 0;
}

/* Other systems have one version, in one of a few folders. */
static bool find_unversioned(char *bin)
{
    static const char *const folders[] = {"/usr/local/pgsql/bin", "/usr/local/bin", "/usr/bin"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        char path[DEV_PATH_MAX];
        (void)snprintf(path, sizeof(path), "%s/initdb", folders[i]);
        if (access(path, X_OK) == 0) {
            (void)snprintf(bin, DEV_PATH_MAX, "%s", folders[i]);
            return true;
        }
    }
    return false;
}

/* The major version that made the cluster; 0 when there is none. */
static long cluster_version(const struct dev_postgres *pg)
{
    char path[DEV_PATH_MAX + 16], text[16] = "";
    (void)snprintf(path, sizeof(path), "%s/PG_VERSION", pg->cluster);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (!fgets(text, sizeof(text), file))
        text[0] = '\0';
    (void)fclose(file);
    return strtol(text, NULL, 10);
}

/* A cluster can be served by its own major version only. */
static int find_programs(struct dev_postgres *pg, struct err *err)
{
    long wanted = cluster_version(pg);
    bool has_versions = access(versions_root, F_OK) == 0;
    /* Where versions have folders, the one of the cluster is required; elsewhere the server itself
     * checks. */
    if (find_versioned(pg->bin, wanted))
        return OK;
    if (!(wanted && has_versions) && find_unversioned(pg->bin))
        return OK;
    if (wanted)
        return err_set(err, ERR_NOTFOUND,
                       "%s was made by PostgreSQL %ld, which is not installed any more; install it "
                       "again, or remove the folder",
                       pg->cluster, wanted);
    return err_set(err, ERR_NOTFOUND,
                   "no PostgreSQL %d or newer is installed; on Debian: apt-get install postgresql "
                   "(`make run` does that)",
                   VERSION_MIN);
}

/* ---- the cluster ---- */

/* initdb writes to another name, which is renamed when it is complete: it may be killed midway. */
static int make_cluster(struct dev_postgres *pg, struct err *err)
{
    char program[DEV_PATH_MAX], part[DEV_PATH_MAX];
    if (dev_path_join(part, pg->home, "postgres.part", err) != OK ||
        dev_path_join(program, pg->bin, "initdb", err) != OK)
        return (int)err->code;
    if (access(part, F_OK) == 0)
        /* Left by an earlier start that was killed. */
        dev_postgres_remove_tree(part);
    if (dev_postgres_make_folder(part, 0700, dev_postgres_owner(pg), dev_postgres_group(pg), err) !=
        OK)
        return (int)err->code;
    const char *const argv[] = {program, "-D", part, "-U", "sluice",
                                /* Only the owner reaches the socket (0700), so no password is
                                 * needed. */
                                "--auth=trust", "-E", "UTF8", "--locale=C", "--data-checksums",
                                "--no-instructions", NULL};
    struct child_spec spec = {
        .name = "initdb", .argv = argv, .log_path = pg->log, .uid = pg->uid, .gid = pg->gid};
    if (child_run(&spec, err) != OK)
        return (int)err->code;
    if (rename(part, pg->cluster) != 0)
        return err_set(err, ERR_IO, "cannot rename %s: %s", part, strerror(errno));
    pg->is_new = true;
    return OK;
}

/* The postmaster may be stopping already: it gets SIGINT when its dev dies. Its pid file and
 * working directory show that it has ended; the pid alone stays valid until it is reaped. */
static int stop_orphan(const struct dev_postgres *pg, struct dev_stages *stages, struct err *err)
{
    pid_t pid = dev_postgres_find_postmaster(pg->cluster);
    if (pid == 0)
        return OK;
    dev_stage(stages, "stopping the PostgreSQL of an earlier run");
    /* SIGINT is PostgreSQL's fast shutdown: sessions are cut, data stays safe. */
    (void)kill(pid, SIGINT);
    uint64_t until = clock_mono_ns() + STOP_TIMEOUT_MS * 1000000ULL;
    while (dev_postgres_find_postmaster(pg->cluster) == pid) {
        if (clock_mono_ns() > until)
            return err_set(err, ERR_TIMEOUT,
                           "the PostgreSQL of an earlier run (process %d) does not stop", (int)pid);
        sleep_briefly();
    }
    return OK;
}

static int start_server(struct dev_postgres *pg, struct err *err)
{
    char program[DEV_PATH_MAX];
    if (dev_path_join(program, pg->bin, "postgres", err) != OK)
        return (int)err->code;
    const char *const argv[] = {program, "-D", pg->cluster, "-k", pg->sockets, "-c",
                                /* No port: nothing outside this user reaches the database. */
                                "listen_addresses=", "-c", "unix_socket_permissions=0700", "-c",
                                "max_connections=60", "-c", "log_min_messages=warning", NULL};
    struct child_spec spec = {.name = "postgres",
                              .argv = argv,
                              .log_path = pg->log,
                              .uid = pg->uid,
                              .gid = pg->gid,
                              .death_signal = SIGINT};
    return child_start(&pg->child, &spec, err);
}

/* libpq's form: in quotes, with a backslash before ' and \. */
static void write_url(struct dev_postgres *pg, const char *database)
{
    char quoted[2 * DEV_PATH_MAX];
    size_t len = 0;
    for (const char *c = pg->sockets; *c; c++) {
        if (*c == '\'' || *c == '\\')
            quoted[len++] = '\\';
        quoted[len++] = *c;
    }
    quoted[len] = '\0';
    (void)snprintf(pg->url, sizeof(pg->url), "host='%s' user=sluice dbname=%s", quoted, database);
}

/* Tries until the server answers; stops early when the server has ended. */
static struct pg_sync *connect_when_up(struct dev_postgres *pg, struct err *err)
{
    uint64_t until = clock_mono_ns() + START_TIMEOUT_MS * 1000000ULL;
    for (;;) {
        struct pg_sync *sync = pg_sync_open(pg->url, err);
        /* A child that has ended leaves its own error, with its log's last line. */
        if (sync || !child_is_running(&pg->child, pg->log, err))
            return sync;
        if (clock_mono_ns() > until) {
            (void)err_prefix(err, "PostgreSQL did not answer in %d s", START_TIMEOUT_MS / 1000);
            return NULL;
        }
        sleep_briefly();
    }
}

/* `create database` has no "if not exists". */
static int make_database(struct dev_postgres *pg, struct err *err)
{
    struct arena arena;
    struct pg_rows rows = {.count = 0};
    /* The database postgres always exists; the one of the service is made through it. */
    write_url(pg, "postgres");
    struct pg_sync *sync = connect_when_up(pg, err);
    if (!sync)
        return (int)err->code;
    arena_init(&arena, ARENA_BYTES_MAX);
    int result = pg_sync_text(sync, "select 1 from pg_database where datname = 'sluice'", &arena,
                              &rows, err);
    if (result == OK && rows.count == 0)
        result = pg_sync_run(sync, "create database sluice encoding 'UTF8'", err);
    arena_deinit(&arena);
    pg_sync_close(sync);
    write_url(pg, "sluice");
    return result;
}

int dev_postgres_start(struct dev_postgres *pg, const struct dev_folder *folder,
                       struct dev_stages *stages, struct err *err)
{
    if (dev_postgres_choose(pg, folder, err) != OK || find_programs(pg, err) != OK)
        return (int)err->code;
    /* 0 also for a folder without a cluster, which is the first start. */
    if (cluster_version(pg) == 0) {
        dev_stage(stages, "making a private PostgreSQL");
        if (make_cluster(pg, err) != OK)
            return (int)err->code;
    }
    /* Two servers on one cluster would destroy it. PostgreSQL's own lock file guards against that,
     * too. */
    if (stop_orphan(pg, stages, err) != OK)
        return (int)err->code;
    dev_stage(stages, "starting PostgreSQL");
    return start_server(pg, err);
}

int dev_postgres_wait(struct dev_postgres *pg, struct err *err)
{
    if (make_database(pg, err) == OK)
        return OK;
    dev_postgres_stop(pg);
    return (int)err->code;
}

void dev_postgres_stop(struct dev_postgres *pg)
{
    child_stop(&pg->child, SIGINT, STOP_TIMEOUT_MS);
    /* The cluster's own folder is never removed here. */
    if (pg->sockets[0] && strcmp(pg->sockets, pg->cluster) != 0)
        (void)rmdir(pg->sockets);
}
