/*
 * The data folder; see folder.h.
 */
#include "dev/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "config/attach.h"

enum {
    NAME_ROOM = 64, /* fits the longest name inside */
    LOG_BYTES_MAX = 1024 * 1024,
    MODE_USER = 0700,
    MODE_ROOT = 0711,
};

void dev_folder_path(const struct dev_folder *folder, const char *name, char out[DEV_PATH_MAX])
{
    int len = snprintf(out, DEV_PATH_MAX, "%s/%s", folder->path, name);
    ASSERT(len > 0 && len < DEV_PATH_MAX);
}

/* Returns whether the folder is from an earlier run, or empty: other files must not get mixed with
 * dev's or lose their permissions (`--data /tmp`). */
static bool is_for_us(const char *path, bool *is_empty)
{
    bool has_lock = false;
    *is_empty = true;
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        *is_empty = false;
        has_lock = has_lock || strcmp(entry->d_name, config_attach_lock_name) == 0;
    }
    (void)closedir(dir);
    return *is_empty || has_lock;
}

static int check_folder(const char *path, const struct stat *info, bool *is_new, struct err *err)
{
    if (!S_ISDIR(info->st_mode))
        return err_set(err, ERR_INVALID, "%s exists and is not a folder", path);
    if (info->st_uid != geteuid())
        return err_set(err, ERR_REFUSED,
                       "the folder %s belongs to another user; give --data another one", path);
    if (strlen(path) > DEV_PATH_MAX - NAME_ROOM)
        return err_set(err, ERR_LIMIT, "the path %s is too long; give --data a shorter one", path);
    if (!is_for_us(path, is_new))
        return err_set(err, ERR_REFUSED,
                       "the folder %s holds other files; give --data a new or an empty one", path);
    return OK;
}

static int make_folder(struct dev_folder *folder, const char *path, struct err *err)
{
    char real[PATH_MAX];
    struct stat info;
    mode_t mode = geteuid() == 0 ? MODE_ROOT : MODE_USER;
    if (mkdir(path, mode) != 0 && errno != EEXIST)
        return err_set(err, ERR_IO, "cannot create the folder %s: %s", path, strerror(errno));
    if (!realpath(path, real) || stat(real, &info) != 0)
        return err_set(err, ERR_IO, "cannot open the folder %s: %s", path, strerror(errno));
    /* Checked on the resolved path: a link must not lead into another user's folder. */
    if (check_folder(real, &info, &folder->is_new, err) != OK)
        return (int)err->code;
    /* The umask may have removed bits, and an earlier version may have left others. */
    if ((info.st_mode & 07777) != mode && chmod(real, mode) != 0)
        return err_set(err, ERR_IO, "cannot restrict the permissions of the folder %s: %s", real,
                       strerror(errno));
    memcpy(folder->path, real, strlen(real) + 1); /* check_folder has checked its length */
    return OK;
}

static int lock_folder(struct dev_folder *folder, struct err *err)
{
    char path[DEV_PATH_MAX], pid[32] = "";
    dev_folder_path(folder, config_attach_lock_name, path);
    folder->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (folder->lock_fd < 0)
        return err_set(err, ERR_IO, "cannot open %s: %s", path, strerror(errno));
    /* The lock ends with the process, however it ends; the pid in the file is only for this
     * message. */
    if (flock(folder->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        bool is_taken = errno == EWOULDBLOCK;
        ssize_t len = pread(folder->lock_fd, pid, sizeof(pid) - 1, 0);
        pid[len > 0 ? len : 0] = '\0';
        return is_taken ? err_set(err, ERR_BUSY,
                                  "another sluice dev (process %ld) has the folder %s; stop it, or "
                                  "give --data another folder",
                                  strtol(pid, NULL, 10), folder->path)
                        : err_set(err, ERR_IO, "cannot lock %s: %s", path, strerror(errno));
    }
    int len = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
    if (ftruncate(folder->lock_fd, 0) != 0 || pwrite(folder->lock_fd, pid, (size_t)len, 0) != len)
        return err_set(err, ERR_IO, "cannot write %s: %s", path, strerror(errno));
    return OK;
}

int dev_folder_open(struct dev_folder *folder, const char *path, struct err *err)
{
    *folder = (struct dev_folder){.lock_fd = -1};
    if (make_folder(folder, path, err) == OK && lock_folder(folder, err) == OK)
        return OK;
    dev_folder_close(folder);
    return (int)err->code;
}

void dev_folder_close(struct dev_folder *folder)
{
    /* the file is not removed: otherwise two processes could lock two files of the same name */
    if (folder->lock_fd >= 0)
        (void)close(folder->lock_fd);
    folder->lock_fd = -1;
}

int dev_folder_read(const struct dev_folder *folder, const char *name, struct buf *out,
                    struct err *err)
{
    char path[DEV_PATH_MAX];
    dev_folder_path(folder, name, path);
    return file_read_into(path, out, NULL, err);
}

int dev_folder_write(const struct dev_folder *folder, const char *name, slice text, struct err *err)
{
    char path[DEV_PATH_MAX];
    dev_folder_path(folder, name, path);
    return file_write_whole(path, text, 0600, err);
}

void dev_folder_trim_log(const struct dev_folder *folder, const char *name)
{
    /* The log is removed only at start: later a running child has it open. */
    char path[DEV_PATH_MAX];
    struct stat info;
    dev_folder_path(folder, name, path);
    if (stat(path, &info) == 0 && info.st_size > LOG_BYTES_MAX)
        (void)unlink(path);
}
