/*
 * Blocks: reading what a client appends, and the block endpoints.
 */
#include "provider/notion.h"

/* The type of a block that a client sent: its `type`, or the one member that names a type; its
 * empty content is *empty. SLICE_NONE: no type that is known. */
static slice find_type(const struct notion_request *request, const struct json *block,
                       const struct json **empty)
{
    const struct json *types = JSON_GET(request->notion->data, "blocks");
    slice named = json_get_str(block, SLICE("type"));
    for (uint32_t i = 0; i < types->count; i++) {
        slice name = json_str(&types->as.members[i].key);
        *empty = &types->as.members[i].value;
        if (named.ptr ? slice_eq(named, name) : json_get(block, name) != NULL)
            return name;
    }
    return SLICE_NONE;
}

/* Everything of content but children, over `former`. */
static bool read_content(struct notion_request *request, const struct json *content,
                         const struct json *former, const char *where, struct json *out)
{
    struct arena *arena = request->arena;
    *out = provider_copy(arena, former);
    for (uint32_t i = 0; i < content->count; i++) {
        slice key = json_str(&content->as.members[i].key);
        struct json value = content->as.members[i].value;
        if (slice_eq(key, SLICE("children")))
            continue;
        if ((slice_eq(key, SLICE("rich_text")) || slice_eq(key, SLICE("caption"))) &&
            !notion_text_read(request, &content->as.members[i].value, where, &value))
            return false;
        json_object_put(arena, out, key, value);
    }
    return true;
}

static bool add_block(struct notion_request *request, struct notion_node *parent,
                      struct list *before, const struct json *block, const char *where,
                      unsigned depth)
{
    struct arena *arena = request->arena;
    struct json content;
    const struct json *empty;
    slice type = find_type(request, block, &empty);
    const struct json *input = json_get(block, type);
    if (!type.ptr)
        return notion_should(request, where, "have one known block type", block);
    where = arena_printf(arena, "%s.%.*s", where, SLICE_ARG(type)).ptr;
    if (!json_is(input, JSON_OBJECT))
        return notion_should(request, where, "be defined", NULL);
    if (!read_content(request, input, empty, arena_printf(arena, "%s.rich_text", where).ptr,
                      &content))
        return false;
    struct json object = notion_shape(request, NOTION_BLOCK, parent);
    json_object_set(arena, &object, SLICE("type"), json_string(type));
    json_object_set(arena, &object, type, content);
    struct notion_node *node = notion_node_add(request, NOTION_BLOCK, parent, &object);
    if (node && before)
        notion_node_insert(node, parent, before);
    const struct json *children = JSON_GET(input, "children");
    where = arena_printf(arena, "%s.children", where).ptr;
    return node &&
           (!children || notion_blocks_add(request, node, NULL, children, where, depth + 1));
}

bool notion_blocks_add(struct notion_request *request, struct notion_node *parent,
                       struct list *before, const struct json *children, const char *where,
                       unsigned depth)
{
    struct list *end = before ? before : &parent->children, *last = end->prev;
    slice length = arena_printf(request->arena, "%s.length", where);
    if (!json_is(children, JSON_ARRAY))
        return notion_should(request, where, "be an array", children);
    if (children->count &&
        !notion_in_range(request, length.ptr, children->count, NOTION_CHILDREN_MAX))
        return false;
    if (depth > NOTION_DEPTH_MAX)
        return notion_should(request, where, "be nested less deeply", children);
    for (uint32_t i = 0; i < children->count; i++) {
        slice inner = arena_printf(request->arena, "%s[%u]", where, i);
        if (add_block(request, parent, before, json_at(children, i), inner.ptr, depth))
            continue;
        while (end->prev != last)
            notion_node_free(request->notion,
                             LIST_ITEM(end->prev, struct notion_node, sibling_link));
        return false;
    }
    return true;
}

bool notion_blocks_get(struct notion_request *request)
{
    struct json_writer w = reply_json(request->reply, 200);
    notion_write_block(&w, request->node, request->http);
    return true;
}

