/*
 * Makes a pack, whose layout is in pack.h. Tables are made in the arena while their texts go into
 * one buffer; then both are written after the header, in the order of enum pack_table. Texts are
 * the last table, since documents, actions and the index all append to it. The bytes depend on the
 * manifests and on this program, not on addresses or time, so that a build is reproducible.
 */
#include "catalog/pack.h"

#include <stdio.h>
#include <stdlib.h>

#include "search/index.h"

/* Adds the JSON of an integration without its actions. Each action is packed separately, so that a
 * lookup of an action parses only its own JSON. */
static struct buf_span add_document(struct buf *texts, const struct json *document)
{
    size_t begin = texts->len;
    /* The JSON is rendered, not copied from the file, to omit white space and the member
     * "actions". */
    struct json_writer w;
    ASSERT(json_is(document, JSON_OBJECT)); /* the document is kept while the manifest is loaded */
    json_begin(&w, texts);
    json_open(&w, '{');
    for (uint32_t i = 0; i < document->count; i++) {
        const struct json_member *member = &document->as.members[i];
        if (slice_eq_cstr(json_str(&member->key), "actions"))
            continue;
        json_key_slice(&w, json_str(&member->key));
        json_put(&w, &member->value);
    }
    json_close(&w, '}');
    return (struct buf_span){(uint32_t)begin, (uint32_t)(texts->len - begin)};
}

static struct buf_span add_json(struct buf *texts, const struct json *value)
{
    size_t begin = texts->len;
    json_write(texts, value);
    return (struct buf_span){(uint32_t)begin, (uint32_t)(texts->len - begin)};
}

static struct buf_span add_words(struct buf *texts, const struct json *words)
{
    size_t at = texts->len;
    for (size_t i = 0; words && i < words->count; i++) {
        if (i > 0)
            buf_append_char(texts, ' ');
        buf_append(texts, json_str(&words->as.items[i]));
    }
    return (struct buf_span){(uint32_t)at, (uint32_t)(texts->len - at)};
}

static struct pack_action pack_action(struct buf *texts, const struct catalog_action *action,
                                      uint32_t integration)
{
    const struct json *actions = JSON_GET(action->integration->document, "actions");
    ASSERT(json_at(actions,
                   action->source_index)); /* the source that the action will be compiled from */
    return (struct pack_action){
        .action_id = buf_append_span(texts, action->action_id),
        .tool_name = buf_append_span(texts, action->tool_name),
        .title = buf_append_span(texts, action->title),
        .description = buf_append_span(texts, action->description),
        .item_json = buf_append_span(texts, action->item_json),
        .detail_json = buf_append_span(texts, action->detail_json),
        .scope_words = add_words(texts, action->scopes),
        .undo = buf_append_span(texts, action->undo),
        .source = add_json(texts, json_at(actions, action->source_index)),
        .integration = integration,
        .level = (uint16_t)action->level,
        .requires_confirmation = action->requires_confirmation,
        .has_recipients = action->has_recipients,
    };
}

static struct pack_integration pack_integration(struct buf *texts,
                                                const struct catalog_integration *integration,
                                                size_t action_first)
{
    return (struct pack_integration){
        .integration_id = buf_append_span(texts, integration->integration_id),
        .name = buf_append_span(texts, integration->name),
        .description = buf_append_span(texts, integration->description),
        .category = buf_append_span(texts, integration->category),
        .docs_url = buf_append_span(texts, integration->docs_url),
        .icon = buf_append_span(texts, integration->icon),
        .capabilities_json = buf_append_span(texts, integration->capabilities_json),
        .source = add_document(texts, integration->document),
        .auth_kind = integration->auth.kind,
        .action_first = (uint32_t)action_first,
        .action_count = (uint32_t)integration->action_count,
    };
}

/* ---- tool names ---- */

struct tool {
    slice name;
    uint32_t action;
};

static int compare_tools(const void *a, const void *b)
{
    const struct tool *left = a, *right = b;
    return slice_cmp(left->name, right->name);
}

/* A tool name is integration id, "_", action id. Ids may overlap (gmail + send_x, gmail_send +
 * x), so the names must be compared: after sorting, equal names are adjacent. */
static int sort_tools(const struct manifest_set *set, struct arena *arena, uint32_t *numbers,
                      slice *twice)
{
    struct tool *tools = ARENA_ARRAY(arena, struct tool, set->action_count + 1);
    uint32_t count = 0;
    if (!tools)
        return ERR_NOMEM;
    for (size_t i = 0; i < set->count; i++)
        for (size_t j = 0; j < set->items[i]->action_count; j++, count++)
            tools[count] = (struct tool){set->items[i]->actions[j].tool_name, count};
    ASSERT(count == set->action_count); /* the arrays hold this many */
    qsort(tools, count, sizeof(*tools), compare_tools);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && slice_eq(tools[i].name, tools[i - 1].name)) {
            *twice = tools[i].name;
            return ERR_INVALID;
        }
        numbers[i] = tools[i].action;
    }
    return OK;
}

/* ---- the block ---- */

static void put_table(struct buf *out, struct pack_header *header, enum pack_table table,
                      const void *items, size_t count, size_t item_bytes)
{
    ASSERT(header->tables[table].at == 0 && count <= UINT32_MAX); /* each table is put once */
    /* Tables are padded to 8 bytes, because they are read in place; no struct in them has a larger
     * alignment. */
    buf_append(out, slice_of("\0\0\0\0\0\0\0", (8 - out->len % 8) % 8));
    header->tables[table].at = (uint32_t)out->len;
    header->tables[table].count = (uint32_t)count;
    buf_append(out, slice_of(items, count * item_bytes));
}

