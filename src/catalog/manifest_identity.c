/*
 * Reads how to find the user of a connection: the manifest's `identity`, and how to request a
 * certain login from an authorization server (contrib/integrations/README.md "identity", auth).
 *
 * An identity is read when a connection is made, so that a person sees the login, and a link for
 * one email address refuses another. Email and subject identify the user; the label is only for
 * people.
 */
#include "catalog/manifest.h"

enum { HINTS_MAX = 4 };

/* Whether text names one of the three members of struct catalog_identity. */
static bool is_member(slice text)
{
    return slice_eq_cstr(text, "email") || slice_eq_cstr(text, "subject") ||
           slice_eq_cstr(text, "label");
}

const struct json *manifest_read_login_hint(struct reader *r)
{
    const struct json *hint = reader_member(r, "login_hint");
    bool is_good = !hint || (hint->type == JSON_OBJECT && hint->count <= HINTS_MAX);
    for (uint32_t i = 0; hint && is_good && i < hint->count; i++)
        is_good = is_member(json_str(&hint->as.members[i].value));
    if (is_good)
        return hint;
    reader_error(r, "login_hint",
                 "must be an object of query parameters of authorize_url, each \"email\", "
                 "\"subject\" or \"label\"");
    return NULL;
}

/* Reads the source of the three members: the ID token if `from` says so, else the reply to
 * `request`, else the reply to auth's test request. */
static void read_source(struct reader *r, const struct catalog_integration *integration,
                        struct catalog_identity *identity)
{
    const struct catalog_auth *auth = catalog_auth_by(integration, AUTH_OAUTH2);
    static const char *const sources[] = {"id_token", NULL};
    bool is_token = reader_choice(r, "from", sources, -1) == 0;
    bool has_request = json_get(r->object, SLICE("request")) != NULL;
    if (has_request)
        manifest_read_request(r, &identity->request, false);
    else
        /* Marks the member as known, so that reader_finish does not report it as misspelled. */
        (void)reader_member(r, "request");
    identity->scopes = reader_texts(r, "scopes");
    identity->from = is_token ? IDENTITY_ID_TOKEN : has_request ? IDENTITY_REQUEST : IDENTITY_TEST;
    if (is_token && has_request)
        reader_error(r, NULL, "takes either \"request\" or \"from\", not both");
    if (is_token && (!auth || (!json_has_text(auth->scopes, SLICE("openid")) &&
                               !json_has_text(identity->scopes, SLICE("openid")))))
        reader_error(r, "from",
                     "there is an ID token only if auth is oauth2 and requests the scope openid: "
                     "add openid to \"scopes\"");
    for (size_t i = 0; identity->from == IDENTITY_TEST && i < integration->auth_count; i++)
        if (integration->auths[i].test_path.len == 0)
            reader_error(r, NULL,
                         "needs a \"request\": auth has no \"test\" whose reply it could read");
    if (identity->scopes && !auth)
        reader_error(r, "scopes", "can be requested only if auth is oauth2");
}

/* Makes one expression for all three members, so that a reply is evaluated once. */
static const struct expr *make_output(struct reader *r)
{
    static const char *const names[] = {"email", "subject", "label"};
    struct buf text;
    /* This is only an upper limit; expr_compile has a lower limit for its source, which the caller
     * reports. */
    buf_init(&text, 64 * 1024);
    buf_append_char(&text, '{');
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        slice source = json_get_str(r->object, slice_cstr(names[i]));
        buf_printf(&text, "%s%s: (%.*s)", i ? ", " : "", names[i],
                   SLICE_ARG(source.len > 0 ? source : SLICE("`null`")));
    }
    buf_append_char(&text, '}');
    const struct expr *expr = buf_is_ok(&text) ? expr_compile(r->arena, buf_slice(&text), NULL)
                                               : NULL;
    buf_deinit(&text);
    return expr;
}

void manifest_read_identity(struct reader *parent, const struct catalog_integration *integration,
                            struct catalog_identity *identity)
{
    struct reader r;
    if (!reader_enter(&r, parent, "identity"))
        return;
    read_source(&r, integration, identity);
    identity->email = reader_expr(&r, "email");
    identity->subject = reader_expr(&r, "subject");
    identity->label = reader_expr(&r, "label");
    reader_finish(&r);
    if (!json_get(r.object, SLICE("email")) && !json_get(r.object, SLICE("subject")))
        reader_error(&r, NULL,
                     "needs \"email\" or \"subject\": a label alone does not identify a login");
    if (!identity->email && !identity->subject) {
        identity->from = IDENTITY_NONE; /* reported by reader_expr */
        return;
    }
    identity->output = make_output(&r);
    if (!identity->output)
        reader_error(&r, NULL, "email, subject and label are too long together");
}
