/*
 * The frame: head, navigation, one notice, the page's own markup; and how replies go out.
 */
#include "web/page.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/encode.h"

/* What is shown once after a form was done; the word is in the query string, the sentence here, so
 * that no link can make a page say something of its own. */
static const struct {
    const char *word, *sentence;
} notices[] = {
    {"signed_out", "You are signed out."},
    {"connected", "Connected."},
    {"reconnected", "Connected again."},
    {"connection_deleted", "The connection is deleted."},
    {"connection_changed", "The connection is changed."},
    {"connection_works", "The app took the credential: the connection works."},
    {"approved", "Approved; the flow goes on."},
    {"rejected", "Rejected; the flow has ended."},
    {"resumed", "The flow goes on."},
    {"cancelled", "The flow is cancelled."},
    {"started", "The flow has started."},
    {"key_revoked", "The key is revoked; it is refused from now on."},
    {"own_key_revoked", "Your key is revoked, and you are signed out."},
    {"connection_untested", "Connected. The app has no request that could test it."},
    {"client_saved", "The app's OAuth client is saved."},
    {"client_deleted", "The app's OAuth client is deleted."},
};

static const struct {
    const char *path, *label, *first; /* first: the first segment of the pages below it */
} places[] = {
    {"/", "Overview", ""},         {"/integrations", "Apps", "integrations"},
    {"/flows", "Flows", "flows"},  {"/executions", "Executions", "executions"},
    {"/keys", "API keys", "keys"},
};

/* ---- headers ---- */

void web_header(struct web_request *request, const char *name, slice value)
{
    ASSERT(request->header_count < WEB_HEADERS_MAX);
    request->headers[request->header_count++] = (struct http_header){slice_cstr(name), value};
}

static bool is_secure(const struct web_request *request)
{
    return slice_starts_with(request->web->config.public_url, SLICE("https://"));
}

slice web_cookie_name_of(struct web_request *request, slice mark)
{
    slice name = is_secure(request) ? SLICE("__Host-sluice") : SLICE("sluice");
    return mark.ptr ? arena_printf(&request->op.arena, "%.*s-link-%.*s", SLICE_ARG(name),
                                   SLICE_ARG(mark))
                    : name;
}

static void set_cookie(struct web_request *request, slice value, long long age_s)
{
    slice mark = request->session.link_token.ptr ? slice_cstr(request->link.mark) : SLICE_NONE;
    slice text = arena_printf(&request->op.arena,
                              "%.*s=%.*s; Path=/; Max-Age=%lld; HttpOnly; "
                              "SameSite=Lax%s",
                              SLICE_ARG(web_cookie_name_of(request, mark)), SLICE_ARG(value), age_s,
                              is_secure(request) ? "; Secure" : "");
    if (text.ptr)
        web_header(request, "Set-Cookie", text);
}

bool web_set_cookie(struct web_request *request)
{
    const struct web_session *session = &request->session;
    slice value = session_seal(request->web->config.ring, session, &request->op.arena);
    if (!value.ptr)
        return false;
    set_cookie(request, value, (long long)(session->until_ms - clock_wall_us() / 1000) / 1000);
    return true;
}

void web_clear_cookie(struct web_request *request)
{
    set_cookie(request, SLICE(""), 0);
}

void web_allow_form_to(struct web_request *request, slice origin)
{
    request->form_origin = origin;
}

/* Nothing from anywhere but here, and nothing inline: what a stranger's text might become has no
 * way to run. */
static void add_guards(struct web_request *request)
{
    slice policy = arena_printf(
        &request->op.arena,
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'%s%.*s",
        request->form_origin.len ? " " : "", SLICE_ARG(request->form_origin));
    if (policy.ptr)
        web_header(request, "Content-Security-Policy", policy);
    web_header(request, "X-Content-Type-Options", SLICE("nosniff"));
    web_header(request, "Referrer-Policy", SLICE("same-origin"));
    web_header(request, "Cross-Origin-Opener-Policy", SLICE("same-origin"));
}

static enum op_result reply(struct web_request *request, unsigned status, slice body)
{
    ASSERT(!request->frame.is_answered);
    request->frame.is_answered = true;
    http_reply(request->exchange, status, request->headers, request->header_count, body);
    return OP_DONE;
}

/* ---- the frame ---- */

static bool is_place(const struct web_request *request, const char *first)
{
    const struct http_exchange *exchange = request->exchange;
    if (exchange->segment_count == 0)
        return !*first;
    slice segment = exchange->segments[0];
    return slice_eq_cstr(segment, first) ||
           (slice_eq_cstr(segment, "connections") && strcmp(first, "integrations") == 0);
}

static void write_head(struct buf *out, slice title)
{
    HTML(out,
         "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
         "<meta name=\"color-scheme\" content=\"light dark\">"
         "<title>{} - sluice</title><link rel=\"stylesheet\" href=\"{}\">"
         "<link rel=\"icon\" href=\"{}\"><script type=\"module\" src=\"{}\"></script></head>"
         "<body><a class=\"skip\" href=\"#main\">Skip to the page</a>",
         title, slice_cstr(web_asset_path("style.css")), slice_cstr(web_asset_path("icon.svg")),
         slice_cstr(web_asset_path("app.mjs")));
}

