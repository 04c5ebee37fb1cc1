/*
 * Pages, databases, data sources, blocks, comments and users: what a request makes of them.
 */
#include "base/ascii.h"
#include "base/clock.h"
#include "provider/notion.h"

static slice now_text(struct call *call)
{
    char time[TIME_TEXT_LEN + 1]; /* Notion's are whole minutes */
    time_format(call->http->now_us - call->http->now_us % 60000000, time);
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

/* A new object below parent, without content; draws its id. */
static struct json shape(struct call *call, enum notion_kind kind, const struct record *parent)
{
    struct json id = notion_id_new(call), now = json_string(now_text(call));
    struct json scope = OBJECT(call->arena, "id now by parent", id, now, json_string(author(call)),
                               parent_of(call->arena, parent));
    return shapes_make(&call->provider->notion->shapes, call->arena,
                       slice_cstr(notion_kind_name(kind)), &scope);
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

/* A record of a filled shape, last below parent (in a data source first). */
static struct record *add(struct call *call, enum notion_kind kind, struct record *parent,
                          struct json *object)
{
    struct store *store = &call->provider->notion->store;
    struct record *record = record_new(store, json_get_str(object, SLICE("id")), kind, parent,
                                       !call->provider->notion->seed);
    keep(call, record, object);
    if (kind <= NOTION_SOURCE)
        list_push_front(&store->order, &record->order_link);
    if (parent && parent->kind == NOTION_SOURCE)
        record_move(store, record, parent, parent->children.next);
    return record;
}

/* A block's edit is its page's, too. A comment has no last author. */
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
        list_push_front(&call->provider->notion->store.order, &record->order_link);
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
           notion_invalid(call, "Can't edit block that is archived. You must unarchive the block "
                                "before editing.");
}

/* ---- what a body may change ---- */

static bool read_text(struct call *call, const char *key, const struct json *input,
                      struct json *out)
{
    return notion_text_read(call, input, arena_printf(call->arena, "body.%s", key).ptr, out);
}

/* icon or cover: null, or an object with its type. */
static bool read_picture(struct call *call, const char *key, const struct json *input,
                         struct json *out)
{
    bool is_emoji = json_get_str(input, SLICE("emoji")).len > 0 && !strcmp(key, "icon");
    bool is_external = json_get_str(JSON_GET(input, "external"), SLICE("url")).len > 0;
    slice type = is_emoji ? SLICE("emoji") : SLICE("external");
    *out = json_null;
    if (!is_emoji && !is_external)
        return json_is(input, JSON_NULL) ||
               notion_should(call, arena_printf(call->arena, "body.%s.external", key).ptr,
                             "be defined", NULL);
    *out = OBJECT(call->arena, "type", json_string(type));
    json_object_set(call->arena, out, type, *json_get(input, type));
    return true;
}

static bool read_flag(struct call *call, const char *key, const struct json *input,
                      struct json *out)
{
    *out = *input;
    return json_is(input, JSON_BOOL) ||
           notion_should(call, arena_printf(call->arena, "body.%s", key).ptr, "be a boolean",
                         input);
}

static const struct {
    const char *key;
    bool (*read)(struct call *call, const char *key, const struct json *input, struct json *out);
} members[] = {{"title", read_text},   {"description", read_text}, {"rich_text", read_text},
               {"icon", read_picture}, {"cover", read_picture},    {"is_inline", read_flag},
               {"in_trash", read_flag}};

/* Those that the object has and the body names. */
static bool read_members(struct call *call, struct json *object)
{
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const struct json *input = call_get(call, members[i].key);
        struct json value;
        if (!input || !json_get(object, slice_cstr(members[i].key)))
            continue;
        if (!members[i].read(call, members[i].key, input, &value))
            return false;
        json_object_put(call->arena, object, slice_cstr(members[i].key), value);
    }
    return true;
}

