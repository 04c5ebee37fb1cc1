/*
 * A link that an end user was handed (POST /api/connect/sessions). Looking at it changes nothing,
 * for mail scanners follow links, too; the button takes it, once, and opens a session that may
 * connect that one app.
 */
#include "base/clock.h"
#include "base/encode.h"
#include "store/connect_session.h"
#include "vault/key.h"
#include "web/app.h"

enum { TOKEN_BYTES = 16 + 32 };

struct link {
    struct uuid account_id;
    uint8_t hash[CONNECT_SESSION_HASH_LEN];
};

static enum op_result reply_unknown(struct web_request *request)
{
    return web_reply_problem(request, 404, SLICE("This link is not good any more"),
                             SLICE("Each link works once, and for 15 minutes. Ask whoever sent it "
                                   "to you for a new one."));
}

/* NULL: answered. */
static const struct link *read_link(struct web_request *request)
{
    struct link *link = ARENA_NEW(&request->op.arena, struct link);
    struct buf bytes;
    buf_init(&bytes, TOKEN_BYTES);
    bool is_whole = link && decode_base64url(&bytes, request->match.params[0]) == OK &&
                    buf_is_ok(&bytes) && bytes.len == TOKEN_BYTES;
    if (is_whole) {
        memcpy(link->account_id.bytes, bytes.ptr, 16);
        vault_sha256(buf_slice(&bytes), link->hash);
    }
    buf_deinit(&bytes);
    if (is_whole)
        return link;
    (void)reply_unknown(request);
    return NULL;
}

static enum op_result begin_look(struct web_request *request)
{
    const struct link *link = read_link(request);
    if (!link)
        return OP_DONE;
    store_connect_session_get(request->web->config.pool, &request->query, &request->op,
                              link->account_id, link->hash);
    return OP_WAIT;
}

/* false: answered. */
static bool read_session(struct web_request *request, struct connect_session *session)
{
    int status = store_connect_session_result(&request->query, session);
    if (status == OK && session->expires_at > clock_wall_us())
        return true;
    if (status == OK || status == ERR_NOTFOUND)
        (void)reply_unknown(request);
    else
        (void)web_reply_database(request, status);
    return false;
}

static enum op_result finish_look(struct web_request *request)
{
    struct connect_session session;
    struct buf body;
    if (!read_session(request, &session))
        return OP_DONE;
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, session.integration_id);
    if (!app)
        return reply_unknown(request);
    const char *verb = session.is_reconnect ? "Reconnect" : "Connect";
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    HTML(&body,
         "<p>{}</p><p>What you connect can be used by whoever sent you this link. Go on only if "
         "you expected it.</p>",
         catalog_summary(app->description));
    if (session.return_url.ptr)
        HTML(&body, "<p class=\"soft\">Afterwards you can go back to {}</p>", session.return_url);
    HTML(&body, "<form method=\"post\" action=\"/connect/{}\">", request->match.params[0]);
    web_csrf_field(request, &body);
    buf_append(&body, SLICE("<button class=\"primary\">Go on</button></form>"));
    return web_reply_page(request, 200,
                          arena_printf(&request->op.arena, "%s %.*s", verb, SLICE_ARG(app->name)),
                          &body);
}

const struct web_page web_connect_link = {
    .route = "/connect/{token}", .access = WEB_OPEN, .begin = begin_look, .finish = finish_look};

static enum op_result begin_take(struct web_request *request)
{
    const struct link *link = read_link(request);
    if (!link)
        return OP_DONE;
    request->state = (void *)(uintptr_t)link;
    store_connect_session_take(request->web->config.pool, &request->query, &request->op,
                               link->account_id, link->hash);
    return OP_WAIT;
}

static enum op_result finish_take(struct web_request *request)
{
    const struct link *link = request->state;
    struct connect_session taken;
    if (!read_session(request, &taken))
        return OP_DONE;
    request->session = (struct web_session){
        .is_open = true,
        .account_id = link->account_id,
        .until_ms = clock_wall_us() / 1000 + SESSION_LINK_MS,
        .limit_integration = taken.integration_id,
        .return_url = taken.return_url,
    };
    memcpy(request->session.key_hash, taken.key_hash, API_KEY_HASH_LEN);
    session_draw_csrf(&request->session);
    if (!web_set_cookie(request))
        return web_reply_problem(request, 503, SLICE("Not available now"), SLICE("Try again."));
    return web_reply_redirect(request, app_path(request, taken.integration_id), "");
}

const struct web_page web_connect_link_take = {
    .route = "/connect/{token}", .access = WEB_OPEN, .begin = begin_take, .finish = finish_take};
