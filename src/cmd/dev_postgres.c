/*
 * The private PostgreSQL; see dev_postgres.h.
 */
#include "cmd/dev_postgres.h"

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
#include "cmd/dev_postgres_place.h"
#include "pg/sync.h"

enum {
    VERSION_MIN = 14,
    START_TIMEOUT_MS = 30000,
    STOP_TIMEOUT_MS = 15000,
    WAIT_MS = 5,
    ARENA_BYTES_MAX = 64 * 1024,
};

static void wait_a_little(void)
{
    struct timespec wait = {.tv_nsec = WAIT_MS * 1000000L};
    (void)nanosleep(&wait, NULL);
}

/* ---- the programs ---- */

static const char versions_root[] = "/usr/lib/postgresql";

/* Debian keeps each version in a folder of its own. wanted: a major version, 0 for the newest. */
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

/* Elsewhere there is one version, in a usual place. */
static bool find_unversioned(char *bin)
{
    static const char *const places[] = {"/usr/local/pgsql/bin", "/usr/local/bin", "/usr/bin"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char path[DEV_PATH_MAX];
        (void)snprintf(path, sizeof(path), "%s/initdb", places[i]);
        if (access(path, X_OK) == 0) {
            (void)snprintf(bin, DEV_PATH_MAX, "%s", places[i]);
            return true;
        }
    }
    return false;
}

/* The major version that a cluster was made by, 0 when there is none. */
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

/* A cluster is served by its own version only. */
static int find_programs(struct dev_postgres *pg, struct err *err)
{
    long wanted = cluster_version(pg);
    bool has_versions = access(versions_root, F_OK) == 0;
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

/* Under a name of its own until it is whole: initdb may be killed. */
static int make_cluster(struct dev_postgres *pg, struct err *err)
{
    char program[DEV_PATH_MAX], part[DEV_PATH_MAX];
    if (dev_path_join(part, pg->home, "postgres.part", err) != OK ||
        dev_path_join(program, pg->bin, "initdb", err) != OK)
        return (int)err->code;
    if (access(part, F_OK) == 0)
        dev_postgres_remove_tree(part);
    if (dev_postgres_make_folder(part, 0700, dev_postgres_owner(pg), dev_postgres_group(pg), err) !=
        OK)
        return (int)err->code;
    const char *const argv[] = {program,
                                "-D",
                                part,
                                "-U",
                                "sluice",
                                "--auth=trust",
                                "-E",
                                "UTF8",
                                "--locale=C",
                                "--data-checksums",
                                "--no-instructions",
                                NULL};
    struct child_spec spec = {
        .name = "initdb", .argv = argv, .log_path = pg->log, .uid = pg->uid, .gid = pg->gid};
    if (child_run(&spec, err) != OK)
        return (int)err->code;
    if (rename(part, pg->cluster) != 0)
        return err_set(err, ERR_IO, "cannot rename %s: %s", part, strerror(errno));
    pg->is_new = true;
    return OK;
}

/* It may be going down already (it gets SIGINT when its sluice dies). Watching its file and its
 * working directory, not its pid, since nobody may reap it. */
static int stop_orphan(const struct dev_postgres *pg, struct dev_stages *stages, struct err *err)
{
    pid_t pid = dev_postgres_find_postmaster(pg->cluster);
    if (pid == 0)
        return OK;
    dev_stage(stages, "stopping the PostgreSQL of an earlier run");
    (void)kill(pid, SIGINT);
    uint64_t until = clock_mono_ns() + STOP_TIMEOUT_MS * 1000000ULL;
    while (dev_postgres_find_postmaster(pg->cluster) == pid) {
        if (clock_mono_ns() > until)
            return err_set(err, ERR_TIMEOUT,
                           "the PostgreSQL of an earlier run (process %d) does not stop", (int)pid);
        wait_a_little();
    }
    return OK;
}

static int start_server(struct dev_postgres *pg, struct err *err)
{
    char program[DEV_PATH_MAX];
    if (dev_path_join(program, pg->bin, "postgres", err) != OK)
        return (int)err->code;
    const char *const argv[] = {program,
                                "-D",
                                pg->cluster,
                                "-k",
                                pg->sockets,
                                "-c",
                                "listen_addresses=",
                                "-c",
                                "unix_socket_permissions=0700",
                                "-c",
                                "max_connections=60",
                                "-c",
                                "log_min_messages=warning",
                                NULL};
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

/* Until it answers; ends early when the server dies. */
static struct pg_sync *connect_when_up(struct dev_postgres *pg, struct err *err)
{
    uint64_t until = clock_mono_ns() + START_TIMEOUT_MS * 1000000ULL;
    for (;;) {
        struct pg_sync *sync = pg_sync_open(pg->url, err);
        if (sync || !child_is_running(&pg->child, pg->log, err))
            return sync;
        if (clock_mono_ns() > until) {
            (void)err_prefix(err, "PostgreSQL did not answer in %d s", START_TIMEOUT_MS / 1000);
            return NULL;
        }
        wait_a_little();
    }
}

/* `create database` has no "if not exists". */
static int make_database(struct dev_postgres *pg, struct err *err)
{
    struct arena arena;
    struct pg_rows rows = {.count = 0};
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
    if (cluster_version(pg) == 0) {
        dev_stage(stages, "making a private PostgreSQL");
        if (make_cluster(pg, err) != OK)
            return (int)err->code;
    }
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
    if (pg->sockets[0] && strcmp(pg->sockets, pg->cluster) != 0)
        (void)rmdir(pg->sockets);
}
