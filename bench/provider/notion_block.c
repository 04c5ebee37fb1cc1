/*
 * Blocks: reading what a client appends, and the block endpoints.
 */
#include <stdio.h>

#include "provider/ledger.h"
#include "provider/notion.h"

/* What a block type holds. */
enum {
    HAS_TEXT = 1, /* rich_text */
    HAS_COLOR = 2,
    HAS_CHECKED = 4,
    HAS_TOGGLE = 8, /* is_toggleable */
    HAS_CHILDREN = 16,
    HAS_CAPTION = 32,
    HAS_URL = 64, /* url required */
};

static const struct block_type {
    const char *name;
    unsigned has;
} block_types[] = {
    {"paragraph", HAS_TEXT | HAS_COLOR | HAS_CHILDREN},
    {"heading_1", HAS_TEXT | HAS_COLOR | HAS_TOGGLE | HAS_CHILDREN},
    {"heading_2", HAS_TEXT | HAS_COLOR | HAS_TOGGLE | HAS_CHILDREN},
    {"heading_3", HAS_TEXT | HAS_COLOR | HAS_TOGGLE | HAS_CHILDREN},
    {"bulleted_list_item", HAS_TEXT | HAS_COLOR | HAS_CHILDREN},
    {"numbered_list_item", HAS_TEXT | HAS_COLOR | HAS_CHILDREN},
    {"to_do", HAS_TEXT | HAS_COLOR | HAS_CHECKED | HAS_CHILDREN},
    {"toggle", HAS_TEXT | HAS_COLOR | HAS_CHILDREN},
    {"quote", HAS_TEXT | HAS_COLOR | HAS_CHILDREN},
    {"callout", HAS_TEXT | HAS_COLOR | HAS_CHILDREN},
    {"code", HAS_TEXT | HAS_CAPTION},
    {"divider", 0},
    {"breadcrumb", 0},
    {"table_of_contents", HAS_COLOR},
    {"bookmark", HAS_URL | HAS_CAPTION},
    {"embed", HAS_URL | HAS_CAPTION},
    {"equation", 0},
    {"image", HAS_CAPTION},
    {"video", HAS_CAPTION},
    {"file", HAS_CAPTION},
    {"pdf", HAS_CAPTION},
    {"column_list", HAS_CHILDREN},
    {"column", HAS_CHILDREN},
    {"table", HAS_CHILDREN},
    {"table_row", 0},
    {"synced_block", HAS_CHILDREN},
    {"link_to_page", 0},
};

/* The type of a block that a client sent: its `type`, or the one member that names a type. */
static const struct block_type *find_type(const struct json *block)
{
    slice named = json_get_str(block, SLICE("type"));
    for (size_t i = 0; i < ARRAY_LEN(block_types); i++) {
        slice name = slice_cstr(block_types[i].name);
        if (named.ptr ? slice_eq(named, name) : json_get(block, name) != NULL)
            return &block_types[i];
    }
    return NULL;
}

static bool check_block(struct notion_request *request, const struct json *block, const char *where,
                        uint32_t index, unsigned depth)
{
    const struct block_type *type = find_type(block);
    if (!type)
        return notion_invalid(request,
                              "body failed validation: %s[%u] should have one known block type, "
                              "instead was `%s`.",
                              where, index, json_is(block, JSON_OBJECT) ? "{}" : "undefined");
    const struct json *content = json_get(block, slice_cstr(type->name));
    if (!json_is(content, JSON_OBJECT))
        return notion_invalid(request,
                              "body failed validation: %s[%u].%s should be defined, instead was "
                              "`undefined`.",
                              where, index, type->name);
    char inner[200];
    struct json text;
    (void)snprintf(inner, sizeof(inner), "%.120s[%u].%s.rich_text", where, index, type->name);
    if (type->has & HAS_TEXT && !notion_text_read(request, request->http->arena,
                                                  JSON_GET(content, "rich_text"), inner, &text))
        return false;
    const struct json *caption = JSON_GET(content, "caption");
    if (caption && !notion_text_read(request, request->http->arena, caption, inner, &text))
        return false;
    if (type->has & HAS_URL && !json_get_str(content, SLICE("url")).len)
        return notion_invalid(request,
                              "body failed validation: %s[%u].%s.url should be defined, instead "
                              "was `undefined`.",
                              where, index, type->name);
    const struct json *children = JSON_GET(content, "children");
    (void)snprintf(inner, sizeof(inner), "%.120s[%u].%s.children", where, index, type->name);
    if (children && !(type->has & HAS_CHILDREN))
        return notion_invalid(request, "body failed validation: %s should be not present.", inner);
    return !children || notion_blocks_check(request, children, inner, depth + 1);
}

