/*
 * Pages, databases, data sources, blocks, comments and users: how requests create and change them.
 */
#include "base/ascii.h"
#include "base/clock.h"
#include "provider/notion.h"

static slice now_text(struct call *call)
{
    char time[TIME_TEXT_LEN + 1]; /* Notion's times are whole minutes */
    time_format(call->now_us - call->now_us % 60000000, time);
    return arena_dup(call->arena, slice_cstr(time));
}

static slice author(const struct call *call)
{
    slice by = json_get_str(call->provider->notion->seed, SLICE("by"));
    return by.len ? by : SLICE(NOTION_USER_BOT);
}

/* {"type": "page_id", "page_id": ...} */
static struct json parent_of(struct arena *arena, const struct record *parent)
{
    static const char *const keys[] = {"page_id", "database_id", "data_source_id", "block_id"};
    slice key = parent ? slice_cstr(keys[parent->kind]) : SLICE("workspace");
    struct json out = OBJECT(arena, "type", json_string(key));
    json_object_set(arena, &out, key,
                    parent ? json_string(slice_cstr(parent->id)) : json_bool(true));
    if (parent && parent->kind == NOTION_SOURCE)
        json_object_set(arena, &out, SLICE("database_id"),
                        json_string(slice_cstr(parent->parent->id)));
    return out;
}

/* Returns the next id of the seed, or a random id. */
static struct json new_id(struct call *call)
{
    struct notion *notion = call->provider->notion;
    slice seeded = json_str(json_at(JSON_GET(notion->seed, "ids"), notion->seed_ids));
    notion->seed_ids += seeded.len > 0;
    return seeded.len ? json_string_dup(call->arena, seeded) : call_uuid(call);
}

/* Makes a new object below parent, without content and with a new id. */
static struct json shape(struct call *call, enum notion_kind kind, const struct record *parent)
{
    struct json id = new_id(call), now = json_string(now_text(call));
    struct json scope = OBJECT(call->arena, "id now by parent", id, now, json_string(author(call)),
                               parent_of(call->arena, parent));
    return shapes_make(&call->app->shapes, call->arena, slice_cstr(notion_kind_name(kind)), &scope);
}

/* https://www.notion.so/Title-of-it-0123...: the title's words and the id without dashes. */
static slice url_of(struct arena *arena, const char *id, slice title)
{
    char text[160];
    size_t len = 0;
    for (size_t i = 0; i < title.len && i < 80; i++)
        if (ascii_is_alnum(title.ptr[i]) || (len && text[len - 1] != '-'))
            text[len++] = ascii_is_alnum(title.ptr[i]) ? title.ptr[i] : '-';
    if (len && text[len - 1] != '-')
        text[len++] = '-';
    for (; *id; id++)
        if (*id != '-')
            text[len++] = *id;
    return arena_printf(arena, "https://www.notion.so/%.*s", (int)len, text);
}

static void keep(struct call *call, struct record *record, struct json *object)
{
    slice label = notion_label(call->arena, object);
    if (JSON_GET(object, "url"))
        json_object_put(call->arena, object, SLICE("url"),
                        json_string(url_of(call->arena, record->id, label)));
    record->is_archived = json_get_bool(object, SLICE("in_trash"), false);
    record_set(record, object, label);
}

/* Adds a record for a complete object, as the last child of parent (in a data source as the
 * first). */
static struct record *add(struct call *call, enum notion_kind kind, struct record *parent,
                          struct json *object)
{
    struct store *store = &call->provider->notion->app.store;
    struct record *record = record_new(store, json_get_str(object, SLICE("id")), kind, parent,
                                       !call->provider->notion->seed);
    keep(call, record, object);
    if (kind <= NOTION_SOURCE)
        list_push_front(&store->order, &record->order_link);
    if (parent && parent->kind == NOTION_SOURCE)
        record_move(store, record, parent, parent->children.next);
    return record;
}

/* Editing a block also edits its page. A comment has no last author. */
void notion_edit(struct call *call, struct record *record, struct json *object)
{
    struct arena *arena = call->arena;
    struct json by =
        OBJECT(arena, "object id", json_string(SLICE("user")), json_string(author(call)));
    json_object_put(arena, object, SLICE("last_edited_time"), json_string(now_text(call)));
    if (record->kind != NOTION_COMMENT)
        json_object_put(arena, object, SLICE("last_edited_by"), by);
    keep(call, record, object);
    if (record->kind == NOTION_BLOCK) {
        while (record->kind == NOTION_BLOCK)
            record = record->parent;
        struct json copy = provider_copy(arena, &record->json);
        notion_edit(call, record, &copy);
    } else if (record->kind <= NOTION_SOURCE) {
        list_unlink(&record->order_link);
        list_push_front(&call->provider->notion->app.store.order, &record->order_link);
    }
}

