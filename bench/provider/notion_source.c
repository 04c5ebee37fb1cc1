/*
 * The data source endpoints: a schema and its pages.
 */
#include "provider/ledger.h"
#include "provider/notion.h"

static struct notion_node *find(struct notion_request *request)
{
    struct notion_node *node = notion_find(request->notion, request->id);
    if (node && node->kind == NOTION_SOURCE)
        return node;
    if (node && node->kind == NOTION_DATABASE)
        notion_invalid(request,
                       "Provided data_source_id %s is a database, not a data source. Retrieve the "
                       "database for the ids of its data sources.",
                       node->id);
    else
        notion_not_found(request, "data_source", request->id);
    return NULL;
}

static void reply_source(struct notion_request *request, const struct notion_node *source)
{
    struct json_writer w = reply_json(request->reply, 200);
    notion_write_source(&w, source, request->http->arena);
}

static void record(struct notion_request *request, const char *kind,
                   const struct notion_node *source)
{
    ledger_add(request->notion->provider->ledger, request->http, kind,
               slice_of(source->id, UUID_TEXT_LEN), notion_title(request->http->arena, source));
}

void notion_sources_create(struct notion_request *request)
{
    slice parent_id = json_get_str(JSON_GET(request->body, "parent"), SLICE("database_id"));
    if (!parent_id.len) {
        notion_invalid(request, "body failed validation: body.parent.database_id should be "
                                "defined, instead was `undefined`.");
        return;
    }
    struct notion_node *parent = notion_find(request->notion, parent_id);
    if (!parent || parent->kind != NOTION_DATABASE || notion_is_gone(parent)) {
        notion_not_found(request, "database", parent_id);
        return;
    }
    struct notion_node *source =
        notion_node_new(request->notion, NOTION_SOURCE, "", request->http->now_us);
    bool is_ok = source != NULL;
    if (is_ok) {
        source->is_from_api = true;
        is_ok = notion_texts_read(request, source, &source->title, &source->description) &&
                notion_schema_read(request, source, JSON_GET(request->body, "properties"), false) &&
                notion_node_enter(request->notion, source, parent, NULL);
    }
    if (!is_ok) {
        if (source)
            notion_node_discard(source);
        if (!request->reply->status)
            notion_error_plain(request->notion->provider, request->reply, 503);
        return;
    }
    record(request, "notion.data_sources.create", source);
    reply_source(request, source);
}

void notion_sources_get(struct notion_request *request)
{
    const struct notion_node *source = find(request);
    if (source)
        reply_source(request, source);
}

void notion_sources_update(struct notion_request *request)
{
    struct notion_node *source = find(request);
    if (!source)
        return;
    struct json title = source->title, description = source->description;
    const struct json *properties = JSON_GET(request->body, "properties");
    if (!notion_texts_read(request, source, &title, &description) ||
        (properties && !notion_schema_read(request, source, properties, true)))
        return;
    source->title = title;
    source->description = description;
    source->is_archived = json_get_bool(request->body, SLICE("in_trash"), source->is_archived);
    notion_node_edited(request->notion, source, request->http->now_us, NOTION_USER_BOT);
    record(request, "notion.data_sources.update", source);
    reply_source(request, source);
}

/* Templates are made in Notion's own pages only; this workspace has none. */
void notion_sources_templates(struct notion_request *request)
{
    size_t size;
    slice cursor;
    if (!find(request) || !notion_page_read(request, true, &size, &cursor))
        return;
    struct json_writer w = reply_json(request->reply, 200);
    json_open(&w, '{');
    json_key(&w, "templates");
    json_open(&w, '[');
    json_close(&w, ']');
    json_key(&w, "has_more");
    json_put_bool(&w, false);
    json_key(&w, "next_cursor");
    json_put_null(&w);
    json_close(&w, '}');
}

/* Without sorts the pages are listed in their stored order, the newest first, and a cursor needs no
 * search. */
static void query_in_order(struct notion_request *request, const struct notion_node *source,
                           const struct notion_filter *filter, size_t size, slice cursor)
{
    const struct notion_node *start = cursor.len ? notion_find(request->notion, cursor) : NULL;
    if (cursor.len && (!start || start->parent != source)) {
        notion_invalid(request, "The start_cursor provided is invalid: %.*s", SLICE_ARG(cursor));
        return;
    }
    const char *next = NULL;
    size_t listed = 0;
    struct json_writer w = notion_list_open(request);
    const struct list *link = start ? &start->sibling_link : source->children.next;
    for (; link != &source->children && !next; link = link->next) {
        const struct notion_node *page = LIST_ITEM(link, struct notion_node, sibling_link);
        if (page->is_archived || !notion_filter_matches(filter, page, request->http->arena))
            continue;
        if (listed == size) {
            next = page->id;
        } else {
            notion_write_page(&w, page, request->http->arena, request->http);
            listed++;
        }
    }
    notion_list_close(request, &w, next, "page_or_data_source");
}

static void query_sorted(struct notion_request *request, struct notion_node *source,
                         const struct notion_filter *filter, const struct json *sorts, size_t size,
                         slice cursor)
{
    struct notion_node **pages =
        ARENA_ARRAY(request->http->arena, struct notion_node *, source->child_count + 1);
    size_t count = 0, start = 0;
    if (!pages) {
        notion_error_plain(request->notion->provider, request->reply, 503);
        return;
    }
    LIST_EACH(&source->children, link)
    {
        struct notion_node *page = LIST_ITEM(link, struct notion_node, sibling_link);
        if (!page->is_archived && notion_filter_matches(filter, page, request->http->arena))
            pages[count++] = page;
    }
    if (!notion_sort_pages(request, source, sorts, pages, count))
        return;
    while (cursor.len && start < count && !slice_eq_cstr(cursor, pages[start]->id))
        start++;
    if (cursor.len && start == count) {
        notion_invalid(request, "The start_cursor provided is invalid: %.*s", SLICE_ARG(cursor));
        return;
    }
    size_t end = count - start > size ? start + size : count;
    struct json_writer w = notion_list_open(request);
    for (size_t i = start; i < end; i++)
        notion_write_page(&w, pages[i], request->http->arena, request->http);
    notion_list_close(request, &w, end < count ? pages[end]->id : NULL, "page_or_data_source");
}

void notion_sources_query(struct notion_request *request)
{
    struct notion_node *source = find(request);
    size_t size;
    slice cursor;
    if (!source || !notion_page_read(request, false, &size, &cursor))
        return;
    struct notion_filter *filter =
        notion_filter_compile(request, source, JSON_GET(request->body, "filter"));
    if (!filter)
        return;
    const struct json *sorts = JSON_GET(request->body, "sorts");
    if (json_is(sorts, JSON_ARRAY) && sorts->count)
        query_sorted(request, source, filter, sorts, size, cursor);
    else if (!sorts || json_is(sorts, JSON_ARRAY))
        query_in_order(request, source, filter, size, cursor);
    else
        notion_invalid(request,
                       "body failed validation: body.sorts should be an array, instead was `%s`.",
                       json_type_name(sorts));
}
