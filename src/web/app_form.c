/*
 * The form that connects an app, or gives a connection a new grant.
 */
#include "http/url.h"
#include "web/app.h"
#include "web/once.h"

/* Authorization servers redirect to further hosts of their own (a company's sign-in), and
 * browsers apply form-action to each of those redirects. Any https host is allowed then. */
void app_allow_forms(struct web_request *request, const struct catalog_integration *app)
{
    struct url url;
    char *origin = arena_alloc_text(&request->serve.op.arena, URL_ORIGIN_MAX + 1);
    const struct catalog_auth *auth = catalog_auth_by(app, AUTH_OAUTH2);
    if (auth && slice_starts_with(auth->authorize_url, SLICE("https://")))
        web_allow_form_to(request, SLICE("https:"));
    else if (auth && origin && url_parse(auth->authorize_url, &url, NULL) == OK)
        web_allow_form_to(request, url_origin(&url, origin));
}

#define PARAM "param." /* prefix of the app's parameters */

struct form {
    struct web_request *request;
    struct json_writer *w;
    slice suffix; /* makes the ids of several forms of a page distinct */
    bool is_sent; /* the form with the faults, if there are any */
};

/* Writes an object as connect_field.html declares it. If hint is SLICE_NONE, the object has no
 * hint, not even an empty one. */
static void write_field(const struct form *form, const struct catalog_field *field, slice hint)
{
    struct json_writer *w = form->w;
    struct arena *arena = &form->request->serve.op.arena;
    char *name = arena_cstr(arena, field->name);
    json_open(w, '{');
    json_member_str(
        w, "id", arena_printf(arena, "%.*s-%.*s", SLICE_ARG(field->name), SLICE_ARG(form->suffix)));
    json_member_str(w, "name", field->name);
    /* A parameter of the app has neither a label nor a type. */
    bool is_param = !field->label.ptr;
    if (is_param)
        value_view_name(w, "label", slice_from(field->name, sizeof(PARAM) - 1));
    else
        json_member_str(w, "label", field->label);
    json_member_str(w, "type",
                    is_param           ? SLICE_NONE
                    : field->is_secret ? SLICE("password")
                                       : SLICE("text"));
    /* A secret's value is never written back into the page, not even after an error. */
    json_member_str(w, "value",
                    field->is_secret || !name ? SLICE_NONE : web_field(form->request, name));
    json_member_str(w, "placeholder", field->placeholder.len > 0 ? field->placeholder : SLICE_NONE);
    json_member_bool(w, "required", !field->may_be_empty);
    json_member_str(w, "hint", hint);
    json_member_str(w, "docs_url", field->docs_url);
    json_member_str(w, "fault",
                    form->is_sent ? web_fault_of(form->request, field->name) : SLICE_NONE);
    json_close(w, '}');
}

/* Writes the fields of the credential, as defined by the manifest or by the kind of
 * authentication. */
static void write_credential(const struct form *form, const struct catalog_auth *auth)
{
    json_member_open(form->w, "credential", '[');
    for (size_t i = 0; i < auth->field_count; i++) {
        const struct catalog_field *field = &auth->fields[i];
        bool is_explained = field->help.len > 0 || field->docs_url.len > 0;
        write_field(form, field,
                    !is_explained          ? SLICE_NONE
                    : field->help.len == 0 ? SLICE("")
                                           : field->help);
    }
    json_close(form->w, ']');
}

static void write_params(const struct form *form, const struct json *schema)
{
    const struct json *properties = JSON_GET(schema, "properties");
    for (size_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        const struct json_member *member = &properties->as.members[i];
        slice name = json_str(&member->key);
        slice hint = json_get_str(&member->value, SLICE("description"));
        /* The prefix keeps a parameter of the app from being taken for a field of the form. */
        const struct catalog_field field = {
            .name = arena_printf(&form->request->serve.op.arena, PARAM "%.*s", SLICE_ARG(name)),
            .may_be_empty = !json_has_text(JSON_GET(schema, "required"), name)};
        write_field(form, &field, hint.ptr ? hint : SLICE(""));
    }
}

/* Optional scopes are requested only if a person ticks them. Those that the connection already
 * has are ticked in advance. */
static void write_optional(const struct form *form, const struct catalog_auth *auth,
                           const struct connection *again)
{
    const struct json *scopes = auth->optional_scopes;
    struct json_writer *w = form->w;
    json_member_open(w, "optional", '[');
    for (uint32_t i = 0; scopes && i < scopes->count; i++) {
        slice scope = json_str(&scopes->as.members[i].key);
        json_open(w, '{');
        json_member_str(w, "id",
                        arena_printf(&form->request->serve.op.arena, "scope-%u-%.*s", i,
                                     SLICE_ARG(form->suffix)));
        json_member_str(w, "scope", scope);
        json_member_str(w, "text", json_str(&scopes->as.members[i].value));
        json_member_bool(w, "granted", again && slice_has_word(again->scopes, scope));
        json_close(w, '}');
    }
    json_close(w, ']');
}

