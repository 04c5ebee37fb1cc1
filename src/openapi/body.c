/*
 * Request bodies. If the schema states exactly which members the object has, they become inputs
 * next to the parameters; any other body is one input, `body`. Models fill in flat inputs best, so
 * bodies are flattened, but only if nothing is lost.
 */
#include "openapi/internal.h"

enum { FLATTEN_DEPTH_MAX = 8, MERGE_ARGS_MAX = EXPR_ARGS_MAX - 1 };

/* Ordered by how much of the body an action can express; choose_media() takes the largest. */
enum media { MEDIA_NONE, MEDIA_BYTES, MEDIA_TEXT, MEDIA_MULTIPART, MEDIA_FORM, MEDIA_JSON };

struct member {
    slice name;
    const struct json *schema;
    bool is_required;
};

/* The members of an object schema, including those of its allOf. */
struct members {
    struct import *im;
    struct member items[IMPORT_PROPERTIES_MAX];
    size_t count;
    bool is_closed; /* the document rules out further members */
};

/* ---- flattening ---- */

static struct member *find_member(struct members *members, slice name)
{
    for (size_t i = 0; i < members->count; i++)
        if (slice_eq(members->items[i].name, name))
            return &members->items[i];
    return NULL;
}

static bool add_members(struct members *members, const struct json *properties)
{
    for (uint32_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        slice name = json_str(&properties->as.members[i].key);
        const struct json *schema = &properties->as.members[i].value;
        struct member *known = find_member(members, name);
        if (import_schema_is_read_only(members->im, schema))
            continue;
        if (members->count == IMPORT_PROPERTIES_MAX || !import_is_plain(name))
            return false;
        /* Two parts of an allOf describe this member. The later part, which refines the earlier,
         * takes precedence. */
        if (known)
            known->schema = schema;
        else
            members->items[members->count++] = (struct member){name, schema, false};
    }
    return true;
}

/* Keywords about the object as a whole, which a list of members cannot express. A body with such
 * a keyword is one input with its schema, so that nothing is lost. */
static bool has_more_to_say(const struct json *schema)
{
    slice names = SLICE("anyOf oneOf not if enum const $dynamicRef patternProperties minProperties "
                        "maxProperties items propertyNames unevaluatedProperties "
                        "dependentRequired dependentSchemas");
    for (uint32_t i = 0; json_is(schema, JSON_OBJECT) && i < schema->count; i++)
        if (slice_has_word(names, json_str(&schema->as.members[i].key)))
            return true;
    return false;
}

/* Collects the members of an object schema and of its allOf. Returns false if the schema is not an
 * object, or if a list of members cannot express it, for example because it has a schema for
 * further members. depth limits references that lead back to themselves. */
static bool collect(struct members *members, const struct json *schema, unsigned depth)
{
    schema = import_resolve(members->im, schema);
    const struct json *type = JSON_GET(schema, "type"), *all = JSON_GET(schema, "allOf");
    const struct json *more = JSON_GET(schema, "additionalProperties");
    bool is_closed = json_is(more, JSON_BOOL) && !more->as.boolean;
    if (!json_is(schema, JSON_OBJECT) || depth == 0 || has_more_to_say(schema) ||
        (more && !is_closed) || (type && !slice_eq_cstr(json_str(type), "object")))
        return false;
    members->is_closed = members->is_closed || is_closed;
    for (uint32_t i = 0; json_is(all, JSON_ARRAY) && i < all->count; i++)
        if (!collect(members, &all->as.items[i], depth - 1))
            return false;
    return add_members(members, JSON_GET(schema, "properties"));
}

/* Runs when all members are known, because one part of an allOf may require what another part
 * describes. */
static void mark_required(struct members *members, const struct json *schema, unsigned depth)
{
    schema = import_resolve(members->im, schema);
    const struct json *required = JSON_GET(schema, "required"), *all = JSON_GET(schema, "allOf");
    for (uint32_t i = 0; json_is(required, JSON_ARRAY) && i < required->count; i++) {
        struct member *member = find_member(members, json_str(&required->as.items[i]));
        if (member)
            member->is_required = true;
    }
    for (uint32_t i = 0; depth > 0 && json_is(all, JSON_ARRAY) && i < all->count; i++)
        mark_required(members, &all->as.items[i], depth - 1);
}

/* ---- the JSON body's template ---- */

