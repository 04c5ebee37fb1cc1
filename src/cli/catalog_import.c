/*
 * sluice catalog import; see catalog_import.h. The document's folder is opened once: files that the
 * document refers to are read only if they are below that folder.
 */
#include "cli/catalog_import.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/file.h"
#include "cli/output.h"
#include "openapi/import.h"

enum { FOLDER_BYTES_MAX = 64 * 1024 * 1024 }; /* total size of all referenced files */

const struct config_option catalog_import_options[CATALOG_IMPORT_OPTIONS] = {
    {"id", "ID", "the integration's id; derived from the description's title by default"},
    {"overrides", "FILE",
     "what the description does not say; contrib/integrations/README.md describes the format"},
    {"output", "FILE", "the manifest's file; stdout by default"},
};

static int read_import_file(const char *path, size_t bytes_max, struct arena *arena, slice *text,
                            struct err *err)
{
    struct buf bytes;
    buf_init(&bytes, bytes_max);
    int code = file_read_into(path, &bytes, NULL, err);
    *text = arena_take(arena, &bytes);
    return code != OK || text->ptr ? code : err_set(err, ERR_NOMEM, "out of memory for %s", path);
}

/* Prints one line per finding, then the totals. output_text keeps control characters of the file
 * from reaching the terminal. */
static void print_report(const struct import_result *result)
{
    for (size_t i = 0; i < result->line_count; i++) {
        const struct import_line *line = &result->lines[i];
        (void)fprintf(stderr, "%s: ", import_kind_name(line->kind));
        if (line->operation.len > 0) {
            output_text(stderr, line->operation);
            (void)fputs(": ", stderr);
        }
        output_text(stderr, line->text);
        (void)fputc('\n', stderr);
    }
    (void)fprintf(stderr, "%zu operations: %zu imported (%zu of them weakened), %zu skipped\n",
                  result->total, result->imported, result->weakened, result->skipped);
}

static int write_manifest(struct session *session, slice path, slice text)
{
    if (!path.ptr) {
        (void)fwrite(text.ptr, 1, text.len, stdout);
        return OK; /* command_main checks stdout at the end */
    }
    char *name = arena_cstr(&session->arena, path);
    FILE *file = name ? fopen(name, "we") : NULL;
    if (!file)
        return err_set(&session->err, ERR_IO, "cannot write %.*s: %s", SLICE_ARG(path),
                       strerror(errno));
    bool is_written = fwrite(text.ptr, 1, text.len, file) == text.len;
    /* fclose writes buffered output, so a full disk is reported here. */
    is_written = fclose(file) == 0 && is_written;
    return is_written ? OK : err_set(&session->err, ERR_IO, "cannot write %.*s", SLICE_ARG(path));
}

/* ---- other files of the description ---- */

struct folder {
    /* root: the folder without symbolic links; name: the document's own name */
    char root[PATH_MAX], name[PATH_MAX];
    size_t bytes_left; /* bytes left for all files */
};

static int read_below(struct folder *folder, const char *path, struct arena *arena, slice *text,
                      struct err *err)
{
    char real[PATH_MAX];
    size_t root_len = strlen(folder->root);
    if (!realpath(path, real))
        /* realpath resolves symbolic links, so that the check below applies to the file that is
         * read. */
        return err_set(err, ERR_IO, "%s", strerror(errno));
    /* References are confined to the document's own folder, since the document may come from
     * anyone. */
    if (strncmp(real, folder->root, root_len) != 0 || real[root_len] != '/')
        return err_set(err, ERR_INVALID, "it is a link to a file outside the folder");
    int result = read_import_file(real, folder->bytes_left, arena, text, err);
    if (result == OK)
        folder->bytes_left -= text->len;
    return result;
}

static int read_from_folder(void *ctx, slice path, struct arena *arena, slice *text,
                            struct err *err)
{
    struct folder *folder = ctx;
    slice full = arena_printf(arena, "%s/%.*s", folder->root, SLICE_ARG(path));
    return full.ptr ? read_below(folder, full.ptr, arena, text, err)
                    : err_set(err, ERR_NOMEM, "out of memory");
}

/* Returns false if the document does not exist; reading it reports the reason. */
static bool open_folder(struct folder *folder, const char *path)
{
    folder->bytes_left = FOLDER_BYTES_MAX;
    if (!realpath(path, folder->root))
        return false;
    char *name = strrchr(folder->root, '/');
    /* An absolute path from realpath has at least one slash. */
    (void)snprintf(folder->name, sizeof(folder->name), "%s", name + 1);
    *name = '\0';
    return true;
}

static int import_openapi(struct session *session, struct command_call *call,
                          struct import_result *result)
{
    struct folder files;
    bool has_folder = open_folder(&files, call->argv[1]);
    struct import_folder folder = {.read = read_from_folder, .ctx = &files};
    folder.name = has_folder ? slice_cstr(files.name) : SLICE_NONE;
    struct import_options options = {.integration_id = command_option(call, "id"),
                                     .folder = has_folder ? &folder : NULL};
    slice overrides = command_option(call, "overrides");
    char *path = overrides.ptr ? arena_cstr(&session->arena, overrides) : NULL;
    /* The document is read before the overrides, since it is more likely to be missing. */
    int code = read_import_file(call->argv[1], IMPORT_DOCUMENT_BYTES_MAX, &session->arena,
                                &options.document, &session->err);
    if (code == OK && path)
        code = read_import_file(path, IMPORT_OVERRIDES_BYTES_MAX, &session->arena,
                                &options.overrides, &session->err);
    if (code != OK)
        return code;
    code = openapi_import(&options, result, &session->err);
    /* ERR_NOTFOUND means that nothing could be imported; the report says why, line by line. */
    if (code == OK || code == ERR_NOTFOUND)
        print_report(result);
    return code == OK ? write_manifest(session, command_option(call, "output"), result->manifest)
                      : code;
}

int catalog_import(struct session *session, struct command_call *call)
{
    struct import_result result = {.total = 0};
    if (strcmp(call->argv[0], "openapi") != 0)
        return err_set(&session->err, ERR_INVALID,
                       "\"%s\" cannot be imported; the only known kind is openapi", call->argv[0]);
    int code = import_openapi(session, call, &result);
    openapi_import_free(&result);
    return code;
}
