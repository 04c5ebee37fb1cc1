/*
 * The entry of Notion requests: token, version, route, object, body; its error shape, its lists,
 * and the requests that make the first state.
 */
#include "provider/ledger.h"
#include "provider/notion.h"
#include "provider/route.h"
#include "provider/token.h"

static const struct notion_route {
    int method; /* enum http_method */
    const char *pattern;
    notion_handler run;
    const char *scope;     /* the capability that is needed; NULL: none */
    enum notion_kind kind; /* of the object that the first parameter names; NOTION_KINDS: none */
    const char *write;     /* its kind, for the ledger */
} routes[] = {
    {POST, "v1/pages", notion_pages_create, "insert", NOTION_KINDS, "pages.create"},
    {GET, "v1/pages/*", notion_get, "read", NOTION_PAGE, NULL},
    {PATCH, "v1/pages/*", notion_pages_update, "update", NOTION_PAGE, "pages.update"},
    {GET, "v1/pages/*/properties/*", notion_pages_property, "read", NOTION_PAGE, NULL},
    {POST, "v1/pages/*/move", notion_pages_move, "update", NOTION_PAGE, "pages.move"},
    {GET, "v1/pages/*/markdown", notion_pages_markdown, "read", NOTION_PAGE, NULL},
    {PATCH, "v1/pages/*/markdown", notion_pages_markdown_update, "update", NOTION_PAGE,
     "pages.markdown"},
    {POST, "v1/databases", notion_databases_create, "insert", NOTION_KINDS, "databases.create"},
    {GET, "v1/databases/*", notion_get, "read", NOTION_DATABASE, NULL},
    {PATCH, "v1/databases/*", notion_databases_update, "update", NOTION_DATABASE,
     "databases.update"},
    {POST, "v1/data_sources", notion_sources_create, "insert", NOTION_KINDS, "data_sources.create"},
    {GET, "v1/data_sources/*", notion_get, "read", NOTION_SOURCE, NULL},
    {PATCH, "v1/data_sources/*", notion_sources_update, "update", NOTION_SOURCE,
     "data_sources.update"},
    {POST, "v1/data_sources/*/query", notion_sources_query, "read", NOTION_SOURCE, NULL},
    {GET, "v1/data_sources/*/templates", notion_sources_templates, "read", NOTION_SOURCE, NULL},
    {POST, "v1/search", notion_search, "read", NOTION_KINDS, NULL},
    {GET, "v1/blocks/*", notion_blocks_get, "read", NOTION_BLOCK, NULL},
    {PATCH, "v1/blocks/*", notion_blocks_update, "update", NOTION_BLOCK, "blocks.update"},
    {DELETE, "v1/blocks/*", notion_blocks_delete, "update", NOTION_BLOCK, "blocks.delete"},
    {GET, "v1/blocks/*/children", notion_children_list, "read", NOTION_BLOCK, NULL},
    {PATCH, "v1/blocks/*/children", notion_children_append, "insert", NOTION_BLOCK,
     "blocks.append"},
    {GET, "v1/users", notion_users_list, "users", NOTION_KINDS, NULL},
    {GET, "v1/users/me", notion_users_me, NULL, NOTION_KINDS, NULL},
    {GET, "v1/users/*", notion_users_get, "users", NOTION_KINDS, NULL},
    {GET, "v1/comments", notion_comments_list, "comments", NOTION_KINDS, NULL},
    {POST, "v1/comments", notion_comments_create, "comments", NOTION_KINDS, "comments.create"},
    {GET, "v1/comments/*", notion_get, "comments", NOTION_COMMENT, NULL},
    {PATCH, "v1/comments/*", notion_comments_update, "comments", NOTION_COMMENT, "comments.update"},
    {DELETE, "v1/comments/*", notion_comments_delete, "comments", NOTION_COMMENT,
     "comments.delete"},
};

/* ---- errors ---- */

static bool fail(struct notion *notion, struct provider_reply *reply, unsigned status, slice code,
                 slice message)
{
    struct arena arena;
    arena_init(&arena, 64 * 1024);
    struct json body = OBJECT(&arena, "object status code message request_id",
                              json_string(SLICE("error")), json_i64(status), json_string(code),
                              json_string(message), notion_id_new(notion, &arena));
    struct json_writer w = reply_json(reply, status);
    json_put(&w, &body);
    arena_deinit(&arena);
    return false;
}