/* The record of one of the kinds from first to last that body.parent names. false: answered. */
static bool find_parent(struct call *call, enum notion_kind first, enum notion_kind last,
                        struct record **out)
{
    static const char *const keys[] = {"page_id", "database_id", "data_source_id"};
    const struct json *parent = call_get(call, "parent");
    slice type = json_get_str(parent, SLICE("type"));
    for (enum notion_kind kind = first; kind <= last; kind++) {
        slice id = json_get_str(parent, slice_cstr(keys[kind]));
        if (!id.len)
            continue;
        if (type.len && !slice_eq_cstr(type, keys[kind]))
            return notion_should(call, "body.parent.type",
                                 arena_printf(call->arena, "be `\"%s\"`", keys[kind]).ptr,
                                 JSON_GET(parent, "type"));
        *out = notion_find(call, id);
        if (!*out || (*out)->kind != kind || (first == last && notion_is_gone(*out)))
            return notion_not_found(call, notion_kind_name(kind), id);
        return notion_is_editable(call, *out);
    }
    return notion_should(call, arena_printf(call->arena, "body.parent.%s", keys[first]).ptr,
                         "be defined", NULL);
}

/* The parent of a page: a page, a data source, or NULL for the workspace; a database stands for
 * its only data source. false: answered. */
static bool read_parent(struct call *call, struct record **out)
{
    size_t count = 0;
    const struct record *database;
    *out = NULL;
    if (!call_get(call, "parent"))
        return notion_should(call, "body.parent", "be defined", NULL);
    if (json_get_bool(call_get(call, "parent"), SLICE("workspace"), false))
        return true;
    if (!find_parent(call, NOTION_PAGE, NOTION_SOURCE, out))
        return false;
    ASSERT(*out);
    if ((*out)->kind != NOTION_DATABASE)
        return true;
    database = *out;
    RECORD_EACH(&database->children, source, sibling_link) {
        if (source->is_archived)
            continue;
        *out = source;
        count++;
    }
    return count == 1 ||
           notion_invalid(call,
                          "Database %s has %zu data sources: name the one that is meant as "
                          "body.parent.data_source_id.",
                          database->id, count);
}

/* ---- pages ---- */

/* What the body may change in a page below parent; false: answered. */
static bool read_page(struct call *call, struct record *parent, struct json *page)
{
    return notion_values_read(call, parent, page, call_get(call, "properties")) &&
           read_members(call, page);
}

static bool page_create(struct call *call)
{
    struct record *parent, *page = NULL;
    struct json blocks;
    const struct json *children = call_get(call, "children");
    slice markdown = json_str(call_get(call, "markdown"));
    if (!read_parent(call, &parent))
        return false;
    if (!call_get(call, "properties"))
        return notion_should(call, "body.properties", "be defined", NULL);
    if (children && markdown.len)
        return notion_invalid(call, "body failed validation: body.children and body.markdown are "
                                    "not taken together.");
    if (markdown.len) {
        blocks = notion_markdown_read(call->arena, markdown);
        children = &blocks;
    }
    struct json object = shape(call, NOTION_PAGE, parent);
    if (read_page(call, parent, &object))
        page = add(call, NOTION_PAGE, parent, &object);
    if (!page)
        return false;
    if (!children || notion_blocks_add(call, page, NULL, children, "body.children", 1))
        return notion_done(call, page);
    record_free(&call->provider->notion->store, page);
    return false;
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
    if (!read_parent(call, &parent))
        return false;
    for (const struct record *above = parent; above; above = above->parent)
        if (above == page)
            return notion_invalid(call, "A page can not be moved below itself.");
    json_object_put(call->arena, &call->object, SLICE("parent"), parent_of(call->arena, parent));
    if (!notion_values_read(call, parent, &call->object, NULL) || !notion_save(call))
        return false;
    record_move(&call->provider->notion->store, page, parent,
                parent && parent->kind == NOTION_SOURCE ? parent->children.next : NULL);
    return true;
}

/* Text, people and relations come as a list of items, each with one. */
static bool page_property(struct call *call)
{
    const struct json *property = notion_property(call->record, call->id2);
    slice type = json_get_str(property, SLICE("type"));
    const struct json *value = json_get(property, type);
    struct notion_list list;
    if (!property)
        return notion_not_found(call, "property", call->id2);
    struct json item = provider_copy(call->arena, property);
    json_object_set(call->arena, &item, SLICE("object"), json_string(SLICE("property_item")));
    if (!json_is(value, JSON_ARRAY))
        return call_reply(call, 200, &item);
    if (!notion_list_open(call, "property_item", &list))
        return false;
    for (uint32_t i = 0; i < value->count; i++) {
        json_object_put(call->arena, &item, type, *json_at(value, i));
        if (notion_list_takes(&list, arena_printf(call->arena, "%u", i)))
            json_put(&list.w, &item);
    }
    return notion_list_close(call, &list);
}

