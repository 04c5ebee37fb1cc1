/*
 * schema_compile: compiles a document to a program. Nodes are compiled from a queue, so that no
 * chain of references deepens the stack. Each subschema becomes one node, however many references
 * it has, so a schema that refers to itself compiles, too.
 *
 * The maps are only for compiling and are freed with it; nodes point to one another.
 */
#include "schema/compile.h"

#include <stdio.h>

#include "schema/meta.h"

enum {
    LOCATION_BYTES_MAX = 300,
    /* The search is only for a message; in a very large document the location stays "#". */
    LOCATION_VISITS_MAX = 200 * 1000,
};

/* ---- errors ---- */

/* Depth-first search for the value whose address is target; on return the path is written front to
 * back. */
static bool find_location(struct buf *out, const struct json *at, const struct json *target,
                          size_t *visits)
{
    if (at == target)
        return true;
    if (at->type < JSON_ARRAY || at->type > JSON_OBJECT || *visits == 0)
        return false;
    size_t start = out->len;
    for (uint32_t i = 0; *visits > 0 && i < at->count; i++) {
        bool is_object = at->type == JSON_OBJECT;
        const struct json *child = is_object ? &at->as.members[i].value : &at->as.items[i];
        /* Scalars are not subschemas, except that the target itself may be one (true, false). */
        if (child != target && child->type < JSON_ARRAY)
            continue;
        --*visits;
        if (is_object)
            json_pointer_append_key(out, json_str(&at->as.members[i].key));
        else
            json_pointer_append_index(out, i);
        if (find_location(out, child, target, visits))
            return true;
        out->len = start;
    }
    return false;
}

void schema_location_write(struct buf *out, const struct json *root, const struct json *target,
                           slice keyword)
{
    size_t visits = LOCATION_VISITS_MAX;
    buf_append_char(out, '#');
    if (find_location(out, root, target, &visits) && keyword.len > 0)
        json_pointer_append_key(out, keyword);
}

