/*
 * The entry point of Notion requests: token, version, route, object and body; the error shape,
 * replies and lists, and the requests that create the initial state.
 */
#include <stdio.h>

#include "base/mem.h"
#include "provider/notion.h"
#include "provider/token.h"
#include "schema/schema.h"

static const char *const kind_names[] = {"page", "database", "data_source", "block", "comment"};

const char *notion_kind_name(unsigned kind)
{
    return kind_names[kind];
}

struct notion *notion_new(void)
{
    struct notion *notion = mem_zalloc(sizeof(*notion));
    ASSERT(notion);
    app_init(&notion->app, "notion", notion_handle, NOTION_RECORDS_MAX);
    return notion;
}

void notion_free(struct notion *notion)
{
    app_deinit(&notion->app);
    mem_free(notion);
}

/* ---- ids ---- */

bool notion_id_read(slice text, char out[UUID_TEXT_LEN + 1])
{
    struct uuid id;
    char dashed[UUID_TEXT_LEN + 1];
    const char *t = text.ptr;
    if (text.len == 32) {
        (void)snprintf(dashed, sizeof(dashed), "%.8s-%.4s-%.4s-%.4s-%.12s", t, t + 8, t + 12,
                       t + 16, t + 20);
        text = slice_cstr(dashed);
    }
    if (!uuid_parse(text, &id))
        return false;
    uuid_format(id, out);
    return true;
}

struct record *notion_find(const struct call *call, slice id)
{
    char text[UUID_TEXT_LEN + 1];
    return notion_id_read(id, text)
               ? store_find(&call->provider->notion->app.store, slice_cstr(text))
               : NULL;
}

/* ---- errors ---- */

bool notion_not_found(struct call *call, const char *what, slice id)
{
    char text[UUID_TEXT_LEN + 1];
    bool is_property = !strcmp(what, "property");
    id = slice_first(id, 80);
    if (!is_property && !notion_id_read(id, text))
        return call_bad(call,
                        "path failed validation: path.%s_id should be a valid uuid, instead "
                        "was `\"%.*s\"`.",
                        what, SLICE_ARG(id));
    return call_fail(
        call, 404, "404",
        arena_printf(call->arena,
                     "Could not find %s with ID: %.*s. Make sure the relevant pages and "
                     "databases are shared with your integration.",
                     what, SLICE_ARG(is_property ? id : slice_cstr(text))));
}

/* ---- replies ---- */

/* Data sources and comments are below a record, too, but are not blocks. */
bool notion_is_block(const struct record *record)
{
    return !record->is_archived && record->kind != NOTION_SOURCE && record->kind != NOTION_COMMENT;
}

static bool has_children(const struct record *record)
{
    RECORD_EACH(&record->children, child, sibling_link)
        if (notion_is_block(child))
            return true;
    return false;
}

struct json notion_show(struct call *call, const struct record *record)
{
    struct arena *arena = call->arena;
    struct json object = provider_copy(arena, &record->json), some = json_object();
    const struct json *all = JSON_GET(&object, "properties");
    struct json sources = json_array();
    bool is_whole =
        record->kind == NOTION_COMMENT || record->kind == NOTION_SOURCE ||
        (record->kind == NOTION_PAGE && call_wants(call, SLICE("filter_properties"), SLICE_NONE));
    if (is_whole)
        return record->json;
    if (record->kind == NOTION_BLOCK)
        json_object_put(arena, &object, SLICE("has_children"), json_bool(has_children(record)));
    for (uint32_t i = 0; record->kind == NOTION_PAGE && i < all->count; i++)
        if (call_wants(call, SLICE("filter_properties"),
                       json_get_str(&all->as.members[i].value, SLICE("id"))))
            json_object_set(arena, &some, json_str(&all->as.members[i].key),
                            all->as.members[i].value);
    if (record->kind == NOTION_PAGE)
        json_object_put(arena, &object, SLICE("properties"), some);
    if (record->kind != NOTION_DATABASE)
        return object;
    RECORD_EACH(&record->children, source, sibling_link)
        if (!source->is_archived)
            json_array_push(arena, &sources,
                            OBJECT(arena, "id name", json_string(slice_cstr(source->id)),
                                   json_string(source->label)));
    json_object_put(arena, &object, SLICE("data_sources"), sources);
    return object;
}

struct json notion_show_block(struct call *call, const struct record *record)
{
    if (record->kind == NOTION_BLOCK)
        return notion_show(call, record);
    slice type = record->kind == NOTION_PAGE ? SLICE("child_page") : SLICE("child_database");
    struct json scope = OBJECT(call->arena, "page has_children type", record->json,
                               json_bool(has_children(record)), json_string(type));
    struct json object = shapes_make(&call->app->shapes, call->arena, SLICE("child"), &scope);
    json_object_set(call->arena, &object, type,
                    OBJECT(call->arena, "title", json_string(record->label)));
    return object;
}

bool notion_get(struct call *call)
{
    struct json object = notion_show(call, call->record);
    return call_reply(call, 200, &object);
}

bool notion_done(struct call *call, const struct record *record)
{
    struct json object = notion_show(call, record);
    if (!call->provider->notion->seed)
        call_record(call, slice_cstr(record->id), record->label);
    return call_reply(call, 200, &object);
}

/* A cursor is the id of an item. All items of a property share one id, so their cursor is a
 * number. */