bool notion_blocks_check(struct notion_request *request, const struct json *children,
                         const char *where, unsigned depth)
{
    if (!json_is(children, JSON_ARRAY))
        return notion_invalid(request,
                              "body failed validation: %s should be an array, instead was `%s`.",
                              where, children ? json_type_name(children) : "undefined");
    if (children->count > NOTION_CHILDREN_MAX)
        return notion_invalid(request,
                              "body failed validation: %s.length should be ≤ `%d`, instead was "
                              "`%u`.",
                              where, NOTION_CHILDREN_MAX, children->count);
    if (depth > NOTION_DEPTH_MAX)
        return notion_invalid(request, "body failed validation: %s is nested too deeply.", where);
    for (uint32_t i = 0; i < children->count; i++)
        if (!check_block(request, json_at(children, i), where, i, depth))
            return false;
    return true;
}

/* Everything of content but children, with defaults; over `former` where it is an update. */
static bool read_content(struct notion_request *request, struct notion_node *node,
                         const struct block_type *type, const struct json *content,
                         const struct json *former, struct json *out)
{
    struct arena *arena = &node->arena;
    *out = json_object();
    for (uint32_t i = 0; former && former->type == JSON_OBJECT && i < former->count; i++)
        json_object_set(arena, out, json_str(&former->as.members[i].key),
                        former->as.members[i].value);
    for (uint32_t i = 0; json_is(content, JSON_OBJECT) && i < content->count; i++) {
        slice key = json_str(&content->as.members[i].key);
        const struct json *value = &content->as.members[i].value;
        struct json read;
        if (slice_eq(key, SLICE("children")))
            continue;
        if (slice_eq(key, SLICE("rich_text")) || slice_eq(key, SLICE("caption"))) {
            if (!notion_text_read(request, arena, value, "body.rich_text", &read))
                return false;
        } else {
            const struct json *copy = json_dup(arena, value);
            read = copy ? *copy : json_null;
        }
        json_object_put(arena, out, arena_dup(arena, key), read);
    }
    if (type->has & HAS_TEXT && !JSON_GET(out, "rich_text"))
        json_object_put(arena, out, SLICE("rich_text"), json_array());
    if (type->has & HAS_CAPTION && !JSON_GET(out, "caption"))
        json_object_put(arena, out, SLICE("caption"), json_array());
    if (type->has & HAS_COLOR && !JSON_GET(out, "color"))
        json_object_put(arena, out, SLICE("color"), json_string(SLICE("default")));
    if (type->has & HAS_CHECKED && !JSON_GET(out, "checked"))
        json_object_put(arena, out, SLICE("checked"), json_bool(false));
    if (type->has & HAS_TOGGLE && !JSON_GET(out, "is_toggleable"))
        json_object_put(arena, out, SLICE("is_toggleable"), json_bool(false));
    return true;
}

static struct notion_node *make_block(struct notion_request *request, struct notion_node *parent,
                                      struct notion_node *after, const struct json *block)
{
    const struct block_type *type = find_type(block);
    struct notion_node *node =
        notion_node_new(request->notion, NOTION_BLOCK, "", request->http->now_us);
    if (!node)
        return NULL;
    const struct json *content = json_get(block, slice_cstr(type->name));
    node->is_from_api = true;
    node->type = slice_cstr(type->name);
    if (!read_content(request, node, type, content, NULL, &node->content) ||
        !notion_node_enter(request->notion, node, parent, after)) {
        notion_node_discard(node);
        return NULL;
    }
    const struct json *children = JSON_GET(content, "children");
    for (uint32_t i = 0; children && i < children->count; i++)
        if (!make_block(request, node, NULL, json_at(children, i)))
            break;
    return node;
}

bool notion_blocks_append(struct notion_request *request, struct notion_node *parent,
                          struct notion_node *after, const struct json *children, const char *where,
                          struct notion_node **made, size_t *made_count)
{
    if (!notion_blocks_check(request, children, where, 1))
        return false;
    for (uint32_t i = 0; i < children->count; i++) {
        struct notion_node *node = make_block(request, parent, after, json_at(children, i));
        if (!node) {
            notion_error_plain(request->notion->provider, request->reply, 503);
            return false;
        }
        if (after)
            after = node;
        if (made)
            made[(*made_count)++] = node;
    }
    return true;
}

/* All but data sources are blocks, too; archived ones are found, as Notion does. NULL: answered. */
static struct notion_node *find(struct notion_request *request)
{
    struct notion_node *node = notion_find(request->notion, request->id);
    if (node && node->kind != NOTION_SOURCE)
        return node;
    notion_not_found(request, "block", request->id);
    return NULL;
}

static void reply_block(struct notion_request *request, const struct notion_node *node)
{
    struct json_writer w = reply_json(request->reply, 200);
    notion_write_block(&w, node, request->http->arena);
}

static void record(struct notion_request *request, const char *kind, const struct notion_node *node)
{
    slice text =
        node->kind == NOTION_BLOCK
            ? notion_text_plain(request->http->arena, JSON_GET(&node->content, "rich_text"))
            : notion_title(request->http->arena, node);
    ledger_add(request->notion->provider->ledger, request->http, kind,
               slice_of(node->id, UUID_TEXT_LEN), text);
}

void notion_blocks_get(struct notion_request *request)
{
    const struct notion_node *node = find(request);
    if (node)
        reply_block(request, node);
}

