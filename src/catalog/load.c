/*
 * Turns sources into a snapshot: parse, read, lint, render, pack, and open the pack.
 *
 * A load is all or nothing: the first pass over all sources collects every fault, and a pack is
 * made only if there is none. The parsed documents are in one arena that is freed when the pack is
 * complete; only the pack remains of a manifest.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/mem.h"
#include "catalog/manifest.h"
#include "catalog/pack.h"

enum { LOAD_ARENA_BYTES_MAX = 512 * 1024 * 1024, REPORT_ARENA_BYTES_MAX = 1024 * 1024 };

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

struct catalog_report *catalog_report_new(struct err *err)
{
    struct catalog_report *report = mem_alloc(sizeof(*report));
    if (report)
        catalog_report_init(report);
    else
        (void)err_set(err, ERR_NOMEM, "out of memory");
    return report;
}

void catalog_report_free(struct catalog_report *report)
{
    catalog_report_deinit(report);
    mem_free(report);
}

void catalog_report_add(struct catalog_report *report, bool is_warning, slice source, slice pointer,
                        const char *fmt, ...)
{
    /* A problem is counted even if there is no room to store it, so that error_count alone
     * decides. */
    ASSERT(report->count <= report->error_count + report->warning_count);
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

/* With duplicate keys the value that was checked could differ from the one that is read (RFC
 * 8259 section 4 leaves the choice to the parser). */
static const struct json_limits manifest_limits = {.depth_max = 128, .refuse_dup_keys = true};

/* The parser's message has a byte offset, but editors count lines. The offset is parsed from the
 * message, which costs a scan, but only for a faulty file. */
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

static struct catalog_integration *read_source(struct arena *arena,
                                               const struct catalog_source *source,
                                               struct catalog_report *report)
{
    struct err err;
    if (source->text.len > CATALOG_MANIFEST_BYTES_MAX) {
        catalog_report_add(report, false, source->name, SLICE_NONE, "is larger than %d bytes",
                           CATALOG_MANIFEST_BYTES_MAX);
        return NULL;
    }
    const struct json *document = json_parse(arena, source->text, &manifest_limits, &err);
    if (!document) {
        report_syntax(report, source, &err);
        return NULL;
    }
    size_t errors = report->error_count;
    struct catalog_integration *integration = manifest_read(arena, source->name, document, report);
    if (integration && report->error_count == errors)
        manifest_lint(integration, source->name, report);
    if (!integration || report->error_count != errors)
        return NULL;
    /* Only a valid manifest is rendered: rendering relies on the checks of lint. */
    if (manifest_render(arena, integration) != OK) {
        catalog_report_add(report, false, source->name, SLICE_NONE, "out of memory");
        return NULL;
    }
    return integration;
}

/* ---- all sources ---- */

/* A later source replaces an earlier integration with the same id, so that an operator's
 * manifest takes precedence over a built-in one. The search is linear in at most
 * CATALOG_INTEGRATIONS_MAX entries. */
static void add_or_replace(struct manifest_set *set, struct catalog_integration *integration)
{
    for (size_t i = 0; i < set->count; i++)
        if (slice_eq(set->items[i]->integration_id, integration->integration_id)) {
            set->items[i] = integration;
            return;
        }
    set->items[set->count++] = integration;
}

static int compare_integrations(const void *a, const void *b)
{
    const struct catalog_integration *const *left = a, *const *right = b;
    return slice_cmp((*left)->integration_id, (*right)->integration_id);
}

static void read_all(struct manifest_set *set, const struct catalog_source *sources, size_t count,
                     struct arena *arena, struct catalog_report *report)
{
    for (size_t i = 0; i < count; i++) {
        struct catalog_integration *integration = read_source(arena, &sources[i], report);
        if (integration)
            add_or_replace(set, integration);
    }
    qsort(set->items, set->count, sizeof(struct catalog_integration *), compare_integrations);
    for (size_t i = 0; i < set->count; i++)
        set->action_count += set->items[i]->action_count;
}

