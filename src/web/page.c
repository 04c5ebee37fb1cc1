/*
 * Replies: pages in their frame, redirects, assets; cookies and security headers.
 */
#include "web/page.h"

#include "base/clock.h"
#include "base/encode.h"
#include "base/map.h"
#include "web/gzip.h"
#include "store/account.h"
#include "web/view.h"

/* A sentence that is displayed once after a form was carried out. The query string contains the
 * word and this table the sentence, so that a link cannot make a page display arbitrary text. A
 * sentence about the present is displayed only by a page that has found it to be true
 * (notice_about), as another person may have acted since. */
static const struct {
    const char *word, *sentence;
    enum web_notice about;
} notices[] = {
    {"signed_out", "You are signed out.", WEB_NOTICE_PAST},
    {"connected", "Connected.", WEB_NOTICE_LIVE},
    {"reconnected", "Reconnected.", WEB_NOTICE_LIVE},
    {"connection_deleted", "Connection deleted.", WEB_NOTICE_PAST},
    {"user_erased",
     "The erasure of the user was requested. The user stays in the list until it has ended.",
     WEB_NOTICE_PAST},
    {"connection_changed", "Connection changed.", WEB_NOTICE_PAST},
    {"connection_works", "The app accepted the credential: the connection works.", WEB_NOTICE_LIVE},
    {"started", "The flow has started.", WEB_NOTICE_FLOW},
    {"decided", "Your decision was recorded.", WEB_NOTICE_PAST},
    {"key_revoked", "The key was revoked. It is refused from now on.", WEB_NOTICE_PAST},
    {"own_key_revoked", "Your key was revoked. You are signed out.", WEB_NOTICE_PAST},
    {"connection_untested", "Connected. The app has no request that can test the connection.",
     WEB_NOTICE_LIVE},
    {"client_saved", "OAuth client saved.", WEB_NOTICE_PAST},
    {"client_deleted", "OAuth client deleted.", WEB_NOTICE_PAST},
    {"webhook_changed", "Webhook changed.", WEB_NOTICE_PAST},
    {"webhook_deleted", "Webhook deleted. Nothing more is sent to it.", WEB_NOTICE_PAST},
    {"event_replayed", "The event was queued to be sent again.", WEB_NOTICE_PAST},
};

/* ---- headers ---- */

static bool is_secure(const struct web_request *request)
{
    return slice_starts_with(slice_cstr(request->web->public_url), SLICE("https://"));
}

slice web_cookie_name_of(struct web_request *request, slice mark)
{
    /* Browsers accept the prefix only with Secure and Path=/, which keeps other hosts from setting
     * it. */
    slice name = is_secure(request) ? SLICE("__Host-sluice") : SLICE("sluice");
    return mark.ptr ? arena_printf(&request->serve.op.arena, "%.*s-link-%.*s", SLICE_ARG(name),
                                   SLICE_ARG(mark))
                    : name;
}

static void set_cookie(struct web_request *request, slice value, long long age_s)
{
    /* A link's session has a separate cookie, so that it never replaces the dashboard's. */
    slice mark = request->session.link_token.ptr ? slice_cstr(request->link.mark) : SLICE_NONE;
    slice text = arena_printf(&request->serve.op.arena,
                              "%.*s=%.*s; Path=/; Max-Age=%lld; HttpOnly; "
                              "SameSite=Lax%s",
                              SLICE_ARG(web_cookie_name_of(request, mark)), SLICE_ARG(value), age_s,
                              /* SameSite is Lax because the callback of OAuth comes from another
                               * site, and needs the cookie. */
                              is_secure(request) ? "; Secure" : "");
    if (text.ptr)
        serve_header(&request->serve, "Set-Cookie", text);
}

bool web_set_cookie(struct web_request *request)
{
    const struct web_session *session = &request->session;
    slice value = session_seal(request->web->config.ring, session, &request->serve.op.arena);
    if (!value.ptr)
        return false;
    /* The browser drops the cookie when the session ends. */
    set_cookie(request, value, (long long)(session->until_ms - clock_shared_us() / 1000) / 1000);
    return true;
}

void web_clear_cookie(struct web_request *request)
{
    ASSERT(request->page->access == WEB_ACCOUNT); /* a link's cookie ends with its link */
    set_cookie(request, SLICE(""), 0);
}

void web_allow_form_to(struct web_request *request, slice origin)
{
    ASSERT(!request->form_origin.ptr); /* a page has the form of at most one app */
    request->form_origin = origin;
}

/* Allows only resources of this site, and nothing inline: even if external text became markup it
 * could not run. */
