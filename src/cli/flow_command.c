/*
 * sluice flow: checks and prints templates, and explains why a flow does not move.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "cli/catalog_show.h"
#include "cli/commands.h"
#include "cli/flow_explain.h"
#include "cli/output.h"
#include "flow/template.h"

/* ---- lint ---- */

static int lint_paths(struct session *session, struct command_call *call,
                      struct catalog_report *report)
{
    struct catalog_source *sources;
    size_t count;
    if (catalog_read_paths(session, call, FLOW_TEMPLATE_BYTES_MAX, &sources, &count, report) != OK)
        return (int)session->err.code;
    /* Templates are compiled against the catalog, since a step's action and input have to exist in
     * it. */
    for (size_t i = 0; i < count; i++)
        flow_template_unref(
            flow_template_compile(sources[i].name, sources[i].text, session->catalog, report));
    catalog_show_problems(report);
    if (report->error_count > 0)
        return err_set(&session->err, ERR_INVALID, "%zu errors and %zu warnings in %zu files",
                       report->error_count, report->warning_count, count);
    (void)printf("%zu templates, %zu warnings: fine\n", count, report->warning_count);
    return OK;
}

static int lint_templates(struct session *session, struct command_call *call)
{
    if (session_open_catalog(session) != OK)
        return (int)session->err.code;
    struct catalog_report *report = catalog_report_new(&session->err);
    if (!report)
        return (int)session->err.code;
    int result = lint_paths(session, call, report);
    catalog_report_free(report);
    return result;
}

/* ---- list, show ---- */

/* Loads the templates that a server with these settings would offer; they need the catalog's
 * actions. Returns NULL with the error in session->err. */
static struct flow_template_set *load_set(struct session *session)
{
    slice dir = session->config->catalog_dir;
    struct flow_template_set *set = NULL;
    struct catalog_report *report = NULL;
    if (session_open_catalog(session) != OK || !(report = catalog_report_new(&session->err)))
        return NULL;
    set = flow_template_set_load(dir.len > 0 ? dir.ptr : NULL, session->catalog, report);
    /* A message has room for one problem; lint prints all of them. */
    if (!set && report->count > 0)
        (void)err_set(&session->err, ERR_INVALID,
                      "%.*s %.*s: %.*s (%zu errors; `sluice flow lint` shows them)",
                      SLICE_ARG(report->problems[0].source), SLICE_ARG(report->problems[0].pointer),
                      SLICE_ARG(report->problems[0].text), report->error_count);
    catalog_report_free(report);
    return set;
}

static int list_set(struct session *session, const struct flow_template_set *set, bool as_json)
{
    struct output_table table;
    if (as_json) {
        (void)printf("%.*s\n", SLICE_ARG(set->list_json));
        return OK;
    }
    output_table_begin(&table, &session->arena, "TEMPLATE|NAME|STEPS");
    for (size_t i = 0; i < set->count; i++) {
        output_table_cell(&table, set->items[i]->key);
        output_table_cell(&table, set->items[i]->name);
        output_table_cell(&table, arena_printf(&session->arena, "%zu", set->items[i]->step_count));
    }
    return output_table_print(&table, stdout, "there are no templates", &session->err);
}

static int list_templates(struct session *session, struct command_call *call)
{
    struct flow_template_set *set = load_set(session);
    int result = set ? list_set(session, set, command_has(call, "json")) : (int)session->err.code;
    flow_template_set_free(set);
    return result;
}

/* Returns a short description of what a step does. */
static slice step_text(struct session *session, const struct flow_template *tmpl,
                       const struct flow_step_def *step)
{
    struct arena *arena = &session->arena;
    switch (step->type) {
    case FLOW_TOOL_CALL:
        if (step->confirm == FLOW_CONFIRM_APPROVAL)
            return arena_printf(arena, "%.*s, confirmed by %.*s", SLICE_ARG(step->tool),
                                SLICE_ARG(tmpl->steps[step->confirm_step].key));
        return arena_printf(arena, "%.*s%s", SLICE_ARG(step->tool),
                            step->confirm == FLOW_CONFIRM_START ? ", confirmed by the start" : "");
    case FLOW_TRANSFORM:
        return SLICE("computes a value from earlier steps");
    case FLOW_WAIT:
        return step->wait_for ? SLICE("waits for a time") : SLICE("waits until a time");
    case FLOW_APPROVAL:
        return SLICE("waits for a person");
    }
    UNREACHABLE("all are listed");
    return SLICE_NONE;
}