/* Makes the search data of an integration, and writes that of its actions to `actions`. */
static struct search_integration search_source(const struct catalog_integration *integration,
                                               const struct pack_integration *packed,
                                               const struct pack_action *packed_actions,
                                               struct search_action *actions)
{
    for (size_t i = 0; i < integration->action_count; i++) {
        const struct catalog_action *action = &integration->actions[i];
        actions[i] = (struct search_action){
            .id = action->action_id,
            .title = action->title,
            .description = action->description,
            .id_span = packed_actions[i].action_id,
            .tool_name_span = packed_actions[i].tool_name,
            .tags = action->tags,
            .inputs = JSON_GET(action->input_schema, "properties"),
            .is_read = action->level == LEVEL_READ,
        };
    }
    return (struct search_integration){
        .id = integration->integration_id,
        .name = integration->name,
        .category = integration->category,
        .description = integration->description,
        .id_span = packed->integration_id,
        .tags = integration->tags,
        .actions = actions,
        .action_count = integration->action_count,
    };
}

static int build_index(const struct manifest_set *set, const struct pack_integration *integrations,
                       const struct pack_action *actions, struct arena *arena, struct buf *texts,
                       struct search_index *index)
{
    struct search_integration *sources =
        ARENA_ARRAY(arena, struct search_integration, set->count + 1);
    struct search_action *of_actions =
        ARENA_ARRAY(arena, struct search_action, set->action_count + 1);
    if (!sources || !of_actions)
        return ERR_NOMEM;
    for (size_t i = 0; i < set->count; i++) {
        size_t first = integrations[i].action_first;
        sources[i] =
            search_source(set->items[i], &integrations[i], actions + first, of_actions + first);
    }
    return search_index_build(sources, set->count, arena, texts, index);
}

static void put_index(struct buf *out, struct pack_header *header, const struct search_index *index)
{
    put_table(out, header, PACK_DOCS, index->docs, index->doc_count, sizeof(*index->docs));
    put_table(out, header, PACK_WORDS, index->words, index->word_count, sizeof(*index->words));
    put_table(out, header, PACK_TERMS, index->terms, index->term_count, sizeof(*index->terms));
    put_table(out, header, PACK_POSTINGS, index->postings, index->posting_count,
              sizeof(*index->postings));
    put_table(out, header, PACK_LINKS, index->links, index->link_count, sizeof(*index->links));
    put_table(out, header, PACK_PHRASES, index->phrases, index->phrase_count,
              sizeof(*index->phrases));
    put_table(out, header, PACK_REMAINDERS, index->remainders, index->remainder_count,
              sizeof(*index->remainders));
    put_table(out, header, PACK_BUCKETS, index->bucket_starts, index->bucket_count + 1,
              sizeof(*index->bucket_starts));
}

/* Lookups use binary search. The ids are strictly ascending: equal ids were refused before. */
static void check_order(const struct manifest_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct catalog_integration *one = set->items[i];
        ASSERT(i == 0 || slice_cmp(set->items[i - 1]->integration_id, one->integration_id) < 0);
        for (size_t j = 1; j < one->action_count; j++)
            ASSERT(slice_cmp(one->actions[j - 1].action_id, one->actions[j].action_id) < 0);
    }
}

static int make(const struct manifest_set *set, const char *etag, struct arena *arena,
                struct buf *texts, struct buf *out, slice *twice)
{
    struct pack_header header = {.magic = PACK_MAGIC};
    struct search_index index;
    struct pack_integration *integrations =
        ARENA_ARRAY(arena, struct pack_integration, set->count + 1);
    struct pack_action *actions = ARENA_ARRAY(arena, struct pack_action, set->action_count + 1);
    uint32_t *tools = ARENA_ARRAY(arena, uint32_t, set->action_count + 1);
    size_t count = 0;
    if (!integrations || !actions || !tools)
        return ERR_NOMEM;
    int result = sort_tools(set, arena, tools, twice);
    if (result != OK)
        return result;
    check_order(set);
    (void)snprintf(header.etag, sizeof(header.etag), "%s", etag);
    for (uint32_t i = 0; i < set->count; i++) {
        const struct catalog_integration *integration = set->items[i];
        integrations[i] = pack_integration(texts, integration, count);
        for (size_t j = 0; j < integration->action_count; j++)
            actions[count++] = pack_action(texts, &integration->actions[j], i);
    }
    if (build_index(set, integrations, actions, arena, texts, &index) != OK)
        return ERR_NOMEM;
    /* This only reserves room: the offsets are known once all tables are written, and memcpy then
     * writes them. */
    buf_append(out, slice_of((const char *)&header, sizeof(header)));
    put_table(out, &header, PACK_INTEGRATIONS, integrations, set->count, sizeof(*integrations));
    put_table(out, &header, PACK_ACTIONS, actions, count, sizeof(*actions));
    put_table(out, &header, PACK_TOOLS, tools, count, sizeof(*tools));
    put_index(out, &header, &index);
    put_table(out, &header, PACK_TEXTS, texts->ptr, texts->len, 1);
    if (!buf_is_ok(texts) || !buf_is_ok(out))
        return ERR_NOMEM;
    memcpy(out->ptr, &header, sizeof(header));
    return OK;
}

int pack_make(const struct manifest_set *set, const char *etag, struct arena *arena,
              struct buf *out, slice *twice)
{
    struct buf texts;
    ASSERT(out->len == 0); /* tables are found by their distance from the header */
    buf_init(&texts, PACK_BYTES_MAX);
    int result = make(set, etag, arena, &texts, out, twice);
    buf_deinit(&texts);
    return result;
}
