/*
 * Reads the integration level of a manifest (contrib/integrations/README.md "The file", auth).
 *
 * Reading continues after a fault, so that one pass reports all of them: a missing or wrong member
 * gets its default here, and the error refuses the manifest at the end. The same functions read the
 * manifest when it is packed, and again from the pack when it is looked up.
 */
#include "catalog/manifest.h"

#include <stdlib.h>

#include "base/ascii.h"
#include "base/encode.h"

static const char *const auth_names[] = {
    "none", "oauth2", "oauth2_client_credentials", "api_key", "bearer", "basic", NULL};
static const char *const level_names[] = {"read", "write", "delete", "admin", NULL};

enum { ID_MAX = 40, ICON_BYTES_MAX = 400 };

const char *catalog_auth_name(enum catalog_auth_kind kind)
{
    ASSERT(kind <= AUTH_BASIC);
    return auth_names[kind];
}

const struct catalog_auth *catalog_auth_of(const struct catalog_integration *integration,
                                           slice kind)
{
    /* an integration that is not open has only the kind of its first auth */
    ASSERT(integration->is_open);
    for (size_t i = 0; i < integration->auth_count; i++)
        if (slice_eq_cstr(kind, auth_names[integration->auths[i].kind]))
            return &integration->auths[i];
    return integration->auth_count > 0 ? &integration->auths[0] : &integration->auth;
}

const struct catalog_auth *catalog_auth_by(const struct catalog_integration *integration,
                                           enum catalog_auth_kind kind)
{
    for (size_t i = 0; i < integration->auth_count; i++)
        if (integration->auths[i].kind == kind)
            return &integration->auths[i];
    return NULL;
}

bool catalog_grant_is_gone(const struct catalog_auth *auth, unsigned status,
                           const struct json *body, struct arena *arena)
{
    struct json root = json_object(), is_gone = json_null;
    struct expr_budget budget;
    struct err err;
    if (!auth->gone)
        return false;
    json_object_set(arena, &root, SLICE("status"), json_i64(status));
    json_object_set(arena, &root, SLICE("body"), *body);
    expr_budget_init(&budget);
    return expr_eval(auth->gone, &root, &root, &budget, arena, &is_gone, &err) == OK &&
           expr_is_true(&is_gone);
}

slice catalog_scope_words(const struct catalog_integration *integration, slice scope)
{
    const struct catalog_auth *auth = catalog_auth_by(integration, AUTH_OAUTH2);
    slice words = json_get_str(integration->scope_words, scope);
    return words.ptr || !auth ? words : json_get_str(auth->optional_scopes, scope);
}

const char *catalog_level_name(enum catalog_level level)
{
    ASSERT(level <= LEVEL_ADMIN);
    return level_names[level];
}

/* Returns NULL only if out of memory, which the arena records. */
static const struct expr_template *constant_template(struct reader *r, const char *text)
{
    return expr_template_compile_text(r->arena, slice_cstr(text), NULL);
}

/* Characters that may be unencoded in a path (RFC 3986 section 3.3). "//" is refused: an empty
 * segment is probably a mistake, and some servers collapse it. */
static bool is_path_text(slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!(ascii_is_alnum(c) || slice_find_char(SLICE("/-._~!$&'()*+,;=:@"), c) >= 0))
            return false;
    }
    return slice_find(text, SLICE("//")) < 0;
}

/* Checks a value such as "/bot${credential.api_key}": whole segments before the path of each
 * action, with one placeholder. The credential's value is percent-encoded, so it cannot add
 * segments or a query; the text around it must need no encoding, since it is sent unchanged. */
static void check_path_value(struct reader *r, slice text)
{
    ptrdiff_t open = slice_find(text, SLICE("${"));
    slice head = slice_first(text, open < 0 ? 0 : (size_t)open);
    slice tail = text;
    for (ptrdiff_t brace = slice_find_char(tail, '}'); brace >= 0;
         brace = slice_find_char(tail, '}'))
        tail = slice_from(tail, (size_t)brace + 1);
    if (open < 1 || slice_find(slice_from(text, (size_t)open + 2), SLICE("${")) >= 0 ||
        text.ptr[0] != '/' || slice_ends_with(text, SLICE("/")) || !is_path_text(head) ||
        !is_path_text(tail))
        reader_error(
            r, "value",
            "in a path it must look like \"/bot${credential.api_key}\": it begins with a slash, "
            "does not end with one, and has one ${...}, no query and nothing encoded");
    manifest_check_dots(r, "value", text);
}

