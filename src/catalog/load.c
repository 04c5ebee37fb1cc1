/*
 * Sources to a snapshot: parse, read, lint, render, enter into the maps; and the look-ups.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/embed.h"
#include "base/mem.h"
#include "catalog/manifest.h"
#include "catalog/search_index.h"

enum { CATALOG_ARENA_BYTES_MAX = 512 * 1024 * 1024, REPORT_ARENA_BYTES_MAX = 1024 * 1024 };

/* ---- the report ---- */

void catalog_report_init(struct catalog_report *report)
{
    report->count = report->error_count = report->warning_count = 0;
    arena_init(&report->arena, REPORT_ARENA_BYTES_MAX);
}

void catalog_report_deinit(struct catalog_report *report)
{
    arena_deinit(&report->arena);
}

void catalog_report_add(struct catalog_report *report, bool is_warning, slice source, slice pointer,
                        const char *fmt, ...)
{
    if (is_warning)
        report->warning_count++;
    else
        report->error_count++;
    if (report->count == CATALOG_PROBLEMS_MAX)
        return;
    va_list args;
    va_start(args, fmt);
    report->problems[report->count++] = (struct catalog_problem){
        .source = arena_dup(&report->arena, source),
        .pointer = arena_dup(&report->arena, pointer),
        .text = arena_vprintf(&report->arena, fmt, args),
        .is_warning = is_warning,
    };
    va_end(args);
}

/* ---- one source ---- */

static const struct json_limits manifest_limits = {.depth_max = 128, .refuse_dup_keys = true};

/* The parser says "at byte 4000"; editors count lines. */
static void report_syntax(struct catalog_report *report, const struct catalog_source *source,
                          const struct err *err)
{
    static const char mark[] = "at byte ";
    const char *found = strstr(err->text, mark);
    size_t end = found ? strtoul(found + sizeof(mark) - 1, NULL, 10) : 0;
    size_t line = 1, column = 1;
    for (size_t i = 0; i < end && i < source->text.len; i++) {
        column = source->text.ptr[i] == '\n' ? 1 : column + 1;
        line += source->text.ptr[i] == '\n';
    }
    if (found)
        catalog_report_add(report, false, source->name, SLICE_NONE, "line %zu, column %zu: %s",
                           line, column, err->text);
    else
        catalog_report_add(report, false, source->name, SLICE_NONE, "%s", err->text);
}

static struct catalog_integration *read_source(struct catalog *catalog,
                                               const struct catalog_source *source,
                                               struct catalog_report *report)
{
    struct err err;
    if (source->text.len > CATALOG_MANIFEST_BYTES_MAX) {
        catalog_report_add(report, false, source->name, SLICE_NONE, "is over %d bytes",
                           CATALOG_MANIFEST_BYTES_MAX);
        return NULL;
    }
    const struct json *document = json_parse(&catalog->arena, source->text, &manifest_limits, &err);
    if (!document) {
        report_syntax(report, source, &err);
        return NULL;
    }
    size_t errors = report->error_count;
    struct catalog_integration *integration =
        manifest_read(&catalog->arena, source->name, document, report);
    if (integration && report->error_count == errors)
        manifest_lint(integration, source->name, report);
    if (!integration || report->error_count != errors)
        return NULL;
    if (manifest_render(&catalog->arena, integration) != OK) {
        catalog_report_add(report, false, source->name, SLICE_NONE, "out of memory");
        return NULL;
    }
    return integration;
}

/* A later source replaces an earlier integration of the same id. */
static void enter(struct catalog *catalog, struct catalog_integration *integration)
{
    for (size_t i = 0; i < catalog->integration_count; i++)
        if (slice_eq(catalog->integrations[i]->integration_id, integration->integration_id)) {
            catalog->integrations[i] = integration;
            return;
        }
    catalog->integrations[catalog->integration_count++] = integration;
}

static int compare_integrations(const void *a, const void *b)
{
    const struct catalog_integration *const *left = a, *const *right = b;
    return slice_cmp((*left)->integration_id, (*right)->integration_id);
}