bool notion_invalid(struct notion_request *request, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    slice message = arena_vprintf(request->arena, fmt, args);
    va_end(args);
    return fail(request->notion, request->reply, 400, SLICE("validation_error"), message);
}

bool notion_should(struct notion_request *request, const char *where, const char *what,
                   const struct json *input)
{
    return notion_invalid(request, "%.*s failed validation: %s should %s, instead was `%s`.",
                          (int)strcspn(where, "."), where, where, what,
                          input ? json_type_name(input) : "undefined");
}

bool notion_in_range(struct notion_request *request, const char *where, int64_t got, int64_t max)
{
    int64_t least = got < 1 ? 1 : max;
    return (got >= 1 && got <= max) ||
           notion_invalid(request,
                          "%.*s failed validation: %s should be %s `%lld`, instead was `%lld`.",
                          (int)strcspn(where, "."), where, where, got < 1 ? "≥" : "≤",
                          (long long)least, (long long)got);
}

bool notion_not_found(struct notion_request *request, const char *what, slice id)
{
    char text[UUID_TEXT_LEN + 1];
    bool is_property = !strcmp(what, "property");
    if (!is_property && !notion_id_read(id, text))
        return notion_invalid(request,
                              "path failed validation: path.%s_id should be a valid uuid, instead "
                              "was `\"%.*s\"`.",
                              what, SLICE_ARG(slice_first(id, 80)));
    slice message = arena_printf(request->arena,
                                 "Could not find %s with ID: %.*s. Make sure the relevant pages "
                                 "and databases are shared with your integration.",
                                 what,
                                 SLICE_ARG(is_property ? slice_first(id, 80) : slice_cstr(text)));
    return fail(request->notion, request->reply, 404, SLICE("object_not_found"), message);
}

void notion_error_plain(struct provider *provider, struct provider_reply *reply, unsigned status)
{
    struct notion *notion = provider->notion;
    char number[SLICE_U64_MAX];
    const struct json *known =
        json_get(JSON_GET(notion->data, "errors"), slice_of_u64(status, number));
    slice code = json_str(json_at(known, 0)), message = json_str(json_at(known, 1));
    fail(notion, reply, status, known ? code : SLICE("internal_server_error"),
         known ? message : slice_cstr(http_status_text(status)));
}

bool notion_out_of_memory(struct notion_request *request)
{
    notion_error_plain(request->notion->provider, request->reply, 503);
    return false;
}

/* ---- replies ---- */

static bool has_children(const struct notion_node *node)
{
    LIST_EACH(&node->children, const struct notion_node, child, sibling_link) {
        if (!child->is_archived && child->kind != NOTION_SOURCE && child->kind != NOTION_COMMENT)
            return true;
    }
    return false;
}

static struct json sources_of(const struct notion_node *database, struct arena *arena)
{
    struct json list = json_array();
    LIST_EACH(&database->children, const struct notion_node, source, sibling_link) {
        if (!source->is_archived)
            json_array_push(arena, &list,
                            OBJECT(arena, "id name", json_string(slice_cstr(source->id)),
                                   json_string(source->label)));
    }
    return list;
}

static void filter_properties(const struct provider_request *http, struct json *page)
{
    const struct json *all = JSON_GET(page, "properties");
    struct json some = json_object();
    for (uint32_t i = 0; i < all->count; i++)
        if (provider_wants(http, SLICE("filter_properties"),
                           json_get_str(&all->as.members[i].value, SLICE("id"))))
            json_object_set(http->arena, &some, json_str(&all->as.members[i].key),
                            all->as.members[i].value);
    json_object_put(http->arena, page, SLICE("properties"), some);
}

void notion_write(struct json_writer *w, const struct notion_node *node,
                  const struct provider_request *http)
{
    struct arena *arena = http->arena;
    if (node->kind == NOTION_COMMENT ||
        (node->kind == NOTION_PAGE &&
         provider_wants(http, SLICE("filter_properties"), SLICE_NONE))) {
        json_put_raw(w, node->text);
        return;
    }
    struct json object = provider_copy(arena, notion_object(node));
    if (node->kind == NOTION_PAGE)
        filter_properties(http, &object);
    else if (node->kind == NOTION_DATABASE)
        json_object_put(arena, &object, SLICE("data_sources"), sources_of(node, arena));
    else if (node->kind == NOTION_BLOCK)
        json_object_put(arena, &object, SLICE("has_children"), json_bool(has_children(node)));
    json_put(w, &object);
}