static void write_navigation(struct web_request *request, struct buf *out)
{
    const struct web_session *session = &request->session;
    buf_append(out, SLICE("<header class=\"top\"><a class=\"name\" href=\"/\">sluice</a>"));
    if (session->is_open && !session->link_token.ptr) {
        buf_append(out, SLICE("<nav aria-label=\"Pages\"><ul>"));
        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
            bool is_here = is_place(request, places[i].first);
            HTML(out, "<li><a href=\"{}\"", slice_cstr(places[i].path));
            if (is_here)
                buf_append(out, SLICE(" aria-current=\"page\""));
            HTML(out, ">{}</a></li>", slice_cstr(places[i].label));
        }
        buf_append(out, SLICE("</ul></nav>"));
        web_button(request, out, SLICE("/sign-out"), SLICE("Sign out"), "quiet");
    }
    buf_append(out, SLICE("</header>"));
}

static void write_notice(struct web_request *request, struct buf *out)
{
    slice word = web_query(request, "notice");
    if (request->again_notice.ptr)
        HTML(out, "<p class=\"problem\" role=\"alert\">{}</p>", request->again_notice);
    for (size_t i = 0; word.ptr && i < ARRAY_LEN(notices); i++)
        if (slice_eq_cstr(word, notices[i].word))
            HTML(out, "<p class=\"notice\" role=\"status\">{}</p>",
                 slice_cstr(notices[i].sentence));
}

enum op_result web_reply_page(struct web_request *request, unsigned status, slice title,
                              struct buf *body)
{
    struct buf page;
    slice text = SLICE_NONE;
    buf_init(&page, 2 * WEB_PAGE_BYTES_MAX);
    write_head(&page, title);
    write_navigation(request, &page);
    HTML(&page, "<main id=\"main\" tabindex=\"-1\" data-path=\"{}\">", request->again_path);
    write_notice(request, &page);
    HTML(&page, "<h1>{}</h1>", title);
    buf_append(&page, buf_slice(body));
    buf_append(&page, SLICE("</main></body></html>"));
    if (buf_is_ok(body) && buf_is_ok(&page))
        text = arena_dup(&request->op.arena, buf_slice(&page));
    buf_deinit(&page);
    buf_deinit(body);
    if (!text.ptr) {
        request->frame.is_answered = true;
        http_reply_error(request->exchange, 503, SLICE("Out of memory, try again"));
        return OP_DONE;
    }
    add_guards(request);
    web_header(request, "Content-Type", SLICE("text/html; charset=utf-8"));
    web_header(request, "Cache-Control", SLICE("no-store"));
    return reply(request, request->again_status ? request->again_status : status, text);
}

enum op_result web_reply_problem(struct web_request *request, unsigned status, slice title,
                                 slice text)
{
    struct buf body;
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    HTML(&body, "<p>{}</p><p><a href=\"/\">To the overview</a></p>", text);
    return web_reply_page(request, status, title, &body);
}

enum op_result web_reply_database(struct web_request *request, int status)
{
    op_log(&request->op, LOG_ERROR, "a page's query failed", LOG_INT("status", status),
           LOG_STR("message", request->query.message));
    return web_reply_problem(request, 503, SLICE("Not available now"),
                             SLICE("The database cannot be reached; nothing was done. Try again in "
                                   "a moment."));
}

static enum op_result redirect(struct web_request *request, slice url)
{
    if (!url.ptr)
        return web_reply_problem(request, 503, SLICE("Not available now"), SLICE("Try again."));
    add_guards(request);
    web_header(request, "Location", url);
    web_header(request, "Cache-Control", SLICE("no-store"));
    return reply(request, 303, SLICE(""));
}

enum op_result web_reply_redirect(struct web_request *request, slice path, const char *notice)
{
    const char *joint = slice_find_char(path, '?') < 0 ? "?" : "&";
    return redirect(request, arena_printf(&request->op.arena, "%.*s%s%s%s", SLICE_ARG(path),
                                          *notice ? joint : "", *notice ? "notice=" : "", notice));
}

enum op_result web_reply_away(struct web_request *request, slice url)
{
    return redirect(request, arena_dup(&request->op.arena, url));
}

enum op_result web_reply_asset(struct web_request *request, slice type, slice bytes)
{
    web_header(request, "Content-Type", type);
    web_header(request, "Cache-Control", SLICE("public, max-age=31536000, immutable"));
    web_header(request, "X-Content-Type-Options", SLICE("nosniff"));
    return reply(request, 200, bytes);
}

/* ---- shared markup ---- */

void web_csrf_field(struct web_request *request, struct buf *out)
{
    if (request->session.is_open)
        HTML(out, "<input type=\"hidden\" name=\"csrf\" value=\"{}\">",
             slice_of(request->session.csrf, SESSION_CSRF_LEN));
}

void web_button(struct web_request *request, struct buf *out, slice action, slice label,
                const char *style)
{
    HTML(out, "<form method=\"post\" action=\"{}\">", action);
    web_csrf_field(request, out);
    HTML(out, "<button class=\"{}\">{}</button></form>", slice_cstr(style), label);
}

void web_badge(struct buf *out, slice status)
{
    static const struct {
        const char *status, *kind, *word;
    } kinds[] = {
        {"completed", "ok", "completed"}, {"succeeded", "ok", "succeeded"},
        {"connected", "ok", "connected"}, {"live", "ok", "connected"},
        {"valid", "ok", "valid"},         {"running", "busy", "running"},
        {"waiting", "warn", "waiting"},   {"ambiguous", "warn", "ambiguous"},
        {"failed", "bad", "failed"},      {"reauth_required", "bad", "reconnect it"},
    };
    const char *kind = "quiet";
    slice word = status;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (!slice_eq_cstr(status, kinds[i].status))
            continue;
        kind = kinds[i].kind;
        word = slice_cstr(kinds[i].word);
    }
    HTML(out, "<span class=\"badge {}\">{}</span>", slice_cstr(kind), word);
}