static int print_template(struct session *session, const struct flow_template *tmpl)
{
    static const char *const types[] = {"tool_call", "transform", "wait", "approval"};
    struct output_table table;
    char version[UUID_TEXT_LEN + 1];
    uuid_format(tmpl->version, version);
    (void)printf("%.*s: ", SLICE_ARG(tmpl->key));
    output_text(stdout, tmpl->name);
    (void)printf(" (version %s)\n", version);
    catalog_show_text(session, 2, tmpl->description);
    catalog_show_input(session, tmpl->input_schema);
    (void)printf("\n");
    output_table_begin(&table, &session->arena, "STEP|TYPE|FOR EACH|WHEN|WHAT");
    for (size_t i = 0; i < tmpl->step_count; i++) {
        const struct flow_step_def *step = &tmpl->steps[i];
        output_table_cell(&table, step->key);
        output_table_cell(&table, slice_cstr(types[step->type]));
        output_table_cell(&table, step->for_each ? expr_source(step->for_each) : SLICE("-"));
        output_table_cell(&table, step->when ? expr_source(step->when) : SLICE("-"));
        output_table_cell(&table, step_text(session, tmpl, step));
    }
    return output_table_print(&table, stdout, "", &session->err);
}

static int find_template(struct session *session, const struct flow_template_set *set, slice key,
                         const struct flow_template **found)
{
    *found = flow_template_set_find(set, key);
    if (*found)
        return OK;
    slice nearest = flow_template_set_nearest(set, key, NULL, NULL);
    if (nearest.len > 0)
        return err_set(&session->err, ERR_NOTFOUND,
                       "there is no template \"%.*s\"; did you mean %.*s?", SLICE_ARG(key),
                       SLICE_ARG(nearest));
    return err_set(&session->err, ERR_NOTFOUND,
                   "there is no template \"%.*s\"; `sluice flow list` shows them", SLICE_ARG(key));
}

static int show_template(struct session *session, struct command_call *call)
{
    const struct flow_template *found = NULL;
    struct flow_template_set *set = load_set(session);
    if (!set)
        return (int)session->err.code;
    int result = find_template(session, set, slice_cstr(call->argv[0]), &found);
    if (result == OK && command_has(call, "json")) {
        /* The body is the template's own text; output_text removes its control sequences. */
        output_text(stdout, found->body);
        (void)printf("\n");
    } else if (result == OK) {
        result = print_template(session, found);
    }
    flow_template_set_free(set);
    return result;
}

/* ---- explain ---- */

static int explain_flow(struct session *session, struct command_call *call)
{
    if (session_open_database(session) != OK)
        return (int)session->err.code;
    return flow_explain(session, slice_cstr(call->argv[0]), command_has(call, "json"));
}

/* ---- the table ---- */

static const struct command_verb verbs[] = {
    {"lint", "FILE|DIR...", "Check templates against the catalog; exits 1 if one has an error.",
     lint_templates, COMMAND_NO_OPTIONS},
    {"list", "", "List the templates that flows can be started from.", list_templates,
     COMMAND_JSON},
    {"show", "TEMPLATE", "Print a template: its input and its steps.", show_template, COMMAND_JSON},
    {"explain", "FLOW",
     "Explain why a flow does not move: its owner, what it waits for, its last error.",
     explain_flow, COMMAND_JSON},
};

const struct command flow_command = {
    .name = "flow",
    .summary = "flow templates and flows: lint, list, show, explain",
    .help = "contrib/templates/README.md describes templates.",
    .scopes = CONFIG_CATALOG | CONFIG_DATABASE,
    COMMAND_VERBS(verbs),
};
