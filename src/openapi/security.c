/*
 * Security schemes to `auth`. A connection has one credential, so one scheme is chosen: of those
 * that the document (or, if it requires none, its operations) requires, the first in the order
 * below.
 *
 * The order of enum rank: a person's own login before a token that a person has to create, a token
 * before a key, and anything before a password; client credentials come last, because they do not
 * act for a person. An operation that requires another scheme is imported with a line in the
 * report.
 */
#include "catalog/manifest.h"
#include "openapi/internal.h"

enum { SCOPES_MAX = 200, SCOPE_WORDS_MAX = 200 };

enum rank { RANK_NONE, RANK_CLIENT, RANK_BASIC, RANK_KEY, RANK_BEARER, RANK_CODE };

static const struct json *find_scheme(struct import *im, slice name)
{
    const struct json *schemes = JSON_GET(JSON_GET(im->document, "components"), "securitySchemes");
    return import_resolve(im, json_get(schemes, name));
}

/* Whether an API key can be sent in that place and under that name. A cookie's name is a token like
 * a header's (RFC 6265 section 4.1.1). */
static bool is_key_sendable(const struct json *scheme)
{
    slice location = json_get_str(scheme, SLICE("in")), name = json_get_str(scheme, SLICE("name"));
    if (slice_eq_cstr(location, "query"))
        return name.len > 0;
    return manifest_is_header_name(name) &&
           (slice_eq_cstr(location, "cookie") ||
            (slice_eq_cstr(location, "header") && !manifest_is_own_header(name)));
}

static enum rank rank_of(const struct json *scheme)
{
    slice type = json_get_str(scheme, SLICE("type")), http = json_get_str(scheme, SLICE("scheme"));
    const struct json *flows = JSON_GET(scheme, "flows");
    if (slice_eq_cstr(type, "oauth2"))
        return JSON_GET(flows, "authorizationCode")   ? RANK_CODE
               : JSON_GET(flows, "clientCredentials") ? RANK_CLIENT
                                                      : RANK_NONE;
    if (slice_eq_cstr(type, "apiKey"))
        return is_key_sendable(scheme) ? RANK_KEY : RANK_NONE;
    if (slice_eq_cstr(type, "http"))
        return slice_eq_nocase(http, SLICE("bearer"))  ? RANK_BEARER
               : slice_eq_nocase(http, SLICE("basic")) ? RANK_BASIC
                                                       : RANK_NONE;
    return RANK_NONE;
}

static void consider(struct import *im, slice name, enum rank *best)
{
    enum rank rank = rank_of(find_scheme(im, name));
    if (rank > *best) {
        *best = rank;
        im->scheme_name = name;
    }
}

/* Considers requirements with a single scheme. An object with several schemes requires all of
 * them at once (OpenAPI "Security Requirement Object"), which a single credential cannot meet. */
static void consider_list(struct import *im, const struct json *security, enum rank *best)
{
    for (uint32_t i = 0; json_is(security, JSON_ARRAY) && i < security->count; i++) {
        const struct json *item = &security->as.items[i];
        if (item->type == JSON_OBJECT && item->count == 1)
            consider(im, json_str(&item->as.members[0].key), best);
    }
}

static void consider_operations(struct import *im, enum rank *best)
{
    const struct json *paths = JSON_GET(im->document, "paths");
    for (uint32_t i = 0; json_is(paths, JSON_OBJECT) && i < paths->count; i++) {
        const struct json *item = &paths->as.members[i].value;
        /* All members are visited; only operations have "security". */
        for (uint32_t j = 0; item->type == JSON_OBJECT && j < item->count; j++)
            consider_list(im, JSON_GET(&item->as.members[j].value, "security"), best);
    }
}

/* The scope's description is shown when a person is asked to consent. */
static void put_scope(struct import *im, struct json *names, const struct json_member *scope,
                      bool is_asked)
{
    slice words = import_clip(im, json_str(&scope->value), SCOPE_WORDS_MAX);
    json_array_push(im->arena, names, scope->key);
    if (is_asked && words.len > 0)
        json_object_put(im->arena, &im->scope_words, json_str(&scope->key), json_string(words));
}

static void put_oauth(struct import *im, const struct json *scheme, bool is_code)
{
    const struct json *flow = json_get(JSON_GET(scheme, "flows"), is_code
                                                                      ? SLICE("authorizationCode")
                                                                      : SLICE("clientCredentials"));
    const struct json *scopes = JSON_GET(flow, "scopes");
    struct json names = json_array();
    im->scope_words = json_object();
    import_set_text(im, &im->auth, "type",
                    is_code ? SLICE("oauth2") : SLICE("oauth2_client_credentials"));
    if (is_code)
        import_set_text(im, &im->auth, "authorize_url",
                        json_get_str(flow, SLICE("authorizationUrl")));
    import_set_text(im, &im->auth, "token_url", json_get_str(flow, SLICE("tokenUrl")));
    for (uint32_t i = 0; json_is(scopes, JSON_OBJECT) && i < scopes->count; i++)
        /* The manifest limits their number; the report says that all scopes are requested. */
        if (i < SCOPES_MAX)
            put_scope(im, &names, &scopes->as.members[i], is_code);
    import_set(im, &im->auth, "scopes", names);
    if (names.count > 1)
        import_note(im,
                    "all %u scopes are requested when connecting; choose fewer in the "
                    "overrides (integration.auth)",
                    names.count);
}

