/*
 * The catalog: an immutable snapshot of the integrations and their actions, read from manifests
 * (contrib/integrations/README.md describes the format). A manifest is checked completely when it
 * is loaded; built-in manifests are checked when sluice is built. The result is a pack (pack.h):
 * texts, rendered replies of the discovery endpoints, and the search index. An integration or
 * action is compiled (schemas, expressions) from its text in the pack when it is first looked up,
 * which takes some ten microseconds and can fail only for lack of memory.
 *
 * Ownership: a snapshot is reference-counted. Code that works with an action across turns holds a
 * reference; a reload makes a new snapshot next to the old one and swaps them (server/reload.c).
 * Only one thread at a time may use a snapshot, since a lookup compiles.
 */
#ifndef CATALOG_CATALOG_H
#define CATALOG_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "expr/expr.h"
#include "json/json.h"
#include "schema/schema.h"

enum {
    CATALOG_TOOL_NAME_MAX = 64, /* the limit of model vendors for the name of a tool */
    CATALOG_MANIFEST_BYTES_MAX = 16 * 1024 * 1024,
    CATALOG_ACTIONS_MAX = 5000, /* an integration */
    CATALOG_INTEGRATIONS_MAX = 1000,
    CATALOG_PAIRS_MAX = 256, /* query parameters, headers or form fields of a request */
    CATALOG_RULES_MAX = 64,
    CATALOG_PAGES_DEFAULT = 10,
    CATALOG_PAGES_MAX = 100,
    CATALOG_PAGE_INPUTS_MAX = 8,      /* inputs that request a page */
    CATALOG_AUTHS_MAX = 4,            /* ways to connect an app */
    CATALOG_INSTEAD_MAX = 8,          /* alternatives of one request */
    CATALOG_REQUIRED_MAX = 16,        /* members that the action's own reply always has */
    CATALOG_REQUESTS_MAX = 3,         /* per action, in order */
    CATALOG_EACH_MAX = 100,           /* items of a list that one run reads */
    CATALOG_HOSTS_MAX = 8,            /* hosts that a URL from a reply may name */
    CATALOG_SHOWS_MAX = 3,            /* ids of one action that are shown in words */
    CATALOG_DEADLINE_MS_MAX = 600000, /* per action */
    CATALOG_PROBLEMS_MAX = 200,       /* per report; further problems are only counted */
};

enum catalog_level { LEVEL_READ, LEVEL_WRITE, LEVEL_DELETE, LEVEL_ADMIN };

enum catalog_auth_kind {
    AUTH_NONE,
    AUTH_OAUTH2,
    AUTH_OAUTH2_CLIENT_CREDENTIALS,
    AUTH_API_KEY,
    AUTH_BEARER,
    AUTH_BASIC,
};

/* A name and a template: a query parameter, a header, or a form field. */
struct catalog_pair {
    slice name;
    const struct expr_template *value;
};

struct catalog_pairs {
    struct catalog_pair *items;
    size_t count;
};

/* One member of a credential that a person types. */
struct catalog_field {
    slice name, label;
    slice help, placeholder,
        docs_url; /* help for the person, an example, and where to find the value; may be empty */
    bool is_secret, may_be_empty;
};

enum { CATALOG_FIELDS_MAX = 2 };

struct catalog_auth {
    enum catalog_auth_kind kind;
    slice name; /* shown to people if there are several ways; else empty */
    slice authorize_url, token_url, scope_separator;
    const struct json *scopes; /* array of strings, or NULL */
    /* object: scope -> its purpose; requested if a person selects it. NULL: none */
    const struct json *optional_scopes;
    const struct json *authorize_params; /* object of strings, or NULL */
    /* object: authorize parameter -> "email", "subject" or "label" of the wanted user; NULL:
     * none */
    const struct json *login_hint;
    bool token_by_basic, token_as_json, uses_pkce;
    /* Evaluated over a refusal by the token endpoint; true if the grant has ended. NULL without
     * OAuth. */
    const struct expr *gone;
    /* Where the credential is sent. value is NULL if it is not sent (AUTH_NONE), or for AUTH_BASIC,
     * which has its own header. In the path the value is between base_url and the action's path,
     * and has no name. */
    enum { SEND_IN_HEADER, SEND_IN_QUERY, SEND_IN_PATH } send_in;
    slice send_name;
    const struct expr_template *send_value;
    /* A harmless request that verifies a credential; the path is empty if there is none. */
    slice test_method, test_path;
    const struct json *test_query;
    const struct expr *test_label;
    /* the form's fields; for OAuth there are none */
    struct catalog_field fields[CATALOG_FIELDS_MAX];
    size_t field_count;
};

