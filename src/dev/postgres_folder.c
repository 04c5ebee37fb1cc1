/*
 * Folders and user of a private PostgreSQL; see postgres.h.
 */
#include "dev/postgres_folder.h"

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
#include <unistd.h>

#include "base/map.h"
#include "server/ready_file.h"

enum { SOCKET_PATH_MAX = 107 - (int)sizeof("/.s.PGSQL.5432") };

/* For clusters whose user cannot reach the data folder: each has a folder here, named by the hash
 * of the data folder's path. Its file `data-folder` has that path. */
static const char elsewhere[] = "/var/tmp", elsewhere_prefix[] = "sluice-",
                  marker_name[] = "data-folder";

int dev_path_join(char *out, const char *dir, const char *name, struct err *err)
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

void dev_postgres_remove_tree(const char *path)
{
    /* FTW_PHYS: links are removed, not followed. */
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

pid_t dev_postgres_find_postmaster(const char *cluster)
{
    char path[DEV_PATH_MAX + 32], cwd[DEV_PATH_MAX], real[PATH_MAX];
    long pid = 0;
    (void)snprintf(path, sizeof(path), "%s/postmaster.pid", cluster);
    FILE *file = fopen(path, "re");
    char line[32] = "";
    if (file) {
        if (fgets(line, sizeof(line), file))
            pid = strtol(line, NULL, 10);
        (void)fclose(file);
    }
    /* The file may be stale, and its pid may belong to another process by now. */
    if (pid <= 1 || kill((pid_t)pid, 0) != 0)
        return 0;
    /* A postmaster's working directory is its data directory; a recycled pid's is another one. */
    (void)snprintf(path, sizeof(path), "/proc/%ld/cwd", pid);
    ssize_t len = readlink(path, cwd, sizeof(cwd) - 1);
    if (len <= 0 || !realpath(cluster, real))
        return 0;
    cwd[len] = '\0';
    return strcmp(cwd, real) == 0 ? (pid_t)pid : 0;
}

/* Whether `uid` can traverse to path, an absolute folder that exists. */
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

int dev_postgres_make_folder(const char *path, mode_t mode, uid_t owner, gid_t group,
                             struct err *err)
{
    struct stat info;
    if (mkdir(path, mode) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO, "cannot make the folder %s: %s", path, strerror(errno));
    /* lstat: a link in a world-writable folder could lead anywhere. */
    if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return err_set(err, ERR_REFUSED, "%s exists and is not a folder", path);
    if (info.st_uid != owner && info.st_uid != geteuid())
        return err_set(err, ERR_REFUSED, "%s belongs to another user; remove it", path);
    if ((info.st_mode & 07777) != mode && chmod(path, mode) != 0) /* the umask may have cut it */
        return err_set(err, ERR_IO, "cannot set the mode of %s: %s", path, strerror(errno));
    if (info.st_uid != owner && lchown(path, owner, group) != 0)
        return err_set(err, ERR_IO, "cannot give %s to the database's user: %s", path,
                       strerror(errno));
    return OK;
}

uid_t dev_postgres_owner(const struct dev_postgres *pg)
{
    return pg->uid ? pg->uid : geteuid();
}

gid_t dev_postgres_group(const struct dev_postgres *pg)
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
                       "PostgreSQL will not run as root and there is no user postgres or nobody; "
                       "run sluice dev as another user");
    pg->uid = user->pw_uid;
    pg->gid = user->pw_gid;
    return OK;
}

/* unix_socket_directories is a list with quoting rules: a path that would need quotes is not used.
 */
static bool is_unquoted_path(const char *path)
{
    return path[strspn(
               path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-")] == '\0';
}

/* ---- clusters elsewhere ---- */

/* The data folder that a cluster under /var/tmp was made for; "": no dev of this user made it. */
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
    if (dev_path_join(cluster, home, "postgres", NULL) == OK &&
        dev_postgres_find_postmaster(cluster) == 0)
        dev_postgres_remove_tree(home);
}

/* Removing the data folder does not remove a cluster under /var/tmp: the next start does that, for
 * each whose data folder is gone. */
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
        if (dev_path_join(home, elsewhere, entry->d_name, NULL) != OK)
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
        remove_unless_running(pg->home); /* the data folder was removed and made again: this cluster
                                            is the old one's */
    if (dev_postgres_make_folder(pg->home, 0711, geteuid(), getegid(), err) != OK ||
        dev_path_join(marker, pg->home, marker_name, err) != OK)
        return (int)err->code;
    return ready_file_write(marker, slice_cstr(folder->path), err);
}

/* ---- choosing ---- */

/* The cluster is in the data folder if its user can reach that, or else under /var/tmp. */
static int choose_folders(struct dev_postgres *pg, const struct dev_folder *folder, struct err *err)
{
    uint64_t hash = hash_stable(folder->path, strlen(folder->path));
    (void)snprintf(pg->home, sizeof(pg->home), "%s", folder->path);
    if (pg->uid != 0 && !can_reach(folder->path, pg->uid) &&
        make_elsewhere(pg, folder, hash, err) != OK)
        return (int)err->code;
    if (dev_path_join(pg->cluster, pg->home, "postgres", err) != OK ||
        dev_path_join(pg->log, folder->path, "postgres.log", err) != OK)
        return (int)err->code;
    if (strlen(pg->cluster) <= SOCKET_PATH_MAX && is_unquoted_path(pg->cluster)) {
        (void)snprintf(pg->sockets, DEV_PATH_MAX, "%s", pg->cluster);
        return OK;
    }
    (void)snprintf(pg->sockets, DEV_PATH_MAX, "/tmp/sluice-%016llx", (unsigned long long)hash);
    return dev_postgres_make_folder(pg->sockets, 0700, dev_postgres_owner(pg),
                                    dev_postgres_group(pg), err);
}

int dev_postgres_choose(struct dev_postgres *pg, const struct dev_folder *folder, struct err *err)
{
    *pg = (struct dev_postgres){.uid = 0};
    if (choose_user(pg, err) != OK)
        return (int)err->code;
    return choose_folders(pg, folder, err);
}
