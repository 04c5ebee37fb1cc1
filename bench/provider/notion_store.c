/*
 * The tree of nodes: ids, order, memory.
 */
#include "base/ascii.h"
#include "base/clock.h"
#include "base/mem.h"
#include "provider/notion.h"

/* Its text and the tree that it is parsed to. */
enum { NODE_ARENA_BYTES_MAX = 32 * NOTION_NODE_BYTES_MAX };

static const char *const kind_names[NOTION_KINDS] = {"page", "database", "data_source", "block",
                                                     "comment"};

const char *notion_kind_name(enum notion_kind kind)
{
    return kind_names[kind];
}

struct notion *notion_new(struct provider *provider)
{
    struct notion *notion = mem_zalloc(sizeof(*notion));
    if (!notion)
        return NULL;
    notion->provider = provider;
    arena_init(&notion->arena, 1024 * 1024);
    map_init(&notion->nodes, (size_t)NOTION_NODES_MAX * 4);
    buf_init(&notion->scratch, NOTION_NODE_BYTES_MAX);
    list_init(&notion->roots);
    list_init(&notion->recent);
    list_init(&notion->made);
    notion->data = provider_data(&notion->arena, "notion.json");
    if (notion->data)
        return notion;
    notion_free(notion);
    return NULL;
}

void notion_free(struct notion *notion)
{
    if (!notion)
        return;
    while (!list_is_empty(&notion->roots))
        notion_node_free(notion, LIST_ITEM(notion->roots.next, struct notion_node, sibling_link));
    ASSERT(notion->nodes.count == 0);
    map_deinit(&notion->nodes);
    arena_deinit(&notion->arena);
    buf_deinit(&notion->scratch);
    mem_free(notion);
}

bool notion_id_read(slice text, char out[UUID_TEXT_LEN + 1])
{
    size_t digits = 0, at = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_dash_next = digits == 8 || digits == 12 || digits == 16 || digits == 20;
        if (c == '-' && is_dash_next && text.len == UUID_TEXT_LEN && i && text.ptr[i - 1] != '-')
            continue;
        if (digits == 32 || !ascii_is_hex(c))
            return false;
        if (is_dash_next)
            out[at++] = '-';
        out[at++] = ascii_lower(c);
        digits++;
    }
    out[at] = 0;
    return digits == 32 && at == UUID_TEXT_LEN;
}

struct json notion_id_new(struct notion *notion, struct arena *arena)
{
    char text[UUID_TEXT_LEN + 1];
    struct uuid id;
    slice seeded = json_str(json_at(JSON_GET(notion->seed, "ids"), notion->seed_ids));
    if (seeded.len) {
        notion->seed_ids++;
        return json_string_dup(arena, seeded);
    }
    for (int i = 0; i < 2; i++) {
        uint64_t bits = rng_next(&notion->provider->rng);
        memcpy(id.bytes + 8 * i, &bits, 8);
    }
    id.bytes[6] = (uint8_t)(0x40 | (id.bytes[6] & 0x0f)); /* version 4 */
    id.bytes[8] = (uint8_t)(0x80 | (id.bytes[8] & 0x3f));
    uuid_format(id, text);
    return json_string_dup(arena, slice_cstr(text));
}

struct notion_node *notion_find(const struct notion *notion, slice id)
{
    char text[UUID_TEXT_LEN + 1];
    return notion_id_read(id, text) ? map_get(&notion->nodes, slice_cstr(text)) : NULL;
}

struct json notion_parent(struct arena *arena, const struct notion_node *parent)
{
    static const char *const keys[] = {"page_id", "database_id", "data_source_id", "block_id"};
    slice key = parent ? slice_cstr(keys[parent->kind]) : SLICE("workspace");
    struct json out = OBJECT(arena, "type", json_string(key));
    json_object_set(arena, &out, key,
                    parent ? json_string(slice_cstr(parent->id)) : json_bool(true));
    if (parent && parent->kind == NOTION_SOURCE)
        json_object_set(arena, &out, SLICE("database_id"),
                        json_string(slice_cstr(parent->parent->id)));
    return out;
}

/* Whose edit it is, and when: Notion's times are whole minutes. A comment has no last author. */
static void stamp(struct notion_request *request, struct json *object, const char *time_key,
                  const char *author_key)
{
    struct arena *arena = request->arena;
    int64_t now_us = request->http->now_us;
    char time[TIME_TEXT_LEN + 1];
    slice by = json_get_str(request->notion->seed, SLICE("by"));
    struct json author = OBJECT(arena, "object id", json_string(SLICE("user")),
                                json_string(by.len ? by : SLICE(NOTION_USER_BOT)));
    time_format(now_us - now_us % 60000000, time);
    json_object_put(arena, object, slice_cstr(time_key), json_string_dup(arena, slice_cstr(time)));
    if (json_get(object, slice_cstr(author_key)))
        json_object_put(arena, object, slice_cstr(author_key), author);
}

struct json notion_shape(struct notion_request *request, enum notion_kind kind,
                         const struct notion_node *parent)
{
    struct arena *arena = request->arena;
    struct json object = provider_copy(
        arena, json_get(JSON_GET(request->notion->data, "shapes"), slice_cstr(kind_names[kind])));
    json_object_put(arena, &object, SLICE("id"), notion_id_new(request->notion, arena));
    json_object_put(arena, &object, SLICE("parent"), notion_parent(arena, parent));
    stamp(request, &object, "created_time", "created_by");
    stamp(request, &object, "last_edited_time", "last_edited_by");
    return object;
}

