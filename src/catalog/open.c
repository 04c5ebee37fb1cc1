/*
 * Opens a catalog on a pack. This costs a head for each integration and reads nothing else, so the
 * pages of a pack that is part of the program's file stay on disk until they are needed. A lookup
 * compiles its result the first time and keeps it for the catalog's life: memory grows with use,
 * and a returned pointer stays valid until the last reference is dropped.
 *
 * Not thread-safe: lookups write through const pointers (catalog.h).
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "catalog/manifest.h"
#include "catalog/pack.h"
#include "search/index.h"

enum { CATALOG_ARENA_BYTES_MAX = 512 * 1024 * 1024 };

static const struct json_limits packed_limits = {.depth_max = 128};

static atomic_uint_fast64_t opened_catalogs;

/* ---- opening ---- */

/* Asserts what all reads rely on. Nothing is reported, since a pack always comes from this build,
 * never from outside. pack_text_of checks offsets inside tables when they are used. */
static void check_pack(const struct pack_header *pack)
{
    size_t buckets = pack->tables[PACK_BUCKETS].count - 1; /* one start more than buckets */
    ASSERT(memcmp(pack->magic, PACK_MAGIC, sizeof(pack->magic)) == 0);
    ASSERT((uintptr_t)pack % 8 == 0); /* its tables are read in place */
    for (size_t i = 0; i < PACK_TABLES; i++)
        ASSERT(pack->tables[i].at >= sizeof(*pack) && pack->tables[i].at % 8 == 0);
    ASSERT(pack->tables[PACK_TOOLS].count == pack->tables[PACK_ACTIONS].count);
    ASSERT(pack->tables[PACK_DOCS].count ==
           pack->tables[PACK_INTEGRATIONS].count + pack->tables[PACK_ACTIONS].count);
    ASSERT(pack->tables[PACK_BUCKETS].count > 1 && (buckets & (buckets - 1)) == 0);
}

static struct search_index *open_index(struct catalog *catalog)
{
    const struct pack_header *pack = catalog->pack;
    struct search_index *index = ARENA_NEW(&catalog->arena, struct search_index);
    if (index)
        *index = (struct search_index){
            .texts = pack_table_of(pack, PACK_TEXTS),
            .words = pack_table_of(pack, PACK_WORDS),
            .word_count = pack->tables[PACK_WORDS].count,
            .terms = pack_table_of(pack, PACK_TERMS),
            .term_count = pack->tables[PACK_TERMS].count,
            .postings = pack_table_of(pack, PACK_POSTINGS),
            .posting_count = pack->tables[PACK_POSTINGS].count,
            .links = pack_table_of(pack, PACK_LINKS),
            .link_count = pack->tables[PACK_LINKS].count,
            .phrases = pack_table_of(pack, PACK_PHRASES),
            .phrase_count = pack->tables[PACK_PHRASES].count,
            .remainders = pack_table_of(pack, PACK_REMAINDERS),
            .remainder_count = pack->tables[PACK_REMAINDERS].count,
            .bucket_starts = pack_table_of(pack, PACK_BUCKETS),
            .bucket_count = pack->tables[PACK_BUCKETS].count - 1,
            .docs = pack_table_of(pack, PACK_DOCS),
            .doc_count = pack->tables[PACK_DOCS].count,
        };
    return index;
}

static void open_integration_head(struct catalog *catalog, size_t position,
                                  struct catalog_integration *integration)
{
    const struct pack_header *pack = catalog->pack;
    const struct pack_integration *packed =
        (const struct pack_integration *)pack_table_of(pack, PACK_INTEGRATIONS) + position;
    ASSERT((uint64_t)packed->action_first + packed->action_count <=
           pack->tables[PACK_ACTIONS].count);
    *integration = (struct catalog_integration){
        .catalog = catalog,
        .integration_id = pack_text_of(pack, packed->integration_id),
        .name = pack_text_of(pack, packed->name),
        .description = pack_text_of(pack, packed->description),
        .category = pack_text_of(pack, packed->category),
        .docs_url = pack_text_of(pack, packed->docs_url),
        .icon = pack_text_of(pack, packed->icon),
        .capabilities_json = pack_text_of(pack, packed->capabilities_json),
        .source = pack_text_of(pack, packed->source),
        .auth = {.kind = (enum catalog_auth_kind)packed->auth_kind},
        .position = position,
        .action_first = packed->action_first,
        .action_count = packed->action_count,
        .search_first = position + packed->action_first,
    };
}

