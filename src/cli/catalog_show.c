/*
 * Prints manifests in a terminal; see catalog_show.h. Texts of a manifest come from an operator, or
 * even from a stranger: they go through output_text, so that no control sequence reaches the
 * terminal.
 */
#include "cli/catalog_show.h"

#include <string.h>
#include <sys/stat.h>

#include "catalog/search.h"
#include "cli/output.h"

enum {
    FILES_MAX = 1000,
    TEXT_BYTES_MAX = 64 * 1024,
    FOUND_MAX = 20,
    LINE_BYTES_MAX = 72,
    CHOICES_MAX = 8
};

int catalog_find_or_suggest(struct session *session, slice id,
                            const struct catalog_integration **found)
{
    const struct catalog *catalog = session->catalog;
    *found = catalog_find_integration(catalog, id, NULL);
    if (*found)
        return OK;
    /* Suggests the nearest name: most unknown ids are typing errors. */
    slice nearest = catalog_nearest_integration(catalog, id);
    if (nearest.len > 0)
        return err_set(&session->err, ERR_NOTFOUND,
                       "there is no integration \"%.*s\"; did you mean %.*s?", SLICE_ARG(id),
                       SLICE_ARG(nearest));
    return err_set(&session->err, ERR_NOTFOUND,
                   "there is no integration \"%.*s\"; `sluice catalog list` shows them",
                   SLICE_ARG(id));
}

static int find_action(struct session *session, const struct catalog_integration *integration,
                       slice id, const struct catalog_action **found)
{
    slice name = integration->integration_id;
    *found = catalog_find_action(integration, id, NULL);
    if (*found)
        return OK;
    slice nearest = catalog_nearest_action(integration, id, NULL);
    if (nearest.len > 0)
        return err_set(&session->err, ERR_NOTFOUND,
                       "%.*s has no action \"%.*s\"; did you mean %.*s?", SLICE_ARG(name),
                       SLICE_ARG(id), SLICE_ARG(nearest));
    return err_set(&session->err, ERR_NOTFOUND,
                   "%.*s has no action \"%.*s\"; `sluice catalog show %.*s` lists them",
                   SLICE_ARG(name), SLICE_ARG(id), SLICE_ARG(name));
}

/* ---- problems ---- */

int catalog_read_paths(struct session *session, const struct command_call *call, size_t bytes_max,
                       struct catalog_source **sources, size_t *count,
                       struct catalog_report *report)
{
    struct arena *arena = &session->arena;
    struct stat info;
    *count = 0;
    *sources = ARENA_ARRAY(arena, struct catalog_source, FILES_MAX);
    if (!*sources)
        return err_set(&session->err, ERR_NOMEM, "out of memory");
    for (int i = 0; i < call->argc; i++) {
        const char *path = call->argv[i];
        struct catalog_source *next = *sources + *count;
        size_t room = FILES_MAX - *count;
        if (room == 0)
            return err_set(&session->err, ERR_LIMIT, "%s is past the first %d files", path,
                           FILES_MAX);
        if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
            *count += catalog_read_folder(path, arena, bytes_max, next, room, report);
        else
            *count += catalog_read_file(slice_cstr(path), arena, bytes_max, next, report);
    }
    /* A folder without files is most likely a wrong path. */
    return *count > 0 || report->error_count > 0
               ? OK
               : err_set(&session->err, ERR_NOTFOUND, "there is no file (*.json) to check");
}

/* Prints `file pointer: text`, one line per problem. The text comes from the file, so
 * output_text cleans it. */
void catalog_show_problems(const struct catalog_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct catalog_problem *problem = &report->problems[i];
        output_text(stdout, problem->source);
        if (problem->pointer.len > 0) {
            (void)fputc(' ', stdout);
            output_text(stdout, problem->pointer);
        }
        (void)fputs(problem->is_warning ? ": warning: " : ": ", stdout);
        output_text(stdout, problem->text);
        (void)fputc('\n', stdout);
    }
    /* The report keeps a limited number of problems but counts all of them. */
    if (report->error_count + report->warning_count > report->count)
        (void)printf("and %zu more\n", report->error_count + report->warning_count - report->count);
}

/* ---- integrations ---- */