static void add_guards(struct web_request *request)
{
    slice policy = arena_printf(
        &request->serve.op.arena,
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'%s%.*s",
        request->form_origin.len ? " " : "", SLICE_ARG(request->form_origin));
    if (policy.ptr)
        serve_header(&request->serve, "Content-Security-Policy", policy);
    /* Assets and pages must never be read as another type. */
    serve_header(&request->serve, "X-Content-Type-Options", SLICE("nosniff"));
    serve_header(&request->serve, "Referrer-Policy", SLICE("same-origin"));
    serve_header(&request->serve, "Cross-Origin-Opener-Policy", SLICE("same-origin"));
}

bool web_takes_gzip(struct web_request *request)
{
    serve_header(&request->serve, "Vary", SLICE("Accept-Encoding"));
    return gzip_is_taken(http_request_header(request->serve.exchange, SLICE("Accept-Encoding")));
}

/* Compresses only if the browser reports that this site requested the page, or that its reader
 * typed the address or used a bookmark; gzip.h gives the reason. */
static bool may_compress(const struct web_request *request)
{
    slice site = http_request_header(request->serve.exchange, SLICE("Sec-Fetch-Site"));
    bool is_ours = slice_eq_cstr(site, "same-origin") || slice_eq_cstr(site, "none");
    /* The address of a connect link contains the secret of its pages, so these are not compressed.
     */
    bool is_link = request->page && request->page->access == WEB_LINK;
    return is_ours && !is_link && !request->holds_secret;
}

/* Gives a page that may be cached an ETag of its text. Returns whether the browser already has
 * this text. */
static bool is_known(struct web_request *request, slice page)
{
    if (!request->is_cacheable)
        return false;
    slice etag = arena_printf(&request->serve.op.arena, "W/\"%016llx\"",
                              (unsigned long long)hash_stable(page.ptr, page.len));
    serve_header(&request->serve, "ETag", etag);
    return slice_eq(http_request_header(request->serve.exchange, SLICE("If-None-Match")), etag);
}

/* Returns the page as sent, in the op's arena, or "" if the browser already has it. */
static slice pack_page(struct web_request *request, slice page)
{
    struct arena *arena = &request->serve.op.arena;
    op_weigh(&request->serve.op, page.len);
    if (is_known(request, page))
        return SLICE("");
    bool is_wanted = web_takes_gzip(request) && may_compress(request);
    slice packed = is_wanted ? gzip_compress(request->web->gzip, page, arena) : SLICE_NONE;
    if (!packed.ptr)
        return arena_dup(arena, page);
    serve_header(&request->serve, "Content-Encoding", SLICE("gzip"));
    return packed;
}

static enum op_result reply_text(struct web_request *request, unsigned status, slice body)
{
    /* A page answers once; a second reply would belong to another request. */
    ASSERT(!request->serve.is_answered);
    request->serve.is_answered = true;
    http_reply(request->serve.exchange, status, request->serve.headers, request->serve.header_count,
               body);
    return OP_DONE;
}

/* ---- the frame ---- */

/* Returns ARRAY_LEN(notices) if no notice has this word. */
static size_t find_notice(slice word)
{
    size_t at = 0;
    while (at < ARRAY_LEN(notices) && !slice_eq_cstr(word, notices[at].word))
        at++;
    return at;
}

/* Returns the sentence of the requested notice; SLICE_NONE if there is none, or if it is about
 * something that the page does not show. */
static slice notice_of(struct web_request *request)
{
    size_t at = find_notice(web_query(request, "notice"));
    bool is_true = at < ARRAY_LEN(notices) && (notices[at].about == WEB_NOTICE_PAST ||
                                               notices[at].about == request->notice_about);
    return slice_cstr(is_true ? notices[at].sentence : NULL);
}

/* Writes the account's data for the frame. They are empty without a session, or while the database
 * does not answer, which the page then reports. */
static void write_brief(struct web_request *request, struct json_writer *w)
{
    struct account_brief brief = {0};
    bool is_known = request->brief.stmt &&
                    store_account_brief_result(&request->brief, &brief) == OK;
    json_member_str(w, "account", is_known ? brief.name : SLICE_NONE);
    view_account_mark(w, uuid_or(request->session.parent_id, request->session.account_id),
                      brief.name, brief.mark, brief.colour);
    json_member_str(w, "key_name", brief.key_name);
    json_member_i64(w, "approvals",
                    !request->serve.policy ? brief.approvals
                    : request->given       ? request->given->count
                                           : 0);
    json_member_i64(w, "broken", brief.broken);
    /* Shown on paper. It would change the ETag of a page that may be cached each minute. */
    view_time(w, "made_at", request->is_cacheable ? 0 : clock_shared_us());
}

