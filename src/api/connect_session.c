/*
 * POST /api/connect/sessions (execute:write scope): creates a link with which an end user connects
 * an app; an agent's `sluice.connect_app` shows it. A link is valid for 15 minutes and for one use.
 * It makes one connection to one app, or gives one connection a new grant, for this account, while
 * the requesting key is valid. If an email or subject is named, no other login can be connected
 * with it.
 *
 * Only hashes of the link's token and of the key are stored. The request may be retried after a
 * lost answer: the first link then expires unused.
 */
#include "api/request.h"
#include "base/clock.h"
#include "base/encode.h"
#include "base/mem.h"
#include "connect/command.h"
#include "connect/save.h"
#include "http/message.h"
#include "http/url.h"
#include "store/connect_session.h"
#include "vault/key.h"

enum { LINK_MS = 15 * 60 * 1000, REPLY_BYTES_MAX = 4 * 1024, LISTED_MAX = 20 };

struct linking {
    const struct catalog_integration *app; /* valid until the first wait */
    int64_t wanted_id;                     /* the id of the connection that was named; 0: none */
    struct connect_session *session;       /* the session of in.link */
    slice url;
    struct connect_command command;
    struct connect_command_request in;
};

static bool is_loopback(const struct url *url)
{
    return slice_eq_nocase(url->host, SLICE("localhost")) ||
           slice_eq_cstr(url->host, "127.0.0.1") || slice_eq_cstr(url->host, "::1");
}

/* Whether text is an https URL, or an http URL of this machine, that browsers parse in the same
 * way. */
static bool is_return_url(slice text)
{
    struct url url;
    return text.len > 0 && text.len <= CONNECT_SESSION_URL_MAX && http_is_visible(text) &&
           url_parse(text, &url, NULL) == OK && (url.is_https || is_loopback(&url));
}

/* The token consists of the account's id, by which the row is found, and 256 random bits; the hash
 * is that of the whole token. */
static bool draw_link_token(struct api_request *request, struct linking *linking)
{
    struct connect_session *session = linking->session;
    uint8_t bytes[CONNECT_SESSION_TOKEN_BYTES] = {CONNECT_SESSION_TOKEN_VERSION};
    char text[BASE64URL_LEN(CONNECT_SESSION_TOKEN_BYTES)];
    memcpy(bytes + 1, session->account_id.bytes, 16);
    random_kernel(bytes + 17, sizeof(bytes) - 17);
    vault_sha256(slice_of(bytes, sizeof(bytes)), session->token_hash);
    linking->url = arena_printf(
        &request->serve.op.arena, "%s/connect/%.*s", request->api->public_url,
        SLICE_ARG(encode_base64url_in(text, sizeof(text), slice_of(bytes, sizeof(bytes)))));
    mem_wipe(bytes, sizeof(bytes));
    mem_wipe(text, sizeof(text));
    return linking->url.ptr != NULL;
}

/* The link is valid as long as the key, so the key's hash is stored with it. The header has been
 * checked when the request began. */
static bool hash_key(struct api_request *request, uint8_t hash[API_KEY_HASH_LEN])
{
    slice header = http_request_header(request->serve.exchange, SLICE("Authorization"));
    return vault_key_hash(slice_trim(slice_from(header, sizeof("Bearer ") - 1)), hash);
}

/* ---- the request ---- */

/* Returns OP_NEXT if the request is valid. */
static enum op_result read_app(struct api_request *request, struct linking *linking)
{
    slice id = json_get_str(request->body, SLICE("integration_id"));
    if (!id.ptr)
        return api_reply_error(request, 400, "integration_id must be a string");
    const struct catalog *catalog = *request->api->config.catalog;
    linking->app = catalog_find_integration(catalog, id, NULL);
    if (!linking->app)
        return api_reply_error(
            request, 404, "%.*s",
            SLICE_ARG(catalog_say_no_integration(catalog, id, &request->serve.op.arena)));
    if (linking->app->auth.kind == AUTH_NONE)
        return api_reply_error(request, 400, "This integration needs no connection");
    linking->session->integration_id = id;
    return OP_NEXT;
}

