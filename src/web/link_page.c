/*
 * The page of a connect link; see link_page.h.
 */
#include "web/link_page.h"

#include "base/encode.h"
#include "http/url.h"

enum { PAGE_BYTES = 16 };

/* ---- a link that has ended ---- */

enum op_result link_reply_over(struct web_request *request, enum link_over why,
                               const struct connect_session *link)
{
    static const struct {
        unsigned status;
        const char *title, *text;
    } ends[] = {
        [LINK_UNKNOWN] = {404, "This link is not valid",
                          "Perhaps it was not copied completely, or it expired long ago."},
        [LINK_EXPIRED] = {410, "This link has expired",
                          "A link is valid for 15 minutes, and for one hour once it is opened."},
        [LINK_TAKEN] = {410, "This link has already been opened",
                        "A link works once, in the browser that opened it. If that was this "
                        "browser, check that "
                        "it accepts cookies."},
        [LINK_USED] = {410, "This link has been used",
                       "The app was connected with it. A link works once."},
        [LINK_REVOKED] = {410, "This link is no longer valid",
                          "The API key that created it was revoked or has expired."},
        [LINK_GONE] = {410, "This link is no longer valid",
                       "The connection that the link was for has been removed."},
    };
    struct json_writer *w = view_begin(request);
    ASSERT((size_t)why < ARRAY_LEN(ends) && ends[why].title);
    json_member_str(w, "title", slice_cstr(ends[why].title));
    json_member_str(w, "text", slice_cstr(ends[why].text));
    json_member_bool(w, "is_used", why == LINK_USED);
    json_member_str(w, "account", link ? link->account_name : SLICE_NONE);
    return web_reply_view(request, ends[why].status, "link_over");
}

/* ---- before it is opened, and opened by this browser ---- */

/* Draws the value that identifies this page: the page whose button was pressed takes the link. */
static slice draw_page(struct web_request *request)
{
    uint8_t bytes[PAGE_BYTES];
    char text[2 * PAGE_BYTES + 1];
    ASSERT(request->link.token.ptr && !request->session.is_open);
    random_bytes(bytes, sizeof(bytes));
    encode_hex_in(text, sizeof(text), slice_of(bytes, sizeof(bytes)));
    return arena_dup(&request->serve.op.arena, slice_cstr(text));
}

/* Writes the app's own sign-in host; if it depends on the connection, it is unknown here. */
static void write_next_site(struct json_writer *w, const struct link_page *page)
{
    const struct catalog_auth *auth = catalog_auth_by(page->app, AUTH_OAUTH2);
    struct url url;
    bool is_known = auth && !page->lacks_client && slice_find_char(auth->authorize_url, '$') < 0 &&
                    url_parse(auth->authorize_url, &url, NULL) == OK;
    json_member_str(w, "next_site", is_known ? url.host : SLICE_NONE);
}

/* Returns whether the button that opens the link can lead to the app's sign-in: nothing is to be
 * chosen or typed first. */
static bool leads_to_app(const struct link_page *page)
{
    const struct catalog_auth *auth = &page->app->auths[0];
    bool has_params = !page->link.connection_id && page->app->connection_params;
    bool has_choice = auth->optional_scopes && auth->optional_scopes->count > 0;
    return page->app->auth_count == 1 && auth->kind == AUTH_OAUTH2 && !page->lacks_client &&
           !has_params && !has_choice;
}

static void write_link(struct web_request *request, const struct link_page *page,
                       struct json_writer *w)
{
    const struct connect_session *link = &page->link;
    bool is_open = request->session.is_open;
    app_view_access(request, w, page->app, SLICE_NONE);
    app_view_scopes(w, page->app);
    app_view_not_asked(w, page->lacks_client ? NULL : page->app);
    write_next_site(w, page);
    view_time(w, "expires_at", link->expires_at);
    json_member_str(w, "label", page->has_row ? page->row.label : SLICE_NONE);
    /* The account may require a certain login; the login is checked once the app has answered. */
    json_member_str(w, "only", link->email.ptr ? link->email : link->subject);
    json_member_str(w, "token", request->link.token);
    json_member_str(w, "page", is_open ? SLICE_NONE : draw_page(request));
    json_member_bool(w, "is_reconnect", link->is_reconnect);
    json_member_bool(w, "lacks_client", page->lacks_client);
    json_member_bool(w, "has_way", !page->lacks_client || page->app->auth_count > 1);
    json_member_bool(w, "go", !is_open && leads_to_app(page));
    /* OAuth leaves this site; the form's target has to be allowed by the page's policy. */
    if (is_open || leads_to_app(page))
        app_allow_forms(request, page->app);
    if (is_open)
        app_view_forms(request, w, page->app, page->has_row ? &page->row : NULL,
                       !page->lacks_client);
    else
        app_view_no_forms(w);
}

enum op_result link_reply_page(struct web_request *request, const struct link_page *page)
{
    struct json_writer *w = view_begin(request);
    json_member_str(w, "account", page->link.account_name);
    view_account_mark(w, uuid_or(page->link.parent_id, page->link.account_id),
                      page->link.account_name, page->link.account_mark, page->link.account_colour);
    view_app_icon(w, page->app->integration_id, page->app);
    json_member_str(w, "name", page->app->name);
    json_member_str(w, "acts_as", page->has_row ? app_acts_as(&page->row) : SLICE_NONE);
    json_member_str(w, "return_url", page->link.return_url);
    /* A used link comes first: the session of its browser still exists then. */
    if (page->link.used_at) {
        /* If there is no row, the account has deleted the connection since. */
        json_member_bool(w, "has_connection", page->has_row);
        json_member_bool(w, "works", page->has_row && page->row.status == CONNECTION_LIVE);
        json_member_str(w, "label", page->has_row ? page->row.identity.label : SLICE_NONE);
        return web_reply_view(request, 200, "link_done");
    }
    write_link(request, page, w);
    return web_reply_view(request, 200, "link");
}
