/*
 * The requirements on a manifest beyond its grammar (contrib/integrations/README.md): every
 * placeholder exists, every example validates, a GET does not write.
 *
 * It runs once, when a manifest is packed, after its grammar was checked: so each `when`, schema
 * and template below exists and is compiled. Nothing that lint checks is checked again when a
 * request is made. An error refuses the manifest; warnings are for its author (`sluice catalog
 * lint`).
 */
#include <stdio.h>

#include "catalog/manifest.h"
#include "catalog/tool.h"
#include "expr/condition.h"

enum { LINT_ARENA_BYTES_MAX = 16 * 1024 * 1024, POINTER_BYTES_MAX = 256 };

/* Bits for the roots that expressions may name in one position. */
enum {
    ROOT_INPUT = 1,
    ROOT_CONNECTION = 2,
    ROOT_FILES = 4,
    ROOT_CREDENTIAL = 8,
    ROOT_HEADERS = 16, /* headers and the app's name, known once there is a reply */
    ROOT_OUTPUT = 32,
    ROOT_CLAIMS = 64,
    ROOT_FIRST = 128, /* the replies to earlier requests of the same run */
    ROOT_SECOND = 256,
    ROOT_ANSWER = 512, /* status and body */
    ROOT_ITEM = 1024,  /* of a list whose items are read */
    ROOT_REPLY = ROOT_ANSWER | ROOT_HEADERS,
    REACH_NAME_MAX = 30,
};

/* One linter walks the whole integration and updates reader.path and reader.about as it goes. */
struct lint {
    struct reader reader; /* collects its errors */
    const struct json *input_schema;
    const struct json *params_schema;
    const struct json *output_properties; /* the output's properties, while a view is checked */
    unsigned roots;
    bool is_reply_read; /* the expression checked last reads the reply */
    const char *member;
    char pointer[POINTER_BYTES_MAX]; /* buffer for composed pointers of members */
};

static const struct {
    const char *name;
    unsigned bit;
} roots[] = {
    {"input", ROOT_INPUT},   {"connection", ROOT_CONNECTION}, {"files", ROOT_FILES},
    {"status", ROOT_ANSWER}, {"headers", ROOT_HEADERS},       {"body", ROOT_ANSWER},
    {"output", ROOT_OUTPUT}, {"credential", ROOT_CREDENTIAL}, {"claims", ROOT_CLAIMS},
    {"first", ROOT_FIRST},   {"second", ROOT_SECOND},         {"integration", ROOT_HEADERS},
    {"item", ROOT_ITEM},
};

/* Whether an object schema is closed (additionalProperties false) and does not have the property.
 * An open schema may have any property, and combinators (allOf, anyOf) may add properties that are
 * not searched here. In both cases nothing is reported, since a false alarm would refuse a good
 * manifest. */
static bool schema_lacks(const struct json *schema, slice property)
{
    const struct json *closed = JSON_GET(schema, "additionalProperties");
    return json_is(closed, JSON_BOOL) && !closed->as.boolean &&
           !json_get(JSON_GET(schema, "properties"), property);
}

static bool on_path(void *user, const slice *names, size_t count)
{
    struct lint *lint = user;
    /* A path without a name (`@`, a literal) reads no member by name. */
    if (count == 0)
        return true;
    unsigned bit = 0;
    for (size_t i = 0; i < ARRAY_LEN(roots); i++)
        if (slice_eq_cstr(names[0], roots[i].name))
            bit = roots[i].bit;
    lint->is_reply_read = lint->is_reply_read || (bit & ROOT_REPLY);
    if (!(bit & lint->roots))
        reader_error(&lint->reader, lint->member, "\"%.*s\" is not known here",
                     SLICE_ARG(names[0]));
    else if (bit == ROOT_INPUT && count > 1 && schema_lacks(lint->input_schema, names[1]))
        reader_error(&lint->reader, lint->member, "input_schema has no property \"%.*s\"",
                     SLICE_ARG(names[1]));
    /* The credential is not under `connection`: only auth.send may name it (ROOT_CREDENTIAL), so
     * that no action can copy it into a query, a body or a text for people. */
    else if (bit == ROOT_CONNECTION && count > 1 && !slice_eq_cstr(names[1], "params"))
        reader_error(&lint->reader, lint->member, "connection has only \"params\"");
    else if (bit == ROOT_CONNECTION && count > 2 &&
             !json_get(JSON_GET(lint->params_schema, "properties"), names[2]))
        reader_error(&lint->reader, lint->member, "connection_params has no property \"%.*s\"",
                     SLICE_ARG(names[2]));
    return true;
}

