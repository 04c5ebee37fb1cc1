/*
 * Connecting an app: with a credential that was typed, which the app has to accept before it is
 * stored; or by OAuth, where the browser is sent to the app's authorization server.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "connect/oauth.h"
#include "web/app.h"
#include "web/once.h"

enum {
    CREDENTIAL_BYTES_MAX = 48 * 1024,
    REPORT_BYTES_MAX = 400,
};

struct connecting {
    struct catalog *catalog;
    const struct catalog_integration *app;
    const struct catalog_auth *auth; /* the chosen way to connect */
    slice optional_scopes;           /* the ticked ones */
    int64_t again;                   /* the connection to reconnect; 0: a new one */
    int64_t new_id;                  /* id of the new connection, generated with the form; 0:
                                      * none */
    bool may_change_identity;
    bool is_link; /* `link` is the connect link in use */
    struct connect_session link;
    slice label;
    const struct json *params;
    slice params_text;
    struct secret *credential;
    struct call_enrol enrol;
    struct oauth_begin begin;
    struct connection row; /* the connection to reconnect */
};

static void on_cancel(struct web_request *request)
{
    struct connecting *it = request->state;
    /* Only one of these operations runs at a time; cancelling one that does not run has no
     * effect. */
    op_cancel(&it->enrol.op);
    op_cancel(&it->begin.op);
}

static void on_end(struct web_request *request)
{
    struct connecting *it = request->state;
    /* Typed values may be secrets, too. */
    for (size_t i = 0; i < request->field_count; i++)
        mem_wipe((char *)(uintptr_t)request->fields[i].value.ptr, request->fields[i].value.len);
    secret_unref(it->credential);
    catalog_unref(it->catalog);
}

/* ---- typed values ---- */

/* In the end this becomes the value of a header, so control characters are refused. */
static bool is_header_text(slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7F)
            return false;
    return slice_is_utf8(text, NULL);
}

/* Returns false if a value is missing or cannot be sent in a header; each such field gets its
 * fault. */
static bool read_credential(struct web_request *request, struct connecting *it)
{
    struct json_writer w;
    struct buf text;
    bool is_whole = true;
    ASSERT(!it->credential && it->auth->field_count > 0);
    buf_init(&text, CREDENTIAL_BYTES_MAX);
    json_begin(&w, &text);
    json_open(&w, '{');
    for (size_t i = 0; i < it->auth->field_count; i++) {
        const struct catalog_field *field = &it->auth->fields[i];
        slice value = web_field(request, field->name.ptr);
        const char *fault = value.len == 0 && !field->may_be_empty ? "Fill in this field."
                            : !is_header_text(value) ? "The value must be on one line."
                                                     : NULL;
        if (fault)
            web_fault_add(request, field->name, slice_cstr(fault));
        is_whole &= !fault;
        json_key_slice(&w, field->name);
        json_put_str(&w, value.ptr ? value : SLICE(""));
    }
    json_close(&w, '}');
    if (is_whole && buf_is_ok(&text))
        it->credential = secret_new(buf_slice(&text));
    /* The buffer contained the unencrypted credential; it is wiped before its memory is reused. */
    mem_wipe(text.ptr, text.cap);
    buf_deinit(&text);
    return it->credential != NULL;
}

/* Converts a parameter by its schema: to text if a string is allowed, else to JSON if the text
 * parses as such. */
static struct json typed_param(struct arena *arena, const struct json *property, slice text)
{
    slice type = json_get_str(property, SLICE("type"));
    const struct json *parsed =
        slice_eq_cstr(type, "string") ? NULL : json_parse(arena, text, &json_limits_request, NULL);
    return parsed ? *parsed : json_string(text);
}

/* Adds the faults of parameters to their fields. Returns what the report says if it is about none
 * of them, else SLICE_NONE. */
