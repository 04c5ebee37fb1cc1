/*
 * A credential that its owner has already; see credential.h. It is checked against the manifest's
 * kind of auth: a missing member would otherwise fail only at the first call of the app.
 */
#include "call/credential.h"

#include "base/clock.h"
#include "connect/oauth_token.h"

enum {
    CREDENTIAL_ARENA_BYTES_MAX = 1024 * 1024,
    EXPIRES_IN_S_MAX = 10 * 365 * 86400,
    REPORT_BYTES_MAX = 400,
};

/* ---- checking ---- */

/* The value becomes part of a header, so it must be printable, without line ends. A password may
 * be empty. */
static bool is_header_text(slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7f)
            return false;
    return text.len > 0;
}

/* Returns whether the member is a duration as token endpoints return it: in seconds from now. */
static bool is_span(slice name, const struct json *value)
{
    int64_t seconds;
    return slice_eq_cstr(name, "expires_in") && json_to_i64(value, &seconds) && seconds > 0 &&
           seconds <= EXPIRES_IN_S_MAX;
}

static int check_credential_members(enum catalog_auth_kind kind, const struct json *object,
                                    struct err *err)
{
    const struct catalog_credential *known = catalog_credential_of(kind);
    slice required = slice_cstr(known->required);
    for (uint32_t i = 0; i < object->count; i++) {
        const struct json_member *pair = &object->as.members[i];
        slice name = json_str(&pair->key), value = json_str(&pair->value);
        /* An unknown member is probably misspelt, so it is refused. Its value is never printed. */
        if (!catalog_credential_has(kind, name))
            return err_set(err, ERR_INVALID,
                           "the credential has a member \"%.*s\"; the members are %s",
                           SLICE_ARG(slice_first_utf8(name, 40)), known->form);
        if (is_span(name, &pair->value))
            continue;
        if (slice_eq_cstr(name, "expires_in"))
            return err_set(err, ERR_INVALID, "expires_in must be a number of seconds");
        bool may_be_empty = slice_eq_cstr(name, "password");
        if (!value.ptr || (!is_header_text(value) && !(may_be_empty && value.len == 0)))
            return err_set(err, ERR_INVALID, "%.*s must be a string without control characters%s",
                           /* The message names the member, never its value. */
                           SLICE_ARG(name), may_be_empty ? "" : ", and not empty");
    }
    while (required.len > 0) {
        slice name = slice_split(&required, ' ');
        if (!json_get(object, name))
            return err_set(err, ERR_INVALID, "the credential lacks %.*s; the members are %s",
                           SLICE_ARG(name), known->form);
    }
    return OK;
}

int call_credential_check(enum catalog_auth_kind kind, slice text, struct arena *arena,
                          int64_t *expires_at, struct err *err)
{
    const char *form = catalog_credential_of(kind)->form;
    *expires_at = 0;
    if (kind == AUTH_NONE)
        return err_set(err, ERR_REFUSED, "this integration needs no connection: it has no auth");
    const struct json *object = json_parse(arena, text, &json_limits_request, err);
    if (!object)
        return err_prefix(err, "the credential is not JSON");
    if (!json_is(object, JSON_OBJECT))
        return err_set(err, ERR_INVALID, "the credential must be a JSON object of %s", form);
    if (check_credential_members(kind, object, err) != OK)
        return (int)err->code;
    /* If a file has both, expires_at takes precedence. */
    slice expiry = json_get_str(object, SLICE("expires_at"));
    if (expiry.ptr && !time_parse(expiry, expires_at))
        return err_set(err, ERR_INVALID, "expires_at must be a time such as 2027-01-31T00:00:00Z");
    int64_t span_s = json_get_i64(object, SLICE("expires_in"), 0);
    if (!expiry.ptr && span_s > 0)
        *expires_at = clock_shared_us() + span_s * 1000000;
    bool has_id = json_get(object, SLICE("client_id")) != NULL;
    /* Neither can be used without the other; a missing one would be noticed only at the first
     * call. */
    if (has_id != (json_get(object, SLICE("client_secret")) != NULL))
        return err_set(err, ERR_INVALID,
                       "client_id and client_secret go together; the members are %s", form);
    return OK;
}

int call_params_check(const struct catalog_integration *integration, slice text,
                      struct arena *arena, struct err *err)
{
    const struct schema *schema = integration->connection_schema;
    /* Missing params count as an empty object: the schema may still require members. */
    if (!text.ptr)
        text = SLICE("{}");
    const struct json *params = json_parse(arena, text, &json_limits_request, err);
    if (!params)
        return err_prefix(err, "params");
    if (!json_is(params, JSON_OBJECT))
        return err_set(err, ERR_INVALID, "params must be a JSON object");
    if (!schema && params->count > 0)
        return err_set(err, ERR_INVALID, "%.*s takes no params",
                       SLICE_ARG(integration->integration_id));
    struct schema_report report;
    schema_report_init(&report, arena, SLICE("params"));
    if (!schema || schema_validate(schema, params, &report))
        return OK;
    struct buf words;
    buf_init(&words, REPORT_BYTES_MAX + 64 * 1024);
    /* The report contains pointers and rules, not values. */
    schema_report_write(&report, &words);
    (void)err_set(err, ERR_INVALID, "%.*s",
                  SLICE_ARG(slice_first_utf8(buf_slice(&words), REPORT_BYTES_MAX)));
    buf_deinit(&words);
    return ERR_INVALID;
}