static void read_auth_send(struct reader *parent, struct catalog_auth *auth)
{
    static const char *const locations[] = {"header", "query", "path", NULL};
    struct reader r;
    if (reader_enter(&r, parent, "send")) {
        auth->send_in = (unsigned)reader_choice(&r, "in", locations, SEND_IN_HEADER);
        if (auth->send_in != SEND_IN_PATH)
            auth->send_name = reader_text_required(&r, "name");
        else
            check_path_value(&r, json_get_str(r.object, SLICE("value")));
        auth->send_value = reader_template(&r, "value");
        if (!auth->send_value)
            reader_error(&r, NULL, "member \"value\" is missing or invalid");
        reader_finish(&r);
        return;
    }
    /* Without "send", tokens are sent as in RFC 6750 section 2.1. An API key has no standard
     * position. AUTH_BASIC makes its own header (RFC 7617). */
    bool is_oauth = auth->kind == AUTH_OAUTH2 || auth->kind == AUTH_OAUTH2_CLIENT_CREDENTIALS;
    if (is_oauth || auth->kind == AUTH_BEARER) {
        auth->send_name = SLICE("Authorization");
        auth->send_value = constant_template(parent, is_oauth ? "Bearer ${credential.access_token}"
                                                              : "Bearer ${credential.token}");
    } else if (auth->kind == AUTH_API_KEY) {
        reader_error(parent, NULL, "auth of type api_key must say where the key goes: \"send\"");
    }
}

static void read_auth_test(struct reader *parent, struct catalog_auth *auth)
{
    struct reader r;
    if (!reader_enter(&r, parent, "test"))
        return;
    auth->test_method = reader_text_required(&r, "method");
    auth->test_path = reader_text_required(&r, "path");
    manifest_check_dots(&r, "path", auth->test_path);
    auth->test_query = reader_member(&r, "query");
    auth->test_label = reader_expr(&r, "label");
    reader_finish(&r);
}

/* Reads an object with the purpose of each scope, for the page where a person connects the app. */
static const struct json *read_scope_words(struct reader *r, const char *name)
{
    const struct json *object = reader_member(r, name);
    bool is_good = !object || object->type == JSON_OBJECT;
    for (uint32_t i = 0; object && is_good && i < object->count; i++)
        is_good = json_str(&object->as.members[i].value).len > 0;
    if (!is_good)
        reader_error(r, name, "must be an object that says in words what each scope is for");
    return is_good ? object : NULL;
}

static void read_optional_scopes(struct reader *r, struct catalog_auth *auth)
{
    auth->optional_scopes = read_scope_words(r, "optional_scopes");
    if (auth->optional_scopes && auth->kind != AUTH_OAUTH2)
        reader_error(r, "optional_scopes", "can be requested only if auth is oauth2");
}

/* Reads the condition that a grant has ended. The default matches the error code of RFC 6749 5.2,
 * and the error texts of several vendors. */
static void read_gone(struct reader *r, struct catalog_auth *auth)
{
    bool is_oauth = auth->kind == AUTH_OAUTH2 || auth->kind == AUTH_OAUTH2_CLIENT_CREDENTIALS;
    auth->gone = reader_expr(r, "gone");
    if (is_oauth && !json_get(r->object, SLICE("gone")))
        auth->gone = expr_compile(r->arena,
                                  SLICE("contains(['invalid_grant', 'bad_refresh_token', "
                                        "'invalid_refresh_token', 'token_revoked'], body.error)"),
                                  NULL);
    else if (!is_oauth && auth->gone)
        reader_error(r, "gone", "describes the token endpoint's replies, which only OAuth has");
}