struct catalog *catalog_open(const struct pack_header *pack, char *owned)
{
    struct catalog *catalog = mem_zalloc(sizeof(*catalog));
    if (!catalog) {
        mem_free(owned);
        return NULL;
    }
    check_pack(pack);
    /* From here on catalog_unref frees the pack, too, even after a failure. */
    catalog->refs = 1;
    /* a reload opens its catalog on a pool thread */
    catalog->serial = atomic_fetch_add(&opened_catalogs, 1) + 1;
    catalog->pack = pack;
    catalog->owned = owned;
    catalog->etag = pack->etag;
    catalog->integration_count = pack->tables[PACK_INTEGRATIONS].count;
    catalog->action_count = pack->tables[PACK_ACTIONS].count;
    arena_init(&catalog->arena, CATALOG_ARENA_BYTES_MAX);
    size_t count = catalog->integration_count;
    struct catalog_integration *all =
        ARENA_ARRAY(&catalog->arena, struct catalog_integration, count + 1);
    catalog->integrations = ARENA_ARRAY(&catalog->arena, struct catalog_integration *, count + 1);
    catalog->search = open_index(catalog);
    if (!all || !catalog->integrations || !catalog->search) {
        catalog_unref(catalog);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        open_integration_head(catalog, i, &all[i]);
        catalog->integrations[i] = &all[i];
    }
    return catalog;
}

struct catalog *catalog_ref(struct catalog *catalog)
{
    ASSERT(catalog->refs > 0);
    catalog->refs++;
    return catalog;
}

void catalog_unref(struct catalog *catalog)
{
    if (!catalog)
        return;
    ASSERT(catalog->refs > 0);
    if (--catalog->refs > 0)
        return;
    search_index_close(catalog->search); /* NULL if catalog_open failed half-way */
    arena_deinit(&catalog->arena);
    mem_free(catalog->owned);
    mem_free(catalog);
}

/* ---- heads of actions ---- */

static int open_heads(struct catalog_integration *integration)
{
    struct catalog *catalog = integration->catalog;
    const struct pack_header *pack = catalog->pack;
    const struct pack_action *packed =
        (const struct pack_action *)pack_table_of(pack, PACK_ACTIONS) + integration->action_first;
    if (integration->actions)
        return OK;
    /* Makes the heads of all actions of the integration at once: they are found by binary search
     * and listed together. */
    struct catalog_action *actions =
        ARENA_ARRAY(&catalog->arena, struct catalog_action, integration->action_count + 1);
    if (!actions)
        return ERR_NOMEM;
    for (size_t i = 0; i < integration->action_count; i++) {
        ASSERT(packed[i].integration == integration->position && packed[i].level <= LEVEL_ADMIN);
        actions[i] = (struct catalog_action){
            .integration = integration,
            .action_id = pack_text_of(pack, packed[i].action_id),
            .tool_name = pack_text_of(pack, packed[i].tool_name),
            .title = pack_text_of(pack, packed[i].title),
            .description = pack_text_of(pack, packed[i].description),
            .level = (enum catalog_level)packed[i].level,
            .requires_confirmation = packed[i].requires_confirmation,
            .has_recipients = packed[i].has_recipients,
            .item_json = pack_text_of(pack, packed[i].item_json),
            .detail_json = pack_text_of(pack, packed[i].detail_json),
            .scope_words = pack_text_of(pack, packed[i].scope_words),
            .undo = pack_text_of(pack, packed[i].undo),
            .source = pack_text_of(pack, packed[i].source),
        };
    }
    integration->actions = actions;
    return OK;
}

int catalog_open_heads(const struct catalog *catalog)
{
    int result = OK;
    for (size_t i = 0; i < catalog->integration_count && result == OK; i++)
        result = open_heads(catalog->integrations[i]);
    return result;
}

/* ---- compiling ---- */

/* The text was parsed and read when it was packed, so this can fail only for lack of memory. */
static const struct json *parse_part(struct catalog *catalog, slice text)
{
    catalog->arena.is_exhausted = false; /* the flag may be set from an earlier failure */
    return json_parse(&catalog->arena, text, &packed_limits, NULL);
}

static bool is_read(struct catalog *catalog, struct catalog_report *report)
{
    bool is_good = report->error_count == 0 && !catalog->arena.is_exhausted;
    catalog_report_deinit(report);
    return is_good;
}

/* Compiles into a copy: if memory runs out half-way, the head stays unchanged and the next lookup
 * tries again. The arena memory of the failed attempt is lost until the catalog is freed. */
static bool open_integration(struct catalog_integration *integration)
{
    struct catalog *catalog = integration->catalog;
    /* the argument is not a copy of the integration */
    ASSERT(catalog->integrations[integration->position] == integration);
    if (integration->is_open)
        return true;
    const struct json *document =
        open_heads(integration) == OK ? parse_part(catalog, integration->source) : NULL;
    struct catalog_integration whole = *integration;
    struct catalog_report report;
    catalog_report_init(&report);
    if (document)
        manifest_reread(&catalog->arena, document, &whole, &report);
    /* is_read frees the report, so it must be called in any case. */
    whole.is_open = is_read(catalog, &report) && document;
    if (whole.is_open)
        *integration = whole;
    return whole.is_open;
}

