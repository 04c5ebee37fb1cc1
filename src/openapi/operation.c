/*
 * Converts one operation to an action, or to a line of the report. An operation is skipped if an
 * action could not make its call, or could make a wrong call; it is weakened if it works but does
 * less than described. Each limit below keeps one operation from filling a manifest.
 */
#include "openapi/internal.h"

enum {
    INPUT_NODES_MAX = 5000,
    OUTPUT_NODES_MAX = 200,
    OUTPUT_BYTES_MAX = 4096,
    INPUT_BYTES_MAX = 256 * 1024,
    SCRATCH_BYTES_MAX = 64 * 1024 * 1024,
    TITLE_BYTES_MAX = 120,
    DESCRIPTION_BYTES_MAX = 1000,
    TAGS_MAX = 10,
    TAG_BYTES_MAX = 60,
};

static const struct {
    const char *method, *level;
} levels[] = {
    {"GET", "read"}, {"POST", "write"}, {"PUT", "write"}, {"PATCH", "write"}, {"DELETE", "delete"}};

/* ---- the override ---- */

static const struct json *find_override(struct import_op *op)
{
    struct import *im = op->im;
    slice request_line =
        arena_printf(im->arena, "%.*s %.*s", SLICE_ARG(op->method), SLICE_ARG(op->path));
    /* operationId is optional, and "METHOD /path" always exists. */
    slice keys[] = {op->operation_id, request_line};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct json *found = keys[i].len > 0 ? json_get(im->operations, keys[i]) : NULL;
        if (!found)
            continue;
        if (map_put(&im->overridden, keys[i], im, NULL) != OK)
            import_starve(im);
        return found;
    }
    return NULL;
}

/* Copies members of the overrides into the action unchanged. */
static void put_overrides(struct import_op *op, struct json *action)
{
    static const char *const names[] = {"requires_confirmation", "idempotent", "idempotency_header",
                                        "idempotency_member", "response"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct json *value = json_get(op->override, slice_cstr(names[i]));
        if (value)
            import_set(op->im, action, names[i], *value);
    }
}

/* ---- words ---- */

static slice make_title(struct import_op *op)
{
    slice title = json_get_str(op->override, SLICE("title"));
    if (title.len == 0)
        title = json_get_str(op->node, SLICE("summary"));
    if (slice_trim(title).len == 0)
        title = op->operation_id;
    title = import_clip(op->im, title, TITLE_BYTES_MAX);
    if (title.len == 0)
        title = arena_printf(op->im->arena, "%.*s %.*s", SLICE_ARG(op->method),
                             SLICE_ARG(slice_first_utf8(op->path, TITLE_BYTES_MAX)));
    return title;
}

static slice make_description(struct import_op *op, slice title)
{
    slice text = json_get_str(op->override, SLICE("description"));
    if (text.len == 0)
        text = json_get_str(op->node, SLICE("description"));
    text = import_clip(op->im, text, DESCRIPTION_BYTES_MAX);
    return text.len > 0 ? text : title;
}

static struct json make_tags(struct import_op *op)
{
    const struct json *given = JSON_GET(op->override, "tags");
    const struct json *list = given ? given : JSON_GET(op->node, "tags");
    struct json tags = json_array();
    for (uint32_t i = 0; json_is(list, JSON_ARRAY) && i < list->count && i < TAGS_MAX; i++) {
        slice tag = import_clip(op->im, json_str(&list->as.items[i]), TAG_BYTES_MAX);
        if (tag.len > 0)
            json_array_push(op->im->arena, &tags, json_string(tag));
    }
    return tags;
}

static struct json make_display(struct import_op *op, slice title)
{
    const struct json *given = JSON_GET(op->override, "display");
    struct json display = json_object();
    if (given)
        return *given;
    import_set(op->im, &display, "title", json_string(import_literal(op->im, title)));
    import_set(op->im, &display, "summary",
               json_string(arena_printf(op->im->arena, "%.*s: answered with ${status}",
                                        SLICE_ARG(import_literal(op->im, title)))));
    return display;
}

/* ---- schemas ---- */

static struct json make_input_schema(struct import_op *op)
{
    struct json schema = json_object();
    import_set(op->im, &schema, "type", json_string(SLICE("object")));
    if (op->required.count > 0)
        import_set(op->im, &schema, "required", op->required);
    import_set(op->im, &schema, "properties", op->properties);
    /* Further properties are refused, so that a misspelt input is an error, unless the document
     * allows further members in the body. */
    import_set(op->im, &schema, "additionalProperties", json_bool(op->is_open));
    import_schema_finish(op->schemas, &schema);
    if (op->schemas->is_over)
        import_skip(op, "its input has more than %d schemas", INPUT_NODES_MAX);
    return schema;
}

