/*
 * request: the life of a request as an op, the same for every face (api with mcp, web). The order
 * is: caller, rate, user, policy, entrance, route, memory, body, endpoint. A face's request begins
 * with a struct serve_request; a struct serve_face has the face's own parts.
 *
 * The exchange does not read the body (HTTP_BODY_WAIT) until the caller is known and the endpoint
 * has found the caller allowed, so that anonymous requests take only the memory of a head. The
 * body's memory is taken from the account's share before it is read.
 *
 * A face's part answers and returns OP_DONE, or returns OP_NEXT, or returns OP_WAIT while something
 * holds the op; `resume` runs when the holds are released and may wait in the same way. A request
 * is answered exactly once.
 */
#ifndef SERVE_REQUEST_H
#define SERVE_REQUEST_H

#include "http/router.h"
#include "http/server.h"
#include "limit/account_rate.h"
#include "loop/budget_wait.h"
#include "policy/cache.h"
#include "store/audit.h"
#include "vault/auth.h"

enum {
    SERVE_HEADERS_MAX = 11,
    SERVE_SMALL_BODY_BYTES = 4 * 1024, /* includes its parse, so such a request waits at most
                                        * once */
};

/* Steps that a face's part may jump to (op_jump), to skip or repeat others. */
enum serve_step {
    SERVE_FIND_CALLER,
    SERVE_TAKE_CALLER,
    SERVE_TAKE_RATE,
    SERVE_FIND_USER,
    SERVE_TAKE_USER,
    SERVE_FIND_POLICY, /* skipped for a caller without a policy */
    SERVE_TAKE_POLICY,
    SERVE_ENTER, /* a request without a caller joins the queue of anonymous requests or of probes */
    SERVE_ROUTE,
    SERVE_ASK_MEMORY,
    SERVE_TAKE_BODY,
    SERVE_READ_BODY,
    SERVE_CHECK_BODY,
    SERVE_BEGIN,
    SERVE_FINISH,
};

/* Refusals before any endpoint is called. */
enum serve_refusal {
    SERVE_NO_PATH,     /* 404 */
    SERVE_NO_METHOD,   /* 405; Allow is set */
    SERVE_PAST_RATE,   /* 429; Retry-After is set */
    SERVE_MEMORY_BUSY, /* 503; Retry-After is set */
    SERVE_NO_POLICY,   /* 503; Retry-After is set: the caller's policy could not be read */
};

struct serve_request;
typedef enum op_result serve_hook(struct serve_request *request);

struct serve_face {
    size_t request_bytes; /* size of the struct that begins with a serve_request */
    size_t arena_bytes_max;
    /* the request's queue at the entrance if it has no caller */
    slice (*queue)(const struct serve_request *request);
    /* Called in on_head; the struct around the request is zeroed */
    void (*open)(struct serve_request *request);
    /* Begins a check of the caller, or jumps to SERVE_ENTER if there is none to check */
    serve_hook *find_caller;
    /* Handles the result of the check: serve_caller_set, a refusal, or a jump to SERVE_ENTER */
    serve_hook *take_caller;
    /* find_user begins to find the end user for whom the request acts, or returns serve_no_user()
     * if it names none; take_user handles the result. Both NULL: the face has no users */
    serve_hook *find_user, *take_user;
    /* admit is called before 404 and 405 are answered, check_access after */
    serve_hook *admit, *check_access;
    /* Called when the whole body has arrived and its memory is reserved. check_body may jump
     * back to read_body */
    serve_hook *read_body, *check_body;
    serve_hook *begin, *resume;
    enum op_result (*refuse)(struct serve_request *request, enum serve_refusal refusal);
    /* Called if the client has disconnected. Returns whether the request continues; otherwise its
     * op is cancelled */
    bool (*on_gone)(struct serve_request *request);
    /* Called in the op's on_cancel, before this room's own part, and in its on_end, while the
     * body still exists. Each may be NULL */
    void (*on_cancel)(struct serve_request *request);
    void (*on_end)(struct serve_request *request, enum op_end end);
    slice means;           /* recorded in its audit events (audit_by) */
    bool counts_strangers; /* memory of requests without an account counts for the nil account */
};

/* One for all requests of a face; borrows its pointers. */
struct serve {
    const struct serve_face *face;
    struct http_router *router;
    struct account_rate *rate;                    /* NULL: off */
    struct budget_queue *work;                    /* NULL: requests take any memory */
    const struct address_policy *trusted_proxies; /* NULL: none */
    struct policy_cache *policies;                /* NULL: no caller has a policy (asserted) */
    size_t active;                                /* requests under way */
};

struct serve_request {
    struct op op;
    struct http_exchange *exchange; /* a reference, until the op's end; the exchange's user is
                                     * this struct */
    struct serve *serve;
    bool is_answered, is_body_here, is_waiting_for_body;
    struct op_entry entry;
    struct vault_check check;
    struct vault_grant grant; /* grant of the caller; zeroed if there is no caller */
    /* What the caller may do (policy/policy.h); NULL: it has no policy. Valid until the memory of
     * the op is freed: the ops below it borrow it */
    struct policy *policy;
    struct policy_find policy_find; /* has the reference */
    /* The account's id for the end user for whom the request acts, as policies read it; SLICE_NONE:
     * none. Set by the face's find_user, or of a user's key here; of a caller with a policy it is
     * in the op's arena after that */
    slice user;
    enum http_match found;
    struct http_route_match match;
    struct budget_use use; /* memory of this request, and of the ops below it */
    struct budget_wait memory;
    struct account_rate_wait rate_wait;
    struct http_header headers[SERVE_HEADERS_MAX]; /* sent with the later reply */
    size_t header_count;
    char account_text[UUID_TEXT_LEN + 1];
};

/* The events of a face's http_handler; ctx: its struct serve, or a struct that begins with it. */
enum http_body_wanted serve_on_head(struct http_exchange *exchange, void *ctx);
void serve_on_request(struct http_exchange *exchange, void *ctx);
void serve_on_body_paused(struct http_exchange *exchange, void *ctx);

/* Sets the caller. After this, log lines name its account, its connection is read in the
 * account's turn, and memory counts in its share. */
void serve_caller_set(struct serve_request *request, const struct vault_grant *grant);
/* For find_user: the request acts for no user. */
enum op_result serve_no_user(struct serve_request *request);
/* Whether the caller has the scope (for SCOPE_EXECUTE: at least one of its two scopes); 0: none
 * is needed. */
bool serve_may(const struct serve_request *request, uint32_t scope);
/* Returns the account that pays: the grant's account, or that of its user. */
struct uuid serve_payer(const struct serve_request *request);
/* Returns "key:<id>", or "operator:<id>" for an operator's key, for the audit trail, in the op's
 * arena. */
slice serve_actor(struct serve_request *request);
/* Returns the client's address, from the nearest trusted proxy's header; "unix" for a client on a
 * Unix socket. */
slice serve_client_address(struct serve_request *request);
/* Returns the request's caller, as the author of a change. */
struct audit_by serve_by(struct serve_request *request);

/* Adds a header to the later reply. Name and value are borrowed until the end of the turn. */
void serve_header(struct serve_request *request, const char *name, slice value);
/* Adds a Retry-After header in seconds, rounded up, at least 1. */
void serve_retry_after(struct serve_request *request, int64_t ms);

#endif