/* A reply that means "too fast"; retry_after may be NULL. */
struct catalog_rate_rule {
    const struct expr *when, *retry_after;
};

struct catalog_limits {
    /* calls are counted separately for each action of a connection; false: they are counted
     * together */
    bool is_per_action;
    double rate_per_s; /* 0: unknown */
    unsigned burst, in_flight_max;
    unsigned connect_timeout_ms, first_byte_timeout_ms, total_timeout_ms; /* 0: server's default */
    size_t response_bytes_max;                                            /* 0: server's default */
    /* the wait after a rate-limit reply that does not say how long to wait; 0: unknown */
    unsigned retry_after_s;
    struct catalog_rate_rule *rate_rules;
    size_t rate_rule_count;
    /* the quota that every reply reports; both are set or neither */
    const struct expr *quota_remaining, *quota_reset;
};

/* What a matching rule says about the effect of a write. IN_PROGRESS: an earlier request with
 * the same provider key is still being executed. */
enum catalog_rule_outcome {
    RULE_SAYS_NOTHING,
    RULE_NOT_DONE,
    RULE_PARTLY,
    RULE_UNKNOWN,
    RULE_IN_PROGRESS,
};

/* Maps a reply to an error: the first rule whose `when` is true applies. */
struct catalog_error_rule {
    uint32_t source_index; /* index in the manifest's array */
    bool is_of_part;       /* the rule is from a part, which the text at source_index names */
    const struct expr *when;
    bool on_success;
    bool missing_scopes; /* the grant does not have the scopes, so connecting the app again helps */
    enum catalog_rule_outcome outcome;
    slice error_code;                           /* empty: the status decides */
    const struct expr_template *message, *hint; /* NULL: sluice's own text */
};

struct catalog_error_rules {
    struct catalog_error_rule *items;
    size_t count;
};

/* The form of arrays and objects in a query or a form. An array is a repeated name (objects are
 * refused), name[]=, or name[0]=; in these last two forms an object is name[key]=. With
 * NESTING_DEEP an array repeats the name, and an object is name[key]=. */
enum catalog_nesting { NESTING_REPEAT, NESTING_BRACKETS, NESTING_INDICES, NESTING_DEEP };

enum catalog_body_kind { BODY_NONE, BODY_JSON, BODY_FORM, BODY_MULTIPART, BODY_RAW };

struct catalog_request {
    slice method;
    const struct expr_template *base_url; /* NULL: the integration's */
    bool is_host_given; /* base_url's host is, or contains, a value of the connection */
    const struct expr_template *path;
    /* From an earlier reply, instead of base_url and path: an absolute URL, or a path on the
     * origin of the previous request. Its host is that origin's or one of `hosts` (array of
     * strings or NULL). */
    const struct expr_template *url;
    const struct json *hosts;
    bool is_bare; /* sent without the credential and the integration's headers */
    struct catalog_pairs query, headers;
    enum catalog_nesting nesting; /* in query and form */
    enum catalog_body_kind body_kind;
    const struct expr_template *body; /* BODY_JSON, BODY_RAW */
    struct catalog_pairs fields;      /* BODY_FORM, BODY_MULTIPART */
    slice content_type; /* for BODY_RAW; for BODY_JSON if it is not application/json */
    bool raw_is_base64;
    bool takes_others; /* inputs that are not in input_schema become members of the body */
    /* Of the first of two requests, over the input: whether it is sent; NULL: always */
    const struct expr *when;
    /* Alternatives: the first one whose `when` is true is sent instead. */
    struct catalog_request_case *instead;
    size_t instead_count;
};

