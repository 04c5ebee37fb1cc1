/*
 * The database endpoints, and search.
 */
#include "provider/ledger.h"
#include "provider/notion.h"

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

static bool read_texts(struct notion_request *request, struct notion_node *database,
                       struct json *title, struct json *description)
{
    const struct json *input = JSON_GET(request->body, "title");
    if (input && !notion_text_read(request, &database->arena, input, "body.title", title))
        return false;
    input = JSON_GET(request->body, "description");
    return !input ||
           notion_text_read(request, &database->arena, input, "body.description", description);
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
    struct notion_node *database =
        notion_node_new(request->notion, NOTION_DATABASE, "", request->http->now_us);
    bool is_ok = database != NULL;
    if (is_ok) {
        database->is_from_api = true;
        database->is_inline = json_get_bool(request->body, SLICE("is_inline"), false);
        is_ok =
            read_texts(request, database, &database->title, &database->description) &&
            notion_schema_read(request, database, JSON_GET(request->body, "properties"), false) &&
            notion_node_enter(request->notion, database, parent, NULL);
    }
    if (!is_ok) {
        if (database)
            notion_node_discard(database);
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
    const struct json *properties = JSON_GET(request->body, "properties");
    if (!read_texts(request, database, &title, &description) ||
        (properties && !notion_schema_read(request, database, properties, true)))
        return;
    database->title = title;
    database->description = description;
    database->is_inline = json_get_bool(request->body, SLICE("is_inline"), database->is_inline);
    database->is_archived =
        json_get_bool(request->body, SLICE("archived"),
                      json_get_bool(request->body, SLICE("in_trash"), database->is_archived));
    notion_node_edited(request->notion, database, request->http->now_us, NOTION_USER_BOT);
    record(request, "notion.databases.update", database);
    reply_database(request, database);
}

/* Without sorts the pages come as they stand, the newest first, and a cursor is found at once. */
static void query_in_order(struct notion_request *request, const struct notion_node *database,
                           const struct notion_filter *filter, size_t size, slice cursor)
{
    const struct notion_node *start = cursor.len ? notion_find(request->notion, cursor) : NULL;
    if (cursor.len && (!start || start->parent != database)) {
        notion_invalid(request, "The start_cursor provided is invalid: %.*s", SLICE_ARG(cursor));
        return;
    }
    const char *next = NULL;
    size_t shown = 0;
    struct json_writer w = notion_list_open(request);
    const struct list *link = start ? &start->sibling_link : database->children.next;
    for (; link != &database->children && !next; link = link->next) {
        const struct notion_node *page = LIST_ITEM(link, struct notion_node, sibling_link);
        if (page->is_archived || !notion_filter_matches(filter, page, request->http->arena))
            continue;
        if (shown == size) {
            next = page->id;
        } else {
            notion_write_page(&w, page, request->http->arena, request->http);
            shown++;
        }
    }
    notion_list_close(request, &w, next, "page_or_database");
}

static void query_sorted(struct notion_request *request, struct notion_node *database,
                         const struct notion_filter *filter, const struct json *sorts, size_t size,
                         slice cursor)
{
    struct notion_node **pages =
        ARENA_ARRAY(request->http->arena, struct notion_node *, database->child_count + 1);
    size_t count = 0, start = 0;
    if (!pages) {
        notion_error_plain(request->notion->provider, request->reply, 503);
        return;
    }
    LIST_EACH(&database->children, link)
    {
        struct notion_node *page = LIST_ITEM(link, struct notion_node, sibling_link);
        if (!page->is_archived && notion_filter_matches(filter, page, request->http->arena))
            pages[count++] = page;
    }
    if (!notion_sort_pages(request, database, sorts, pages, count))
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
    notion_list_close(request, &w, end < count ? pages[end]->id : NULL, "page_or_database");
}

void notion_databases_query(struct notion_request *request)
{
    struct notion_node *database = find(request);
    size_t size;
    slice cursor;
    if (!database || !notion_page_read(request, false, &size, &cursor))
        return;
    struct notion_filter *filter =
        notion_filter_compile(request, database, JSON_GET(request->body, "filter"));
    if (!filter)
        return;
    const struct json *sorts = JSON_GET(request->body, "sorts");
    if (json_is(sorts, JSON_ARRAY) && sorts->count)
        query_sorted(request, database, filter, sorts, size, cursor);
    else if (!sorts || json_is(sorts, JSON_ARRAY))
        query_in_order(request, database, filter, size, cursor);
    else
        notion_invalid(request,
                       "body failed validation: body.sorts should be an array, instead was `%s`.",
                       json_type_name(sorts));
}

/* Every word of the query begins a word of the title, whatever its case. */
static bool title_matches(slice title, slice query)
{
    while (query.len) {
        slice word = slice_split(&query, ' ');
        bool is_found = !word.len;
        for (size_t i = 0; i + word.len <= title.len && !is_found; i++) {
            bool is_start = i == 0 || title.ptr[i - 1] == ' ' || title.ptr[i - 1] == '-' ||
                            title.ptr[i - 1] == '(' || title.ptr[i - 1] == '"';
            is_found = is_start && slice_eq_nocase(slice_of(title.ptr + i, word.len), word);
        }
        if (!is_found)
            return false;
    }
    return true;
}

/* Which kinds search shows; false: answered. */
static bool read_kind(struct notion_request *request, bool *pages, bool *databases)
{
    const struct json *filter = JSON_GET(request->body, "filter");
    slice value = json_get_str(filter, SLICE("value"));
    *pages = !filter || slice_eq(value, SLICE("page"));
    *databases = !filter || slice_eq(value, SLICE("database"));
    if (*pages || *databases)
        return true;
    return notion_invalid(request,
                          "body failed validation: body.filter.value should be `\"page\"` or "
                          "`\"database\"`, instead was `\"%.*s\"`.",
                          SLICE_ARG(value));
}

void notion_search(struct notion_request *request)
{
    size_t size, shown = 0;
    slice cursor;
    bool pages, databases;
    if (!notion_page_read(request, false, &size, &cursor) ||
        !read_kind(request, &pages, &databases))
        return;
    struct notion *notion = request->notion;
    const struct notion_node *start = cursor.len ? notion_find(notion, cursor) : NULL;
    if (cursor.len && (!start || start->kind == NOTION_BLOCK)) {
        notion_invalid(request, "The start_cursor provided is invalid: %.*s", SLICE_ARG(cursor));
        return;
    }
    bool is_rising = slice_eq(json_get_str(JSON_GET(request->body, "sort"), SLICE("direction")),
                              SLICE("ascending"));
    slice query = slice_trim(json_get_str(request->body, SLICE("query")));
    const char *next = NULL;
    struct json_writer w = notion_list_open(request);
    const struct list *link = start       ? &start->recent_link
                              : is_rising ? notion->recent.prev
                                          : notion->recent.next;
    for (; link != &notion->recent && !next; link = is_rising ? link->prev : link->next) {
        const struct notion_node *node = LIST_ITEM(link, struct notion_node, recent_link);
        if (!(node->kind == NOTION_PAGE ? pages : databases) || notion_is_gone(node) ||
            !title_matches(notion_title(request->http->arena, node), query))
            continue;
        if (shown == size) {
            next = node->id;
        } else {
            notion_write_object(&w, node, request->http->arena);
            shown++;
        }
    }
    notion_list_close(request, &w, next, "page_or_database");
}
