/*
 * Notion's JSON shapes, version 2026-03-11.
 */
#include "base/clock.h"
#include "provider/notion.h"
#include "provider/notion_property.h"

static void write_id(struct json_writer *w, const char *key, const char *id)
{
    json_key(w, key);
    json_put_str(w, slice_of(id, UUID_TEXT_LEN));
}

/* Notion's times are whole minutes. */
void notion_write_time(struct json_writer *w, const char *key, int64_t time_us)
{
    char text[TIME_TEXT_LEN + 1];
    time_format(time_us - time_us % 60000000, text);
    json_key(w, key);
    json_put_str(w, slice_of(text, TIME_TEXT_LEN));
}

void notion_write_user_ref(struct json_writer *w, const char *key, const char *id)
{
    json_key(w, key);
    json_open(w, '{');
    json_key(w, "object");
    json_put_str(w, SLICE("user"));
    write_id(w, "id", id);
    json_close(w, '}');
}

static void write_parent(struct json_writer *w, const char *key, const struct notion_node *parent)
{
    static const char *const kinds[] = {"page_id", "database_id", "data_source_id", "block_id"};
    json_key(w, key);
    json_open(w, '{');
    json_key(w, "type");
    json_put_str(w, parent ? slice_cstr(kinds[parent->kind]) : SLICE("workspace"));
    if (parent) {
        write_id(w, kinds[parent->kind], parent->id);
        if (parent->kind == NOTION_SOURCE)
            write_id(w, "database_id", parent->parent->id);
    } else {
        json_key(w, "workspace");
        json_put_bool(w, true);
    }
    json_close(w, '}');
}

static void write_common(struct json_writer *w, const struct notion_node *node)
{
    write_id(w, "id", node->id);
    notion_write_time(w, "created_time", node->created_us);
    notion_write_time(w, "last_edited_time", node->edited_us);
    notion_write_user_ref(w, "created_by", node->created_by);
    notion_write_user_ref(w, "last_edited_by", node->edited_by);
}

/* https://www.notion.so/Title-of-it-0123...: the title's words and the id without dashes. */
static void write_url(struct json_writer *w, const struct notion_node *node, slice title)
{
    json_key(w, "url");
    json_put_raw(w, SLICE("\"https://www.notion.so/"));
    char last = '-';
    size_t max = title.len < 80 ? title.len : 80;
    for (size_t i = 0; i < max; i++) {
        char c = title.ptr[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_plain && last == '-')
            continue;
        last = is_plain ? c : '-';
        buf_append_char(w->out, last);
    }
    if (last != '-')
        buf_append_char(w->out, '-');
    for (size_t i = 0; i < UUID_TEXT_LEN; i++)
        if (node->id[i] != '-')
            buf_append_char(w->out, node->id[i]);
    buf_append_char(w->out, '"');
    json_key(w, "public_url");
    json_put_null(w);
}

static void write_flags(struct json_writer *w, const struct notion_node *node)
{
    json_key(w, "in_trash");
    json_put_bool(w, node->is_archived);
}

static void write_property(struct json_writer *w, slice name, const struct json *schema,
                           const struct notion_node *page, struct arena *arena)
{
    slice type = json_get_str(schema, SLICE("type"));
    struct json value = notion_value_get(page, schema, arena);
    json_key_slice(w, name);
    json_open(w, '{');
    json_key(w, "id");
    json_put_str(w, json_get_str(schema, SLICE("id")));
    json_key(w, "type");
    json_put_str(w, type);
    json_key_slice(w, type);
    json_put(w, &value);
    json_close(w, '}');
}

/* filter_properties of the query: only these ids; none: all. */
static bool is_wanted(const struct provider_request *http, slice id)
{
    bool is_any = false;
    for (size_t i = 0; http && i < http->query_count; i++) {
        if (!slice_eq(http->query[i].name, SLICE("filter_properties")) &&
            !slice_eq(http->query[i].name, SLICE("filter_properties[]")))
            continue;
        is_any = true;
        if (slice_eq(http->query[i].value, id))
            return true;
    }
    return !is_any;
}

static void write_properties(struct json_writer *w, const struct notion_node *page,
                             struct arena *arena, const struct provider_request *http)
{
    json_key(w, "properties");
    json_open(w, '{');
    if (page->parent && page->parent->kind == NOTION_SOURCE) {
        const struct json *schema = &page->parent->properties;
        for (uint32_t i = 0; i < schema->count; i++) {
            const struct json_member *entry = &schema->as.members[i];
            if (is_wanted(http, json_get_str(&entry->value, SLICE("id"))))
                write_property(w, json_str(&entry->key), &entry->value, page, arena);
        }
    } else {
        struct json schema =
            notion_schema_entry(arena, SLICE("title"), SLICE("title"), NOTION_TITLE, json_object());
        write_property(w, SLICE("title"), &schema, page, arena);
    }
    json_close(w, '}');
}

void notion_write_page(struct json_writer *w, const struct notion_node *page, struct arena *arena,
                       const struct provider_request *http)
{
    json_open(w, '{');
    json_key(w, "object");
    json_put_str(w, SLICE("page"));
    write_common(w, page);
    json_key(w, "cover");
    json_put(w, &page->cover);
    json_key(w, "icon");
    json_put(w, &page->icon);
    write_parent(w, "parent", page->parent);
    write_flags(w, page);
    write_properties(w, page, arena, http);
    write_url(w, page, notion_title(arena, page));
    json_close(w, '}');
}