struct catalog_request_case {
    const struct expr *when;
    struct catalog_request request; /* complete; has no `instead` */
};

enum catalog_reply_body {
    REPLY_JSON,
    REPLY_TEXT,
    REPLY_BYTES,
    REPLY_NONE,
    REPLY_ANY,
};

enum catalog_reply_kind { REPLY_KIND_ANY, REPLY_KIND_OBJECT, REPLY_KIND_ARRAY };

/* How to recognize the action's own 2xx reply. */
struct catalog_reply {
    enum catalog_reply_body body;
    enum catalog_reply_kind kind; /* kind of the JSON value */
    bool is_kind_known;           /* set in the manifest, or derived */
    /* members that the reply always has: expressions, and their texts for messages */
    const struct expr **required;
    slice *required_texts;
    size_t required_count;
};

/* An input that requests the next page, and its value from a reply: null if there is no next
 * page. */
struct catalog_page_input {
    slice input;
    const struct expr *next;
};

struct catalog_pages {
    struct catalog_page_input *items;
    size_t count; /* 0: no paging */
    unsigned max; /* maximum of pages that one execution reads; 0: CATALOG_PAGES_DEFAULT */
};

struct catalog_files {
    enum { FILES_NONE, FILES_MULTIPART, FILES_RAW, FILES_BASE64 } travel;
    slice field;
    unsigned count_max;
    size_t bytes_max;
    unsigned at; /* index of the request that sends the files; 0 is the first request */
};

/* A request after the action's first: its templates see the earlier replies. */
struct catalog_then {
    struct catalog_request request;
    const struct json *source; /* the request's JSON, for a dry run */
    struct catalog_reply reply;
    /* The beginning and the end of a sentence: what earlier requests have done, and what this
     * request would have done. NULL if earlier requests only read, so that nothing lasting was
     * done. */
    const struct expr_template *done, *not_done;
    /* the manifest has `done` (texts or false), which is required for a write */
    bool is_done_said;
    bool is_idempotent; /* the request may be repeated automatically after a lost reply */
};

/* What an id in a write's input means, in words for the person who is asked to confirm: the text is
 * made from the output of a read of the same app, or from the input alone. */
struct catalog_show {
    slice member;               /* path in the input: names joined by dots; no value: no text */
    const struct expr *when;    /* over the input: whether there is a text; NULL: always */
    slice action_id;            /* the read; empty: none */
    struct catalog_pairs input; /* the read's input */
    const struct expr_template *text;
    /* what is not shown, but has to be the same when an approved call is made; NULL: nothing */
    const struct expr_template *version;
};

/* A list whose items are read in addition, each by another read of the app. */
struct catalog_each {
    const struct expr *when;    /* over the input: whether the items are read; NULL: always */
    slice items;                /* the member of the output that is the list */
    slice action_id;            /* the action that reads one item */
    struct catalog_pairs input; /* its input, over `item` and `input`; null is left out */
    const struct expr *output;  /* over its output: the members to add; NULL: all */
    unsigned max;               /* the maximum number of items that one run reads */
};

/* The user of a connection: read from the reply to `request`, to the test request, or from the
 * claims of the ID token that came with the access token. */
struct catalog_identity {
    enum { IDENTITY_NONE, IDENTITY_REQUEST, IDENTITY_TEST, IDENTITY_ID_TOKEN } from;
    struct catalog_request request;
    const struct expr *email, *subject,
        *label;                /* each may be NULL, but not both email and subject */
    const struct expr *output; /* an object of all three */
    const struct json
        /* scopes requested in addition, which do not count as missing for an action; NULL: none */
        *scopes;
};

struct catalog_integration;

/* The first part, the head, is set for all actions of a list or a search. The rest is set once
 * catalog_find_action or catalog_find_tool has looked the action up. */
struct catalog_action {
    const struct catalog_integration *integration;
    slice action_id, tool_name, title, description;
    enum catalog_level level;
    bool requires_confirmation;
    bool has_recipients;          /* `recipients` below is not empty */
    bool is_open;                 /* all members are set, not only those of the head */
    slice item_json, detail_json; /* rendered once: the item and the detail of the discovery
                                   * endpoints */
    slice scope_words;            /* the scopes below, separated by spaces */
    slice undo;   /* "never", or the action of the app that undoes it; empty: unknown */
    slice source; /* the action's JSON in the pack */