bool notion_save(struct call *call)
{
    notion_edit(call, call->record, &call->object);
    return notion_done(call, call->record);
}

bool notion_is_gone(const struct record *record)
{
    while (record && !record->is_archived)
        record = record->parent;
    return record != NULL;
}

bool notion_is_editable(struct call *call, const struct record *record)
{
    bool returns = !json_get_bool(call->body, SLICE("in_trash"), true);
    return returns || !notion_is_gone(record) ||
           call_bad(call, "Can't edit block that is archived. You must unarchive the block "
                          "before editing.");
}

/* ---- what a body may change ---- */

/* Copies into the object the members of the body that the object also has. */
static void read_members(struct call *call, struct json *object)
{
    static const char *const keys[] = {"title", "description", "rich_text", "icon",
                                       "cover", "is_inline",   "in_trash"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct json *input = call_get(call, keys[i]);
        if (input && json_get(object, slice_cstr(keys[i])))
            json_object_put(call->arena, object, slice_cstr(keys[i]),
                            notion_value(call, keys[i], input));
    }
}

/* Sets *out to the record that body.parent names, or to NULL for the workspace. Returns false if it
 * has answered the request. */
static bool read_parent(struct call *call, struct record **out)
{
    static const char *const keys[] = {"page_id", "database_id", "data_source_id"};
    const struct json *parent = call_get(call, "parent");
    *out = NULL;
    for (unsigned kind = NOTION_PAGE; kind <= NOTION_SOURCE && !*out; kind++) {
        slice id = json_get_str(parent, slice_cstr(keys[kind]));
        *out = notion_find(call, id);
        if (id.len && (!*out || (*out)->kind != kind || notion_is_gone(*out)))
            return notion_not_found(call, notion_kind_name(kind), id);
    }
    return true;
}

/* Like read_parent, for a page. A database stands for its only data source. */
static bool read_page_parent(struct call *call, struct record **out)
{
    size_t count = 0;
    if (!read_parent(call, out))
        return false;
    const struct record *database = *out && (*out)->kind == NOTION_DATABASE ? *out : NULL;
    if (!database)
        return true;
    RECORD_EACH(&database->children, source, sibling_link) {
        count += !source->is_archived;
        *out = source->is_archived ? *out : source;
    }
    return count == 1 || call_bad(call,
                                  "Database %s has %zu data sources: name the one that is meant as "
                                  "body.parent.data_source_id.",
                                  database->id, count);
}

/* ---- pages ---- */

/* Reads the members that the body may change in a page below parent. Returns false if it has
 * answered the request. */
static bool read_page(struct call *call, struct record *parent, struct json *page)
{
    read_members(call, page);
    return notion_values_read(call, parent, page, call_get(call, "properties"));
}

static bool page_create(struct call *call)
{
    struct record *parent;
    struct json blocks = notion_markdown_read(call->arena, json_str(call_get(call, "markdown")));
    const struct json *children = call_get(call, "children");
    if (!read_page_parent(call, &parent))
        return false;
    struct json object = shape(call, NOTION_PAGE, parent);
    if (!read_page(call, parent, &object))
        return false;
    struct record *page = add(call, NOTION_PAGE, parent, &object);
    notion_blocks_add(call, page, NULL, children ? children : &blocks);
    return notion_done(call, page);
}

static bool page_update(struct call *call)
{
    bool archives = call_get(call, "in_trash") && !call_get(call, "properties");
    return (archives || notion_is_editable(call, call->record)) &&
           read_page(call, call->record->parent, &call->object) && notion_save(call);
}

static bool page_move(struct call *call)
{
    struct record *page = call->record, *parent;
    if (!read_page_parent(call, &parent))
        return false;
    for (const struct record *above = parent; above; above = above->parent)
        if (above == page)
            return call_bad(call, "A page can not be moved below itself.");
    json_object_put(call->arena, &call->object, SLICE("parent"), parent_of(call->arena, parent));
    if (!notion_values_read(call, parent, &call->object, NULL) || !notion_save(call))
        return false;
    record_move(&call->provider->notion->app.store, page, parent,
                parent && parent->kind == NOTION_SOURCE ? parent->children.next : NULL);
    return true;
}

/* Replies with a property. Text, people and relations are a list of items, each with a single
 * value. */