/* If the expression has a mistaken comparison, only that is reported: in `ok == true`, on_path
 * would also report `true` as an unknown name. */
static bool on_expr(void *user, const struct expr *expr, slice where)
{
    struct lint *lint = user;
    struct err slip;
    (void)where;
    if (expr_find_slip(expr, &slip))
        reader_error(&lint->reader, lint->member, "%s", slip.text);
    else
        expr_root_names(expr, on_path, lint);
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
        (void)on_expr(lint, expr, SLICE_NONE);
}

/* Builds a JSON Pointer for a message. A pointer that is too long is truncated to its first
 * member, which still leads to the fault. */
PRINTF_LIKE(2, 3)
static const char *pointer_of(struct lint *lint, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(lint->pointer, sizeof(lint->pointer), fmt, args);
    va_end(args);
    if (len >= (int)sizeof(lint->pointer))
        lint->pointer[strcspn(lint->pointer, "/")] = '\0';
    return lint->pointer;
}

/* Checks that a value is escaped for the syntax that contains it: headers, searches, filters and
 * GraphQL have quoted strings. */
static void check_quotes(struct lint *lint, const char *member, const struct expr_template *text,
                         const char *only)
{
    const struct expr *expr = expr_template_quoted(text, only);
    if (!expr)
        return;
    slice source = slice_first_utf8(expr_source(expr), 80);
    reader_error(&lint->reader, member,
                 "${%.*s} is between quotes, and a quote in its value would end them: write "
                 "${quote(...)} without quotes, or quote_odata for single ones",
                 SLICE_ARG(source));
}

static void check_pairs(struct lint *lint, const char *member, unsigned allowed,
                        const struct catalog_pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        slice name = pairs->items[i].name;
        /* In a JSON Pointer these two characters have to be escaped (RFC 6901). */
        bool is_plain = slice_find_char(name, '/') < 0 && slice_find_char(name, '~') < 0;
        check_template(lint,
                       is_plain ? pointer_of(lint, "%s/%.*s", member, SLICE_ARG(name)) : member,
                       allowed, pairs->items[i].value);
    }
}

static void check_headers(struct lint *lint, const char *member, unsigned allowed,
                          const struct catalog_pairs *headers)
{
    check_pairs(lint, member, allowed, headers);
    for (size_t i = 0; i < headers->count; i++) {
        manifest_lint_header(&lint->reader, member, headers->items[i].name);
        check_quotes(lint, member, headers->items[i].value, NULL);
    }
}

static void check_body(struct lint *lint, const struct catalog_request *request, unsigned allowed)
{
    /* RFC 9110 section 9.3.1: content in a GET has no meaning, and servers may refuse it. */
    if (slice_eq_cstr(request->method, "GET") && request->body_kind != BODY_NONE)
        reader_error(&lint->reader, "request/body", "a GET has no body: use query");
    switch (request->body_kind) {
    case BODY_NONE:
        return;
    case BODY_JSON:
        check_template(lint, "request/body/json", allowed, request->body);
        check_quotes(lint, "request/body/json", request->body, "/query"); /* a GraphQL query */
        return;
    case BODY_RAW:
        check_template(lint, "request/body/raw", allowed, request->body);
        return;
    case BODY_FORM:
        check_pairs(lint, "request/body/form", allowed, &request->fields);
        return;
    case BODY_MULTIPART:
        for (size_t i = 0; i < request->fields.count; i++)
            check_template(lint, pointer_of(lint, "request/body/multipart/%zu/value", i), allowed,
                           request->fields.items[i].value);
        return;
    }
    UNREACHABLE("every kind of body is above");
}

static void check_request(struct lint *lint, const struct catalog_request *request,
                          unsigned allowed)
{
    check_template(lint, "request/base_url", 0, request->base_url);
    check_template(lint, "request/path", allowed, request->path);
    check_pairs(lint, "request/query", allowed, &request->query);
    for (size_t i = 0; i < request->query.count; i++)
        check_quotes(lint, "request/query", request->query.items[i].value, NULL);
    check_headers(lint, "request/headers", allowed, &request->headers);
    check_body(lint, request, allowed);
}

/* Faults of an alternative are reported under the request itself, without the alternative's
 * index: it was merged with that request (manifest_action.c), which contains most of its
 * members. */
