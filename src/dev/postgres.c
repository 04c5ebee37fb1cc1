/*
 * The private PostgreSQL; see postgres.h.
 */
#include "dev/postgres.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/slice.h"
#include "pg/sync.h"

enum {
    VERSION_MIN = 14,
    START_TIMEOUT_MS = 30000,
    STOP_TIMEOUT_MS = 15000,
    WAIT_MS = 5,
    ARENA_BYTES_MAX = 64 * 1024,
};

/* ---- the user and the folders ---- */

enum { SOCKET_PATH_MAX = 107 - (int)sizeof("/.s.PGSQL.5432") };

/* For clusters whose user cannot reach the data folder: each has a subfolder here, named by the
 * hash of the data folder's path. Its file `data-folder` contains that path. */
static const char elsewhere[] = "/var/tmp", elsewhere_prefix[] = "sluice-",
                  marker_name[] = "data-folder", version_name[] = "PG_VERSION";

/* Writes dir/name to out, which has DEV_PATH_MAX bytes. Returns ERR_LIMIT if it does not fit. */
static int join_path(char *out, const char *dir, const char *name, struct err *err)
{
    int len = snprintf(out, DEV_PATH_MAX, "%s/%s", dir, name);
    if (len < 0 || len >= DEV_PATH_MAX)
        return err_set(err, ERR_LIMIT, "the path %s/%s is too long", dir, name);
    return OK;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_tree(const char *path)
{
    /* FTW_PHYS: links are removed, not followed. */
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Reads the number at the start of a file of the cluster. Returns 0 if there is none. */
static long read_number(const char *cluster, const char *name)
{
    char path[DEV_PATH_MAX + 32], line[32] = "";
    (void)snprintf(path, sizeof(path), "%s/%s", cluster, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (!fgets(line, sizeof(line), file))
        line[0] = '\0';
    (void)fclose(file);
    return strtol(line, NULL, 10);
}

pid_t dev_postgres_find_postmaster(const char *cluster)
{
    char path[DEV_PATH_MAX + 32], cwd[DEV_PATH_MAX], real[PATH_MAX];
    long pid = read_number(cluster, "postmaster.pid");
    /* The file may be stale, and its pid may belong to another process by now. */
    if (pid <= 1 || kill((pid_t)pid, 0) != 0)
        return 0;
    /* A postmaster's working directory is its data directory; a process with a recycled pid has
     * another working directory. */
    (void)snprintf(path, sizeof(path), "/proc/%ld/cwd", pid);
    ssize_t len = readlink(path, cwd, sizeof(cwd) - 1);
    if (len <= 0 || !realpath(cluster, real))
        return 0;
    cwd[len] = '\0';
    return strcmp(cwd, real) == 0 ? (pid_t)pid : 0;
}

/* Returns whether `uid` can traverse to path, an existing folder with an absolute path. */
static bool can_reach(const char *path, uid_t uid)
{
    char part[DEV_PATH_MAX];
    struct stat info;
    for (size_t i = 1;; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        (void)snprintf(part, sizeof(part), "%.*s", (int)i, path);
        if (stat(part, &info) != 0)
            return false;
        /* Groups are ignored: the user is given none (child.c). */
        if (!(info.st_mode & S_IXOTH) && !(info.st_uid == uid && (info.st_mode & S_IXUSR)))
            return false;
        if (path[i] == '\0')
            return true;
    }
}

/* Creates or checks a folder, also in a world-writable one. Returns ERR_REFUSED if the name is
 * taken by a link, a file or another user's folder. */
static int make_owned_folder(const char *path, mode_t mode, uid_t owner, gid_t group,
                             struct err *err)
{
    struct stat info;
    if (mkdir(path, mode) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO, "cannot create the folder %s: %s", path, strerror(errno));
    /* lstat: a link in a world-writable folder could lead anywhere. */
    if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return err_set(err, ERR_REFUSED, "%s exists and is not a folder", path);
    if (info.st_uid != owner && info.st_uid != geteuid())
        return err_set(err, ERR_REFUSED, "%s belongs to another user; remove it", path);
    if ((info.st_mode & 07777) != mode && chmod(path, mode) != 0) /* the umask may have removed
                                                                   * bits */
        return err_set(err, ERR_IO, "cannot set the mode of %s: %s", path, strerror(errno));
    if (info.st_uid != owner && lchown(path, owner, group) != 0)
        return err_set(err, ERR_IO, "cannot give %s to the database's user: %s", path,
                       strerror(errno));
    return OK;
}

static uid_t owner_of(const struct dev_postgres *pg)
{
    return pg->uid ? pg->uid : geteuid();
}

static gid_t group_of(const struct dev_postgres *pg)
{
    return pg->uid ? pg->gid : getegid();
}

static int choose_user(struct dev_postgres *pg, struct err *err)
{
    if (geteuid() != 0)
        return OK;
    const struct passwd *user = getpwnam("postgres");
    if (!user)
        user = getpwnam("nobody");
    if (!user)
        return err_set(err, ERR_NOTFOUND,
                       "PostgreSQL does not run as root: create the user postgres, or run sluice "
                       "dev as another user");
    pg->uid = user->pw_uid;
    pg->gid = user->pw_gid;
    return OK;
}

/* unix_socket_directories is a list with quoting rules, so a path that would need quotes is not
 * used. */
static bool is_unquoted_path(const char *path)
{
    return path[strspn(
               path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-")] == '\0';
}

/* ---- clusters elsewhere ---- */

/* Reads the data folder that a cluster under /var/tmp was made for; "" if no dev of this user made
 * the cluster. */
static void read_marker(const char *home, char out[DEV_PATH_MAX])
{
    char path[2 * DEV_PATH_MAX];
    struct stat info;
    out[0] = '\0';
    /* A folder that another user made there is never read or removed. */
    if (lstat(home, &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid())
        return;
    (void)snprintf(path, sizeof(path), "%s/%s", home, marker_name);
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    size_t len = fread(out, 1, DEV_PATH_MAX - 1, file);
    out[len] = '\0';
    (void)fclose(file);
}

static void remove_unless_running(const char *home)
{
    char cluster[DEV_PATH_MAX];
    if (join_path(cluster, home, "postgres", NULL) == OK &&
        dev_postgres_find_postmaster(cluster) == 0)
        remove_tree(home);
}

/* Removing the data folder does not remove a cluster under /var/tmp. The next start removes each
 * whose data folder no longer exists. */
static void remove_abandoned(void)
{
    DIR *dir = opendir(elsewhere);
    if (!dir)
        return;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char home[DEV_PATH_MAX], data[DEV_PATH_MAX];
        struct stat info;
        if (strncmp(entry->d_name, elsewhere_prefix, strlen(elsewhere_prefix)) != 0)
            continue;
        if (join_path(home, elsewhere, entry->d_name, NULL) != OK)
            continue;
        read_marker(home, data);
        if (data[0] == '/' && lstat(data, &info) != 0 && errno == ENOENT)
            remove_unless_running(home);
    }
    (void)closedir(dir);
}

static int make_elsewhere(struct dev_postgres *pg, const struct dev_folder *folder, uint64_t hash,
                          struct err *err)
{
    char marker[DEV_PATH_MAX], data[DEV_PATH_MAX];
    remove_abandoned();
    (void)snprintf(pg->home, sizeof(pg->home), "%s/%s%016llx", elsewhere, elsewhere_prefix,
                   (unsigned long long)hash);
    read_marker(pg->home, data);
    if (folder->is_new && strcmp(data, folder->path) == 0)
        remove_unless_running(pg->home); /* the data folder was removed and made again: this
                                          * cluster belongs to the old folder */
    if (make_owned_folder(pg->home, 0711, geteuid(), getegid(), err) != OK ||
        join_path(marker, pg->home, marker_name, err) != OK)
        return (int)err->code;
    return file_write_whole(marker, slice_cstr(folder->path), 0600, err);
}

/* ---- choosing ---- */

/* The cluster is in the data folder if its user can reach that, otherwise under /var/tmp. */
static int choose_folders(struct dev_postgres *pg, const struct dev_folder *folder, struct err *err)
{
    uint64_t hash = hash_stable(folder->path, strlen(folder->path));
    (void)snprintf(pg->home, sizeof(pg->home), "%s", folder->path);
    if (pg->uid != 0 && !can_reach(folder->path, pg->uid) &&
        make_elsewhere(pg, folder, hash, err) != OK)
        return (int)err->code;
    if (join_path(pg->cluster, pg->home, "postgres", err) != OK ||
        join_path(pg->log, folder->path, "postgres.log", err) != OK)
        return (int)err->code;
    if (strlen(pg->cluster) <= SOCKET_PATH_MAX && is_unquoted_path(pg->cluster)) {
        (void)snprintf(pg->sockets, DEV_PATH_MAX, "%s", pg->cluster);
        return OK;
    }
    (void)snprintf(pg->sockets, DEV_PATH_MAX, "/tmp/sluice-%016llx", (unsigned long long)hash);
    return make_owned_folder(pg->sockets, 0700, owner_of(pg), group_of(pg), err);
}

/* Sets uid and gid, home, cluster, sockets and log, and makes the folders that they need. */
static int choose_user_and_folders(struct dev_postgres *pg, const struct dev_folder *folder,
                                   struct err *err)
{
    *pg = (struct dev_postgres){.uid = 0};
    if (choose_user(pg, err) != OK)
        return (int)err->code;
    return choose_folders(pg, folder, err);
}

/* ---- waiting ---- */

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

/* Only a server of the cluster's own major version can run it. */
static int find_programs(struct dev_postgres *pg, struct err *err)
{
    long wanted = read_number(pg->cluster, version_name);
    bool has_versions = access(versions_root, F_OK) == 0;
    /* If versions have folders, the folder of the cluster's version is required; elsewhere the
     * server itself checks. */
    if (find_versioned(pg->bin, wanted))
        return OK;
    if (!(wanted && has_versions) && find_unversioned(pg->bin))
        return OK;
    if (wanted)
        return err_set(err, ERR_NOTFOUND,
                       "%s was made by PostgreSQL %ld, which is no longer installed; install it "
                       "again, or remove the folder",
                       pg->cluster, wanted);
    return err_set(err, ERR_NOTFOUND,
                   "no PostgreSQL %d or newer is installed; on Debian: apt-get install postgresql "
                   "(`make run` does that)",
                   VERSION_MIN);
}

/* ---- the cluster ---- */

/* initdb may be killed midway, so it writes to another name, which is renamed when it is
 * complete. */
static int make_cluster(struct dev_postgres *pg, struct err *err)
{
    char program[DEV_PATH_MAX], temporary[DEV_PATH_MAX];
    if (join_path(temporary, pg->home, "postgres.part", err) != OK ||
        join_path(program, pg->bin, "initdb", err) != OK)
        return (int)err->code;
    if (access(temporary, F_OK) == 0)
        /* Removes the files of an earlier start that was killed. */
        remove_tree(temporary);
    if (make_owned_folder(temporary, 0700, owner_of(pg), group_of(pg), err) != OK)
        return (int)err->code;
    const char *const argv[] = {program, "-D", temporary, "-U", "sluice",
                                /* Only the owner can reach the socket (0700), so no password is
                                 * needed. */
                                "--auth=trust", "-E", "UTF8", "--locale=C", "--data-checksums",
                                "--no-instructions", NULL};
    struct child_spec spec = {
        .name = "initdb", .argv = argv, .log_path = pg->log, .uid = pg->uid, .gid = pg->gid};
    if (child_run(&spec, err) != OK)
        return (int)err->code;
    if (rename(temporary, pg->cluster) != 0)
        return err_set(err, ERR_IO, "cannot rename %s: %s", temporary, strerror(errno));
    pg->is_new = true;
    return OK;
}

/* The postmaster may be stopping already: it gets SIGINT if its dev dies. Its pid file and
 * working directory show when it has ended; the pid alone stays valid until it is reaped. */
static int stop_orphan(const struct dev_postgres *pg, struct dev_stages *stages, struct err *err)
{
    pid_t pid = dev_postgres_find_postmaster(pg->cluster);
    if (pid == 0)
        return OK;
    dev_stage(stages, "stopping the PostgreSQL of an earlier run");
    /* SIGINT is PostgreSQL's fast shutdown: it ends sessions and keeps data safe. */
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
    if (join_path(program, pg->bin, "postgres", err) != OK)
        return (int)err->code;
    const char *const argv[] = {program, "-D", pg->cluster, "-k", pg->sockets, "-c",
                                /* PostgreSQL opens no port, so only this user can reach the
                                 * database. */
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

/* Writes a value in libpq's form: in quotes, with a backslash before ' and \. */
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

/* Retries until the server answers; stops early if the server has ended. */
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
    /* The database named postgres always exists; the service's database is created through it. */
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
    if (choose_user_and_folders(pg, folder, err) != OK || find_programs(pg, err) != OK)
        return (int)err->code;
    /* The version is also 0 if the folder has no cluster, as at the first start. */
    if (read_number(pg->cluster, version_name) == 0) {
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
    /* This never removes the cluster's own folder. */
    if (pg->sockets[0] && strcmp(pg->sockets, pg->cluster) != 0)
        (void)rmdir(pg->sockets);
}
