/*
 * Shared by tests that write files: a folder for one test, files in it, and printed output.
 */
#ifndef TESTS_UNIT_SUPPORT_FOLDER_H
#define TESTS_UNIT_SUPPORT_FOLDER_H

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "unit.h"

enum { TEST_PATH_MAX = 300, TEST_TEXT_MAX = 64 * 1024 };

struct folder {
    char path[TEST_PATH_MAX];
};

static inline void folder_make(struct folder *folder)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder->path, sizeof(folder->path), "%s/sluice-unit-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(folder->path));
}

static inline int folder_remove_entry(const char *path, const struct stat *info, int kind,
                                      struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

static inline void folder_remove(const struct folder *folder)
{
    assert_int_equal(nftw(folder->path, folder_remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* "FOLDER/name" */
static inline const char *folder_path(const struct folder *folder, const char *name,
                                      char out[TEST_PATH_MAX])
{
    assert_in_range(snprintf(out, TEST_PATH_MAX, "%s/%s", folder->path, name), 1,
                    TEST_PATH_MAX - 1);
    return out;
}

static inline void folder_write(const struct folder *folder, const char *name, const char *text,
                                mode_t mode)
{
    char path[TEST_PATH_MAX];
    FILE *file = fopen(folder_path(folder, name, path), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static inline void file_read(const char *path, char *out, size_t cap)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t len = fread(out, 1, cap - 1, file);
    out[len] = '\0';
    fclose(file);
}

/* The text that a function writes to a FILE. */
struct capture {
    FILE *file;
    char text[TEST_TEXT_MAX];
};

static inline void capture_begin(struct capture *capture)
{
    capture->file = tmpfile();
    assert_non_null(capture->file);
}

static inline const char *capture_end(struct capture *capture)
{
    rewind(capture->file);
    size_t len = fread(capture->text, 1, sizeof(capture->text) - 1, capture->file);
    capture->text[len] = '\0';
    fclose(capture->file);
    return capture->text;
}

#endif
