/*
 * The page of a connect link; see link_page.h.
 */
#include "web/link_page.h"

#include "base/encode.h"

enum { TITLES_MAX = 8, PAGE_BYTES = 16 };

/* ---- a link that has ended ---- */

enum op_result link_reply_over(struct web_request *request, enum link_over why,
                               const struct connect_session *link)
{
    static const struct {
        unsigned status;
        const char *title, *text;
    } ends[] = {
        [LINK_UNKNOWN] = {404, "This link is not valid",
                          "It may have been copied in part, or it ended long ago."},
        [LINK_EXPIRED] = {410, "This link has expired",
                          "A link is valid for 15 minutes, and for one hour once it is opened."},
        [LINK_TAKEN] = {410, "This link has been opened already",
                        "A link works once, in the browser that opened it. If that was this "
                        "browser, check that "
                        "it accepts cookies."},
        [LINK_USED] = {410, "This link has been used",
                       "The app was connected with it. A link works once."},
        [LINK_REVOKED] = {410, "This link is no longer valid",
                          "The API key that created it was revoked or has expired."},
        [LINK_GONE] = {410, "This link is no longer valid",
                       "The connection that it was for has been removed."},
    };
    struct buf body;
    ASSERT((size_t)why < ARRAY_LEN(ends) && ends[why].title);
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    HTML(&body, "<p>{} Nothing was changed. Ask {} for a new one.</p>", slice_cstr(ends[why].text),
         link && link->account_name.ptr ? link->account_name : SLICE("the sender"));
    return web_reply_page(request, ends[why].status, slice_cstr(ends[why].title), &body);
}

/* ---- what access it gives ---- */

static void write_titles(const struct catalog_integration *app, enum catalog_level level,
                         const char *verb, struct buf *out)
{
    size_t count = 0, listed = 0;
    for (size_t i = 0; i < app->action_count; i++)
        /* Counted first: a level without actions has no line, and a long one says how many are left
         * out. */
        count += app->actions[i].level == level;
    if (count == 0)
        return;
    HTML(out, "<li><strong>{}</strong>: ", slice_cstr(verb));
    for (size_t i = 0; i < app->action_count && listed < TITLES_MAX; i++)
        if (app->actions[i].level == level)
            HTML(out, listed++ > 0 ? "; {}" : "{}", app->actions[i].title);
    if (count > listed)
        buf_printf(out, "; and %zu more", count - listed);
    buf_append(out, SLICE("</li>"));
}

/* What the scopes allow, as far as the manifest says: the actions, by level. */
static void write_access(const struct catalog_integration *app, struct buf *out)
{
    const struct catalog_auth *auth = catalog_auth_by(app, AUTH_OAUTH2);
    const struct json *scopes = auth ? auth->scopes : NULL;
    buf_append(out, SLICE("<ul>"));
    write_titles(app, LEVEL_READ, "Read", out);
    write_titles(app, LEVEL_WRITE, "Write", out);
    write_titles(app, LEVEL_DELETE, "Delete", out);
    write_titles(app, LEVEL_ADMIN, "Administer", out);
    buf_append(out, SLICE("</ul>"));
    if (!scopes || scopes->count == 0)
        /* Scopes are named only where OAuth requests some. */
        return;
    HTML(out, "<details><summary>The permissions that {} is asked for</summary><ul>", app->name);
    for (uint32_t i = 0; i < scopes->count; i++)
        HTML(out, "<li><code>{}</code></li>", json_str(&scopes->as.items[i]));
    buf_append(out, SLICE("</ul></details>"));
}

static void write_link_about(const struct link_page *page, struct buf *out)
{
    const struct connect_session *link = &page->link;
    HTML(out,
         "<p>You are giving <strong>{}</strong> access to <strong>{}</strong> in your name. It may "
         "then:"
         "</p>",
         link->account_name, page->app->name);
    write_access(page->app, out);
    if (page->has_row) {
        HTML(out, "<p>The link gives the connection <strong>{}</strong>", page->row.label);
        if (connection_identity_is_known(&page->row.identity))
            HTML(out, ", which acts as <strong>{}</strong>,",
                 connection_identity_text(&page->row.identity));
        buf_append(out, SLICE(" a new grant, and changes no other connection.</p>"));
    }
    /* The account may require a certain login; the check itself is made when the app has answered.
     */
    if (link->email.ptr || link->subject.ptr)
        HTML(out, "<p>Only <strong>{}</strong> can be connected with it.</p>",
             link->email.ptr ? link->email : link->subject);
}