/* ---- databases and data sources ---- */

/* A data source of the body's title and description. NULL: answered. */
static struct record *add_source(struct call *call, struct record *database,
                                 const struct json *properties)
{
    struct json object = shape(call, NOTION_SOURCE, database);
    json_object_put(call->arena, &object, SLICE("database_parent"),
                    *JSON_GET(&database->json, "parent"));
    json_object_put(call->arena, &object, SLICE("is_inline"),
                    *JSON_GET(&database->json, "is_inline"));
    return read_members(call, &object) && notion_schema_read(call, &object, properties)
               ? add(call, NOTION_SOURCE, database, &object)
               : NULL;
}

static bool has_no_schema(struct call *call)
{
    return !call_get(call, "properties") ||
           notion_invalid(call, "body failed validation: body.properties should be not present: "
                                "the schema is the data source's, "
                                "body.initial_data_source.properties.");
}

static bool database_create(struct call *call)
{
    struct record *parent, *database = NULL;
    const struct json *properties = JSON_GET(call_get(call, "initial_data_source"), "properties");
    if (!find_parent(call, NOTION_PAGE, NOTION_PAGE, &parent) || !has_no_schema(call))
        return false;
    struct json object = shape(call, NOTION_DATABASE, parent);
    if (read_members(call, &object))
        database = add(call, NOTION_DATABASE, parent, &object);
    if (!database)
        return false;
    if (add_source(call, database,
                   properties ? properties : JSON_GET(call->provider->notion->data, "name_only")))
        return notion_done(call, database);
    record_free(&call->provider->notion->store, database);
    return false;
}

static bool database_update(struct call *call)
{
    return has_no_schema(call) && read_members(call, &call->object) && notion_save(call);
}

static bool source_create(struct call *call)
{
    struct record *parent, *source = NULL;
    if (find_parent(call, NOTION_DATABASE, NOTION_DATABASE, &parent))
        source = add_source(call, parent, call_get(call, "properties"));
    return source && notion_done(call, source);
}

static bool source_update(struct call *call)
{
    const struct json *properties = call_get(call, "properties");
    if (!read_members(call, &call->object) ||
        (properties && !notion_schema_read(call, &call->object, properties)) || !notion_save(call))
        return false;
    /* Pages have what the schema says. */
    RECORD_EACH(&call->record->children, page, sibling_link) {
        struct json changed = provider_copy(call->arena, &page->json);
        if (properties && notion_values_read(call, call->record, &changed, NULL))
            keep(call, page, &changed);
    }
    return true;
}

/* Templates are made in Notion's own pages only; this workspace has none. */
static bool source_templates(struct call *call)
{
    return call_reply(call, 200, JSON_GET(call->provider->notion->data, "no_templates"));
}

/* ---- blocks ---- */

/* The type of a block that a client sent: its `type`, or the one member that names a type; its
 * empty content is *empty. SLICE_NONE: no type that is known. */
static slice block_type(const struct call *call, const struct json *block,
                        const struct json **empty)
{
    const struct json *types = JSON_GET(call->provider->notion->data, "blocks");
    slice named = json_get_str(block, SLICE("type"));
    for (uint32_t i = 0; i < types->count; i++) {
        slice name = json_str(&types->as.members[i].key);
        *empty = &types->as.members[i].value;
        if (named.ptr ? slice_eq(named, name) : json_get(block, name) != NULL)
            return name;
    }
    return SLICE_NONE;
}

