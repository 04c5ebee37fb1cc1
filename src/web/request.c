/*
 * The pages' part of a request's life (serve/request.h). The order: session, route, access, body,
 * the form and its origin, then the page.
 */
#include "web/request.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/encode.h"
#include "base/metric.h"
#include "http/url.h"
#include "store/account.h"
#include "web/view.h"

static struct web_request *request_of(struct serve_request *serve)
{
    return CONTAINER_OF(serve, struct web_request, serve);
}

/* ---- the session ---- */

/* Returns the value of a cookie (RFC 6265 5.4: pairs separated by "; "). */
static slice find_cookie(const struct web_request *request, slice wanted)
{
    slice rest = http_request_header(request->serve.exchange, SLICE("Cookie"));
    while (rest.ptr) {
        slice pair = slice_trim(slice_split(&rest, ';'));
        if (slice_eq(slice_split(&pair, '='), wanted))
            return pair;
    }
    return SLICE_NONE;
}

/* Returns which cookie is read, by the route: the mark of a connect link, SLICE_NONE for the
 * dashboard's cookie, or "" for a malformed link, which has no cookie. */
static slice find_link_mark(struct web_request *request)
{
    /* admit and its refusals answer such a request; it has no page. */
    if (request->serve.found != HTTP_MATCH_FOUND)
        return SLICE_NONE;
    request->page = request->serve.match.route->data;
    /* The callback serves both cookies: the state shows whether a link's page or the dashboard
     * started it. */
    if (request->page->access == WEB_CALLBACK)
        return web_link_mark_of_state(web_query(request, "state"));
    if (request->page->access != WEB_LINK)
        return SLICE_NONE;
    ASSERT(request->serve.match.param_count > 0); /* every route of a link has its token */
    bool is_link = web_link_read(request->serve.match.params[0], &request->link);
    return is_link ? slice_cstr(request->link.mark) : SLICE("");
}

/* A link's session gives access only to that link's own pages. */
static bool is_for_page(const struct web_request *request)
{
    struct web_link link;
    if (request->page->access != WEB_LINK)
        return true;
    return web_link_read(request->session.link_token, &link) &&
           memcmp(link.hash, request->link.hash, sizeof(link.hash)) == 0;
}

static enum op_result find_session(struct serve_request *serve)
{
    struct web_request *request = request_of(serve);
    struct web_session *session = &request->session;
    ASSERT(!request->page && !session->is_open);
    slice mark = find_link_mark(request);
    slice cookie = find_cookie(request, web_cookie_name_of(request, mark));
    if (!cookie.ptr ||
        session_unseal(request->web->config.ring, cookie, mark.ptr, &serve->op.arena, session) !=
            OK ||
        (mark.ptr && !is_for_page(request))) {
        /* A cookie that cannot be unsealed is not an error: the request continues without a
         * session. */
        *session = (struct web_session){0};
        return op_jump(&serve->op, SERVE_ENTER);
    }
    /* The cookie was valid when it was sealed; the key is checked on every request. The holder of a
     * link is not at the key's addresses. */
    const struct vault_caller caller = session_caller(session);
    slice address = mark.ptr ? SLICE_NONE : serve_client_address(serve);
    return vault_auth_check_caller(request->web->config.auth, &serve->check, &caller, address,
                                   &serve->op)
               ? OP_NEXT
               : OP_WAIT;
}

static enum op_result take_session(struct serve_request *serve)
{
    struct web_session *session = &request_of(serve)->session;
    struct vault_grant grant = serve->check.grant;
    ASSERT(!session->is_open); /* a cookie that can be unsealed is not a session before its key
                                * was checked */
    if (serve->check.status != OK && serve->check.status != ERR_REFUSED)
        return web_reply_database(request_of(serve), serve->check.status);
    /* The key was revoked, expired or signed out, or the account of the seal and that of the
     * key's row differ. A user's key opens only links that were made for that user. The page
     * decides how to answer without a session. */
    struct uuid payer_id = uuid_or(session->parent_id, session->account_id);
    bool is_other = !uuid_eq(vault_grant_payer(&grant), payer_id) ||
                    (grant.is_of_user && !uuid_eq(grant.account_id, session->account_id));
    if (serve->check.status == ERR_REFUSED || is_other) {
        *session = (struct web_session){0};
        return op_jump(&serve->op, SERVE_ENTER);
    }
    session->is_open = true;
    /* Uses the key's current scopes: open sessions also lose a scope that was removed. */
    /* A link that was made for a user opens that user's rows alone. */
    grant.account_id = session->account_id;
    grant.parent_id = session->parent_id;
    serve_caller_set(serve, &grant);
    return OP_NEXT;
}

