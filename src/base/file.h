/*
 * Reads and writes whole files.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

enum { FILE_PATH_MAX = 4096 };

/* Appends the bytes of a regular file to *out, whose maximum is the limit. *mode (mode may be NULL)
 * gets the file's permissions. Returns OK, ERR_NOTFOUND, ERR_IO, ERR_INVALID (not a regular file),
 * ERR_LIMIT or ERR_NOMEM; err names the path. */
int file_read_into(const char *path, struct buf *out, mode_t *mode, struct err *err) MUST_CHECK;
/* Writes under another name and renames, so the file at path is the old one or the complete new
 * one, never a part of it. mode: the permissions of a new file. Returns OK, ERR_IO, or ERR_LIMIT if
 * the path is too long. */
int file_write_whole(const char *path, slice text, mode_t mode, struct err *err) MUST_CHECK;

#endif