/* Everything of content but children, over `former`. */
static bool read_content(struct call *call, const struct json *content, const struct json *former,
                         const char *where, struct json *out)
{
    *out = provider_copy(call->arena, former);
    for (uint32_t i = 0; i < content->count; i++) {
        slice key = json_str(&content->as.members[i].key);
        const struct json *input = &content->as.members[i].value;
        struct json value = *input;
        if (slice_has_word(SLICE("rich_text caption"), key) &&
            !notion_text_read(call, input, where, &value))
            return false;
        if (!slice_eq(key, SLICE("children")))
            json_object_put(call->arena, out, key, value);
    }
    return true;
}

static bool add_block(struct call *call, struct record *parent, struct list *before,
                      const struct json *block, const char *where, unsigned depth)
{
    struct arena *arena = call->arena;
    struct json content;
    const struct json *empty;
    slice type = block_type(call, block, &empty);
    const struct json *input = json_get(block, type), *children = JSON_GET(input, "children");
    if (!type.ptr)
        return notion_should(call, where, "have one known block type", block);
    where = arena_printf(arena, "%s.%.*s", where, SLICE_ARG(type)).ptr;
    if (!json_is(input, JSON_OBJECT))
        return notion_should(call, where, "be defined", NULL);
    if (!read_content(call, input, empty, arena_printf(arena, "%s.rich_text", where).ptr, &content))
        return false;
    struct json object = shape(call, NOTION_BLOCK, parent);
    json_object_set(arena, &object, SLICE("type"), json_string(type));
    json_object_set(arena, &object, type, content);
    struct record *record = add(call, NOTION_BLOCK, parent, &object);
    if (before)
        record_move(&call->provider->notion->store, record, parent, before);
    where = arena_printf(arena, "%s.children", where).ptr;
    return !children || notion_blocks_add(call, record, NULL, children, where, depth + 1);
}

bool notion_blocks_add(struct call *call, struct record *parent, struct list *before,
                       const struct json *children, const char *where, unsigned depth)
{
    struct list *end = before ? before : &parent->children, *last = end->prev;
    slice length = arena_printf(call->arena, "%s.length", where);
    if (!json_is(children, JSON_ARRAY))
        return notion_should(call, where, "be an array", children);
    if (children->count && !notion_in_range(call, length.ptr, children->count, NOTION_CHILDREN_MAX))
        return false;
    if (depth > NOTION_DEPTH_MAX)
        return notion_should(call, where, "be nested less deeply", children);
    for (uint32_t i = 0; i < children->count; i++) {
        slice inner = arena_printf(call->arena, "%s[%u]", where, i);
        if (add_block(call, parent, before, json_at(children, i), inner.ptr, depth))
            continue;
        while (end->prev != last)
            record_free(&call->provider->notion->store,
                        LIST_ITEM(end->prev, struct record, sibling_link));
        return false;
    }
    return true;
}

static bool block_get(struct call *call)
{
    struct json_writer w = reply_json(call->reply, 200);
    notion_write_block(&w, call, call->record);
    return true;
}

static bool block_delete(struct call *call)
{
    json_object_put(call->arena, &call->object, SLICE("in_trash"), json_bool(true));
    return notion_is_editable(call, call->record) && notion_save(call) && block_get(call);
}

static bool block_update(struct call *call)
{
    struct json *object = &call->object, content;
    const struct json *empty;
    slice type = block_type(call, call->body, &empty), own = json_get_str(object, SLICE("type"));
    const struct json *input = json_get(call->body, type);
    if (!notion_is_editable(call, call->record))
        return false;
    if (type.ptr && !slice_eq(type, own))
        return notion_invalid(call, "Block type cannot be changed: it is %.*s.",
                              SLICE_ARG(own.ptr ? own : SLICE("child_page")));
    if (json_is(input, JSON_OBJECT)) {
        if (!read_content(call, input, json_get(object, type), "body.rich_text", &content))
            return false;
        json_object_put(call->arena, object, type, content);
    }
    return read_members(call, object) && notion_save(call) && block_get(call);
}

/* Lists the blocks of those from link up to end. */
static bool list_blocks(struct call *call, const struct list *link, const struct list *end)
{
    struct notion_list list;
    if (!notion_list_open(call, "block", &list))
        return false;
    for (; link != end; link = link->next) {
        const struct record *child = LIST_ITEM(link, struct record, sibling_link);
        if (notion_is_block(child) && notion_list_takes(&list, slice_cstr(child->id)))
            notion_write_block(&list.w, call, child);
    }
    return notion_list_close(call, &list);
}

