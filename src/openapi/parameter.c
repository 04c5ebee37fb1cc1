/*
 * Parameters: each becomes an input and a position in the request. An expression of the request's
 * templates defines how arrays and objects are written (`style`, `explode`; OpenAPI "Parameter
 * Object").
 *
 * Order matters: parameters of the path come first, because the path's template needs their inputs
 * and they keep their plain names. An operation's own parameter replaces the path item's parameter
 * of the same name and place (OpenAPI "Path Item Object").
 */
#include <stdio.h>

#include "base/ascii.h"
#include "base/encode.h"
#include "catalog/manifest.h"
#include "openapi/internal.h"

enum { PARAMETERS_MAX = 150, WIRE_NAME_MAX = 128 };

/* One parameter and how it is written into the request. */
struct parameter {
    const struct json *node, *schema; /* schema may be NULL */
    slice name, location, style;
    bool is_required, is_exploded, is_json;
};

/* ---- inputs ---- */

/* Whether text needs no escaping in a template or a message: it has no placeholder and no control
 * characters. */
bool import_is_plain(slice text)
{
    if (text.len == 0 || text.len > WIRE_NAME_MAX || slice_find(text, SLICE("${")) >= 0)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < ' ')
            return false;
    return true;
}

static struct import_input *find_input(struct import_op *op, slice name)
{
    for (size_t i = 0; i < op->input_count; i++)
        if (slice_eq(op->inputs[i].name, name))
            return &op->inputs[i];
    return NULL;
}

/* Returns the wire name reduced to characters that model vendors accept in a property's name:
 * letters, digits, '_', '-', '.'. Runs of other characters become one '_'. */
static slice clean_name(struct import_op *op, slice wire)
{
    char *out = arena_alloc_text(op->im->arena, wire.len + 1);
    size_t len = 0;
    for (size_t i = 0; out && i < wire.len && len < IMPORT_NAME_MAX; i++) {
        char c = wire.ptr[i];
        bool is_fine = ascii_is_alnum(c) || c == '_' || c == '-' || c == '.';
        if (is_fine || (len > 0 && out[len - 1] != '_'))
            out[len++] = is_fine ? c : '_';
    }
    while (out && len > 1 && out[len - 1] == '_' && wire.ptr[wire.len - 1] != '_')
        len--;
    return len > 0 ? slice_of(out, len) : SLICE("value");
}

static slice free_name(struct import_op *op, const char *location, slice wire)
{
    slice name = clean_name(op, wire);
    if (!find_input(op, name))
        return name;
    /* Leaves space for the location before it and a number after it. */
    slice base = slice_first(name, IMPORT_NAME_MAX - 16), other = name;
    for (unsigned n = 1; find_input(op, other); n++)
        other = n == 1 ? arena_printf(op->im->arena, "%s_%.*s", location, SLICE_ARG(base))
                       : arena_printf(op->im->arena, "%s_%.*s_%u", location, SLICE_ARG(base), n);
    import_weaken(op, "the name \"%.*s\" occurs twice: the one in the %s is called \"%.*s\"",
                  SLICE_ARG(wire), location, SLICE_ARG(other));
    return other;
}

/* The linter requires a description of each input: the parameter's own, otherwise the schema's,
 * otherwise one made from its name. */
static void describe(struct import_op *op, struct json *property, slice description,
                     const char *location, slice wire)
{
    struct arena *arena = op->im->arena;
    if (property->type != JSON_OBJECT)
        *property = json_object();
    if (description.len > 0)
        description = import_clip(op->im, description, 1000);
    else if (JSON_GET(property, "description"))
        return;
    else
        description = arena_printf(arena, "%.*s, in the %s.", SLICE_ARG(wire), location);
    json_object_put(arena, property, SLICE("description"), json_string(description));
}