static slice refuse_params(struct web_request *request, const struct connecting *it,
                           const struct schema_report *report)
{
    struct arena *arena = &request->serve.op.arena;
    const struct json *schema = it->app->connection_params;
    const struct json *properties = JSON_GET(schema, "properties");
    struct buf words;
    for (size_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        slice name = json_str(&properties->as.members[i].key);
        bool is_missing = json_has_text(JSON_GET(schema, "required"), name) &&
                          !json_get(it->params, name);
        slice text = is_missing ? SLICE("Fill in this field.")
                                : web_fault_reported(request, report, name);
        if (text.ptr)
            web_fault_add(request, arena_printf(arena, "param.%.*s", SLICE_ARG(name)), text);
    }
    if (request->fault_count > 0)
        return SLICE_NONE;
    buf_init(&words, REPORT_BYTES_MAX + 64 * 1024);
    schema_report_write(report, &words);
    slice problem = arena_dup(arena, slice_first_utf8(buf_slice(&words), REPORT_BYTES_MAX));
    buf_deinit(&words);
    return problem.ptr ? problem : SLICE("A field is not in the format that the app requires.");
}

/* Fills params and their text. Returns false if they are not valid: *problem is a message for the
 * person, or SLICE_NONE if the faults are those of fields. */
static bool read_params(struct web_request *request, struct connecting *it, slice *problem)
{
    struct arena *arena = &request->serve.op.arena;
    const struct json *properties = JSON_GET(it->app->connection_params, "properties");
    struct json *params = ARENA_NEW(arena, struct json);
    ASSERT(it->again == 0); /* an existing connection keeps its params */
    *problem = SLICE("Out of memory.");
    if (!params)
        return false;
    *params = json_object();
    for (size_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        const struct json_member *member = &properties->as.members[i];
        slice field = arena_printf(arena, "param.%.*s", SLICE_ARG(json_str(&member->key)));
        slice value = field.ptr ? web_field(request, field.ptr) : SLICE_NONE;
        /* An empty field is an absent parameter; the schema decides whether it may be absent. */
        if (value.len > 0)
            json_object_set(arena, params, json_str(&member->key),
                            typed_param(arena, &member->value, value));
    }
    struct schema_report report;
    schema_report_init(&report, arena, SLICE(""));
    it->params = params;
    /* Params are stored, and passed on to OAuth, exactly as they are validated here. */
    it->params_text = json_text_of(params, arena, CREDENTIAL_BYTES_MAX);
    bool is_valid = !it->app->connection_schema ||
                    schema_validate(it->app->connection_schema, params, &report);
    *problem = is_valid ? SLICE("The fields are too long.") : refuse_params(request, it, &report);
    return is_valid && it->params_text.ptr;
}

/* Returns whether the connection to reconnect, if any, is loaded. */
static bool has_row(const struct connecting *it)
{
    return it->again == 0 || it->row.id == it->again;
}

static web_step on_sent, on_enrolled;

static enum op_result refuse_form(struct web_request *request, unsigned status, slice problem)
{
    struct connecting *it = request->state;
    ASSERT(it->app && has_row(it));
    return app_reply_connect(request, status, it->app, it->again ? &it->row : NULL, problem);
}

/* ---- begin ---- */

static enum op_result begin_oauth(struct web_request *request)
{
    struct connecting *it = request->state;
    const struct web_session *session = &request->session;
    const struct oauth_begin_request in = {
        .account_id = session->account_id,
        .parent_id = session->parent_id,
        .integration_id = it->app->integration_id,
        .session_id = slice_of(session->csrf, SESSION_CSRF_LEN),
        .redirect_uri =
            arena_printf(&request->serve.op.arena, "%s/connect/callback", request->web->public_url),
        .label = it->label,
        .params = it->params_text,
        .optional_scopes = it->optional_scopes,
        .connection_id = it->again,
        .state_prefix = it->is_link
                            ? arena_printf(&request->serve.op.arena, "%s.", request->link.mark)
                            : web_user_state(request),
        .may_change_identity = it->may_change_identity,
        .hint = {.email = it->link.email, .subject = it->link.subject},
    };
    bool needs_prefix = it->is_link || request->user.ptr;
    if (!in.redirect_uri.ptr || (needs_prefix && !in.state_prefix.ptr))
        return web_reply_database(request, ERR_NOMEM);
    /* The callback finds the session by its CSRF token, and a link's cookie by the state's prefix.
     */
    oauth_begin_start(request->web->config.connect, &it->begin, &in, &request->serve.op);
    return web_wait(request, on_sent);
}

