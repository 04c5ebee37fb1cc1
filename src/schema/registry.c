/*
 * schema_registry: resolves a URI to a subschema (JSON Schema Core 8.2, 9). A document is walked
 * once, only through keywords with subschemas (an $id in an enum or in an unknown keyword is not an
 * identifier), and its resources and anchors are registered. The only other documents are the
 * meta-schemas. Nothing is fetched from the network: otherwise a tenant's schema could make the
 * server send requests.
 */
#include "base/encode.h"
#include "schema/compile.h"
#include "schema/meta.h"
#include "schema/uri.h"

/* ---- entering ---- */

struct scan_position {
    struct compile_resource *resource;
    const struct json *source;
    size_t depth;
};

static int scan(struct schema_compiler *compiler, struct scan_position position);

/* An error while scanning is reported at the subschema's own location. */
static int fail_at(struct schema_compiler *compiler, const struct scan_position *position,
                   enum err_code code, enum keyword keyword, const char *message)
{
    struct schema_node node = {.source = position->source,
                               .resource = &position->resource->resource};
    const struct schema_node *before = compiler->node;
    compiler->node = &node;
    schema_fail(compiler, code, keyword, "%s", message);
    compiler->node = before;
    return code;
}

static struct compile_resource *resource_new(struct schema_compiler *compiler,
                                             const struct json *root, slice uri,
                                             const struct schema_document *document)
{
    struct compile_resource *entry = ARENA_NEW(compiler->arena, struct compile_resource);
    if (!entry)
        return NULL;
    entry->resource.uri = uri;
    entry->resource.root = root;
    entry->resource.document = document;
    /* The list is for walking all resources; the map finds one by its root. */
    entry->next = compiler->resources;
    compiler->resources = entry;
    if (map_put(&compiler->by_root, address_key(&entry->resource.root), entry, NULL) != OK)
        return NULL;
    return entry;
}

/* Of two resources with the same URI, the first wins. */
static int enter_uri(struct schema_compiler *compiler, struct compile_resource *entry, slice uri)
{
    if (map_get(&compiler->by_uri, uri))
        return OK;
    if (map_put(&compiler->by_uri, uri, entry, NULL) != OK)
        return schema_fail_memory(compiler);
    return OK;
}

static int enter_anchor(struct schema_compiler *compiler, const struct scan_position *position,
                        enum keyword keyword, const struct json *value)
{
    if (!json_is(value, JSON_STRING) || value->count == 0)
        return fail_at(compiler, position, ERR_INVALID, keyword, "must be a name");
    struct compile_anchor *anchor = ARENA_NEW(compiler->arena, struct compile_anchor);
    if (!anchor)
        return schema_fail_memory(compiler);
    *anchor = (struct compile_anchor){json_str(value), position->source,
                                      position->resource->anchors, keyword == KW_DYNAMIC_ANCHOR};
    position->resource->anchors = anchor;
    position->resource->dynamic_count += anchor->is_dynamic;
    return OK;
}

/* A subschema with an $id is a resource of its own; the root of a document already is a resource.
 */
static int enter_id(struct schema_compiler *compiler, struct scan_position *position,
                    const struct json *id)
{
    slice fragment = SLICE_NONE;
    if (!json_is(id, JSON_STRING))
        return fail_at(compiler, position, ERR_INVALID, KW_ID, "must be a URI reference");
    slice reference = schema_uri_split(json_str(id), &fragment);
    /* Core 8.2.1: an empty fragment is allowed and means nothing. */
    if (fragment.len > 0)
        return fail_at(compiler, position, ERR_INVALID, KW_ID,
                       "must not have a fragment; use $anchor for that");
    const struct schema_resource *outer = &position->resource->resource;
    slice uri = schema_uri_resolve(compiler->arena, outer->uri, reference);
    if (!uri.ptr)
        return fail_at(compiler, position, ERR_LIMIT, KW_ID, "is too long");
    /* The root is registered under the URI that it was found under; its $id adds another entry. */
    if (position->source == outer->root) {
        position->resource->resource.uri = uri;
        return enter_uri(compiler, position->resource, uri);
    }
    struct compile_resource *entry = resource_new(compiler, position->source, uri, outer->document);
    if (!entry)
        return schema_fail_memory(compiler);
    position->resource = entry;
    return enter_uri(compiler, entry, uri);
}