struct import_input *import_input_add(struct import_op *op, const char *location, slice wire,
                                      const struct json *schema, slice description,
                                      bool is_required)
{
    /* The empty schema, which allows every value. */
    static const struct json anything = {.type = JSON_OBJECT};
    ASSERT(op->schemas && op->input_count <= IMPORT_PROPERTIES_MAX);
    ASSERT(import_is_plain(wire)); /* used in templates unescaped */
    if (op->input_count == IMPORT_PROPERTIES_MAX) {
        import_skip(op, "it has more than %d inputs", IMPORT_PROPERTIES_MAX);
        return NULL;
    }
    slice name = free_name(op, location, wire);
    struct json property = import_schema_convert(op->schemas, schema ? schema : &anything);
    if (description.len == 0)
        description = json_get_str(import_resolve(op->im, schema), SLICE("description"));
    describe(op, &property, description, location, wire);
    json_object_set(op->im->arena, &op->properties, name, property);
    if (is_required)
        json_array_push(op->im->arena, &op->required, json_string(name));
    struct import_input *input = &op->inputs[op->input_count++];
    *input = (struct import_input){
        .name = name, .wire = wire, .is_required = is_required, .schema = schema};
    return input;
}

slice import_input_path(struct import_op *op, const struct import_input *input)
{
    slice name = input->name;
    /* JMESPath's unquoted identifiers have letters, digits and '_' and do not begin with a digit.
     * clean_name leaves nothing that needs escaping inside quotes. */
    bool is_bare = !ascii_is_digit(name.ptr[0]);
    for (size_t i = 0; i < name.len; i++)
        is_bare = is_bare && name.ptr[i] != '-' && name.ptr[i] != '.';
    return arena_printf(op->im->arena, is_bare ? "input.%.*s" : "input.\"%.*s\"", SLICE_ARG(name));
}

static struct json template_of(struct import_op *op, slice expression)
{
    return json_string(arena_printf(op->im->arena, "${%.*s}", SLICE_ARG(expression)));
}

struct json import_input_template(struct import_op *op, const struct import_input *input)
{
    return template_of(op, import_input_path(op, input));
}

/* ---- how a parameter is written ---- */

static struct import_input *add_parameter_input(struct import_op *op, const struct parameter *p)
{
    char location[16];
    struct import_input *input;
    slice description = json_get_str(p->node, SLICE("description"));
    (void)snprintf(location, sizeof(location), "%.*s", SLICE_ARG(p->location));
    input = import_input_add(op, location, p->name, p->schema, description, p->is_required);
    if (!input)
        return NULL;
    input->example = JSON_GET(p->node, "example");
    const struct json *examples = JSON_GET(p->node, "examples");
    if (!input->example && json_is(examples, JSON_OBJECT) && examples->count > 0)
        input->example = JSON_GET(import_resolve(op->im, &examples->as.members[0].value), "value");
    return input;
}

/* Dropping an optional parameter weakens the operation; without a required parameter no call can
 * succeed. */
static void drop_parameter(struct import_op *op, const struct parameter *p, const char *why)
{
    if (p->is_required)
        import_skip(op, "the %.*s parameter \"%.*s\" is required and %s", SLICE_ARG(p->location),
                    SLICE_ARG(p->name), why);
    else
        import_weaken(op, "the %.*s parameter \"%.*s\" is omitted: %s", SLICE_ARG(p->location),
                      SLICE_ARG(p->name), why);
}

/* Writes an array as one value, its items joined. is_always: the value is an array if present;
 * otherwise it may also be a scalar, which is sent unchanged. `null` omits the parameter. */
static struct json joined(struct import_op *op, slice path, const char *separator, bool is_always)
{
    struct arena *arena = op->im->arena;
    slice join =
        arena_printf(arena, "join('%s', %.*s[*].to_string(@))", separator, SLICE_ARG(path));
    if (is_always)
        return template_of(
            op, arena_printf(arena, "%.*s && %.*s || `null`", SLICE_ARG(path), SLICE_ARG(join)));
    return template_of(op, arena_printf(arena, "type(%.*s) == 'array' && %.*s || %.*s",
                                        SLICE_ARG(path), SLICE_ARG(join), SLICE_ARG(path)));
}

/* Writes the members of an object, each as a separate query parameter; any other value uses the
 * parameter's name. All members are sent, whether or not the document describes them. */