static bool page_property(struct call *call)
{
    const struct json *property = notion_property(call->record, call->id2);
    slice type = json_get_str(property, SLICE("type"));
    const struct json *value = json_get(property, type);
    struct json list = json_array();
    if (!property)
        return notion_not_found(call, "property", call->id2);
    struct json item = provider_copy(call->arena, property);
    json_object_set(call->arena, &item, SLICE("object"), json_string(SLICE("property_item")));
    if (!json_is(value, JSON_ARRAY))
        return call_reply(call, 200, &item);
    for (uint32_t i = 0; i < value->count; i++) {
        struct json one = provider_copy(call->arena, &item);
        json_object_put(call->arena, &one, type, *json_at(value, i));
        json_array_push(call->arena, &list, one);
    }
    return notion_list(call, "property_item", &list);
}

/* ---- databases and data sources ---- */

/* Adds a data source with the body's title and description. */
static struct record *add_source(struct call *call, struct record *database,
                                 const struct json *properties)
{
    struct json object = shape(call, NOTION_SOURCE, database);
    json_object_put(call->arena, &object, SLICE("database_parent"),
                    *JSON_GET(&database->json, "parent"));
    json_object_put(call->arena, &object, SLICE("is_inline"),
                    *JSON_GET(&database->json, "is_inline"));
    json_object_put(call->arena, &object, SLICE("properties"), *properties);
    read_members(call, &object);
    return add(call, NOTION_SOURCE, database, &object);
}

static bool database_create(struct call *call)
{
    struct record *parent;
    struct json schema = json_object();
    const struct json *input = JSON_GET(call_get(call, "initial_data_source"), "properties");
    if (!read_parent(call, &parent) ||
        !notion_schema_read(call, &schema, input ? input : JSON_GET(call->app->data, "name_only")))
        return false;
    struct json object = shape(call, NOTION_DATABASE, parent);
    read_members(call, &object);
    struct record *database = add(call, NOTION_DATABASE, parent, &object);
    add_source(call, database, &schema);
    return notion_done(call, database);
}

/* Sets the members that the body has. Also used for blocks and pages. */
static bool update(struct call *call)
{
    read_members(call, &call->object);
    return notion_save(call);
}

static bool source_create(struct call *call)
{
    struct record *parent;
    struct json schema = json_object();
    return read_parent(call, &parent) &&
           notion_schema_read(call, &schema, call_get(call, "properties")) &&
           notion_done(call, add_source(call, parent, &schema));
}

static bool source_update(struct call *call)
{
    struct json schema = *JSON_GET(&call->object, "properties");
    const struct json *input = call_get(call, "properties");
    if (input && !notion_schema_read(call, &schema, input))
        return false;
    json_object_put(call->arena, &call->object, SLICE("properties"), schema);
    update(call);
    /* Pages have the properties of the schema. */
    RECORD_EACH(&call->record->children, page, sibling_link) {
        struct json changed = provider_copy(call->arena, &page->json);
        if (input && notion_values_read(call, call->record, &changed, NULL))
            keep(call, page, &changed);
    }
    return true;
}

/* Templates can be made only in Notion's own pages; this workspace has none. */
static bool source_templates(struct call *call)
{
    return call_reply(call, 200, JSON_GET(call->app->data, "no_templates"));
}

/* ---- blocks ---- */

/* Returns the type of a block that a client sent, which is the member with its content, or
 * SLICE_NONE if there is none. */
static slice block_type(const struct call *call, const struct json *block)
{
    const struct json *types =
        json_pointer(call->app->data, SLICE("/requests/$defs/block_type/enum"));
    for (uint32_t i = 0; i < block->count; i++)
        if (json_has_text(types, json_str(&block->as.members[i].key)))
            return json_str(&block->as.members[i].key);
    return SLICE_NONE;
}

/* Returns a copy of `former` with all members of the content except children. */
static struct json read_content(struct call *call, const struct json *content,
                                const struct json *former)
{
    struct json out = provider_copy(call->arena, former);
    for (uint32_t i = 0; json_is(content, JSON_OBJECT) && i < content->count; i++) {
        slice key = json_str(&content->as.members[i].key);
        const struct json *input = &content->as.members[i].value;
        if (!slice_eq(key, SLICE("children")))
            json_object_put(call->arena, &out, key,
                            json_is(input, JSON_ARRAY)
                                ? notion_value(call, arena_cstr(call->arena, key), input)
                                : *input);
    }
    return out;
}

