/*
 * A request for a page as an op: session, route, form, then the page. Private to the room.
 *
 * A page is a function: it answers, or starts an operation that holds the op and returns web_wait()
 * with the function that runs when the holds are released, which may wait in the same way. The page
 * answers exactly once, through web_reply_*.
 */
#ifndef WEB_REQUEST_H
#define WEB_REQUEST_H

#include "api/request.h"
#include "flow/given.h"
#include "web/link.h"
#include "web/markup.h"
#include "web/session.h"
#include "web/web.h"

enum {
    WEB_ARENA_BYTES_MAX = 16 * 1024 * 1024,
    WEB_FORM_BYTES_MAX = 64 * 1024,
    WEB_RUN_FORM_BYTES_MAX = 256 * 1024, /* of a form with an input that was kept: at most 64 KB of
                                          * JSON, each byte percent-encoded */
    WEB_FIELDS_MAX = 128,
    WEB_PAGE_BYTES_MAX = 8 * 1024 * 1024,
    WEB_URL_MAX = 512,
    WEB_VIEW_ARGUMENTS_MAX = 4,
};

struct web_request;

/* The access to a page. */
enum web_access {
    WEB_OPEN, /* everyone: sign-in, assets */
    /* a session; without one the reader is sent to the sign-in. The address may name an end user,
     * whose rows the page then shows (page_user.c) */
    WEB_SESSION,
    WEB_ACCOUNT, /* the same, but the page is of the account alone */
    /* pages of a connect link, for everyone; only the session that this link opened is valid
     * there */
    WEB_LINK,
    WEB_CALLBACK, /* a session, or a link's: the state shows which of them started the
                   * authorization */
};

/* A page, and each part of it that runs after a wait. */
typedef enum op_result web_step(struct web_request *request);

/* What a page does with the reply of an endpoint, an object in the op's arena. */
typedef enum op_result web_answer(struct web_request *request, unsigned status,
                                  const struct json *reply);

/* A page whose data are the reply of an endpoint: the reply's members, the additions of `row` to
 * each object of a list, and a member "asked" with the arguments in the address. */
struct web_view {
    const char *file; /* in pages/ */
    const struct api_endpoint *endpoint;
    /* The endpoint's arguments: the page's argument `from`, or a fixed value. */
    struct {
        const char *name, *from, *value;
    } arguments[WEB_VIEW_ARGUMENTS_MAX];
    const char *list; /* the reply's list; NULL: none */
    void (*row)(struct web_request *request, struct json_writer *w, const struct json *row);
};

struct web_page {
    enum web_access access;
    uint32_t scope;              /* SCOPE_* that the session's key needs; 0: none */
    web_step *begin;             /* the page's function; NULL: the page is a view */
    const struct web_view *view; /* the view, which needs the endpoint's scope; NULL: none */
    size_t form_bytes_max;       /* of the page's form; 0: WEB_FORM_BYTES_MAX */
    bool is_frameless;           /* a stream or an asset, without the frame of a page */
};

/* What a notice is about: something past, or a state in which the page has to find its object. */
enum web_notice { WEB_NOTICE_PAST, WEB_NOTICE_FLOW, WEB_NOTICE_LIVE };

struct web_field {
    slice name, value;
};

/* What is wrong with a field of a form, as a sentence. */
struct web_fault {
    slice field, text;
};
enum { WEB_FAULTS_MAX = 16 };