static void put_exploded(struct import_op *op, const struct parameter *p)
{
    if (JSON_GET(&op->query, "")) {
        drop_parameter(op, p, "is one object of several that are written as parameters");
        return;
    }
    struct import_input *input = add_parameter_input(op, p);
    slice path = input ? import_input_path(op, input) : SLICE_NONE;
    slice type = json_get_str(import_resolve(op->im, p->schema), SLICE("type"));
    op->is_deep = true;
    if (input && slice_eq_cstr(type, "object")) {
        json_object_put(op->im->arena, &op->query, SLICE(""), import_input_template(op, input));
    } else if (input) {
        static const char *const tests[] = {"==", "!="};
        const slice names[] = {SLICE(""), p->name};
        for (size_t i = 0; i < ARRAY_LEN(tests); i++)
            json_object_put(
                op->im->arena, &op->query, names[i],
                template_of(op,
                            arena_printf(op->im->arena, "type(%.*s) %s 'object' && %.*s || `null`",
                                         SLICE_ARG(path), tests[i], SLICE_ARG(path))));
    }
}

static void put_query(struct import_op *op, const struct parameter *p)
{
    bool is_object = import_schema_may_be(op->im, p->schema, "object");
    bool may_be_array = import_schema_may_be(op->im, p->schema, "array");
    bool is_deep = slice_eq_cstr(p->style, "deepObject");
    const char *separator = slice_eq_cstr(p->style, "spaceDelimited")  ? " "
                            : slice_eq_cstr(p->style, "pipeDelimited") ? "|"
                                                                       : ",";
    /* A parameter with `content` instead of `schema`: the value is a document, written as JSON
     * text. */
    if (p->is_json) {
        struct import_input *input = add_parameter_input(op, p);
        slice path = input ? import_input_path(op, input) : SLICE_NONE;
        if (input)
            json_object_put(
                op->im->arena, &op->query, p->name,
                template_of(op, arena_printf(op->im->arena, "%.*s && to_string(%.*s) || `null`",
                                             SLICE_ARG(path), SLICE_ARG(path))));
        return;
    }
    if (is_object && !is_deep) {
        if (p->is_exploded)
            put_exploded(op, p);
        else
            drop_parameter(op, p, "is an object in a form that cannot be written");
        return;
    }
    op->is_deep = op->is_deep || is_deep;
    struct import_input *input = add_parameter_input(op, p);
    if (!input)
        return;
    bool is_array =
        slice_eq_cstr(json_get_str(import_resolve(op->im, p->schema), SLICE("type")), "array");
    json_object_put(op->im->arena, &op->query, p->name,
                    may_be_array && !p->is_exploded
                        ? joined(op, import_input_path(op, input), separator, is_array)
                        : import_input_template(op, input));
    if (json_get_bool(p->node, SLICE("allowReserved"), false))
        import_weaken(op, "\"%.*s\" is percent-encoded (allowReserved is not kept)",
                      SLICE_ARG(p->name));
}

