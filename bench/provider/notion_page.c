/*
 * The page endpoints.
 */
#include "provider/ledger.h"
#include "provider/notion_property.h"

struct notion_node *notion_find_page(struct notion_request *request)
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

void notion_reply_page(struct notion_request *request, const struct notion_node *page)
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

static struct notion_node *named_parent(struct notion_request *request, const char *key, slice id)
{
    static const struct {
        const char *key, *what;
        enum notion_kind kind;
    } kinds[] = {{"page_id", "page", NOTION_PAGE},
                 {"data_source_id", "data_source", NOTION_SOURCE},
                 {"database_id", "database", NOTION_DATABASE}};
    size_t i = 0;
    while (strcmp(kinds[i].key, key) != 0)
        i++;
    char text[UUID_TEXT_LEN + 1];
    if (!notion_id_read(id, text)) {
        notion_invalid(request,
                       "body failed validation: body.parent.%s should be a valid uuid, instead "
                       "was `\"%.*s\"`.",
                       key, SLICE_ARG(slice_first(id, 80)));
        return NULL;
    }
    struct notion_node *node = notion_find(request->notion, id);
    if (!node || node->kind != kinds[i].kind) {
        notion_not_found(request, kinds[i].what, id);
        return NULL;
    }
    if (notion_is_gone(node)) {
        notion_invalid(request, "Can't edit block that is archived. You must unarchive the block "
                                "before editing.");
        return NULL;
    }
    return node->kind == NOTION_DATABASE ? only_source(request, node) : node;
}

/* The parent that the body names: a page, a data source, or NULL for the workspace; a database
 * stands for its only data source. false: answered. */
static bool read_parent(struct notion_request *request, struct notion_node **out)
{
    static const char *const keys[] = {"page_id", "data_source_id", "database_id"};
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
        *out = named_parent(request, keys[i], id);
        return *out != NULL;
    }
    if (json_get_bool(parent, SLICE("workspace"), false))
        return true;
    return notion_invalid(request,
                          "body failed validation. Fix one: body.parent.page_id should be defined, "
                          "instead was `undefined`. body.parent.data_source_id should be defined, "
                          "instead was `undefined`.");
}

/* The content of the new page: `children`, or the blocks of `markdown`. */
static bool read_children(struct notion_request *request, struct json *out)
{
    const struct json *children = JSON_GET(request->body, "children");
    slice markdown = json_get_str(request->body, SLICE("markdown"));
    *out = json_null;
    if (children && markdown.len)
        return notion_invalid(request, "body failed validation: body.children and body.markdown "
                                       "are not taken together.");
    if (markdown.len)
        *out = notion_markdown_read(request->http->arena, markdown);
    else if (children)
        *out = *children;
    return true;
}

static bool fill_page(struct notion_request *request, struct notion_node *page,
                      struct notion_node *parent, const struct json *children)
{
    const struct json *properties = JSON_GET(request->body, "properties");
    struct notion_node *source = parent && parent->kind == NOTION_SOURCE ? parent : NULL;
    if (!properties)
        return notion_invalid(request, "body failed validation: body.properties should be "
                                       "defined, instead was `undefined`.");
    return notion_values_read(request, page, source, properties, &page->properties) &&
           read_picture(request, page, "icon", &page->icon) &&
           read_picture(request, page, "cover", &page->cover) &&
           (json_is(children, JSON_NULL) ||
            notion_blocks_check(request, children, "body.children", 1));
}

void notion_pages_create(struct notion_request *request)
{
    struct notion_node *parent;
    struct json children;
    if (!read_parent(request, &parent) || !read_children(request, &children))
        return;
    struct notion_node *page =
        notion_node_new(request->notion, NOTION_PAGE, "", request->http->now_us);
    if (!page) {
        notion_error_plain(request->notion->provider, request->reply, 503);
        return;
    }
    page->is_from_api = true;
    if (!fill_page(request, page, parent, &children) ||
        !notion_node_enter(request->notion, page, parent, NULL)) {
        notion_node_discard(page);
        if (!request->reply->status)
            notion_error_plain(request->notion->provider, request->reply, 503);
        return;
    }
    if (!json_is(&children, JSON_NULL) &&
        !notion_blocks_append(request, page, NULL, &children, "body.children", NULL, NULL))
        return;
    record(request, "notion.pages.create", page);
    notion_reply_page(request, page);
}

void notion_pages_get(struct notion_request *request)
{
    const struct notion_node *page = notion_find_page(request);
    if (page)
        notion_reply_page(request, page);
}

void notion_pages_update(struct notion_request *request)
{
    struct notion_node *page = notion_find_page(request);
    if (!page)
        return;
    bool archives = json_get_bool(request->body, SLICE("in_trash"), page->is_archived);
    const struct json *input = JSON_GET(request->body, "properties");
    if (page->is_archived && archives && (input || JSON_GET(request->body, "icon"))) {
        notion_invalid(request, "Can't edit block that is archived. You must unarchive the block "
                                "before editing.");
        return;
    }
    struct notion_node *source = page->parent && page->parent->kind == NOTION_SOURCE ? page->parent
                                                                                     : NULL;
    struct json properties, icon = page->icon, cover = page->cover;
    if (!notion_values_read(request, page, source, input, &properties) ||
        !read_picture(request, page, "icon", &icon) ||
        !read_picture(request, page, "cover", &cover))
        return;
    page->properties = properties;
    page->icon = icon;
    page->cover = cover;
    page->is_archived = archives;
    notion_node_edited(request->notion, page, request->http->now_us, NOTION_USER_BOT);
    record(request, "notion.pages.update", page);
    notion_reply_page(request, page);
}

void notion_pages_move(struct notion_request *request)
{
    struct notion_node *page = notion_find_page(request), *parent;
    if (!page || !read_parent(request, &parent))
        return;
    for (const struct notion_node *above = parent; above; above = above->parent) {
        if (above == page) {
            notion_invalid(request, "A page can not be moved below itself.");
            return;
        }
    }
    notion_node_move(request->notion, page, parent);
    notion_node_edited(request->notion, page, request->http->now_us, NOTION_USER_BOT);
    record(request, "notion.pages.move", page);
    notion_reply_page(request, page);
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
    struct notion_node *page = notion_find_page(request);
    if (!page)
        return;
    struct arena *arena = request->http->arena;
    struct json title =
        notion_schema_entry(arena, SLICE("title"), SLICE("title"), NOTION_TITLE, json_object());
    const struct json *schema = NULL;
    if (page->parent && page->parent->kind == NOTION_SOURCE)
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
