/*
 * Ready files; see ready_file.h.
 */
#include "server/ready_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { PATH_MAX_OWN = 4096 };

/* write may take a part only, or be interrupted. */
static bool write_all(int fd, slice text)
{
    while (text.len > 0) {
        ssize_t n = write(fd, text.ptr, text.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text = slice_from(text, (size_t)n);
    }
    return true;
}

int ready_file_write(const char *path, slice text, struct err *err)
{
    char part[PATH_MAX_OWN];
    int len = snprintf(part, sizeof(part), "%s.%d.part", path, (int)getpid());
    if (len < 0 || (size_t)len >= sizeof(part))
        return err_set(err, ERR_LIMIT, "the path %s is too long", path);
    /* O_NOFOLLOW: a link of this name could make another file be overwritten. */
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_set(err, ERR_IO, "cannot write %s: %s", part, strerror(errno));
    bool is_ok = write_all(fd, text);
    /* Some file systems report a full disk only at close. */
    is_ok = close(fd) == 0 && is_ok;
    /* A reader finds the old file or the complete new one. */
    if (is_ok && rename(part, path) == 0)
        return OK;
    (void)err_set(err, ERR_IO, "cannot write %s: %s", path, strerror(errno));
    (void)unlink(part);
    return ERR_IO;
}

void ready_file_remove(const char *path)
{
    (void)unlink(path);
}

slice ready_base_url(slice address, uint16_t port, char text[READY_URL_MAX])
{
    if (slice_starts_with(address, SLICE("unix:")) || port == 0)
        return address;
    size_t len = address.len;
    /* The port is behind the last colon; an IPv6 host has others, in brackets. */
    while (len > 0 && address.ptr[len - 1] != ':')
        len--;
    slice host = slice_first(address, len > 0 ? len - 1 : 0);
    /* A wildcard is no address to connect to. */
    if (slice_eq_cstr(host, "0.0.0.0") || host.len == 0 || slice_eq_cstr(host, "*"))
        host = SLICE("127.0.0.1");
    if (slice_eq_cstr(host, "[::]"))
        host = SLICE("[::1]");
    (void)snprintf(text, READY_URL_MAX, "http://%.*s:%u", SLICE_ARG(host), (unsigned)port);
    return slice_cstr(text);
}