static bool is_ignored_header(slice name)
{
    /* OpenAPI ("Parameter Object") requires that definitions of the first three are ignored; the
     * HTTP client sets the others. */
    static const char *const names[] = {"Accept", "Content-Type", "Authorization", "User-Agent"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (slice_eq_nocase(name, slice_cstr(names[i])))
            return true;
    return manifest_is_own_header(name);
}

static void put_header(struct import_op *op, const struct parameter *p)
{
    if (is_ignored_header(p->name))
        return;
    if (!manifest_is_header_name(p->name) || p->name.len > WIRE_NAME_MAX) {
        drop_parameter(op, p, "is not a valid header name");
        return;
    }
    if (slice_eq_nocase(p->name, SLICE("Idempotency-Key")) && !slice_eq_cstr(op->method, "GET")) {
        /* sluice sends its own key in this header (exec/attempt.c), so it is not an input. */
        op->idempotency_header = p->name;
        return;
    }
    if (import_schema_may_be(op->im, p->schema, "object") || p->is_json) {
        drop_parameter(op, p, "is an object");
        return;
    }
    struct import_input *input = add_parameter_input(op, p);
    bool may_be_array = import_schema_may_be(op->im, p->schema, "array");
    bool is_array =
        slice_eq_cstr(json_get_str(import_resolve(op->im, p->schema), SLICE("type")), "array");
    if (input)
        json_object_put(op->im->arena, &op->headers, p->name,
                        may_be_array ? joined(op, import_input_path(op, input), ",", is_array)
                                     : import_input_template(op, input));
}

static void put_path(struct import_op *op, const struct parameter *p)
{
    slice brace = arena_printf(op->im->arena, "{%.*s}", SLICE_ARG(p->name));
    if (slice_find(op->path, brace) < 0) {
        import_weaken(op, "the path parameter \"%.*s\" does not occur in the path",
                      SLICE_ARG(p->name));
        return;
    }
    if (slice_eq_cstr(p->style, "label") || slice_eq_cstr(p->style, "matrix") || p->is_json ||
        import_schema_may_be(op->im, p->schema, "object")) {
        import_skip(op, "the path parameter \"%.*s\" is in a style that cannot be written",
                    SLICE_ARG(p->name));
        return;
    }
    if (json_get_bool(p->node, SLICE("x-multi-segment"), false))
        import_weaken(op, "\"%.*s\" is sent as one segment of the path: its slashes are encoded",
                      SLICE_ARG(p->name));
    /* A path without one of its parts is a different path, whatever the document says. */
    struct parameter required = *p;
    required.is_required = true;
    (void)add_parameter_input(op, &required);
}

/* ---- the list ---- */

static void read_parameter(struct import_op *op, const struct json *node)
{
    const struct json *content = JSON_GET(node, "content"), *schema = JSON_GET(node, "schema");
    struct parameter p = {.node = node,
                          .schema = schema,
                          .name = json_get_str(node, SLICE("name")),
                          .location = json_get_str(node, SLICE("in")),
                          .style = json_get_str(node, SLICE("style")),
                          .is_required = json_get_bool(node, SLICE("required"), false)};
    /* OpenAPI's defaults: explode is true for the style "form" only. The style of query
     * parameters is form. That of path and header parameters is simple, where explode makes no
     * difference for arrays. */
    bool is_form = p.style.len == 0 || slice_eq_cstr(p.style, "form");
    p.is_exploded = json_get_bool(node, SLICE("explode"), is_form);
    if (!schema && json_is(content, JSON_OBJECT) && content->count > 0) {
        p.is_json = true;
        p.schema = JSON_GET(&content->as.members[0].value, "schema");
    }
    if (slice_eq_cstr(p.location, "cookie"))
        drop_parameter(op, &p, "is a cookie");
    else if (!import_is_plain(p.name))
        drop_parameter(op, &p, "has a name that cannot be written");
    else if (slice_eq_cstr(p.location, "path"))
        put_path(op, &p);
    else if (slice_eq_cstr(p.location, "query"))
        put_query(op, &p);
    else if (slice_eq_cstr(p.location, "header"))
        put_header(op, &p);
    else
        drop_parameter(op, &p, "is in a location that OpenAPI does not know");
}

/* Whether a list has a parameter of the same name and place. */
static bool is_replaced(struct import *im, const struct json *list, const struct json *node)
{
    for (uint32_t i = 0; json_is(list, JSON_ARRAY) && i < list->count; i++) {
        const struct json *other = import_resolve(im, &list->as.items[i]);
        if (slice_eq(json_get_str(other, SLICE("name")), json_get_str(node, SLICE("name"))) &&
            slice_eq(json_get_str(other, SLICE("in")), json_get_str(node, SLICE("in"))))
            return true;
    }
    return false;
}

/* Reads one list: the path's parameters or, in a second pass, the others. Parameters of `stronger`
 * (may be NULL) replace those of this list. */
static void read_list(struct import_op *op, const struct json *list, const struct json *stronger,
                      bool wants_path)
{
    for (uint32_t i = 0; json_is(list, JSON_ARRAY) && i < list->count && !op->is_skipped; i++) {
        const struct json *node = import_resolve(op->im, &list->as.items[i]);
        bool is_path = slice_eq_cstr(json_get_str(node, SLICE("in")), "path");
        if (i >= PARAMETERS_MAX)
            import_skip(op, "it has more than %d parameters", PARAMETERS_MAX);
        else if (!json_is(node, JSON_OBJECT))
            import_skip(op, "a reference to a parameter does not lead to anything in this document "
                            "and its folder");
        else if (is_path == wants_path && !is_replaced(op->im, stronger, node))
            read_parameter(op, node);
    }
}

/* Appends literal text of a path: forbidden characters are encoded (RFC 3986 3.3), escapes are
 * kept. */
static void append_literal(struct buf *out, slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        slice escape = slice_first(slice_from(text, i), 3);
        bool is_escape = c == '%' && escape.len == 3 && ascii_is_hex(escape.ptr[1]) &&
                         ascii_is_hex(escape.ptr[2]);
        bool is_placeholder = c == '$' && i + 1 == text.len; /* a dollar before a brace */
        if (ascii_is_alnum(c) || is_escape ||
            (slice_find_char(SLICE("-._~!$&'()*+,;=:@/"), c) >= 0 && !is_placeholder))
            buf_append_char(out, c);
        else
            encode_percent(out, slice_of(&text.ptr[i], 1));
    }
}

