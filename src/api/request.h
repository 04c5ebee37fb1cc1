/*
 * A request as an op, which checks the key, the route and the body and then runs the endpoint. For
 * the rooms with endpoints: api and mcp.
 *
 * An endpoint is a function: it answers, or starts something that holds the op and returns
 * api_wait() with the function that runs when the holds are released, which may wait in the same
 * way. It answers exactly once through the api_reply functions.
 */
#ifndef API_REQUEST_H
#define API_REQUEST_H

#include "limit/account_rate.h"
#include "api/api.h"
#include "api/names.h"
#include "serve/request.h"
#include "vault/user.h"

enum {
    API_REQUEST_ARENA_BYTES_MAX = 64 * 1024 * 1024,
    API_PUBLIC_URL_MAX = 512,
    API_REPLY_LARGE_BYTES = 256 * 1024, /* larger replies are not copied for a slow client */
};

struct api_request;

/* For an endpoint whose replies have another form (mcp): converts a reply before it is sent, by
 * answering with another reply through api_reply_from. Each function is called at most once. */
struct api_envelope {
    enum op_result (*reply)(struct api_request *request, unsigned status, slice json_text,
                            struct op *owner);
    bool is_for_person; /* a person waits for the reply: a list is read in few scans */
};

enum api_body {
    API_BODY_NONE,
    API_BODY_OPTIONAL,
    API_BODY_REQUIRED,
    API_BODY_FILES /* a body is required, and may be larger than others:
                    * api_config.files_body_bytes_max */
};

/* The type of an endpoint, and of each part of it that runs after a wait. */
typedef enum op_result api_step(struct api_request *request);

struct api_endpoint {
    uint32_t scope; /* SCOPE_* that the key must have; 0: no key is needed */
    enum api_body body;
    const struct api_names *query, *members; /* NULL if it has no query parameters, or no body */
    api_step *begin;
    const struct api_envelope *envelope; /* converts its replies; NULL: they are sent unchanged */
    bool is_of_account;    /* it answers for the account alone: 400 for one of its users, 403 for a
                            * user's key */
    bool serves_user_keys; /* with is_of_account: a user's key is answered, too */
    bool refuses_policy; /* 403 for a key with a policy of its own, which could go beyond it here */
    int variant;         /* identifies the endpoint if several share `begin` */
    size_t state_bytes;  /* size of the state that `begin` finds in the request, zeroed; 0: it makes
                          * its own, or has none */
};

struct api_request {
    struct serve_request serve; /* must be the first member */
    struct api *api;
    const struct api_endpoint *endpoint;
    const struct api_envelope *envelope; /* converts the reply; or NULL */
    const struct json *body;             /* the parsed body, an object; NULL if there is none */
    /* An object whose members replace the query parameters (api_delegate); NULL: the query's are
     * used */
    const struct json *arguments;
    struct err body_err; /* why the body was refused */
    struct op_job parsing;
    size_t parse_bytes; /* bytes of memory for which parsing the body waits; 0: none */
    struct pg_query query;
    /* in the op's arena; NULL: the request names no user, or none that has to be created */
    struct vault_user_check *user_check;
    struct vault_user_create *user_create;
    api_step *then_user; /* runs once the user exists */
    slice user_id;  /* the user that the request names, by the account's name for it, until the user
                     * exists; SLICE_NONE: none, or it exists */
    void *state;    /* state of the endpoint (state_bytes), in the op's arena */
    api_step *then; /* runs after the wait */
    api_step *then_keyed; /* runs after the wait and the check of api_wait_keyed */
    /* Called if the client disconnects while the endpoint waits. If it is NULL, the op is
     * cancelled. */
    void (*on_gone)(struct api_request *request);
    /* A start, whose client may leave before it has the reply; or NULL */
    struct flow_command *started;
    /* Called with each view of a flow while the reply waits, for progress in mcp; may be NULL */
    void (*on_view)(struct api_request *request, slice view);
    /* A trace that replaces the headers (mcp); SLICE_NONE: none */
    slice trace_parent, trace_state;
    void *outer;           /* belongs to the endpoint that passed the request on (mcp) */
    struct json_text text; /* the reply that api_reply_open has begun */
    slice reply_text;      /* the text passed to api_reply_from */
};

