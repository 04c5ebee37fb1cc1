/*
 * Docs: the reference of the interface, made of its document (src/api/openapi.json, compiled in): a
 * list of the operations, and for each of them what it takes, what it answers and its call by curl.
 * It is the same for everyone, as the document is; who is signed in reads it in the frame.
 */
#include "base/embed.h"
#include "web/pages.h"

enum { REFERENCES_MAX = 8, MEMBERS_DEPTH_MAX = 4 };

/* As members of a path are called, and as requests call them. */
static const struct {
    const char *member, *name;
} methods[] = {{"get", "GET"}, {"post", "POST"}, {"patch", "PATCH"}, {"delete", "DELETE"}};

struct docs {
    struct web_request *request;
    struct json_writer *w;
    const struct json *root;
};

/* ---- reading the document ---- */

/* What a "$ref" of this document stands for; the value itself without one. NULL: nothing. */
static const struct json *follow(const struct docs *docs, const struct json *value)
{
    for (size_t i = 0; i < REFERENCES_MAX; i++) {
        slice path = json_get_str(value, SLICE("$ref"));
        if (!path.ptr)
            return value;
        (void)slice_split(&path, '/'); /* "#" */
        value = docs->root;
        while (path.len > 0)
            value = json_get(value, slice_split(&path, '/'));
    }
    return NULL;
}

static slice words_of(struct docs *docs, const struct json *list, slice joint)
{
    struct buf text;
    buf_init(&text, 4096);
    for (uint32_t i = 0; json_is(list, JSON_ARRAY) && i < list->count; i++) {
        buf_append(&text, i > 0 ? joint : SLICE(""));
        if (json_is(&list->as.items[i], JSON_STRING))
            buf_append(&text, json_str(&list->as.items[i]));
        else
            json_write(&text, &list->as.items[i]);
    }
    return arena_take(&docs->request->serve.op.arena, &text);
}

/* "string", "integer or null", "list of object", or the values that there are. */
static slice type_of(struct docs *docs, const struct json *schema)
{
    schema = follow(docs, schema);
    const struct json *type = JSON_GET(schema, "type"), *words = JSON_GET(schema, "enum");
    struct arena *arena = &docs->request->serve.op.arena;
    if (words)
        return words_of(docs, words, SLICE(", "));
    if (json_is(type, JSON_ARRAY))
        return words_of(docs, type, SLICE(" or "));
    if (!json_is(type, JSON_STRING))
        return SLICE("any");
    if (!slice_eq_cstr(json_str(type), "array"))
        return json_str(type);
    return arena_printf(arena, "list of %.*s", SLICE_ARG(type_of(docs, JSON_GET(schema, "items"))));
}

static bool is_among(const struct json *list, slice name)
{
    for (uint32_t i = 0; json_is(list, JSON_ARRAY) && i < list->count; i++)
        if (slice_eq(json_str(&list->as.items[i]), name))
            return true;
    return false;
}

/* ---- writing ---- */

/* Paragraphs of what is text and, between backticks, code. */
static void write_text(struct docs *docs, const char *key, slice text)
{
    struct json_writer *w = docs->w;
    json_member_open(w, key, '[');
    while (text.len > 0) {
        ptrdiff_t end = slice_find(text, SLICE("\n\n"));
        slice paragraph = end < 0 ? text : slice_first(text, (size_t)end);
        text = end < 0 ? SLICE("") : slice_from(text, (size_t)end + 2);
        json_open(w, '{');
        json_member_open(w, "parts", '[');
        for (bool is_code = false; paragraph.len > 0; is_code = !is_code) {
            json_open(w, '{');
            json_member_bool(w, "is_code", is_code);
            json_member_str(w, "text", slice_split(&paragraph, '`'));
            json_close(w, '}');
        }
        json_close(w, ']');
        json_close(w, '}');
    }
    json_close(w, ']');
}

/* As docs_member.html declares it. */
static void write_docs_member(struct docs *docs, slice name, slice from, bool is_required,
                              const struct json *schema, slice text)
{
    struct json_writer *w = docs->w;
    json_open(w, '{');
    json_member_str(w, "name", name);
    json_member_str(w, "place", from);
    json_member_bool(w, "required", is_required);
    json_member_str(w, "type", type_of(docs, schema));
    write_text(docs, "text", text);
    json_close(w, '}');
}

static void write_parameters(struct docs *docs, const struct json *list)
{
    json_member_open(docs->w, "parameters", '[');
    for (uint32_t i = 0; json_is(list, JSON_ARRAY) && i < list->count; i++) {
        const struct json *one = follow(docs, &list->as.items[i]);
        write_docs_member(docs, json_get_str(one, SLICE("name")), json_get_str(one, SLICE("in")),
                          json_get_bool(one, SLICE("required"), false), JSON_GET(one, "schema"),
                          json_get_str(one, SLICE("description")));
    }
    json_close(docs->w, ']');
}

/* The members of an object's schema, and of those that it is all of. */
static void write_members(struct docs *docs, const struct json *schema, unsigned depth)
{
    schema = follow(docs, schema);
    const struct json *members = JSON_GET(schema, "properties"), *all = JSON_GET(schema, "allOf");
    if (depth > MEMBERS_DEPTH_MAX)
        return;
    for (uint32_t i = 0; json_is(all, JSON_ARRAY) && i < all->count; i++)
        write_members(docs, &all->as.items[i], depth + 1);
    for (uint32_t i = 0; json_is(members, JSON_OBJECT) && i < members->count; i++) {
        const struct json *one = &members->as.members[i].value;
        slice name = json_str(&members->as.members[i].key);
        slice text = json_get_str(one, SLICE("description"));
        write_docs_member(docs, name, SLICE("body"), is_among(JSON_GET(schema, "required"), name),
                          one,
                          text.ptr ? text : json_get_str(follow(docs, one), SLICE("description")));
    }
}

