/*
 * One file of trust roots; see trust.h.
 */
#include "dev/trust.h"

#include <errno.h>
#include <stdio.h>

#include "tls/tls.h"

enum { ROOTS_BYTES_MAX = 16 * 1024 * 1024, STEP_BYTES = 64 * 1024 };

static const char bundle_name[] = "ca-bundle.pem";

static int append_file(struct buf *out, const char *path, struct err *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return err_set(err, ERR_IO, "cannot open the trust roots %s: %s", path, strerror(errno));
    size_t len = STEP_BYTES;
    while (len == STEP_BYTES) {
        char *room = buf_reserve(out, STEP_BYTES);
        len = room ? fread(room, 1, STEP_BYTES, file) : 0;
        buf_added(out, len);
    }
    bool is_ok = !ferror(file) && buf_is_ok(out);
    (void)fclose(file);
    if (out->len > 0 && out->ptr[out->len - 1] != '\n')
        buf_append_char(out, '\n');
    return is_ok ? OK : err_set(err, ERR_IO, "cannot read the trust roots %s", path);
}

static int append_roots(struct buf *out, const char *own_file, struct err *err)
{
    const char *path = own_file[0] ? own_file : tls_system_roots();
    return path ? append_file(out, path, err) : OK;
}

int dev_trust_write(const struct dev_folder *folder, const char *own_file, const char *ca_file,
                    char out[DEV_PATH_MAX], struct err *err)
{
    struct buf text;
    buf_init(&text, ROOTS_BYTES_MAX);
    int result = append_roots(&text, own_file, err);
    if (result == OK)
        result = append_file(&text, ca_file, err);
    if (result == OK)
        result = dev_folder_write(folder, bundle_name, buf_slice(&text), err);
    buf_deinit(&text);
    dev_folder_path(folder, bundle_name, out);
    return result;
}