static enum op_result enrol_credential(struct web_request *request)
{
    struct connecting *it = request->state;
    const struct api_config *config = &request->web->config;
    ASSERT(it->credential && it->auth->kind != AUTH_OAUTH2);
    ASSERT(it->again == 0 || it->new_id == 0);
    const struct call_enrol_request in = {
        .save.account_id = request->session.account_id,
        .save.integration_id = it->app->integration_id,
        .save.auth_kind = slice_cstr(catalog_auth_name(it->auth->kind)),
        .save.connection_id = it->again,
        .save.new_id = it->new_id,
        .save.label = it->label,
        .save.params = it->params_text,
        .save.credential = secret_reveal(it->credential),
        .may_change_identity = it->may_change_identity,
        .save.link = it->is_link ? &it->link : NULL,
        .save.by = it->is_link ? app_link_by(request, &it->link) : serve_by(&request->serve),
    };
    /* The probe runs first and nothing is stored unless the app accepts the credential. */
    call_enrol_start(config->connect, config->pool, config->http, it->catalog, &it->enrol, &in,
                     &request->serve.op);
    return web_wait(request, on_enrolled);
}

/* Uses the way to connect that the form names; without that field, the connection's own way or the
 * app's first. */
static void choose_auth(struct web_request *request, struct connecting *it)
{
    slice wanted = web_field(request, "auth");
    ASSERT(has_row(it)); /* the row defines the connection's way */
    it->auth = catalog_auth_of(it->app, wanted.len > 0 ? wanted : it->row.auth_kind);
}

static void read_optional(struct web_request *request, struct connecting *it)
{
    struct buf text;
    buf_init(&text, CREDENTIAL_BYTES_MAX);
    /* A ticked checkbox sends its field, so `scope` may occur several times. */
    for (size_t i = 0; i < request->field_count; i++)
        if (slice_eq_cstr(request->fields[i].name, "scope")) {
            buf_append(&text, request->fields[i].value);
            buf_append_char(&text, ' ');
        }
    it->optional_scopes = arena_take(&request->serve.op.arena, &text);
}

static enum op_result connect_typed(struct web_request *request)
{
    struct connecting *it = request->state;
    choose_auth(request, it);
    read_optional(request, it);
    if (it->auth->kind == AUTH_OAUTH2)
        return begin_oauth(request);
    if (!read_credential(request, it))
        return refuse_form(request, 400,
                           request->fault_count > 0 ? SLICE_NONE
                                                    : SLICE("The fields are too long."));
    return enrol_credential(request);
}

static enum op_result connect_new_one(struct web_request *request)
{
    slice problem;
    return read_params(request, request->state, &problem) ? connect_typed(request)
                                                          : refuse_form(request, 400, problem);
}

/* A row with the form's new_id means that the form was sent twice: its connection exists already.
 */
static enum op_result on_new_id(struct web_request *request)
{
    const struct connecting *it = request->state;
    struct connection row;
    ASSERT(it->new_id != 0 && it->again == 0);
    int status = store_connection_get_result(&request->query, &row);
    if (status == ERR_NOTFOUND)
        return connect_new_one(request);
    if (status != OK)
        return web_reply_database(request, status);
    return web_reply_redirect(request, app_path_after(request, row.integration_id, row.id, false),
                              "connected");
}

static enum op_result on_loaded(struct web_request *request)
{
    struct connecting *it = request->state;
    int status = store_connection_get_result(&request->query, &it->row);
    if (status != OK && status != ERR_NOTFOUND)
        return web_reply_database(request, status);
    /* The id came from a form, so it may be that of another app's connection. */
    if (status == ERR_NOTFOUND || !slice_eq(it->row.integration_id, it->app->integration_id))
        return app_no_connection(request);
    return connect_typed(request);
}