static void write_responses(struct docs *docs, const struct json *responses)
{
    struct json_writer *w = docs->w;
    json_member_open(w, "responses", '[');
    for (uint32_t i = 0; json_is(responses, JSON_OBJECT) && i < responses->count; i++) {
        const struct json *one = follow(docs, &responses->as.members[i].value);
        json_open(w, '{');
        json_member_str(w, "status", json_str(&responses->as.members[i].key));
        write_text(docs, "text", json_get_str(one, SLICE("description")));
        json_close(w, '}');
    }
    json_close(w, ']');
}

/* An operation without a key says so: "security": []. */
static bool needs_key(const struct json *operation)
{
    const struct json *security = JSON_GET(operation, "security");
    return !security || security->count > 0;
}

/* The first example of the body; NULL: it takes none. */
static const struct json *example_of(struct docs *docs, const struct json *content)
{
    const struct json *examples = JSON_GET(content, "examples");
    if (json_is(examples, JSON_OBJECT) && examples->count > 0)
        return JSON_GET(follow(docs, &examples->as.members[0].value), "value");
    return JSON_GET(content, "example");
}

static void write_head(struct docs *docs, slice path, slice method, const struct json *operation)
{
    struct json_writer *w = docs->w;
    json_member_str(w, "id", json_get_str(operation, SLICE("operationId")));
    json_member_str(w, "method", method);
    json_member_str(w, "path", path);
    json_member_str(w, "summary", json_get_str(operation, SLICE("summary")));
    json_member_str(w, "scope", json_get_str(operation, SLICE("x-scope")));
}

static void write_operation(struct docs *docs, slice path, slice method,
                            const struct json *operation)
{
    const struct json *body = follow(docs, JSON_GET(operation, "requestBody"));
    const struct json *content = JSON_GET(JSON_GET(body, "content"), "application/json");
    struct json_writer *w = docs->w;
    write_head(docs, path, method, operation);
    write_text(docs, "text", json_get_str(operation, SLICE("description")));
    write_parameters(docs, JSON_GET(operation, "parameters"));
    json_member_open(w, "members", '[');
    write_members(docs, JSON_GET(content, "schema"), 0);
    json_close(w, ']');
    write_responses(docs, JSON_GET(operation, "responses"));
    view_curl(docs->request, w, "curl",
              &(const struct view_call){.method = method,
                                        .path = path,
                                        .has_key = needs_key(operation),
                                        .body = example_of(docs, content)});
}

/* ---- the pages ---- */

/* An operation by its place; NULL: the path has not this method. */
static const struct json *operation_at(const struct json *paths, uint32_t path, size_t method)
{
    return json_get(&paths->as.members[path].value, slice_cstr(methods[method].member));
}

static void write_operations(struct docs *docs, const struct json *paths, slice tag)
{
    struct json_writer *w = docs->w;
    json_member_open(w, "operations", '[');
    for (uint32_t i = 0; i < paths->count; i++)
        for (size_t j = 0; j < ARRAY_LEN(methods); j++) {
            const struct json *operation = operation_at(paths, i, j);
            if (!is_among(JSON_GET(operation, "tags"), tag))
                continue;
            json_open(w, '{');
            write_head(docs, json_str(&paths->as.members[i].key), slice_cstr(methods[j].name),
                       operation);
            json_close(w, '}');
        }
    json_close(w, ']');
}

/* The document is read for each page: a millisecond, and no memory between two. */
static bool open_document(struct web_request *request, struct docs *docs)
{
    const struct embed_file *file = &embed_openapi[0];
    slice text = slice_of((const char *)file->data, file->len);
    *docs = (struct docs){
        .request = request,
        .root = json_parse(&request->serve.op.arena, text, &json_limits_provider, NULL)};
    return docs->root != NULL;
}

enum op_result web_docs(struct web_request *request)
{
    struct docs docs;
    if (!open_document(request, &docs))
        return web_reply_database(request, ERR_NOMEM);
    const struct json *tags = JSON_GET(docs.root, "tags");
    struct json_writer *w = docs.w = view_begin(request);
    write_text(&docs, "text", json_get_str(JSON_GET(docs.root, "info"), SLICE("description")));
    json_member_open(w, "tags", '[');
    for (uint32_t i = 0; i < tags->count; i++) {
        slice name = json_get_str(&tags->as.items[i], SLICE("name"));
        json_open(w, '{');
        json_member_str(w, "name", name);
        json_member_str(w, "text", json_get_str(&tags->as.items[i], SLICE("description")));
        write_operations(&docs, JSON_GET(docs.root, "paths"), name);
        json_close(w, '}');
    }
    json_close(w, ']');
    request->is_cacheable = true;
    return web_reply_view(request, 200, "docs");
}

enum op_result web_docs_operation(struct web_request *request)
{
    struct docs docs;
    if (!open_document(request, &docs))
        return web_reply_database(request, ERR_NOMEM);
    const struct json *paths = JSON_GET(docs.root, "paths");
    for (uint32_t i = 0; i < paths->count; i++)
        for (size_t j = 0; j < ARRAY_LEN(methods); j++) {
            const struct json *operation = operation_at(paths, i, j);
            slice id = json_get_str(operation, SLICE("operationId"));
            if (!id.ptr || !slice_eq(id, request->serve.match.params[0]))
                continue;
            docs.w = view_begin(request);
            write_operation(&docs, json_str(&paths->as.members[i].key), slice_cstr(methods[j].name),
                            operation);
            request->is_cacheable = true;
            return web_reply_view(request, 200, "docs_operation");
        }
    return web_reply_missing(request, "The interface has no operation of this name.");
}
