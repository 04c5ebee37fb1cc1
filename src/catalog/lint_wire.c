/*
 * Checks names in a manifest that the provider must know: headers, and the members of a credential.
 * A wrong name would fail every call that uses it, so it is found here.
 */

#include "catalog/manifest.h"

/* ---- headers ---- */

bool manifest_is_header_name(slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        /* A token of RFC 9110 section 5.6.2. Any other character could end the header's line. */
        if (c <= ' ' || c >= 127 || strchr("\"(),/:;<=>?@[\\]{}", c))
            return false;
    }
    return name.len > 0;
}

bool manifest_is_own_header(slice name)
{
    static const char *const names[] = {
        "Host", "Content-Length", "Transfer-Encoding", "Connection", "Expect",
        "TE",   "Trailer",        "Upgrade",           "Keep-Alive", "Proxy-Connection"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (slice_eq_nocase(name, slice_cstr(names[i])))
            return true;
    return false;
}

void manifest_lint_header(const struct reader *r, const char *member, slice name)
{
    slice excerpt = slice_first_utf8(name, 80);
    if (!manifest_is_header_name(name))
        reader_error(r, member,
                     "\"%.*s\" is not a valid header name: write only letters, digits, - and _",
                     SLICE_ARG(excerpt));
    else if (manifest_is_own_header(name))
        reader_error(r, member, "sluice writes the header \"%.*s\" itself: leave it out",
                     SLICE_ARG(excerpt));
}

/* ---- credentials ---- */

static const struct catalog_credential credentials[] = {
    [AUTH_NONE] = {.advice = "nothing", .required = "", .optional = "", .form = "nothing"},
    [AUTH_OAUTH2] = {.advice = "${credential.access_token}",
                     .required = "access_token",
                     .optional = "refresh_token expires_at expires_in scope token_type",
                     .form = "access_token, and optionally refresh_token, expires_at or "
                             "expires_in, scope and token_type"},
    [AUTH_OAUTH2_CLIENT_CREDENTIALS] =
        {.advice = "${credential.access_token}",
         .required = "",
         .optional = "client_id client_secret access_token expires_at expires_in",
         .form = "client_id and client_secret, or access_token and optionally expires_at, or "
                 "nothing if `sluice oauth-clients` has a client for the app"},
    [AUTH_API_KEY] = {"${credential.api_key}", "api_key", "", "api_key"},
    [AUTH_BEARER] = {"${credential.token}", "token", "", "token"},
    [AUTH_BASIC] = {"${credential.username} and ${credential.password}", "username password", "",
                    "username and password"},
};

const struct catalog_credential *catalog_credential_of(enum catalog_auth_kind kind)
{
    ASSERT(kind < ARRAY_LEN(credentials));
    return &credentials[kind];
}

bool catalog_credential_has(enum catalog_auth_kind kind, slice member)
{
    const struct catalog_credential *credential = catalog_credential_of(kind);
    return slice_has_word(slice_cstr(credential->required), member) ||
           slice_has_word(slice_cstr(credential->optional), member);
}

/* The members of the credential that one `${...}` reads. */
struct credential_use {
    enum catalog_auth_kind kind;
    slice unknown; /* a member that the type does not have */
    bool is_known; /* reads another existing member, or the whole credential */
};

static bool on_credential_path(void *user, const slice *names, size_t count)
{
    struct credential_use *use = user;
    if (count == 0 || !slice_eq_cstr(names[0], "credential"))
        return true;
    if (count == 1 || catalog_credential_has(use->kind, names[1]))
        use->is_known = true;
    else if (use->unknown.len == 0)
        use->unknown = names[1];
    return true;
}

struct send_lint {
    const struct reader *reader;
    const char *member;
    enum catalog_auth_kind kind;
};

static bool on_send_expr(void *user, const struct expr *expr, slice where)
{
    const struct send_lint *lint = user;
    struct credential_use use = {.kind = lint->kind};
    (void)where;
    expr_root_names(expr, on_credential_path, &use);
    if (use.unknown.len == 0)
        return true;
    slice name = slice_first_utf8(use.unknown, 80);
    if (!use.is_known)
        reader_error(lint->reader, lint->member,
                     "a credential of type %s has no \"%.*s\": no request could be made; write %s",
                     catalog_auth_name(lint->kind), SLICE_ARG(name),
                     credentials[lint->kind].advice);
    else
        reader_warning(
            lint->reader, lint->member,
            "a credential of type %s has no \"%.*s\", so the expression is null here; write %s",
            catalog_auth_name(lint->kind), SLICE_ARG(name), credentials[lint->kind].advice);
    return true;
}

void manifest_lint_send(const struct reader *r, const char *member, const struct catalog_auth *auth)
{
    struct send_lint lint = {r, member, auth->kind};
    if (!auth->send_value)
        return;
    if (auth->kind == AUTH_NONE)
        reader_warning(r, member, "auth of type none sends nothing: omit \"send\"");
    else
        expr_template_each_expr(auth->send_value, on_send_expr, &lint);
}
