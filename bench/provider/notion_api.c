/*
 * The entry of Notion requests: token, version, route, object, body; its error shape, its replies
 * and lists, and the requests that make the first state.
 */
#include <stdio.h>

#include "base/mem.h"
#include "provider/notion.h"
#include "provider/token.h"

static const char *const kind_names[] = {"page", "database", "data_source", "block", "comment"};

const char *notion_kind_name(unsigned kind)
{
    return kind_names[kind];
}

struct notion *notion_new(void)
{
    struct notion *notion = mem_zalloc(sizeof(*notion));
    ASSERT(notion);
    arena_init(&notion->arena, 4 * 1024 * 1024);
    store_init(&notion->store, NOTION_RECORDS_MAX);
    notion->data = provider_data(&notion->arena, "notion.json");
    shapes_init(&notion->shapes, &notion->arena, JSON_GET(notion->data, "shapes"));
    return notion;
}

void notion_free(struct notion *notion)
{
    store_deinit(&notion->store);
    arena_deinit(&notion->arena);
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

struct json notion_id_new(struct call *call)
{
    struct notion *notion = call->provider->notion;
    char text[UUID_TEXT_LEN + 1];
    struct uuid id;
    slice seeded = json_str(json_at(JSON_GET(notion->seed, "ids"), notion->seed_ids));
    if (seeded.len) {
        notion->seed_ids++;
        return json_string_dup(call->arena, seeded);
    }
    for (int i = 0; i < 2; i++) {
        uint64_t bits = rng_next(&call->provider->rng);
        memcpy(id.bytes + 8 * i, &bits, 8);
    }
    id.bytes[6] = (uint8_t)(0x40 | (id.bytes[6] & 0x0f)); /* version 4 */
    id.bytes[8] = (uint8_t)(0x80 | (id.bytes[8] & 0x3f));
    uuid_format(id, text);
    return json_string_dup(call->arena, slice_cstr(text));
}

struct record *notion_find(const struct call *call, slice id)
{
    char text[UUID_TEXT_LEN + 1];
    return notion_id_read(id, text) ? store_find(&call->provider->notion->store, slice_cstr(text))
                                    : NULL;
}

/* ---- errors ---- */

static bool fail(struct call *call, unsigned status, slice code, slice message)
{
    struct json error = OBJECT(call->arena, "object status code message request_id",
                               json_string(SLICE("error")), json_i64(status), json_string(code),
                               json_string(message), notion_id_new(call));
    call_reply(call, status, &error);
    return false;
}

bool notion_error_plain(struct call *call, unsigned status)
{
    char number[SLICE_U64_MAX];
    const struct json *known =
        json_get(JSON_GET(call->provider->notion->data, "errors"), slice_of_u64(status, number));
    return fail(call, status, known ? json_str(json_at(known, 0)) : SLICE("internal_server_error"),
                known ? json_str(json_at(known, 1)) : slice_cstr(http_status_text(status)));
}

bool notion_invalid(struct call *call, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    slice message = arena_vprintf(call->arena, fmt, args);
    va_end(args);
    return fail(call, 400, SLICE("validation_error"), message);
}

bool notion_should(struct call *call, const char *where, const char *what, const struct json *input)
{
    return notion_invalid(call, "%.*s failed validation: %s should %s, instead was `%s`.",
                          (int)strcspn(where, "."), where, where, what,
                          input ? json_type_name(input) : "undefined");
}

bool notion_in_range(struct call *call, const char *where, int64_t got, int64_t max)
{
    int64_t least = got < 1 ? 1 : max;
    return (got >= 1 && got <= max) ||
           notion_invalid(call,
                          "%.*s failed validation: %s should be %s `%lld`, instead was `%lld`.",
                          (int)strcspn(where, "."), where, where, got < 1 ? "≥" : "≤",
                          (long long)least, (long long)got);
}

bool notion_not_found(struct call *call, const char *what, slice id)
{
    char text[UUID_TEXT_LEN + 1];
    bool is_property = !strcmp(what, "property");
    id = slice_first(id, 80);
    if (!is_property && !notion_id_read(id, text))
        return notion_invalid(call,
                              "path failed validation: path.%s_id should be a valid uuid, instead "
                              "was `\"%.*s\"`.",
                              what, SLICE_ARG(id));
    return fail(call, 404, SLICE("object_not_found"),
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

/* What a reply has of a record that its JSON does not hold. */
static struct json completed(struct call *call, const struct record *record)
{
    struct arena *arena = call->arena;
    struct json object = provider_copy(arena, &record->json), some = json_object();
    const struct json *all = JSON_GET(&object, "properties");
    struct json sources = json_array();
    if (record->kind == NOTION_BLOCK)
        json_object_put(arena, &object, SLICE("has_children"), json_bool(has_children(record)));
    for (uint32_t i = 0; record->kind == NOTION_PAGE && i < all->count; i++)
        if (provider_wants(call->http, SLICE("filter_properties"),
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

void notion_write(struct json_writer *w, struct call *call, const struct record *record)
{
    bool is_whole = record->kind == NOTION_COMMENT || record->kind == NOTION_SOURCE ||
                    (record->kind == NOTION_PAGE &&
                     provider_wants(call->http, SLICE("filter_properties"), SLICE_NONE));
    struct json object = is_whole ? record->json : completed(call, record);
    json_put(w, &object);
}

void notion_write_block(struct json_writer *w, struct call *call, const struct record *record)
{
    if (record->kind == NOTION_BLOCK) {
        notion_write(w, call, record);
        return;
    }
    slice type = record->kind == NOTION_PAGE ? SLICE("child_page") : SLICE("child_database");
    struct json scope = OBJECT(call->arena, "page has_children type", record->json,
                               json_bool(has_children(record)), json_string(type));
    struct json object =
        shapes_make(&call->provider->notion->shapes, call->arena, SLICE("child"), &scope);
    json_object_set(call->arena, &object, type,
                    OBJECT(call->arena, "title", json_string(record->label)));
    json_put(w, &object);
}

static bool reply_record(struct call *call, const struct record *record)
{
    struct json_writer w = reply_json(call->reply, 200);
    notion_write(&w, call, record);
    return true;
}

bool notion_get(struct call *call)
{
    return reply_record(call, call->record);
}

bool notion_done(struct call *call, const struct record *record)
{
    if (!call->provider->notion->seed)
        call_record(call, slice_cstr(record->id), record->label);
    return reply_record(call, record);
}

bool notion_list_open(struct call *call, const char *type, struct notion_list *list)
{
    bool is_query = call->http->method == HTTP_METHOD_GET;
    int64_t size = NOTION_PAGE_MAX;
    const struct json *input = call_get(call, "page_size");
    slice text = request_query(call->http, SLICE("page_size"));
    if (is_query ? text.len && !slice_to_i64(text, &size) : input && !json_to_i64(input, &size))
        size = -1;
    if (!notion_in_range(call, is_query ? "query.page_size" : "body.page_size", size,
                         NOTION_PAGE_MAX))
        return false;
    *list = (struct notion_list){.type = type,
                                 .size = (size_t)size,
                                 .cursor = is_query
                                               ? request_query(call->http, SLICE("start_cursor"))
                                               : json_str(call_get(call, "start_cursor")),
                                 .w = reply_json(call->reply, 200)};
    json_open(&list->w, '{');
    json_member_str(&list->w, "object", SLICE("list"));
    json_member_open(&list->w, "results", '[');
    return true;
}

bool notion_list_takes(struct notion_list *list, slice id)
{
    if (list->cursor.len && slice_eq(list->cursor, id))
        list->cursor = SLICE_NONE;
    if (list->cursor.len || list->next.len)
        return false;
    if (list->listed == list->size)
        list->next = id;
    else
        list->listed++;
    return !list->next.len;
}

bool notion_list_close(struct call *call, struct notion_list *list)
{
    if (list->cursor.len)
        return notion_invalid(call, "The start_cursor provided is invalid: %.*s",
                              SLICE_ARG(slice_first(list->cursor, 80)));
    json_close(&list->w, ']');
    json_member_str(&list->w, "next_cursor", list->next);
    json_member_bool(&list->w, "has_more", list->next.len > 0);
    json_member_str(&list->w, "type", slice_cstr(list->type));
    json_member_open(&list->w, list->type, '{');
    json_close(&list->w, '}');
    json_close(&list->w, '}');
    return true;
}

/* ---- a request ---- */

static bool check_access(struct call *call)
{
    const struct token *token = tokens_find(call->provider->tokens, call->app, call->http);
    slice version = request_header(call->http, SLICE("notion-version"));
    if (!token)
        return notion_error_plain(call, 401);
    if (!version.len)
        return fail(call, 400, SLICE("missing_version"),
                    SLICE("Notion-Version header failed validation: Notion-Version header should "
                          "be defined, instead was `undefined`."));
    if (!slice_eq(version, SLICE(NOTION_VERSION)))
        return notion_invalid(call,
                              "Notion-Version header failed validation: this emulator speaks "
                              "`\"" NOTION_VERSION "\"` only, instead was `\"%.*s\"`.",
                              SLICE_ARG(slice_first(version, 40)));
    return !call->route->scopes || token_may(token, call->route->scopes) ||
           notion_error_plain(call, 403);
}

static bool read_body(struct call *call)
{
    struct err err;
    if (!call_body(call, &err))
        return fail(call, 400, SLICE("invalid_json"), SLICE("Error parsing JSON body."));
    return json_is(call->body, JSON_OBJECT) ||
           notion_should(call, "body", "be an object", call->body);
}

/* The object of the path. Pages and databases are blocks, too. false: answered. */
static bool find_record(struct call *call)
{
    unsigned kind = call->route->kind;
    struct record *record = kind == NOTION_KINDS ? NULL : notion_find(call, call->id);
    bool is_container = record && record->kind <= NOTION_DATABASE;
    call->record = record;
    if (kind == NOTION_KINDS)
        return true;
    if (record && (record->kind == kind || (kind == NOTION_BLOCK && is_container))) {
        if (call->route->write)
            call->object = provider_copy(call->arena, &record->json);
        return true;
    }
    if (is_container)
        return notion_invalid(call, "Provided ID %s is a %s, not a %s.", record->id,
                              kind_names[record->kind],
                              kind == NOTION_SOURCE ? "data source" : kind_names[kind]);
    return notion_not_found(call, kind_names[kind], call->id);
}

void notion_handle(struct call *call)
{
    store_evict(&call->provider->notion->store);
    if (!call_route(call, notion_routes, notion_route_count, call->http->segments,
                    call->http->segment_count))
        fail(call, 400, SLICE("invalid_request_url"), SLICE("Invalid request URL."));
    else if (check_access(call) && read_body(call) && find_record(call))
        call->route->run(call);
}

/* ---- the first state ---- */

/* One request of an entry whose expressions were evaluated. */
static void seed_one(struct provider *provider, const struct json *entry, int64_t now_us,
                     struct arena *arena)
{
    struct buf body;
    slice path = json_get_str(entry, SLICE("path"));
    const slice segments[] = {slice_split(&path, '/'), path};
    buf_init(&body, PROVIDER_REPLY_BYTES_MAX);
    struct provider_reply reply = {.body = &body};
    struct provider_request http = {.method = HTTP_METHOD_POST, .arena = arena};
    struct call call = {.provider = provider,
                        .http = &http,
                        .arena = arena,
                        .reply = &reply,
                        .body = JSON_GET(entry, "body")};
    http.now_us = now_us - json_get_i64(entry, SLICE("hours_ago"), 0) * INT64_C(3600000000);
    provider->notion->seed = entry;
    provider->notion->seed_ids = 0;
    ASSERT(call_route(&call, notion_routes, notion_route_count, segments, 2) &&
           call.route->run(&call));
    provider->notion->seed = NULL;
    buf_deinit(&body);
}

void notion_seed(struct provider *provider, int64_t now_us)
{
    const struct json *entries = JSON_GET(provider->notion->data, "seed");
    for (uint32_t i = 0; i < entries->count; i++) {
        struct arena arena;
        const struct json *rows = JSON_GET(json_at(entries, i), "each"); /* or it alone */
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
