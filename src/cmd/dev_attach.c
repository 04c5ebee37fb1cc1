/*
 * Connecting commands to a running `sluice dev`; see dev_attach.h.
 */
#include "cmd/dev_attach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

enum { SETTINGS_BYTES_MAX = 16 * 1024 };

static const char settings_name[] = "operator.conf";

static void put_setting(struct buf *out, const char *name, slice value)
{
    buf_append_cstr(out, name);
    buf_append_cstr(out, " = ");
    buf_append(out, value);
    buf_append_char(out, '\n');
}

int dev_attach_offer(const struct dev_folder *folder, const struct config *config, struct err *err)
{
    struct buf text;
    buf_init(&text, SETTINGS_BYTES_MAX);
    buf_append_cstr(&text,
                    "# Written by the `sluice dev` that runs here; `sluice COMMAND --data DIR` "
                    "reads it.\n");
    put_setting(&text, "database-url", config->database_url);
    put_setting(&text, "master-key-file", config->master_key_file);
    put_setting(&text, "ca-file", config->ca_file);
    for (size_t i = 0; i < config->origin_override.count; i++)
        put_setting(&text, "origin-override", config->origin_override.items[i]);
    /* The file may name the database's socket, so dev_folder_write gives it mode 0600. */
    int result = buf_is_ok(&text)
                     ? dev_folder_write(folder, settings_name, buf_slice(&text), err)
                     : err_set(err, ERR_LIMIT, "the settings for operators are too long");
    buf_deinit(&text);
    return result;
}

/* A running dev holds the folder's lock: if the lock is free, no dev runs. */
static int check_it_runs(const char *dir, struct err *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/lock", dir) >= (int)sizeof(path))
        return err_set(err, ERR_LIMIT, "the path of --data is too long");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? err_set(err, ERR_NOTFOUND,
                             "%s has no data of `sluice dev`; dev prints its folder when it starts",
                             dir)
                   : err_set(err, ERR_IO, "cannot open %s: %s", path, strerror(errno));
    bool is_held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    (void)close(fd);
    return is_held
               ? OK
               : err_set(err, ERR_CLOSED,
                         "no `sluice dev` runs on %s; start it: sluice dev --data %s", dir, dir);
}

int dev_attach(struct config *config, struct err *err)
{
    char path[PATH_MAX];
    const char *dir = config->data_dir.ptr;
    if (check_it_runs(dir, err) != OK)
        return (int)err->code;
    (void)snprintf(path, sizeof(path), "%s/%s", dir,
                   settings_name); /* check_it_runs has checked the length */
    if (access(path, F_OK) != 0)
        return err_set(err, ERR_CLOSED,
                       "the `sluice dev` on %s is not ready yet; try again in a moment", dir);
    return config_file_read(config, path, err);
}
