/*
 * The tree of nodes: ids, order, memory.
 */
#include "base/mem.h"
#include "provider/notion.h"

struct notion *notion_new(struct provider *provider)
{
    struct notion *notion = mem_zalloc(sizeof(*notion));
    if (!notion)
        return NULL;
    notion->provider = provider;
    map_init(&notion->nodes, (size_t)NOTION_NODES_MAX * 4);
    list_init(&notion->roots);
    list_init(&notion->recent);
    list_init(&notion->made);
    return notion;
}

static void free_comment(struct notion_comment *comment)
{
    arena_deinit(&comment->arena);
    mem_free(comment);
}

void notion_free(struct notion *notion)
{
    if (!notion)
        return;
    while (!list_is_empty(&notion->roots))
        notion_node_free(notion, LIST_ITEM(notion->roots.next, struct notion_node, sibling_link));
    for (size_t i = 0; i < notion->comment_count; i++)
        free_comment(notion->comments[i]);
    mem_free((void *)notion->comments);
    ASSERT(notion->nodes.count == 0);
    map_deinit(&notion->nodes);
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
        if (c >= 'A' && c <= 'F')
            c = (char)(c + 32);
        if (digits == 32 || !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        if (is_dash_next)
            out[at++] = '-';
        out[at++] = c;
        digits++;
    }
    out[at] = 0;
    return digits == 32 && at == UUID_TEXT_LEN;
}

void notion_id_new(struct notion *notion, char out[UUID_TEXT_LEN + 1])
{
    struct uuid id;
    for (int i = 0; i < 2; i++) {
        uint64_t bits = rng_next(&notion->provider->rng);
        memcpy(id.bytes + 8 * i, &bits, 8);
    }
    id.bytes[6] = (uint8_t)(0x40 | (id.bytes[6] & 0x0f)); /* version 4 */
    id.bytes[8] = (uint8_t)(0x80 | (id.bytes[8] & 0x3f));
    uuid_format(id, out);
}

static slice id_slice(const char *id)
{
    return slice_of(id, UUID_TEXT_LEN);
}

struct notion_node *notion_find(const struct notion *notion, slice id)
{
    char text[UUID_TEXT_LEN + 1];
    return notion_id_read(id, text) ? map_get(&notion->nodes, id_slice(text)) : NULL;
}

struct notion_node *notion_node_new(struct notion *notion, enum notion_kind kind, const char *id,
                                    int64_t now_us)
{
    struct notion_node *node = mem_zalloc(sizeof(*node));
    if (!node)
        return NULL;
    if (id[0]) {
        ASSERT(strlen(id) == UUID_TEXT_LEN);
        memcpy(node->id, id, UUID_TEXT_LEN + 1);
    } else {
        notion_id_new(notion, node->id);
    }
    node->kind = kind;
    node->created_us = node->edited_us = now_us;
    node->created_by = node->edited_by = NOTION_USER_BOT;
    node->number = ++notion->numbers;
    list_init(&node->sibling_link);
    list_init(&node->children);
    list_init(&node->recent_link);
    list_init(&node->api_link);
    arena_init(&node->arena, NOTION_NODE_BYTES_MAX);
    node->content = node->icon = node->cover = json_null;
    node->properties = json_object();
    node->title = node->description = json_array();
    return node;
}

void notion_node_discard(struct notion_node *node)
{
    ASSERT(list_is_empty(&node->sibling_link) && list_is_empty(&node->children));
    arena_deinit(&node->arena);
    mem_free(node);
}

void notion_evict(struct notion *notion)
{
    while (notion->nodes.count > NOTION_NODES_MAX && !list_is_empty(&notion->made))
        notion_node_free(notion, LIST_ITEM(notion->made.next, struct notion_node, api_link));
}

static void link_below(struct notion *notion, struct notion_node *node, struct notion_node *parent,
                       struct notion_node *after)
{
    struct list *siblings = parent ? &parent->children : &notion->roots;
    node->parent = parent;
    if (after)
        list_push_front(&after->sibling_link, &node->sibling_link);
    else if (parent && parent->kind == NOTION_SOURCE)
        list_push_front(siblings, &node->sibling_link);
    else
        list_push_back(siblings, &node->sibling_link);
    if (parent)
        parent->child_count++;
}

bool notion_node_enter(struct notion *notion, struct notion_node *node, struct notion_node *parent,
                       struct notion_node *after)
{
    if (map_put(&notion->nodes, id_slice(node->id), node, NULL) != OK)
        return false;
    link_below(notion, node, parent, after);
    if (node->kind != NOTION_BLOCK)
        list_push_front(&notion->recent, &node->recent_link);
    if (node->is_from_api)
        list_push_back(&notion->made, &node->api_link);
    return true;
}

void notion_node_move(struct notion *notion, struct notion_node *node, struct notion_node *parent)
{
    list_unlink(&node->sibling_link);
    if (node->parent)
        node->parent->child_count--;
    link_below(notion, node, parent, NULL);
}

void notion_node_free(struct notion *notion, struct notion_node *node)
{
    while (!list_is_empty(&node->children))
        notion_node_free(notion, LIST_ITEM(node->children.next, struct notion_node, sibling_link));
    list_unlink(&node->sibling_link);
    list_unlink(&node->recent_link);
    list_unlink(&node->api_link);
    if (node->parent)
        node->parent->child_count--;
    map_remove(&notion->nodes, id_slice(node->id));
    arena_deinit(&node->arena);
    mem_free(node);
}

/* Values that were replaced stay in the arena; when they are more than half, all is copied over. */
static void compact(struct notion_node *node)
{
    enum { SMALL_BYTES = 16 * 1024 };
    if (node->arena.bytes_used < SMALL_BYTES + 2 * node->compact_bytes)
        return;
    struct arena fresh;
    arena_init(&fresh, NOTION_NODE_BYTES_MAX);
    struct json *const values[] = {&node->content,     &node->properties, &node->title,
                                   &node->description, &node->icon,       &node->cover};
    struct json copies[ARRAY_LEN(values)];
    bool is_ok = true;
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        const struct json *copy = json_dup(&fresh, values[i]);
        is_ok &= copy != NULL;
        copies[i] = copy ? *copy : json_null;
    }
    slice type = arena_dup(&fresh, node->type);
    if (!is_ok || fresh.is_exhausted) {
        arena_deinit(&fresh);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        *values[i] = copies[i];
    node->type = type;
    arena_deinit(&node->arena);
    node->arena = fresh;
    node->compact_bytes = fresh.bytes_used;
}

struct notion_node *notion_node_page(struct notion_node *node)
{
    while (node->kind == NOTION_BLOCK && node->parent)
        node = node->parent;
    return node;
}

void notion_node_edited(struct notion *notion, struct notion_node *node, int64_t now_us,
                        const char *by)
{
    node->edited_us = now_us;
    node->edited_by = by;
    compact(node);
    struct notion_node *page = notion_node_page(node);
    page->edited_us = now_us;
    page->edited_by = by;
    list_unlink(&page->recent_link);
    list_push_front(&notion->recent, &page->recent_link);
}

bool notion_is_gone(const struct notion_node *node)
{
    for (; node; node = node->parent)
        if (node->is_archived)
            return true;
    return false;
}