void notion_blocks_delete(struct notion_request *request)
{
    struct notion_node *node = find(request);
    if (!node)
        return;
    if (node->is_archived) {
        notion_invalid(request, "Can't edit block that is archived. You must unarchive the block "
                                "before editing.");
        return;
    }
    node->is_archived = true;
    notion_node_edited(request->notion, node, request->http->now_us, NOTION_USER_BOT);
    record(request, "notion.blocks.delete", node);
    reply_block(request, node);
}

void notion_blocks_update(struct notion_request *request)
{
    struct notion_node *node = find(request);
    if (!node)
        return;
    bool archives = json_get_bool(request->body, SLICE("in_trash"), node->is_archived);
    if (node->is_archived && archives) {
        notion_invalid(request, "Can't edit block that is archived. You must unarchive the block "
                                "before editing.");
        return;
    }
    const struct block_type *type = find_type(request->body);
    if (type && (node->kind != NOTION_BLOCK || !slice_eq_cstr(node->type, type->name))) {
        notion_invalid(request, "Block type cannot be changed: it is %.*s.",
                       SLICE_ARG(node->kind == NOTION_BLOCK ? node->type : SLICE("child_page")));
        return;
    }
    struct json content = node->content;
    if (type && !read_content(request, node, type, json_get(request->body, slice_cstr(type->name)),
                              &node->content, &content))
        return;
    node->content = content;
    node->is_archived = archives;
    notion_node_edited(request->notion, node, request->http->now_us, NOTION_USER_BOT);
    record(request, "notion.blocks.update", node);
    reply_block(request, node);
}

void notion_children_list(struct notion_request *request)
{
    const struct notion_node *parent = find(request);
    size_t size, listed = 0;
    slice cursor;
    if (!parent || !notion_page_read(request, true, &size, &cursor))
        return;
    const struct notion_node *start = cursor.len ? notion_find(request->notion, cursor) : NULL;
    if (cursor.len && (!start || start->parent != parent)) {
        notion_invalid(request, "The start_cursor provided is invalid: %.*s", SLICE_ARG(cursor));
        return;
    }
    const char *next = NULL;
    struct json_writer w = notion_list_open(request);
    const struct list *node = start ? &start->sibling_link : parent->children.next;
    /* The data sources of a database are no blocks. */
    for (; parent->kind != NOTION_DATABASE && node != &parent->children; node = node->next) {
        const struct notion_node *child = LIST_ITEM(node, struct notion_node, sibling_link);
        if (child->is_archived)
            continue;
        if (listed == size) {
            next = child->id;
            break;
        }
        notion_write_block(&w, child, request->http->arena);
        listed++;
    }
    notion_list_close(request, &w, next, "block");
}

/* Where new children go: behind a block, first or last (*after NULL, *is_first). */
static bool read_position(struct notion_request *request, const struct notion_node *parent,
                          struct notion_node **after, bool *is_first)
{
    const struct json *position = JSON_GET(request->body, "position");
    slice type = json_get_str(position, SLICE("type"));
    slice id = json_get_str(JSON_GET(position, "after_block"), SLICE("id"));
    if (JSON_GET(request->body, "after"))
        return notion_invalid(request, "body failed validation: body.after should be not present: "
                                       "use body.position.");
    *is_first = slice_eq(type, SLICE("start"));
    if (!position || *is_first || slice_eq(type, SLICE("end")))
        return true;
    if (!slice_eq(type, SLICE("after_block")) || !id.len)
        return notion_invalid(request, "body failed validation: body.position.type should be "
                                       "`\"after_block\"`, `\"start\"` or `\"end\"`.");
    *after = notion_find(request->notion, id);
    return (*after && (*after)->parent == parent) ||
           notion_invalid(request, "Block with ID %.*s is not a child of the parent.",
                          SLICE_ARG(id));
}

void notion_children_append(struct notion_request *request)
{
    struct notion_node *parent = find(request), *after = NULL;
    bool is_first = false;
    if (!parent)
        return;
    if (notion_is_gone(parent)) {
        notion_invalid(request, "Can't edit block that is archived. You must unarchive the block "
                                "before editing.");
        return;
    }
    if (!read_position(request, parent, &after, &is_first))
        return;
    if (parent->kind == NOTION_DATABASE) {
        notion_invalid(request, "Database children can not be appended; create pages instead.");
        return;
    }
    struct notion_node *made[NOTION_CHILDREN_MAX];
    size_t count = 0;
    if (!notion_blocks_append(request, parent, after, JSON_GET(request->body, "children"),
                              "body.children", made, &count))
        return;
    for (size_t i = count; is_first && i-- > 0;) {
        list_unlink(&made[i]->sibling_link);
        list_push_front(&parent->children, &made[i]->sibling_link);
    }
    notion_node_edited(request->notion, parent, request->http->now_us, NOTION_USER_BOT);
    record(request, "notion.blocks.append", count ? made[0] : parent);
    struct json_writer w = notion_list_open(request);
    for (size_t i = 0; i < count; i++)
        notion_write_block(&w, made[i], request->http->arena);
    notion_list_close(request, &w, NULL, "block");
}