static bool is_simple_wire(slice wire)
{
    return slice_find_char(wire, '"') < 0 && slice_find_char(wire, '\\') < 0;
}

static void append_pair(struct import_op *op, struct buf *out, const struct import_input *input)
{
    buf_printf(out, "\"%.*s\": %.*s", SLICE_ARG(input->wire),
               SLICE_ARG(import_input_path(op, input)));
}

/* A member whose template gives null is left out of the request, so a null from the caller would be
 * lost. If null means something to the provider ("clear this field"), the body is one expression
 * that checks which inputs are present: merge({"a": input.a}, contains(keys(input), 'b') && {"b":
 * input.b} || `{}`, ...). */
static bool make_merge(struct import_op *op, size_t first, struct json *body)
{
    struct buf out;
    size_t args = 0, required = 0;
    bool is_good = true;
    ASSERT(first < op->input_count); /* merge() with no arguments is not a valid expression */
    buf_init(&out, EXPR_SOURCE_MAX + 8);
    buf_append_cstr(&out, "${merge(");
    for (size_t i = first; i < op->input_count; i++)
        if (op->inputs[i].is_required) {
            buf_append_cstr(&out, required++ ? ", " : "{");
            append_pair(op, &out, &op->inputs[i]);
        }
    if (required > 0) {
        buf_append_char(&out, '}');
        args++;
    }
    for (size_t i = first; i < op->input_count; i++) {
        const struct import_input *input = &op->inputs[i];
        /* Names are quoted unchanged; a name with a quote or backslash is left to make_object. */
        is_good = is_good && is_simple_wire(input->wire);
        if (input->is_required)
            continue;
        buf_printf(&out, "%scontains(keys(input), '%.*s') && {", args++ ? ", " : "",
                   SLICE_ARG(input->name));
        append_pair(op, &out, input);
        buf_append_cstr(&out, "} || `{}`");
    }
    buf_append_cstr(&out, ")}");
    /* As in write_manifest: a failure far below the limit means out of memory. */
    if (!buf_is_ok(&out) && out.len < EXPR_SOURCE_MAX / 2)
        import_starve(op->im);
    is_good = is_good && buf_is_ok(&out) && args <= MERGE_ARGS_MAX && out.len <= EXPR_SOURCE_MAX;
    *body = json_string(arena_dup(op->im->arena, buf_slice(&out)));
    buf_deinit(&out);
    return is_good;
}

static struct json make_object(struct import_op *op, size_t first)
{
    struct json object = json_object();
    for (size_t i = first; i < op->input_count; i++)
        json_object_set(op->im->arena, &object, op->inputs[i].wire,
                        import_input_template(op, &op->inputs[i]));
    return object;
}

static struct json make_json(struct import_op *op, size_t first)
{
    struct json body = json_null;
    bool wants_null = false;
    for (size_t i = first; i < op->input_count; i++)
        wants_null = wants_null || op->inputs[i].is_nullable;
    if (wants_null && make_merge(op, first, &body))
        return body;
    if (wants_null)
        import_weaken(op, "a null in the body cannot be sent: it has too many members");
    return make_object(op, first);
}

/* ---- kinds of bodies ---- */

static void set_body(struct import_op *op, const char *kind, struct json value)
{
    ASSERT(op->body.type == JSON_NULL); /* a request has one body */
    op->body = json_object();
    json_object_set(op->im->arena, &op->body, slice_cstr(kind), value);
}

/* Members that the document neither describes nor rules out are sent unchanged. */
static void take_others(struct import_op *op, const struct members *members)
{
    op->is_open = !members->is_closed;
    if (op->is_open)
        import_set(op->im, &op->body, "others", json_bool(true));
}

/* Adds the whole body as one input. */
static struct import_input *add_whole(struct import_op *op, const struct json *request_body,
                                      const struct json *media)
{
    if (!json_get_bool(request_body, SLICE("required"), false))
        import_weaken(op, "the body may not be omitted, although it is optional");
    struct import_input *input =
        import_input_add(op, "request", SLICE("body"), JSON_GET(media, "schema"),
                         json_get_str(request_body, SLICE("description")), true);
    if (input)
        input->example = JSON_GET(media, "example");
    return input;
}