    slice docs_url; /* empty: none */
    /* when and against what the action was proven; empty if it was not proven */
    slice met_date, met_source, checked;
    /* the action's index in the manifest's `actions`, while the manifest is loaded */
    uint32_t source_index;
    bool is_idempotent; /* repeating it has the same effect as doing it once */
    /* Where the provider's own idempotency key is sent. Both are empty if the action does not
     * support one. The member is in the JSON body, with dots for nesting: "variables.input.id". */
    slice idempotency_header, idempotency_member;
    struct catalog_pairs recipients; /* the recipients of a call (recipient.h) */
    struct catalog_pairs targets;    /* where a call writes (target.h) */
    struct catalog_show *shows;      /* what ids in the input mean */
    unsigned show_count;             /* at most CATALOG_SHOWS_MAX */
    slice gone; /* why the provider removed the operation; empty if it still exists */
    const struct json *scopes, *tags, *examples, *preconditions; /* arrays or NULL */
    const struct json *input_schema, *output_schema;             /* output_schema may be NULL */
    bool may_hide_inputs; /* false: input_schema marks nothing `writeOnly` */
    const struct schema *schema;
    unsigned deadline_ms; /* 0: the server's default */
    /* The 4xx statuses that prove that nothing was done, an array of integers; NULL: the
     * integration's statuses apply */
    const struct json *not_done_statuses;
    struct catalog_request request;
    struct catalog_error_rules errors;
    struct catalog_files files;
    struct catalog_reply reply;
    struct catalog_then *then;       /* the requests after the first */
    unsigned then_count;             /* below CATALOG_REQUESTS_MAX */
    const struct catalog_each *each; /* NULL: the list is returned as it is */
    const struct expr *output;       /* computed from the last reply; NULL: the whole body */
    const struct expr *view; /* computed from the output: what a model needs of it; NULL: all */
    struct catalog_pages pages;
    const struct expr_template *display_title, *display_summary;
};

/* The head is always set, including auth.kind; the rest is set once the integration was looked
 * up. */
struct catalog_integration {
    struct catalog *catalog;
    slice integration_id, name, description, category, docs_url;
    /* an SVG path of strokes on a grid of 16; empty if there is none */
    slice icon;
    slice capabilities_json;        /* array of action ids */
    struct catalog_action *actions; /* sorted by action_id; NULL until one is needed */
    size_t action_count;
    size_t position;     /* index in the catalog's integrations */
    size_t action_first; /* position of the first action in the pack */
    size_t search_first; /* position in the search index; the actions follow */
    slice source;        /* the integration's JSON without `actions`, in the pack */
    bool is_open;

    const struct json *document; /* the parsed manifest, while it is being loaded */
    const struct json *tags;
    const struct expr_template *base_url;
    bool is_host_given; /* base_url's host is, or contains, a value of the connection */
    struct catalog_pairs headers;
    const struct json *connection_params; /* JSON Schema or NULL */
    const struct schema *connection_schema;
    struct catalog_auth auth;   /* the first of the following choices */
    struct catalog_auth *auths; /* ways to connect, each of a different kind */
    size_t auth_count;
    struct catalog_identity identity;
    const struct json *scope_words; /* object: scope -> what it allows, for people; or NULL */
    bool follows_redirects;         /* follows redirects within an origin */
    struct catalog_limits limits;
    struct catalog_error_rules errors;
    /* as in struct catalog_action; NULL: the default statuses (call/effect.h) */
    const struct json *not_done_statuses;
};

struct pack_header;

struct catalog {
    struct arena arena; /* holds the integrations and actions looked up so far */
    unsigned refs;
    uint64_t serial; /* no other snapshot of this process has or had it */
    const struct pack_header *pack;
    char *owned;                               /* the pack, or NULL */
    struct catalog_integration **integrations; /* sorted by integration_id */
    size_t integration_count, action_count;
    struct search_index *search; /* search.h */
    const char *etag;            /* quoted hash of all manifests */
};

