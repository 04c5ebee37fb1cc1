/*
 * The data folder of `sluice dev`: created at first use, used by one process at a time, accessible
 * only to its owner. It contains lock, master.key, api_key, ca-bundle.pem, provider/, postgres/
 * (postgres.h) and logs.
 */
#ifndef DEV_FOLDER_H
#define DEV_FOLDER_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

enum { DEV_PATH_MAX = 512 };

struct dev_folder {
    char path[DEV_PATH_MAX]; /* absolute, without symbolic links */
    int lock_fd;             /* -1: not open */
    bool is_new;             /* the folder was empty */
};

/* Creates the folder (its parent must exist) and locks it. ERR_BUSY names the process that holds
 * it. If run by root, others can traverse the folder (0711), since PostgreSQL runs as another
 * user; they still cannot read the files in it. */
int dev_folder_open(struct dev_folder *folder, const char *path, struct err *err) MUST_CHECK;
void dev_folder_close(struct dev_folder *folder);
/* Writes DIR/name to out. It is asserted to fit, since dev_folder_open checked the length. */
void dev_folder_path(const struct dev_folder *folder, const char *name, char out[DEV_PATH_MAX]);
/* Appends the file to out, whose maximum is the limit; returns ERR_NOTFOUND if there is no such
 * file. */
int dev_folder_read(const struct dev_folder *folder, const char *name, struct buf *out,
                    struct err *err) MUST_CHECK;
/* Replaces the file as a whole, by rename; mode 0600. */
int dev_folder_write(const struct dev_folder *folder, const char *name, slice text,
                     struct err *err) MUST_CHECK;
/* Removes a log of earlier runs if it is larger than a megabyte. */
void dev_folder_trim_log(const struct dev_folder *folder, const char *name);

#endif