static void check_instead(struct lint *lint, const struct catalog_request *request,
                          unsigned allowed)
{
    for (size_t i = 0; i < request->instead_count; i++) {
        check_expr(lint, pointer_of(lint, "request/instead/%zu/when", i), allowed,
                   request->instead[i].when);
        check_request(lint, &request->instead[i].request, allowed);
    }
}

static void check_identity(struct lint *lint, const struct catalog_integration *integration)
{
    const struct catalog_identity *identity = &integration->identity;
    const struct catalog_request *request = &identity->request;
    unsigned visible = identity->from == IDENTITY_ID_TOKEN ? ROOT_CLAIMS : ROOT_REPLY;
    struct reader_path path = {NULL, SLICE("identity"), -1};
    if (identity->from == IDENTITY_NONE)
        return;
    lint->reader.path = &path;
    check_expr(lint, "email", visible, identity->email);
    check_expr(lint, "subject", visible, identity->subject);
    check_expr(lint, "label", visible, identity->label);
    if (identity->from == IDENTITY_REQUEST) {
        /* Input and files may not be used: the request is sent when a connection is made, not for a
         * call. */
        check_request(lint, request, 0);
        if (request->instead_count > 0 || request->when)
            reader_error(&lint->reader, request->when ? "request/when" : "request/instead",
                         "cannot be used here, because there is no input");
        if (!slice_eq_cstr(request->method, "GET") && !slice_eq_cstr(request->method, "POST"))
            reader_error(&lint->reader, "request/method",
                         "must be GET, or POST if the vendor uses POST to read: the request is "
                         "sent at every connect");
    }
    lint->reader.path = NULL;
}

/* Whether one of the actions may be called with this scope. */
static bool is_of_action(const struct catalog_integration *integration, slice scope)
{
    for (size_t i = 0; i < integration->action_count; i++)
        if (json_has_text(integration->actions[i].scopes, scope))
            return true;
    return false;
}

/* Pages for connecting the app describe requested scopes with these texts. Pages of actions and
 * connections also describe scopes that an action accepts but that are not requested. */
static void check_scope_words(struct lint *lint, const struct catalog_integration *integration)
{
    const struct catalog_auth *auth = catalog_auth_by(integration, AUTH_OAUTH2);
    const struct json *asked[] = {auth ? auth->scopes : NULL, integration->identity.scopes};
    const struct json *words = integration->scope_words;
    for (size_t i = 0; i < ARRAY_LEN(asked); i++)
        for (uint32_t j = 0; asked[i] && j < asked[i]->count; j++) {
            slice scope = json_str(&asked[i]->as.items[j]);
            if (!json_get(words, scope))
                reader_warning(&lint->reader, "scope_words",
                               "does not say what the scope \"%.*s\" allows, in words for the "
                               "person who connects the app",
                               SLICE_ARG(scope));
        }
    for (uint32_t i = 0; words && i < words->count; i++) {
        slice scope = json_str(&words->as.members[i].key);
        if (!json_has_text(asked[0], scope) && !json_has_text(asked[1], scope) &&
            !is_of_action(integration, scope))
            reader_error(&lint->reader, "scope_words",
                         "the scope \"%.*s\" is not requested by auth (oauth2) or identity, and no "
                         "action needs it",
                         SLICE_ARG(scope));
    }
}

