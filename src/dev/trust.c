/*
 * One file of trust roots; see trust.h.
 */
#include "dev/trust.h"

#include "base/file.h"
#include "tls/tls.h"

enum { ROOTS_BYTES_MAX = 16 * 1024 * 1024 };

static const char bundle_name[] = "ca-bundle.pem";

static int append_file(struct buf *out, const char *path, struct err *err)
{
    int code = file_read_into(path, out, NULL, err);
    if (code != OK)
        return err_prefix(err, "the trust roots");
    if (out->len > 0 && out->ptr[out->len - 1] != '\n')
        buf_append_char(out, '\n');
    return code;
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