static void put_integration(struct json_writer *w, const void *row)
{
    const struct catalog_integration *integration = row;
    json_member_str(w, "integration_id", integration->integration_id);
    json_member_str(w, "name", integration->name);
    json_member_str(w, "description", integration->description);
    json_member_str(w, "category", integration->category);
    json_member_str(w, "auth", slice_cstr(catalog_auth_name(integration->auth.kind)));
    /* all ways to connect; "auth" is the first of them */
    json_member_open(w, "auths", '[');
    for (size_t i = 0; i < integration->auth_count; i++)
        json_put_str(w, slice_cstr(catalog_auth_name(integration->auths[i].kind)));
    json_close(w, ']');
    json_key(w, "actions");
    /* The JSON was written when the catalog was loaded. */
    json_put_raw(w, integration->capabilities_json);
}

/* A catalog entry has only the first way to connect; this loads all of them. */
static const struct catalog_integration *whole(const struct catalog *catalog, size_t at)
{
    const struct catalog_integration *head = catalog->integrations[at];
    const struct catalog_integration *opened =
        catalog_find_integration(catalog, head->integration_id, NULL);
    return opened ? opened : head;
}

/* "oauth2, basic" */
static slice auths_text(struct arena *arena, const struct catalog_integration *integration)
{
    slice text = SLICE("");
    for (size_t i = 0; i < integration->auth_count && text.ptr; i++)
        text = arena_printf(arena, "%.*s%s%s", SLICE_ARG(text), i > 0 ? ", " : "",
                            catalog_auth_name(integration->auths[i].kind));
    return text;
}

int catalog_show_all(struct session *session, bool as_json)
{
    const struct catalog *catalog = session->catalog;
    struct output_table table;
    struct json_text json;
    if (as_json) {
        struct json_writer *w = output_json_begin(&json, '[');
        for (size_t i = 0; i < catalog->integration_count; i++) {
            json_open(w, '{');
            put_integration(w, whole(catalog, i));
            json_close(w, '}');
        }
        return output_json_end(&json, '[', &session->err);
    }
    output_table_begin(&table, &session->arena, "INTEGRATION|NAME|CATEGORY|AUTH|ACTIONS");
    for (size_t i = 0; i < catalog->integration_count; i++) {
        const struct catalog_integration *integration = whole(catalog, i);
        output_table_cell(&table, integration->integration_id);
        output_table_cell(&table, integration->name);
        output_table_cell(&table, integration->category);
        output_table_cell(&table, auths_text(&session->arena, integration));
        output_table_cell(&table, arena_printf(&session->arena, "%zu", integration->action_count));
    }
    return output_table_print(&table, stdout, "there are no integrations", &session->err);
}

/* Prints text wrapped, paragraph by paragraph. A manifest's text may contain any characters. */
void catalog_show_text(struct session *session, int indent, slice text)
{
    struct output_table cell; /* used only because it replaces control characters */
    bool is_begun = false, is_gap = false;
    text = slice_first_utf8(text, TEXT_BYTES_MAX);
    while (text.len > 0) {
        slice line = slice_trim(slice_split(&text, '\n'));
        /* Several empty lines become one, and empty lines at the beginning and end are dropped. */
        is_gap = is_gap || (is_begun && line.len == 0);
        if (line.len == 0)
            continue;
        output_table_begin(&cell, &session->arena, "text");
        output_table_cell(&cell, line);
        char *clean = session->arena.is_exhausted ? NULL
                                                  : arena_cstr(&session->arena, cell.cells[1]);
        if (!clean)
            return;
        if (is_gap)
            (void)fputc('\n', stdout);
        config_print_wrapped(stdout, indent, clean);
        is_begun = true;
        is_gap = false;
    }
}

static void show_line(const char *heading, slice text)
{
    if (text.len == 0)
        return;
    (void)printf("%s", heading);
    output_text(stdout, text);
    (void)printf("\n");
}