/* Runs after the app and the link, if any, were checked. Loads the data for the form's own
 * checks: the connection to reconnect, or the one that an earlier copy of this form has made. */
static enum op_result start_connecting(struct web_request *request)
{
    struct connecting *it = request->state;
    ASSERT(it->app && it->catalog && request->session.is_open);
    if (it->app->auth.kind == AUTH_NONE)
        return web_reply_problem(request, 400, "Nothing to do", "This app needs no connection.");
    if (!it->again && !it->new_id)
        return connect_new_one(request);
    /* The row to reconnect defines its authentication, and the form needs its label. If a
     * connection already has the new id, the form was sent before. */
    store_connection_get(request->web->config.pool, &request->query, &request->serve.op,
                         request->session.account_id, it->again ? it->again : it->new_id);
    return web_wait(request, it->again ? on_loaded : on_new_id);
}

/* Returns NULL if the request was answered. */
static struct connecting *connecting_new(struct web_request *request)
{
    struct connecting *it = web_state_new(request, sizeof(*it));
    if (!it)
        return NULL;
    request->on_end = on_end;
    request->on_cancel = on_cancel;
    return it;
}

/* ---- by a link: its row defines the purpose, and the form's fields for that are ignored ---- */

/* A link that is no longer valid is explained on its own page. */
static enum op_result on_link(struct web_request *request)
{
    struct connecting *it = request->state;
    int status = app_link_result(&request->query, &request->link, &it->link);
    if (status == OK)
        it->app =
            catalog_find_integration(*request->web->config.catalog, it->link.integration_id, NULL);
    /* Checked again here, since the link may have ended while the form was open. The link's page
     * explains that, and also if the row could not be read: this request may have opened the link.
     */
    if (!it->app || it->link.used_at || it->link.expires_at <= clock_shared_us())
        return web_reply_redirect(request, app_link_path(request), "");
    it->catalog = catalog_ref(*request->web->config.catalog);
    it->is_link = true;
    it->again = it->link.connection_id;
    return start_connecting(request);
}

/* ---- the end ---- */

unsigned app_enrol_status(enum call_enrolled result)
{
    switch (result) {
    case CALL_ENROLLED:
        return 200;
    case CALL_ENROL_REFUSED:
        return 400;
    case CALL_ENROL_GONE:
    case CALL_ENROL_FULL:
    case CALL_ENROL_LINK_USED:
    case CALL_ENROL_OTHER_IDENTITY:
    case CALL_ENROL_UNKNOWN_IDENTITY:
        return 409;
    case CALL_ENROL_OUTAGE:
    case CALL_ENROL_UNAVAILABLE:
        return 503;
    }
    UNREACHABLE("every result of an enrolment has a case");
}

static enum op_result on_enrolled(struct web_request *request)
{
    struct connecting *it = request->state;
    const struct call_enrol *done = &it->enrol;
    const char *notice = it->again         ? "reconnected"
                         : done->is_tested ? "connected"
                                           : "connection_untested";
    /* Only the app's own answer needs this sentence; other messages already contain it. */
    bool is_app = done->result == CALL_ENROL_REFUSED || done->result == CALL_ENROL_OUTAGE;
    if (done->result == CALL_ENROLLED)
        return web_reply_redirect(
            request,
            app_path_after(request, it->app->integration_id, done->connection_id, it->again != 0),
            it->is_link ? "" : notice);
    if (done->result == CALL_ENROL_LINK_USED)
        return web_reply_redirect(request, app_link_path(request), "");
    slice problem = arena_printf(&request->serve.op.arena, "%s%.*s",
                                 is_app ? "Nothing was stored. " : "", SLICE_ARG(done->message));
    /* Of several values the app does not say which is wrong. */
    if (done->result == CALL_ENROL_REFUSED && it->auth->field_count == 1) {
        web_fault_add(request, it->auth->fields[0].name, problem);
        problem = SLICE_NONE;
    }
    return refuse_form(request, app_enrol_status(done->result), problem);
}