/* Tool names are unique by construction unless ids overlap: gmail + send_x and gmail_send + x. */
static int index_all(struct catalog *catalog, struct catalog_report *report)
{
    for (size_t i = 0; i < catalog->integration_count; i++) {
        struct catalog_integration *integration = catalog->integrations[i];
        if (map_put(&catalog->by_id, integration->integration_id, integration, NULL) != OK)
            return ERR_NOMEM;
        for (size_t j = 0; j < integration->action_count; j++) {
            struct catalog_action *action = &integration->actions[j];
            void *old = NULL;
            if (map_put(&catalog->by_tool, action->tool_name, action, &old) != OK)
                return ERR_NOMEM;
            if (old)
                catalog_report_add(report, false, integration->integration_id, SLICE_NONE,
                                   "the tool name %.*s exists twice", SLICE_ARG(action->tool_name));
            catalog->action_count++;
        }
    }
    return OK;
}

static struct catalog *catalog_new(size_t integrations_max)
{
    struct catalog *catalog = mem_zalloc(sizeof(*catalog));
    if (!catalog)
        return NULL;
    catalog->refs = 1;
    arena_init(&catalog->arena, CATALOG_ARENA_BYTES_MAX);
    map_init(&catalog->by_id, CATALOG_INTEGRATIONS_MAX);
    map_init(&catalog->by_tool, (size_t)CATALOG_INTEGRATIONS_MAX * CATALOG_ACTIONS_MAX);
    catalog->integrations =
        ARENA_ARRAY(&catalog->arena, struct catalog_integration *, integrations_max + 1);
    if (catalog->integrations)
        return catalog;
    catalog_unref(catalog);
    return NULL;
}

struct catalog *catalog_load(const struct catalog_source *sources, size_t count,
                             struct catalog_report *report)
{
    struct catalog *catalog = count <= CATALOG_INTEGRATIONS_MAX ? catalog_new(count) : NULL;
    if (!catalog) {
        catalog_report_add(report, false, SLICE("catalog"), SLICE_NONE,
                           "out of memory, or over %d manifests", CATALOG_INTEGRATIONS_MAX);
        return NULL;
    }
    uint64_t hash = 0;
    size_t errors = report->error_count;
    for (size_t i = 0; i < count; i++) {
        struct catalog_integration *integration = read_source(catalog, &sources[i], report);
        if (integration)
            enter(catalog, integration);
        hash = hash * 31 + hash_stable(sources[i].text.ptr, sources[i].text.len);
    }
    (void)snprintf(catalog->etag, sizeof(catalog->etag), "\"%016llx\"", (unsigned long long)hash);
    qsort(catalog->integrations, catalog->integration_count, sizeof(*catalog->integrations),
          compare_integrations);
    if (index_all(catalog, report) != OK ||
        (report->error_count == errors && search_index_build(catalog) != OK))
        catalog_report_add(report, false, SLICE("catalog"), SLICE_NONE, "out of memory");
    if (report->error_count == errors)
        return catalog;
    catalog_unref(catalog);
    return NULL;
}

struct catalog *catalog_ref(struct catalog *catalog)
{
    catalog->refs++;
    return catalog;
}

void catalog_unref(struct catalog *catalog)
{
    if (!catalog || --catalog->refs > 0)
        return;
    map_deinit(&catalog->by_id);
    map_deinit(&catalog->by_tool);
    search_index_free(catalog->search);
    arena_deinit(&catalog->arena);
    mem_free(catalog);
}

/* ---- files ---- */

