/*
 * sluice catalog: checks and prints manifests in a terminal. It needs neither the database nor a
 * server: manifests come from the program itself, from the settings' folder, or from named files.
 * catalog_show.c prints them; catalog_import.c makes a manifest from an OpenAPI document.
 */
#include <stdio.h>

#include "cli/catalog_import.h"
#include "cli/catalog_show.h"
#include "cli/commands.h"
#include "cli/output.h"

/* For "%zu error%s". */
#define COUNTED(count) (count), (count) == 1 ? "" : "s"

/* ---- lint ---- */

static int lint_manifests(struct session *session, struct command_call *call)
{
    struct err *err = &session->err;
    struct catalog_source *sources;
    struct catalog *catalog = NULL;
    size_t count = 0;
    struct catalog_report *report = catalog_report_new(err);
    if (!report)
        return ERR_NOMEM;
    int result =
        catalog_read_paths(session, call, CATALOG_MANIFEST_BYTES_MAX, &sources, &count, report);
    if (result == OK)
        catalog = catalog_load(sources, count, report);
    /* Warnings are printed for a catalog without errors, too. */
    catalog_show_problems(report);
    if (result == OK && report->error_count > 0)
        result = err_set(err, ERR_INVALID, "%zu error%s and %zu warning%s in %zu file%s",
                         COUNTED(report->error_count), COUNTED(report->warning_count),
                         COUNTED(count));
    else if (result == OK)
        (void)printf("%zu integration%s, %zu action%s, %zu warning%s: fine\n",
                     COUNTED(catalog->integration_count), COUNTED(catalog->action_count),
                     COUNTED(report->warning_count));
    catalog_unref(catalog);
    catalog_report_free(report);
    return result;
}

/* ---- list, show, search ---- */

static int list_integrations(struct session *session, struct command_call *call)
{
    if (session_open_catalog(session) != OK)
        return (int)session->err.code;
    return catalog_show_all(session, command_has(call, "json"));
}

static int show_catalog_entry(struct session *session, struct command_call *call)
{
    if (session_open_catalog(session) != OK)
        return (int)session->err.code;
    return catalog_show_one(session, slice_cstr(call->argv[0]),
                            slice_cstr(call->argc > 1 ? call->argv[1] : NULL),
                            command_has(call, "json"));
}

static int search(struct session *session, struct command_call *call)
{
    slice query = SLICE("");
    if (session_open_catalog(session) != OK)
        return (int)session->err.code;
    /* A query of several words needs no quotes in the shell. */
    for (int i = 0; i < call->argc && query.ptr; i++)
        query = arena_printf(&session->arena, "%.*s %s", SLICE_ARG(query), call->argv[i]);
    if (!query.ptr)
        return err_set(&session->err, ERR_NOMEM, "out of memory");
    return catalog_show_found(session, slice_trim(query), command_has(call, "json"));
}

/* ---- import ---- */

/* ---- the table ---- */

static const struct command_verb verbs[] = {
    {"lint", "FILE|DIR...", "Check manifests; exits 1 if one has an error.", lint_manifests,
     COMMAND_NO_OPTIONS},
    {"import", "openapi FILE",
     "Make a manifest from an OpenAPI 3.0 or 3.1 description (JSON or YAML). What a manifest "
     "cannot express is reported, one line per operation.",
     catalog_import, COMMAND_OPTIONS(catalog_import_options)},
    {"list", "", "List the integrations.", list_integrations, COMMAND_JSON},
    {"show", "INTEGRATION [ACTION]",
     "Show an integration with its actions, or one action with its input and examples.",
     show_catalog_entry, COMMAND_JSON},
    {"search", "WORDS...",
     "Find integrations and actions by words, best match first, as GET /api/search does.", search,
     COMMAND_JSON},
};

const struct command catalog_command = {
    .name = "catalog",
    .summary = "integrations and their actions: lint, import, list, show, search",
    .help = "contrib/integrations/README.md describes manifests.",
    .scopes = CONFIG_CATALOG,
    COMMAND_VERBS(verbs),
};
