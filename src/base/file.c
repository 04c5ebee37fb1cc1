/*
 * file: see file.h. Facts about a file to read come from the open descriptor: by then the path may
 * name another file.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int read_whole(int fd, const char *path, struct buf *out, mode_t *mode, struct err *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return err_set(err, ERR_IO, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        return err_set(err, ERR_INVALID, "%s is not a regular file", path);
    size_t size = (size_t)info.st_size, len = 0;
    if (size > out->bytes_max - out->len)
        return err_set(err, ERR_LIMIT, "%s is larger than %zu bytes", path,
                       out->bytes_max - out->len);
    /* One block for the whole file: growing would leave copies of a text that may be secret. */
    char *room = buf_reserve(out, size);
    if (!room)
        return err_set(err, ERR_NOMEM, "out of memory for %s", path);
    for (ssize_t got = 1; len < size && got != 0;) {
        got = read(fd, room + len, size - len);
        if (got < 0 && errno != EINTR)
            return err_set(err, ERR_IO, "cannot read %s: %s", path, strerror(errno));
        len += got > 0 ? (size_t)got : 0;
    }
    buf_added(out, len);
    if (mode)
        *mode = info.st_mode;
    return OK;
}

int file_read_into(const char *path, struct buf *out, mode_t *mode, struct err *err)
{
    /* O_NONBLOCK: opening a FIFO named by mistake must not block. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return err_set(err, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, "cannot open %s: %s", path,
                       strerror(errno));
    int code = read_whole(fd, path, out, mode, err);
    (void)close(fd);
    return code;
}

/* Repeats write, which may write only a part, or be interrupted. */
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

int file_write_whole(const char *path, slice text, mode_t mode, struct err *err)
{
    char temporary[FILE_PATH_MAX];
    int len = snprintf(temporary, sizeof(temporary), "%s.%d.part", path, (int)getpid());
    if (len < 0 || (size_t)len >= sizeof(temporary))
        return err_set(err, ERR_LIMIT, "the path %s is too long", path);
    /* O_NOFOLLOW: a symbolic link with this name could cause another file to be overwritten. */
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return err_set(err, ERR_IO, "cannot write %s: %s", temporary, strerror(errno));
    bool is_ok = write_all(fd, text);
    /* Some file systems report a full disk only at close. */
    is_ok = close(fd) == 0 && is_ok;
    /* A reader finds the old file or the complete new one. */
    if (is_ok && rename(temporary, path) == 0)
        return OK;
    (void)err_set(err, ERR_IO, "cannot write %s: %s", path, strerror(errno));
    (void)unlink(temporary);
    return ERR_IO;
}