struct web_request {
    union { /* the first member */
        struct serve_request serve;
        struct api_request call; /* for a page that is a view of an endpoint; begins with serve */
    };
    struct web *web;
    const struct web_page *page;
    web_step *then;             /* runs after the wait; NULL: the page has not waited */
    web_answer *answer;         /* takes the reply of the endpoint that the page calls */
    struct web_link link;       /* from the address of a WEB_LINK page; token SLICE_NONE: none */
    struct web_session session; /* is_open: whether the request has a session; its key is
                                 * serve.grant */
    slice user; /* the end user whose rows the page shows; SLICE_NONE: the account's. For a user,
                 * session and grant have the user's id and, as parent, the account's */
    slice asked_user; /* the user that the address names, until it is found */
    struct vault_user_check user_check;
    struct web_field *fields; /* the fields of the form that was sent */
    size_t field_count;
    /* a form is rendered again with these faults at its fields; they are valid as long as the
     * request */
    struct web_fault faults[WEB_FAULTS_MAX];
    size_t fault_count;
    struct pg_query query;
    /* loads the account's data for the frame; has no stmt if it was not sent */
    struct pg_query brief;
    /* what the policy of the session's key gives of the flows that wait; NULL: it has no policy, or
     * out of memory */
    struct flow_given *given;
    struct json_writer view; /* the page's data, in view_text */
    struct buf view_text;
    const char *late_file; /* the page to render once the frame's data are loaded */
    unsigned late_status;
    void *state;                                 /* the page's state, in the op's arena */
    void (*on_end)(struct web_request *request); /* releases the page's resources; NULL:
                                                  * nothing to release */
    /* cancels the page's waits; NULL if there is nothing to cancel */
    void (*on_cancel)(struct web_request *request);
    int64_t stamp;     /* the account's stamp, taken before the page read data (flow_watch_stamp) */
    bool holds_secret; /* the page displays a secret, and is sent uncompressed (gzip.h) */
    bool is_cacheable; /* the browser may cache the page, and checks whether it is current */
    enum web_notice notice_about; /* what the page shows, for the notices about it (page.c) */
    slice form_origin;
    /* a form that could not be accepted is rendered again with its values (again.c) */
    bool is_signed_out; /* a form without a session: it is read and kept */
    slice again_notice; /* the notice on that page; SLICE_NONE: no form is rendered again */
    slice again_path;   /* the path of that page */
    unsigned again_status;
};

/* The pages' part of a request's life. */
extern const struct serve_face web_face;

struct web {
    struct serve serve; /* the first member */
    struct api *api;
    struct api_config config;
    struct arena arena; /* holds the markup */
    const struct markup_set *markup;
    struct gzip *gzip;
    struct account_rate *sign_ins; /* keyed by the client's address in the form of a UUID */
    char public_url[WEB_URL_MAX];
    bool is_public_url_set; /* an operator set it: pages are refused under any other name */
};

/* ---- the request's values ---- */

/* Returns a field of the form that was sent or is rendered again, trimmed, or SLICE_NONE if it is
 * absent. */
slice web_field(const struct web_request *request, const char *name);
/* Adds a fault, beyond WEB_FAULTS_MAX none. web_fault_of returns the fault of a field, or
 * SLICE_NONE. */
void web_fault_add(struct web_request *request, slice field, slice text);
slice web_fault_of(const struct web_request *request, slice field);
/* Returns what a report says of a property, in the op's arena; SLICE_NONE if nothing. A fault
 * inside the property is named by the rest of its path. */
struct schema_report;
slice web_fault_reported(struct web_request *request, const struct schema_report *report,
                         slice property);
/* Returns a parameter of the query string, or SLICE_NONE if it is absent or empty. */
slice web_query(struct web_request *request, const char *name);
/* Reads the id in the path's i-th parameter. Returns false if a 404 was sent. */
bool web_path_uuid(struct web_request *request, size_t i, struct uuid *id) MUST_CHECK;

/* Waits while an operation holds the op; `then` runs when the holds are released. Returns
 * OP_WAIT. */
enum op_result web_wait(struct web_request *request, web_step *then);

/* Returns OP_NEXT if the session's key has the scope of the page, else sends a 403. */
enum op_result web_check_scope(struct web_request *request);

/* ---- the end user in the address (page_user.c) ---- */

serve_hook web_user_find, web_user_take;
/* Returns the path with the user that the request's address names, if any; "/" if the address
 * cannot name one, since the path alone would be the account's. SLICE_NONE if out of memory. */
slice web_user_path(struct web_request *request, slice path);
/* Returns the prefix of the OAuth state of an authorization that a user's page begins. SLICE_NONE:
 * the page is the account's, or out of memory. */
slice web_user_state(struct web_request *request);
/* A connection as runs of the page find it: the user's, else one that the account shares with its
 * users. On the account's pages: only its own. */