static void read_auth_oauth(struct reader *r, struct catalog_auth *auth)
{
    static const char *const token_auths[] = {"body", "basic", NULL};
    static const char *const token_bodies[] = {"form", "json", NULL};
    auth->authorize_url = reader_text(r, "authorize_url");
    auth->token_url = reader_text(r, "token_url");
    (void)reader_text(r, "revoke_url"); /* older manifests have this member; it has no effect */
    auth->scopes = reader_texts(r, "scopes");
    read_optional_scopes(r, auth);
    auth->scope_separator = reader_text(r, "scope_separator");
    if (auth->scope_separator.len == 0)
        auth->scope_separator = SLICE(" ");
    auth->authorize_params = reader_member(r, "authorize_params");
    auth->login_hint = manifest_read_login_hint(r);
    auth->token_by_basic = reader_choice(r, "token_auth", token_auths, 0) == 1;
    auth->token_as_json = reader_choice(r, "token_body", token_bodies, 0) == 1;
    /* PKCE is on by default (RFC 7636); a server that does not support it ignores the
     * parameters, as RFC 6749 section 3.1 requires. The member turns it off for servers that
     * refuse them. */
    auth->uses_pkce = reader_bool(r, "pkce", true);
    read_gone(r, auth);
    if (auth->authorize_url.len > 0)
        manifest_check_address(r, "authorize_url", auth->authorize_url);
    else if (auth->kind == AUTH_OAUTH2)
        reader_error(r, NULL, "oauth2 needs \"authorize_url\"");
    if (auth->token_url.len > 0)
        manifest_check_address(r, "token_url", auth->token_url);
    else if (auth->kind == AUTH_OAUTH2 || auth->kind == AUTH_OAUTH2_CLIENT_CREDENTIALS)
        reader_error(r, NULL, "oauth2 needs \"token_url\"");
}

static void read_auth(struct reader *parent, struct reader_path *path, const struct json *object,
                      struct catalog_auth *auth)
{
    struct reader r;
    if (!reader_init(&r, parent, path, object))
        return;
    int kind = reader_choice(&r, "type", auth_names, -1);
    if (!json_get(object, SLICE("type")))
        reader_error(&r, NULL, "member \"type\" is missing");
    /* After an error, any value is good enough for the rest of the pass. */
    auth->kind = kind < 0 ? AUTH_NONE : (enum catalog_auth_kind)kind;
    auth->name = reader_text(&r, "name");
    read_auth_oauth(&r, auth);
    read_auth_send(&r, auth);
    read_auth_test(&r, auth);
    manifest_read_form(&r, auth);
    reader_finish(&r);
}

/* A connection stores only the type of its credential (connection.auth_kind), so two choices of
 * one type could not be distinguished later. */
static void check_choice(struct reader *r, const struct catalog_integration *integration)
{
    const struct catalog_auth *last = &integration->auths[integration->auth_count - 1];
    if (last->kind == AUTH_NONE)
        reader_error(r, "auth", "\"none\" cannot be one of several ways to connect");
    if (last->name.len == 0)
        reader_error(r, "auth", "each of several ways to connect needs a \"name\" for people");
    for (size_t i = 0; i + 1 < integration->auth_count; i++)
        if (integration->auths[i].kind == last->kind)
            reader_error(r, "auth", "two ways to connect are of type %s", auth_names[last->kind]);
}

/* Reads one way to connect, or an array of them. */
static void read_auths(struct reader *r, struct catalog_integration *integration)
{
    const struct json *value = reader_member(r, "auth");
    bool is_choice = json_is(value, JSON_ARRAY);
    size_t count = is_choice ? value->count : 1;
    if (is_choice && (count == 0 || count > CATALOG_AUTHS_MAX)) {
        reader_error(r, "auth", "must be an object, or an array of 1 to %d", CATALOG_AUTHS_MAX);
        return;
    }
    integration->auths = ARENA_ARRAY(r->arena, struct catalog_auth, count);
    integration->auth_count = 0;
    for (size_t i = 0; integration->auths && i < count; i++) {
        struct reader_path path = {r->path, SLICE("auth"), is_choice ? (ptrdiff_t)i : -1};
        read_auth(r, &path, is_choice ? &value->as.items[i] : value,
                  &integration->auths[integration->auth_count++]);
        if (is_choice)
            check_choice(r, integration);
    }
    if (integration->auths)
        integration->auth = integration->auths[0];
}

static int compare_actions(const void *a, const void *b)
{
    const struct catalog_action *left = a, *right = b;
    return slice_cmp(left->action_id, right->action_id);
}