/* Writes the faults of the fields with fixed names; null if the page has none. Fields that a
 * manifest or a template defines have theirs in the page's own data. */
static void write_faults(const struct web_request *request, struct json_writer *w)
{
    static const char *const fields[] = {"client_id", "client_secret", "label",      "name",
                                         "scopes",    "expires",       "addresses",  "input",
                                         "url",       "events",        "description"};
    if (request->fault_count == 0) {
        json_member_str(w, "faults", SLICE_NONE);
        return;
    }
    json_member_open(w, "faults", '{');
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        json_member_str(w, fields[i], web_fault_of(request, slice_cstr(fields[i])));
    json_close(w, '}');
}

/* Writes the data declared in src/web/pages/frame.html. */
static void write_frame(struct web_request *request, struct json_writer *w)
{
    const struct http_exchange *exchange = request->serve.exchange;
    const struct web_session *session = &request->session;
    json_member_open(w, "frame", '{');
    json_member_str(w, "style", slice_cstr(web_asset_path("style.css")));
    json_member_str(w, "icon", slice_cstr(web_asset_path("icon.svg")));
    json_member_str(w, "script", slice_cstr(web_asset_path("app.mjs")));
    json_member_str(w, "shortcuts", slice_cstr(web_asset_path("shortcuts.mjs")));
    json_member_str(w, "section", exchange->segment_count > 0 ? exchange->segments[0] : SLICE(""));
    json_member_str(w, "path", request->again_path);
    json_member_str(w, "problem",
                    request->fault_count > 0
                        ? SLICE("Nothing was changed. The marked fields say what is wrong.")
                        : request->again_notice);
    json_member_str(w, "notice", notice_of(request));
    write_faults(request, w);
    /* Without a session a forged form has nothing to use. */
    json_member_str(w, "csrf",
                    session->is_open ? slice_of(session->csrf, SESSION_CSRF_LEN) : SLICE_NONE);
    /* A connect link's session has no access to the other pages. */
    json_member_bool(w, "is_signed_in", session->is_open && !session->link_token.ptr);
    json_member_str(w, "link", session->link_token);
    json_member_str(w, "stamp",
                    arena_printf(&request->serve.op.arena, "%lld", (long long)request->stamp));
    json_member_str(w, "user", request->user);
    json_member_str(w, "user_curl", view_user_curl(request));
    write_brief(request, w);
    json_member_bool(w, "may_read", serve_may(&request->serve, SCOPE_READ));
    json_member_bool(w, "may_execute", serve_may(&request->serve, SCOPE_EXECUTE));
    json_member_bool(w, "may_write", serve_may(&request->serve, SCOPE_EXECUTE_WRITE));
    json_member_bool(w, "may_approve", serve_may(&request->serve, SCOPE_APPROVE));
    json_member_bool(w, "may_admin", serve_may(&request->serve, SCOPE_ADMIN));
    json_member_bool(w, "has_policy", request->serve.grant.policy.is_named);
    json_member_str(w, "public_url", slice_cstr(request->web->public_url));
    json_close(w, '}');
}

/* Renders the page into the op's arena, which outlives the reply. Returns SLICE_NONE if out of
 * memory, or if rendering failed. */
static slice render_page(struct web_request *request, const char *file)
{
    const struct markup *markup = markup_find(request->web->markup, slice_cstr(file));
    struct arena *arena = &request->serve.op.arena;
    struct err err = {0};
    struct buf page;
    slice text = SLICE_NONE;
    ASSERT(markup);
    write_frame(request, &request->view);
    json_close(&request->view, '}');
    const struct json *data =
        buf_is_ok(&request->view_text)
            ? json_parse(arena, buf_slice(&request->view_text), &json_limits_provider, &err)
            : NULL;
    buf_deinit(&request->view_text);
    if (!data)
        return text;
#ifdef SLUICE_TEST_BUILD
    bool fits = markup_check(markup->data, data, &err) == OK;
    if (!fits)
        op_log(&request->serve.op, LOG_ERROR, "the data of a page do not match its declaration",
               LOG_CSTR("page", file), LOG_CSTR("message", err.text));
    ASSERT(fits);
#endif
    buf_init(&page, 2 * WEB_PAGE_BYTES_MAX);
    if (markup_render(request->web->markup, markup, data, arena, &page, &err) == OK)
        text = pack_page(request, buf_slice(&page));
    else
        op_log(&request->serve.op, LOG_ERROR, "a page cannot be rendered", LOG_CSTR("page", file),
               LOG_CSTR("message", err.text));
    buf_deinit(&page);
    return text;
}

