/*
 * A request for a page as an op: session, route, form, then the page. Private to the room.
 *
 * A page has two functions, as an endpoint of api/ has: begin answers, or starts something that
 * holds the op and returns OP_WAIT; finish runs when the holds are gone (again after each further
 * OP_WAIT). Each answers exactly once, through web_reply_*.
 */
#ifndef WEB_REQUEST_H
#define WEB_REQUEST_H

#include "api/account_rate.h"
#include "http/frame.h"
#include "http/router.h"
#include "web/html.h"
#include "web/link.h"
#include "web/session.h"
#include "web/web.h"

enum {
    WEB_ARENA_BYTES_MAX = 16 * 1024 * 1024,
    WEB_FORM_BYTES_MAX = 64 * 1024,
    WEB_FIELDS_MAX = 128,
    WEB_PAGE_BYTES_MAX = 8 * 1024 * 1024,
    WEB_HEADERS_MAX = 8,
    WEB_URL_MAX = 512,
};

struct web_request;

/* Who may see it. */
enum web_access {
    WEB_OPEN,    /* anybody: sign-in, assets */
    WEB_SESSION, /* a session; without one, to the sign-in */
    /* the pages of a connect link: anybody. The session, if any, is the one that this very link
     * gave; it is good for nothing else */
    WEB_LINK,
    WEB_CALLBACK, /* a session, or a link's: the state tells which of them has begun */
};

struct web_page {
    const char *route;
    enum web_access access;
    uint32_t scope; /* SCOPE_* that the session's key needs; 0: none */
    enum op_result (*begin)(struct web_request *request);
    enum op_result (*finish)(struct web_request *request); /* NULL where begin always answers */
    bool is_detached;   /* goes on without its client, as POST does */
    bool takes_no_csrf; /* its form may come from who got a session since the page was made */
};

struct web_field {
    slice name, value;
};

struct web_request {
    struct op op;
    struct op_entry entry;
    struct http_frame frame;
    struct web *web;
    struct http_exchange *exchange; /* the frame's */
    const struct web_page *page;
    enum http_match found;
    struct http_route_match match;
    struct budget_use use; /* its memory, with the session's account; the nil one's without */
    struct budget_wait memory;
    struct web_link link;       /* that the address names, with WEB_LINK; token SLICE_NONE: none */
    struct web_session session; /* is_open tells whether there is one */
    struct vault_check check;
    struct web_field *fields; /* of a form */
    size_t field_count;
    struct pg_query query;
    void *state;                                    /* the page's, in the op's arena */
    void (*on_end)(struct web_request *request);    /* NULL, or lets go of what the page holds */
    void (*on_cancel)(struct web_request *request); /* NULL, or cancels what it waits for */
    struct http_header headers[WEB_HEADERS_MAX];
    size_t header_count;
    slice form_origin;
    /* what was typed into a form that could not be taken is on its page again (again.c) */
    bool is_signed_out; /* a form of somebody without a session: it is read, and kept */
    slice again_notice; /* SLICE_NONE: not so */
    slice again_path;   /* of that page */
    unsigned again_status;
    char account_text[UUID_TEXT_LEN + 1];
};

struct web {
    struct web_config config;
    struct http_router *router;
    struct account_rate *sign_ins; /* by the client's address, as a UUID of it */
    size_t active;
    char public_url[WEB_URL_MAX];
};

/* ---- what was asked ---- */

/* A field of the form (also of one that is shown again), trimmed; SLICE_NONE when absent. */
slice web_field(const struct web_request *request, const char *name);
/* A parameter of the query string; SLICE_NONE when absent or empty. */
slice web_query(struct web_request *request, const char *name);
/* The id in the path's i-th parameter. false: answered with 404. */
bool web_path_uuid(struct web_request *request, size_t i, struct uuid *id) MUST_CHECK;
/* "key:<id>", for the audit trail; in the op's arena. */
slice web_actor(struct web_request *request);
slice web_client_address(struct web_request *request);
/* An event in the audit trail, of what was just done. details: the members of its JSON object.
 * Takes a hold on request->query; the page waits, and web_audited logs an event that was lost: what
 * is done is done. */
void web_audit(struct web_request *request, slice kind, slice details);
void web_audited(struct web_request *request);
bool web_may(const struct web_request *request, uint32_t scope);

/* ---- answering; each returns OP_DONE ---- */

/* A page in its frame. title is plain text; body is markup, as HTML() made it. */
enum op_result web_reply_page(struct web_request *request, unsigned status, slice title,
                              struct buf *body);
/* A page that says what is wrong and what to do. */
enum op_result web_reply_problem(struct web_request *request, unsigned status, slice title,
                                 slice text);
enum op_result web_reply_database(struct web_request *request, int status);
/* 303, to a path of ours; notice (a word of the table in page.c) is shown there once, "" for none.
 */
enum op_result web_reply_redirect(struct web_request *request, slice path, const char *notice);
/* 303 to another site: an authorization server, a return URL that was checked. */
enum op_result web_reply_away(struct web_request *request, slice url);
/* Constant bytes with an ETag, cached for good: their path has their hash. */
enum op_result web_reply_asset(struct web_request *request, slice type, slice bytes);
void web_header(struct web_request *request, const char *name, slice value);
/* Origins that a form of this page may lead to, besides our own (CSP form-action). */
void web_allow_form_to(struct web_request *request, slice origin);

/* ---- markup that many pages share ---- */

/* The hidden field that every form needs; without a session nothing. */
void web_csrf_field(struct web_request *request, struct buf *out);
/* A form of one button. label is plain text; style "" or "danger" or "primary". */
void web_button(struct web_request *request, struct buf *out, slice action, slice label,
                const char *style);
/* <span class="badge ok|warn|bad|quiet">: of a status of a flow, step, execution or connection. */
void web_badge(struct buf *out, slice status);

/* ---- forms that could not be taken (again.c) ---- */

/* A form came without a session: the sign-in, which keeps what was typed but for secrets. */
enum op_result web_again_sign_in(struct web_request *request);
/* Signed in again: where the sign-in form has kept something, the page of its form with that; else
 * a redirect to next, a path of ours. */
enum op_result web_again_go_on(struct web_request *request, slice next);
/* A form of an earlier session, which came from this site: its page again, with what was typed. */
enum op_result web_again_show(struct web_request *request);
/* The page of another address, as by GET, instead of the one that was asked for. */
enum op_result web_go_to(struct web_request *request, slice path);

/* ---- the pages, for the route table ---- */

extern const struct web_page web_sign_in, web_sign_in_post, web_sign_out_ask, web_sign_out,
    web_sign_out_everywhere, web_overview;

#endif