/* Returns the schema of the first 2xx reply with JSON; null if it is long or does not compile. It
 * is only informative, so its loss does not weaken the operation. */
static struct json make_output_schema(struct import_op *op, struct arena *scratch)
{
    const struct json *responses = JSON_GET(op->node, "responses"), *schema = NULL;
    struct import_schema schemas;
    for (uint32_t i = 0; json_is(responses, JSON_OBJECT) && !schema && i < responses->count; i++) {
        const struct json_member *member = &responses->as.members[i];
        slice status = json_str(&member->key);
        if (status.len == 3 && slice_starts_with(status, SLICE("2")))
            schema = JSON_GET(JSON_GET(JSON_GET(import_resolve(op->im, &member->value), "content"),
                                       "application/json"),
                              "schema");
    }
    if (!json_is(schema, JSON_OBJECT))
        return json_null;
    import_schema_begin(&schemas, op->im, NULL, false, OUTPUT_NODES_MAX);
    struct json out = import_schema_convert(&schemas, schema);
    import_schema_finish(&schemas, &out);
    struct err err = {.code = OK};
    bool is_simple = !schemas.is_over && out.type == JSON_OBJECT && out.count > 0 &&
                     import_is_small(&out, OUTPUT_BYTES_MAX) &&
                     schema_compile(scratch, &out, false, &err);
    if (err.code == ERR_NOMEM)
        import_starve(op->im);
    return is_simple ? out : json_null;
}

/* ---- examples ---- */

/* Makes one example, if each required input has a value and all of them validate: the linter
 * refuses an example that does not. */
static void make_examples(struct import_op *op, const struct schema *schema, slice title,
                          struct json *examples)
{
    struct json input = json_object(), item = json_object();
    *examples = json_array();
    for (size_t i = 0; i < op->input_count; i++) {
        const struct import_input *one = &op->inputs[i];
        const struct json *value = one->example;
        if (!one->is_required)
            continue;
        if (!value)
            value = import_schema_sample(op->im, one->schema);
        if (!value || !import_is_shallow(value, 8))
            return;
        json_object_set(op->im->arena, &input, one->name, *value);
    }
    if (!schema_validate(schema, &input, NULL) || !import_is_small(&input, OUTPUT_BYTES_MAX))
        return;
    import_set(op->im, &item, "title", json_string(title));
    import_set(op->im, &item, "input", input);
    json_array_push(op->im->arena, examples, item);
}

/* ---- the action ---- */

static struct json make_request(struct import_op *op)
{
    struct json request = json_object();
    import_set(op->im, &request, "method", json_string(op->method));
    import_set(op->im, &request, "path", json_string(op->path_template));
    if (op->query.count > 0)
        import_set(op->im, &request, "query", op->query);
    if (op->is_deep)
        import_set(op->im, &request, "nesting", json_string(SLICE("deep")));
    if (op->accept.len > 0)
        json_object_set(op->im->arena, &op->headers, SLICE("Accept"), json_string(op->accept));
    if (op->headers.count > 0)
        import_set(op->im, &request, "headers", op->headers);
    if (op->body.type == JSON_OBJECT)
        import_set(op->im, &request, "body", op->body);
    return request;
}

static struct json make_level(struct import_op *op)
{
    const struct json *given = JSON_GET(op->override, "side_effect_level");
    for (size_t i = 0; !given && i < ARRAY_LEN(levels); i++)
        if (slice_eq_cstr(op->method, levels[i].method))
            return json_string(slice_cstr(levels[i].level));
    /* Unreachable for methods that check_wanted accepts; the strictest level, to be safe. */
    return given ? *given : json_string(SLICE("admin"));
}

