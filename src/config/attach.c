/*
 * Connects commands to a running `sluice dev`; see attach.h. The lock that dev holds shows whether
 * it runs. A process id in a file does not, since another process may have that id by now.
 */
#include "config/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

const char config_attach_name[] = "operator.conf";
const char config_attach_lock_name[] = "lock";

static void put_setting(struct buf *out, const char *name, slice value)
{
    buf_append_cstr(out, name);
    buf_append_cstr(out, " = ");
    buf_append(out, value);
    buf_append_char(out, '\n');
}

void config_attach_put(const struct config *config, struct buf *out)
{
    buf_append_cstr(out,
                    "# Written by the `sluice dev` that runs here; `sluice COMMAND --data DIR` "
                    "reads it.\n");
    put_setting(out, "database-url", config->database_url);
    put_setting(out, "master-key-file", config->master_key_file);
    put_setting(out, "ca-file", config->ca_file);
    for (size_t i = 0; i < config->origin_override.count; i++)
        put_setting(out, "origin-override", config->origin_override.items[i]);
    for (size_t i = 0; i < config->webhook_host.count; i++)
        put_setting(out, "webhook-host", config->webhook_host.items[i]);
}

/* A running dev holds the folder's lock: if the lock is free, no dev runs. */
static int check_it_runs(const char *dir, struct err *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/%s", dir, config_attach_lock_name) >= (int)sizeof(path))
        return err_set(err, ERR_LIMIT, "the path of --data is too long");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? err_set(err, ERR_NOTFOUND,
                             "%s has no data of `sluice dev`. `sluice dev` prints its folder when "
                             "it starts",
                             dir)
                   : err_set(err, ERR_IO, "cannot open %s: %s", path, strerror(errno));
    bool is_held = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    (void)close(fd);
    return is_held
               ? OK
               : err_set(err, ERR_CLOSED,
                         "no `sluice dev` runs on %s; start it: sluice dev --data %s", dir, dir);
}

int config_attach(struct config *config, struct err *err)
{
    char path[PATH_MAX];
    const char *dir = config->data_dir.ptr;
    if (check_it_runs(dir, err) != OK)
        return (int)err->code;
    (void)snprintf(path, sizeof(path), "%s/%s", dir,
                   config_attach_name); /* check_it_runs has checked the length */
    if (access(path, F_OK) != 0)
        return err_set(err, ERR_CLOSED,
                       "the `sluice dev` on %s is not ready yet. Try again in a moment", dir);
    return config_file_read(config, path, err);
}