static bool children_list(struct call *call)
{
    return list_blocks(call, call->record->children.next, &call->record->children);
}

/* Where new children go: before a sibling, or last (*before NULL). */
static bool read_position(struct call *call, struct list **before)
{
    const struct json *position = call_get(call, "position"), *after = call_get(call, "after");
    slice type = json_get_str(position, SLICE("type"));
    slice id = json_get_str(JSON_GET(position, "after_block"), SLICE("id"));
    *before = slice_eq(type, SLICE("start")) ? call->record->children.next : NULL;
    if (after)
        return notion_should(call, "body.after", "be not present: use body.position", after);
    if (!position || *before || slice_eq(type, SLICE("end")))
        return true;
    if (!slice_eq(type, SLICE("after_block")) || !id.len)
        return notion_should(call, "body.position.type",
                             "be `\"after_block\"`, `\"start\"` or `\"end\"`", position);
    struct record *sibling = notion_find(call, id);
    if (!sibling || sibling->parent != call->record)
        return notion_invalid(call, "Block with ID %.*s is not a child of the parent.",
                              SLICE_ARG(id));
    *before = sibling->sibling_link.next;
    return true;
}

static bool children_append(struct call *call)
{
    struct record *parent = call->record;
    struct list *before;
    if (!notion_is_editable(call, parent) || !read_position(call, &before))
        return false;
    if (parent->kind == NOTION_DATABASE)
        return notion_invalid(call, "Database children can not be appended; create pages instead.");
    struct list *end = before ? before : &parent->children, *last = end->prev;
    if (!notion_blocks_add(call, parent, before, call_get(call, "children"), "body.children", 1))
        return false;
    notion_edit(call, parent, &call->object);
    notion_done(call,
                last->next == end ? parent : LIST_ITEM(last->next, struct record, sibling_link));
    return list_blocks(call, last->next, end);
}

/* ---- users and comments ---- */

static bool users_list(struct call *call)
{
    struct notion_list list;
    const struct json *users = JSON_GET(call->provider->notion->data, "users");
    if (!notion_list_open(call, "user", &list))
        return false;
    for (uint32_t i = 0; i < users->count; i++)
        if (notion_list_takes(&list, json_get_str(json_at(users, i), SLICE("id"))))
            json_put(&list.w, json_at(users, i));
    return notion_list_close(call, &list);
}

/* Without an id: the bot itself. */
static bool user_get(struct call *call)
{
    char text[UUID_TEXT_LEN + 1];
    const struct json *users = JSON_GET(call->provider->notion->data, "users");
    bool is_id = notion_id_read(call->id.ptr ? call->id : SLICE(NOTION_USER_BOT), text);
    for (uint32_t i = 0; is_id && i < users->count; i++)
        if (slice_eq_cstr(json_get_str(json_at(users, i), SLICE("id")), text))
            return call_reply(call, 200, json_at(users, i));
    return notion_not_found(call, "user", call->id);
}

static bool comments_list(struct call *call)
{
    struct notion_list list;
    slice id = request_query(call->http, SLICE("block_id"));
    const struct record *record = notion_find(call, id);
    if (!id.len)
        return notion_should(call, "query.block_id", "be defined", NULL);
    if (!record)
        return notion_not_found(call, "block", id);
    if (!notion_list_open(call, "comment", &list))
        return false;
    RECORD_EACH(&record->children, comment, sibling_link)
        if (comment->kind == NOTION_COMMENT && notion_list_takes(&list, slice_cstr(comment->id)))
            notion_write(&list.w, call, comment);
    return notion_list_close(call, &list);
}