static bool open_action(struct catalog_action *action)
{
    struct catalog *catalog = action->integration->catalog;
    if (action->is_open)
        return true;
    /* The integration is opened first, because manifest_reread_action asserts that it is open. */
    bool is_good = open_integration(catalog->integrations[action->integration->position]);
    const struct json *object = is_good ? parse_part(catalog, action->source) : NULL;
    struct catalog_action whole = *action;
    struct catalog_report report;
    catalog_report_init(&report);
    if (object)
        manifest_reread_action(&catalog->arena, object, &whole, &report);
    whole.is_open = is_read(catalog, &report) && object;
    if (whole.is_open)
        *action = whole;
    return whole.is_open;
}

/* ---- lookups ---- */

static int by_integration_id(const void *id, const void *position)
{
    struct catalog_integration *const *integration = position;
    return slice_cmp(*(const slice *)id, (*integration)->integration_id);
}

static struct catalog_integration *find_head(const struct catalog *catalog, slice id)
{
    /* bsearch must not get a null array, and a catalog without manifests is legal. */
    if (catalog->integration_count == 0)
        return NULL;
    struct catalog_integration **found = bsearch(&id, catalog->integrations,
                                                 catalog->integration_count,
                                                 sizeof(*catalog->integrations), by_integration_id);
    return found ? *found : NULL;
}

/* Sets *status to the result of a lookup: OK, ERR_NOTFOUND if head is NULL, or ERR_NOMEM if it
 * could not be opened. Returns whether it is OK. */
static bool is_found(const void *head, bool is_open, int *status)
{
    if (status)
        *status = is_open ? OK : head ? ERR_NOMEM : ERR_NOTFOUND;
    return is_open;
}

const struct catalog_integration *catalog_find_integration(const struct catalog *catalog, slice id,
                                                           int *status)
{
    struct catalog_integration *found = find_head(catalog, id);
    return is_found(found, found && open_integration(found), status) ? found : NULL;
}

static int by_action_id(const void *id, const void *action)
{
    return slice_cmp(*(const slice *)id, ((const struct catalog_action *)action)->action_id);
}

/* Finds a head by its action id. */
static struct catalog_action *find_by_id(const struct catalog_integration *integration, slice id)
{
    ASSERT(integration->actions ||
           integration->catalog); /* an integration that is being loaded has no catalog */
    if (!integration->actions)
        (void)open_heads(integration->catalog->integrations[integration->position]);
    if (!integration->actions) /* there are no actions, or memory ran out */
        return NULL;
    return bsearch(&id, integration->actions, integration->action_count,
                   sizeof(*integration->actions), by_action_id);
}

slice catalog_short_id(slice integration_id, slice action)
{
    bool is_long = slice_starts_with(action, integration_id) &&
                   action.len > integration_id.len + 1 && action.ptr[integration_id.len] == '_';
    return is_long ? slice_from(action, integration_id.len + 1) : action;
}

static struct catalog_action *find_by_name(const struct catalog_integration *integration,
                                           slice action)
{
    /* An action id may itself begin with the integration's id, so the unchanged text is tried
     * first. */
    struct catalog_action *found = find_by_id(integration, action);
    return found ? found
                 : find_by_id(integration, catalog_short_id(integration->integration_id, action));
}

const struct catalog_action *catalog_find_head(const struct catalog_integration *integration,
                                               slice action)
{
    return find_by_name(integration, action);
}

const struct catalog_action *catalog_find_action(const struct catalog_integration *integration,
                                                 slice action, int *status)
{
    struct catalog_action *found = find_by_name(integration, action);
    return is_found(found, found && open_action(found), status) ? found : NULL;
}

/* The key of a search in a table of a pack. */
struct sought {
    const struct pack_header *pack;
    slice text;
};

static int by_tool_name(const void *key, const void *position)
{
    const struct sought *sought = key;
    const struct pack_action *actions = pack_table_of(sought->pack, PACK_ACTIONS);
    return slice_cmp(sought->text,
                     pack_text_of(sought->pack, actions[*(const uint32_t *)position].tool_name));
}

/* Returns NULL if the name is unknown; the integration of the result may have no heads yet. */
static const struct pack_action *find_packed_tool(const struct pack_header *pack, slice name)
{
    const struct sought sought = {pack, name};
    const struct pack_action *actions = pack_table_of(pack, PACK_ACTIONS);
    const uint32_t *tools = pack_table_of(pack, PACK_TOOLS);
    const uint32_t *found =
        bsearch(&sought, tools, pack->tables[PACK_TOOLS].count, sizeof(*tools), by_tool_name);
    return found ? &actions[*found] : NULL;
}

static struct catalog_action *find_tool(const struct catalog *catalog, slice tool_name)
{
    /* The whole name is searched, because it is ambiguous where to split "a_b_c" into integration
     * and action; the table of unique names decides this. */
    const struct pack_action *packed = find_packed_tool(catalog->pack, tool_name);
    struct catalog_integration *integration = packed ? catalog->integrations[packed->integration]
                                                     : NULL;
    return integration ? find_by_id(integration, pack_text_of(catalog->pack, packed->action_id))
                       : NULL;
}

const struct catalog_action *catalog_find_tool(const struct catalog *catalog, slice tool_name)
{
    struct catalog_action *found = find_tool(catalog, tool_name);
    return found && open_action(found) ? found : NULL;
}
