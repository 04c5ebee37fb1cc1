/*
 * What a manifest must satisfy beyond its grammar (DESIGN.md 8): every placeholder exists, every
 * example validates, a GET does not write.
 */
#include "catalog/manifest.h"

enum { LINT_ARENA_BYTES_MAX = 16 * 1024 * 1024 };

/* What expressions may name in one place: bits of roots. */
enum {
    ROOT_INPUT = 1,
    ROOT_CONNECTION = 2,
    ROOT_FILES = 4,
    ROOT_CREDENTIAL = 8,
    ROOT_REPLY = 16, /* status, headers, body */
    ROOT_OUTPUT = 32,
};

struct lint {
    struct reader reader; /* for its errors */
    const struct json *input_schema;
    const struct json *params_schema;
    unsigned roots;
    const char *member;
};

static const struct {
    const char *name;
    unsigned bit;
} roots[] = {
    {"input", ROOT_INPUT},   {"connection", ROOT_CONNECTION}, {"files", ROOT_FILES},
    {"status", ROOT_REPLY},  {"headers", ROOT_REPLY},         {"body", ROOT_REPLY},
    {"output", ROOT_OUTPUT}, {"credential", ROOT_CREDENTIAL},
};

/* Whether an object schema that closes itself lacks the property. Combinators may bring further
 * properties: then nothing is said. */
static bool schema_lacks(const struct json *schema, slice property)
{
    const struct json *closed = JSON_GET(schema, "additionalProperties");
    return json_is(closed, JSON_BOOL) && !closed->as.boolean &&
           !json_get(JSON_GET(schema, "properties"), property);
}

static bool on_path(void *user, const slice *names, size_t count)
{
    struct lint *lint = user;
    if (count == 0)
        return true;
    unsigned bit = 0;
    for (size_t i = 0; i < ARRAY_LEN(roots); i++)
        if (slice_eq_cstr(names[0], roots[i].name))
            bit = roots[i].bit;
    if (!(bit & lint->roots))
        reader_error(&lint->reader, lint->member, "\"%.*s\" is not known here",
                     SLICE_ARG(names[0]));
    else if (bit == ROOT_INPUT && count > 1 && schema_lacks(lint->input_schema, names[1]))
        reader_error(&lint->reader, lint->member, "input_schema has no property \"%.*s\"",
                     SLICE_ARG(names[1]));
    else if (bit == ROOT_CONNECTION && count > 1 && !slice_eq_cstr(names[1], "params"))
        reader_error(&lint->reader, lint->member, "connection has \"params\" only");
    else if (bit == ROOT_CONNECTION && count > 2 &&
             !json_get(JSON_GET(lint->params_schema, "properties"), names[2]))
        reader_error(&lint->reader, lint->member, "connection_params has no property \"%.*s\"",
                     SLICE_ARG(names[2]));
    return true;
}

static bool on_expr(void *user, const struct expr *expr, slice where)
{
    (void)where;
    expr_root_names(expr, on_path, user);
    return true;
}

static void check_template(struct lint *lint, const char *member, unsigned allowed,
                           const struct expr_template *tmpl)
{
    lint->roots = allowed | ROOT_CONNECTION;
    lint->member = member;
    if (tmpl)
        expr_template_each_expr(tmpl, on_expr, lint);
}

static void check_expr(struct lint *lint, const char *member, unsigned allowed,
                       const struct expr *expr)
{
    lint->roots = allowed | ROOT_CONNECTION;
    lint->member = member;
    if (expr)
        expr_root_names(expr, on_path, lint);
}

static void check_parts(struct lint *lint, const char *member, unsigned allowed,
                        const struct catalog_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        check_template(lint, member, allowed, parts->items[i].value);
}

static void check_errors(struct lint *lint, const struct catalog_error_rules *rules)
{
    for (size_t i = 0; i < rules->count; i++) {
        unsigned allowed = ROOT_INPUT | ROOT_REPLY;
        check_expr(lint, "errors", allowed, rules->items[i].when);
        check_template(lint, "errors", allowed, rules->items[i].message);
        check_template(lint, "errors", allowed, rules->items[i].hint);
    }
}

static void check_examples(struct lint *lint, const struct catalog_action *action)
{
    const struct json *examples = action->examples;
    if (!examples)
        return;
    if (examples->type != JSON_ARRAY) {
        reader_error(&lint->reader, "examples", "must be an array of {title, input}");
        return;
    }
    struct arena arena;
    arena_init(&arena, LINT_ARENA_BYTES_MAX);
    for (uint32_t i = 0; i < examples->count; i++) {
        const struct json *example = &examples->as.items[i];
        const struct json *input = JSON_GET(example, "input");
        struct schema_report report;
        struct buf text;
        schema_report_init(&report, &arena, SLICE("/input"));
        buf_init(&text, 4096);
        if (json_get_str(example, SLICE("title")).len == 0 || !json_is(input, JSON_OBJECT)) {
            reader_error(&lint->reader, "examples", "example %u wants a title and an object input",
                         i);
        } else if (action->schema && !schema_validate(action->schema, input, &report)) {
            schema_report_write(&report, &text);
            reader_error(&lint->reader, "examples", "example %u does not validate: %.*s", i,
                         SLICE_ARG(buf_slice(&text)));
        }
        buf_deinit(&text);
    }
    arena_deinit(&arena);
}