/* The id of the new connection is drawn now, so that a form that is sent twice makes one
 * connection. */
static void write_new_id(struct web_request *request, struct json_writer *w, bool is_wanted)
{
    slice once = is_wanted ? arena_printf(&request->serve.op.arena, "%c%lld", ONCE_CONNECTION,
                                          (long long)short_id_new())
                           : SLICE_NONE;
    if (once.ptr)
        once_view_field(request, once, w);
    else
        json_member_str(w, "once", SLICE_NONE);
}

static void write_connect_form(struct web_request *request, struct json_writer *w,
                               const struct catalog_integration *app,
                               const struct catalog_auth *auth, const struct connection *again)
{
    static const struct catalog_field label = {.name = SLICE_INIT("label"),
                                               .label = SLICE_INIT("Label for this connection"),
                                               .may_be_empty = true};
    struct arena *arena = &request->serve.op.arena;
    bool is_link = request->session.link_token.ptr != NULL;
    slice kind = slice_cstr(catalog_auth_name(auth->kind));
    slice id = again ? arena_printf(arena, "%lld", (long long)again->id) : SLICE("new");
    slice sent = web_field(request, "auth");
    /* The first way to connect keeps the plain suffix; each further way gets its kind, so that
     * ids are unique. */
    const struct form form = {
        request, w,
        auth == &app->auths[0] ? id
                               : arena_printf(arena, "%.*s-%.*s", SLICE_ARG(id), SLICE_ARG(kind)),
        .is_sent = sent.len == 0 || slice_eq(sent, kind)};
    ASSERT(auth >= app->auths && auth < app->auths + app->auth_count);
    json_open(w, '{');
    json_member_str(w, "action",
                    is_link ? arena_printf(arena, "%.*s/go", SLICE_ARG(app_link_path(request)))
                            : arena_printf(arena, "/integrations/%.*s/connect",
                                           SLICE_ARG(app->integration_id)));
    /* A link's row names the connection, so the field is left out: it could name another one. */
    json_member_str(w, "connection", again && !is_link ? id : SLICE_NONE);
    write_new_id(request, w, !again && !is_link && auth->kind != AUTH_OAUTH2);
    /* With one way to connect there is nothing to choose, and the form needs no heading. */
    json_member_str(w, "auth", app->auth_count > 1 ? kind : SLICE_NONE);
    json_member_str(w, "auth_name", auth->name);
    json_member_str(w, "suffix", form.suffix);
    /* A link's page shows the scopes above its form; a connection's page shows the granted
     * scopes. */
    app_view_scopes(w, !again && !is_link && auth->kind == AUTH_OAUTH2 ? app : NULL);
    write_credential(&form, auth);
    write_optional(&form, auth, again);
    json_member_open(w, "fields", '[');
    if (!again)
        write_params(&form, app->connection_params);
    if (!again && !is_link)
        write_field(&form, &label, SLICE_NONE);
    json_close(w, ']');
    /* Offered only if the identity is known: otherwise a new one cannot be compared. */
    json_member_str(w, "other", again && !is_link ? app_acts_as(again) : SLICE_NONE);
    json_member_str(w, "again", again ? again->label : SLICE_NONE);
    json_member_str(w, "app", app->name);
    json_close(w, '}');
}

/* For a reconnect the connection's current way comes first; the others would change how it
 * authenticates. */
void app_view_forms(struct web_request *request, struct json_writer *w,
                    const struct catalog_integration *app, const struct connection *again,
                    bool has_client)
{
    const struct catalog_auth *first = again ? catalog_auth_of(app, again->auth_kind)
                                             : &app->auths[0];
    json_member_open(w, "forms", '[');
    /* Without a client the OAuth form could only fail; the caller explains what to do. */
    if (has_client || first->kind != AUTH_OAUTH2)
        write_connect_form(request, w, app, first, again);
    for (size_t i = 0; i < app->auth_count; i++)
        if (&app->auths[i] != first && (has_client || app->auths[i].kind != AUTH_OAUTH2))
            write_connect_form(request, w, app, &app->auths[i], again);
    json_close(w, ']');
}

void app_view_no_forms(struct json_writer *w)
{
    json_member_open(w, "forms", '[');
    json_close(w, ']');
}

enum op_result app_reply_connect(struct web_request *request, unsigned status,
                                 const struct catalog_integration *app,
                                 const struct connection *again, slice problem)
{
    struct json_writer *w = view_begin(request);
    json_member_str(w, "problem", problem);
    json_member_str(w, "name", app->name);
    json_member_str(w, "back",
                    request->session.link_token.ptr ? app_link_path(request)
                                                    : app_path(request, app->integration_id));
    /* has_client is true: the form was sent, so there was a client, or none was needed. */
    app_view_forms(request, w, app, again, true);
    app_allow_forms(request, app);
    return web_reply_view(request, status, "connect");
}