/* What databases and data sources have in common. */
static void write_container(struct json_writer *w, const struct notion_node *node)
{
    write_common(w, node);
    json_key(w, "cover");
    json_put(w, &node->cover);
    json_key(w, "icon");
    json_put(w, &node->icon);
    json_key(w, "title");
    json_put(w, &node->title);
    json_key(w, "description");
    json_put(w, &node->description);
    write_parent(w, "parent", node->parent);
    write_flags(w, node);
}

void notion_write_database(struct json_writer *w, const struct notion_node *database,
                           struct arena *arena)
{
    json_open(w, '{');
    json_key(w, "object");
    json_put_str(w, SLICE("database"));
    write_container(w, database);
    json_key(w, "is_inline");
    json_put_bool(w, database->is_inline);
    json_key(w, "is_locked");
    json_put_bool(w, false);
    json_key(w, "data_sources");
    json_open(w, '[');
    LIST_EACH((struct list *)(uintptr_t)&database->children, link)
    {
        const struct notion_node *source = LIST_ITEM(link, struct notion_node, sibling_link);
        if (source->is_archived)
            continue;
        json_open(w, '{');
        write_id(w, "id", source->id);
        json_key(w, "name");
        json_put_str(w, notion_title(arena, source));
        json_close(w, '}');
    }
    json_close(w, ']');
    write_url(w, database, notion_title(arena, database));
    json_close(w, '}');
}

void notion_write_source(struct json_writer *w, const struct notion_node *source,
                         struct arena *arena)
{
    json_open(w, '{');
    json_key(w, "object");
    json_put_str(w, SLICE("data_source"));
    write_container(w, source);
    write_parent(w, "database_parent", source->parent->parent);
    json_key(w, "is_inline");
    json_put_bool(w, source->parent->is_inline);
    json_key(w, "properties");
    json_put(w, &source->properties);
    write_url(w, source->parent, notion_title(arena, source));
    json_close(w, '}');
}

void notion_write_object(struct json_writer *w, const struct notion_node *node, struct arena *arena)
{
    if (node->kind == NOTION_DATABASE)
        notion_write_database(w, node, arena);
    else if (node->kind == NOTION_SOURCE)
        notion_write_source(w, node, arena);
    else
        notion_write_page(w, node, arena, NULL);
}

static bool has_children(const struct notion_node *node)
{
    if (node->kind == NOTION_DATABASE)
        return false;
    LIST_EACH((struct list *)(uintptr_t)&node->children, link)
    {
        if (!LIST_ITEM(link, struct notion_node, sibling_link)->is_archived)
            return true;
    }
    return false;
}

/* Pages and databases show up as child_page and child_database. */
void notion_write_block(struct json_writer *w, const struct notion_node *node, struct arena *arena)
{
    slice type = node->kind == NOTION_BLOCK  ? node->type
                 : node->kind == NOTION_PAGE ? SLICE("child_page")
                                             : SLICE("child_database");
    json_open(w, '{');
    json_key(w, "object");
    json_put_str(w, SLICE("block"));
    write_common(w, node);
    write_parent(w, "parent", node->parent);
    json_key(w, "has_children");
    json_put_bool(w, has_children(node));
    write_flags(w, node);
    json_key(w, "type");
    json_put_str(w, type);
    json_key_slice(w, type);
    if (node->kind == NOTION_BLOCK) {
        json_put(w, &node->content);
    } else {
        json_open(w, '{');
        json_key(w, "title");
        json_put_str(w, notion_title(arena, node));
        json_close(w, '}');
    }
    json_close(w, '}');
}

struct json_writer notion_list_open(struct notion_request *request)
{
    struct json_writer w = reply_json(request->reply, 200);
    json_open(&w, '{');
    json_key(&w, "object");
    json_put_str(&w, SLICE("list"));
    json_key(&w, "results");
    json_open(&w, '[');
    return w;
}

void notion_list_close(struct notion_request *request, struct json_writer *w, const char *next,
                       const char *type)
{
    (void)request;
    json_close(w, ']');
    json_key(w, "next_cursor");
    json_put_str(w, next ? slice_cstr(next) : SLICE_NONE);
    json_key(w, "has_more");
    json_put_bool(w, next != NULL);
    json_key(w, "type");
    json_put_str(w, slice_cstr(type));
    json_key(w, type);
    json_open(w, '{');
    json_close(w, '}');
    json_close(w, '}');
}

bool notion_page_read(struct notion_request *request, bool is_query, size_t *size, slice *cursor)
{
    int64_t wanted = NOTION_PAGE_MAX;
    if (is_query) {
        slice text = request_query(request->http, SLICE("page_size"));
        *cursor = request_query(request->http, SLICE("start_cursor"));
        if (text.len && !slice_to_i64(text, &wanted))
            wanted = -1;
    } else {
        const struct json *input = JSON_GET(request->body, "page_size");
        *cursor = json_get_str(request->body, SLICE("start_cursor"));
        if (input && !json_to_i64(input, &wanted))
            wanted = -1;
    }
    *size = (size_t)wanted;
    if (wanted < 1 || wanted > NOTION_PAGE_MAX)
        return notion_invalid(request,
                              "%s failed validation: %s.page_size should be %s `%d`, instead was "
                              "`%lld`.",
                              is_query ? "query" : "body", is_query ? "query" : "body",
                              wanted > NOTION_PAGE_MAX ? "≤" : "≥",
                              wanted > NOTION_PAGE_MAX ? NOTION_PAGE_MAX : 1, (long long)wanted);
    return true;
}
