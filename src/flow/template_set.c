/*
 * The templates that new flows may use: first the built-in ones, then those of a folder. A set does
 * not change once it is loaded; a reload makes a new set, and flows keep their version (pinned.c).
 */
#include <dirent.h>
#include <stdlib.h>

#include "base/embed.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "flow/template.h"

enum { SET_TEMPLATES_MAX = 500, SET_ARENA_BYTES_MAX = 256 * 1024 * 1024 };

static void report_memory(struct catalog_report *report)
{
    catalog_report_add(report, false, SLICE("templates"), SLICE_NONE, "out of memory");
}

/* A later template replaces an earlier one with the same key. The cost is quadratic in at most
 * SET_TEMPLATES_MAX templates, at the start and at a reload. */
static void put_template(struct flow_template_set *set, struct flow_template *tmpl)
{
    for (size_t i = 0; i < set->count; i++)
        if (slice_eq(set->items[i]->key, tmpl->key)) {
            flow_template_unref(set->items[i]);
            set->items[i] = tmpl;
            return;
        }
    set->items[set->count++] = tmpl;
}

static void read_sources(struct flow_template_set *set, const struct catalog_source *sources,
                         size_t count, const struct catalog *catalog, struct catalog_report *report)
{
    for (size_t i = 0; i < count && set->count < SET_TEMPLATES_MAX; i++) {
        struct flow_template *tmpl =
            flow_template_compile(sources[i].name, sources[i].text, catalog, report);
        if (tmpl)
            put_template(set, tmpl);
    }
}

static void read_embedded(struct flow_template_set *set, const struct catalog *catalog,
                          struct catalog_report *report)
{
    for (size_t i = 0; i < embed_templates_count; i++) {
        const struct embed_file *file = &embed_templates[i];
        struct catalog_source source = {slice_cstr(file->name), slice_of(file->data, file->len)};
        read_sources(set, &source, 1, catalog, report);
    }
}

/* A catalog folder may have no templates, so a missing folder is not an error. The sources'
 * texts are in the arena only until they are compiled. */
static void read_folder(struct flow_template_set *set, const char *dir,
                        const struct catalog *catalog, struct catalog_report *report)
{
    struct arena arena;
    arena_init(&arena, SET_ARENA_BYTES_MAX);
    slice path = arena_printf(&arena, "%s/templates", dir);
    struct catalog_source *sources = ARENA_ARRAY(&arena, struct catalog_source, SET_TEMPLATES_MAX);
    DIR *folder = path.ptr ? opendir(path.ptr) : NULL;
    if (folder && sources) {
        size_t count = catalog_read_folder(path.ptr, &arena, FLOW_TEMPLATE_BYTES_MAX, sources,
                                           SET_TEMPLATES_MAX - set->count, report);
        read_sources(set, sources, count, catalog, report);
    }
    if (folder)
        (void)closedir(folder);
    if (arena.is_exhausted)
        report_memory(report);
    arena_deinit(&arena);
}

static int compare_templates(const void *a, const void *b)
{
    const struct flow_template *const *left = a, *const *right = b;
    return slice_cmp((*left)->key, (*right)->key);
}

static void render_list(struct flow_template_set *set, struct catalog_report *report)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, SET_ARENA_BYTES_MAX);
    json_open(w, '[');
    for (size_t i = 0; i < set->count; i++)
        json_put_raw(w, set->items[i]->item_json);
    json_close(w, ']');
    set->list_json = json_text_take(&text, &set->arena);
    if (!set->list_json.ptr)
        report_memory(report);
}

struct flow_template_set *flow_template_set_load(const char *dir, const struct catalog *catalog,
                                                 struct catalog_report *report)
{
    size_t errors = report->error_count;
    struct flow_template_set *set = mem_zalloc(sizeof(*set));
    if (!set) {
        report_memory(report);
        return NULL;
    }
    arena_init(&set->arena, SET_ARENA_BYTES_MAX);
    set->items = ARENA_ARRAY(&set->arena, struct flow_template *, SET_TEMPLATES_MAX);
    if (set->items) {
        read_embedded(set, catalog, report);
        if (dir)
            read_folder(set, dir, catalog, report);
        qsort(set->items, set->count, sizeof(*set->items), compare_templates);
        render_list(set, report);
    } else {
        report_memory(report);
    }
    if (report->error_count == errors)
        return set;
    flow_template_set_free(set);
    return NULL;
}

void flow_template_set_free(struct flow_template_set *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->count; i++)
        flow_template_unref(set->items[i]);
    arena_deinit(&set->arena);
    mem_free(set);
}

static int by_template_key(const void *key, const void *position)
{
    struct flow_template *const *tmpl = position;
    return slice_cmp(*(const slice *)key, (*tmpl)->key);
}

struct flow_template *flow_template_set_find(const struct flow_template_set *set, slice key)
{
    if (set->count == 0) /* bsearch must not get a null array */
        return NULL;
    struct flow_template **found =
        bsearch(&key, set->items, set->count, sizeof(*set->items), by_template_key);
    return found ? *found : NULL;
}

slice flow_template_set_nearest(const struct flow_template_set *set, slice key,
                                const struct catalog *catalog, struct policy *policy)
{
    struct suggest suggest;
    suggest_begin(&suggest, key);
    for (size_t i = 0; i < set->count; i++) {
        struct policy_verdict verdict;
        flow_template_foresee(set->items[i], catalog, policy, &verdict);
        if (!flow_template_is_refused(&verdict))
            suggest_offer(&suggest, set->items[i]->key);
    }
    return suggest.best;
}