static void write_promise(const struct link_page *page, struct buf *out)
{
    if (page->link.return_url.ptr)
        HTML(out, "<p class=\"soft\">You can return to {} afterwards.</p>", page->link.return_url);
}

/* ---- before it is opened ---- */

static void write_button(struct web_request *request, struct buf *out)
{
    uint8_t bytes[PAGE_BYTES];
    struct buf hex;
    ASSERT(request->link.token.ptr && !request->session.is_open);
    /* Identifies this page: the link is taken by the page whose button was pressed. */
    random_bytes(bytes, sizeof(bytes));
    buf_init(&hex, sizeof(bytes) * 2);
    encode_hex(&hex, slice_of(bytes, sizeof(bytes)));
    HTML(out,
         "<form method=\"post\" action=\"/connect/{}\"><input type=\"hidden\" name=\"page\" "
         "value=\"{}\"><button class=\"primary\">Continue</button></form>",
         request->link.token, buf_slice(&hex));
    /* Without the value every press would count as another page: the page fails now instead. */
    out->is_failed = out->is_failed || !buf_is_ok(&hex);
    buf_deinit(&hex);
}

static void write_offer(struct web_request *request, const struct link_page *page, struct buf *out)
{
    write_link_about(page, out);
    HTML(out,
         "<p>Continue only if you expected this link. What you connect can be used by {} until it "
         "is "
         "disconnected.</p>",
         page->link.account_name);
    write_promise(page, out);
    write_button(request, out);
}

/* ---- opened by this browser ---- */

static void write_link_form(struct web_request *request, const struct link_page *page,
                            struct buf *out)
{
    ASSERT(request->session.link_token.ptr); /* the dashboard's session has no access to it */
    write_link_about(page, out);
    write_promise(page, out);
    buf_append(out, SLICE("<div class=\"card\">"));
    if (page->lacks_client)
        HTML(out,
             "<p>Signing in to {} is not possible here yet: this server needs an OAuth client for "
             "{}, and has none yet. Ask {} to set one up.</p>",
             page->app->name, page->app->name, page->link.account_name);
    app_write_connect(request, page->app, page->has_row ? &page->row : NULL, !page->lacks_client,
                      out);
    buf_append(out, SLICE("</div>"));
    /* OAuth leaves this site; the form's target has to be allowed by the page's policy. */
    app_allow_forms(request, page->app);
}

/* The reader is not redirected to another site: its address is displayed first. */
static void write_way_back(slice url, struct buf *out)
{
    if (!url.ptr) {
        buf_append(out, SLICE("<p>You can close this page.</p>"));
        return;
    }
    HTML(out,
         "<p class=\"card\">You are done here: <a class=\"button primary\" href=\"{}\" "
         "rel=\"noreferrer\">Go back</a> <span class=\"soft\">to {}</span></p>",
         url, url);
}

static void write_done(const struct link_page *page, struct buf *out)
{
    const struct connection_identity *identity = &page->row.identity;
    slice text = connection_identity_text(identity), app = page->app->name;
    /* The connection was deleted since, by the account. */
    if (!page->has_row) {
        HTML(out, "<p>{} was connected with this link, and has been disconnected since.</p>", app);
    } else if (connection_identity_is_known(identity)) {
        HTML(out,
             "<p class=\"notice\" role=\"status\">{} has access to {} now, as "
             "<strong>{}</strong>.</p>",
             page->link.account_name, app, text);
        if (identity->label.ptr && !slice_eq(identity->label, text))
            HTML(out, "<p class=\"soft\">{}</p>", identity->label);
    } else {
        HTML(out,
             "<p class=\"notice\" role=\"status\">{} has access to {} now. {} did not report the "
             "login.</p>",
             page->link.account_name, app, app);
    }
    write_way_back(page->link.return_url, out);
}

enum op_result link_reply_page(struct web_request *request, const struct link_page *page)
{
    const char *verb = page->link.used_at        ? "Connected:"
                       : page->link.is_reconnect ? "Reconnect"
                                                 : "Connect";
    struct buf body;
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    /* A used link comes first: the session of its browser is still open then. */
    if (page->link.used_at)
        write_done(page, &body);
    else if (request->session.is_open)
        write_link_form(request, page, &body);
    else
        write_offer(request, page, &body);
    slice title = arena_printf(&request->op.arena, "%s %.*s", verb, SLICE_ARG(page->app->name));
    return web_reply_page(request, 200, title, &body);
}