/* Makes each member an input; returns the index of the first. */
static size_t add_flat(struct import_op *op, const struct json *request_body,
                       const struct json *media, const struct members *members)
{
    size_t first = op->input_count;
    const struct json *example = JSON_GET(media, "example"), *list = JSON_GET(media, "examples");
    bool has_required = false;
    if (!example && json_is(list, JSON_OBJECT) && list->count > 0)
        example = JSON_GET(import_resolve(op->im, &list->as.members[0].value), "value");
    for (size_t i = 0; i < members->count; i++) {
        const struct member *member = &members->items[i];
        struct import_input *input = import_input_add(op, "body", member->name, member->schema,
                                                      SLICE_NONE, member->is_required);
        if (!input)
            break;
        input->example = json_get(example, member->name);
        input->is_nullable = import_schema_is_nullable(op->im, member->schema);
        has_required = has_required || member->is_required;
    }
    if (has_required && !json_get_bool(request_body, SLICE("required"), false))
        import_weaken(
            op, "the body may not be omitted, although it is optional: it has required members");
    return first;
}

static void put_json(struct import_op *op, const struct json *request_body,
                     const struct json *media, const struct members *members)
{
    if (members->count > 0) {
        size_t first = add_flat(op, request_body, media, members);
        set_body(op, "json", make_json(op, first));
        take_others(op, members);
        if (import_schema_is_nullable(op->im, JSON_GET(media, "schema")))
            import_weaken(op, "the body may not be null");
        return;
    }
    struct import_input *input = add_whole(op, request_body, media);
    if (input)
        set_body(op, "json", import_input_template(op, input));
}

static bool is_file(struct import *im, const struct json *schema)
{
    const struct json *target = import_resolve(im, schema);
    const struct json *items = import_resolve(im, JSON_GET(target, "items"));
    slice format = json_get_str(items ? items : target, SLICE("format"));
    slice type = json_get_str(items ? items : target, SLICE("contentMediaType"));
    return slice_eq_cstr(format, "binary") || slice_eq_cstr(type, "application/octet-stream");
}

/* Members of a form are texts: objects and files are not supported, and arrays only where names
 * may repeat. An optional member that is not supported is dropped; a required one skips the
 * operation, since every call would fail. */
static bool drop_unfit(struct import_op *op, struct members *members, bool takes_arrays)
{
    size_t kept = 0;
    for (size_t i = 0; i < members->count; i++) {
        const struct member *member = &members->items[i];
        bool is_upload = is_file(op->im, member->schema);
        if (!is_upload && !import_schema_may_be(op->im, member->schema, "object") &&
            (takes_arrays || !import_schema_may_be(op->im, member->schema, "array"))) {
            members->items[kept++] = *member;
            continue;
        }
        const char *what = is_upload ? "a file" : "not a plain value";
        if (member->is_required) {
            import_skip(op, "the form's member \"%.*s\" is required and %s",
                        SLICE_ARG(member->name), what);
            return false;
        }
        import_weaken(op, "the form's member \"%.*s\" is omitted: it is %s",
                      SLICE_ARG(member->name), what);
    }
    members->count = kept;
    return true;
}

static void put_form(struct import_op *op, const struct json *request_body,
                     const struct json *media, struct members *members, bool is_multipart)
{
    if (members->count == 0) {
        import_skip(op, "its form has members that are not described plainly");
        return;
    }
    if (!drop_unfit(op, members, !is_multipart))
        return;
    size_t first = add_flat(op, request_body, media, members);
    if (!is_multipart) {
        set_body(op, "form", make_object(op, first));
        take_others(op, members);
        return;
    }
    struct json parts = json_array();
    for (size_t i = first; i < op->input_count; i++) {
        struct json part = json_object();
        import_set(op->im, &part, "name", json_string(op->inputs[i].wire));
        import_set(op->im, &part, "value", import_input_template(op, &op->inputs[i]));
        json_array_push(op->im->arena, &parts, part);
    }
    set_body(op, "multipart", parts);
    take_others(op, members);
}