static int show_integration(struct session *session, const struct catalog_integration *integration)
{
    struct output_table table;
    (void)printf("%.*s: ", SLICE_ARG(integration->integration_id));
    output_text(stdout, integration->name);
    for (size_t i = 0; i < integration->auth_count; i++)
        /* Ways to connect are in the manifest's order: the first is the default. */
        (void)printf("%s%s",
                     i ? " or " : " (auth: ", catalog_auth_name(integration->auths[i].kind));
    (void)printf(")\n");
    catalog_show_text(session, 2, integration->description);
    (void)fputc('\n', stdout);
    if (integration->docs_url.len > 0) {
        show_line("documentation: ", integration->docs_url);
        (void)fputc('\n', stdout);
    }
    output_table_begin(&table, &session->arena, "ACTION|LEVEL|CONFIRM|TITLE");
    for (size_t i = 0; i < integration->action_count; i++) {
        const struct catalog_action *action = &integration->actions[i];
        output_table_cell(&table, action->action_id);
        output_table_cell(&table, slice_cstr(catalog_level_name(action->level)));
        output_table_cell(&table, action->requires_confirmation ? SLICE("yes") : SLICE("no"));
        output_table_cell(&table, action->title);
    }
    return output_table_print(&table, stdout, "it has no actions", &session->err);
}

/* ---- one action ---- */

static bool is_required_member(const struct json *schema, slice name)
{
    const struct json *required = JSON_GET(schema, "required");
    for (uint32_t i = 0; json_is(required, JSON_ARRAY) && i < required->count; i++)
        if (slice_eq(json_str(json_at(required, i)), name))
            return true;
    return false;
}

/* Returns the type in words: "string", or "string or null"; "any" if there is no type. */
static slice type_text(struct session *session, const struct json *schema)
{
    const struct json *type = JSON_GET(schema, "type");
    slice text = json_str(type);
    if (text.ptr)
        return text;
    text = SLICE("any");
    for (uint32_t i = 0; json_is(type, JSON_ARRAY) && i < type->count; i++) {
        slice one = json_str(json_at(type, i));
        text = i == 0
                   ? one
                   : arena_printf(&session->arena, "%.*s or %.*s", SLICE_ARG(text), SLICE_ARG(one));
    }
    return text;
}

/* Returns ": open, closed" for a few values that are all strings; "" for other schemas. */
static slice choices_text(struct session *session, const struct json *schema)
{
    const struct json *choices = JSON_GET(schema, "enum");
    slice text = SLICE("");
    for (uint32_t i = 0; json_is(choices, JSON_ARRAY) && i < choices->count; i++) {
        const struct json *one = json_at(choices, i);
        /* A long list would hide the field's description. */
        if (choices->count > CHOICES_MAX || !json_is(one, JSON_STRING))
            return SLICE("");
        text = arena_printf(&session->arena, "%.*s%s%.*s", SLICE_ARG(text), i == 0 ? ": " : ", ",
                            SLICE_ARG(json_str(one)));
    }
    return text;
}

void catalog_show_input(struct session *session, const struct json *schema)
{
    const struct json *properties = JSON_GET(schema, "properties");
    (void)printf("\ninput:\n");
    if (!json_is(properties, JSON_OBJECT) || properties->count == 0)
        (void)printf("  none\n");
    for (uint32_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        const struct json_member *member = &properties->as.members[i];
        slice name = json_str(&member->key);
        (void)printf("  ");
        output_text(stdout, name);
        (void)printf(" (%.*s", SLICE_ARG(type_text(session, &member->value)));
        output_text(stdout, choices_text(session, &member->value));
        (void)printf("%s)\n", is_required_member(schema, name) ? "; required" : "");
        slice description = json_get_str(&member->value, SLICE("description"));
        if (description.len > 0)
            catalog_show_text(session, 6, description);
    }
}

static void print_lines(int indent, slice text)
{
    while (text.len > 0) {
        (void)printf("%*s", indent, "");
        output_text(stdout, slice_split(&text, '\n'));
        (void)printf("\n");
    }
}

static int show_examples(struct session *session, const struct json *examples)
{
    struct buf text;
    buf_init(&text, OUTPUT_JSON_BYTES_MAX);
    for (uint32_t i = 0; json_is(examples, JSON_ARRAY) && i < examples->count; i++) {
        const struct json *example = json_at(examples, i);
        buf_clear(&text);
        json_write(&text, JSON_GET(example, "input"));
        /* A short input is printed on one line; a longer input is indented over several. */
        if (text.len > LINE_BYTES_MAX) {
            buf_clear(&text);
            json_write_pretty(&text, JSON_GET(example, "input"));
        }
        (void)printf(i == 0 ? "\nexamples of input:\n" : "");
        catalog_show_text(session, 2, json_get_str(example, SLICE("title")));
        print_lines(6, buf_slice(&text));
    }
    bool is_ok = buf_is_ok(&text);
    buf_deinit(&text);
    return is_ok ? OK : err_set(&session->err, ERR_LIMIT, "the examples are too large");
}