struct api {
    struct serve serve; /* must be the first member */
    struct api_config config;
    struct http_route *routes;                /* all routes of the router */
    const struct http_server *metrics_server; /* NULL: every server answers /metrics */
    char public_url[API_PUBLIC_URL_MAX];      /* "" until it listens */
};

/* All endpoints by group, for the route table in request.c. */
extern const struct api_endpoint api_executions_create, api_executions_get;
extern const struct api_endpoint api_executions_batch, api_executions_list;
extern const struct api_endpoint api_stats_get, api_usage_get;
extern const struct api_endpoint api_audit_list;
extern const struct api_endpoint api_tools_execute;
extern const struct api_endpoint api_integrations_list, api_actions_list, api_actions_get,
    api_search;
extern const struct api_endpoint api_flows_templates, api_flows_template, api_flows_start,
    api_flows_list, api_flows_get, api_flows_events, api_flows_approve, api_flows_reject,
    api_flows_resume, api_flows_cancel;
extern const struct api_endpoint api_connect_session, api_connect_session_get, api_connections_list,
    api_connections_get, api_connections_add, api_connections_change, api_connections_delete;
extern const struct api_endpoint api_oauth_clients_get, api_oauth_clients_set,
    api_oauth_clients_remove;
extern const struct api_endpoint api_users_list, api_users_get, api_users_change, api_users_erase;
extern const struct api_endpoint api_keys_list, api_keys_create, api_keys_self, api_keys_get,
    api_keys_roll, api_keys_revoke;
extern const struct api_endpoint api_webhooks_list, api_webhooks_create, api_webhooks_get,
    api_webhooks_change, api_webhooks_delete, api_webhooks_roll, api_webhooks_test,
    api_webhooks_deliveries, api_webhooks_replay, api_webhooks_replay_one;
extern const struct api_endpoint api_policies_list, api_policies_get, api_policies_set,
    api_policies_delete, api_policies_test;
extern const struct api_endpoint api_accounts_list, api_accounts_create, api_accounts_get,
    api_accounts_change, api_accounts_erase, api_accounts_key_create;
extern const struct api_endpoint api_healthz, api_readyz, api_metrics, api_openapi;

/* keys.c: writes the members of a struct api_key as replies have them. */
void api_key_put(struct json_writer *w, const void *key);

/* For tests, which compare the table in request.c with openapi.json. */
const struct http_route *api_routes(size_t *count);

/* Whether the key may use the action, or any action if it is NULL, in a way that needs this scope,
 * by its scopes and its policy. What models choose from is listed by this check. */
bool api_may(const struct api_request *request, uint32_t scope,
             const struct catalog_action *action);
/* Whether the key may start a flow of this template. */
bool api_may_start(const struct api_request *request, const struct flow_template *tmpl);
/* Finds a template; NULL if it is unknown to the caller. */
const struct flow_template *api_template_find(const struct api_request *request, slice key);
/* Whether the policy lets the key start flows of the template. */
bool api_template_is_listed(const struct api_request *request, const struct flow_template *tmpl);
/* Answers 403. */
enum op_result api_refuse_scope(struct api_request *request, uint32_t scope);

/* ---- user.c: the end user for whom a request acts ---- */

/* The parts of the face (serve/request.h). */
enum op_result api_user_find(struct serve_request *serve);
enum op_result api_user_take(struct serve_request *serve);
/* Answers a request for a user to an endpoint that is the account's alone; else returns OP_NEXT. */
enum op_result api_user_check_path(struct api_request *request);
/* The same for a part of the request that is the account's alone, such as "users=all". */
enum op_result api_user_check_account(struct api_request *request, const char *what);
/* Runs `then`. If the request names a user that does not exist yet, and its endpoint needs a scope
 * that changes something, the user is created first. */
enum op_result api_with_user(struct api_request *request, api_step *then);
/* Begins the request's endpoint in this way. */
enum op_result api_begin(struct api_request *request);

/* ---- origin.c: pages of browsers ---- */

/* Call it before any answer: if the page's origin is allowed, each reply then contains it. */
void api_origin_begin(struct api_request *request);
/* Whether the request comes from a page of an origin that is not allowed. */
bool api_origin_is_foreign(const struct api_request *request);
/* Returns true if the request was a browser's preflight for an allowed page, and was answered. */
bool api_origin_reply_preflight(struct api_request *request);