static slice entrance_queue(const struct serve_request *serve)
{
    (void)serve;
    return OP_STRANGERS;
}

/* ---- the page, and access to it ---- */

static enum op_result ask_to_sign_in(struct web_request *request)
{
    if (request->serve.exchange->head.method == HTTP_METHOD_POST) {
        request->is_signed_out = true; /* step_form answers, with the typed values */
        return OP_NEXT;
    }
    struct buf path;
    buf_init(&path, 8 * 1024);
    buf_append(&path, SLICE("/sign-in?next="));
    encode_percent(&path, request->serve.exchange->head.target);
    slice text = arena_take(&request->serve.op.arena, &path);
    return web_reply_redirect(request, text.ptr ? text : SLICE("/sign-in"), "");
}

/* Returns whether the page needs no session. */
static bool is_for_everyone(const struct web_page *page)
{
    return page->access == WEB_OPEN || page->access == WEB_LINK;
}

enum op_result web_check_scope(struct web_request *request)
{
    const struct web_page *page = request->page;
    if (serve_may(&request->serve, page->view ? page->view->endpoint->scope : page->scope))
        return OP_NEXT;
    return web_reply_problem(
        request, 403, "Not allowed",
        "The API key of this session lacks the scope for this. Sign in with another key.");
}

static enum op_result check_access(struct web_request *request)
{
    const struct web_page *page = request->page;
    const struct web_session *session = &request->session;
    ASSERT(page->access != WEB_OPEN || page->scope == 0); /* its readers have no key */
    if (is_for_everyone(page) && !session->is_open)
        return OP_NEXT;
    if (!session->is_open && page->access == WEB_CALLBACK &&
        web_link_mark_of_state(web_query(request, "state")).ptr)
        return web_reply_problem(request, 400, "Not connected",
                                 "The sign-in was not started in this browser, or it took too "
                                 "long. Open the link that you were sent "
                                 "again. If it no longer works, ask for a new one.");
    if (!session->is_open)
        return ask_to_sign_in(request);
    return web_check_scope(request);
}

/* For the browser, a page under a foreign name belongs to another site: the owner of a name that
 * points here (DNS rebinding) could read it, and use typed values. Addresses and localhost never
 * belong to another site. */
static bool is_at_our_name(const struct web_request *request)
{
    slice host = request->serve.exchange->head.host;
    char room[8 + URL_HOST_MAX + 8];
    struct url asked, ours;
    if (!request->web->is_public_url_set || host.len == 0)
        return true;
    slice text = SLICE_JOIN(room, SLICE("http://"), host);
    if (url_parse(text, &asked, NULL) != OK)
        return false;
    return asked.is_ip_literal || slice_eq_nocase(asked.host, SLICE("localhost")) ||
           (url_parse(slice_cstr(request->web->public_url), &ours, NULL) == OK &&
            slice_eq_nocase(asked.host, ours.host));
}

static enum op_result check_our_name(struct serve_request *serve)
{
    struct web_request *request = request_of(serve);
    ASSERT((serve->found == HTTP_MATCH_FOUND) == (request->page != NULL));
    if (is_at_our_name(request))
        return OP_NEXT;
    return web_reply_problem(
        request, 421, "Wrong address",
        "This server's pages have another address. Open the address that its operator gave you.");
}

static enum op_result take_page(struct serve_request *serve)
{
    struct web_request *request = request_of(serve);
    enum op_result result = check_access(request);
    size_t bytes_max = request->page->form_bytes_max;
    /* A request whose body has arrived with its head was read under the default limit. */
    if (result == OP_NEXT && !serve->is_body_here)
        serve->exchange->body_bytes_max = bytes_max > 0 ? bytes_max : WEB_FORM_BYTES_MAX;
    return result;
}