int schema_fail(struct schema_compiler *compiler, enum err_code code, enum keyword keyword,
                const char *fmt, ...)
{
    struct buf position;
    buf_init(&position, (size_t)64 * 1024);
    const struct schema_node *node = compiler->node;
    if (node) {
        buf_append(&position, node->resource->document->uri);
        schema_location_write(&position, node->resource->document->root, node->source,
                              keyword_name(keyword));
    }
    /* Truncated to the size of an error. The start is kept: the root is the most useful part. */
    slice printed = slice_first(buf_slice(&position), LOCATION_BYTES_MAX);
    char text[ERR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    err_set(compiler->err, code, "schema %.*s: %s", SLICE_ARG(printed), text);
    buf_deinit(&position);
    return code;
}

int schema_fail_memory(struct schema_compiler *compiler)
{
    return err_set(compiler->err, ERR_NOMEM, "schema: needs more memory than allowed");
}

const struct schema_pattern *schema_pattern_of(struct schema_compiler *compiler,
                                               enum keyword keyword, slice source)
{
    /* The pattern's own message goes into an error that names the keyword and its location. */
    struct err fault = {0};
    const struct schema_pattern *pattern = schema_pattern_compile(compiler->arena, source, &fault);
    if (!pattern)
        schema_fail(compiler, fault.code, keyword, "%s", fault.text);
    return pattern;
}

/* ---- nodes ---- */

struct schema_node *schema_node_for(struct schema_compiler *compiler, const struct json *source,
                                    const struct schema_resource *resource)
{
    struct compile_node *known = map_get(&compiler->by_json, address_key(&source));
    if (known)
        return &known->node;
    if (compiler->node_count == SCHEMA_NODES_MAX) {
        schema_fail(compiler, ERR_LIMIT, KW_COUNT, "more than %d subschemas", SCHEMA_NODES_MAX);
        return NULL;
    }
    struct compile_node *made = ARENA_NEW(compiler->arena, struct compile_node);
    if (!made) {
        schema_fail_memory(compiler);
        return NULL;
    }
    /* The root of a document and each $id begin a resource, whatever refers to them. */
    const struct compile_resource *own = map_get(&compiler->by_root, address_key(&source));
    made->node.source = source;
    made->node.resource = own ? &own->resource : resource;
    /* The key points into the node: maps do not copy keys, and the node lives as long as the
     * map. */
    if (map_put(&compiler->by_json, address_key(&made->node.source), made, NULL) != OK) {
        schema_fail_memory(compiler);
        return NULL;
    }
    compiler->node_count++;
    *compiler->queue_end = made;
    compiler->queue_end = &made->next;
    return &made->node;
}

uint32_t schema_weight(const struct json *value)
{
    /* The sum has 64 bits: a container's weight may exceed 32 bits and is clamped at the end. */
    uint64_t weight = 1;
    if (value->type == JSON_ARRAY) {
        for (uint32_t i = 0; i < value->count; i++)
            weight += schema_weight(&value->as.items[i]);
    } else if (value->type == JSON_OBJECT) {
        for (uint32_t i = 0; i < value->count; i++)
            weight += 1 + value->as.members[i].key.count / 16 +
                      schema_weight(&value->as.members[i].value);
    } else if (value->type == JSON_BIGNUM) {
        weight += value->count;
    } else if (value->type == JSON_STRING) {
        weight += value->count / 16;
    }
    return weight > UINT32_MAX ? UINT32_MAX : (uint32_t)weight;
}

/* Assertions run before applicators, cheap ones before expensive ones, unevaluated* last: ops
 * run in the order of the calls here, whatever the order of the members. */
static int compile_keywords(struct schema_compiler *compiler, struct schema_node *node)
{
    compiler->op_count = 0;
    memset(compiler->keywords, 0, sizeof(compiler->keywords));
    /* Unknown keywords are ignored (Core 6.5): they may be annotations of another vocabulary. */
    for (uint32_t i = 0; i < node->source->count; i++) {
        const struct json_member *member = &node->source->as.members[i];
        enum keyword keyword = keyword_find(json_str(&member->key));
        if (keyword < KW_COUNT)
            compiler->keywords[keyword] = &member->value;
    }
    node->types = TYPE_ANY;
    int code = schema_rules_compile(compiler, node);
    if (code != OK || compiler->op_count == 0)
        return code;
    struct schema_op *ops = ARENA_ARRAY(compiler->arena, struct schema_op, compiler->op_count);
    if (!ops)
        return schema_fail_memory(compiler);
    memcpy(ops, compiler->ops, compiler->op_count * sizeof(*ops));
    node->ops = ops;
    node->op_count = (uint16_t)compiler->op_count;
    /* unevaluated* are compiled last, so the last op shows whether there is one. */
    uint8_t last = ops[compiler->op_count - 1].kind;
    node->has_unevaluated = last == KW_UNEVALUATED_ITEMS || last == KW_UNEVALUATED_PROPERTIES;
    return OK;
}

static int compile_node(struct schema_compiler *compiler, struct schema_node *node)
{
    compiler->node = node;
    if (node->source->type == JSON_BOOL) {
        node->verdict = node->source->as.boolean ? VERDICT_TRUE : VERDICT_FALSE;
        return OK;
    }
    if (node->source->type != JSON_OBJECT)
        return schema_fail(compiler, ERR_INVALID, KW_COUNT,
                           "a schema is an object or a boolean, not %s",
                           json_type_name(node->source));
    return compile_keywords(compiler, node);
}

static int compile_queue(struct schema_compiler *compiler)
{
    while (compiler->queue) {
        struct compile_node *next = compiler->queue;
        /* Removed from the queue before it is compiled: compiling appends to the queue. */
        compiler->queue = next->next;
        if (!compiler->queue)
            compiler->queue_end = &compiler->queue;
        int code = compile_node(compiler, &next->node);
        if (code != OK)
            return code;
    }
    return OK;
}

/* ---- dynamic anchors ---- */

static int collect_dynamic_anchors(struct schema_compiler *compiler, struct compile_resource *entry)
{
    if (entry->dynamic_count == 0 || entry->resource.dynamic_anchors)
        return OK;
    struct schema_dynamic_anchor *anchors =
        ARENA_ARRAY(compiler->arena, struct schema_dynamic_anchor, entry->dynamic_count);
    if (!anchors)
        return schema_fail_memory(compiler);
    uint32_t count = 0;
    for (const struct compile_anchor *anchor = entry->anchors; anchor; anchor = anchor->next) {
        if (!anchor->is_dynamic)
            continue;
        const struct schema_node *node =
            schema_node_for(compiler, anchor->source, &entry->resource);
        if (!node)
            return compiler->err->code;
        anchors[count++] = (struct schema_dynamic_anchor){anchor->name, node};
    }
    ASSERT(count == entry->dynamic_count);
    entry->resource.dynamic_anchors = anchors;
    entry->resource.dynamic_anchor_count = count;
    return OK;
}

/* A $dynamicRef may resolve to any anchor of its name, in any resource: all of them are
 * compiled. This may add resources, so it repeats until there are no new ones. */
static int compile_all(struct schema_compiler *compiler)
{
    int code = compile_queue(compiler);
    /* The loop ends because each further round has compiled at least one node, and the number of
     * nodes is limited. */
    for (bool is_settled = false; code == OK && compiler->has_dynamic_ref && !is_settled;) {
        for (struct compile_resource *entry = compiler->resources; entry && code == OK;
             entry = entry->next)
            code = collect_dynamic_anchors(compiler, entry);
        is_settled = compiler->queue == NULL;
        if (code == OK)
            code = compile_queue(compiler);
    }
    return code;
}

/* ---- the whole ---- */

static struct schema *compile_document(struct schema_compiler *compiler,
                                       const struct json *document)
{
    struct schema *schema = ARENA_NEW(compiler->arena, struct schema);
    if (!schema) {
        schema_fail_memory(compiler);
        return NULL;
    }
    const struct compile_resource *root = schema_document_add(compiler, document, SLICE_NONE);
    if (!root)
        return NULL;
    schema->document = root->resource.document;
    schema->root = schema_node_for(compiler, document, &root->resource);
    return schema->root && compile_all(compiler) == OK ? schema : NULL;
}

struct schema *schema_compile(struct arena *arena, const struct json *document, bool assert_formats,
                              struct err *err)
{
    ASSERT(arena && document);
    struct err scratch = {0};
    struct schema_compiler compiler = {
        .arena = arena,
        .err = err ? err : &scratch,
        .assert_formats = assert_formats,
    };
    compiler.queue_end = &compiler.queue;
    const size_t count_max = (size_t)SCHEMA_NODES_MAX * 2;
    map_init(&compiler.by_uri, count_max);
    map_init(&compiler.by_root, count_max);
    /* The map is not limited here: each wide object adds two kinds of keys, and the documents limit
     * their number. */
    map_init(&compiler.by_member, SIZE_MAX);
    map_init(&compiler.by_json, count_max);
    struct schema *schema = compile_document(&compiler, document);
    map_deinit(&compiler.by_uri);
    map_deinit(&compiler.by_root);
    map_deinit(&compiler.by_member);
    map_deinit(&compiler.by_json);
    return schema;
}