static enum op_result read_target(struct api_request *request, struct linking *linking)
{
    const struct json *again = json_given(request->body, SLICE("force_reconnect"));
    const struct json *id = json_given(request->body, SLICE("connection_id"));
    const struct json *back = json_given(request->body, SLICE("return_url"));
    if (again && again->type != JSON_BOOL)
        return api_reply_error(request, 400, "force_reconnect must be true or false");
    if (id && !json_to_i64(id, &linking->wanted_id))
        (void)!slice_to_i64(json_str(id), &linking->wanted_id);
    if (id && linking->wanted_id <= 0)
        return api_reply_error(request, 400,
                               "connection_id must be the id of a connection, as GET "
                               "/api/connections lists it");
    if (back && !is_return_url(json_str(back)))
        return api_reply_error(request, 400,
                               "return_url must be an https URL of at most %d characters",
                               CONNECT_SESSION_URL_MAX);
    linking->session->is_reconnect = linking->wanted_id || (again && again->as.boolean);
    linking->session->return_url = json_str(back);
    return OP_NEXT;
}

/* A requirement that can never be met is refused here, before a person has signed in to the app. */
static enum op_result read_demand(struct api_request *request, struct linking *linking)
{
    const struct catalog_identity *identity = &linking->app->identity;
    const struct json *email = json_given(request->body, SLICE("email"));
    const struct json *subject = json_given(request->body, SLICE("subject"));
    struct connect_session *session = linking->session;
    slice name = linking->app->name;
    session->email = json_str(email);
    session->subject = json_str(subject);
    if (email && (!slice_is_name(session->email, CONNECTION_EMAIL_MAX) ||
                  slice_find_char(session->email, '@') < 1))
        return api_reply_error(request, 400, "email must be an email address");
    if (subject && !slice_is_name(session->subject, CONNECTION_SUBJECT_MAX))
        return api_reply_error(request, 400, "subject must be a string of 1 to %d characters",
                               CONNECTION_SUBJECT_MAX);
    if (email && !identity->email)
        return api_reply_error(request, 400,
                               "%.*s does not report an email address. Leave out email%s.",
                               SLICE_ARG(name), identity->subject ? " or use subject instead" : "");
    if (subject && !identity->subject)
        return api_reply_error(request, 400, "%.*s does not report a subject. Leave out subject%s.",
                               SLICE_ARG(name), identity->email ? " or use email instead" : "");
    return OP_NEXT;
}

/* ---- the connection to reconnect ---- */

static enum op_result refuse_choice(struct api_request *request, const struct connection *rows,
                                    size_t count)
{
    struct buf text;
    buf_init(&text, REPLY_BYTES_MAX * 4);
    for (size_t i = 0; i < count && i < LISTED_MAX; i++)
        buf_printf(&text, "%s%lld", i ? ", " : "", (long long)rows[i].id);
    enum op_result result =
        api_reply_error(request, 409,
                        "There are several connections to this integration and no default. Choose "
                        "the one to reconnect with connection_id: %.*s%s. GET /api/connections "
                        "shows their labels.",
                        SLICE_ARG(buf_slice(&text)), count > LISTED_MAX ? ", ..." : "");
    buf_deinit(&text);
    return result;
}

/* Whether a known value differs from a required one. A value that is unknown or not required does
 * not differ, nor does a workspace that an earlier version stored for its user. */
static bool differs(slice wanted, slice known, bool is_email)
{
    if (!wanted.ptr || !known.ptr)
        return false;
    if (is_email)
        return !slice_eq_nocase(wanted, known);
    return !connection_subject_admits(wanted, known) && !connection_subject_admits(known, wanted);
}

/* Selects the named connection, else the default, else the only connection. Returns OP_NEXT if one
 * was found, or if there is none and the link will make the first. The rows are the named
 * connection, which may be of any app, or all candidates (begin_link). */
static enum op_result choose_link_connection(struct api_request *request, struct linking *linking)
{
    struct connect_session *session = linking->session;
    const struct connection *chosen = NULL;
    struct connection *rows;
    size_t count;
    int status = store_connection_list_result(&request->query, &rows, &count);
    if (status != OK)
        return api_reply_database(request, status);
    for (size_t i = 0; i < count && !chosen; i++)
        if (linking->wanted_id ? slice_eq(rows[i].integration_id, session->integration_id)
                               : rows[i].is_default)
            chosen = &rows[i];
    if (linking->wanted_id && !chosen)
        return api_reply_error(
            request, 404,
            "Connection not found: this account has no connection %lld to this integration",
            (long long)linking->wanted_id);
    if (!chosen && count > 1)
        return refuse_choice(request, rows, count);
    if (!chosen && count == 1)
        chosen = &rows[0];
    if (!chosen)
        return OP_NEXT;
    if (differs(session->email, chosen->identity.email, true) ||
        differs(session->subject, chosen->identity.subject, false))
        return api_reply_error(
            request, 409,
            "Connection %lld acts as %.*s. A link does not change that. To connect another login, "
            "leave out force_reconnect and connection_id.",
            (long long)chosen->id, SLICE_ARG(connection_identity_text(&chosen->identity)));
    session->connection_id = chosen->id;
    return OP_NEXT;
}