bool catalog_read_file(slice path, struct arena *arena, size_t bytes_max,
                       struct catalog_source *out, struct catalog_report *report)
{
    FILE *file = path.ptr ? fopen(path.ptr, "re") : NULL;
    if (!file) {
        catalog_report_add(report, false, path, SLICE_NONE, "cannot be opened: %s",
                           strerror(errno));
        return false;
    }
    char *text = NULL;
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size >= 0 && (size_t)size <= bytes_max && fseek(file, 0, SEEK_SET) == 0)
        text = arena_alloc_text(arena, (size_t)size + 1);
    bool is_read = text && fread(text, 1, (size_t)size, file) == (size_t)size;
    if (is_read)
        *out = (struct catalog_source){path, slice_of(text, (size_t)size)};
    else
        catalog_report_add(report, false, path, SLICE_NONE, "cannot be read, or is over %zu bytes",
                           bytes_max);
    (void)fclose(file);
    return is_read;
}

static int is_manifest_name(const struct dirent *entry)
{
    slice name = slice_cstr(entry->d_name);
    return name.len > 5 && name.ptr[0] != '.' && slice_ends_with(name, SLICE(".json"));
}

size_t catalog_read_folder(const char *dir, struct arena *arena, size_t bytes_max,
                           struct catalog_source *items, size_t room, struct catalog_report *report)
{
    struct dirent **entries = NULL;
    size_t read = 0;
    int count = scandir(dir, &entries, is_manifest_name, alphasort);
    if (count < 0)
        catalog_report_add(report, false, slice_cstr(dir), SLICE_NONE,
                           "cannot be read as a folder of JSON files: %s", strerror(errno));
    else if ((size_t)count > room)
        catalog_report_add(report, false, slice_cstr(dir), SLICE_NONE,
                           "holds %d files, %zu at most are read", count, room);
    for (int i = 0; i < count; i++) {
        slice path = arena_printf(arena, "%s/%s", dir, entries[i]->d_name);
        if (read < room && catalog_read_file(path, arena, bytes_max, &items[read], report))
            read++;
        free(entries[i]); /* scandir's own malloc */
    }
    free(entries);
    return read;
}

struct source_list {
    struct arena arena;
    struct catalog_source items[CATALOG_INTEGRATIONS_MAX];
    size_t count;
};

struct catalog *catalog_load_all(const char *dir, struct catalog_report *report)
{
    struct source_list *list = mem_zalloc(sizeof(*list));
    if (!list) {
        catalog_report_add(report, false, SLICE("catalog"), SLICE_NONE, "out of memory");
        return NULL;
    }
    arena_init(&list->arena, CATALOG_ARENA_BYTES_MAX);
    for (size_t i = 0; i < embed_integrations_count; i++)
        list->items[list->count++] = (struct catalog_source){
            slice_cstr(embed_integrations[i].name),
            slice_of(embed_integrations[i].data, embed_integrations[i].len)};
    size_t errors = report->error_count;
    if (dir)
        list->count += catalog_read_folder(dir, &list->arena, CATALOG_MANIFEST_BYTES_MAX,
                                           list->items + list->count,
                                           CATALOG_INTEGRATIONS_MAX - list->count, report);
    struct catalog *catalog = catalog_load(list->items, list->count, report);
    arena_deinit(&list->arena);
    mem_free(list);
    if (report->error_count == errors)
        return catalog;
    catalog_unref(catalog);
    return NULL;
}

/* ---- look-ups ---- */

const struct catalog_integration *catalog_find_integration(const struct catalog *catalog, slice id)
{
    return map_get(&catalog->by_id, id);
}

static const struct catalog_action *find_by_id(const struct catalog_integration *integration,
                                               slice id)
{
    size_t low = 0, high = integration->action_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = slice_cmp(id, integration->actions[middle].action_id);
        if (order == 0)
            return &integration->actions[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct catalog_action *catalog_find_action(const struct catalog_integration *integration,
                                                 slice action)
{
    const struct catalog_action *found = find_by_id(integration, action);
    slice prefix = integration->integration_id;
    if (!found && slice_starts_with(action, prefix) && action.len > prefix.len + 1 &&
        action.ptr[prefix.len] == '_')
        found = find_by_id(integration, slice_from(action, prefix.len + 1));
    return found;
}

const struct catalog_action *catalog_find_tool(const struct catalog *catalog, slice tool_name)
{
    return map_get(&catalog->by_tool, tool_name);
}