static enum op_result refuse_page(struct serve_request *serve, enum serve_refusal refusal)
{
    static const struct {
        unsigned status;
        const char *title, *text;
    } answers[] = {
        [SERVE_NO_PATH] = {404, "Not found", "There is no page at this address."},
        [SERVE_NO_METHOD] = {405, "Method not allowed",
                             "This address does not accept this method."},
        [SERVE_PAST_RATE] = {429, "Too many requests", "Wait a moment, then try again."},
        [SERVE_MEMORY_BUSY] = {503, "Busy",
                               "The server is busy. Nothing was done. Try again in a moment."},
        [SERVE_NO_POLICY] = {503, "Busy",
                             "The policy of this session's key could not be read. Nothing was "
                             "done. Try again in a moment."},
    };
    return web_reply_problem(request_of(serve), answers[refusal].status, answers[refusal].title,
                             "%s", answers[refusal].text);
}

/* ---- forms ---- */

static slice decode_part(struct web_request *request, slice text)
{
    struct buf out;
    buf_init(&out, WEB_RUN_FORM_BYTES_MAX);
    bool is_good = decode_percent(&out, text, true) == OK;
    slice result = arena_take(&request->serve.op.arena, &out);
    return is_good ? result : SLICE_NONE;
}

/* Parses application/x-www-form-urlencoded. Returns false if the form is malformed or has too many
 * fields. */
static bool read_fields(struct web_request *request)
{
    slice rest = request->serve.exchange->body;
    ASSERT(!request->fields && request->field_count == 0);
    request->fields = ARENA_ARRAY(&request->serve.op.arena, struct web_field, WEB_FIELDS_MAX);
    if (!request->fields)
        return false;
    while (rest.len > 0) {
        slice pair = slice_split(&rest, '&');
        slice name = slice_split(&pair, '=');
        /* One past the last field is computed, but used only after the check. */
        struct web_field *field = &request->fields[request->field_count];
        if (request->field_count == WEB_FIELDS_MAX)
            return false;
        field->name = decode_part(request, name);
        field->value = pair.ptr ? decode_part(request, pair) : SLICE("");
        if (!field->name.ptr || !field->value.ptr)
            return false;
        request->field_count++;
    }
    return true;
}

/* Returns whether the form is from this site, as far as the browser reports it. */
static bool is_from_here(const struct web_request *request)
{
    slice site = http_request_header(request->serve.exchange, SLICE("Sec-Fetch-Site"));
    slice origin = http_request_header(request->serve.exchange, SLICE("Origin"));
    slice host = http_request_header(request->serve.exchange, SLICE("Host"));
    if (site.ptr && !slice_eq_cstr(site, "same-origin"))
        return false;
    /* Clients that are not browsers send neither header; they have no cookies to abuse. */
    if (!origin.ptr)
        return true;
    ptrdiff_t at = slice_find(origin, SLICE("://"));
    /* The host is compared without the scheme, since a proxy in front may have terminated TLS. */
    return at > 0 && slice_eq_nocase(slice_from(origin, (size_t)at + 3), host);
}

bool web_names_site(const struct web_request *request)
{
    return http_request_header(request->serve.exchange, SLICE("Sec-Fetch-Site")).ptr ||
           http_request_header(request->serve.exchange, SLICE("Origin")).ptr;
}

static bool has_token(const struct web_request *request)
{
    const struct web_session *session = &request->session;
    /* A form of a page that needs no session may be older than the session that the browser has
     * now, from another tab or the same form. It comes from this site, so it is accepted. */
    bool needs_none = is_for_everyone(request->page) && request->page->scope == 0 &&
                      web_names_site(request);
    return !session->is_open || needs_none ||
           slice_eq_secret(web_field(request, "csrf"), slice_of(session->csrf, SESSION_CSRF_LEN));
}

static enum op_result read_form(struct serve_request *serve)
{
    struct web_request *request = request_of(serve);
    struct http_exchange *exchange = serve->exchange;
    /* A GET changes nothing, and has no form. */
    if (exchange->head.method != HTTP_METHOD_POST)
        return OP_NEXT;
    slice type = http_media_type(http_request_header(exchange, SLICE("Content-Type")));
    if (!slice_eq_nocase(type, SLICE("application/x-www-form-urlencoded")) &&
        exchange->body.len > 0)
        return web_reply_problem(request, 415, "Not a form",
                                 "This address accepts only the form of its page.");
    /* An empty body is a form without fields (a single button). */
    if (!read_fields(request))
        return web_reply_problem(request, 400, "Unreadable form",
                                 "The form could not be read. Nothing was done.");
    return OP_NEXT;
}