enum op_result web_reply_view(struct web_request *request, unsigned status, const char *file)
{
    /* The frame's query has not ended: step_finish calls this again when it has. */
    if (request->brief.stmt && request->serve.op.holds > 0) {
        request->late_file = file;
        request->late_status = status;
        return OP_DONE;
    }
    slice text = render_page(request, file);
    /* The plain error needs no buffer of this size. */
    if (!text.ptr) {
        ASSERT(!request->serve.is_answered);
        request->serve.is_answered = true;
        http_reply_error(request->serve.exchange, 503, SLICE("Out of memory. Try again."));
        return OP_DONE;
    }
    add_guards(request);
    serve_header(&request->serve, "Content-Type", SLICE("text/html; charset=utf-8"));
    /* Pages contain an account's data, so caches must not store them. */
    serve_header(&request->serve, "Cache-Control",
                 request->is_cacheable ? SLICE("private, no-cache") : SLICE("no-store"));
    if (text.len == 0)
        return reply_text(request, 304, text);
    return reply_text(request, request->again_status ? request->again_status : status, text);
}

enum op_result web_reply_problem(struct web_request *request, unsigned status, const char *title,
                                 const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    slice text = arena_vprintf(&request->serve.op.arena, fmt, args);
    va_end(args);
    struct json_writer *w = view_begin(request);
    json_member_str(w, "title", slice_cstr(title));
    json_member_str(w, "text", text);
    return web_reply_view(request, status, "problem");
}

enum op_result web_reply_missing(struct web_request *request, const char *text)
{
    return web_reply_problem(request, 404, "Not found", "%s", text);
}

enum op_result web_reply_database(struct web_request *request, int status)
{
    /* The details are in the log only; the page says what the reader can do. */
    op_log(&request->serve.op, LOG_ERROR, "a page's query failed", LOG_INT("status", status),
           LOG_STR("message", request->query.message));
    if (status == ERR_NOMEM)
        return web_reply_problem(
            request, 503, "Not available now",
            "The server is out of memory. Nothing was done. Try again in a moment.");
    if (status == ERR_BUSY || status == ERR_CLOSED || status == ERR_TIMEOUT)
        return web_reply_problem(
            request, 503, "Not available now",
            "The database cannot be reached. Nothing was done. Try again in a moment.");
    return web_reply_problem(request, 500, "Internal error",
                             "Something went wrong in the server. Its log has the cause.");
}

void *web_state_new(struct web_request *request, size_t size)
{
    request->state = arena_zalloc(&request->serve.op.arena, size);
    if (!request->state)
        (void)web_reply_database(request, ERR_NOMEM);
    return request->state;
}

static enum op_result redirect(struct web_request *request, slice url)
{
    /* The URL could not be allocated. */
    if (!url.ptr)
        return web_reply_problem(request, 503, "Not available now", "Try again.");
    add_guards(request);
    serve_header(&request->serve, "Location", url);
    serve_header(&request->serve, "Cache-Control", SLICE("no-store"));
    /* After a 303 the browser sends a GET, and a reload sends no form again. */
    return reply_text(request, 303, SLICE(""));
}

enum op_result web_reply_redirect(struct web_request *request, slice path, const char *notice)
{
    const char *joint = slice_find_char(path, '?') < 0 ? "?" : "&";
    ASSERT(path.len == 0 || path.ptr[0] == '/'); /* empty: it could not be allocated */
    ASSERT(!*notice || find_notice(slice_cstr(notice)) < ARRAY_LEN(notices));
    slice url = arena_printf(&request->serve.op.arena, "%.*s%s%s%s", SLICE_ARG(path),
                             *notice ? joint : "", *notice ? "notice=" : "", notice);
    return redirect(request, url.ptr ? web_user_path(request, url) : url);
}

enum op_result web_reply_external(struct web_request *request, slice url)
{
    ASSERT(url.len > 0);
    /* The URL may be in an op that ends before the reply is written. */
    return redirect(request, arena_dup(&request->serve.op.arena, url));
}

enum op_result web_reply_download(struct web_request *request, slice type, slice disposition,
                                  slice bytes)
{
    add_guards(request);
    serve_header(&request->serve, "Content-Type", type);
    serve_header(&request->serve, "Content-Disposition", disposition);
    serve_header(&request->serve, "Cache-Control", SLICE("no-store"));
    return reply_text(request, 200, bytes);
}

enum op_result web_reply_asset(struct web_request *request, slice type, slice bytes)
{
    serve_header(&request->serve, "Content-Type", type);
    serve_header(&request->serve, "Cache-Control", SLICE("public, max-age=31536000, immutable"));
    serve_header(&request->serve, "X-Content-Type-Options", SLICE("nosniff"));
    return reply_text(request, 200, bytes);
}