static void check_errors(struct lint *lint, const struct catalog_error_rules *rules,
                         unsigned allowed, enum catalog_auth_kind auth)
{
    for (size_t i = 0; i < rules->count; i++) {
        const struct catalog_error_rule *rule = &rules->items[i];
        unsigned at = rule->source_index;
        ASSERT(rule->when); /* the check of the rules' order evaluates the condition, too */
        if (rule->missing_scopes && auth == AUTH_NONE)
            reader_error(&lint->reader, pointer_of(lint, "errors/%u/missing_scopes", at),
                         "has no meaning without a credential");
        check_expr(lint, pointer_of(lint, "errors/%u/when", at), allowed, rule->when);
        check_template(lint, pointer_of(lint, "errors/%u/message", at), allowed, rule->message);
        check_template(lint, pointer_of(lint, "errors/%u/hint", at), allowed, rule->hint);
    }
    manifest_lint_order(&lint->reader, rules);
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
    /* The memory of a validation is freed after each action; the report has copies of the texts. */
    arena_init(&arena, LINT_ARENA_BYTES_MAX);
    for (uint32_t i = 0; i < examples->count; i++) {
        const struct json *example = &examples->as.items[i];
        const struct json *input = JSON_GET(example, "input");
        struct schema_report report;
        struct buf text;
        schema_report_init(&report, &arena, SLICE("/input"));
        buf_init(&text, 4096);
        if (json_get_str(example, SLICE("title")).len == 0 || !json_is(input, JSON_OBJECT)) {
            reader_error(&lint->reader, pointer_of(lint, "examples/%u", i),
                         "needs a title and an object input");
        } else if (action->schema && !schema_validate(action->schema, input, &report)) {
            schema_report_write(&report, &text);
            reader_error(&lint->reader, pointer_of(lint, "examples/%u/input", i),
                         "does not validate: %.*s", SLICE_ARG(buf_slice(&text)));
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
            reader_error(&lint->reader, pointer_of(lint, "preconditions/%u/kind", i),
                         "must be connection, scope or note");
        if (json_get_str(&list->as.items[i], SLICE("description")).len == 0)
            reader_error(&lint->reader, pointer_of(lint, "preconditions/%u", i),
                         "has no description");
    }
    if (list && list->type != JSON_ARRAY)
        reader_error(&lint->reader, "preconditions", "must be an array of {kind, description}");
}

/* Checks a schema for data from a caller or a person, who should get an error for a misspelled
 * name. */
static void check_closed_schema(struct lint *lint, const char *member, const struct json *schema)
{
    if (!JSON_GET(schema, "additionalProperties"))
        reader_warning(
            &lint->reader, member,
            "\"additionalProperties\": false is missing: a misspelt name would be ignored");
    manifest_lint_schema(&lint->reader, member, schema);
}

static void check_schemas(struct lint *lint, const struct catalog_action *action)
{
    const struct json *schema = action->input_schema;
    if (!schema)
        return;
    if (!slice_eq_cstr(json_get_str(schema, SLICE("type")), "object"))
        reader_error(&lint->reader, "input_schema/type", "must be \"object\"");
    /* A model fills in the input from these schemas and descriptions. Missing ones cause wrong
     * calls, so they are reported as warnings. */
    check_closed_schema(lint, "input_schema", schema);
    if (action->output_schema)
        manifest_lint_schema(&lint->reader, "output_schema", action->output_schema);
    const struct json *properties = JSON_GET(schema, "properties");
    const struct json *required = JSON_GET(schema, "required");
    bool is_by_name = !JSON_GET(schema, "patternProperties");
    for (uint32_t i = 0; is_by_name && json_is(required, JSON_ARRAY) && i < required->count; i++)
        if (schema_lacks(schema, json_str(&required->as.items[i])))
            reader_error(&lint->reader, "input_schema/required",
                         "\"%.*s\" is not one of the properties: no input could be valid",
                         SLICE_ARG(json_str(&required->as.items[i])));
    for (uint32_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        slice name = json_str(&properties->as.members[i].key);
        if (!JSON_GET(&properties->as.members[i].value, "description"))
            reader_warning(&lint->reader, "input_schema/properties",
                           "property \"%.*s\" has no description", SLICE_ARG(name));
        if (!catalog_tool_takes_property(name))
            reader_warning(&lint->reader, "input_schema/properties",
                           "property \"%.*s\" needs a name of at most %d letters, digits, '_', '-' "
                           "and '.': model clients refuse a tool with any other name",
                           SLICE_ARG(name), CATALOG_TOOL_PROPERTY_MAX);
    }
    if (action->description.len > CATALOG_TOOL_TEXT_MAX)
        reader_warning(&lint->reader, "description", "must have at most %d bytes for a tool",
                       CATALOG_TOOL_TEXT_MAX);
    const struct json *more = JSON_GET(schema, "additionalProperties");
    if (action->request.takes_others && json_is(more, JSON_BOOL) && !more->as.boolean)
        reader_error(&lint->reader, "request/body/others",
                     "has no effect: input_schema allows no other inputs");
    for (size_t i = 0; i < action->pages.count; i++)
        if (schema_lacks(schema, action->pages.items[i].input))
            reader_error(&lint->reader, "response/pagination",
                         "names the input \"%.*s\", which input_schema does not have",
                         SLICE_ARG(action->pages.items[i].input));
}

/* A reply that is not the action's must not be accepted as a success: a proxy's login page is a
 * 200, too. acts means that the request may have changed something, so that a false success
 * matters. */
static void check_reply(struct lint *lint, const struct catalog_reply *reply, bool acts,
                        unsigned visible)
{
    for (size_t i = 0; i < reply->required_count; i++) {
        lint->is_reply_read = false;
        check_expr(lint, pointer_of(lint, "response/required/%zu", i), visible, reply->required[i]);
        /* An expression over the input alone would match every reply. */
        if (!lint->is_reply_read)
            reader_error(&lint->reader, lint->member, "reads nothing from the reply");
    }
    if (reply->body != REPLY_JSON)
        return;
    if (acts && reply->required_count == 0)
        reader_warning(
            &lint->reader, "response",
            "a write's reply must be recognizable: \"required\" names members that it always has "
            "(such as [\"body.id\"]), or \"body\" says that it is text, bytes or none");
    if (!reply->is_kind_known)
        reader_warning(&lint->reader, "response",
                       "\"kind\" says whether the reply is an object or an array (or any)");
}

static void check_method(struct lint *lint, const struct catalog_action *action,
                         const struct catalog_request *request)
{
    bool is_alone = action->then_count == 0; /* with further requests, one of them may write */
    if (is_alone && slice_eq_cstr(request->method, "GET") && action->level != LEVEL_READ)
        reader_error(&lint->reader, "request/method",
                     "a GET does not write, but side_effect_level says %s: one of the two is wrong",
                     catalog_level_name(action->level));
    if (slice_eq_cstr(request->method, "DELETE") && action->level == LEVEL_READ)
        reader_error(
            &lint->reader, "request/method",
            "a DELETE changes something: side_effect_level must be delete, write or admin");
}

/* Once a request has had a lasting effect, a later one cannot claim that nothing was done. The
 * texts become the error of a run that stops half-way; the caller decides by this error what to
 * repeat. */
static void check_done(struct lint *lint, const struct catalog_action *action, unsigned at)
{
    const struct catalog_then *then = &action->then[at];
    bool is_done = false;
    for (unsigned i = 0; i < at; i++)
        is_done = is_done || action->then[i].done;
    if (action->level != LEVEL_READ && !then->is_done_said)
        reader_error(
            &lint->reader, NULL,
            "member \"done\" is missing: it says what the requests before this one have done, for "
            "the error message if this one fails (\"The file was uploaded\", with "
            "\"not_done\": \"it was not posted\"), or false if they do nothing permanent");
    else if (action->level == LEVEL_READ && then->done)
        reader_error(&lint->reader, "done", "has no effect in a read, which changes nothing");
    else if (is_done && !then->done)
        reader_error(&lint->reader, "done", "is false, but an earlier request has done something");
}

/* The provider chooses the host of such a URL, so the URL must come from its reply. If it were
 * made from the caller's input, a caller could send the request anywhere. */
static void check_url(struct lint *lint, const struct catalog_request *request, unsigned earlier)
{
    if (!request->url)
        return;
    ASSERT(earlier != 0); /* only a later request may have a URL */
    if (expr_template_is_constant(request->url))
        reader_error(&lint->reader, "request/url",
                     "must come from an earlier reply, such as \"${first.body.upload_url}\"; write "
                     "a known URL as \"base_url\" and \"path\"");
    check_template(lint, "request/url", earlier, request->url);
}

static void check_then(struct lint *lint, const struct catalog_action *action)
{
    struct reader_path *outer = lint->reader.path;
    unsigned earlier = 0;
    ASSERT(action->then_count < CATALOG_REQUESTS_MAX); /* each earlier reply has a root */
    for (unsigned i = 0; i < action->then_count; i++) {
        const struct catalog_then *then = &action->then[i];
        struct reader_path path = {outer, SLICE("then"), i};
        earlier |= i == 0 ? ROOT_FIRST : ROOT_SECOND;
        lint->reader.path = &path;
        check_request(lint, &then->request, ROOT_INPUT | ROOT_FILES | earlier);
        check_url(lint, &then->request, earlier);
        check_template(lint, "done", ROOT_INPUT | earlier, then->done);
        check_template(lint, "not_done", ROOT_INPUT | earlier, then->not_done);
        check_done(lint, action, i);
        check_reply(lint, &then->reply, catalog_request_acts(action, i + 1), ROOT_REPLY);
        check_method(lint, action, &then->request);
    }
    lint->reader.path = outer;
    if (action->request.when && (action->then_count > 1 || action->then[0].done))
        reader_error(&lint->reader, "request/when",
                     "needs exactly one request in \"then\", with \"done\": false");
    if (catalog_has_provider_key(action))
        reader_error(&lint->reader,
                     action->idempotency_header.len > 0 ? "idempotency_header"
                                                        : "idempotency_member",
                     "is only for an action with one request: a key cannot cover several");
    if (action->pages.count > 0)
        reader_error(&lint->reader, "then", "and \"pagination\" cannot be combined");
}

/* Only the ids of the manifest's actions are compared: these are always set, whichever actions
 * are open. */
static void check_undo(struct lint *lint, const struct catalog_action *action)
{
    bool is_known = slice_eq_cstr(action->undo, "never");
    const struct catalog_integration *app = action->integration;
    for (size_t i = 0; i < app->action_count && !is_known; i++)
        is_known = slice_eq(app->actions[i].action_id, action->undo) &&
                   app->actions[i].level != LEVEL_READ;
    if (!is_known || action->level == LEVEL_READ)
        reader_error(&lint->reader, "undo",
                     "is only for an action that writes: \"never\", or the action_id of the action "
                     "that reverses it");
}

/* The people whom a call reaches, and where it writes, must be known before the call. what: what
 * the value gives. */
static void check_reach(struct lint *lint, const struct catalog_action *action, const char *member,
                        const struct catalog_pairs *pairs, const char *name, const char *what)
{
    if (action->level == LEVEL_READ && pairs->count > 0)
        reader_error(&lint->reader, member, "is for an action that writes");
    for (size_t i = 0; i < pairs->count; i++) {
        const struct catalog_pair *pair = &pairs->items[i];
        if (!slice_is_name(pair->name, REACH_NAME_MAX))
            reader_error(&lint->reader, member, "its name must be words for people, such as \"%s\"",
                         name);
        if (expr_template_is_constant(pair->value))
            reader_error(&lint->reader, member, "\"%.*s\" must be a ${...} over the input: its %s",
                         SLICE_ARG(slice_first_utf8(pair->name, 80)), what);
        lint->roots = ROOT_INPUT;
        lint->member = member;
        expr_template_each_expr(pair->value, on_expr, lint);
    }
}

static bool on_view_path(void *user, const slice *names, size_t count)
{
    struct lint *lint = user;
    if (count > 0 && !json_get(lint->output_properties, names[0]))
        reader_error(&lint->reader, lint->member,
                     "output_schema has no property \"%.*s\" (a view reads the output's members, "
                     "such as \"messages[].{id: id}\")",
                     SLICE_ARG(names[0]));
    return true;
}

/* A view has the output of the action itself as its root. */
static void check_view(struct lint *lint, const char *member, const struct expr *view,
                       const struct catalog_action *action)
{
    struct err slip;
    lint->member = member;
    lint->output_properties = JSON_GET(action->output_schema, "properties");
    if (expr_find_slip(view, &slip))
        reader_error(&lint->reader, member, "%s", slip.text);
    else if (lint->output_properties)
        expr_root_names(view, on_view_path, lint);
    else
        reader_warning(&lint->reader, member,
                       "needs an output_schema with properties: its names cannot be checked");
}

/* Checks that the read can run without a person: it needs no confirmation, and its input fits its
 * schema. */
static void check_show_read(struct lint *lint, const struct catalog_integration *app,
                            const struct catalog_show *show)
{
    const struct catalog_action *read = NULL;
    for (size_t i = 0; i < app->action_count; i++)
        if (slice_eq(app->actions[i].action_id, show->action_id))
            read = &app->actions[i];
    if (!read || read->level != LEVEL_READ || read->requires_confirmation) {
        reader_error(&lint->reader, lint->member,
                     "\"%.*s\" is not a read of this app that runs without a confirmation",
                     SLICE_ARG(show->action_id));
        return;
    }
    const struct json *required = JSON_GET(read->input_schema, "required");
    for (uint32_t i = 0; json_is(required, JSON_ARRAY) && i < required->count; i++) {
        bool is_given = false;
        for (size_t j = 0; j < show->input.count; j++)
            is_given |= slice_eq(show->input.items[j].name, json_str(&required->as.items[i]));
        if (!is_given)
            reader_error(&lint->reader, lint->member, "\"input\" lacks \"%.*s\" of %.*s",
                         SLICE_ARG(json_str(&required->as.items[i])), SLICE_ARG(show->action_id));
    }
    for (size_t i = 0; i < show->input.count; i++)
        if (schema_lacks(read->input_schema, show->input.items[i].name))
            reader_error(&lint->reader, lint->member, "%.*s takes no \"%.*s\"",
                         SLICE_ARG(show->action_id), SLICE_ARG(show->input.items[i].name));
}

static void check_shows(struct lint *lint, const struct catalog_action *action)
{
    if (action->level == LEVEL_READ)
        reader_error(&lint->reader, "shows", "is for an action that writes");
    for (unsigned i = 0; i < action->show_count; i++) {
        const struct catalog_show *show = &action->shows[i];
        slice path = show->member, name = slice_split(&path, '.');
        lint->member = pointer_of(lint, "shows/%.*s", SLICE_ARG(show->member));
        if (schema_lacks(action->input_schema, name))
            reader_error(&lint->reader, lint->member, "input_schema has no property \"%.*s\"",
                         SLICE_ARG(name));
        if (expr_template_is_constant(show->text))
            reader_error(&lint->reader, lint->member, "\"text\" must have a ${...}");
        lint->roots = ROOT_INPUT;
        if (show->when)
            (void)on_expr(lint, show->when, SLICE_NONE);
        for (size_t j = 0; j < show->input.count; j++)
            expr_template_each_expr(show->input.items[j].value, on_expr, lint);
        if (show->action_id.len > 0) {
            check_show_read(lint, action->integration, show);
            lint->roots |= ROOT_OUTPUT;
        } else if (show->input.count > 0 || show->version) {
            reader_error(&lint->reader, lint->member, "\"%s\" is for an \"action\"",
                         show->version ? "version" : "input");
        }
        expr_template_each_expr(show->text, on_expr, lint);
        if (show->version)
            expr_template_each_expr(show->version, on_expr, lint);
    }
}

/* One level of reads only: otherwise the number of requests of one call would have no limit. */
static void check_each(struct lint *lint, const struct catalog_action *action)
{
    const struct catalog_each *each = action->each;
    const struct catalog_integration *app = action->integration;
    const struct catalog_action *read = NULL;
    const struct json *properties = JSON_GET(action->output_schema, "properties");
    for (size_t i = 0; i < app->action_count; i++)
        if (slice_eq(app->actions[i].action_id, each->action_id))
            read = &app->actions[i];
    if (action->level != LEVEL_READ)
        reader_error(&lint->reader, "each", "is for an action that reads");
    check_expr(lint, "each/when", ROOT_INPUT, each->when);
    if (!json_get(properties, each->items))
        reader_error(&lint->reader, "each/items", "output_schema has no property \"%.*s\"",
                     SLICE_ARG(each->items));
    if (!read || read->level != LEVEL_READ || read->requires_confirmation || read->each) {
        reader_error(&lint->reader, "each/action",
                     "must be the action_id of another read of the app, without confirmation and "
                     "without an \"each\" of its own");
        return;
    }
    for (size_t i = 0; i < each->input.count; i++) {
        check_template(lint, "each/input", ROOT_INPUT | ROOT_ITEM, each->input.items[i].value);
        if (schema_lacks(read->input_schema, each->input.items[i].name))
            reader_error(&lint->reader, "each/input", "%.*s does not take the input \"%.*s\"",
                         SLICE_ARG(each->action_id), SLICE_ARG(each->input.items[i].name));
    }
    if (each->output)
        check_view(lint, "each/output", each->output, read);
}

static void check_action(struct lint *lint, const struct catalog_action *action)
{
    const struct catalog_request *request = &action->request;
    unsigned sent = ROOT_INPUT | ROOT_FILES, visible = ROOT_INPUT | ROOT_REPLY;
    /* without them there was an error, and the lint does not run */
    ASSERT(action->input_schema && action->schema);
    if (action->then_count > 0)
        visible |= ROOT_FIRST;
    if (action->then_count > 1)
        visible |= ROOT_SECOND;
    lint->input_schema = action->input_schema;
    check_request(lint, request, sent);
    check_instead(lint, request, sent);
    check_expr(lint, "request/when", ROOT_INPUT, request->when);
    if (request->when && action->then_count == 0)
        reader_error(&lint->reader, "request/when", "needs a request in \"then\"");
    check_expr(lint, "response/output", visible, action->output);
    if (action->view)
        check_view(lint, "response/view", action->view, action);
    if (action->each)
        check_each(lint, action);
    for (size_t i = 0; i < action->pages.count; i++)
        check_expr(lint, "response/pagination", visible, action->pages.items[i].next);
    check_template(lint, "display/title", visible | ROOT_OUTPUT, action->display_title);
    check_template(lint, "display/summary", visible | ROOT_OUTPUT, action->display_summary);
    check_errors(lint, &action->errors, visible, action->integration->auth.kind);
    check_reply(lint, &action->reply, catalog_request_acts(action, 0), ROOT_REPLY);
    if (action->then_count > 0)
        check_then(lint, action);
    if (action->idempotency_header.len > 0)
        manifest_lint_header(&lint->reader, "idempotency_header", action->idempotency_header);
    if (action->undo.len > 0)
        check_undo(lint, action);
    check_reach(lint, action, "recipients", &action->recipients, "To", "addresses");
    check_reach(lint, action, "target", &action->targets, "Channel", "id");
    if (action->show_count > 0)
        check_shows(lint, action);
    check_schemas(lint, action);
    check_examples(lint, action);
    check_preconditions(lint, action->preconditions);
    check_method(lint, action, request);
    for (size_t i = 0; i < request->instead_count; i++)
        check_method(lint, action, &request->instead[i].request);
    if (!action->display_title || !action->display_summary)
        reader_error(&lint->reader, NULL, "display needs a title and a summary");
}

/* The id names the app in every call, and people find its file by that name. */
static void check_file_name(struct lint *lint, const struct catalog_integration *integration,
                            slice source)
{
    slice name = source;
    for (ptrdiff_t at = slice_find_char(name, '/'); at >= 0; at = slice_find_char(name, '/'))
        name = slice_from(name, (size_t)at + 1);
    if (!slice_ends_with(name, SLICE(".json")))
        return;
    name = slice_first(name, name.len - strlen(".json"));
    if (!slice_eq(name, integration->integration_id))
        reader_warning(&lint->reader, "integration_id",
                       "\"%.*s\" differs from the file's name, \"%.*s\"",
                       SLICE_ARG(integration->integration_id), SLICE_ARG(name));
}

static void check_auth(struct lint *lint, const struct catalog_auth *auth)
{
    check_template(lint, "send/value", ROOT_CREDENTIAL, auth->send_value);
    manifest_lint_send(&lint->reader, auth->kind == AUTH_NONE ? "send" : "send/value", auth);
    if (auth->send_in == SEND_IN_HEADER && auth->send_name.len > 0)
        manifest_lint_header(&lint->reader, "send/name", auth->send_name);
    check_expr(lint, "test/label", ROOT_REPLY, auth->test_label);
    check_expr(lint, "gone", ROOT_ANSWER, auth->gone);
}

void manifest_lint(const struct catalog_integration *integration, slice source,
                   struct catalog_report *report)
{
    struct lint lint = {.reader = {.report = report, .source = source},
                        .params_schema = integration->connection_params};
    ASSERT(integration->base_url && integration->integration_id.len > 0);
    check_file_name(&lint, integration, source);
    if (integration->connection_params)
        check_closed_schema(&lint, "connection_params", integration->connection_params);
    check_template(&lint, "base_url", 0, integration->base_url);
    check_headers(&lint, "headers", ROOT_INPUT, &integration->headers);
    for (size_t i = 0; i < integration->auth_count; i++) {
        bool is_choice = integration->auth_count > 1;
        struct reader_path path = {NULL, SLICE("auth"), is_choice ? (ptrdiff_t)i : -1};
        lint.reader.path = &path;
        check_auth(&lint, &integration->auths[i]);
    }
    lint.reader.path = NULL;
    check_identity(&lint, integration);
    check_scope_words(&lint, integration);
    for (size_t i = 0; i < integration->limits.rate_rule_count; i++) {
        const struct catalog_rate_rule *rule = &integration->limits.rate_rules[i];
        check_expr(&lint, pointer_of(&lint, "limits/rate_limited/%zu/when", i), ROOT_REPLY,
                   rule->when);
        check_expr(&lint, pointer_of(&lint, "limits/rate_limited/%zu/retry_after", i), ROOT_REPLY,
                   rule->retry_after);
    }
    check_expr(&lint, "limits", ROOT_REPLY, integration->limits.quota_remaining);
    check_expr(&lint, "limits", ROOT_REPLY, integration->limits.quota_reset);
    check_errors(&lint, &integration->errors, ROOT_INPUT | ROOT_REPLY, integration->auth.kind);
    /* Actions are sorted by id here; source_index is the position in the file, which messages
     * name. */
    for (size_t i = 0; i < integration->action_count; i++) {
        struct reader_path path = {NULL, SLICE("actions"), integration->actions[i].source_index};
        lint.reader.path = &path;
        lint.reader.about = integration->actions[i].action_id;
        check_action(&lint, &integration->actions[i]);
    }
}
