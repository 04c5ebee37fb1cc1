/*
 * The built-in manifests, alone or with an operator's. If the operator has no folder, nothing is
 * checked or packed at the start: the pack in the program's file is opened in place.
 */
#include "base/embed.h"
#include "base/mem.h"
#include "catalog/pack.h"

/* The limit for the operator's files; the built-in sources are not copied. */
enum { SOURCES_BYTES_MAX = 512 * 1024 * 1024 };

struct source_list {
    struct arena arena;
    struct catalog_source items[CATALOG_INTEGRATIONS_MAX];
    size_t count;
};

static void add_builtin(struct source_list *list)
{
    ASSERT(list->count == 0 && embed_integrations_count <= CATALOG_INTEGRATIONS_MAX);
    for (size_t i = 0; i < embed_integrations_count; i++)
        list->items[list->count++] = (struct catalog_source){
            slice_cstr(embed_integrations[i].name),
            slice_of(embed_integrations[i].data, embed_integrations[i].len)};
}

static struct catalog *open_builtin(struct catalog_report *report)
{
    /* The build embeds one pack, aligned as check_pack of open.c requires. */
    ASSERT(embed_catalog_count == 1);
    const void *pack = embed_catalog[0].data;
    struct catalog *catalog = catalog_open(pack, NULL);
    if (!catalog)
        catalog_report_add(report, false, SLICE("catalog"), SLICE_NONE, "out of memory");
    return catalog;
}

/* All manifests are loaded together: an operator's manifest may replace a built-in one, and there
 * is a single search index. Any error fails the whole load: a catalog without some of its apps
 * would seem to have lost them. The caller keeps the present catalog. */
static struct catalog *load_with(struct source_list *list, const char *dir,
                                 struct catalog_report *report)
{
    size_t errors = report->error_count;
    add_builtin(list);
    size_t builtin = list->count;
    list->count += catalog_read_folder(dir, &list->arena, CATALOG_MANIFEST_BYTES_MAX,
                                       list->items + builtin, CATALOG_INTEGRATIONS_MAX - builtin,
                                       report);
    if (report->error_count == errors && list->count == builtin)
        return open_builtin(report);
    struct catalog *catalog = catalog_load(list->items, list->count, report);
    if (report->error_count == errors)
        return catalog;
    catalog_unref(catalog);
    return NULL;
}

struct catalog *catalog_load_all(const char *dir, struct catalog_report *report)
{
    if (!dir)
        return open_builtin(report);
    struct source_list *list = mem_zalloc(sizeof(*list));
    if (!list) {
        catalog_report_add(report, false, SLICE("catalog"), SLICE_NONE, "out of memory");
        return NULL;
    }
    arena_init(&list->arena, SOURCES_BYTES_MAX);
    struct catalog *catalog = load_with(list, dir, report);
    arena_deinit(&list->arena);
    mem_free(list);
    return catalog;
}