void notion_blocks_add(struct call *call, struct record *parent, struct list *before,
                       const struct json *children)
{
    const struct json *kinds = JSON_GET(call->app->data, "blocks");
    for (uint32_t i = 0; children && i < children->count; i++) {
        const struct json *block = json_at(children, i), *empty = NULL;
        slice type = block_type(call, block);
        for (uint32_t k = 0; k < kinds->count; k++)
            if (slice_has_word(json_str(&kinds->as.members[k].key), type))
                empty = &kinds->as.members[k].value;
        struct json object = shape(call, NOTION_BLOCK, parent);
        json_object_set(call->arena, &object, SLICE("type"), json_string(type));
        json_object_set(call->arena, &object, type,
                        read_content(call, json_get(block, type), empty));
        struct record *record = add(call, NOTION_BLOCK, parent, &object);
        if (before)
            record_move(&call->provider->notion->app.store, record, parent, before);
        notion_blocks_add(call, record, NULL, JSON_GET(json_get(block, type), "children"));
    }
}

static bool block_get(struct call *call)
{
    struct json object = notion_show_block(call, call->record);
    return call_reply(call, 200, &object);
}

static bool block_delete(struct call *call)
{
    json_object_put(call->arena, &call->object, SLICE("in_trash"), json_bool(true));
    return notion_is_editable(call, call->record) && notion_save(call) && block_get(call);
}

static bool block_update(struct call *call)
{
    slice type = block_type(call, call->body);
    slice own = json_get_str(&call->object, SLICE("type"));
    if (!notion_is_editable(call, call->record))
        return false;
    if (type.ptr && !slice_eq(type, own))
        return call_bad(call, "Block type cannot be changed: it is %.*s.",
                        SLICE_ARG(own.ptr ? own : SLICE("child_page")));
    if (type.ptr)
        json_object_put(
            call->arena, &call->object, type,
            read_content(call, json_get(call->body, type), json_get(&call->object, type)));
    return update(call) && block_get(call);
}

/* Lists the blocks from `link` up to `end`. */
static bool list_blocks(struct call *call, const struct list *link, const struct list *end)
{
    struct json list = json_array();
    for (; link != end; link = link->next) {
        const struct record *child = LIST_ITEM(link, struct record, sibling_link);
        if (notion_is_block(child))
            json_array_push(call->arena, &list, notion_show_block(call, child));
    }
    return notion_list(call, "block", &list);
}

static bool children_list(struct call *call)
{
    return list_blocks(call, call->record->children.next, &call->record->children);
}

static bool children_append(struct call *call)
{
    struct record *parent = call->record;
    const struct json *position = call_get(call, "position");
    slice type = json_get_str(position, SLICE("type"));
    slice id = json_get_str(JSON_GET(position, "after_block"), SLICE("id"));
    struct record *sibling = id.len ? notion_find(call, id) : NULL;
    if (!notion_is_editable(call, parent))
        return false;
    if (parent->kind == NOTION_DATABASE)
        return call_bad(call, "Database children can not be appended; create pages instead.");
    if (id.len && (!sibling || sibling->parent != parent))
        return call_bad(call, "Block with ID %.*s is not a child of the parent.", SLICE_ARG(id));
    struct list *end = sibling                          ? sibling->sibling_link.next
                       : slice_eq(type, SLICE("start")) ? parent->children.next
                                                        : &parent->children;
    struct list *last = end->prev;
    notion_blocks_add(call, parent, end == &parent->children ? NULL : end,
                      call_get(call, "children"));
    notion_edit(call, parent, &call->object);
    notion_done(call,
                last->next == end ? parent : LIST_ITEM(last->next, struct record, sibling_link));
    return list_blocks(call, last->next, end);
}

/* ---- users and comments ---- */

static bool users_list(struct call *call)
{
    return notion_list(call, "user", JSON_GET(call->app->data, "users"));
}

/* Without an id, replies with the bot itself. */
static bool user_get(struct call *call)
{
    char text[UUID_TEXT_LEN + 1];
    const struct json *users = JSON_GET(call->app->data, "users");
    bool is_id = notion_id_read(call->id.ptr ? call->id : SLICE(NOTION_USER_BOT), text);
    for (uint32_t i = 0; is_id && i < users->count; i++)
        if (slice_eq_cstr(json_get_str(json_at(users, i), SLICE("id")), text))
            return call_reply(call, 200, json_at(users, i));
    return notion_not_found(call, "user", call->id);
}