void notion_write_block(struct json_writer *w, const struct notion_node *node,
                        const struct provider_request *http)
{
    static const char *const kept[] = {"id",         "created_time",   "last_edited_time",
                                       "created_by", "last_edited_by", "parent",
                                       "in_trash"};
    struct arena *arena = http->arena;
    slice type = node->kind == NOTION_PAGE ? SLICE("child_page") : SLICE("child_database");
    struct json object = json_object();
    if (node->kind == NOTION_BLOCK) {
        notion_write(w, node, http);
        return;
    }
    json_object_set(arena, &object, SLICE("object"), json_string(SLICE("block")));
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        json_object_set(arena, &object, slice_cstr(kept[i]),
                        *json_get(notion_object(node), slice_cstr(kept[i])));
    json_object_set(arena, &object, SLICE("has_children"), json_bool(has_children(node)));
    json_object_set(arena, &object, SLICE("type"), json_string(type));
    json_object_set(arena, &object, type, OBJECT(arena, "title", json_string(node->label)));
    json_put(w, &object);
}

bool notion_reply(struct notion_request *request, const struct json *value)
{
    struct json_writer w = reply_json(request->reply, 200);
    json_put(&w, value);
    return true;
}

static bool reply_node(struct notion_request *request, const struct notion_node *node)
{
    struct json_writer w = reply_json(request->reply, 200);
    notion_write(&w, node, request->http);
    return true;
}

bool notion_get(struct notion_request *request)
{
    return reply_node(request, request->node);
}

bool notion_done(struct notion_request *request, const struct notion_node *node)
{
    if (!request->notion->seed)
        ledger_add(request->notion->provider->ledger, request->http, "notion", request->kind,
                   slice_cstr(node->id), node->label);
    return reply_node(request, node);
}

bool notion_save(struct notion_request *request)
{
    return notion_node_set(request, request->node, &request->object) &&
           notion_done(request, request->node);
}