/* ---- an order ---- */

/* Sets *scopes to the scopes, separated by single spaces; SLICE_NONE if none are given. */
static int read_scopes(slice text, slice *scopes, struct arena *arena, struct err *err)
{
    struct buf out;
    *scopes = SLICE_NONE;
    if (!text.ptr)
        return OK;
    buf_init(&out, 16 * 1024);
    while (text.len > 0) {
        slice one = slice_trim(slice_split(&text, ' '));
        /* Scopes are compared word by word later, so a scope in any other form could never
         * match. */
        if (slice_printable(one, '!') < one.len) {
            buf_deinit(&out);
            return err_set(err, ERR_INVALID,
                           "scopes are words of printable ASCII, separated by spaces");
        }
        if (out.len > 0 && one.len > 0)
            buf_append_char(&out, ' ');
        buf_append(&out, one);
    }
    bool is_ok = buf_is_ok(&out);
    if (is_ok)
        *scopes = arena_dup(arena, buf_slice(&out));
    buf_deinit(&out);
    return is_ok && scopes->ptr ? OK : err_set(err, ERR_LIMIT, "the scopes are too long");
}

/* Finds the way to connect that the order names; without a name it is the manifest's first. */
static int read_auth(const struct call_order *order, const struct catalog_auth **auth,
                     struct err *err)
{
    const struct catalog_integration *integration = order->integration;
    *auth = catalog_auth_of(integration, order->auth);
    /* catalog_auth_of falls back to the app's first way, so an unknown name is detected here. */
    if (!order->auth.ptr || slice_eq_cstr(order->auth, catalog_auth_name((*auth)->kind)))
        return OK;
    struct buf names;
    buf_init(&names, 256);
    for (size_t i = 0; i < integration->auth_count; i++)
        buf_printf(&names, "%s%s", i ? " or " : "", catalog_auth_name(integration->auths[i].kind));
    (void)err_set(err, ERR_INVALID, "%s must be %.*s for %.*s",
                  order->auth_name ? order->auth_name : "auth", SLICE_ARG(buf_slice(&names)),
                  SLICE_ARG(integration->name));
    buf_deinit(&names);
    return ERR_INVALID;
}

/* Sets expires_at, and the scopes from a token endpoint's reply if the order has none. */
static int read_credential(const struct call_order *order, enum catalog_auth_kind kind,
                           struct arena *texts, struct call_enrol_request *request, struct err *err)
{
    struct connect_save_request *save = &request->save;
    struct arena arena;
    /* A short-lived arena, because it holds a copy of the credential. */
    arena_init(&arena, CREDENTIAL_ARENA_BYTES_MAX);
    int result = call_credential_check(kind, order->credential, &arena, &save->expires_at, err);
    const struct json *object =
        result == OK ? json_parse(&arena, order->credential, &json_limits_request, NULL) : NULL;
    if (result == OK && !save->scopes.ptr)
        save->scopes = oauth_scopes_normal(json_get_str(object, SLICE("scope")), texts);
    bool is_renewable = json_get_str(object, SLICE("refresh_token")).len > 0 ||
                        json_get_str(object, SLICE("client_id")).len > 0;
    request->is_expired = is_renewable && save->expires_at != 0 &&
                          save->expires_at <= clock_shared_us();
    arena_deinit(&arena);
    return result;
}

int call_order_check(const struct call_order *order, struct arena *arena, struct err *err)
{
    const struct catalog_auth *auth;
    slice scopes;
    int status = read_auth(order, &auth, err);
    return status == OK ? read_scopes(order->scopes, &scopes, arena, err) : status;
}

int call_order_read(const struct call_order *order, struct arena *arena,
                    struct call_enrol_request *request, struct err *err)
{
    const struct catalog_auth *auth;
    struct connect_save_request *save = &request->save;
    if (read_auth(order, &auth, err) != OK ||
        read_scopes(order->scopes, &save->scopes, arena, err) != OK ||
        read_credential(order, auth->kind, arena, request, err) != OK)
        return (int)err->code;
    if (!save->connection_id &&
        call_params_check(order->integration, order->params, arena, err) != OK)
        return (int)err->code;
    save->integration_id = order->integration->integration_id;
    save->auth_kind = slice_cstr(catalog_auth_name(auth->kind));
    save->params = order->params;
    save->credential = order->credential;
    return OK;
}