static void check_preconditions(struct lint *lint, const struct json *list)
{
    for (uint32_t i = 0; json_is(list, JSON_ARRAY) && i < list->count; i++) {
        slice kind = json_get_str(&list->as.items[i], SLICE("kind"));
        if (!slice_eq_cstr(kind, "connection") && !slice_eq_cstr(kind, "scope") &&
            !slice_eq_cstr(kind, "note"))
            reader_error(&lint->reader, "preconditions",
                         "item %u: kind must be connection, scope or note", i);
        if (json_get_str(&list->as.items[i], SLICE("description")).len == 0)
            reader_error(&lint->reader, "preconditions", "item %u has no description", i);
    }
    if (list && list->type != JSON_ARRAY)
        reader_error(&lint->reader, "preconditions", "must be an array of {kind, description}");
}

static void check_input_schema(struct lint *lint, const struct catalog_action *action)
{
    const struct json *schema = action->input_schema;
    if (!schema)
        return;
    if (!slice_eq_cstr(json_get_str(schema, SLICE("type")), "object"))
        reader_error(&lint->reader, "input_schema", "must have type \"object\"");
    const struct json *properties = JSON_GET(schema, "properties");
    for (uint32_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++)
        if (!JSON_GET(&properties->as.members[i].value, "description"))
            reader_warning(&lint->reader, "input_schema", "property \"%.*s\" has no description",
                           SLICE_ARG(json_str(&properties->as.members[i].key)));
    if (action->page_input.len > 0 && schema_lacks(schema, action->page_input))
        reader_error(&lint->reader, "response",
                     "pagination names the input \"%.*s\", which "
                     "input_schema does not have",
                     SLICE_ARG(action->page_input));
}

static void check_action(struct lint *lint, const struct catalog_action *action)
{
    const struct catalog_request *request = &action->request;
    unsigned sent = ROOT_INPUT | ROOT_FILES, seen = ROOT_INPUT | ROOT_REPLY;
    lint->input_schema = action->input_schema;
    check_template(lint, "request", sent, request->path);
    check_parts(lint, "request", sent, &request->query);
    check_parts(lint, "request", sent, &request->headers);
    check_parts(lint, "request", sent, &request->fields);
    check_template(lint, "request", sent, request->body);
    check_expr(lint, "response", seen, action->output);
    check_expr(lint, "response", seen, action->page_next);
    check_template(lint, "display", seen | ROOT_OUTPUT, action->display_title);
    check_template(lint, "display", seen | ROOT_OUTPUT, action->display_summary);
    check_errors(lint, &action->errors);
    check_input_schema(lint, action);
    check_examples(lint, action);
    check_preconditions(lint, action->preconditions);
    if (slice_eq_cstr(request->method, "GET") && action->level != LEVEL_READ)
        reader_error(&lint->reader, "request", "a GET does not write; side_effect_level says %s",
                     catalog_level_name(action->level));
    if (slice_eq_cstr(request->method, "DELETE") && action->level == LEVEL_READ)
        reader_error(&lint->reader, "request", "a DELETE is not a read");
    if (slice_eq_cstr(request->method, "GET") && request->body_kind != BODY_NONE)
        reader_error(&lint->reader, "request", "a GET has no body");
    if (!action->display_title || !action->display_summary)
        reader_error(&lint->reader, NULL, "display wants a title and a summary");
}

void manifest_lint(const struct catalog_integration *integration, slice source,
                   struct catalog_report *report)
{
    struct lint lint = {.reader = {.report = report, .source = source},
                        .params_schema = integration->connection_params};
    check_template(&lint, "base_url", 0, integration->base_url);
    check_parts(&lint, "headers", ROOT_INPUT, &integration->headers);
    check_template(&lint, "auth", ROOT_CREDENTIAL, integration->auth.send_value);
    check_expr(&lint, "auth", ROOT_REPLY, integration->auth.test_label);
    for (size_t i = 0; i < integration->limits.rate_rule_count; i++) {
        check_expr(&lint, "limits", ROOT_REPLY, integration->limits.rate_rules[i].when);
        check_expr(&lint, "limits", ROOT_REPLY, integration->limits.rate_rules[i].retry_after);
    }
    check_expr(&lint, "limits", ROOT_REPLY, integration->limits.quota_remaining);
    check_expr(&lint, "limits", ROOT_REPLY, integration->limits.quota_reset);
    check_errors(&lint, &integration->errors);
    struct reader_path actions = {NULL, SLICE("actions"), -1};
    for (size_t i = 0; i < integration->action_count; i++) {
        struct reader_path path = {&actions, integration->actions[i].action_id, -1};
        lint.reader.path = &path;
        check_action(&lint, &integration->actions[i]);
    }
}