/* ---- storing ---- */

/* If the client has disconnected, the link is made nevertheless: no answer contains the URL, and
 * the link expires. */
static enum op_result reply_link(struct api_request *request)
{
    const struct linking *linking = request->state;
    if (linking->command.status != OK)
        return api_reply_database(request, linking->command.status);
    struct json_writer *w = api_reply_open(request, REPLY_BYTES_MAX);
    json_member_uuid(w, "id", linking->session->id);
    json_member_str(w, "url", linking->url);
    json_member_time(w, "expires_at", linking->session->expires_at);
    return api_reply_close(request, 201);
}

static enum op_result store(struct api_request *request, struct linking *linking)
{
    struct connect_session *session = linking->session;
    session->id = uuid_v7();
    session->account_id = request->serve.grant.account_id;
    session->parent_id = request->serve.grant.parent_id;
    session->key_id = request->serve.grant.key_id;
    session->created_at = clock_shared_us();
    session->expires_at = session->created_at + LINK_MS * 1000LL;
    if (!hash_key(request, session->key_hash) || !draw_link_token(request, linking))
        return api_reply_no_memory(request);
    linking->in.kind = CONNECT_LINK_CREATE;
    linking->in.by = serve_by(&request->serve);
    connect_command_start(request->api->config.connect, &linking->command, &linking->in,
                          &request->serve.op);
    return api_wait(request, reply_link);
}

static enum op_result on_counted(struct api_request *request)
{
    const struct connect_service *connect = request->api->config.connect;
    size_t count;
    int status = store_count_result(&request->query, &count);
    if (status != OK)
        return api_reply_database(request, status);
    if (count >= connect_connections_max(connect))
        return api_reply_error(request, 409, "%.*s",
                               SLICE_ARG(connect_say_full(connect, &request->serve.op.arena)));
    return store(request, request->state);
}

/* A link for a new connection is refused if the connection could not be stored afterwards. */
static enum op_result store_new(struct api_request *request, struct linking *linking)
{
    size_t connections_max = connect_connections_max(request->api->config.connect);
    if (connections_max == 0)
        return store(request, linking);
    store_connection_count(request->api->config.pool, &request->query, &request->serve.op,
                           request->serve.grant.account_id, connections_max);
    return api_wait(request, on_counted);
}

static enum op_result on_connections(struct api_request *request)
{
    struct linking *linking = request->state;
    enum op_result result = choose_link_connection(request, linking);
    if (result != OP_NEXT)
        return result;
    return linking->session->connection_id ? store(request, linking) : store_new(request, linking);
}

static enum op_result begin_link(struct api_request *request)
{
    struct linking *linking = request->state;
    linking->session = &linking->in.link.session;
    request->on_gone = api_continue;
    enum op_result result = read_app(request, linking);
    if (result == OP_NEXT)
        result = read_target(request, linking);
    if (result == OP_NEXT)
        result = read_demand(request, linking);
    if (result != OP_NEXT)
        return result;
    linking->app = NULL; /* the catalog may be replaced while the op waits */
    if (!linking->session->is_reconnect)
        return store_new(request, linking);
    struct pg_pool *pool = request->api->config.pool;
    struct uuid account_id = request->serve.grant.account_id;
    if (linking->wanted_id)
        store_connection_get(pool, &request->query, &request->serve.op, account_id,
                             linking->wanted_id);
    else
        store_connection_choice(pool, &request->query, &request->serve.op, account_id,
                                linking->session->integration_id);
    return api_wait(request, on_connections);
}

const struct api_endpoint api_connect_session = {
    .scope = SCOPE_EXECUTE_WRITE,
    .body = API_BODY_REQUIRED,
    .members =
        &(const struct api_names){.own = {"integration_id", "force_reconnect", "connection_id",
                                          "email", "subject", "return_url"}},
    .begin = begin_link,
    .state_bytes = sizeof(struct linking),
};