/* A manifest's text and the name to show in errors. */
struct catalog_source {
    slice name, text;
};

/* A fault of a manifest: file, JSON Pointer, and what to do. */
struct catalog_problem {
    slice source, pointer, text;
    bool is_warning;
};

struct catalog_report {
    struct arena arena;
    struct catalog_problem problems[CATALOG_PROBLEMS_MAX];
    size_t count; /* stored */
    size_t error_count, warning_count;
};

/* Checks and packs all sources. Returns NULL if the report has an error, which includes a lack of
 * memory. A later source replaces an earlier integration with the same id. Texts are copied. */
struct catalog *catalog_load(const struct catalog_source *sources, size_t count,
                             struct catalog_report *report) MUST_CHECK;
/* Loads the built-in manifests, then every *.json of `dir` (NULL for none), sorted by name. */
struct catalog *catalog_load_all(const char *dir, struct catalog_report *report) MUST_CHECK;
/* Reads one file into the arena; its path is used as its name. Returns false if that failed; the
 * report has the reason. */
bool catalog_read_file(slice path, struct arena *arena, size_t bytes_max,
                       struct catalog_source *out, struct catalog_report *report) MUST_CHECK;
/* Reads the *.json files of a folder into items, sorted by name; returns their number. Names and
 * texts are in the arena. Files that cannot be read, are over bytes_max or exceed `room` are
 * reported. */
size_t catalog_read_folder(const char *dir, struct arena *arena, size_t bytes_max,
                           struct catalog_source *items, size_t room,
                           struct catalog_report *report);
struct catalog *catalog_ref(struct catalog *catalog);
void catalog_unref(struct catalog *catalog);

void catalog_report_init(struct catalog_report *report);
void catalog_report_deinit(struct catalog_report *report);
/* Allocated on the heap, as it is too large for a stack. Returns NULL with ERR_NOMEM in err (which
 * may be NULL) if out of memory. */
struct catalog_report *catalog_report_new(struct err *err) MUST_CHECK;
void catalog_report_free(struct catalog_report *report);
void catalog_report_add(struct catalog_report *report, bool is_warning, slice source, slice pointer,
                        const char *fmt, ...) PRINTF_LIKE(5, 6);

/* Returns NULL if the id is unknown, or if out of memory. Sets *status (may be NULL) to OK,
 * ERR_NOTFOUND or ERR_NOMEM. */
const struct catalog_integration *catalog_find_integration(const struct catalog *catalog, slice id,
                                                           int *status);
/* action is the action id or the full tool name. Returns NULL in the same cases as
 * catalog_find_integration. */
const struct catalog_action *catalog_find_action(const struct catalog_integration *integration,
                                                 slice action, int *status);
/* Ensures that all integrations have `actions`, for lists, without compiling any action. Returns OK
 * or ERR_NOMEM. */
int catalog_open_heads(const struct catalog *catalog) MUST_CHECK;
/* Like catalog_find_action, but does not compile the action: only the members for lists are set.
 * After catalog_open_heads, NULL means that the action is unknown. */
const struct catalog_action *catalog_find_head(const struct catalog_integration *integration,
                                               slice action);
/* Returns the action id without the integration's prefix: "send_message" for "gmail" and
 * "gmail_send_message". Without such a prefix, returns the whole text. */
slice catalog_short_id(slice integration_id, slice action);
/* Finds an action by its full tool name, with the longest registered integration prefix
 * (src/api/README.md "Tool endpoint"). */
const struct catalog_action *catalog_find_tool(const struct catalog *catalog, slice tool_name);

/* ---- unknown.c: for unknown ids ---- */

/* Returns the id that was probably meant, borrowed from the catalog; SLICE_NONE if none is
 * similar. */
slice catalog_nearest_integration(const struct catalog *catalog, slice id);
/* Like catalog_nearest_integration, for an action: `action` is an action id or a full tool name;
 * the result is an action id. unlisted has an entry for each action (catalog_doc), whether it must
 * not be named; NULL: all may be named. */
slice catalog_nearest_action(const struct catalog_integration *integration, slice action,
                             const bool *unlisted);