static void make_action(struct import_op *op, struct json *action, struct arena *scratch)
{
    struct err err;
    struct json *input = ARENA_NEW(op->im->arena, struct json), examples;
    /* Compiled as reader_schema does it, so that a schema that passes here also passes when it
     * is loaded. */
    if (!input)
        return;
    *input = make_input_schema(op);
    if (op->is_skipped)
        return;
    if (!import_is_small(input, INPUT_BYTES_MAX)) {
        import_skip(op, "its input schema is over %d bytes", INPUT_BYTES_MAX);
        return;
    }
    const struct schema *schema = schema_compile(scratch, input, true, &err);
    if (!schema) {
        if (err.code == ERR_NOMEM)
            import_starve(op->im);
        import_skip(op, "its input cannot be checked: %s", err.text);
        return;
    }
    /* The id is taken last: a skipped operation must not take another's id. */
    slice title = make_title(op), id = import_action_id(op);
    slice docs = json_get_str(JSON_GET(op->node, "externalDocs"), SLICE("url"));
    struct json scopes = import_scopes(op), tags = make_tags(op), level = make_level(op);
    import_set(op->im, action, "action_id", json_string(id));
    import_set(op->im, action, "title", json_string(title));
    import_set(op->im, action, "description", json_string(make_description(op, title)));
    if (docs.len > 0)
        import_set(op->im, action, "docs_url", json_string(docs));
    if (tags.count > 0)
        import_set(op->im, action, "tags", tags);
    import_set(op->im, action, "side_effect_level", level);
    put_overrides(op, action);
    if (op->idempotency_header.len > 0 && !JSON_GET(op->override, "idempotency_header"))
        import_set(op->im, action, "idempotency_header", json_string(op->idempotency_header));
    if (scopes.count > 0)
        import_set(op->im, action, "scopes", scopes);
    import_set(op->im, action, "input_schema", *input);
    import_set(op->im, action, "output_schema", make_output_schema(op, scratch));
    struct json response = import_response(op, !slice_eq_cstr(json_str(&level), "read"));
    import_set(op->im, action, "request", make_request(op));
    if (!JSON_GET(op->override, "response"))
        import_set(op->im, action, "response", response);
    import_set(op->im, action, "display", make_display(op, title));
    make_examples(op, schema, title, &examples);
    if (examples.count > 0)
        import_set(op->im, action, "examples", examples);
}

/* Skips the operation if its override, its method or its node rules it out. */
static void check_wanted(struct import_op *op)
{
    bool is_known = false;
    for (size_t i = 0; i < ARRAY_LEN(levels); i++)
        is_known = is_known || slice_eq_cstr(op->method, levels[i].method);
    if (json_get_bool(op->override, SLICE("skip"), false))
        import_skip(op, "the overrides say so");
    else if (!is_known)
        import_skip(op, "an action cannot use the method %.*s", SLICE_ARG(op->method));
    else if (!json_is(op->node, JSON_OBJECT))
        import_skip(op, "it is not an object");
    else if (json_get_bool(op->node, SLICE("deprecated"), false))
        /* Overrides cannot import a deprecated operation: the provider may remove it at any
         * time. */
        import_skip(op, "it is deprecated");
    else if (JSON_GET(op->node, "callbacks"))
        import_weaken(op, "its callbacks are omitted");
}

static void make_label(struct import_op *op)
{
    slice id = slice_first_utf8(op->operation_id, 200), path = slice_first_utf8(op->path, 500);
    op->label = id.len > 0 ? arena_printf(op->im->arena, "%.*s %.*s (%.*s)", SLICE_ARG(op->method),
                                          SLICE_ARG(path), SLICE_ARG(id))
                           : arena_printf(op->im->arena, "%.*s %.*s", SLICE_ARG(op->method),
                                          SLICE_ARG(path));
}

static void import_one(struct import_op *op, struct json *actions)
{
    struct arena scratch;
    struct json action = json_object();
    struct import_schema schemas;
    op->override = find_override(op);
    import_schema_begin(&schemas, op->im, op, true, INPUT_NODES_MAX);
    op->schemas = &schemas;
    check_wanted(op);
    if (!op->is_skipped)
        import_parameters(op);
    if (!op->is_skipped)
        import_body(op);
    /* Compiled schemas are only for checking, so they are freed with each operation. */
    arena_init(&scratch, SCRATCH_BYTES_MAX);
    if (!op->is_skipped)
        make_action(op, &action, &scratch);
    arena_deinit(&scratch);
    op->schemas = NULL;
    /* Checked last: only operations that would be imported count. */
    if (!op->is_skipped && actions->count == CATALOG_ACTIONS_MAX)
        import_skip(op, "a manifest has at most %d actions", CATALOG_ACTIONS_MAX);
    if (!op->is_skipped)
        json_array_push(op->im->arena, actions, action);
}

void import_operation(struct import *im, const struct json *path_item, slice path, slice method,
                      const struct json *node, struct json *actions)
{
    struct import_result *result = im->result;
    struct import_op *op = ARENA_NEW(im->arena, struct import_op);
    if (!op)
        return;
    *op = (struct import_op){.im = im,
                             .node = node,
                             .path_item = path_item,
                             .method = method,
                             .path = path,
                             .operation_id = json_get_str(node, SLICE("operationId")),
                             .properties = json_object(),
                             .required = json_array(),
                             .query = json_object(),
                             .headers = json_object()};
    make_label(op);
    import_one(op, actions);
    result->total++;
    if (op->is_skipped)
        result->skipped++;
    else
        result->imported++;
    if (!op->is_skipped && op->reasons.len > 0)
        result->weakened++;
    ASSERT(result->total == result->imported + result->skipped);
    if (op->reasons.len > 0)
        import_line_add(im, op->is_skipped ? IMPORT_SKIPPED : IMPORT_WEAKENED, op->label,
                        op->reasons);
}
