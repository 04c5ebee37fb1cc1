/*
 * POST /api/connect/sessions (scope execute): a link for an end user, so that an agent's
 * `sluice.connect_app` has somewhere to send him. Good for 15 minutes and once; what it opens is
 * the one app's connect page, in this account's name, while the key that asked is good.
 */
#include "api/listing.h"
#include "base/clock.h"
#include "base/encode.h"
#include "base/mem.h"
#include "http/message.h"
#include "http/url.h"
#include "store/connect_session.h"
#include "vault/key.h"

enum { LINK_MS = 15 * 60 * 1000, TOKEN_BYTES = 16 + 32 };

struct linking {
    struct connect_session session;
    slice url;
};

static bool is_loopback(const struct url *url)
{
    return slice_eq_nocase(url->host, SLICE("localhost")) ||
           slice_eq_cstr(url->host, "127.0.0.1") || slice_eq_cstr(url->host, "::1");
}

/* https, or http of this machine; nothing that a browser reads in another way. */
static bool is_return_url(slice text)
{
    struct url url;
    return text.len > 0 && text.len <= CONNECT_SESSION_URL_MAX && http_is_visible(text) &&
           url_parse(text, &url, NULL) == OK && (url.is_https || is_loopback(&url));
}

/* The account, so that it is found by key, and 256 random bits; the hash is over all of it. */
static bool draw(struct api_request *request, struct linking *linking)
{
    struct connect_session *session = &linking->session;
    uint8_t bytes[TOKEN_BYTES];
    char text[BASE64URL_LEN(TOKEN_BYTES)];
    memcpy(bytes, session->account_id.bytes, 16);
    random_kernel(bytes + 16, sizeof(bytes) - 16);
    vault_sha256(slice_of(bytes, sizeof(bytes)), session->token_hash);
    linking->url = arena_printf(
        &request->op.arena, "%s/connect/%.*s", request->api->public_url,
        SLICE_ARG(encode_base64url_in(text, sizeof(text), slice_of(bytes, sizeof(bytes)))));
    mem_wipe(bytes, sizeof(bytes));
    mem_wipe(text, sizeof(text));
    return linking->url.ptr != NULL;
}

static bool hash_key(struct api_request *request, uint8_t hash[API_KEY_HASH_LEN])
{
    slice header = http_request_header(request->exchange, SLICE("Authorization"));
    return vault_key_hash(slice_trim(slice_from(header, sizeof("Bearer ") - 1)), hash);
}

static enum op_result begin(struct api_request *request)
{
    struct linking *linking = ARENA_NEW(&request->op.arena, struct linking);
    const struct json *back = JSON_GET(request->body, "return_url");
    const struct json *again = JSON_GET(request->body, "force_reconnect");
    slice id = json_get_str(request->body, SLICE("integration_id"));
    int64_t now = clock_wall_us();
    if (!linking)
        return api_reply_database(request, ERR_BUSY);
    const struct catalog_integration *app =
        id.ptr ? catalog_find_integration(*request->api->config.catalog, id) : NULL;
    if (!id.ptr)
        return api_reply_error(request, 400, "integration_id must be a string");
    if (!app)
        return api_reply_error(request, 404, "Integration not found");
    if (app->auth.kind == AUTH_NONE)
        return api_reply_error(request, 400, "This integration needs no connection");
    if (again && again->type != JSON_BOOL)
        return api_reply_error(request, 400, "force_reconnect must be true or false");
    if (back && !is_return_url(json_str(back)))
        return api_reply_error(request, 400,
                               "return_url must be an https URL of at most %d characters",
                               CONNECT_SESSION_URL_MAX);
    struct connect_session *session = &linking->session;
    session->account_id = request->grant.account_id;
    session->integration_id = id;
    session->is_reconnect = again && again->as.boolean;
    session->return_url = json_str(back);
    session->created_at = now;
    session->expires_at = now + LINK_MS * 1000LL;
    if (!hash_key(request, session->key_hash) || !draw(request, linking))
        return api_reply_database(request, ERR_BUSY);
    request->state = linking;
    store_connect_session_insert(request->api->config.pool, &request->query, &request->op, session);
    return OP_WAIT;
}

static enum op_result finish(struct api_request *request)
{
    const struct linking *linking = request->state;
    struct json_writer w;
    struct buf text;
    if (store_done_result(&request->query) != OK)
        return api_reply_database(request, request->query.status);
    buf_init(&text, 4 * 1024);
    json_begin(&w, &text);
    json_open(&w, '{');
    listing_put_text(&w, "url", linking->url);
    listing_put_time(&w, "expires_at", linking->session.expires_at);
    json_close(&w, '}');
    slice reply = buf_is_ok(&text) ? arena_dup(&request->op.arena, buf_slice(&text)) : SLICE_NONE;
    buf_deinit(&text);
    return reply.ptr ? api_reply(request, 201, reply) : api_reply_database(request, ERR_BUSY);
}

const struct api_endpoint api_connect_session = {
    .route = "/api/connect/sessions",
    .scope = SCOPE_EXECUTE,
    .body = API_BODY_REQUIRED,
    .members =
        &(const struct api_names){.own = {"integration_id", "force_reconnect", "return_url"}},
    .begin = begin,
    .finish = finish,
};
