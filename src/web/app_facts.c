/*
 * What pages say about an app and about a connection to it: their paths, the scopes in words, and
 * what the scopes allow.
 */
#include "connect/oauth.h"
#include "serve/foresee.h"
#include "web/app.h"

enum { TITLES_MAX = 8, SCOPE_TEXTS_BYTES_MAX = 64 * 1024 };

/* ---- an app and its connections ---- */

const struct catalog_integration *app_of_path(struct web_request *request, struct catalog **catalog)
{
    slice id = request->serve.match.params[0];
    ASSERT(request->serve.match.param_count > 0 && !*catalog);
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, id, NULL);
    if (!app) {
        (void)web_reply_missing(request, "There is no such app here.");
        return NULL;
    }
    /* The caller's on_end releases this reference. The app is valid until then, even if the
     * catalog is replaced earlier. */
    *catalog = catalog_ref(*request->web->config.catalog);
    return app;
}

slice app_path(struct web_request *request, slice integration_id)
{
    return arena_printf(&request->serve.op.arena, "/integrations/%.*s", SLICE_ARG(integration_id));
}

slice app_connection_path(struct web_request *request, int64_t id)
{
    return arena_printf(&request->serve.op.arena, "/connections/%lld", (long long)id);
}

slice app_link_path(struct web_request *request)
{
    ASSERT(request->session.link_token.ptr);
    return arena_printf(&request->serve.op.arena, "/connect/%.*s",
                        SLICE_ARG(request->session.link_token));
}

slice app_path_after(struct web_request *request, slice integration_id, int64_t connection_id,
                     bool again)
{
    ASSERT(!again || connection_id != 0);
    if (request->session.link_token.ptr)
        return app_link_path(request);
    return again ? app_connection_path(request, connection_id) : app_path(request, integration_id);
}

enum op_result app_no_connection(struct web_request *request)
{
    return web_reply_missing(request, "There is no such connection. It may have been removed.");
}

slice app_acts_as(const struct connection *row)
{
    return connection_identity_is_known(&row->identity) ? connection_identity_text(&row->identity)
                                                        : SLICE_NONE;
}

slice app_scopes_missing(struct web_request *request, const struct catalog_integration *app,
                         const struct connection *row)
{
    const struct catalog_auth *auth = catalog_auth_of(app, row->auth_kind);
    /* If the granted scopes are unknown, the app's refusals are the only source. */
    if (auth->kind != AUTH_OAUTH2 || !row->scopes.ptr)
        return SLICE_NONE;
    return oauth_scopes_missing(auth->scopes, row->scopes, &request->serve.op.arena);
}

slice app_scope_texts(struct web_request *request, const struct catalog_integration *app,
                      slice scopes)
{
    struct buf text;
    if (!scopes.ptr)
        return SLICE_NONE;
    buf_init(&text, SCOPE_TEXTS_BYTES_MAX);
    while (scopes.len > 0) {
        slice scope = slice_split(&scopes, ' ');
        slice words = catalog_scope_words(app, scope);
        buf_append(&text, text.len > 0 && scope.len > 0 ? SLICE("; ") : SLICE(""));
        buf_append(&text, words.len > 0 ? words : scope);
    }
    slice whole = arena_take(&request->serve.op.arena, &text);
    return whole.ptr ? whole : SLICE("some scopes");
}

/* ---- scopes ---- */

/* Any one of an action's scopes suffices for it (exec/gate.c). If it names none, any may. */
static bool is_for_writes(const struct catalog_integration *app, slice scope)
{
    for (size_t i = 0; i < app->action_count; i++)
        if (app->actions[i].level != LEVEL_READ &&
            (app->actions[i].scope_words.len == 0 ||
             slice_has_word(app->actions[i].scope_words, scope)))
            return true;
    return false;
}

void app_view_scopes(struct json_writer *w, const struct catalog_integration *app)
{
    const struct catalog_auth *auth = app ? catalog_auth_by(app, AUTH_OAUTH2) : NULL;
    const struct json *asked[] = {auth ? auth->scopes : NULL, app ? app->identity.scopes : NULL};
    json_member_open(w, "scopes", '[');
    for (size_t i = 0; i < ARRAY_LEN(asked); i++)
        for (uint32_t j = 0; asked[i] && j < asked[i]->count; j++) {
            slice scope = json_str(&asked[i]->as.items[j]);
            if (i > 0 && json_has_text(asked[0], scope))
                continue;
            json_open(w, '{');
            json_member_str(w, "scope", scope);
            json_member_str(w, "text", catalog_scope_words(app, scope));
            json_member_bool(w, "writes", is_for_writes(app, scope));
            json_close(w, '}');
        }
    json_close(w, ']');
}