static enum op_result check_form(struct serve_request *serve)
{
    struct web_request *request = request_of(serve);
    if (serve->exchange->head.method != HTTP_METHOD_POST)
        return OP_NEXT;
    /* Only a form from this site is kept: another site's must not be filled in for the reader. */
    if (is_from_here(request) && request->is_signed_out)
        return web_again_sign_in(request);
    /* The form is from this site but its token is old: the page is from an earlier session. */
    if (is_from_here(request) && !has_token(request) && web_names_site(request))
        return web_again_show(request);
    if (!is_from_here(request) || !has_token(request))
        return web_reply_problem(
            request, 403, "Not from this site",
            "The form did not come from this site, or its page is from an earlier session. Nothing "
            "was done. Load the page again and try once more.");
    return OP_NEXT;
}

enum op_result web_go_to(struct web_request *request, slice path)
{
    struct arena *arena = &request->serve.op.arena;
    ASSERT(path.len > 0 && path.ptr[0] == '/');
    /* Without a session check_access would wait for a form, which has been read. */
    ASSERT(request->session.is_open);
    ASSERT(!request->state && !request->on_end); /* the page that is replaced must not hold
                                                  * resources */
    slice query = path;
    path = slice_split(&query, '?');
    /* A path has at most as many segments as characters. */
    slice rest = slice_from(path, 1), *segments = ARENA_ARRAY(arena, slice, path.len + 1);
    size_t count = 0;
    if (!segments)
        return web_reply_database(request, ERR_NOMEM);
    while (rest.len > 0)
        segments[count++] = slice_split(&rest, '/');
    if (http_router_match(request->web->serve.router, HTTP_METHOD_GET, segments, count,
                          &request->serve.match) != HTTP_MATCH_FOUND)
        return web_reply_redirect(request, SLICE("/"), "");
    request->page = request->serve.match.route->data;
    enum op_result result = check_access(request);
    if (result == OP_NEXT && query.ptr)
        return web_user_follow(request, query);
    /* The op starts again, for the page that is now set. */
    return result == OP_NEXT ? op_jump(&request->serve.op, SERVE_BEGIN) : result;
}

/* Reads the account's data for the frame while the page reads its own: web_reply_view waits for
 * it if the page does not wait itself. */
static void read_frame(struct web_request *request)
{
    const struct web_session *session = &request->session;
    bool has_frame = !request->page->is_frameless && session->is_open && !session->link_token.ptr;
    if (!has_frame || request->brief.stmt)
        return;
    store_account_brief(request->web->config.pool, &request->brief, &request->serve.op,
                        session->account_id, serve_payer(&request->serve),
                        request->serve.grant.key_id);
    if (request->serve.policy)
        request->given = flow_given_start(request->web->config.flow, session->account_id,
                                          (struct uuid){{0}}, request->serve.policy,
                                          &request->serve.op);
}

/* A form, and the end of an authorization, are carried out even if it is not known which flows the
 * page may show. */
static enum op_result run_page(struct web_request *request)
{
    bool is_change = request->serve.exchange->head.method == HTTP_METHOD_POST ||
                     request->page->access == WEB_CALLBACK;
    if (request->given && request->given->status != OK && !is_change)
        return web_reply_database(request, request->given->status);
    return request->page->view ? web_view_begin(request) : request->page->begin(request);
}

static enum op_result begin_page(struct serve_request *serve)
{
    struct web_request *request = request_of(serve);
    ASSERT(is_for_everyone(request->page) || request->session.is_open);
    ASSERT(request->fields || serve->exchange->head.method != HTTP_METHOD_POST);
    read_frame(request);
    if (request->session.is_open)
        request->stamp = flow_watch_stamp(request->web->config.flow, request->session.account_id);
    bool waits = request->given && op_is_active(&request->given->op);
    return waits ? web_wait(request, run_page) : run_page(request);
}

static enum op_result resume_page(struct serve_request *serve)
{
    struct web_request *request = request_of(serve);
    if (request->late_file)
        return web_reply_view(request, request->late_status, request->late_file);
    ASSERT(request->then); /* a page waits by web_wait or web_ask */
    return request->then(request);
}

