/*
 * Credentials; see credential.h. They are first checked against the manifest's kind of auth: a
 * missing member would otherwise fail only at the first call of the app.
 */
#include "cli/credential.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/change.h"
#include "cli/output.h"
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

int credential_check(enum catalog_auth_kind kind, slice text, struct arena *arena,
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

/* ---- reading ---- */

int credential_read(const char *path, const char *what, struct buf *out, struct err *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    if (!file)
        return err_set(err, ERR_IO, "cannot open %s: %s", path, strerror(errno));
    size_t bytes_max = out->bytes_max - 1;
    char *room = buf_reserve(out, out->bytes_max);
    int result = OK;
    if (!room)
        result = err_set(err, ERR_NOMEM, "out of memory");
    size_t len = room ? fread(room, 1, out->bytes_max, file) : 0;
    if (room && ferror(file))
        result = err_set(err, ERR_IO, "cannot read %s: %s", path, strerror(errno));
    else if (len > bytes_max)
        result = err_set(err, ERR_LIMIT, "%s must have at most %zu bytes", what, bytes_max);
    else if (room && len == 0)
        result = err_set(err, ERR_SYNTAX, "%s is empty; it should hold %s",
                         is_stdin ? "stdin" : path, what);
    buf_added(out, len);
    if (!is_stdin)
        (void)fclose(file);
    return result;
}

/* ---- connecting ---- */

int credential_params_check(struct session *session, const struct catalog_integration *integration,
                            slice text)
{
    const struct schema *schema = integration->connection_schema;
    /* Missing params count as an empty object: the schema may still require members. */
    if (!text.ptr)
        text = SLICE("{}");
    const struct json *params =
        json_parse(&session->arena, text, &json_limits_request, &session->err);
    if (!params)
        return err_prefix(&session->err, "params");
    if (!json_is(params, JSON_OBJECT))
        return err_set(&session->err, ERR_INVALID, "params must be a JSON object");
    if (!schema && params->count > 0)
        return err_set(&session->err, ERR_INVALID, "%.*s takes no params",
                       SLICE_ARG(integration->integration_id));
    struct schema_report report;
    schema_report_init(&report, &session->arena, SLICE("params"));
    if (!schema || schema_validate(schema, params, &report))
        return OK;
    struct buf words;
    buf_init(&words, REPORT_BYTES_MAX + 64 * 1024);
    /* The report contains pointers and rules, not values. */
    schema_report_write(&report, &words);
    (void)err_set(&session->err, ERR_INVALID, "%.*s",
                  SLICE_ARG(slice_first_utf8(buf_slice(&words), REPORT_BYTES_MAX)));
    buf_deinit(&words);
    return ERR_INVALID;
}

/* Sets the request's expires_at, and its scopes from a token endpoint's reply if the order has
 * none. */
static int check_credential(struct session *session, const struct credential_order *order,
                            struct connect_save_request *request)
{
    struct arena arena;
    /* A short-lived arena, because it holds a copy of the credential. */
    arena_init(&arena, CREDENTIAL_ARENA_BYTES_MAX);
    int result = credential_check(order->auth->kind, order->credential, &arena,
                                  &request->expires_at, &session->err);
    if (result == OK && !request->scopes.ptr) {
        const struct json *object =
            json_parse(&arena, order->credential, &json_limits_request, NULL);
        request->scopes =
            oauth_scopes_normal(json_get_str(object, SLICE("scope")), &session->arena);
    }
    arena_deinit(&arena);
    return result;
}

int credential_connect(struct session *session, const struct credential_order *order, int64_t *id)
{
    /* All checks that do not need the database are made before anything is stored. */
    const struct catalog_integration *integration = order->integration;
    struct connect_save_request request = {
        .account_id = order->account_id,
        .integration_id = integration->integration_id,
        .auth_kind = slice_cstr(catalog_auth_name(order->auth->kind)),
        .label = order->label,
        .params = order->params,
        .credential = order->credential,
        .scopes = order->scopes,
    };
    if (check_credential(session, order, &request) != OK ||
        credential_params_check(session, integration, order->params) != OK ||
        output_name_check(order->label, "a label", CONNECTION_LABEL_MAX, &session->err) != OK)
        return (int)session->err.code;
    return change_save(session, &request, order->is_default, id);
}