void app_view_not_asked(struct json_writer *w, const struct catalog_integration *app)
{
    const struct catalog_auth *auth = app ? catalog_auth_by(app, AUTH_OAUTH2) : NULL;
    const struct json *scopes = auth ? auth->optional_scopes : NULL;
    json_member_open(w, "not_asked", '[');
    for (uint32_t i = 0; scopes && i < scopes->count; i++)
        json_put_str(w, json_str(&scopes->as.members[i].value));
    json_close(w, ']');
}

/* Any one of an action's scopes suffices (exec/gate.c). */
bool app_refuses(const struct catalog_action *action, slice granted)
{
    slice rest = action->scope_words;
    while (rest.len > 0)
        if (slice_has_word(granted, slice_split(&rest, ' ')))
            return false;
    /* If the granted scopes, or those of the action, are unknown, only the app can tell. */
    return granted.ptr && action->scope_words.len > 0;
}

/* ---- many actions ---- */

static bool has_access(const struct web_request *request, const struct catalog_action *action,
                       slice granted)
{
    return !app_refuses(action, granted) && serve_lists(&request->serve, action);
}

static void write_titles(const struct web_request *request, struct json_writer *w,
                         const struct catalog_integration *app, slice granted,
                         enum catalog_level level, const char *verb)
{
    int64_t count = 0;
    for (size_t i = 0; i < app->action_count; i++)
        count += app->actions[i].level == level && has_access(request, &app->actions[i], granted);
    /* A level without actions has no line, and a long line says how many actions are left out. */
    if (count == 0)
        return;
    json_open(w, '{');
    json_member_str(w, "verb", slice_cstr(verb));
    json_member_open(w, "titles", '[');
    for (size_t i = 0, listed = 0; i < app->action_count && listed < TITLES_MAX; i++)
        if (app->actions[i].level == level && has_access(request, &app->actions[i], granted)) {
            json_put_str(w, app->actions[i].title);
            listed++;
        }
    json_close(w, ']');
    json_member_i64(w, "more", count > TITLES_MAX ? count - TITLES_MAX : 0);
    json_close(w, '}');
}

void app_view_access(const struct web_request *request, struct json_writer *w,
                     const struct catalog_integration *app, slice granted)
{
    json_member_open(w, "access", '[');
    if (app) {
        write_titles(request, w, app, granted, LEVEL_READ, "Read");
        write_titles(request, w, app, granted, LEVEL_WRITE, "Write");
        write_titles(request, w, app, granted, LEVEL_DELETE, "Delete");
        write_titles(request, w, app, granted, LEVEL_ADMIN, "Administer");
    }
    json_close(w, ']');
}

int64_t app_count_actions(const struct web_request *request, const struct catalog_integration *app)
{
    int64_t count = (int64_t)app->action_count;
    for (size_t i = 0; serve_policy(&request->serve) && i < app->action_count; i++)
        count -= !serve_lists(&request->serve, &app->actions[i]);
    return count;
}

void app_view_actions(const struct web_request *request, struct json_writer *w,
                      const struct catalog_integration *app, slice granted)
{
    json_member_open(w, "actions", '[');
    for (size_t i = 0; i < app->action_count; i++) {
        const struct catalog_action *action = &app->actions[i];
        if (!serve_lists(&request->serve, action))
            continue;
        json_open(w, '{');
        json_member_str(w, "action_id", action->action_id);
        json_member_str(w, "title", action->title);
        json_member_str(w, "effect", slice_cstr(catalog_level_name(action->level)));
        json_member_bool(w, "confirms", serve_confirms(&request->serve, action));
        json_member_bool(w, "is_final", slice_eq_cstr(action->undo, "never"));
        json_member_str(w, "granted",
                        !granted.ptr || action->scope_words.len == 0 ? SLICE_NONE
                        : app_refuses(action, granted)               ? SLICE("no")
                                                                     : SLICE("yes"));
        json_close(w, '}');
    }
    json_close(w, ']');
}