/* ---- its ends ---- */

static void on_cancel(struct serve_request *serve)
{
    struct web_request *request = request_of(serve);
    if (request->on_cancel)
        request->on_cancel(request);
}

/* The page may still read the body's fields. */
static void on_end(struct serve_request *serve, enum op_end end)
{
    struct web_request *request = request_of(serve);
    (void)end;
    if (request->on_end)
        request->on_end(request);
    buf_deinit(&request->view_text); /* its client may have left before the page was ready */
}

/* A form is carried out even if its client disconnects; in that case no page is rendered. Pages
 * that wait release their resources in web_request.on_end. */
static bool on_gone(struct serve_request *serve)
{
    struct api_request *call = &request_of(serve)->call;
    bool has_begun = serve->op.step >= SERVE_BEGIN;
    if (call->on_gone) { /* set by the endpoint that the page calls */
        call->on_gone(call);
        return true;
    }
    /* An OAuth code is valid only once, and the app's server may have seen it. */
    return has_begun && (serve->exchange->head.method == HTTP_METHOD_POST ||
                         request_of(serve)->page->access == WEB_CALLBACK);
}

static void open_request(struct serve_request *serve)
{
    request_of(serve)->web = CONTAINER_OF(serve->serve, struct web, serve);
}

const struct serve_face web_face = {
    .request_bytes = sizeof(struct web_request),
    .arena_bytes_max = WEB_ARENA_BYTES_MAX,
    .queue = entrance_queue,
    .open = open_request,
    .find_caller = find_session,
    .take_caller = take_session,
    .find_user = web_user_find,
    .take_user = web_user_take,
    .admit = check_our_name,
    .check_access = take_page,
    .read_body = read_form,
    .check_body = check_form,
    .begin = begin_page,
    .resume = resume_page,
    .refuse = refuse_page,
    .on_gone = on_gone,
    .on_cancel = on_cancel,
    .on_end = on_end,
    .means = SLICE_INIT("dashboard"),
    .counts_strangers = true,
};

_Static_assert(offsetof(struct web, serve) == 0, "serve_on_head takes it as its ctx");

static struct metric pages_total =
    METRIC_INIT("sluice_web_requests_total", "Pages by route and status.", METRIC_COUNTER);
static struct metric page_seconds =
    METRIC_INIT("sluice_web_request_seconds", "Time of a page, by route.", METRIC_HISTOGRAM);

static void on_finished(struct http_exchange *exchange, void *ctx)
{
    const char *route = exchange->route;
    char labels[128];
    (void)ctx;
    /* Routes are literals of this room, so the number of series is bounded. */
    int len =
        snprintf(labels, sizeof(labels), "route=\"%s\",status=\"%u\"", route, exchange->status);
    metric_add(metric_series(&pages_total, slice_of(labels, (size_t)len)), 1);
    len = snprintf(labels, sizeof(labels), "route=\"%s\"", route);
    metric_observe_ns(metric_series(&page_seconds, slice_of(labels, (size_t)len)),
                      clock_mono_ns() - exchange->started_ns);
}

const struct http_handler web_handler = {.on_head = serve_on_head,
                                         .on_body_paused = serve_on_body_paused,
                                         .on_request = serve_on_request,
                                         .on_finished = on_finished};

/* ---- the request's values ---- */

slice web_field(const struct web_request *request, const char *name)
{
    for (size_t i = 0; i < request->field_count; i++)
        if (slice_eq_cstr(request->fields[i].name, name))
            /* Pasted values often have white space around them. */
            return slice_trim(request->fields[i].value);
    return SLICE_NONE;
}

slice web_query(struct web_request *request, const char *name)
{
    slice value = http_query_get(request->serve.exchange, slice_cstr(name));
    return value.len > 0 ? value : SLICE_NONE;
}

bool web_path_uuid(struct web_request *request, size_t i, struct uuid *id)
{
    ASSERT(i < request->serve.match.param_count);
    if (uuid_parse(request->serve.match.params[i], id))
        return true;
    (void)web_reply_missing(request, "There is no page at this address.");
    return false;
}

enum op_result web_wait(struct web_request *request, web_step *then)
{
    request->then = then;
    return OP_WAIT;
}