/* Prints the strings on one line if they fit, otherwise one per line. */
static void show_strings(const char *heading, const struct json *array)
{
    size_t width = strlen(heading);
    if (!json_is(array, JSON_ARRAY) || array->count == 0)
        return;
    for (uint32_t i = 0; i < array->count; i++)
        /* The separator takes two columns. */
        width += json_str(json_at(array, i)).len + 2;
    bool is_wide = width > LINE_BYTES_MAX;
    (void)printf("%s", heading);
    for (uint32_t i = 0; i < array->count; i++) {
        (void)printf("%s", is_wide ? "\n  " : i == 0 ? " " : ", ");
        output_text(stdout, json_str(json_at(array, i)));
    }
    (void)printf("\n");
}

static int show_action(struct session *session, const struct catalog_action *action)
{
    (void)printf("%.*s: ", SLICE_ARG(action->tool_name));
    output_text(stdout, action->title);
    (void)printf("\n");
    catalog_show_text(session, 2, action->description);
    (void)printf("\nlevel: %s%s%s\n", catalog_level_name(action->level),
                 action->requires_confirmation ? ", needs \"confirm\": true" : "",
                 action->is_idempotent ? ", may be repeated" : "");
    show_line("undone by: ", action->undo);
    show_strings("needs one of the scopes:", action->scopes);
    show_line("documentation: ", action->docs_url);
    show_line("", catalog_proof(action, &session->arena));
    catalog_show_input(session, action->input_schema);
    return show_examples(session, action->examples);
}

/* ---- an integration or an action ---- */

int catalog_show_one(struct session *session, slice integration, slice action, bool as_json)
{
    const struct catalog_integration *found = NULL;
    const struct catalog_action *one = NULL;
    if (catalog_find_or_suggest(session, integration, &found) != OK ||
        /* Both functions have set the session's error, with the nearest name. */
        (action.ptr && find_action(session, found, action, &one) != OK))
        return (int)session->err.code;
    if (as_json && !one)
        return output_object(put_integration, found, &session->err);
    if (as_json) {
        /* It was written when the catalog was loaded. */
        (void)printf("%.*s\n", SLICE_ARG(one->detail_json));
        return OK;
    }
    return one ? show_action(session, one) : show_integration(session, found);
}

/* ---- the hits of a query ---- */

static void put_found(struct json_writer *w, const void *row)
{
    const struct catalog_hit *hit = row;
    const struct catalog_action *action = hit->action;
    json_member_str(w, "kind", action ? SLICE("action") : SLICE("integration"));
    json_member_str(w, "integration_id", hit->integration->integration_id);
    json_member_str(w, "action_id", action ? action->action_id : SLICE_NONE);
    json_member_str(w, "title", action ? action->title : hit->integration->name);
    json_member_str(w, "relevance", catalog_relevance_name(hit));
}

static void put_found_cells(struct output_table *table, const void *row)
{
    const struct catalog_hit *hit = row;
    const struct catalog_action *action = hit->action;
    output_table_cell(table, hit->integration->integration_id);
    output_table_cell(table, action ? action->action_id : SLICE("-"));
    output_table_cell(table, action ? slice_cstr(catalog_level_name(action->level)) : SLICE("-"));
    output_table_cell(table, action ? action->title : hit->integration->name);
    output_table_cell(table, catalog_relevance_name(hit));
}

static const struct output_list found_list = {
    .row_size = sizeof(struct catalog_hit),
    .headings = "INTEGRATION|ACTION|LEVEL|TITLE|RELEVANCE",
    .none = "Nothing found. Try other words, or see `sluice catalog list`",
    .put_cells = put_found_cells,
    .put_json = put_found,
};

int catalog_show_found(struct session *session, slice query, bool as_json)
{
    struct search_request request = {
        .query = query, .with_integrations = true, .with_actions = true, .limit = FOUND_MAX};
    struct catalog_hit *hits;
    size_t count;
    /* The search fails only if out of memory; a query without results is OK. */
    if (catalog_search(session->catalog, &session->arena, &request, &hits, &count) != OK)
        return err_set(&session->err, ERR_NOMEM, "out of memory");
    return output_list(&found_list, hits, count, as_json, &session->arena, &session->err);
}