/* https://www.notion.so/Title-of-it-0123...: the title's words and the id without dashes. */
static slice url_of(struct arena *arena, const char *id, slice title)
{
    char text[160];
    size_t len = 0;
    for (size_t i = 0; i < title.len && i < 80; i++) {
        char c = title.ptr[i];
        if (ascii_is_alnum(c) || (len && text[len - 1] != '-'))
            text[len++] = ascii_is_alnum(c) ? c : '-';
    }
    if (len && text[len - 1] != '-')
        text[len++] = '-';
    for (size_t i = 0; i < UUID_TEXT_LEN; i++)
        if (id[i] != '-')
            text[len++] = id[i];
    return arena_printf(arena, "https://www.notion.so/%.*s", (int)len, text);
}

bool notion_node_keep(struct notion_request *request, struct notion_node *node, struct json *object)
{
    struct arena *arena = request->arena, fresh;
    slice label = notion_label(arena, object);
    if (JSON_GET(object, "url"))
        json_object_put(arena, object, SLICE("url"), json_string(url_of(arena, node->id, label)));
    arena_init(&fresh, NODE_ARENA_BYTES_MAX);
    buf_clear(&request->notion->scratch);
    json_write(&request->notion->scratch, object);
    slice text = arena_dup(&fresh, buf_slice(&request->notion->scratch));
    if (arena->is_exhausted || !buf_is_ok(&request->notion->scratch) || !text.ptr) {
        arena_deinit(&fresh);
        return notion_out_of_memory(request);
    }
    bool is_archived = json_get_bool(object, SLICE("in_trash"), false);
    node->label = arena_dup(&fresh, label);
    arena_deinit(&node->arena); /* object may point into it */
    node->arena = fresh;
    node->text = text;
    node->object = NULL;
    node->is_archived = is_archived;
    return true;
}

const struct json *notion_object(const struct notion_node *node)
{
    struct notion_node *own = (struct notion_node *)(uintptr_t)node;
    struct err err;
    if (!node->object)
        own->object = json_parse(&own->arena, node->text, &json_limits_provider, &err);
    ASSERT(node->object); /* it was written here, and its arena has the room */
    return node->object;
}

void notion_node_insert(struct notion_node *node, struct notion_node *parent, struct list *before)
{
    ASSERT(before || parent); /* of a root the caller gives the list */
    list_unlink(&node->sibling_link);
    node->parent = parent;
    if (before)
        list_push_back(before, &node->sibling_link);
    else if (parent->kind == NOTION_SOURCE)
        list_push_front(&parent->children, &node->sibling_link);
    else
        list_push_back(&parent->children, &node->sibling_link);
}

struct notion_node *notion_node_add(struct notion_request *request, enum notion_kind kind,
                                    struct notion_node *parent, struct json *object)
{
    struct notion *notion = request->notion;
    struct notion_node *node = mem_zalloc(sizeof(*node));
    if (!node) {
        notion_out_of_memory(request);
        return NULL;
    }
    memcpy(node->id, json_get_str(object, SLICE("id")).ptr, UUID_TEXT_LEN);
    node->kind = kind;
    list_init(&node->sibling_link);
    list_init(&node->children);
    list_init(&node->recent_link);
    list_init(&node->api_link);
    arena_init(&node->arena, NODE_ARENA_BYTES_MAX);
    bool is_kept = notion_node_keep(request, node, object);
    if (!is_kept || map_put(&notion->nodes, slice_cstr(node->id), node, NULL) != OK) {
        arena_deinit(&node->arena);
        mem_free(node);
        notion_out_of_memory(request);
        return NULL;
    }
    notion_node_insert(node, parent, parent ? NULL : &notion->roots);
    if (kind <= NOTION_SOURCE)
        list_push_front(&notion->recent, &node->recent_link);
    if (!notion->seed)
        list_push_back(&notion->made, &node->api_link);
    return node;
}

/* A block's edit is its page's, too. */
bool notion_node_set(struct notion_request *request, struct notion_node *node, struct json *object)
{
    struct arena *arena = request->arena;
    stamp(request, object, "last_edited_time", "last_edited_by");
    if (!notion_node_keep(request, node, object))
        return false;
    if (node->kind == NOTION_BLOCK) {
        struct notion_node *page = node->parent;
        while (page->kind == NOTION_BLOCK)
            page = page->parent;
        struct json copy = provider_copy(arena, notion_object(page));
        return notion_node_set(request, page, &copy);
    }
    if (node->kind <= NOTION_SOURCE) {
        list_unlink(&node->recent_link);
        list_push_front(&request->notion->recent, &node->recent_link);
    }
    return true;
}

void notion_node_free(struct notion *notion, struct notion_node *node)
{
    while (!list_is_empty(&node->children))
        notion_node_free(notion, LIST_ITEM(node->children.next, struct notion_node, sibling_link));
    list_unlink(&node->sibling_link);
    list_unlink(&node->recent_link);
    list_unlink(&node->api_link);
    map_remove(&notion->nodes, slice_cstr(node->id));
    arena_deinit(&node->arena);
    mem_free(node);
}

void notion_evict(struct notion *notion)
{
    while (notion->nodes.count > NOTION_NODES_MAX && !list_is_empty(&notion->made))
        notion_node_free(notion, LIST_ITEM(notion->made.next, struct notion_node, api_link));
}

bool notion_is_gone(const struct notion_node *node)
{
    for (; node; node = node->parent)
        if (node->is_archived)
            return true;
    return false;
}

bool notion_is_editable(struct notion_request *request, const struct notion_node *node)
{
    bool returns = !json_get_bool(request->body, SLICE("in_trash"), true);
    return returns || !notion_is_gone(node) ||
           notion_invalid(request, "Can't edit block that is archived. You must unarchive the "
                                   "block before editing.");
}