static int scan_children(struct schema_compiler *compiler, const struct scan_position *position,
                         enum keyword keyword, const struct json *value)
{
    struct scan_position child = {position->resource, value, position->depth + 1};
    enum keyword_holds holds = keyword_holds(keyword);
    if (holds == HOLDS_SCHEMA)
        return scan(compiler, child);
    int code = OK;
    bool is_list = holds == HOLDS_LIST && value->type == JSON_ARRAY;
    bool is_map = holds == HOLDS_MAP && value->type == JSON_OBJECT;
    for (uint32_t i = 0; (is_list || is_map) && i < value->count && code == OK; i++) {
        child.source = is_list ? &value->as.items[i] : &value->as.members[i].value;
        code = scan(compiler, child);
    }
    return code;
}

static int scan(struct schema_compiler *compiler, struct scan_position position)
{
    if (position.source->type != JSON_OBJECT)
        return OK;
    /* The depth of the recursion is that of the document's subschemas, so it has its own limit. */
    if (position.depth > SCHEMA_SCAN_DEPTH_MAX)
        return fail_at(compiler, &position, ERR_LIMIT, KW_COUNT, "nested too deeply");
    /* The $id is handled first, since the anchors and children below belong to its resource. */
    const struct json *id = JSON_GET(position.source, "$id");
    int code = id ? enter_id(compiler, &position, id) : OK;
    for (uint32_t i = 0; i < position.source->count && code == OK; i++) {
        const struct json_member *member = &position.source->as.members[i];
        enum keyword keyword = keyword_find(json_str(&member->key));
        if (keyword == KW_ANCHOR || keyword == KW_DYNAMIC_ANCHOR)
            code = enter_anchor(compiler, &position, keyword, &member->value);
        else if (keyword == KW_SCHEMA && member->value.type != JSON_STRING)
            code = fail_at(compiler, &position, ERR_INVALID, KW_SCHEMA, "must be a URI");
        else
            code = scan_children(compiler, &position, keyword, &member->value);
    }
    return code;
}

struct compile_resource *schema_document_add(struct schema_compiler *compiler,
                                             const struct json *root, slice uri)
{
    struct schema_document *document = ARENA_NEW(compiler->arena, struct schema_document);
    struct compile_resource *entry = document ? resource_new(compiler, root, uri, document) : NULL;
    if (!entry) {
        schema_fail_memory(compiler);
        return NULL;
    }
    *document = (struct schema_document){uri, root};
    struct scan_position position = {entry, root, 0};
    bool is_entered = enter_uri(compiler, entry, uri) == OK && scan(compiler, position) == OK;
    return is_entered ? entry : NULL;
}

/* ---- references ---- */

/* Returns NULL with the compiler's err set if there is no such resource. */
static struct compile_resource *find_resource(struct schema_compiler *compiler,
                                              enum keyword keyword, slice uri)
{
    struct compile_resource *found = map_get(&compiler->by_uri, uri);
    if (found)
        return found;
    slice meta = schema_meta_find(uri);
    if (!meta.ptr) {
        schema_fail(compiler, ERR_NOTFOUND, keyword,
                    "there is no schema \"%.*s\" (nothing is fetched from the network)",
                    SLICE_ARG(slice_first(uri, 200)));
        return NULL;
    }
    const struct json *document =
        json_parse(compiler->arena, meta, &json_limits_provider, compiler->err);
    return document ? schema_document_add(compiler, document, uri) : NULL;
}

/* Smaller objects are searched directly: entering each of their members would cost more. */
enum { WIDE_MEMBERS_MIN = 64 };

static slice member_key(struct arena *arena, const struct json *const *object, slice name)
{
    /* The address distinguishes objects that have members of the same name. */
    char *key = arena_alloc_text(arena, sizeof(*object) + name.len);
    if (!key)
        return SLICE_NONE;
    memcpy(key, object, sizeof(*object));
    if (name.len > 0)
        memcpy(key + sizeof(*object), name.ptr, name.len);
    return slice_of(key, sizeof(*object) + name.len);
}

/* Indexes the members, so that many references into many definitions do not search them one by
 * one. */