static bool comments_list(struct call *call)
{
    struct json list = json_array();
    slice id = json_str(call_get(call, "block_id"));
    const struct record *record = notion_find(call, id);
    if (!record)
        return notion_not_found(call, "block", id);
    RECORD_EACH(&record->children, comment, sibling_link)
        if (comment->kind == NOTION_COMMENT)
            json_array_push(call->arena, &list, comment->json);
    return notion_list(call, "comment", &list);
}

static bool comment_create(struct call *call)
{
    slice discussion = json_str(call_get(call, "discussion_id"));
    struct record *record = NULL;
    if (!discussion.len && !read_parent(call, &record))
        return false;
    /* Finds what the discussion is about. */
    MAP_EACH(&call->provider->notion->app.store.records, slot) {
        struct record *comment = discussion.len ? slot->value : NULL;
        if (comment && slice_eq(json_get_str(&comment->json, SLICE("discussion_id")), discussion))
            record = comment->parent;
    }
    if (!record)
        return notion_not_found(call, "discussion", discussion);
    struct json object = shape(call, NOTION_COMMENT, record);
    json_object_put(call->arena, &object, SLICE("discussion_id"),
                    discussion.len ? json_string(discussion) : new_id(call));
    read_members(call, &object);
    return notion_done(call, add(call, NOTION_COMMENT, record, &object));
}

static bool comment_delete(struct call *call)
{
    notion_done(call, call->record);
    record_free(&call->provider->notion->app.store, call->record);
    return true;
}

/* ---- the routes ---- */

const struct route notion_routes[] = {
    {POST, "v1/pages", page_create, "insert", NOTION_KINDS, "pages.create"},
    {GET, "v1/pages/*", notion_get, "read", NOTION_PAGE, NULL},
    {PATCH, "v1/pages/*", page_update, "update", NOTION_PAGE, "pages.update"},
    {GET, "v1/pages/*/properties/*", page_property, "read", NOTION_PAGE, "list"},
    {POST, "v1/pages/*/move", page_move, "update", NOTION_PAGE, "pages.move"},
    {GET, "v1/pages/*/markdown", notion_page_markdown, "read", NOTION_PAGE, NULL},
    {PATCH, "v1/pages/*/markdown", notion_markdown_update, "update", NOTION_PAGE, "pages.markdown"},
    {POST, "v1/databases", database_create, "insert", NOTION_KINDS, "databases.create"},
    {GET, "v1/databases/*", notion_get, "read", NOTION_DATABASE, NULL},
    {PATCH, "v1/databases/*", update, "update", NOTION_DATABASE, "databases.update"},
    {POST, "v1/data_sources", source_create, "insert", NOTION_KINDS, "data_sources.create"},
    {GET, "v1/data_sources/*", notion_get, "read", NOTION_SOURCE, NULL},
    {PATCH, "v1/data_sources/*", source_update, "update", NOTION_SOURCE, "data_sources.update"},
    {POST, "v1/data_sources/*/query", notion_source_query, "read", NOTION_SOURCE, "query"},
    {GET, "v1/data_sources/*/templates", source_templates, "read", NOTION_SOURCE, NULL},
    {POST, "v1/search", notion_search, "read", NOTION_KINDS, "search"},
    {GET, "v1/blocks/*", block_get, "read", NOTION_BLOCK, NULL},
    {PATCH, "v1/blocks/*", block_update, "update", NOTION_BLOCK, "blocks.update"},
    {DELETE, "v1/blocks/*", block_delete, "update", NOTION_BLOCK, "blocks.delete"},
    {GET, "v1/blocks/*/children", children_list, "read", NOTION_BLOCK, "list"},
    {PATCH, "v1/blocks/*/children", children_append, "insert", NOTION_BLOCK, "blocks.append"},
    {GET, "v1/users", users_list, "users", NOTION_KINDS, "list"},
    {GET, "v1/users/me", user_get, NULL, NOTION_KINDS, NULL},
    {GET, "v1/users/*", user_get, "users", NOTION_KINDS, NULL},
    {GET, "v1/comments", comments_list, "comments", NOTION_KINDS, "comments.list"},
    {POST, "v1/comments", comment_create, "comments", NOTION_KINDS, "comments.create"},
    {GET, "v1/comments/*", notion_get, "comments", NOTION_COMMENT, NULL},
    {PATCH, "v1/comments/*", update, "comments", NOTION_COMMENT, "comments.update"},
    {DELETE, "v1/comments/*", comment_delete, "comments", NOTION_COMMENT, "comments.delete"},
};

const size_t notion_route_count = ARRAY_LEN(notion_routes);
