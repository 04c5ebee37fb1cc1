/*
 * What a document says about an operation's successful replies, as an action's `response`: whether
 * they have a body, its type, and a member that is always present.
 *
 * The result guards against false successes (manifest_reply.c), so it only claims facts that hold
 * for all 2xx replies; if they differ it is "any".
 */
#include "catalog/reader.h"
#include "openapi/internal.h"

enum { SCHEMAS_MAX = 8, BRANCHES_DEPTH_MAX = 3 };

/* The common properties of all 2xx replies. Only the first SCHEMAS_MAX are compared. */
struct replies {
    bool is_none, is_json, is_text, is_bytes; /* some reply has this kind of body */
    const struct json *schemas[SCHEMAS_MAX];  /* of JSON; NULL: it may be anything */
    size_t schema_count;
};

/* ---- media types ---- */

static bool is_json_type(slice type)
{
    type = slice_trim(slice_split(&type, ';'));
    return slice_eq_nocase(type, SLICE("application/json")) ||
           slice_ends_with(type, SLICE("+json")) || slice_eq_cstr(type, "*/*");
}

/* Text that people write and programs read as lines, whatever its type is called. XML and YAML are
 * not parsed, so they are passed on as text too. A reply that is not UTF-8 is passed on as bytes in
 * any case. */
static bool is_text_type(slice type)
{
    static const char *const subtypes[] = {
        "xml",        "+xml",         "yaml",       "+yaml",       "x-yaml",
        "x-ndjson",   "ndjson",       "jsonl",      "x-jsonlines", "json-seq",
        "javascript", "x-javascript", "ecmascript", "typescript",  "graphql",
        "sql",        "toml",         "x-sh",       "csv",
    };
    type = slice_trim(slice_split(&type, ';'));
    ptrdiff_t slash = slice_find_char(type, '/');
    slice subtype = slash < 0 ? SLICE_NONE : slice_from(type, (size_t)slash + 1);
    if (slice_eq_nocase(slice_first(type, 5), SLICE("text/")))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(subtypes); i++) {
        slice known = slice_cstr(subtypes[i]);
        bool is_suffix = known.ptr[0] == '+' && subtype.len > known.len;
        if (slice_eq_nocase(is_suffix ? slice_from(subtype, subtype.len - known.len) : subtype,
                            known))
            return true;
    }
    return false;
}

/* An object that cannot have members contains nothing to read. */
static bool is_empty_object(struct import *im, const struct json *schema)
{
    schema = import_resolve(im, schema);
    const struct json *properties = JSON_GET(schema, "properties");
    return slice_eq_cstr(json_get_str(schema, SLICE("type")), "object") &&
           (!properties || properties->count == 0) &&
           !json_get_bool(schema, SLICE("additionalProperties"), true);
}

/* Reads one reply's content types. JSON is preferred if there is a choice, because requests ask
 * for it (Accept). */
static void add_content(struct import_op *op, struct replies *replies, const struct json *content)
{
    struct import *im = op->im;
    bool is_text = true;
    ASSERT(json_is(content, JSON_OBJECT) && content->count > 0); /* otherwise all text */
    for (uint32_t i = 0; i < content->count; i++) {
        slice type = json_str(&content->as.members[i].key);
        is_text = is_text && is_text_type(type);
        if (!is_json_type(type))
            continue;
        if (slice_ends_with(type, SLICE("+json")) && !JSON_GET(content, "application/json"))
            op->accept = type;
        const struct json *schema = JSON_GET(&content->as.members[i].value, "schema");
        bool is_none = is_empty_object(im, schema);
        replies->is_none = replies->is_none || is_none;
        replies->is_json = replies->is_json || !is_none;
        if (!is_none && replies->schema_count < SCHEMAS_MAX)
            replies->schemas[replies->schema_count++] = schema;
        return;
    }
    replies->is_text = replies->is_text || is_text;
    replies->is_bytes = replies->is_bytes || !is_text;
}

static void read_replies(struct import_op *op, struct replies *replies)
{
    const struct json *responses = JSON_GET(op->node, "responses");
    for (uint32_t i = 0; json_is(responses, JSON_OBJECT) && i < responses->count; i++) {
        const struct json_member *member = &responses->as.members[i];
        slice status = json_str(&member->key);
        /* Including "2XX", but not "default", which is for errors in most documents. */
        if (status.len != 3 || !slice_starts_with(status, SLICE("2")))
            continue;
        const struct json *reply = import_resolve(op->im, &member->value);
        const struct json *content = JSON_GET(reply, "content");
        if (json_is(content, JSON_OBJECT) && content->count > 0)
            add_content(op, replies, content);
        else
            replies->is_none = true;
    }
}

/* ---- schemas ---- */