struct connection;
struct web_connection {
    struct pg_query own, shared;
};
void web_connection_load(struct web_request *request, struct web_connection *read, int64_t id);
/* ERR_NOTFOUND: there is none, or it is no longer shared. The row is in the op's arena. */
int web_connection_result(const struct web_request *request, const struct web_connection *read,
                          struct connection *row) MUST_CHECK;
/* Whether a row that the page's user may use is the account's, so that it has no page there. */
bool web_connection_is_lent(const struct web_request *request, const struct connection *row);
/* Shows the page that is set for the user that the query of its address names (web_user_path). */
enum op_result web_user_follow(struct web_request *request, slice query);

/* ---- replies; each returns OP_DONE; pages: web_reply_view (view.h) ---- */

/* Sends a page with the problem and what to do. */
enum op_result web_reply_problem(struct web_request *request, unsigned status, const char *title,
                                 const char *fmt, ...) PRINTF_LIKE(4, 5);
/* The same with 404. */
enum op_result web_reply_missing(struct web_request *request, const char *text);
/* Answers after a failed load or store, by its cause: 503 without memory or a database, else
 * 500. */
enum op_result web_reply_database(struct web_request *request, int status);
/* Makes the page's state, zeroed. Returns NULL if out of memory; the request was then answered. */
void *web_state_new(struct web_request *request, size_t size) MUST_CHECK;
/* Redirects (303) to a path of this site, for the same end user; notice (a word of the table in
 * page.c) is displayed there once, "" for none. */
enum op_result web_reply_redirect(struct web_request *request, slice path, const char *notice);
/* Redirects (303) to another site: an authorization server, or a checked return URL. */
enum op_result web_reply_external(struct web_request *request, slice url);
/* Sends a file to save, which caches do not store; bytes are in the op's arena. */
enum op_result web_reply_download(struct web_request *request, slice type, slice disposition,
                                  slice bytes);
/* Sends constant bytes with an ETag, which are cached permanently: their path contains their
 * hash. */
enum op_result web_reply_asset(struct web_request *request, slice type, slice bytes);
/* Returns whether the browser reports the site of a form; a form of another site was refused. */
bool web_names_site(const struct web_request *request);
/* Adds an origin, besides this site, to which a form of this page may lead (CSP form-action). */
void web_allow_form_to(struct web_request *request, slice origin);

/* ---- forms that could not be accepted (again.c) ---- */

/* For a form without a session: sends the sign-in page, which keeps the typed values except
 * secrets. */
enum op_result web_again_sign_in(struct web_request *request);
/* After signing in: renders the page of the form that the sign-in form has kept, with its
 * values; if none was kept, redirects to next, a path of this site. */
enum op_result web_again_restore(struct web_request *request, slice next);
/* For a form of an earlier session that came from this site: renders its page again, with the
 * typed values. */
enum op_result web_again_show(struct web_request *request);
/* For a form whose fields have faults: renders its page again, with the typed values but without
 * secrets. The page must not hold resources yet. */
enum op_result web_again_faulty(struct web_request *request);
/* Renders the page of another address, as by GET, instead of the requested one. */
enum op_result web_go_to(struct web_request *request, slice path);

/* ---- endpoints of the API (over.c) ---- */

/* Runs an endpoint on the page's request, with the parameters of its path; arguments (an object in
 * the op's arena; NULL: none) are its body or its query. `then` gets the reply, whatever its
 * status; it may call another endpoint. Answers 503 if the arena is exhausted, since the arguments
 * may then lack some. Only endpoints for which the key has the scope: the page's scope includes it.
 */
enum op_result web_ask(struct web_request *request, const struct api_endpoint *endpoint,
                       const struct json *arguments, web_answer *then);
/* Sends a page with what an endpoint answered instead of doing what was asked. */
enum op_result web_reply_refused(struct web_request *request, unsigned status,
                                 const struct json *reply);
/* Answers with the page's view. */
web_step web_view_begin;

/* ---- the pages, for the route table ---- */

web_step web_sign_in, web_sign_in_post, web_sign_out_ask, web_sign_out, web_sign_out_everywhere,
    web_overview;

#endif