/* The client was removed after the form was rendered, or its secret cannot be decrypted. A new
 * one can be entered here. */
static enum op_result reply_no_client(struct web_request *request)
{
    struct connecting *it = request->state;
    bool is_to_app = !it->again || it->is_link;
    slice client_id = web_field(request, "client_id");
    struct json_writer *w = view_begin(request);
    json_member_str(w, "integration_id", it->app->integration_id);
    json_member_str(w, "name", it->app->name);
    json_member_str(w, "back",
                    app_path_after(request, it->app->integration_id, it->again, it->again != 0));
    json_member_str(w, "back_to", is_to_app ? it->app->name : it->row.label);
    json_member_str(w, "connection",
                    it->again ? arena_printf(&request->serve.op.arena, "%lld", (long long)it->again)
                              : SLICE_NONE);
    json_member_str(w, "client_id", client_id);
    return web_reply_view(request, 400, "connect_no_client");
}

static enum op_result on_sent(struct web_request *request)
{
    struct connecting *it = request->state;
    const struct oauth_begin *begin = &it->begin;
    if (begin->outcome == OAUTH_DONE)
        return web_reply_external(request, begin->url);
    if (begin->outcome == OAUTH_NO_CLIENT)
        return reply_no_client(request);
    /* The status is not 502, since proxies in front would replace the page with their own. */
    unsigned status = begin->outcome == OAUTH_UNAVAILABLE ? 503
                      : begin->outcome == OAUTH_FULL      ? 409
                                                          : 400;
    return refuse_form(request, status, begin->message);
}

enum op_result web_app_connect(struct web_request *request)
{
    struct connecting *it = connecting_new(request);
    slice again = web_field(request, "connection");
    if (!it)
        return OP_DONE;
    it->app = app_of_path(request, &it->catalog);
    if (!it->app)
        return OP_DONE;
    /* A malformed id is not ignored: that would make a new connection instead of reconnecting
     * one. */
    if (again.len > 0 && (!slice_to_i64(again, &it->again) || it->again <= 0))
        return web_reply_problem(request, 400, "Not done",
                                 "The form is not complete. Load the app's page again.");
    slice once = once_read_field(request, ONCE_CONNECTION);
    if (!it->again && !slice_to_i64(slice_from(once, 1), &it->new_id))
        it->new_id = 0;
    it->may_change_identity = web_field(request, "other").len > 0;
    it->label = web_field(request, "label");
    it->label = it->label.len > 0 ? it->label : SLICE_NONE;
    if (it->label.ptr && !slice_is_name(it->label, CONNECTION_LABEL_MAX)) {
        /* refuse_form() would read `row` for a reconnect, but `row` is not loaded yet. */
        it->again = 0;
        web_fault_add(request, SLICE("label"),
                      SLICE("A label must have at most 200 characters, on one line."));
        return refuse_form(request, 400, SLICE_NONE);
    }
    return start_connecting(request);
}
enum op_result web_connect_link_go(struct web_request *request)
{
    struct connecting *it = connecting_new(request);
    const struct web_link *link = &request->link;
    if (!it)
        return OP_DONE;
    /* Only the browser that opened the link has its cookie; the link's page explains that to
     * others. */
    if (!request->session.is_open)
        return link->token.ptr
                   ? web_reply_redirect(request,
                                        arena_printf(&request->serve.op.arena, "/connect/%.*s",
                                                     SLICE_ARG(link->token)),
                                        "")
                   : web_reply_missing(request, "There is no page at this address.");
    ASSERT(link->token.ptr); /* the session was opened by this very link */
    store_connect_session_get(request->web->config.pool, &request->query, &request->serve.op,
                              link->account_id, link->hash);
    return web_wait(request, on_link);
}