static slice cursor_of(struct call *call, const struct json *items, uint32_t at)
{
    const struct json *item = json_at(items, at);
    return slice_eq(json_get_str(item, SLICE("object")), SLICE("property_item"))
               ? arena_printf(call->arena, "item-%u", at)
               : json_get_str(item, SLICE("id"));
}

bool notion_list(struct call *call, const char *type, const struct json *items)
{
    slice cursor = json_str(call_get(call, "start_cursor"));
    uint32_t size = (uint32_t)json_get_i64(call->body, SLICE("page_size"), NOTION_PAGE_MAX);
    uint32_t from = 0;
    while (cursor.len && from < items->count && !slice_eq(cursor, cursor_of(call, items, from)))
        from++;
    if (cursor.len && from == items->count)
        return call_bad(call, "The start_cursor provided is invalid: %.*s",
                        SLICE_ARG(slice_first(cursor, 80)));
    struct json page = *items;
    bool has_more = items->count - from > size;
    page.count = has_more ? size : items->count - from;
    if (page.count)
        page.as.items += from;
    struct json out =
        OBJECT(call->arena, "object results next_cursor has_more type", json_string(SLICE("list")),
               page, has_more ? json_string(cursor_of(call, items, from + size)) : json_null,
               json_bool(has_more), json_string(slice_cstr(type)));
    json_object_set(call->arena, &out, slice_cstr(type), json_object());
    return call_reply(call, 200, &out);
}

/* ---- a request ---- */

static bool check_access(struct call *call)
{
    const struct token *token = tokens_find(call->provider->tokens, call->app->name, call->http);
    slice version = http_request_header(call->http, SLICE("notion-version"));
    if (!token)
        return call_error(call, 401);
    if (!version.len)
        return call_fail(call, 400, "version", SLICE_NONE);
    if (!slice_eq(version, SLICE(NOTION_VERSION)))
        return call_bad(call,
                        "Notion-Version header failed validation: this emulator speaks "
                        "`\"" NOTION_VERSION "\"` only, instead was `\"%.*s\"`.",
                        SLICE_ARG(slice_first(version, 40)));
    return !call->route->scopes || token_may(token, call->route->scopes) || call_error(call, 403);
}

/* Finds the object that the path names. Pages and databases are also blocks. Returns false if it
 * has answered the request. */
static bool find_record(struct call *call)
{
    unsigned kind = call->route->kind;
    struct record *record = kind == NOTION_KINDS ? NULL : notion_find(call, call->id);
    bool is_container = record && record->kind <= NOTION_DATABASE;
    call->record = record;
    if (kind == NOTION_KINDS)
        return true;
    if (record && (record->kind == kind || (kind == NOTION_BLOCK && is_container))) {
        if (call->method != HTTP_METHOD_GET)
            call->object = provider_copy(call->arena, &record->json);
        return true;
    }
    if (is_container)
        return call_bad(call, "Provided ID %s is a %s, not a %s.", record->id,
                        kind_names[record->kind],
                        kind == NOTION_SOURCE ? "data source" : kind_names[kind]);
    return notion_not_found(call, kind_names[kind], call->id);
}

void notion_handle(struct call *call)
{
    store_evict(&call->provider->notion->app.store);
    if (!call_route(call, notion_routes, notion_route_count, call->http->segments,
                    call->http->segment_count))
        call_fail(call, 400, "path", SLICE_NONE);
    else if (check_access(call) && call_body(call) && find_record(call))
        call->route->run(call);
}

/* ---- the first state ---- */

/* Carries out one request of an entry whose expressions have been evaluated. */
static void seed_one(struct provider *provider, const struct json *entry, int64_t now_us,
                     struct arena *arena)
{
    struct buf body;
    slice path = json_get_str(entry, SLICE("path"));
    const slice segments[] = {slice_split(&path, '/'), path};
    buf_init(&body, PROVIDER_REPLY_BYTES_MAX);
    struct provider_reply reply = {.body = &body};
    struct http_exchange http = {0};
    struct call call = {.provider = provider,
                        .http = &http,
                        .app = &provider->notion->app,
                        .method = HTTP_METHOD_POST,
                        .arena = arena,
                        .reply = &reply,
                        .body = JSON_GET(entry, "body")};
    call.now_us = now_us - json_get_i64(entry, SLICE("hours_ago"), 0) * INT64_C(3600000000);
    provider->notion->seed = entry;
    provider->notion->seed_ids = 0;
    ASSERT(call_route(&call, notion_routes, notion_route_count, segments, 2) &&
           call.route->run(&call));
    provider->notion->seed = NULL;
    buf_deinit(&body);
}

void notion_seed(struct provider *provider, int64_t now_us)
{
    const struct json *entries = JSON_GET(provider->notion->app.data, "seed");
    for (uint32_t i = 0; i < entries->count; i++) {
        struct arena arena;
        const struct json *rows = JSON_GET(json_at(entries, i), "each"); /* NULL: one request */
        arena_init(&arena, 1024 * 1024);
        for (uint32_t k = 0; k < (rows ? rows->count : 1); k++) {
            struct json scope = OBJECT(&arena, "row now_s", rows ? *json_at(rows, k) : json_null,
                                       json_i64(now_us / 1000000));
            struct json one = provider_eval(&arena, json_at(entries, i), &scope);
            seed_one(provider, &one, now_us, &arena);
        }
        arena_deinit(&arena);
    }
}