bool notion_list_open(struct notion_request *request, const char *type, struct notion_list *list)
{
    bool is_query = request->http->method == HTTP_METHOD_GET;
    int64_t size = NOTION_PAGE_MAX;
    const struct json *input = JSON_GET(request->body, "page_size");
    slice text = request_query(request->http, SLICE("page_size"));
    if (is_query ? text.len && !slice_to_i64(text, &size) : input && !json_to_i64(input, &size))
        size = -1;
    if (!notion_in_range(request, is_query ? "query.page_size" : "body.page_size", size,
                         NOTION_PAGE_MAX))
        return false;
    *list = (struct notion_list){.type = type,
                                 .size = (size_t)size,
                                 .cursor = is_query
                                               ? request_query(request->http, SLICE("start_cursor"))
                                               : json_get_str(request->body, SLICE("start_cursor")),
                                 .w = reply_json(request->reply, 200)};
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

bool notion_list_close(struct notion_request *request, struct notion_list *list)
{
    if (list->cursor.len)
        return notion_invalid(request, "The start_cursor provided is invalid: %.*s",
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

static bool check_access(struct notion_request *request, const char *scope)
{
    struct provider *provider = request->notion->provider;
    const struct token *token =
        tokens_find(provider->tokens, TOKEN_NOTION, request_bearer(request->http));
    slice version = request_header(request->http, SLICE("notion-version"));
    if (!token) {
        notion_error_plain(provider, request->reply, 401);
        return false;
    }
    if (!version.len)
        return fail(request->notion, request->reply, 400, SLICE("missing_version"),
                    SLICE("Notion-Version header failed validation: Notion-Version header should "
                          "be defined, instead was `undefined`."));
    if (!slice_eq(version, SLICE(NOTION_VERSION)))
        return notion_invalid(request,
                              "Notion-Version header failed validation: this emulator speaks "
                              "`\"" NOTION_VERSION "\"` only, instead was `\"%.*s\"`.",
                              SLICE_ARG(slice_first(version, 40)));
    if (scope && !token_may(token, scope)) {
        notion_error_plain(provider, request->reply, 403);
        return false;
    }
    return true;
}

/* request->body is an object afterwards, or it was answered. */
static bool read_body(struct notion_request *request)
{
    static const struct json empty = {.type = JSON_OBJECT};
    const struct provider_request *http = request->http;
    struct err err = {0};
    request->body = &empty;
    if (!http->body.len)
        return true;
    const struct json *body = json_parse(request->arena, http->body, &json_limits_provider, &err);
    if (!body)
        return fail(request->notion, request->reply, 400, SLICE("invalid_json"),
                    SLICE("Error parsing JSON body."));
    request->body = body;
    return json_is(body, JSON_OBJECT) || notion_should(request, "body", "be an object", body);
}

/* The object of the path. Pages and databases are blocks, too. false: answered. */
static bool find_node(struct notion_request *request, enum notion_kind kind)
{
    if (kind == NOTION_KINDS)
        return true;
    struct notion_node *node = notion_find(request->notion, request->id);
    bool is_container = node && node->kind <= NOTION_DATABASE;
    request->node = node;
    if (node && (node->kind == kind || (kind == NOTION_BLOCK && is_container))) {
        if (request->kind)
            request->object = provider_copy(request->arena, notion_object(node));
        return true;
    }
    if (is_container)
        return notion_invalid(request, "Provided ID %s is a %s, not a %s.", node->id,
                              notion_kind_name(node->kind),
                              kind == NOTION_SOURCE ? "data source" : notion_kind_name(kind));
    return notion_not_found(request, notion_kind_name(kind), request->id);
}

void notion_handle(struct provider *provider, const struct provider_request *http,
                   struct provider_reply *reply)
{
    slice params[ROUTE_PARAMS_MAX] = {{0}};
    const struct notion_route *route = NULL;
    notion_evict(provider->notion);
    for (size_t i = 0; i < ARRAY_LEN(routes) && !route; i++)
        if (routes[i].method == (int)http->method &&
            route_match(routes[i].pattern, http->segments, http->segment_count, params))
            route = &routes[i];
    struct notion_request request = {.notion = provider->notion,
                                     .http = http,
                                     .arena = http->arena,
                                     .reply = reply,
                                     .id = params[0],
                                     .id2 = params[1],
                                     .kind = route ? route->write : NULL};
    if (!route)
        fail(request.notion, reply, 400, SLICE("invalid_request_url"),
             SLICE("Invalid request URL."));
    else if (check_access(&request, route->scope) && read_body(&request) &&
             find_node(&request, route->kind))
        route->run(&request);
}

/* ---- the first state ---- */

/* One request of an entry whose expressions were evaluated. */
static bool seed_one(struct notion *notion, const struct json *entry, int64_t now_us,
                     struct arena *arena)
{
    struct buf body;
    buf_init(&body, PROVIDER_REPLY_BYTES_MAX);
    struct provider_reply reply = {.body = &body};
    struct provider_request http = {.method = HTTP_METHOD_POST,
                                    .arena = arena,
                                    .now_us = now_us - json_get_i64(entry, SLICE("hours_ago"), 0) *
                                                           INT64_C(3600000000)};
    struct notion_request request = {.notion = notion,
                                     .http = &http,
                                     .arena = arena,
                                     .reply = &reply,
                                     .body = JSON_GET(entry, "body")};
    slice path = json_get_str(entry, SLICE("path"));
    notion->seed = entry;
    notion->seed_ids = 0;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (routes[i].method == POST && slice_eq_cstr(path, routes[i].pattern))
            (void)routes[i].run(&request);
    notion->seed = NULL;
    buf_deinit(&body);
    return reply.status == 200;
}

/* An entry, or one for each row of `each`. */
static bool seed_entry(struct notion *notion, const struct json *entry, int64_t now_us,
                       struct arena *arena)
{
    const struct json *rows = JSON_GET(entry, "each");
    uint32_t count = rows ? rows->count : 1;
    for (uint32_t i = 0; i < count; i++) {
        struct json one;
        struct json scope = OBJECT(arena, "row now_s", rows ? *json_at(rows, i) : json_null,
                                   json_i64(now_us / 1000000));
        if (!provider_eval(arena, entry, &scope, &one) || !seed_one(notion, &one, now_us, arena))
            return false;
    }
    return true;
}

bool notion_seed(struct notion *notion, int64_t now_us)
{
    const struct json *entries = JSON_GET(notion->data, "seed");
    bool is_ok = true;
    for (uint32_t i = 0; is_ok && i < entries->count; i++) {
        struct arena arena;
        arena_init(&arena, 1024 * 1024);
        is_ok = seed_entry(notion, json_at(entries, i), now_us, &arena);
        arena_deinit(&arena);
    }
    return is_ok;
}
