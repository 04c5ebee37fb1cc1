/*
 * The page endpoints.
 */
#include "provider/ledger.h"
#include "provider/notion_property.h"

/* A page that can be seen; NULL: answered. */
static struct notion_node *find(struct notion_request *request)
{
    struct notion_node *node = notion_find(request->notion, request->id);
    if (node && node->kind == NOTION_PAGE)
        return node;
    if (node && node->kind == NOTION_DATABASE)
        notion_invalid(request,
                       "Provided ID %s is a database, not a page. Use the retrieve database API "
                       "instead: https://developers.notion.com/reference/retrieve-a-database",
                       node->id);
    else
        notion_not_found(request, "page", request->id);
    return NULL;
}

static void reply_page(struct notion_request *request, const struct notion_node *page)
{
    struct json_writer w = reply_json(request->reply, 200);
    notion_write_page(&w, page, request->http->arena, request->http);
}

static void record(struct notion_request *request, const char *kind, const struct notion_node *page)
{
    ledger_add(request->notion->provider->ledger, request->http, kind,
               slice_of(page->id, UUID_TEXT_LEN), notion_title(request->http->arena, page));
}

/* icon or cover: null, or an object with its type; false: answered. */
static bool read_picture(struct notion_request *request, struct notion_node *node, const char *key,
                         struct json *out)
{
    const struct json *input = json_get(request->body, slice_cstr(key));
    if (!input)
        return true;
    bool is_emoji = json_get_str(input, SLICE("emoji")).len > 0 && !strcmp(key, "icon");
    bool is_external = json_get_str(JSON_GET(input, "external"), SLICE("url")).len > 0;
    if (input->type != JSON_NULL && !is_emoji && !is_external)
        return notion_invalid(request,
                              "body failed validation. Fix one: body.%s.emoji should be defined, "
                              "instead was `undefined`. body.%s.external should be defined, "
                              "instead was `undefined`.",
                              key, key);
    struct json picture = json_object();
    if (input->type == JSON_NULL) {
        *out = json_null;
        return true;
    }
    const char *type = is_emoji ? "emoji" : "external";
    const struct json *value = json_dup(&node->arena, json_get(input, slice_cstr(type)));
    json_object_set(&node->arena, &picture, SLICE("type"), json_string(slice_cstr(type)));
    json_object_set(&node->arena, &picture, slice_cstr(type), value ? *value : json_null);
    *out = picture;
    return true;
}

/* The parent that a create names; NULL: answered. */
static struct notion_node *read_parent(struct notion_request *request)
{
    const struct json *parent = JSON_GET(request->body, "parent");
    slice page_id = json_get_str(parent, SLICE("page_id"));
    slice database_id = json_get_str(parent, SLICE("database_id"));
    if (!parent) {
        notion_invalid(request, "body failed validation: body.parent should be defined, instead "
                                "was `undefined`.");
        return NULL;
    }
    if (!page_id.len && !database_id.len) {
        notion_invalid(request,
                       "body failed validation. Fix one: body.parent.page_id should be defined, "
                       "instead was `undefined`. body.parent.database_id should be defined, "
                       "instead was `undefined`.");
        return NULL;
    }
    slice id = page_id.len ? page_id : database_id;
    char text[UUID_TEXT_LEN + 1];
    const char *kind = page_id.len ? "page" : "database";
    if (!notion_id_read(id, text)) {
        notion_invalid(request,
                       "body failed validation: body.parent.%s_id should be a valid uuid, instead "
                       "was `\"%.*s\"`.",
                       kind, SLICE_ARG(slice_first(id, 80)));
        return NULL;
    }
    struct notion_node *node = notion_find(request->notion, id);
    if (!node || node->kind != (page_id.len ? NOTION_PAGE : NOTION_DATABASE)) {
        notion_not_found(request, kind, id);
        return NULL;
    }
    if (notion_is_gone(node)) {
        notion_invalid(request, "Can't edit block that is archived. You must unarchive the block "
                                "before editing.");
        return NULL;
    }
    return node;
}

static bool fill_page(struct notion_request *request, struct notion_node *page,
                      struct notion_node *parent)
{
    const struct json *properties = JSON_GET(request->body, "properties");
    const struct json *children = JSON_GET(request->body, "children");
    struct notion_node *database = parent->kind == NOTION_DATABASE ? parent : NULL;
    if (!properties)
        return notion_invalid(request, "body failed validation: body.properties should be "
                                       "defined, instead was `undefined`.");
    return notion_values_read(request, page, database, properties, &page->properties) &&
           read_picture(request, page, "icon", &page->icon) &&
           read_picture(request, page, "cover", &page->cover) &&
           (!children || notion_blocks_check(request, children, "body.children", 1));
}