static void read_actions(struct reader *r, struct catalog_integration *integration)
{
    const struct json *array = reader_member(r, "actions");
    ASSERT(!integration->actions && integration->action_count == 0);
    if (!json_is(array, JSON_ARRAY) || array->count == 0 || array->count > CATALOG_ACTIONS_MAX) {
        reader_error(r, "actions", "must be an array of 1 to %d actions", CATALOG_ACTIONS_MAX);
        return;
    }
    integration->actions = ARENA_ARRAY(r->arena, struct catalog_action, array->count);
    if (!integration->actions)
        return;
    for (uint32_t i = 0; i < array->count; i++) {
        struct reader_path path = {r->path, SLICE("actions"), i};
        struct catalog_action *action = &integration->actions[integration->action_count++];
        action->source_index = i;
        action->integration = integration;
        manifest_read_action(r, &path, &array->as.items[i], action);
    }
    /* The actions are sorted for lookups by binary search; equal ids are then adjacent. */
    qsort(integration->actions, integration->action_count, sizeof(struct catalog_action),
          compare_actions);
    for (size_t i = 1; i < integration->action_count; i++)
        if (slice_eq(integration->actions[i].action_id, integration->actions[i - 1].action_id))
            reader_error(r, "actions", "two actions are called \"%.*s\"",
                         SLICE_ARG(integration->actions[i].action_id));
}

/* Whether all characters of text are allowed in a URL's host and port. */
static bool is_authority(slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!ascii_is_alnum(c) && slice_find_char(SLICE(".-_:[]"), c) < 0)
            return false;
    }
    return text.len > 0;
}

void manifest_check_address(const struct reader *r, const char *name, slice text)
{
    manifest_check_dots(r, name, text);
    if (slice_starts_with(text, SLICE("http://")))
        reader_warning(r, name,
                       "is plain http: others can read a credential on its way, and no call is "
                       "made unless an operator allows the host (--allow-host); write https://");
    else if (!slice_starts_with(text, SLICE("https://")))
        reader_error(r, name, "must begin with https://");
}

/* A value cannot be "." or "..", so a placeholder is treated as a letter. */
void manifest_check_dots(const struct reader *r, const char *name, slice text)
{
    struct buf plain;
    const char *why;
    buf_init(&plain, text.len + 1);
    while (text.len > 0) {
        ptrdiff_t open = slice_find(text, SLICE("${"));
        slice rest = slice_from(text, open < 0 ? text.len : (size_t)open + 2);
        ptrdiff_t end = open < 0 ? -1 : expr_closing_brace(rest, &why);
        buf_append(&plain, open < 0 ? text : slice_first(text, (size_t)open));
        if (end < 0) /* an unterminated placeholder is reported when the template is compiled */
            break;
        buf_append_char(&plain, 'x');
        text = slice_from(rest, (size_t)end + 1);
    }
    slice whole = buf_slice(&plain);
    if (path_has_dot_segment(slice_split(&whole, '?')))
        reader_error(r, name,
                     "has \".\" or \"..\" as a part of its path, which changes the path: write the "
                     "resulting path");
    buf_deinit(&plain);
}

/* The path that follows begins with a slash. A text that begins with a placeholder is checked
 * when a request is made, with the connection's value. http:// is for private networks and
 * tests. */
void manifest_check_base_url(const struct reader *r, slice text)
{
    ptrdiff_t scheme = slice_find(text, SLICE("://"));
    slice rest = slice_from(text, scheme < 0 ? 0 : (size_t)scheme + 3);
    size_t len = 0;
    if (!slice_starts_with(text, SLICE("${")))
        manifest_check_address(r, "base_url", text);
    else
        manifest_check_dots(r, "base_url", text);
    if (slice_ends_with(text, SLICE("/")))
        reader_error(r, "base_url", "must not end in a slash");
    else if (scheme >= 0 && slice_find(text, SLICE("${")) < 0) {
        while (len < rest.len && rest.ptr[len] != '/' && rest.ptr[len] != '?')
            len++;
        if (!is_authority(slice_first(rest, len)) || slice_find_char(rest, ' ') >= 0 ||
            slice_find_char(rest, '#') >= 0)
            reader_error(r, "base_url",
                         "must be https://host[:port][/prefix], without a user, a space or #");
        else if (slice_find_char(rest, '?') >= 0)
            reader_warning(r, "base_url",
                           "has a query, but the path of each request is added at its end; write "
                           "it in \"query\"");
    }
}

