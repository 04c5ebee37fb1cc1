/*
 * The endpoints of pages.
 */
#include "provider/notion.h"

/* icon or cover: null, or an object with its type; false: answered. */
static bool read_picture(struct notion_request *request, const char *key, struct json *page)
{
    struct arena *arena = request->http->arena;
    const struct json *input = json_get(request->body, slice_cstr(key));
    bool is_emoji = json_get_str(input, SLICE("emoji")).len > 0 && !strcmp(key, "icon");
    bool is_external = json_get_str(JSON_GET(input, "external"), SLICE("url")).len > 0;
    if (!input)
        return true;
    if (input->type != JSON_NULL && !is_emoji && !is_external)
        return notion_invalid(request,
                              "body failed validation. Fix one: body.%s.emoji should be defined, "
                              "instead was `undefined`. body.%s.external should be defined, "
                              "instead was `undefined`.",
                              key, key);
    struct json picture = json_null;
    slice type = is_emoji ? SLICE("emoji") : SLICE("external");
    if (input->type != JSON_NULL) {
        picture = json_object();
        json_object_set(arena, &picture, SLICE("type"), json_string(type));
        json_object_set(arena, &picture, type, *json_get(input, type));
    }
    json_object_put(arena, page, slice_cstr(key), picture);
    return true;
}

/* The one data source of a database; NULL: answered. */
static struct notion_node *only_source(struct notion_request *request, struct notion_node *database)
{
    struct notion_node *only = NULL;
    size_t count = 0;
    LIST_EACH(&database->children, link)
    {
        struct notion_node *source = LIST_ITEM(link, struct notion_node, sibling_link);
        if (!source->is_archived) {
            only = source;
            count++;
        }
    }
    if (count == 1)
        return only;
    notion_invalid(request,
                   "Database %s has %zu data sources: name the one that is meant as "
                   "body.parent.data_source_id.",
                   database->id, count);
    return NULL;
}

/* The parent that the body names: a page, a data source, or NULL for the workspace; a database
 * stands for its only data source. false: answered. */
static bool read_parent(struct notion_request *request, struct notion_node **out)
{
    static const char *const keys[] = {"page_id", "database_id", "data_source_id"};
    const struct json *parent = JSON_GET(request->body, "parent");
    slice type = json_get_str(parent, SLICE("type"));
    *out = NULL;
    if (!parent)
        return notion_invalid(request, "body failed validation: body.parent should be defined, "
                                       "instead was `undefined`.");
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        slice id = json_get_str(parent, slice_cstr(keys[i]));
        if (!id.len)
            continue;
        if (type.len && !slice_eq_cstr(type, keys[i]))
            return notion_invalid(request,
                                  "body failed validation: body.parent.type should be "
                                  "`\"%s\"`, instead was `\"%.*s\"`.",
                                  keys[i], SLICE_ARG(slice_first(type, 80)));
        struct notion_node *node = notion_find(request->notion, id);
        if (!node || node->kind != (enum notion_kind)i)
            return notion_not_found(request, notion_kind_name((enum notion_kind)i), id);
        if (!notion_is_editable(request, node))
            return false;
        *out = node->kind == NOTION_DATABASE ? only_source(request, node) : node;
        return *out != NULL;
    }
    if (json_get_bool(parent, SLICE("workspace"), false))
        return true;
    return notion_invalid(request,
                          "body failed validation. Fix one: body.parent.page_id should be defined, "
                          "instead was `undefined`. body.parent.data_source_id should be defined, "
                          "instead was `undefined`.");
}

static const struct notion_node *source_of(const struct notion_node *parent)
{
    return parent && parent->kind == NOTION_SOURCE ? parent : NULL;
}

