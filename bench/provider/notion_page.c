/*
 * The endpoints of pages.
 */
#include "provider/notion.h"

/* icon or cover: null, or an object with its type; false: answered. */
static bool read_picture(struct notion_request *request, const char *key, struct json *page)
{
    struct arena *arena = request->arena;
    const struct json *input = json_get(request->body, slice_cstr(key));
    bool is_emoji = json_get_str(input, SLICE("emoji")).len > 0 && !strcmp(key, "icon");
    bool is_external = json_get_str(JSON_GET(input, "external"), SLICE("url")).len > 0;
    slice type = is_emoji ? SLICE("emoji") : SLICE("external");
    struct json picture = json_null;
    if (!input)
        return true;
    if (is_emoji || is_external) {
        picture = OBJECT(arena, "type", json_string(type));
        json_object_set(arena, &picture, type, *json_get(input, type));
    } else if (input->type != JSON_NULL) {
        return notion_should(request, arena_printf(arena, "body.%s.external", key).ptr,
                             "be defined", NULL);
    }
    json_object_put(arena, page, slice_cstr(key), picture);
    return true;
}

/* The one data source of a database; NULL: answered. */
static struct notion_node *only_source(struct notion_request *request, struct notion_node *database)
{
    struct notion_node *only = NULL;
    size_t count = 0;
    LIST_EACH(&database->children, struct notion_node, source, sibling_link) {
        if (source->is_archived)
            continue;
        only = source;
        count++;
    }
    if (count == 1)
        return only;
    notion_invalid(request,
                   "Database %s has %zu data sources: name the one that is meant as "
                   "body.parent.data_source_id.",
                   database->id, count);
    return NULL;
}

bool notion_parent_read(struct notion_request *request, enum notion_kind first,
                        enum notion_kind last, struct notion_node **out)
{
    static const char *const keys[] = {"page_id", "database_id", "data_source_id"};
    const struct json *parent = JSON_GET(request->body, "parent");
    slice type = json_get_str(parent, SLICE("type"));
    for (enum notion_kind kind = first; kind <= last; kind++) {
        slice id = json_get_str(parent, slice_cstr(keys[kind]));
        *out = id.len ? notion_find(request->notion, id) : NULL;
        if (!id.len)
            continue;
        if (type.len && !slice_eq_cstr(type, keys[kind]))
            return notion_should(request, "body.parent.type",
                                 arena_printf(request->arena, "be `\"%s\"`", keys[kind]).ptr,
                                 JSON_GET(parent, "type"));
        bool is_hidden = first == last && notion_is_gone(*out);
        if (!*out || (*out)->kind != kind || is_hidden)
            return notion_not_found(request, notion_kind_name(kind), id);
        return notion_is_editable(request, *out);
    }
    return notion_should(request, arena_printf(request->arena, "body.parent.%s", keys[first]).ptr,
                         "be defined", NULL);
}

/* The parent that the body names: a page, a data source, or NULL for the workspace; a database
 * stands for its only data source. false: answered. */
static bool read_parent(struct notion_request *request, struct notion_node **out)
{
    const struct json *parent = JSON_GET(request->body, "parent");
    *out = NULL;
    if (!parent)
        return notion_should(request, "body.parent", "be defined", NULL);
    if (json_get_bool(parent, SLICE("workspace"), false))
        return true;
    if (!notion_parent_read(request, NOTION_PAGE, NOTION_SOURCE, out) || !*out)
        return false;
    if ((*out)->kind == NOTION_DATABASE)
        *out = only_source(request, *out);
    return *out != NULL;
}

static const struct notion_node *source_of(const struct notion_node *parent)
{
    return parent && parent->kind == NOTION_SOURCE ? parent : NULL;
}

/* What the body may change in a page below parent; false: answered. */
static bool read_page(struct notion_request *request, const struct notion_node *parent,
                      struct json *page)
{
    return notion_values_read(request, source_of(parent), page,
                              JSON_GET(request->body, "properties")) &&
           read_picture(request, "icon", page) && read_picture(request, "cover", page);
}

bool notion_pages_create(struct notion_request *request)
{
    struct notion_node *parent, *page = NULL;
    struct json blocks;
    const struct json *children = JSON_GET(request->body, "children");
    slice markdown = json_get_str(request->body, SLICE("markdown"));
    if (!read_parent(request, &parent))
        return false;
    if (!JSON_GET(request->body, "properties"))
        return notion_should(request, "body.properties", "be defined", NULL);
    if (children && markdown.len)
        return notion_invalid(request, "body failed validation: body.children and body.markdown "
                                       "are not taken together.");
    if (markdown.len) {
        blocks = notion_markdown_read(request->arena, markdown);
        children = &blocks;
    }
    struct json object = notion_shape(request, NOTION_PAGE, parent);
    if (read_page(request, parent, &object))
        page = notion_node_add(request, NOTION_PAGE, parent, &object);
    if (!page)
        return false;
    if (!children || notion_blocks_add(request, page, NULL, children, "body.children", 1))
        return notion_done(request, page);
    notion_node_free(request->notion, page);
    return false;
}

bool notion_pages_update(struct notion_request *request)
{
    struct notion_node *page = request->node;
    bool archives = JSON_GET(request->body, "in_trash") && !JSON_GET(request->body, "properties");
    if (!archives && !notion_is_editable(request, page))
        return false;
    notion_flag_put(request, "in_trash", &request->object);
    return read_page(request, page->parent, &request->object) && notion_save(request);
}

bool notion_pages_move(struct notion_request *request)
{
    struct notion_node *page = request->node, *parent;
    struct json *object = &request->object;
    if (!read_parent(request, &parent))
        return false;
    for (const struct notion_node *above = parent; above; above = above->parent)
        if (above == page)
            return notion_invalid(request, "A page can not be moved below itself.");
    json_object_put(request->arena, object, SLICE("parent"), notion_parent(request->arena, parent));
    if (!notion_values_read(request, source_of(parent), object, NULL) || !notion_save(request))
        return false;
    notion_node_insert(page, parent, parent ? NULL : &request->notion->roots);
    return true;
}

static struct json property_item(struct arena *arena, const struct json *property,
                                 const struct json *value)
{
    struct json item = OBJECT(arena, "object id type", json_string(SLICE("property_item")),
                              *JSON_GET(property, "id"), *JSON_GET(property, "type"));
    json_object_set(arena, &item, json_get_str(property, SLICE("type")), *value);
    return item;
}

/* Text, people and relations come as a list of items, each with one. */
bool notion_pages_property(struct notion_request *request)
{
    struct arena *arena = request->arena;
    const struct json *property = notion_node_property(request->node, request->id2);
    struct notion_list list;
    struct json item;
    if (!property)
        return notion_not_found(request, "property", request->id2);
    const struct json *value = json_get(property, json_get_str(property, SLICE("type")));
    if (!json_is(value, JSON_ARRAY)) {
        item = property_item(arena, property, value);
        return notion_reply(request, &item);
    }
    if (!notion_list_open(request, "property_item", &list))
        return false;
    for (uint32_t i = 0; i < value->count; i++) {
        item = property_item(arena, property, json_at(value, i));
        if (notion_list_takes(&list, arena_printf(arena, "%u", i)))
            json_put(&list.w, &item);
    }
    return notion_list_close(request, &list);
}