static bool enter_members(struct schema_compiler *compiler, const struct json *object)
{
    for (uint32_t i = 0; i < object->count; i++) {
        struct json_member *member = &object->as.members[i];
        slice key = member_key(compiler->arena, &object, json_str(&member->key));
        if (!key.ptr || map_put(&compiler->by_member, key, &member->value, NULL) != OK)
            return false;
    }
    /* An entry for the address alone marks the object as indexed. */
    slice all = member_key(compiler->arena, &object, SLICE_NONE);
    return all.ptr && map_put(&compiler->by_member, all, compiler, NULL) == OK;
}

/* Follows one token of a pointer; token begins with its slash. */
static const struct json *follow_token(struct schema_compiler *compiler, const struct json *value,
                                       slice token)
{
    bool is_wide = value->type == JSON_OBJECT && value->count >= WIDE_MEMBERS_MIN;
    /* A token with an escape, or an empty name, is handled by json_pointer. */
    if (!is_wide || token.len < 2 || slice_find_char(token, '~') >= 0)
        return json_pointer(value, token);
    if (!map_get(&compiler->by_member, address_key(&value)) && !enter_members(compiler, value))
        return json_pointer(value, token);
    slice key = member_key(compiler->arena, &value, slice_from(token, 1));
    return key.ptr ? map_get(&compiler->by_member, key) : NULL;
}

/* The innermost resource whose root is on the path of the pointer. */
static int follow_pointer(struct schema_compiler *compiler, enum keyword keyword, slice pointer,
                          struct compile_resource *from, const struct json **source,
                          const struct schema_resource **resource)
{
    const struct json *value = from->resource.root;
    *resource = &from->resource;
    while (value && pointer.len > 0) {
        ptrdiff_t slash = slice_find_char(slice_from(pointer, 1), '/');
        slice token = slash < 0 ? pointer : slice_first(pointer, (size_t)slash + 1);
        pointer = slice_from(pointer, token.len);
        value = follow_token(compiler, value, token);
        /* A pointer may cross the root of another resource, which the rest of the path belongs
         * to. */
        const struct compile_resource *crossed =
            value ? map_get(&compiler->by_root, address_key(&value)) : NULL;
        if (crossed)
            *resource = &crossed->resource;
    }
    if (!value)
        return schema_fail(compiler, ERR_NOTFOUND, keyword, "does not lead to anything in \"%.*s\"",
                           SLICE_ARG(slice_first(from->resource.uri, 200)));
    *source = value;
    return OK;
}

static int follow_anchor(struct schema_compiler *compiler, enum keyword keyword, slice name,
                         const struct compile_resource *from, const struct json **source,
                         slice *dynamic)
{
    for (const struct compile_anchor *anchor = from->anchors; anchor; anchor = anchor->next) {
        if (!slice_eq(anchor->name, name))
            continue;
        *source = anchor->source;
        *dynamic = anchor->is_dynamic ? anchor->name : SLICE_NONE;
        return OK;
    }
    return schema_fail(compiler, ERR_NOTFOUND, keyword, "there is no anchor \"%.*s\"",
                       SLICE_ARG(slice_first(name, 200)));
}

int schema_ref_resolve(struct schema_compiler *compiler, enum keyword keyword, slice reference,
                       const struct json **source, const struct schema_resource **resource,
                       slice *anchor)
{
    slice fragment = SLICE_NONE;
    *anchor = SLICE_NONE;
    (void)schema_uri_split(reference, &fragment);
    slice uri = schema_uri_resolve(compiler->arena, compiler->node->resource->uri, reference);
    /* The fragment is decoded before it is read as a pointer: "%25" in a fragment is "%" (RFC
     * 6901 6). */
    slice decoded = decode_percent_in(compiler->arena, fragment, false);
    if (!uri.ptr)
        return schema_fail(compiler, ERR_LIMIT, keyword, "is too long");
    if (fragment.len > 0 && !decoded.ptr)
        return schema_fail(compiler, ERR_INVALID, keyword, "has an invalid percent-encoding");
    fragment = decoded;
    struct compile_resource *found = find_resource(compiler, keyword, uri);
    if (!found)
        return (int)compiler->err->code;
    if (fragment.len == 0 || fragment.ptr[0] == '/')
        return follow_pointer(compiler, keyword, fragment, found, source, resource);
    *resource = &found->resource;
    return follow_anchor(compiler, keyword, fragment, found, source, anchor);
}