void notion_pages_create(struct notion_request *request)
{
    struct notion_node *parent, *page = NULL;
    struct json blocks;
    const struct json *properties = JSON_GET(request->body, "properties");
    const struct json *children = JSON_GET(request->body, "children");
    slice markdown = json_get_str(request->body, SLICE("markdown"));
    if (!read_parent(request, &parent))
        return;
    if (!properties) {
        notion_invalid(request, "body failed validation: body.properties should be defined, "
                                "instead was `undefined`.");
        return;
    }
    if (children && markdown.len) {
        notion_invalid(request, "body failed validation: body.children and body.markdown are not "
                                "taken together.");
        return;
    }
    if (markdown.len) {
        blocks = notion_markdown_read(request->http->arena, markdown);
        children = &blocks;
    }
    struct json object = notion_shape(request, NOTION_PAGE, parent);
    if (notion_values_read(request, source_of(parent), &object, properties) &&
        read_picture(request, "icon", &object) && read_picture(request, "cover", &object))
        page = notion_node_add(request, NOTION_PAGE, parent, &object);
    if (!page)
        return;
    if (children && !notion_blocks_add(request, page, NULL, children, "body.children", 1))
        notion_node_free(request->notion, page);
    else
        notion_done(request, "notion.pages.create", page);
}

void notion_pages_get(struct notion_request *request)
{
    struct json_writer w = reply_json(request->reply, 200);
    notion_write_page(&w, request->node, request->http);
}

void notion_pages_update(struct notion_request *request)
{
    struct notion_node *page = request->node;
    const struct json *properties = JSON_GET(request->body, "properties");
    struct json object = notion_copy(request->http->arena, notion_object(page));
    const struct json *archives = JSON_GET(request->body, "in_trash");
    if ((!archives || properties) && !notion_is_editable(request, page))
        return;
    if (archives)
        json_object_put(request->http->arena, &object, SLICE("in_trash"), *archives);
    if (notion_values_read(request, source_of(page->parent), &object, properties) &&
        read_picture(request, "icon", &object) && read_picture(request, "cover", &object) &&
        notion_node_set(request, page, &object))
        notion_done(request, "notion.pages.update", page);
}

void notion_pages_move(struct notion_request *request)
{
    struct notion_node *page = request->node, *parent;
    struct json object = notion_copy(request->http->arena, notion_object(page));
    if (!read_parent(request, &parent))
        return;
    for (const struct notion_node *above = parent; above; above = above->parent) {
        if (above == page) {
            notion_invalid(request, "A page can not be moved below itself.");
            return;
        }
    }
    json_object_put(request->http->arena, &object, SLICE("parent"),
                    notion_parent(request->http->arena, parent));
    if (!notion_values_read(request, source_of(parent), &object, NULL) ||
        !notion_node_set(request, page, &object))
        return;
    notion_node_insert(page, parent, parent ? NULL : &request->notion->roots);
    notion_done(request, "notion.pages.move", page);
}

static void write_item(struct json_writer *w, const struct json *property, const struct json *value)
{
    slice type = json_get_str(property, SLICE("type"));
    json_open(w, '{');
    json_member_str(w, "object", SLICE("property_item"));
    json_member(w, "id", JSON_GET(property, "id"));
    json_member_str(w, "type", type);
    json_key_slice(w, type);
    json_put(w, value);
    json_close(w, '}');
}

/* Text, people and relations come as a list of items, each with one. */
void notion_pages_property(struct notion_request *request)
{
    const struct json *property = notion_property_find(
        JSON_GET(notion_object(request->node), "properties"), request->id2, NULL);
    struct notion_list list;
    if (!property) {
        notion_not_found(request, "property", request->id2);
        return;
    }
    const struct json *value = json_get(property, json_get_str(property, SLICE("type")));
    if (!json_is(value, JSON_ARRAY)) {
        struct json_writer w = reply_json(request->reply, 200);
        write_item(&w, property, value);
        return;
    }
    if (!notion_list_open(request, "property_item", &list))
        return;
    for (uint32_t i = 0; i < value->count; i++)
        if (notion_list_takes(&list, arena_printf(request->http->arena, "%u", i)))
            write_item(&list.w, property, json_at(value, i));
    notion_list_close(request, &list);
}