/* Text is sent unchanged, bytes in base64. */
static void put_raw(struct import_op *op, const struct json *request_body, slice type,
                    bool is_bytes)
{
    struct arena *arena = op->im->arena;
    struct json *schema = ARENA_NEW(arena, struct json);
    slice about = json_get_str(request_body, SLICE("description"));
    if (!schema)
        return;
    *schema = json_object();
    json_object_set(arena, schema, SLICE("type"), json_string(SLICE("string")));
    if (is_bytes)
        json_object_set(arena, schema, SLICE("contentEncoding"), json_string(SLICE("base64")));
    slice description = about.len > 0 ? about
                        : is_bytes    ? SLICE("The content, in base64.")
                                      : arena_printf(arena, "The content, %.*s.", SLICE_ARG(type));
    if (!json_get_bool(request_body, SLICE("required"), false))
        import_weaken(op, "the body may not be omitted, although it is optional");
    struct import_input *input =
        import_input_add(op, "request", SLICE("body"), schema, description, true);
    if (!input)
        return;
    set_body(op, "raw", import_input_template(op, input));
    json_object_set(arena, &op->body, SLICE("content_type"), json_string(type));
    if (is_bytes)
        json_object_set(arena, &op->body, SLICE("encoding"), json_string(SLICE("base64")));
}

/* ---- choosing ---- */

static enum media media_of(slice type)
{
    slice rest = type;
    slice name = slice_trim(slice_split(&rest, ';'));
    /* RFC 6839 section 3.1 defines "+json". The wildcard type gives no information; JSON is the
     * best guess. */
    if (slice_eq_nocase(name, SLICE("application/json")) || slice_ends_with(name, SLICE("+json")) ||
        slice_eq_cstr(name, "*/*"))
        return MEDIA_JSON;
    if (slice_eq_nocase(name, SLICE("application/x-www-form-urlencoded")))
        return MEDIA_FORM;
    if (slice_eq_nocase(name, SLICE("multipart/form-data")))
        return MEDIA_MULTIPART;
    if (slice_starts_with(name, SLICE("text/")) && slice_find_char(name, '*') < 0)
        return MEDIA_TEXT;
    return slice_eq_nocase(name, SLICE("application/octet-stream")) ? MEDIA_BYTES : MEDIA_NONE;
}

/* Returns the content type that an action can express best; among several JSON types, plain
 * application/json. */
static const struct json_member *choose_media(const struct json *content, enum media *kind)
{
    const struct json_member *best = NULL;
    *kind = MEDIA_NONE;
    for (uint32_t i = 0; json_is(content, JSON_OBJECT) && i < content->count; i++) {
        const struct json_member *member = &content->as.members[i];
        enum media found = media_of(json_str(&member->key));
        bool is_plain = slice_eq_cstr(json_str(&member->key), "application/json");
        if (found > *kind || (is_plain && found == *kind)) {
            *kind = found;
            best = member;
        }
    }
    return best;
}

static void put_media(struct import_op *op, const struct json *request_body, slice type,
                      const struct json *media, enum media kind)
{
    struct members *members = ARENA_NEW(op->im->arena, struct members);
    if (!members)
        return;
    members->im = op->im;
    if (!collect(members, JSON_GET(media, "schema"), FLATTEN_DEPTH_MAX))
        /* The body is not flat: no members means one input for the whole. */
        members->count = 0;
    mark_required(members, JSON_GET(media, "schema"), FLATTEN_DEPTH_MAX);
    if (kind == MEDIA_JSON) {
        put_json(op, request_body, media, members);
        slice rest = type;
        if (op->body.type == JSON_OBJECT &&
            slice_ends_with(slice_trim(slice_split(&rest, ';')), SLICE("+json")))
            import_set(op->im, &op->body, "content_type", json_string(type));
    } else if (kind == MEDIA_FORM || kind == MEDIA_MULTIPART) {
        put_form(op, request_body, media, members, kind == MEDIA_MULTIPART);
    } else {
        put_raw(op, request_body, type, kind == MEDIA_BYTES);
    }
}

void import_body(struct import_op *op)
{
    const struct json *described = JSON_GET(op->node, "requestBody");
    const struct json *request_body = import_resolve(op->im, described);
    bool is_required = json_get_bool(request_body, SLICE("required"), false);
    enum media kind;
    if (!described)
        return;
    if (!request_body) {
        import_skip(
            op,
            "the reference to its body does not lead to anything in this document and its folder");
        return;
    }
    const struct json_member *chosen = choose_media(JSON_GET(request_body, "content"), &kind);
    /* The linter refuses a GET with a body (lint.c). */
    bool is_get = slice_eq_cstr(op->method, "GET");
    if (is_get || !chosen) {
        const char *why = is_get ? "a GET has no body" : "none of its content types is known";
        if (is_required)
            import_skip(op, "a body is required, but %s", why);
        else
            import_weaken(op, "its body is omitted: %s", why);
        return;
    }
    put_media(op, request_body, json_str(&chosen->key), &chosen->value, kind);
}
