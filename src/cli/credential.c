/*
 * Credentials; see credential.h.
 */
#include "cli/credential.h"

#include <errno.h>
#include <stdio.h>

#include "cli/output.h"

int credential_read(const char *path, const char *what, struct buf *out, struct err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    if (!file)
        return err_set(err, ERR_IO, "cannot open %s: %s", path, strerror(errno));
    size_t bytes_max = out->bytes_max - 1;
    char *room = buf_reserve(out, out->bytes_max);
    int result = OK;
    if (!room)
        result = err_set(err, ERR_NOMEM, "out of memory");
    size_t len = room ? fread(room, 1, out->bytes_max, file) : 0;
    if (room && ferror(file))
        result = err_set(err, ERR_IO, "cannot read %s: %s", path, strerror(errno));
    else if (len > bytes_max)
        result = err_set(err, ERR_LIMIT, "%s must have at most %zu bytes", what, bytes_max);
    else if (room && len == 0)
        result = err_set(err, ERR_SYNTAX, "%s is empty; it should hold %s",
                         is_stdin ? "stdin" : path, what);
    buf_added(out, len);
    if (!is_stdin)
        (void)fclose(file);
    return result;
}

int credential_order_read(struct session *session, const struct call_order *order, slice label,
                          struct call_enrol_request *request)
{
    *request = (struct call_enrol_request){.save.label = label};
    if (call_order_read(order, &session->arena, request, &session->err) != OK)
        return (int)session->err.code;
    return output_name_check(label, "a label", CONNECTION_LABEL_MAX, &session->err);
}