bool notion_blocks_delete(struct notion_request *request)
{
    json_object_put(request->arena, &request->object, SLICE("in_trash"), json_bool(true));
    return notion_is_editable(request, request->node) && notion_save(request) &&
           notion_blocks_get(request);
}

bool notion_blocks_update(struct notion_request *request)
{
    struct json *object = &request->object, content;
    const struct json *empty;
    slice type = find_type(request, request->body, &empty);
    slice own = json_get_str(object, SLICE("type"));
    const struct json *input = json_get(request->body, type);
    if (!notion_is_editable(request, request->node))
        return false;
    if (type.ptr && !slice_eq(type, own))
        return notion_invalid(request, "Block type cannot be changed: it is %.*s.",
                              SLICE_ARG(own.ptr ? own : SLICE("child_page")));
    if (json_is(input, JSON_OBJECT)) {
        if (!read_content(request, input, json_get(object, type), "body.rich_text", &content))
            return false;
        json_object_put(request->arena, object, type, content);
    }
    notion_flag_put(request, "in_trash", object);
    return notion_save(request) && notion_blocks_get(request);
}

/* Lists the blocks of those from link up to end. Data sources and comments are below a node, too,
 * and are no blocks. */
static bool list_blocks(struct notion_request *request, const struct list *link,
                        const struct list *end)
{
    struct notion_list list;
    if (!notion_list_open(request, "block", &list))
        return false;
    for (; link != end; link = link->next) {
        const struct notion_node *child = LIST_ITEM(link, struct notion_node, sibling_link);
        bool is_block = child->kind != NOTION_SOURCE && child->kind != NOTION_COMMENT;
        if (is_block && !child->is_archived && notion_list_takes(&list, slice_cstr(child->id)))
            notion_write_block(&list.w, child, request->http);
    }
    return notion_list_close(request, &list);
}

bool notion_children_list(struct notion_request *request)
{
    const struct list *children = &request->node->children;
    return list_blocks(request, children->next, children);
}

/* Where new children go: before a sibling, or last (*before NULL). */
static bool read_position(struct notion_request *request, struct list **before)
{
    struct notion_node *parent = request->node;
    const struct json *position = JSON_GET(request->body, "position");
    slice type = json_get_str(position, SLICE("type"));
    slice id = json_get_str(JSON_GET(position, "after_block"), SLICE("id"));
    *before = NULL;
    if (JSON_GET(request->body, "after"))
        return notion_should(request, "body.after", "be not present: use body.position",
                             JSON_GET(request->body, "after"));
    if (slice_eq(type, SLICE("start")))
        *before = parent->children.next;
    if (!position || *before || slice_eq(type, SLICE("end")))
        return true;
    if (!slice_eq(type, SLICE("after_block")) || !id.len)
        return notion_should(request, "body.position.type",
                             "be `\"after_block\"`, `\"start\"` or `\"end\"`", position);
    struct notion_node *after = notion_find(request->notion, id);
    if (!after || after->parent != parent)
        return notion_invalid(request, "Block with ID %.*s is not a child of the parent.",
                              SLICE_ARG(id));
    *before = after->sibling_link.next;
    return true;
}

bool notion_children_append(struct notion_request *request)
{
    struct notion_node *parent = request->node;
    struct list *before;
    if (!notion_is_editable(request, parent) || !read_position(request, &before))
        return false;
    if (parent->kind == NOTION_DATABASE)
        return notion_invalid(request,
                              "Database children can not be appended; create pages instead.");
    struct list *end = before ? before : &parent->children, *last = end->prev;
    if (!notion_blocks_add(request, parent, before, JSON_GET(request->body, "children"),
                           "body.children", 1) ||
        !notion_node_set(request, parent, &request->object))
        return false;
    notion_done(request, last->next == end
                             ? parent
                             : LIST_ITEM(last->next, struct notion_node, sibling_link));
    return list_blocks(request, last->next, end);
}