void notion_pages_create(struct notion_request *request)
{
    struct notion_node *parent = read_parent(request);
    if (!parent)
        return;
    struct notion_node *page =
        notion_node_new(request->notion, NOTION_PAGE, "", request->http->now_us);
    if (!page) {
        notion_error_plain(request->notion->provider, request->reply, 503);
        return;
    }
    page->is_from_api = true;
    if (!fill_page(request, page, parent) ||
        !notion_node_enter(request->notion, page, parent, NULL)) {
        notion_node_discard(page);
        if (!request->reply->status)
            notion_error_plain(request->notion->provider, request->reply, 503);
        return;
    }
    const struct json *children = JSON_GET(request->body, "children");
    if (children &&
        !notion_blocks_append(request, page, NULL, children, "body.children", NULL, NULL))
        return;
    record(request, "notion.pages.create", page);
    reply_page(request, page);
}

void notion_pages_get(struct notion_request *request)
{
    const struct notion_node *page = find(request);
    if (page)
        reply_page(request, page);
}

void notion_pages_update(struct notion_request *request)
{
    struct notion_node *page = find(request);
    if (!page)
        return;
    bool archives =
        json_get_bool(request->body, SLICE("archived"),
                      json_get_bool(request->body, SLICE("in_trash"), page->is_archived));
    const struct json *input = JSON_GET(request->body, "properties");
    if (page->is_archived && archives && (input || JSON_GET(request->body, "icon"))) {
        notion_invalid(request, "Can't edit block that is archived. You must unarchive the block "
                                "before editing.");
        return;
    }
    struct notion_node *database =
        page->parent && page->parent->kind == NOTION_DATABASE ? page->parent : NULL;
    struct json properties, icon = page->icon, cover = page->cover;
    if (!notion_values_read(request, page, database, input, &properties) ||
        !read_picture(request, page, "icon", &icon) ||
        !read_picture(request, page, "cover", &cover))
        return;
    page->properties = properties;
    page->icon = icon;
    page->cover = cover;
    page->is_archived = archives;
    notion_node_edited(request->notion, page, request->http->now_us, NOTION_USER_BOT);
    record(request, "notion.pages.update", page);
    reply_page(request, page);
}

/* Text, people and relations come as a list of items, each with one. */
static void reply_item_list(struct notion_request *request, slice id, slice type,
                            const struct json *values)
{
    size_t size, start = 0;
    slice cursor;
    uint64_t number;
    if (!notion_page_read(request, true, &size, &cursor))
        return;
    if (cursor.len && slice_to_u64(cursor, values->count, &number))
        start = (size_t)number;
    size_t end = start + size < values->count ? start + size : values->count;
    struct json_writer w = notion_list_open(request);
    for (size_t i = start; i < end; i++) {
        json_open(&w, '{');
        json_key(&w, "object");
        json_put_str(&w, SLICE("property_item"));
        json_key(&w, "id");
        json_put_str(&w, id);
        json_key(&w, "type");
        json_put_str(&w, type);
        json_key_slice(&w, type);
        json_put(&w, json_at(values, i));
        json_close(&w, '}');
    }
    json_close(&w, ']');
    json_key(&w, "next_cursor");
    if (end < values->count)
        json_put_str(&w, arena_printf(request->http->arena, "%zu", end));
    else
        json_put_null(&w);
    json_key(&w, "has_more");
    json_put_bool(&w, end < values->count);
    json_key(&w, "type");
    json_put_str(&w, SLICE("property_item"));
    json_key(&w, "property_item");
    json_open(&w, '{');
    json_key(&w, "id");
    json_put_str(&w, id);
    json_key(&w, "next_url");
    json_put_null(&w);
    json_key(&w, "type");
    json_put_str(&w, type);
    json_key_slice(&w, type);
    json_open(&w, '{');
    json_close(&w, '}');
    json_close(&w, '}');
    json_close(&w, '}');
}

void notion_pages_property(struct notion_request *request)
{
    struct notion_node *page = find(request);
    if (!page)
        return;
    struct arena *arena = request->http->arena;
    struct json title =
        notion_schema_entry(arena, SLICE("title"), SLICE("title"), NOTION_TITLE, json_object());
    const struct json *schema = NULL;
    if (page->parent && page->parent->kind == NOTION_DATABASE)
        schema = notion_schema_find(page->parent, request->id2, NULL);
    else if (slice_eq(request->id2, SLICE("title")))
        schema = &title;
    if (!schema) {
        notion_not_found(request, "property", request->id2);
        return;
    }
    slice id = json_get_str(schema, SLICE("id")), type = json_get_str(schema, SLICE("type"));
    struct json value = notion_value_get(page, schema, arena);
    enum notion_type kind = notion_type_of(type);
    if (kind == NOTION_TITLE || kind == NOTION_RICH_TEXT || kind == NOTION_PEOPLE ||
        kind == NOTION_RELATION) {
        reply_item_list(request, id, type, &value);
        return;
    }
    struct json_writer w = reply_json(request->reply, 200);
    json_open(&w, '{');
    json_key(&w, "object");
    json_put_str(&w, SLICE("property_item"));
    json_key(&w, "id");
    json_put_str(&w, id);
    json_key(&w, "type");
    json_put_str(&w, type);
    json_key_slice(&w, type);
    json_put(&w, &value);
    json_close(&w, '}');
}