/* ---- waiting and answering ---- */

/* For an endpoint whose op is held: `then` runs when the holds have ended. Returns OP_WAIT. */
enum op_result api_wait(struct api_request *request, api_step *then);
/* Like api_wait, for a wait that may be long: the key is checked again afterwards. If the key was
 * revoked or has expired by then, the answer is 401 instead of the result. `then` does not run, so
 * the endpoint must not hold anything that has to be released. */
enum op_result api_wait_keyed(struct api_request *request, api_step *then);
/* Runs another endpoint with these arguments as its body and as its query parameters. The
 * envelope converts its reply to the answer. Both must outlive the request. */
enum op_result api_delegate(struct api_request *request, const struct api_endpoint *endpoint,
                            const struct json *arguments, const struct api_envelope *envelope);
/* An on_gone for requests that continue without their client, so that their change is made and
 * recorded. */
void api_continue(struct api_request *request);

/* Returns a quoted hash of the body, for a reply that differs by account. */
slice api_etag_of(struct api_request *request, slice body);
/* Whether If-None-Match contains this ETag. */
bool api_has_etag(struct api_request *request, slice etag);
/* Adds the ETag to the reply. Returns true if the client already has this version and was
 * answered with 304. */
bool api_reply_not_modified(struct api_request *request, slice etag);
/* Answers with application/json. Returns OP_DONE, so that `return api_reply(...)` ends an
 * endpoint. */
enum op_result api_reply(struct api_request *request, unsigned status, slice json_text);
/* Like api_reply, for a text in the memory of another op. If the text is large, that op lives until
 * the client has read it. */
enum op_result api_reply_from(struct api_request *request, unsigned status, slice json_text,
                              struct op *owner);
/* Like api_reply, for a text in several parts and a reply without an envelope; the array must live
 * as long as request. */
enum op_result api_reply_parts(struct api_request *request, unsigned status, const slice *parts,
                               size_t count, struct op *owner);
/* Begins the JSON of a reply, an open object. One of the next two functions closes it and answers,
 * with 500 if it is longer than bytes_max. There must be no wait in between. */