/* Turns {name} into ${input.name}. A name that no parameter describes becomes a required string,
 * since the path needs a value. */
static void make_path(struct import_op *op, slice prefix)
{
    struct buf out;
    slice path = op->path;
    buf_init(&out, 8192);
    append_literal(&out, prefix);
    while (path.len > 0 && !op->is_skipped) {
        ptrdiff_t open = slice_find_char(path, '{');
        slice rest = open < 0 ? SLICE_NONE : slice_from(path, (size_t)open + 1);
        ptrdiff_t close = slice_find_char(rest, '}');
        append_literal(&out, open < 0 ? path : slice_first(path, (size_t)open));
        if (open < 0)
            break;
        slice name = slice_first(rest, close < 0 ? 0 : (size_t)close);
        struct import_input *input = NULL;
        for (size_t i = 0; i < op->input_count && !input; i++)
            if (slice_eq(op->inputs[i].wire, name))
                input = &op->inputs[i];
        if (!input && import_is_plain(name)) {
            import_weaken(op, "the path's \"%.*s\" is not described, so it is treated as text",
                          SLICE_ARG(name));
            input = import_input_add(op, "path", name, NULL, SLICE_NONE, true);
        }
        if (!input) {
            import_skip(op, "its path has a brace without a name");
            break;
        }
        buf_printf(&out, "${%.*s}", SLICE_ARG(import_input_path(op, input)));
        ASSERT(close > 0); /* an input has a name, so the brace was closed */
        path = slice_from(rest, (size_t)close + 1);
    }
    op->path_template = arena_dup(op->im->arena, buf_slice(&out));
    /* Templates make a path only a little longer, so a failure on a short path means out of
     * memory. */
    if (!buf_is_ok(&out) && op->path.len + prefix.len < 1000)
        import_starve(op->im);
    if (!buf_is_ok(&out))
        import_skip(op, "its path is too long");
    buf_deinit(&out);
}

void import_parameters(struct import_op *op)
{
    const struct json *own = JSON_GET(op->node, "parameters");
    const struct json *shared = JSON_GET(op->path_item, "parameters");
    slice prefix = import_server_prefix(op);
    if (import_has_query(prefix) || import_has_query(op->path))
        import_skip(op, "its path has a query or a fragment");
    else if (path_has_dot_segment(prefix) || path_has_dot_segment(op->path))
        import_skip(op, "its path has \".\" or \"..\" as a part, which changes the path");
    else if (!slice_starts_with(op->path, SLICE("/")))
        import_skip(op, "its path does not begin with a slash");
    read_list(op, shared, own, true);
    read_list(op, own, NULL, true);
    if (!op->is_skipped)
        make_path(op, prefix);
    read_list(op, shared, own, false);
    read_list(op, own, NULL, false);
}
