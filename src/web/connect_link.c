/*
 * A link that an end user was given (POST /api/connect/sessions). Its address serves one page for
 * the link's whole life: first the request (which account wants access to what); once the link is
 * opened, the form, for the browser that opened it; at the end the connection. A GET changes
 * nothing, since mail scanners and previews follow links, too: the button opens the link, once. If
 * nothing is to be chosen or typed, it leads to the app's sign-in, without the form.
 *
 * The holder of a link reads and changes only the connection that the link makes or reconnects: the
 * link's session has its own cookie and its own pages.
 */
#include "base/clock.h"
#include "base/encode.h"
#include "base/mem.h"
#include "connect/command.h"
#include "vault/key.h"
#include "web/link_page.h"

enum { PAGE_BYTES = 16 }; /* the random value that makes each rendered page distinct */

struct link {
    bool is_taking;
    struct link_page page;
    struct catalog *catalog;
    struct pg_query own, shared; /* OAuth clients: the account's, the operator's */
    struct connect_command command;
    struct connect_command_request in;
};

static void on_end(struct web_request *request)
{
    struct link *it = request->state;
    catalog_unref(it->catalog);
}

static web_step on_link;

static enum op_result load_link(struct web_request *request, bool is_taking)
{
    struct link *it = web_state_new(request, sizeof(*it));
    const struct web_link *link = &request->link;
    if (!it)
        return OP_DONE;
    /* A malformed token is answered like an unknown one, without a query. */
    if (!link->token.ptr)
        return link_reply_over(request, LINK_UNKNOWN, NULL);
    it->is_taking = is_taking;
    it->catalog = catalog_ref(*request->web->config.catalog);
    request->on_end = on_end;
    store_connect_session_get(request->web->config.pool, &request->query, &request->serve.op,
                              link->account_id, link->hash);
    return web_wait(request, on_link);
}

/* Returns OP_NEXT if the link is valid for this request. */
static enum op_result check_link(struct web_request *request)
{
    const struct link *it = request->state;
    const struct connect_session *link = &it->page.link;
    /* A session of the link exists only in the browser that opened it. */
    bool is_mine = request->session.is_open;
    int key = request->serve.check.status;
    if (key != OK && key != ERR_REFUSED)
        return web_reply_database(request, key);
    /* The connection that the link made stays when the link's key is revoked. */
    if (link->used_at && (!is_mine || key == ERR_REFUSED))
        return link_reply_over(request, LINK_USED, link);
    if (key == ERR_REFUSED)
        return link_reply_over(request, LINK_REVOKED, link);
    if (!it->page.app)
        return link_reply_over(request, LINK_UNKNOWN, link);
    /* The page still tries to open the link: if the same form was sent twice, the statement in
     * take_link() finds that this page has opened the link, and succeeds again. */
    if (!is_mine && link->taken_at && !it->is_taking)
        return link_reply_over(request, LINK_TAKEN, link);
    /* The browser that used a link can still read it after it has expired. */
    if (!link->used_at && link->expires_at <= clock_shared_us())
        return link_reply_over(request, LINK_EXPIRED, link);
    return OP_NEXT;
}

static enum op_result on_clients(struct web_request *request)
{
    struct link *it = request->state;
    struct oauth_client client;
    ASSERT(it->own.stmt && it->shared.stmt);
    int own = store_oauth_client_get_result(&it->own, &client);
    int shared = store_oauth_client_get_result(&it->shared, &client);
    if (own != OK && own != ERR_NOTFOUND)
        return web_reply_database(request, own);
    if (shared != OK && shared != ERR_NOTFOUND)
        return web_reply_database(request, shared);
    it->page.lacks_client = own == ERR_NOTFOUND && shared == ERR_NOTFOUND;
    return link_reply_page(request, &it->page);
}

/* The page offers OAuth only where a client exists, so the clients are loaded before it is
 * rendered. */
static enum op_result show_link(struct web_request *request)
{
    struct link *it = request->state;
    const struct link_page *page = &it->page;
    struct pg_pool *pool = request->web->config.pool;
    slice id = page->app->integration_id;
    if (page->link.used_at || !catalog_auth_by(page->app, AUTH_OAUTH2))
        return link_reply_page(request, page);
    store_oauth_client_get(pool, &it->own, &request->serve.op,
                           uuid_or(page->link.parent_id, page->link.account_id), id);
    store_oauth_client_get(pool, &it->shared, &request->serve.op, (struct uuid){{0}}, id);
    return web_wait(request, on_clients);
}

