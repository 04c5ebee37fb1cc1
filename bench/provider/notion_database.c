/*
 * The database endpoints: the container of data sources.
 */
#include "provider/ledger.h"
#include "provider/notion_property.h"

static struct notion_node *find(struct notion_request *request)
{
    struct notion_node *node = notion_find(request->notion, request->id);
    if (node && node->kind == NOTION_DATABASE)
        return node;
    if (node && node->kind == NOTION_PAGE)
        notion_invalid(request,
                       "Provided database_id %s is a page, not a database. Use the pages API "
                       "instead, or pass the ID of the database itself.",
                       node->id);
    else
        notion_not_found(request, "database", request->id);
    return NULL;
}

static void reply_database(struct notion_request *request, const struct notion_node *database)
{
    struct json_writer w = reply_json(request->reply, 200);
    notion_write_database(&w, database, request->http->arena);
}

static void record(struct notion_request *request, const char *kind,
                   const struct notion_node *database)
{
    ledger_add(request->notion->provider->ledger, request->http, kind,
               slice_of(database->id, UUID_TEXT_LEN), notion_title(request->http->arena, database));
}

bool notion_texts_read(struct notion_request *request, struct notion_node *node, struct json *title,
                       struct json *description)
{
    const struct json *input = JSON_GET(request->body, "title");
    if (input && !notion_text_read(request, &node->arena, input, "body.title", title))
        return false;
    input = JSON_GET(request->body, "description");
    return !input ||
           notion_text_read(request, &node->arena, input, "body.description", description);
}

/* The first data source of a new database: its schema, or a title alone. */
static bool fill_source(struct notion_request *request, struct notion_node *database,
                        struct notion_node *source)
{
    const struct json *initial = JSON_GET(request->body, "initial_data_source");
    const struct json *properties = JSON_GET(initial, "properties");
    if (JSON_GET(request->body, "properties"))
        return notion_invalid(request, "body failed validation: body.properties should be not "
                                       "present: the schema is the data source's, "
                                       "body.initial_data_source.properties.");
    const struct json *title = json_dup(&source->arena, &database->title);
    source->title = title ? *title : json_array();
    source->is_from_api = true;
    if (properties)
        return notion_schema_read(request, source, properties, false);
    json_object_set(&source->arena, &source->properties, SLICE("Name"),
                    notion_schema_entry(&source->arena, SLICE("title"), SLICE("Name"), NOTION_TITLE,
                                        json_object()));
    return true;
}

/* The database below parent, with its data source. NULL: answered, or out of memory. */
static struct notion_node *make(struct notion_request *request, struct notion_node *parent)
{
    struct notion *notion = request->notion;
    int64_t now_us = request->http->now_us;
    struct notion_node *database = notion_node_new(notion, NOTION_DATABASE, "", now_us);
    struct notion_node *source = notion_node_new(notion, NOTION_SOURCE, "", now_us);
    bool is_in = false;
    if (database && source) {
        database->is_from_api = true;
        database->is_inline = json_get_bool(request->body, SLICE("is_inline"), false);
        is_in = notion_texts_read(request, database, &database->title, &database->description) &&
                fill_source(request, database, source) &&
                notion_node_enter(notion, database, parent, NULL);
        if (is_in && notion_node_enter(notion, source, database, NULL))
            return database;
    }
    if (source)
        notion_node_discard(source);
    if (is_in)
        notion_node_free(notion, database);
    else if (database)
        notion_node_discard(database);
    return NULL;
}

void notion_databases_create(struct notion_request *request)
{
    slice parent_id = json_get_str(JSON_GET(request->body, "parent"), SLICE("page_id"));
    if (!parent_id.len) {
        notion_invalid(request, "body failed validation: body.parent.page_id should be defined, "
                                "instead was `undefined`.");
        return;
    }
    struct notion_node *parent = notion_find(request->notion, parent_id);
    if (!parent || parent->kind != NOTION_PAGE || notion_is_gone(parent)) {
        notion_not_found(request, "page", parent_id);
        return;
    }
    struct notion_node *database = make(request, parent);
    if (!database) {
        if (!request->reply->status)
            notion_error_plain(request->notion->provider, request->reply, 503);
        return;
    }
    record(request, "notion.databases.create", database);
    reply_database(request, database);
}

void notion_databases_get(struct notion_request *request)
{
    const struct notion_node *database = find(request);
    if (database)
        reply_database(request, database);
}

void notion_databases_update(struct notion_request *request)
{
    struct notion_node *database = find(request);
    if (!database)
        return;
    struct json title = database->title, description = database->description;
    if (JSON_GET(request->body, "properties")) {
        notion_invalid(request, "body failed validation: body.properties should be not present: "
                                "the schema is the data source's.");
        return;
    }
    if (!notion_texts_read(request, database, &title, &description))
        return;
    database->title = title;
    database->description = description;
    database->is_inline = json_get_bool(request->body, SLICE("is_inline"), database->is_inline);
    database->is_archived = json_get_bool(request->body, SLICE("in_trash"), database->is_archived);
    notion_node_edited(request->notion, database, request->http->now_us, NOTION_USER_BOT);
    record(request, "notion.databases.update", database);
    reply_database(request, database);
}