static bool comment_create(struct call *call)
{
    slice page = json_get_str(call_get(call, "parent"), SLICE("page_id"));
    slice discussion = json_str(call_get(call, "discussion_id"));
    struct record *record = page.len ? notion_find(call, page) : NULL;
    if (!page.len && !discussion.len)
        return notion_should(call, "body.parent", "be defined", NULL);
    /* What the discussion is about. */
    MAP_EACH(&call->provider->notion->store.records, slot) {
        struct record *comment = discussion.len ? slot->value : NULL;
        if (comment && slice_eq(json_get_str(&comment->json, SLICE("discussion_id")), discussion))
            record = comment->parent;
    }
    if (!record)
        return notion_not_found(call, page.len ? "page" : "discussion",
                                page.len ? page : discussion);
    if (!call_get(call, "rich_text"))
        return notion_should(call, "body.rich_text", "be defined", NULL);
    struct json object = shape(call, NOTION_COMMENT, record);
    json_object_put(call->arena, &object, SLICE("discussion_id"),
                    discussion.len ? json_string(discussion) : notion_id_new(call));
    struct record *comment =
        read_members(call, &object) ? add(call, NOTION_COMMENT, record, &object) : NULL;
    return comment && notion_done(call, comment);
}

static bool comment_update(struct call *call)
{
    return read_members(call, &call->object) && notion_save(call);
}

static bool comment_delete(struct call *call)
{
    notion_done(call, call->record);
    record_free(&call->provider->notion->store, call->record);
    return true;
}

/* ---- the routes ---- */

const struct route notion_routes[] = {
    {POST, "v1/pages", page_create, "insert", NOTION_KINDS, "pages.create"},
    {GET, "v1/pages/*", notion_get, "read", NOTION_PAGE, NULL},
    {PATCH, "v1/pages/*", page_update, "update", NOTION_PAGE, "pages.update"},
    {GET, "v1/pages/*/properties/*", page_property, "read", NOTION_PAGE, NULL},
    {POST, "v1/pages/*/move", page_move, "update", NOTION_PAGE, "pages.move"},
    {GET, "v1/pages/*/markdown", notion_page_markdown, "read", NOTION_PAGE, NULL},
    {PATCH, "v1/pages/*/markdown", notion_markdown_update, "update", NOTION_PAGE, "pages.markdown"},
    {POST, "v1/databases", database_create, "insert", NOTION_KINDS, "databases.create"},
    {GET, "v1/databases/*", notion_get, "read", NOTION_DATABASE, NULL},
    {PATCH, "v1/databases/*", database_update, "update", NOTION_DATABASE, "databases.update"},
    {POST, "v1/data_sources", source_create, "insert", NOTION_KINDS, "data_sources.create"},
    {GET, "v1/data_sources/*", notion_get, "read", NOTION_SOURCE, NULL},
    {PATCH, "v1/data_sources/*", source_update, "update", NOTION_SOURCE, "data_sources.update"},
    {POST, "v1/data_sources/*/query", notion_source_query, "read", NOTION_SOURCE, NULL},
    {GET, "v1/data_sources/*/templates", source_templates, "read", NOTION_SOURCE, NULL},
    {POST, "v1/search", notion_search, "read", NOTION_KINDS, NULL},
    {GET, "v1/blocks/*", block_get, "read", NOTION_BLOCK, NULL},
    {PATCH, "v1/blocks/*", block_update, "update", NOTION_BLOCK, "blocks.update"},
    {DELETE, "v1/blocks/*", block_delete, "update", NOTION_BLOCK, "blocks.delete"},
    {GET, "v1/blocks/*/children", children_list, "read", NOTION_BLOCK, NULL},
    {PATCH, "v1/blocks/*/children", children_append, "insert", NOTION_BLOCK, "blocks.append"},
    {GET, "v1/users", users_list, "users", NOTION_KINDS, NULL},
    {GET, "v1/users/me", user_get, NULL, NOTION_KINDS, NULL},
    {GET, "v1/users/*", user_get, "users", NOTION_KINDS, NULL},
    {GET, "v1/comments", comments_list, "comments", NOTION_KINDS, NULL},
    {POST, "v1/comments", comment_create, "comments", NOTION_KINDS, "comments.create"},
    {GET, "v1/comments/*", notion_get, "comments", NOTION_COMMENT, NULL},
    {PATCH, "v1/comments/*", comment_update, "comments", NOTION_COMMENT, "comments.update"},
    {DELETE, "v1/comments/*", comment_delete, "comments", NOTION_COMMENT, "comments.delete"},
};

const size_t notion_route_count = ARRAY_LEN(notion_routes);