static enum op_result on_connection(struct web_request *request)
{
    struct link *it = request->state;
    struct link_page *page = &it->page;
    int status = store_connection_get_result(&request->query, &page->row);
    if (status != OK && status != ERR_NOTFOUND)
        return web_reply_database(request, status);
    page->has_row = status == OK;
    /* The connection was deleted after the link was created. The page of a used link reports
     * that; any other link can no longer be used. */
    if (!page->has_row && !page->link.used_at)
        return link_reply_over(request, LINK_GONE, &page->link);
    return show_link(request);
}

/* The link is open for this browser. Leads to the app if the form asks for that, else to the form
 * that connects it. A form without a session can be sent by any site, and the app may consent
 * without asking: so the browser has to report that the form is the one of this page. */
static enum op_result leave_page(struct web_request *request)
{
    struct link *it = request->state;
    if (web_field(request, "go").len == 0 || !web_names_site(request))
        return web_reply_redirect(request, app_link_path(request), "");
    catalog_unref(it->catalog);
    it->catalog = NULL;
    return web_connect_link_go(request);
}

static web_step on_taken;

static enum op_result take_link(struct web_request *request)
{
    struct link *it = request->state;
    /* The form's random value identifies the page that was rendered: the same form sent twice opens
     * the link once. Without the value each request counts as another page. */
    slice drawn = web_field(request, "page");
    uint8_t bytes[PAGE_BYTES];
    ASSERT(it->is_taking && !request->session.is_open);
    random_bytes(bytes, sizeof(bytes));
    it->in = (struct connect_command_request){
        .kind = CONNECT_LINK_TAKE,
        .by = app_link_by(request, &it->page.link),
        .link = {.session = it->page.link, .until = clock_shared_us() + SESSION_LINK_MS * 1000LL},
    };
    vault_sha256(drawn.len >= 2 * PAGE_BYTES ? drawn : slice_of(bytes, sizeof(bytes)),
                 it->in.link.taken_by);
    connect_command_start(request->web->config.connect, &it->command, &it->in, &request->serve.op);
    return web_wait(request, on_taken);
}

/* The API key that made the link was checked: the link is valid as long as that key, and acts on
 * its behalf. */
static enum op_result on_key(struct web_request *request)
{
    struct link *it = request->state;
    const struct connect_session *link = &it->page.link;
    enum op_result result = check_link(request);
    if (result != OP_NEXT)
        return result;
    if (it->is_taking && request->session.is_open) /* the form was sent twice */
        return leave_page(request);
    if (it->is_taking)
        return take_link(request);
    /* A used link shows the connection that it made, which replaces the one for which it was
     * made. */
    int64_t id = link->made_id ? link->made_id : link->connection_id;
    if (!id)
        return show_link(request);
    store_connection_get(request->web->config.pool, &request->query, &request->serve.op,
                         link->account_id, id);
    return web_wait(request, on_connection);
}

static enum op_result on_link(struct web_request *request)
{
    struct link *it = request->state;
    struct link_page *page = &it->page;
    int status = app_link_result(&request->query, &request->link, &page->link);
    if (status == ERR_NOTFOUND)
        return link_reply_over(request, LINK_UNKNOWN, NULL);
    if (status != OK)
        return web_reply_database(request, status);
    page->app = catalog_find_integration(it->catalog, page->link.integration_id, NULL);
    /* Revoking the key ends the links that it made, so the key is checked on each request. */
    struct vault_caller caller = {.begun_at = 0};
    memcpy(caller.key_hash, page->link.key_hash, API_KEY_HASH_LEN);
    return vault_auth_check_caller(request->web->config.auth, &request->serve.check, &caller,
                                   SLICE_NONE, &request->serve.op)
               ? on_key(request)
               : web_wait(request, on_key);
}

/* ---- opening the link ---- */

static enum op_result on_taken(struct web_request *request)
{
    struct link *it = request->state;
    const struct connect_session *link = &it->command.link;
    ASSERT(it->in.kind == CONNECT_LINK_TAKE && !request->session.is_open);
    if (it->command.status == ERR_NOTFOUND)
        return link_reply_over(request, LINK_TAKEN, &it->page.link);
    if (it->command.status != OK)
        return web_reply_database(request, it->command.status);
    /* The browser's session begins here: its cookie opens nothing but this link. */
    request->session = (struct web_session){
        .is_open = true,
        .account_id = request->link.account_id,
        .parent_id = link->parent_id,
        .until_ms = link->expires_at / 1000,
        .link_token = request->link.token,
    };
    memcpy(request->session.key_hash, link->key_hash, API_KEY_HASH_LEN);
    session_draw_csrf(&request->session);
    if (!web_set_cookie(request))
        return web_reply_problem(request, 503, "Not available now", "Try again.");
    return leave_page(request);
}

enum op_result web_connect_link(struct web_request *request)
{
    return load_link(request, false);
}
enum op_result web_connect_link_take(struct web_request *request)
{
    return load_link(request, true);
}