/* The type is certain only if no branch may have another. */
static bool is_object(struct import *im, const struct json *schema)
{
    static const char *const others[] = {"array", "string", "number", "integer", "boolean", "null"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (import_schema_may_be(im, schema, others[i]))
            return false;
    return !import_schema_is_nullable(im, schema) &&
           (import_schema_may_be(im, schema, "object") ||
            JSON_GET(import_resolve(im, schema), "properties"));
}

static bool is_array(struct import *im, const struct json *schema)
{
    const struct json *target = import_resolve(im, schema);
    return slice_eq_cstr(json_get_str(target, SLICE("type")), "array") &&
           !import_schema_is_nullable(im, schema);
}

static bool is_all(struct import *im, const struct replies *replies,
                   bool (*is_kind)(struct import *, const struct json *))
{
    for (size_t i = 0; i < replies->schema_count; i++)
        if (!replies->schemas[i] || !is_kind(im, replies->schemas[i]))
            return false;
    return replies->schema_count > 0;
}

/* Whether every value has that property, and it is never null. Any part of an allOf can guarantee
 * it; a branch of anyOf or oneOf cannot. */
static bool never_lacks(struct import *im, const struct json *schema, slice name, unsigned depth)
{
    schema = import_resolve(im, schema);
    const struct json *all = JSON_GET(schema, "allOf");
    const struct json *property = json_get(JSON_GET(schema, "properties"), name);
    if (json_has_text(JSON_GET(schema, "required"), name))
        return property && !import_schema_is_nullable(im, property);
    for (uint32_t i = 0; depth > 0 && json_is(all, JSON_ARRAY) && i < all->count; i++)
        if (never_lacks(im, &all->as.items[i], name, depth - 1))
            return true;
    return false;
}

static bool none_lacks(struct import *im, const struct replies *replies, slice name)
{
    ASSERT(replies->schema_count > 0 && replies->schema_count <= SCHEMAS_MAX);
    for (size_t i = 0; i < replies->schema_count; i++)
        if (!never_lacks(im, replies->schemas[i], name, BRANCHES_DEPTH_MAX))
            return false;
    return true;
}

/* Returns the member to require: "id" if all replies always have one, otherwise the first member
 * that all replies always have; SLICE_NONE if there is none. One member is enough to recognize the
 * reply. */
static slice pick_member(struct import *im, const struct replies *replies,
                         const struct json *schema, unsigned depth)
{
    schema = import_resolve(im, schema);
    const struct json *required = JSON_GET(schema, "required"), *all = JSON_GET(schema, "allOf");
    if (none_lacks(im, replies, SLICE("id")))
        return SLICE("id");
    for (uint32_t i = 0; json_is(required, JSON_ARRAY) && i < required->count; i++)
        if (none_lacks(im, replies, json_str(&required->as.items[i])))
            return json_str(&required->as.items[i]);
    slice found = SLICE_NONE;
    for (uint32_t i = 0; depth > 0 && json_is(all, JSON_ARRAY) && i < all->count && !found.ptr; i++)
        found = pick_member(im, replies, &all->as.items[i], depth - 1);
    return found;
}

/* Returns the member as an expression: body.id, body."@id". */
static slice member_path(struct import *im, slice name)
{
    struct json text = json_string(name);
    struct buf out;
    /* The limit exceeds the length of any name, so a failure means out of memory. */
    buf_init(&out, CATALOG_MANIFEST_BYTES_MAX);
    buf_append_cstr(&out, "body.");
    if (reader_is_id(name, name.len))
        buf_append(&out, name);
    else
        json_write(&out, &text);
    slice path = arena_take(im->arena, &out);
    if (!path.ptr)
        import_starve(im);
    return path;
}

static void describe_json(struct import_op *op, const struct replies *replies, bool is_write,
                          struct json *response)
{
    struct import *im = op->im;
    bool is_list = is_all(im, replies, is_array), is_map = is_all(im, replies, is_object);
    import_set_text(im, response, "kind",
                    slice_cstr(is_map    ? "object"
                               : is_list ? "array"
                                         : "any"));
    slice name = is_write && is_map
                     ? pick_member(im, replies, replies->schemas[0], BRANCHES_DEPTH_MAX)
                     : SLICE_NONE;
    if (name.len == 0) {
        if (is_write)
            import_weaken(op, "the document names no member that its reply always has, so any JSON "
                              "counts as its success");
        return;
    }
    struct json required = json_array();
    json_array_push(im->arena, &required, json_string(member_path(im, name)));
    import_set(im, response, "required", required);
}

struct json import_response(struct import_op *op, bool is_write)
{
    struct replies replies = {.is_none = false};
    struct json response = json_object();
    read_replies(op, &replies);
    int ways = replies.is_none + replies.is_json + replies.is_text + replies.is_bytes;
    if (ways != 1)
        import_set_text(op->im, &response, "body", SLICE("any"));
    else if (replies.is_json)
        describe_json(op, &replies, is_write, &response);
    else
        import_set_text(op->im, &response, "body",
                        replies.is_none   ? SLICE("none")
                        : replies.is_text ? SLICE("text")
                                          : SLICE("bytes"));
    return response;
}
