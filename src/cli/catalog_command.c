/*
 * sluice catalog: checks and prints manifests in a terminal. It needs neither the database nor a
 * server: manifests come from the program itself, from the settings' folder, or from the files that
 * are named. catalog_show.c prints, catalog_import.c makes a manifest out of an OpenAPI document.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "cli/catalog_import.h"
#include "cli/catalog_show.h"
#include "cli/commands.h"
#include "cli/output.h"

enum { LINT_FILES_MAX = CATALOG_INTEGRATIONS_MAX, SEARCH_ARGS_MAX = 64 };

/* For "%zu error%s". */
#define COUNTED(count) (count), (count) == 1 ? "" : "s"

/* ---- lint ---- */

struct lint {
    struct session *session;
    struct catalog_source *sources; /* LINT_FILES_MAX */
    size_t count;
};

/* A folder may change while it is read, so that the count is checked for each file. */
static int read_open_manifest(struct lint *lint, FILE *file, const char *path)
{
    struct err *err = &lint->session->err;
    struct stat info;
    if (lint->count == LINT_FILES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d manifests", LINT_FILES_MAX);
    if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode))
        return err_set(err, ERR_INVALID, "%s is not a file", path);
    if (info.st_size > CATALOG_MANIFEST_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "%s is over %d bytes", path, CATALOG_MANIFEST_BYTES_MAX);
    size_t len = (size_t)info.st_size;
    char *text = arena_alloc_text(&lint->session->arena, len + 1);
    slice name = arena_dup(&lint->session->arena, slice_cstr(path));
    if (!text || !name.ptr)
        return err_set(err, ERR_NOMEM, "out of memory for %s", path);
    /* The size is from fstat; a file that shrank meanwhile is an error, not a short manifest. */
    if (fread(text, 1, len, file) != len)
        return err_set(err, ERR_IO, "cannot read %s", path);
    lint->sources[lint->count++] = (struct catalog_source){name, slice_of(text, len)};
    return OK;
}

static int read_manifest_file(struct lint *lint, const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return err_set(&lint->session->err, ERR_IO, "cannot open %s: %s", path, strerror(errno));
    int result = read_open_manifest(lint, file, path);
    (void)fclose(file);
    return result;
}

static int compare_sources(const void *a, const void *b)
{
    const struct catalog_source *one = a, *other = b;
    return slice_cmp(one->name, other->name);
}

/* Every manifest of a folder, not of the folders in it, into lint->sources. */
static int read_folder(struct lint *lint, const char *path)
{
    struct err *err = &lint->session->err;
    size_t first = lint->count;
    int result = OK;
    DIR *dir = opendir(path);
    if (!dir)
        return err_set(err, ERR_IO, "cannot open %s: %s", path, strerror(errno));
    for (struct dirent *entry = readdir(dir); entry && result == OK; entry = readdir(dir)) {
        slice name = slice_cstr(entry->d_name);
        /* Hidden files and editors' backups are skipped. */
        if (entry->d_name[0] == '.' || !slice_ends_with(name, SLICE(".json")))
            continue;
        slice full = arena_printf(&lint->session->arena, "%s/%s", path, entry->d_name);
        result = full.ptr ? read_manifest_file(lint, full.ptr)
                          : err_set(err, ERR_NOMEM, "out of memory for %s", path);
    }
    (void)closedir(dir);
    /* A folder without manifests is most likely a wrong path. */
    if (result == OK && lint->count == first)
        return err_set(err, ERR_NOTFOUND, "there is no manifest (*.json) in %s", path);
    /* readdir has no order; sorted, two runs report the same lines in the same order. */
    qsort(lint->sources + first, lint->count - first, sizeof(*lint->sources), compare_sources);
    return result;
}

static int lint_sources(struct lint *lint)
{
    struct err *err = &lint->session->err;
    /* A report has room for many problems, which is too much for the stack. */
    struct catalog_report *report = mem_alloc(sizeof(*report));
    if (!report)
        return err_set(err, ERR_NOMEM, "out of memory");
    catalog_report_init(report);
    struct catalog *catalog = catalog_load(lint->sources, lint->count, report);
    int result = OK;
    /* Warnings are printed for a catalog without errors, too. */
    catalog_show_problems(report);
    if (!catalog)
        result = err_set(err, ERR_INVALID, "%zu error%s and %zu warning%s in %zu file%s",
                         COUNTED(report->error_count), COUNTED(report->warning_count),
                         COUNTED(lint->count));
    else
        (void)printf("%zu integration%s, %zu action%s, %zu warning%s: fine\n",
                     COUNTED(catalog->integration_count), COUNTED(catalog->action_count),
                     COUNTED(report->warning_count));
    catalog_unref(catalog);
    catalog_report_deinit(report);
    mem_free(report);
    return result;
}

