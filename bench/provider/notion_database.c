/*
 * The endpoints of databases and of their data sources.
 */
#include "provider/notion.h"

/* What the body may change in databases and data sources. */
static bool read_common(struct notion_request *request, struct json *object)
{
    notion_flag_put(request, "is_inline", object);
    notion_flag_put(request, "in_trash", object);
    return notion_text_put(request, "title", object) &&
           notion_text_put(request, "description", object);
}

/* A data source of the body's title and description. NULL: answered. */
static struct notion_node *add_source(struct notion_request *request, struct notion_node *database,
                                      const struct json *properties)
{
    static const char *const kept[][2] = {{"parent", "database_parent"},
                                          {"is_inline", "is_inline"}};
    struct json object = notion_shape(request, NOTION_SOURCE, database);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        json_object_put(request->arena, &object, slice_cstr(kept[i][1]),
                        *json_get(notion_object(database), slice_cstr(kept[i][0])));
    return notion_text_put(request, "title", &object) &&
                   notion_text_put(request, "description", &object) &&
                   notion_schema_read(request, &object, properties)
               ? notion_node_add(request, NOTION_SOURCE, database, &object)
               : NULL;
}

/* The schema is the data source's. */
static bool has_no_schema(struct notion_request *request)
{
    return !JSON_GET(request->body, "properties") ||
           notion_invalid(request, "body failed validation: body.properties should be not present: "
                                   "the schema is the data source's, "
                                   "body.initial_data_source.properties.");
}

bool notion_databases_create(struct notion_request *request)
{
    struct notion_node *parent, *database = NULL;
    const struct json *properties =
        JSON_GET(JSON_GET(request->body, "initial_data_source"), "properties");
    if (!notion_parent_read(request, NOTION_PAGE, NOTION_PAGE, &parent) || !has_no_schema(request))
        return false;
    struct json object = notion_shape(request, NOTION_DATABASE, parent);
    if (read_common(request, &object))
        database = notion_node_add(request, NOTION_DATABASE, parent, &object);
    if (!database)
        return false;
    if (add_source(request, database,
                   properties ? properties : JSON_GET(request->notion->data, "name_only")))
        return notion_done(request, database);
    notion_node_free(request->notion, database);
    return false;
}

bool notion_databases_update(struct notion_request *request)
{
    return has_no_schema(request) && read_common(request, &request->object) && notion_save(request);
}

bool notion_sources_create(struct notion_request *request)
{
    struct notion_node *parent, *source = NULL;
    if (notion_parent_read(request, NOTION_DATABASE, NOTION_DATABASE, &parent))
        source = add_source(request, parent, JSON_GET(request->body, "properties"));
    return source && notion_done(request, source);
}

bool notion_sources_update(struct notion_request *request)
{
    struct notion_node *source = request->node;
    const struct json *properties = JSON_GET(request->body, "properties");
    if (!read_common(request, &request->object) ||
        (properties && !notion_schema_read(request, &request->object, properties)) ||
        !notion_save(request))
        return false;
    /* Pages have what the schema says. */
    for (struct list *link = source->children.next; properties && link != &source->children;
         link = link->next) {
        struct notion_node *page = LIST_ITEM(link, struct notion_node, sibling_link);
        struct json changed = provider_copy(request->arena, notion_object(page));
        if (!notion_values_read(request, source, &changed, NULL) ||
            !notion_node_keep(request, page, &changed))
            return false;
    }
    return true;
}

/* Templates are made in Notion's own pages only; this workspace has none. */
bool notion_sources_templates(struct notion_request *request)
{
    reply_text(request->reply, 200, SLICE("application/json; charset=utf-8"),
               SLICE("{\"templates\":[],\"has_more\":false,\"next_cursor\":null}"));
    return true;
}