static void put_api_key(struct import *im, const struct json *scheme)
{
    slice location = json_get_str(scheme, SLICE("in")), name = json_get_str(scheme, SLICE("name"));
    struct json send = json_object();
    bool is_cookie = slice_eq_cstr(location, "cookie");
    /* An API key in a cookie is a Cookie header with one pair (RFC 6265 section 4.2). */
    import_set_text(im, &im->auth, "type", SLICE("api_key"));
    import_set_text(im, &send, "in",
                    slice_eq_cstr(location, "query") ? SLICE("query") : SLICE("header"));
    import_set_text(im, &send, "name", is_cookie ? SLICE("Cookie") : name);
    import_set_text(im, &send, "value",
                    is_cookie ? arena_printf(im->arena, "%.*s=${credential.api_key}",
                                             SLICE_ARG(import_literal(im, name)))
                              : SLICE("${credential.api_key}"));
    import_set(im, &im->auth, "send", send);
}

static bool is_address(slice url)
{
    return slice_starts_with(url, SLICE("https://"));
}

void import_security(struct import *im)
{
    const struct json *given = JSON_GET(im->integration, "auth");
    enum rank best = RANK_NONE;
    im->security = JSON_GET(im->document, "security");
    /* Tries the document's own requirements first; those of operations only if none of these
     * fits. */
    consider_list(im, im->security, &best);
    if (best == RANK_NONE)
        consider_operations(im, &best);
    if (given) {
        im->auth = *given;
        return;
    }
    const struct json *scheme = find_scheme(im, im->scheme_name);
    im->auth = json_object();
    switch (best) {
    case RANK_CODE:
    case RANK_CLIENT:
        put_oauth(im, scheme, best == RANK_CODE);
        break;
    case RANK_KEY:
        put_api_key(im, scheme);
        break;
    case RANK_BEARER:
        import_set_text(im, &im->auth, "type", SLICE("bearer"));
        break;
    case RANK_BASIC:
        import_set_text(im, &im->auth, "type", SLICE("basic"));
        break;
    case RANK_NONE:
        import_set_text(im, &im->auth, "type", SLICE("none"));
        import_note(im, "no usable security scheme is described, so requests are sent without a "
                        "credential; give integration.auth in the overrides");
        return;
    }
    /* Relative URLs are legal (OpenAPI 3.1), but relative to a server that only the connection
     * knows. */
    bool is_oauth = best == RANK_CODE || best == RANK_CLIENT;
    if (is_oauth &&
        (!is_address(json_get_str(&im->auth, SLICE("token_url"))) ||
         (best == RANK_CODE && !is_address(json_get_str(&im->auth, SLICE("authorize_url")))))) {
        im->auth = json_object();
        import_set_text(im, &im->auth, "type", SLICE("bearer"));
        import_note(im, "the addresses of the OAuth flow are not https, so the person who "
                        "connects is asked for a token; give integration.auth in the overrides");
    }
    import_note(im, "the security scheme \"%.*s\" is used", SLICE_ARG(im->scheme_name));
}

/* ---- an operation's scopes ---- */

struct scope_state {
    struct json scopes;
    bool is_met;  /* the connection's credential meets some requirement, or none is needed */
    bool is_open; /* that requirement has no scope, or more than can be expressed */
};

static void read_requirement(struct import_op *op, const struct json *item,
                             struct scope_state *state)
{
    /* Requirements are alternatives: meeting one is enough, and `{}` is always met. */
    if (item->type != JSON_OBJECT || item->count > 1)
        return;
    if (item->count == 0) {
        state->is_met = state->is_open = true;
        return;
    }
    const struct json *names = &item->as.members[0].value;
    if (!slice_eq(json_str(&item->as.members[0].key), op->im->scheme_name))
        return;
    state->is_met = true;
    if (!json_is(names, JSON_ARRAY) || names->count != 1 ||
        names->as.items[0].type != JSON_STRING) {
        state->is_open = true;
        if (json_is(names, JSON_ARRAY) && names->count > 1)
            import_weaken(op,
                          "it needs several scopes at once, which are not checked before the call");
        return;
    }
    json_array_push(op->im->arena, &state->scopes, names->as.items[0]);
}

struct json import_scopes(struct import_op *op)
{
    const struct json *given = JSON_GET(op->override, "scopes");
    const struct json *security = JSON_GET(op->node, "security");
    struct scope_state state = {.scopes = json_array()};
    if (given)
        return *given;
    if (!security)
        security = op->im->security;
    if (!json_is(security, JSON_ARRAY) || security->count == 0 ||
        JSON_GET(op->im->integration, "auth"))
        return state.scopes;
    for (uint32_t i = 0; i < security->count; i++)
        read_requirement(op, &security->as.items[i], &state);
    if (!state.is_met)
        import_weaken(op, "it needs a credential that the connection does not have");
    /* A manifest's `scopes` mean that any one of them suffices. If a requirement without a scope
     * is also met, checking scopes would refuse calls that the provider allows. */
    return state.is_met && !state.is_open ? state.scopes : json_array();
}