static void check_integration(struct reader *r, const struct catalog_integration *integration)
{
    if (integration->integration_id.len > 0 && !reader_is_id(integration->integration_id, ID_MAX))
        reader_error(r, "integration_id",
                     "must match [a-z][a-z0-9_]* and have at most %d characters", ID_MAX);
    if (!integration->base_url)
        reader_error(r, NULL, "member \"base_url\" is missing or invalid");
    else
        manifest_check_base_url(r, json_get_str(r->object, SLICE("base_url")));
}

/* Whether a placeholder is in the scheme or host, before the first slash of the path, so that a
 * connection's value decides where requests are sent. */
bool manifest_is_host_given(slice base)
{
    ptrdiff_t scheme = slice_find(base, SLICE("://")), placeholder = slice_find(base, SLICE("${"));
    size_t at = scheme < 0 ? 0 : (size_t)scheme + 3;
    while (at < base.len && base.ptr[at] != '/')
        at++;
    return placeholder >= 0 && (size_t)placeholder < at;
}

/* Accepts only the characters allowed in an SVG path's `d`: commands and numbers, so that it cannot
 * contain markup. Only a person can check how it looks. */
static slice read_icon(struct reader *r, const char *name)
{
    slice path = reader_text(r, name);
    bool is_path = path.len == 0 || path.ptr[0] == 'M' || path.ptr[0] == 'm';
    for (size_t i = 0; is_path && i < path.len; i++)
        is_path = ascii_is_digit(path.ptr[i]) ||
                  slice_find_char(SLICE("MmLlHhVvCcSsQqTtAaZz .,-"), path.ptr[i]) >= 0;
    if (!is_path || path.len > ICON_BYTES_MAX)
        reader_error(
            r, name,
            "must be the path of an SVG on a 16 by 16 grid, as in the attribute d: commands "
            "and numbers, M first, at most %d characters",
            ICON_BYTES_MAX);
    return path;
}

static void read_head(struct reader *r, struct catalog_integration *integration)
{
    static const char *const redirects[] = {"none", "same-origin", NULL};
    integration->integration_id = reader_text_required(r, "integration_id");
    integration->name = reader_text_required(r, "name");
    integration->description = reader_text_required(r, "description");
    integration->category = reader_text_required(r, "category");
    integration->docs_url = reader_text(r, "docs_url");
    integration->icon = read_icon(r, "icon");
    integration->tags = reader_texts(r, "tags");
    integration->base_url = reader_template(r, "base_url");
    integration->is_host_given = manifest_is_host_given(json_get_str(r->object, SLICE("base_url")));
    integration->headers = reader_pairs(r, "headers");
    integration->follows_redirects = reader_choice(r, "redirects", redirects, 0) == 1;
    integration->connection_schema =
        reader_schema(r, "connection_params", &integration->connection_params);
    read_auths(r, integration);
    manifest_read_identity(r, integration, &integration->identity);
    integration->scope_words = read_scope_words(r, "scope_words");
    manifest_read_limits(r, &integration->limits);
    integration->errors = manifest_read_errors(r, "errors");
    integration->not_done_statuses = manifest_read_not_done(r);
}

/* The order of calls in read_head matters if one member depends on another: identity reads auth,
 * and each action reads the integration's id. */
struct catalog_integration *manifest_read(struct arena *arena, slice source,
                                          const struct json *document,
                                          struct catalog_report *report)
{
    struct reader top = {.report = report, .arena = arena, .source = source};
    struct reader r;
    struct catalog_integration *integration = ARENA_NEW(arena, struct catalog_integration);
    if (!reader_init(&r, &top, NULL, document) || !integration)
        return NULL;
    integration->document = document;
    read_head(&r, integration);
    check_integration(&r, integration);
    read_actions(&r, integration);
    reader_finish(&r);
    return integration;
}

void manifest_reread(struct arena *arena, const struct json *document,
                     struct catalog_integration *integration, struct catalog_report *report)
{
    struct reader top = {.report = report, .arena = arena, .source = integration->integration_id};
    struct reader r;
    /* the heads of the actions were read before */
    ASSERT(integration->actions && !integration->is_open);
    if (reader_init(&r, &top, NULL, document))
        read_head(&r, integration);
}

void manifest_reread_action(struct arena *arena, const struct json *object,
                            struct catalog_action *action, struct catalog_report *report)
{
    struct reader top = {
        .report = report, .arena = arena, .source = action->integration->integration_id};
    ASSERT(action->integration->is_open && !action->is_open);
    manifest_read_action(&top, NULL, object, action);
}