static int pack_sources(const struct catalog_source *sources, size_t count, struct arena *arena,
                        struct buf *out, struct catalog_report *report)
{
    struct manifest_set set = {.items =
                                   ARENA_ARRAY(arena, struct catalog_integration *, count + 1)};
    size_t errors = report->error_count;
    uint64_t hash = 0;
    char etag[19];
    slice twice;
    if (!set.items)
        return ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        /* Hashes the texts in their order: processes with the same files have the same ETag on
         * every machine. */
        hash = hash * 31 + hash_stable(sources[i].text.ptr, sources[i].text.len);
    (void)snprintf(etag, sizeof(etag), "\"%016llx\"", (unsigned long long)hash);
    read_all(&set, sources, count, arena, report);
    if (report->error_count != errors)
        return ERR_INVALID;
    int result = pack_make(&set, etag, arena, out, &twice);
    if (result == ERR_INVALID)
        catalog_report_add(report, false, SLICE("catalog"), SLICE_NONE,
                           "the tool name %.*s is used twice", SLICE_ARG(twice));
    /* A getter that ran out of memory may have left a member absent without a report. */
    return result == OK && arena->is_exhausted ? ERR_NOMEM : result;
}

int catalog_pack(const struct catalog_source *sources, size_t count, struct buf *out,
                 struct catalog_report *report)
{
    struct arena arena;
    arena_init(&arena, LOAD_ARENA_BYTES_MAX);
    int result = ERR_LIMIT;
    if (count <= CATALOG_INTEGRATIONS_MAX)
        result = pack_sources(sources, count, &arena, out, report);
    else
        catalog_report_add(report, false, SLICE("catalog"), SLICE_NONE,
                           "has more than %d manifests", CATALOG_INTEGRATIONS_MAX);
    if (result == ERR_NOMEM)
        catalog_report_add(report, false, SLICE("catalog"), SLICE_NONE, "out of memory");
    arena_deinit(&arena);
    return result;
}

struct catalog *catalog_load(const struct catalog_source *sources, size_t count,
                             struct catalog_report *report)
{
    struct buf pack;
    size_t len;
    struct catalog *catalog = NULL;
    buf_init(&pack, PACK_BYTES_MAX);
    if (catalog_pack(sources, count, &pack, report) == OK) {
        /* The bytes are not copied: the catalog owns them until its last reference is dropped. */
        char *bytes = buf_take(&pack, &len);
        ASSERT(bytes && len >= sizeof(struct pack_header));
        catalog = catalog_open((const struct pack_header *)(const void *)bytes, bytes);
        if (!catalog)
            catalog_report_add(report, false, SLICE("catalog"), SLICE_NONE, "out of memory");
    }
    buf_deinit(&pack);
    return catalog;
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
    /* The size is checked first, so that a file over the limit is not read. If the file shrinks
     * after that, the read is short and is reported. */
    long size = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (size >= 0 && (size_t)size <= bytes_max && fseek(file, 0, SEEK_SET) == 0)
        text = arena_alloc_text(arena, (size_t)size + 1);
    bool is_read = text && fread(text, 1, (size_t)size, file) == (size_t)size;
    if (is_read)
        *out = (struct catalog_source){path, slice_of(text, (size_t)size)};
    else
        catalog_report_add(report, false, path, SLICE_NONE,
                           "cannot be read, or is larger than %zu bytes", bytes_max);
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
    /* The files are sorted, so that the file system does not decide which of two files with the
     * same id is used. */
    int count = scandir(dir, &entries, is_manifest_name, alphasort);
    if (count < 0)
        catalog_report_add(report, false, slice_cstr(dir), SLICE_NONE,
                           "cannot be read as a folder of JSON files: %s", strerror(errno));
    else if ((size_t)count > room)
        catalog_report_add(report, false, slice_cstr(dir), SLICE_NONE,
                           "holds %d files, but at most %zu are read", count, room);
    for (int i = 0; i < count; i++) {
        slice path = arena_printf(arena, "%s/%s", dir, entries[i]->d_name);
        if (read < room && catalog_read_file(path, arena, bytes_max, &items[read], report))
            read++;
        free(entries[i]); /* scandir's own malloc */
    }
    free(entries);
    return read;
}
