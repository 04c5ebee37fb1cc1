/*
 * The endpoints of databases and of their data sources.
 */
#include "provider/notion.h"

/* A data source of the body's title and description. NULL: answered. */
static struct notion_node *add_source(struct notion_request *request, struct notion_node *database,
                                      const struct json *properties)
{
    struct json object = notion_shape(request, NOTION_SOURCE, database);
    json_object_put(request->http->arena, &object, SLICE("database_parent"),
                    *JSON_GET(notion_object(database), "parent"));
    json_object_put(request->http->arena, &object, SLICE("is_inline"),
                    *JSON_GET(notion_object(database), "is_inline"));
    return notion_text_put(request, "title", &object) &&
                   notion_text_put(request, "description", &object) &&
                   notion_schema_read(request, &object, properties)
               ? notion_node_add(request, NOTION_SOURCE, database, &object)
               : NULL;
}

/* What the body may change in databases and data sources. */
static bool read_common(struct notion_request *request, struct json *object)
{
    static const char *const flags[] = {"is_inline", "in_trash"};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        const struct json *flag = json_get(request->body, slice_cstr(flags[i]));
        if (json_is(flag, JSON_BOOL) && json_get(object, slice_cstr(flags[i])))
            json_object_put(request->http->arena, object, slice_cstr(flags[i]), *flag);
    }
    return notion_text_put(request, "title", object) &&
           notion_text_put(request, "description", object);
}

/* The node that body.parent names; NULL: answered. */
static struct notion_node *read_parent(struct notion_request *request, const char *key,
                                       enum notion_kind kind)
{
    slice id = json_get_str(JSON_GET(request->body, "parent"), slice_cstr(key));
    struct notion_node *parent = notion_find(request->notion, id);
    if (id.len && parent && parent->kind == kind && !notion_is_gone(parent))
        return parent;
    if (id.len)
        notion_not_found(request, notion_kind_name(kind), id);
    else
        notion_invalid(request,
                       "body failed validation: body.parent.%s should be defined, instead was "
                       "`undefined`.",
                       key);
    return NULL;
}

/* The schema is the data source's. */
static bool has_no_schema(struct notion_request *request)
{
    return !JSON_GET(request->body, "properties") ||
           notion_invalid(request, "body failed validation: body.properties should be not present: "
                                   "the schema is the data source's, "
                                   "body.initial_data_source.properties.");
}

void notion_databases_create(struct notion_request *request)
{
    struct notion_node *parent = read_parent(request, "page_id", NOTION_PAGE), *database = NULL;
    struct json object;
    const struct json *properties =
        JSON_GET(JSON_GET(request->body, "initial_data_source"), "properties");
    if (!parent || !has_no_schema(request))
        return;
    object = notion_shape(request, NOTION_DATABASE, parent);
    if (read_common(request, &object))
        database = notion_node_add(request, NOTION_DATABASE, parent, &object);
    if (!database)
        return;
    if (add_source(request, database,
                   properties ? properties : JSON_GET(request->notion->data, "name_only")))
        notion_done(request, "notion.databases.create", database);
    else
        notion_node_free(request->notion, database);
}

void notion_databases_update(struct notion_request *request)
{
    struct json object = notion_copy(request->http->arena, notion_object(request->node));
    if (has_no_schema(request) && read_common(request, &object) &&
        notion_node_set(request, request->node, &object))
        notion_done(request, "notion.databases.update", request->node);
}

void notion_sources_create(struct notion_request *request)
{
    struct notion_node *parent = read_parent(request, "database_id", NOTION_DATABASE);
    struct notion_node *source =
        parent ? add_source(request, parent, JSON_GET(request->body, "properties")) : NULL;
    if (source)
        notion_done(request, "notion.data_sources.create", source);
}

void notion_sources_update(struct notion_request *request)
{
    struct notion_node *source = request->node;
    struct json object = notion_copy(request->http->arena, notion_object(source));
    const struct json *properties = JSON_GET(request->body, "properties");
    if (!read_common(request, &object) ||
        (properties && !notion_schema_read(request, &object, properties)) ||
        !notion_node_set(request, source, &object))
        return;
    /* Pages have what the schema says. */
    for (struct list *link = source->children.next; properties && link != &source->children;
         link = link->next) {
        struct notion_node *page = LIST_ITEM(link, struct notion_node, sibling_link);
        struct json changed = notion_copy(request->http->arena, notion_object(page));
        if (!notion_values_read(request, source, &changed, NULL) ||
            !notion_node_keep(request, page, &changed))
            return;
    }
    notion_done(request, "notion.data_sources.update", source);
}

/* Templates are made in Notion's own pages only; this workspace has none. */
void notion_sources_templates(struct notion_request *request)
{
    reply_text(request->reply, 200, SLICE("application/json; charset=utf-8"),
               SLICE("{\"templates\":[],\"has_more\":false,\"next_cursor\":null}"));
}