slice catalog_nearest_tool(const struct catalog *catalog, slice tool_name, const bool *unlisted);
/* Returns a sentence for the caller, in the arena: `There is no integration "Gmail"; did you mean
 * "gmail"?`. SLICE_NONE if out of memory. */
slice catalog_say_no_integration(const struct catalog *catalog, slice id, struct arena *arena);
slice catalog_say_no_action(const struct catalog_integration *integration, slice action,
                            const bool *unlisted, struct arena *arena);
slice catalog_say_no_tool(const struct catalog *catalog, slice tool_name, const bool *unlisted,
                          struct arena *arena);

/* Returns the number of the catalog's documents in the search index, an entry of `unlisted` for
 * each: every integration, followed by its actions. */
static inline size_t catalog_doc_count(const struct catalog *catalog)
{
    return catalog->integration_count + catalog->action_count;
}

/* Returns the action's index among all actions of its catalog. */
static inline size_t catalog_position(const struct catalog_action *action)
{
    return action->integration->action_first + (size_t)(action - action->integration->actions);
}

/* Returns the number of an action's document. The action is one of its integration's `actions`, as
 * all that a lookup or a search returns. */
static inline size_t catalog_doc(const struct catalog_action *action)
{
    return catalog_position(action) + action->integration->position + 1;
}

/* These return the definition of the action's request `at` (0 is the first), and of its reply. */
static inline const struct catalog_request *catalog_request_at(const struct catalog_action *action,
                                                               unsigned at)
{
    ASSERT(at <= action->then_count);
    return at == 0 ? &action->request : &action->then[at - 1].request;
}

static inline const struct catalog_reply *catalog_reply_at(const struct catalog_action *action,
                                                           unsigned at)
{
    ASSERT(at <= action->then_count);
    return at == 0 ? &action->reply : &action->then[at - 1].reply;
}

/* Whether the provider supports an idempotency key, with which the action may be sent again. */
static inline bool catalog_has_provider_key(const struct catalog_action *action)
{
    return action->idempotency_header.len > 0 || action->idempotency_member.len > 0;
}

/* Whether the request may have a lasting effect. If not, it may be sent again. */
static inline bool catalog_request_acts(const struct catalog_action *action, unsigned at)
{
    ASSERT(at <= action->then_count); /* the next request describes what this one did */
    bool only_asks = at < action->then_count && !action->then[at].done;
    return action->level != LEVEL_READ && !only_asks;
}

const char *catalog_level_name(enum catalog_level level);
const char *catalog_auth_name(enum catalog_auth_kind kind);
/* Returns the way to connect that matches a connection's auth_kind, or the first way if the
 * connection has no auth_kind. The integration must have been looked up. */
const struct catalog_auth *catalog_auth_of(const struct catalog_integration *integration,
                                           slice kind);
/* Returns NULL if the app cannot be connected in this way. */
const struct catalog_auth *catalog_auth_by(const struct catalog_integration *integration,
                                           enum catalog_auth_kind kind);

/* Whether this refusal by the token endpoint means that the grant has ended, so that a person has
 * to reconnect the app. */
bool catalog_grant_is_gone(const struct catalog_auth *auth, unsigned status,
                           const struct json *body, struct arena *arena);

/* Returns what a requested scope allows, for people; SLICE_NONE if the manifest does not say it. */
slice catalog_scope_words(const struct catalog_integration *integration, slice scope);

/* The members of a stored credential, by type of auth. */
struct catalog_credential {
    const char *advice;              /* advice on which of the members `send` should use */
    const char *required, *optional; /* its members, separated by blanks */
    const char *form;                /* the members in words: "username and password" */
};
const struct catalog_credential *catalog_credential_of(enum catalog_auth_kind kind);
/* Whether a credential of that type may have the member. */
bool catalog_credential_has(enum catalog_auth_kind kind, slice member);

/* Returns a text of a line or two: the description if it is short, else its first sentences. The
 * text is a part of the description, not a copy. */
slice catalog_summary(slice description);
/* Returns how the action was proven, as a sentence for people, in the arena. */
slice catalog_proof(const struct catalog_action *action, struct arena *arena);

#endif