struct json_writer *api_reply_open(struct api_request *request, size_t bytes_max);
enum op_result api_reply_close(struct api_request *request, unsigned status);
/* Answers with 200 and an ETag that is a hash of the text, or with 304. */
enum op_result api_reply_close_tagged(struct api_request *request);
/* Answers with 401; the text is the same whatever is wrong with the key. */
#define API_KEY_REFUSED_TEXT "Missing or invalid API key"
enum op_result api_reply_key_refused(struct api_request *request);
/* {"error": text} */
enum op_result api_reply_error(struct api_request *request, unsigned status, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* Makes a sentence in the op's arena, or returns a constant sentence if out of memory; never
 * returns SLICE_NONE. */
slice api_sentence(struct api_request *request, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Answers with 503 and Retry-After, for a temporary condition; the text says to try again. */
enum op_result api_reply_later(struct api_request *request, slice text);
/* Answers 503: the user is being erased, until about erase_at. */
enum op_result api_reply_user_erased(struct api_request *request, int64_t erase_at);
enum op_result api_reply_no_memory(struct api_request *request);
/* Answers a failed query with 503 and Retry-After, or with 500 and the cause in the log. */
enum op_result api_reply_database(struct api_request *request, int status);
/* Answers a failed query for one row: 404 with this text if there is none, else like
 * api_reply_database. */
enum op_result api_reply_no_row(struct api_request *request, int status, const char *none);
/* Adds the headers that both execution endpoints set for an outcome. If the outcome is a guard
 * error, answers and returns true. */
bool api_reply_guard(struct api_request *request, const struct exec_outcome *outcome);
/* Returns the fault of an idempotency key (400); SLICE_NONE if it has none. */
slice api_key_fault(slice key) MUST_CHECK;
/* Sets *key to the key of the header, without quotes, or to SLICE_NONE. Returns the key's fault
 * (400), or SLICE_NONE. */
slice api_key_header(struct api_request *request, slice *key) MUST_CHECK;
/* Like api_key_header, for a body that may contain a key, too. On entry *key is that of the member,
 * or SLICE_NONE; on return it is the key that was given in either place. The header of a request
 * from another endpoint (mcp) does not count. */
slice api_key_join(struct api_request *request, slice *key) MUST_CHECK;
/* trace.c. The trace that the request is part of, by its headers, or a new one with random ids;
 * call it only once. It is in the op's arena; NULL if there is none. */
const struct trace_context *api_trace(struct api_request *request);
/* api_trace_batch does the same for a batch, whose span is the parent of its executions;
 * api_trace_batch_end ends that span. */
const struct trace_context *api_trace_batch(struct api_request *request);
void api_trace_batch_end(const struct api_request *request, const struct trace_context *trace,
                         size_t count);
/* The member names of an execution, alone and in a batch. */
extern const struct api_names api_execution_members, api_execution_query;
/* Reads the body of POST /api/executions, or an item of a batch, with these names. Returns
 * SLICE_NONE if wanted was filled in, with texts of the request's memory; else the fault (400). */
slice api_execution_read(struct api_request *request, const struct api_names *names,
                         const struct json *body, struct exec_request *wanted) MUST_CHECK;
/* api_start_read reads the body of POST /api/flows/start from request->body; api_start then starts
 * the flow. api_start_read returns false if the body is invalid; the request was then answered. */
extern const struct api_names api_start_members;
bool api_start_read(struct api_request *request, struct flow_request *in) MUST_CHECK;
enum op_result api_start(struct api_request *request, const struct flow_request *in);
/* Waits for the execution in request->state, which decides whether it continues without its client.
 * `then` is api_execution_reply, which answers as POST /api/executions, or a step that ends by
 * calling it. */
enum op_result api_execution_wait(struct api_request *request, api_step *then);
api_step api_execution_reply;
/* Reads the connection in a member of the body. *id is 0 if none was given, and
 * EXEC_CONNECTION_NONE for an id that no connection can have, which the execution reports after its
 * earlier checks. Returns a sentence for 400 if it is invalid, otherwise SLICE_NONE. */
slice api_connection_read(struct api_request *request, const struct json *body, const char *name,
                          int64_t *id) MUST_CHECK;
/* Answers with the summary envelope for the outcome's reason. */
enum op_result api_reply_outcome(struct api_request *request, const struct exec_outcome *outcome);

/* ---- query.c. A name that is read is in the endpoint's table (asserted) ---- */

/* Returns the sentence for the first misspelt name, or name of a user (names.h), with the right one
 * (400); SLICE_NONE if there is none. */
slice api_query_fault(struct api_request *request) MUST_CHECK;
/* Like api_query_fault, for a body or an object inside it. names: NULL if it has no members. */
slice api_members_fault(struct api_request *request, const struct api_names *names,
                        const struct json *body) MUST_CHECK;
/* Returns the sentence for the first member outside of the arguments that is an argument by their
 * schema (400): if it were ignored, the call would run without it. The arguments are in the member
 * that the names call wrapper, else in `input`. */
slice api_misplaced_fault(struct api_request *request, const struct api_names *names,
                          const struct json *body, const struct json *input_schema) MUST_CHECK;
/* These read a number of any length, clamped to max; default_value if it is absent. The first
 * accepts 0 or more, the second 1 or more, the third any whole number, which it raises to at least
 * 1. They return false if the request was answered with 400. */
bool api_query_count(struct api_request *request, const char *name, uint64_t default_value,
                     uint64_t max, uint64_t *value) MUST_CHECK;
bool api_query_positive(struct api_request *request, const char *name, uint64_t default_value,
                        uint64_t max, uint64_t *value) MUST_CHECK;
bool api_query_clamped(struct api_request *request, const char *name, uint64_t default_value,
                       uint64_t max, uint64_t *value) MUST_CHECK;
/* Reads a value as slice_to_bool does; *value is false if it is absent. Returns false if the
 * request was answered with 400. */
bool api_query_bool(struct api_request *request, const char *name, bool *value) MUST_CHECK;
/* Returns SLICE_NONE if the parameter is absent or empty. */
slice api_query_text(struct api_request *request, const char *name);

#endif