static int lint_manifests(struct session *session, struct command_call *call)
{
    struct lint lint = {.session = session};
    struct stat info;
    int result = OK;
    lint.sources = ARENA_ARRAY(&session->arena, struct catalog_source, LINT_FILES_MAX);
    if (!lint.sources)
        return err_set(&session->err, ERR_NOMEM, "out of memory");
    for (int i = 0; i < call->argc && result == OK; i++) {
        /* A path that cannot be read is reported by fopen, with its reason. */
        bool is_folder = stat(call->argv[i], &info) == 0 && S_ISDIR(info.st_mode);
        result = is_folder ? read_folder(&lint, call->argv[i])
                           : read_manifest_file(&lint, call->argv[i]);
    }
    return result == OK ? lint_sources(&lint) : result;
}

static int run_lint(struct command_call *call)
{
    return session_run(call, lint_manifests);
}

/* ---- list, show, search ---- */

static int list_integrations(struct session *session, struct command_call *call)
{
    if (session_open_catalog(session) != OK)
        return (int)session->err.code;
    return catalog_show_all(session, command_has(call, "json"));
}

static int run_list_integrations(struct command_call *call)
{
    return session_run(call, list_integrations);
}

static int show_catalog_entry(struct session *session, struct command_call *call)
{
    if (session_open_catalog(session) != OK)
        return (int)session->err.code;
    return catalog_show_one(session, slice_cstr(call->argv[0]),
                            slice_cstr(call->argc > 1 ? call->argv[1] : NULL),
                            command_has(call, "json"));
}

static int run_show_catalog_entry(struct command_call *call)
{
    return session_run(call, show_catalog_entry);
}

static int search(struct session *session, struct command_call *call)
{
    slice query = SLICE("");
    if (session_open_catalog(session) != OK)
        return (int)session->err.code;
    /* The words of a query need no quotes in the shell. */
    for (int i = 0; i < call->argc && query.ptr; i++)
        query = arena_printf(&session->arena, "%.*s %s", SLICE_ARG(query), call->argv[i]);
    if (!query.ptr)
        return err_set(&session->err, ERR_NOMEM, "out of memory");
    return catalog_show_found(session, slice_trim(query), command_has(call, "json"));
}

static int run_search(struct command_call *call)
{
    return session_run(call, search);
}

/* ---- import ---- */

static int run_import(struct command_call *call)
{
    return session_run(call, catalog_import);
}

/* ---- the table ---- */

static const struct config_option options[] = {{"json", NULL, "print JSON, for scripts"}};

static const struct command_verb verbs[] = {
    {.name = "lint",
     .synopsis = "FILE|DIR...",
     .summary = "Check manifests; exits 1 if one has an error.",
     .args_min = 1,
     .args_max = LINT_FILES_MAX,
     .run = run_lint},
    {.name = "import",
     .synopsis = "openapi FILE",
     .summary = "Make a manifest from an OpenAPI 3.0 or 3.1 description (JSON); what it cannot "
                "express is reported, one line per operation.",
     COMMAND_OPTIONS(catalog_import_options),
     .args_min = 2,
     .args_max = 2,
     .run = run_import},
    {.name = "list",
     .synopsis = "",
     .summary = "The integrations.",
     COMMAND_OPTIONS(options),
     .run = run_list_integrations},
    {.name = "show",
     .synopsis = "INTEGRATION [ACTION]",
     .summary = "An integration with its actions, or one action with its input and examples.",
     COMMAND_OPTIONS(options),
     .args_min = 1,
     .args_max = 2,
     .run = run_show_catalog_entry},
    {.name = "search",
     .synopsis = "WORDS...",
     .summary =
         "Find integrations and actions by words, best match first, as GET /api/search does.",
     COMMAND_OPTIONS(options),
     .args_min = 1,
     .args_max = SEARCH_ARGS_MAX,
     .run = run_search},
};

const struct command catalog_command = {
    .name = "catalog",
    .summary = "integrations and their actions: lint, import, list, show, search",
    .help = "contrib/integrations/README.md describes manifests.",
    .scopes = CONFIG_CATALOG,
    COMMAND_VERBS(verbs),
};
